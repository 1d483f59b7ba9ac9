"""Open and maintain an index of Lance tables, which can be searched like an `Index`.

Maintenance covers compaction, Lance's indexes, statistics, and verification. `ClusterIndex.verify` checks every
checksum, offset and count, and compares Lance's search with exact search.
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
from phrasemate.index.types import IndexModel, IndexSettings, IndexStats, Scope, VerifyReport
from phrasemate.index.verify import check_parts, check_sentences, common_figures
from phrasemate.types import to_settings
from phrasemate.utils.arrays import Floats, Ids

log = logging.getLogger("phrasemate.index")

KIND = "IVF_RQ"  # Lance's index with one bit per dimension; recall@1 is 0.98 on a million vectors
TRIES = 3  # attempts at a build on the cluster: Lance's builder does not survive the loss of a worker
WAIT_SECONDS = 5.0  # pause before the next attempt
KEPT = timedelta(hours=1)  # age below which old versions stay, since readers may have them open
_PER_LIST = 4096  # vectors of an inverted list, as Lance recommends
_MOST_LISTS = 4096  # with more, a billion vectors take longer to index than to encode (results/log/scale.md)
_SAMPLE = 256  # training vectors for each list


def lists_for(phrases: int) -> int:
    """Return the number of inverted lists: one per 4,096 phrases, and a maximum, as training is quadratic in it."""
    return max(1, min(phrases // _PER_LIST, _MOST_LISTS))


def _compacted_version(tables: Tables, name: str, version: int) -> int:
    """Return the latest version of a table, after checking that it has as many rows as ``version``.

    Raises IndexLocked if an earlier writer has added rows meanwhile.
    """
    last, earlier = tables.open(name), tables.open(name, version)
    with translate_errors(tables.place):
        if last.count_rows() != earlier.count_rows():
            raise IndexLocked(f"{tables.place}: another process has written to this index; give the same command again")
    return int(last.version)


def _index_options(lists: int) -> dict[str, Any]:
    """Return the options of Lance's vector index."""
    return {"metric": "cosine", "num_partitions": lists, "num_bits": 1, "sample_rate": _SAMPLE, "replace": True}


def _build_here(tables: Tables, lists: int) -> None:
    """Build the vector index in this process."""
    with translate_errors(tables.place):
        tables.open(PHRASES).create_index("vector", KIND, name="vector_idx", **_index_options(lists))


def _build_on_cluster(tables: Tables, lists: int, address: str, workers: int | None) -> None:
    """Build the vector index on a Ray cluster. Raises ClusterError if all attempts fail."""
    with needs_extra("ray", "lance-ray"):
        import lance_ray

    with connected(address, workers):
        available = cpus()
        count = min(workers or available, available)  # lance-ray would wait for workers without a CPU
        for attempt in range(1, TRIES + 1):
            try:
                lance_ray.create_index(
                    tables.uri(PHRASES),
                    "vector",
                    KIND,
                    name="vector_idx",
                    num_workers=count,
                    storage_options=tables.options or None,
                    **_index_options(lists),
                )
                return
            except Exception as error:  # a lost worker raises errors of Lance, Ray or Python
                reason = first_line(error)
                if attempt == TRIES:
                    raise ClusterError(
                        f"{tables.place}: the vector index could not be built in {TRIES} attempts, at last: {reason}; "
                        f"the index works without it; run: phrasemate index optimize"
                    ) from error
                log.warning("building the vector index failed (%s); trying again", reason)
                sleep(WAIT_SECONDS)


def _bytes(store: LanceStore, name: str) -> int:
    """Return the size in bytes of a table's files."""
    fragments = [fragment.metadata.to_json() for fragment in store.table(name).get_fragments()]
    return sum(file["file_size_bytes"] or 0 for fragment in fragments for file in fragment["files"])


_QUERIES = 100  # vectors that `ClusterIndex.verify` searches for
_DEPTH = 10  # results of each query that are compared
_LEAST_RECALL = 0.9  # recall@1 below which a problem is reported
_TEXT_QUERIES, _TEXT_CHARACTERS = 20, 12  # texts that are looked up in the text index, and their length
_REPAIR = "remove words.lance, which is derived, and run: phrasemate index optimize"
_MAX_PROBLEMS = 20  # problems of one kind that are listed


def _check_vectors(store: LanceStore, state: State, report: VerifyReport) -> None:
    """Check the checksum of every sentence's vectors, and the number of vectors."""
    count, wrong = 0, []
    for block, right in store.checked_vectors():
        count += sum(row.phrases for row in block)
        wrong += [row.id for row, intact in zip(block, right, strict=True) if not intact]
    report.problems.extend(
        f"the vectors of sentence {identity} do not match their checksum" for identity in wrong[:_MAX_PROBLEMS]
    )
    if count != state.phrases:
        report.problems.append(f"vectors: {count} found, expected {state.phrases}")
    report.checked["vectors"] = count


def _check_keys(store: LanceStore, state: State, report: VerifyReport) -> None:
    """Check that every live phrase has one row, that the rows are in order, and that no deleted phrase has one."""
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


def _check_text_index(store: LanceStore, state: State, report: VerifyReport) -> None:
    """Check that the text index has every sentence it covers, unaltered, and that its trigrams find all matches."""
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
            report.problems.append(f"text index: sentence {number} is missing or altered; {_REPAIR}")
            return
        if right and not (count - 1) % max(1, state.sentences // _TEXT_QUERIES):
            sample.append(right[1])
    for text in sample:
        where = condition([text[len(text) // 3 :][:_TEXT_CHARACTERS]])
        if where is None:
            continue
        with translate_errors(store.path):
            answers = [table.count_rows(where), table.scanner(filter=where, use_scalar_index=False).count_rows()]
        if answers[0] != answers[1]:
            report.problems.append(f"text index: finds {answers[0]} of {answers[1]} sentences; {_REPAIR}")
            return
    report.checked["text index"] = f"trigrams of {count:,} sentences"


def _texts(batches: Iterable[Any], dead: Runs, read: Callable[[Any], str]) -> Iterator[tuple[int, str]]:
    """Yield ids and texts of the live sentences; ``read`` decodes the stored text."""
    for batch in batches:
        dead_flags = dead.contains(batch["id"].to_numpy()).tolist()
        for identity, text, is_dead in zip(batch["id"].to_pylist(), batch["text"].to_pylist(), dead_flags, strict=True):
            if not is_dead:
                yield identity, read(text)


def _check_search(store: LanceStore, state: State, report: VerifyReport, view: Any, settings: IndexSettings) -> None:
    """Compare the approximate search of a sample of the stored vectors with exact search."""
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
    # scores are compared, not ids: repeated sentences have equal vectors
    recall = [float((results[1][:, at] >= exact[1][:, at] - 0.01).mean()) for at in (0, _DEPTH - 1)]
    if recall[0] < _LEAST_RECALL:
        report.problems.append(
            f"Lance: recall@1 against exact search is {recall[0]:.2f}, expected {_LEAST_RECALL}; run: "
            f"phrasemate index optimize"
        )
    report.checked["recall@1"] = recall[0]


class ClusterIndex(BaseIndex):
    """Index of Lance tables. ``Index.open`` opens it; `phrasemate.index.ray.build` makes it and adds text.

    Commits become visible within a second. ``delete`` and ``optimize`` work as in ``Index``. They take over from a
    driver that is running, whose build then fails with IndexLocked.
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
        """Open the tables at a folder or URI; storage options come from environment variables (`options_for`).

        Args:
            path: Folder or URI of object storage.
            model: Model of the index; None loads it at the first query.
            readonly: Whether methods that change the index raise an error.
            threads: Threads of a search; None for all cores.
            settings: Sizes and limits of the index.

        Raises MissingExtra, IndexMissing, IndexDamaged, IndexUnsupported, ModelMismatch, PhraseIndexError.
        """
        place = place_of(path)
        index = cls(Tables(place, options_for(place)), model, readonly, to_settings(settings, IndexSettings), threads)
        if model is not None:
            check_model(place, index.manifest, model)
        return index

    # -- writing

    def delete(self, *names: str) -> None:
        """Remove documents by name, all or none.

        Raises InputError for a name that the index lacks, IndexLocked, PhraseIndexError.
        """
        self._check_writable()
        document_names = self._documents_named(names)
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
        """Merge small files, and build Lance's vector index and the text index.

        Readers see the old state until the end.

        Args:
            cluster: Address of a Ray cluster that builds the vector index; None builds it in this process.
            workers: Number of workers on the cluster; None for one per CPU.
            target_recall: Not supported, must be None: only the index of one machine can be tuned.
            at: Ignored, as it belongs to ``target_recall``.
            seed: Ignored, as it belongs to ``target_recall``.

        Raises IndexLocked, ClusterError, PhraseIndexError, and InputError for a target recall.
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
                _build_on_cluster(tables, lists_for(writer.head.phrases), cluster, workers)
        with translate_errors(tables.place):
            tables.open(SHARDS).optimize.compact_files()  # may reorder rows, which have no order in this table
        writer.pin({name: _compacted_version(tables, name, writer.head.versions[name]) for name in DATA})
        update(tables, writer)
        for name in (STATE, SHARDS, *DATA, WORDS):
            with translate_errors(tables.place):
                # Lance keeps the version it opened and all later ones, to which workers may have committed
                tables.open(name, writer.head.versions.get(name)).cleanup_old_versions(older_than=KEPT)
        self._refresh()

    def _refresh(self) -> None:
        """Drop cached data, so that the next read sees the latest commit."""
        self.store.refresh()
        with self.store.reading():
            self.manifest = self.store.layout.head.manifest
        self._view.reset()

    # -- reading

    def stats(self) -> IndexStats:
        """Return sizes and statistics, without reading sentences. Raises IndexDamaged, PhraseIndexError."""
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
        """Check every row, without changing anything. Problems are listed in the report, not raised."""
        report = VerifyReport()
        parts: dict[str, Callable[[LanceStore, State, VerifyReport], None]] = {
            "sentences": check_sentences,
            "vectors": _check_vectors,
            "phrases": _check_keys,
            "text index": _check_text_index,
            "Lance": lambda store, state, report: _check_search(store, state, report, self._view, self._settings),
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
