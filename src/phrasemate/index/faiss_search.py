"""Approximate search: FAISS proposes candidates by 4-bit codes, and 8-bit vectors re-score them.

The codes are in inverted lists, or in one flat list if there are few. FAISS files are read and written here too, also
under names that are not valid UTF-8, which FAISS itself does not accept.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import IndexDamaged
from phrasemate.index.exact import Runs, best
from phrasemate.index.manifest import FACTORY, VectorsManifest, differing
from phrasemate.index.types import IndexSettings
from phrasemate.utils.arrays import Floats, Ids, Int8s
from phrasemate.utils.machine import cores, load_faiss


def read_faiss(path: Path) -> Any:
    """Read a FAISS index from a file. Raises OSError, or RuntimeError if the file is not a FAISS index."""
    faiss = load_faiss()
    if _has_utf8_name(path):
        return faiss.read_index(str(path))
    with path.open("rb") as file:
        return faiss.read_index(faiss.PyCallbackIOReader(file.read))


def write_faiss(index: Any, path: Path) -> None:
    """Write a FAISS index to a file. Raises OSError or RuntimeError if the disk is full."""
    faiss = load_faiss()
    if _has_utf8_name(path):
        faiss.write_index(index, str(path))
        return
    with path.open("wb") as file:
        faiss.write_index(index, faiss.PyCallbackIOWriter(file.write))


def _has_utf8_name(path: Path) -> bool:
    """Return True if FAISS itself can open the path, which must be valid UTF-8."""
    try:
        str(path).encode()
    except UnicodeEncodeError:  # a str represents bytes that are not UTF-8 by lone surrogates
        return False
    return True


_CANDIDATES = 384  # least number to re-score; on 990,000 phrases recall@10 is 0.98, with 128 candidates 0.92
_RESULTS = 32  # results to which `Asking.candidates` refers; more results need proportionally more candidates
_NUMBERS_AT_ONCE = 1 << 19  # vector components that a thread re-scores at once: 2 MB
_BATCH = 64  # least number of queries to divide among threads
_MOST_CANDIDATES = 1 << 24  # most candidates of all queries of one search: 130 MB of row numbers
UNLIMITED_SLACK = 4.0  # exceeds the difference of any two cosines, so no list is left out
_LISTS_PER_PROBE = 16  # by default at least one in 16 inverted lists is read for a query
_SHORTEST = 300  # least mean number of rows in an inverted list: half of the shortest lists that tuning tries


@dataclass(frozen=True, slots=True)
class Asking:
    """Search settings of a FAISS file, stored in ``vectors.json`` if they were tuned.

    Attributes:
        probes: Inverted lists to read for a query, at most.
        slack: Greatest difference between the score of the best list's centre and that of a list that is read.
        candidates: Candidates to re-score for up to 32 results; proportionally more for more results.
    """

    probes: int
    slack: float
    candidates: int

    @classmethod
    def by(cls, settings: IndexSettings, lists: int) -> Self:
        """Return the default settings for a file with a number of inverted lists (0: none)."""
        return cls(
            max(settings.nprobe, lists // _LISTS_PER_PROBE),
            UNLIMITED_SLACK,
            max(_CANDIDATES, settings.k_factor * _RESULTS),
        )

    @classmethod
    def of(cls, manifest: VectorsManifest, settings: IndexSettings) -> Self:
        """Return the tuned settings of a manifest, or the default ones. Raises IndexDamaged for invalid settings."""
        if not manifest.asking:
            return cls.by(settings, Layout.parse(manifest.factory).lists)
        try:
            asking = cls(**manifest.asking)
        except TypeError as error:
            raise IndexDamaged(f"{manifest.file}: has unknown search settings ({manifest.asking})") from error
        numbers = type(asking.probes) is int and type(asking.candidates) is int and isinstance(asking.slack, float)
        if not (numbers and asking.probes > 0 and asking.candidates > 0 and asking.slack >= 0):
            raise IndexDamaged(f"{manifest.file}: has invalid search settings ({manifest.asking})")
        return asking

    def fetch(self, k: int) -> int:
        """Return the number of candidates to re-score for k results."""
        return max(self.candidates, -(-self.candidates * k // _RESULTS))


@dataclass(frozen=True, slots=True)
class Layout:
    """Layout of a FAISS file: the number of inverted lists (0: one flat list), and of 4-bit parts of each code."""

    lists: int
    parts: int

    @classmethod
    def of(cls, rows_expected: int, dim: int, settings: IndexSettings) -> Self:
        """Return the default layout for a number of rows.

        A part covers three dimensions, or two or one if ``dim`` is not divisible. The number of lists is the greatest
        power of two up to sqrt(rows), or 0 below ``settings.ivf_from`` rows.
        """
        parts = next(dim // size for size in (3, 2, 1) if dim % size == 0)
        if rows_expected < settings.ivf_from:
            return cls(0, parts)
        return cls(1 << int(np.log2(rows_expected) / 2), parts)  # building takes rows x lists inner products

    @classmethod
    def parse(cls, factory: str) -> Self:
        """Parse a factory string, the inverse of `factory`; an OPQ prefix of earlier versions is ignored.

        Raises ValueError for any other string.
        """
        match = FACTORY.fullmatch(factory)
        if match is None:
            raise ValueError(f"not a layout of phrasemate: {factory!r}")
        return cls(int(match["lists"] or 0), int(match["parts"]))

    @property
    def factory(self) -> str:
        """Factory string of the layout for ``faiss.index_factory``."""
        lists = [f"IVF{self.lists}"] if self.lists else []
        return ",".join([*lists, f"PQ{self.parts}x4fs"])

    def for_rows(self, count: int, tuned_for: int) -> Layout:
        """Return the layout for another number of rows, with the same codes and lists of the same mean length.

        The mean length is at least `_SHORTEST` rows, before the number of lists is rounded to a power of two.

        Args:
            count: Rows of the new layout.
            tuned_for: Rows for which this layout was chosen.
        """
        if not self.lists:
            return self
        count = max(1, count)
        lists = min(self.lists * count / max(1, tuned_for), count / _SHORTEST)
        return Layout(1 << max(4, round(np.log2(lists))), self.parts)


def inverted(index: Any) -> Any:
    """Return the inverted-file part of a FAISS index, or None if it has none.

    The result is a view into ``index``, which must stay referenced.
    """
    faiss = load_faiss()

    inner = faiss.downcast_index(index)
    if isinstance(inner, faiss.IndexPreTransform):
        inner = faiss.downcast_index(inner.index)
    return inner if isinstance(inner, faiss.IndexIVF) else None


def _rotation_of(index: Any) -> Any:
    """Return the rotation that a FAISS index of an earlier version applies to vectors (OPQ), or None."""
    faiss = load_faiss()

    inner = faiss.downcast_index(index)
    if not isinstance(inner, faiss.IndexPreTransform):
        return None
    chain: Any = inner.chain
    return faiss.downcast_VectorTransform(chain.at(0))


def _map_codes(path: Path, shape: tuple[int, int]) -> Int8s:
    """Map a file of int8 vectors into memory without read-ahead, since rows are read in random order.

    With read-ahead the system would load most of the file, which may be larger than the memory.
    """
    rows = np.memmap(path, np.int8, "r", shape=shape)
    if hasattr(mmap, "MADV_RANDOM"):
        rows._mmap.madvise(mmap.MADV_RANDOM)  # type: ignore[attr-defined]
    return rows


class Faiss:
    """Approximate search engine: a FAISS index proposes rows, and int8 vectors re-score them.

    The int8 vectors are mapped from their file, so only the pages that are read take memory. ``manifest.runs`` maps
    rows to phrase ids.
    """

    def __init__(
        self, index: Any, codes: Int8s, manifest: VectorsManifest, settings: IndexSettings, threads: int | None
    ) -> None:
        faiss = load_faiss()

        self.manifest, self.runs = manifest, Runs(np.array(manifest.runs, np.int64).reshape(-1, 2))
        self.index, self._threads, self.asking = index, threads, Asking.of(manifest, settings)
        self._codes = codes.view(np.ndarray)  # indexing a memmap takes twice as long
        self._lists = inverted(index)
        quantizer: Any = None if self._lists is None else faiss.downcast_index(self._lists.quantizer)
        self._centres = quantizer
        if isinstance(quantizer, faiss.IndexRefine):  # of an earlier version, with coded centres
            self._centres = faiss.downcast_index(quantizer.refine_index)
        self._rotation = _rotation_of(index)
        self._pool_of: tuple[int, ThreadPoolExecutor] | None = None  # process id, pool

    @classmethod
    def load(
        cls,
        folder: Path,
        manifest: VectorsManifest,
        dim: int,
        settings: IndexSettings,
        threads: int | None,
        whole: bool = False,
    ) -> Faiss:
        """Load the FAISS file and map the int8 vectors that a manifest describes.

        ``whole``: hash the files even if they are unchanged since they were last hashed (`differing`). Raises
        IndexDamaged if a file is absent or does not match the manifest.
        """
        file, codes = folder / manifest.file, folder / manifest.codes
        try:
            description = (file, manifest.size, manifest.sha256, manifest.parts)
            of_codes = (codes, manifest.rows * dim, manifest.codes_sha256, manifest.codes_parts)
            if (wrong := differing([description], threads, whole)) is None:
                with ThreadPoolExecutor(1) as reader:  # the FAISS file is intact: read it while the codes are hashed
                    reading = reader.submit(read_faiss, file)
                    wrong = differing([of_codes], threads, whole)
            if wrong is not None:
                raise IndexDamaged(f"{wrong}: does not match its SHA-256")
            index = reading.result()
            engine = cls(index, _map_codes(codes, (manifest.rows, dim)), manifest, settings, threads)
        except (OSError, RuntimeError, ValueError) as error:
            raise IndexDamaged(f"{file}: cannot be read ({error})") from error
        if not index.ntotal == manifest.rows == len(engine.runs) or index.d != dim:
            raise IndexDamaged(f"{file}: holds {index.ntotal} vectors, expected {manifest.rows}")
        return engine

    def search(self, vectors: Floats, k: int, wider: int = 1) -> tuple[Ids, Floats]:
        """Return ids and scores of the k best phrases of each query, both (queries, k), best first.

        Deleted phrases are not left out.

        Args:
            vectors: Query vectors of unit length, (queries, dim).
            k: Number of results for each query.
            wider: Factor on the number of lists to read; above 1 the slack is unlimited.
        """
        count = self.asking.fetch(k)
        results = self._by_thread(
            vectors, lambda piece, threads: self.rescore(piece, self._proposals(piece, count, wider, threads), k)
        )
        return np.concatenate([ids for ids, _ in results]), np.concatenate([scores for _, scores in results])

    def propose(self, vectors: Floats, candidates: int) -> Ids:
        """Return the rows with the best 4-bit codes for each query, best first, padded with -1.

        Args:
            vectors: Query vectors of unit length, (queries, dim).
            candidates: Number of rows for each query; capped at the number of rows of the file.
        """
        return np.concatenate(
            self._by_thread(vectors, lambda piece, threads: self._proposals(piece, candidates, 1, threads))
        )

    def _by_thread(self, vectors: Floats, work: Callable[[Floats, int], Any]) -> list[Any]:
        """Call ``work(piece, threads)`` on pieces of the queries, and return the results in order.

        From `_BATCH` queries on each thread does all the work on one piece, because the threads of FAISS would wait
        for each other after each step. Fewer queries are one piece for all threads.
        """
        if len(vectors) < _BATCH or self._workers == 1:
            return [work(vectors, self._workers)]
        return list(
            self._pool.map(lambda piece: work(piece, 1), np.array_split(vectors, min(self._workers, len(vectors))))
        )

    @property
    def _pool(self) -> ThreadPoolExecutor:
        """Pool of search threads, reused because new threads have to allocate memory; each process has its own."""
        process = os.getpid()
        if self._pool_of is None or self._pool_of[0] != process:
            self._pool_of = process, ThreadPoolExecutor(self._workers, "search")
        return self._pool_of[1]

    def _proposals(self, vectors: Floats, candidates: int, wider: int, threads: int) -> Ids:
        """Return rows as `propose` does, computed by a number of FAISS threads; ``wider`` as in `search`."""
        load_faiss(threads)
        candidates = min(candidates, self.manifest.rows)
        if self._lists is None:
            return np.asarray(self.index.search(vectors, candidates)[1], np.int64)
        slack = self.asking.slack if wider == 1 else UNLIMITED_SLACK
        vectors = self._rotate(vectors)
        scores, lists = self._nearest_lists(vectors, self.asking.probes * wider, slack)
        order = np.argsort(lists[:, 0], kind="stable")  # groups queries that read the same lists
        self._lists.nprobe = lists.shape[1]
        positions = np.empty((len(vectors), candidates), np.int64)
        positions[order] = self._lists.search_preassigned(vectors[order], candidates, lists[order], scores[order])[1]
        return positions

    def _rotate(self, vectors: Floats) -> Floats:
        """Rotate queries like the indexed vectors, if these are rotated.

        FAISS computes the product, since threads of NumPy would compete with the threads of FAISS.
        """
        return vectors if self._rotation is None else self._rotation.apply(vectors)

    def _nearest_lists(self, vectors: Floats, probes: int, slack: float) -> tuple[Floats, Ids]:
        """Return scores and numbers of the lists to read for rotated queries, both (queries, probes), best first.

        Lists beyond the slack have number -1.
        """
        scores, lists = self._centres.search(vectors, min(probes, self.nlist))
        lists[scores < scores[:, :1] - np.float32(slack)] = -1
        return scores, lists

    @property
    def nlist(self) -> int:
        """Number of inverted lists; 0 for a flat layout."""
        return 0 if self._lists is None else int(self._lists.nlist)

    def reads(self, vectors: Floats, asking: Asking) -> tuple[float, float]:
        """Return the mean numbers of lists and of codes that are read for a query."""
        sizes = np.array([self._lists.invlists.list_size(number) for number in range(self.nlist)] + [0])  # 0 for -1
        lists = self._nearest_lists(self._rotate(vectors), asking.probes, asking.slack)[1]
        return float((lists >= 0).sum(1).mean()), float(sizes[lists].sum(1).mean())

    @property
    def _workers(self) -> int:
        """Number of threads to search with."""
        return self._threads or cores()

    def codes_of(self, ids: Ids) -> Int8s:
        """Return the int8 vectors (ids, dim) of phrases that the file covers."""
        codes: Int8s = self._codes[self.runs.positions(ids)]
        return codes

    def rescore(self, vectors: Floats, positions: Ids, k: int) -> tuple[Ids, Floats]:
        """Return ids and scores of the k best candidates of each query, scored with the int8 vectors.

        Args:
            vectors: Query vectors of unit length, (queries, dim).
            positions: Rows of the candidates, (queries, n); -1 for padding.
            k: Number of results for each query.
        """
        positions = np.sort(positions, axis=1)  # sorts the ids too, which saves `best` a sort
        return best(self.runs.ids(positions), self.products(vectors, positions), k)

    def products(self, vectors: Floats, positions: Ids) -> Floats:
        """Return the cosines (queries, n) of queries (queries, dim) with rows (queries, n); -inf for row -1."""
        (queries, count), dim = positions.shape, self._codes.shape[1]
        if count > (columns := max(1, _NUMBERS_AT_ONCE // dim)):
            parts = [self.products(vectors, positions[:, at : at + columns]) for at in range(0, count, columns)]
            return np.concatenate(parts, axis=1)
        scores, lengths = (np.empty(positions.shape, np.float32) for _ in range(2))
        at_once = min(queries, max(1, _NUMBERS_AT_ONCE // max(1, count * dim)))
        codes = np.empty((at_once, count, dim), np.int8)  # reused: threads that allocate memory wait for each other
        floats = np.empty(codes.shape, np.float32)
        for start in range(0, queries, max(1, at_once)):
            part = slice(start, start + at_once)
            rows = len(positions[part])
            np.take(self._codes, positions[part], axis=0, out=codes[:rows], mode="clip")  # row -1 reads row 0
            np.copyto(floats[:rows], codes[:rows])
            np.einsum("qnd,qnd->qn", floats[:rows], floats[:rows], out=lengths[part])
            np.matmul(floats[:rows], vectors[part, :, None], out=scores[part, :, None])
        scores /= np.sqrt(lengths, out=lengths)
        scores[positions < 0] = -np.inf
        return scores

    def search_where(
        self, vectors: Floats, k: int, keep: Callable[[Ids], NDArray[np.bool_]], share: float, most: float = np.inf
    ) -> tuple[Ids, Floats] | None:
        """Search for the k best phrases that pass a filter, with more and more candidates until k of them pass.

        Args:
            vectors: Query vectors of unit length, (queries, dim).
            k: Number of results for each query.
            keep: Filter: takes ids of any shape, and returns the mask of those that pass.
            share: Estimated share of phrases that pass.
            most: Most candidates to re-score for a query.

        Returns ids and scores, both (queries, k) and padded with -1 and -inf, or None if ``most`` is exceeded.
        """
        fetch, wider = (k if share >= 1 else int(k / max(share, 1e-3)) + 1), 1
        while True:
            fetch = min(fetch, self.manifest.rows)
            if (candidates := self.asking.fetch(fetch)) > most:
                return None
            if len(vectors) > 1 and len(vectors) * candidates > _MOST_CANDIDATES:
                first, second = (self.search_where(part, k, keep, share, most) for part in np.array_split(vectors, 2))
                if first is None or second is None:
                    return None
                return np.concatenate([first[0], second[0]]), np.concatenate([first[1], second[1]])
            ids, scores = self.search(vectors, fetch, wider)
            slack = self.asking.slack if wider == 1 else UNLIMITED_SLACK
            reads_all = self._lists is None or (self.asking.probes * wider >= self.nlist and slack >= UNLIMITED_SLACK)
            is_exhausted = reads_all and (fetch == self.manifest.rows or bool((ids[:, -1] < 0).all()))
            is_allowed = (ids >= 0) & keep(ids)
            if is_allowed.all() and is_allowed.shape[1] >= k:
                return ids[:, :k], scores[:, :k]
            ids, scores = np.where(is_allowed, ids, -1), np.where(is_allowed, scores, np.float32(-np.inf))
            if is_exhausted or is_allowed.sum(axis=1).min() >= k:
                return best(ids, scores, k)
            fetch, wider = fetch * 4, wider * 4
