"""Pairs of terms that may match: the nearest of either, their margins, who is whose best, and one to one."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import MissingExtra
from phrasemate.rank import margin_of
from phrasemate.utils.knn import nearest

DEPTH = 20  # nearest terms of each term, both ways, that are looked at

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]


class Candidates(NamedTuple):
    """Pairs of a source and a target term that may match, (pairs,) each: by source, then by falling margin.

    ``ranks`` count from 1 within a source term; ``mutual``: each is the other's best by margin.
    """

    sources: Ids
    targets: Ids
    scores: Floats
    margins: Floats
    ranks: Ids
    mutual: NDArray[np.bool_]

    def only(self, kept: NDArray[np.bool_]) -> Candidates:
        """Those of a mask."""
        return Candidates(
            self.sources[kept],
            self.targets[kept],
            self.scores[kept],
            self.margins[kept],
            self.ranks[kept],
            self.mutual[kept],
        )


def candidates(source: Floats, target: Floats, k: int = 10, how: str = "csls", depth: int = DEPTH) -> Candidates:
    """What may match: the pairs that are among the ``depth`` nearest of either, in cosine, with their margins.

    ``source`` (n, dim), ``target`` (m, dim), unit length. The margin (`phrasemate.rank.margin_of`) sets a cosine
    against the mean cosines of both terms with their ``k`` nearest of the other side. Needs n x m products and holds
    but a block of them.
    """
    depth = max(depth, DEPTH, k)
    near, cosines = nearest(source, target, depth)  # (n, depth) each
    back, back_cosines = nearest(target, source, depth)  # (m, depth)
    own, other = cosines[:, :k].mean(1), back_cosines[:, :k].mean(1)
    rows = np.concatenate([np.repeat(np.arange(len(source)), near.shape[1]), back.ravel()])
    columns = np.concatenate([near.ravel(), np.repeat(np.arange(len(target)), back.shape[1])])
    keys, first = np.unique(rows * len(target) + columns, return_index=True)
    rows, columns = keys // len(target), keys % len(target)
    scores = np.concatenate([cosines.ravel(), back_cosines.ravel()])[first]
    margins = margin_of(scores, own[rows], other[columns], how)
    order = np.lexsort((columns, -margins, rows))
    rows, columns, scores, margins = rows[order], columns[order], scores[order], margins[order]
    ranks = np.arange(len(rows)) - np.searchsorted(rows, rows) + 1
    leads = np.zeros(len(rows), np.bool_)  # the best pair of its target
    by_target = np.lexsort((rows, -margins, columns))
    leads[by_target[np.unique(columns[by_target], return_index=True)[1]]] = True
    return Candidates(rows, columns, scores, margins, ranks, leads & (ranks == 1))


def assign(found: Candidates) -> NDArray[np.bool_]:
    """(pairs,) which pairs to take so that no term comes twice and the sum of margins is the greatest.

    Margins count from a little below the least one among the pairs, so that each pair is worth more than none. Exact,
    on the sparse graph of the candidates: scipy's min_weight_full_bipartite_matching (LAPJVsp: Jonker and Volgenant
    1987), with a column for each source term that stands for "no match". Raises MissingExtra without scipy.
    """
    solve = matching_function()
    from scipy.sparse import csr_array

    taken = np.zeros(len(found.sources), np.bool_)
    if not len(taken):
        return taken
    rows, row = np.unique(found.sources, return_inverse=True)
    columns, column = np.unique(found.targets, return_inverse=True)
    worth = found.margins.astype(np.float64) - found.margins.min()
    step = 1e-6 + float(worth.max()) * 1e-6
    costs = worth.max() - worth + step  # no cost may be 0: it would be no edge
    nothing = np.full(len(rows), worth.max() + 2 * step)
    values = np.concatenate([costs, nothing])
    places = np.concatenate([row, np.arange(len(rows))]), np.concatenate([column, len(columns) + np.arange(len(rows))])
    graph = csr_array((values, places), shape=(len(rows), len(columns) + len(rows)))
    chosen = np.full(len(rows), -1)
    mates = solve(graph)
    chosen[mates[0]] = mates[1]
    taken[:] = chosen[row] == column
    return taken


def matching_function() -> Any:
    """What solves an assignment. Raises MissingExtra without scipy."""
    try:
        from scipy.sparse.csgraph import min_weight_full_bipartite_matching
    except ImportError as error:
        raise MissingExtra("scipy", "match") from error
    return min_weight_full_bipartite_matching
