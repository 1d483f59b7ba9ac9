"""Killed at any moment, an index reopens with every committed chunk whole, and resuming gives the undisturbed rows."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from index_fakes import SMALL, FakeModel, sentences

from phrasemate.errors import IndexMissing
from phrasemate.index import Index
from phrasemate.types import Document

ROUNDS, KILLS = 4, 2  # bench/crash.py has a thousand
CHILD = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import faiss
from pathlib import Path
from index_fakes import FakeModel
from test_index_crash import run
print("started", flush=True)
run(Path(sys.argv[1]), FakeModel(delay=0.02))
print("done", flush=True)
"""


def documents() -> list[Document]:
    """Seven documents; two replace older versions, two end with a chunk, one has no sentence."""
    sizes = [70, 32, 0, 301, 13, 128, 190]
    return [Document.from_texts(f"doc{at}", sentences(size, seed=at)) for at, size in enumerate(sizes)]


def older() -> list[Document]:
    return [Document.from_texts("doc1", sentences(40, seed=91)), Document.from_texts("doc5", sentences(45, seed=95))]


def run(path: Path, model: FakeModel) -> None:
    """Index the older documents, then all; each of the steps continues where it was interrupted."""
    try:
        index = Index.open(path, model, settings=SMALL, threads=1)
    except IndexMissing:
        index = Index.create(path, model, settings=SMALL, threads=1)
    with index:
        if not any(document.name == "doc0" for document in index.documents()):
            index.add(older(), lang="en")
        index.add(documents(), lang="en")


def rows_of(path: Path) -> dict[str, list[Any]]:
    """Every row of every table, those of the text index included."""
    with sqlite3.connect(path / "store.sqlite") as connection:
        tables = [n for (n,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
        return {name: connection.execute(f"SELECT * FROM {name} ORDER BY 1").fetchall() for name in tables}


def killed_child(path: Path, after: float) -> bool:
    """Run a child on the index and kill it; False if it had finished before."""
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(path)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "started\n"
    time.sleep(after)
    child.send_signal(signal.SIGKILL)
    return "done" not in child.communicate()[0]


def chunks_are_whole(path: Path) -> None:
    """Sentences were committed 32 at a time, those of a run's last chunk apart."""
    with Index.open(path, settings=SMALL, threads=1) as index:
        report = index.verify()
        assert report.ok, report.problems
        stored = [row.id for row in index.store.all_sentences()]
    if stored and not {"doc0"}.isdisjoint(d.name for d in Index.open(path).documents()):
        assert (stored[-1] + 1 - 85) % SMALL.chunk == 0 or stored[-1] + 1 == 85 + 734


@pytest.mark.slow
def test_killed_at_random_moments_it_resumes_to_the_undisturbed_rows(tmp_path: Path) -> None:
    run(tmp_path / "calm", FakeModel())
    expected = rows_of(tmp_path / "calm")
    assert len(expected["sentences"]) == 70 + 32 + 0 + 301 + 13 + 128 + 190
    draw, killed = random.Random(7), 0
    for trial in range(ROUNDS):
        path = tmp_path / f"shaken{trial}"
        for _ in range(KILLS):
            killed += killed_child(path, draw.uniform(0, 0.25))
            if (path / "index.json").exists():
                chunks_are_whole(path)
        run(path, FakeModel())
        assert rows_of(path) == expected
    assert killed >= 0.7 * ROUNDS * KILLS


def test_interrupted_between_two_chunks_it_continues_with_the_next(tmp_path: Path, model: FakeModel) -> None:
    class Stop(Exception):
        pass

    def stop(event: Any) -> None:
        if event.sentences == 64:
            raise Stop

    with Index.create(tmp_path / "idx", model, settings=SMALL, threads=1) as index:
        with suppress(Stop):
            index.add(documents(), lang="en", progress=stop)
        assert index.stats().sentences == 64
        assert index.stats().incomplete == ("doc0",)
        index.add(documents(), lang="en")
    flat = [text for call in model.calls for text in call]
    assert flat == [sentence.text for document in documents() for sentence in document.sentences()]


@pytest.mark.parametrize("approximate", [False, True])  # too few phrases for a FAISS file, and enough
@pytest.mark.parametrize(
    "name",
    [
        *("index.json.partial", "vectors.json.partial", "wordings.json.partial", "vectors.partial"),
        *("wordings.partial", "vectors-0123456789abcdef.faiss", "wordings-0123456789abcdef.safetensors"),
    ],
)
def test_what_a_kill_left_goes_with_the_next_change(
    tmp_path: Path, model: FakeModel, name: str, approximate: bool
) -> None:
    texts = documents()[:1] if approximate else [Document.from_texts("a", ["one two"])]
    with Index.create(tmp_path / "idx", model, settings=SMALL, threads=1) as index:
        index.add(texts)
        files = {path.name for path in index.path.iterdir()}
        assert ("vectors.json" in files) == approximate
        (index.path / name).write_bytes(b"half")
        index.add(texts)  # nothing to do: no file is written again
        assert {path.name for path in index.path.iterdir()} == files


def test_an_interrupted_create_is_finished_by_open(tmp_path: Path, model: FakeModel) -> None:
    Index.create(tmp_path / "idx", model).close()
    for file in (tmp_path / "idx").glob("store.sqlite*"):
        file.unlink()
    with Index.open(tmp_path / "idx", model) as index:
        assert index.add([Document.from_texts("a", ["one two"])]).sentences == 1


@pytest.mark.parametrize("started", [False, True])
def test_a_reader_of_an_index_that_is_being_made_is_reported_so(
    tmp_path: Path, model: FakeModel, started: bool
) -> None:
    Index.create(tmp_path / "idx", model).close()
    for file in (tmp_path / "idx").glob("store.sqlite*"):
        file.unlink()
    if started:
        (tmp_path / "idx" / "store.sqlite").touch()
    with pytest.raises(IndexMissing, match=r"is being created, or its creation was .* phrasemate index TEXT -o"):
        Index.open(tmp_path / "idx", model, readonly=True)
    with Index.open(tmp_path / "idx", model) as index:
        assert index.add([Document.from_texts("a", ["one two"])]).sentences == 1
