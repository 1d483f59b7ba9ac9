"""Exact nearest-neighbour search over all vectors, and helpers shared with `faiss_search`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phrasemate.index import row_codec
from phrasemate.index.store import VectorRow
from phrasemate.utils.arrays import Floats, Ids, Int8s
from phrasemate.utils.knn import argsort_desc, pad_ragged, topk_candidates

_SCORES_AT_ONCE = 1 << 23  # scores (queries x vectors) of one matrix product: 32 MB
_QUERIES_AT_ONCE = 2_048  # queries that are scored together
_QUERIES_OF_THREAD = 64  # least number of queries for which starting a thread pays off
_FLOATS_KEPT = 1 << 24  # numbers of a float32 copy that is kept beside the int8 codes: 64 MB, e.g. 50,000 x 256


def best(ids: Ids, scores: Floats, k: int) -> tuple[Ids, Floats]:
    """Return ids and scores of the k best candidates of each query, both (queries, k), best first.

    Candidates with equal scores are ordered by id. Rows with fewer than k candidates are padded with -1 and -inf.

    Args:
        ids: Ids of the candidates, (queries, n); -1 for padding.
        scores: Scores of the candidates, (queries, n); -inf for padding.
        k: Number of candidates to keep for each query.
    """
    if ids.shape[1] < k:
        pad = ((0, 0), (0, k - ids.shape[1]))
        ids = np.pad(ids, pad, constant_values=-1)
        scores = np.pad(scores, pad, constant_values=-np.inf)
    if ids.shape[1] > 4 * k:
        scores = np.fmax(scores, np.float32(-np.inf))  # NaN would be sorted as the largest
        queries, columns = np.nonzero(scores >= np.partition(scores, -k, axis=1)[:, -k, None])
        places, scores = pad_ragged(queries, columns, scores)
        ids = np.where(places < 0, -1, np.take_along_axis(ids, places, 1))
    if (ids[:, 1:] < ids[:, :-1]).any():
        by_id = np.argsort(ids, axis=1)
        ids, scores = np.take_along_axis(ids, by_id, 1), np.take_along_axis(scores, by_id, 1)
    order = argsort_desc(scores)[:, :k]
    return np.take_along_axis(ids, order, 1), np.take_along_axis(scores, order, 1)


class Runs:
    """Set of ids stored as ascending runs of consecutive ids, whose members are numbered from 0 in ascending order.

    ``runs`` (runs, 2): first id and length of each run.

    >>> runs = Runs(np.array([[10, 2], [20, 3]]))  # 10, 11, 20, 21, 22
    >>> len(runs), runs.ids(np.array([0, 2])).tolist(), runs.below(21)
    (5, [10, 20], 3)
    """

    def __init__(self, runs: NDArray[np.int64]) -> None:
        self.first, self.count = runs[:, 0], runs[:, 1]
        self.before = np.concatenate([[0], np.cumsum(self.count)]).astype(np.int64)  # (runs + 1,) members before a run

    def __len__(self) -> int:
        return int(self.before[-1])

    def ids(self, positions: Ids) -> Ids:
        """Convert positions (0 to len - 1) to ids; -1 stays -1."""
        run = np.maximum(np.searchsorted(self.before, positions, "right") - 1, 0)
        return np.where(positions < 0, -1, self.first[run] + positions - self.before[run]) if len(self) else positions

    def positions(self, ids: Ids) -> Ids:
        """Convert ids of members to their positions: the inverse of `ids`."""
        run = np.searchsorted(self.first, ids, "right") - 1
        return self.before[run] + ids - self.first[run]

    def contains(self, ids: Ids) -> NDArray[np.bool_]:
        """Return a mask of the ids that are members."""
        if not len(self):
            return np.zeros(ids.shape, bool)
        run = np.searchsorted(self.first, ids, "right") - 1
        return (run >= 0) & (ids < self.first[run] + self.count[run])

    def below(self, bound: int) -> int:
        """Count the members smaller than ``bound``."""
        return int(np.clip(bound - self.first, 0, self.count).sum())


def append_run(runs: list[list[int]], first: int, count: int) -> None:
    """Append a run (first id, count) to a list of runs; adjacent runs are merged, and empty runs are ignored."""
    if runs and sum(runs[-1]) == first:
        runs[-1][1] += count
    elif count:
        runs.append([first, count])


class Exact:
    """Exact search over int8 vectors in memory; each block is converted to float32 while it is multiplied.

    ``dim``: dimensions of the vectors. ``block``: vectors that are converted at once, at most.

    >>> engine = Exact(dim=2, block=1024)
    >>> engine.extend([[VectorRow(id=0, document=0, first_phrase=7, phrases=2, codes=bytes([127, 0, 0, 127]))]])
    >>> engine.search(np.array([[0.0, 1.0]], np.float32), k=1)[0].tolist()
    [[8]]
    """

    def __init__(self, dim: int, block: int, threads: int = 1) -> None:
        self._block, self._threads = block, threads
        self.codes: Int8s = np.zeros((0, dim), np.int8)  # (n, dim)
        self.norms: Floats = np.zeros(0, np.float32)  # (n,) inverse lengths of the codes
        self.ids: Ids = np.zeros(0, np.int64)  # (n,) phrase ids, ascending
        self.documents: Ids = np.zeros(0, np.int64)  # (n,) document ids
        self._unit_vectors: Floats | None = None  # (n, dim) unit vectors, if there are few

    def __len__(self) -> int:
        return len(self.ids)

    def extend(self, blocks: Iterable[list[VectorRow]]) -> None:
        """Append the vectors of rows read from the store (`Store.vectors`)."""
        self._unit_vectors = None
        code_blocks = [unpack(block, self.codes.shape[1]) for block in blocks]
        self.codes = np.concatenate([self.codes, *(codes for codes, _, _ in code_blocks)])
        norms = (row_codec.inverse_norms(codes.astype(np.float32)) for codes, _, _ in code_blocks)
        self.norms = np.concatenate([self.norms, *norms])
        self.ids = np.concatenate([self.ids, *(ids for _, ids, _ in code_blocks)])
        self.documents = np.concatenate([self.documents, *(documents for _, _, documents in code_blocks)])

    def keep(self, mask: NDArray[np.bool_]) -> None:
        """Keep only the vectors selected by a mask (n,)."""
        if mask.all():
            return
        self._unit_vectors = None
        self.codes, self.norms = self.codes[mask], self.norms[mask]
        self.ids, self.documents = self.ids[mask], self.documents[mask]

    def search(self, vectors: Floats, k: int, documents: Ids | None = None) -> tuple[Ids, Floats]:
        """Return ids and scores of the k nearest phrases of each query, both (queries, k), best first.

        Rows with fewer than k results are padded with -1 and -inf.

        Args:
            vectors: Query vectors of unit length, (queries, dim).
            k: Number of phrases to return for each query.
            documents: Ids of the documents to search; None for all.
        """
        mask = None if documents is None else np.isin(self.documents, documents)
        at_once = max(_QUERIES_OF_THREAD, min(_QUERIES_AT_ONCE, -(-len(vectors) // self._threads)))
        parts = _split(vectors, at_once)

        def work(part: Floats) -> tuple[Ids, Floats]:
            return scan(part, k, self._blocks(mask, len(part)))

        if self._threads == 1 or len(parts) == 1:
            results = [work(part) for part in parts]
        else:
            with ThreadPoolExecutor(self._threads) as pool:
                results = list(pool.map(work, parts))
        return _concatenate(results)

    def _blocks(self, mask: NDArray[np.bool_] | None, queries: int) -> Iterator[tuple[Floats, Ids]]:
        """Yield unit vectors (n, dim) and ids (n,) in blocks sized for a number of queries.

        ``mask`` (all vectors,) selects vectors; None selects all.
        """
        if self._unit_vectors is None and self.codes.size <= _FLOATS_KEPT:
            self._unit_vectors = self.codes.astype(np.float32) * self.norms[:, None]
        size = max(1024, min(self._block, _SCORES_AT_ONCE // max(1, queries)))
        for start in range(0, len(self), size):
            part: Any = slice(start, min(start + size, len(self)))
            if mask is not None:
                part = start + np.flatnonzero(mask[part])
            wide = (
                self.codes[part].astype(np.float32) * self.norms[part, None]
                if self._unit_vectors is None
                else self._unit_vectors[part]
            )
            yield wide, self.ids[part]


def unpack(block: list[VectorRow], dim: int) -> tuple[Int8s, Ids, Ids]:
    """Convert rows of the store to arrays: codes (n, dim), phrase ids (n,) and document ids (n,)."""
    counts = np.array([row.phrases for row in block], np.int64)
    firsts = np.array([row.first_phrase for row in block], np.int64)
    codes = np.frombuffer(b"".join(row.codes for row in block), np.int8).reshape(-1, dim)
    within = np.arange(len(codes)) - np.repeat(np.cumsum(counts) - counts, counts)
    documents = np.array([row.document for row in block], np.int64)
    return codes, np.repeat(firsts, counts) + within, np.repeat(documents, counts)


def scan(vectors: Floats, k: int, blocks: Iterable[tuple[Floats, Ids]]) -> tuple[Ids, Floats]:
    """Search a stream of vectors exactly, reading each block once for all queries.

    Args:
        vectors: Query vectors of unit length, (queries, dim).
        k: Number of results for each query.
        blocks: Pairs of unit vectors (n, dim) and their ids (n,).

    Returns ids and scores as `best` does.
    """
    parts = _split(vectors, _QUERIES_AT_ONCE)
    results = [best(np.zeros((len(part), 0), np.int64), np.zeros((len(part), 0), np.float32), k) for part in parts]
    for block, ids in blocks:
        results = [_merge(part, k, before, block, ids) for part, before in zip(parts, results, strict=True)]
    return _concatenate(results)


def _split(vectors: Floats, size: int) -> list[Floats]:
    """Split queries into parts of up to ``size``; without queries, one empty part is returned."""
    return [vectors[at : at + size] for at in range(0, max(len(vectors), 1), size)]


def _concatenate(results: Sequence[tuple[Ids, Floats]]) -> tuple[Ids, Floats]:
    """Concatenate the ids and scores of parts of the queries."""
    return np.concatenate([ids for ids, _ in results]), np.concatenate([scores for _, scores in results])


def _merge(vectors: Floats, k: int, nearest: tuple[Ids, Floats], block: Floats, ids: Ids) -> tuple[Ids, Floats]:
    """Merge the k nearest found so far with the vectors of another block, (n, dim), with ids (n,)."""
    places, scores = topk_candidates(vectors @ block.T, k, nearest[1][:, -1])
    more = np.where(places < 0, -1, ids[places])
    return best(np.concatenate([nearest[0], more], 1), np.concatenate([nearest[1], scores], 1), k)
