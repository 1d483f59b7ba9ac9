"""The terms of a document in files, read back by the reader of term lists."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from phrasemate.errors import InputError
from phrasemate.results import Group
from phrasemate.terms import DocumentTerm, Occurrence, write_document_terms
from phrasemate.text.formats.tables import sheet_rows
from phrasemate.text.term_lists import read_terms
from phrasemate.text.text_file import Damage, TextFile
from phrasemate.types import Hit, Phrase


def place(text: str, part: str, line: int) -> Occurrence:
    at = text.index(part)
    return Occurrence(Phrase(text, at, at + len(part)), "de.txt", line, 0.9)


def group(text: str, score: float, *contexts: str, language: str = "en") -> Group:
    hits = (
        Hit(Phrase(context, context.index(text), context.index(text) + len(text)), score, "en.txt", 1, language)
        for context in contexts
    )
    return Group(text, score, len(contexts), tuple(hits), language=language)


PLACES = (place("Die Platte ist voll.", "Platte", 3), place("Keine Platte & kein <Netz>.", "Platte", 8))
TERMS = [
    DocumentTerm(
        "Platte",
        2.5,
        2,
        0.9,
        (("Platte", 2),),
        PLACES,
        (group("disk", 0.9, "The disk is full.", "A disk."), group("plate", 0.7, "A plate.", language="en-GB")),
        0.8,
    ),
    DocumentTerm("Netz", 1.25, 1, 0.7, (("Netz", 1),), PLACES[1:]),
]


def test_term_base(tmp_path: Path) -> None:
    write_document_terms(tmp_path / "o.tbx", TERMS, "de")
    read = list(read_terms(tmp_path / "o.tbx", "*"))
    assert [(term.id, term.language, term.text) for term in read] == [
        ("t1", "de", "Platte"),
        ("t1", "en", "disk"),
        ("t1", "en-GB", "plate"),
        ("t2", "de", "Netz"),
    ]
    assert read[0].contexts == ("Die Platte ist voll.", "Keine Platte & kein <Netz>.")
    assert read[1].contexts == ("The disk is full.", "A disk.")
    assert read[0].note == "2 times in the document, termhood 2.500"
    assert read[3].note == "1 time in the document, termhood 1.250"
    write_document_terms(tmp_path / "few.tbx", TERMS, "de", contexts=1)
    assert next(iter(read_terms(tmp_path / "few.tbx", "de"))).contexts == ("Die Platte ist voll.",)


@pytest.mark.parametrize("suffix", ["tsv", "csv", "xlsx"])
def test_a_term_without_a_translation_has_no_score(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"o.{suffix}"
    write_document_terms(path, TERMS, "de")
    if suffix == "xlsx":
        file = TextFile(path, str(path), False, "utf-8", Damage(skip=False))
        rows = [cells for _, _, cells in sheet_rows(file)]
    else:
        with path.open(encoding="utf-8", newline="") as stream:
            rows = list(csv.reader(stream, delimiter="\t" if suffix == "tsv" else ","))
    assert [row[:3] for row in rows] == [
        ["source", "target", "score"],
        ["Platte", "disk", "0.9"],
        ["Platte", "plate", "0.7"],
        ["Netz", "", ""],
    ]


def rows(path: Path) -> list[list[str]]:
    if path.suffix == ".xlsx":
        file = TextFile(path, str(path), False, "utf-8", Damage(skip=False))
        return [cells for _, _, cells in sheet_rows(file)]
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file, delimiter="\t" if path.suffix == ".tsv" else ","))


@pytest.mark.parametrize("suffix", [".tsv", ".csv", ".xlsx"])
def test_tables(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"o{suffix}"
    write_document_terms(path, TERMS, "de", "en")
    header, *result = rows(path)
    table = [dict(zip(header, row + [""] * (len(header) - len(row)), strict=True)) for row in result]
    assert [(row["source"], row["target"]) for row in table] == [("Platte", "disk"), ("Platte", "plate"), ("Netz", "")]
    assert [row["confidence"] for row in table] == ["0.8", "", ""]
    assert [row["rank"] for row in table] == ["1", "1", "2"]
    assert table[0]["places"] == "de.txt:3 | de.txt:8"
    assert table[0]["target_context"] == "The disk is full."
    assert (table[1]["source_language"], table[1]["target_language"]) == ("de", "en-GB")
    assert float(table[0]["termhood"]) == 2.5
    assert [term.text for term in read_terms(path, "de")] == ["Platte", "Platte", "Netz"]


@pytest.mark.parametrize("suffix", [".tsv", ".csv"])
def test_tables_without_sentences(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"o{suffix}"
    write_document_terms(path, TERMS, "de", contexts=0)
    header, *result = rows(path)
    assert {row[header.index(name)] for row in result for name in ("context", "target_context")} == {""}


def test_json_lines(tmp_path: Path) -> None:
    write_document_terms(tmp_path / "o.jsonl", TERMS, contexts=1)
    records = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text("utf-8").splitlines()]
    assert records == [term.as_dict(1) for term in TERMS]
    assert [len(record["places"]) for record in records] == [1, 1]
    assert records[0]["confidence"] == 0.8


def test_no_terms(tmp_path: Path) -> None:
    for name in ("o.tbx", "o.tsv", "o.jsonl"):
        write_document_terms(tmp_path / name, [])
        assert (tmp_path / name).exists()


def test_other_names_and_places_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"the name of the file must end in \.tbx"):
        write_document_terms(tmp_path / "o.pdf", TERMS)
    with pytest.raises(InputError, match="cannot be written"):
        write_document_terms(tmp_path / "none" / "o.jsonl", TERMS)
    assert list(tmp_path.iterdir()) == []
