"""Search of a snapshot: the FAISS file, and in memory every phrase that it does not cover."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import IndexDamaged, IndexLocked, IndexMissing, PhraseIndexError
from phrasemate.index import row_codec
from phrasemate.index.exact import Exact, Runs, best, scan, unpack
from phrasemate.index.faiss_search import Faiss
from phrasemate.index.manifest import VECTORS_JSON, VectorsManifest
from phrasemate.index.schema import write_lock
from phrasemate.index.store import State, Store, current_manifest, vectors_generation
from phrasemate.index.types import IndexSettings, Scope
from phrasemate.index.wordings import Segment, Wordings, WordingsManifest, build_segment, load_segment
from phrasemate.utils.arrays import Floats, Ids
from phrasemate.utils.machine import cores

_CANDIDATES = 1 << 16  # of a query, or a quarter of the rows: where a filter needs more, what passes it is read instead

log = logging.getLogger("phrasemate.index")


class SnapshotOutdated(Exception):
    """Raised when the FAISS file is newer than the snapshot; ``args``: its generation."""


def in_force(
    store: Store,
    state: State,
    settings: IndexSettings,
    threads: int | None,
    loaded: Faiss | None = None,
    whole: bool = False,
) -> Faiss | None:
    """Load the FAISS file that vectors.json names, or return ``loaded`` if it is that one; None if there is none.

    ``whole``: read all of its files, even where they have not changed since they were last checked. Raises
    SnapshotOutdated and IndexDamaged.
    """
    former: VectorsManifest | None = None
    while True:
        try:
            manifest = VectorsManifest.read(store.path / VECTORS_JSON)
        except IndexMissing:  # a writer may take it away at any time
            return None
        if loaded is not None and loaded.manifest == manifest:
            return loaded
        if manifest.generation > state.generation:
            raise SnapshotOutdated(manifest.generation)
        try:
            return Faiss.load(store.path, manifest, store.dim, settings, threads, whole)
        except IndexDamaged:
            if manifest == former:  # else a writer may have replaced it since it was named
                raise
            former = manifest


class View:
    """Search over one snapshot of the store, refreshed at each search: appended phrases are read, earlier ones stay in
    memory.
    """

    def __init__(self, store: Store, settings: IndexSettings, threads: int | None) -> None:
        self._store, self._settings, self._threads = store, settings, threads
        self.reset()

    def reset(self) -> None:
        """Drop everything in memory; the next search reads it again."""
        self._generation = -1
        self._from = self._to = 0  # self.exact holds the live phrases with these ids
        self._scanning = False  # neither a FAISS file nor self.exact is of the snapshot: the store is read
        self.faiss: Faiss | None = None
        self.exact = Exact(self._store.dim, self._settings.block, self._threads or cores())
        self.dead = Runs(np.zeros((0, 2), np.int64))
        self._segments: dict[str, Segment] = {}
        self._wordings: tuple[int, Wordings] | None = None  # with the generation that it is of
        self._wordings_whole = False

    def wordings(self, state: State) -> Wordings:
        """The table of wordings of the snapshot. Phrases that no segment on the disk has are read from the store, if
        they are few; else they are left out.
        """
        self.refresh(state)
        if self._wordings is None or self._wordings[0] != state.generation:
            self._wordings = state.generation, Wordings(self._loaded_segments(state), self.dead)
        return self._wordings[1]

    def has_wordings(self, state: State) -> bool:
        """Whether the table of wordings has every phrase of the snapshot."""
        self.wordings(state)
        return self._wordings_whole

    def _loaded_segments(self, state: State) -> list[Segment]:
        try:
            manifest = WordingsManifest.read(self._store.path)
            files = manifest.segments if manifest.generation <= state.generation else ()
            open_segments = {
                file.file: self._segments.get(file.file) or load_segment(self._store.path, file) for file in files
            }
        except IndexMissing:
            open_segments = {}
        except IndexDamaged as error:
            log.warning("%s", error)
            open_segments = {}
        self._segments = open_segments
        segments = list(open_segments.values())
        low = segments[-1].high if segments else 0
        missing = state.next_phrase - low
        self._wordings_whole = missing <= self._settings.forced_rebuild
        if not self._wordings_whole:
            log.warning(
                "%s: the table of wordings lacks %d phrases, so searches go by vectors alone; run: phrasemate index "
                "optimize",
                self._store.path,
                missing,
            )
        elif missing:
            languages = {document.id: document.language for document in self._store.documents()}
            rows = self._store.sentences_of_phrases(low, state.next_phrase)
            segments.append(build_segment(rows, low, state.next_phrase, languages))
        return segments

    def codes(self, state: State, ids: Ids) -> NDArray[np.int8]:
        """(ids, dim) int8: the stored vectors of live phrases, in their order."""
        self.refresh(state)
        codes = np.empty((len(ids), self._store.dim), np.int8)
        missing = np.ones(len(ids), np.bool_)
        if not self._scanning:
            if self.faiss is not None:
                coverage = self.faiss.runs.contains(ids)
                codes[coverage] = self.faiss.codes_of(ids[coverage])
                missing &= ~coverage
            if missing.any() and len(self.exact):
                places = np.minimum(np.searchsorted(self.exact.ids, ids), len(self.exact) - 1)
                newer = missing & (self.exact.ids[places] == ids)
                codes[newer] = self.exact.codes[places[newer]]
                missing &= ~newer
        if missing.any():
            order = np.flatnonzero(missing)[np.argsort(ids[missing])]
            codes[order] = self._store.vectors_of(ids[order].tolist())
        return codes

    def search(self, state: State, vectors: Floats, k: int, scope: Scope) -> tuple[Ids, Floats]:
        """The k best live phrases of the documents that are searched."""
        self.refresh(state)
        documents = scope.documents
        if self._scanning:
            return self._scan(vectors, k, scope)
        if self.faiss is None or not len(vectors):
            return self.exact.search(vectors, k, documents)
        if documents is None:
            share = 1 - self._dead_rows(self.faiss) / max(1, self.faiss.manifest.rows)
            more = self.faiss.search_where(vectors, k, lambda ids: ~self.dead.contains(ids), share)
        elif scope.phrases <= self._settings.exact_filtered:
            return self._scan(vectors, k, scope)
        else:
            share = scope.phrases / max(1, state.phrases)
            most = max(_CANDIDATES, self.faiss.manifest.rows // 4)
            more = self.faiss.search_where(vectors, k, lambda ids: self._in_documents(ids, documents), share, most)
        if more is None:  # hardly any of what is near passes: reading all that passes is cheaper
            return self._scan(vectors, k, scope)
        if not len(self.exact):
            return more
        nearest = self.exact.search(vectors, k, documents)
        return best(np.concatenate([nearest[0], more[0]], 1), np.concatenate([nearest[1], more[1]], 1), k)

    def refresh(self, state: State) -> None:
        """Refresh with what has been committed since the last search.

        Raises IndexDamaged, PhraseIndexError or ModelMismatch if the index was rebuilt.
        """
        if state.generation == self._generation:
            return
        try:
            current_manifest(self._store)
            self.dead = Runs(self._store.tombstones())
            self._refresh_faiss(state)
            if not self._scanning:
                self._refresh_exact(self.faiss.manifest.covered if self.faiss else 0, state)
        except BaseException:
            self.reset()
            raise
        self._generation = state.generation

    def _refresh_exact(self, covered: int, state: State) -> None:
        if not self._from <= covered <= self._to:
            self.exact, self._to = Exact(self._store.dim, self._settings.block, self._threads or cores()), covered
        self.exact.keep(~self.dead.contains(self.exact.ids) & (self.exact.ids >= covered))
        self.exact.extend(self._store.vectors(self._to))
        self._from, self._to = covered, state.next_phrase
        live = len(self.exact) + (self.faiss.manifest.rows - self._dead_rows(self.faiss) if self.faiss else 0)
        if live != state.phrases:
            raise self._store.damaged(f"{live} phrases found, expected {state.phrases}")

    def _dead_rows(self, faiss: Faiss) -> int:
        """Count the rows of a FAISS file that stand for deleted phrases."""
        coverage = faiss.manifest.covered
        return faiss.manifest.rows - (coverage - self.dead.below(coverage))

    def _refresh_faiss(self, state: State) -> None:
        self._scanning = False
        try:
            self.faiss = in_force(self._store, state, self._settings, self._threads, self.faiss)
        except SnapshotOutdated:
            self._make_do(state)
            return
        except IndexDamaged as error:
            self.faiss = None
            self._rebuild(state, str(error))
            return
        if self._outside(state) > self._settings.forced_rebuild:
            path = self._store.path / VECTORS_JSON
            self._rebuild(state, f"{path}: does not cover {self._outside(state)} phrases")

    def _make_do(self, state: State) -> None:
        """The FAISS file is newer than this snapshot: reuse the loaded one, or scan the store."""
        self._scanning = self.faiss is None or self._outside(state) > self._settings.forced_rebuild

    def _outside(self, state: State) -> int:
        """Count the live phrases that the FAISS file does not cover."""
        coverage = self.faiss.manifest.covered if self.faiss else 0
        return state.next_phrase - coverage - (self.dead.below(state.next_phrase) - self.dead.below(coverage))

    def _rebuild(self, state: State, reason: str) -> None:
        """Rebuild the FAISS file from the store; if that fails, search everything exactly."""
        from phrasemate.index import faiss_build

        try:
            if self._store.readonly:
                raise PhraseIndexError("the index is open for reading only")
            with write_lock(self._store.path):
                if vectors_generation(self._store.path) > state.generation:  # another has built it by now
                    self._make_do(state)
                    return
                log.warning("%s; rebuilding the FAISS file from the store", reason)
                is_built = faiss_build.build(self._store, self._settings, self._threads)
                self.faiss = in_force(self._store, state, self._settings, self._threads) if is_built else None
        except IndexLocked:
            log.info("%s; its writer is at work, searching exactly meanwhile", reason)
        except IndexDamaged:
            raise
        except PhraseIndexError as error:
            log.warning("%s; it cannot be rebuilt (%s), searching exactly in memory", reason, error)

    def _scan(self, vectors: Floats, k: int, scope: Scope) -> tuple[Ids, Floats]:
        """Exact search over the rows of the store, each read once: of all documents, or of some."""
        count = 0

        def blocks() -> Iterator[tuple[Floats, Ids]]:
            nonlocal count
            documents: Sequence[int | None] = [None] if scope.documents is None else scope.documents.tolist()
            for block in chain.from_iterable(self._store.vectors(document=document) for document in documents):
                codes, ids, _ = unpack(block, self._store.dim)
                count += len(ids)
                yield row_codec.dequantise(codes), ids

        results = scan(vectors, k, blocks())
        if count != scope.phrases:
            raise self._store.damaged(f"{count} phrases found in the rows searched, expected {scope.phrases}")
        return results

    def _in_documents(self, ids: Ids, documents: Ids) -> NDArray[np.bool_]:
        """Tell which phrase ids are live and in the documents."""
        unique, inverse = np.unique(ids, return_inverse=True)
        document_ids = set(documents.tolist())
        keep = np.zeros(len(unique), bool)
        live = np.flatnonzero((unique >= 0) & ~self.dead.contains(unique))
        rows = self._store.sentences_of(unique[live].tolist())
        keep[live] = [row is not None and row.document in document_ids for row in rows]
        return keep[inverse].reshape(ids.shape)
