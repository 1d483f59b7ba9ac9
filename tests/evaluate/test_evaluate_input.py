"""Test sets that are damaged, incomplete or leaky, and vectors that are not numbers: the right figure or one error."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import corpora
import numpy as np
import pytest

from phrasemate.encode import Model
from phrasemate.errors import InputError, ReadError
from phrasemate.evaluate import ccpr
from phrasemate.evaluate.bicla import SentenceSet, average_precisions, read_set
from phrasemate.evaluate.ccpr import ModelRow, Settings, run
from phrasemate.evaluate.data import links_of, parallel
from phrasemate.evaluate.metrics import ranks_of
from phrasemate.evaluate.phrases import ModelSource, Tally, evaluate_phrases
from phrasemate.evaluate.phrases import read_set as read_phrases
from phrasemate.evaluate.polysemy import score_senses
from phrasemate.evaluate.xpr import rank_mates

NAN = np.full((3, 3), np.nan, np.float32)


@pytest.fixture
def settings_of(data: Path, folder: Path) -> Callable[..., Settings]:
    """Settings of a small run."""
    usual: dict[str, Any] = {"models": (f"m={folder}",), "bundled": False, "distractors": 20, "extra": 0, "threads": 1}
    return lambda *parts, **other: Settings(data, parts, **{**usual, "langs": ("de", "cs"), **other})


@pytest.fixture
def untouched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing may be loaded, so nothing be computed."""
    monkeypatch.setattr(ccpr, "load_model", lambda *_: pytest.fail("a model was loaded"))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ('"source target links"', "not a JSON object"),
        ('["source", "target", "links"]', "not a JSON object"),
        ('{"source": 3, "target": ["b"], "links": []}', "no tokens with links"),
        ('{"source": "ab", "target": "b", "links": [], "possible": ["0-0"]}', "no tokens with links"),
        ('{"source": ["a"], "target": ["b", 1], "links": []}', "no tokens with links"),
        ('{"source": ["a"], "target": ["b"], "links": 3}', "no tokens with links"),
        ('{"source": ["a"], "target": ["b"], "links": ["0-0"]}', "no tokens with links"),
        ('{"source": ["a"], "target": ["b"], "links": [[-1, 0]]}', "no tokens with links"),
        ('{"source": ["a"], "target": ["b"], "links": [[0.0, 0]]}', "no tokens with links"),
    ],
)
def test_a_gold_alignment_with_another_line_in_it_is_named(data: Path, wrong: str, says: str) -> None:
    path = data / "gold_alignments" / "de-en.jsonl"
    path.write_text(f"{path.read_text()}{wrong}\n")
    with pytest.raises(ReadError, match=says) as caught:
        links_of(data, "de")
    assert caught.value.line == len(corpora.PAIRS) + 1


@pytest.mark.parametrize("change", [{"source": ["a", "b"]}, {"target": ["x y"]}, {"start": 0.5}, {"end": True}])
def test_a_phrase_of_another_type_is_named(data: Path, change: dict[str, Any]) -> None:
    rows = [corpora.phrase(*phrase) for phrase in corpora.PHRASES]
    corpora.lines(data / "phrase_bench" / "de-en.jsonl", [rows[0], rows[1] | {"start": 0, "end": 1} | change])
    with pytest.raises(ReadError, match=r"line 2: .*expected texts and whole numbers"):
        read_phrases(data, "de")


@pytest.mark.parametrize("part", ["phrase_bench", "gold_alignments"])
def test_an_empty_set_is_named_before_anything_is_computed(
    settings_of: Callable[..., Settings], data: Path, untouched: None, part: str
) -> None:
    (data / part / "cs-en.jsonl").write_text("")
    with pytest.raises(ReadError, match=rf"{part}/cs-en\.jsonl: an empty file"):
        run(settings_of("segmenter"))
    (data / "none.jsonl").write_text("")
    with pytest.raises(ReadError, match="an empty file"):
        run(settings_of("polysemy", polysemy=data / "none.jsonl"))


@pytest.mark.parametrize(
    ("file", "parts"),
    [
        ("gold_alignments/cs-en.jsonl", ("phrases", "alignment")),
        ("phrase_bench/cs-en.jsonl", ("segmenter",)),
        ("parallel/en-es.tsv.gz", ("phrases",)),
    ],
)
def test_a_file_that_is_missing_is_named_before_anything_is_computed(
    settings_of: Callable[..., Settings], data: Path, untouched: None, file: str, parts: tuple[str, ...]
) -> None:
    (data / file).unlink()
    with pytest.raises(InputError, match=f"{file}: [Nn]o such file"):
        run(settings_of(*parts))
    with pytest.raises(InputError, match=r"nowhere\.jsonl: no such file"):
        run(settings_of("polysemy", polysemy=data / "nowhere.jsonl"))


def test_the_text_that_eflomal_learns_from_is_missed_before_anything_is_computed(
    settings_of: Callable[..., Settings], data: Path, untouched: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ccpr, "find_spec", lambda name: name == "eflomal")
    (data / "parallel" / "en-cs.tsv.gz").unlink()
    with pytest.raises(InputError, match=r"en-cs\.tsv\.gz: No such file"):
        run(settings_of("alignment", extra=5))


def test_settings_that_make_no_sense_are_named_before_anything_is_computed(
    settings_of: Callable[..., Settings], untouched: None
) -> None:
    with pytest.raises(InputError, match="the corpora have 186 distractor spans, fewer than 1,000"):
        run(settings_of("segmenter", distractors=1000))
    with pytest.raises(InputError, match="no language"):
        run(settings_of("alignment", langs=()))
    with pytest.raises(InputError, match="seed: -1; expected 0 or more"):
        run(settings_of("polysemy", seed=-1))


def test_rows_that_cannot_be_told_apart_or_are_none_are_named_before_anything_is_loaded(
    settings_of: Callable[..., Settings], untouched: None
) -> None:
    with pytest.raises(InputError, match="no model was given; give --model, or omit --no-bundled"):
        run(settings_of("polysemy", models=()))
    with pytest.raises(InputError, match="two rows are named a; give each a name of its own"):
        run(settings_of("polysemy", models=("a=bundled:mean", "b=bundled", "a=bundled:ends")))
    with pytest.raises(InputError, match="two rows are named bundled"):  # the bundled model has a row of its own
        run(settings_of("polysemy", models=("bundled=bundled:mean",), bundled=True))


def test_a_language_that_is_named_twice_is_measured_once(settings_of: Callable[..., Settings]) -> None:
    (table, *_) = run(settings_of("alignment", langs=("de", "cs", "de"))).tables
    pairs = [row[0] for row in table.rows]
    assert list(dict.fromkeys(pairs)) == ["de-en", "cs-en"]
    assert len({row[:2] for row in table.rows}) == len(pairs)


def test_the_signature_says_what_the_segmenter_was_measured_on(
    settings_of: Callable[..., Settings], folder: Path
) -> None:
    signature = run(settings_of("segmenter", cs=2, models=(f"a={folder}:ends", f"b={folder}"))).signature
    assert (signature["index_distractors"], signature["cs_pairs"], signature["index_model"]) == (20, 2, "b")


def test_the_signature_tells_distractors_from_others(settings_of: Callable[..., Settings], data: Path) -> None:
    results = [run(settings_of("phrases")).signature]
    path = data / "parallel" / "en-es.tsv.gz"
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()).replace(b"red house", b"new house")))
    results.append(run(settings_of("phrases")).signature)
    assert results[0]["data"] == results[1]["data"]
    assert results[0]["distractors"] != results[1]["distractors"]
    assert "distractors" not in run(settings_of("phrases", distractors=0)).signature


def test_the_last_row_is_the_last_model() -> None:
    other: Any = Path("x")
    rows = [ModelRow("ends", None, "ends"), ModelRow("other", other, None), ModelRow("bundled", None, None)]
    loaded: Any = {None: 1, other: 2}
    assert list(ccpr._LoadedModels(loaded, rows).distinct().items()) == [("other", 2), ("bundled", 1)]


def test_a_target_sentence_is_not_distractor(model: Model, data: Path) -> None:
    """There the gold span would compete with itself: every sentence counts once."""
    source = ModelSource(model, {"head": "head"})
    before = evaluate_phrases([source], data, 186, ("de",))
    path = data / "parallel" / "en-es.tsv.gz"
    lines = gzip.decompress(path.read_bytes()).decode()
    leaked = corpora.PAIRS[0][1]
    path.write_bytes(gzip.compress(f"{leaked}\tx\n{lines}".encode()))
    after = evaluate_phrases([source], data, 186, ("de",))
    assert (after.spans, after.sentences) == (before.spans, before.sentences)
    for one, other in zip(before.rankings["head"]["de"], after.rankings["head"]["de"], strict=True):
        assert one.tolist() == other.tolist()


def test_parallel_lines_end_with_line_feeds_alone(tmp_path: Path) -> None:
    (tmp_path / "parallel").mkdir()
    text = "\ufeffone\rof two\teins\r\nthree\x85\tdrei\n".encode()
    (tmp_path / "parallel" / "en-de.tsv.gz").write_bytes(gzip.compress(text))
    assert list(parallel(tmp_path, "de")) == [("one\rof two", "eins"), ("three\x85", "drei")]


def test_sentences_with_a_mark_in_front_or_composed_otherwise(tmp_path: Path) -> None:
    (tmp_path / "de-en.de").write_bytes("\ufeffEin Café\r\nUnd\r\n".encode())
    (tmp_path / "de-en.en").write_text("A café\nA cafe\u0301\n", encoding="utf-8")
    sentence_set = read_set(tmp_path, "de-en")
    assert sentence_set.queries == ["Ein Café", "Und"]
    assert np.isinf(sentence_set.candidates(np.zeros((2, 2), np.float32))).tolist() == [[False, True], [True, False]]


def test_one_long_sentence_does_not_make_all_long(tmp_path: Path) -> None:
    import tracemalloc

    texts = ["x" * 100_000, *map(str, range(199))]
    sentence_set = SentenceSet("de-en", texts, texts, (tmp_path, tmp_path))
    tracemalloc.start()
    sentence_set.candidates(np.zeros((200, 200), np.float32))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_000_000  # as an array of 200 texts of 100,000 characters it was 80 MB


@pytest.mark.parametrize(
    "measure",
    [
        lambda: rank_mates(NAN, NAN, ~np.eye(3, dtype=bool)),
        lambda: rank_mates(np.eye(3, dtype=np.float32), np.diag([1, 1, np.nan]), ~np.eye(3, dtype=bool)),
        lambda: average_precisions(NAN),
        lambda: score_senses([], NAN),
        lambda: ranks_of(NAN, np.arange(3)),
        lambda: Tally(np.eye(3, dtype=np.float32), NAN[0]),
        lambda: Tally(np.eye(3, dtype=np.float32), np.ones(3)).count(NAN),
    ],
)
def test_vectors_that_are_not_numbers_are_not_right(measure: Callable[[], Any]) -> None:
    """No number is above NaN, so it would be the best of all."""
    with pytest.raises(InputError, match="are not numbers"):
        measure()


def test_a_result_is_whole_or_not_there(tmp_path: Path) -> None:
    from phrasemate.evaluate.report import Result, Table

    Result([Table("t", "T", ("name",), (("half \udcff",),))]).write(tmp_path, "a")
    assert json.loads((tmp_path / "a.json").read_text())["t"]["rows"] == [{"name": "half \ufffd"}]
    with pytest.raises(TypeError):
        Result(signature={"seed": object()}).write(tmp_path, "a")
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_name_with_dollars_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from phrasemate.evaluate.report import draw

    table = {"title": "T", "rows": [{"trained on": "a$\\foo{$", "de-en": 0.5}]}
    draw({"zero-shot": table}, tmp_path, "bicla")
    assert r"a$\foo{$" in (tmp_path / "zero_shot.svg").read_text()


def test_curves_of_lines_that_are_not_measurements(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from phrasemate.evaluate.report import draw_curves, read_metrics

    (tmp_path / "metrics.jsonl").write_bytes(b'5\n{"step": 1, "loss": 0.5}\n{"loss": 1}\n{"step": 2, "lo\xff')
    assert read_metrics(tmp_path / "metrics.jsonl") == [{"step": 1, "loss": 0.5}]
    assert draw_curves(tmp_path / "metrics.jsonl", tmp_path / "curves.svg")
