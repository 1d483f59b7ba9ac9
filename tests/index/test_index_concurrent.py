"""A writer and readers in processes of their own: every answer is of one committed state (see bench/concurrency.py)."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from index_fakes import FakeModel, sentences

from phrasemate.errors import IndexDamaged
from phrasemate.index import Index, IndexSettings, snapshot_search

sys.path.append(str(Path(__file__).parents[2] / "bench"))

import concurrency


def after(start: Any, function: Callable[..., None], *arguments: Any) -> None:
    """Call a function when all processes have imported what they need."""
    start.wait(60)
    function(*arguments)


@pytest.mark.slow
def test_every_answer_is_of_one_committed_state(tmp_path: Path) -> None:
    texts = [[[*sentences(30, 100 * n + v, 3000), f"only {n} {v}"] for v in range(3)] for n in range(12)]
    pool = concurrency.Pool.make(FakeModel(), texts)
    (folder := tmp_path / "work").mkdir()
    Index.create(folder / "index", concurrency.Recorded(pool), threads=1, settings=concurrency.SETTINGS).close()
    (folder / "log.jsonl").touch()
    spawn = get_context("spawn")
    start = spawn.Barrier(3)
    writer = spawn.Process(target=after, args=(start, concurrency.write, folder, pool, 3.0, 0.02, 7))
    readers = [
        spawn.Process(target=after, args=(start, concurrency.read, folder, pool, 3.0, 0.005, seed)) for seed in (1, 2)
    ]
    for process in (writer, *readers):
        process.start()
    for process in (writer, *readers):
        process.join(60)
    assert [process.exitcode for process in (writer, *readers)] == [0, 0, 0]
    record = json.loads((folder / "writer.json").read_text())
    assert record["problems"] == []
    assert record["done"]["commits"] >= 5
    for seed in (1, 2):
        result = json.loads((folder / f"reader-{seed}.json").read_text())
        assert result["problems"] == []
        assert result["answers"] > 20
        assert result["states"] > 1
        assert result["best"] >= 0.9 * result["answers"]


def test_an_answer_of_no_committed_state_is_seen(tmp_path: Path) -> None:
    """The check itself: a state that the log does not tell of, a sentence that a state does not hold."""
    pool = concurrency.Pool.make(FakeModel(), [[["one two", "three four"], ["five six"]]])
    (folder := tmp_path / "work").mkdir()
    with Index.create(folder / "index", concurrency.Recorded(pool), threads=1, settings=concurrency.SETTINGS) as index:
        index.add([pool.document(0, 0)], lang="en")
        generation = index.store.state().generation
        query = pool.vectors("doc0", 0, 2)[0]
        for content, wrong in (((0, 2), 0), ((0, 1), 1), ((1, 1), 1)):
            (folder / "log.jsonl").write_text(json.dumps([generation, {"doc0": content}]) + "\n")
            _, problems, _ = concurrency._answer(index, pool, concurrency.Log(folder), query, "four")
            assert (len(problems) > 0) == bool(wrong)
    state = concurrency.State(1, {"doc0": (0, 1)})
    assert concurrency.fits(state, pool, "doc0", 1, "one two")
    assert not concurrency.fits(state, pool, "doc0", 2, "three four")
    assert not concurrency.fits(state, pool, "doc1", 1, "one two")


def test_a_search_file_that_is_replaced_again_and_again_is_not_taken_for_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader is overtaken by a writer twice while it opens the file; the same damaged file twice is an error."""
    named = [SimpleNamespace(generation=number) for number in (1, 2, 3, 3)]
    loads: list[int] = []

    def load(_: Path, manifest: Any, *rest: Any) -> str:
        loads.append(manifest.generation)
        if manifest.generation < good:
            raise IndexDamaged("no such file")
        return f"file {manifest.generation}"

    monkeypatch.setattr(snapshot_search.Faiss, "load", load)
    store, state, settings = SimpleNamespace(path=tmp_path, dim=2), SimpleNamespace(generation=9), IndexSettings()
    for good in (3, 4):
        reads = iter(named)
        monkeypatch.setattr(snapshot_search.VectorsManifest, "read", lambda path, reads=reads: next(reads))
        if good == 3:
            assert snapshot_search.load_current(store, state, settings, 1) == "file 3"
        else:
            with pytest.raises(IndexDamaged, match="no such file"):
                snapshot_search.load_current(store, state, settings, 1)
    assert loads == [1, 2, 3, 1, 2, 3, 3]
