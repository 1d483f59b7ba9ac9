"""The evaluation of BiCLA: average precisions, tables, transfer, what is wrong with its input; and the command."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from phrasemate.cli import app
from phrasemate.errors import InputError, ModelError, ModelMismatch, ReadError
from phrasemate.evaluate import bicla, report
from phrasemate.evaluate.bicla import (
    PAPER,
    PAPER_BEST,
    Settings,
    TrainedRanker,
    average_precisions,
    kind_of,
    read_set,
    run,
    run_precisions,
)
from phrasemate.evaluate.metrics import t_test
from phrasemate.rank import run_of, sums
from phrasemate.reranker import Attention, Network, load_reranker, mates, save_reranker
from phrasemate.types import Run
from phrasemate.vectors.word_vectors import WordVectors

PAIRS = ("de-en", "cs-en", "cs-de")
COUNT, WORDS, DIM = 20, 30, 6


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """DATA and VECTORS: word i of each language means word i of the others; its vectors are noisy."""
    draw = np.random.default_rng(4)
    space = draw.normal(size=(WORDS, DIM)).astype(np.float32)
    data, vectors = tmp_path / "corpora", tmp_path / "vectors"
    (data / "sentence_bench" / "europarl").mkdir(parents=True)
    vectors.mkdir()
    for language in ("cs", "de", "en"):
        noise = draw.normal(size=space.shape).astype(np.float32)
        WordVectors([f"{language}wort{i}" for i in range(WORDS)], space + noise, language).save(vectors / language)
    for pair in PAIRS:
        rows = [draw.choice(WORDS, draw.integers(2, 6)) for _ in range(COUNT)]
        for language in pair.split("-"):
            lines = (" ".join(f"{language}wort{i}" for i in [*row[1:], row[0]]) + f" {row[0]}.\n" for row in rows)
            (data / "sentence_bench" / "europarl" / f"{pair}.{language}").write_text("".join(lines), encoding="utf-8")
    return data, vectors


def ranker(kind: str, pair: str, noise: float = 0.0, **other: Any) -> TrainedRanker:
    """Cosine of summed vectors, with some noise: what is trained elsewhere."""

    def score(queries: Sequence[Any], documents: Sequence[Any], progress: Any) -> Any:
        left, right = (np.array([item.sum(0) for item in side]) for side in (queries, documents))
        progress(1, 1)
        path = left @ right.T / np.linalg.norm(left, axis=1)[:, None] / np.linalg.norm(right, axis=1)
        return (path + np.random.default_rng(len(pair)).normal(size=path.shape) * noise).astype(np.float32)

    return TrainedRanker(kind, pair, "ab" * 32, other.pop("dim", DIM), score, **other)


TRAINED = [ranker("BiCLA", "de-en"), ranker("BiCLA", "cs-en", 0.3), ranker("InAtt", "de-en", 0.5)]


def settings(folders: tuple[Path, Path], **other: Any) -> Settings:
    return Settings(*folders, **{"pairs": PAIRS, "bundled": False, **other})


def table(result: bicla.Result, name: str) -> dict[str, dict[str, Any]]:
    """Rows by their first cell."""
    rows = result.as_dict()[name]["rows"]
    return {str(next(iter(row.values()))).strip(): row for row in rows}


def test_average_precision_by_arithmetic() -> None:
    """One above; none; two tied, so 1, 1/2 or 1/3 with the same chance."""
    scores = np.array([[0.5, 0.9, 0.1], [0.0, 2.0, 1.0], [3.0, 3.0, 3.0]], np.float32)
    assert average_precisions(scores).tolist() == pytest.approx([1 / 2, 1, (1 + 1 / 2 + 1 / 3) / 3])
    assert run_precisions(run_of(scores)).tolist() == pytest.approx([1 / 2, 1, 1 / 3])  # in the order of the run
    assert run_precisions(Run(np.array([[1, -1]]), np.array([[0.5, -np.inf]], np.float32))).tolist() == [0.0]


def test_the_same_ranks_are_the_same_figures() -> None:
    """However they are counted: the t-test would see a difference of 1e-15 that all queries have."""
    scores = np.random.default_rng(0).normal(size=(300, 300)).astype(np.float32)
    result = average_precisions(scores), run_precisions(run_of(scores))
    assert result[0].tolist() == result[1].tolist()
    assert t_test(*result) == (0, 1)


def test_the_wording_of_the_mate_elsewhere_is_not_wrong_answer(folders: tuple[Path, Path]) -> None:
    folder = folders[0] / "sentence_bench" / "europarl"
    lines = (folder / "de-en.en").read_text().splitlines()
    (folder / "de-en.en").write_text("\n".join([lines[0], lines[0], *lines[2:]]) + "\n")
    candidates = read_set(folder, "de-en").candidates(np.zeros((COUNT, COUNT), np.float32))
    assert np.argwhere(np.isinf(candidates)).tolist() == [[0, 1], [1, 0]]


def test_figures_are_those_of_the_rankers(folders: tuple[Path, Path]) -> None:
    result = run(settings(folders), TRAINED)
    rows = table(result, "rankers")
    assert list(rows) == [
        *("QLM", "paper's QLM", "AGG", "paper's AGG", "TbT", "paper's TbT"),
        *("InAtt", "paper's InAtt", "BiCLA", "paper's BiCLA"),
    ]
    sentence_set = read_set(folders[0] / "sentence_bench" / "europarl", "cs-de")
    spaces = [WordVectors.load(folders[1] / language) for language in ("cs", "de")]
    sides = [
        [[word for word in text.rstrip(".").split() if word in space] for text in texts]
        for texts, space in zip((sentence_set.queries, sentence_set.documents), spaces, strict=True)
    ]
    cosines = sums(sides[0], spaces[0]) @ sums(sides[1], spaces[1]).T
    ranks = [int((row > row[i]).sum()) for i, row in enumerate(cosines)]
    assert rows["AGG"]["cs-de"] == pytest.approx(np.mean([1 / (rank + 1) for rank in ranks]))
    assert rows["paper's AGG"]["cs-de"] == PAPER["AGG"]["cs-de"] == 0.374
    assert rows["BiCLA"]["cs-de"] is None  # nothing was trained on it
    assert rows["BiCLA"]["mean"] is None
    assert rows["BiCLA"]["de-en"] == pytest.approx(rows["AGG"]["de-en"])  # the stand-in is AGG
    assert rows["AGG"]["mean"] == pytest.approx(np.mean([rows["AGG"][pair] for pair in PAIRS]))


def test_p_is_the_paired_t_test(folders: tuple[Path, Path]) -> None:
    result = run(settings(folders, parts=("rankers",)), TRAINED)
    results = {name: np.array(item) for name, item in result.more["average precisions"]["rankers"]["cs-en"].items()}
    t, p = t_test(results["BiCLA"], results["AGG"])
    cells = table(result, "rankers p")["AGG"]["cs-en"]
    assert float(cells.removesuffix(" worse").lstrip("<")) == pytest.approx(p, abs=1e-4)
    assert cells.endswith(" worse") == (t < 0)
    assert table(result, "rankers p")["InAtt"]["cs-de"] is None


def ensembles_of(folders: tuple[Path, Path]) -> tuple[bicla.Result, dict[str, Any]]:
    """Of one trained ranker: the result, and the scores that its ensembles are made of."""
    trained = [ranker("BiCLA", "cs-en", 0.4)]
    work = bicla._Work(settings(folders), trained, lambda *_: None)
    facts: dict[str, Any] = {}
    work._ensembles = lambda pair, scores: facts.update(scores) or {}  # type: ignore[method-assign]
    work.measure(next(item for item in work.sets if item.pair == "cs-en"), bicla.Figures())
    return run(settings(folders, parts=("rankers", "ensembles")), trained), facts


def test_ensembles_against_plain_ranks(folders: tuple[Path, Path]) -> None:
    """Ranks with ties shared, weighted, summed; the leader decides between equals."""
    result, facts = ensembles_of(folders)
    ranks = {name: shared_ranks(facts[name]) for name in ("BiCLA", "AGG", "QLM")}
    for names, weights in ((("BiCLA", "AGG"), (0.7, 0.3)), (("BiCLA", "QLM", "AGG"), (0.6, 0.2, 0.2))):
        mixed = sum(weight * ranks[name] for name, weight in zip(names, weights, strict=True))
        diagonal = np.diag(mixed)[:, None]
        before = (mixed < diagonal - 1e-9).sum(1)
        equal = np.isclose(mixed, diagonal)
        leader, column = ranks["BiCLA"], np.arange(COUNT)
        mine = np.diag(leader)[:, None]
        first = (leader < mine) | ((leader == mine) & (column[None] < column[:, None]))
        expected = 1 / (1 + before + (equal & first).sum(1))
        name = f"{' + '.join(names)} {'/'.join(str(weight).lstrip('0') for weight in weights)}"
        assert table(result, "ensembles")[name]["cs-en"] == pytest.approx(expected.mean())
    means = {name: np.mean(v) for name, v in result.more["average precisions"]["ensembles"]["cs-en"].items()}
    for kind, normalise in (("ranks", False), ("scores", True)):
        best = max(mean for name, mean in means.items() if name.endswith(", scores") == normalise)
        assert table(result, f"best ensembles of {kind}")["cs-en"]["MAP"] == best
        assert table(result, "ensembles")[f"best of {kind}"]["cs-en"] == best
    assert table(result, "ensembles")["paper's best"]["cs-en"] == PAPER_BEST["cs-en"] == 0.859
    assert len(table(result, "ensembles")) == 2 * (3 * 3 + 3 * 3) + 4  # of three others: alone, in twos; and four rows


def test_ensembles_of_scores_are_sums_of_standardised_ones(folders: tuple[Path, Path]) -> None:
    result, facts = ensembles_of(folders)
    one, two = (np.asarray(facts[name], np.float64) for name in ("BiCLA", "TbT"))
    normal = [(x - x.mean(1, keepdims=True)) / np.where(x.std(1) > 0, x.std(1), 1)[:, None] for x in (one, two)]
    mixed = 0.7 * normal[0] + 0.3 * normal[1]
    diagonal = np.diag(mixed)[:, None]
    assert np.isclose(mixed, diagonal).sum() == COUNT  # no ties, or the leader would decide
    expected = np.mean(1 / (1 + (mixed > diagonal).sum(1)))
    assert table(result, "ensembles")["BiCLA + TbT .7/.3, scores"]["cs-en"] == pytest.approx(expected)


def shared_ranks(scores: Any) -> Any:
    return np.array([[(row > x).sum() + ((row == x).sum() - 1) / 2 for x in row] for row in scores]) + 1


def test_kinds_of_transfer() -> None:
    assert kind_of("de-en", "de-en") == ""
    assert kind_of("de-en", "cs-en") == "source"
    assert kind_of("cs-en", "cs-de") == "target"
    assert kind_of("hu-en", "cs-de") == "full"
    assert kind_of("cs-de", "de-en") == "full"  # German changes sides


def test_transfer_is_every_model_on_every_pair(folders: tuple[Path, Path]) -> None:
    result = run(settings(folders), TRAINED)
    rows, kinds = table(result, "zero-shot"), table(result, "zero-shot kinds")
    assert list(rows) == ["de-en", "cs-en"]
    assert set(rows["de-en"]) == {"trained on", *PAIRS}
    assert rows["cs-en"]["cs-en"] == table(result, "rankers")["BiCLA"]["cs-en"]
    assert kinds["cs-de"]["target, mean"] == rows["cs-en"]["cs-de"]
    assert kinds["cs-de"]["full, best"] == rows["de-en"]["cs-de"]
    assert kinds["cs-de"]["source, mean"] is None
    assert kinds["cs-de"]["supervised"] is None
    assert kinds["de-en"]["source, mean"] == rows["cs-en"]["de-en"]
    both = table(result, "zero-shot with AGG .9/.1")
    assert both["de-en"]["cs-de"] == pytest.approx(
        np.mean(result.more["average precisions"]["transfer with AGG"]["cs-de"]["de-en .9/.1"])
    )
    summary = table(result, "summary")
    assert summary["zero-shot, source: above the best ranker without training"]["of"] == 2
    assert summary["BiCLA above QLM, p < 0.01"]["of"] == 2


def test_without_trained_models_there_are_the_others(folders: tuple[Path, Path]) -> None:
    record = run(settings(folders)).as_dict()
    assert set(record) == {"rankers", "average precisions", "signature"}
    assert [row["ranker"] for row in record["rankers"]["rows"]][::2] == ["QLM", "AGG", "TbT"]


def test_the_encoder_has_rows(folders: tuple[Path, Path], model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bicla, "load_model", lambda *_: model)
    result = run(settings(folders, bundled=True, parts=("rankers",)))
    assert list(table(result, "rankers"))[-2:] == ["encoder", "encoder, CSLS"]
    assert result.signature["model"].startswith("model ")


def test_the_re_ranker_has_a_row(
    folders: tuple[Path, Path], model: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its average precisions are those of the lists that it re-ranks from both sides."""
    monkeypatch.setattr(bicla, "load_model", lambda *_: model)
    save_reranker(Network.start(model.head.start, model.head.bias), tmp_path, model.hash, {})
    options = settings(folders, bundled=True, reranker=tmp_path, parts=("rankers",))
    result = run(options)
    assert list(table(result, "rankers"))[-1] == "encoder, CSLS, re-ranker"
    assert result.signature["re-ranker"] == load_reranker(tmp_path).hash[:12]
    sentence_set = read_set(folders[0] / "sentence_bench" / "europarl", options.pairs[0])
    cosines = model.encode_sentences(sentence_set.queries) @ model.encode_sentences(sentence_set.documents).T
    expected = mates(
        Attention(model, load_reranker(tmp_path)),
        sentence_set.candidates(cosines),
        sentence_set.queries,
        sentence_set.documents,
    )
    results = result.more["average precisions"]["rankers"][options.pairs[0]]["encoder, CSLS, re-ranker"]
    assert results == pytest.approx(run_precisions(expected), abs=1e-6)
    save_reranker(Network.start(model.head.start, model.head.bias), tmp_path, "another", {})
    with pytest.raises(ModelMismatch, match="trained on the encoder another"):
        run(options)


def test_the_signature_names_what_was_used(folders: tuple[Path, Path]) -> None:
    digest = WordVectors.load(folders[1] / "en").facts["hash"]
    same = ranker("BiCLA", "de-en", vectors={"en": digest, "de": "another", "fr": "unused"})
    signature = run(settings(folders, pairs=("de-en",)), [same]).signature
    assert signature["BiCLA de-en"] == "ab" * 6
    assert signature["vectors en"] == f"{WORDS}x{DIM} {digest[:12]}"
    assert signature["trained with other vectors"] == "BiCLA de-en (de)"


def test_a_pair_that_is_named_twice_is_measured_once(folders: tuple[Path, Path]) -> None:
    once, twice = (run(settings(folders, pairs=("de-en",) * count)) for count in (1, 2))
    assert twice.as_dict() == once.as_dict()


def test_files_of_the_result(folders: tuple[Path, Path], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    result = run(settings(folders, out=tmp_path / "out"), TRAINED)
    assert [path.name for path in result.written] == ["bicla.json", "zero_shot.svg"]
    record = json.loads(result.written[0].read_text("utf-8"))
    assert len(record["average precisions"]["rankers"]["cs-de"]["TbT"]) == COUNT
    before = result.written[1].read_bytes()
    assert before.count(b"<!-- de-en -->") > 0
    report.draw(record, tmp_path / "out", "bicla")
    assert result.written[1].read_bytes() == before


def test_input_that_cannot_be_used_is_one_error(folders: tuple[Path, Path]) -> None:
    data = folders[0]
    place = data / "sentence_bench" / "europarl"
    with pytest.raises(InputError, match="two trained folders for BiCLA de-en"):
        run(settings(folders), [*TRAINED, ranker("BiCLA", "de-en")])
    with pytest.raises(InputError, match="BiCLA of de-en: 7"):
        run(settings(folders), [ranker("BiCLA", "de-en", dim=7)])
    available = ", ".join(pair for pair in bicla.PAIRS if pair in PAIRS)
    lacking = "europarl: lacks the test sets hu-en, hu-de; it has these sets of the paper"
    expected = f"{lacking}: {available}; choose with --pairs"
    with pytest.raises(InputError, match=expected):
        run(settings(folders, pairs=("de-en", "hu-en", "hu-de")))
    with pytest.raises(InputError, match="expected two languages such as de-en"):
        run(settings(folders, pairs=("deen",)))
    with pytest.raises(InputError, match="no language pair was given; expected pairs such as de-en"):
        run(settings(folders, pairs=()))
    with pytest.raises(ModelError, match="no word vectors here"):
        run(Settings(data, data, PAIRS, bundled=False))
    text = (place / "de-en.de").read_bytes()
    for content, error, says in (
        (text[: len(text) // 2], InputError, "the numbers must be equal"),
        (text.replace(b".", b"\xff", 1), ReadError, "not UTF-8"),
        (b"\n" + text, ReadError, "line 1: a blank line"),
        (b"", ReadError, "an empty file"),
    ):
        (place / "de-en.de").write_bytes(content)
        with pytest.raises(error, match=says):
            run(settings(folders))


def test_a_set_whose_file_is_missing_is_named(tmp_path: Path) -> None:
    (tmp_path / "de-en.de").write_text("Ein Haus.\n", "utf-8")
    with pytest.raises(InputError, match=r"de-en\.en: No such file or directory; expected the sentences of one"):
        read_set(tmp_path, "de-en")


def invoke(folders: tuple[Path, Path], *options: str) -> Any:
    arguments = ["--data", str(folders[0]), "--vectors", str(folders[1]), "--no-bundled", "--pairs", "de-en,cs-en"]
    return CliRunner().invoke(app, ["evaluate", "bicla", *arguments, "--threads", "1", *options])


def test_the_command_with_trained_folders(folders: tuple[Path, Path], tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from phrasemate.training.bicla import BiCLA, save_bicla
    from phrasemate.training.bicla import Settings as Sizes

    torch.manual_seed(0)
    for kind, pair in (("bicla", "de-en"), ("inatt", "de-en"), ("bicla", "cs-en")):
        place = tmp_path / "runs" / kind / pair / "model"
        place.mkdir(parents=True)
        (place.parent / "config.json").write_text(json.dumps({"method": "bicla"}))  # of the run, not of a model
        save_bicla(BiCLA(DIM, Sizes(hidden=3, cross=kind == "bicla")), place, {"data": {"pair": pair}})
    result = invoke(folders, "--runs", str(tmp_path / "runs"))
    assert result.exit_code == 0, result.output
    for title in ("Table 2: rankers", "Table 3: ensembles", "Table 4: zero-shot", "Table 5: zero-shot", "signature: "):
        assert title in result.stdout
    result = invoke(folders, "--runs", str(tmp_path / "runs" / "bicla"), "--json", "--only", "transfer", "--limit", "9")
    record = json.loads(result.stdout)
    assert [row["trained on"] for row in record["zero-shot"]["rows"]] == ["cs-en", "de-en"]
    assert record["signature"]["sentences"] == "9,9"
    assert "rankers" not in record
    save_bicla(BiCLA(DIM, Sizes(hidden=3)), place, {})
    result = invoke(folders, "--runs", str(tmp_path / "runs"))
    assert result.exit_code == 1
    assert "does not say which pair it was trained on" in " ".join(result.stderr.split())


def test_the_command_names_what_is_wrong(folders: tuple[Path, Path], tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "empty").mkdir()
    for options, code, says in (
        (["--only", "mining"], 2, "no part mining; there are rankers, ensembles, transfer"),
        (["--reranker", str(tmp_path)], 2, "--reranker applies to the bundled encoder; leave out --no-bundled"),
        (["--runs", str(tmp_path / "empty")], 1, "no run of 'phrasemate train bicla' in it"),
        (["--runs", str(tmp_path / "absent")], 1, "no such folder"),
    ):
        result = invoke(folders, *options)
        assert result.exit_code == code
        assert says in " ".join(result.stderr.replace("│", " ").split())
