from __future__ import annotations

import csv
import io
import time
from pathlib import Path
from typing import Any

import pytest
from hostile import write, xlsx
from hypothesis import given, settings
from hypothesis import strategies as st

from phrasemate.errors import ReadError
from phrasemate.text import SkippedInput, read, read_terms
from phrasemate.text.formats.tables import HEADER_ROWS, csv_rows, sheet_rows
from phrasemate.text.text_file import Damage, TextFile


def rows_of(path: Path) -> list[tuple[int, list[str]]]:
    return list(csv_rows(TextFile(path, str(path), False, "utf-8", Damage(skip=False))))


def numbered(path: Path, **options: Any) -> list[tuple[int, str]]:
    return [(s.line, s.text) for document in read(path, **options) for s in document.sentences()]


def skipping(path: Path, **options: Any) -> tuple[list[tuple[int, str]], list[SkippedInput]]:
    """What is read, and what is passed over."""
    corpus = read(path, on_error="skip", **options)
    return [(s.line, s.text) for document in corpus for s in document.sentences()], corpus.skipped


def test_quoted_cells_and_their_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", 'de,en\n\n"Ja, ""gut"".\r\nZwei.",yes\r\n , \nDrei.,three')
    expected = [(1, ["de", "en"]), (3, ['Ja, "gut".\nZwei.', "yes"]), (6, ["Drei.", "three"])]
    assert rows_of(path) == expected
    assert numbered(path, column="de") == [(3, 'Ja, "gut".'), (3, "Zwei."), (6, "Drei.")]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp1252"])
def test_lines_may_end_in_carriage_returns(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "a.csv").write_bytes('de,en\r"Ja, gut.\rÄtzend.",yes\rDrei.,three\r'.encode(encoding))
    expected = [(2, "Ja, gut."), (2, "Ätzend."), (4, "Drei.")]
    assert numbered(tmp_path / "a.csv", column="de", encoding=encoding) == expected


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.txt", "One line.\n\nAnother line.\n", [(1, "One line."), (3, "Another line.")]),
        ("a.jsonl", '{"text": "One line."}\n{"text": "Another line."}\n', [(1, "One line."), (2, "Another line.")]),
        ("a.srt", "1\n00:00:01,000 --> 00:00:02,000\nOne line.\n", [(1, "One line.")]),
    ],
)
def test_carriage_returns_are_line_feeds(
    tmp_path: Path, name: str, content: str, expected: list[tuple[int, str]]
) -> None:
    (tmp_path / name).write_bytes(content.replace("\n", "\r").encode())
    assert numbered(tmp_path / name) == expected


def test_a_row_with_a_stray_carriage_return_is_one_plain_error(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match=r"no row of a table \(new-line character seen in unquoted field\);"):
        rows_of(write(tmp_path / "a.csv", "de,en\na\rb,c\n"))


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_the_separator_is_found(tmp_path: Path, separator: str) -> None:
    path = write(tmp_path / "a.csv", f'"a,b;c|d"{separator}e\nf{separator}g\n')
    assert rows_of(path) == [(1, ["a,b;c|d", "e"]), (2, ["f", "g"])]


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        ("No;Text, German, long\n1;Yes, no.\n2;So.\n", [["No", "Text, German, long"], ["1", "Yes, no."], ["2", "So."]]),
        ("1,5;2,5;One.\n2,5;3,5;Two.\n", [["1,5", "2,5", "One."], ["2,5", "3,5", "Two."]]),
        ("Bank, f;bench, seat\nHaus, n;house\n", [["Bank, f", "bench, seat"], ["Haus, n", "house"]]),
        ("Text\nYes, of course.\nNo; never.\n", [["Text"], ["Yes, of course."], ["No; never."]]),
        ('1,"One; two.",x\n', [["1", "One; two.", "x"]]),
        ('x,"a;\nb"\ny,c\n', [["x", "a;\nb"], ["y", "c"]]),
    ],
)
def test_the_separator_gives_all_rows_the_same_cells(tmp_path: Path, content: str, rows: list[list[str]]) -> None:
    assert [cells for _, cells in rows_of(write(tmp_path / "a.csv", content))] == rows


def test_the_rows_before_a_damaged_one_are_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "One,x\nTwo,y\nbad\0,z\n")
    rows = csv_rows(TextFile(path, str(path), False, "utf-8", Damage(skip=False)))
    assert [next(rows)[1][0], next(rows)[1][0]] == ["One", "Two"]
    with pytest.raises(ReadError, match="line 3"):
        next(rows)


@pytest.mark.parametrize(
    ("content", "line", "reason", "left"),
    [
        ('a,b\n"x" y,z\nc,d\n', 2, "expected after", [(1, "b"), (3, "d")]),
        ('a,b\nc,"never closed\nd,e\n', 2, "unexpected end of data", [(1, "b"), (3, "e")]),
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
    assert corpus.skipped == [SkippedInput(str(path), line, caught.value.reason)]


def test_a_quotation_mark_that_is_never_closed_costs_one_row(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", 'a,b\nc,"never closed\n' + "One word,x\n" * 10_900 + 'Last,"y"\nEnd,z\n')
    document, skipped = skipping(path)
    assert len(document) == 1 + 10_900 + 2
    assert (document[1], document[-1]) == ((3, "One word"), (10_904, "End"))
    assert [item.line for item in skipped] == [2]


def test_lines_are_not_read_again_and_again(tmp_path: Path) -> None:
    """Each line opens a quotation mark for one that begins there, and for no other."""
    path = write(tmp_path / "a.csv", 'a","c\n' * 20_000)
    started = time.process_time()
    document, skipped = skipping(path)
    assert time.process_time() - started < 3
    assert document == []
    assert {item.line for item in skipped} == set(range(1, 20_001))


def test_a_row_has_an_end(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "x,y\n" + 'a","c\n' * 180_000 + 'z","\n')
    with pytest.raises(ReadError, match=r"line 2: no row of a table \(more than 1,000,000 characters\)"):
        rows_of(path)


def test_the_lines_after_a_damaged_one_keep_their_numbers(tmp_path: Path) -> None:
    document, skipped = skipping(write(tmp_path / "a.csv", "One,x\nbad\0,x\nThree,x\n\nFive,x\n"))
    assert document == [(1, "One"), (3, "Three"), (5, "Five")]
    assert [item.line for item in skipped] == [2]


@pytest.mark.parametrize("first", ["sep=;", "SEP=;", "\ufeffsep=; "])
def test_a_separator_that_the_first_line_names(tmp_path: Path, first: str) -> None:
    assert rows_of(write(tmp_path / "a.csv", f"{first}\na,b;c\n")) == [(2, ["a,b", "c"])]
    assert rows_of(write(tmp_path / "a.csv", "sep=one;c\n")) == [(1, ["sep=one", "c"])]


def test_a_column_that_no_workbook_has(tmp_path: Path) -> None:
    path = xlsx(tmp_path / "a.xlsx", '<row><c t="str"><v>One.</v></c></row>')
    with pytest.raises(ReadError, match="column 300,000,000 of a workbook; expected at most 1,000; move it"):
        numbered(path, column=300_000_000)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "Price list, 2024\n\nmade by us\nde;en\nHaus, klein;house\nBaum;tree\n"),
        ("a.csv", "Words in de;;\nno;de;en\n1;Haus, klein;house\n2;Baum;tree\n"),
        ("a.tsv", "Price list\nno\tde\n1\tHaus, klein\n2\tBaum\n"),
    ],
)
def test_a_title_may_stand_above_the_names_of_columns(tmp_path: Path, name: str, content: str) -> None:
    path = write(tmp_path / name, content)
    assert [text for _, text in numbered(path, column="de")] == ["Haus, klein", "Baum"]
    assert [term.text for term in read_terms(path, column="de")] == ["Haus, klein", "Baum"]


def test_a_title_may_stand_above_the_names_in_a_sheet(tmp_path: Path) -> None:
    rows = [["Words"], ["no", "de"], ["1", "Haus"], ["2", "Baum"]]
    cells = ["".join(f'<c t="str"><v>{text}</v></c>' for text in row) for row in rows]
    path = xlsx(tmp_path / "a.xlsx", "".join(f"<row>{row}</row>" for row in cells))
    assert numbered(path, column="de") == [(3, "Haus"), (4, "Baum")]
    assert [term.text for term in read_terms(path, column="de")] == ["Haus", "Baum"]


def test_the_names_of_columns_stand_in_the_first_rows(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "title\n" * HEADER_ROWS + "no\tde\n1\tHaus\n")
    for read_column in (numbered, read_terms):
        with pytest.raises(ReadError, match="line 1: no column 'de'; the columns here are 'title'"):
            list(read_column(path, column="de"))  # type: ignore[operator]


@pytest.mark.parametrize("name", ["a\0.xlsx", "a\0.docx", "\ud800.xlsx"])
def test_a_path_that_no_system_has(name: str) -> None:
    with pytest.raises(ReadError, match=r"cannot be read \((embedded null byte|.*surrogates not allowed)\); check"):
        list(sheet_rows(TextFile(Path(name), name, False, "utf-8", Damage(skip=False))))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.text(st.sampled_from('ab",;\n é😀'), max_size=6), min_size=2, max_size=3), max_size=5))
def test_the_same_as_the_csv_module(tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]]) -> None:
    text = io.StringIO()
    csv.writer(text).writerows([["first", "row", "x"], *rows])
    path = write(tmp_path_factory.getbasetemp() / "a.csv", text.getvalue())
    expected = [row for row in rows if any(cell.strip() for cell in row)]
    assert [cells for _, cells in rows_of(path)] == [["first", "row", "x"], *expected]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("id,text\n1,One.\n2,Two.\n", [(2, "One."), (3, "Two.")]),
        ("no;Target;Source\n1;Eins.;One.\n", [(2, "One.")]),
        ("sentence,text\na,b\n", [(2, "b")]),
        ("Segment\nOne.\n", [(2, "One.")]),
        ("number,English\n1,One.\n2,Two.\n", [(2, "One."), (3, "Two.")]),
        ("1,One.\n2,Two.\n", [(1, "One."), (2, "Two.")]),
        ("number,English\n1,One.\n", [(2, "One.")]),  # one row below the names
        ("S-0001,12 %,Only 5 % of 1.\nS-0002,,Two.\n", [(1, "Only 5 % of 1."), (2, "Two.")]),
        ("1,,ไทย\n2\n3,,ที่นี่\n", [(1, "ไทย"), (3, "ที่นี่")]),  # a short row has an empty cell
        ("de,en\nEins.,One.\n", [(1, "de"), (2, "Eins.")]),
        ("One.,1\n2020,2\nTwo.,3\n", [(1, "One."), (2, "2020"), (3, "Two.")]),
        ("1,2\n3,4\n", [(1, "1"), (2, "3")]),
    ],
)
def test_the_column_with_the_text_is_read(tmp_path: Path, content: str, expected: list[tuple[int, str]]) -> None:
    (tmp_path / "a.csv").write_text(content)
    assert numbered(tmp_path / "a.csv") == expected


def test_a_table_after_its_first_rows_is_read_row_by_row(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("".join(f"{number}\tText {number}.\n" for number in range(1, 2001)))
    assert [text for _, text in numbered(path)] == [f"Text {number}." for number in range(1, 2001)]
