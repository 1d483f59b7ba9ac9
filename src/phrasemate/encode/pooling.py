"""Pool token states to one vector for each span or sentence: `mean`, `ends`, `cls`, and the learned `head`.

A span is the rows of its first and last token. `pool_mean` alone loops over spans.

A phrase without a context is pooled over example sentences that contain it (`by_examples`): Zheng et al.,
"Cross-Lingual Phrase Retrieval" (XPR, ACL 2022), section 3.1. Encode each example sentence by itself, take the mean of
the states of the phrase's tokens (eq. 1), then the mean over the example sentences (eq. 2).
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

CHUNK = 2_048  # vectors that are worked on at once: 1.5 MB, which the processor's cache holds


class PhraseHead(Protocol):
    """A trained projection of phrases to ``dim`` numbers: what the pooling ``head`` is.

    ``before`` and ``after`` are its two halves: between them the vectors of one phrase in several contexts are averaged
    (XPR, eq. 2); for one context, ``after(before(...))`` is the call itself.
    """

    @property
    def dim(self) -> int: ...

    def __call__(self, values: Floats, first: Rows, last: Rows) -> Floats:
        """(tokens, width) states, (spans,) rows of the ends -> (spans, dim), not normalised."""

    def unit(self, values: Floats, first: Rows, last: Rows, threads: int = 1) -> Floats:
        """Span vectors at unit length."""

    def before(self, values: Floats, first: Rows, last: Rows) -> Floats:
        """(spans, ...) what is averaged over the contexts of a phrase."""

    def after(self, vectors: Floats) -> Floats:
        """(phrases, ...) averages -> (phrases, dim), not normalised."""


class Head(NamedTuple):
    """A linear projection of a span's two ends (CCPR, section 5.1, eq. 1): W [H_start ; H_end] + b.

    ``start`` and ``end`` (width, dim) are the two halves of W, ``bias`` (dim,). As the map is linear, a token is
    projected once as a start and once as an end, and a span costs one addition.
    """

    start: Floats
    end: Floats
    bias: Floats

    @property
    def dim(self) -> int:
        return len(self.bias)

    def __call__(self, values: Floats, first: Rows, last: Rows) -> Floats:
        """(tokens, width) states, (spans,) rows of the ends -> (spans, dim), not normalised."""
        return self._added(values, first, last, lambda vectors: None, 1)

    def before(self, values: Floats, first: Rows, last: Rows) -> Floats:
        """Apply all of it, which is linear; see `PhraseHead`."""
        return self(values, first, last)

    def after(self, vectors: Floats) -> Floats:
        """As in `PhraseHead`."""
        return vectors

    def unit(self, values: Floats, first: Rows, last: Rows, threads: int = 1) -> Floats:
        """Span vectors at unit length: each chunk is added and scaled while it is in the cache, ``threads`` at once."""
        return self._added(values, first, last, lambda vectors: unit(vectors, out=vectors), threads)

    def _added(self, values: Floats, first: Rows, last: Rows, then: Callable[[Floats], object], threads: int) -> Floats:
        starts, first = _used(values, first)
        ends, last = _used(values, last)
        as_start = starts @ self.start + self.bias  # (tokens in use, dim)
        as_end = ends @ self.end
        vectors = np.empty((len(first), len(self.bias)), np.float32)

        def work(at: int) -> None:
            part = vectors[at : at + CHUNK]
            as_start.take(first[at : at + CHUNK], axis=0, out=part, mode="clip")  # other modes copy once more
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
    """Two linear layers with a ReLU between them, around the mean of a phrase's token states (XPR's projection head).

    ``place``: "pooled", the mean is projected (the paper), or "tokens", each state is before the mean (its released
    code). ``inner`` (width, hidden), ``inner_bias`` (hidden,), ``outer`` (hidden, dim), ``outer_bias`` (dim,).
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
        """As in `PhraseHead`; the products take the threads that NumPy has."""
        vectors = self(values, first, last)
        return unit(vectors, out=vectors)

    def before(self, values: Floats, first: Rows, last: Rows) -> Floats:
        """As in `PhraseHead`."""
        if self.place == "tokens":
            edges = np.bincount(first, minlength=len(values) + 1) - np.bincount(last + 1, minlength=len(values) + 1)
            inside = np.cumsum(edges[:-1]) > 0  # (tokens,) of the others no span has need
            projections = np.zeros((len(values), self.dim), np.float32)
            projections[inside] = self._projected(values[inside])
            values = projections
        return pool_mean(values, first, last)

    def after(self, vectors: Floats) -> Floats:
        """As in `PhraseHead`."""
        return self._projected(vectors) if self.place == "pooled" else vectors

    def _projected(self, vectors: Floats) -> Floats:
        vectors_out = np.empty((len(vectors), self.dim), np.float32)
        for at in range(0, len(vectors), CHUNK):
            activations = vectors[at : at + CHUNK] @ self.inner + self.inner_bias
            vectors_out[at : at + CHUNK] = np.maximum(activations, 0) @ self.outer + self.outer_bias
        return vectors_out


def _used(values: Floats, rows: Rows) -> tuple[Floats, Rows]:
    """The values of the rows that occur at all, and the rows counted among these."""
    flags = np.zeros(len(values), np.bool_)
    flags[rows] = True
    if flags.all():
        return values, rows
    return values[flags], (np.cumsum(flags) - 1)[rows]


def token_rows(
    states: States, texts: int | Rows, starts: NDArray[np.int32], ends: NDArray[np.int32]
) -> tuple[Rows, Rows]:
    """Rows of the first and last token that overlap the character spans ``starts``/``ends`` (spans,) of a block.

    ``texts``: the text of the block that each span is of, (spans,) int64, or one number for all of them. A span without
    a token of its own (a character that the tokenizer drops) gets the token that follows it.
    """
    if isinstance(texts, int):  # the other texts need not be looked at
        low, high = int(states.bounds[texts]), int(states.bounds[texts + 1])
        alone = States(states.values[:0], np.array([0, high - low]), states.starts[low:high], states.ends[low:high])
        first, last = token_rows(alone, np.zeros(len(starts), np.int64), starts, ends)
        return first + low, last + low
    apart = int(states.ends.max(initial=0)) + 2  # more than any offset: text i's begin at i * apart, and all ascend
    shift = np.repeat(np.arange(len(states.bounds) - 1) * apart, np.diff(states.bounds))  # (tokens,)
    owners = texts * apart
    first = np.searchsorted(states.ends + shift, starts + owners, side="right")
    first = np.minimum(first, states.bounds[texts + 1] - 1)
    last = np.maximum(np.searchsorted(states.starts + shift, ends + owners, side="left") - 1, first)
    return first.astype(np.int64), last.astype(np.int64)


def pool_ends(values: Floats, first: Rows, last: Rows) -> Floats:
    """(spans, 2 x width): the states of the first and the last token, side by side."""
    return np.concatenate([values[first], values[last]], axis=1)


def pool_mean(values: Floats, first: Rows, last: Rows) -> Floats:
    """(spans, width): the mean of the states from the first to the last token, of sums in float64.

    Each span is summed by itself: ``np.add.reduceat`` takes three to ten times as long, and so do running sums.
    """
    means = np.empty((len(first), values.shape[1]), np.float32)
    for mean, start, end in zip(means, first.tolist(), (last + 1).tolist(), strict=True):
        mean[:] = np.add.reduce(values[start:end], 0, np.float64) / (end - start)
    return means


def pool_cls(states: States) -> Floats:
    """(texts, width): the state of each text's opening token."""
    return states.values[states.bounds[:-1]]


def unit(vectors: Floats, out: Floats | None = None) -> Floats:
    """Rows scaled to length 1; a row of zeros stays as it is. ``out``: where to put them (``vectors`` itself, too)."""
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]
    unit_vectors: Floats = np.divide(vectors, np.where(lengths > 0, lengths, 1), out=out, dtype=np.float32)
    return unit_vectors


EXTRA = 4  # numbers that `for_inner_products` adds: one is needed, and lengths that 4 divides pack well


def for_inner_products(vectors: Floats, longest: float, indexed: bool) -> Floats:
    """(n, dim) -> (n, dim + 4) at unit length, whose cosines rank as the inner products of the vectors do.

    What is ``indexed`` becomes (x / L, sqrt(1 - |x / L|^2)), a query (q / |q|, 0): their cosine is q.x / (|q| L)
    (Bachrach et al. 2014, section 3). ``longest`` is L; a longer vector is cut to it.
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
    """((phrases, dim) float32 of unit length, (phrases,) the number of examples of each).

    Each example is one occurrence of its phrase; examples are averaged as they come out of the encoder, not at unit
    length (eq. 2). A phrase without examples is its own context, and its count is 0. ``bare`` mixes the phrase without
    a sentence into the others: mean of the n examples + ``bare`` / sqrt(n) x phrase, both at unit length. 0, the
    default, is the paper's; the fewer the examples, the less reliable is their mean. ``pooling`` and ``layer`` as in
    `Model.encode`; "mean+head" puts the vectors of several side by side, with equal weight. A sentence that serves
    several phrases is encoded once; memory holds one block of token states, and the vectors. ``progress`` is called
    with how many sentences are encoded, and of how many. Raises InputError for lists of unequal length, a blank phrase,
    and a pooling or layer that the model lacks.
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
    """Means of each pooling (count, dim) of unit length: row i averages the items that ``owner`` gives to it.

    ``owner`` (items,). A row without items stays 0 up to the model's projection, and means nothing.
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
    """Sums of the pooled states of items, before a projection that follows the averaging (see `PhraseHead`).

    Vectors of a head that include their sentence or are for inner products (`Model.span_vectors`) are summed at unit
    length.
    """

    def __init__(self, model: Model, pooling: str, count: int) -> None:
        self._model = model
        self._in_context = pooling == "head" and bool(
            getattr(model, "context_weight", 0.0) or getattr(model, "longest", 0.0)
        )
        self._head = model.head if pooling == "head" and not self._in_context else None
        self._pooling, self._shape = pooling, (count, model.encode([], pooling).shape[1])  # refuses what it lacks
        self._sums: Floats | None = None

    def add(self, owner: Ids, states: States, texts: Ids, rows: tuple[Ids, Ids]) -> None:
        """Items of a block: the row (items,) that each belongs to, its text, and the rows of its two ends."""
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
    """The phrase as its own context. Raises InputError for a blank one."""
    text = phrase.strip()
    if not text:
        raise InputError(f"{phrase!r} is not a phrase; expected at least one character that is not white space")
    return Phrase(text, 0, len(text))
