from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from hostile import write
from hypothesis import given, settings
from hypothesis import strategies as st

from phrasemate.errors import ReadError
from phrasemate.text import Skipped, read
from phrasemate.text.damage import Damage
from phrasemate.text.formats.tables import csv_rows
from phrasemate.text.lines import TextFile


def rows_of(path: Path) -> list[tuple[int, list[str]]]:
    return list(csv_rows(TextFile(path, str(path), False, "utf-8", Damage(skip=False))))


def numbered(path: Path, **options: Any) -> list[tuple[int, str]]:
    return [(s.line, s.text) for document in read(path, **options) for s in document.sentences()]


def test_quoted_cells_and_their_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", 'de,en\n\n"Ja, ""gut"".\r\nZwei.",yes\r\n , \nDrei.,three')
    expected = [(1, ["de", "en"]), (3, ['Ja, "gut".\nZwei.', "yes"]), (6, ["Drei.", "three"])]
    assert rows_of(path) == expected
    assert numbered(path, column="de") == [(3, 'Ja, "gut".'), (3, "Zwei."), (6, "Drei.")]


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_the_separator_is_found(tmp_path: Path, separator: str) -> None:
    path = write(tmp_path / "a.csv", f'"a,b;c|d"{separator}e\nf{separator}g\n')
    assert rows_of(path) == [(1, ["a,b;c|d", "e"]), (2, ["f", "g"])]


@pytest.mark.parametrize(
    ("content", "line", "reason", "left"),
    [
        ('a,b\n"x" y,z\nc,d\n', 2, "expected after", [(1, "b"), (3, "d")]),
        ('a,b\nc,"never closed\nd\n', 2, "unexpected end of data", [(1, "b")]),
        ('a,b\nc,"' + "x" * 131_073 + '"\nd,e\n', 2, "field larger than field limit (131072)", [(1, "b"), (3, "e")]),
        ("a,b\nc\nd,e\n", 2, "1 column; expected at least 2", [(1, "b"), (3, "e")]),
    ],
)
def test_damaged_rows(tmp_path: Path, content: str, line: int, reason: str, left: list[tuple[int, str]]) -> None:
    path = write(tmp_path / "a.csv", content)
    with pytest.raises(ReadError) as caught:
        numbered(path, column=2)
    assert caught.value.line == line
    assert reason in caught.value.reason
    corpus = read(path, column=2, on_error="skip")
    assert [(s.line, s.text) for document in corpus for s in document.sentences()] == left
    assert corpus.skipped == [Skipped(str(path), line, caught.value.reason)]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.text(st.sampled_from('ab",;\n é😀'), max_size=6), min_size=2, max_size=3), max_size=5))
def test_the_same_as_the_csv_module(tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]]) -> None:
    text = io.StringIO()
    csv.writer(text).writerows([["first", "row", "x"], *rows])
    path = write(tmp_path_factory.getbasetemp() / "a.csv", text.getvalue())
    expected = [row for row in rows if any(cell.strip() for cell in row)]
    assert [cells for _, cells in rows_of(path)] == [["first", "row", "x"], *expected]
