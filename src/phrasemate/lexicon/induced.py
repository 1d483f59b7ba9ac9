"""Bundled lexicon between English and other languages, counted in aligned text: one compact file, read on demand.

    en.text       (bytes,) uint8        the English wordings, folded, sorted by their bytes, one after the other
    en.lengths    (wordings,) uint8     bytes of each
    XX.text, XX.lengths                 the same for each other language
    XX.degrees    (wordings,) uint8     English wordings of each wording
    XX.english    (pairs, 3) uint8      their rows, lowest byte first; the most probable one first
    XX.forward    (pairs,) uint8        p(English | wording) in 255ths
    XX.backward   (pairs,) uint8        p(wording | English) in 255ths

A safetensors file; a language is read when it is first asked for.
"""

from __future__ import annotations

import os
import threading
import unicodedata
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from phrasemate.errors import InputError, ModelDamaged, ModelUnsupported
from phrasemate.lexicon.inflection import function_words, has_stemmer, primary
from phrasemate.lexicon.wordings import LOOKUPS, Equivalent, Keys, Wordings, beginning, encoded
from phrasemate.text import folded, words
from phrasemate.utils.storage import save_arrays

FORMAT = "phrasemate lexicon 1"
LONGEST = 255  # bytes of a wording
MOST = 255  # English wordings of a wording
_STEPS = 255  # of a probability
_OF_ENGLISH = 0.7  # what a word counts for English, whose part has names and loans from all other languages
_OWN_SCRIPTS = {"HIRAGANA": "ja", "KATAKANA": "ja", "HANGUL": "ko"}  # of one language each
_TENSORS = ("text", "lengths", "degrees", "english", "forward", "backward")

Bytes = NDArray[np.uint8]
Rows = NDArray[np.int64]


class Pair(NamedTuple):
    """A wording and an English one, each folded; p(English | wording) and p(wording | English)."""

    wording: str
    english: str
    forward: float
    backward: float


class _Language(NamedTuple):
    """The part of one language."""

    keys: Keys
    bounds: Rows  # (wordings + 1,): where the pairs of each wording begin
    english: Rows  # (pairs,): English rows
    forward: Bytes
    backward: Bytes
    by_english: Rows  # (pairs,): the pairs in the order of their English rows
    wording_of: Rows  # (pairs,): row of the wording of each pair


class InducedLexicon:
    """Equivalents with probabilities from a file that `write_lexicon` wrote.

    ``name`` is the source of the equivalents. Raises ModelDamaged for a file that is missing or damaged,
    ModelUnsupported for one of another format.
    """

    def __init__(self, path: str | os.PathLike[str], name: str = "lexicon") -> None:
        self.name, self._path = name, Path(path)
        self._lock = threading.Lock()
        self._parts: dict[str, _Language] = {}
        try:
            self._file = cast(Any, safe_open(self._path, "numpy"))
            facts = self._file.metadata() or {}
        except (OSError, SafetensorError) as error:
            raise ModelDamaged(f"{self._path}: no lexicon can be read ({error}); install phrasemate again") from None
        if facts.get("format") != FORMAT:
            raise ModelUnsupported(f"{self._path}: format {facts.get('format')!r}; expected {FORMAT!r}")
        self.languages: tuple[str, ...] = tuple(facts["languages"].split())
        self._english = Keys(self._wordings("en"))

    def equivalents(self, wording: str, lang: str = "", target: str = "") -> list[Equivalent]:
        """The equivalents of a wording, the most probable one first.

        ``lang``: "en" looks in English alone; another language in that one; "" in all of them and in English. With the
        language, what is not there as it is gets looked up without leading function words, then by its stems.
        ``target`` is the language of the equivalents; "" stands for all.
        """
        lang, target = primary(lang), primary(target)
        weights: dict[tuple[str, str], int] = {}
        if target in ("", "en"):
            for language in self.languages if not lang else {lang}.intersection(self.languages):
                part = self._part(language)
                for row in self._rows(part.keys, wording, lang):
                    self._into_english(part, row, weights)
        if lang in ("", "en"):
            rows = self._rows(self._english, wording, lang)
            for language in self.languages if not target else {target}.intersection(self.languages):
                for row in rows:
                    self._from_english(language, row, weights)
        ranked = sorted(weights.items(), key=lambda item: -item[1])
        return [Equivalent(text, weight / _STEPS, self.name, language) for (language, text), weight in ranked]

    def into_english(self, form: str, lang: str) -> list[tuple[str, float]]:
        """The English wordings of one form of a word, folded, in one language, and their probabilities."""
        weights: dict[tuple[str, str], int] = {}
        if lang in self.languages:
            part = self._part(lang)
            for row in LOOKUPS[0](part.keys, form, lang):
                self._into_english(part, row, weights)
        return [(text, weight / _STEPS) for (_, text), weight in weights.items()]

    def knows(self, wording: str, lang: str) -> bool:
        """Whether a wording of a language is listed as it is, without regard to case and white space."""
        lang = primary(lang)
        if lang != "en" and lang not in self.languages:
            return False
        keys = self._english if lang == "en" else self._part(lang).keys
        return bool(keys.exact(wording, lang))

    def language_of(self, text: str) -> str:
        """The language of a text: the one of which the lexicon knows most of its words; "" if that is not clear."""
        forms = dict.fromkeys(folded(text[start:end]) for start, end in words(text))
        scripts = {_script(form) for form in forms}
        for name, lang in _OWN_SCRIPTS.items():
            if name in scripts and lang in self.languages:
                return lang
        texts = [encoded(form) for form in forms]
        beginnings = np.array([beginning(text) for text in texts], np.uint64)
        keys = {"en": self._english, **{language: self._part(language).keys for language in self.languages}}
        counts: dict[str, float] = {
            language: of_language.wordings.matches(texts, beginnings)
            + len(function_words(language).intersection(forms))
            for language, of_language in keys.items()
        }
        counts["en"] *= _OF_ENGLISH
        (first, most), (_, second) = sorted(counts.items(), key=lambda item: -item[1])[:2]
        return first if most > second else ""

    def _rows(self, keys: Keys, wording: str, lang: str) -> list[int]:
        """The rows of a wording by the first way of looking up that answers; without a language, there is but one."""
        if not lang:
            return LOOKUPS[0](keys, wording, lang)
        for lookup in LOOKUPS if has_stemmer(lang) else LOOKUPS[:2]:
            if rows := lookup(keys, wording, lang):
                return rows
        return []

    def _into_english(self, part: _Language, row: int, into: dict[tuple[str, str], int]) -> None:
        for pair in range(int(part.bounds[row]), int(part.bounds[row + 1])):
            key = "en", self._english.wordings[int(part.english[pair])]
            into[key] = max(into.get(key, 0), int(part.forward[pair]))

    def _from_english(self, language: str, row: int, into: dict[tuple[str, str], int]) -> None:
        part = self._part(language)
        start, end = np.searchsorted(part.english, [row, row + 1], sorter=part.by_english)
        for pair in part.by_english[start:end]:
            key = language, part.keys.wordings[int(part.wording_of[pair])]
            into[key] = max(into.get(key, 0), int(part.backward[pair]))

    def _part(self, language: str) -> _Language:
        with self._lock:
            if language not in self._parts:
                self._parts[language] = self._read(language)
            return self._parts[language]

    def _read(self, language: str) -> _Language:
        wordings = self._wordings(language)
        degrees, english, forward, backward = (self._tensor(f"{language}.{name}") for name in _TENSORS[2:])
        if len(degrees) != len(wordings) or not len(english) == len(forward) == len(backward) == degrees.sum():
            raise self._damaged(language)
        rows = english.astype(np.int64) @ np.array([1, 1 << 8, 1 << 16])
        if rows.size and rows.max() >= len(self._english.wordings):
            raise self._damaged(language)
        wording_of = np.repeat(np.arange(len(wordings)), degrees)
        order = np.argsort(rows, kind="stable")
        return _Language(Keys(wordings), _bounds(degrees), rows, forward, backward, order, wording_of)

    def _wordings(self, language: str) -> Wordings:
        text, lengths = (self._tensor(f"{language}.{name}") for name in _TENSORS[:2])
        bounds = _bounds(lengths)
        if bounds[-1] != len(text):
            raise self._damaged(language)
        return Wordings(text, bounds)

    def _tensor(self, name: str) -> Bytes:
        try:
            tensor: Bytes = self._file.get_tensor(name)
        except SafetensorError:
            raise self._damaged(name) from None
        if tensor.dtype != np.uint8 or tensor.shape[1:] != ((3,) if name.endswith(".english") else ()):
            raise self._damaged(name)
        return tensor

    def _damaged(self, part: str) -> ModelDamaged:
        return ModelDamaged(f"{self._path}: the part {part!r} is not as expected; install phrasemate again")


def _script(form: str) -> str:
    """The script of a word's last letter, as the first word of its Unicode name: LATIN, HIRAGANA; "" for a digit."""
    return unicodedata.name(form[-1], "").split(" ")[0] if form[-1:].isalpha() else ""


def _bounds(lengths: Bytes) -> Rows:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def write_lexicon(
    path: str | os.PathLike[str], languages: Mapping[str, Iterable[Pair]], facts: Mapping[str, str] | None = None
) -> None:
    """Writes the pairs of each language as one file; ``facts`` (sources, licence, ...) go into its metadata.

    Pairs of which a wording has more than 255 bytes are left out, and so are English wordings beyond the 255 most
    probable ones of a wording. Raises InputError for a language "en" or without pairs.
    """
    pairs = {
        lang: [pair for pair in of_language if max(len(encoded(pair.wording)), len(encoded(pair.english))) <= LONGEST]
        for lang, of_language in languages.items()
    }
    if "en" in pairs or not pairs or not all(pairs.values()):
        raise InputError(f"languages {', '.join(pairs) or 'none'}; expected others than English, each with pairs")
    english = sorted({pair.english for of_language in pairs.values() for pair in of_language}, key=encoded)
    row_of = {text: row for row, text in enumerate(english)}
    tensors = _texts("en", english)
    for lang, of_language in pairs.items():
        by_wording: dict[str, list[Pair]] = {}
        for pair in of_language:
            by_wording.setdefault(pair.wording, []).append(pair)
        wordings = sorted(by_wording, key=encoded)
        ranked = [sorted(by_wording[text], key=lambda pair: (-pair.forward, pair.english))[:MOST] for text in wordings]
        flat = [pair for group in ranked for pair in group]
        rows = np.array([row_of[pair.english] for pair in flat], np.uint32)
        tensors |= _texts(lang, wordings)
        tensors[f"{lang}.degrees"] = np.array([len(group) for group in ranked], np.uint8)
        tensors[f"{lang}.english"] = np.stack([rows >> shift & 255 for shift in (0, 8, 16)], axis=1).astype(np.uint8)
        tensors[f"{lang}.forward"] = _in_steps([pair.forward for pair in flat])
        tensors[f"{lang}.backward"] = _in_steps([pair.backward for pair in flat])
    save_arrays(Path(path), tensors, {**(facts or {}), "format": FORMAT, "languages": " ".join(sorted(pairs))})


def _texts(lang: str, wordings: list[str]) -> dict[str, Bytes]:
    parts = [encoded(text) for text in wordings]
    lengths = np.array([len(part) for part in parts], np.uint8)
    return {f"{lang}.text": np.frombuffer(b"".join(parts), np.uint8), f"{lang}.lengths": lengths}


def _in_steps(probabilities: list[float]) -> Bytes:
    """Probabilities in 255ths, never none."""
    steps: Rows = np.clip(np.rint(np.array(probabilities) * _STEPS), 1, _STEPS).astype(np.int64)
    return steps.astype(np.uint8)


PATH = Path(__file__).parent.parent / "models" / "lexicon" / "lexicon.safetensors"


@cache
def bundled_lexicon() -> InducedLexicon | None:
    """The lexicon of the package; None where it was installed without one. It is opened once."""
    return InducedLexicon(PATH) if PATH.exists() else None
