"""Score sentence pairs by whether their words translate each other, according to the lexicon and to word vectors.

Sentence vectors hardly distinguish "Dutch language package" from "Estonian language package", but words do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from phrasemate import __version__
from phrasemate.align import TokenizedSentence
from phrasemate.align.neural import word_vectors
from phrasemate.encode import Model
from phrasemate.encode.pooling import unit
from phrasemate.lexicon import InducedLexicon
from phrasemate.lexicon.inflection import ENGLISH_FUNCTION_WORDS, stem
from phrasemate.text import folded, words
from phrasemate.text.languages import primary
from phrasemate.types import PhrasePair
from phrasemate.utils.arrays import Floats

_FORMS, _TEXTS = 100_000, 20_000  # words and sentences whose stems are cached
_UNKNOWN = 0.5  # match of an unlisted word without an equal in the other sentence, and of a sentence without words
_POWER = 0.25  # exponent of the ratio of a probability to the highest one


class _Word(NamedTuple):
    """English stems of a word's equivalents, each with a share up to 1, and whether the lexicon lists the word."""

    stems: dict[str, float]
    is_listed: bool


class LexiconMatch:
    """Scorer of sentence pairs by the words that the lexicon lists as translations of each other.

    Each word is mapped to the English stems of its equivalents. The share of a stem is (its probability / that of the
    most probable equivalent) ** 0.25. The match of a word is the highest share that it has in common with a word of
    the other sentence. A word that the lexicon does not list counts as its own stem, and has a match of 0.5 if the
    other sentence lacks it. Function words are ignored. The score is the mean match of the words, averaged over both
    sentences, from 0 to 1. A sentence without words has a mean match of 0.5.

    >>> from phrasemate.lexicon import bundled_lexicon
    >>> match = LexiconMatch(bundled_lexicon(), ("de", "en"))
    >>> scores = match.score([("Der Hund schläft.", "The dog sleeps."), ("Der Hund schläft.", "The door is open.")])
    >>> bool(scores[0] > scores[1])
    True
    """

    def __init__(self, lexicon: InducedLexicon, languages: tuple[str, str]) -> None:
        self.languages = languages
        self._lexicon = lexicon
        self._read = lru_cache(_TEXTS)(self._words_of)
        self._word = lru_cache(_FORMS)(self._stems)

    def score(self, pairs: Iterable[tuple[str, str]]) -> Floats:
        """Score (source, target) texts: (pairs,) float32."""
        sides = (self._sides(*pair) for pair in pairs)
        return np.array(
            [(_mean_match(source, target) + _mean_match(target, source)) / 2 for source, target in sides], np.float32
        )

    def matches(self, source: str, target: str) -> tuple[Floats, Floats]:
        """Return the match of each word of two texts, (words,) each; NaN for a function word, 0 for no match."""
        source_words, target_words = self._sides(source, target)
        return _best_shares(source_words, target_words), _best_shares(target_words, source_words)

    def _sides(self, source: str, target: str) -> tuple[list[_Word | None], list[_Word | None]]:
        """Return the words of two texts, None for a function word."""
        return self._read(source, self.languages[0]), self._read(target, self.languages[1])

    def _words_of(self, text: str, language: str) -> list[_Word | None]:
        """Return the words of a text, None for a function word."""
        return [self._word(folded(text[start:end]), language) for start, end in words(text)]

    def _stems(self, form: str, language: str) -> _Word | None:
        """Return the English stems of a folded word; None for a function word."""
        if language == "en":
            return None if form in ENGLISH_FUNCTION_WORDS else _Word({stem(form, "en"): 1.0}, True)
        equivalents = self._lexicon.equivalents(form, language, "en")
        if not equivalents:
            return _Word({stem(form, "en"): 1.0}, False)
        likeliest = equivalents[0]
        if ENGLISH_FUNCTION_WORDS.issuperset(likeliest.text.split()):
            return None
        stems: dict[str, float] = {}
        for equivalent in equivalents:
            share = (equivalent.weight / likeliest.weight) ** _POWER
            for word in equivalent.text.split():
                if word not in ENGLISH_FUNCTION_WORDS:
                    name = stem(word, "en")
                    stems[name] = max(stems.get(name, 0.0), share)
        return _Word(stems, True)


def _best_shares(side: Sequence[_Word | None], other: Sequence[_Word | None]) -> Floats:
    """Return the highest share of each word in common with a word of the other sentence, (words,); NaN for None."""
    shares: dict[str, float] = {}
    for word in filter(None, other):
        for name, share in word.stems.items():
            shares[name] = max(shares.get(name, 0.0), share)
    values = [
        np.nan
        if word is None
        else max([min(word.stems[name], shares[name]) for name in word.stems.keys() & shares.keys()], default=0.0)
        for word in side
    ]
    return np.array(values, np.float32)


def _mean_match(side: Sequence[_Word | None], other: Sequence[_Word | None]) -> float:
    """Return the mean match of a sentence's words with those of the other sentence."""
    best_shares = _best_shares(side, other).tolist()
    matches = [
        share or (0.0 if word.is_listed else _UNKNOWN)
        for word, share in zip(side, best_shares, strict=True)
        if word is not None
    ]
    return sum(matches) / len(matches) if matches else _UNKNOWN


def lexicon_match(
    lexicon: InducedLexicon | None, languages: Sequence[str], samples: Sequence[Sequence[str]]
) -> LexiconMatch | None:
    """Make the scorer for two languages; None if the lexicon lacks one of them, or both are the same.

    Args:
        lexicon: Lexicon, None if there is none.
        languages: Codes of the source and the target language; "" to identify it from the sample.
        samples: Sentences of the source and of the target.
    """
    if lexicon is None:
        return None
    source, target = (
        primary(language) or _language_of(lexicon, sample) for language, sample in zip(languages, samples, strict=True)
    )
    if source == target or not {source, target} <= {"en", *lexicon.languages}:
        return None
    return LexiconMatch(lexicon, (source, target))


def _language_of(lexicon: InducedLexicon, texts: Sequence[str]) -> str:
    """Return the language of more than half of the texts; "" if there is none."""
    counts = Counter(lexicon.languages_of(texts))
    language, count = counts.most_common(1)[0] if counts else ("", 0)
    return language if 2 * count > counts.total() else ""


_CHUNK = 512  # sentences whose words are encoded together


class WordMatch:
    """Scorer of sentence pairs by the words that match worst.

    The vector of a word is that of the word as a phrase in its sentence. Its match is the highest cosine with a word of
    the other sentence, or its match in the lexicon if that is higher. The score is the mean match of the worst quarter
    of the words, averaged over both sentences. With a lexicon, function words are ignored, and a sentence without
    other words counts 0.5. The score is 0 if a sentence has no words at all.

    Args:
        model: Encoder of the words.
        lexicon: Match by the lexicon; None for vectors alone.
    """

    def __init__(self, model: Model, lexicon: LexiconMatch | None = None) -> None:
        self._model, self._lexicon = model, lexicon
        self.signature = f"words {model.hash}"
        if lexicon is not None:
            self.signature += f" {__version__} {' '.join(lexicon.languages)}"

    def score(self, pairs: Sequence[PhrasePair]) -> Floats:
        """Score pairs of sentences: (pairs,) float32."""
        sources, targets = ([getattr(pair, side).text for pair in pairs] for side in ("source", "target"))
        source_vectors, target_vectors = self._vectors(sources), self._vectors(targets)
        scores = [
            self._match(source, target, source_vectors[source] @ target_vectors[target].T)
            for source, target in zip(sources, targets, strict=True)
        ]
        return np.array(scores, np.float32)

    def _match(self, source: str, target: str, cosines: Floats) -> float:
        """Score two texts by the cosines of their words, (words of source, words of target)."""
        if not cosines.size:
            return 0.0
        sides: Sequence[Floats] = (cosines.max(1), cosines.max(0))
        if self._lexicon is not None:
            # NaN, for a function word, stays NaN
            sides = [np.maximum(*both) for both in zip(sides, self._lexicon.matches(source, target), strict=True)]
        return sum(low_quarter(side[~np.isnan(side)]) for side in sides) / 2

    def _vectors(self, texts: Iterable[str]) -> dict[str, Floats]:
        """Map each distinct text to the unit vectors of its words, (words, dim)."""
        vectors_of: dict[str, Floats] = {}
        different = sorted(set(texts), key=len)
        for at in range(0, len(different), _CHUNK):
            block = different[at : at + _CHUNK]
            vectors = word_vectors(self._model, [TokenizedSentence.of(text) for text in block], None, "head")
            vectors_of |= zip(block, map(unit, vectors), strict=True)
        return vectors_of


def low_quarter(matches: Floats) -> float:
    """Return the mean of the lowest quarter of some words' matches, (words,); `_UNKNOWN` without words."""
    if not len(matches):
        return _UNKNOWN
    return float(np.sort(matches)[: max(1, len(matches) // 4)].mean())
