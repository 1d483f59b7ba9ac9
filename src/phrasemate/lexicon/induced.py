"""Bundled lexicon between English and other languages, counted in aligned text: one compact file, read on demand.

    en.text       (bytes,) uint8        the English words, folded, sorted by their bytes, one after the other
    en.lengths    (wordings,) uint8     bytes of each
    en+.text, en+.lengths               the same of English wordings of several words; their rows come after
    XX.text, XX.lengths                 the same for each other language
    XX.degrees    (wordings,) uint8     English wordings of each wording
    XX.english    (3, pairs) uint8      bytes of their rows, the lowest ones first; the most probable one first
    XX.forward    (pairs,) uint8        p(English | wording) in hundredths
    XX.backward   (pairs,) uint8        p(wording | English) in hundredths
    XX+.text, ...                       the same arrays for the wordings of several words
    XX+.units                           a bit for each of these, highest first: 1 if it is a unit; en+.units, too

A safetensors file; each array is compressed by zlib. What is there of a language is read when it is first asked for.

`select_pairs` chooses the pairs of a phrase table, which is mostly noise and composition. A pair stays if

- both wordings are words: letters, spaces, hyphens and apostrophes, no digits;
- its co-occurrence is significant by the log-likelihood ratio of its counts (Dunning 1993; Johnson et al. 2007 use
  Fisher's exact test). Pairs that were counted once stay only where a dictionary has them;
- p(English | wording), discounted, is at least `Pruning.least`, and the pair is among the `Pruning.most` best ones;
- neither side consists of function words; single ones stay ("auf", "on"), so that phrases with them are translated
  word by word;
- for a single word, no side has needless function words around it ("the house"), and no side is a part of a better
  pair ("opener" of "can opener");
- a wording of several words was counted twice or more, `Pruning.phrase` of its links are to this English wording, it is
  a worse pair without its article, and its negation is in the English wording, too ("nicht gehen" is not "to go").

Word links miss many fixed expressions: hardly a word of "в конце концов" translates one of "in the end". So a phrase
table may come with `Expression`s, counted in sentences. These follow the same thresholds. None is composed, none is a
part of a better one, and none is a more frequent expression with words around it.

Most wordings of several words are composed: "in meinem Zimmer". Others are units. These mean something else than their
words do ("in due course"), and that more than twice, in many of their occurrences. A unit may also be composed, if it
is frequent and has no function word at an end. In English, what translates a single word is a unit, too.

Function words need no list for the other languages: they are the wordings whose translations are English ones.
"""

from __future__ import annotations

import os
import threading
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain
from math import log
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, NamedTuple, cast
from unicodedata import category

import numpy as np
from cachetools import LRUCache, cachedmethod
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from phrasemate.errors import InputError, ModelDamaged, ModelUnsupported
from phrasemate.lexicon.inflection import (
    ARTICLES,
    ENGLISH_FUNCTION_WORDS,
    NEGATIONS,
    by_script,
    function_words,
    general_words,
    has_stemmer,
    primary,
    stemmed_all,
)
from phrasemate.lexicon.wordings import LOOKUPS, Equivalent, Keys, Lookup, Wordings, beginning, encoded
from phrasemate.text import folded, words
from phrasemate.utils.arrays import Rows
from phrasemate.utils.storage import save_arrays

FORMAT = "phrasemate lexicon 2"
LONGEST = 255  # bytes of a wording
MOST = 255  # English wordings of a wording
_STEPS = 100  # of a probability
_LEAST_STEPS = 2  # of an equivalent that is looked up through English
_OF_ENGLISH = 0.7  # what a word counts for English, whose part has names and loans from all other languages
_BITS = 8  # of a byte
_REMEMBERED = 8_192  # forms whose English wordings are kept: a text repeats most of its words
_EQUIVALENTS = 100_000  # equivalents of wordings that are kept: 20 MB
SEVERAL = "+"  # ends the name of the section of the wordings of several words
ENGLISH = ("en", f"en{SEVERAL}")  # sections
_TENSORS = ("text", "lengths", "degrees", "english", "forward", "backward")

Bytes = NDArray[np.uint8]


class Pair(NamedTuple):
    """A wording and an English one, each folded, their probabilities, and whether the wording is a unit.

    ``forward``: p(English | wording). ``backward``: p(wording | English).
    """

    wording: str
    english: str
    forward: float
    backward: float
    unit: bool = False


@dataclass(frozen=True)
class _Section:
    """The words of one language or its wordings of several words, with their English equivalents.

    What only the direction from English needs is made when it is first asked for.
    """

    wordings: Wordings
    bounds: Rows  # (wordings + 1,): where the pairs of each wording begin
    english: Rows  # (pairs,): English rows
    forward: Bytes
    backward: Bytes

    @cached_property
    def by_english(self) -> Rows:
        """(pairs,): the pairs in the order of their English rows."""
        return np.argsort(self.english, kind="stable")

    @cached_property
    def wording_of(self) -> Rows:
        """(pairs,): row of the wording of each pair."""
        return np.repeat(np.arange(len(self.bounds) - 1), np.diff(self.bounds))


class InducedLexicon:
    """Equivalents with probabilities from a file that `write_lexicon` wrote.

    ``name`` is the source of the equivalents. Raises ModelDamaged for a file that is missing or damaged,
    ModelUnsupported for one of another format.
    """

    def __init__(self, path: str | os.PathLike[str], name: str = "lexicon") -> None:
        self.name, self._path = name, Path(path)
        self._lock, self._lock_of_cache = threading.Lock(), threading.Lock()
        self._english_of: LRUCache[Any, Any] = LRUCache(_REMEMBERED)
        self._equivalents_of: LRUCache[Any, Any] = LRUCache(_EQUIVALENTS, lambda ranking: 1 + len(ranking))
        self._keys: dict[str, Keys] = {}
        self._sections: dict[str, _Section] = {}
        self._unit_bits: dict[str, Bytes] = {}
        try:
            self._file = cast(Any, safe_open(self._path, "numpy"))
            facts = self._file.metadata() or {}
            self._names = frozenset(self._file.keys())
        except (OSError, SafetensorError) as error:
            raise ModelDamaged(f"{self._path}: no lexicon can be read ({error}); install phrasemate again") from None
        if facts.get("format") != FORMAT:
            raise ModelUnsupported(f"{self._path}: format {facts.get('format')!r}; expected {FORMAT!r}")
        self.languages: tuple[str, ...] = tuple(facts["languages"].split())
        self._section_names = {
            language: [name for name in (language, language + SEVERAL) if f"{name}.text" in self._names]
            for language in (*self.languages, "en")
        }

    def equivalents(self, wording: str, lang: str = "", target: str = "") -> list[Equivalent]:
        """The equivalents of a wording, the most probable one first.

        ``lang``: "en" looks in English alone; another language in that one; "" in all of them and in English. With the
        language, what is not there as it is gets looked up without leading function words, then by its stems.
        ``target`` is the language of the equivalents, "" for all. Two other languages meet in English wordings.
        """
        return list(self._ranked(folded(wording), primary(lang), primary(target)))

    @cachedmethod(attrgetter("_equivalents_of"), lock=attrgetter("_lock_of_cache"))
    def _ranked(self, wording: str, lang: str, target: str) -> tuple[Equivalent, ...]:
        weights: dict[tuple[str, str], int] = {}
        rows, exact = self._rows(lang, wording) if lang else (self._in_every_language(wording), True)
        for name, row in rows:
            if name in ENGLISH:
                english = row if name == "en" else row + len(self._keys_of("en").wordings)
                for language in self.languages if not target else {target}.intersection(self.languages):
                    self._from_english(language, english, weights)
            elif target in ("", "en"):
                self._into_english(name, row, weights)
            elif target in self.languages:
                self._through_english(name, row, target, weights)
        ranking = sorted(weights.items(), key=lambda item: -item[1])
        return tuple(
            [Equivalent(text, weight / _STEPS, self.name, language, exact) for (language, text), weight in ranking]
        )

    @cachedmethod(attrgetter("_english_of"), lock=attrgetter("_lock_of_cache"))
    def into_english(self, form: str, lang: str) -> tuple[tuple[str, float], ...]:
        """The English wordings of one form of a word, folded, in one language, and their probabilities."""
        weights: dict[tuple[str, str], int] = {}
        for name in self._section_names[lang] if lang in self.languages else []:
            if (row := self._keys_of(name).wordings.find(form)) >= 0:
                self._into_english(name, row, weights)
        return tuple((text, weight / _STEPS) for (_, text), weight in weights.items())

    def knows(self, wording: str, lang: str) -> bool:
        """Whether a wording of a language is listed as it is, without regard to case and white space."""
        lang = primary(lang)
        return lang in self._section_names and bool(self._listed(LOOKUPS[0], lang, wording))

    def is_unit(self, wording: str, lang: str) -> bool:
        """Whether several words belong together, as an idiom or a term, or are a frequent combination."""
        name = primary(lang) + SEVERAL
        if f"{name}.units" not in self._names:
            return False
        return any(self._units(name)[row] for row in LOOKUPS[0](self._keys_of(name), wording, lang))

    def language_of(self, text: str) -> str:
        """The language of a text: the one of which the lexicon lists most of its words; "" if that is not clear."""
        return self.languages_of([text])[0]

    def languages_of(self, texts: Sequence[str]) -> list[str]:
        """The language of each text, as `language_of`; quicker for many together."""
        forms_of = [dict.fromkeys(folded(text[start:end]) for start, end in words(text)) for text in texts]
        forms = sorted(set(chain.from_iterable(forms_of)), key=encoded)  # ascending ones are found in half the time
        number_of = {form: number for number, form in enumerate(forms)}
        keys = [encoded(form) for form in forms]
        beginnings = np.array([beginning(key) for key in keys], np.uint64)
        languages = "en", *self.languages
        counts = np.zeros((len(languages), len(number_of)), np.int64)  # of each form, as a word and a function word
        for row, language in zip(counts, languages, strict=True):
            row += self._keys_of(language).wordings.contains(keys, beginnings)
            for form in function_words(language).intersection(number_of):
                row[number_of[form]] += 1
        results = []
        for forms_of_text in forms_of:
            totals = counts[:, [number_of[form] for form in forms_of_text]].sum(1).tolist()
            totals[0] *= _OF_ENGLISH
            runner_up, most = sorted(totals)[-2:]
            by_count = languages[totals.index(most)] if most > runner_up else ""
            results.append(next(filter(self.languages.__contains__, by_script(forms_of_text)), by_count))
        return results

    def _rows(self, language: str, wording: str) -> tuple[list[tuple[str, int]], bool]:
        """Sections and rows by the first way of looking up that answers; whether they list the wording itself."""
        if language in self._section_names:
            for way in LOOKUPS if has_stemmer(language) else LOOKUPS[:2]:
                if rows := self._listed(way, language, wording):
                    return rows, way is not Keys.stemmed
        return [], True

    def _in_every_language(self, wording: str) -> list[tuple[str, int]]:
        """Sections and rows of a folded wording, English last."""
        key = encoded(wording)
        number = beginning(key)
        names = chain.from_iterable(self._section_names.values())
        rows = [(name, self._keys_of(name).wordings.find_encoded(key, number)) for name in names]
        return [(name, row) for name, row in rows if row >= 0]

    def _listed(self, way: Lookup, language: str, wording: str) -> list[tuple[str, int]]:
        """Sections and rows that one way of looking up gives in a language."""
        names = self._section_names[language]
        return [(name, row) for name in names for row in way(self._keys_of(name), wording, language)]

    def _english(self, row: int) -> str:
        words = self._keys_of("en").wordings
        return words[row] if row < len(words) else self._keys_of("en" + SEVERAL).wordings[row - len(words)]

    def _into_english(self, name: str, row: int, into: dict[tuple[str, str], int]) -> None:
        section = self._section(name)
        for pair in range(int(section.bounds[row]), int(section.bounds[row + 1])):
            key = "en", self._english(int(section.english[pair]))
            into[key] = max(into.get(key, 0), int(section.forward[pair]))

    def _from_english(self, language: str, row: int, into: dict[tuple[str, str], int]) -> None:
        for name in self._section_names[language]:
            section = self._section(name)
            start, end = np.searchsorted(section.english, [row, row + 1], sorter=section.by_english)
            for pair in section.by_english[start:end]:
                key = language, section.wordings[int(section.wording_of[pair])]
                into[key] = max(into.get(key, 0), int(section.backward[pair]))

    def _through_english(self, name: str, row: int, language: str, into: dict[tuple[str, str], int]) -> None:
        """Add the wordings of another language: the sums of p(English | wording) p(other wording | English)."""
        section, sums = self._section(name), Counter[tuple[str, str]]()
        for pair in range(int(section.bounds[row]), int(section.bounds[row + 1])):
            weights_of_word: dict[tuple[str, str], int] = {}
            self._from_english(language, int(section.english[pair]), weights_of_word)
            sums.update({key: int(section.forward[pair]) * weight for key, weight in weights_of_word.items()})
        likely = {key: round(weight / _STEPS) for key, weight in sums.items() if weight >= _LEAST_STEPS * _STEPS}
        into.update({key: max(into.get(key, 0), weight) for key, weight in likely.items()})

    @cached_property
    def _english_count(self) -> int:
        return sum(len(self._tensor(f"{name}.lengths")) for name in self._section_names["en"])

    def _keys_of(self, name: str) -> Keys:
        if name in self._keys:
            return self._keys[name]
        with self._lock:
            if name not in self._keys:
                text, lengths = (self._tensor(f"{name}.{part}") for part in _TENSORS[:2])
                bounds = _bounds(lengths)
                if bounds[-1] != len(text):
                    raise self._damaged(name)
                self._keys[name] = Keys(Wordings(text, bounds))
            return self._keys[name]

    def _units(self, name: str) -> Bytes:
        """(wordings,): 1 for a unit, 0 for another wording."""
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
            degrees, english, forward, backward = (self._tensor(f"{name}.{part}") for part in _TENSORS[2:])
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
            tensor = np.frombuffer(zlib.decompress(self._file.get_tensor(name)), np.uint8).reshape(rows, -1)
        except (SafetensorError, zlib.error, ValueError):
            raise self._damaged(name) from None
        return tensor if rows > 1 else tensor[0]

    def _damaged(self, part: str) -> ModelDamaged:
        return ModelDamaged(f"{self._path}: the part {part!r} is not as expected; install phrasemate again")


def _bounds(lengths: Bytes) -> Rows:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def write_lexicon(
    path: str | os.PathLike[str], languages: Mapping[str, Iterable[Pair]], facts: Mapping[str, str] | None = None
) -> None:
    """Writes the pairs of each language as one file; ``facts`` (sources, licence, ...) go into its metadata.

    Pairs of which a wording has more than 255 bytes are left out, and so are English wordings beyond the 255 most
    probable ones of a wording. Raises InputError for a language "en" or without pairs.
    """
    content = {**(facts or {}), "format": FORMAT, "languages": " ".join(sorted(languages))}
    save_arrays(Path(path), lexicon_arrays(languages), content)


def lexicon_arrays(languages: Mapping[str, Iterable[Pair]]) -> dict[str, Bytes]:
    """The compressed arrays of `write_lexicon`."""
    pairs = {
        lang: [pair for pair in of_language if max(len(encoded(pair.wording)), len(encoded(pair.english))) <= LONGEST]
        for lang, of_language in languages.items()
    }
    if "en" in pairs or not pairs or not all(pairs.values()):
        raise InputError(f"languages {', '.join(pairs) or 'none'}; expected others than English, each with pairs")
    every = {pair.english for of_language in pairs.values() for pair in of_language}
    english = sorted(every, key=lambda text: (" " in text, encoded(text)))
    row_of = {text: row for row, text in enumerate(english)}
    tensors = _texts("en", [text for text in english if " " not in text])
    several_words = [text for text in english if " " in text]
    units = {
        pair.english
        for lang, of_language in pairs.items()
        for pair in of_language
        if pair.unit or len(_words(pair.wording, lang)) == 1
    }
    tensors |= _texts("en" + SEVERAL, several_words)
    tensors[f"en{SEVERAL}.units"] = np.packbits(np.array([text in units for text in several_words], bool))
    for lang, of_language in pairs.items():
        for several in (False, True):
            of_section = [pair for pair in of_language if (len(_words(pair.wording, lang)) > 1) == several]
            tensors |= _section_arrays(lang + SEVERAL * several, of_section, row_of)
    return {name: np.frombuffer(zlib.compress(array.tobytes(), 9), np.uint8) for name, array in tensors.items()}


def _section_arrays(name: str, pairs: Iterable[Pair], row_of: Mapping[str, int]) -> dict[str, Bytes]:
    """The arrays of a section, by name; ``row_of``: English wording -> its row."""
    by_wording: dict[str, list[Pair]] = {}
    for pair in pairs:
        by_wording.setdefault(pair.wording, []).append(pair)
    wordings = sorted(by_wording, key=encoded)
    ranking = [sorted(by_wording[text], key=lambda pair: (-pair.forward, pair.english))[:MOST] for text in wordings]
    flat = [pair for group in ranking for pair in group]
    rows = np.array([row_of[pair.english] for pair in flat], np.uint32)
    units = np.array([any(pair.unit for pair in by_wording[text]) for text in wordings], bool)
    return {
        **_texts(name, wordings),
        **({f"{name}.units": np.packbits(units)} if name.endswith(SEVERAL) else {}),
        f"{name}.degrees": np.array([len(group) for group in ranking], np.uint8),
        f"{name}.english": np.stack([rows >> shift & 255 for shift in (0, 8, 16)]).astype(np.uint8),
        f"{name}.forward": _in_steps([pair.forward for pair in flat]),
        f"{name}.backward": _in_steps([pair.backward for pair in flat]),
    }


def _texts(lang: str, wordings: list[str]) -> dict[str, Bytes]:
    parts = [encoded(text) for text in wordings]
    lengths = np.array([len(part) for part in parts], np.uint8)
    return {f"{lang}.text": np.frombuffer(b"".join(parts), np.uint8), f"{lang}.lengths": lengths}


def _in_steps(probabilities: list[float]) -> Bytes:
    """Probabilities in hundredths, never none."""
    return cast(Bytes, np.clip(np.rint(np.array(probabilities) * _STEPS), 1, _STEPS).astype(np.uint8))


PATH = Path(__file__).parent.parent / "models" / "lexicon" / "lexicon.safetensors"


@cache
def bundled_lexicon() -> InducedLexicon | None:
    """The lexicon of the package; None where it was installed without one. It is opened once."""
    return InducedLexicon(PATH) if PATH.exists() else None


@cache
def grammatical_words(lang: str) -> frozenset[str]:
    """The function words of a language, folded; none of a language that the bundled lexicon does not know.

    They are the stop words whose likeliest equivalent is an English function word; the list of Japanese has no others.
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


Counts = Mapping[tuple[str, str], int]
"""How often a wording and an English one are linked."""

_JOINERS = frozenset("'’-‐־״׳·\u200c\u200d")  # within words: apostrophes, hyphens, joiners of Persian
_UNSPACED = frozenset({"ja", "zh"})
_FREQUENT = 20  # links of a function word
_MOSTLY = 0.6  # of its links are to English function words
_SHARE = 0.3  # of a pair's links with which a shorter or longer one takes its place
_WHOLE = 0.5  # of an expression's links with which a longer one takes its place
_OFTENER = 1.5  # times as frequent is an expression than the same with words around it
_TRANSLATED = 0.05  # least share of a word's links, or of an English word's, that are to a translation of it


@dataclass(frozen=True)
class Pruning:
    """Thresholds for the pairs of a phrase table.

    ``significance`` is the least log-likelihood ratio of a pair. ``least`` is the least probability of a pair, ``rare``
    that of a word that was counted twice, ``phrase`` that of a wording of several words. What such a wording is worth
    is its ratio divided by ``share``. ``composed`` times the significance makes a unit of words that translate one
    another, ``idiomatic`` is the least probability of other units. With ``hapaxes``, pairs of single words stay too
    that were counted once, if the wording was; about half of them are right, so this is for languages with little text.
    """

    significance: float = 10.0
    phrase: float = 0.1
    share: float = 3.0
    composed: float = 15.0
    idiomatic: float = 0.3
    rare: float = 0.15
    hapaxes: bool = False
    least: float = 0.03
    most: int = 6


class Scored(NamedTuple):
    """A pair and what it is worth: its log-likelihood ratio; a share of it for a wording of several words."""

    pair: Pair
    worth: float


class Expression(NamedTuple):
    """A wording of several words and an English one, and the sentence pairs with both, sentences with one, the other.

    >>> Expression("nach wie vor", "still", together=12, wordings=20, englishes=900).together
    12
    """

    wording: str
    english: str
    together: int
    wordings: int
    englishes: int


def likelihood_ratio(both: int, one: int, other: int, total: int) -> float:
    """Twice the log-likelihood ratio of two events that happen ``one`` and ``other`` times, ``both`` together.

    Of ``total`` trials; 0 if they happen together no more often than by chance.
    """
    if both * total <= one * other:
        return 0.0
    table = (
        (both, one * other),
        (one - both, one * (total - other)),
        (other - both, (total - one) * other),
        (total - one - other + both, (total - one) * (total - other)),
    )
    return 2 * sum(count * log(count * total / expected_count) for count, expected_count in table if count > 0)


def attested_pairs(counts: Counts, entries: Collection[tuple[str, str]], lang: str) -> set[tuple[str, str]]:
    """The pairs of a table that a dictionary has too, compared by stems: its entries are (wording, English wording)."""
    one_side = _stems((wording for wording, _ in (*counts, *entries)), lang)
    english_side = _stems((english for _, english in (*counts, *entries)), "en")
    known_pairs = {(one_side[wording], english_side[english]) for wording, english in entries}
    return {
        (wording, english) for wording, english in counts if (one_side[wording], english_side[english]) in known_pairs
    }


def _stems(wordings: Iterable[str], lang: str) -> dict[str, str]:
    distinct = list(dict.fromkeys(wordings))
    return dict(zip(distinct, stemmed_all(distinct, lang), strict=True))


def select_pairs(
    counts: Counts,
    total: int,
    lang: str,
    attested: Collection[tuple[str, str]] = (),
    pruning: Pruning | None = None,
    expressions: Iterable[Expression] = (),
) -> list[Scored]:
    """The pairs of a language that stay, the ones that are worth most first.

    Args:
        counts: A phrase table.
        total: Number of sentence pairs that were counted.
        lang: The language that is not English.
        attested: Pairs that a dictionary has too.
        pruning: Thresholds.
        expressions: Candidates for fixed expressions.
    """
    selection = _Selection(counts, total, lang, frozenset(attested), pruning or Pruning())
    pairs = selection.pairs()
    stay = {(one.pair.wording, one.pair.english) for one in pairs}
    pairs += [one for one in selection.expressions(expressions) if (one.pair.wording, one.pair.english) not in stay]
    return sorted(pairs, key=lambda pair: -pair.worth)


class _Selection:
    """Table of one language while its pairs are chosen."""

    def __init__(
        self, counts: Counts, total: int, lang: str, attested: frozenset[tuple[str, str]], pruning: Pruning
    ) -> None:
        self.counts, self.total, self.attested, self.pruning = counts, total, attested, pruning
        self.lang = lang
        self.links: Counter[str] = Counter()
        self.english_links: Counter[str] = Counter()
        for (wording, english), count in counts.items():
            self.links[wording] += count
            self.english_links[english] += count
        self.words = {wording: _words(wording, lang) for wording in self.links}
        self.english_words = {english: tuple(english.split()) for english in self.english_links}
        self.join = "" if lang in _UNSPACED else " "
        self.function_words = self._function_words()
        self.articles, self.negations = self._translating(ARTICLES), self._translating(NEGATIONS)
        self.wholes = self._wholes()

    def pairs(self) -> list[Scored]:
        by_wording: dict[str, list[tuple[str, int]]] = {}
        for (wording, english), count in self.counts.items():
            if is_wording(wording) and is_wording(english):
                by_wording.setdefault(wording, []).append((english, count))
        pair_scores = []
        for wording, links in by_wording.items():
            links.sort(key=lambda link: (-link[1], link[0]))
            top_pairs = [pair for english, count in links if (pair := self._scored(wording, english, count))]
            if [pair.pair.english for pair in top_pairs] != [wording]:  # the same wording needs no dictionary
                pair_scores += top_pairs[: self.pruning.most]
        pair_scores += self._grammar(by_wording)
        return pair_scores

    def expressions(self, candidates: Iterable[Expression]) -> list[Scored]:
        """The pairs of fixed expressions."""
        by_wording: dict[str, list[Expression]] = {}
        for candidate in candidates:
            wording, english = candidate.wording, candidate.english
            if candidate.together < self.pruning.phrase * (candidate.wordings + 1):
                continue
            if is_wording(wording) and is_wording(english):
                self.words.setdefault(wording, _words(wording, self.lang))
                self.english_words.setdefault(english, tuple(english.split()))
                if self._is_fixed(wording, english):
                    by_wording.setdefault(wording, []).append(candidate)
        best = [link for links in by_wording.values() for link in self._best(links)]
        pairs = [self._expression(link) for link in best if not self._surrounded(link, by_wording)]
        return [pair for pair in pairs if pair]

    def _is_fixed(self, one: str, english: str) -> bool:
        """Whether a pair may be one of fixed expressions: not composed, no article or loose word at an end."""
        first, *_, last = self.english_words[english] * 2
        if first in ARTICLES or not self._english_core(english) or not self._negates(one, english):
            return False
        loose = last in ENGLISH_FUNCTION_WORDS and self.words[one][-1] not in self.function_words
        return not loose and last not in ARTICLES and not self._composed(one, english)

    def _best(self, links: Sequence[Expression]) -> list[Expression]:
        """The most frequent of a wording's links without those to a part of a better English wording, or to more."""
        best: list[Expression] = []
        for link in sorted(links, key=lambda link: (-link.together, -len(link.english))):
            words_of_link = f" {link.english} "
            longer = [more for more in links if words_of_link in f" {more.english} " and more.english != link.english]
            is_part = any(more.together >= _WHOLE * link.together for more in longer)
            if not is_part and not any(f" {less.english} " in words_of_link for less in best):
                best.append(link)
        return best[: self.pruning.most]

    def _surrounded(self, link: Expression, links: Mapping[str, Sequence[Expression]]) -> bool:
        """Whether a shorter wording, which is more frequent, has the same English one: "and in the end"."""
        form_words = self.words[link.wording]
        shorter = [form_words[a:b] for a in range(len(form_words)) for b in range(a + 2, len(form_words) + 1)]
        return any(
            other.english == link.english
            and other.wordings >= _OFTENER * link.wordings
            and other.together * link.wordings >= _WHOLE * link.together * other.wordings
            for part in shorter
            for other in links.get(self.join.join(part), ())
        )

    def _expression(self, link: Expression) -> Scored | None:
        """The pair of a link, if it is significant."""
        forward, backward = link.together / (link.wordings + 1), link.together / (link.englishes + 1)
        worth = likelihood_ratio(link.together, link.wordings, link.englishes, self.total)
        often = link.together >= 3 + self._edged(link.wording, link.english) and forward >= self.pruning.idiomatic
        pair = Pair(link.wording, link.english, forward, backward, often and backward >= self.pruning.least)
        return Scored(pair, worth) if worth >= self.pruning.significance else None

    def _grammar(self, by_wording: Mapping[str, Sequence[tuple[str, int]]]) -> list[Scored]:
        """The function words with the English ones that they usually stand for, so that phrases with them translate."""
        return [
            Scored(Pair(wording, english, count / self.links[wording], count / self.english_links[english]), worth)
            for wording in self.function_words & by_wording.keys()
            for english, count in by_wording[wording][: self.pruning.most]
            if english in ENGLISH_FUNCTION_WORDS and count >= _TRANSLATED * self.links[wording]
            for worth in [likelihood_ratio(count, self.links[wording], self.english_links[english], self.total)]
            if worth >= self.pruning.significance
        ]

    def _scored(self, one: str, english: str, count: int) -> Scored | None:
        """The pair with its probabilities and worth, or None if it does not stay."""
        is_attested = (one, english) in self.attested
        forward = (count + is_attested) / (self.links[one] + is_attested + 1)
        backward = (count + is_attested) / (self.english_links[english] + is_attested + 1)
        ratio = likelihood_ratio(count, self.links[one], self.english_links[english], self.total)
        worth = ratio * (2 if is_attested else 1)
        several = len(self.words[one]) > 1
        if several:
            stays = forward >= self.pruning.phrase and count + is_attested > 1 and self._negates(one, english)
            stays = stays and bool(self._core(one)) and bool(self._english_core(english))
            stays = stays and not self._only_articles(one, english, count)
        else:
            stays = self._stays(one, english, count, forward, is_attested)
        if not stays or worth < self.pruning.significance:
            return None
        unit = several and self._is_unit(Pair(one, english, forward, backward), count, is_attested, worth)
        return Scored(Pair(one, english, forward, backward, unit), worth / (self.pruning.share if several else 1))

    def _is_unit(self, pair: Pair, count: int, is_attested: bool, worth: float) -> bool:
        """Whether the words of a pair that stays are a unit."""
        one, english = pair.wording, pair.english
        if self._redundant(one, english, count):
            return False
        has_edges = self._edged(one, english)
        if self._composed(one, english):
            return not has_edges and worth >= self.pruning.composed * self.pruning.significance
        often = count >= 3 + has_edges and pair.forward >= self.pruning.idiomatic
        return is_attested or (often and pair.backward >= self.pruning.least)

    def _stays(self, one: str, english: str, count: int, forward: float, is_attested: bool) -> bool:
        """Whether the pair of a single word stays, if it is significant."""
        least = self.pruning.rare if count + is_attested == 2 else self.pruning.least
        counted_once = count + is_attested < 2 and not (self.pruning.hapaxes and self._hapax(one, english))
        if forward < least or counted_once or self._redundant(one, english, count):
            return False
        return count > 2 or is_attested or not self._edged(one, english)

    def _negates(self, one: str, english: str) -> bool:
        """Whether the English wording has a word of negation, if the other one has."""
        return self.negations.isdisjoint(self.words[one]) or not NEGATIONS.isdisjoint(self.english_words[english])

    def _only_articles(self, one: str, english: str, count: int) -> bool:
        """Whether a wording begins with an article without which it is as good a pair."""
        first, *rest = self.words[one]
        english_words = self.english_words[english]
        bare = self.join.join(rest), " ".join(english_words[english_words[0] in ARTICLES :])
        return first in self.articles and self.counts.get(bare, 0) >= _SHARE * count

    def _translating(self, english_words: Collection[str]) -> frozenset[str]:
        """The words whose most frequent translation is one of some English words."""
        most: dict[str, tuple[int, str]] = {}
        for (wording, english), count in self.counts.items():
            if len(self.words[wording]) == 1:
                most[wording] = max(most.get(wording, (0, "")), (count, english))
        return frozenset(word for word, (_, english) in most.items() if english in english_words)

    def _hapax(self, one: str, english: str) -> bool:
        """Whether the two are single words of some length, and the wording has no other link."""
        long = len(one) > 2 or self.join == ""
        return self.links[one] == 1 and long and len(self.words[one]) == len(self.english_words[english]) == 1

    def _redundant(self, one: str, english: str, count: int) -> bool:
        """Whether function words make up a side or surround a better pair, or the pair is a part of a better one."""
        core, english_core = self._core(one), self._english_core(english)
        if not core or not english_core:
            return True
        if (core, english_core) != (one, english) and any(
            self.counts.get(pair, 0) >= _SHARE * count
            for pair in ((core, english_core), (one, english_core), (core, english))
            if pair != (one, english)
        ):
            return True
        return self.wholes.get((one, english), 0) >= 0.5 * count

    def _core(self, one: str) -> str:
        return self.join.join(_trimmed(self.words[one], self.function_words))

    def _english_core(self, english: str) -> str:
        return " ".join(_trimmed(self.english_words[english], ENGLISH_FUNCTION_WORDS))

    def _edged(self, one: str, english: str) -> bool:
        """Whether a wording of the two begins or ends with a function word."""
        ends, english_ends = ({words[0], words[-1]} for words in (self.words[one], self.english_words[english]))
        return not (self.function_words.isdisjoint(ends) and ENGLISH_FUNCTION_WORDS.isdisjoint(english_ends))

    def _composed(self, one: str, english: str) -> bool:
        """Whether every content word of one side translates one of the other side."""
        wording_words = [word for word in self.words[one] if word not in self.function_words]
        english_parts = [word for word in self.english_words[english] if word not in ENGLISH_FUNCTION_WORDS]
        links = [(a, b) for a in wording_words for b in english_parts if self._translates(a, b)]
        return {a for a, _ in links} == set(wording_words) and {b for _, b in links} == set(english_parts)

    def _translates(self, one: str, english: str) -> bool:
        count = self.counts.get((one, english), 0)
        return count >= _TRANSLATED * min(self.links[one], self.english_links[english]) > 0

    def _function_words(self) -> frozenset[str]:
        """The words whose translations mostly are function words of English."""
        to_function_words: Counter[str] = Counter()
        for (wording, english), count in self.counts.items():
            if len(self.words[wording]) == 1 and ENGLISH_FUNCTION_WORDS.issuperset(self.english_words[english]):
                to_function_words[wording] += count
        return frozenset(
            wording
            for wording, count in to_function_words.items()
            if count >= max(_MOSTLY * self.links[wording], _FREQUENT)
        )

    def _wholes(self) -> Counter[tuple[str, str]]:
        """For each pair that is a part of longer ones, with content words left out, the links of the most frequent."""
        wholes: Counter[tuple[str, str]] = Counter()
        for (wording, english), count in self.counts.items():
            parts = _parts(self.words[wording], self.function_words)
            english_parts = _parts(self.english_words[english], ENGLISH_FUNCTION_WORDS)
            pairs = [(self.join.join(part), english) for part in parts]
            for pair in [*pairs, *((wording, " ".join(part)) for part in english_parts)]:
                if pair in self.counts:
                    wholes[pair] = max(wholes[pair], count)
        return wholes


def is_wording(text: str) -> bool:
    """Whether a text consists of words that begin with a letter and hold letters, marks, hyphens and apostrophes."""
    return all(word[:1].isalpha() and _spelt(word) for word in text.split(" "))


def _spelt(word: str) -> bool:
    return word.isalpha() or all(char.isalpha() or char in _JOINERS or category(char)[0] == "M" for char in word)


def _words(text: str, lang: str) -> tuple[str, ...]:
    if lang in _UNSPACED:
        return tuple(text[start:end] for start, end in words(text))
    return tuple(text.split())


def _trimmed(words: tuple[str, ...], function_words: frozenset[str]) -> tuple[str, ...]:
    """The words without function words at both ends."""
    content = [place for place, word in enumerate(words) if word not in function_words]
    return words[content[0] : content[-1] + 1] if content else ()


def _parts(words: tuple[str, ...], function_words: frozenset[str]) -> list[tuple[str, ...]]:
    """The shorter stretches of the words that lack at least one content word."""
    content = sum(word not in function_words for word in words)
    stretches = [words[a:b] for a in range(len(words)) for b in range(a + 1, len(words) + 1) if b - a < len(words)]
    return [part for part in stretches if 0 < sum(word not in function_words for word in part) < content]
