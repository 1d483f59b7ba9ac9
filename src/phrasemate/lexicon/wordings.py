"""Many wordings in two arrays, a third of the memory of Python strings; the records of equivalents; `Lexicon`."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from phrasemate.lexicon.inflection import leading, stemmed, stemmed_all, without_function_words
from phrasemate.lexicon.spelling import spellings
from phrasemate.text import words
from phrasemate.text.languages import primary
from phrasemate.text.normalize import folded


class Equivalent(NamedTuple):
    """A wording that a dictionary gives for another one.

    ``text`` is the wording as the dictionary has it, ``language`` its language ("" if unknown). ``weight`` (above 0,
    at most 1) is the probability of this equivalent given the wording; where a dictionary has none, it is guessed from
    the order. ``source`` names the dictionary. ``exact``: it lists the wording that was looked up, and not
    only other forms of its words.

    >>> Equivalent("house", 1.0, "my dictionary", "en").text
    'house'
    """

    text: str
    weight: float
    source: str
    language: str = ""
    exact: bool = True


class Lexicon(Protocol):
    """Anything that knows equivalents of wordings.

    >>> from phrasemate.lexicon import bundled_lexicon
    >>> lexicon: Lexicon = bundled_lexicon()
    >>> lexicon.equivalents("Haus", "de", "en")[0].text
    'house'
    """

    name: str

    def equivalents(self, wording: str, lang: str = "", target: str = "") -> list[Equivalent]:
        """The equivalents of a wording, the best first; none if it is unknown.

        Args:
            wording: Word or phrase to look up.
            lang: Language of the wording; "" for any.
            target: Language of the equivalents; "" for any.
        """


UNSPACED = frozenset({"ja", "zh"})  # languages without spaces between words
_BEGINNING = 6  # characters that wordings with the same stem share
_COMPARED = 5000  # wordings with one beginning
_BYTES = 8  # of a wording that are searched as a number
_LEADING = np.array(
    [(1 << 64) - (1 << 8 * (_BYTES - count)) for count in range(_BYTES + 1)], np.uint64
)  # so many bytes


def encoded(text: str) -> bytes:
    """UTF-8; half a surrogate pair, which a query may hold, is encoded too."""
    return text.encode("utf-8", "surrogatepass")


class Wordings:
    """A list of wordings as UTF-8 in one array; looked up by binary search if they are sorted by their bytes.

    ``blob`` (bytes,) uint8; ``ends`` (wordings + 1,), where each begins and the last one ends.
    """

    def __init__(self, blob: NDArray[np.uint8], ends: NDArray[Any]) -> None:
        self._blob, self._ends = memoryview(blob), memoryview(ends)  # type: ignore[arg-type]

    @classmethod
    def of(cls, texts: Iterable[str]) -> Wordings:
        """The wordings in the order in which they come."""
        parts = [encoded(text) for text in texts]
        ends = np.fromiter(accumulate(map(len, parts), initial=0), np.int64, len(parts) + 1)
        return cls(np.frombuffer(b"".join(parts), np.uint8), ends)

    @property
    def blob(self) -> NDArray[np.uint8]:
        """The bytes of all wordings, one after the other."""
        return np.asarray(self._blob)

    @property
    def ends(self) -> NDArray[Any]:
        """(wordings + 1,) where each begins in ``blob`` and the last one ends."""
        return np.asarray(self._ends)

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, row: int) -> str:
        return self.bytes_of(row).decode("utf-8", "surrogatepass")

    def find(self, text: str) -> int:
        """The row of a wording, or -1."""
        wording = encoded(text)
        return self.find_encoded(wording, beginning(wording))

    def find_encoded(self, wording: bytes, number: int) -> int:
        """The row of a wording in UTF-8, or -1; ``number``: what `beginning` makes of it."""
        numbers = self._sorted
        low = bisect_left(numbers, number)
        if low == len(numbers) or numbers[low] != number:
            return -1
        return self._between(wording, low, bisect_right(numbers, number, low))

    def _between(self, wording: bytes, low: int, high: int) -> int:
        """The row of a wording among those of ``low`` to below ``high``, or -1."""
        while low < high:
            middle = (low + high) // 2
            candidate = self.bytes_of(middle)
            if candidate == wording:
                return middle
            low, high = (middle + 1, high) if candidate < wording else (low, middle)
        return -1

    def find_all(self, texts: Sequence[str]) -> list[int]:
        """The row of each of some wordings, or -1; quicker than one `find` after the other."""
        wordings = [encoded(text) for text in texts]
        beginnings = np.array([beginning(wording) for wording in wordings], np.uint64)
        lows, highs = (self._numbers.searchsorted(beginnings, side).tolist() for side in ("left", "right"))
        return [self._between(*place) for place in zip(wordings, lows, highs, strict=True)]

    def contains(self, texts: Sequence[bytes], beginnings: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """(texts,) whether each of some wordings in UTF-8 is there.

        ``beginnings`` (texts,): what `beginning` makes of them.
        """
        if not len(self):
            return np.zeros(len(texts), np.bool_)
        is_there: NDArray[np.bool_] = (
            self._numbers.take(self._numbers.searchsorted(beginnings), mode="clip") == beginnings
        )
        for place in is_there.nonzero()[0].tolist():
            # a wording of fewer bytes is its number, unless it holds a zero byte
            if len(texts[place]) >= _BYTES and self.find_encoded(texts[place], int(beginnings[place])) < 0:
                is_there[place] = False
        return is_there

    @cached_property
    def _sorted(self) -> memoryview:
        return memoryview(self._numbers)  # type: ignore[arg-type]

    @cached_property
    def _numbers(self) -> NDArray[np.uint64]:
        """(wordings,) the first `_BYTES` bytes of each wording as a number, which sorts as they do."""
        ends, blob = np.asarray(self._ends, np.int64), np.asarray(self._blob)
        content = np.concatenate([blob, np.zeros(_BYTES, np.uint8)])
        numbers: NDArray[np.uint64] = np.ndarray(len(blob) + 1, ">u8", content, strides=(1,))[ends[:-1]]
        return numbers.astype(np.uint64) & _LEADING[np.minimum(np.diff(ends), _BYTES)]

    def beginning_with(self, text: str) -> range:
        """The rows of the wordings that begin so."""
        start = encoded(text)
        low = bisect_left(self._sorted, beginning(start))
        high = bisect_right(self._sorted, beginning(start[:_BYTES].ljust(_BYTES, b"\xff")), low)
        if len(start) > _BYTES and low < high:
            rows = range(high)
            low, high = (bisect_left(rows, end, low, key=self.bytes_of) for end in (start, start + b"\xff"))
        return range(low, high)

    def texts(self, rows: range) -> list[str]:
        """The wordings of rows that follow each other; quicker than one after the other."""
        ends = self._ends[rows.start : rows.stop + 1].tolist()
        content = self._blob[ends[0] : ends[-1]].tobytes()
        places = [slice(start - ends[0], end - ends[0]) for start, end in pairwise(ends)]
        if content.isascii():
            text = content.decode("ascii")
            return [text[place] for place in places]
        return [content[place].decode("utf-8", "surrogatepass") for place in places]

    def bytes_of(self, row: int) -> bytes:
        """The wording of a row as UTF-8."""
        return self._blob[self._ends[row] : self._ends[row + 1]].tobytes()


def beginning(text: bytes) -> int:
    """The first `_BYTES` bytes of a wording as a number, which sorts as they do."""
    return int.from_bytes(text[:_BYTES].ljust(_BYTES, b"\0"), "big")


class Keys:
    """Folded, sorted wordings of one language, looked up as they are, without leading function words, or by stems."""

    def __init__(self, wordings: Wordings) -> None:
        self.wordings = wordings
        self._openings_of: dict[str, tuple[str, ...]] = {}

    def _openings(self, lang: str) -> tuple[str, ...]:
        """What is left out before a wording and some wording here begins with; first of all nothing."""
        if lang not in self._openings_of:
            self._openings_of[lang] = tuple(
                opening for opening in leading(lang) if not opening or self.wordings.beginning_with(opening)
            )
        return self._openings_of[lang]

    def exact(self, wording: str, lang: str) -> list[int]:
        """The rows of a wording in each of its spellings, without regard to case and white space."""
        return self._spelled(folded(wording), lang)

    def stripped(self, wording: str, lang: str) -> list[int]:
        """The same without its leading function words."""
        return self._spelled(without_function_words(wording, lang), lang)

    def _spelled(self, wording: str, lang: str) -> list[int]:
        rows = map(self.wordings.find, spellings(wording, primary(lang)))
        return [row for row in rows if row >= 0]

    def stemmed(self, wording: str, lang: str) -> list[int]:
        """The rows of the wordings with the same stems.

        Compared are those that begin as the wording does, or its stem; a change of vowel after that does no harm.
        """
        form, bare = stemmed(wording, lang), without_function_words(wording, lang)
        length = max(2, min(len(form) - 1, _BEGINNING))
        spaces, openings = form.count(" "), leading(lang)[1:]
        texts: dict[int, str] = {}
        for start in {form[:length], bare[:length]}:
            for opening in self._openings(lang):
                rows = self.wordings.beginning_with(opening + start)[:_COMPARED]
                texts.update(zip(rows, self.wordings.texts(rows), strict=True))
        texts = {row: text for row, text in sorted(texts.items()) if _may_become(text, spaces, openings)}
        forms = stemmed_all(texts.values(), lang, are_folded=True)
        return [row for row, candidate_form in zip(texts, forms, strict=True) if candidate_form == form]


def _may_become(text: str, spaces: int, openings: tuple[str, ...]) -> bool:
    """Whether a stemmed wording may have so many spaces: it loses words of its beginning, and those of signs alone."""
    extra = text.count(" ") - spaces
    return not extra or (extra > 0 and (text.startswith(openings) or not text.replace(" ", "").isalnum()))


def words_of(wording: str, language: str) -> tuple[str, ...]:
    """The words of a folded wording."""
    if language in UNSPACED:
        return tuple(wording[start:end] for start, end in words(wording))
    return tuple(wording.split())


Lookup = Callable[[Keys, str, str], list[int]]
LOOKUPS: tuple[Lookup, ...] = (Keys.exact, Keys.stripped, Keys.stemmed)
"""The ways to look a wording up, in the order in which they are tried: the first one that answers counts."""
