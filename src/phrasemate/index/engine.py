"""Search engines: vectors in, the best phrase ids out. One reads every vector, the other asks FAISS."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import IndexDamaged
from phrasemate.index import rows
from phrasemate.index.manifest import VectorsManifest, file_sha256
from phrasemate.index.records import Settings
from phrasemate.index.store import VectorRow

__all__ = ["Engine", "Exact", "Faiss", "Runs", "best", "factory", "scan", "unpack"]

Ids = NDArray[np.int64]
Floats = NDArray[np.float32]
Int8s = NDArray[np.int8]
_CANDIDATES = 128  # re-scored at least: with 40, 10 results of 1.2 million had recall .905, with 128 they have .957
_SCORES_AT_ONCE = 1 << 24  # queries x vectors: 64 MB of scores
_NUMBERS_AT_ONCE = 1 << 22  # of candidates being re-scored: 16 MB
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
        top = np.argpartition(scores, -k, axis=1)[:, -k:]
        ids, scores = np.take_along_axis(ids, top, 1), np.take_along_axis(scores, top, 1)
    order = np.lexsort((ids, -scores), axis=1)[:, :k]
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
        self.norms = np.concatenate([self.norms, *(rows.inverse_norms(codes) for codes, _, _ in held)])
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
        return scan(vectors, k, self._blocks(wanted, len(vectors)))

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
        scores = vectors @ block.T  # (queries, n)
        top = best(np.broadcast_to(ids, scores.shape), scores, k)
        found = best(np.concatenate([found[0], top[0]], 1), np.concatenate([found[1], top[1]], 1), k)
    return found


def factory(rows_expected: int, dim: int, settings: Settings) -> str:
    """The FAISS recipe for a number of vectors: 4-bit codes of two dimensions each."""
    codes = f"PQ{dim // 2 if dim % 2 == 0 else dim}x4fs"
    if rows_expected < settings.ivf_from:
        return codes
    lists = 1 << int(np.log2(2 * np.sqrt(rows_expected)))  # the power of two below 2 sqrt(n): building costs n lists
    return f"IVF{lists},{codes}"


class Faiss:
    """A FAISS file that proposes, the int8 vectors that re-score its proposals, and which phrase ids its rows are.

    The vectors stay in their file and are mapped into memory, so only the pages that are looked at count.
    """

    def __init__(
        self, index: Any, codes: Int8s, manifest: VectorsManifest, settings: Settings, threads: int | None
    ) -> None:
        self.manifest, self.runs = manifest, Runs(np.array(manifest.runs, np.int64).reshape(-1, 2))
        self.index, self._codes, self._threads, self._settings = index, codes, threads, settings
        _tune(index, settings)

    @classmethod
    def load(cls, folder: Path, manifest: VectorsManifest, dim: int, settings: Settings, threads: int | None) -> Faiss:
        """Raises IndexDamaged unless the files are the ones that the manifest describes."""
        import faiss

        file, codes = folder / manifest.file, folder / manifest.codes
        try:
            _compare(file, manifest.size, manifest.sha256)
            _compare(codes, manifest.rows * dim, manifest.codes_sha256)
            index = faiss.read_index(str(file))
            engine = cls(index, np.memmap(codes, np.int8, "r", shape=(manifest.rows, dim)), manifest, settings, threads)
        except (OSError, RuntimeError, ValueError) as error:
            raise IndexDamaged(f"{file}: cannot be read ({error})") from error
        if not index.ntotal == manifest.rows == len(engine.runs) or index.d != dim:
            raise IndexDamaged(f"{file}: holds {index.ntotal} vectors, expected {manifest.rows}")
        return engine

    def search(self, vectors: Floats, k: int) -> tuple[Ids, Floats]:
        import faiss

        if self._threads is not None:
            faiss.omp_set_num_threads(self._threads)
        candidates = max(k * self._settings.k_factor, _CANDIDATES)
        _, positions = self.index.search(vectors, min(candidates, self.manifest.rows))
        scores = np.concatenate([self._scores(*part) for part in self._parts(vectors, positions)])
        scores[positions < 0] = -np.inf
        return best(self.runs.ids(positions), scores, k)

    def _parts(self, vectors: Floats, positions: Ids) -> Iterator[tuple[Floats, Ids]]:
        size = max(1, _NUMBERS_AT_ONCE // (positions.shape[1] * vectors.shape[1]))
        for start in range(0, len(vectors), size):
            yield vectors[start : start + size], positions[start : start + size]

    def _scores(self, vectors: Floats, positions: Ids) -> Floats:
        """Exact products with the int8 vectors: (queries, dim) and (queries, n) -> (queries, n)."""
        wide = self._codes[np.maximum(positions, 0)].astype(np.float32)  # (queries, n, dim)
        lengths = np.sqrt(np.einsum("qnd,qnd->qn", wide, wide))
        return np.asarray((wide @ vectors[:, :, None])[:, :, 0] / lengths, np.float32)

    def search_where(
        self, vectors: Floats, k: int, keep: Callable[[Ids], NDArray[np.bool_]], share: float
    ) -> tuple[Ids, Floats]:
        """The k best ids that ``keep``; asks for more until they are found. ``share``: what part is kept, roughly."""
        fetch = int(k / max(share, 1e-3)) + 1
        while True:
            fetch = min(fetch, self.manifest.rows)
            ids, scores = self.search(vectors, fetch)
            exhausted = fetch == self.manifest.rows or bool((ids[:, -1] < 0).all())
            kept = (ids >= 0) & keep(ids)
            ids, scores = np.where(kept, ids, -1), np.where(kept, scores, np.float32(-np.inf))
            if exhausted or kept.sum(axis=1).min() >= k:
                return best(ids, scores, k)
            fetch *= 4


def _compare(file: Path, size: int, sha256: str) -> None:
    if file.stat().st_size != size or file_sha256(file) != sha256:
        raise IndexDamaged(f"{file}: does not match its SHA-256")


def _tune(index: Any, settings: Settings) -> None:
    import faiss

    lists: Any = faiss.downcast_index(index)  # a view: ``index`` has to stay alive
    if hasattr(lists, "nprobe"):
        lists.nprobe = min(settings.nprobe, lists.nlist)
