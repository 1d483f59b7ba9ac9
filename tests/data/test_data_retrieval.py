"""The bundled model on real text: quick samples of the benchmarks, with thresholds below what was measured."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from phrasemate.encode import Model, bundled_folder, load_model
from phrasemate.evaluate import accuracy, mean_reciprocal_rank, ranks_of
from phrasemate.types import Phrase

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data"

pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(not DATA.is_dir(), reason="no corpora in ../shared/data beside the repository"),
    pytest.mark.skipif(not bundled_folder().is_dir(), reason="no bundled model; bench/bundled_model.py makes it"),
]


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model(threads=1)


def first_lines(path: Path, count: int) -> list[str]:
    with path.open(encoding="utf-8") as file:
        return [line.rstrip("\n") for _, line in zip(range(count), file, strict=False)]


def pairs_of(lang: str) -> list[dict[str, Any]]:
    path = DATA / "phrase_bench" / f"{lang}-en.jsonl"
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.fixture(scope="module")
def bench(model: Model) -> Any:
    """The module of the benchmark."""
    sys.path.insert(0, str(ROOT / "bench"))
    import phrase_retrieval

    yield phrase_retrieval
    sys.path.remove(str(ROOT / "bench"))


# acc@1 measured: 0.995 from German, 0.985 from English
def test_sentence_mates_of_europarl(model: Model) -> None:
    german, english = (
        model.encode_sentences(first_lines(DATA / "sentence_bench" / "europarl" / f"de-en.{lang}", 200))
        for lang in ("de", "en")
    )
    similar, gold = german @ english.T, np.arange(200)
    assert accuracy(ranks_of(similar, gold)) >= 0.95
    assert accuracy(ranks_of(similar.T, gold)) >= 0.95
    assert mean_reciprocal_rank(ranks_of(similar, gold)) >= 0.97


# acc@1 measured: 0.915, 0.925, 0.885, 0.950
@pytest.mark.parametrize(("lang", "least"), [("de", 0.89), ("cs", 0.90), ("ro", 0.86), ("fr", 0.93)])
def test_the_gold_span_among_those_of_its_sentence(model: Model, bench: Any, lang: str, least: float) -> None:
    pairs = pairs_of(lang)
    queries = model.encode([Phrase(p["source"], p["start"], p["end"]) for p in pairs])
    spans = []
    for pair in pairs:
        gold = (pair["target_start"], pair["target_end"])
        spans.append([gold, *sorted(set(bench.spans(pair["target"])) - {gold})])  # the gold span is number 0
    targets = [Phrase(p["target"], *span) for p, found in zip(pairs, spans, strict=True) for span in found]
    vectors = np.split(model.encode(targets), np.cumsum([len(found) for found in spans])[:-1])
    zero = np.zeros(1, np.int64)
    ranks = [ranks_of((found @ query)[None], zero)[0] for found, query in zip(vectors, queries, strict=True)]
    assert accuracy(np.array(ranks)) >= least


def test_the_benchmark_with_few_distractors(bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With fewer distractors it can only be higher than with all of them (docs/benchmarks.md)."""
    monkeypatch.setattr(sys.modules["common"], "OUT", tmp_path)  # the figures of full runs stay
    options = ["--sentences", "300", "--pooling", "head", "--threads", "1", "--data", str(DATA)]
    monkeypatch.setattr(sys, "argv", ["phrase_retrieval.py", *options])
    bench.main()
    report = json.loads((tmp_path / "phrase_retrieval.json").read_text("utf-8"))
    rows = {row["measure"]: row for row in report["rows"]}
    for lang, full in {"de": 0.885, "cs": 0.900, "ro": 0.825, "fr": 0.940}.items():
        assert full - 0.015 <= rows["acc@1"][lang] <= rows["MRR"][lang] <= 1
        assert rows["acc@1"][lang] < rows["acc@10"][lang]
    assert report["signature"]["distractor_spans"] > 300
