"""Look-up tables of wordings, the `Lexicon` protocol with its `Equivalent` records, and reading of bundled files.

`Wordings` holds many strings in two arrays, in a third of the memory of Python strings.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from phrasemate.errors import ModelDamaged, ModelUnsupported
from phrasemate.lexicon.inflection import (
    beginnings,
    leading,
    stemmed,
    stemmed_all,
    without_function_words,
    without_proclitics,
)
from phrasemate.lexicon.spelling import accented_letters, may_lack_accents, readings, spellings, without_accents
from phrasemate.text import words
from phrasemate.text.languages import primary
from phrasemate.text.normalize import CUT, folded


class Equivalent(NamedTuple):
    """A translation that a dictionary gives for a wording.

    ``text`` is the translation as the dictionary spells it, ``language`` its language ("" if unknown). ``weight``
    (above 0, at most 1) is the probability of the translation given the wording; dictionaries without probabilities
    derive it from the order. ``source`` names the dictionary. ``exact``: the dictionary lists the wording itself, not
    only other forms of its words.

    >>> Equivalent("house", 1.0, "my dictionary", "en").text
    'house'
    """

    text: str
    weight: float
    source: str
    language: str = ""
    exact: bool = True


def open_bundled(path: Path, expected: str) -> tuple[Any, dict[str, str]]:
    """Open a safetensors file of the package; returns the open file and its metadata.

    ``expected``: its format, such as "phrasemate lexicon 3". Raises ModelDamaged for a file that cannot be read,
    ModelUnsupported for one of another format.
    """
    try:
        file = cast(Any, safe_open(path, "numpy"))
        facts = file.metadata() or {}
    except (OSError, SafetensorError) as error:
        raise damage_error(path, expected, error) from None
    if facts.get("format") != expected:
        raise ModelUnsupported(f"{path}: format {facts.get('format')!r}; expected {expected!r}")
    return file, facts


def damage_error(path: Path, expected: str, why: Exception) -> ModelDamaged:
    """Make the error for a file of the package that cannot be read; its format names what it holds."""
    return ModelDamaged(f"{path}: no {expected.split()[1]} can be read ({why}); install phrasemate again")


class Lexicon(Protocol):
    """Anything that gives equivalents of wordings.

    >>> from phrasemate.lexicon import bundled_lexicon
    >>> lexicon: Lexicon = bundled_lexicon()
    >>> lexicon.equivalents("Haus", "de", "en")[0].text
    'house'
    """

    name: str

    def equivalents(self, wording: str, lang: str = "", target: str = "") -> list[Equivalent]:
        """Return the equivalents of a wording, best first; an empty list if it is not listed.

        Args:
            wording: Word or phrase to look up.
            lang: Language of the wording; "" for any.
            target: Language of the equivalents; "" for any.
        """


def in_readings(wording: str, lang: str, look_up: Callable[[str], Sequence[Equivalent]]) -> list[Equivalent]:
    """Look a wording up in each of its `readings`; return the first equivalents of a reading that is listed itself.

    If no reading is listed itself, the first equivalents that were found are returned, or an empty list.
    """
    first: Sequence[Equivalent] = ()
    for reading in readings(wording, primary(lang)):
        equivalents = look_up(reading)
        if equivalents and equivalents[0].exact:
            return list(equivalents)
        first = first or equivalents
    return list(first)


UNSPACED = frozenset({"ja", "zh"})  # languages without spaces between words
_BEGINNING = 6  # first characters, at most, that wordings with the same stem must share
_COMPARED = 5000  # wordings with the same beginning that are compared by stems, at most
_FEW = 50  # wordings with the same beginning that are compared one by one, at most
_BYTES = 8  # first bytes of a wording that are searched as a number
_LEADING = np.array(
    [(1 << 64) - (1 << 8 * (_BYTES - count)) for count in range(_BYTES + 1)], np.uint64
)  # masks of the first 0, 1, ..., _BYTES bytes


def encoded(text: str) -> bytes:
    """Encode as UTF-8, including lone surrogates, which a query may contain."""
    return text.encode("utf-8", "surrogatepass")


class Wordings:
    """A list of wordings, stored as UTF-8 in one array. Binary search requires them to be sorted by their bytes.

    ``blob`` (bytes,) uint8; ``ends`` (wordings + 1,): wording i is ``blob[ends[i]:ends[i + 1]]``.
    """

    def __init__(self, blob: NDArray[np.uint8], ends: NDArray[Any]) -> None:
        self._blob, self._ends = memoryview(blob), memoryview(ends)  # type: ignore[arg-type]

    @classmethod
    def of(cls, texts: Iterable[str]) -> Wordings:
        """Store wordings in the given order."""
        parts = [encoded(text) for text in texts]
        ends = np.fromiter(accumulate(map(len, parts), initial=0), np.int64, len(parts) + 1)
        return cls(np.frombuffer(b"".join(parts), np.uint8), ends)

    @property
    def blob(self) -> NDArray[np.uint8]:
        """The concatenated bytes of all wordings, (bytes,)."""
        return np.asarray(self._blob)

    @property
    def ends(self) -> NDArray[Any]:
        """The offsets of the wordings in ``blob``, (wordings + 1,)."""
        return np.asarray(self._ends)

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, row: int) -> str:
        return self.bytes_of(row).decode("utf-8", "surrogatepass")

    def find(self, text: str) -> int:
        """Return the row of a wording, or -1."""
        wording = encoded(text)
        return self.find_encoded(wording, beginning(wording))

    def find_encoded(self, wording: bytes, number: int) -> int:
        """Return the row of a wording in UTF-8, or -1; ``number``: its `beginning`."""
        numbers = self._sorted
        low = bisect_left(numbers, number)
        if low == len(numbers) or numbers[low] != number:
            return -1
        return self._between(wording, low, bisect_right(numbers, number, low))

    def _between(self, wording: bytes, low: int, high: int) -> int:
        """Return the row of a wording, searched from row ``low`` to below ``high``, or -1."""
        while low < high:
            middle = (low + high) // 2
            candidate = self.bytes_of(middle)
            if candidate == wording:
                return middle
            low, high = (middle + 1, high) if candidate < wording else (low, middle)
        return -1

    def find_all(self, texts: Sequence[str]) -> list[int]:
        """Return the row of each wording, or -1; faster than repeated calls of `find`."""
        wordings = [encoded(text) for text in texts]
        beginnings = np.array([beginning(wording) for wording in wordings], np.uint64)
        lows, highs = (self._numbers.searchsorted(beginnings, side).tolist() for side in ("left", "right"))
        return [self._between(*place) for place in zip(wordings, lows, highs, strict=True)]

    def contains(self, texts: Sequence[bytes], beginnings: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Return (texts,) whether each wording, given in UTF-8, is listed.

        ``beginnings`` (texts,): the `beginning` of each.
        """
        if not len(self):
            return np.zeros(len(texts), np.bool_)
        is_there: NDArray[np.bool_] = (
            self._numbers.take(self._numbers.searchsorted(beginnings), mode="clip") == beginnings
        )
        for place in is_there.nonzero()[0].tolist():
            # a shorter wording is identified by its number, unless it has a zero byte
            if len(texts[place]) >= _BYTES and self.find_encoded(texts[place], int(beginnings[place])) < 0:
                is_there[place] = False
        return is_there

    @cached_property
    def _sorted(self) -> memoryview:
        return memoryview(self._numbers)  # type: ignore[arg-type]

    @cached_property
    def _numbers(self) -> NDArray[np.uint64]:
        """The `beginning` of each wording, (wordings,)."""
        ends, blob = np.asarray(self._ends, np.int64), np.asarray(self._blob)
        content = np.concatenate([blob, np.zeros(_BYTES, np.uint8)])
        numbers: NDArray[np.uint64] = np.ndarray(len(blob) + 1, ">u8", content, strides=(1,))[ends[:-1]]
        return numbers.astype(np.uint64) & _LEADING[np.minimum(np.diff(ends), _BYTES)]

    def beginning_with(self, text: str) -> range:
        """Return the rows of the wordings that begin with a text."""
        return self.beginning_with_each([text])[0]

    def beginning_with_each(self, texts: Sequence[str]) -> list[range]:
        """Return for each text the rows of the wordings that begin with it; faster than one text after the other."""
        starts = [encoded(text) for text in texts]
        firsts = np.array([beginning(start) for start in starts], np.uint64)
        lasts = np.array([beginning(start[:_BYTES].ljust(_BYTES, b"\xff")) for start in starts], np.uint64)
        lows, highs = self._numbers.searchsorted(firsts).tolist(), self._numbers.searchsorted(lasts, "right").tolist()
        ranges = []
        for start, low, high in zip(starts, lows, highs, strict=True):
            if len(start) > _BYTES and low < high:
                rows = range(high)
                low, high = (bisect_left(rows, end, low, key=self.bytes_of) for end in (start, start + b"\xff"))
            ranges.append(range(low, high))
        return ranges

    def texts(self, rows: range) -> list[str]:
        """Return the wordings of consecutive rows; faster than one by one."""
        ends = self._ends[rows.start : rows.stop + 1].tolist()
        content = self._blob[ends[0] : ends[-1]].tobytes()
        places = [slice(start - ends[0], end - ends[0]) for start, end in pairwise(ends)]
        if content.isascii():
            text = content.decode("ascii")
            return [text[place] for place in places]
        return [content[place].decode("utf-8", "surrogatepass") for place in places]

    def bytes_of(self, row: int) -> bytes:
        """Return the wording of a row as UTF-8."""
        return self._blob[self._ends[row] : self._ends[row + 1]].tobytes()


def beginning(text: bytes) -> int:
    """Convert the first `_BYTES` bytes of a wording to a number that sorts in the same order."""
    return int.from_bytes(text[:_BYTES].ljust(_BYTES, b"\0"), "big")


class Keys:
    """Folded, sorted wordings of one language.

    They are looked up as they are, without leading function words, without accents, by stems, or without proclitics.
    """

    def __init__(self, wordings: Wordings) -> None:
        self.wordings = wordings
        self._openings_of: dict[str, tuple[str, ...]] = {}

    def _openings(self, lang: str) -> tuple[str, ...]:
        """Return the prefixes of `leading` with which any of the wordings begins; the first is ""."""
        if lang not in self._openings_of:
            self._openings_of[lang] = tuple(
                opening for opening in leading(lang) if not opening or self.wordings.beginning_with(opening)
            )
        return self._openings_of[lang]

    def exact(self, wording: str, lang: str) -> list[int]:
        """Find the rows of a wording in each of its spellings, regardless of case and white space."""
        return self._spelled(folded(wording), lang)

    def stripped(self, wording: str, lang: str) -> list[int]:
        """Find the rows of a wording without its leading function words."""
        return self._spelled(without_function_words(wording, lang), lang)

    def _spelled(self, wording: str, lang: str) -> list[int]:
        rows = map(self.wordings.find, spellings(wording, primary(lang)))
        return [row for row in rows if row >= 0]

    def accented(self, wording: str, lang: str) -> list[int]:
        """Find the rows of the wordings that a wording without accents may stand for, such as "clé" for "CLE"."""
        lang, form = primary(lang), folded(wording)
        if not may_lack_accents(form, lang):
            return []
        rows, beginnings_left = [], [("", form)]
        while beginnings_left:
            start, rest = beginnings_left.pop()
            same = self.wordings.beginning_with(start)
            if rest and len(same) > _FEW:
                beginnings_left += [(start + letter, rest[size:]) for letter, size in accented_letters(rest, lang)]
            elif same:
                texts = self.wordings.texts(same[:_FEW])
                rows += [row for row, text in zip(same, texts, strict=False) if without_accents(text, lang) == form]
        return sorted(rows)

    def stemmed(self, wording: str, lang: str) -> list[int]:
        """Find the rows of the wordings with the same stems.

        Only wordings that begin like the wording or its stem are compared, so a vowel may change after the beginning.
        """
        form, bare = stemmed(wording, lang), without_function_words(wording, lang)
        length = max(2, min(len(form) - 1, _BEGINNING))
        starts = {form.removesuffix(CUT)[:length], bare[:length], *beginnings(form.split(" ")[0], lang)}
        spaces, openings = form.count(" "), leading(lang)[1:]
        texts: dict[int, str] = {}
        beginnings_of_wordings = [opening + start for start in starts for opening in self._openings(lang)]
        for rows in self.wordings.beginning_with_each(beginnings_of_wordings):
            if rows := rows[:_COMPARED]:
                texts.update(zip(rows, self.wordings.texts(rows), strict=True))
        texts = {row: text for row, text in sorted(texts.items()) if _may_become(text, spaces, openings)}
        forms = stemmed_all(texts.values(), lang, are_folded=True)
        return [row for row, candidate_form in zip(texts, forms, strict=True) if candidate_form == form]

    def without_proclitics(self, wording: str, lang: str) -> list[int]:
        """Find the rows of a wording without its proclitics, such as the Hebrew article, or without the first."""
        bases = without_proclitics(folded(wording), primary(lang))
        return next(filter(None, (self._spelled(base, lang) for base in bases)), [])


def _may_become(text: str, spaces: int, openings: tuple[str, ...]) -> bool:
    """Whether a wording may have the given number of spaces once stemmed.

    Stemming drops leading function words and words without letters or digits.
    """
    extra = text.count(" ") - spaces
    return not extra or (extra > 0 and (text.startswith(openings) or not text.replace(" ", "").isalnum()))


def words_of(wording: str, language: str) -> tuple[str, ...]:
    """Split a folded wording into words."""
    if language in UNSPACED:
        return tuple(wording[start:end] for start, end in words(wording))
    return tuple(wording.split())


def wording_of(words: Sequence[str], language: str) -> str:
    """Join words as a language writes them: without spaces in Chinese and Japanese."""
    return ("" if language in UNSPACED else " ").join(words)


Lookup = Callable[[Keys, str, str], list[int]]
LOOKUPS: tuple[Lookup, ...] = (Keys.exact, Keys.stripped, Keys.accented, Keys.stemmed, Keys.without_proclitics)
"""Look-up methods in the order in which they are tried; the first that finds a row is used."""
BY_SPELLING = LOOKUPS[:3]
"""Look-up methods that find the wording itself, not only other forms of its words."""
