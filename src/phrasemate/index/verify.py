"""Statistics and verification of an index.

Verification checks every checksum, offset and count, and compares the hits of FAISS with those of exact search.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, suppress
from pathlib import Path
from typing import Any, TypeVar

from phrasemate.errors import IndexDamaged, IndexLocked, PhraseIndexError, PhrasemateError
from phrasemate.index import row_codec, schema, wordings
from phrasemate.index.base import Reader
from phrasemate.index.exact import Runs, scan, unpack
from phrasemate.index.manifest import INDEX_JSON, VECTORS_JSON, Manifest, VectorsManifest
from phrasemate.index.schema import write_lock
from phrasemate.index.snapshot_search import SnapshotOutdated, load_current
from phrasemate.index.store import State, Store
from phrasemate.index.types import DocumentInfo, IndexSettings, IndexStats, VerifyReport
from phrasemate.utils.arrays import Floats, Ids


def statistics(store: Store, manifest: Manifest) -> IndexStats:
    """Return the counts, languages and file sizes of an index. Raises IndexDamaged."""
    with store.reading() as state:
        documents = list(store.documents())
        dead = Runs(store.tombstones())
        try:
            vectors = VectorsManifest.read(store.path / VECTORS_JSON)
            coverage = min(vectors.covered, state.next_phrase)
            approximate, engine = coverage - dead.below(coverage), f"FAISS {vectors.factory}"
            dead_rows = max(0, vectors.rows - approximate)
        except PhraseIndexError:  # absent, or repaired by the next search
            approximate, engine, dead_rows = 0, "exact", 0
        return IndexStats(
            **common_figures(str(store.path), manifest, state, documents),
            deleted=len(dead),
            engine=engine,
            approximate=approximate,
            exact=state.phrases - approximate,
            files=dict(_sizes(store.path)),
            dead=dead_rows,
        )


def common_figures(path: str, manifest: Manifest, state: State, documents: Sequence[DocumentInfo]) -> dict[str, Any]:
    """Return the fields of `IndexStats` that every kind of index takes from its manifest, state and documents."""
    return {
        **{"path": path, "model": manifest.model_name, "model_hash": manifest.model_hash, "dim": manifest.dim},
        **{"generation": state.generation, "segment": manifest.segment, "documents": state.documents},
        **{"sentences": state.sentences, "phrases": state.phrases},
        "incomplete": tuple(document.name for document in documents if not document.complete),
        "languages": dict(Counter(document.language for document in documents)),
    }


def _sizes(folder: Path) -> Iterator[tuple[str, int]]:
    """Yield name and size in bytes of each file of an index; files that a writer removes meanwhile are skipped."""
    for file in sorted((*folder.iterdir(), *folder.glob("dictionaries/*"))):
        with suppress(FileNotFoundError):
            if file.is_file():
                yield str(file.relative_to(folder)), file.stat().st_size


_QUERIES = 100  # queries that the recall is measured on
_DEPTH = 10  # hits per query
_SHORT = 0.1  # recall that a tuned file may lack, since it was tuned on other queries
_LEAST_RECALL = 0.9  # required recall@1; files that were not tuned reach 0.98 or more with real vectors
_SHOWN = 20  # at most this many problems of a kind are listed

S = TypeVar("S")


def verify(store: Store, settings: IndexSettings, threads: int | None) -> VerifyReport:
    """Check all parts of an index within one snapshot, even if some have problems. Problems are listed, not raised."""
    report = VerifyReport()
    parts: dict[str, Callable[[Store, State, VerifyReport], None]] = {
        "index.json": _manifest,
        "SQLite": _sqlite,
        "documents": _documents,
        "sentences": check_sentences,
        "vectors": _vectors,
        "deleted phrases": _tombstones,
        "text index": _words,
        "wordings": wordings.check,
        "dictionaries": _dictionaries,
        "FAISS": lambda store, state, report: _faiss(store, state, report, settings, threads),
    }
    try:
        with store.reading() as state:
            report.checked["generation"] = state.generation
            check_parts(parts, store, state, report, lambda: schema.translate_errors(store.path))
    except PhrasemateError as error:
        report.problems.append(str(error))
    return report


def check_parts(
    parts: Mapping[str, Callable[[S, State, VerifyReport], None]],
    store: S,
    state: State,
    report: VerifyReport,
    mapped: Callable[[], AbstractContextManager[Any]],
) -> None:
    """Check each part of an index; an error in one part is listed in the report and does not stop the others.

    Args:
        parts: Checks by the name of the part; each is called with ``store``, ``state`` and ``report``.
        store: Store of the index.
        state: State of the snapshot.
        report: Report that receives counts and problems.
        mapped: Context manager that translates errors of the storage into errors of phrasemate.
    """
    for name, check in parts.items():
        try:
            with mapped():
                check(store, state, report)
        except PhrasemateError as error:
            report.problems.append(f"{name}: {error}")


def _manifest(store: Store, state: State, report: VerifyReport) -> None:
    """Check index.json."""
    manifest = Manifest.read(store.path / INDEX_JSON)
    if manifest.dim != store.dim:
        report.problems.append(f"index.json: says {manifest.dim} dimensions, expected {store.dim}")


def _sqlite(store: Store, state: State, report: VerifyReport) -> None:
    """Check the definitions of the tables, and the structure of the file by SQLite's own check."""
    schema.verify_schema(store.connection, store.path)
    messages = [row[0] for row in store.connection.execute(f"PRAGMA integrity_check({_SHOWN})")]
    # from version 3.44 on SQLite also checks the text index, for which `_words` is responsible
    report.problems.extend(f"store.sqlite: {line}" for line in messages if line != "ok" and "fts5" not in line.lower())
    report.checked["pages"] = store.connection.execute("PRAGMA page_count").fetchone()[0]


def _dictionaries(store: Store, state: State, report: VerifyReport) -> None:
    """Check the dictionaries of the index, if there are any, by reading them."""
    if (store.path / "dictionaries").is_dir():
        from phrasemate.lexicon.dictionary import DictionaryFolder

        report.checked["dictionaries"] = len(DictionaryFolder(store.path).read())


def _documents(store: Store, state: State, report: VerifyReport) -> None:
    """Check that the counts of the documents add up to the counts of the store."""
    documents = list(store.documents())
    for name, count_due in (("sentences", state.sentences), ("phrases", state.phrases)):
        total = sum(getattr(document, name) for document in documents)
        if total != count_due:
            report.problems.append(f"documents: hold {total} {name}, expected {count_due}")
    report.checked["documents"] = len(documents)


def check_sentences(store: Reader, state: State, report: VerifyReport) -> None:
    """Check that every phrase lies within its sentence, and that all counts match the sentences."""
    count = phrases = 0
    documents = {document.id: [document.sentences, document.phrases] for document in store.documents()}
    for row in store.all_sentences():
        starts, ends, _ = row_codec.unpack_spans(row.spans, row.phrases)
        if ((starts < 0) | (starts >= ends) | (ends > len(row.text))).any():
            report.problems.append(f"sentence {row.id}: a phrase is outside its text")
        count, phrases = count + 1, phrases + row.phrases
        remaining = documents.setdefault(row.document, [0, 0])
        remaining[0], remaining[1] = remaining[0] - 1, remaining[1] - row.phrases
    wrong = [identity for identity, remaining in documents.items() if remaining != [0, 0]]
    report.problems.extend(f"document {identity}: its counts do not match its sentences" for identity in wrong[:_SHOWN])
    if phrases != state.phrases:
        report.problems.append(f"sentences: hold {phrases} phrases, expected {state.phrases}")
    report.checked.update({"sentences": count, "phrases": phrases})


def _vectors(store: Store, state: State, report: VerifyReport) -> None:
    """Check that every phrase has a vector, that no vector is zero, and that the rows match those of the sentences."""
    count = 0
    for block in store.vectors():
        codes, _, _ = unpack(block, store.dim)
        if not codes.any(axis=1).all():
            report.problems.append(f"vectors: a vector of the sentences {block[0].id} to {block[-1].id} is zero")
        count += len(codes)
    if count != state.phrases:
        report.problems.append(f"vectors: {count} found, expected {state.phrases}")
    query = (
        "SELECT count(*) FROM sentences s LEFT JOIN vectors v ON s.id = v.id WHERE s.phrases > 0 AND (v.id IS NULL OR "
        "s.first_phrase <> v.first_phrase OR s.phrases <> v.phrases OR s.document <> v.document)"
    )
    if wrong := store.connection.execute(query).fetchone()[0]:
        report.problems.append(f"vectors: do not match {wrong} sentences")
    report.checked["vectors"] = count


def _tombstones(store: Store, state: State, report: VerifyReport) -> None:
    """Check the list of deleted phrases by reading it."""
    report.checked["deleted phrases"] = len(Runs(store.tombstones()))


def _words(store: Store, state: State, report: VerifyReport) -> None:
    """Check the text index by its checksum or, if an interrupted add left none, by comparing it with the sentences."""
    stamp = store.extra("words", generation=int, crc=int)
    if stamp is not None and stamp["generation"] == state.generation:
        report.checked["text index"] = "checksum"
        intact = bool(stamp["crc"] == schema.words_checksum(store.connection))
    elif store.readonly:
        report.checked["text index"] = "not in use: an interrupted add left it without a checksum"
        return
    elif (is_match := _words_by_sentences(store)) is None:
        report.checked["text index"] = "not in use: another process is writing"
        return
    else:
        report.checked["text index"] = "sentences"
        intact = is_match
    if not intact:
        report.problems.append("text index: does not match; the next change rebuilds it, or: phrasemate index optimize")


def _words_by_sentences(store: Store) -> bool | None:
    """Tell whether the text index matches the sentences; None if another process is writing to the index.

    The check takes SQLite's lock for writing. A separate connection frees this lock before the snapshot ends.
    """
    try:
        with write_lock(store.path), closing(schema.connect(store.path, readonly=False).connection) as connection:
            return schema.words_match(connection)
    except IndexLocked:
        return None


def _faiss(store: Store, state: State, report: VerifyReport, settings: IndexSettings, threads: int | None) -> None:
    """Check the checksums and phrase ids of the FAISS file, and its recall against exact search."""
    try:
        engine = load_current(store, state, settings, threads, whole=True)
    except SnapshotOutdated as newer:
        # a writer that built it would have updated index.json before
        if Manifest.read(store.path / INDEX_JSON).generation <= state.generation:
            raise IndexDamaged(f"vectors.json is of generation {newer}, the store of {state.generation}") from None
        report.checked["FAISS"] = "not checked: another process has rebuilt it meanwhile"
        return
    if engine is None:
        report.checked["FAISS"] = "none"
        return
    manifest = engine.manifest
    dead = Runs(store.tombstones())
    live = manifest.covered - dead.below(manifest.covered)
    queries = row_codec.dequantise(row_codec.spread(store.sampled_vectors(4 * _QUERIES), _QUERIES))
    if not len(queries) or not live:
        return
    missing = 0

    def blocks() -> Iterator[tuple[Floats, Ids]]:
        nonlocal missing
        for block in store.vectors():
            codes, ids, _ = unpack(block, store.dim)
            old = ids < manifest.covered
            missing += int((~engine.runs.contains(ids[old])).sum())
            yield row_codec.dequantise(codes[old]), ids[old]

    exact = scan(queries, _DEPTH, blocks())
    if missing:
        report.problems.append(f"FAISS: lacks {missing} phrases")
    results = engine.search_where(queries, _DEPTH, lambda ids: ~dead.contains(ids), live / manifest.rows)
    assert results is not None  # the number of candidates is not limited
    # the hit at a rank is right if its score is that of the exact hit: equal sentences have equal vectors
    recall = [float((results[1][:, at] >= exact[1][:, at] - 0.01).mean()) for at in (0, _DEPTH - 1)]
    target = manifest.tuned.get("target")
    least = min(_LEAST_RECALL, target - _SHORT) if isinstance(target, float) else _LEAST_RECALL
    if recall[0] < least:
        report.problems.append(
            f"FAISS: recall@1 against exact search is {recall[0]:.2f}, expected {least:.2f}; run: "
            f"phrasemate index optimize"
        )
    report.checked.update({"FAISS": manifest.rows, "recall@1": recall[0]})
