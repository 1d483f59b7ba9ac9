"""Word links from the encoder's token states, without training: SimAlign and awesome-align on our own runtime.

A word's vector is that of the word as a phrase, by the trained projection (``head``). Where the model has none, or
another layer than the last is used, it is the ``mean`` of the states of its tokens. Of a sentence pair with word
vectors x_1..x_m and y_1..y_n:

- ``intersection`` (Jalili Sabet et al. 2020, "SimAlign", section 2.2, "Argmax"): i and j are linked where
  j = argmax_l s(x_i, y_l) and i = argmax_l s(x_l, y_j), s being the cosine.
- ``itermax`` (the same, algorithm 1): the argmax links, then again the argmax links of S * M, for every pair of which
  one word at least is still free: M = 1 where both words are free, alpha where one is, 0 where none is.
  S is (1 + cosine) / 2, alpha 0.9, 2 iterations, as published.
- ``mwmf`` (the same, "Match"): the links of which no word has two and whose cosines sum to the most; every word of the
  shorter side has one.
- ``softmax`` (Dou and Neubig 2021, "Word Alignment by Fine-tuning Embeddings on Parallel Corpora", section 2.1): with
  S = X Y^T (dot products), i and j are linked where softmax over l of S[i, l] at j and softmax over l of S[l, j] at i
  both exceed a threshold, 1e-3. They do it on sub-words and link words of which any sub-words are linked; here it
  is done on the words, and S is divided by a temperature (docs/how-to/align.md). With ``head``, S are cosines.

Two more things can decide about S, with any method:

- ``units`` "subwords": a pair of words counts as its most similar pair of sub-words, as in both papers.
- ``ties``: so many times the likeness of the letters is added, for names and numbers that hardly have a meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from phrasemate.align.pairs import TokenizedSentence
from phrasemate.align.symmetrise import Links, symmetrise
from phrasemate.encode import Model
from phrasemate.encode.pooling import pool_mean, token_rows, unit
from phrasemate.encode.runtime import States
from phrasemate.errors import InputError
from phrasemate.types import check_opened
from phrasemate.utils import import_extra
from phrasemate.utils.arrays import Flags, Floats, Rows
from phrasemate.utils.machine import parts

METHODS = ("intersection", "itermax", "mwmf", "softmax")
UNITS = ("words", "subwords")
CHUNK = 512  # sentence pairs: their word vectors take some 40 MB
WORDS = 30_000  # of a side whose vectors are held at once: of long lines fewer pairs are
CELLS = 25_000_000  # similarities of a pair, e.g. of 5,000 words with as many: up to 600 MB while it is linked

ALPHA = 0.9  # SimAlign, section 3.3
ITERATIONS = 2  # SimAlign, section 3.3
HEAD_THRESHOLD, HEAD_TEMPERATURE = 0.5, 0.05  # of the head's cosines; the temperature is that of its training
THRESHOLD = 1e-3  # awesome-align, section 3.1
GRAM = 3  # letters of a run whose sets are compared
TEMPERATURE = 0.1  # theirs is 1; e5's states are shorter than mBERT's (products of 20 to 30), and 1 would link most


class NeuralAligner:
    """Word aligner by the similarity of token states; see the module for the methods.

    ``layer`` None is the model's last. ``symmetrisation`` None: the method's own (both directions agree); else one of
    `SYMMETRISATIONS`, over the two directions of ``intersection`` or ``softmax``. ``temperature`` divides the dot
    products of ``softmax``: 1 is as published, less links fewer words; it and ``threshold`` have a default for each
    pooling. ``pooling``: "head" or "mean", by default the head where there is one. ``units``: what is compared, "words"
    or "subwords"; ``ties``: the weight of alike letters (see the module).
    Raises InputError for invalid settings, and MissingExtra for ``mwmf`` without SciPy.

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
            reason = f"one of {', '.join(METHODS)} and of {', '.join(UNITS)}"
            raise InputError(f"method {method!r} of {units!r}; expected {reason}")
        if method in ("itermax", "mwmf") and symmetrisation is not None:
            raise InputError(f"{method} has no directions to symmetrise; take intersection or softmax")
        if not 0 <= ties <= 1:
            raise InputError(f"ties {ties}; expected 0 (letters do not count) to 1")
        if method == "mwmf":
            _optimize()  # refused now, not after the first chunk
        uses_head = model.head is not None and layer is None
        if pooling not in (None, "mean", "head") or (pooling == "head" and not uses_head):
            raise InputError(f"pooling {pooling!r}: expected mean, or head for the last layer of a model that has one")
        self.pooling = pooling or ("head" if uses_head else "mean")
        usual = (HEAD_THRESHOLD, HEAD_TEMPERATURE) if self.pooling == "head" else (THRESHOLD, TEMPERATURE)
        threshold = usual[0] if threshold is None else threshold
        temperature = usual[1] if temperature is None else temperature
        if not (0 < threshold < 1 and temperature > 0):
            raise InputError(
                f"threshold {threshold}, temperature {temperature}; expected 0 < threshold < 1, more than 0"
            )
        symmetrise([], [], symmetrisation or "union")  # refuses an unknown name now, not after the first chunk
        self.model, self.layer, self.method, self.symmetrisation = model, layer, method, symmetrisation
        self.threshold, self.temperature, self.chunk = threshold, temperature, CHUNK
        self.units, self.ties = units, ties

    @property
    def signature(self) -> dict[str, str]:
        """Name the settings that decide about the links."""
        facts = {"method": self.method, "symmetrisation": self.symmetrisation or "none", "model": self.model.hash}
        facts |= {"layer": "last" if self.layer is None else str(self.layer), "pooling": self.pooling}
        if self.method == "softmax":
            facts |= {"threshold": str(self.threshold), "temperature": str(self.temperature)}
        facts |= {"units": self.units} if self.units != "words" else {}
        return facts | ({"ties": str(self.ties)} if self.ties else {})

    def align(self, pairs: Sequence[tuple[TokenizedSentence, TokenizedSentence]]) -> list[Links]:
        """The links of each sentence pair; one pass of the encoder for each side of a chunk.

        None where one side's words times the other's are more than 25 million: that is not a sentence pair.
        """
        if self.symmetrisation is not None:
            return [symmetrise(*pair, self.symmetrisation) for pair in self.directions(pairs)]
        undirected: Callable[[Floats], Flags] | None = {"itermax": itermax, "mwmf": mwmf}.get(self.method)
        link = undirected or (lambda values: np.logical_and(*self._directed(values)))
        return [_links(link(values)) for values in self._similarities(pairs)]

    def directions(self, pairs: Sequence[tuple[TokenizedSentence, TokenizedSentence]]) -> list[tuple[Links, Links]]:
        """Align each sentence pair in both directions, as (source word, target word).

        Forward: what each source word chooses among the target words; reverse: what each target word chooses.
        Raises InputError for ``itermax`` and ``mwmf``, which have none.
        """
        if self.method in ("itermax", "mwmf"):
            raise InputError(f"{self.method} has no directions; take intersection or softmax")
        masks = map(self._directed, self._similarities(pairs))
        return [(_links(forward), _links(reverse)) for forward, reverse in masks]

    def _directed(self, similarity: Floats) -> tuple[Flags, Flags]:
        """(m, n) links of either direction: what each source word chooses, and what each target word chooses."""
        if self.method == "softmax":
            return softmax(similarity / self.temperature, self.threshold)
        return _best(similarity), _best(similarity.T).T

    def learn(self, aligned: Iterable[tuple[TokenizedSentence, TokenizedSentence, Links]]) -> None:
        """Nothing to learn: each sentence pair is aligned by itself."""

    def _similarities(self, pairs: Sequence[tuple[TokenizedSentence, TokenizedSentence]]) -> Iterator[Floats]:
        """(source words, target words) of each pair: dot products of states for softmax, else cosines.

        One after the other: of long sentences, those of a whole chunk would take gigabytes. (0, 0) where a pair alone
        would.
        """
        for batch in parts(map(_bounded, pairs), _longer, WORDS, self.chunk):
            sources, targets = (self._vectors([pair[side] for pair in batch]) for side in (0, 1))
            for pair, (source, firsts), (target, other_firsts) in zip(batch, sources, targets, strict=True):
                values = source @ target.T
                if self.units == "subwords" and values.size:
                    values = np.maximum.reduceat(np.maximum.reduceat(values, firsts, 0), other_firsts, 1)
                yield values + self.ties * letter_likeness(*pair) if self.ties else values

    def _vectors(self, sentences: Sequence[TokenizedSentence]) -> list[tuple[Floats, Rows]]:
        """What is compared of each sentence, and where each of its words begins in it."""
        arguments = self.model, sentences, self.layer, self.pooling
        if self.units == "words":
            rows = [(vectors, np.arange(len(vectors))) for vectors in word_vectors(*arguments)]
        else:
            rows = subword_vectors(*arguments)
        if self.method == "softmax" and self.pooling == "mean":
            return rows
        return [(unit(vectors), firsts) for vectors, firsts in rows]


def _bounded(pair: tuple[TokenizedSentence, TokenizedSentence]) -> tuple[TokenizedSentence, TokenizedSentence]:
    """The pair, without its words if they have too many similarities."""
    few = len(pair[0].spans) * len(pair[1].spans) <= CELLS
    return pair if few else (TokenizedSentence("", []), TokenizedSentence("", []))


def _longer(pair: tuple[TokenizedSentence, TokenizedSentence]) -> int:
    """Words of the longer side."""
    return max(len(side.spans) for side in pair)


def word_vectors(
    model: Model, sentences: Sequence[TokenizedSentence], layer: int | None = None, pooling: str = "mean"
) -> list[Floats]:
    """(words, width) for each sentence: the mean of the states of the tokens that a word overlaps.

    With pooling "head" (words, dim): the word's vector as a phrase.
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
    """For each sentence (tokens, width) of the tokens that its words overlap, word after word; and where each word
    begins among them.
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
    """Some sentences' states, and of each sentence the rows of its words' first and last tokens."""
    for part, states in model.runtime.blocks([sentence.text for sentence in sentences], layer):
        spans = [np.array(sentence.spans, np.int32).reshape(-1, 2) for sentence in sentences[part]]
        yield states, [token_rows(states, text, *spans_of_text.T) for text, spans_of_text in enumerate(spans)]


def letter_likeness(source: TokenizedSentence, target: TokenizedSentence) -> Floats:
    """(source words, target words): the Dice coefficients of their sets of runs of three letters, borders included."""
    grams, target_grams = ([_grams(word) for word in side.words()] for side in (source, target))
    shares = [
        [2 * len(gram_set & target_set) / (len(gram_set) + len(target_set)) for target_set in target_grams]
        for gram_set in grams
    ]
    return np.array(shares, np.float32).reshape(len(grams), len(target_grams))


def _grams(word: str) -> set[str]:
    text = f" {word.casefold()} "
    return {text[at : at + GRAM] for at in range(len(text) - GRAM + 1)}


def intersection(similarity: Floats) -> Flags:
    """(m, n) similarities -> (m, n) links: each the other's argmax (SimAlign, "Argmax")."""
    mask: Flags = _best(similarity) & _best(similarity.T).T
    return mask


def itermax(similarity: Floats, alpha: float = ALPHA, iterations: int = ITERATIONS) -> Flags:
    """(m, n) cosines -> (m, n) links by iterated argmax (SimAlign, algorithm 1)."""
    positive: Floats = np.divide(1 + similarity, 2, dtype=np.float32)
    links = intersection(positive)
    for _ in range(iterations - 1):
        has_link = [links.any(axis=axis, keepdims=True).astype(np.int8) for axis in (0, 1)]  # (1, n), (m, 1)
        free = 2 - has_link[0] - has_link[1]  # (m, n): how many of the two words
        weight = np.array([0, alpha, 1], np.float32)[free]
        new: Flags = np.logical_and(intersection(positive * weight), free > 0)
        if not new.any():
            break
        links = np.logical_or(links, new)
    return links


def mwmf(similarity: Floats) -> Flags:
    """(m, n) cosines -> (m, n) links of the assignment with the largest sum (SimAlign, "Match")."""
    links = np.zeros(similarity.shape, np.bool_)
    if similarity.size:
        links[_optimize().linear_sum_assignment(similarity, maximize=True)] = True
    return links


def _optimize() -> Any:
    return import_extra("scipy.optimize", "scipy", "match")


def softmax(products: Floats, threshold: float = THRESHOLD) -> tuple[Flags, Flags]:
    """(m, n) dot products -> (m, n) links of the two directions (awesome-align, eq. 1); the alignment is where both."""
    return _softmax(products, 1) > threshold, _softmax(products, 0) > threshold


def _softmax(values: Floats, axis: int) -> Floats:
    if not values.size:
        return values
    powers = np.exp(values - values.max(axis=axis, keepdims=True))
    shares: Floats = powers / powers.sum(axis=axis, keepdims=True)
    return shares


def _best(values: Floats) -> Flags:
    """True at the first maximum of each row."""
    mask = np.zeros(values.shape, np.bool_)
    if values.size:
        mask[np.arange(len(values)), values.argmax(axis=1)] = True
    return mask


def _links(chosen: Flags) -> Links:
    return [(int(source), int(target)) for source, target in np.argwhere(chosen)]
