"""The formats: plain text, JSON lines and tab-separated tables, each a stream of records with their line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

from phrasemate.text.lines import TextFile
from phrasemate.text.segmentation import split_sentences
from phrasemate.types import Sentence

__all__ = ["FORMATS", "Options", "Record", "sentences"]


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
        return common + {"jsonl": [self.text_field], "tsv": [str(self.column)]}.get(format_, [])


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
    for line, text, metadata in FORMATS[format_](file, options):
        whole = text.strip()
        if not whole:
            continue
        empty = False
        if options.lines == "sentence":
            yield Sentence(whole, line, metadata)
        else:
            for start, end in split_sentences(text, options.lang):
                yield Sentence(text[start:end], line, metadata)
    if empty and file.unharmed:
        file.broken(0, "no text in it; expected at least one line", "remove the file or use --on-error skip")


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
    try:
        record = json.loads(raw, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise ValueError(f"broken JSON at column {error.colno} ({error.msg}); expected one object a line") from None
    except RecursionError:
        raise ValueError("JSON that is nested too deeply") from None
    if not isinstance(record, dict):
        raise ValueError(f"{_kind(record)}; expected a JSON object")
    if "\\u" in raw:  # an escape may hide half a character or a NUL, which no other program takes
        try:
            json.dumps(record, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("half a surrogate pair in a JSON string; expected whole characters") from None
    return record


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


def _kind(value: object) -> str:
    kinds = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")


def _named(names: Any) -> str:
    """The first few names, quoted."""
    held = list(names)
    return ", ".join(repr(name) for name in held[:12]) + (" …" if len(held) > 12 else "") if held else "none"


def _table(file: TextFile, options: Options) -> Iterator[Record]:
    number = 1 if options.column is None else options.column
    for line, raw in file.lines():
        row = raw.split("\t")
        if isinstance(number, str):
            if number not in (names := [name.strip() for name in row]):
                reason = f"no column {number!r}; the columns here are {_named(names)}"
                return file.broken(line, reason, "choose one with --column NAME, or by number from 1")
            number = names.index(number) + 1
        elif number <= len(row):
            yield Record(line, row[number - 1], {})
        elif not raw.isspace() and raw:
            columns = f"{len(row)} column" + "s" * (len(row) > 1)
            file.bad(line, f"{columns}; expected at least {number}", "mend the row or choose another --column")
    return None


FORMATS: Mapping[str, Callable[[TextFile, Options], Iterator[Record]]] = {
    "jsonl": _json_lines,
    "tsv": _table,
    "txt": _plain,
}
