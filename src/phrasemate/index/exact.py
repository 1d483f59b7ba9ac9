"""What search engines share, and the exact one, which reads every vector (`faiss_search` asks FAISS)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from phrasemate.index import row_codec
from phrasemate.index.store import VectorRow
from phrasemate.utils.knn import argsort_desc, pad_ragged, topk_candidates

Ids = NDArray[np.int64]
Floats = NDArray[np.float32]
Int8s = NDArray[np.int8]
_SCORES_AT_ONCE = 1 << 23  # queries x vectors: 32 MB of scores
_ASKED = 2_048  # queries that are answered together
_WIDE_AT_MOST = 1 << 24  # numbers kept as float32 beside the int8: 64 MB, all of 50,000 vectors of 256


class Engine(Protocol):
    """Inner-product search over unit vectors."""

    def search(self, vectors: Floats, k: int) -> tuple[Ids, Floats]:
        """(queries, dim) -> (queries, k) ids, -1 where there are fewer, and scores, best first."""
        ...


def best(ids: Ids, scores: Floats, k: int) -> tuple[Ids, Floats]:
    """The k best of (queries, n) candidates, best first, equal ones by id; padded with -1 and -inf."""
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
        """How many members are smaller than ``bound``."""
        return int(np.clip(bound - self.first, 0, self.count).sum())


class Exact:
    """All vectors in memory as int8, each block made float32 only while it is multiplied."""

    def __init__(self, dim: int, block: int) -> None:
        self._block = block
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
        held = [unpack(block, self.codes.shape[1]) for block in blocks]
        self.codes = np.concatenate([self.codes, *(codes for codes, _, _ in held)])
        self.norms = np.concatenate([self.norms, *(row_codec.inverse_norms(codes) for codes, _, _ in held)])
        self.ids = np.concatenate([self.ids, *(ids for _, ids, _ in held)])
        self.documents = np.concatenate([self.documents, *(documents for _, _, documents in held)])

    def keep(self, wanted: NDArray[np.bool_]) -> None:
        """Drop all rows but the wanted ones."""
        if wanted.all():
            return
        self._wide = None
        self.codes, self.norms = self.codes[wanted], self.norms[wanted]
        self.ids, self.documents = self.ids[wanted], self.documents[wanted]

    def search(self, vectors: Floats, k: int, documents: Ids | None = None) -> tuple[Ids, Floats]:
        """As Engine.search; ``documents`` (ids) restricts it to their phrases."""
        wanted = None if documents is None else np.isin(self.documents, documents)
        parts = [vectors[at : at + _ASKED] for at in range(0, max(len(vectors), 1), _ASKED)]
        found = [scan(part, k, self._blocks(wanted, len(part))) for part in parts]
        return np.concatenate([ids for ids, _ in found]), np.concatenate([scores for _, scores in found])

    def _blocks(self, wanted: NDArray[np.bool_] | None, queries: int) -> Iterator[tuple[Floats, Ids]]:
        if self._wide is None and self.codes.size <= _WIDE_AT_MOST:
            self._wide = self.codes.astype(np.float32) * self.norms[:, None]
        size = max(1024, min(self._block, _SCORES_AT_ONCE // max(1, queries)))
        for start in range(0, len(self), size):
            part: Any = slice(start, min(start + size, len(self)))
            if wanted is not None:
                part = start + np.flatnonzero(wanted[part])
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
    """Exact search over a stream of (unit vectors (n, dim), ids (n,))."""
    found = best(np.zeros((len(vectors), 0), np.int64), np.zeros((len(vectors), 0), np.float32), k)
    for block, ids in blocks:
        found = merged(vectors, k, found, block, ids)
    return found


def merged(vectors: Floats, k: int, found: tuple[Ids, Floats], block: Floats, ids: Ids) -> tuple[Ids, Floats]:
    """The k best of those found and of a block: unit vectors (n, dim), ids (n,)."""
    places, scores = topk_candidates(vectors @ block.T, k, found[1][:, -1])
    more = np.where(places < 0, -1, ids[places])
    return best(np.concatenate([found[0], more], 1), np.concatenate([found[1], scores], 1), k)
