"""``phrasemate dataset xpr``: options handed on, the table, errors in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from phrasemate.cli import app
from phrasemate.dataset import read_dataset
from phrasemate.text import Side, Unit, write_units

Invoke = Callable[..., Any]
TEXTS = ("--source-text", "de.txt", "--target-text", "both.tsv", "--target-column", "2")


@pytest.fixture
def invoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    """Runs a command in a folder with phrase pairs and texts."""
    monkeypatch.chdir(tmp_path)
    Path("pairs.tsv").write_text("menu\tSpeisekarte\ntable\tTisch\nrobot\tRobot\nMay\tMai\nfork\tGabel\n", "utf-8")
    Path("de.txt").write_text(
        "Die Speisekarte ist heute kurz. Der Tisch steht am Fenster.\nEin Tisch für zwei.\n", "utf-8"
    )
    Path("both.tsv").write_text("x\tThe menu is short today.\ny\tThe table is near the window.\n", "utf-8")

    def run(*arguments: str) -> Any:
        result = CliRunner().invoke(app, ["dataset", "xpr", *arguments], prog_name="phrasemate")
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


def test_the_table(invoke: Invoke) -> None:
    result = invoke("pairs.tsv", "-o", "out", "--langs", "de,en", "--columns", "2,1", *TEXTS)
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].startswith("de-en: 2 of 5 pairs (train ")
    assert lines[1:4] == [
        "  left out         1: ROUGE-L is above the threshold in both directions",
        "  left out         1: a year, a date, a month",
        "  left out         1: a side has too few example sentences",
    ]
    assert lines[5].split() == ["of", "a", "phrase", "of", "a", "sentence"]
    assert lines[6].split() == ["language", "phrases", "words", "characters", "examples", "words", "characters"]
    assert lines[7].split() == ["de", "2", "1.0", "8.0", "1.5", "4.7", "25.7"]  # (11 + 5) / 2, (5 + 5 + 4) / 3, 77 / 3
    assert lines[8].split() == ["en", "2", "1.0", "4.5", "1.0", "5.5", "26.5"]


def test_texts_with_a_field_of_another_name(invoke: Invoke) -> None:
    rows = [{"body": "The menu is short today."}, {"body": "The table is near the window."}]
    Path("en.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    command = ("pairs.tsv", "--langs", "de,en", "--columns", "2,1", *TEXTS[:3], "en.jsonl")
    without = invoke(*command, "-o", "no")
    assert without.exit_code == 1
    assert "choose one with --text-field" in without.stderr
    result = invoke(*command, "-o", "out", "--text-field", "body", "--json")
    assert result.exit_code == 0, result.stderr
    results = [one for split in ("train", "dev", "test") for one in read_dataset("out", "de-en", split)]
    table = {one.source: one.target_examples for one in results}
    assert table.keys() == {"Speisekarte", "Tisch"}
    assert "table is near" in str(table["Tisch"])


def test_what_is_passed_over_is_listed(invoke: Invoke) -> None:
    with Path("de.txt").open("ab") as file:
        file.write(b"Gr\xfc\xdfe.\n")
    command = (
        "pairs.tsv",
        "--langs",
        "de,en",
        "--columns",
        "2,1",
        *TEXTS,
        "--on-error",
        "skip",
        "--force",
        "-o",
        "out",
    )
    for _ in range(2):
        result = invoke(*command, "--json")
        assert result.stderr.startswith("skipped: de.txt, line 3: byte 0xFC at offset ")
        (item,) = json.loads(result.stdout)["skipped"]
        assert (item["file"], item["line"], item["whole"]) == ("de.txt", 3, False)


def test_json_and_options(invoke: Invoke) -> None:
    options = (
        "--examples",
        "1",
        "--extra",
        "3",
        "--copies",
        "1",
        "--keep-times",
        "--min-examples",
        "0",
        "--seed",
        "4",
        "--json",
    )
    result = invoke("pairs.tsv", "-o", "out", "--langs", "de,en", "--columns", "2,1", *TEXTS, *options)
    facts = json.loads(result.stdout)
    assert (facts["pair"], facts["given"], sum(facts["splits"].values()), facts["removed"]) == ("de-en", 5, 5, {})
    results = [one for split in facts["splits"] for one in read_dataset("out", "de-en", split)]
    assert {one.source: len(one.source_examples) for one in results} == {
        "Speisekarte": 1, "Tisch": 1, "Robot": 0, "Mai": 0, "Gabel": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (("pairs.tsv", "-o", "out", "--langs", "de", *TEXTS), 2, "--langs de: expected two language codes"),
        (("pairs.tsv", "-o", "out", "--langs", "de,en", "--columns", "a,b", *TEXTS), 2, "expected two numbers"),
        (("pairs.tsv", "-o", "out", "--langs", "de,en", "--columns", "1," + "9" * 5000, *TEXTS), 2, "two numbers"),
        (("-o", "out", "--langs", "de,en", *TEXTS), 1, "error: expected either a table of phrase pairs or a dump"),
        (
            ("pairs.tsv", "-o", "out", "--langs", "de,en", *TEXTS, "--min-examples", "40"),
            1,
            "error: examples=32, least=40",
        ),
        (("none.tsv", "-o", "out", "--langs", "de,en", *TEXTS), 1, "error: none.tsv: no such file; check the path"),
        (("pairs.tsv", "-o", "out", "--langs", "de,qqq", *TEXTS), 1, "error: language 'qqq': the CLDR knows no such"),
    ],
)
def test_errors(invoke: Invoke, arguments: tuple[str, ...], code: int, expected: str) -> None:
    result = invoke(*arguments)
    assert result.exit_code == code
    assert expected in result.stderr
    assert code == 2 or result.stderr.count("\n") == 1


def test_errors_of_the_texts_name_the_options_of_the_command(invoke: Invoke) -> None:
    write_units("m.tmx", [Unit((Side("Haus", "nl"), Side("maison", "fr")))])
    options = ("--source-text", "m.tmx", *TEXTS[2:])
    result = invoke("pairs.tsv", "-o", "out", "--langs", "de,en", *options)
    assert result.stderr.endswith("the languages here are fr, nl; choose one of them with --langs\n")


def test_stopped(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("phrasemate.dataset.build_files", stop)
    result = invoke("pairs.tsv", "-o", "out", "--langs", "de,en", *TEXTS)
    assert result.exit_code == 130
    assert "stopped; out/.work keeps what was read; run the same command again" in result.stderr
