"""Search for the nearest neighbours of sentences in a large collection, exactly or by an inverted file (FAISS).

The vectors of the collection are a float16 array on disk. `ExactSearch` and `ApproximateSearch` load them into memory
and answer queries in batches. `nearest_in_blocks` reads the array block by block.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import InputError
from phrasemate.utils.arrays import Floats, Halves
from phrasemate.utils.machine import load_faiss

ENGINES = ("auto", "exact", "approximate")
Ids = NDArray[np.int32]
log = logging.getLogger(__name__)

EXACT_PAIRS = 10_000_000_000  # up to 100,000 x 100,000 pairs, exact search takes a fraction of the encoding time
LEAST_CODED = 20_000  # minimum number of vectors for approximate search, to train the codes on
LEAST_RECALL = 0.97  # recall of the k nearest on sample queries, below which more cells are searched (decision 039)
RECALL_SAMPLE = 300  # sample queries, which are also searched exactly
_TRAINING_PER_CELL = 64  # training vectors for each cell (FAISS asks for at least 39)
_PER_NEIGHBOUR = 16  # candidates that are compared in float16, for each neighbour, at first ...
_MOST_PER_NEIGHBOUR = 256  # ... and at most
_BLOCK = 1 << 16  # vectors converted to float32 together


def engine_for(engine: str, queries: int, database: int, dim: int) -> str:
    """Return the engine, "exact" or "approximate"; "auto" chooses by the numbers of queries and database vectors.

    Raises InputError for another name, and for "approximate" with too few vectors or an odd dimension.
    """
    if engine not in ENGINES:
        raise InputError(f"engine {engine!r}; expected one of {', '.join(ENGINES)}")
    if engine == "approximate" and (database < LEAST_CODED or dim % 2):
        raise InputError(
            f"{database:,} vectors of length {dim}; "
            f"approximate search needs {LEAST_CODED:,} of an even length, use exact"
        )
    if engine != "auto":
        return engine
    return "approximate" if queries * database > EXACT_PAIRS and database >= LEAST_CODED and not dim % 2 else "exact"


def nearest_in_blocks(
    queries: Floats, database: Halves, k: int, progress: Callable[[int], None] = lambda _: None
) -> tuple[Ids, Floats]:
    """Search a large database on disk exactly, reading it block by block.

    Args:
        queries: Unit vectors, (q, dim).
        database: Unit vectors, (n, dim).
        k: Neighbours of each query.
        progress: Called with the number of rows compared so far.

    Returns (q, k) row numbers of the database, nearest first, and their cosines.
    """
    faiss = load_faiss()
    best = faiss.ResultHeap(len(queries), min(k, len(database)), keep_max=True)
    for at in range(0, len(database), _BLOCK):
        block = database[at : at + _BLOCK].astype(np.float32)
        cosines, rows = faiss.knn(queries, block, min(k, len(block)), metric=faiss.METRIC_INNER_PRODUCT)
        best.add_result(cosines, rows + at)
        progress(at + len(block))
    best.finalize()
    return best.I.astype(np.int32), best.D


class ExactSearch:
    """Exact search: each query is compared with all vectors of the database, (n, dim)."""

    recall = 1.0

    def __init__(self, vectors: Halves) -> None:
        self._vectors = np.array(vectors, np.float32)  # (n, dim)

    def search(self, queries: Floats, k: int) -> tuple[Ids, Floats]:
        """Find the k nearest: (q, dim) unit vectors -> (q, k) row numbers, nearest first, and their cosines."""
        faiss = load_faiss()
        scores, ids = faiss.knn(queries, self._vectors, min(k, len(self._vectors)), metric=faiss.METRIC_INNER_PRODUCT)
        return ids.astype(np.int32), scores


class ApproximateSearch:
    """Approximate search: an inverted file of 4-bit product codes, which proposes candidates compared in float16.

    The search widens until ``recall``, measured on the sample queries against exact search, is at least
    `LEAST_RECALL`. It doubles the number of searched cells, and once all are searched, the number of candidates.

    Args:
        vectors: Database of unit vectors, (n, dim).
        samples: Sample queries, (q, dim).
        k: Neighbours of a query whose recall is measured.
        progress: Called with the number of vectors indexed so far.
    """

    def __init__(
        self, vectors: Halves, samples: Floats, k: int, progress: Callable[[int], None] = lambda _: None
    ) -> None:
        faiss = load_faiss()
        count, dim = vectors.shape
        # the mean is subtracted, so that the codes describe differences between vectors, not their common part
        self._mean = vectors.mean(0, dtype=np.float64).astype(np.float32)
        cells = int(2 ** np.round(np.log2(4 * np.sqrt(count))))
        self._index = faiss.index_factory(
            dim, f"IVF{cells},PQ{dim // 2}x4fs,Refine(SQfp16)", faiss.METRIC_INNER_PRODUCT
        )
        progress(0)
        draw = np.random.default_rng(0)
        sample_rows = np.sort(draw.choice(count, min(count, _TRAINING_PER_CELL * cells), replace=False))
        self._index.train(vectors[sample_rows].astype(np.float32) - self._mean)
        for at in range(0, count, _BLOCK):
            self._index.add(vectors[at : at + _BLOCK].astype(np.float32) - self._mean)
            progress(min(at + _BLOCK, count))
        self._cells, self._factor, self.probes = cells, _PER_NEIGHBOUR, max(1, cells // 64)
        self.recall = self._widen(vectors, samples, k)

    def _widen(self, vectors: Halves, samples: Floats, k: int) -> float:
        """Widen the search until the recall is high enough or the limits are reached; return the recall."""
        exact, _ = nearest_in_blocks(samples, vectors, k)
        while True:
            rows = self.search(samples, k)[0]
            recall = float(np.mean([len(set(a) & set(b)) / len(b) for a, b in zip(rows, exact, strict=True)]))
            log.info("%d of %d cells, %d candidates: recall %.4f", self.probes, self._cells, self._factor * k, recall)
            if recall >= LEAST_RECALL or (self.probes == self._cells and self._factor >= _MOST_PER_NEIGHBOUR):
                return recall
            if self.probes < self._cells:
                self.probes = min(2 * self.probes, self._cells)
            else:
                self._factor *= 2

    def search(self, queries: Floats, k: int) -> tuple[Ids, Floats]:
        """Find the k nearest approximately; arguments and results as in `ExactSearch.search`."""
        faiss = load_faiss()
        cells, parameters = faiss.SearchParametersIVF(), faiss.IndexRefineSearchParameters()
        cells.nprobe, parameters.k_factor, parameters.base_index_params = self.probes, float(self._factor), cells
        scores, ids = self._index.search(queries, k, params=parameters)
        return ids.astype(np.int32), scores + (queries @ self._mean)[:, None]


NeighbourSearch = ExactSearch | ApproximateSearch
