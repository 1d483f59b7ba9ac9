"""The k nearest neighbours of many vectors among many: exactly, or by an inverted file of short codes (FAISS).

Vectors lie on disk as float16; a database is held in memory, queries are streamed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import InputError
from phrasemate.utils.knn import greatest

ENGINES = ("auto", "exact", "approximate")
Floats = NDArray[np.float32]
Halves = NDArray[np.float16]
Ids = NDArray[np.int32]
log = logging.getLogger(__name__)

EXACT_PAIRS = 10_000_000_000  # up to 100,000 x 100,000 the exact search takes a fraction of the time of encoding
LEAST = 20_000  # vectors that codes can be learned from
RECALL = 0.995  # of the k nearest, on a sample of queries; what the inverted file is widened for
SAMPLE = 300  # queries that are also searched exactly
_TRAIN = 64  # vectors for each cell (FAISS asks for 39 at least)
_FACTOR, _FACTOR_MOST = 16, 256  # candidates by their codes, for each neighbour: these are compared in float16
_BLOCK = 1 << 16  # vectors made float32 together


class Searching(Protocol):
    """A database of vectors that can be asked."""

    recall: float

    def search(self, queries: Floats, k: int) -> tuple[Ids, Floats]:
        """(q, dim) unit vectors -> (q, k) rows of the database, nearest first, and their cosines."""
        ...


def engine_for(engine: str, queries: int, database: int, dim: int) -> str:
    """`exact` or `approximate`; for `auto` what is right for so many. Raises InputError for another word."""
    if engine not in ENGINES:
        raise InputError(f"engine {engine!r}; expected one of {', '.join(ENGINES)}")
    if engine == "approximate" and (database < LEAST or dim % 2):
        raise InputError(
            f"{database:,} vectors of length {dim}; approximate search needs {LEAST:,} of an even length, use exact"
        )
    if engine != "auto":
        return engine
    return "approximate" if queries * database > EXACT_PAIRS and database >= LEAST and not dim % 2 else "exact"


class Exact:
    """Every vector is compared with every other."""

    recall = 1.0

    def __init__(self, vectors: Halves) -> None:
        self._vectors = np.empty(vectors.shape, np.float32)  # (n, dim)
        for at in range(0, len(vectors), _BLOCK):
            self._vectors[at : at + _BLOCK] = vectors[at : at + _BLOCK]

    def search(self, queries: Floats, k: int) -> tuple[Ids, Floats]:
        import faiss

        scores, ids = faiss.knn(queries, self._vectors, min(k, len(self._vectors)), metric=faiss.METRIC_INNER_PRODUCT)
        return ids.astype(np.int32), scores


class Approximate:
    """An inverted file of 4-bit product codes, whose candidates are compared in float16.

    ``samples`` (q, dim): with these queries the number of cells that are looked into is doubled until ``recall`` (of
    their ``k`` nearest, against exact search) is at least `RECALL`; when all are, more candidates are compared.
    """

    def __init__(
        self, vectors: Halves, samples: Floats, k: int, progress: Callable[[int], None] = lambda _: None
    ) -> None:
        import faiss

        count, dim = vectors.shape
        self._mean = _mean(vectors)  # taken off: codes then tell vectors apart instead of their common part
        cells = int(2 ** np.round(np.log2(4 * np.sqrt(count))))
        self._index = faiss.index_factory(
            dim, f"IVF{cells},PQ{dim // 2}x4fs,Refine(SQfp16)", faiss.METRIC_INNER_PRODUCT
        )
        progress(0)
        draw = np.random.default_rng(0)
        some = np.sort(draw.choice(count, min(count, _TRAIN * cells), replace=False))
        self._index.train(vectors[some].astype(np.float32) - self._mean)
        for at in range(0, count, _BLOCK):
            self._index.add(vectors[at : at + _BLOCK].astype(np.float32) - self._mean)
            progress(min(at + _BLOCK, count))
        self._cells, self._factor, self.probes = cells, _FACTOR, max(1, cells // 64)
        self.recall = self._widen(vectors, samples, k)

    def _widen(self, vectors: Halves, samples: Floats, k: int) -> float:
        exact = _exact_blocks(vectors, samples, k)
        while True:
            found = self.search(samples, k)[0]
            recall = float(np.mean([len(set(a) & set(b)) / len(b) for a, b in zip(found, exact, strict=True)]))
            log.info("%d of %d cells, %d candidates: recall %.4f", self.probes, self._cells, self._factor * k, recall)
            if recall >= RECALL or (self.probes == self._cells and self._factor >= _FACTOR_MOST):
                return recall
            if self.probes < self._cells:
                self.probes = min(2 * self.probes, self._cells)
            else:
                self._factor *= 2

    def search(self, queries: Floats, k: int) -> tuple[Ids, Floats]:
        import faiss

        cells, parameters = faiss.SearchParametersIVF(), faiss.IndexRefineSearchParameters()
        cells.nprobe, parameters.k_factor, parameters.base_index_params = self.probes, float(self._factor), cells
        scores, ids = self._index.search(queries, k, params=parameters)
        return ids.astype(np.int32), scores + (queries @ self._mean)[:, None]


def _mean(vectors: Halves) -> Floats:
    total = np.zeros(vectors.shape[1], np.float64)
    for at in range(0, len(vectors), _BLOCK):
        total += vectors[at : at + _BLOCK].sum(0, dtype=np.float64)
    return (total / len(vectors)).astype(np.float32)


def _exact_blocks(vectors: Halves, queries: Floats, k: int) -> NDArray[np.int64]:
    """(q, k) rows, without all of the vectors in memory."""
    import faiss

    ids = np.zeros((len(queries), 0), np.int64)
    scores = np.zeros((len(queries), 0), np.float32)
    for at in range(0, len(vectors), _BLOCK):
        block = vectors[at : at + _BLOCK].astype(np.float32)
        more, those = faiss.knn(queries, block, min(k, len(block)), metric=faiss.METRIC_INNER_PRODUCT)
        ids, scores = np.hstack([ids, those + at]), np.hstack([scores, more])
        columns, scores = greatest(scores, min(k, scores.shape[1]))
        ids = np.take_along_axis(ids, columns, 1)
    return ids


def use_threads(threads: int | None) -> None:
    """Let FAISS compute with so many threads."""
    import faiss

    if threads is not None:
        faiss.omp_set_num_threads(threads)
