"""Tables of text: comma-separated values, whose cells may hold line breaks and commas in quotation marks."""

from __future__ import annotations

import csv
import re
from collections import deque
from collections.abc import Iterable, Iterator

from phrasemate.text.text_file import LINE_LIMIT, TextFile

_BREAKS = re.compile("[\t\r\n]+")
_DELIMITERS = ",;\t|"
_FORMULA = re.compile(
    r"'*\s*(?:[=\uff1d]|[-+@\uff0b\uff0d\uff20].*[(|])", re.DOTALL
)  # the wide ones count in some languages
_SAID = re.compile(r"sep=([^\w\s\"]|\t)", re.IGNORECASE)  # the first line of a table for Excel may name it
_AGAIN = 10  # times that a line is read again: tables are read in a time that grows as they do


def tsv_line(cells: Iterable[object]) -> str:
    """A row of tab-separated values, without its line end; tabs and line breaks within cells become spaces."""
    return "\t".join(_BREAKS.sub(" ", str(cell)) for cell in cells)


def harmless(cell: object) -> object:
    """A cell of a text table, with ' before what a spreadsheet would run: a text that begins with = or calls something.

    What merely begins with a sign, as "-fähig" and "- Ja.", stays as it is, and so do numbers. `meant` takes it away;
    therefore what looks as if it had been here gets one more.
    """
    return f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell


def meant(cell: str) -> str:
    """The text that `harmless` made the cell from."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell, 1) else cell


def csv_rows(file: TextFile) -> Iterator[tuple[int, list[str]]]:
    """Line (from 1) and cells of each row that is not blank; the separator is the one the first row has most of.

    A cell has up to 131,072 characters. Raises ReadError for what is no table, or lists it as the file's damage: the
    line where a row begins that makes no sense; those after it are read again, for a quotation mark may be missing.
    """
    lines = _Lines(file.lines())
    reader = csv.reader(lines, delimiter=lines.delimiter(), strict=True)
    while True:
        lines.row.clear()
        try:
            cells = next(reader)
        except StopIteration:
            break
        except csv.Error as error:
            reason = f"no row of a table ({error})"
            for number in lines.lost():
                file.bad(number, reason, "check the quotation marks, or use --on-error skip")
                if file.given_up(number):
                    return
        else:
            if any(cell.strip() for cell in cells):
                yield lines.row[0][0], cells


class _Lines:
    """The lines of a file, as the csv module takes them; ``row`` holds those that it took for the present row.

    Each with its number, its text, and how often it was read.
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

    def delimiter(self) -> str:
        """The separator that the first line that is not blank names, and nothing else, or has most of."""
        for line in self._lines:
            if said := _SAID.fullmatch(line[1].rstrip(" ")):
                return said[1]
            if line[1].strip():
                self._waiting.append((*line, 0))
                return _delimiter(line[1])
        return _DELIMITERS[0]

    def lost(self) -> list[int]:
        """The lines of the present row that are not read again: the first, and what was read again too often."""
        first, *others = self.row
        again = [(number, text, times + 1) for number, text, times in others if times < _AGAIN]
        self._waiting.extendleft(reversed(again))
        return [first[0], *(number for number, _, times in others if times >= _AGAIN)]


def tsv_rows(file: TextFile) -> Iterator[tuple[int, list[str]]]:
    """Line (from 1) and cells of each row that is not blank; quotation marks are ordinary characters."""
    for line, raw in file.lines():
        if raw.strip():
            yield line, raw.split("\t")


def _delimiter(line: str) -> str:
    """The separator that stands most often in a row, outside of quotation marks."""
    bare = "".join(line.split('"')[::2])
    return max(_DELIMITERS, key=bare.count)
