"""Readers and checks beside a writer: a snapshot older than the derived files, locks, and a folder of somebody else."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from index_fakes import SMALL, FakeModel, sentences

from phrasemate.errors import IndexDamaged, IndexLocked, PhraseIndexError
from phrasemate.index import Index, exact, row_codec, schema, snapshot_search
from phrasemate.index.exact import scan, unpack
from phrasemate.index.manifest import VECTORS_JSON, Manifest, VectorsManifest
from phrasemate.index.schema import write_lock
from phrasemate.types import Document, Phrase, Run

QUERIES = FakeModel().encode([Phrase("w1", 0, 2), Phrase("w2 w3", 0, 5)])


def document(name: str, seed: int, count: int = 150) -> Document:
    return Document.from_texts(name, sentences(count, seed))


@pytest.fixture
def writer(index: Index) -> Index:
    index.add([document("a", 1)], lang="en")
    assert (index.path / VECTORS_JSON).exists()
    return index


@pytest.fixture
def reader(writer: Index, model: FakeModel) -> Iterator[Index]:
    with Index.open(writer.path, model, settings=SMALL, threads=1) as opened:
        yield opened


def exactly(index: Index, k: int) -> Run:
    blocks = (unpack(block, index.store.dim)[:2] for block in index.store.vectors())
    return Run(*scan(QUERIES, k, ((row_codec.dequantise(codes), ids) for codes, ids in blocks)))


def same(one: Run, other: Run) -> bool:
    """Equal scores may change places."""
    return np.allclose(one.scores, other.scores, atol=1e-5)


# -- snapshots older than the FAISS file


@pytest.mark.parametrize("searched_before", [False, True])
@pytest.mark.parametrize("only", [None, ["a"]])
def test_a_snapshot_older_than_the_faiss_file_is_answered_from_what_it_has(
    writer: Index, reader: Index, caplog: pytest.LogCaptureFixture, searched_before: bool, only: list[str] | None
) -> None:
    expected = writer.search(QUERIES, 700, documents=only) if searched_before else exactly(writer, 700)
    if searched_before:
        reader.search(QUERIES, 3)
    with reader.snapshot(), caplog.at_level(logging.WARNING):
        end = reader.stats().phrases
        writer.add([document("b", 2)], lang="en")
        content = (writer.path / VECTORS_JSON).read_bytes()
        run = reader.search(QUERIES, 700, documents=only)
        assert same(run, expected)
        assert run.ids.max() < end
        assert len(reader._view.exact) == 0  # nothing was loaded into memory instead
    assert caplog.text == ""
    assert (writer.path / VECTORS_JSON).read_bytes() == content
    assert same(reader.search(QUERIES, 700), writer.search(QUERIES, 700))


def test_a_file_that_another_built_before_the_lock_was_had_is_not_replaced(
    writer: Index, reader: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = exactly(writer, 50)
    with reader.snapshot():
        reader.documents()
        (writer.path / VECTORS_JSON).write_text("{")

        def late(folder: Path) -> Any:
            monkeypatch.undo()
            writer.add([document("b", 2)], lang="en")
            return write_lock(folder)

        monkeypatch.setattr(snapshot_search, "write_lock", late)
        assert same(reader.search(QUERIES, 50), expected)
    assert VectorsManifest.read(writer.path / VECTORS_JSON).covered == writer.store.state().next_phrase


def test_vectors_json_is_taken_away_while_a_search_begins(
    writer: Index, reader: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, read = exactly(writer, 50), Path.read_bytes

    def vanish(path: Path) -> bytes:
        if path.name == VECTORS_JSON:
            path.unlink(missing_ok=True)
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", vanish)
    assert same(reader.search(QUERIES, 50), expected)


def test_many_queries_are_multiplied_with_a_block_in_parts(writer: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    writer.add([document("b", 2, 30)], lang="de")
    queries = np.concatenate([QUERIES, -QUERIES, QUERIES[:1]])
    expected = [writer.search(query[None], 5, documents=["b"]) for query in queries]
    calls, promising = [], exact.topk_candidates

    def watched(scores: Any, k: int, floor: Any) -> Any:
        calls.append(len(scores))
        return promising(scores, k, floor)

    monkeypatch.setattr(exact, "_QUERIES_AT_ONCE", 2)
    monkeypatch.setattr(exact, "topk_candidates", watched)
    result = writer.search(queries, 5, documents=["b"])
    assert calls == [2, 2, 1]
    assert result.ids.tolist() == [run.ids[0].tolist() for run in expected]


# -- verify beside a writer


def test_verify_tells_a_file_made_since_from_a_damaged_one(writer: Index, reader: Index) -> None:
    with reader.snapshot():
        reader.documents()
        writer.add([document("b", 2)], lang="en")
        report = reader.verify()
        assert (report.problems, report.checked["FAISS"]) == (
            [],
            "not checked: another process has rebuilt it meanwhile",
        )
        manifest = Manifest.read(writer.path / "index.json")
        Manifest.of(FakeModel()).write(writer.path / "index.json")  # no writer says that it was at work
        assert "vectors.json is of generation" in reader.verify().problems[0]
        manifest.write(writer.path / "index.json")


def interrupted(index: Index) -> None:
    """An add that leaves the text index without a checksum."""

    def stop(event: object) -> None:
        raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        index.add([document("b", 2, 50)], lang="en", progress=stop)


def test_verify_leaves_the_text_index_to_the_writer_at_work(writer: Index, reader: Index) -> None:
    interrupted(writer)
    with write_lock(writer.path):
        report = reader.verify()
    assert (report.problems, report.checked["text index"]) == ([], "not in use: another process is writing")


def test_verify_gives_the_lock_back_with_the_text_index(
    writer: Index, reader: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    from phrasemate.index import verify

    interrupted(writer)
    monkeypatch.setattr(schema, "BUSY_SECONDS", 0.1)
    added, faiss = [], verify._faiss

    def meanwhile(*arguments: Any) -> None:
        with Index.open(writer.path, FakeModel(), settings=SMALL, threads=1) as other:
            added.append(other.add([document("c", 3, 5)], lang="en").sentences)
        faiss(*arguments)

    monkeypatch.setattr(verify, "_faiss", meanwhile)
    report = reader.verify()
    assert (report.problems, report.checked["text index"], added) == ([], "sentences", [5])


def test_verify_still_finds_a_damaged_text_index_without_a_checksum(writer: Index, reader: Index) -> None:
    interrupted(writer)
    writer.store.connection.execute("DELETE FROM words_data WHERE id = (SELECT max(id) FROM words_data)")
    assert [problem.split(":")[0] for problem in reader.verify().problems] == ["text index"]


# -- a folder of somebody else


def answered(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except PhraseIndexError as error:
        return type(error)


def watch(folder: Path, pipe: Connection) -> None:
    """A reader without root's rights: root may write anywhere."""
    if os.geteuid() == 0:
        os.setuid(65534)
    with Index.open(folder, FakeModel(), settings=SMALL, threads=1) as index:
        pipe.send((index.readonly, index.store._immutable is not None))
        while pipe.recv():
            pipe.send([answered(lambda: [d.name for d in index.documents()]), answered(lambda: index.verify().ok)])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_reader_without_permission_follows_a_writer() -> None:
    import faiss  # noqa: F401

    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        folder = Path(place) / "idx"
        with Index.create(folder, FakeModel(), settings=SMALL, threads=1) as index:
            index.add([document("a", 1, 20)], lang="en")
        folder.chmod(0o555)
        context = get_context("fork")
        ours, theirs = context.Pipe()
        reader = context.Process(target=watch, args=(folder, theirs), daemon=True)
        reader.start()

        def state() -> Any:
            ours.send(True)
            return ours.recv()

        assert ours.recv() == (True, True)
        assert state() == [["a"], True]
        folder.chmod(0o755)
        with Index.open(folder, FakeModel(), settings=SMALL, threads=1) as index:
            index.add([document("b", 2, 300)], lang="en")
            assert state() == [["a", "b"], True]
            index.delete("a")
            index.optimize()
            assert state() == [["b"], True]
        with Index.open(folder, FakeModel(), settings=SMALL, threads=1) as index:
            index.add([document("c", 3, 30)], lang="en")
        assert state() == [["b", "c"], True]
        ours.send(False)
        reader.join(10)
        assert reader.exitcode == 0


@pytest.fixture
def immutable(writer: Index, model: FakeModel, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    """A reader whose file had to be opened without its log."""
    writer.close()
    configured = schema._configured

    def refused(uri: str, readonly: bool) -> Any:
        if uri.endswith("mode=ro"):
            raise failed
        return configured(uri, readonly)

    failed = schema.sqlite3.OperationalError("unable to open database file")
    failed.sqlite_errorcode = schema.sqlite3.SQLITE_CANTOPEN
    monkeypatch.setattr(schema, "_configured", refused)
    with Index.open(writer.path, model, readonly=True, settings=SMALL, threads=1) as opened:
        assert opened.store._immutable is not None
        yield opened


def test_a_log_that_cannot_be_read_is_a_writer_at_work(immutable: Index) -> None:
    assert len(immutable.documents()) == 1
    log = immutable.path / "store.sqlite-wal"
    log.write_bytes(b"something")
    with pytest.raises(IndexLocked, match="is being written by another process; try again"):
        immutable.documents()
    log.unlink()
    assert len(immutable.documents()) == 1


def test_an_index_that_was_rebuilt_is_not_answered_from_what_is_known_of_the_old_one(
    immutable: Index, model: FakeModel
) -> None:
    immutable.search(QUERIES, 3)
    generation = immutable.store.state().generation
    shutil.rmtree(immutable.path)
    with Index.create(immutable.path, model, settings=SMALL, threads=1) as rebuilt:
        rebuilt.add([document("a", 2)], lang="en")
        assert rebuilt.store.state().generation == generation
    with pytest.raises(PhraseIndexError, match="was rebuilt or removed since it was opened; open it again"):
        immutable.search(QUERIES, 3)


def test_what_is_closed_holds_nothing(writer: Index) -> None:
    writer.search(QUERIES, 3)
    assert writer._view.faiss is not None
    writer.close()
    assert (writer._view.faiss, len(writer._view.exact)) == (None, 0)
    with pytest.raises(PhraseIndexError, match="has been closed; open it again"):
        writer.search(QUERIES, 3)


def test_patience_comes_back_after_a_log_that_could_not_be_merged(writer: Index) -> None:
    class Full:
        def __init__(self, connection: Any) -> None:
            self.connection = connection

        def execute(self, statement: str) -> Any:
            if "wal_checkpoint" in statement:
                raise schema.sqlite3.OperationalError("disk I/O error")
            return self.connection.execute(statement)

    connection_before, writer.store.connection = writer.store.connection, Full(writer.store.connection)
    with pytest.raises(PhraseIndexError):
        writer.store.checkpoint()
    writer.store.connection = connection_before
    assert connection_before.execute("PRAGMA busy_timeout").fetchone() == (1000 * schema.BUSY_SECONDS,)


def read_while_changed(index: Index) -> None:
    with index.snapshot():
        index.documents()
        os.utime(index.path / "store.sqlite", ns=(1, 1))


def test_what_was_read_while_the_file_changed_is_not_answer(immutable: Index) -> None:
    with pytest.raises(IndexLocked, match="being written"):
        read_while_changed(immutable)
    assert len(immutable.documents()) == 1  # opened again


@pytest.mark.parametrize("changed", [False, True])
def test_damage_is_a_writer_only_where_the_file_changed(
    immutable: Index, changed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged() -> None:
        if changed:
            os.utime(immutable.path / "store.sqlite", ns=(1, 1))
        raise immutable.store.damaged("a row is not whole")

    monkeypatch.setattr(immutable.store, "documents", damaged)
    with pytest.raises(IndexLocked if changed else IndexDamaged):
        immutable.stats()


@pytest.mark.parametrize("changed", [False, True])
def test_a_file_that_changes_while_it_is_opened_is_not_damage(
    immutable: Index, changed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is read then may be half of the old schema and half of the new."""
    verify = schema.verify_schema

    def meanwhile(connection: Any, path: Path) -> None:
        if changed:
            os.utime(path / "store.sqlite", ns=(1, 1))
        monkeypatch.setitem(schema.SCHEMA, "state", "CREATE TABLE another")
        verify(connection, path)

    monkeypatch.setattr(schema, "verify_schema", meanwhile)
    with pytest.raises(IndexLocked if changed else IndexDamaged):
        Index.open(immutable.path, FakeModel(), readonly=True)
