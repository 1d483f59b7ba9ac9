"""Margin scores and CSLS: cosines of pairs relative to the cosines with the nearest neighbours of both sides."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import InputError
from phrasemate.types import Run, to_whole
from phrasemate.utils.arrays import Floats, Ids
from phrasemate.utils.knn import neighbour_means

MARGINS = ("absolute", "csls", "distance", "quarter", "ratio")

Integers = NDArray[np.integer]
_SCORES_PER_BLOCK = 1 << 24  # scores that `_mean_top` partitions at once; they take 64 MB


def neighbourhood(run: Run, k: int) -> Floats:
    """Return the mean of the k highest scores of each query, (queries,).

    With fewer than k results the mean is over all of them, and 0 if there are none. Raises InputError for k below 1.
    """
    k = to_whole("k", k)
    present = (run.ids >= 0)[:, :k]
    total = np.where(present, run.scores[:, :k], 0).sum(1, dtype=np.float64)
    return (total / np.maximum(present.sum(1), 1)).astype(np.float32)  # type: ignore[no-any-return]


def margin_of(similarity: Floats, query_mean: Floats, document_mean: Floats, how: str = "ratio") -> Floats:
    """Compute margins from cosines and the mean cosines of the neighbours, elementwise; the three shapes broadcast.

    Args:
        similarity: Cosines of pairs x, y.
        query_mean: Mean cosine of the k nearest neighbours of x.
        document_mean: Mean cosine of the k nearest neighbours of y.
        how: Name of the margin, with b = (query_mean + document_mean) / 2:
            "ratio" cos / b, "distance" cos - b, "absolute" cos (Artetxe and Schwenk, ACL 2019, section 3.1),
            "csls" 2 cos - 2 b (Conneau et al. 2018), which is twice the distance,
            "quarter" cos - b / 4, introduced here, for encoders with cosines that are comparable across queries.

    For the ratio, b is clipped to at least 1e-6, since a ratio to zero or a negative mean is meaningless. Raises
    InputError for an unknown margin.
    """
    if how == "absolute":
        return similarity
    if how == "csls":
        return 2 * similarity - query_mean - document_mean
    middle: Floats = (query_mean + document_mean) * np.float32(0.5)
    if how == "distance":
        return similarity - middle
    if how == "quarter":
        return similarity - middle * np.float32(0.25)
    if how == "ratio":
        ratio: Floats = similarity / middle.clip(np.float32(1e-6))
        return ratio
    raise InputError(f"margin {how!r}; expected one of {', '.join(MARGINS)}")


def margin(scores: Floats, k: int = 4, how: str = "ratio") -> Floats:
    """Convert cosines (queries, documents) to margins (`margin_of`), using the k nearest neighbours of each side.

    A cosine of -inf marks a pair that is not a candidate: it does not count as a neighbour and stays -inf. Raises
    InputError for k below 1 or an unknown margin.
    """
    return margin_of(scores, _mean_top(scores, k), _mean_top(scores.T, k).T, how)  # (queries, 1), (1, documents)


def csls(scores: Floats, k: int = 10) -> Floats:
    """Convert cosines (queries, documents) to CSLS (cross-domain similarity local scaling, Conneau et al. 2018)."""
    return margin(scores, k, "csls")


def csls_penalties(x: Floats, z: Floats, k: int = 10) -> Floats:
    """Return r(z) / 2, (len(z),), the penalties with which `nearest` ranks the rows of z for each row of x by CSLS.

    r(z) is the mean cosine of z with its k nearest rows of x (`neighbour_means`). Raises InputError for k below 1.
    """
    return neighbour_means(z, x, k) * np.float32(0.5)


def neighbour_pairs(run: Run, back: Run) -> tuple[Ids, Ids, Floats]:
    """List the pairs where either side is a neighbour of the other: queries, documents and cosines, (pairs,) each.

    Each pair is listed once, ordered by query and then by document.

    Args:
        run: Nearest documents of each query.
        back: Nearest queries of each document; row i belongs to document i.
    """
    width = max(len(back.ids), 1)
    rows, back_rows = (np.repeat(np.arange(len(side.ids)), side.ids.shape[1]) for side in (run, back))
    keys = np.concatenate([rows * width + run.ids.ravel(), back.ids.ravel() * width + back_rows])
    present = np.concatenate([run.ids.ravel() >= 0, back.ids.ravel() >= 0])
    distinct, first = np.unique(keys[present], return_index=True)
    cosines = np.concatenate([run.scores.ravel(), back.scores.ravel()])[present][first]
    return distinct // width, distinct % width, cosines


def lead(rows: Integers, columns: Integers, scores: Floats, least: float | Floats = -np.inf) -> Floats:
    """Return the lead of each pair over the best other pair of its row, plus that of its column, (pairs,).

    Args:
        rows: Row number of each pair, (pairs,).
        columns: Column number of each pair, (pairs,).
        scores: Scores of the pairs, (pairs,).
        least: Lower bound for the score of the best other pair, also used if there is none: one number, or (pairs,).
    """
    total = 2 * scores
    for side in (rows, columns):
        order = np.lexsort((-scores, side))
        descending = np.append(scores[order], np.float32(-np.inf))
        _, firsts, counts = np.unique(side[order], return_index=True, return_counts=True)
        rivals = np.repeat(descending[firsts], counts)
        rivals[firsts] = np.where(counts > 1, descending[firsts + 1], -np.inf)
        total[order] -= np.maximum(rivals, np.broadcast_to(np.float32(least), scores.shape)[order])
    return total


def _mean_top(scores: Floats, k: int) -> Floats:
    """Return the mean of the k highest scores of each row, (rows, 1), without -inf; 0 if there are none.

    Raises InputError for k below 1.
    """
    k = to_whole("k", k)
    top = scores
    if len(scores) and scores.shape[1] > k:
        rows = max(1, _SCORES_PER_BLOCK // scores.shape[1])
        parts = (np.partition(scores[at : at + rows], -k, axis=1)[:, -k:] for at in range(0, len(scores), rows))
        top = np.concatenate(list(parts))
    finite = top != -np.inf
    mean: Floats = np.where(finite, top, 0).sum(1, keepdims=True) / np.maximum(finite.sum(1, keepdims=True), 1)
    return mean.astype(np.float32)
