"""The campaigns of bench/ can fail: what is lost, left over, crashed, swallowed or never answered is a problem."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench")]

import concurrency  # noqa: E402
import crash  # noqa: E402
import damage  # noqa: E402
import fuzz  # noqa: E402
import fuzz_targets  # noqa: E402
import index_fakes  # noqa: E402  (crash_jobs knows where)
from crash import Child, _Trials  # noqa: E402
from damage_kinds import Kind  # noqa: E402

from phrasemate.errors import InputError  # noqa: E402
from phrasemate.index.faiss_search import Layout  # noqa: E402

pytestmark = pytest.mark.slow


class Job:
    """Writes two lines; in a folder called ``shaken``, by another way."""

    name = "fake"

    def __init__(self, other: Callable[[Path], None]) -> None:
        self.other = other

    def prepare(self, folder: Path) -> None: ...

    def run(self, folder: Path, say: Callable[[int], None]) -> None:
        folder.mkdir(exist_ok=True)
        (folder / "rows").write_text("1 2")
        if folder.name != "calm":
            self.other(folder)

    def check(self, folder: Path, message: int) -> list[str]:
        return []

    def rows(self, folder: Path) -> dict[str, Any]:
        return {"rows": (folder / "rows").read_text()}


@pytest.mark.parametrize(
    ("other", "problem"),
    [
        (lambda folder: None, ""),
        (lambda folder: (folder / "rows").write_text("1"), "rows differ"),
        (lambda folder: (folder / "rows.part").touch(), "files differ"),
        (lambda folder: os._exit(3), "ended with code 3"),
        (lambda folder: os.kill(os.getpid(), signal.SIGKILL), "ended with code -9"),  # for want of memory, say
    ],
    ids=["sound", "lost", "left over", "ended", "killed by another"],
)
def test_a_crash_campaign_sees(other: Callable[[Path], None], problem: str, tmp_path: Path) -> None:
    never: Any = SimpleNamespace(uniform=lambda *_: 30.0)
    try:
        campaign = crash.Campaign(Job(other), tmp_path, never)
        campaign.trial(1)
    finally:
        gc.unfreeze()
    assert (campaign.kills, campaign.early) == (0, 1)
    assert [problem in item for item in campaign.problems] == [True] * bool(problem)


def test_a_child_that_works_or_sleeps_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(say: Callable[[int], None]) -> None:
        while True:
            say(1)

    child = Child(work)
    assert child.kill_after(0.3)  # a fork of a large process needs some time before it says anything
    assert 0.25 <= child.seconds < 10
    assert (child.said, child.problem) == (1, "")
    child = Child(work)
    child.wait(0.01)
    assert child.problem == "still running after 0 s of processor time"
    monkeypatch.setattr(crash, "ASLEEP", 0.6)
    child = Child(lambda say: time.sleep(100))
    child.wait()
    assert child.problem.startswith("sleeps without end after 0.0")


def test_a_child_that_fails() -> None:
    child = Child(lambda say: ["\nlost"])
    child.wait(30)
    assert child.problem == "lost"

    def failing(say: Callable[[int], None]) -> None:
        raise InputError("one\ntwo")

    child = Child(failing)
    child.wait(30)
    assert (child.lines, child.error) == (2, "InputError: one two")
    assert damage.judged(Kind("x", "open", Path, Path), "x", 1, child, 0)[0] == "problem"


def test_a_job_that_hides_a_fault(tmp_path: Path) -> None:
    job = Job(lambda folder: None)
    job.run(tmp_path / "calm", lambda _: None)
    trials = _Trials(job, tmp_path)

    def tries() -> Iterator[Child]:
        child = Child(lambda say: None)
        child.wait(30)
        yield child

    assert trials.table("nothing was written", tries)[-1] == 1


@pytest.mark.parametrize(("kind", "judgement"), [("txt.gz", "other"), ("model folder", "problem")])
def test_only_packed_text_may_be_doubled(kind: str, judgement: str) -> None:
    child: Any = SimpleNamespace(error="", problem="", lines=0, said=2)
    result = damage.judged(Kind(kind, "sealed", Path, Path), "tokenizer.json.gz doubled", 1, child, 0)
    assert result[0] == judgement


def test_a_wrong_error_of_a_manifest_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def parse(_: str) -> Layout:
        raise ValueError("not ours")

    assert fuzz_targets.run("manifest", fuzz_targets.MANIFESTS[1])
    monkeypatch.setattr(Layout, "parse", parse)
    with pytest.raises(ValueError, match="not ours"):
        fuzz_targets.run("manifest", fuzz_targets.MANIFESTS[1])


@pytest.mark.parametrize(("end", "number"), [(None, 1), (KeyboardInterrupt, 0)], ids=["a hang", "an interruption"])
def test_fuzzing_at_random(end: type | None, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def feed(_: bytes) -> None:
        if end:
            raise end
        time.sleep(30)

    for name, value in (("FINDINGS", tmp_path), ("HANG", 0.05), ("limit_memory", lambda _: None)):
        monkeypatch.setattr(fuzz, name, value)
    monkeypatch.setitem(fuzz_targets.TARGETS, "txt", feed)
    before = signal.getsignal(signal.SIGALRM)
    try:
        with pytest.raises(end or SystemExit):
            fuzz._plain("txt", 30, 0)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert len(list(tmp_path.iterdir())) == number


@pytest.fixture
def pool() -> concurrency.Pool:
    return concurrency.Pool.make(index_fakes.FakeModel(), [[["one two", "three four"]]])


def test_who_asks_a_server_sees(tmp_path: Path, pool: concurrency.Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "log.jsonl").touch()
    asker = concurrency.Asker(0, tmp_path, pool, 0.02, 0.005, 1)
    assert asker._holds(concurrency.State(1, {}), [])
    assert not asker._holds(concurrency.State(1, {"doc0": (0, 2)}), [])  # it has phrases

    def torn(_: str) -> None:
        raise ValueError("half an answer")

    monkeypatch.setattr(asker, "_page", torn)
    monkeypatch.setattr(asker, "_rest", torn)
    asker.run()
    assert set(asker.problems) == {"ValueError: half an answer"}


def test_an_answer_without_hits_or_with_one_twice(tmp_path: Path, pool: concurrency.Pool) -> None:
    with concurrency.Index.create(
        tmp_path / "index", concurrency.Recorded(pool), threads=1, settings=concurrency.SETTINGS
    ) as index:
        index.add([pool.document(0, 0)], lang="en")
        (tmp_path / "log.jsonl").write_text(f'[{index.store.state().generation}, {{"doc0": [0, 2]}}]\n')
        query, log, search = pool.vectors("doc0", 0, 2)[0], concurrency.Log(tmp_path), index.search
        assert concurrency._answer(index, pool, log, query, None)[1] == []
        for change, records in ((lambda ids: ids * 0 - 1, "nothing"), (lambda ids: ids[:, [0, 0]], "twice")):

            def changed(*arguments: Any, change: Callable[..., Any] = change) -> Any:
                run = search(*arguments)
                ids = change(run.ids)
                return SimpleNamespace(ids=ids, scores=run.scores[:, : ids.shape[1]])

            index.search = changed  # type: ignore[method-assign, assignment]
            assert records in str(concurrency._answer(index, pool, log, query, None)[1])


@pytest.mark.skipif(sys.platform != "linux" or shutil.which("cc") is None, reason="needs Linux and a C compiler")
@pytest.mark.parametrize("forgotten", ["", "store.sqlite-wal"])
def test_a_power_cut_takes_what_is_not_flushed(tmp_path: Path, forgotten: str) -> None:
    """Where flushes of the log are left out, some cut takes what was reported as done; with all of them none does."""
    options = ["--cuts", "30", "--only", "deleter", "--work", str(tmp_path), "--forget", forgotten]
    script = ROOT / "bench" / "lost_writes.py"
    run = subprocess.run([sys.executable, str(script), *options], capture_output=True, text=True, check=False)
    assert run.returncode == (1 if forgotten else 0), run.stdout + run.stderr
    assert ("after a cut: " in run.stderr) == bool(forgotten), run.stderr
