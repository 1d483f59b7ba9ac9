"""What a search looks at: the FAISS file, and in memory every phrase that it does not cover."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import IndexDamaged, IndexError_, IndexLocked
from phrasemate.index import building, rows
from phrasemate.index.approximate import Faiss
from phrasemate.index.engine import Exact, Floats, Ids, Runs, best, scan, unpack
from phrasemate.index.lock import writing
from phrasemate.index.manifest import VectorsManifest
from phrasemate.index.records import Settings
from phrasemate.index.store import State, Store

__all__ = ["View"]

log = logging.getLogger("phrasemate.index")


class View:
    """Brought up to date with the store's generation at each search; appended phrases are read, old ones are kept."""

    def __init__(self, store: Store, settings: Settings, threads: int | None) -> None:
        self._store, self._settings, self._threads = store, settings, threads
        self.reset()

    def reset(self) -> None:
        """Forget all; the next search reads it again."""
        self._generation = -1
        self._from = self._to = 0  # self.exact holds the live phrases with these ids
        self.faiss: Faiss | None = None
        self.exact = Exact(self._store.dim, self._settings.block)
        self.dead = Runs(np.zeros((0, 2), np.int64))

    def search(self, state: State, vectors: Floats, k: int, documents: Ids | None, passing: int) -> tuple[Ids, Floats]:
        """The k best live phrases, of ``documents`` (ids) only if given; they hold ``passing`` phrases together."""
        self.refresh(state)
        if self.faiss is None or not len(vectors):
            return self.exact.search(vectors, k, documents)
        if documents is None:
            share = 1 - self._dead_in_faiss() / max(1, self.faiss.manifest.rows)
            more = self.faiss.search_where(vectors, k, lambda ids: ~self.dead.contains(ids), share)
        elif passing <= self._settings.exact_filtered:
            return self._scan_documents(vectors, k, documents, passing)
        else:
            share = passing / max(1, state.phrases)
            more = self.faiss.search_where(vectors, k, lambda ids: self._in_documents(ids, documents), share)
        if not len(self.exact):
            return more
        found = self.exact.search(vectors, k, documents)
        return best(np.concatenate([found[0], more[0]], 1), np.concatenate([found[1], more[1]], 1), k)

    def refresh(self, state: State) -> None:
        """Take in what has been committed since the last search. Raises IndexDamaged."""
        if state.generation == self._generation:
            return
        try:
            self.dead = Runs(self._store.tombstones())
            self._refresh_faiss(state)
            self._refresh_exact(self.faiss.manifest.covered if self.faiss else 0, state)
        except BaseException:
            self.reset()
            raise
        self._generation = state.generation

    def _refresh_exact(self, covered: int, state: State) -> None:
        if not self._from <= covered <= self._to:
            self.exact, self._to = Exact(self._store.dim, self._settings.block), covered
        self.exact.keep(~self.dead.contains(self.exact.ids) & (self.exact.ids >= covered))
        self.exact.extend(self._store.vectors(self._to))
        self._from, self._to = covered, state.next_phrase
        live = len(self.exact) + (self.faiss.manifest.rows - self._dead_in_faiss() if self.faiss else 0)
        if live != state.phrases:
            raise self._store.damaged(f"{live} phrases found, expected {state.phrases}")

    def _dead_in_faiss(self) -> int:
        """How many rows of the FAISS file stand for deleted phrases."""
        if self.faiss is None:
            return 0
        covered = self.faiss.manifest.covered
        return self.faiss.manifest.rows - (covered - self.dead.below(covered))

    def _refresh_faiss(self, state: State) -> None:
        path = self._store.path / building.VECTORS_JSON
        try:
            self._open_faiss(state)
            covered = self.faiss.manifest.covered if self.faiss else 0
            outside = state.next_phrase - covered - (self.dead.below(state.next_phrase) - self.dead.below(covered))
            reason = f"{path}: does not cover {outside} phrases" if outside > self._settings.forced_rebuild else ""
        except IndexDamaged as error:
            reason, self.faiss = str(error), None
        if reason:
            self._rebuild(state, reason)

    def _open_faiss(self, state: State) -> None:
        """Load the file that vectors.json names, unless it is the one in memory. Raises IndexDamaged."""
        for attempt in range(2):
            path = self._store.path / building.VECTORS_JSON
            if not path.exists():
                self.faiss = None
                return
            manifest = VectorsManifest.read(path)
            if self.faiss and self.faiss.manifest == manifest:
                return
            if manifest.generation > state.generation:  # a writer made it after our snapshot began
                return
            try:
                self.faiss = self._load(manifest)
                return
            except IndexDamaged:
                if attempt:  # a writer may have replaced it between the two reads
                    raise

    def _load(self, manifest: VectorsManifest) -> Faiss:
        return Faiss.load(self._store.path, manifest, self._store.dim, self._settings, self._threads)

    def _rebuild(self, state: State, reason: str) -> None:
        """Mend the FAISS file from the store; where that cannot be, search everything exactly."""
        try:
            if self._store.readonly:
                raise IndexError_("the index is open for reading only")
            with writing(self._store.path):
                log.warning("%s; rebuilding the FAISS file from the store", reason)
                made = building.build(self._store, self._settings, self._threads)
                self.faiss = self._load(made) if made else None
        except IndexLocked:
            log.info("%s; its writer is at work, searching exactly meanwhile", reason)
        except IndexDamaged:
            raise
        except IndexError_ as error:
            log.warning("%s; it cannot be rebuilt (%s), searching exactly in memory", reason, error)

    def _scan_documents(self, vectors: Floats, k: int, documents: Ids, passing: int) -> tuple[Ids, Floats]:
        seen = 0

        def blocks() -> Iterator[tuple[Floats, Ids]]:
            nonlocal seen
            for document in documents:
                for block in self._store.vectors(document=int(document)):
                    codes, ids, _ = unpack(block, self._store.dim)
                    seen += len(ids)
                    yield rows.dequantise(codes), ids

        found = scan(vectors, k, blocks())
        if seen != passing:
            raise self._store.damaged(f"{seen} phrases found in the chosen documents, expected {passing}")
        return found

    def _in_documents(self, ids: Ids, documents: Ids) -> NDArray[np.bool_]:
        """Which phrase ids are live and in the documents."""
        unique, inverse = np.unique(ids, return_inverse=True)
        wanted = set(documents.tolist())
        keep = np.zeros(len(unique), bool)
        for at in np.flatnonzero((unique >= 0) & ~self.dead.contains(unique)):
            row = self._store.sentence_of(int(unique[at]))
            keep[at] = row is not None and row.document in wanted
        return keep[inverse].reshape(ids.shape)
