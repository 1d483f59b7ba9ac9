"""Making the FAISS file from the store, in bounded memory, so that readers see the old one or the new one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from phrasemate.errors import IndexDamaged, IndexError_
from phrasemate.index import rows
from phrasemate.index.engine import Faiss, Floats, Runs, factory, unpack
from phrasemate.index.manifest import VectorsManifest, file_sha256, install
from phrasemate.index.records import Settings
from phrasemate.index.store import State, Store, VectorRow

__all__ = ["VECTORS_JSON", "build", "update"]

VECTORS_JSON = "vectors.json"
_PER_LIST = 40  # training vectors per inverted list; FAISS asks for 39
_ROUNDS = 8  # of k-means for the inverted lists: 25 take three times as long for the same recall (docs/index.md)
_GROWTH = 4  # codes trained on a quarter of the phrases still fit


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
            other = factory(state.phrases, store.dim, settings).startswith("IVF") != old.factory.startswith("IVF")
            if grown or other or gone > settings.rebuild_share * old.rows:
                old = None
        elif state.phrases < settings.exact_below and not (store.path / VECTORS_JSON).exists():
            return
    try:
        build(store, settings, threads, old)
    except _Unfit:
        build(store, settings, threads)


class _Unfit(Exception):
    """The FAISS file that was to be extended is damaged."""


def _intact(store: Store, state: State) -> VectorsManifest | None:
    """What vectors.json says, if its file seems to be there."""
    try:
        manifest = VectorsManifest.read(store.path / VECTORS_JSON)
        fits = (store.path / manifest.file).stat().st_size == manifest.size
    except (IndexError_, OSError):
        return None
    return manifest if fits and manifest.generation <= state.generation else None


def build(
    store: Store, settings: Settings, threads: int | None, old: VectorsManifest | None = None
) -> VectorsManifest | None:
    """Write a FAISS file over all phrases of the store; None, and none is kept, if they are few.

    It is trained and filled anew, or, with ``old``, that file and the phrases that it lacks. It gets a name of its
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
        if old is None:
            recipe = factory(state.phrases, store.dim, settings)
            index, runs, expected, trained = _trained(store, recipe, settings), [], state.phrases, state.phrases
        else:
            recipe, trained, runs = old.factory, old.trained, [list(run) for run in old.runs]
            index, expected = _loaded(store, old, settings), old.rows + _live_from(store, state, old.covered)
        for block in _blocks(store, runs, 0 if old is None else old.covered, settings.block):
            index.add(block)
        if index.ntotal != expected:
            raise store.damaged(f"{index.ntotal} vectors found, expected {expected}")
    partial = store.path / "vectors.faiss.partial"
    try:
        faiss.write_index(index, str(partial))
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
        sha = file_sha256(partial)
        manifest = VectorsManifest(
            file=f"vectors-{sha[:16]}.faiss",
            sha256=sha,
            size=partial.stat().st_size,
            rows=index.ntotal,
            generation=state.generation,
            covered=state.next_phrase,
            factory=recipe,
            runs=runs,
            trained=trained,
        )
        install(partial, store.path / manifest.file)
    except (OSError, RuntimeError) as error:  # FAISS reports a full disk as a RuntimeError
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise IndexError_(
            f"{partial}: cannot be written ({_first_line(error)}); free some space and run: phrasemate index optimize"
        ) from error
    manifest.write(store.path / VECTORS_JSON)
    _sweep(store.path, keep=manifest.file)
    return manifest


def _trained(store: Store, recipe: str, settings: Settings) -> Any:
    """An empty FAISS index whose codes fit the vectors of the store."""
    import faiss

    index: Any = faiss.index_factory(store.dim, recipe, faiss.METRIC_INNER_PRODUCT)
    lists = 0
    if recipe.startswith("IVF"):
        base: Any = faiss.downcast_index(index.base_index)
        lists, base.cp.niter = base.nlist, _ROUNDS
    index.train(_sample(store, max(settings.train, _PER_LIST * lists)))
    return index


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
    _sweep(folder, keep="")


def _sweep(folder: Path, keep: str) -> None:
    for old in folder.glob("vectors-*.faiss"):
        if old.name != keep:
            with suppress(OSError):  # another system may refuse while a reader has it open
                old.unlink()


def _sample(store: Store, wanted: int) -> Floats:
    """(n, dim) training vectors, spread over the store."""
    codes = store.sampled_vectors(wanted)
    if len(codes) > wanted:
        codes = codes[np.linspace(0, len(codes) - 1, wanted).astype(int)]
    return rows.dequantise(codes)


def _blocks(store: Store, runs: list[list[int]], first: int, size: int) -> Iterator[Floats]:
    """The vectors of phrases from ``first`` on, about ``size`` at a time; appends their runs of ids to ``runs``."""
    held: list[VectorRow] = []
    for batch in store.vectors(first):
        held += batch
        for row in batch:
            if runs and sum(runs[-1]) == row.first_phrase:
                runs[-1][1] += row.phrases
            else:
                runs.append([row.first_phrase, row.phrases])
        if sum(row.phrases for row in held) >= size:
            yield rows.dequantise(unpack(held, store.dim)[0])
            held = []
    if held:
        yield rows.dequantise(unpack(held, store.dim)[0])


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
