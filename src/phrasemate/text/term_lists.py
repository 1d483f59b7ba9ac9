"""Term lists: read terms from text, tables, spreadsheets and term bases, and write terms and pairs of terms."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from itertools import chain, count, groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

from phrasemate.errors import InputError, ReadError
from phrasemate.text.formats.tables import (
    HEADER_ROWS,
    csv_rows,
    harmless,
    head,
    header_of,
    meant,
    sheet_rows,
    tsv_line,
    tsv_rows,
    write_lines,
    write_sheet,
)
from phrasemate.text.formats.termbases import MultiTermStream, TbxStream, write_concepts
from phrasemate.text.formats.units import UNKNOWN, Term, TermPair, listed
from phrasemate.text.formats.xml import Item
from phrasemate.text.languages import speaks
from phrasemate.text.normalize import composed
from phrasemate.text.text_file import Damage, TextFile, suffix_of, without_options
from phrasemate.types import check_path, to_column
from phrasemate.utils.storage import NewFile

_READ = ".txt, .tsv, .csv, .tbx, MultiTerm's .xml (each also with .gz) and .xlsx"
_GLOSSARIES = (".txt", ".tab", ".utf8")
_COMMENTS = 1000  # maximum number of comment lines at the beginning of a glossary
_WRITTEN = ".tsv, .csv, .jsonl, .xlsx or .tbx"
_FIELDS = {  # column name in lower case -> field of `Term`
    "term": "text",
    "source": "text",
    "text": "text",
    "language": "language",
    "lang": "language",
    "source_language": "language",
    "id": "id",
    "definition": "definition",
    "note": "note",
    "context": "contexts",
}
PAIR_COLUMNS = (
    "source",
    "target",
    "score",
    "source_language",
    "target_language",
    "id",
    "definition",
    "note",
    "context",
)
_NOTED = 100  # maximum number of languages to collect for an error message

Row = tuple[str, int, list[str]]  # name of the sheet or "", line, cells


def read_terms(path: str | os.PathLike[str], language: str = "", column: str | int | None = None) -> Iterator[Term]:
    """Read the terms of a list as a stream.

    The suffix gives the format. .tbx and .xml (of MultiTerm) are term bases. .tsv, .csv and .xlsx have one term in each
    row, .txt one in each line. Without ``column``, a first row with a cell "term", "source" or "text" is the header;
    its columns "id", "language", "definition", "note" and "context" are read, too. Without a header, the terms are in
    the first column. With the name of a column, "id" and "language" (or "NAME_language") are read, too. In .tsv and
    .csv, a ' before a would-be formula is not part of the text (see `write_pairs`).

    A .txt file whose first line has a tab is a table, too, and so are .tab and .utf8, the glossaries of OmegaT. In
    these, lines that begin with # are comments. In .tsv and .csv, first rows with # and no other cell are comments.

    Args:
        path: File to read.
        language: Language of the terms. If the list gives languages, only terms in this language and its varieties are
            read ("*" for all). A list of several languages needs it.
        column: Column of the terms in a table: a name in one of the first 20 rows, or a number from 1.

    Raises ReadError.
    """
    check_path(path)
    column = to_column(column)
    path, (suffix, is_gzip) = Path(path), suffix_of(path)
    file = TextFile(path, str(path), is_gzip, "utf-8", Damage(skip=False))
    if suffix in (".tbx", ".xml"):
        return _without_options(stream_terms(file, language))
    table = True
    if suffix in _GLOSSARIES:
        with without_options():  # the first lines are read at once
            table, rows = _glossary(file)
    elif suffix == ".tsv":
        rows = _text_rows(tsv_rows(file))
    elif suffix == ".csv":
        rows = _text_rows(csv_rows(file, column if isinstance(column, str) else ""))
    elif suffix == ".xlsx" and not is_gzip:
        rows = sheet_rows(file)
    else:
        raise ReadError(str(path), 0, f"no term list by its name; expected {_READ}", "convert or rename it")
    return _without_options(_of_tables(file.name, rows, language, column if table else 1))


def is_glossary(path: str | os.PathLike[str]) -> bool:
    """Tell by the name of a file whether it is a list of terms, one per line, or a glossary of OmegaT."""
    return suffix_of(path)[0] in _GLOSSARIES


def _glossary(file: TextFile) -> tuple[bool, Iterator[Row]]:
    """Return whether a glossary is a table, and its rows; without tabs, each row is one term."""
    lines = ((line, text) for line, text in file.lines() if text.strip())
    comments, first = _beginning(lines, lambda line: line[1].startswith("#") and "\t" not in line[1])
    if not (first and "\t" in first[0][1]):
        return False, (("", line, text.strip().split("\t")) for line, text in chain(comments, first, lines))
    return True, (("", line, text.split("\t")) for line, text in chain(first, lines) if not text.startswith("#"))


def _text_rows(rows: Iterator[tuple[int, list[str]]]) -> Iterator[Row]:
    """Yield the rows with `meant` cells, without comments: first rows of one cell with #, before rows of several."""
    comments, first = _beginning(rows, lambda row: row[1][0].startswith("#") and not any(row[1][1:]))
    has_columns = bool(first) and len(first[0][1]) > 1
    for line, cells in chain([] if has_columns else comments, first, rows):
        yield "", line, list(map(meant, cells))


def _beginning(rows: Iterator[Item], is_comment: Callable[[Item], bool]) -> tuple[list[Item], list[Item]]:
    """Return the comments at the beginning, at most `_COMMENTS`, and the first row after them, if any."""
    comments: list[Item] = []
    for row in rows:
        if not is_comment(row) or len(comments) == _COMMENTS:
            return comments, [row]
        comments.append(row)
    return comments, []


def _without_options(terms: Iterator[Term]) -> Iterator[Term]:
    with without_options():
        yield from terms


def stream_terms(file: TextFile, language: str) -> Iterator[Term]:
    """Yield the terms of a TBX or MultiTerm (.xml) term base in one language ("": the only one, "*": all).

    Raises ReadError.
    """
    encoding = None if file.encoding == "utf-8" else "utf-8"
    base = MultiTermStream if file.name.lower().endswith((".xml", ".xml.gz")) else TbxStream
    return _of_language(base(file.name, encoding).read(file.blocks()), language, file.name)


def _of_tables(name: str, rows: Iterator[Row], language: str, column: str | int | None) -> Iterator[Term]:
    """Yield the terms of all sheets, each with its own header or none."""
    first = next(rows, None)
    if first is None:
        raise ReadError(name, 0, "no text in it; expected at least one term", "check the file")
    sheets = groupby(chain([first], rows), itemgetter(0))
    terms = (term for _, sheet in sheets for term in _of_table(name, sheet, language.replace("*", ""), column))
    yield from _of_language(terms, language, name)


def _of_table(name: str, rows: Iterator[Row], language: str, column: str | int | None) -> Iterator[Term]:
    first, rest = head(rows, HEADER_ROWS)
    at = header_of([cells for _, _, cells in first], column) if isinstance(column, str) else 0
    places = _places(name, first[at][0], [cell.strip() for cell in first[at][2]], column)
    rows = chain(first[at + 1 :], rest)
    if "text" not in places:
        places = {"text": column - 1 if isinstance(column, int) else 0}
        rows = chain(first, rest)
    for _, _, cells in rows:
        fields = {field: cells[at].strip() for field, at in places.items() if at < len(cells)}
        values: dict[str, Any] = {field: text for field, text in fields.items() if text}
        if "contexts" in values:
            values["contexts"] = (values["contexts"],)
        if "text" in values:
            yield Term(**{"language": language, **values})


def _places(name: str, sheet: str, header: list[str], column: str | int | None) -> dict[str, int]:
    """Map fields of `Term` to columns (from 0) if the first row is a header, else return an empty dict."""
    if isinstance(column, int):
        return {}
    columns = {cell.lower(): at for at, cell in reversed(list(enumerate(header)))}
    if column is None:
        places = {field: columns[cell] for cell, field in reversed(_FIELDS.items()) if cell in columns}
        return places if "text" in places else {}
    if column not in header:
        header_cells = ", ".join(repr(name[:60]) for name in header[:12]) or "none"
        where = f" in the sheet {sheet!r}" if sheet else ""
        reason = f"no column {column!r}{where}; the columns here are {header_cells}"
        raise ReadError(name, 1, reason, "choose one of them, or a number")
    names = {"language": f"{column.lower()}_language", "id": "id"}
    names["language"] = names["language"] if names["language"] in columns else "language"
    return {"text": header.index(column)} | {field: columns[name] for field, name in names.items() if name in columns}


def _of_language(terms: Iterator[Term], language: str, name: str) -> Iterator[Term]:
    """Yield the terms in a language. Raises ReadError if there are none, or if it is "" and there are several."""
    languages: dict[str, None] = {}
    is_match = False
    for term in terms:
        if len(languages) < _NOTED:
            languages.setdefault(term.language)
        if not language and len(languages) > 1:
            languages.update(dict.fromkeys(other_term.language for other_term in islice(terms, 1000)))
            reason = f"terms in {len(languages)} languages ({listed(languages)}); expected one language"
            raise ReadError(name, 0, reason, "choose one with --lang")
        if not language or speaks(term.language, language):
            is_match = True
            yield replace(term, text=composed(term.text))
    if not is_match:
        if not languages:
            raise ReadError(name, 0, "no term in it", "check the file")
        reason = f"no term in {language!r}; the languages here are {listed(languages)}"
        raise ReadError(name, 0, reason, "choose one of them")


def write_terms(path: str | os.PathLike[str], terms: Iterable[Term], version: int = 2) -> None:
    """Write a term base (.tbx); consecutive terms with the same ``id`` are one concept.

    The file keeps text, language, definition, note, contexts, and the ``metadata`` that TBX-Basic has elements for. An
    id that is invalid in XML or used by another concept is changed (17 to c17, c17 to c17-2). Characters that XML
    cannot hold become U+FFFD.

    Args:
        path: File to write.
        terms: Terms, those of a concept together.
        version: 2 for TBX-Basic of 2008 (MARTIF), which most programs read; 3 for ISO 30042:2019.

    Raises InputError for another suffix or a file that cannot be written.
    """
    if Path(path).suffix.lower() != ".tbx":
        raise InputError(f"{path}: expected a name that ends in .tbx; write_pairs writes tables")
    if version not in (2, 3):
        raise InputError(f"version={version}; expected 2 or 3")
    numbers = count()  # a term without an id is a separate concept
    concepts = (list(together) for _, together in groupby(terms, lambda term: term.id or next(numbers)))
    write_concepts(path, concepts, version)


def write_pairs(path: str | os.PathLike[str], rows: Iterable[TermPair]) -> None:
    """Write pairs of terms in the format of the file's extension: .tsv, .csv, .jsonl, .xlsx or .tbx.

    Tables have the columns source, target, score, source_language, target_language, id, definition, note, context, and
    one for each key of the first pair's ``metadata``. Tabs and line breaks within cells of .tsv become spaces. In .tsv
    and .csv, text that a spreadsheet would run as a formula gets a ' before it, which `read_terms` removes. JSON lines
    hold the whole pair. In .tbx, consecutive pairs with the same source are one concept. If neither language of a pair
    is known, their tags are und-x-source and und-x-target. The file appears when it is complete. Raises InputError for
    another suffix or a file that cannot be written, MissingExtra.
    """
    suffix = Path(path).suffix.lower()
    if suffix == ".tbx":
        write_concepts(path, _concepts(rows))
    elif suffix == ".xlsx":
        write_sheet(path, _table(rows))
    elif suffix == ".jsonl":
        write_lines(path, (json.dumps(asdict(pair), ensure_ascii=False, default=str) for pair in rows))
    elif suffix == ".tsv":
        write_lines(path, (tsv_line(map(harmless, row)) for row in _table(rows)))
    elif suffix == ".csv":
        with NewFile(path) as file:
            csv.writer(file).writerows(map(harmless, row) for row in _table(rows))
    else:
        raise InputError(f"{path}: the name of the file must end in {_WRITTEN}")


def _concepts(rows: Iterable[TermPair]) -> Iterator[list[Term]]:
    """Yield the terms of each concept: consecutive pairs with the same source. Empty targets are left out.

    If a source and one of its targets have no language, they get the tags `UNKNOWN`.
    """
    for _, together in groupby(rows, lambda pair: pair.source.id or (pair.source.language, pair.source.text)):
        concept: list[Term] = []
        sources: set[tuple[str, str]] = set()
        pairs = list(together)
        if any(not (pair.source.language or pair.target.language) for pair in pairs):
            pairs = list(map(_with_tags, pairs))
        for pair in pairs:
            source = pair.source
            if (source.language, source.text) not in sources:
                concept.append(source)
            sources.add((source.language, source.text))
            if pair.target.text.strip():
                origin = "chosen by a person" if pair.score is None else f"phrasemate, score {pair.score:.3f}"
                metadata = {"source": origin, **pair.target.metadata}
                concept.append(replace(pair.target, id=source.id, metadata=metadata))
        yield concept


def _with_tags(pair: TermPair) -> TermPair:
    """Replace the empty languages of a pair by the tags `UNKNOWN`."""
    source, target = (
        replace(term, language=term.language or tag)
        for term, tag in zip((pair.source, pair.target), UNKNOWN, strict=True)
    )
    return replace(pair, source=source, target=target)


def _table(rows: Iterable[TermPair]) -> Iterator[Sequence[Any]]:
    rows = iter(rows)
    first = next(rows, None)
    extra = [] if first is None else list(first.metadata)
    yield [*PAIR_COLUMNS, *extra]
    for pair in rows if first is None else chain([first], rows):
        source, target = pair.source, pair.target
        score = "" if pair.score is None else round(pair.score, 6)
        facts = [source.text, target.text, score, source.language, target.language]
        notes = [source.id, source.definition, source.note, "".join(source.contexts[:1])]
        yield [*facts, *notes, *(_cell(pair.metadata.get(key, "")) for key in extra)]


def _cell(value: object) -> str | int | float:
    if isinstance(value, str | int | float):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)
