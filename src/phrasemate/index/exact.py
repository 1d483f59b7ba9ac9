"""Exact search, which reads every vector, and the parts that it shares with `faiss_search`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phrasemate.index import row_codec
from phrasemate.index.store import VectorRow
from phrasemate.utils.arrays import Floats, Ids
from phrasemate.utils.knn import argsort_desc, pad_ragged, topk_candidates

Int8s = NDArray[np.int8]
_SCORES_AT_ONCE = 1 << 23  # queries x vectors: 32 MB of scores
_ASKED = 2_048  # queries that are answered together
_PIECE = 64  # queries for which a thread is worth its start
_WIDE_AT_MOST = 1 << 24  # numbers kept as float32 beside the int8: 64 MB, all of 50,000 vectors of 256


def best(ids: Ids, scores: Floats, k: int) -> tuple[Ids, Floats]:
    """The best of some candidates for each query, best first, equal ones by id; padded with -1 and -inf.

    Args:
        ids: Candidates, (queries, n).
        scores: Scores of the candidates, (queries, n).
        k: How many to keep of each query.
    """
    if ids.shape[1] < k:
        pad = ((0, 0), (0, k - ids.shape[1]))
        ids = np.pad(ids, pad, constant_values=-1)
        scores = np.pad(scores, pad, constant_values=-np.inf)
    if ids.shape[1] > 4 * k:
        scores = np.fmax(scores, np.float32(-np.inf))  # NaN would count as the largest
        queries, columns = np.nonzero(scores >= np.partition(scores, -k, axis=1)[:, -k, None])
        places, scores = pad_ragged(queries, columns, scores)
        ids = np.where(places < 0, -1, np.take_along_axis(ids, places, 1))
    if (ids[:, 1:] < ids[:, :-1]).any():
        by_id = np.argsort(ids, axis=1)
        ids, scores = np.take_along_axis(ids, by_id, 1), np.take_along_axis(scores, by_id, 1)
    order = argsort_desc(scores)[:, :k]
    return np.take_along_axis(ids, order, 1), np.take_along_axis(scores, order, 1)


class Runs:
    """A set of ids as ascending runs (first, count), and the numbering of its members from 0."""

    def __init__(self, runs: NDArray[np.int64]) -> None:
        self.first, self.count = runs[:, 0], runs[:, 1]
        self.before = np.concatenate([[0], np.cumsum(self.count)]).astype(np.int64)  # (runs + 1,)

    def __len__(self) -> int:
        return int(self.before[-1])

    def ids(self, positions: Ids) -> Ids:
        """Positions 0 to len - 1 -> ids; -1 stays -1."""
        run = np.maximum(np.searchsorted(self.before, positions, "right") - 1, 0)
        return np.where(positions < 0, -1, self.first[run] + positions - self.before[run]) if len(self) else positions

    def positions(self, ids: Ids) -> Ids:
        """Ids that are members -> positions 0 to len - 1: the inverse of `ids`."""
        run = np.searchsorted(self.first, ids, "right") - 1
        return self.before[run] + ids - self.first[run]

    def contains(self, ids: Ids) -> NDArray[np.bool_]:
        if not len(self):
            return np.zeros(ids.shape, bool)
        run = np.searchsorted(self.first, ids, "right") - 1
        return (run >= 0) & (ids < self.first[run] + self.count[run])

    def below(self, bound: int) -> int:
        """Count the members smaller than ``bound``."""
        return int(np.clip(bound - self.first, 0, self.count).sum())


def append_run(runs: list[list[int]], first: int, count: int) -> None:
    """Append a run of ids, if it is not empty; one that begins where the last one ends makes that longer."""
    if runs and sum(runs[-1]) == first:
        runs[-1][1] += count
    elif count:
        runs.append([first, count])


class Exact:
    """Exact search over vectors in memory: int8, each block made float32 only while it is multiplied."""

    def __init__(self, dim: int, block: int, threads: int = 1) -> None:
        self._block, self._threads = block, threads
        self.codes: Int8s = np.zeros((0, dim), np.int8)  # (n, dim)
        self.norms: Floats = np.zeros(0, np.float32)  # (n,) inverse lengths
        self.ids: Ids = np.zeros(0, np.int64)  # (n,) ascending
        self.documents: Ids = np.zeros(0, np.int64)  # (n,)
        self._wide: Floats | None = None  # (n, dim) while that is small

    def __len__(self) -> int:
        return len(self.ids)

    def extend(self, blocks: Iterable[list[VectorRow]]) -> None:
        """Append the phrases of rows from the store."""
        self._wide = None
        code_blocks = [unpack(block, self.codes.shape[1]) for block in blocks]
        self.codes = np.concatenate([self.codes, *(codes for codes, _, _ in code_blocks)])
        norms = (row_codec.inverse_norms(codes.astype(np.float32)) for codes, _, _ in code_blocks)
        self.norms = np.concatenate([self.norms, *norms])
        self.ids = np.concatenate([self.ids, *(ids for _, ids, _ in code_blocks)])
        self.documents = np.concatenate([self.documents, *(documents for _, _, documents in code_blocks)])

    def keep(self, mask: NDArray[np.bool_]) -> None:
        """Keep only the rows of the mask."""
        if mask.all():
            return
        self._wide = None
        self.codes, self.norms = self.codes[mask], self.norms[mask]
        self.ids, self.documents = self.ids[mask], self.documents[mask]

    def search(self, vectors: Floats, k: int, documents: Ids | None = None) -> tuple[Ids, Floats]:
        """(queries, dim) -> (queries, k) ids, -1 where there are fewer, and scores, best first.

        ``documents`` (ids) restricts the search to their phrases.
        """
        mask = None if documents is None else np.isin(self.documents, documents)
        at_once = max(_PIECE, min(_ASKED, -(-len(vectors) // self._threads)))
        parts = _parts(vectors, at_once)

        def work(part: Floats) -> tuple[Ids, Floats]:
            return scan(part, k, self._blocks(mask, len(part)))

        if self._threads == 1 or len(parts) == 1:
            results = [work(part) for part in parts]
        else:
            with ThreadPoolExecutor(self._threads) as pool:
                results = list(pool.map(work, parts))
        return _together(results)

    def _blocks(self, mask: NDArray[np.bool_] | None, queries: int) -> Iterator[tuple[Floats, Ids]]:
        if self._wide is None and self.codes.size <= _WIDE_AT_MOST:
            self._wide = self.codes.astype(np.float32) * self.norms[:, None]
        size = max(1024, min(self._block, _SCORES_AT_ONCE // max(1, queries)))
        for start in range(0, len(self), size):
            part: Any = slice(start, min(start + size, len(self)))
            if mask is not None:
                part = start + np.flatnonzero(mask[part])
            wide = (
                self.codes[part].astype(np.float32) * self.norms[part, None] if self._wide is None else self._wide[part]
            )
            yield wide, self.ids[part]


def unpack(block: list[VectorRow], dim: int) -> tuple[Int8s, Ids, Ids]:
    """Rows of the store -> codes (n, dim), phrase ids (n,), document ids (n,)."""
    counts = np.array([row.phrases for row in block], np.int64)
    firsts = np.array([row.first_phrase for row in block], np.int64)
    codes = np.frombuffer(b"".join(row.codes for row in block), np.int8).reshape(-1, dim)
    within = np.arange(len(codes)) - np.repeat(np.cumsum(counts) - counts, counts)
    documents = np.array([row.document for row in block], np.int64)
    return codes, np.repeat(firsts, counts) + within, np.repeat(documents, counts)


def scan(vectors: Floats, k: int, blocks: Iterable[tuple[Floats, Ids]]) -> tuple[Ids, Floats]:
    """Exact search over a stream of (unit vectors (n, dim), ids (n,)), each read once for all queries."""
    parts = _parts(vectors, _ASKED)
    results = [best(np.zeros((len(part), 0), np.int64), np.zeros((len(part), 0), np.float32), k) for part in parts]
    for block, ids in blocks:
        results = [_merged(part, k, before, block, ids) for part, before in zip(parts, results, strict=True)]
    return _together(results)


def _parts(vectors: Floats, size: int) -> list[Floats]:
    """Queries in parts of a size, one at least."""
    return [vectors[at : at + size] for at in range(0, max(len(vectors), 1), size)]


def _together(results: Sequence[tuple[Ids, Floats]]) -> tuple[Ids, Floats]:
    """The results of all parts."""
    return np.concatenate([ids for ids, _ in results]), np.concatenate([scores for _, scores in results])


def _merged(vectors: Floats, k: int, nearest: tuple[Ids, Floats], block: Floats, ids: Ids) -> tuple[Ids, Floats]:
    """Merge the k nearest so far with a block of unit vectors (n, dim) and ids (n,)."""
    places, scores = topk_candidates(vectors @ block.T, k, nearest[1][:, -1])
    more = np.where(places < 0, -1, ids[places])
    return best(np.concatenate([nearest[0], more], 1), np.concatenate([nearest[1], scores], 1), k)
