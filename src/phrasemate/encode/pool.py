"""Token states -> one vector for each span or sentence: `mean`, `ends`, `cls`, and the learned `head`.

A span is given as the rows of its first and last token. None of these loops over spans.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasemate.encode.runtime import States

__all__ = ["POOLINGS", "Head", "pool_cls", "pool_ends", "pool_mean", "token_rows", "unit"]

POOLINGS = ("cls", "ends", "head", "mean")

Floats = NDArray[np.float32]
Rows = NDArray[np.int64]


class Head(NamedTuple):
    """A linear projection of a span's two ends (CCPR, section 5.1, eq. 1): W [H_start ; H_end] + b.

    ``start`` and ``end`` (width, dim) are the two halves of W, ``bias`` (dim,). As the map is linear, a token is
    projected once as a start and once as an end, and a span costs one addition.
    """

    start: Floats
    end: Floats
    bias: Floats

    def __call__(self, values: Floats, first: Rows, last: Rows) -> Floats:
        """(tokens, width) states, (spans,) rows of the ends -> (spans, dim), not normalised."""
        if 2 * len(first) < len(values):  # a few queries: a product small enough for BLAS to wake no thread
            return values[first] @ self.start + self.bias + values[last] @ self.end
        as_start = values @ self.start + self.bias  # (tokens, dim)
        as_end = values @ self.end  # (tokens, dim)
        return as_start[first] + as_end[last]


def token_rows(states: States, text: int, starts: NDArray[np.int32], ends: NDArray[np.int32]) -> tuple[Rows, Rows]:
    """Rows of the first and last token that overlap the character spans of one text of a block.

    A span without a token of its own (a character that the tokenizer drops) gets the token that follows it.
    """
    low, high = int(states.bounds[text]), int(states.bounds[text + 1])
    first = np.searchsorted(states.ends[low:high], starts, side="right")
    first = np.minimum(first, high - low - 1)
    last = np.maximum(np.searchsorted(states.starts[low:high], ends, side="left") - 1, first)
    return (first + low).astype(np.int64), (last + low).astype(np.int64)


def pool_ends(values: Floats, first: Rows, last: Rows) -> Floats:
    """(spans, 2 x width): the states of the first and the last token, side by side."""
    return np.concatenate([values[first], values[last]], axis=1)


def pool_mean(values: Floats, first: Rows, last: Rows) -> Floats:
    """(spans, width): the mean of the states from the first to the last token, by differences of running sums."""
    sums = np.zeros((len(values) + 1, values.shape[1]), np.float64)
    np.cumsum(values, axis=0, out=sums[1:])
    means: Floats = ((sums[last + 1] - sums[first]) / (last + 1 - first)[:, None]).astype(np.float32)
    return means


def pool_cls(states: States) -> Floats:
    """(texts, width): the state of each text's opening token."""
    return states.values[states.bounds[:-1]]


def unit(vectors: Floats) -> Floats:
    """Rows scaled to length 1; a row of zeros stays as it is."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: Floats = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    return scaled
