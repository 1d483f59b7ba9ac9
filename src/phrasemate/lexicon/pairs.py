"""Tables, term bases and translation memories as entries of a dictionary: wordings by language."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path

from phrasemate.errors import ReadError
from phrasemate.lexicon.entries import alternatives
from phrasemate.lexicon.languages import language_code, languages_in
from phrasemate.text.error_policy import Damage
from phrasemate.text.formats.bilingual import one_line, stream_units
from phrasemate.text.formats.tables import csv_rows, meant, tsv_rows
from phrasemate.text.formats.xlsx import sheet_rows
from phrasemate.text.term_lists import stream_terms
from phrasemate.text.text_file import TextFile

Entry = list[tuple[int | str, str]]
"""Wordings that mean the same: each with its language, or with the number of its column if that is unknown."""

_SHORT = 80  # characters of a segment that is an entry
_SHORT_WORDS = 8
_SOURCE = frozenset({"source", "term", "headword", "word", "source term", "lemma"})
_TARGET = frozenset({"target", "translation", "equivalent", "target term"})
_BARS = re.compile(r"\s*\|\s*")
_DING = " :: "


def text_file(path: Path) -> TextFile:
    """The file at a path, to be read as UTF-8 text, unpacked if its name ends in .gz."""
    return TextFile(path, str(path), path.suffix.lower() == ".gz", "utf-8", Damage(skip=False))


def memory_entries(path: Path) -> Iterator[Entry]:
    """The units of a translation memory (TMX, XLIFF) whose segments are short, as they are."""
    for unit in stream_units(text_file(path), "tmx" if ".tmx" in path.name.lower() else "xliff"):
        sides = [(side.language, one_line(side.text)) for side in unit.sides]
        short = [
            (lang, text) for lang, text in sides if text and len(text) <= _SHORT and text.count(" ") < _SHORT_WORDS
        ]
        if len(short) > 1:
            yield [(lang or number, text) for number, (lang, text) in enumerate(short)]


def term_base_entries(path: Path) -> Iterator[Entry]:
    """The concepts of a TBX file, with the terms of all languages as they are."""
    for _, terms in groupby(stream_terms(text_file(path), "*"), lambda term: term.id):
        yield [(term.language, one_line(term.text)) for term in terms]


def table_entries(path: Path) -> Iterator[Entry]:
    """The rows of a table by the end of its name: .tsv, .csv, .xlsx.

    A first row that names languages ("de", "German") says which columns count, as do "source" and "target" (or
    "term" and "translation"); otherwise the first two columns do, and the name of the file may name the languages.
    """
    file = text_file(path)
    suffix = (path.with_suffix("") if file.packed else path).suffix.lower()
    if suffix == ".xlsx":
        rows: Iterable[tuple[str, int, list[str]]] = sheet_rows(file)
    else:
        read = csv_rows if suffix == ".csv" else tsv_rows
        rows = (("", line, list(map(meant, cells))) for line, cells in _after_comment(read(file)))
    for _, sheet in groupby(rows, itemgetter(0)):
        yield from _sheet_entries(path, sheet)


def plain_text_entries(path: Path) -> Iterator[Entry]:
    """The lines of a text: "Haus {n} | Häuser :: house | houses", as ding has them, or wordings between tabs."""
    names = languages_in(path.name)
    for number, cells in _after_comment(tsv_rows(text_file(path))):
        sides = "\t".join(cells).split(_DING) if _DING in "\t".join(cells) else cells
        if len(sides) < 2:
            reason = "no two wordings with ' :: ' or a tab between them"
            raise ReadError(str(path), number, reason, "give a dictionary with one entry a line")
        left, right = (_BARS.split(side) for side in sides[:2])
        parts = zip(left, right, strict=True) if len(left) == len(right) else [(" ; ".join(left), " ; ".join(right))]
        for one, other in parts:
            yield [
                *((names[0] or 0, text) for text in alternatives(one)),
                *((names[1] or 1, text) for text in alternatives(other)),
            ]


def _after_comment(rows: Iterator[tuple[int, list[str]]]) -> Iterator[tuple[int, list[str]]]:
    """The rows after the lines at the beginning of a file that begin with #."""
    for row in rows:
        if not row[1][0].startswith("#"):
            yield row
            break
    yield from rows


def _sheet_entries(path: Path, rows: Iterator[tuple[str, int, list[str]]]) -> Iterator[Entry]:
    first = next(rows)
    sides = _header(first[2])
    if not sides:
        names = languages_in(path.name)
        sides = [(0, names[0] or 0), (1, names[1] or 1)]
        rows = chain([first], rows)
    pairs, start = 0, first[1]
    for _, _, cells in rows:
        entry = [(lang, text) for column, lang in sides if column < len(cells) for text in alternatives(cells[column])]
        pairs += len({lang for lang, _ in entry}) > 1
        yield entry
    if not pairs:
        raise ReadError(str(path), start, "no row with two wordings", "give a table with one entry a row")


def _header(cells: list[str]) -> list[tuple[int, int | str]]:
    """Columns of wordings, each with its language or its number, if the first row names them."""
    names = [cell.strip() for cell in cells]
    codes = [(column, language_code(name)) for column, name in enumerate(names)]
    if codes[0] == (0, "id") and sum(bool(code) for _, code in codes) > 2:  # numbers of entries, not Indonesian
        codes = codes[1:]
    languages: list[tuple[int, int | str]] = [(column, code) for column, code in codes if code]
    if len(languages) > 1:
        return languages
    small = [name.lower() for name in names]
    source = next((column for column, name in enumerate(small) if name in _SOURCE), -1)
    target = next((column for column, name in enumerate(small) if name in _TARGET), -1)
    return [(source, 0), (target, 1)] if source >= 0 and target >= 0 else []
