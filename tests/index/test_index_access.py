"""Writers, readers, full disks and folders that may not be written."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from index_fakes import SMALL, FakeModel, sentences

from phrasemate.errors import IndexDamaged, IndexLocked, InputError, PhraseIndexError
from phrasemate.index import Index, schema
from phrasemate.index.manifest import write_json
from phrasemate.index.schema import write_lock
from phrasemate.types import Document

HOLDER = """
import sys
from pathlib import Path
from phrasemate.index.schema import write_lock
with write_lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_writer_is_reported_who_the_first_is(index: Index) -> None:
    command = [sys.executable, "-c", HOLDER, str(index.path)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(IndexLocked, match=rf"process {holder.pid} on .* \(since 2.*: -c .*\) is writing"):
        index.add([Document.from_texts("a", ["one"])])
    assert index.search([[1.0] + [0.0] * 15], 1).ids.tolist() == [[-1]]  # readers are not held up
    holder.kill()
    holder.wait()
    assert index.add([Document.from_texts("a", ["one"])]).sentences == 1  # the lock died with its holder
    assert not (index.path / "writer.json").exists()


def test_the_lock_without_a_readable_note(index: Index) -> None:
    with write_lock(index.path):
        (index.path / "writer.json").write_text("{")
        with pytest.raises(IndexLocked, match="another process is writing"):
            index.delete("a")


def test_a_reader_sees_each_commit_and_keeps_a_snapshot(index: Index, model: FakeModel) -> None:
    records, stages = [], []
    with Index.open(index.path, model, readonly=True, settings=SMALL, threads=1) as reader:
        index.add(
            [Document.from_texts("a", sentences(64))],
            lang="en",
            progress=lambda event: (
                stages.append(event.stage),
                records.append((event.phrases, int((reader.search([[1.0] + [0.0] * 15], 5000).ids >= 0).sum()))),
            ),
        )
        assert stages.count("") == 3  # 32 sentences, 32 more, and that the document is complete
        assert list(dict.fromkeys(stages)) == ["", "building the search file", "listing the wordings"]
        assert all(stored == result for stored, result in records)
        with reader.snapshot():
            before = reader.stats().sentences
            index.delete("a")
            assert reader.stats().sentences == before == 64
            assert (reader.search([[1.0] + [0.0] * 15], 5).ids >= 0).all()
        assert reader.stats().sentences == 0
        with pytest.raises(PhraseIndexError, match="open for reading only"):
            reader.add([])


def test_a_full_disk_leaves_the_last_chunk_whole(index: Index) -> None:
    index.add([Document.from_texts("a", sentences(32))], lang="en")
    pages = index.store.connection.execute("PRAGMA page_count").fetchone()[0]
    index.store.connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(PhraseIndexError, match="no space is left to write"):
        index.add([Document.from_texts("b", sentences(320, 3))], lang="en")
    assert index.verify().ok
    index.store.connection.execute("PRAGMA max_page_count = 100000")
    index.add([Document.from_texts("b", sentences(320, 3))], lang="en")
    assert index.stats().sentences == 352
    assert index.verify().ok


def test_a_full_disk_while_the_faiss_file_is_written(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    import faiss

    def full(*_: object) -> None:
        raise RuntimeError("Error: write error in ...: No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(faiss, "write_index", full)
        with pytest.raises(PhraseIndexError, match=r"No space left on device.*phrasemate index optimize"):
            index.add([Document.from_texts("a", sentences(100))], lang="en")
    assert index.search([[1.0] + [0.0] * 15], 3).ids.min() >= 0
    index.optimize()
    assert index.stats().approximate == index.stats().phrases


def test_what_an_interrupted_write_leaves_is_removed(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    import faiss

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    index.add([Document.from_texts("a", sentences(100))], lang="en")
    with monkeypatch.context() as patched:
        patched.setattr(faiss, "write_index", interrupted)
        with pytest.raises(KeyboardInterrupt):
            index.optimize()
    assert not (index.path / "vectors.partial").exists()
    (index.path / "vectors.partial").write_bytes(b"of a process that was killed")
    index.delete("a")
    index.optimize()
    assert not list(index.path.glob("vectors*"))


def as_nobody(check: object) -> None:
    """Run a function in a fork without root's rights: root may write anywhere."""
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setuid(65534)
            check()  # type: ignore[operator]
            os._exit(0)
        except BaseException as error:
            print(repr(error), file=sys.__stderr__)
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_readonly_folder_can_be_searched_but_not_changed(model: FakeModel) -> None:
    import faiss  # noqa: F401

    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        folder = Path(place) / "idx"
        with Index.create(folder, model, settings=SMALL, threads=1) as index:
            index.add([Document.from_texts("a", sentences(20))], lang="en")
            expected = index.search(model.extract(["w1"])[0].vectors, 3).ids.tolist()
        folder.chmod(0o555)

        def check() -> None:
            with Index.open(folder, model, settings=SMALL, threads=1) as index:
                assert index.readonly
                assert index.search(model.extract(["w1"])[0].vectors, 3).ids.tolist() == expected
                with pytest.raises(PhraseIndexError, match="reading only"):
                    index.delete("a")
            with pytest.raises(PhraseIndexError, match=r"idx/new.*Permission denied"):
                Index.create(folder / "new", model)

        as_nobody(check)
        folder.chmod(0o755)


def test_an_index_is_closed_while_others_read(tmp_path: Path) -> None:
    """In a process of its own: SQLite ends it where a connection goes that is in use."""
    script = """
import sys, threading
from pathlib import Path
from index_fakes import SMALL, FakeModel, sentences
from phrasemate.errors import PhraseIndexError, InputError
from phrasemate.index import Index, schema
from phrasemate.index.manifest import write_json
from phrasemate.types import Document

with Index.create(Path(sys.argv[1]), FakeModel(), settings=SMALL, threads=1) as index:
    index.add([Document.from_texts(str(n), sentences(8, n)) for n in range(40)], lang="en")

def read(index):
    try:
        while True:
            index.documents()
            index.containing("no such phrase")
    except PhraseIndexError as error:
        assert "closed" in str(error), error

for _ in range(20):
    index = Index.open(Path(sys.argv[1]), FakeModel(), readonly=True, settings=SMALL, threads=1)
    readers = [threading.Thread(target=read, args=(index,)) for _ in range(2)]
    for reader in readers: reader.start()
    index.documents()
    index.close()
    for reader in readers: reader.join()
print("done")
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    ran = subprocess.run([sys.executable, "-c", script, str(tmp_path / "idx")], env=env, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "done\n", "")


def test_a_read_that_is_interrupted_leaves_no_transaction(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    index.add([Document.from_texts("a", ["one two"])], lang="en")

    def interrupted() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(index.store, "state", interrupted)
        with pytest.raises(KeyboardInterrupt):
            index.documents()
    assert not index.store.connection.in_transaction
    index.add([Document.from_texts("b", ["three four"])], lang="en")
    assert len(index.documents()) == 2


def test_a_snapshot_cannot_be_changed_within(index: Index) -> None:
    with index.snapshot(), pytest.raises(InputError, match="within a snapshot; leave its with block first"):
        index.add([Document.from_texts("a", ["one two"])])
    index.add([Document.from_texts("a", ["one two"])])


def test_an_id_that_no_phrase_has(index: Index) -> None:
    index.add([Document.from_texts("a", ["one two"])])
    for phrase, message in ((-1, "expected 0 or more"), (1 << 70, "ids start at 0, and this index has used 3 of them")):
        with pytest.raises(InputError, match=message):
            index.around(phrase)


def test_an_empty_index_may_take_another_model(tmp_path: Path) -> None:
    wide = FakeModel(dim=32)
    with Index.create(tmp_path / "idx", FakeModel(), settings=SMALL, threads=1) as index:
        assert index.search(np.ones((1, 16), np.float32), 1).ids.max(initial=-1) < 0
        index.begin(wide, {"max_words": 2})
        assert index.search(np.ones((1, 32), np.float32), 1).ids.max(initial=-1) < 0
        index.add([Document.from_texts("a", sentences(1))])
        assert index.search(np.ones((1, 32), np.float32), 1).ids[0, 0] >= 0
        index.delete("a")
    with Index.open(tmp_path / "idx", wide, settings=SMALL, threads=1) as index:
        assert index.manifest.segment == {"max_words": 2}
        index.add([Document.from_texts("a", sentences(3))])
        with pytest.raises(InputError, match="holds documents already"):
            index.begin(FakeModel())
        assert index.verify().ok


def test_a_closed_index_says_so(index: Index) -> None:
    index.close()
    with pytest.raises(PhraseIndexError, match="has been closed"):
        index.stats()


def test_the_counts_are_read_once_in_a_snapshot_and_again_after_it(index: Index) -> None:
    index.add([Document.from_texts("a", sentences(20))])
    statements: list[str] = []
    with index.snapshot():
        index.store.connection.set_trace_callback(statements.append)
        before = index.store.state()
        for _ in range(3):
            index.search(np.eye(1, index.manifest.dim), 5)
            assert index.store.state() is before
    index.store.connection.set_trace_callback(None)
    assert not any("FROM state" in statement for statement in statements)
    index.add([Document.from_texts("b", sentences(20, seed=1))])
    assert index.store.state().generation > before.generation


# -- trouble with the store and its folder


def test_a_store_that_another_program_keeps_busy(index: Index) -> None:
    """A program that is not phrasemate, so that it has not our lock."""
    index.add([Document.from_texts("a", ["one two"])])
    index.store.connection.execute("PRAGMA busy_timeout = 0")
    with closing(sqlite3.connect(index.path / "store.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(IndexLocked, match=r"another process keeps the store busy .*; wait until it has finished"):
            index.add([Document.from_texts("b", ["three four"])])
        other.execute("ROLLBACK")
    assert index.add([Document.from_texts("b", ["three four"])]).sentences == 1


def test_verify_of_a_store_that_another_program_keeps_busy(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "BUSY_SECONDS", 0.05)
    index.add([Document.from_texts("a", ["one two"])])
    index.store.connection.execute("DELETE FROM extras WHERE key = 'words'")  # as an interrupted add leaves it
    with closing(sqlite3.connect(index.path / "store.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        (problem,) = index.verify().problems
        assert problem.startswith(f"text index: {index.path}: another process keeps the store busy")
        other.execute("ROLLBACK")
    assert index.verify().problems == []
    with Index.open(index.path, readonly=True) as reader:
        message = "not in use: an interrupted add left it without a checksum"
        assert reader.verify().checked["text index"] == message


def test_a_store_that_turns_read_only(index: Index) -> None:
    index.store.connection.execute("PRAGMA query_only = ON")
    with pytest.raises(PhraseIndexError, match=r"the store cannot be written .*; check the permissions of the folder"):
        index.add([Document.from_texts("a", ["one two"])])
    index.store.connection.execute("PRAGMA query_only = OFF")
    assert index.verify().ok
    assert index.stats().sentences == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_store_that_may_not_be_read(model: FakeModel) -> None:
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        folder = Path(place) / "idx"
        Index.create(folder, model).close()
        (folder / "store.sqlite").chmod(0)

        def check() -> None:
            message = r"idx: the store cannot be opened .*; check that store\.sqlite exists and its permissions"
            with pytest.raises(PhraseIndexError, match=message):
                Index.open(folder, model)

        as_nobody(check)


def test_a_store_whose_definitions_are_not_text(index: Index) -> None:
    """SQLite quotes what it cannot read, in bytes that are not text either."""
    index.add([Document.from_texts("a", ["one two"])])
    index.close()
    store = index.path / "store.sqlite"
    content = store.read_bytes()
    assert b"CREATE TABLE state" in content
    store.write_bytes(content.replace(b"CREATE TABLE state", b"CREATE TABLE s \xff\xfee"))
    with pytest.raises(IndexDamaged, match=r"idx: the store is damaged \(its definitions are not readable\); restore"):
        Index.open(index.path)


def test_a_lock_that_cannot_be_taken(index: Index) -> None:
    (index.path / "write.lock").unlink(missing_ok=True)
    (index.path / "write.lock").mkdir()
    with pytest.raises(PhraseIndexError, match=r"idx: cannot be written \(.*\); check the permissions of the folder"):
        index.add([Document.from_texts("a", ["one two"])])
    assert index.stats().sentences == 0


def test_a_folder_that_another_process_never_lays_out(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "BUSY_SECONDS", 0.1)
    index.close()
    for file in index.path.glob("store.sqlite*"):
        file.unlink()
    with write_lock(index.path), pytest.raises(IndexLocked, match="is writing to this index; wait until it has fin"):
        Index.open(index.path)
    with Index.open(index.path) as again:
        assert again.stats().sentences == 0


def test_a_file_that_cannot_be_read_or_written(index: Index) -> None:
    with pytest.raises(PhraseIndexError, match=r"none/x\.json: cannot be written \(No such file or directory\); check"):
        write_json(index.path / "none" / "x.json", {})
    file = index.path / "wordings.json"
    file.unlink(missing_ok=True)
    file.mkdir()
    assert index.verify().problems == [f"wordings: {file}: cannot be read (Is a directory)"]
