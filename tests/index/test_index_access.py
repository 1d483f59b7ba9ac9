"""Writers, readers, full disks and folders that may not be written."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from index_fakes import SMALL, FakeModel, sentences

from phrasemate.errors import IndexLocked, InputError, PhraseIndexError
from phrasemate.index import Index
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
from phrasemate.index import Index
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
    for phrase in (-1, 1 << 70):
        with pytest.raises(InputError, match="ids of this index are below"):
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
