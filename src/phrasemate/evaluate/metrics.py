"""Measures of a ranking in which each query has exactly one right answer.

A rank is 0-based: how many wrong answers score higher than the right one, ties counting half (so that a model that
gives the same score to everything does not look good).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["accuracy", "mean_reciprocal_rank", "ranks_of"]

Floats = NDArray[np.floating]


def ranks_of(scores: Floats, gold: NDArray[np.int64]) -> NDArray[np.float64]:
    """(queries,) rank of column ``gold[i]`` in row i of ``scores`` (queries, candidates)."""
    own = scores[np.arange(len(gold)), gold][:, None]
    higher = (scores > own).sum(1)
    tied = (scores == own).sum(1) - 1
    return higher + tied / 2  # type: ignore[no-any-return]


def accuracy(ranks: NDArray[np.float64], k: int = 1) -> float:
    """acc@k: the share of queries whose right answer is among the first k."""
    return float((ranks < k).mean())


def mean_reciprocal_rank(ranks: NDArray[np.float64]) -> float:
    """MRR, the mean of 1 / (rank + 1); with one right answer a query it equals MAP."""
    return float((1 / (ranks + 1)).mean())
