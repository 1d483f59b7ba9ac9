"""Copy an index while it is used, put such a copy back in its place, and bring an older index up to date."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phrasemate.errors import IndexDamaged, IndexExists, IndexMissing, InputError
from phrasemate.index import schema
from phrasemate.index.index import Index
from phrasemate.index.lance.tables import is_tables
from phrasemate.index.manifest import INDEX_JSON, VECTORS_JSON, Manifest, VectorsManifest
from phrasemate.index.schema import write_lock
from phrasemate.index.store import Store
from phrasemate.index.types import DocumentInfo, IndexModel, IndexStats, Progress
from phrasemate.index.wordings import WordingsManifest
from phrasemate.types import Document, Sentence, check_opened
from phrasemate.utils.storage import swap_folder


@dataclass(frozen=True, slots=True)
class Upgrade:
    """Report of an upgrade of an index.

    ``former`` and ``model`` are the hashes of its model before and after. ``sentences`` were encoded again;
    ``wordings`` says whether the table of wordings was added.

    >>> Upgrade("7dffbd", "7dffbd")  # nothing was out of date
    Upgrade(former='7dffbd', model='7dffbd', sentences=0, wordings=False)
    """

    former: str
    model: str
    sentences: int = 0
    wordings: bool = False


def backup(folder: str | Path, destination: str | Path, force: bool = False) -> IndexStats:
    """Copy an index to a new folder: the state of one moment, whatever is added or deleted meanwhile.

    Search files that are newer than that moment are left out: they are derived, and rebuilt when the copy is used.
    ``force`` replaces an index at ``destination``. Returns what the copy holds. Raises IndexMissing, IndexExists,
    PhraseIndexError where the disk is full, InputError for Lance tables, whose storage keeps versions itself.
    """
    source = Path(folder)
    if is_tables(source):
        raise InputError(f"{source}: consists of Lance tables; copy the folder or bucket, which keeps old versions")
    if Path(destination).resolve() == source.resolve():
        raise IndexExists(f"{destination}: is the index itself; choose another folder")
    with _new_folder(Path(destination), force) as partial:
        manifest = Manifest.read(source / INDEX_JSON)  # before the store: it may be newer than its manifest, not older
        with Index.open(source, readonly=True) as index, index.store.reading() as state:
            assert isinstance(index.store, Store)  # it is not of Lance tables
            with closing(sqlite3.connect(partial / schema.STORE)) as target:
                index.store.connection.backup(target)
            _copy_derived(source, partial, state.generation)
        _copy_dictionaries(source, partial)
        manifest.write(partial / INDEX_JSON)
        with Index.open(partial, readonly=True) as copy:
            return copy.stats()


def restore(copy: str | Path, folder: str | Path, force: bool = False) -> IndexStats:
    """Put a copy in the place of an index, or in a new folder, after a check of the whole copy.

    A server that has the folder open turns to the restored index by itself. ``force`` replaces an index that is
    there. Returns what the index holds. Raises IndexMissing, IndexDamaged, IndexExists, PhraseIndexError.
    """
    with Index.open(copy, readonly=True) as index:
        report = index.verify()
    if not report.ok:
        raise IndexDamaged(f"{copy}: is damaged; restore an earlier copy ({report.problems[0]})")
    return backup(copy, folder, force)


def upgrade(folder: str | Path, model: IndexModel, progress: Progress | None = None) -> Upgrade:
    """Bring an index up to date: encode its sentences again with ``model``, or add its table of wordings.

    The sentences come from the index itself, so the texts need not be there. Its options of segmenting and the recall
    that it was tuned for stay. The new index takes the place of the old one when it is complete; after an error or a
    stop nothing has changed. A document whose adding was interrupted is read again by the next `Index.add`. Raises
    IndexMissing, IndexLocked, IndexExists where the folder holds other files, PhraseIndexError where the disk is full,
    InputError for Lance tables.
    """
    check_opened(model, "a model, such as load_model(path)")
    source = Path(folder)
    if is_tables(source):
        raise InputError(f"{source}: consists of Lance tables; build them again from the texts")
    manifest = Manifest.read(source / INDEX_JSON)
    former = manifest.model_hash
    if former == model.hash:
        with suppress(IndexMissing):
            WordingsManifest.read(source)
            return Upgrade(former, former)
        with Index.open(source, model) as index:
            index.optimize()
        return Upgrade(former, former, wordings=True)
    with write_lock(source), _new_folder(source, force=True) as partial:
        sentences = _encode_again(source, partial, model, manifest.segment, progress)
        _copy_dictionaries(source, partial)
    return Upgrade(former, model.hash, sentences, wordings=True)


def _encode_again(
    source: Path, target: Path, model: IndexModel, segment: Mapping[str, Any], progress: Progress | None
) -> int:
    """Make an index of the sentences of another one, tuned as that was; returns how many there are."""
    with Index.open(source, readonly=True) as old, Index.create(target, model, segment=segment) as new:
        assert isinstance(old.store, Store)  # it is not of Lance tables
        documents = list(old.store.documents())
        for language in dict.fromkeys(document.language for document in documents):
            copies = [_stored(old.store, document) for document in documents if document.language == language]
            new.add(copies, lang=language, progress=progress)
        if tuned := _tuned(source):
            new.optimize(target_recall=tuned["target"], at=tuned.get("at", 1), seed=tuned.get("seed", 0))
        return new.stats().sentences


def _tuned(folder: Path) -> dict[str, Any]:
    """What the search file of an index was tuned for; empty if it was not tuned."""
    with suppress(IndexMissing, IndexDamaged):
        return VectorsManifest.read(folder / VECTORS_JSON).tuned
    return {}


def _stored(store: Store, document: DocumentInfo) -> Document:
    """A document of an index, to be added to another one."""

    def sentences() -> Iterator[Sentence]:
        return (Sentence(row.text, row.line, row.metadata) for row in store.all_sentences(document.id))

    digest = document.digest if document.complete else f"interrupted {document.digest}"
    return Document(document.name, digest, sentences)


@contextmanager
def _new_folder(folder: Path, force: bool) -> Iterator[Path]:
    """A folder beside ``folder``, which takes its name when the block ends; after an error nothing has changed."""
    above = next((parent for parent in folder.resolve().parents if (parent / INDEX_JSON).exists()), None)
    if above is not None:
        raise IndexExists(f"{folder}: lies in the index {above}; choose another folder")
    if folder.exists() and any(folder.iterdir()):
        if not (folder / INDEX_JSON).exists():
            raise IndexExists(f"{folder}: is not empty and not an index; choose another folder")
        if not force:
            raise IndexExists(f"{folder}: holds an index; choose another folder, or give --force to replace it")
        if foreign := _foreign(folder):
            raise IndexExists(f"{folder}: holds {foreign.name}, too, which is not of the index; move it away first")
    partial, old = (folder.with_name(f".{folder.resolve().name}.{suffix}") for suffix in ("partial", "old"))
    shutil.rmtree(partial, ignore_errors=True)
    with schema.translate_errors(folder):
        partial.mkdir(parents=True)
        try:
            yield partial
            swap_folder(partial, folder, old)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


_OWN = re.compile(
    r"(?:index|vectors|wordings|checked|writer)\.json|store\.sqlite.*|(?:vectors|wordings)-.*|dictionaries|.*\.lock|\..*"
)


def _foreign(folder: Path) -> Path | None:
    """A file or folder that no index makes; None where there is none."""
    return next((path for path in sorted(folder.iterdir()) if not _OWN.fullmatch(path.name)), None)


def _copy_derived(source: Path, partial: Path, generation: int) -> None:
    """Copy the search files that belong to the generation or to an earlier one."""
    with suppress(IndexMissing, IndexDamaged, FileNotFoundError):  # a writer has just replaced them
        vectors = VectorsManifest.read(source / VECTORS_JSON)
        if vectors.generation <= generation:
            _copy(source, partial, vectors.file, vectors.codes)
            vectors.write(partial / VECTORS_JSON)
    with suppress(IndexMissing, IndexDamaged, FileNotFoundError):
        wordings = WordingsManifest.read(source)
        if wordings.generation <= generation:
            _copy(source, partial, *(segment.file for segment in wordings.segments))
            wordings.write(partial)


def _copy_dictionaries(source: Path, partial: Path) -> None:
    """Copy the dictionaries that an index keeps."""
    with suppress(FileNotFoundError):  # it has none
        shutil.copytree(source / "dictionaries", partial / "dictionaries", ignore=shutil.ignore_patterns("*.part"))


def _copy(source: Path, partial: Path, *names: str) -> None:
    for name in names:
        shutil.copyfile(source / name, partial / name)
