"""Pooling of token states to one vector per span or sentence: `mean`, `ends`, `cls`, and the learned `head`.

A span is given by the rows of its first and last token, both inclusive.

`by_examples` encodes a phrase given without a context by sentences that contain it (Zheng et al., "Cross-Lingual Phrase
Retrieval", XPR, ACL 2022, section 3.1). In each sentence, the states of the phrase's tokens are averaged (eq. 1); these
vectors are averaged over the sentences (eq. 2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from phrasemate.encode.runtime import States
from phrasemate.errors import InputError
from phrasemate.types import Phrase
from phrasemate.utils.arrays import Floats, Ids, Rows

if TYPE_CHECKING:
    from phrasemate.encode.model import Model

POOLINGS = ("cls", "ends", "head", "mean")
PLACES = ("pooled", "tokens")  # where a `MeanHead` projects

CHUNK = 2_048  # vectors computed at once: at 1.5 MB, they fit into the processor's cache


class PhraseHead(Protocol):
    """Protocol of a trained projection of phrases to ``dim`` numbers, used by the pooling ``head``.

    A call is ``after(before(...))``. To encode a phrase by several contexts, the outputs of ``before`` are averaged and
    the mean goes through ``after`` (XPR, eq. 2).
    """

    @property
    def dim(self) -> int: ...

    def __call__(self, values: Floats, first: Rows, last: Rows) -> Floats:
        """Project spans: (tokens, width) states, (spans,) rows of the ends -> (spans, dim), not normalised."""

    def unit(self, values: Floats, first: Rows, last: Rows, threads: int = 1) -> Floats:
        """Project spans and scale the vectors to unit length."""

    def before(self, values: Floats, first: Rows, last: Rows) -> Floats:
        """Compute the vectors that are averaged over the contexts of a phrase: (spans, n)."""

    def after(self, vectors: Floats) -> Floats:
        """Project averages: (phrases, n) -> (phrases, dim), not normalised."""


class Head(NamedTuple):
    """Linear projection of a span's two ends (CCPR, section 5.1, eq. 1): W [H_start ; H_end] + b.

    ``start`` and ``end`` (width, dim) are the two halves of W; ``bias`` (dim,) is b. The map is linear, so each token
    is projected once as a start and once as an end, and each span costs one addition.
    """

    start: Floats
    end: Floats
    bias: Floats

    @property
    def dim(self) -> int:
        return len(self.bias)

    def __call__(self, values: Floats, first: Rows, last: Rows) -> Floats:
        """As in `PhraseHead`."""
        return self._project(values, first, last, lambda vectors: None, 1)

    def before(self, values: Floats, first: Rows, last: Rows) -> Floats:
        """As in `PhraseHead`: the whole projection, since it is linear."""
        return self(values, first, last)

    def after(self, vectors: Floats) -> Floats:
        """As in `PhraseHead`."""
        return vectors

    def unit(self, values: Floats, first: Rows, last: Rows, threads: int = 1) -> Floats:
        """As in `PhraseHead`; each chunk is scaled while it is in the cache, on ``threads`` threads."""
        return self._project(values, first, last, lambda vectors: unit(vectors, out=vectors), threads)

    def _project(
        self, values: Floats, first: Rows, last: Rows, then: Callable[[Floats], object], threads: int
    ) -> Floats:
        """Project spans in chunks; ``then`` is applied to each chunk in place."""
        starts, first = _rows_in_use(values, first)
        ends, last = _rows_in_use(values, last)
        as_start = starts @ self.start + self.bias  # (tokens in use, dim)
        as_end = ends @ self.end
        vectors = np.empty((len(first), len(self.bias)), np.float32)

        def work(at: int) -> None:
            part = vectors[at : at + CHUNK]
            as_start.take(first[at : at + CHUNK], axis=0, out=part, mode="clip")  # mode="raise" buffers the output
            part += as_end.take(last[at : at + CHUNK], axis=0)
            then(part)

        places = range(0, len(first), CHUNK)
        if threads > 1 and len(places) > threads:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(work, places))
        else:
            for at in places:
                work(at)
        return vectors


class MeanHead(NamedTuple):
    """Projection head of XPR: two linear layers with a ReLU between them, and the mean of a phrase's token states.

    ``place``: "pooled" projects the mean, as in the paper; "tokens" projects each state before the mean, as in the
    paper's code. ``inner`` (width, hidden), ``inner_bias`` (hidden,), ``outer`` (hidden, dim), ``outer_bias`` (dim,).
    """

    place: str
    inner: Floats
    inner_bias: Floats
    outer: Floats
    outer_bias: Floats

    @property
    def dim(self) -> int:
        return len(self.outer_bias)

    def __call__(self, values: Floats, first: Rows, last: Rows) -> Floats:
        """As in `PhraseHead`."""
        return self.after(self.before(values, first, last))

    def unit(self, values: Floats, first: Rows, last: Rows, threads: int = 1) -> Floats:
        """As in `PhraseHead`; ``threads`` is ignored, since NumPy chooses the threads of matrix products."""
        vectors = self(values, first, last)
        return unit(vectors, out=vectors)

    def before(self, values: Floats, first: Rows, last: Rows) -> Floats:
        """As in `PhraseHead`."""
        if self.place == "tokens":
            edges = np.bincount(first, minlength=len(values) + 1) - np.bincount(last + 1, minlength=len(values) + 1)
            inside = np.cumsum(edges[:-1]) > 0  # (tokens,) whether any span covers the token
            projections = np.zeros((len(values), self.dim), np.float32)
            projections[inside] = self._apply(values[inside])
            values = projections
        return pool_mean(values, first, last)

    def after(self, vectors: Floats) -> Floats:
        """As in `PhraseHead`."""
        return self._apply(vectors) if self.place == "pooled" else vectors

    def _apply(self, vectors: Floats) -> Floats:
        """Apply both layers: (n, width) -> (n, dim)."""
        projections = np.empty((len(vectors), self.dim), np.float32)
        for at in range(0, len(vectors), CHUNK):
            activations = vectors[at : at + CHUNK] @ self.inner + self.inner_bias
            projections[at : at + CHUNK] = np.maximum(activations, 0) @ self.outer + self.outer_bias
        return projections


def _rows_in_use(values: Floats, rows: Rows) -> tuple[Floats, Rows]:
    """Keep only the values at ``rows``, each once, and renumber ``rows`` to match."""
    flags = np.zeros(len(values), np.bool_)
    flags[rows] = True
    if flags.all():
        return values, rows
    return values[flags], (np.cumsum(flags) - 1)[rows]


def token_rows(
    states: States, texts: int | Rows, starts: NDArray[np.int32], ends: NDArray[np.int32]
) -> tuple[Rows, Rows]:
    """Find the first and last token row of each character span: two (spans,) int64 arrays.

    A span covers the characters ``starts`` to ``ends`` of its text; both are (spans,). ``texts`` is the index of each
    span's text in the block, (spans,) int64, or one index for all spans. A span that no token overlaps, because the
    tokenizer drops its characters, gets the next token.
    """
    if isinstance(texts, int):  # search in the tokens of this text only
        low, high = int(states.bounds[texts]), int(states.bounds[texts + 1])
        alone = States(states.values[:0], np.array([0, high - low]), states.starts[low:high], states.ends[low:high])
        first, last = token_rows(alone, np.zeros(len(starts), np.int64), starts, ends)
        return first + low, last + low
    # shift the offsets of text i by i * stride, which exceeds every offset: then they ascend over all texts
    stride = int(states.ends.max(initial=0)) + 2
    token_shifts = np.repeat(np.arange(len(states.bounds) - 1) * stride, np.diff(states.bounds))  # (tokens,)
    span_shifts = texts * stride
    first = np.searchsorted(states.ends + token_shifts, starts + span_shifts, side="right")
    first = np.minimum(first, states.bounds[texts + 1] - 1)
    last = np.maximum(np.searchsorted(states.starts + token_shifts, ends + span_shifts, side="left") - 1, first)
    return first.astype(np.int64), last.astype(np.int64)


def pool_ends(values: Floats, first: Rows, last: Rows) -> Floats:
    """Concatenate the states of each span's first and last token: (spans, 2 x width)."""
    return np.concatenate([values[first], values[last]], axis=1)


def pool_mean(values: Floats, first: Rows, last: Rows) -> Floats:
    """Average the states of each span: (spans, width), summed in float64.

    A loop over the spans is three to ten times as fast as ``np.add.reduceat`` or differences of cumulative sums.
    """
    means = np.empty((len(first), values.shape[1]), np.float32)
    for mean, start, end in zip(means, first.tolist(), (last + 1).tolist(), strict=True):
        mean[:] = np.add.reduce(values[start:end], 0, np.float64) / (end - start)
    return means


def pool_cls(states: States) -> Floats:
    """Take the state of each text's first token: (texts, width)."""
    return states.values[states.bounds[:-1]]


def unit(vectors: Floats, out: Floats | None = None) -> Floats:
    """Scale rows to length 1, except rows of zeros. ``out`` receives the result; it may be ``vectors``."""
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]
    unit_vectors: Floats = np.divide(vectors, np.where(lengths > 0, lengths, 1), out=out, dtype=np.float32)
    return unit_vectors


EXTRA = 4  # numbers that `for_inner_products` appends: one is needed, three keep the length a multiple of 4


def for_inner_products(vectors: Floats, longest: float, indexed: bool) -> Floats:
    """Map (n, dim) vectors to (n, dim + 4) unit vectors whose cosines rank as the original inner products do.

    An indexed vector x becomes (x / L, sqrt(1 - |x / L|^2)), a query q becomes (q / |q|, 0). Their cosine is
    q.x / (|q| L) (Bachrach et al. 2014, section 3). ``longest`` is L; a longer vector is scaled down to length L.
    """
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]
    longer_vectors: Floats = np.pad(vectors, ((0, 0), (0, EXTRA))).astype(np.float32)
    longer_vectors /= np.maximum(lengths, longest) if indexed else np.where(lengths > 0, lengths, 1)
    if indexed:
        longer_vectors[:, -EXTRA] = np.sqrt(np.maximum(1 - np.einsum("ij,ij->i", longer_vectors, longer_vectors), 0))
    return longer_vectors


def by_examples(
    model: Model,
    phrases: Sequence[str],
    examples: Sequence[Sequence[Phrase]],
    pooling: str = "mean",
    layer: int | None = None,
    bare: float = 0.0,
    progress: Callable[[int, int], None] = lambda count, total: None,
) -> tuple[Floats, Ids]:
    """Encode phrases by their examples: (phrases, dim) float32 of unit length, and (phrases,) example counts.

    Each distinct sentence is encoded once; memory holds one block of token states and the vectors. The pooled vectors
    of the examples are averaged without normalisation (eq. 2). A phrase without examples is encoded alone; its count
    is 0.

    Args:
        model: Encoder.
        phrases: Phrases.
        examples: Occurrences of each phrase in sentences.
        pooling: As in `Model.encode`; "mean+head" concatenates the vectors of several poolings, equally weighted.
        layer: As in `Model.encode`.
        bare: Weight of the phrase encoded alone: the vector of a phrase with n examples is their mean + ``bare`` /
            sqrt(n) x the phrase alone, both at unit length. 0 as in the paper.
        progress: Called with the number of sentences encoded so far and in total.

    Raises InputError for lists of unequal length, a blank phrase, and a pooling or layer that the model lacks.
    """
    if len(phrases) != len(examples):
        raise InputError(f"{len(phrases)} phrases and examples for {len(examples)}; expected a list for each phrase")
    if not all(pooling.split("+")):
        raise InputError(f"pooling {pooling!r}; expected one, or several with + between them")
    size = len(phrases)
    counts = np.array([len(sentences) for sentences in examples], np.int64)
    alone = [number for number, count in enumerate(counts.tolist()) if not count or bare]
    items = [item for sentences in examples for item in sentences] + [_whole(phrases[number]) for number in alone]
    owner = np.concatenate([np.repeat(np.arange(size), counts), np.array(alone, np.int64) + size])
    parts, weights = [], (bare / np.sqrt(np.maximum(counts, 1))).astype(np.float32)[:, None]
    for vectors in _means(model, items, owner, 2 * size, pooling.split("+"), layer, progress):
        mixture = vectors[:size] + weights * vectors[size:]
        parts.append(unit(np.where(counts[:, None] > 0, mixture, vectors[size:])))
    return unit(np.concatenate(parts, axis=1)), counts


def _means(
    model: Model,
    items: Sequence[Phrase],
    owner: Ids,
    count: int,
    poolings: Sequence[str],
    layer: int | None,
    progress: Callable[[int, int], None],
) -> list[Floats]:
    """Average items for each pooling, a (count, dim) array of unit vectors: row i is the mean of its items.

    ``owner`` (items,) is the row of each item. A row without items holds no meaningful vector.
    """
    sums = [_Sums(model, pooling, count) for pooling in poolings]
    numbers = {context: number for number, context in enumerate(dict.fromkeys(item.context for item in items))}
    texts = np.array([numbers[item.context] for item in items], np.int64)  # (items,)
    offsets = np.array([(item.start, item.end) for item in items], np.int32).reshape(-1, 2)
    order = np.argsort(texts, kind="stable")
    for part, states in model.runtime.blocks(list(numbers), layer):
        block_items = order[slice(*np.searchsorted(texts, (part.start, part.stop), sorter=order))]
        rows = token_rows(states, texts[block_items] - part.start, offsets[block_items, 0], offsets[block_items, 1])
        for total in sums:
            total.add(owner[block_items], states, texts[block_items] - part.start, rows)
        progress(part.stop, len(numbers))
    return [total.means(np.bincount(owner, minlength=count)) for total in sums]


class _Sums:
    """Sums of pooled vectors, for means; with a head, the outputs of ``PhraseHead.before``.

    If the model adds context to the head's vectors or trained them on inner products, final vectors are summed
    (`Model.span_vectors`).
    """

    def __init__(self, model: Model, pooling: str, count: int) -> None:
        self._model = model
        self._in_context = pooling == "head" and bool(
            getattr(model, "context_weight", 0.0) or getattr(model, "longest", 0.0)
        )
        self._head = model.head if pooling == "head" and not self._in_context else None
        self._pooling, self._shape = pooling, (count, model.encode([], pooling).shape[1])  # checks the pooling, too
        self._sums: Floats | None = None

    def add(self, owner: Ids, states: States, texts: Ids, rows: tuple[Ids, Ids]) -> None:
        """Add the items of a block; all (items,): row of the sum, text in the block, first and last token rows."""
        if self._pooling == "cls":
            vectors = pool_cls(states)[texts]
        elif self._in_context:
            vectors = self._model.span_vectors(states, texts, *rows, "head")
        else:
            vectors = (self._head.before if self._head else POOLS[self._pooling])(states.values, *rows)
        if self._sums is None:
            self._sums = np.zeros((self._shape[0], vectors.shape[1]), np.float32)
        np.add.at(self._sums, owner, vectors)

    def means(self, counts: Ids) -> Floats:
        if self._sums is None:
            return np.zeros(self._shape, np.float32)
        means = self._sums / np.maximum(counts, 1).astype(np.float32)[:, None]
        return unit(self._head.after(means) if self._head else means)


POOLS = {"ends": pool_ends, "mean": pool_mean}


def _whole(phrase: str) -> Phrase:
    """Return the phrase as its own context. Raises InputError for a blank phrase."""
    text = phrase.strip()
    if not text:
        raise InputError(f"{phrase!r} is not a phrase; expected at least one character that is not white space")
    return Phrase(text, 0, len(text))
