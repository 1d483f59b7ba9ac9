"""Back up an index while it is in use, restore a backup, and upgrade an index to another model or format."""

from __future__ import annotations

import errno
import re
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from phrasemate.errors import IndexDamaged, IndexExists, IndexMissing, InputError, PhraseIndexError
from phrasemate.index import schema
from phrasemate.index.index import Index
from phrasemate.index.lance.tables import is_tables
from phrasemate.index.manifest import INDEX_JSON, VECTORS_JSON, Manifest, VectorsManifest
from phrasemate.index.schema import write_lock
from phrasemate.index.store import Store
from phrasemate.index.types import DocumentInfo, IndexModel, IndexStats, Progress
from phrasemate.index.wordings import WordingsManifest
from phrasemate.types import Document, Sentence, check_opened, check_path, check_progress
from phrasemate.utils.storage import swap_folder


@dataclass(frozen=True, slots=True)
class Upgrade:
    """Report of an upgrade of an index.

    Attributes:
        former: Hash of the model before the upgrade.
        model: Hash of the model after the upgrade.
        sentences: Number of sentences that were encoded again.
        wordings: True if a table of wordings was built.

    >>> Upgrade("7dffbd", "7dffbd")  # nothing was out of date
    Upgrade(former='7dffbd', model='7dffbd', sentences=0, wordings=False)
    """

    former: str
    model: str
    sentences: int = 0
    wordings: bool = False


def backup(folder: str | Path, destination: str | Path, force: bool = False) -> IndexStats:
    """Copy one consistent state of an index to a new folder while other processes may change the index.

    Search files that are newer than the copied state are left out and rebuilt when the copy is used. Lance tables are
    refused, since their storage keeps old versions itself.

    Args:
        folder: Folder of the index.
        destination: Folder of the copy, new or empty.
        force: Replace an index at ``destination``.

    Returns the statistics of the copy. Raises IndexMissing, IndexExists, PhraseIndexError (disk full), or InputError
    (Lance tables).
    """
    for path in (folder, destination):
        check_path(path)
    source = Path(folder)
    if is_tables(source):
        raise InputError(f"{source}: consists of Lance tables; copy the folder or bucket, which keeps old versions")
    if Path(destination).resolve() == source.resolve():
        raise IndexExists(f"{destination}: is the index itself; choose another folder")
    with _new_folder(Path(destination), force) as partial:
        manifest = Manifest.read(source / INDEX_JSON)  # first: the store may be newer than its manifest, never older
        with (
            Index.open(source, readonly=True) as index,
            index.store.reading() as state,
            _full_disk(Path(destination)),
        ):
            assert isinstance(index.store, Store)  # Lance tables were refused above
            with closing(sqlite3.connect(partial / schema.STORE)) as target:
                index.store.connection.backup(target)
            _copy_derived(source, partial, state.generation)
        _copy_dictionaries(source, partial)
        manifest.write(partial / INDEX_JSON)
        with Index.open(partial, readonly=True) as copy:
            return replace(copy.stats(), path=str(destination))


def restore(copy: str | Path, folder: str | Path, force: bool = False) -> IndexStats:
    """Restore a backup to a folder, after verifying the whole backup.

    A server that has the folder open switches to the restored index by itself.

    Args:
        copy: Folder of the backup.
        folder: Folder to restore to.
        force: Replace an index at ``folder``.

    Returns the statistics of the restored index. Raises IndexMissing, IndexDamaged, IndexExists, PhraseIndexError.
    """
    check_path(folder)
    with Index.open(copy, readonly=True) as index:
        report = index.verify()
    if not report.ok:
        raise IndexDamaged(f"{copy}: is damaged; restore an earlier copy ({report.problems[0]})")
    return backup(copy, folder, force)


def upgrade(folder: str | Path, model: IndexModel, progress: Progress | None = None, again: bool = False) -> Upgrade:
    """Upgrade an index: encode its sentences again with ``model``, or add a missing table of wordings.

    The sentences are read from the index, so the original files are not needed. The segmentation options and the
    target recall of the index are kept. The new index replaces the old one once it is complete; after an error or an
    interruption the old index is unchanged. A document whose ``add`` was interrupted is added in full by the next
    `Index.add`.

    Args:
        folder: Folder of the index.
        model: Model to encode with. If it is the model of the index, only a missing table of wordings is built.
        progress: Called after each chunk.
        again: Encode the sentences again with the model of the index, too. So their phrases follow the present rules.

    Raises IndexMissing, IndexLocked, IndexExists (the folder holds other files), PhraseIndexError (disk full), or
    InputError (Lance tables).
    """
    check_path(folder)
    check_opened(model, "a model, such as load_model(path)")
    if progress is not None:
        check_progress(progress)
    source = Path(folder)
    if is_tables(source):
        raise InputError(f"{source}: consists of Lance tables; build them again from the texts")
    manifest = Manifest.read(source / INDEX_JSON)
    former = manifest.model_hash
    if former == model.hash and not again:
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
    """Build an index at ``target`` from the sentences of the index at ``source``, and tune it to the same recall.

    Returns the number of sentences.
    """
    with Index.open(source, readonly=True) as old, Index.create(target, model, segment=segment) as new:
        assert isinstance(old.store, Store)  # `upgrade` refuses Lance tables
        documents = list(old.store.documents())
        for language in dict.fromkeys(document.language for document in documents):
            copies = [_document_copy(old.store, document) for document in documents if document.language == language]
            new.add(copies, lang=language, progress=progress)
        if tuning := _tuning_of(source):
            new.optimize(target_recall=tuning["target"], at=tuning.get("at", 1), seed=tuning.get("seed", 0))
        return new.stats().sentences


def _tuning_of(folder: Path) -> dict[str, Any]:
    """Return the tuning record of an index's FAISS file (`VectorsManifest.tuned`); empty if it was not tuned."""
    with suppress(IndexMissing, IndexDamaged):
        return VectorsManifest.read(folder / VECTORS_JSON).tuned
    return {}


def _document_copy(store: Store, document: DocumentInfo) -> Document:
    """Return a stored document in the form that `Index.add` takes.

    The digest of an incomplete document is altered, so that the next ``add`` of the original replaces the copy.
    """

    def sentences() -> Iterator[Sentence]:
        return (Sentence(row.text, row.line, row.metadata) for row in store.all_sentences(document.id))

    digest = document.digest if document.complete else f"interrupted {document.digest}"
    return Document(document.name, digest, sentences)


@contextmanager
def _new_folder(folder: Path, force: bool) -> Iterator[Path]:
    """Yield a temporary folder beside ``folder`` that replaces ``folder`` when the block ends without an error.

    Raises IndexExists if ``folder`` lies inside an index, holds other files, or holds an index and ``force`` is False;
    InputError if it is the current folder or holds it.
    """
    above = next((parent for parent in folder.resolve().parents if (parent / INDEX_JSON).exists()), None)
    if above is not None:
        raise IndexExists(f"{folder}: lies inside the index {above}; choose another folder")
    if folder.exists() and any(folder.iterdir()):
        if not (folder / INDEX_JSON).exists():
            raise IndexExists(f"{folder}: is not empty and not an index; choose another folder")
        if not force:
            raise IndexExists(f"{folder}: holds an index; choose another folder, or give --force to replace it")
        if foreign := _foreign(folder):
            raise IndexExists(f"{folder}: also holds {foreign.name}, which is not of the index; move it away first")
    target = folder.resolve()  # the folder that a link leads to is replaced, not the link
    if Path.cwd().is_relative_to(target):
        raise InputError(
            f"{folder}: is the current folder or holds it, and would be replaced; go to another folder first"
        )
    partial, old = (target.with_name(f".{target.name}.{suffix}") for suffix in ("partial", "old"))
    shutil.rmtree(partial, ignore_errors=True)
    with schema.translate_errors(folder):
        partial.mkdir(parents=True)
        try:
            yield partial
            swap_folder(partial, target, old)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


@contextmanager
def _full_disk(destination: Path) -> Iterator[None]:
    """Raise PhraseIndexError that names the copy, not the index that is read, if no space is left for it."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        codes = getattr(error, "sqlite_errorcode", 0), getattr(error, "errno", 0)
        if codes[0] != sqlite3.SQLITE_FULL and codes[1] != errno.ENOSPC:
            raise
        reason = f"no space is left for the copy ({error}); free some and run the command again"
        raise PhraseIndexError(f"{destination}: {reason}") from error


_INDEX_FILES = re.compile(
    r"(?:index|vectors|wordings|checked|writer)\.json|store\.sqlite.*|(?:vectors|wordings)-.*|dictionaries|.*\.lock|\..*"
)


def _foreign(folder: Path) -> Path | None:
    """Return a file or folder that does not belong to an index, or None if there is none."""
    return next((path for path in sorted(folder.iterdir()) if not _INDEX_FILES.fullmatch(path.name)), None)


def _copy_derived(source: Path, partial: Path, generation: int) -> None:
    """Copy the FAISS file and the table of wordings, unless they are newer than ``generation``."""
    with suppress(IndexMissing, IndexDamaged, FileNotFoundError):  # absent, or just replaced by a writer
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
    """Copy the dictionaries of an index, if it has any."""
    with suppress(FileNotFoundError):  # no dictionaries
        shutil.copytree(source / "dictionaries", partial / "dictionaries", ignore=shutil.ignore_patterns("*.part"))


def _copy(source: Path, partial: Path, *names: str) -> None:
    for name in names:
        shutil.copyfile(source / name, partial / name)
