"""Tables of text: comma-separated values, whose cells may hold line breaks and commas in quotation marks."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator

from phrasemate.text.lines import TextFile

__all__ = ["csv_rows", "tsv_line", "tsv_rows"]

_BREAKS = re.compile("[\t\r\n]+")

_DELIMITERS = ",;\t|"


def tsv_line(cells: Iterable[object]) -> str:
    """A row of tab-separated values, without its line end; tabs and line breaks within cells become spaces."""
    return "\t".join(_BREAKS.sub(" ", str(cell)) for cell in cells)


def csv_rows(file: TextFile) -> Iterator[tuple[int, list[str]]]:
    """Line (from 1) and cells of each row that is not blank; the separator is the one the first row has most of.

    A cell has up to 131,072 characters. Raises ReadError for what is no table, or lists it as the file's damage.
    """
    at = 0

    def lines() -> Iterator[str]:
        nonlocal at
        for number, text in file.lines():
            at = number
            yield text + "\n"

    source = lines()
    first = next((line for line in source if line.strip()), "")
    reader = csv.reader(_chained(first, source), delimiter=_delimiter(first), strict=True)
    begun = at
    while first:
        try:
            cells = next(reader)
        except StopIteration:
            break
        except csv.Error as error:
            reason = f"no row of a table ({error})"
            file.bad(begun, reason, "check the quotation marks, or use --on-error skip")
        else:
            if any(cell.strip() for cell in cells):
                yield begun, cells
        begun = at + 1


def tsv_rows(file: TextFile) -> Iterator[tuple[int, list[str]]]:
    """Line (from 1) and cells of each row that is not blank; quotation marks are ordinary characters."""
    for line, raw in file.lines():
        if raw.strip():
            yield line, raw.split("\t")


def _chained(first: str, rest: Iterator[str]) -> Iterator[str]:
    yield first
    yield from rest


def _delimiter(line: str) -> str:
    """The separator that stands most often in a row, outside of quotation marks."""
    bare = "".join(line.split('"')[::2])
    return max(_DELIMITERS, key=bare.count)
