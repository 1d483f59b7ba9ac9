"""The formats: plain text, JSON lines, tables, and those of translators and offices, each a stream of records."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple, NoReturn

from phrasemate.errors import ReadError
from phrasemate.text.formats.bilingual import chosen, paragraphs, stream_units
from phrasemate.text.formats.docx import docx_paragraphs
from phrasemate.text.formats.html import html_paragraphs
from phrasemate.text.formats.tables import csv_rows, tsv_rows
from phrasemate.text.formats.xlsx import COLUMNS, sheet_rows
from phrasemate.text.sentences import split_sentences
from phrasemate.text.term_lists import stream_terms
from phrasemate.text.text_file import LINE_LIMIT, TextFile
from phrasemate.types import Sentence

METADATA = 10_000  # characters, as JSON, of what goes with a text: an index holds it once for each sentence
EVERYWHERE = 20_000_000  # characters of the same, once for each sentence of the text
NESTING = 100  # brackets of JSON within one another: what is read here must be read again, wherever that is
_SIGNS = re.compile(r"\\.|[\"\[\]{}]")
_PLAIN = json.JSONEncoder(ensure_ascii=False, default=str).encode


@dataclass(frozen=True, slots=True)
class Options:
    """How files are read; see ``phrasemate.read`` for what each means."""

    column: str | int | None = None
    text_field: str = "text"
    lines: str = "paragraph"
    lang: str = ""
    encoding: str = "utf-8"

    def that_matter(self, format_: str) -> list[str]:
        """Those that decide what a file of this format says, as text: they belong to the digest of a document."""
        common = [format_, self.lines, self.lang, self.encoding]
        if format_ == "jsonl":
            return [*common, self.text_field]
        return [*common, str(self.column)] if format_ in ("csv", "tsv", "xlsx") else common


class Record(NamedTuple):
    """A stretch of text in a file, with the line (from 1) where it stands."""

    line: int
    text: str
    metadata: Mapping[str, Any]


def sentences(file: TextFile, format_: str, options: Options) -> Iterator[Sentence]:
    """The sentences of a file; one pass, streamed.

    Raises ReadError for what cannot be read, or lists it in the file's ``damage``; a file without any text is damage.
    """
    empty = True
    for line, text, metadata in _records(file, format_, options):
        whole = text.strip()
        if not whole:
            continue
        empty = False
        held: list[str] = []
        if not (trouble := _too_large(text, metadata)):
            held = [whole] if options.lines == "sentence" else _split(text, options.lang)
            trouble = _too_often(len(held), metadata)
        if trouble:
            file.bad(line, *trouble)
            if file.given_up(line):
                return
            continue
        for sentence in held:
            yield Sentence(sentence, line, metadata)
    if empty and file.unharmed:
        file.broken(0, "no text in it; expected at least one line", "remove the file or use --on-error skip")


def _split(text: str, lang: str) -> list[str]:
    return [text[start:end] for start, end in split_sentences(text, lang)]


def _too_large(text: str, metadata: Mapping[str, Any]) -> tuple[str, str] | None:
    """Reason and remedy for a record that is larger than an index takes."""
    if len(text) > LINE_LIMIT:
        reason = f"a text of {len(text):,} characters; expected at most {LINE_LIMIT:,}"
        return reason, "split it or use --on-error skip"
    # JSON is at most twice as long as what Python shows, which is there in a third of the time
    if 2 * len(str(metadata)) > METADATA and (size := len(_PLAIN(metadata))) > METADATA:
        reason = f"metadata of {size:,} characters; expected at most {METADATA:,} beside the text"
        return reason, "take out what is not needed or use --on-error skip"
    return None


def _too_often(count: int, metadata: Mapping[str, Any]) -> tuple[str, str] | None:
    """The same for one whose metadata are not too large, but for so many sentences."""
    if not metadata or count * METADATA <= EVERYWHERE or (size := len(_PLAIN(metadata))) * count <= EVERYWHERE:
        return None
    reason = f"metadata of {size:,} characters with each of {count:,} sentences"
    return f"{reason}; expected at most {EVERYWHERE:,} together", "split the text or use --on-error skip"


def _records(file: TextFile, format_: str, options: Options) -> Iterator[Record]:
    try:
        yield from FORMATS[format_](file, options)
    except ReadError as error:  # of a format that knows nothing of skipping
        if not (file.ended and file.damage.skip):
            file.broken(error.line, error.reason, error.remedy)


def _plain(file: TextFile, options: Options) -> Iterator[Record]:
    for line, text in file.lines():
        yield Record(line, text, {})


def _json_lines(file: TextFile, options: Options) -> Iterator[Record]:
    for line, raw in file.lines():
        if not raw or raw.isspace():
            continue
        try:
            record = _parsed(raw)
            text = _taken(record, options.text_field)
        except ValueError as error:
            file.bad(line, str(error))
        else:
            yield Record(line, text, record)


def _parsed(raw: str) -> dict[str, Any]:
    """The JSON object of a line; ValueError says what is wrong with it."""
    if raw.count("[") + raw.count("{") > NESTING and _nesting(raw) > NESTING:
        raise ValueError(f"JSON that is nested too deeply; expected at most {NESTING} brackets within one another")
    try:
        record = json.loads(raw, parse_constant=_no_constant, parse_float=_finite)
    except json.JSONDecodeError as error:
        raise ValueError(f"broken JSON at column {error.colno} ({error.msg}); expected one object a line") from None
    if not isinstance(record, dict):
        raise ValueError(f"{_kind(record)}; expected a JSON object")
    if "\\u" in raw:  # an escape may hide half a character or a NUL, which no other program takes
        try:
            json.dumps(record, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("half a surrogate pair in a JSON string; expected whole characters") from None
    return record


def _nesting(raw: str) -> int:
    """How many brackets of JSON lie within one another, outside of strings."""
    deepest = depth = 0
    within = False
    for sign in _SIGNS.findall(raw):
        if sign == '"':
            within = not within
        elif not within and sign in "[]{}":
            depth += 1 if sign in "[{" else -1
            deepest = max(deepest, depth)
    return deepest


def _taken(record: dict[str, Any], field: str) -> str:
    """Takes the text out of a record, which keeps the other fields."""
    if field not in record:
        raise ValueError(f"no field {field!r}; the fields here are {_named(record)} (choose one with --text-field)")
    text = record.pop(field)
    if not isinstance(text, str):
        raise ValueError(f"the field {field!r} holds {_kind(text)}; expected a string")
    if "\0" in text:
        raise ValueError(f"a NUL character in the field {field!r}; expected text")
    return text


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"broken JSON ({name} is no JSON number)")


def _finite(digits: str) -> float:
    if (number := float(digits)) in (math.inf, -math.inf):
        raise ValueError(f"broken JSON ({digits[:20]} is too large a number)")
    return number


def _kind(value: object) -> str:
    kinds = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")


def _named(names: Any) -> str:
    """The first few names, quoted."""
    held = list(names)
    return ", ".join(repr(name[:60]) for name in held[:12]) + (" …" if len(held) > 12 else "") if held else "none"


def _separated(file: TextFile, options: Options) -> Iterator[Record]:
    return _column(file, options, ((line, cells, {}) for line, cells in tsv_rows(file)))


def _comma_separated(file: TextFile, options: Options) -> Iterator[Record]:
    return _column(file, options, ((line, cells, {}) for line, cells in csv_rows(file)))


def _workbook(file: TextFile, options: Options) -> Iterator[Record]:
    """Each sheet is a table; a row that ends before the column has an empty cell there."""
    if isinstance(options.column, int) and options.column > COLUMNS:
        reason = f"column {options.column:,} of a workbook; expected at most {COLUMNS:,}"
        return file.broken(0, reason, "move it to the left or choose another --column")
    for sheet, rows in groupby(sheet_rows(file), lambda row: row[0]):
        width = options.column if isinstance(options.column, int) else COLUMNS
        cells = ((line, row + [""] * (width - len(row)), {"sheet": sheet}) for _, line, row in rows)
        yield from _column(file, options, cells)
        if file.ended:  # a sheet without the column: what is listed is all from there on
            break
    return None


def _column(
    file: TextFile, options: Options, rows: Iterable[tuple[int, list[str], Mapping[str, Any]]]
) -> Iterator[Record]:
    number = 1 if options.column is None else options.column
    for line, row, metadata in rows:
        if isinstance(number, str):
            if number not in (names := [name.strip() for name in row]):
                sheet = f" in the sheet {metadata['sheet']!r}" if "sheet" in metadata else ""
                there = _named(name for name in names if name)
                reason = f"no column {_named([number])}{sheet}; the columns here are {there}"
                return file.broken(line, reason, "choose one with --column NAME, or by number from 1")
            number = names.index(number) + 1
        elif number <= len(row):
            yield Record(line, row[number - 1], metadata)
        else:
            columns = f"{len(row)} column" + "s" * (len(row) > 1)
            file.bad(line, f"{columns}; expected at least {number}", "mend the row or choose another --column")
    return None


def _units(format_: str) -> Reader:
    """The sides of a translation memory, or of a document in translation, that are in the language of the index."""

    def read(file: TextFile, options: Options) -> Iterator[Record]:
        for unit, at in chosen(stream_units(file, format_), options.lang, file.name):
            side = unit.sides[at]
            yield Record(unit.line, paragraphs(side.text), {**unit.metadata, **side.metadata})

    return read


def _term_base(file: TextFile, options: Options) -> Iterator[Record]:
    """Terms, and the definitions and contexts of their concepts."""
    given: tuple[str, set[str]] = ("", set())
    for number, term in enumerate(stream_terms(file, options.lang), 1):
        if not term.id or term.id != given[0]:
            given = term.id, set()
        for kind, texts in (("term", (term.text,)), ("definition", (term.definition,)), ("context", term.contexts)):
            for text in texts:
                if text not in given[1]:
                    given[1].add(text)
                    yield Record(number, paragraphs(text), {"id": term.id, "kind": kind})


def _paragraphs(read: Callable[[TextFile], Iterator[tuple[int, str, dict[str, Any]]]]) -> Reader:
    return lambda file, options: (Record(*paragraph) for paragraph in read(file))


Reader = Callable[[TextFile, Options], Iterator[Record]]
FORMATS: Mapping[str, Reader] = {
    "csv": _comma_separated,
    "docx": _paragraphs(docx_paragraphs),
    "html": _paragraphs(html_paragraphs),
    "jsonl": _json_lines,
    "tbx": _term_base,
    "tmx": _units("tmx"),
    "tsv": _separated,
    "txt": _plain,
    "xliff": _units("xliff"),
    "xlsx": _workbook,
}
