"""``phrasemate terms``: a document in, terms out, errors in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from phrasemate.encode import Model, load_model
from phrasemate.index import Index
from phrasemate.text.term_lists import read_terms
from phrasemate.types import Document

Invoke = Callable[..., Any]
GERMAN = "Die Netzwerkkarte braucht eine Firmware. Ohne Firmware startet die Netzwerkkarte nicht.\n"


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model(threads=1)


@pytest.fixture(scope="module")
def idx(model: Model, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("terms") / "idx"
    with Index.create(folder, model) as made:
        made.add([Document.from_texts("a.txt", ["The network card needs firmware.", "A tree blossoms."])], lang="en")
    return str(folder)


@pytest.fixture
def run(invoke: Invoke, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    """Runs the command in a folder with a document; the model is loaded once for all."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("phrasemate.encode.load_model", lambda path=None, threads=None: model)
    for name in ("de.txt", "de.tsv"):
        Path(name).write_text(GERMAN, "utf-8")
    return lambda *arguments, **more: invoke("terms", *arguments, **more)


def test_the_terms_alone(run: Invoke) -> None:
    done = run("de.txt", "--lang", "de", "--most", "2")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert [line.strip().split("  ")[0] for line in lines] == ["1. Firmware", "2. Netzwerkkarte"]
    assert all("2 times" in line for line in lines)
    assert done.stderr == "found: 2 terms\n"


def test_with_translations(run: Invoke, idx: str) -> None:
    done = run("de.txt", "--lang", "de", "--index", idx, "--most", "2", "--k", "1")
    first, second, third, fourth = done.stdout.splitlines()
    assert (first.strip()[:11], third.strip()[:16]) == ("1. Firmware", "2. Netzwerkkarte")
    assert second.strip().startswith("firmware 0.")
    assert fourth.strip().startswith("network card 0.")
    assert done.stderr == "found: 2 terms, 2 with candidate translations\n"


def test_json(run: Invoke, idx: str) -> None:
    done = run("-", "--index", idx, "--json", "--contexts", "1", "--least", "2", "--language", "en", stdin=GERMAN)
    records = {record["text"]: record for record in map(json.loads, done.stdout.splitlines())}
    assert records["Netzwerkkarte"]["groups"][0]["text"] == "network card"
    assert len(records["Netzwerkkarte"]["places"]) == 1
    assert all(record["count"] >= 2 for record in records.values())


def test_without_sentences_translations_have_their_language(run: Invoke, idx: str) -> None:
    run("de.txt", "--lang", "de", "--index", idx, "-o", "o.tbx", "--contexts", "0", "-k", "1")
    assert {"network card", "firmware"} <= {term.text for term in read_terms("o.tbx", "en")}
    assert not any(term.contexts for term in read_terms("o.tbx", "*"))
    for line in run("de.txt", "--index", idx, "--json", "--contexts", "0").stdout.splitlines():
        term = json.loads(line)
        assert term["groups"]
        assert [term["places"], *(group["hits"] for group in term["groups"])] == [[]] * (1 + len(term["groups"]))


@pytest.mark.parametrize("name", ["o.tbx", "o.tsv", "o.csv", "o.xlsx"])
def test_files(run: Invoke, idx: str, name: str) -> None:
    done = run("de.txt", "--lang", "de", "--index", idx, "-o", name, "--most", "3")
    assert done.stdout == f"{name}: 3 terms, 3 with candidate translations\n"
    assert {"Netzwerkkarte", "Firmware"} <= {term.text for term in read_terms(name, "de")}
    again = run("de.txt", "--lang", "de", "-o", name)
    assert again.exit_code == 1
    assert "is there already" in again.stderr
    forced = run("de.txt", "--lang", "de", "-o", name, "--force", "--json", "--most", "0")
    assert json.loads(forced.stdout)["out"] == name


def test_a_folder_is_not_written_over_by_a_file(run: Invoke) -> None:
    Path("o.tsv").mkdir()
    done = run("de.txt", "--lang", "de", "-o", "o.tsv", "--force")
    assert (done.exit_code, done.stderr) == (1, "error: o.tsv: is a folder; expected the name of a file\n")


def test_the_side_of_a_translation_memory(run: Invoke) -> None:
    from phrasemate.text import Side, Unit, write_units

    sides = (Side("Die Festplatte ist voll.", "de"), Side("The hard disk is full.", "en"))
    write_units("m.tmx", [Unit(sides)])
    found = run("m.tmx", "--lang", "en", "--json").stdout
    assert "hard disk" in found
    assert "Festplatte" not in found


def test_how_the_document_is_read(run: Invoke) -> None:
    Path("l.txt").write_bytes("Die Festplatte läuft. Die Festplatte ist voll.\n".encode("latin-1"))
    Path("b.jsonl").write_text(json.dumps({"body": "Die Festplatte ist voll."}) + "\n")
    assert "--encoding latin-1" in run("l.txt").stderr
    assert "Festplatte" in run("l.txt", "--encoding", "latin-1").stdout
    assert "choose one with --text-field" in run("b.jsonl").stderr
    assert "Festplatte" in run("b.jsonl", "--text-field", "body").stdout
    split, whole = (
        json.loads(run("l.txt", "--encoding", "latin-1", "--json", *more).stdout.splitlines()[0])["places"][0]
        for more in ((), ("--lines", "sentence"))
    )
    assert len(split["context"]) < len(whole["context"])  # a sentence of the line, the line as one


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["none.txt"], "none.txt"),
        (["de.txt", "-o", "o.pdf"], "no format by its name"),
        (["de.txt", "-o", "o.tbx"], "give --lang"),
        (["de.txt", "-o", "none/o.tsv"], "no such folder"),
        (["de.txt", "--index", "none"], "none"),
        (["de.txt", "de.tsv", "--column", "1", "-o", "./de.tsv", "--force"], "de.tsv: is read, too"),
    ],
)
def test_errors_are_one_line(run: Invoke, arguments: list[str], said: str) -> None:
    done = run(*arguments)
    assert done.exit_code == 1
    assert done.stderr.startswith("error: ")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("options", [["--quick"], ["-k", "5"], ["--examples", "4"]])
def test_what_needs_an_index(run: Invoke, options: list[str]) -> None:
    result = run("de.txt", *options)
    assert result.exit_code == 2
    assert f"{options[0]} needs --index" in result.stderr


def test_filters_need_an_index(run: Invoke) -> None:
    done = run("de.txt", "--language", "en")
    assert done.exit_code == 2
    assert "give --index" in done.stderr


def test_an_unknown_language_of_the_index(run: Invoke, idx: str) -> None:
    done = run("de.txt", "--index", idx, "--language", "fr")
    assert (done.exit_code, "has no language 'fr'" in done.stderr) == (1, True)
