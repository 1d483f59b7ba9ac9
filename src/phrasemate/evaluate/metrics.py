"""Measures of a ranking in which each query has exactly one right answer.

A rank is 0-based: how many wrong answers score higher than the right one. Ties count half, so that a model that gives
the same score to everything does not look good. Where ties are many, `Ranking` keeps them apart and every measure is
its expected value over a random order of what is tied.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import InputError

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]

EULER = 0.5772156649015329
SMALL = 32  # harmonic numbers up to here are summed, further ones taken from the series (error below 1e-12)
_HARMONIC = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, SMALL + 1))])


class Ranking(NamedTuple):
    """Of each query: how many wrong answers score ``higher`` than the right one, how many ``tied`` with it; (n,) each.

    ``higher`` is infinite where the right answer is not among the candidates at all.
    """

    higher: Doubles
    tied: Doubles

    def hits(self, k: int = 1) -> Doubles:
        """(n,) the chance that the right answer is among the first k: (k - higher) / (tied + 1), within 0 and 1."""
        hits: Doubles = np.clip((k - self.higher) / (self.tied + 1), 0, 1)
        return hits

    def reciprocal(self) -> Doubles:
        """(n,) the expected 1 / (rank + 1): the mean of 1 / (higher + 1) to 1 / (higher + tied + 1)."""
        finite = np.isfinite(self.higher)
        higher = np.where(finite, self.higher, 0)
        mean = (harmonic(higher + self.tied + 1) - harmonic(higher)) / (self.tied + 1)
        ranks: Doubles = np.where(self.tied == 0, 1 / (higher + 1), mean)  # exactly what any other way to count gives
        return np.where(finite, ranks, 0.0)


def harmonic(numbers: Doubles) -> Doubles:
    """(n,) whole numbers -> (n,) 1 + 1/2 + ... + 1/number, 0 for 0."""
    small = _HARMONIC[np.minimum(numbers, SMALL).astype(np.int64)]
    large = np.maximum(numbers, 1.0)
    series = np.log(large) + EULER + 1 / (2 * large) - 1 / (12 * large**2) + 1 / (120 * large**4)
    return np.where(numbers <= SMALL, small, series)


def check_numbers(scores: Floats) -> None:
    """Raises InputError for NaN: no wrong answer scores higher than that, so it would be the best of all."""
    wrong = int(np.isnan(scores).sum())
    if wrong:
        raise InputError(f"{wrong:,} of {scores.size:,} scores are not numbers; look at the model that gave them")


def ranks_of(scores: Floats, gold: NDArray[np.int64]) -> Doubles:
    """(queries,) rank of column ``gold[i]`` in row i of ``scores`` (queries, candidates).

    Raises InputError for NaN among the scores.
    """
    check_numbers(scores)
    gold_scores = scores[np.arange(len(gold)), gold][:, None]
    higher = (scores > gold_scores).sum(1)
    tied = (scores == gold_scores).sum(1) - 1
    return higher + tied / 2  # type: ignore[no-any-return]


def accuracy(ranks: Doubles, k: int = 1) -> float:
    """acc@k: the share of queries whose right answer is among the first k."""
    return float((ranks < k).mean())


def mean_reciprocal_rank(ranks: Doubles) -> float:
    """MRR, the mean of 1 / (rank + 1); with one right answer a query it equals MAP."""
    return float((1 / (ranks + 1)).mean())
