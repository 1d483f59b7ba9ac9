"""Making the FAISS file from the store, in bounded memory, so that readers see the old one or the new one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from phrasemate.errors import IndexDamaged, IndexError_
from phrasemate.index import faissfile, rows
from phrasemate.index.approximate import Asking, Faiss, Layout
from phrasemate.index.engine import Int8s, Runs, unpack
from phrasemate.index.filling import PER_LIST, Filling
from phrasemate.index.manifest import Digest, VectorsManifest, install
from phrasemate.index.records import Settings
from phrasemate.index.store import State, Store, VectorRow
from phrasemate.utils.cpu import give_back

VECTORS_JSON = "vectors.json"
_PARTIAL = "vectors.partial"  # a file while it is written
_GROWTH = 4  # codes trained on a quarter of the phrases still fit


class Plan(NamedTuple):
    """How a FAISS file is to be made and asked; ``tuned``: what was measured when that was chosen, empty if nothing."""

    layout: Layout
    asking: Asking
    tuned: dict[str, Any]


def plan(store: Store, phrases: int, settings: Settings) -> Plan:
    """As the present file was tuned for its size, or as by default."""
    usual = Plan(Layout.of(phrases, store.dim, settings), Asking.by(settings), {})
    try:
        old = VectorsManifest.read(store.path / VECTORS_JSON)
        if not old.tuned:
            return usual
        # indexes made before the tuned layout was kept have that of their last training
        tuned_as = (old.tuned["layout"], old.tuned["phrases"]) if "layout" in old.tuned else (old.factory, old.trained)
        layout = Layout.parse(tuned_as[0]).for_rows(phrases, tuned_as[1])
        asking = Asking.of(old, settings)
    except (IndexError_, ValueError, KeyError):
        return usual
    if store.dim % layout.parts:
        return usual
    if not layout.lists and usual.layout.lists:  # it was tuned when there were too few for lists
        layout = replace(layout, lists=usual.layout.lists)  # and tuning knows nothing of how many to read
        asking = replace(usual.asking, candidates=max(asking.candidates, usual.asking.candidates))
    return Plan(layout, asking, old.tuned)


def update(store: Store, settings: Settings, threads: int | None) -> None:
    """Bring the FAISS file up to date if it is absent, damaged, or enough phrases came or went since it was made.

    New phrases are appended to it as long as its codes fit: until it has grown fourfold since they were trained, a
    fifth of it is deleted, or it is large enough for inverted lists.
    """
    with store.reading() as state:
        old = _intact(store, state)
        if old is not None:
            dead = Runs(store.tombstones())
            before = dead.below(old.covered)
            newer = _live_from(store, state, old.covered)
            gone = old.rows - (old.covered - before)
            if newer < settings.exact_below and newer + gone <= settings.rebuild_share * old.rows:
                return
            grown = state.phrases > _GROWTH * old.trained
            lists = plan(store, state.phrases, settings).layout.lists
            older = not old.factory.startswith("OPQ")  # with FAISS's own codes
            other = older or bool(lists) != bool(Layout.parse(old.factory).lists)
            if grown or other or gone > settings.rebuild_share * old.rows:
                old = None
        elif state.phrases < settings.exact_below and not (store.path / VECTORS_JSON).exists():
            return
    give_back()  # of what came before, encoding above all: it takes much memory, too
    try:
        build(store, settings, threads, old)
    except _Unfit:
        build(store, settings, threads)
    give_back()


class _Unfit(Exception):
    """The FAISS file that was to be extended is damaged."""


def _intact(store: Store, state: State) -> VectorsManifest | None:
    """What vectors.json says, if its file seems to be there."""
    try:
        manifest = VectorsManifest.read(store.path / VECTORS_JSON)
        fits = (store.path / manifest.file).stat().st_size == manifest.size
        fits &= (store.path / manifest.codes).stat().st_size == manifest.rows * store.dim
    except (IndexError_, OSError):
        return None
    return manifest if fits and manifest.generation <= state.generation else None


def build(
    store: Store,
    settings: Settings,
    threads: int | None,
    old: VectorsManifest | None = None,
    chosen: Plan | None = None,
) -> VectorsManifest | None:
    """Write a FAISS file over all phrases of the store; None, and none is kept, if they are few.

    It is trained and filled anew, as ``chosen`` says or else `plan`, or, with ``old``, it is that file and the phrases
    that it lacks. It gets a name of its
    own and is in force once ``vectors.json`` names it, so a kill in between changes nothing. The caller holds the
    lock of the writer. Raises IndexError_ (no space), IndexDamaged.
    """
    import faiss

    if threads is not None:
        faiss.omp_set_num_threads(threads)
    with store.reading() as state:
        if state.phrases < settings.exact_below:
            _remove(store.path)
            return None
        chosen = chosen or plan(store, state.phrases, settings)
        if old is None:
            count = wanted(chosen.layout, settings)
            filling = Filling.train(chosen.layout, rows.spread(store.sampled_vectors(count), count))
        else:
            filling = Filling.of(_loaded(store, old, settings))
        first = 0 if old is None else old.covered
        expected = (0 if old is None else old.rows) + _live_from(store, state, first)
        runs = [] if old is None else [list(run) for run in old.runs]
        with _written(store.path) as codes:
            if old is not None:
                codes.copy(store.path / old.codes)
            for block in _blocks(store, runs, first, settings.block):
                filling.add(rows.dequantise(block))
                codes.write(block.tobytes())
            index = filling.finished()
            if index.ntotal != expected:
                raise store.damaged(f"{index.ntotal} vectors found, expected {expected}")
            codes_file = codes.install(".codes")
    with _written(store.path) as file:
        faissfile.write(index, file.path)
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
        asking=chosen.asking.as_dict() if chosen.tuned else {},
        tuned=chosen.tuned,
    )
    manifest.write(store.path / VECTORS_JSON)
    _sweep(store.path, keep={manifest.file, manifest.codes})
    return manifest


def wanted(layout: Layout, settings: Settings) -> int:
    """How many vectors to train it on."""
    return max(settings.train, PER_LIST * layout.lists)


def _loaded(store: Store, old: VectorsManifest, settings: Settings) -> Any:
    try:
        return Faiss.load(store.path, old, store.dim, settings, None).index
    except IndexDamaged as error:
        raise _Unfit from error


def _live_from(store: Store, state: State, first: int) -> int:
    """How many live phrases have an id of ``first`` or above."""
    dead = Runs(store.tombstones())
    return state.next_phrase - first - (len(dead) - dead.below(first))


def _remove(folder: Path) -> None:
    (folder / VECTORS_JSON).unlink(missing_ok=True)
    _sweep(folder, keep=set())


def _sweep(folder: Path, keep: set[str]) -> None:
    for old in (*folder.glob("vectors-*"), folder / _PARTIAL):
        if old.name not in keep and old.exists():
            with suppress(OSError):  # another system may refuse while a reader has it open
                old.unlink()


def _blocks(store: Store, runs: list[list[int]], first: int, size: int) -> Iterator[Int8s]:
    """The (n, dim) vectors of phrases from ``first`` on, n about ``size``; appends their runs of ids to ``runs``."""
    held: list[VectorRow] = []
    count = 0
    for batch in store.vectors(first):
        for row in batch:
            if runs and sum(runs[-1]) == row.first_phrase:
                runs[-1][1] += row.phrases
            else:
                runs.append([row.first_phrase, row.phrases])
            held.append(row)
            count += row.phrases
        if count >= size:
            yield unpack(held, store.dim)[0]
            held, count = [], 0
    if held:
        yield unpack(held, store.dim)[0]


class _Partial:
    """A file that is being written, and the SHA-256 of its content, which becomes its name."""

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
        """Flush to the disk and give it its name, which is returned."""
        self._file.flush()
        os.fsync(self._file.fileno())
        name = f"vectors-{self.digest.whole[:16]}{suffix}"
        install(self.path, self.path.with_name(name))
        return name


@contextmanager
def _written(folder: Path) -> Iterator[_Partial]:
    """Raises IndexError_ if there is no space; FAISS reports that as a RuntimeError."""
    path = folder / _PARTIAL
    try:
        with path.open("wb") as file:
            yield _Partial(path, file)
    except (OSError, RuntimeError) as error:
        raise IndexError_(
            f"{path}: cannot be written ({_first_line(error)}); free some space and run: phrasemate index optimize"
        ) from error
    finally:  # it has another name, if all went well
        with suppress(OSError):
            path.unlink(missing_ok=True)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
