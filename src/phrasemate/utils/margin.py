"""Margin scores and CSLS: cosines of pairs, compared with those of the nearest neighbours of both sides."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import InputError
from phrasemate.types import Run
from phrasemate.utils.arrays import Floats, Ids
from phrasemate.utils.knn import neighbour_means

MARGINS = ("absolute", "csls", "distance", "quarter", "ratio")

Integers = NDArray[np.integer]
_AT_ONCE = 1 << 24  # scores sorted together: 128 MB of positions


def neighbourhood(run: Run, k: int) -> Floats:
    """(queries,) the mean of the k highest scores of each list: of all, where there are fewer; 0 without any.

    Raises InputError for k below 1.
    """
    if k < 1:
        raise InputError(f"k {k}; expected 1 or more neighbours")
    present = (run.ids >= 0)[:, :k]
    total = np.where(present, run.scores[:, :k], 0).sum(1, dtype=np.float64)
    return (total / np.maximum(present.sum(1), 1)).astype(np.float32)  # type: ignore[no-any-return]


def margin_of(similarity: Floats, query_mean: Floats, document_mean: Floats, how: str = "ratio") -> Floats:
    """Compare similarities with those of the neighbours, element by element; the three shapes broadcast.

    Args:
        similarity: Cosines of pairs x, y.
        query_mean: Mean cosine of the k nearest neighbours of x.
        document_mean: Mean cosine of the k nearest neighbours of y.
        how: Name of the margin, with b = (query_mean + document_mean) / 2:
            "ratio" cos / b, "distance" cos - b, "absolute" cos (Artetxe and Schwenk, ACL 2019, section 3.1),
            "csls" 2 cos - 2 b (Conneau et al. 2018), which is twice the distance,
            "quarter" cos - b / 4, ours, for encoders whose cosines mean the same everywhere.

    Where b is not positive, as among vectors that have nothing in common, a ratio means nothing: b is 1e-6 there.
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
    """(queries, documents) cosines -> margins; the neighbours of a query are documents and the other way round.

    A cosine of -inf says that the document is not a candidate: it is not a neighbour, and stays -inf.
    """
    return margin_of(scores, _mean_top(scores, k), _mean_top(scores.T, k).T, how)  # (queries, 1), (1, documents)


def csls(scores: Floats, k: int = 10) -> Floats:
    """(queries, documents) cosines -> cross-domain similarity local scaling, k = 10 as in Conneau et al. (2018)."""
    return margin(scores, k, "csls")


def csls_penalties(x: Floats, z: Floats, k: int = 10) -> Floats:
    """(len(z),) r(z) / 2, for `nearest` of x among z: cos(x, z) - r(z) / 2 has the order of CSLS.

    Raises InputError for k below 1.
    """
    return neighbour_means(z, x, k) * np.float32(0.5)


def neighbour_pairs(run: Run, back: Run) -> tuple[Ids, Ids, Floats]:
    """Pairs of which one is among the neighbours of the other: queries, documents and cosines, (pairs,) each.

    ``run``: for each query its nearest documents; ``back``: for each document (row = id) its nearest queries. Each pair
    comes once, in the order of the queries and then of the documents.
    """
    width = max(len(back.ids), 1)
    rows, back_rows = (np.repeat(np.arange(len(side.ids)), side.ids.shape[1]) for side in (run, back))
    keys = np.concatenate([rows * width + run.ids.ravel(), back.ids.ravel() * width + back_rows])
    present = np.concatenate([run.ids.ravel() >= 0, back.ids.ravel() >= 0])
    distinct, first = np.unique(keys[present], return_index=True)
    cosines = np.concatenate([run.scores.ravel(), back.scores.ravel()])[present][first]
    return distinct // width, distinct % width, cosines


def lead(rows: Integers, columns: Integers, scores: Floats, least: float | Floats = -np.inf) -> Floats:
    """(pairs,) how far each pair is above the best other pair of its row, and of its column: the sum of both.

    Args:
        rows: Number of each pair's row.
        columns: Number of each pair's column.
        scores: Of the pairs, (pairs,).
        least: What the other pair scores at least, also where there is none: one number, or one for each pair.
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
    """(rows, 1) the mean of the k highest that are not -inf, 0 where there are none; InputError for k below 1."""
    if k < 1:
        raise InputError(f"k {k}; expected 1 or more neighbours")
    top = scores
    if len(scores) and scores.shape[1] > k:
        rows = max(1, _AT_ONCE // scores.shape[1])
        parts = (np.partition(scores[at : at + rows], -k, axis=1)[:, -k:] for at in range(0, len(scores), rows))
        top = np.concatenate(list(parts))
    finite = top != -np.inf
    mean: Floats = np.where(finite, top, 0).sum(1, keepdims=True) / np.maximum(finite.sum(1, keepdims=True), 1)
    return mean.astype(np.float32)
