"""Readers of presentations (pptx), layouts (idml), e-books (epub), PDF and OpenDocument (odt, odp, ods)."""

from __future__ import annotations

import json
import posixpath
import re
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from phrasemate.errors import MissingExtra, ReadError
from phrasemate.text.formats.archive import archive
from phrasemate.text.formats.docx import FALLBACK, MATH, Equation
from phrasemate.text.formats.html import page_paragraphs
from phrasemate.text.formats.pdf_process import CHARACTERS as PAGE_TEXT
from phrasemate.text.formats.pdf_process import MEMORY, SECONDS
from phrasemate.text.formats.tables import COLUMNS
from phrasemate.text.formats.units import Paragraph
from phrasemate.text.formats.xml import COST, OFFICE_TOKEN, Attributes, XmlStream
from phrasemate.text.normalize import symbol_character
from phrasemate.text.text_file import TextFile
from phrasemate.utils.hyphens import Hyphens

_PRIVATE = re.compile("[\uf020-\uf0ff]")  # codes of symbol fonts
_DRAWING = frozenset(
    {"http://schemas.openxmlformats.org/drawingml/2006/main", "http://purl.oclc.org/ooxml/drawingml/main"}
    | {"http://schemas.openxmlformats.org/presentationml/2006/main", "http://purl.oclc.org/ooxml/presentationml/main"}
)


class _Slide(XmlStream[str]):
    """Paragraphs of a slide or its notes; for the presentation itself, the ids of the slides in order."""

    root = frozenset({"notes", "presentation", "sld"})
    format_name, namespaces, token = "a presentation (pptx)", _DRAWING, OFFICE_TOKEN

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._pieces: list[str] = []
        self._font, self._equation = "", Equation()

    def start(self, tag: str, attributes: Attributes) -> None:
        uri, _, name = tag.rpartition(" ")
        if FALLBACK in self.path:
            return
        if tag == "t" or (uri in MATH and name == "t"):
            self._pieces.append(self.take_text())
            self.listening = True
        elif uri in MATH:
            self.add(self._equation.start(name, attributes.get(f"{uri} val")))
        elif tag == "br":
            self.add("\n")
        elif tag == "r":
            self._font = ""
        elif tag == "sym" and self.path[-3:-1] == ["r", "rPr"]:
            self._font = attributes.get("typeface", "")
        elif tag == "sldId":
            identity = (value for key, value in attributes.items() if key.endswith("relationships id"))
            self.ready.append(next(identity, ""))

    def end(self, tag: str) -> None:
        uri, _, name = tag.rpartition(" ")
        if FALLBACK in self.path:
            return
        if tag == "t" or (uri in MATH and name == "t"):
            self.listening = False
            text = self.take_text()
            if "fld" not in self.path:  # a field: number of the slide, date
                self._pieces.append(self._equation.text(text) if uri else _PRIVATE.sub(self._symbol, text))
        elif uri in MATH:
            self.add(self._equation.end(name))
        elif tag == "p":
            if text := "".join([*self._pieces, self.take_text()]).strip():
                self.ready.append(text)
            self._pieces.clear()
            self.settle()

    def _symbol(self, match: re.Match[str]) -> str:
        return symbol_character(self._font, ord(match[0]))


def pptx_paragraphs(file: TextFile) -> Iterator[Paragraph]:
    """Yield text and "slide" (from 1) of each paragraph, with "part" for notes. Raises ReadError."""
    with archive(file, "a presentation (pptx)") as document:
        main = document.main("ppt/presentation.xml")
        members = {relation["id"]: relation["member"] for relation in document.related(main)}
        slides = list(_Slide(file.name).read(document.blocks(main)))
        for slide, identity in enumerate(slides, 1):
            if identity not in members or members[identity] not in document:
                continue
            notes = [r["member"] for r in document.related(members[identity]) if r["kind"] == "notesSlide"]
            for part, member in [("", members[identity]), *(("notes", note) for note in notes if note in document)]:
                for text in _Slide(file.name).read(document.blocks(member)):
                    yield text, {"slide": slide} | ({"part": part} if part else {})


class _Story(XmlStream[str]):
    """Paragraphs of an InDesign story; for the map of a document, the members with its stories."""

    root, format_name, token = frozenset({"Document", "Story"}), "a layout (idml)", OFFICE_TOKEN
    namespaces = frozenset({"http://ns.adobe.com/AdobeInDesign/idml/1.0/packaging"})

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._apart: list[str] = []  # text around each open note or table cell
        self._deleted = 0

    def start(self, tag: str, attributes: Attributes) -> None:
        if tag == "Story" and attributes.get("src"):
            self.ready.append(attributes["src"])
        elif tag == "Change" and attributes.get("ChangeType") == "DeletedText":
            self._deleted += 1
        elif tag in ("Cell", "Footnote"):
            self._apart.append(self.take_text())
            self.charge(COST)
        elif tag == "Content":
            self.listening = not self._deleted
        elif tag == "Br" and not self._deleted:
            self._finish()

    def end(self, tag: str) -> None:
        if tag == "Content":
            self.listening = False
        elif tag == "Change" and self._deleted:
            self._deleted -= 1
        elif tag == "Story":
            self._finish()
        elif tag in ("Cell", "Footnote"):
            self._finish()
            self.add(self._apart.pop())

    def _finish(self) -> None:
        if text := self.take_text().replace("\u2028", "\n").strip():
            self.ready.append(text)
        if not self._apart:
            self.settle()


def idml_paragraphs(file: TextFile) -> Iterator[Paragraph]:
    """Yield text and "story" of each paragraph; deleted text is left out. Raises ReadError."""
    with archive(file, "a layout (idml)") as document:
        for member in list(_Story(file.name).read(document.blocks("designmap.xml"))):
            for text in _Story(file.name).read(document.blocks(member)):
                yield text, {"story": posixpath.basename(member).removesuffix(".xml").removeprefix("Story_")}


class _Package(XmlStream[tuple[str, ...]]):
    """Container of a book: (full-path,); or its package: (id, href, media type) of files and (id,) of chapters."""

    root, format_name = frozenset({"container", "package"}), "an e-book (epub)"
    namespaces = frozenset({"http://www.idpf.org/2007/opf", "urn:oasis:names:tc:opendocument:xmlns:container"})

    def start(self, tag: str, attributes: Attributes) -> None:
        self.charge(COST + sum(map(len, attributes.values())))
        if tag == "rootfile":
            self.ready.append((attributes.get("full-path", ""),))
        elif tag == "item":
            self.ready.append(tuple(attributes.get(name, "") for name in ("id", "href", "media-type")))
        elif tag == "itemref":
            self.ready.append((attributes.get("idref", ""),))


def epub_paragraphs(file: TextFile) -> Iterator[Paragraph]:
    """Yield text, "heading" and "chapter" (from 1) of each paragraph. Raises ReadError, MissingExtra."""
    with archive(file, "an e-book (epub)") as book:
        if "META-INF/encryption.xml" in book and "META-INF/rights.xml" in book:
            raise ReadError(file.name, 0, "an e-book that is encrypted; expected one without protection", "convert it")
        roots = list(_Package(file.name).read(book.blocks("META-INF/container.xml")))
        package = roots[0][0] if roots else ""
        entries = list(_Package(file.name).read(book.blocks(package)))
        pages = {entry[0]: entry[1] for entry in entries if len(entry) == 3 and "html" in entry[2]}
        chapters = dict.fromkeys(pages[entry[0]] for entry in entries if len(entry) == 1 and entry[0] in pages)
        for chapter, href in enumerate(chapters, 1):
            member = posixpath.normpath(posixpath.join(posixpath.dirname(package), unquote(href)))
            for text, metadata in page_paragraphs(file.name, book.blocks(member)):
                yield text, {**metadata, "chapter": chapter}


PAGES = 20_000  # maximum number of pages of a PDF
_EDGE = 2  # number of lines at the top and at the bottom of a page that may be running heads or feet
_NEAR_PAGES = 4  # number of pages on each side to compare with
_SAME_HEIGHT = 6.0  # points; lines on a grid of this size count as at the same height
_PAGE_NUMBER = re.compile(r"[^\w#]*#(?:\s*/\s*#)?[^\w#]*")
_NUMBER = re.compile(r"\d+|\b[ivxlc]+\b")
_MARKS = str.maketrans({"\ufffe": "-", "\x02": "-", "\0": None})


class _Line(NamedTuple):
    """A line of text on a page (from 1), with its box in points from the lower left corner of the page."""

    x0: float
    y0: float
    x1: float
    y1: float
    text: str
    page: int


def pdf_paragraphs(file: TextFile) -> Iterator[Paragraph]:
    """Yield text and "page" (from 1) of each paragraph in the text layer of a PDF, column by column.

    Hyphenated words are joined, and running heads and page numbers are left out. A paragraph may continue on the next
    page. Raises ReadError for a file that is not a PDF, has a password or no text layer; MissingExtra without
    pypdfium2.
    """
    if find_spec("pypdfium2") is None:
        raise MissingExtra("pypdfium2", "formats")
    with file.stored() as stored_file:
        if b"%PDF-" not in stored_file.peek(1024)[:1024]:
            raise ReadError(file.name, 0, "not a PDF", "check the file")
    empty = True
    lines = (line for page in _without_heads(_pages(file)) for line in _ordered(page, 0))
    for page, text in _joined(lines):
        empty = False
        yield text, {"page": page}
    if empty:
        raise ReadError(file.name, 0, "a PDF without a text layer", "recognise its text first (OCR)")


def _pages(file: TextFile) -> Iterator[list[_Line]]:
    """Yield the lines of each page; an unreadable page is reported as damage and has none.

    A separate process reads the file, because a small PDF may need any amount of memory. Raises ReadError if this
    process ends early.
    """
    command = [sys.executable, "-P", str(Path(__file__).with_name("pdf_process.py")), str(file.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            assert process.stdout is not None
            first = json.loads(process.stdout.readline() or "{}")
            if "error" in first:
                reason = f"a PDF that cannot be read ({first['error']})"
                raise ReadError(file.name, 0, reason, "save it again, no password")
            count, number = first.get("pages", 0), 0
            if count > PAGES:
                raise ReadError(file.name, 0, f"{count:,} pages; expected at most {PAGES:,}", "split it")
            for number, answer in enumerate(map(json.loads, process.stdout), 1):
                if "error" in answer:
                    file.bad(number, f"page {number} cannot be read ({answer['error']})")
                yield _page_lines(answer.get("boxes", ()), number)
            if number < count or not first:
                what = f"page {number + 1} of a PDF" if first else "a PDF"
                limits = f"{MEMORY // 1_000_000:,} MB of memory or {SECONDS} s of a processor"
                raise ReadError(file.name, number + 1, f"{what} that needs more than {limits}", "print it to a new PDF")
        finally:
            process.kill()


def _without_heads(pages: Iterator[list[_Line]]) -> Iterator[list[_Line]]:
    """Remove running heads and feet: lines at the edge of a page that nearby pages have at the same height.

    A line with a number, which may differ, must be on one other page, any other line on two.
    """
    no_pages: list[list[_Line]] = [[]] * _NEAR_PAGES
    window: deque[tuple[list[_Line], dict[tuple[str, int], _Line]]] = deque(maxlen=2 * _NEAR_PAGES + 1)
    for lines in chain(no_pages, pages, no_pages):
        window.append((lines, _edges(lines)))
        if len(window) == window.maxlen:
            page, edges = window[_NEAR_PAGES]
            times = {key: sum(key in near for _, near in window) - 1 for key in edges}
            heads = {id(line) for key, line in edges.items() if times[key] >= (1 if "#" in key[0] else 2)}
            yield [line for line in page if id(line) not in heads]


def _edges(lines: list[_Line]) -> dict[tuple[str, int], _Line]:
    """Return the highest and lowest lines of a page: (text with "#" for numbers, height on a grid) -> line."""
    lines_by_height = sorted(lines, key=lambda line: line.y0)
    edge = lines_by_height[:_EDGE] + lines_by_height[-_EDGE:]
    keys = (_NUMBER.sub("#", line.text.casefold()) for line in edge)
    return {
        (key, round(line.y0 / _SAME_HEIGHT)): line
        for key, line in zip(keys, edge, strict=True)
        if any(map(str.isalpha, key)) or _PAGE_NUMBER.fullmatch(key)  # not a row of numbers in a table
    }


def _page_lines(boxes: Iterable[Sequence[Any]], number: int) -> list[_Line]:
    """Make the lines of a page from its text boxes, and join boxes that are close to each other on one line."""
    lines: list[_Line] = []
    for x0, y0, x1, y1, content in boxes:
        text = content.replace("\r\n", " ").translate(_MARKS)
        if not _PRIVATE.sub("", text).strip():  # blank, or the bullet of a list item
            continue
        line, last = _Line(x0, y0, x1, y1, text.strip(), number), lines[-1] if lines else None
        height, middle = max(y1 - y0, last.y1 - last.y0 if last else 0), (y0 + y1) / 2
        beside = last and last.y0 - 0.1 * height < middle < last.y1 + 0.1 * height  # note numbers are raised
        if last and beside and -height < line.x0 - last.x1 < 1.2 * height:
            gap = " " if line.x0 - last.x1 > 0.15 * height or text[:1] == " " else ""
            top, bottom = max(last.y1, line.y1), min(last.y0, line.y0)
            lines[-1] = _Line(last.x0, bottom, line.x1, top, f"{last.text}{gap}{line.text}"[:PAGE_TEXT], number)
        else:
            lines.append(line)
    return lines


def _ordered(lines: list[_Line], depth: int) -> list[_Line]:
    """Sort lines into reading order by recursive XY-cut: cuts between columns first, else between blocks."""
    parts: list[list[_Line]] = []
    if len(lines) > 1 and depth <= 30:
        height = sorted(line.y1 - line.y0 for line in lines)[len(lines) // 2]
        if cut := _widest_gap([(line.x0, line.x1) for line in lines], 0.8 * height):
            parts = [[line for line in lines if (line.x1 > cut) == after] for after in (False, True)]
        elif cut := _widest_gap([(line.y0, line.y1) for line in lines], 0.05 * height):
            parts = [[line for line in lines if (line.y1 > cut) == above] for above in (True, False)]
    if parts:
        return [line for part in parts for line in _ordered(part, depth + 1)]
    return sorted(lines, key=lambda line: (-line.y1, line.x0))


def _widest_gap(spans: list[tuple[float, float]], least: float) -> float | None:
    """Return the middle of the widest gap between spans, or None if it is not wider than ``least``."""
    best = least
    middle: float | None = None
    end: float | None = None
    for start, stop in sorted(spans):
        if end is not None and start - end > best:
            best, middle = start - end, (start + end) / 2
        end = stop if end is None else max(end, stop)
    return middle


def _joined(lines: Iterable[_Line]) -> Iterator[tuple[int, str]]:
    """Join lines to paragraphs, each with its page.

    A paragraph ends at a vertical gap, a change of font size, an indented line, a short line, or a jump to another
    place that does not continue a sentence.
    """
    text, page, last, edge = "", 0, None, 0.0
    hyphens = Hyphens()
    for line in lines:
        hyphens.read(line.text)
        height = line.y1 - line.y0
        if last is not None:
            step, size = last.y0 - line.y1, last.y1 - last.y0
            is_full = last.x1 > edge - 0.2 * max(edge - last.x0, 1) or line.text[:1].islower()
            is_alike, is_same_page = 0.75 < height / max(size, 0.1) < 1.33, line.page == last.page
            has_end = last.text[-1:] in ".!?:"
            is_indented = has_end and line.x0 > last.x0 + 0.6 * height
            is_below = is_same_page and -0.5 * height < step < 0.9 * height and not is_indented
            in_next_column = not has_end and (line.y0 > last.y1 if is_same_page else line.text[:1].islower())
            if not (is_full and is_alike and (is_below or in_next_column)) or len(text) > PAGE_TEXT:
                yield page, text
                text, edge = "", 0.0
        page = page if text else line.page
        text = hyphens.join(text, line.text)
        last, edge = line, max(edge, line.x1)
    if text:
        yield page, text


_OASIS = "urn:oasis:names:tc:opendocument:xmlns"
_TEXT, _TABLE, _OFFICE = f"{_OASIS}:text:1.0", f"{_OASIS}:table:1.0", f"{_OASIS}:office:1.0"
_UNREAD = frozenset({"annotation", "note-citation", "ruby-text", "tracked-changes", "forms", "meta", "page-number"})
_WHAT = "an OpenDocument file"
_SPACES = 1000  # maximum number of spaces from one element


class _Content(XmlStream[Paragraph]):
    """Paragraphs of an OpenDocument file in order; a note comes before its paragraph."""

    root, format_name, token = frozenset({"document-content"}), _WHAT, OFFICE_TOKEN
    namespaces = frozenset({_TEXT, _TABLE, _OFFICE})

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._unread, self._open = 0, list[tuple[list[str], dict[str, Any]]]()

    def start(self, tag: str, attributes: Attributes) -> None:
        if tag in _UNREAD:
            self._keep()
            self._unread += 1
        elif self._unread:
            return
        elif tag in ("h", "p"):
            self._keep()
            self.charge(COST)
            level = attributes.get(f"{_TEXT} outline-level", "1") if tag == "h" else ""
            self._open.append(([], {"heading": int(level)} if level.isdecimal() and len(level) < 3 else {}))
            self.listening = True
        elif tag == "s":
            self.add(" " * min(_SPACES, _count(attributes, f"{_TEXT} c")))
        elif tag in ("line-break", "tab"):
            self.add("\n" if tag == "line-break" else "\t")

    def end(self, tag: str) -> None:
        if tag in _UNREAD:
            self.take_text()
            self._unread -= 1
        elif tag in ("h", "p") and not self._unread:
            self._keep()
            pieces, place = self._open.pop()
            self.listening = bool(self._open)
            self.paragraph("".join(pieces), place)
            if not self._open:
                self.settle()

    def paragraph(self, text: str, place: dict[str, Any]) -> None:
        """Handle a complete paragraph."""
        if text.strip():
            self.ready.append((text.strip(), place))

    def _keep(self) -> None:
        text = self.take_text()
        if self._open and not self._unread:
            # white space in the file means one space; real line breaks and spaces are elements
            self._open[-1][0].append(text)


def opendocument_paragraphs(file: TextFile) -> Iterator[Paragraph]:
    """Yield text and "heading" of each paragraph of a text or presentation. Raises ReadError.

    Deleted text, comments and ruby are left out.
    """
    with archive(file, _WHAT) as document:
        yield from _Content(file.name).read(document.blocks("content.xml"))


class _Sheets(_Content):
    """Rows of a spreadsheet: ``ready`` has the name of the sheet, and "row" and "cells" as metadata, for each row."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._sheet, self._row, self._cells = "", 0, list[str]()
        self._cell: list[str] | None = None
        self._times = self._rows = 1

    def start(self, tag: str, attributes: Attributes) -> None:
        if tag == "table":
            self._sheet, self._row = attributes.get(f"{_TABLE} name", "")[:1000], 0
        elif tag == "table-row":
            self._cells, self._rows = [], _count(attributes, f"{_TABLE} number-rows-repeated")
        elif tag in ("covered-table-cell", "table-cell"):
            self._cell, self._times = [], _count(attributes, f"{_TABLE} number-columns-repeated")
        super().start(tag, attributes)

    def end(self, tag: str) -> None:
        super().end(tag)
        if tag in ("covered-table-cell", "table-cell") and self._cell is not None:
            text = "\n".join(self._cell)
            times = min(self._times, COLUMNS - len(self._cells))
            self.charge(times * (1 + len(text)) if text else 0)
            self._cells += [text] * times
            self._cell = None
        elif tag == "table-row":
            self._row += 1
            if any(self._cells):
                self.ready.append((self._sheet, {"row": self._row, "cells": self._cells}))
            self._row += self._rows - 1
            self.settle()

    def paragraph(self, text: str, place: dict[str, Any]) -> None:
        if self._cell is not None:
            self._cell.append(text)


def _count(attributes: Attributes, name: str) -> int:
    count = attributes.get(name, "1")
    return int(count) if count.isdecimal() and len(count) < 9 else 1


def ods_rows(file: TextFile) -> Iterator[tuple[str, int, list[str]]]:
    """Yield sheet, number and cells of each row that is not empty; repeated rows come once. Raises ReadError."""
    with archive(file, _WHAT) as document:
        for sheet, row in _Sheets(file.name).read(document.blocks("content.xml")):
            yield sheet, row["row"], row["cells"]
