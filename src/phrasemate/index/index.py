"""`Index`, an index in a folder of one machine: create, open, add, delete, optimize, search, verify.

docs/explanation/how-search-works.md explains how an index is searched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import InputError
from phrasemate.index import row_codec, schema
from phrasemate.index.base import BaseIndex
from phrasemate.index.fulltext import TextSearch
from phrasemate.index.manifest import INDEX_JSON, PARTIAL, SHARDS_JSON, Manifest, sweep
from phrasemate.index.schema import write_lock as writer
from phrasemate.index.snapshot_search import View
from phrasemate.index.store import (
    State,
    Store,
    check_model,
    check_store,
    current_manifest,
    make_folder,
    unfinished,
    vectors_generation,
)
from phrasemate.index.types import (
    AddReport,
    IndexModel,
    IndexSettings,
    IndexStats,
    Progress,
    ProgressEvent,
    TuneReport,
    VerifyReport,
)
from phrasemate.index.wordings import WordingSearch
from phrasemate.types import (
    Document,
    check_language,
    check_opened,
    check_path,
    check_progress,
    thread_count,
    to_plain,
    to_settings,
    to_whole,
)
from phrasemate.utils.machine import single_blas, trim_heap

DEPTHS = (1, 10)  # k of the recall@k that `Index.optimize` can aim at


class Index(BaseIndex):
    """Index in a folder. Make it with ``Index.create`` or ``Index.open``; use it in ``with``, or ``close`` it.

    A search needs no lock and sees the latest committed state. ``add``, ``delete`` and ``optimize`` hold the write
    lock of the folder while they run. Threads may share an index; they take turns.

    >>> import phrasemate
    >>> index = phrasemate.Index.create("idx", phrasemate.load_model())
    >>> index.add([phrasemate.Document.from_texts("story", ["She sat on the bench in the park."])], lang="en").sentences
    1
    >>> [info.name for info in index.documents()]
    ['story']
    >>> index.close()
    """

    def __init__(
        self,
        path: Path,
        manifest: Manifest,
        store: Store,
        model: IndexModel | None,
        settings: IndexSettings,
        threads: int | None,
    ) -> None:
        super().__init__(model, threads)
        self.path: Path = path
        self.manifest, self._settings = manifest, settings
        self.store: Store = store
        self._view: View = View(store, settings, threads)
        self.texts: TextSearch = TextSearch(store)

    @classmethod
    def create(
        cls,
        path: str | Path,
        model: IndexModel,
        *,
        threads: int | None = None,
        settings: IndexSettings | None = None,
        segment: Mapping[str, Any] | None = None,
    ) -> Index:
        """Create an empty index for ``model`` in a new or empty folder.

        Args:
            path: New or empty folder.
            model: Model that encodes all texts and queries of the index.
            threads: Number of threads of FAISS; None for one per processor that the process may use.
            settings: Numbers such as the sentences per chunk (`IndexSettings`); None for the defaults.
            segment: Options of ``model.segment`` (``threshold``, ``max_words``) for all texts that are added.

        Raises IndexExists if the folder holds anything, PhraseIndexError if it cannot be written.
        """
        check_path(path)
        folder, manifest = Path(path), Manifest.of(model, segment)
        threads, settings = thread_count(threads), to_settings(settings, IndexSettings)
        make_folder(folder)
        with writer(folder):
            make_folder(folder)  # again: another process may have created an index before this one held the lock
            manifest.write(folder / INDEX_JSON)
        return cls._open(folder, model, False, threads, settings)

    @classmethod
    def open(
        cls,
        path: str | Path,
        model: IndexModel | None = None,
        readonly: bool = False,
        *,
        threads: int | None = None,
        settings: IndexSettings | None = None,
    ) -> BaseIndex:
        """Open an index of any kind: a folder, Lance tables, or a folder with the ``shards.json`` of an index in parts.

        Args:
            path: Folder of the index, or the URI of its Lance tables (``s3://…``).
            model: Model that the index must have been built with; None loads it when it is first needed.
            readonly: Refuse changes. A folder without write permission is always opened for reading only.
            threads: Number of threads of FAISS; None for one per processor that the process may use.
            settings: Numbers such as the sentences per chunk (`IndexSettings`); None for the defaults.

        Raises IndexMissing, IndexDamaged, IndexUnsupported, or ModelMismatch if the index was built with another model.
        """
        from phrasemate.index.lance.tables import is_tables

        check_path(path)
        threads = thread_count(threads)
        if model is not None:
            check_opened(model, "a model, such as load_model(path)")
        if Path(path, SHARDS_JSON).is_file():
            from phrasemate.index.shards import ShardedIndex

            return ShardedIndex.open(path, cls.open, model, threads=threads, settings=settings)
        if is_tables(path):
            from phrasemate.index.lance.index import ClusterIndex

            return ClusterIndex.open(path, model, readonly, threads=threads, settings=settings)
        return cls._open(Path(path), model, readonly, threads, settings)

    @classmethod
    def _open(
        cls, folder: Path, model: IndexModel | None, readonly: bool, threads: int | None, settings: IndexSettings | None
    ) -> Index:
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
        return cls(folder, manifest, store, model, to_settings(settings, IndexSettings), threads)

    def close(self) -> None:
        """Close the store, and release the FAISS file and the vectors in memory."""
        with self.store.lock:  # another thread may be searching
            self._view.reset()
            self.store.close()

    @property
    def readonly(self) -> bool:
        return self.store.readonly

    # -- writing

    def begin(self, model: IndexModel, segment: Mapping[str, Any] | None = None) -> None:
        """Replace the model and the options of segmentation of an index that has no documents.

        Raises InputError if it has documents, and IndexLocked.
        """
        with self._writing():
            if self.store.state().documents:
                raise InputError(f"{self.path}: holds documents already; choose another folder")
            self.manifest = Manifest.of(model, segment, self.manifest.generation)
            self.manifest.write(self.path / INDEX_JSON)
            self._model, self.store.dim, self.store.model_hash = model, model.dim, model.hash

    @single_blas
    def add(self, documents: Iterable[Document], lang: str = "", progress: Progress | None = None) -> AddReport:
        """Add documents; each chunk of sentences is committed as soon as it is encoded.

        A document is skipped if one of the same name, digest and language is already there. If only the name is the
        same, the new document replaces the old one. A document of an interrupted call is continued.

        Args:
            documents: Documents to add.
            lang: Language of the documents, such as "en"; "" for unknown.
            progress: Called after each chunk, and while the search file and the table of wordings are built.

        The seconds of the report include the building of these files. Raises IndexLocked, ReadError, InputError,
        PhraseIndexError (no space, or the folder was rebuilt since it was opened), and ModelMismatch (it was rebuilt
        with another model). Chunks committed before the error stay in the index.
        """
        from phrasemate.index.ingest import Adder

        check_language(lang)
        if progress is not None:
            check_progress(progress)
        with self._writing():
            begin = perf_counter()
            report = Adder(self.store, self.model, lang, self._settings, progress).run(documents, self.manifest)

            def tell(stage: str, share: float) -> None:
                if progress:
                    progress(ProgressEvent(report.sentences, report.phrases, 0, 0, "", stage, share))

            self._derive(tell)
        return replace(report, seconds=perf_counter() - begin)

    def delete(self, *names: str) -> None:
        """Delete documents by name, all or none: ``index.delete("story", "notes")``.

        Raises InputError for an unknown name, and IndexLocked.
        """
        from phrasemate.index import transactions

        with self._writing():
            documents = self._documents_named(names)
            if not documents:
                return
            transactions.mend_words(self.store)
            state = transactions.delete(self.store, documents)
            self.manifest = replace(self.manifest, generation=state.generation)
            self.manifest.write(self.path / INDEX_JSON)
            self._derive()

    @single_blas
    def optimize(self, *, target_recall: float | None = None, at: int = 1, seed: int = 0) -> TuneReport | None:
        """Reclaim the space of deleted rows, and rebuild the FAISS file, the text index and the table of wordings.

        Args:
            target_recall: Recall@``at`` that searches must reach, above 0 and at most 1: the share of the nearest
                phrases that they find. The fastest layout and search settings that reach it are stored for all later
                searches. They are measured on phrases of the index. None keeps the present settings.
            at: Depth of the recall, 1 or 10.
            seed: Seed for drawing the phrases that the recall is measured on.

        Returns the chosen settings, or None without ``target_recall``. Raises IndexLocked and InputError.
        """
        from phrasemate.index import faiss_build, transactions, wordings
        from phrasemate.index.tuning import tune

        with self._writing():
            if target_recall is not None and not 0 < to_plain("target recall", target_recall, float) <= 1:
                raise InputError(f"target recall {target_recall}: expected above 0 and at most 1")
            if at not in DEPTHS:
                raise InputError(f"recall@{at}: expected at {' or '.join(map(str, DEPTHS))}")
            seed = to_whole("seed", seed, 0)
            transactions.optimise_words(self.store)
            with self.store.lock, schema.translate_errors(self.path):
                self.store.connection.execute("VACUUM")
            self.store.checkpoint()
            report = None
            if target_recall is None:
                faiss_build.build(self.store, self._settings, self._threads)
            else:
                report = tune(self.store, self._settings, self._threads, target_recall, seed, at)
            wordings.update(self.store, whole=True)
        trim_heap()
        return report

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Hold the write lock and bring the manifest up to date; afterwards empty the caches of searches."""
        self._check_writable()
        with ExitStack() as stack:
            stack.enter_context(self.store.lock)
            with schema.translate_errors(self.path):
                if self.store.connection.in_transaction:
                    raise InputError(f"{self.path}: cannot be changed within a snapshot; leave its with block first")
            current_manifest(self.store)  # before the lock: its file would create a folder that was removed
            stack.enter_context(writer(self.path))
            sweep(self.path, [f"*.json{PARTIAL}"])  # files that a killed writer left
            self.manifest = current_manifest(self.store)
            with self.store.reading() as state:
                self.manifest = replace(self.manifest, generation=state.generation)
            try:
                yield
            finally:
                self._view.reset()
                self.texts.reset()

    @single_blas
    def _derive(self, tell: Callable[[str, float], None] = lambda stage, share: None) -> None:
        """Update everything that is derived from the rows: text index, FAISS file, table of wordings.

        ``tell`` is called with the name of the step and the share of it that is done, 0 to 1.
        """
        from phrasemate.index import faiss_build, transactions, wordings

        transactions.stamp_words(self.store)
        tell("building the search file", 0.0)
        faiss_build.update(self.store, self._settings, self._threads, partial(tell, "building the search file"))
        tell("listing the wordings", 0.0)
        wordings.update(self.store, tell=partial(tell, "listing the wordings"))
        self.store.checkpoint()

    # -- reading

    def codes(self, state: State, phrases: NDArray[np.int64]) -> NDArray[np.int8]:
        """Return the stored vectors of live phrases of a snapshot, (phrases, dim) int8, in the order of the ids."""
        return self._view.codes(state, phrases)

    @property
    def generation(self) -> int:
        """Number of the latest change, as in `BaseIndex`; reading it does not wait for searches of other threads."""
        return Manifest.read(self.path / INDEX_JSON).generation

    @property
    def has_wordings(self) -> bool:
        """True if phrases can be looked up by their wording; False for a large index of an earlier version."""
        with self.store.reading() as state:
            return self._view.has_wordings(state)

    @contextmanager
    def wordings(self) -> Iterator[WordingSearch]:
        """Look phrases up by their wording, within one snapshot of the index."""
        with self.store.reading() as state:
            yield WordingSearch(
                self._view.wordings(state), lambda ids: row_codec.dequantise(self._view.codes(state, ids))
            )

    def stats(self) -> IndexStats:
        """Return the counts, languages and file sizes of the index, without reading a sentence."""
        from phrasemate.index.verify import statistics

        return statistics(self.store, self.manifest)

    def verify(self) -> VerifyReport:
        """Check every row and file without changing anything. Problems are listed in the report, not raised."""
        from phrasemate.index.verify import verify

        return verify(self.store, self._settings, self._threads)
