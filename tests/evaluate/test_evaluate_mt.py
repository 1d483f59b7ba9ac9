"""``phrasemate evaluate mt``: tables of a folder of runs, files that do not fit, scores of others."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from phrasemate.cli import app
from phrasemate.errors import InputError
from phrasemate.evaluate.metrics import Estimate, stratified_test
from phrasemate.evaluate.mt import Settings, comet_scores, numbers, read_runs, run
from phrasemate.mt.scores import SEED, metric

REFERENCES = [f"The {what} stood near the river in {year}." for year in range(1990, 1996) for what in ("car", "bus")]


def record(number: int, text: str, *hints: str, failure: str = "") -> dict[str, object]:
    facts: dict[str, object] = {
        "number": number,
        "source": f"Satz {number}",
        "translation": text,
        "phrases": ["a", "b"],
    }
    facts["hints"] = [{"phrase": "a", "equivalents": [{"text": hint}]} for hint in hints]
    return facts | ({"failure": failure} if failure else {})


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two directions into English and one into German; phrases is better than plain."""
    for name in ("de-en", "cs-en", "en-de"):
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        (folder / "reference.txt").write_text("\n".join(REFERENCES) + "\n")
        plain = [text.replace("stood near", "was by") if n % 4 else "" for n, text in enumerate(REFERENCES)]
        (folder / "plain.txt").write_text("\n".join(plain) + "\n")
        hinted = [record(n, text.replace("near", "at"), "river", "lake") for n, text in enumerate(REFERENCES)]
        hinted[3] = record(3, "", "river", failure="the server said 500")
        (folder / "phrases.jsonl").write_text("".join(json.dumps(item) + "\n" for item in hinted))
    return tmp_path / "runs"


def test_scores_means_tests_and_hints(runs: Path) -> None:
    result = run(Settings(runs, samples=200))
    tables = {table.name: table for table in result.tables}
    assert list(tables) == ["BLEU", "chrF", "TER", "hints", "lines"]
    chrf = tables["chrF"]
    assert chrf.header == ("system", "cs-en", "p cs-en", "de-en", "p de-en", "en-de", "p en-de",
                           "mean X-en", "p mean X-en")  # fmt: skip
    phrases, plain = sorted(chrf.rows)
    outputs = [text.replace("near", "at") if n != 3 else "" for n, text in enumerate(REFERENCES)]
    expected = metric("chrF").corpus_score(outputs, [REFERENCES]).score
    assert isinstance(phrases[1], Estimate)
    assert phrases[1].value == pytest.approx(expected)
    assert phrases[-2].value == pytest.approx(expected)  # the mean of two that are equal
    assert phrases[-2].low < expected < phrases[-2].high
    assert phrases[2] < 0.05
    assert plain[2] is None  # it is the baseline
    hints = tables["hints"].rows[0]
    # 12 lines of 2 phrases; 11 with the hints river and lake, 1 with river, which is in all references and 11 outputs
    assert hints == ("cs-en", "phrases", 24, 11 * 2 + 1, 11 * 2 + 1, 12, 11, 11, 12 / 23, 11 / 23, 11 / 12)
    assert tables["lines"].rows[0] == ("cs-en", "phrases", 12, 1, 1, 0)
    assert "nrefs:1" in result.signature["BLEU"]


def test_one_direction_other_baseline_and_bertscore(runs: Path, tmp_path: Path) -> None:
    settings = Settings(runs / "de-en", against="phrases", bertscore=Path("bundled"), samples=100, out=tmp_path / "out")
    result = run(settings)
    tables = {table.name: table for table in result.tables}
    assert "mean X-en" not in tables["BLEU"].header
    scored = {row[0]: row for row in tables["BERTScore"].rows}
    assert scored["phrases"][1].value > scored["plain"][1].value  # plain left lines empty
    assert scored["phrases"][2] is None
    assert 0 < scored["plain"][2] <= 1
    written = json.loads((tmp_path / "out" / "mt.json").read_text())
    assert written["chrF"]["rows"][0]["system"] == "phrases"
    assert "model BERTScore" in result.signature


def test_a_system_that_did_not_translate_everything_has_gaps(runs: Path) -> None:
    (runs / "en-de" / "phrases.jsonl").unlink()
    chrf = next(table for table in run(Settings(runs, samples=100)).tables if table.name == "chrF")
    row = next(row for row in chrf.rows if row[0] == "phrases")
    assert row[chrf.header.index("en-de")] is None
    assert row[chrf.header.index("mean X-en")] is not None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: (d / "x.txt").write_text("one\n"), "x.txt: 1 translations, but "),
        (lambda d: (d / "x.jsonl").write_text('{"text": "y"}\n' * 12), "x.jsonl, line 1: no object with a translation"),
        (lambda d: (d / "plain.jsonl").write_text((d / "phrases.jsonl").read_text()), "two files of the system plain"),
        (lambda d: (d / "x.txt").write_bytes(b"\xff\n" * 12), "not UTF-8"),
    ],
)
def test_files_that_do_not_fit_are_named(runs: Path, change: object, message: str) -> None:
    change(runs / "de-en")  # type: ignore[operator]
    with pytest.raises(InputError) as error:
        read_runs(runs)
    assert message in str(error.value)


def test_folders_and_systems_that_are_not_there(runs: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        read_runs(tmp_path / "nowhere")
    with pytest.raises(InputError, match="no translations"):
        read_runs(runs, only=("cot",))
    with pytest.raises(InputError, match="not a system of all directions; expected one of phrases, plain"):
        run(Settings(runs, against="cot"))


def test_scores_that_were_made_elsewhere(runs: Path, tmp_path: Path) -> None:
    for name, score in (("plain", 0.5), ("phrases", 0.7)):
        lines = [f"x.txt\tSegment {n}\tscore: {score + n % 2 / 10:.4f}" for n in range(12)]
        (tmp_path / f"{name}.comet").write_text("\n".join([*lines, f"x.txt\tscore: {score:.4f}"]) + "\n")
    options = [f"--scores=COMET:de-en:{name}={tmp_path / f'{name}.comet'}" for name in ("plain", "phrases")]
    result = CliRunner().invoke(app, ["evaluate", "mt", str(runs), "--json", "--samples", "100", *options])
    assert result.exit_code == 0, result.output
    rows = {row["system"]: row for row in json.loads(result.stdout)["COMET"]["rows"]}
    assert rows["phrases"]["de-en"]["value"] == pytest.approx(0.75)
    assert rows["plain"]["de-en"]["value"] == pytest.approx(0.55)
    assert rows["phrases"]["p de-en"] < 0.01  # every line is .2 better


@pytest.mark.parametrize("key", ["COMET", "COMET:de-en:cot", "COMET:fr-en:plain"])
def test_scores_of_what_is_not_there_are_refused(runs: Path, tmp_path: Path, key: str) -> None:
    with pytest.raises(InputError, match="expected SCORE:DIRECTION:SYSTEM"):
        run(Settings(runs, scores={key: tmp_path / "x"}, samples=100))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--layer", "3"), "--layer applies to --bertscore"),
        (("--scores", "C:de-en:a=x", "--scores", "C:de-en:a=y"), "C:de-en:a is given twice"),
    ],
)
def test_options_that_would_be_passed_over_are_refused(runs: Path, options: tuple[str, ...], message: str) -> None:
    result = CliRunner().invoke(app, ["evaluate", "mt", str(runs), *options])
    assert result.exit_code == 2
    assert message in result.stderr


def test_numbers_one_a_line() -> None:
    assert numbers(["0.5", "", "1e-1"], 2, "x") == [0.5, 0.1]
    with pytest.raises(InputError, match="2 scores of 3 translations"):
        numbers(["1", "2"], 3, "x")
    with pytest.raises(InputError, match="does not end in a number"):
        numbers(["good"], 1, "x")


COMET = """
import sys
options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
rows = [open(options[flag], encoding="utf-8").read().splitlines() for flag in ("-s", "-t", "-r")]
for number, (source, output, reference) in enumerate(zip(*rows)):
    print(f"t.txt\\tSegment {number}\\tscore: {len(source) + len(output) / 10 + len(reference) / 100:.4f}")
print("t.txt\\tscore: 0.1")
"""


def test_comet_is_run_by_its_own_command(tmp_path: Path) -> None:
    script = tmp_path / "comet.py"
    script.write_text(COMET)
    command = f"{sys.executable} {script}"
    result = comet_scores(command, ["ab", "a"], ["one\ntwo", ""], ["x", "yz"])
    assert result == [2 + 0.7 + 0.01, 1 + 0 + 0.02]  # the line break within a text became a space
    with pytest.raises(InputError, match="no such command"):
        comet_scores(str(tmp_path / "nothing"), ["a"], ["b"], ["c"])
    script.write_text("import sys; sys.exit('no weights')")
    with pytest.raises(InputError, match=r"failed with exit code 1 \(no weights\)"):
        comet_scores(command, ["a"], ["b"], ["c"])


def test_every_system_has_its_mean_of_comet(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "comet.py").write_text(COMET)
    command = f"{sys.executable} {tmp_path / 'comet.py'}"
    result = run(Settings(runs, only=("phrases",), comet=command, samples=100))
    table = next(table for table in result.tables if table.name == "COMET")
    (row,) = table.rows
    outputs = [text.replace("near", "at") if n != 3 else "" for n, text in enumerate(REFERENCES)]
    lines = zip((f"Satz {n}" for n in range(12)), outputs, REFERENCES, strict=True)
    scores = [len(source) + len(output) / 10 + len(reference) / 100 for source, output, reference in lines]
    assert row[table.header.index("de-en")].value == pytest.approx(sum(scores) / 12)
    assert result.signature["comet"] == command


def test_systems_of_different_directions_cannot_be_compared(runs: Path) -> None:
    (runs / "de-en" / "plain.txt").unlink()
    for name in ("cs-en", "en-de"):
        (runs / name / "phrases.jsonl").unlink()
    with pytest.raises(InputError, match="no system has translated all directions; choose one folder, or systems by"):
        run(Settings(runs, samples=100))


def test_comet_needs_sources(runs: Path) -> None:
    with pytest.raises(InputError, match="no sources, which COMET needs"):
        run(Settings(runs, only=("plain",), comet="comet-score", samples=100))


def test_what_is_missing_is_named_before_anything_is_computed(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("phrasemate.evaluate.mt._metric_table", lambda *_: pytest.fail("computed"))
    (tmp_path / "scores").write_text("0.5\n")
    with pytest.raises(InputError, match="1 scores of 12 translations"):
        run(Settings(runs, scores={"X:de-en:plain": tmp_path / "scores"}))
    with pytest.raises(InputError, match="no sources, which COMET needs"):
        run(Settings(runs, only=("plain",), comet="comet-score"))


def test_the_mean_of_directions_is_tested_as_such(runs: Path, tmp_path: Path) -> None:
    """A small direction counts as much as a large one, in the mean and in its p."""
    texts = {"cs-en": 400, "de-en": 12}
    options = {}
    for name, count in texts.items():
        for file in ("reference.txt", "plain.txt"):
            (runs / name / file).write_text("a\n" * count)
        (runs / name / "phrases.jsonl").write_text("".join(json.dumps(record(n, "a")) + "\n" for n in range(count)))
        for system in ("plain", "phrases"):
            better = 0.2 * (name == "de-en" and system == "phrases")
            path = tmp_path / f"{name}.{system}"
            path.write_text("".join(f"{n % 7 / 7 + better + n % 3 / 9 * (system == 'plain')}\n" for n in range(count)))
            options[f"X:{name}:{system}"] = path
    shutil.rmtree(runs / "en-de")
    table = next(table for table in run(Settings(runs, scores=options, samples=50)).tables if table.name == "X")
    row = next(dict(zip(table.header, item, strict=True)) for item in table.rows if item[0] == "phrases")
    baseline = next(dict(zip(table.header, entry, strict=True)) for entry in table.rows if entry[0] == "plain")
    differences = [row[name].value - baseline[name].value for name in texts]
    assert row["mean X-en"].value - baseline["mean X-en"].value == pytest.approx(sum(differences) / 2)
    first, second = ([[float(x) for x in options[f"X:{n}:{s}"].read_text().split()] for n in texts]
                     for s in ("phrases", "plain"))  # fmt: skip
    assert row["p mean X-en"] == stratified_test(list(zip(first, second, strict=True)), samples=50, seed=SEED)


def test_the_use_of_terms(runs: Path, tmp_path: Path) -> None:
    """Of two terms in each of twelve sentences, one system uses both and the other one; one line is empty."""
    base = tmp_path / "base.tsv"
    base.write_text("de\ten\nFluss\triver\nAuto\tcar\nBus\tbus\n")
    folder = runs / "de-en"
    sources = [f"Das {what} stand nahe am Fluss." for _ in range(6) for what in ("Auto", "Bus")]
    for name, change in (("plain", ("river", "stream")), ("phrases", ("near", "at"))):
        (folder / f"{name}.txt").unlink(missing_ok=True)
        records = [
            {**record(number, text.replace(*change)), "source": source}
            for number, (text, source) in enumerate(zip(REFERENCES, sources, strict=True))
        ]
        if name == "phrases":
            records[3]["translation"] = ""
            for line, item in enumerate(records[:8]):
                start = sources[line].index("Fluss")
                equivalents = [{"text": "rivers" if line < 4 else "flow"}]
                item["hints"] = [{"phrase": "Fluss", "start": start, "end": start + 5, "equivalents": equivalents}]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(item) + "\n" for item in records))
    result = run(Settings(folder, terms=(base,), samples=200))
    table = next(table for table in result.tables if table.name == "terms")
    assert "24 in de-en" in table.note
    rows = {row[0]: row for row in table.rows}
    assert rows["plain"][1].value == pytest.approx(12 / 24)
    assert rows["phrases"][1].value == pytest.approx(22 / 24)
    assert rows["phrases"][2] < 0.05
    assert "terms" in result.signature
    of_hints = next(table for table in result.tables if table.name == "term hints")
    assert of_hints.rows == (
        ("de-en", "phrases", "right", 4, 3 / 4, 0.0),  # the fourth line is empty; the baseline says stream
        ("de-en", "phrases", "wrong", 4, 1.0, 0.0),
        ("de-en", "phrases", "none", 16, (3 + 8 + 4) / 16, 12 / 16),
    )
    base.write_text("de\ten\nKatze\tcat\n")
    with pytest.raises(InputError, match=r"no term of base\.tsv in source and reference"):
        run(Settings(folder, terms=(base,), samples=200))
    (folder / "phrases.jsonl").unlink()
    (folder / "plain.jsonl").unlink()
    (folder / "plain.txt").write_text("\n".join(REFERENCES) + "\n")
    second_result = CliRunner().invoke(app, ["evaluate", "mt", str(folder), "--terms", str(base), "--samples", "100"])
    assert "no sources, which --terms needs" in " ".join(second_result.stderr.split())
