"""Registry of formats: the reader of each, and the sentences of a file in any of them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby, zip_longest
from typing import Any, NoReturn
from unicodedata import category

from phrasemate.errors import ReadError
from phrasemate.text.formats.bilingual import chosen, paragraphs, stream_units
from phrasemate.text.formats.docx import docx_paragraphs
from phrasemate.text.formats.html import html_paragraphs
from phrasemate.text.formats.localization import json_texts, properties_texts, subtitle_texts, yaml_texts
from phrasemate.text.formats.markup import docbook_paragraphs, markdown_paragraphs, rtf_paragraphs
from phrasemate.text.formats.publications import (
    epub_paragraphs,
    idml_paragraphs,
    ods_rows,
    opendocument_paragraphs,
    pdf_paragraphs,
    pptx_paragraphs,
)
from phrasemate.text.formats.tables import COLUMNS, HEADER_ROWS, csv_rows, head, header_of, sheet_rows, tsv_rows
from phrasemate.text.formats.units import Paragraph, Record, Unit
from phrasemate.text.formats.wrapped import mail_paragraphs, wrapped_paragraphs
from phrasemate.text.normalize import composed
from phrasemate.text.sentences import split_sentences
from phrasemate.text.term_lists import stream_terms
from phrasemate.text.text_file import LINE_LIMIT, TextFile
from phrasemate.types import Sentence

METADATA = 10_000  # maximum characters, as JSON, of the metadata of a text; an index stores them with each sentence
EVERYWHERE = 20_000_000  # maximum characters of metadata times the number of sentences of the text
NESTING = 100  # maximum depth of JSON, so that any program can read it again
_TEXT_COLUMNS = ("text", "source", "sentence", "segment")  # names in a header, in small letters
_HEAD_ROWS = 50  # number of rows from which the column with the text is chosen
_OF_NUMBERS, _OF_TEXT = 0.2, 0.5  # maximum share of words in a column of numbers, minimum share in one of text
# Formats whose reader gave other sentences of the same file before, with its version for the digest of a document.
_VERSIONS = dict.fromkeys(("csv", "ods", "tsv", "xliff", "xlsx"), "2") | {"subtitles": "3"}
_SIGNS = re.compile(r"\\.|[\"\[\]{}]")
_PLAIN = json.JSONEncoder(ensure_ascii=False, default=str).encode


@dataclass(frozen=True, slots=True)
class Options:
    """Options of `phrasemate.read`, which documents them."""

    column: str | int | None = None
    text_field: str = "text"
    lines: str = "paragraph"
    lang: str = ""
    encoding: str = "utf-8"

    def that_matter(self, format_: str) -> list[str]:
        """Return the options that change the sentences of a file in this format, for the digest of a document."""
        common = [format_ + _VERSIONS.get(format_, ""), self.lines, self.lang, self.encoding]
        if format_ == "jsonl":
            return [*common, self.text_field]
        return [*common, str(self.column or "text column")] if format_ in ("csv", "ods", "tsv", "xlsx") else common


def sentences(file: TextFile, format_: str, options: Options) -> Iterator[Sentence]:
    """Yield the sentences of a file in one pass.

    Raises ReadError for damage, or lists it in ``file.damage``; a file without text is damage, too.
    """
    empty = True
    for line, raw, metadata in _records(file, format_, options):
        text = composed(raw)
        whole = text.strip()
        if not whole:
            continue
        empty = False
        texts: list[str] = []
        if not (trouble := _too_large(text, metadata)):
            texts = [whole] if options.lines == "sentence" else _split(text, options.lang)
            trouble = _too_often(len(texts), metadata)
        if trouble:
            file.bad(line, *trouble)
            if file.given_up(line):
                return
            continue
        for sentence in texts:
            yield Sentence(sentence, line, metadata)
    if empty and file.unharmed:
        file.broken(0, "no text in it; expected at least one line", "remove the file or use --on-error skip")


def _split(text: str, lang: str) -> list[str]:
    return [text[start:end] for start, end in split_sentences(text, lang)]


def _too_large(text: str, metadata: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return reason and remedy for a record that is too large for an index."""
    if len(text) > LINE_LIMIT:
        reason = f"a text of {len(text):,} characters; expected at most {LINE_LIMIT:,}"
        return reason, "split it or use --on-error skip"
    # JSON is at most twice as long as str(), which takes a third of the time
    if 2 * len(str(metadata)) > METADATA and (size := len(_PLAIN(metadata))) > METADATA:
        reason = f"metadata of {size:,} characters; expected at most {METADATA:,} beside the text"
        return reason, "take out what is not needed or use --on-error skip"
    return None


def _too_often(count: int, metadata: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return reason and remedy for metadata that would be too large when repeated for every sentence."""
    if not metadata or count * METADATA <= EVERYWHERE or (size := len(_PLAIN(metadata))) * count <= EVERYWHERE:
        return None
    reason = f"metadata of {size:,} characters with each of {count:,} sentences"
    return f"{reason}; expected at most {EVERYWHERE:,} together", "split the text or use --on-error skip"


def _records(file: TextFile, format_: str, options: Options) -> Iterator[Record]:
    try:
        yield from FORMATS[format_](file, options)
    except ReadError as error:  # from a reader without support for skipping
        if not (file.ended and file.damage.skip):
            file.broken(error.line, error.reason, error.remedy)


def _plain(file: TextFile, options: Options) -> Iterator[Record]:
    """Yield lines, or paragraphs split at tabs, such as the cells of a glossary."""
    if options.lines == "sentence":
        yield from ((line, text, {}) for line, text in file.lines())
        return
    for line, text in wrapped_paragraphs(file.lines(), guess=options.lines != "wrapped"):
        for cell in text.split("\t"):
            yield line, cell, {}


def _json_lines(file: TextFile, options: Options) -> Iterator[Record]:
    for line, raw in file.lines():
        if not raw or raw.isspace():
            continue
        try:
            record = _parsed(raw)
            text = _text_field(record, options.text_field)
        except ValueError as error:
            file.bad(line, str(error))
        else:
            yield line, text, record


def _parsed(raw: str) -> dict[str, Any]:
    """Parse a line as a JSON object. Raises ValueError, which says what is wrong."""
    if raw.count("[") + raw.count("{") > NESTING and _nesting(raw) > NESTING:
        raise ValueError(f"JSON that is nested too deeply; expected at most {NESTING} brackets within one another")
    try:
        record = json.loads(raw, parse_constant=_no_constant, parse_float=_finite)
    except json.JSONDecodeError as error:
        raise ValueError(f"broken JSON at column {error.colno} ({error.msg}); expected one object a line") from None
    if not isinstance(record, dict):
        raise ValueError(f"{_kind(record)}; expected a JSON object")
    if "\\u" in raw:  # an escape may be a lone surrogate, which other programs reject
        try:
            json.dumps(record, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("half a surrogate pair in a JSON string; expected whole characters") from None
    return record


def _nesting(raw: str) -> int:
    """Return the maximum depth of brackets of a JSON text, outside strings."""
    deepest = depth = 0
    within = False
    for sign in _SIGNS.findall(raw):
        if sign == '"':
            within = not within
        elif not within and sign in "[]{}":
            depth += 1 if sign in "[{" else -1
            deepest = max(deepest, depth)
    return deepest


def _text_field(record: dict[str, Any], field: str) -> str:
    """Remove the text field from a record and return it. Raises ValueError if it is missing or not a string."""
    if field not in record:
        raise ValueError(f"no field {field!r}; the fields here are {_named(record)} (choose one with --text-field)")
    text = record.pop(field)
    if not isinstance(text, str):
        raise ValueError(f"the field {field!r} holds {_kind(text)}; expected a string")
    if "\0" in text:
        raise ValueError(f"a NUL character in the field {field!r}; expected text")
    return text


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"broken JSON ({name} is not a JSON number)")


def _finite(digits: str) -> float:
    if (number := float(digits)) in (math.inf, -math.inf):
        raise ValueError(f"broken JSON ({digits[:20]} is too large a number)")
    return number


def _kind(value: object) -> str:
    kinds = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")


def _named(names: Any) -> str:
    """Format the first twelve names, quoted, for an error message."""
    columns = [repr(name[:60]) for name in names]
    return ", ".join(columns[:12]) + (" …" if len(columns) > 12 else "") or "none"


def _table(
    read: Callable[[TextFile], Iterator[tuple[int, list[str]]]], file: TextFile, options: Options
) -> Iterator[Record]:
    return _column(file, options, ((line, cells, {}) for line, cells in read(file)))


def _csv(file: TextFile, options: Options) -> Iterator[Record]:
    return _table(partial(csv_rows, column=options.column if isinstance(options.column, str) else ""), file, options)


def _workbook(
    read: Callable[[TextFile], Iterator[tuple[str, int, list[str]]]], file: TextFile, options: Options
) -> Iterator[Record]:
    """Read each sheet as a table; a row shorter than the column has an empty cell there."""
    width = options.column if isinstance(options.column, int) else COLUMNS
    if width > COLUMNS:
        reason = f"column {width:,} of a workbook; expected at most {COLUMNS:,}"
        return file.broken(0, reason, "move it to the left or choose another --column")
    for sheet, rows in groupby(read(file), lambda row: row[0]):
        cells = ((line, row + [""] * (width - len(row)), {"sheet": sheet}) for _, line, row in rows)
        yield from _column(file, options, cells)
        if file.ended:  # a sheet without the column: the rest of the workbook is listed as damage
            break
    return None


def _column(file: TextFile, options: Options, rows: _Rows) -> Iterator[Record]:
    number = options.column
    if number is None:
        rows, number = _with_text_column(rows)
    elif isinstance(number, str):
        rows, number = _after_header(rows, number)
    for line, row, metadata in rows:
        if not number:
            sheet = f" in the sheet {metadata['sheet']!r}" if "sheet" in metadata else ""
            names = _named(name for cell in row if (name := cell.strip()))
            reason = f"no column {_named([options.column])}{sheet}; the columns here are {names}"
            return file.broken(line, reason, "choose one with --column NAME, or by number from 1")
        if number <= len(row):
            yield line, row[number - 1], metadata
        elif options.column is not None:
            columns = f"{len(row)} column" + "s" * (len(row) > 1)
            file.bad(line, f"{columns}; expected at least {number}", "fix the row or choose another --column")
    return None


_Row = tuple[int, list[str], Mapping[str, Any]]
_Rows = Iterable[_Row]


def _after_header(rows: _Rows, name: str) -> tuple[_Rows, int]:
    """Find a column by its name; returns the rows after the header, and the number of the column (0: none)."""
    first, rest = head(rows, HEADER_ROWS)
    at = header_of([row for _, row, _ in first], name)
    names = [cell.strip() for cell in first[at][1]] if first else []
    return (chain(first[at + 1 :], rest), names.index(name) + 1) if name in names else (chain(first, rest), 0)


def _with_text_column(rows: _Rows) -> tuple[_Rows, int]:
    """Find the column with the text of a table; returns the rows without the header, and the number of the column.

    It is the column that a header calls "text", "source", "sentence" or "segment", else the first column. If the first
    one has numbers or other identifiers, it is the first column of words.
    """
    first, rest = head(rows, _HEAD_ROWS)
    texts = [[cell.strip() for cell in row] for _, row, _ in first]
    names = [cell.lower() for cell in texts[0]] if texts else []
    number = next((names.index(name) + 1 for name in _TEXT_COLUMNS if name in names), 1)
    has_header = number <= len(names) and names[number - 1] in _TEXT_COLUMNS
    if not has_header and texts:
        columns = list(zip_longest(*texts, fillvalue=""))
        if _share_of_words(columns[0][1:] or columns[0]) <= _OF_NUMBERS:
            later_columns = enumerate(columns[1:], 2)
            number = next((at for at, column in later_columns if _share_of_words(column) >= _OF_TEXT), 1)
            has_header = number > 1 and _is_wordy(columns[0][0])
    return chain(first[has_header:], rest), number


def _share_of_words(cells: Sequence[str]) -> float:
    """Return the share of the cells with text that consist mostly of letters."""
    filled = [cell for cell in cells if cell]
    return sum(map(_is_wordy, filled)) / max(1, len(filled))


def _is_wordy(cell: str) -> bool:
    """Return whether more than half of the characters of a cell, without spaces, are letters or their marks."""
    signs = "".join(cell.split())
    return 2 * sum(category(sign)[0] in "LM" for sign in signs) > len(signs)


TRANSLATION = 2_000  # maximum characters of the metadata "translation", the other sides of a unit


def _units(format_: str, file: TextFile, options: Options) -> Iterator[Record]:
    """Yield the sides of units in the language of the text, with the other sides as the metadata "translation"."""
    for unit, at in chosen(stream_units(file, format_), options.lang, file.name):
        side = unit.sides[at]
        metadata = {**unit.metadata, **side.metadata}
        if translation := _other_sides(unit, at):
            metadata["translation"] = translation
        yield unit.line, paragraphs(side.text), metadata


def _other_sides(unit: Unit, at: int) -> str:
    """Join the sides of a unit in other languages than that of the side ``at``, cut to `TRANSLATION` characters."""
    language = unit.sides[at].language
    texts = (side.text for place, side in enumerate(unit.sides) if place != at and side.language != language)
    return " | ".join(" ".join(composed(text).split()) for text in texts if text.strip())[:TRANSLATION]


def _term_base(file: TextFile, options: Options) -> Iterator[Record]:
    """Yield the terms of a term base, and the definitions and contexts of their concepts, each text once."""
    concept: tuple[str, set[str]] = ("", set())
    for number, term in enumerate(stream_terms(file, options.lang), 1):
        if not term.id or term.id != concept[0]:
            concept = term.id, set()
        for kind, texts in (("term", (term.text,)), ("definition", (term.definition,)), ("context", term.contexts)):
            for text in texts:
                if text not in concept[1]:
                    concept[1].add(text)
                    yield number, paragraphs(text), {"id": term.id, "kind": kind}


def _with_lines(read: Callable[[TextFile], Iterator[Record]]) -> Reader:
    return lambda file, options: read(file)


def _with_numbers(read: Callable[[TextFile], Iterator[Paragraph]]) -> Reader:
    return lambda file, options: ((number, *paragraph) for number, paragraph in enumerate(read(file), 1))


Reader = Callable[[TextFile, Options], Iterator[Record]]
FORMATS: Mapping[str, Reader] = {
    "csv": _csv,
    "docbook": _with_lines(docbook_paragraphs),
    "docx": _with_numbers(docx_paragraphs),
    "eml": _with_numbers(mail_paragraphs),
    "epub": _with_numbers(epub_paragraphs),
    "html": _with_numbers(html_paragraphs),
    "idml": _with_numbers(idml_paragraphs),
    "json": _with_lines(json_texts),
    "jsonl": _json_lines,
    "md": _with_lines(markdown_paragraphs),
    "odf": _with_numbers(opendocument_paragraphs),
    "ods": partial(_workbook, ods_rows),
    "pdf": _with_numbers(pdf_paragraphs),
    "po": partial(_units, "po"),
    "pptx": _with_numbers(pptx_paragraphs),
    "properties": _with_lines(properties_texts),
    "rtf": _with_numbers(rtf_paragraphs),
    "subtitles": _with_lines(subtitle_texts),
    "tbx": _term_base,
    "tmx": partial(_units, "tmx"),
    "tsv": partial(_table, tsv_rows),
    "ttx": partial(_units, "ttx"),
    "txt": _plain,
    "xliff": partial(_units, "xliff"),
    "xlsx": partial(_workbook, sheet_rows),
    "yaml": _with_lines(yaml_texts),
}
