"""Vector search over a snapshot of the store: with FAISS, and exactly over the phrases that the FAISS file lacks."""

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

# A search with a filter of documents fetches at most this many candidates per query, or a quarter of the rows if that
# is more. If they are too few, the rows of the documents are scanned instead.
_CANDIDATES = 1 << 16

log = logging.getLogger("phrasemate.index")


class SnapshotOutdated(Exception):
    """Internal signal that the FAISS file is newer than the snapshot; ``args`` holds the generation of the file."""


def load_current(
    store: Store,
    state: State,
    settings: IndexSettings,
    threads: int | None,
    loaded: Faiss | None = None,
    whole: bool = False,
) -> Faiss | None:
    """Load the FAISS file that vectors.json names.

    Args:
        store: Store of the index.
        state: State of the snapshot.
        settings: Settings of the index.
        threads: Number of threads of FAISS; None for one per processor.
        loaded: FAISS file loaded earlier, which is returned if vectors.json still names it.
        whole: Compare all files with their checksums, even if they are unchanged since the last check.

    Returns None if there is no FAISS file. Raises SnapshotOutdated and IndexDamaged.
    """
    former: VectorsManifest | None = None
    while True:
        try:
            manifest = VectorsManifest.read(store.path / VECTORS_JSON)
        except IndexMissing:  # a writer may remove the file at any time
            return None
        if loaded is not None and loaded.manifest == manifest:
            return loaded
        if manifest.generation > state.generation:
            raise SnapshotOutdated(manifest.generation)
        try:
            return Faiss.load(store.path, manifest, store.dim, settings, threads, whole)
        except IndexDamaged:
            if manifest == former:  # else a writer may have replaced the file after vectors.json was read
                raise
            former = manifest


class View:
    """Search over the snapshot of the store that the caller holds open.

    Each call refreshes the view to the state of the snapshot: only newly added phrases are read, the others stay in
    memory.
    """

    def __init__(self, store: Store, settings: IndexSettings, threads: int | None) -> None:
        self._store, self._settings, self._threads = store, settings, threads
        self.reset()

    def reset(self) -> None:
        """Free all memory; the next search reads everything again."""
        self._generation = -1
        self._from = self._to = 0  # self.exact holds the live phrases with ids from self._from to below self._to
        self._scanning = False  # True if neither the FAISS file nor self.exact fits the snapshot: the store is scanned
        self.faiss: Faiss | None = None
        self.exact = Exact(self._store.dim, self._settings.block, self._threads or cores())
        self.dead = Runs(np.zeros((0, 2), np.int64))
        self._segments: dict[str, Segment] = {}
        self._wordings: tuple[int, Wordings] | None = None  # generation and table
        self._wordings_whole = False

    def wordings(self, state: State) -> Wordings:
        """Return the table of wordings of the snapshot.

        Phrases that no segment on the disk covers are read from the store if they are few. Otherwise the table lacks
        them, and a warning is logged.
        """
        self.refresh(state)
        if self._wordings is None or self._wordings[0] != state.generation:
            self._wordings = state.generation, Wordings(self._loaded_segments(state), self.dead)
        return self._wordings[1]

    def has_wordings(self, state: State) -> bool:
        """Tell whether the table of wordings has every phrase of the snapshot."""
        self.wordings(state)
        return self._wordings_whole

    def _loaded_segments(self, state: State) -> list[Segment]:
        """Load the segments of the table of wordings, and build one for phrases that they lack, if these are few."""
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
        """Return the stored vectors of live phrases, (ids, dim) int8, in the order of the ids."""
        self.refresh(state)
        codes = np.empty((len(ids), self._store.dim), np.int8)
        missing = np.ones(len(ids), np.bool_)
        if not self._scanning:
            if self.faiss is not None:
                coverage = self.faiss.runs.contains(ids)
                if coverage.all():
                    return self.faiss.codes_of(ids)
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
        """Return ids and scores of the k best live phrases for each query, best first.

        Args:
            state: State of the snapshot.
            vectors: Vectors of the queries, (queries, dim).
            k: Number of hits per query.
            scope: Documents to search.
        """
        self.refresh(state)
        documents = scope.documents
        if self._scanning:
            return self._scan(vectors, k, scope)
        if self.faiss is None or not len(vectors):
            return self.exact.search(vectors, k, documents)
        if documents is None:
            share = 1 - self._dead_rows(self.faiss) / max(1, self.faiss.manifest.rows)
            approximate = self.faiss.search_where(vectors, k, lambda ids: ~self.dead.contains(ids), share)
        elif scope.phrases <= self._settings.exact_filtered:
            return self._scan(vectors, k, scope)
        else:
            share = scope.phrases / max(1, state.phrases)
            most = max(_CANDIDATES, self.faiss.manifest.rows // 4)
            approximate = self.faiss.search_where(
                vectors, k, lambda ids: self._in_documents(ids, documents), share, most
            )
        if approximate is None:  # hardly any candidate is in the documents: scanning their rows is cheaper
            return self._scan(vectors, k, scope)
        if not len(self.exact):
            return approximate
        exact = self.exact.search(vectors, k, documents)
        ids, scores = np.concatenate([exact[0], approximate[0]], 1), np.concatenate([exact[1], approximate[1]], 1)
        return best(ids, scores, k)

    def refresh(self, state: State) -> None:
        """Bring the view to the state of the snapshot.

        Raises IndexDamaged, and PhraseIndexError or ModelMismatch if the index was rebuilt.
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
        """Make ``self.exact`` hold the live phrases with an id of ``covered`` or above. Raises IndexDamaged."""
        if not self._from <= covered <= self._to:
            self.exact, self._to = Exact(self._store.dim, self._settings.block, self._threads or cores()), covered
        self.exact.keep(~self.dead.contains(self.exact.ids) & (self.exact.ids >= covered))
        self.exact.extend(self._store.vectors(self._to))
        self._from, self._to = covered, state.next_phrase
        live = len(self.exact) + (self.faiss.manifest.rows - self._dead_rows(self.faiss) if self.faiss else 0)
        if live != state.phrases:
            raise self._store.damaged(f"{live} phrases found, expected {state.phrases}")

    def _dead_rows(self, faiss: Faiss) -> int:
        """Count the rows of a FAISS file that belong to deleted phrases."""
        coverage = faiss.manifest.covered
        return faiss.manifest.rows - (coverage - self.dead.below(coverage))

    def _refresh_faiss(self, state: State) -> None:
        """Load the FAISS file of the snapshot; rebuild it if it is damaged or lacks too many phrases."""
        self._scanning = False
        try:
            self.faiss = load_current(self._store, state, self._settings, self._threads, self.faiss)
        except SnapshotOutdated:
            self._choose_fallback(state)
            return
        except IndexDamaged as error:
            self.faiss = None
            self._rebuild(state, str(error))
            return
        if (count := self._uncovered(state)) > self._settings.forced_rebuild:
            self._rebuild(state, f"{self._store.path / VECTORS_JSON}: does not cover {count} phrases")

    def _choose_fallback(self, state: State) -> None:
        """Use the FAISS file loaded earlier, or else scan the store: the present file is newer than this snapshot."""
        self._scanning = self.faiss is None or self._uncovered(state) > self._settings.forced_rebuild

    def _uncovered(self, state: State) -> int:
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
                if vectors_generation(self._store.path) > state.generation:  # another process has built it meanwhile
                    self._choose_fallback(state)
                    return
                log.warning("%s; rebuilding the FAISS file from the store", reason)
                is_built = faiss_build.build(self._store, self._settings, self._threads)
                self.faiss = load_current(self._store, state, self._settings, self._threads) if is_built else None
        except IndexLocked:
            log.info("%s; another process is writing to the index, so this search is exact", reason)
        except IndexDamaged:
            raise
        except PhraseIndexError as error:
            log.warning("%s; it cannot be rebuilt (%s), searching exactly in memory", reason, error)

    def _scan(self, vectors: Floats, k: int, scope: Scope) -> tuple[Ids, Floats]:
        """Search exactly by reading the rows of the store, each once; only those of ``scope``.

        Raises IndexDamaged if their number is not the expected one.
        """
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
        """Return a mask of the phrase ids that are live and belong to the documents, in the shape of ``ids``."""
        unique, inverse = np.unique(ids, return_inverse=True)
        document_ids = set(documents.tolist())
        keep = np.zeros(len(unique), bool)
        live = np.flatnonzero((unique >= 0) & ~self.dead.contains(unique))
        rows = self._store.sentences_of(unique[live].tolist())
        keep[live] = [row is not None and row.document in document_ids for row in rows]
        return keep[inverse].reshape(ids.shape)
