"""Tables of spreadsheets (xlsx): read row by row without a tree, written by openpyxl."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any, cast

from phrasemate.errors import MissingExtra, ReadError
from phrasemate.text.formats.archive import RATIO, Archive, archive
from phrasemate.text.formats.xml import OFFICE_TOKEN, Attributes, XmlStream
from phrasemate.text.formats.xml_writer import writable
from phrasemate.text.text_file import TextFile
from phrasemate.utils.storage import NewFile

COLUMNS = 1000  # of a table; what stands further to the right is not read
STRINGS = 100_000_000  # characters of all different texts of a workbook, which are held in memory
CELLS = 100_000_000  # characters of all cells, a text as often as it is named, if RATIO times the file's size is less
_CELL = 32_767  # characters that a cell can hold
_WHAT = "an Excel workbook (xlsx)"
_MAIN = frozenset(
    {"http://schemas.openxmlformats.org/spreadsheetml/2006/main", "http://purl.oclc.org/ooxml/spreadsheetml/main"}
)
_RELATIONS = "officeDocument/2006/relationships id", "officeDocument/relationships id"
_ESCAPED = re.compile("_x([0-9A-Fa-f]{4})_")  # ECMA-376, part 1, 22.9.2.19
_CONTROL = re.compile("[\x01-\x08\x0b-\x1f]")
_LOOKS_ESCAPED = re.compile("_(?=x[0-9A-Fa-f]{4}[_\x01-\x08\x0b-\x1f])")  # the escape of a control begins with _, too


def sheet_rows(file: TextFile) -> Iterator[tuple[str, int, list[str]]]:
    """Name of the sheet, number of the row (from 1) and its cells as text, of all sheets that are not hidden.

    Numbers and dates are as they are stored, formulas are their latest result. Raises ReadError, also where a small
    workbook means more text than `CELLS`: a cell names its text by a number, and the title comes with each row.
    """
    with archive(file, _WHAT) as workbook:
        main = workbook.main("xl/workbook.xml")
        relations = workbook.related(main)
        strings = next((r["member"] for r in relations if r["kind"] == "sharedStrings"), "")
        shared = _shared(workbook, strings) if strings else []
        members = {r["id"]: r["member"] for r in relations if r["kind"] == "worksheet"}
        left = max(CELLS, RATIO * file.path.stat().st_size)
        for title, relation_id in _Sheets(file.name).read(workbook.blocks(main)):
            if relation_id in members:
                for number, cells in _Rows(file.name, shared).read(workbook.blocks(members[relation_id])):
                    left -= len(title) + sum(map(len, cells))
                    if left < 0:
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
    """Title and relation of each sheet that is shown."""

    root, what, namespaces = frozenset({"workbook"}), _WHAT, _MAIN
    token = OFFICE_TOKEN

    def start(self, tag: str, attributes: Attributes) -> None:
        if tag == "sheet" and attributes.get("state", "visible") == "visible":
            found = next((value for name, value in attributes.items() if name.endswith(_RELATIONS)), "")
            self.charge(100)
            self.ready.append((attributes.get("name", ""), found))


class _Strings(XmlStream[str]):
    """The texts that cells refer to by their number; phonetic hints (rPh) are left out."""

    root, what, namespaces = frozenset({"sst"}), _WHAT, _MAIN
    token = OFFICE_TOKEN

    def start(self, tag: str, attributes: Attributes) -> None:
        self.listening = tag == "t" and "rPh" not in self.path

    def end(self, tag: str) -> None:
        self.listening = False
        if tag == "si":
            self.give(_unescaped(self.taken()))


class _Rows(XmlStream[tuple[int, list[str]]]):
    root, what, namespaces = frozenset({"worksheet"}), _WHAT, _MAIN
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
            self.taken()

    def end(self, tag: str) -> None:
        self.listening = False
        if tag == "c":
            text = self.taken()
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
                remedy = "save it again with the program that made it"
                raise ReadError(
                    self.name, self._number, f"a cell names text number {text[:20]!r}, which is not there", remedy
                )
            return self._shared[number]
        if self._kind == "b":
            return {"0": "FALSE", "1": "TRUE"}.get(text, text)
        return _unescaped(text) if self._kind in ("inlineStr", "str") else text


def _whole(text: str | None) -> int | None:
    """A whole number of at most nine digits."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else None


def _column_of(reference: str) -> int:
    """The column of "AB12", from 1; 0 if it is not said."""
    number = 0
    for letter in reference[:4].upper():
        if not "A" <= letter <= "Z":
            break
        number = 26 * number + ord(letter) - 64
    return number


def _unescaped(text: str) -> str:
    if "_x" not in text:
        return text
    text = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text).replace("\0", "\ufffd")
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def write_sheet(path: str | os.PathLike[str], rows: Iterable[Sequence[Any]], title: str = "terms") -> None:
    """Writes rows as a workbook of one sheet, as a stream; texts stay texts (none becomes a formula).

    A text ends after 32,767 characters; NUL and halves of surrogate pairs become U+FFFD. Raises MissingExtra without
    openpyxl, InputError if the file cannot be written.
    """
    try:
        from openpyxl import Workbook
    except ImportError:
        raise MissingExtra("openpyxl", "formats") from None
    book = Workbook(write_only=True)
    sheet = book.create_sheet(title)
    with NewFile(path, binary=True) as file:
        try:
            for row in rows:
                sheet.append([_cell(sheet, value) for value in row])
        finally:  # also settles what openpyxl has begun when the rows fail; the file is then thrown away
            book.save(cast(IO[bytes], file.stream))


def _cell(sheet: Any, value: Any) -> Any:
    from openpyxl.cell import WriteOnlyCell

    if not isinstance(value, str):
        return value
    cell = WriteOnlyCell(sheet, _held(value))
    cell.data_type = "s"  # openpyxl takes what begins with "=" for a formula
    return cell


def _held(text: str) -> str:
    """A text as a cell can hold it: there is an escape for what XML lacks, and one for what looks like an escape."""
    text = _LOOKS_ESCAPED.sub("_x005F_", text[:_CELL])
    return writable(_CONTROL.sub(lambda found: f"_x{ord(found[0]):04X}_", text))
