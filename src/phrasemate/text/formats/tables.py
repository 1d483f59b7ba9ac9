"""Readers and writers of tables: comma- and tab-separated values, and spreadsheets (xlsx), row by row.

Cells of comma-separated values may contain line breaks and commas in quotation marks. openpyxl writes spreadsheets.
"""

from __future__ import annotations

import csv
import os
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import IO, Any, cast

from phrasemate.errors import ReadError, needs_extra
from phrasemate.text.formats.archive import RATIO, Archive, archive
from phrasemate.text.formats.xml import COST, OFFICE_TOKEN, Attributes, Item, XmlStream, writable
from phrasemate.text.text_file import LINE_LIMIT, TextFile
from phrasemate.utils.storage import NewFile

_BREAKS = re.compile("[\t\r\n]+")
_DELIMITERS = "\x1f\t;|,"  # the first is for tables of one column; a comma is also a sign of text and of numbers
_FORMULA = re.compile(
    r"'*\s*(?:[=\uff1d]|[-+@\uff0b\uff0d\uff20].*[(|])", re.DOTALL
)  # the wide ones count in some languages
_SAID = re.compile(r"sep=([^\w\s\"]|\t)", re.IGNORECASE)  # the first line of a table for Excel may name it
_AGAIN = 10  # maximum number of times that a line is read again, which keeps the time linear


def tsv_line(cells: Iterable[object]) -> str:
    """Format a row of tab-separated values, without a line end; tabs and line breaks in cells become spaces."""
    return "\t".join(_BREAKS.sub(" ", str(cell)) for cell in cells)


def write_lines(path: str | os.PathLike[str], lines: Iterable[str]) -> None:
    """Write a file of lines, which appears when it is complete. Raises InputError if it cannot be written."""
    with NewFile(path) as file:
        for line in lines:
            file.write(line + "\n")


def harmless(cell: object) -> object:
    """Put a ' before a cell that a spreadsheet would run as a formula: it begins with =, or with a sign and has a call.

    Other text after a sign, as in "-fähig" and "- Ja.", and numbers stay as they are. `meant` removes the ', so text
    that already begins with ' before a formula gets another one.
    """
    return f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell


def meant(cell: str) -> str:
    """Undo `harmless`."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell, 1) else cell


def csv_rows(file: TextFile, column: str = "") -> Iterator[tuple[int, list[str]]]:
    """Yield line (from 1) and cells of each row that is not blank. The separator is detected from the first rows.

    ``column``: name of a column. Lines before the first one that has it need not have the separator.

    A cell has up to 131,072 characters. An invalid row is damage at its first line: ReadError, or a note. The lines
    after the first are then read again as new rows, because a quotation mark may be missing.
    """
    lines = _Lines(file.lines())
    reader = csv.reader(lines, delimiter=lines.delimiter(column), strict=True)
    while True:
        lines.row.clear()
        try:
            cells = next(reader)
        except StopIteration:
            break
        except csv.Error as error:
            reason = f"no row of a table ({str(error).split(' - ')[0]})"  # without advice for programmers
            for number in lines.lost():
                file.bad(number, reason, "check the quotation marks, or use --on-error skip")
                if file.given_up(number):
                    return
        else:
            if any(cell.strip() for cell in cells):
                yield lines.row[0][0], cells


class _Lines:
    """Iterator of lines for the csv module, which can read lines of a failed row again.

    ``row`` has the lines of the current row: number, text, and how often the line was read before.
    """

    def __init__(self, lines: Iterator[tuple[int, str]]) -> None:
        self._lines = lines
        self._waiting: deque[tuple[int, str, int]] = deque()
        self.row: list[tuple[int, str, int]] = []
        self._size = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._waiting.popleft() if self._waiting else (*next(self._lines), 0)
        self._size = len(line[1]) + 1 + (self._size if self.row else 0)
        self.row.append(line)
        if self._size > LINE_LIMIT and len(self.row) > 1:
            raise csv.Error(f"more than {LINE_LIMIT:,} characters")
        return line[1] + "\n"

    def delimiter(self, column: str) -> str:
        """Determine the separator: "sep=;" in the first line that is not blank, else the most regular one.

        If a line has the name ``column`` beside a separator, the lines before it do not count.
        Comment lines before the table, which begin with # and have no separator, are passed over.
        """
        for line in self._lines:
            if match := _SAID.fullmatch(line[1].rstrip(" ")):
                return match[1]
            if line[1].strip():
                self._waiting.append((*line, 0))
                is_comment = line[1].startswith("#") and not any(map(line[1].count, _DELIMITERS))
                if not is_comment or len(self._waiting) == _COMMENTS:
                    following, self._lines = head(self._lines, _SAMPLE)
                    self._waiting.extend((*other, 0) for other in following)
                    texts = [line[1], *(text for _, text in following)]
                    headers = (at for at, text in enumerate(texts) if column and column in text)
                    at = next((at for at in headers if any(map(texts[at].count, _DELIMITERS))), 0)
                    return max(_DELIMITERS, key=partial(_regularity, texts[at:]))
        return _DELIMITERS[0]

    def lost(self) -> list[int]:
        """Put back the lines of a failed row, except the first and those read too often. Returns their numbers."""
        first, *other_cells = self.row
        again = [(number, text, times + 1) for number, text, times in other_cells if times < _AGAIN]
        self._waiting.extendleft(reversed(again))
        return [first[0], *(number for number, _, times in other_cells if times >= _AGAIN)]


def _regularity(lines: Sequence[str], delimiter: str) -> tuple[float, int]:
    """Rate a separator: the share of rows with as many cells as the first row, and minus the quotes cut apart in that.

    A separator that the first row does not have gets 0.
    """
    rows: list[list[str]] = []
    with suppress(csv.Error):
        rows += csv.reader((line + "\n" for line in lines), delimiter=delimiter)
    rows = [row for row in rows if row]
    if not rows or len(rows[0]) == 1:
        return 0.0, 0
    share = sum(len(row) == len(rows[0]) for row in rows) / len(rows)
    return share, -sum(cell.count('"') % 2 for cell in rows[0])


def head(items: Iterable[Item], count: int) -> tuple[list[Item], Iterator[Item]]:
    """Return the first items, and an iterator over the others.

    If reading fails among the first ones, the iterator raises the error, so that no item is lost.
    """
    rest = iter(items)
    first: list[Item] = []
    try:
        first += islice(rest, count)
    except ReadError as error:
        return first, _failure(error)
    return first, rest


def _failure(error: ReadError) -> Iterator[Any]:
    """Return an iterator that raises an error at once."""
    yield from ()
    raise error


def header_of(rows: Sequence[Sequence[str]], name: str) -> int:
    """Return the place of the first row that has the name of a column and more filled cells than the rows above it.

    So titles may stand above the names. Returns 0 if there is none.
    """
    widest = 0
    for at, row in enumerate(rows):
        filled = [text for cell in row if (text := cell.strip())]
        if name in filled and len(filled) > widest:
            return at
        widest = max(widest, len(filled))
    return 0


def tsv_rows(file: TextFile) -> Iterator[tuple[int, list[str]]]:
    """Yield line (from 1) and cells of each row that is not blank; quotation marks are ordinary characters."""
    for line, raw in file.lines():
        if raw.strip():
            yield line, raw.split("\t")


_COMMENTS = 100  # maximum number of comment lines at the beginning of a table
HEADER_ROWS = 20  # number of rows among which a name of a column is looked for
_SAMPLE = 20  # number of lines, after the first, from which the separator is determined


COLUMNS = 1000  # maximum number of columns; further columns are not read
STRINGS = 100_000_000  # maximum characters of the shared strings of a workbook, which are held in memory
CELLS = 100_000_000  # characters of all cells that are always allowed; above RATIO times the file's size they are not
_CELL = 32_767  # maximum characters of a cell in Excel
_WHAT = "an Excel workbook (xlsx)"
_MAIN = frozenset(
    {"http://schemas.openxmlformats.org/spreadsheetml/2006/main", "http://purl.oclc.org/ooxml/spreadsheetml/main"}
)
_RELATIONS = "officeDocument/2006/relationships id", "officeDocument/relationships id"
_ESCAPED = re.compile("_x([0-9A-Fa-f]{4})_")  # ECMA-376, part 1, 22.9.2.19
_CONTROL = re.compile("[\x01-\x08\x0b-\x1f]")
_LOOKS_ESCAPED = re.compile(
    "_(?=x[0-9A-Fa-f]{4}[_\x01-\x08\x0b-\x1f])"
)  # also before the escape of a control character


def sheet_rows(file: TextFile) -> Iterator[tuple[str, int, list[str]]]:
    """Yield the name of the sheet, the number (from 1) and the cells as text of each row of all visible sheets.

    Numbers and dates are as they are stored, and formulas give their latest result. Raises ReadError, also if a small
    workbook has more text than `CELLS`, because many cells may refer to one shared string.
    """
    with archive(file, _WHAT) as workbook:
        main = workbook.main("xl/workbook.xml")
        relations = workbook.related(main)
        strings = next((r["member"] for r in relations if r["kind"] == "sharedStrings"), "")
        shared_strings = _shared(workbook, strings) if strings else []
        members = {r["id"]: r["member"] for r in relations if r["kind"] == "worksheet"}
        budget = max(CELLS, RATIO * file.path.stat().st_size)
        for title, relation_id in _Sheets(file.name).read(workbook.blocks(main)):
            if relation_id in members:
                for number, cells in _Rows(file.name, shared_strings).read(workbook.blocks(members[relation_id])):
                    budget -= len(title) + sum(map(len, cells))
                    if budget < 0:
                        reason = f"cells of more than {CELLS:,} characters, and of {RATIO} times the file's size"
                        raise ReadError(file.name, number, reason, "split the workbook, or save it as csv")
                    yield title, number, cells


def _shared(workbook: Archive, member: str) -> list[str]:
    strings: list[str] = []
    size = 0
    for text in _Strings(workbook.name).read(workbook.blocks(member)):
        size += len(text) + 10
        if size > STRINGS:
            raise workbook.error(f"texts of more than {STRINGS:,} characters", "split the workbook, or save it as csv")
        strings.append(text)
    return strings


class _Sheets(XmlStream[tuple[str, str]]):
    """Title and relationship id of each visible sheet."""

    root, format_name, namespaces = frozenset({"workbook"}), _WHAT, _MAIN
    token = OFFICE_TOKEN

    def start(self, tag: str, attributes: Attributes) -> None:
        if tag == "sheet" and attributes.get("state", "visible") == "visible":
            relation = next((value for name, value in attributes.items() if name.endswith(_RELATIONS)), "")
            self.charge(COST)
            self.ready.append((attributes.get("name", ""), relation))


class _Strings(XmlStream[str]):
    """Shared strings, which cells refer to by number; phonetic hints (rPh) are left out."""

    root, format_name, namespaces = frozenset({"sst"}), _WHAT, _MAIN
    token = OFFICE_TOKEN

    def start(self, tag: str, attributes: Attributes) -> None:
        self.listening = tag == "t" and "rPh" not in self.path

    def end(self, tag: str) -> None:
        self.listening = False
        if tag == "si":
            self.give(_unescaped(self.take_text()))


class _Rows(XmlStream[tuple[int, list[str]]]):
    root, format_name, namespaces = frozenset({"worksheet"}), _WHAT, _MAIN
    token = OFFICE_TOKEN

    def __init__(self, name: str, shared: Sequence[str]) -> None:
        super().__init__(name)
        self._shared, self._number, self._column, self._kind = shared, 0, 0, ""
        self._cells: list[str] = []

    def start(self, tag: str, attributes: Attributes) -> None:
        self.listening = tag == "v" or (tag == "t" and "rPh" not in self.path)
        if tag == "row":
            self._number = _whole(attributes.get("r")) or self._number + 1
            self._cells, self._column = [], 0
        elif tag == "c":
            self._column = _column_of(attributes.get("r", "")) or self._column + 1
            self._kind = attributes.get("t", "n")
            self.take_text()

    def end(self, tag: str) -> None:
        self.listening = False
        if tag == "c":
            text = self.take_text()
            if text and 1 <= self._column <= COLUMNS:
                self._cells += [""] * (self._column - len(self._cells))
                self._cells[self._column - 1] = self._meant(text)
        elif tag == "row":
            if self._cells:
                self.ready.append((self._number, self._cells))
            self._cells = []
            self.settle()

    def _meant(self, text: str) -> str:
        if self._kind == "s":
            number = _whole(text.strip())
            if number is None or number >= len(self._shared):
                reason = f"a cell names text number {text[:20]!r}, which is not there"
                raise ReadError(self.name, self._number, reason, "save it again with the program that made it")
            return self._shared[number]
        if self._kind == "b":
            return {"0": "FALSE", "1": "TRUE"}.get(text, text)
        return _unescaped(text) if self._kind in ("inlineStr", "str") else text


def _whole(text: str | None) -> int | None:
    """Parse a whole number of at most nine digits; None for anything else."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else None


def _column_of(reference: str) -> int:
    """Return the column number of a reference such as "AB12", from 1; 0 if it is missing."""
    number = 0
    for letter in reference[:4].upper():
        if not "A" <= letter <= "Z":
            break
        number = 26 * number + ord(letter) - 64
    return number


def _unescaped(text: str) -> str:
    if "_x" not in text:
        return text
    text = _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text).replace("\0", "\ufffd")
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def write_sheet(path: str | os.PathLike[str], rows: Iterable[Sequence[Any]], title: str = "terms") -> None:
    """Write rows as a workbook of one sheet, as a stream; no text becomes a formula.

    Texts are cut to 32,767 characters; NUL and lone surrogates become U+FFFD. Raises MissingExtra without openpyxl,
    InputError if the file cannot be written.
    """
    with needs_extra("formats", "openpyxl"):
        from openpyxl import Workbook
    book = Workbook(write_only=True)
    sheet = book.create_sheet(title)
    with NewFile(path, binary=True) as file:
        try:
            for row in rows:
                sheet.append([_cell(sheet, value) for value in row])
        finally:  # after an error it closes the sheet of openpyxl; the file is discarded
            book.save(cast(IO[bytes], file.stream))


def _cell(sheet: Any, value: Any) -> Any:
    from openpyxl.cell import WriteOnlyCell

    if not isinstance(value, str):
        return value
    cell = WriteOnlyCell(sheet, _storable(value))
    cell.data_type = "s"  # openpyxl takes what begins with "=" for a formula
    return cell


def _storable(text: str) -> str:
    """Cut a text to the size of a cell, and escape what XML cannot hold and what looks like an escape."""
    text = _LOOKS_ESCAPED.sub("_x005F_", text[:_CELL])
    return writable(_CONTROL.sub(lambda match: f"_x{ord(match[0]):04X}_", text))
