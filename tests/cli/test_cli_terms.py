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
GERMAN = (
    "Die Netzwerkkarte braucht eine Firmware. Ohne Firmware startet die Netzwerkkarte nicht. "
    "Die Netzwerkkarte ist neu. Die Firmware fehlt noch.\n"
)


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model(threads=1)


@pytest.fixture(scope="module")
def idx(model: Model, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("terms") / "idx"
    with Index.create(folder, model) as index:
        index.add([Document.from_texts("a.txt", ["The network card needs firmware.", "A tree blossoms."])], lang="en")
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
    result = run("de.txt", "--source-lang", "de", "--limit", "4")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert [line.strip()[:3] for line in lines] == ["1. ", "2. ", "3. ", "4. "]
    counts = {line.strip()[3:].split("  ")[0]: line for line in lines}
    assert all("3 times" in counts[term] for term in ("Netzwerkkarte", "Firmware"))
    assert result.stderr == "found: 4 terms\n"


def test_with_translations(run: Invoke, idx: str) -> None:
    result = run("de.txt", "--source-lang", "de", "--index", idx, "--limit", "4", "-k", "1")
    lines = [line.strip() for line in result.stdout.splitlines()]
    answers = {term[3:].split("  ")[0]: answer for term, answer in zip(lines[::2], lines[1::2], strict=True)}
    assert answers["Netzwerkkarte"].startswith("network card 0.")
    assert answers["Firmware"].startswith("firmware 0.")
    assert result.stderr == "found: 4 terms, 4 with candidate translations\n"


def test_json(run: Invoke, idx: str) -> None:
    result = run(
        "-", "--index", idx, "--json", "--contexts", "1", "--min-count", "2", "--target-lang", "en", stdin=GERMAN
    )
    records = {record["text"]: record for record in map(json.loads, result.stdout.splitlines())}
    assert records["Netzwerkkarte"]["groups"][0]["text"] == "network card"
    assert len(records["Netzwerkkarte"]["places"]) == 1
    assert all(record["count"] >= 2 for record in records.values())


def test_without_sentences_translations_have_their_language(run: Invoke, idx: str) -> None:
    run("de.txt", "--source-lang", "de", "--index", idx, "-o", "o.tbx", "--contexts", "0", "-k", "1")
    assert {"network card", "firmware"} <= {term.text for term in read_terms("o.tbx", "en")}
    assert not any(term.contexts for term in read_terms("o.tbx", "*"))
    for line in run("de.txt", "--index", idx, "--json", "--contexts", "0").stdout.splitlines():
        term = json.loads(line)
        assert term["groups"]
        assert [term["places"], *(group["hits"] for group in term["groups"])] == [[]] * (1 + len(term["groups"]))


@pytest.mark.parametrize("name", ["o.tbx", "o.tsv", "o.csv", "o.xlsx"])
def test_files(run: Invoke, idx: str, name: str) -> None:
    result = run("de.txt", "--source-lang", "de", "--index", idx, "-o", name, "--limit", "3")
    assert result.stdout == f"{name}: 3 terms, 3 with candidate translations\n"
    assert {"Netzwerkkarte", "Firmware"} <= {term.text for term in read_terms(name, "de")}
    again = run("de.txt", "--source-lang", "de", "-o", name)
    assert again.exit_code == 1
    assert "already exists" in again.stderr
    forced = run("de.txt", "--source-lang", "de", "-o", name, "--force", "--json", "--limit", "0")
    assert json.loads(forced.stdout)["out"] == name


def test_a_folder_is_not_overwritten_by_a_file(run: Invoke) -> None:
    Path("o.tsv").mkdir()
    result = run("de.txt", "--source-lang", "de", "-o", "o.tsv", "--force")
    assert (result.exit_code, result.stderr) == (1, "error: o.tsv: is a folder; expected the name of a file\n")


def test_the_side_of_a_translation_memory(run: Invoke) -> None:
    from phrasemate.text import Side, Unit, write_units

    sides = (Side("Die Festplatte ist voll.", "de"), Side("The hard disk is full.", "en"))
    write_units("m.tmx", [Unit(sides)])
    records = [json.loads(line) for line in run("m.tmx", "--source-lang", "en", "--json").stdout.splitlines()]
    assert not any("Festplatte" in term["text"] for term in records)
    refused = run("m.tmx").stderr
    assert refused.endswith("texts in several languages (de, en); expected one; choose one with --source-lang\n")
    assert "--column NAME" in run("de.tsv", "--column", "none").stderr
    (disk,) = [term for term in records if term["text"] == "hard disk"]
    first = disk["groups"][0]
    assert (first["text"], first["source"], first["count"]) == ("Festplatte", "document", 1)
    assert first["hits"][0]["context"] == "Die Festplatte ist voll."


def test_known_terms_and_a_reference(run: Invoke) -> None:
    Path("known.txt").write_text("Netzwerkkarten\n", "utf-8")
    Path("general.txt").write_text("Ohne Netzwerkkarte braucht, startet sie. Die Netzwerkkarte! " * 50, "utf-8")
    result = run("de.txt", "--source-lang", "de", "--limit", "0", "--known", "known.txt", "--reference", "general.txt")
    terms = [line.strip().split(". ", 1)[1] for line in result.stdout.splitlines()]
    (firmware,) = [place for place, term in enumerate(terms) if term.startswith("Firmware  ")]
    (card,) = [place for place, term in enumerate(terms) if term.startswith("Netzwerkkarte  ")]
    assert firmware < card  # which general text has often
    assert (", known" in terms[firmware], ", known" in terms[card]) == (False, True)


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
    ("arguments", "message"),
    [
        (["none.txt"], "none.txt"),
        (["de.txt", "-o", "o.pdf"], "the name of the file must end in"),
        (["de.txt", "-o", "o.tbx"], "give --source-lang"),
        (["de.txt", "-o", "none/o.tsv"], "no such folder"),
        (["de.txt", "--index", "none"], "none"),
        (["de.txt", "de.tsv", "--column", "1", "-o", "./de.tsv", "--force"], "de.tsv: would be read and written"),
    ],
)
def test_errors_are_one_line(run: Invoke, arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_dictionary_is_asked(run: Invoke, idx: str) -> None:
    Path("mine.tsv").write_text("de\ten\nNetzwerkkarte\tfirmware\n", "utf-8")
    result = run("-", "--index", idx, "--source-lang", "de", "--dictionary", "mine.tsv", "--json", stdin=GERMAN)
    records = {record["text"]: record for record in map(json.loads, result.stdout.splitlines())}
    sources = {group["text"].casefold(): group.get("source") for group in records["Netzwerkkarte"]["groups"]}
    assert sources["firmware"] == "mine.tsv"


@pytest.mark.parametrize(
    "options", [["--quick"], ["--translations", "5"], ["--examples", "4"], ["--dictionary", "mine.tsv"]]
)
def test_what_needs_an_index(run: Invoke, options: list[str]) -> None:
    result = run("de.txt", *options)
    assert result.exit_code == 2
    assert f"{options[0]} needs --index" in result.stderr


def test_filters_need_an_index(run: Invoke) -> None:
    result = run("de.txt", "--target-lang", "en")
    assert result.exit_code == 2
    assert "give --index" in result.stderr


def test_an_unknown_language_of_the_index(run: Invoke, idx: str) -> None:
    result = run("de.txt", "--index", idx, "--target-lang", "fr")
    assert (result.exit_code, "has no language 'fr'" in result.stderr) == (1, True)
