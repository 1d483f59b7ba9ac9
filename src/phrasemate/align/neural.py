"""Align words by the similarity of the encoder's token states, without training: SimAlign and awesome-align.

The vector of a word is its vector as a phrase, by the trained projection (pooling "head"). If the model has no head, or
for another layer than the last, it is the mean of the states of the word's tokens (pooling "mean").

Four methods link the words of a sentence pair with word vectors x_1..x_m and y_1..y_n. S (m, n) holds the similarities
of all pairs of words: cosines, except for ``softmax`` with pooling "mean".

- ``intersection`` (Jalili Sabet et al. 2020, "SimAlign", section 2.2, "Argmax"): i and j are linked if S[i, j] is the
  greatest value of its row and of its column.
- ``itermax`` (SimAlign, algorithm 1): ``intersection`` of S, then of S * M. M is 1 where both words are without a link,
  alpha where one is, and 0 where neither is. S is (1 + cosine) / 2, alpha is 0.9, with 2 iterations, as published.
- ``mwmf`` (SimAlign, "Match"): one-to-one links with the greatest sum of cosines. Each word of the shorter side has
  one.
- ``softmax`` (Dou and Neubig 2021, "Word Alignment by Fine-tuning Embeddings on Parallel Corpora", section 2.1): i and
  j are linked if the softmax of row i at j and the softmax of column j at i both exceed a threshold. With pooling
  "mean", S holds dot products. S is divided by a temperature. The paper links sub-words, then words that contain linked
  sub-words; here words are linked directly.

Two options change S for any method:

- ``units`` "subwords": the similarity of two words is that of their most similar pair of sub-words, as in both papers.
- ``ties``: S is increased by this factor times the similarity of the letters, which helps with names and numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from phrasemate.align.pairs import TokenizedSentence, check_pair
from phrasemate.align.symmetrise import Links, symmetrise
from phrasemate.encode import Model
from phrasemate.encode.pooling import pool_mean, token_rows, unit
from phrasemate.encode.runtime import States
from phrasemate.errors import InputError
from phrasemate.types import check_opened, to_plain
from phrasemate.utils import import_extra
from phrasemate.utils.arrays import Flags, Floats, Rows
from phrasemate.utils.machine import parts

METHODS = ("intersection", "itermax", "mwmf", "softmax")
UNITS = ("words", "subwords")
CHUNK = 512  # sentence pairs that are aligned at once: their word vectors take about 40 MB
WORDS = 30_000  # words of the longer sides in a batch; long sentences make the batches smaller
CELLS = 25_000_000  # maximum similarities of a sentence pair, e.g. 5,000 x 5,000 words: up to 600 MB

ALPHA = 0.9  # SimAlign, section 3.3
ITERATIONS = 2  # SimAlign, section 3.3
HEAD_THRESHOLD, HEAD_TEMPERATURE = 0.5, 0.05  # for pooling "head"; the head was trained with this temperature
THRESHOLD = 1e-3  # for pooling "mean"; awesome-align, section 3.1
GRAM = 3  # characters of an n-gram in `letter_likeness`
TEMPERATURE = 0.1  # for pooling "mean"; 1 in the paper, which links most words with e5: its states are shorter


class NeuralAligner:
    """Word aligner by the similarity of the encoder's token states; the module explains the methods.

    Args:
        model: Encoder.
        layer: Layer that gives the token states; None for the last.
        method: One of `METHODS`: "intersection", "itermax", "mwmf" or "softmax".
        symmetrisation: One of `SYMMETRISATIONS`, for the two directions of "intersection" or "softmax". None keeps the
            links on which both directions agree.
        threshold: Least probability of a link of "softmax"; None for the default of the pooling.
        temperature: Divisor of the similarities for "softmax": the smaller, the fewer links. None for the default of
            the pooling; the paper's is 1.
        pooling: "head" or "mean"; None for the head if the model has one and the last layer is used.
        units: What is compared, "words" or "subwords".
        ties: Weight of the similarity of letters, 0 to 1.

    Raises InputError for invalid settings, and MissingExtra for "mwmf" without SciPy.

    >>> from phrasemate import load_model
    >>> aligner = NeuralAligner(load_model())
    >>> aligner.align([(TokenizedSentence.of("Der Hund bellt."), TokenizedSentence.of("The dog barks."))])
    [[(0, 0), (1, 1), (2, 2)]]
    """

    def __init__(
        self,
        model: Model,
        layer: int | None = None,
        method: str = "intersection",
        symmetrisation: str | None = None,
        threshold: float | None = None,
        temperature: float | None = None,
        pooling: str | None = None,
        units: str = "words",
        ties: float = 0.0,
    ) -> None:
        check_opened(model, "a model, such as load_model(path)")
        if method not in METHODS or units not in UNITS:
            expected = f"a method of {', '.join(METHODS)} and units of {', '.join(UNITS)}"
            raise InputError(f"method {method!r}, units {units!r}; expected {expected}")
        if method in ("itermax", "mwmf") and symmetrisation is not None:
            raise InputError(f"{method} has no directions to symmetrise; use intersection or softmax")
        if not 0 <= to_plain("ties", ties, float) <= 1:
            raise InputError(f"ties {ties}; expected a number from 0 (letters do not count) to 1")
        if method == "mwmf":
            _optimize()  # raises MissingExtra now rather than after the first chunk
        uses_head = model.head is not None and layer is None
        if pooling not in (None, "mean", "head") or (pooling == "head" and not uses_head):
            raise InputError(f"pooling {pooling!r}; expected mean, or head for the last layer of a model with a head")
        self.pooling = pooling or ("head" if uses_head else "mean")
        usual = (HEAD_THRESHOLD, HEAD_TEMPERATURE) if self.pooling == "head" else (THRESHOLD, TEMPERATURE)
        threshold = to_plain("threshold", usual[0] if threshold is None else threshold, float)
        temperature = to_plain("temperature", usual[1] if temperature is None else temperature, float)
        if not (0 < threshold < 1 and temperature > 0):
            raise InputError(
                f"threshold {threshold}, temperature {temperature}; expected 0 < threshold < 1 and temperature > 0"
            )
        symmetrise([], [], symmetrisation or "union")  # raises InputError for an unknown name
        self.model, self.layer, self.method, self.symmetrisation = model, layer, method, symmetrisation
        self.threshold, self.temperature, self.chunk = threshold, temperature, CHUNK
        self.units, self.ties = units, ties

    @property
    def signature(self) -> dict[str, str]:
        """Return the settings that affect the links, by name."""
        facts = {"method": self.method, "symmetrisation": self.symmetrisation or "none", "model": self.model.hash}
        facts |= {"layer": "last" if self.layer is None else str(self.layer), "pooling": self.pooling}
        if self.method == "softmax":
            facts |= {"threshold": str(self.threshold), "temperature": str(self.temperature)}
        facts |= {"units": self.units} if self.units != "words" else {}
        return facts | ({"ties": str(self.ties)} if self.ties else {})

    def align(self, pairs: Sequence[tuple[TokenizedSentence, TokenizedSentence]]) -> list[Links]:
        """Return the links of each sentence pair.

        A pair with more than 25 million word pairs gets no links, because it is certainly not a pair of sentences.
        Raises InputError for texts instead of tokenized sentences.
        """
        if self.symmetrisation is not None:
            return [symmetrise(*pair, self.symmetrisation) for pair in self.directions(pairs)]
        undirected: Callable[[Floats], Flags] | None = {"itermax": itermax, "mwmf": mwmf}.get(self.method)
        link = undirected or (lambda values: np.logical_and(*self._directed(values)))
        return [_links(link(values)) for values in self._similarities(pairs)]

    def directions(self, pairs: Sequence[tuple[TokenizedSentence, TokenizedSentence]]) -> list[tuple[Links, Links]]:
        """Return forward and reverse links of each sentence pair, both as (source word, target word).

        The forward links are each source word's choice among the target words, the reverse links each target word's
        choice. Raises InputError for ``itermax`` and ``mwmf``, which have no directions.
        """
        if self.method in ("itermax", "mwmf"):
            raise InputError(f"{self.method} has no directions; use intersection or softmax")
        masks = map(self._directed, self._similarities(pairs))
        return [(_links(forward), _links(reverse)) for forward, reverse in masks]

    def _directed(self, similarity: Floats) -> tuple[Flags, Flags]:
        """Return the forward and the reverse links as masks (m, n), by a similarity matrix (m, n)."""
        if self.method == "softmax":
            return softmax(similarity / self.temperature, self.threshold)
        return _best(similarity), _best(similarity.T).T

    def learn(self, aligned: Iterable[tuple[TokenizedSentence, TokenizedSentence, Links]]) -> None:
        """Do nothing: each sentence pair is aligned independently of all others."""

    def _similarities(self, pairs: Sequence[tuple[TokenizedSentence, TokenizedSentence]]) -> Iterator[Floats]:
        """Yield the similarities (source words, target words) of each pair; (0, 0) if there are more than CELLS.

        They are dot products for softmax with pooling "mean", else cosines. Batches are bounded, because the vectors of
        a chunk of long sentences would take gigabytes.
        """
        for batch in parts(map(_bounded, pairs), _longer_side, WORDS, self.chunk):
            sources, targets = (self._vectors([pair[side] for pair in batch]) for side in (0, 1))
            for pair, (source, firsts), (target, other_firsts) in zip(batch, sources, targets, strict=True):
                values = source @ target.T
                if self.units == "subwords" and values.size:
                    values = np.maximum.reduceat(np.maximum.reduceat(values, firsts, 0), other_firsts, 1)
                yield values + self.ties * letter_likeness(*pair) if self.ties else values

    def _vectors(self, sentences: Sequence[TokenizedSentence]) -> list[tuple[Floats, Rows]]:
        """Return, for each sentence, the vectors of its words or sub-words, and the first row (words,) of each word."""
        arguments = self.model, sentences, self.layer, self.pooling
        if self.units == "words":
            rows = [(vectors, np.arange(len(vectors))) for vectors in word_vectors(*arguments)]
        else:
            rows = subword_vectors(*arguments)
        if self.method == "softmax" and self.pooling == "mean":
            return rows
        return [(unit(vectors), firsts) for vectors, firsts in rows]


def _bounded(pair: tuple[TokenizedSentence, TokenizedSentence]) -> tuple[TokenizedSentence, TokenizedSentence]:
    """Return the pair, or two empty sentences if it has more than CELLS pairs of words."""
    check_pair(pair)
    fits = len(pair[0].spans) * len(pair[1].spans) <= CELLS
    return pair if fits else (TokenizedSentence("", []), TokenizedSentence("", []))


def _longer_side(pair: tuple[TokenizedSentence, TokenizedSentence]) -> int:
    """Count the words of the longer side."""
    return max(len(side.spans) for side in pair)


def word_vectors(
    model: Model, sentences: Sequence[TokenizedSentence], layer: int | None = None, pooling: str = "mean"
) -> list[Floats]:
    """Return the word vectors of each sentence.

    With pooling "mean" (words, width): the mean of the states of the tokens that overlap the word, at ``layer`` (None
    for the last). With pooling "head" (words, dim): the word's vector as a phrase, if the model has a head.
    """
    pool = pool_mean if pooling == "mean" or model.head is None else model.head
    word_rows: list[Floats] = []
    for states, rows in _word_rows(model, sentences, layer):
        first, last = (np.concatenate(side) for side in zip(*rows, strict=True))
        vectors = pool(states.values, first, last)
        word_rows += np.split(vectors, np.cumsum([len(firsts) for firsts, _ in rows])[:-1])
    return word_rows


def subword_vectors(
    model: Model, sentences: Sequence[TokenizedSentence], layer: int | None = None, pooling: str = "mean"
) -> list[tuple[Floats, Rows]]:
    """Return, for each sentence, the vectors (tokens, width) of its words' tokens and each word's first row (words,).

    The tokens of the first word come first, and so on. A token that overlaps two words comes twice. ``layer`` and
    ``pooling`` are as for `word_vectors`.
    """
    pool = pool_mean if pooling == "mean" or model.head is None else model.head
    token_vectors: list[tuple[Floats, Rows]] = []
    for states, rows in _word_rows(model, sentences, layer):
        counts = [last + 1 - first for first, last in rows]
        bounds = [np.concatenate([[0], np.cumsum(count)]) for count in counts]
        tokens = [
            np.repeat(first - bound[:-1], count) + np.arange(bound[-1])
            for (first, _), count, bound in zip(rows, counts, bounds, strict=True)
        ]
        numbers = np.concatenate(tokens).astype(np.int64)
        vectors = np.split(pool(states.values, numbers, numbers), np.cumsum([bound[-1] for bound in bounds])[:-1])
        token_vectors += [(text_vectors, bound[:-1]) for text_vectors, bound in zip(vectors, bounds, strict=True)]
    return token_vectors


def _word_rows(
    model: Model, sentences: Sequence[TokenizedSentence], layer: int | None
) -> Iterator[tuple[States, list[tuple[Rows, Rows]]]]:
    """Yield the states of a block of sentences and, for each sentence, the rows of its words' first and last tokens."""
    for part, states in model.runtime.blocks([sentence.text for sentence in sentences], layer):
        spans = [np.array(sentence.spans, np.int32).reshape(-1, 2) for sentence in sentences[part]]
        yield states, [token_rows(states, text, *spans_of_text.T) for text, spans_of_text in enumerate(spans)]


def letter_likeness(source: TokenizedSentence, target: TokenizedSentence) -> Floats:
    """Return the letter similarity of each pair of words, (source words, target words), from 0 to 1.

    It is the Dice coefficient of their sets of character trigrams. Words are case-folded and padded with spaces.
    """
    grams, target_grams = ([_grams(word) for word in side.words()] for side in (source, target))
    shares = [
        [2 * len(gram_set & target_set) / (len(gram_set) + len(target_set)) for target_set in target_grams]
        for gram_set in grams
    ]
    return np.array(shares, np.float32).reshape(len(grams), len(target_grams))


def _grams(word: str) -> set[str]:
    """Return the character trigrams of a word."""
    text = f" {word.casefold()} "
    return {text[at : at + GRAM] for at in range(len(text) - GRAM + 1)}


def intersection(similarity: Floats) -> Flags:
    """Return a mask (m, n) of links by similarities (m, n): pairs that are argmax of both row and column.

    This is "Argmax" of SimAlign (Jalili Sabet et al. 2020, section 2.2).
    """
    mask: Flags = _best(similarity) & _best(similarity.T).T
    return mask


def itermax(similarity: Floats, alpha: float = ALPHA, iterations: int = ITERATIONS) -> Flags:
    """Return a mask (m, n) of links by cosines (m, n): iterated argmax (SimAlign, algorithm 1).

    ``alpha`` is the factor of similarities where one of the two words has a link.
    """
    positive: Floats = np.divide(1 + similarity, 2, dtype=np.float32)
    links = intersection(positive)
    for _ in range(iterations - 1):
        has_link = [links.any(axis=axis, keepdims=True).astype(np.int8) for axis in (0, 1)]  # (1, n), (m, 1)
        free = 2 - has_link[0] - has_link[1]  # (m, n): number of words without a link, of each pair
        weight = np.array([0, alpha, 1], np.float32)[free]
        new: Flags = np.logical_and(intersection(positive * weight), free > 0)
        if not new.any():
            break
        links = np.logical_or(links, new)
    return links


def mwmf(similarity: Floats) -> Flags:
    """Return a mask (m, n) of links by cosines (m, n): the one-to-one assignment of the greatest sum.

    This is "Match" of SimAlign. Raises MissingExtra without SciPy.
    """
    links = np.zeros(similarity.shape, np.bool_)
    if similarity.size:
        links[_optimize().linear_sum_assignment(similarity, maximize=True)] = True
    return links


def _optimize() -> Any:
    """Import scipy.optimize. Raises MissingExtra without SciPy."""
    return import_extra("scipy.optimize", "scipy", "match")


def softmax(products: Floats, threshold: float = THRESHOLD) -> tuple[Flags, Flags]:
    """Return masks (m, n) of forward and reverse links by dot products (m, n) (awesome-align, eq. 1).

    The alignment of the paper is their intersection.
    """
    return _softmax(products, 1) > threshold, _softmax(products, 0) > threshold


def _softmax(values: Floats, axis: int) -> Floats:
    """Compute the softmax along an axis of a matrix, which may be empty."""
    if not values.size:
        return values
    powers = np.exp(values - values.max(axis=axis, keepdims=True))
    shares: Floats = powers / powers.sum(axis=axis, keepdims=True)
    return shares


def _best(values: Floats) -> Flags:
    """Return a mask that marks the first maximum of each row."""
    mask = np.zeros(values.shape, np.bool_)
    if values.size:
        mask[np.arange(len(values)), values.argmax(axis=1)] = True
    return mask


def _links(mask: Flags) -> Links:
    """Convert a mask (source words, target words) to links."""
    return [(int(source), int(target)) for source, target in np.argwhere(mask)]
