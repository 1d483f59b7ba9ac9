"""An index of Lance tables, opened and maintained: everything that reads an `Index` reads it, Ray or Lance change it.

Maintenance is compaction, building of Lance's indexes, sizes, and the check of every row: every checksum, offset and
count, and Lance's index against exact search.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from itertools import zip_longest
from os import PathLike
from time import sleep
from typing import Any

import numpy as np

from phrasemate.errors import ClusterError, IndexLocked, InputError, PhrasemateError, first_line, needs_extra
from phrasemate.index import row_codec
from phrasemate.index.base import BaseIndex
from phrasemate.index.exact import Runs, scan
from phrasemate.index.lance.commit import Writer
from phrasemate.index.lance.search import LanceTexts, LanceView, arrow_lowered, condition, index_of, update
from phrasemate.index.lance.store import LanceStore, codes_of
from phrasemate.index.lance.tables import (
    DATA,
    PHRASES,
    SENTENCES,
    SHARDS,
    STATE,
    WORDS,
    Tables,
    compact,
    options_for,
    place_of,
    translate_errors,
)
from phrasemate.index.ray import connected, cpus
from phrasemate.index.store import State, check_model
from phrasemate.index.types import Filters, IndexModel, IndexSettings, IndexStats, Scope, VerifyReport
from phrasemate.index.verify import check_parts, check_sentences, common_figures
from phrasemate.utils.arrays import Floats, Ids

log = logging.getLogger("phrasemate.index")

KIND = "IVF_RQ"  # one bit a dimension; recall@1 .98 on a million vectors
TRIES = 3  # of a build on the cluster: Lance's builder does not survive the loss of a worker
WAIT_SECONDS = 5.0
KEPT = timedelta(hours=1)  # old versions, for readers that have them open
_PER_LIST = 4096  # vectors of an inverted list that Lance recommends
_MOST_LISTS = 4096  # with more, building a billion's would cost more than encoding them (results/log/scale.md)
_SAMPLE = 256  # of which it trains each list


def lists_for(phrases: int) -> int:
    """Number of inverted lists: one for 4,096 phrases. Training costs their square, so there is an end to it."""
    return max(1, min(phrases // _PER_LIST, _MOST_LISTS))


def _same(tables: Tables, name: str, version: int) -> int:
    """The last version of a table, which holds the rows of another one. Raises IndexLocked."""
    last, earlier = tables.open(name), tables.open(name, version)
    with translate_errors(tables.place):
        if last.count_rows() != earlier.count_rows():  # an overtaken driver's, which came after it was taken back
            raise IndexLocked(f"{tables.place}: another process has written to this index; give the same command again")
    return int(last.version)


def _recipe(lists: int) -> dict[str, Any]:
    return {"metric": "cosine", "num_partitions": lists, "num_bits": 1, "sample_rate": _SAMPLE, "replace": True}


def _build_here(tables: Tables, lists: int) -> None:
    with translate_errors(tables.place):
        tables.open(PHRASES).create_index("vector", KIND, name="vector_idx", **_recipe(lists))


def _build_there(tables: Tables, lists: int, address: str, workers: int | None) -> None:
    with needs_extra("ray", "lance-ray"):
        import lance_ray

    with connected(address, workers):
        available = cpus()
        count = min(workers or available, available)  # lance-ray waits for those that have no CPU
        for attempt in range(1, TRIES + 1):
            try:
                lance_ray.create_index(
                    tables.uri(PHRASES),
                    "vector",
                    KIND,
                    name="vector_idx",
                    num_workers=count,
                    storage_options=tables.options or None,
                    **_recipe(lists),
                )
                return
            except Exception as error:  # whatever a lost worker makes of it: Lance, Ray and Python have their own names
                reason = first_line(error)
                if attempt == TRIES:
                    raise ClusterError(
                        f"{tables.place}: the vector index could not be built in {TRIES} attempts, at last: {reason}; "
                        f"the index works without it; run: phrasemate index optimize"
                    ) from error
                log.warning("building the vector index failed (%s); trying again", reason)
                sleep(WAIT_SECONDS)


def _bytes(store: LanceStore, name: str) -> int:
    """Bytes of the files that hold the rows of a table."""
    fragments = [fragment.metadata.to_json() for fragment in store.table(name).get_fragments()]
    return sum(file["file_size_bytes"] or 0 for fragment in fragments for file in fragment["files"])


_QUERIES = 100
_DEPTH = 10
_LEAST_RECALL = 0.9  # of the first place
_ASKED, _LONG = 20, 12  # texts that the text index is asked for, and their characters
_ANEW = "remove words.lance, which is derived, and run: phrasemate index optimize"
_SHOWN = 20  # problems of one kind that are listed


def _vectors(store: LanceStore, state: State, report: VerifyReport) -> None:
    count, wrong = 0, []
    for block, right in store.checked_vectors():
        count += sum(row.phrases for row in block)
        wrong += [row.id for row, intact in zip(block, right, strict=True) if not intact]
    report.problems.extend(
        f"the vectors of sentence {identity} do not match their checksum" for identity in wrong[:_SHOWN]
    )
    if count != state.phrases:
        report.problems.append(f"vectors: {count} found, expected {state.phrases}")
    report.checked["vectors"] = count


def _keys(store: LanceStore, state: State, report: VerifyReport) -> None:
    """Every live phrase once, in order, with the document of its shard."""
    last, count = -1, 0
    for batch in store.batches(PHRASES, ["key"]):
        ids = store.layout.ids(batch["key"].to_numpy())
        if len(ids) and (ids[0] <= last or (np.diff(ids) <= 0).any()):
            report.problems.append(f"phrases: {int(ids[0])} to {int(ids[-1])} are out of order or doubled")
        dead = int(store.layout.dead_phrases.contains(ids).sum())
        if dead:
            report.problems.append(f"phrases: {dead} deleted ones between {int(ids[0])} and {int(ids[-1])}")
        count, last = count + len(ids), int(ids[-1]) if len(ids) else last
    if count != state.phrases:
        report.problems.append(f"phrases: {count} found, expected {state.phrases}")


def _words(store: LanceStore, state: State, report: VerifyReport) -> None:
    """The text index has every sentence that it should, as it is, and its trigrams find what reading finds."""
    words = store.words()
    report.checked["text index"] = "none"
    if words is None:
        return
    table, end = words
    sentences = store.batches(SENTENCES, ["id", "text"], f"id < {end}")
    rows_due = _texts(sentences, store.layout.dead_sentences, lambda text: arrow_lowered(row_codec.decode_text(text)))
    texts = _texts(store.batches(WORDS, ["id", "text"]), store.layout.dead_sentences, str)
    count, sample = 0, []
    for count, (right, row) in enumerate(zip_longest(rows_due, texts), 1):
        if right != row:
            number = (right or row or (0, ""))[0]
            report.problems.append(f"text index: sentence {number} is missing or altered; {_ANEW}")
            return
        if right and not (count - 1) % max(1, state.sentences // _ASKED):
            sample.append(right[1])
    for text in sample:
        where = condition([text[len(text) // 3 :][:_LONG]])
        if where is None:
            continue
        with translate_errors(store.path):
            answers = [table.count_rows(where), table.scanner(filter=where, use_scalar_index=False).count_rows()]
        if answers[0] != answers[1]:
            report.problems.append(f"text index: finds {answers[0]} of {answers[1]} sentences; {_ANEW}")
            return
    report.checked["text index"] = f"trigrams of {count:,} sentences"


def _texts(batches: Iterable[Any], dead: Runs, read: Callable[[Any], str]) -> Iterator[tuple[int, str]]:
    """Ids and texts of the live sentences."""
    for batch in batches:
        dead_flags = dead.contains(batch["id"].to_numpy()).tolist()
        for identity, text, is_dead in zip(batch["id"].to_pylist(), batch["text"].to_pylist(), dead_flags, strict=True):
            if not is_dead:
                yield identity, read(text)


def _search(store: LanceStore, state: State, report: VerifyReport, view: Any, settings: IndexSettings) -> None:
    index = index_of(store.table(PHRASES))
    report.checked["vector index"] = f"{index['kind']} of {index['rows']:,}" if index else "none"
    if index is None or state.phrases <= settings.exact_below:
        return
    places = np.linspace(0, state.phrases - 1, _QUERIES).astype(int)
    sample = store.table(PHRASES).take(places.tolist(), columns=["vector"])
    queries = row_codec.dequantise(codes_of(sample["vector"], store.dim))

    def blocks() -> Iterator[tuple[Floats, Ids]]:
        for batch in store.batches(PHRASES, ["key", "vector"]):
            yield row_codec.dequantise(codes_of(batch["vector"], store.dim)), store.layout.ids(batch["key"].to_numpy())

    exact = scan(queries, _DEPTH, blocks())
    results = view.search(state, queries, _DEPTH, Scope(None, state.phrases))
    # a place counts as found if what stands there scores as well: equal sentences have equal vectors
    recall = [float((results[1][:, at] >= exact[1][:, at] - 0.01).mean()) for at in (0, _DEPTH - 1)]
    if recall[0] < _LEAST_RECALL:
        report.problems.append(
            f"Lance: recall@1 against exact search is {recall[0]:.2f}, expected {_LEAST_RECALL}; run: "
            f"phrasemate index optimize"
        )
    report.checked["recall@1"] = recall[0]


class ClusterIndex(BaseIndex):
    """Index of Lance tables, as ``Index.open`` opens it; `phrasemate.index.ray.build` makes them.

    It sees what is committed at most a second ago. Text is added by `build`; ``delete`` and ``optimize`` work as in
    ``Index``, and take over from a driver that is at work.
    """

    _refusal = (
        "its tables are written by Ray workers; give --cluster ADDRESS, or call phrasemate.index.ray.build (the "
        "address 'local' starts them on this machine)"
    )

    def __init__(
        self, tables: Tables, model: IndexModel | None, readonly: bool, settings: IndexSettings, threads: int | None
    ) -> None:
        super().__init__(model, threads)
        self._tables, self._readonly, self._settings = tables, readonly, settings
        self.path = tables.place
        self.store: LanceStore = LanceStore(tables)
        self.manifest = self.store.layout.head.manifest
        self._view: LanceView = LanceView(self.store, settings, threads)
        self.texts = LanceTexts(self.store)

    @classmethod
    def open(
        cls,
        path: str | PathLike[str],
        model: IndexModel | None = None,
        readonly: bool = False,
        *,
        threads: int | None = None,
        settings: IndexSettings | None = None,
    ) -> ClusterIndex:
        """Open the tables at a folder or URI; storage options come from the environment (`options_for`).

        Raises MissingExtra, IndexMissing, IndexDamaged, IndexUnsupported, ModelMismatch, PhraseIndexError.
        """
        place = place_of(path)
        index = cls(Tables(place, options_for(place)), model, readonly, settings or IndexSettings(), threads)
        if model is not None:
            check_model(place, index.manifest, model)
        return index

    # -- writing

    def delete(self, *names: str) -> None:
        """Remove documents, all or none. Raises InputError for a name that it lacks, IndexLocked, PhraseIndexError."""
        self._check_writable()
        document_names = self.documents_in(Filters(names), exact=True)
        if not document_names:
            return
        writer = Writer(self._tables)
        self.store.refresh()
        with self.store.reading():
            documents = [self.store.document(identity) for identity in document_names]
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

        The old state is in force until all is done. Raises IndexLocked, ClusterError, PhraseIndexError, InputError (a
        target: it is FAISS that is tuned).
        """
        if target_recall is not None:
            raise InputError(f"{self.path}: is searched by Lance; --target-recall is for the index of one machine")
        self._check_writable()
        tables = self._tables
        writer = Writer(tables)
        for name in DATA:
            compact(tables, name)
        if writer.head.phrases > self._settings.exact_below:
            if cluster is None:
                _build_here(tables, lists_for(writer.head.phrases))
            else:
                _build_there(tables, lists_for(writer.head.phrases), cluster, workers)
        with translate_errors(tables.place):
            tables.open(SHARDS).optimize.compact_files()  # the order of its rows says nothing
        writer.pin({name: _same(tables, name, writer.head.versions[name]) for name in DATA})
        update(tables, writer)
        for name in (STATE, SHARDS, *DATA, WORDS):
            with translate_errors(tables.place):
                # as of the version in force, which Lance leaves there with all that a worker may have committed since
                tables.open(name, writer.head.versions.get(name)).cleanup_old_versions(older_than=KEPT)
        self._refresh()

    def _refresh(self) -> None:
        """Forget what was read, so that the next look finds a change at once."""
        self.store.refresh()
        with self.store.reading():
            self.manifest = self.store.layout.head.manifest
        self._view.reset()

    # -- reading

    def stats(self) -> IndexStats:
        """Sizes and make-up; reads no sentence. Raises IndexDamaged, PhraseIndexError."""
        store = self.store
        with store.reading() as state, translate_errors(store.path):
            documents = list(store.documents())
            index = index_of(store.table(PHRASES))
            covered_rows = min(index["rows"], state.phrases) if index else 0
            files = {f"{name}.lance": _bytes(store, name) for name in (*DATA, *([WORDS] if store.words() else []))}
            if index:
                files["vector index"] = index["bytes"]
            if store.words():
                files["text index"] = sum(
                    index.total_size_bytes or 0 for index in store.table(WORDS).describe_indices()
                )
            return IndexStats(
                **common_figures(store.path, store.layout.head.manifest, state, documents),
                deleted=len(store.layout.dead_phrases),
                engine=f"Lance {index['kind']}" if index else "exact",
                approximate=covered_rows,
                exact=state.phrases - covered_rows,
                files=files,
            )

    def verify(self) -> VerifyReport:
        """Check every row; nothing is changed. Problems are listed, not raised."""
        report = VerifyReport()
        parts: dict[str, Callable[[LanceStore, State, VerifyReport], None]] = {
            "sentences": check_sentences,
            "vectors": _vectors,
            "phrases": _keys,
            "text index": _words,
            "Lance": lambda store, state, report: _search(store, state, report, self._view, self._settings),
        }
        try:
            self.store.refresh()
            with self.store.reading() as state:
                report.checked.update({"generation": state.generation, "shards": self.store.layout.head.shards})
                report.checked["documents"] = state.documents
                check_parts(parts, self.store, state, report, lambda: translate_errors(self.store.path))
        except PhrasemateError as error:
            report.problems.append(str(error))
        return report

    def close(self) -> None:
        """Do nothing: Lance holds no file open."""
