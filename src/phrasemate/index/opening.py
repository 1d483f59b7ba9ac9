"""What is checked before an index is used: the model, the store's schema, and that nothing committed was lost."""

from __future__ import annotations

from pathlib import Path

from phrasemate.errors import IndexDamaged, IndexError_, IndexExists, IndexMissing, ModelMismatch
from phrasemate.index import building, database
from phrasemate.index.lock import LOCK_FILE, NOTE_FILE
from phrasemate.index.manifest import Manifest, VectorsManifest
from phrasemate.index.records import IndexModel
from phrasemate.index.store import Store

_LEFT_BY_CREATE = {LOCK_FILE, NOTE_FILE, "index.json.partial"}  # all that a killed create leaves before index.json


def make_way(folder: Path) -> None:
    """Make the folder of a new index. Raises IndexExists if it holds anything but what a killed ``create`` left."""
    with database.mapped(folder):
        if folder.exists() and not folder.is_dir():
            raise IndexExists(f"{folder}: is a file; choose another place for the index")
        folder.mkdir(parents=True, exist_ok=True)
        found = {file.name for file in folder.iterdir()}
    if found - _LEFT_BY_CREATE:
        what = "an index" if "index.json" in found else "something else"
        raise IndexExists(f"{folder}: holds {what} already; open it to add to it, or choose another folder")


def same_model(folder: Path | str, manifest: Manifest, model: IndexModel) -> None:
    if model.hash != manifest.model_hash or model.dim != manifest.dim:
        raise ModelMismatch(
            f"{folder}: was built with the model {manifest.model_name} ({manifest.model_hash[:12]}), "
            f"not with {model.name} ({model.hash[:12]}); open it with that model or build it again"
        )


def unmade(folder: Path) -> IndexMissing:
    """There is an index.json, and nothing was put into the store yet."""
    return IndexMissing(
        f"{folder}: the index is being made, or its making was stopped; try again, or go on with: "
        f"phrasemate index TEXT -o {folder}"
    )


def vectors_generation(folder: Path) -> int:
    """The generation of vectors.json, 0 if there is none or it will have to be mended."""
    try:
        return VectorsManifest.read(folder / building.VECTORS_JSON).generation
    except IndexError_:
        return 0


def check(store: Store, manifest: Manifest, newest: int) -> None:
    """Finish an interrupted ``create``; else make sure that the store is ours and has all that was committed.

    Raises IndexMissing for what only a writer can finish, IndexDamaged, IndexLocked where a file without write
    permission is changed meanwhile.
    """
    with database.mapped(store.path), store.lock:
        if manifest.generation == 0 and database.is_empty(store.connection):
            if store.readonly:
                raise unmade(store.path)
            database.initialise(store.connection)
    with store.moment():
        with database.mapped(store.path):
            database.verify_schema(store.connection, store.path)
        with store.reading() as state:
            if state.generation < newest:
                raise IndexDamaged(
                    f"{store.path}: the store is at generation {state.generation}, expected {newest} or above: "
                    "its newest part (store.sqlite-wal) was lost; restore it or build the index again"
                )
