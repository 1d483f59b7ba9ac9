"""bench/scale.py: what it reports is of the settings that it was run with, whenever it was stopped in between."""

from __future__ import annotations

import argparse
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from phrasemate.index import row_codec

DIM, TEXTS = 24, [f"text {number}" for number in range(60)]  # two phrases each


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "bench"))
    import scale

    monkeypatch.setattr(scale, "load_model", lambda *_: model())
    return scale


def model(digest: str = "1" * 64) -> Any:
    return SimpleNamespace(name="fake", hash=digest, path=None, dim=DIM)


@pytest.fixture
def work(tmp_path: Path, bench: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A work folder with chunks of ten sentences, encoded in a second each, and five queries."""
    monkeypatch.setattr(bench, "CHUNK", 10)
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
            taken=[1.0, 1.0, 0.8],
        )
    np.save(tmp_path / "queries.npy", _unit(draw.normal(size=(5, DIM))))
    return tmp_path


def _unit(vectors: Any) -> Any:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def options(work: Path, **more: Any) -> argparse.Namespace:
    return argparse.Namespace(**{"work": work, "model": None, "threads": 1, "seed": 0, "target_recall": 0.9, **more})


def test_a_folder_of_other_settings_is_refused(bench: Any, tmp_path: Path) -> None:
    args = options(tmp_path / "work")
    for _ in range(2):
        bench.settle(args, model())
    for other, changed in ((options(args.work, seed=1), model()), (args, model("2" * 64))):
        with pytest.raises(SystemExit, match="was started with"):
            bench.settle(other, changed)


def test_no_corpora_leave_nothing_behind(bench: Any, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="--data"):
        bench.sentences(tmp_path, tmp_path / "work", 0)
    assert not (tmp_path / "work" / "sentences.txt").exists()


def test_exact_answers_in_steps_are_those_of_all(bench: Any, work: Path) -> None:
    record = np.load(work / "queries.npy")
    codes = [np.load(path)["codes"] for path in sorted((work / "encoded").iterdir())]
    vectors = row_codec.dequantise(np.concatenate(codes))
    for last in (13, 20, 57):
        best = bench.truth(work, last, record)
        np.testing.assert_allclose(best, -np.sort(-record @ vectors[: 2 * last].T, axis=1)[:, :10], atol=1e-6)
    assert not list(work.glob("*.part"))


def test_an_index_of_each_size_is_made_in_one_run(bench: Any, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    args, results = options(work), {}

    def stopped(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(bench, "measured", stopped)
    with pytest.raises(KeyboardInterrupt):
        bench.grow(args, TEXTS, [30], results)
    assert not results
    monkeypatch.setattr(bench, "measured", lambda *_: {})
    bench.grow(args, TEXTS, [30, 60], results)
    for size, sentences in ((30, 15), (60, 30)):
        row = results[str(size)]
        assert row["sentences"] == pytest.approx(sentences, abs=1)
        assert row["phrases"] == 2 * row["sentences"]
        assert row["encoder s"] == pytest.approx(0.08 * row["sentences"])
        assert row["build s"] == pytest.approx(0.1 * row["sentences"] + row["without the model s"])
        assert row["ratio"] == row["build s"] / row["encoder s"]


def test_tuned_again_for_another_target(bench: Any, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "measured", lambda *_: {})
    results: dict[str, Any] = {}
    bench.grow(options(work), TEXTS, [30], results)
    for target in (0.9, 0.9, 0.95):
        before = results.get("tuned")
        bench.tuned(options(work, target_recall=target), results)
        assert results["tuned"]["target"] == target
        assert (results["tuned"] is before) == (before is not None and before["target"] == target)
    bench.grow(options(work), TEXTS, [30, 60], results)
    assert "tuned" not in results  # of fewer


def test_slope_of_what_grows_with_a_power(bench: Any) -> None:
    counts = [10, 100, 1000]
    results = {str(n): {"phrases": n, "build s": 2.0 * n**1.5} for n in counts}
    assert bench.slope(results, counts, "build s") == pytest.approx(1.5)
    assert np.isnan(bench.slope(results, counts[:1], "build s"))
