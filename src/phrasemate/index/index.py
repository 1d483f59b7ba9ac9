"""`Index`: create, open, add, delete, optimize, search, verify. docs/index.md explains it."""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phrasemate.errors import IndexError_, InputError
from phrasemate.index import faiss_build, row_codec, schema, transactions, wordings
from phrasemate.index.fulltext import TextSearch
from phrasemate.index.ingest import Adder
from phrasemate.index.lock import write_lock as writer
from phrasemate.index.manifest import Manifest
from phrasemate.index.snapshot_search import View
from phrasemate.index.store import (
    SentenceRow,
    Store,
    check_model,
    check_store,
    current_manifest,
    make_folder,
    unfinished,
    vectors_generation,
)
from phrasemate.index.tuning import DEPTHS, TuneReport, tune
from phrasemate.index.types import (
    AddReport,
    DocumentInfo,
    IndexModel,
    IndexStats,
    Progress,
    ProgressEvent,
    Settings,
    VerifyReport,
)
from phrasemate.index.verify import statistics
from phrasemate.index.wordings import WordingSearch
from phrasemate.types import Document, Hit, Phrase, Run, Sentence, check_language
from phrasemate.utils.cpu import give_back

if TYPE_CHECKING:
    from phrasemate.encode import Model

INDEX_JSON = "index.json"
_MOST_FOUND = 1 << 27  # results of all queries together: 1.6 GB
_FAR = 1 << 53  # sentences that a document has not


class Index:
    """A folder of indexed text. Make one with ``Index.create`` or ``Index.open``; use it in ``with`` or ``close`` it.

    Searching needs no lock and sees the latest committed state; ``add``, ``delete`` and ``optimize`` take the lock
    of the writer while they work. Safe to share between threads: one works at a time.
    """

    def __init__(
        self,
        path: Path,
        manifest: Manifest,
        store: Store,
        model: IndexModel | None,
        settings: Settings,
        threads: int | None,
    ) -> None:
        self.path, self.manifest, self.store = path, manifest, store
        self._model, self._settings, self._threads = model, settings, threads
        self._view = View(store, settings, threads)
        self.texts = TextSearch(store)
        self._names: tuple[int, dict[int, DocumentInfo]] = (-1, {})

    @classmethod
    def create(
        cls,
        path: str | Path,
        model: IndexModel,
        *,
        threads: int | None = None,
        settings: Settings | None = None,
        segment: Mapping[str, Any] | None = None,
    ) -> Index:
        """Make an empty index for ``model`` in a new or empty folder.

        ``segment``: options of ``model.segment`` (``threshold``, ``max_words``) for all text that comes in.
        Raises IndexExists if the folder holds anything, IndexError_ if it cannot be written.
        """
        folder = Path(path)
        make_folder(folder)
        manifest = Manifest.of(model, segment)
        with writer(folder):
            make_folder(folder)  # once more: another process may have been quicker
            manifest.write(folder / INDEX_JSON)
        return cls.open(folder, model, threads=threads, settings=settings)

    @classmethod
    def open(
        cls,
        path: str | Path,
        model: IndexModel | None = None,
        readonly: bool = False,
        *,
        threads: int | None = None,
        settings: Settings | None = None,
    ) -> Index:
        """Open an index. A folder without write permission opens for reading; ``threads`` is for FAISS.

        A folder or URI (``s3://…``) of Lance tables, as ``phrasemate index --cluster`` makes them, is opened like any
        other (docs/scale.md). Raises IndexMissing, IndexDamaged, IndexUnsupported, or ModelMismatch if it was not
        built with ``model``.
        """
        from phrasemate.index.lance.uri import is_tables

        if is_tables(path):
            from phrasemate.index.lance.index import ClusterIndex

            return ClusterIndex.open(path, model, readonly, threads=threads, settings=settings)
        folder = Path(path)
        manifest = Manifest.read(folder / INDEX_JSON)
        if model is not None:
            check_model(folder, manifest, model)
        newest = max(manifest.generation, vectors_generation(folder))
        if readonly and not manifest.generation and not schema.mark(folder).inode:
            raise unfinished(folder)
        store = Store(folder, manifest.dim, readonly, manifest.model_hash)
        try:
            check_store(store, manifest, newest)
        except BaseException:
            store.close()
            raise
        return cls(folder, manifest, store, model, settings or Settings(), threads)

    def close(self) -> None:
        """Close the store, and let go of the FAISS file and of the vectors in memory."""
        with self.store.lock:  # another thread may be searching
            self._view.reset()
            self.store.close()

    def __enter__(self) -> Index:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def readonly(self) -> bool:
        return self.store.readonly

    @property
    def model(self) -> Model | IndexModel:
        """The model it was built with, loaded on first use from where it was. Raises ModelMismatch, ModelError."""
        if self._model is None:
            from phrasemate.encode import load_model

            loaded = load_model(self.manifest.model_path, threads=self._threads)
            check_model(self.path, self.manifest, loaded)
            self._model = loaded
        return self._model

    # -- writing

    def begin(self, model: IndexModel, segment: Mapping[str, Any] | None = None) -> None:
        """Take another model and other options of segmenting, as `create` does, while there is no document.

        Raises InputError if there is one, IndexLocked.
        """
        with self._writing():
            if self.store.state().documents:
                raise InputError(f"{self.path}: holds documents already; choose another folder")
            self.manifest = Manifest.of(model, segment, self.manifest.generation)
            self.manifest.write(self.path / INDEX_JSON)
            self._model, self.store.dim, self.store.model_hash = model, model.dim, model.hash

    def add(self, documents: Iterable[Document], lang: str = "", progress: Progress | None = None) -> AddReport:
        """Store documents in the language ``lang``; each chunk is kept for good as soon as it is done.

        A document whose name, digest and language are there already changes nothing, one with another digest or
        language replaces the old version, one that was interrupted is continued. ``progress`` is called after each
        chunk, and before the search file is built. The report's seconds are those of all of it. Raises IndexLocked,
        ReadError and InputError (what was read before is kept), IndexError_ (no space, or the folder was made anew
        since it was opened), ModelMismatch (it was begun anew with another model).
        """
        check_language(lang)
        with self._writing():
            begin = perf_counter()
            report = Adder(self.store, self.model, lang, self._settings, progress).run(documents, self.manifest)
            if progress:
                progress(ProgressEvent(report.sentences, report.phrases, 0, 0, "", "building the search file"))
            self._derive()
        return replace(report, seconds=perf_counter() - begin)

    def delete(self, *names: str) -> None:
        """Remove documents, all or none. Raises InputError if there is none of a name, IndexLocked."""
        with self._writing():
            documents = self._chosen(names, None, exact=True)
            if not documents:
                return
            transactions.mend_words(self.store)
            state = transactions.delete(self.store, documents)
            self.manifest = replace(self.manifest, generation=state.generation)
            self.manifest.write(self.path / INDEX_JSON)
            self._derive()

    def optimize(self, *, target_recall: float | None = None, at: int = 1, seed: int = 0) -> TuneReport | None:
        """Give back the space of deleted rows and build the FAISS file and the text index anew.

        ``target_recall``: choose how the FAISS file is laid out and asked, as cheaply as this recall@1 (or @10: ``at``)
        allows, by measuring on the index's own phrases; kept for every later search, and told. Raises IndexLocked,
        InputError.
        """
        with self._writing():
            if target_recall is not None and not 0 < target_recall <= 1:
                raise InputError(f"target recall {target_recall}: expected above 0 and at most 1")
            if at not in DEPTHS:
                raise InputError(f"recall@{at}: expected at {' or '.join(map(str, DEPTHS))}")
            if seed < 0:
                raise InputError(f"seed {seed}: expected 0 or more")
            transactions.optimise_words(self.store)
            with self.store.lock, schema.translate_errors(self.path):
                self.store.connection.execute("VACUUM")
            self.store.checkpoint()
            told = None
            if target_recall is None:
                faiss_build.build(self.store, self._settings, self._threads)
            else:
                told = tune(self.store, self._settings, self._threads, target_recall, seed, at)
            wordings.update(self.store, whole=True)
        give_back()
        return told

    @contextmanager
    def _writing(self) -> Iterator[None]:
        if self.readonly:
            raise IndexError_(f"{self.path}: is open for reading only; open it with write permission to change it")
        with ExitStack() as stack:
            stack.enter_context(self.store.lock)
            with schema.translate_errors(self.path):
                if self.store.connection.in_transaction:
                    raise InputError(f"{self.path}: cannot be changed within a snapshot; leave its with block first")
            current_manifest(self.store)  # before the lock, whose file would bring back a folder that is gone
            stack.enter_context(writer(self.path))
            self.manifest = current_manifest(self.store)
            with self.store.reading() as state:
                self.manifest = replace(self.manifest, generation=state.generation)
            try:
                yield
            finally:
                self._view.reset()
                self.texts.reset()

    def _derive(self) -> None:
        """Bring up to date what is made from the rows."""
        transactions.stamp_words(self.store)
        faiss_build.update(self.store, self._settings, self._threads)
        wordings.update(self.store)
        self.store.checkpoint()

    # -- reading

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Searches and look-ups inside see one moment of the index, whatever a writer does meanwhile."""
        with self.store.snapshot():
            yield

    def search(
        self,
        vectors: ArrayLike,
        k: int,
        documents: Sequence[str] | None = None,
        languages: Sequence[str] | None = None,
    ) -> Run:
        """The ``k`` nearest phrases of each vector, (queries, dim) of unit length, optionally of some documents only.

        Raises InputError (wrong shape, unknown document or language), IndexDamaged, ModelMismatch (begun anew).
        """
        queries = _queries(vectors, self.manifest.dim, k)
        with self.store.reading() as state:
            chosen, passing = None, state.phrases
            if documents is not None or languages is not None:
                chosen = np.array(self._chosen(documents, languages), np.int64)
                passing = sum(self._documents()[int(i)].phrases for i in chosen)
            return Run(*self._view.search(state, queries, k, chosen, passing))

    @property
    def has_wordings(self) -> bool:
        """Whether phrases can be looked up by their wording: not in a large index of an earlier version."""
        with self.store.reading() as state:
            return self._view.has_wordings(state)

    def languages(self) -> list[str]:
        """The languages of the documents, the most frequent one first; "" for documents without one."""
        counts = Counter(document.language for document in self.documents())
        return [language for language, _ in counts.most_common()]

    @contextmanager
    def wordings(self) -> Iterator[WordingSearch]:
        """Look phrases up by their wording, within one snapshot of the index."""
        with self.store.reading() as state:
            yield WordingSearch(self._view.wordings(state), lambda ids: self._view.vectors(state, ids))

    def in_documents(
        self, ids: ArrayLike, documents: Sequence[str] | None = None, languages: Sequence[str] | None = None
    ) -> NDArray[np.bool_]:
        """(ids,) whether each phrase is in one of the documents and in one of the languages; None lets all pass.

        Raises InputError for an unknown document or language.
        """
        phrases = np.asarray(ids, np.int64)
        if documents is None and languages is None:
            return np.ones(len(phrases), np.bool_)
        with self.store.reading() as state:
            return self._view.of_documents(state, phrases, np.array(self._chosen(documents, languages), np.int64))

    def hits(self, ids: ArrayLike, scores: ArrayLike) -> list[Hit]:
        """The phrases of a row of a Run, in its order; padding (-1) and phrases deleted since are left out."""
        with self.store.reading():
            asked, values = np.asarray(ids).ravel().tolist(), np.asarray(scores).ravel().tolist()
            places = self._places(sorted({phrase for phrase in asked if phrase != -1}))
            documents = self._documents()
            found = []
            for phrase, score in zip(asked, values, strict=True):
                if phrase in places:
                    where, row = places[phrase]
                    if (owner := documents.get(row.document)) is None:
                        raise self.store.damaged(f"document {row.document} of sentence {row.id} is missing")
                    found.append(Hit(where, score, owner.name, row.line, owner.language, phrase, row.metadata))
        return found

    def vectors(self, ids: ArrayLike) -> NDArray[np.float32]:
        """(ids, dim) float32 of unit length: the stored vectors of phrase ids, to the precision of their 8 bits.

        Raises InputError for an id that is not there, or was deleted.
        """
        asked, places = np.unique(np.asarray(ids, np.int64).ravel(), return_inverse=True)
        with self.store.reading():
            codes = self.store.vectors_of(asked.tolist())
        return row_codec.dequantise(codes)[places]

    def _places(self, phrases: Sequence[int]) -> dict[int, tuple[Phrase, SentenceRow]]:
        """Where ascending phrase ids are, without deleted ones; each sentence is read and unpacked once."""
        places: dict[int, tuple[Phrase, SentenceRow]] = {}
        row: SentenceRow | None = None
        starts: list[int] = []
        ends: list[int] = []
        for phrase in phrases:
            if row is None or not row.first_phrase <= phrase < row.first_phrase + row.phrases:
                row = self.store.sentence_of(phrase)
                if row is None:
                    continue
                starts, ends = (each.tolist() for each in row_codec.unpack_spans(row.spans, row.phrases)[:2])
            at = phrase - row.first_phrase
            places[phrase] = Phrase(row.text, starts[at], ends[at]), row
        return places

    def around(self, phrase: int, count: int = 2) -> tuple[list[Sentence], list[Sentence]]:
        """Up to ``count`` sentences before and after the one of a phrase id, in its document and in their order.

        Raises InputError if there is no such phrase, or if it was deleted.
        """
        phrase, count = operator.index(phrase), min(operator.index(count), _FAR)
        with self.store.reading():
            own = self.store.sentence_of(phrase)
            if own is None:
                raise InputError(f"{self.path}: phrase {phrase} was deleted; search again")
            near = [(row.position, Sentence(row.text, row.line, row.metadata)) for row in self.store.near(own, count)]
        before = [sentence for position, sentence in near if position < own.position]
        return before, [sentence for position, sentence in near if position > own.position]

    def containing(self, phrase: str, limit: int = 100) -> list[int]:
        """Ids of sentences whose text contains ``phrase``, upper and lower case alike, ascending."""
        return self.texts.containing(phrase, limit)

    def documents(self) -> list[DocumentInfo]:
        """All documents, in the order in which they came."""
        with self.store.reading():
            return list(self._documents().values())

    def stats(self) -> IndexStats:
        """Sizes and make-up; reads no sentence."""
        return statistics(self.store, self.manifest)

    def verify(self) -> VerifyReport:
        """Check every row and file; nothing is changed. Problems are listed, not raised."""
        from phrasemate.index.verify import verify

        return verify(self.store, self._settings, self._threads)

    def _documents(self) -> dict[int, DocumentInfo]:
        generation = self.store.state().generation
        if self._names[0] != generation:
            self._names = (generation, {document.id: document for document in self.store.documents()})
        return self._names[1]

    def _chosen(self, names: Sequence[str] | None, languages: Sequence[str] | None, exact: bool = False) -> list[int]:
        """Ids of the documents that a filter lets through. Raises InputError for a name or language that is unknown.

        Unless ``exact``, a name that no document has stands for those that begin with it, such as a folder, and ``*``
        in it for anything.
        """
        with self.store.reading():
            known = self._documents().values()
        spoken = {document.language for document in known}
        chosen = {document.name for document in known}
        if names is not None:
            fitting = [{name} & chosen if exact else _fitting(name, chosen) for name in names]
            self._check_known("document", [name for name, fit in zip(names, fitting, strict=True) if not fit], chosen)
            chosen = set().union(*fitting)
        if languages is not None:
            self._check_known("language", [language for language in languages if language not in spoken], spoken)
            spoken = {*languages}
        return [document.id for document in known if document.name in chosen and document.language in spoken]

    def _check_known(self, kind: str, unknown: Sequence[str], known: set[str]) -> None:
        if unknown:
            raise InputError(f"{self.path}: has no {kind} {unknown[0]!r}; it has {_some(known)}")


def _fitting(name: str, known: set[str]) -> set[str]:
    """Which of the names that are known a name stands for: itself, or those that begin with it or fit its ``*``."""
    if name in known or not name:
        return {name} & known
    pattern = re.compile(".*".join(map(re.escape, name.split("*"))) + ("" if "*" in name else ".*"), re.DOTALL)
    return {other for other in known if pattern.fullmatch(other)}


def _some(names: set[str]) -> str:
    shown = ", ".join(repr(name) for name in sorted(names)[:5]) or "none"
    return shown + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _queries(vectors: ArrayLike, dim: int, k: int) -> NDArray[np.float32]:
    try:
        queries = np.ascontiguousarray(vectors, np.float32)
    except (ValueError, TypeError) as error:
        raise InputError(f"cannot search with what are no vectors ({error}); expected (queries, {dim})") from error
    if queries.ndim != 2 or queries.shape[1] != dim or not np.isfinite(queries).all():
        raise InputError(
            f"cannot search with vectors of shape {queries.shape}; expected finite numbers of shape (queries, {dim})"
        )
    if k < 1:
        raise InputError(f"cannot give the best {k}; expected 1 or more")
    if max(1, len(queries)) * k > _MOST_FOUND:
        raise InputError(f"the best {k:,} of {len(queries):,} queries are {_MOST_FOUND:,} or more; ask for fewer")
    return queries
