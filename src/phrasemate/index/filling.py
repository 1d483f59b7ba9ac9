"""Training and filling inverted lists: finding the nearest of many centres by looking at a sixteenth of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from phrasemate.index.approximate import Layout, inverted
from phrasemate.index.engine import Floats

__all__ = ["adding", "trained"]

_MANY = 1_024  # centres from which on comparing a vector with all of them is most of the work
_ROUNDS = 8  # of k-means for the inverted lists; FAISS's 25 would be half of the building time
_LOOKED_AT = 8  # groups of centres, of about sqrt(centres)


def trained(layout: Layout, dim: int, vectors: Floats) -> Any:
    """An empty FAISS index whose codes fit the (n, dim) vectors."""
    import faiss

    index: Any = faiss.index_factory(dim, layout.factory, faiss.METRIC_INNER_PRODUCT)
    if (lists := inverted(index)) is None:
        index.train(vectors)
        return index
    lists.cp.niter = _ROUNDS
    finder = _finder(vectors, layout.lists) if layout.lists >= _MANY else None
    if finder is not None:
        lists.clustering_index = finder
    index.train(vectors)
    lists.clustering_index = None  # it is ours, and is not written to the file
    return index


@contextmanager
def adding(index: Any) -> Iterator[Callable[[Floats], None]]:
    """Gives what adds (n, dim) vectors; with many lists it looks for each one's list as `trained` does."""
    lists = inverted(index)
    if lists is None or lists.nlist < _MANY:
        yield index.add
        return
    exact = lists.quantizer
    centres = exact.reconstruct_n(0, lists.nlist)
    finder = _finder(centres, lists.nlist)
    finder.add(centres)
    finder.make_direct_map(True)  # for the residuals
    lists.quantizer = finder
    try:
        yield index.add
    finally:
        lists.quantizer = exact


def _finder(vectors: Floats, count: int) -> Any:
    """An empty index of ``count`` centres, in groups whose middles are learned from (n, dim) vectors."""
    import faiss

    dim, groups = vectors.shape[1], int(np.sqrt(count))
    made: Any = faiss.index_factory(dim, f"IVF{groups},Flat", faiss.METRIC_INNER_PRODUCT)
    made.cp.niter, made.cp.min_points_per_centroid = _ROUNDS, 1
    made.train(vectors[:: max(1, len(vectors) // (64 * groups))])
    made.nprobe = _LOOKED_AT
    return made
