"""A FAISS index to and from a file, whatever its name: FAISS by itself takes names in UTF-8 only.

The approximate engine: FAISS proposes by 4-bit codes, in inverted lists or not, and 8-bit vectors re-score.
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
from phrasemate.index.exact import Int8s, Runs, best
from phrasemate.index.manifest import FACTORY, VectorsManifest, differing
from phrasemate.index.types import IndexSettings
from phrasemate.utils.arrays import Floats, Ids
from phrasemate.utils.machine import cores, load_faiss


def read_faiss(path: Path) -> Any:
    """Raises OSError, and RuntimeError for what is not an index."""
    faiss = load_faiss()
    if _nameable(path):
        return faiss.read_index(str(path))
    with path.open("rb") as file:
        return faiss.read_index(faiss.PyCallbackIOReader(file.read))


def write_faiss(index: Any, path: Path) -> None:
    """Raises OSError or RuntimeError if there is no space."""
    faiss = load_faiss()
    if _nameable(path):
        faiss.write_index(index, str(path))
        return
    with path.open("wb") as file:
        faiss.write_index(index, faiss.PyCallbackIOWriter(file.write))


def _nameable(path: Path) -> bool:
    try:
        str(path).encode()
    except UnicodeEncodeError:  # bytes outside UTF-8 are halves of surrogate pairs in a str
        return False
    return True


_CANDIDATES = 384  # re-scored at least: with 128, 10 results of 990,000 have recall .92, with 384 they have .98
_PER = 32  # results for which a number of candidates is meant
_NUMBERS_AT_ONCE = 1 << 19  # of candidates being re-scored by a thread: 2 MB
_BATCH = 64  # queries from which on it is worth to order them and to use several threads
_PROPOSED = 1 << 24  # candidates of all queries at once: 130 MB of row numbers
_ALL = 4.0  # more than two cosines can differ
_READ = 16  # one of so many inverted lists is read for a query, at least
_SHORTEST = 300  # rows of an inverted list on the average; half of the shortest that tuning tries


@dataclass(frozen=True, slots=True)
class Asking:
    """Search settings of a FAISS file, stored in vectors.json where they were tuned.

    ``probes``: inverted lists that are read for a query, at most. ``slack``: of these, lists whose centre scores so
    much less than the best one are left out. ``candidates``: re-scored for 32 results or fewer; for more in proportion.
    """

    probes: int
    slack: float
    candidates: int

    @classmethod
    def by(cls, settings: IndexSettings, lists: int) -> Self:
        """Default settings, for a file of so many inverted lists that was not tuned."""
        return cls(max(settings.nprobe, lists // _READ), _ALL, max(_CANDIDATES, settings.k_factor * _PER))

    @classmethod
    def of(cls, manifest: VectorsManifest, settings: IndexSettings) -> Self:
        """Raises IndexDamaged for what no tuning gives."""
        if not manifest.asking:
            return cls.by(settings, Layout.parse(manifest.factory).lists)
        try:
            asking = cls(**manifest.asking)
        except TypeError as error:
            raise IndexDamaged(f"{manifest.file}: names unknown search settings ({manifest.asking})") from error
        numbers = type(asking.probes) is int and type(asking.candidates) is int and isinstance(asking.slack, float)
        if not (numbers and asking.probes > 0 and asking.candidates > 0 and asking.slack >= 0):
            raise IndexDamaged(f"{manifest.file}: names invalid search settings ({manifest.asking})")
        return asking

    def fetch(self, k: int) -> int:
        """Candidates for k results."""
        return max(self.candidates, -(-self.candidates * k // _PER))


@dataclass(frozen=True, slots=True)
class Layout:
    """Layout of the codes of a FAISS file: in ``lists`` (0: none), each code of ``parts`` 4-bit numbers."""

    lists: int
    parts: int

    @classmethod
    def of(cls, rows_expected: int, dim: int, settings: IndexSettings) -> Self:
        """Default layout: a part for every three dimensions, the power of two below sqrt(n) lists."""
        parts = next(dim // size for size in (3, 2, 1) if dim % size == 0)
        if rows_expected < settings.ivf_from:
            return cls(0, parts)
        return cls(1 << int(np.log2(rows_expected) / 2), parts)  # building costs n times as many products

    @classmethod
    def parse(cls, factory: str) -> Self:
        """The inverse of `factory`; earlier versions wrote OPQ before it. Raises ValueError."""
        match = FACTORY.fullmatch(factory)
        if match is None:
            raise ValueError(f"no layout of ours: {factory!r}")
        return cls(int(match["lists"] or 0), int(match["parts"]))

    @property
    def factory(self) -> str:
        """Factory string of FAISS."""
        lists = [f"IVF{self.lists}"] if self.lists else []
        return ",".join([*lists, f"PQ{self.parts}x4fs"])

    def for_rows(self, count: int, tuned_for: int) -> Layout:
        """Layout of the same code, with lists as long for so many rows; of `_SHORTEST` rows, if they were shorter."""
        if not self.lists:
            return self
        count = max(1, count)
        lists = min(self.lists * count / max(1, tuned_for), count / _SHORTEST)
        return Layout(1 << max(4, round(np.log2(lists))), self.parts)


def inverted(index: Any) -> Any:
    """The inverted lists of a FAISS index, a view that needs ``index`` alive; None if it has none."""
    faiss = load_faiss()

    inner = faiss.downcast_index(index)
    if isinstance(inner, faiss.IndexPreTransform):
        inner = faiss.downcast_index(inner.index)
    return inner if isinstance(inner, faiss.IndexIVF) else None


def _turned(index: Any) -> Any:
    """Transformation that a FAISS index applies to vectors first, as earlier versions wrote it; else None."""
    faiss = load_faiss()

    inner = faiss.downcast_index(index)
    if not isinstance(inner, faiss.IndexPreTransform):
        return None
    chain: Any = inner.chain
    return faiss.downcast_VectorTransform(chain.at(0))


def _mapped(path: Path, shape: tuple[int, int]) -> Int8s:
    """Map a file of vectors: only the pages that are read are loaded, and rows lie anywhere in it.

    With the pages around each, which the system reads by default, memory smaller than the file would not do.
    """
    rows = np.memmap(path, np.int8, "r", shape=shape)
    if hasattr(mmap, "MADV_RANDOM"):
        rows._mmap.madvise(mmap.MADV_RANDOM)  # type: ignore[attr-defined]
    return rows


class Faiss:
    """Approximate engine: a FAISS file proposes, int8 vectors re-score, and runs map rows to phrase ids.

    The vectors stay in their file and are mapped into memory, so only the pages that are looked at count.
    """

    def __init__(
        self, index: Any, codes: Int8s, manifest: VectorsManifest, settings: IndexSettings, threads: int | None
    ) -> None:
        faiss = load_faiss()

        self.manifest, self.runs = manifest, Runs(np.array(manifest.runs, np.int64).reshape(-1, 2))
        self.index, self._threads, self.asking = index, threads, Asking.of(manifest, settings)
        self._codes = codes.view(np.ndarray)  # a memmap's own indexing takes twice as long
        self._lists = inverted(index)
        quantizer: Any = None if self._lists is None else faiss.downcast_index(self._lists.quantizer)
        self._centres = quantizer
        if isinstance(quantizer, faiss.IndexRefine):  # as earlier versions wrote it, with codes of the centres
            self._centres = faiss.downcast_index(quantizer.refine_index)
        self._turned = _turned(index)
        self._kept: tuple[int, ThreadPoolExecutor] | None = None

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
        """Raises IndexDamaged unless the files are those that the manifest describes; ``whole`` as in `differing`."""
        file, codes = folder / manifest.file, folder / manifest.codes
        try:
            description = (file, manifest.size, manifest.sha256, manifest.parts)
            of_codes = (codes, manifest.rows * dim, manifest.codes_sha256, manifest.codes_parts)
            if (wrong := differing([description], threads, whole)) is None:
                with ThreadPoolExecutor(1) as aside:  # its bytes are ours: FAISS reads them while the codes are hashed
                    reading = aside.submit(read_faiss, file)
                    wrong = differing([of_codes], threads, whole)
            if wrong is not None:
                raise IndexDamaged(f"{wrong}: does not match its SHA-256")
            index = reading.result()
            engine = cls(index, _mapped(codes, (manifest.rows, dim)), manifest, settings, threads)
        except (OSError, RuntimeError, ValueError) as error:
            raise IndexDamaged(f"{file}: cannot be read ({error})") from error
        if not index.ntotal == manifest.rows == len(engine.runs) or index.d != dim:
            raise IndexDamaged(f"{file}: holds {index.ntotal} vectors, expected {manifest.rows}")
        return engine

    def search(self, vectors: Floats, k: int, wider: int = 1) -> tuple[Ids, Floats]:
        """Search; ``wider``: read so many times as many lists, and leave none of them out if above 1."""
        count = self.asking.fetch(k)
        results = self._by_thread(
            vectors, lambda piece, threads: self.rescore(piece, self._proposed(piece, count, wider, threads), k)
        )
        return np.concatenate([ids for ids, _ in results]), np.concatenate([scores for _, scores in results])

    def propose(self, vectors: Floats, candidates: int) -> Ids:
        """(queries, dim) -> (queries, candidates or fewer) rows, best code first, -1 where there are fewer."""
        return np.concatenate(
            self._by_thread(vectors, lambda piece, threads: self._proposed(piece, candidates, 1, threads))
        )

    def _by_thread(self, vectors: Floats, work: Callable[[Floats, int], Any]) -> list[Any]:
        """``work(piece, threads)`` of many queries' pieces, one for each thread; of few in one piece, with all threads.

        A thread does all that there is to do with its piece, for FAISS's own threads keep others waiting when they are
        done with a step.
        """
        if len(vectors) < _BATCH or self._workers == 1:
            return [work(vectors, self._workers)]
        return list(
            self._pool.map(lambda piece: work(piece, 1), np.array_split(vectors, min(self._workers, len(vectors))))
        )

    @property
    def _pool(self) -> ThreadPoolExecutor:
        """Pool of threads, reused since new threads would first have to allocate their memory; a forked process makes
        its own.
        """
        process = os.getpid()
        if self._kept is None or self._kept[0] != process:
            self._kept = process, ThreadPoolExecutor(self._workers, "search")
        return self._kept[1]

    def _proposed(self, vectors: Floats, candidates: int, wider: int, threads: int) -> Ids:
        load_faiss(threads)
        candidates = min(candidates, self.manifest.rows)
        if self._lists is None:
            return np.asarray(self.index.search(vectors, candidates)[1], np.int64)
        slack = self.asking.slack if wider == 1 else _ALL
        vectors = self._rotated(vectors)
        scores, lists = self._near(vectors, self.asking.probes * wider, slack)
        order = np.argsort(lists[:, 0], kind="stable")  # queries that read the same lists follow each other
        self._lists.nprobe = lists.shape[1]
        positions = np.empty((len(vectors), candidates), np.int64)
        positions[order] = self._lists.search_preassigned(vectors[order], candidates, lists[order], scores[order])[1]
        return positions

    def _rotated(self, vectors: Floats) -> Floats:
        """Rotate queries as the lists are. By FAISS: the threads of NumPy's product would be in the way of its own."""
        return vectors if self._turned is None else self._turned.apply(vectors)

    def _near(self, vectors: Floats, probes: int, slack: float) -> tuple[Floats, Ids]:
        """Find, for rotated queries, scores and numbers of the lists to read, (queries, probes), best first.

        The number is -1 for those beyond the slack.
        """
        scores, lists = self._centres.search(vectors, min(probes, self.nlist))
        lists[scores < scores[:, :1] - np.float32(slack)] = -1
        return scores, lists

    @property
    def nlist(self) -> int:
        """Number of inverted lists."""
        return 0 if self._lists is None else int(self._lists.nlist)

    def reads(self, vectors: Floats, asking: Asking) -> tuple[float, float]:
        """Lists and codes that are read for a query, on average."""
        sizes = np.array([self._lists.invlists.list_size(number) for number in range(self.nlist)] + [0])  # 0 for -1
        lists = self._near(self._rotated(vectors), asking.probes, asking.slack)[1]
        return float((lists >= 0).sum(1).mean()), float(sizes[lists].sum(1).mean())

    @property
    def _workers(self) -> int:
        return self._threads or cores()

    def codes_of(self, ids: Ids) -> Int8s:
        """(ids, dim) int8 vectors of phrases that the file has."""
        codes: Int8s = self._codes[self.runs.positions(ids)]
        return codes

    def rescore(self, vectors: Floats, positions: Ids, k: int) -> tuple[Ids, Floats]:
        """Exact products with the int8 vectors: (queries, dim) and (queries, n) rows -> the k best of each."""
        positions = np.sort(positions, axis=1)  # so are their ids, which need not be sorted then
        return best(self.runs.ids(positions), self.products(vectors, positions), k)

    def products(self, vectors: Floats, positions: Ids) -> Floats:
        """(queries, dim) and (queries, n) rows -> (queries, n) cosines; -inf for row -1."""
        (queries, count), dim = positions.shape, self._codes.shape[1]
        if count > (columns := max(1, _NUMBERS_AT_ONCE // dim)):
            parts = [self.products(vectors, positions[:, at : at + columns]) for at in range(0, count, columns)]
            return np.concatenate(parts, axis=1)
        scores, lengths = (np.empty(positions.shape, np.float32) for _ in range(2))
        at_once = min(queries, max(1, _NUMBERS_AT_ONCE // max(1, count * dim)))
        codes = np.empty((at_once, count, dim), np.int8)  # allocated once: threads that allocate wait for each other
        wide = np.empty(codes.shape, np.float32)
        for start in range(0, queries, max(1, at_once)):
            part = slice(start, start + at_once)
            rows = len(positions[part])
            np.take(self._codes, positions[part], axis=0, out=codes[:rows], mode="clip")  # the first row for -1
            np.copyto(wide[:rows], codes[:rows])
            np.einsum("qnd,qnd->qn", wide[:rows], wide[:rows], out=lengths[part])
            np.matmul(wide[:rows], vectors[part, :, None], out=scores[part, :, None])
        scores /= np.sqrt(lengths, out=lengths)
        scores[positions < 0] = -np.inf
        return scores

    def search_where(
        self, vectors: Floats, k: int, keep: Callable[[Ids], NDArray[np.bool_]], share: float, most: float = np.inf
    ) -> tuple[Ids, Floats] | None:
        """The k best ids that ``keep``; asks for more until they are found. ``share``: what part is kept, roughly.

        None where more than ``most`` candidates of a query would have to be looked at.
        """
        fetch, wider = (k if share >= 1 else int(k / max(share, 1e-3)) + 1), 1
        while True:
            fetch = min(fetch, self.manifest.rows)
            if (candidates := self.asking.fetch(fetch)) > most:
                return None
            if len(vectors) > 1 and len(vectors) * candidates > _PROPOSED:
                first, second = (self.search_where(part, k, keep, share, most) for part in np.array_split(vectors, 2))
                if first is None or second is None:
                    return None
                return np.concatenate([first[0], second[0]]), np.concatenate([first[1], second[1]])
            ids, scores = self.search(vectors, fetch, wider)
            slack = self.asking.slack if wider == 1 else _ALL
            reads_all = self._lists is None or (self.asking.probes * wider >= self.nlist and slack >= _ALL)
            is_exhausted = reads_all and (fetch == self.manifest.rows or bool((ids[:, -1] < 0).all()))
            is_allowed = (ids >= 0) & keep(ids)
            if is_allowed.all() and is_allowed.shape[1] >= k:
                return ids[:, :k], scores[:, :k]
            ids, scores = np.where(is_allowed, ids, -1), np.where(is_allowed, scores, np.float32(-np.inf))
            if is_exhausted or is_allowed.sum(axis=1).min() >= k:
                return best(ids, scores, k)
            fetch, wider = fetch * 4, wider * 4
