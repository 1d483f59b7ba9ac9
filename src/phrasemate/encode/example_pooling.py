"""Phrases without a context of their own -> vectors, through example sentences that contain them.

Zheng et al., "Cross-Lingual Phrase Retrieval" (XPR, ACL 2022), section 3.1: encode each example sentence by itself,
take the mean of the states of the phrase's tokens (eq. 1), then the mean over the example sentences (eq. 2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from phrasemate.encode.model import Model
from phrasemate.encode.pooling import pool_cls, pool_ends, pool_mean, token_rows, unit
from phrasemate.encode.runtime import States
from phrasemate.errors import InputError
from phrasemate.types import Phrase

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]


def by_examples(
    model: Model,
    phrases: Sequence[str],
    examples: Sequence[Sequence[Phrase]],
    pooling: str = "mean",
    layer: int | None = None,
    bare: float = 0.0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[Floats, Ids]:
    """((phrases, dim) float32 of unit length, (phrases,) how many examples each is made of).

    Each example is one occurrence of its phrase; examples are averaged as they come out of the encoder, not at unit
    length (eq. 2). A phrase without examples is its own context, and its count is 0. ``bare`` mixes the phrase
    without a sentence into the others: mean of the n examples + ``bare`` / sqrt(n) x phrase, both at unit length (0,
    the default, is the paper's; the fewer examples, the less their mean can be trusted). ``pooling`` and ``layer`` as
    in `Model.encode`; "mean+head" puts the vectors of several side by side, with equal weight. A sentence that serves
    several phrases is encoded once; memory holds one block of token states, and the vectors. ``progress`` is called
    with how many sentences are encoded, and of how many. Raises InputError for lists of unequal length, a blank
    phrase, and a pooling or layer that the model lacks.
    """
    if len(phrases) != len(examples):
        raise InputError(f"{len(phrases)} phrases and examples for {len(examples)}; expected a list for each phrase")
    if not all(pooling.split("+")):
        raise InputError(f"pooling {pooling!r}; expected one, or several with + between them")
    size = len(phrases)
    counts = np.array([len(found) for found in examples], np.int64)
    alone = [number for number, count in enumerate(counts.tolist()) if not count or bare]
    items = [item for found in examples for item in found] + [_whole(phrases[number]) for number in alone]
    owner = np.concatenate([np.repeat(np.arange(size), counts), np.array(alone, np.int64) + size])
    parts, weights = [], (bare / np.sqrt(np.maximum(counts, 1))).astype(np.float32)[:, None]
    for vectors in _means(model, items, owner, 2 * size, pooling.split("+"), layer, progress):
        mixed = vectors[:size] + weights * vectors[size:]
        parts.append(unit(np.where(counts[:, None] > 0, mixed, vectors[size:])))
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
    """For each pooling (count, dim) of unit length: row i is of the mean over the items that ``owner`` gives to it.

    ``owner`` (items,). A row without items stays 0 up to the model's projection, and means nothing.
    """
    sums = [_Sums(model, pooling, count) for pooling in poolings]
    numbers = {context: number for number, context in enumerate(dict.fromkeys(item.context for item in items))}
    texts = np.array([numbers[item.context] for item in items], np.int64)  # (items,)
    offsets = np.array([(item.start, item.end) for item in items], np.int32).reshape(-1, 2)
    order = np.argsort(texts, kind="stable")
    for part, states in model.runtime.blocks(list(numbers), layer):
        own = order[slice(*np.searchsorted(texts, (part.start, part.stop), sorter=order))]
        rows = token_rows(states, texts[own] - part.start, offsets[own, 0], offsets[own, 1])
        for total in sums:
            total.add(owner[own], states, texts[own] - part.start, rows)
        progress(part.stop, len(numbers))
    return [total.means(np.bincount(owner, minlength=count)) for total in sums]


class _Sums:
    """Sums of the pooled states of items, before a projection that follows the averaging (see `PhraseHead`)."""

    def __init__(self, model: Model, pooling: str, count: int) -> None:
        self._head = model.head if pooling == "head" else None
        self._pooling, self._shape = pooling, (count, model.encode([], pooling).shape[1])  # refuses what it lacks
        self._sums: Floats | None = None

    def add(self, owner: Ids, states: States, texts: Ids, rows: tuple[Ids, Ids]) -> None:
        """Items of a block: the row (items,) that each belongs to, its text, and the rows of its two ends."""
        if self._pooling == "cls":
            vectors = pool_cls(states)[texts]
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
        raise InputError(f"{phrase!r} is no phrase; expected at least one character that is not white space")
    return Phrase(text, 0, len(text))
