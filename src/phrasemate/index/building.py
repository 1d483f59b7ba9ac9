"""Making the FAISS file from the store, in bounded memory, so that readers see the old one or the new one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from phrasemate.errors import IndexError_
from phrasemate.index import rows
from phrasemate.index.engine import Floats, Runs, factory, unpack
from phrasemate.index.manifest import VectorsManifest, file_sha256, install
from phrasemate.index.records import Settings
from phrasemate.index.store import Store, VectorRow

__all__ = ["VECTORS_JSON", "build", "update"]

VECTORS_JSON = "vectors.json"
_PER_LIST = 40  # training vectors per inverted list; FAISS asks for 39


def update(store: Store, settings: Settings, threads: int | None) -> None:
    """Build the FAISS file again if it is absent, damaged, or enough phrases came or went since it was made."""
    with store.reading() as state:
        try:
            manifest = VectorsManifest.read(store.path / VECTORS_JSON)
            intact = (store.path / manifest.file).stat().st_size == manifest.size
        except (IndexError_, OSError):
            intact = False
        if intact:
            dead = Runs(store.tombstones())
            old = dead.below(manifest.covered)
            newer = state.next_phrase - manifest.covered - (len(dead) - old)
            gone = manifest.rows - (manifest.covered - old)
            if newer < settings.exact_below and newer + gone <= settings.rebuild_share * manifest.rows:
                return
        elif state.phrases < settings.exact_below and not (store.path / VECTORS_JSON).exists():
            return
    build(store, settings, threads)


def build(store: Store, settings: Settings, threads: int | None) -> VectorsManifest | None:
    """Train, fill and write a FAISS file over all phrases of the store; None, and none is kept, if they are few.

    It gets a name of its own and is in force once ``vectors.json`` names it, so a kill in between changes nothing.
    The caller holds the lock of the writer. Raises IndexError_ (no space), IndexDamaged.
    """
    import faiss

    if threads is not None:
        faiss.omp_set_num_threads(threads)
    with store.reading() as state:
        if state.phrases < settings.exact_below:
            _remove(store.path)
            return None
        recipe = factory(state.phrases, store.dim, settings)
        index, runs = _filled(store, recipe, settings)
        if index.ntotal != state.phrases:
            raise store.damaged(f"{index.ntotal} vectors found, expected {state.phrases}")
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


def _filled(store: Store, recipe: str, settings: Settings) -> tuple[Any, list[list[int]]]:
    """A trained FAISS index with all vectors of the store, and the runs of ids that its rows are."""
    import faiss

    index = faiss.index_factory(store.dim, recipe, faiss.METRIC_INNER_PRODUCT)
    lists = int(recipe.split(",")[0][3:]) if recipe.startswith("IVF") else 0
    index.train(_sample(store, max(settings.train, _PER_LIST * lists)))
    runs: list[list[int]] = []
    for block in _blocks(store, runs, settings.block):
        index.add(block)
    return index, runs


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


def _blocks(store: Store, runs: list[list[int]], size: int) -> Iterator[Floats]:
    """All vectors in the order of their ids, about ``size`` at a time; notes their runs of ids."""
    held: list[VectorRow] = []
    for batch in store.vectors():
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
