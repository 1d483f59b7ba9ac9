"""bench/scale.py: what it reports is of the settings that it was run with, whenever it was stopped in between."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from phrasemate.index import faiss_build, row_codec

DIM, TEXTS = 24, [f"text {number}" for number in range(60)]  # two phrases each


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "bench"))
    import scale
    import scale_data
    import scale_peers
    import scale_truth

    monkeypatch.setattr(scale, "load_model", lambda *_: model())
    return SimpleNamespace(scale=scale, data=scale_data, peers=scale_peers, truth=scale_truth)


def model(digest: str = "1" * 64) -> Any:
    return SimpleNamespace(name="fake", hash=digest, path=None, dim=DIM)


@pytest.fixture
def work(tmp_path: Path, bench: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A work folder with chunks of ten sentences, encoded in a second each, and five queries."""
    for module in (bench.data, bench.truth):
        monkeypatch.setattr(module, "CHUNK", 10)
    (tmp_path / "encoded").mkdir()
    draw = np.random.default_rng(0)
    for number in range(6):
        np.savez(
            tmp_path / "encoded" / f"{number:05}.npz",
            bounds=np.arange(0, 21, 2),
            starts=np.tile(np.array([0, 5], np.int32), 10),
            ends=np.tile(np.array([4, 6], np.int32), 10),
            scores=np.full(20, 0.5, np.float16),
            codes=row_codec.quantise(_unit(draw.normal(size=(20, DIM)))),
            taken=[1.0, 1.0],
        )
    np.save(tmp_path / "queries.npy", _unit(draw.normal(size=(5, DIM))))
    return tmp_path


def _unit(vectors: Any) -> Any:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def options(work: Path, **more: Any) -> argparse.Namespace:
    given = {"work": work, "model": None, "threads": 1, "seed": 0, "target_recall": 0.9, "peers": 0, "construction": 40}
    return argparse.Namespace(**given | more)


def test_a_folder_of_other_settings_is_refused(bench: Any, tmp_path: Path) -> None:
    args = options(tmp_path / "work")
    for _ in range(2):
        bench.scale.settle(args, model())
    for other, changed in ((options(args.work, seed=1), model()), (args, model("2" * 64))):
        with pytest.raises(SystemExit, match="was begun with"):
            bench.scale.settle(other, changed)


def test_no_corpora_leave_nothing_behind(bench: Any, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="--data"):
        bench.data.sentences(tmp_path, tmp_path / "work", 0)
    assert not (tmp_path / "work" / "sentences.txt").exists()


def test_exact_answers_in_steps_are_those_of_all(bench: Any, work: Path) -> None:
    asked = np.load(work / "queries.npy")
    vectors = row_codec.dequantise(bench.peers.codes_of(work, 120))
    for last in (13, 20, 57):
        best = bench.truth.truth(work, last, asked)
        np.testing.assert_allclose(best, -np.sort(-asked @ vectors[: 2 * last].T, axis=1)[:, :10], atol=1e-6)
    assert not list(work.glob("*.partial"))


def test_what_came_after_the_last_chunk_is_kept_when_measuring_stops(
    bench: Any, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    args, results, update = options(work), {}, faiss_build.update
    monkeypatch.setattr(faiss_build, "update", lambda *given: (time.sleep(0.2), update(*given)))

    def stopped(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(bench.scale, "measured", stopped)
    with pytest.raises(KeyboardInterrupt):
        bench.scale.grow(args, TEXTS, [30], results)
    monkeypatch.setattr(faiss_build, "update", update)
    monkeypatch.setattr(bench.scale, "measured", lambda *_: {})
    kept = json.loads((work / "results.json").read_text("utf-8"))
    bench.scale.grow(args, TEXTS, [30], kept)
    assert kept["30"]["write s"] > 0.2
    assert kept["30"]["encode s"] == pytest.approx(1.5)  # of 15 sentences, once
    assert "unfinished" not in json.loads((work / "results.json").read_text("utf-8"))


def test_tuned_again_for_another_target(bench: Any, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.scale, "measured", lambda *_: {})
    results: dict[str, Any] = {}
    bench.scale.grow(options(work), TEXTS, [30], results)
    for target in (0.9, 0.9, 0.95):
        before = results.get("tuned")
        bench.scale.tuned(options(work, target_recall=target), results)
        assert results["tuned"]["target"] == target
        assert (results["tuned"] is before) == (before is not None and before["target"] == target)
    bench.scale.grow(options(work), TEXTS, [30, 60], results)
    assert "tuned" not in results  # of fewer


def test_a_tuned_index_is_not_grown(bench: Any, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        bench.scale, "VectorsManifest", SimpleNamespace(found=lambda _: SimpleNamespace(tuned={"at": 1}))
    )
    with pytest.raises(SystemExit, match="was tuned"):
        bench.scale.grow(options(work), TEXTS, [30], {})


def test_slope_of_what_grows_with_a_power(bench: Any) -> None:
    counts, seconds = [10, 100, 1000], np.diff([0, *(2.0 * n**1.5 for n in (10, 100, 1000))])
    results = {
        str(n): {"phrases": n, "encode s": s / 4, "write s": 3 * s / 4} for n, s in zip(counts, seconds, strict=True)
    }
    assert bench.scale.slope(results, counts, ("encode s", "write s")) == pytest.approx(1.5)
    assert np.isnan(bench.scale.slope(results, counts[:1], ("encode s", "write s")))


def test_a_peer_is_timed_at_the_first_setting_that_reaches_the_target(
    bench: Any, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def tried(path: Path, dim: int, effort: Any) -> Iterator[Any]:
        vectors = np.load(path)
        for how, sign in (("poor", 1), ("good", -1), ("better", -1)):

            def ask(queries: Any, how: str = how, sign: int = sign) -> Any:
                asked.append(how)
                return np.argsort(sign * queries @ vectors.T, axis=1)[:, :32], None

            yield how, ask

    def build(vectors: Any, path: Path, effort: Any) -> None:
        with path.open("wb") as file:
            np.save(file, vectors)

    monkeypatch.setitem(bench.peers.PEERS, "usearch", bench.peers.Engine(build, tried))
    limited: list[int] = []
    monkeypatch.setattr(bench.peers.os, "sched_setaffinity", lambda _, processors: limited.append(len(processors)))
    args = options(work, peers=100, peer="usearch")
    assert bench.peers.peer(args) == {}  # built
    facts = bench.peers.peer(args)
    assert (facts["how"], facts["recall@1"], facts["recall@10"]) == ("good", 1.0, 1.0)
    assert (asked.count("poor"), asked.count("better")) == (1, 0)
    assert limited == [1, 1]  # as many as there are threads
    assert asked.count("good") == 1 + 5 + 7 + 3  # to compare, one by one, all at once, by processor time
    assert bench.peers.peer(options(work, peers=100, peer="usearch", construction=64)) == {}  # built anew


def test_a_peer_of_another_construction_is_measured_again(
    bench: Any, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run: list[str] = []

    def process(command: list[str], **_: Any) -> Any:
        run.append(command[-1])
        return SimpleNamespace(returncode=0, stdout=json.dumps({"one ms": 1.0}))

    monkeypatch.setattr(bench.peers, "ours", lambda *_: {})
    monkeypatch.setattr(bench.peers.subprocess, "run", process)
    monkeypatch.setattr(sys, "argv", ["scale.py"])
    results: dict[str, Any] = {}
    for construction, expected in ((40, list(bench.peers.PEERS)), (40, []), (64, ["usearch", "hnswlib"])):
        run.clear()
        bench.peers.peers(options(work, peers=100, construction=construction), TEXTS, results)
        assert run == expected
