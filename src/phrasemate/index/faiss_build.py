"""Build the FAISS file of an index from its store, in bounded memory, and install it in one step.

The file uses product quantisation with 4 bits per part and the fast scan of FAISS, and inverted lists from a million
phrases on. The candidates are re-scored with 8-bit vectors, so simple codes are enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from phrasemate.errors import IndexDamaged, PhraseIndexError, first_line
from phrasemate.index import faiss_search, row_codec
from phrasemate.index.exact import Runs, append_run, unpack
from phrasemate.index.faiss_search import Asking, Faiss, Layout
from phrasemate.index.manifest import VECTORS_JSON, Digest, VectorsManifest, sweep
from phrasemate.index.store import State, Store, VectorRow
from phrasemate.index.types import IndexSettings
from phrasemate.utils.arrays import Int8s
from phrasemate.utils.machine import cores, load_faiss, trim_heap
from phrasemate.utils.storage import flush, install

PER_LIST = 64  # training vectors for each inverted list
_ROUNDS = 10  # iterations of k-means; 25, the default of FAISS, give the same recall
_WORDS = 16  # code words of a part: 4 bits


def trained(layout: Layout, sample: Int8s) -> Any:
    """Return an empty FAISS index of a layout, trained on a non-empty sample (n, dim) of int8 vectors."""
    faiss = load_faiss()

    dim = sample.shape[1]
    index: Any = faiss.index_factory(dim, layout.factory, faiss.METRIC_INNER_PRODUCT)
    for clustering in [index.pq.cp, *([index.cp] if layout.lists else [])]:
        clustering.min_points_per_centroid = 1  # otherwise FAISS prints a warning for small samples
        clustering.niter = _ROUNDS
    if layout.lists:
        index.by_residual = False
        index.cp.max_points_per_centroid = PER_LIST
    least = max(_WORDS, layout.lists)
    index.train(row_codec.dequantise(sample if len(sample) >= least else np.resize(sample, (least, dim))))
    return index


_PARTIAL = "vectors.partial"  # temporary name of a file that is being written
_FILES = ("vectors-*", _PARTIAL)  # name patterns of all files that belong to the FAISS file
_CANDIDATES_FACTOR = 3  # factor on the tuned candidates of an OPQ file of an earlier version, which needed fewer
_GROWTH = 4  # codes must be trained again when the phrases are more than this many times those at training


class Plan(NamedTuple):
    """Layout and search settings of a FAISS file; ``tuned``: record of the tuning that chose them, or empty."""

    layout: Layout
    asking: Asking
    tuned: dict[str, Any]


def plan(store: Store, phrases: int, settings: IndexSettings) -> Plan:
    """Choose layout and search settings for a number of phrases.

    If the present file was tuned, its layout is scaled to the number of phrases. Otherwise the default is returned.
    """
    layout = Layout.of(phrases, store.dim, settings)
    usual = Plan(layout, Asking.by(settings, layout.lists), {})
    try:
        old = VectorsManifest.read(store.path / VECTORS_JSON)
        if not old.tuned:
            return usual
        # older indexes do not record the tuned layout; it is that of their last training
        tuned_as = (old.tuned["layout"], old.tuned["phrases"]) if "layout" in old.tuned else (old.factory, old.trained)
        layout = Layout.parse(tuned_as[0]).for_rows(phrases, tuned_as[1])
        asking = Asking.of(old, settings)
        if old.factory.startswith("OPQ"):  # codes of an earlier version, which need fewer candidates
            asking = replace(asking, candidates=_CANDIDATES_FACTOR * asking.candidates)
    except (PhraseIndexError, ValueError, KeyError):
        return usual
    if store.dim % layout.parts:
        return usual
    if not layout.lists and usual.layout.lists:  # tuned when there were too few phrases for inverted lists
        layout = replace(layout, lists=usual.layout.lists)  # tuning did not choose probes: use the default ones
        asking = replace(usual.asking, candidates=max(asking.candidates, usual.asking.candidates))
    return Plan(layout, asking, old.tuned)


Tell = Callable[[float], None]  # progress callback that takes the finished share, 0 to 1


def update(store: Store, settings: IndexSettings, threads: int | None, tell: Tell = lambda share: None) -> None:
    """Update the FAISS file if it is absent or damaged, or if many phrases were added or deleted since it was built.

    New phrases are appended as long as the trained codes are suitable. The file is built from scratch if it has grown
    more than fourfold since training, or if more than a fifth of it is deleted (``settings.rebuild_share``). So it is
    when it becomes large enough for inverted lists. Few phrases get no FAISS file. The caller holds the write lock.
    """
    with store.reading() as state:
        old = _usable_manifest(store, state)
        if old is not None:
            dead = Runs(store.tombstones())
            before = dead.below(old.covered)
            newer = _live_from(store, state, old.covered)
            deletions = old.rows - (old.covered - before)
            if newer < settings.exact_below and newer + deletions <= settings.rebuild_share * old.rows:
                sweep(store.path, _FILES, {old.file, old.codes})  # leftovers of an interrupted build
                return
            grown = state.phrases > _GROWTH * old.trained
            lists = plan(store, state.phrases, settings).layout.lists
            older = old.factory.startswith("OPQ")  # codes of an earlier version, which `trained` does not create
            has_new_layout = older or bool(lists) != bool(Layout.parse(old.factory).lists)
            if grown or has_new_layout or deletions > settings.rebuild_share * old.rows:
                old = None
        elif state.phrases < settings.exact_below and not (store.path / VECTORS_JSON).exists():
            sweep(store.path, _FILES)
            return
    trim_heap()  # release memory of the encoding first, since building needs much memory too
    build(store, settings, threads, old, tell=tell)
    trim_heap()


def _usable_manifest(store: Store, state: State) -> VectorsManifest | None:
    """Read ``vectors.json``; None if it is damaged or newer than the snapshot, or its files have the wrong sizes."""
    try:
        manifest = VectorsManifest.read(store.path / VECTORS_JSON)
        fits = (store.path / manifest.file).stat().st_size == manifest.size
        fits &= (store.path / manifest.codes).stat().st_size == manifest.rows * store.dim
    except (PhraseIndexError, OSError):
        return None
    return manifest if fits and manifest.generation <= state.generation else None


def build(
    store: Store,
    settings: IndexSettings,
    threads: int | None,
    old: VectorsManifest | None = None,
    chosen: Plan | None = None,
    tell: Tell = lambda share: None,
) -> VectorsManifest | None:
    """Build a FAISS file over all phrases of the store, and install it.

    Each file has a name of its own and is used once ``vectors.json`` names it, so an interrupted build changes nothing.
    With fewer than ``settings.exact_below`` phrases, an existing FAISS file is removed instead. The caller holds the
    write lock.

    Args:
        store: Store of the index.
        settings: Settings of the index.
        threads: Threads of FAISS; None for all that the process may use.
        old: Manifest of the present FAISS file. Missing phrases are appended to it; if it is damaged, a file is built
            from scratch.
        chosen: Layout and search settings of a file built from scratch; `plan` by default.
        tell: Progress callback.

    Returns the manifest, or None if no file was built. Raises PhraseIndexError (disk full) or IndexDamaged.
    """
    load_faiss(threads or cores())
    with store.reading() as state:
        if state.phrases < settings.exact_below:
            (store.path / VECTORS_JSON).unlink(missing_ok=True)
            sweep(store.path, _FILES)
            return None
        chosen = chosen or plan(store, state.phrases, settings)
        index: Any = None
        first, old_rows, runs = 0, 0, []
        if old is not None:
            try:
                index = Faiss.load(store.path, old, store.dim, settings, None).index
                first, old_rows, runs = old.covered, old.rows, [list(run) for run in old.runs]
            except IndexDamaged:
                old = None
        if index is None:
            count = training_size(chosen.layout, settings)
            index = trained(chosen.layout, row_codec.spread(store.sampled_vectors(count), count))
        size, fill_count = _live_from(store, state, first), 0
        with _partial_file(store.path) as codes:
            if old is not None:
                codes.copy(store.path / old.codes)
            for block in _blocks(store, runs, first, settings.block):
                index.add(row_codec.dequantise(block))
                codes.write(block.tobytes())
                fill_count += len(block)
                tell(fill_count / max(fill_count, size))
            if index.ntotal != old_rows + size:
                raise store.damaged(f"{index.ntotal} vectors found, expected {old_rows + size}")
            codes_file = codes.install(".codes")
    with _partial_file(store.path) as file:
        faiss_search.write_faiss(index, file.path)
        file.copy(file.path, here=True)
        name = file.install(".faiss")
    manifest = VectorsManifest(
        file=name,
        size=(store.path / name).stat().st_size,
        sha256=file.digest.whole,
        parts=file.digest.parts,
        codes=codes_file,
        codes_sha256=codes.digest.whole,
        codes_parts=codes.digest.parts,
        rows=index.ntotal,
        generation=state.generation,
        covered=state.next_phrase,
        factory=chosen.layout.factory if old is None else old.factory,
        trained=state.phrases if old is None else old.trained,
        runs=runs,
        asking=asdict(chosen.asking) if chosen.tuned else {},
        tuned=chosen.tuned,
    )
    manifest.write(store.path / VECTORS_JSON)
    sweep(store.path, _FILES, {manifest.file, manifest.codes})
    return manifest


def training_size(layout: Layout, settings: IndexSettings) -> int:
    """Return the number of vectors on which a layout is trained."""
    return max(settings.train, PER_LIST * layout.lists)


def _live_from(store: Store, state: State, first: int) -> int:
    """Count the live phrases with ids from ``first`` on."""
    dead = Runs(store.tombstones())
    return state.next_phrase - first - (len(dead) - dead.below(first))


def _blocks(store: Store, runs: list[list[int]], first: int, size: int) -> Iterator[Int8s]:
    """Yield the vectors of the phrases from id ``first`` on, in blocks (n, dim) of about ``size``.

    The runs of their ids are appended to ``runs``.
    """
    rows: list[VectorRow] = []
    count = 0
    for batch in store.vectors(first):
        for row in batch:
            append_run(runs, row.first_phrase, row.phrases)
            rows.append(row)
            count += row.phrases
        if count >= size:
            yield unpack(rows, store.dim)[0]
            rows, count = [], 0
    if rows:
        yield unpack(rows, store.dim)[0]


class _PartialFile:
    """File that is being written, with the SHA-256 of its content, from which `install` makes its name."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path, self._file, self.digest = path, file, Digest()

    def write(self, content: bytes) -> None:
        """Append bytes to the file and the digest."""
        self._file.write(content)
        self.digest.update(content)

    def copy(self, source: Path, here: bool = False) -> None:
        """Append the content of another file; ``here``: ``source`` is this file, so only add it to the digest."""
        with source.open("rb") as file:
            while block := file.read(1 << 20):
                self.digest.update(block) if here else self.write(block)

    def install(self, suffix: str) -> str:
        """Flush the file to the disk, rename it to its final name, and return this name."""
        flush(self._file)
        name = f"vectors-{self.digest.whole[:16]}{suffix}"
        install(self.path, self.path.with_name(name))
        return name


@contextmanager
def _partial_file(folder: Path) -> Iterator[_PartialFile]:
    """Open a partial file for writing; it is removed unless it was installed.

    Raises PhraseIndexError if the disk is full, which FAISS reports as a RuntimeError.
    """
    path = folder / _PARTIAL
    try:
        with path.open("wb") as file:
            yield _PartialFile(path, file)
    except (OSError, RuntimeError) as error:
        raise PhraseIndexError(
            f"{path}: cannot be written ({first_line(error)}); free some space and run: phrasemate index optimize"
        ) from error
    finally:  # after `install` the file has another name
        with suppress(OSError):
            path.unlink(missing_ok=True)
