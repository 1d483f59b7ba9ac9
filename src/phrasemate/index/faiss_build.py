"""FAISS file of an index: trained and filled from the store in bounded memory, with one swap at the end.

FAISS makes it by a factory string: product quantisation of 4 bits a part, read by its fast scan, in inverted lists from
a million phrases on. What FAISS proposes is compared again with 8-bit vectors, so plain codes are enough.
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
from phrasemate.index.exact import Int8s, Runs, append_run, unpack
from phrasemate.index.faiss_search import Asking, Faiss, Layout
from phrasemate.index.manifest import VECTORS_JSON, Digest, VectorsManifest, sweep
from phrasemate.index.store import State, Store, VectorRow
from phrasemate.index.types import IndexSettings
from phrasemate.utils.machine import cores, load_faiss, trim_heap
from phrasemate.utils.storage import flush, install

PER_LIST = 64  # vectors to learn an inverted list from
_ROUNDS = 10  # of k-means; with 25, FAISS's default, recall is the same
_WORDS = 16  # of a part: 4 bits


def trained(layout: Layout, sample: Int8s) -> Any:
    """An empty FAISS index of the layout, trained for vectors like the (n, dim) sample, which is not empty."""
    faiss = load_faiss()

    dim = sample.shape[1]
    index: Any = faiss.index_factory(dim, layout.factory, faiss.METRIC_INNER_PRODUCT)
    for clustering in [index.pq.cp, *([index.cp] if layout.lists else [])]:
        clustering.min_points_per_centroid = 1  # FAISS prints a warning otherwise
        clustering.niter = _ROUNDS
    if layout.lists:
        index.by_residual = False
        index.cp.max_points_per_centroid = PER_LIST
    least = max(_WORDS, layout.lists)
    index.train(row_codec.dequantise(sample if len(sample) >= least else np.resize(sample, (least, dim))))
    return index


_PARTIAL = "vectors.partial"  # a file while it is written
_FILES = ("vectors-*", _PARTIAL)
_MORE = 3  # times as many candidates as with the codes of earlier versions
_GROWTH = 4  # codes trained on a quarter of the phrases still fit


class Plan(NamedTuple):
    """Layout and search settings of a FAISS file; ``tuned``: what was measured when they were chosen."""

    layout: Layout
    asking: Asking
    tuned: dict[str, Any]


def plan(store: Store, phrases: int, settings: IndexSettings) -> Plan:
    """Choose layout and search settings: as the present file was tuned for its size, or the default."""
    layout = Layout.of(phrases, store.dim, settings)
    usual = Plan(layout, Asking.by(settings, layout.lists), {})
    try:
        old = VectorsManifest.read(store.path / VECTORS_JSON)
        if not old.tuned:
            return usual
        # indexes made before the tuned layout was kept have that of their last training
        tuned_as = (old.tuned["layout"], old.tuned["phrases"]) if "layout" in old.tuned else (old.factory, old.trained)
        layout = Layout.parse(tuned_as[0]).for_rows(phrases, tuned_as[1])
        asking = Asking.of(old, settings)
        if old.factory.startswith("OPQ"):  # an earlier version, whose codes needed fewer candidates
            asking = replace(asking, candidates=_MORE * asking.candidates)
    except (PhraseIndexError, ValueError, KeyError):
        return usual
    if store.dim % layout.parts:
        return usual
    if not layout.lists and usual.layout.lists:  # it was tuned when there were too few for lists
        layout = replace(layout, lists=usual.layout.lists)  # and tuning knows nothing of how many to read
        asking = replace(usual.asking, candidates=max(asking.candidates, usual.asking.candidates))
    return Plan(layout, asking, old.tuned)


Tell = Callable[[float], None]  # takes how much is ready, 0 to 1


def update(store: Store, settings: IndexSettings, threads: int | None, tell: Tell = lambda share: None) -> None:
    """Bring the FAISS file up to date if it is absent, damaged, or enough phrases came or went since it was made.

    New phrases are appended to it as long as its codes fit. They no longer fit when it has grown fourfold since they
    were trained, a fifth of it is deleted, or it is large enough for inverted lists.
    """
    with store.reading() as state:
        old = _intact(store, state)
        if old is not None:
            dead = Runs(store.tombstones())
            before = dead.below(old.covered)
            newer = _live_from(store, state, old.covered)
            deletions = old.rows - (old.covered - before)
            if newer < settings.exact_below and newer + deletions <= settings.rebuild_share * old.rows:
                sweep(store.path, _FILES, {old.file, old.codes})  # of a run that was killed before it came to this
                return
            grown = state.phrases > _GROWTH * old.trained
            lists = plan(store, state.phrases, settings).layout.lists
            older = old.factory.startswith("OPQ")  # with codes that FAISS alone does not make
            has_new_layout = older or bool(lists) != bool(Layout.parse(old.factory).lists)
            if grown or has_new_layout or deletions > settings.rebuild_share * old.rows:
                old = None
        elif state.phrases < settings.exact_below and not (store.path / VECTORS_JSON).exists():
            sweep(store.path, _FILES)
            return
    trim_heap()  # of what came before, encoding above all: it takes much memory, too
    build(store, settings, threads, old, tell=tell)
    trim_heap()


def _intact(store: Store, state: State) -> VectorsManifest | None:
    """Read vectors.json if its file seems to be there."""
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
    """Write a FAISS file over all phrases of the store; None, and none is kept, if they are few.

    It is trained and filled again, as ``chosen`` says or else `plan`, or, with ``old`` that is not damaged, it is that
    file and the phrases that it lacks. It gets a name of its own and is in force once ``vectors.json`` names it, so a
    kill in between changes nothing. The caller holds the lock of the writer. Raises PhraseIndexError (no space),
    IndexDamaged.
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
        with _written(store.path) as codes:
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
    with _written(store.path) as file:
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
    """Number of vectors that a layout is trained on."""
    return max(settings.train, PER_LIST * layout.lists)


def _live_from(store: Store, state: State, first: int) -> int:
    """Count the live phrases with an id of ``first`` or above."""
    dead = Runs(store.tombstones())
    return state.next_phrase - first - (len(dead) - dead.below(first))


def _blocks(store: Store, runs: list[list[int]], first: int, size: int) -> Iterator[Int8s]:
    """The (n, dim) vectors of phrases from ``first`` on, n about ``size``; appends their runs of ids to ``runs``."""
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
    """File being written, and the SHA-256 of its content, which becomes its name."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path, self._file, self.digest = path, file, Digest()

    def write(self, content: bytes) -> None:
        self._file.write(content)
        self.digest.update(content)

    def copy(self, source: Path, here: bool = False) -> None:
        """Write the content of another file; ``here``: it stands in this file already, only its digest is taken."""
        with source.open("rb") as file:
            while block := file.read(1 << 20):
                self.digest.update(block) if here else self.write(block)

    def install(self, suffix: str) -> str:
        """Flush the file to the disk and rename it to its final name, which is returned."""
        flush(self._file)
        name = f"vectors-{self.digest.whole[:16]}{suffix}"
        install(self.path, self.path.with_name(name))
        return name


@contextmanager
def _written(folder: Path) -> Iterator[_PartialFile]:
    """Open a partial file to write; PhraseIndexError if there is no space, which FAISS reports as a RuntimeError."""
    path = folder / _PARTIAL
    try:
        with path.open("wb") as file:
            yield _PartialFile(path, file)
    except (OSError, RuntimeError) as error:
        raise PhraseIndexError(
            f"{path}: cannot be written ({first_line(error)}); free some space and run: phrasemate index optimize"
        ) from error
    finally:  # it has another name, if all went well
        with suppress(OSError):
            path.unlink(missing_ok=True)
