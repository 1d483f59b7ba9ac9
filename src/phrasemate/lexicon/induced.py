"""Bundled lexicon between English and other languages, induced from aligned text: one compact file, read on demand.

    en.text       (bytes,) uint8        English words, folded, sorted by their bytes, each ended by a line break
    en+.text                            English wordings of several words; their row numbers follow
    XX.text                             words of each other language
    XX.degrees    (wordings,) uint8     number of English equivalents of each wording
    XX.english    (3, pairs) uint8      bytes of their row numbers, lowest byte first; most probable equivalent first
    XX.forward    (pairs,) uint8        p(English | wording) in hundredths
    XX.backward   (pairs,) uint8        p(wording | English) in hundredths
    XX+.text, ...                       the same arrays for the wordings of several words
    XX+.units                           one bit for each of these, highest first: 1 for a unit; also en+.units

It is a safetensors file of compressed arrays: ``XX+.text``, a third of the file, by lzma, the others by zlib, which is
read faster. The arrays of a language are read when it is first looked up. `phrasemate.lexicon.pruning` selects the
pairs and explains units.
"""

from __future__ import annotations

import lzma
import os
import re
import threading
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain
from operator import attrgetter, itemgetter
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, cast

import numpy as np
from cachetools import LRUCache, cachedmethod
from numpy.typing import NDArray
from safetensors import SafetensorError

from phrasemate.errors import InputError, ModelDamaged
from phrasemate.lexicon.endings import bundled_endings
from phrasemate.lexicon.inflection import (
    ARTICLES,
    ELIDED_ARTICLES,
    ENGLISH_FUNCTION_WORDS,
    by_script,
    elision,
    function_words,
    has_stemmer,
)
from phrasemate.lexicon.locutions import general_words, locutions
from phrasemate.lexicon.spelling import has_spellings
from phrasemate.lexicon.wordings import (
    BY_SPELLING,
    LOOKUPS,
    Equivalent,
    Keys,
    Lookup,
    Wordings,
    beginning,
    encoded,
    in_readings,
    open_bundled,
    words_of,
)
from phrasemate.text import folded, words
from phrasemate.text.languages import OTHER_SCRIPTS, primary
from phrasemate.utils.arrays import Rows
from phrasemate.utils.storage import save_arrays

FORMAT = "phrasemate lexicon 3"
NAME = "lexicon"  # of the bundled one, as the source of an equivalent
LONGEST = 255  # bytes of a wording
MOST = 255  # English equivalents of a wording
_STEPS = 100  # a probability of 1, as stored
_LEAST_STEPS = 2  # least probability, in steps, of an equivalent found through English
_OF_ENGLISH = 0.7  # weight of an English word in `languages_of`; the English list has names and loans of all languages
_FEW = 6  # words of a short text, at most
_OTHER_SCRIPT = re.compile("[\u0370-\u1dff\u2e80-\ua71f\uaa80-\uab2f\uabc0-\ufaff\ufb13-\ufdff\ufe70-\ufefc]")
_BITS = 8  # in a byte
_REMEMBERED = 8_192  # forms whose English equivalents are cached: a text repeats most of its words
_EQUIVALENTS = 100_000  # cached equivalents: 20 MB
_OF_ARTICLE = 0.2  # least probability of an English article as the equivalent of an article
_BREAK = ord("\n")
SEVERAL = "+"  # suffix of the section with the wordings of several words
ENGLISH = ("en", f"en{SEVERAL}")  # sections
_TENSORS = ("degrees", "english", "forward", "backward")

Bytes = NDArray[np.uint8]


class Pair(NamedTuple):
    """A wording and an English one, both folded, their probabilities, and whether the wording is a unit.

    ``forward``: p(English | wording). ``backward``: p(wording | English).
    """

    wording: str
    english: str
    forward: float
    backward: float
    unit: bool = False


@dataclass(frozen=True)
class _Section:
    """Words of one language, or its wordings of several words, with their English equivalents.

    The cached properties are only needed for look-ups from English.
    """

    wordings: Wordings
    bounds: Rows  # (wordings + 1,): where the pairs of each wording begin
    english: Rows  # (pairs,): English rows
    forward: Bytes
    backward: Bytes

    def pairs(self, row: int) -> list[tuple[int, int]]:
        """Return the English rows of a wording, each with its forward probability in steps."""
        start, end = self.bounds[row : row + 2].tolist()
        return list(zip(self.english[start:end].tolist(), self.forward[start:end].tolist(), strict=True))

    @cached_property
    def by_english(self) -> Rows:
        """(pairs,): the pairs in the order of their English rows."""
        return np.argsort(self.english, kind="stable")

    @cached_property
    def wording_of(self) -> Rows:
        """(pairs,): row of the wording of each pair."""
        return np.repeat(np.arange(len(self.bounds) - 1), np.diff(self.bounds))


class InducedLexicon:
    """Equivalents with probabilities, from a file that `write_lexicon` wrote.

    ``name`` is the source of the equivalents. Raises ModelDamaged for a file that is missing or damaged,
    ModelUnsupported for one of another format.
    """

    def __init__(self, path: str | os.PathLike[str], name: str = NAME) -> None:
        self.name, self._path = name, Path(path)
        self._lock, self._lock_of_cache = threading.Lock(), threading.Lock()
        self._english_of: LRUCache[Any, Any] = LRUCache(_REMEMBERED)
        self._equivalents_of: LRUCache[Any, Any] = LRUCache(_EQUIVALENTS, lambda ranking: 1 + len(ranking))
        self._keys: dict[str, Keys] = {}
        self._sections: dict[str, _Section] = {}
        self._unit_bits: dict[str, Bytes] = {}
        self._file, facts = open_bundled(self._path, FORMAT)
        self._names = frozenset(self._file.keys())
        self.languages: tuple[str, ...] = tuple(facts["languages"].split())
        self._section_names = {
            language: [name for name in (language, language + SEVERAL) if f"{name}.text" in self._names]
            for language in (*self.languages, "en")
        }

    def pairs(self) -> dict[str, list[Pair]]:
        """Return all pairs by language, as `write_lexicon` takes them; written again, they give the same lexicon.

        Probabilities are those that are stored. A pair is a unit if both of its wordings are.
        """
        single = len(self._keys_of("en").wordings)
        english_units = self._units("en" + SEVERAL)
        pairs: dict[str, list[Pair]] = {}
        for language in self.languages:
            of_language = pairs.setdefault(language, [])
            for name in self._section_names[language]:
                section = self._section(name)
                units = self._units(name) if name.endswith(SEVERAL) else np.zeros(len(section.bounds) - 1, np.uint8)
                columns = (section.wording_of, section.english, section.forward / _STEPS, section.backward / _STEPS)
                for row, english, forward, backward in zip(*(column.tolist() for column in columns), strict=True):
                    unit = bool(units[row]) and (english < single or bool(english_units[english - single]))
                    of_language.append(Pair(section.wordings[row], self._english(english), forward, backward, unit))
        return pairs

    def equivalents(self, wording: str, lang: str = "", target: str = "") -> list[Equivalent]:
        """Return the equivalents of a wording, most probable first.

        ``lang`` is the language to look in; "" searches all languages, but only for the exact wording. In a given
        language, a wording that is not listed is looked up without leading function words, with accents, by its stems
        and without proclitics. Other forms of it are tried last (`Endings`). ``target`` is the language of the
        equivalents, "" for all. Two languages other than English are connected through their English equivalents.
        """
        return in_readings(wording, lang, lambda reading: self._ranked(reading, primary(lang), primary(target)))

    @cachedmethod(attrgetter("_equivalents_of"), lock=attrgetter("_lock_of_cache"))
    def _ranked(self, wording: str, lang: str, target: str) -> tuple[Equivalent, ...]:
        weights: dict[tuple[str, str], int] = {}
        rows, exact = self._rows(lang, wording) if lang else (self._in_every_language(wording), True)
        if exact:
            for name, row in rows:
                self._translate(name, row, target, weights)
        else:
            weights = self._of_forms([(name, row, 1.0) for name, row in rows], target)
        endings = None if weights or lang not in self.languages else bundled_endings()
        if endings is not None:
            exact = False
            forms = [
                (name, row, reliability)
                for name in self._section_names[lang]
                for row, reliability in endings.forms(wording, lang, self._keys_of(name).wordings)
            ]
            weights = self._of_forms(forms, target)
        ranking = sorted(_without_articles(weights).items(), key=lambda item: -item[1])
        return tuple(
            [Equivalent(text, weight / _STEPS, self.name, language, exact) for (language, text), weight in ranking]
        )

    def _of_forms(self, forms: Sequence[tuple[str, int, float]], target: str) -> dict[tuple[str, str], int]:
        """Return the equivalents of several forms of a word, with weights in proportion to their sums over the forms.

        The largest weight is the largest that a form gives. ``forms``: section, row and reliability of each.
        """
        sums: dict[tuple[str, str], float] = defaultdict(float)
        largest = 0.0
        for name, row, reliability in forms:
            of_form: dict[tuple[str, str], int] = {}
            self._translate(name, row, target, of_form)
            for key, weight in of_form.items():
                sums[key] += reliability * weight
                largest = max(largest, reliability * weight)
        most = max(sums.values(), default=1)
        return {key: max(1, round(largest * value / most)) for key, value in sums.items()}

    def _translate(self, name: str, row: int, target: str, into: dict[tuple[str, str], int]) -> None:
        """Add the equivalents of a row in the language ``target`` ("" for all), with their weights."""
        if name in ENGLISH:
            english = row if name == "en" else row + len(self._keys_of("en").wordings)
            for language in self.languages if not target else {target}.intersection(self.languages):
                self._from_english(language, english, into)
        elif target in ("", "en"):
            self._into_english(name, row, into)
        elif target in self.languages:
            self._through_english(name, row, target, into)

    @cachedmethod(attrgetter("_english_of"), lock=attrgetter("_lock_of_cache"))
    def into_english(self, form: str, lang: str) -> tuple[tuple[str, float], ...]:
        """Return the English equivalents of exactly this folded form in one language, with their probabilities."""
        weights: dict[tuple[str, str], int] = {}
        for name in self._section_names[lang] if lang in self.languages else []:
            for row in self._keys_of(name).exact(form, lang):
                self._into_english(name, row, weights)
        return tuple((text, weight / _STEPS) for (_, text), weight in weights.items())

    def knows(self, wording: str, lang: str) -> bool:
        """Whether a language lists exactly this wording, regardless of case and white space."""
        lang = primary(lang)
        return lang in self._section_names and bool(self._listed(LOOKUPS[0], lang, wording))

    def is_unit(self, wording: str, lang: str) -> bool:
        """Whether several words are listed as a unit: an idiom, a term or a frequent combination."""
        name = primary(lang) + SEVERAL
        if f"{name}.units" not in self._names:
            return False
        return any(self._units(name)[row] for row in LOOKUPS[0](self._keys_of(name), wording, lang))

    def language_of(self, text: str) -> str:
        """Identify the language of a text, the one in which most of its words are listed; "" if that is ambiguous."""
        return self.languages_of([text])[0]

    def languages_of(self, texts: Sequence[str], target: str = "") -> list[str]:
        """Identify the language of each text, as in `language_of`; faster for many texts.

        ``target``: language into which the texts are translated. If it is not English, texts of up to `_FEW` words such
        as "court" and "the tenant pays" are English. Their words must have translations that differ from them.
        """
        forms_of = [dict.fromkeys(folded(text[start:end]) for start, end in words(text)) for text in texts]
        forms = sorted(set(chain.from_iterable(forms_of)), key=encoded)  # sorted keys are found in half the time
        number_of = {form: number for number, form in enumerate(forms)}
        keys = [encoded(form) for form in forms]
        beginnings = np.array([beginning(key) for key in keys], np.uint64)
        languages = "en", *self.languages
        other_scripts = [number for number, language in enumerate(languages) if language in OTHER_SCRIPTS]
        in_other_scripts = [_OTHER_SCRIPT.search(text) is not None for text in texts]
        counts = np.zeros((len(languages), len(number_of)), np.int64)  # 1 for a listed form, 2 for a function word
        for row, language in zip(counts, languages, strict=True):
            if language in OTHER_SCRIPTS and not any(in_other_scripts):
                continue
            row += self._keys_of(language).wordings.contains(keys, beginnings)
            for form in function_words(language).intersection(number_of):
                row[number_of[form]] += 1
        results = []
        for is_in_other_script, forms_of_text in zip(in_other_scripts, forms_of, strict=True):
            sums = counts[:, [number_of[form] for form in forms_of_text]].sum(1)
            if not is_in_other_script:
                sums[other_scripts] = 0  # these lists have such words only by mistake
            totals = sums.tolist()
            if target not in ("", "en") and 0 < len(forms_of_text) <= _FEW:
                english = sum(self._weight_in_english(form, target) for form in forms_of_text)
                if english and english >= max(totals[1:]):
                    results.append("en")
                    continue
            totals[0] *= _OF_ENGLISH
            runner_up, most = sorted(totals)[-2:]
            by_count = languages[totals.index(most)] if most > runner_up else ""
            results.append(next(filter(self.languages.__contains__, by_script(forms_of_text)), by_count))
        return results

    def _weight_in_english(self, form: str, target: str) -> int:
        """Return 2 for an English function word, 1 for another form with a translation that differs from it, else 0."""
        if form in ENGLISH_FUNCTION_WORDS:
            return 2
        return int(any(equivalent.text != form for equivalent in self.equivalents(form, "en", target)))

    def _rows(self, language: str, wording: str) -> tuple[list[tuple[str, int]], bool]:
        """Find a wording by the first look-up method that succeeds.

        Returns sections and rows, and whether they list the wording itself. An English word, such as "byte" in a Czech
        text, lacks no accents.
        """
        if language in self._section_names:
            for way in LOOKUPS if has_stemmer(language) or has_spellings(language) else BY_SPELLING:
                if way is Keys.accented and self.knows(wording, "en"):
                    continue
                if rows := self._listed(way, language, wording):
                    return rows, way in BY_SPELLING
        return [], True

    def _in_every_language(self, wording: str) -> list[tuple[str, int]]:
        """Find a folded wording in all languages, English last; returns sections and rows."""
        key = encoded(wording)
        number = beginning(key)
        names = chain.from_iterable(self._section_names.values())
        rows = [(name, self._keys_of(name).wordings.find_encoded(key, number)) for name in names]
        return [(name, row) for name, row in rows if row >= 0]

    def _listed(self, way: Lookup, language: str, wording: str) -> list[tuple[str, int]]:
        """Find a wording by one look-up method in a language; returns sections and rows."""
        names = self._section_names[language]
        return [(name, row) for name in names for row in way(self._keys_of(name), wording, language)]

    def _english(self, row: int) -> str:
        words = self._keys_of("en").wordings
        return words[row] if row < len(words) else self._keys_of("en" + SEVERAL).wordings[row - len(words)]

    def _into_english(self, name: str, row: int, into: dict[tuple[str, str], int]) -> None:
        for english, weight in self._section(name).pairs(row):
            key = "en", self._english(english)
            into[key] = max(into.get(key, 0), weight)

    def _from_english(self, language: str, row: int, into: dict[tuple[str, str], int]) -> None:
        for name in self._section_names[language]:
            section = self._section(name)
            start, end = np.searchsorted(section.english, [row, row + 1], sorter=section.by_english)
            for pair in section.by_english[start:end]:
                key = language, section.wordings[int(section.wording_of[pair])]
                into[key] = max(into.get(key, 0), int(section.backward[pair]))

    def _through_english(self, name: str, row: int, language: str, into: dict[tuple[str, str], int]) -> None:
        """Add equivalents in another language, weighted by the sum of p(English | wording) p(equivalent | English)."""
        sums = Counter[tuple[str, str]]()
        for english, forward in self._section(name).pairs(row):
            weights_of_word: dict[tuple[str, str], int] = {}
            self._from_english(language, english, weights_of_word)
            sums.update({key: forward * weight for key, weight in weights_of_word.items()})
        likely = {key: round(weight / _STEPS) for key, weight in sums.items() if weight >= _LEAST_STEPS * _STEPS}
        into.update({key: max(into.get(key, 0), weight) for key, weight in likely.items()})

    @cached_property
    def _english_count(self) -> int:
        return sum(len(self._keys_of(name).wordings) for name in self._section_names["en"])

    def _keys_of(self, name: str) -> Keys:
        if name in self._keys:
            return self._keys[name]
        with self._lock:
            if name not in self._keys:
                self._keys[name] = Keys(_wordings(self._tensor(f"{name}.text")))
            return self._keys[name]

    def _units(self, name: str) -> Bytes:
        """Return (wordings,) 1 for units, 0 for other wordings."""
        if name not in self._unit_bits:
            count = len(self._keys_of(name).wordings)
            bits = np.unpackbits(self._tensor(f"{name}.units"))
            if not 0 <= len(bits) - count < _BITS:
                raise self._damaged(f"{name}.units")
            self._unit_bits[name] = bits[:count]
        return self._unit_bits[name]

    def _section(self, name: str) -> _Section:
        if name not in self._sections:
            wordings = self._keys_of(name).wordings
            degrees, english, forward, backward = (self._tensor(f"{name}.{part}") for part in _TENSORS)
            if len(degrees) != len(wordings) or not english.shape[1] == len(forward) == len(backward) == degrees.sum():
                raise self._damaged(name)
            rows = english.astype(np.int64).T @ np.array([1, 1 << 8, 1 << 16])
            if rows.size and rows.max() >= self._english_count:
                raise self._damaged(name)
            self._sections[name] = _Section(wordings, _bounds(degrees), rows, forward, backward)
        return self._sections[name]

    def _tensor(self, name: str) -> Bytes:
        rows = 3 if name.endswith(".english") else 1
        try:
            content = _codec(name).decompress(self._file.get_tensor(name))
            tensor = np.frombuffer(content, np.uint8).reshape(rows, -1)
        except (SafetensorError, zlib.error, lzma.LZMAError, ValueError):
            raise self._damaged(name) from None
        return tensor if rows > 1 else tensor[0]

    def _damaged(self, part: str) -> ModelDamaged:
        return ModelDamaged(f"{self._path}: the part {part!r} is not as expected; install phrasemate again")


def _without_articles(weights: Mapping[tuple[str, str], int]) -> dict[tuple[str, str], int]:
    """Add the weight of an equivalent with an elided article to that without, if there is one: of "l'eau" to "eau".

    ``weights``: weight of each (language, equivalent), in steps of `_STEPS`.
    """
    sums = dict(weights)
    for (language, text), weight in weights.items():
        base = language, text[elided_article(text, language) :]
        if base[1] != text and base in weights:
            sums[base] = min(sums[base] + weight, _STEPS)
            del sums[language, text]
    return sums


def _bounds(lengths: Bytes) -> Rows:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def write_lexicon(
    path: str | os.PathLike[str], languages: Mapping[str, Iterable[Pair]], facts: Mapping[str, str] | None = None
) -> None:
    """Write the pairs of each language to one file; ``facts`` (sources, licence, ...) go into its metadata.

    Pairs with a wording of more than 255 bytes are omitted, and so are equivalents beyond the 255 most probable ones of
    a wording. Raises InputError for the language "en" and for a language without pairs.
    """
    content = {**(facts or {}), "format": FORMAT, "languages": " ".join(sorted(languages))}
    save_arrays(Path(path), lexicon_arrays(languages), content)


def lexicon_arrays(languages: Mapping[str, Iterable[Pair]]) -> dict[str, Bytes]:
    """Build the compressed arrays that `write_lexicon` writes."""
    pairs = {
        lang: [pair for pair in of_language if max(len(encoded(pair.wording)), len(encoded(pair.english))) <= LONGEST]
        for lang, of_language in languages.items()
    }
    if "en" in pairs or not pairs or not all(pairs.values()):
        raise InputError(f"languages {', '.join(pairs) or 'none'}; expected others than English, each with pairs")
    every = {pair.english for of_language in pairs.values() for pair in of_language}
    english = sorted(every, key=lambda text: (" " in text, encoded(text)))
    row_of = {text: row for row, text in enumerate(english)}
    tensors = {"en.text": _lines(text for text in english if " " not in text)}
    several_words = [text for text in english if " " in text]
    units = {
        pair.english
        for lang, of_language in pairs.items()
        for pair in of_language
        if pair.unit or len(words_of(pair.wording, lang)) == 1
    }
    tensors[f"en{SEVERAL}.text"] = _lines(several_words)
    tensors[f"en{SEVERAL}.units"] = np.packbits(np.array([text in units for text in several_words], bool))
    for lang, of_language in pairs.items():
        for several in (False, True):
            of_section = [pair for pair in of_language if (len(words_of(pair.wording, lang)) > 1) == several]
            tensors |= _section_arrays(lang + SEVERAL * several, of_section, row_of)
    return {name: np.frombuffer(_codec(name).compress(array.tobytes()), np.uint8) for name, array in tensors.items()}


def _codec(name: str) -> ModuleType:
    """Return the module that compresses an array."""
    return lzma if name.endswith(f"{SEVERAL}.text") and not name.startswith("en") else zlib


def _section_arrays(name: str, pairs: Iterable[Pair], row_of: Mapping[str, int]) -> dict[str, Bytes]:
    """Build the arrays of a section, by name; ``row_of``: English wording -> its row."""
    by_wording: dict[str, list[Pair]] = {}
    for pair in pairs:
        by_wording.setdefault(pair.wording, []).append(pair)
    wordings = sorted(by_wording, key=encoded)
    ranking = [sorted(by_wording[text], key=lambda pair: (-pair.forward, pair.english))[:MOST] for text in wordings]
    flat = [pair for group in ranking for pair in group]
    rows = np.array([row_of[pair.english] for pair in flat], np.uint32)
    units = np.array([any(pair.unit for pair in by_wording[text]) for text in wordings], bool)
    return {
        f"{name}.text": _lines(wordings),
        **({f"{name}.units": np.packbits(units)} if name.endswith(SEVERAL) else {}),
        f"{name}.degrees": np.array([len(group) for group in ranking], np.uint8),
        f"{name}.english": np.stack([rows >> shift & 255 for shift in (0, 8, 16)]).astype(np.uint8),
        f"{name}.forward": _in_steps([pair.forward for pair in flat]),
        f"{name}.backward": _in_steps([pair.backward for pair in flat]),
    }


def _lines(wordings: Iterable[str]) -> Bytes:
    """Return sorted wordings as they are stored, each ended by a line break."""
    return np.frombuffer(b"".join(encoded(text) + b"\n" for text in wordings), np.uint8)


def _wordings(lines: Bytes) -> Wordings:
    """Return the wordings of `_lines`."""
    is_text = lines != _BREAK
    breaks = np.flatnonzero(~is_text)
    return Wordings(lines[is_text], np.concatenate([[0], breaks - np.arange(len(breaks))]))


def _in_steps(probabilities: list[float]) -> Bytes:
    """Convert probabilities to hundredths, at least 1."""
    return cast(Bytes, np.clip(np.rint(np.array(probabilities) * _STEPS), 1, _STEPS).astype(np.uint8))


PATH = Path(__file__).parent.parent / "models" / "lexicon" / "lexicon.safetensors"


@cache
def bundled_lexicon() -> InducedLexicon | None:
    """Return the lexicon of the package, opened once; None if it is not installed."""
    return InducedLexicon(PATH) if PATH.exists() else None


@cache
def grammatical_words(lang: str) -> frozenset[str]:
    """Return the function words of a language, folded; an empty set if the bundled lexicon lacks the language.

    They are the stop words whose likeliest equivalent is an English function word. For Japanese, they are all stop
    words.
    """
    lang, lexicon = primary(lang), bundled_lexicon()
    if lang == "en":
        return ENGLISH_FUNCTION_WORDS
    if lexicon is None or lang not in lexicon.languages:
        return frozenset()
    if lang == "ja":
        return general_words(lang)
    likeliest = {
        word: max(lexicon.into_english(word, lang), key=itemgetter(1), default=("",))[0] for word in general_words(lang)
    }
    return frozenset(word for word, english in likeliest.items() if english in ENGLISH_FUNCTION_WORDS)


@cache
def articles(lang: str) -> frozenset[str]:
    """Return the articles of a language, folded; an empty set if the bundled lexicon lacks the language."""
    lang, lexicon = primary(lang), bundled_lexicon()
    if lang == "en":
        return ARTICLES
    if lexicon is None or lang not in lexicon.languages:
        return frozenset()
    senses = {word: lexicon.into_english(word, lang) for word in function_words(lang)}
    return frozenset(
        word
        for word, equivalents in senses.items()
        if any(english in ARTICLES and probability >= _OF_ARTICLE for english, probability in equivalents)
    )


def elided_article(wording: str, lang: str) -> int:
    """Return the length of an elided article or preposition before a content word: 2 for "l'eau", 0 for "d'un".

    A fixed expression such as "d'abord" has none.
    """
    length = elision(wording, lang, ELIDED_ARTICLES)
    if not length or folded(wording) in locutions(primary(lang)) or folded(wording[length:]) in grammatical_words(lang):
        return 0
    return length
