"""Workbooks that are written here and read again, and columns that not all of their sheets have."""

from __future__ import annotations

from pathlib import Path

import openpyxl
import pytest

from phrasemate.text import read
from phrasemate.text.formats.tables import sheet_rows, write_sheet
from phrasemate.text.text_file import Damage, TextFile


@pytest.mark.parametrize(
    "text", ["_x0041_x0042_", "_x005F_x0041_", "_x0041\x01", "_x0041__x0042_", "\x01x0041_", "_x0041", "__x005f__"]
)
def test_what_looks_like_an_escape_is_text(tmp_path: Path, text: str) -> None:
    write_sheet(tmp_path / "a.xlsx", [[text]])
    file = TextFile(tmp_path / "a.xlsx", "a.xlsx", False, "utf-8", Damage(skip=False))
    assert list(sheet_rows(file)) == [("terms", 1, [text])]


def test_a_sheet_without_the_column_ends_the_workbook(tmp_path: Path) -> None:
    book = openpyxl.Workbook(write_only=True)
    for title, names in {"A": ["en"], "B": ["de"], "C": ["en"], "D": ["fr"]}.items():
        sheet = book.create_sheet(title)
        sheet.append(names)
        sheet.append([f"In {title}."])
    book.save(tmp_path / "a.xlsx")
    corpus = read(tmp_path / "a.xlsx", column="en", on_error="skip")
    assert [s.text for document in corpus for s in document.sentences()] == ["In A."]
    (skipped,) = corpus.skipped
    assert (skipped.whole, skipped.reason) == (True, "no column 'en' in the sheet 'B'; the columns here are 'de'")


def test_each_sheet_has_its_own_column_with_the_text(tmp_path: Path) -> None:
    workbook = openpyxl.Workbook()
    workbook.active.append([1, "One."])
    sheet = workbook.create_sheet("B")
    sheet.append(["Text", "id"])
    sheet.append(["Two.", 2])
    workbook.save(tmp_path / "a.xlsx")
    sentences = [s for document in read(tmp_path / "a.xlsx") for s in document.sentences()]
    assert [(s.line, s.text) for s in sentences] == [(1, "One."), (2, "Two.")]
