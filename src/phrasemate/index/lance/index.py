"""An index of Lance tables, opened: everything that reads an `Index` reads it, changes go through Ray or Lance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os import PathLike
from typing import Any

from phrasemate.errors import IndexError_, InputError
from phrasemate.index.base import BaseIndex
from phrasemate.index.lance.commit import Writer
from phrasemate.index.lance.maintenance import optimise, statistics, verify
from phrasemate.index.lance.search import LanceTexts, LanceView
from phrasemate.index.lance.store import LanceStore
from phrasemate.index.lance.tables import Tables, options_for, place_of
from phrasemate.index.store import check_model
from phrasemate.index.types import AddReport, IndexModel, IndexStats, Progress, Settings, VerifyReport
from phrasemate.types import Document


class ClusterIndex(BaseIndex):
    """Index of Lance tables, as ``Index.open`` opens it; `phrasemate.index.ray.build` makes them.

    It sees what is committed at most a second ago. Text is added by `build`; ``delete`` and ``optimize`` work as in
    ``Index``, and take over from a driver that is at work.
    """

    def __init__(
        self, tables: Tables, model: IndexModel | None, readonly: bool, settings: Settings, threads: int | None
    ) -> None:
        super().__init__(model, threads)
        self._tables, self._readonly, self._settings = tables, readonly, settings
        self.path = tables.place
        self.store: LanceStore = LanceStore(tables)
        self.manifest = self.store.layout.head.manifest
        self._view = LanceView(self.store, settings, threads)
        self.texts = LanceTexts(self.store)

    @classmethod
    def open(
        cls,
        path: str | PathLike[str],
        model: IndexModel | None = None,
        readonly: bool = False,
        *,
        threads: int | None = None,
        settings: Settings | None = None,
    ) -> ClusterIndex:
        """Open the tables at a folder or URI; storage options come from the environment (`options_for`).

        Raises MissingExtra, IndexMissing, IndexDamaged, IndexUnsupported, ModelMismatch, IndexError_.
        """
        place = place_of(path)
        index = cls(Tables(place, options_for(place)), model, readonly, settings or Settings(), threads)
        if model is not None:
            check_model(place, index.manifest, model)
        return index

    @property
    def readonly(self) -> bool:
        return self._readonly

    # -- writing

    def begin(self, model: IndexModel, segment: Mapping[str, Any] | None = None) -> None:
        """Not here: raises IndexError_."""
        raise self._elsewhere()

    def add(self, documents: Iterable[Document], lang: str = "", progress: Progress | None = None) -> AddReport:
        """Not here: raises IndexError_."""
        raise self._elsewhere()

    def _elsewhere(self) -> IndexError_:
        return IndexError_(
            f"{self.path}: its tables are written by Ray workers; give --cluster ADDRESS, or call "
            f"phrasemate.index.ray.build (the address 'local' starts them on this machine)"
        )

    def delete(self, *names: str) -> None:
        """Remove documents, all or none. Raises InputError if there is none of a name, IndexLocked, IndexError_."""
        self._check_writable()
        chosen = self._chosen(names, None, exact=True)
        if not chosen:
            return
        writer = Writer(self._tables)
        self.store.refresh()
        with self.store.reading():
            documents = [self.store.document(identity) for identity in chosen]
        writer.delete((document.id, document.sentences, document.phrases) for document in documents)
        self._refresh()

    def optimize(
        self,
        cluster: str | None = None,
        workers: int | None = None,
        *,
        target_recall: float | None = None,
        at: int = 1,
        seed: int = 0,
    ) -> None:
        """Put small files together and build Lance's vector index, on the Ray cluster at an address if one is given.

        Raises IndexLocked, ClusterError, IndexError_, InputError (a target: it is FAISS that is tuned).
        """
        if target_recall is not None:
            raise InputError(f"{self.path}: is searched by Lance; --target-recall is for the index of one machine")
        self._check_writable()
        optimise(self._tables, self._settings, cluster, workers)
        self._refresh()

    def _refresh(self) -> None:
        """After a change: the next look finds it at once."""
        self.store.refresh()
        with self.store.reading():
            self.manifest = self.store.layout.head.manifest
        self._view.reset()

    # -- reading

    def stats(self) -> IndexStats:
        """Sizes and make-up; reads no sentence."""
        return statistics(self.store)

    def verify(self) -> VerifyReport:
        """Check every row; nothing is changed. Problems are listed, not raised."""
        return verify(self.store, self._view, self._settings)

    def close(self) -> None:
        self.store.close()
