"""Nearest neighbours of sentences among a large collection: exact search, or an inverted file of codes (FAISS).

The vectors of the collection lie on disk as float16. `ExactSearch` and `ApproximateSearch` hold them in memory and take
the queries in portions. `nearest_in_blocks` reads them block by block.
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

EXACT_PAIRS = 10_000_000_000  # up to 100,000 x 100,000 the exact search takes a fraction of the time of encoding
LEAST_CODED = 20_000  # vectors that codes can be learned from
LEAST_RECALL = 0.97  # of the k nearest, on a sample of queries; what the inverted file is widened for (decision 039)
RECALL_SAMPLE = 300  # queries that are also searched exactly
_TRAINED_A_CELL = 64  # vectors for each cell (FAISS asks for 39 at least)
_FACTOR, _FACTOR_MOST = 16, 256  # candidates by their codes, for each neighbour: these are compared in float16
_BLOCK = 1 << 16  # vectors made float32 together


def engine_for(engine: str, queries: int, database: int, dim: int) -> str:
    """`exact` or `approximate`; for `auto` what is right for so many. Raises InputError for another word."""
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
    """(q, k) rows of a large database on disk, nearest first, and their cosines; it is read block by block.

    ``progress`` is called with the number of rows compared so far.
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
    """Every vector is compared with every other."""

    recall = 1.0

    def __init__(self, vectors: Halves) -> None:
        self._vectors = np.array(vectors, np.float32)  # (n, dim)

    def search(self, queries: Floats, k: int) -> tuple[Ids, Floats]:
        """(q, dim) unit vectors -> (q, k) rows of the database, nearest first, and their cosines."""
        faiss = load_faiss()
        scores, ids = faiss.knn(queries, self._vectors, min(k, len(self._vectors)), metric=faiss.METRIC_INNER_PRODUCT)
        return ids.astype(np.int32), scores


class ApproximateSearch:
    """An inverted file of 4-bit product codes, whose candidates are compared in float16.

    ``samples`` (q, dim): with these queries the number of cells that are searched is doubled until ``recall`` (of their
    ``k`` nearest, against exact search) is at least `LEAST_RECALL`. When all cells are searched, more candidates are
    compared.
    """

    def __init__(
        self, vectors: Halves, samples: Floats, k: int, progress: Callable[[int], None] = lambda _: None
    ) -> None:
        faiss = load_faiss()
        count, dim = vectors.shape
        # taken off: codes then tell vectors apart instead of their common part
        self._mean = vectors.mean(0, dtype=np.float64).astype(np.float32)
        cells = int(2 ** np.round(np.log2(4 * np.sqrt(count))))
        self._index = faiss.index_factory(
            dim, f"IVF{cells},PQ{dim // 2}x4fs,Refine(SQfp16)", faiss.METRIC_INNER_PRODUCT
        )
        progress(0)
        draw = np.random.default_rng(0)
        sample_rows = np.sort(draw.choice(count, min(count, _TRAINED_A_CELL * cells), replace=False))
        self._index.train(vectors[sample_rows].astype(np.float32) - self._mean)
        for at in range(0, count, _BLOCK):
            self._index.add(vectors[at : at + _BLOCK].astype(np.float32) - self._mean)
            progress(min(at + _BLOCK, count))
        self._cells, self._factor, self.probes = cells, _FACTOR, max(1, cells // 64)
        self.recall = self._widen(vectors, samples, k)

    def _widen(self, vectors: Halves, samples: Floats, k: int) -> float:
        exact, _ = nearest_in_blocks(samples, vectors, k)
        while True:
            rows = self.search(samples, k)[0]
            recall = float(np.mean([len(set(a) & set(b)) / len(b) for a, b in zip(rows, exact, strict=True)]))
            log.info("%d of %d cells, %d candidates: recall %.4f", self.probes, self._cells, self._factor * k, recall)
            if recall >= LEAST_RECALL or (self.probes == self._cells and self._factor >= _FACTOR_MOST):
                return recall
            if self.probes < self._cells:
                self.probes = min(2 * self.probes, self._cells)
            else:
                self._factor *= 2

    def search(self, queries: Floats, k: int) -> tuple[Ids, Floats]:
        """As in `ExactSearch`."""
        faiss = load_faiss()
        cells, parameters = faiss.SearchParametersIVF(), faiss.IndexRefineSearchParameters()
        cells.nprobe, parameters.k_factor, parameters.base_index_params = self.probes, float(self._factor), cells
        scores, ids = self._index.search(queries, k, params=parameters)
        return ids.astype(np.int32), scores + (queries @ self._mean)[:, None]


NeighbourSearch = ExactSearch | ApproximateSearch
