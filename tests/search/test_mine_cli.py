"""``phrasemate mine``: options, output, what is said; with an encoder that knows the mates."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mine_fakes import NumberEncoder, english, german
from typer.testing import CliRunner

from phrasemate.cli import app
from phrasemate.mine.select import usual_threshold
from phrasemate.text.formats.bilingual import write_units
from phrasemate.text.formats.units import Side, Unit

Invoke = Callable[..., Any]
COMMON = ("--rerank", "none", "--lines", "sentence")
LANGUAGES = ("--source-lang", "de", "--target-lang", "en")  # a translation memory needs them


@pytest.fixture
def invoke(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Invoke:
    monkeypatch.chdir(tmp_path)
    Path("de.txt").write_text("".join(german(n) + "\n" for n in [*range(30), 3]), "utf-8")
    Path("en.txt").write_text("".join(english(n) + "\n" for n in range(20, 50)), "utf-8")
    Path("known.tsv").write_text("".join(f"{german(n)}\t{english(n)}\n" for n in range(100, 130)), "utf-8")
    monkeypatch.setattr("phrasemate.encode.load_model", lambda path=None, threads=None: NumberEncoder())

    def run(*arguments: str) -> Any:
        result = CliRunner().invoke(app, ["mine", *arguments], prog_name="phrasemate")
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


def test_mine(invoke: Invoke) -> None:
    result = invoke("de.txt", "en.txt", "-o", "pairs.tsv", *COMMON, "--source-lang", "de", "--target-lang", "en")
    assert result.exit_code == 0
    rows = [line.split("\t") for line in Path("pairs.tsv").read_text("utf-8").splitlines()]
    assert {(row[0], row[1]) for row in rows} == {(german(n), english(n)) for n in range(20, 30)}
    lines = result.stdout.splitlines()
    threshold = usual_threshold("regression", "none", 30, 30, lexicon=True)
    assert lines[0] == f"pairs.tsv: 10 pairs with a score of {threshold:.4f} or more"
    assert lines[1].strip().startswith("source: 31 sentences, 30 different ones; dropped: 0 of another script")
    assert "exact search, recall 1.000" in lines[3]
    assert sorted(path.name for path in Path().iterdir()) == ["de.txt", "en.txt", "known.tsv", "pairs.tsv"]


def test_a_model_of_ones_own_is_warned_of_before_it_encodes(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = NumberEncoder()
    encoder.path = Path("own")  # type: ignore[attr-defined]
    monkeypatch.setattr("phrasemate.encode.load_model", lambda path=None, threads=None: encoder)
    warning = "warning: the default threshold was fitted to the bundled model, not to "
    result = invoke("de.txt", "en.txt", "-o", "pairs.tsv", *COMMON)
    assert result.stderr.startswith(warning)
    assert result.stderr.count(warning) == 1
    result = invoke("de.txt", "en.txt", "-o", "pairs.jsonl", *COMMON, "--json")
    assert warning.removeprefix("warning: ") in json.loads(result.stdout)["remarks"][0]
    for option in (("--calibrate", "known.tsv"), ("--min-score", "0.5")):
        assert warning not in invoke("de.txt", "en.txt", "-o", "pairs.tsv", "--force", *COMMON, *option).stderr


def test_calibrated_and_json(invoke: Invoke) -> None:
    result = invoke("de.txt", "en.txt", "-o", "pairs.jsonl", *COMMON, "--calibrate", "known.tsv", "--json")
    facts = json.loads(result.stdout)
    assert (facts["pairs"], facts["calibration"]["known"], facts["calibration"]["found"]) == (10, 30, 30)
    assert facts["threshold"] == facts["calibration"]["threshold"]
    assert facts["source"] == {"read": 31, "long": 0, "foreign": 0, "distinct": 30}
    assert len(Path("pairs.jsonl").read_text("utf-8").splitlines()) == 10
    result = invoke("de.txt", "en.txt", "-o", "pairs.tmx", *COMMON, *LANGUAGES, "--calibrate", "known.tsv")
    assert "calibrated: 30 of 30 known pairs found" in result.stdout


def test_the_sides_of_known_mates_are_reported_by_their_languages(invoke: Invoke) -> None:
    pairs = [(english(n), german(n)) for n in range(100, 130)]
    write_units("known.tmx", [Unit((Side(en, "en-GB"), Side("x", "fr"), Side(de, "de"))) for en, de in pairs])
    value = ("de.txt", "en.txt", *COMMON, "--calibrate", "known.tmx")
    result = invoke(*value, "-o", "pairs.tsv", "--source-lang", "de-AT", "--target-lang", "en", "--json")
    calibration = json.loads(result.stdout)["calibration"]
    assert (calibration["known"], calibration["found"]) == (30, 30)
    result = invoke(*value, "-o", "x.tsv")
    assert "expected two; choose two with --source-lang and --target-lang" in result.stderr


def test_what_was_computed_goes_though_nobody_reads_the_report(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    def vanish(*_: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("phrasemate.cli.mine._say", vanish)
    monkeypatch.setattr("phrasemate.cli.shell._close_stdout", lambda: None)
    assert invoke("de.txt", "en.txt", "-o", "pairs.tsv", *COMMON).exit_code == 141
    assert sorted(path.name for path in Path().iterdir()) == ["de.txt", "en.txt", "known.tsv", "pairs.tsv"]


def test_a_work_folder_that_is_kept(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    assert invoke("de.txt", "en.txt", "-o", "a.tsv", *COMMON, "--work", "w").exit_code == 0
    stopped = NumberEncoder(stop_after=0)
    monkeypatch.setattr("phrasemate.encode.load_model", lambda path=None, threads=None: stopped)
    result = invoke("de.txt", "en.txt", "-o", "b.tsv", *COMMON, "--work", "w", "--min-score", "0.3", "--pairs", "all")
    assert result.exit_code == 0
    assert Path("w/work.json").exists()
    Path("de.txt").write_text("Etwas anderes.\n")
    result = invoke("de.txt", "en.txt", "-o", "c.tsv", *COMMON, "--work", "w")
    assert result.exit_code == 1
    assert "was started with source" in result.stderr


def test_stopped(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = NumberEncoder(stop_after=1)
    monkeypatch.setattr("phrasemate.encode.load_model", lambda path=None, threads=None: encoder)
    result = invoke("de.txt", "en.txt", "-o", "pairs.tsv", *COMMON)
    assert result.exit_code == 130
    assert "stopped; pairs.tsv.work keeps what is done; run the same command again" in result.stderr
    encoder.stop_after = 1
    assert invoke("de.txt", "en.txt", "-o", "pairs.tsv", *COMMON).exit_code == 0  # one side was there
    assert not Path("pairs.tsv.work").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (("none.txt", "en.txt", "-o", "x.tsv"), 1, "none.txt: no such file"),
        (("de.txt", "en.txt", "-o", "x.txt"), 1, "expected a name that ends in .jsonl, .tmx, .tsv"),
        (("de.txt", "en.txt", "-o", "."), 1, ".: expected a name that ends in .jsonl, .tmx, .tsv"),
        (("de.txt", "en.txt", "-o", "x.tmx"), 1, "needs the source language; give --source-lang"),
        (("de.txt", "en.txt", "-o", "x.tmx", "--source-lang", "de"), 1, "the target language; give --target-lang"),
        (("de.txt", "en.txt", "-o", "known.tsv"), 1, "already exists"),
        (("de.txt", "en.txt", "-o", "x.tsv", "--min-score", "1", "--calibrate", "known.tsv"), 2, "give one of them"),
        (("de.txt", "en.txt", "-o", "x.tsv", "--calibrate", "de.txt"), 1, "separated by tabs; fix it\n"),
        (("de.txt", "en.txt", "-o", "x.tsv", "--min-score", "nan"), 2, "expected a number"),
        (("de.txt", "en.txt", "-o", "x.tsv", "--copies", "0"), 1, "copies 0.0; expected a share above 0"),
        (("known.tsv", "en.txt", "-o", "./known.tsv", "--force"), 1, "known.tsv: would be read and written"),
        (
            ("de.txt", "en.txt", "-o", "known.tsv", "--force", "--calibrate", "known.tsv"),
            1,
            "would be read and written",
        ),
        (("de.txt", "en.txt", "-o", "x.tsv", "--length-ratio", "0.5"), 1, "length ratio 0.5; expected more than 1"),
        (("de.txt", "en.txt", "-o", "x.tsv", "--margin", "csls"), 1, "have no usual threshold"),
        (
            ("de.txt", "en.txt", "-o", "x.tsv", "--source-lang", "ru"),
            1,
            "source: none of 31 sentences can be used; check the text, --source-lang and --check",
        ),
        (("de.txt", "en.txt", "-o", "x.tsv", "--check", "language"), 1, "no language to check for"),
        (("de.txt", "en.txt", "-o", "x.tsv", "--engine", "approximate"), 1, "approximate search needs 20,000"),
    ],
)
def test_errors(invoke: Invoke, arguments: tuple[str, ...], code: int, expected: str) -> None:
    result = invoke(*arguments, *COMMON)
    assert result.exit_code == code
    assert expected in result.stderr


def test_a_file_without_known_pairs_is_not_passed_over(invoke: Invoke) -> None:
    Path("blank.tsv").write_text("\n", "utf-8")
    result = invoke("de.txt", "en.txt", "-o", "x.tsv", *COMMON, "--calibrate", "blank.tsv")
    assert (result.exit_code, result.stderr) == (
        1,
        "error: blank.tsv: no pair of sentences in it; give a file with a pair in each line\n",
    )


def test_text_that_is_none(invoke: Invoke) -> None:
    Path("bad.txt").write_bytes(b"Gr\xfc\xdfe aus K\xf6ln\n" * 3)
    result = invoke("bad.txt", "en.txt", "-o", "x.tsv", *COMMON)
    assert result.exit_code == 1
    assert "bad.txt, line 1: byte 0xFC at offset 2 is not UTF-8" in result.stderr
    Path("bad.txt").write_bytes(f"{german(20)}\n".encode() + b"\xff\n" + f"{german(21)}\n".encode())
    result = invoke("bad.txt", "en.txt", "-o", "x.tsv", *COMMON, "--on-error", "skip")
    assert "skipped: bad.txt, line 2" in result.stderr
    assert len(Path("x.tsv").read_text("utf-8").splitlines()) == 2


def test_what_was_passed_over_is_said_again_and_read_again(invoke: Invoke) -> None:
    Path("bad.txt").write_bytes(f"{german(20)}\n".encode() + b"\xff\n" + f"{german(21)}\n".encode())
    command = ("bad.txt", "en.txt", *COMMON, "--work", "work", "--json")
    first = json.loads(invoke(*command, "-o", "a.tsv", "--on-error", "skip").stdout)
    again = json.loads(invoke(*command, "-o", "b.tsv", "--on-error", "skip").stdout)
    assert [(item["file"], item["line"]) for item in first["skipped"]] == [("bad.txt", 2)]
    assert again["skipped"] == first["skipped"]  # though nothing is read any more
    result = invoke(*command, "-o", "c.tsv")
    assert (result.exit_code, "bad.txt, line 2: " in result.stderr) == (1, True)
    assert json.loads(invoke(*command, "-o", "d.tsv", "--on-error", "skip").stdout)["skipped"] == first["skipped"]


@pytest.mark.parametrize("option", ["-o", "--work"])
def test_nothing_is_written_among_what_is_read(invoke: Invoke, option: str) -> None:
    Path("german").mkdir()
    Path("de.txt").rename("german/de.txt")
    places = {"-o": "pairs.tsv", "--work": "work"} | {option: "german/here.tsv"}
    result = invoke("german", "en.txt", *COMMON, *(part for place in places.items() for part in place))
    assert result.exit_code == 1
    assert "lies in german, which is read; choose a place outside it" in result.stderr
    assert [path.name for path in Path("german").iterdir()] == ["de.txt"]


@pytest.mark.parametrize("sides", [("few.txt", "en.txt"), ("en.txt", "few.txt")])
def test_the_smaller_side_decides_about_the_engine(
    invoke: Invoke, sides: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each side is searched: codes have to be learned from both."""
    monkeypatch.setattr("phrasemate.mine.neighbours.LEAST_CODED", 25)
    Path("few.txt").write_text("".join(german(n) + "\n" for n in range(10)), "utf-8")
    result = invoke(*sides, "-o", "x.tsv", *COMMON, "--engine", "approximate")
    assert (result.exit_code, "10 vectors of length 32; approximate search needs 25" in result.stderr) == (1, True)
