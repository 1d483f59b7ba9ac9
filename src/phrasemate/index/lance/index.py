"""An index of Lance tables, opened: everything that reads an `Index` reads it, changes go through Ray or Lance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, cast

from numpy.typing import ArrayLike

from phrasemate.errors import IndexError_, InputError
from phrasemate.index import Index
from phrasemate.index.lance.ann import LanceView
from phrasemate.index.lance.commit import Writer
from phrasemate.index.lance.fulltext import LanceTexts
from phrasemate.index.lance.optimize import optimise
from phrasemate.index.lance.store import LanceStore
from phrasemate.index.lance.tables import Tables
from phrasemate.index.lance.uri import options_for, place_of
from phrasemate.index.lance.verify import statistics, verify
from phrasemate.index.row_codec import unpack_spans
from phrasemate.index.store import check_model
from phrasemate.index.types import AddReport, DocumentInfo, IndexModel, IndexStats, Progress, Settings, VerifyReport
from phrasemate.types import Document, Hit, Phrase

if TYPE_CHECKING:
    from pathlib import Path

    from phrasemate.index.fulltext import TextSearch
    from phrasemate.index.snapshot_search import View
    from phrasemate.index.store import Store


class ClusterIndex(Index):
    """What ``Index.open`` gives for a place that holds Lance tables; `phrasemate.index.ray.build` makes them.

    It sees what is committed at most a second ago. Text is added by `build`; ``delete`` and ``optimize`` work as in
    ``Index``, and take the place of a driver that is at work.
    """

    def __init__(self, tables: Tables, model: IndexModel | None, readonly: bool, settings: Settings) -> None:
        self._tables, self._readonly = tables, readonly
        self._lance = LanceStore(tables)
        self._model, self._settings, self._threads = model, settings, None
        # what reads an Index needs of these only what the two kinds share
        self.path = cast("Path", tables.place)
        self.store = cast("Store", self._lance)
        self.manifest = self._lance.layout.head.manifest
        self._view = cast("View", LanceView(self._lance, settings, None))
        self.texts = cast("TextSearch", LanceTexts(self._lance))
        self._names: tuple[int, dict[int, DocumentInfo]] = (-1, {})

    @property
    def has_wordings(self) -> bool:
        """False: tables of Lance have no table of wordings."""
        return False

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
        made = cls(Tables(place, options_for(place)), model, readonly, settings or Settings())
        if model is not None:
            check_model(place, made.manifest, model)
        made._threads = threads
        made._view = cast("View", LanceView(made._lance, made._settings, threads))
        return made

    @property
    def readonly(self) -> bool:
        return self._readonly

    def hits(self, ids: ArrayLike, scores: ArrayLike) -> list[Hit]:
        """As ``Index.hits``, with all sentences read at once: on object storage each read is a round trip."""
        import numpy as np

        pairs = zip(np.asarray(ids).ravel().tolist(), np.asarray(scores).ravel().tolist(), strict=True)
        asked = [(phrase, score) for phrase, score in pairs if phrase != -1]
        with self._lance.reading():
            documents = self._documents()
            found = self._lance.sentences_of([phrase for phrase, _ in asked])
        hits = []
        for (phrase, score), row in zip(asked, found, strict=True):
            if row is not None:
                starts, ends, _ = unpack_spans(row.spans, row.phrases)
                at = phrase - row.first_phrase
                if (owner := documents.get(row.document)) is None:
                    raise self._lance.damaged(f"document {row.document} of sentence {row.id} is missing")
                where = Phrase(row.text, int(starts[at]), int(ends[at]))
                hits.append(Hit(where, score, owner.name, row.line, owner.language, phrase, row.metadata))
        return hits

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
        self._may_write()
        chosen = self._chosen(names, None, exact=True)
        if not chosen:
            return
        writer = Writer(self._tables)
        self._lance.refresh()
        with self._lance.reading():
            documents = [self._lance.document(identity) for identity in chosen]
        writer.delete((each.id, each.sentences, each.phrases) for each in documents)
        self._seen()

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
        self._may_write()
        optimise(self._tables, self._settings, cluster, workers)
        self._seen()

    def _may_write(self) -> None:
        if self._readonly:
            raise IndexError_(f"{self.path}: is open for reading only; open it with write permission to change it")

    def _seen(self) -> None:
        """After a change: the next look finds it at once."""
        self._lance.refresh()
        with self._lance.reading():
            self.manifest = self._lance.layout.head.manifest
        self._view.reset()

    # -- reading

    def stats(self) -> IndexStats:
        """Sizes and make-up; reads no sentence."""
        return statistics(self._lance)

    def verify(self) -> VerifyReport:
        """Check every row; nothing is changed. Problems are listed, not raised."""
        return verify(self._lance, self._view, self._settings)

    def close(self) -> None:
        self._lance.close()
