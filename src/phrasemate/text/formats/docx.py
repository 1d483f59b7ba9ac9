"""The text of Word documents (docx): paragraphs, headings, cells of tables, footnotes and endnotes, in their order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from phrasemate.text.formats.archive import Archive, archive
from phrasemate.text.formats.xml import Attributes, XmlStream
from phrasemate.text.text_file import TextFile

_WHAT = "a Word document (docx)"
_WORD = (
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
    "http://purl.oclc.org/ooxml/wordprocessingml/main",
)
_FALLBACK = "http://schemas.openxmlformats.org/markup-compatibility/2006 Fallback"  # the same text, for old programs
_UNHEARD = frozenset({_FALLBACK, "moveFrom", "rt"})  # also what was moved away, and reading aids
_SIGNS = {"br": "\n", "cr": "\n", "noBreakHyphen": "-", "ptab": "\t", "tab": "\t"}
_HEADING = re.compile(r"heading (\d)|(title)$")
_COST = 100  # characters that a paragraph counts for, beside its text

Paragraph = tuple[str, dict[str, Any]]


def docx_paragraphs(file: TextFile) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Number (from 1), text and place of each paragraph that is not blank.

    The place: "heading" (level from 1; a title has 0), "table", "row" and "column" (from 1), "part" of notes. Deleted
    text, field codes, comments, headers and footers are left out; text in boxes stands before the paragraph that
    holds the box. Raises ReadError.
    """
    number = 0
    with archive(file, _WHAT) as document:
        main = document.main("word/document.xml")
        related = {relation["kind"]: relation["member"] for relation in document.related(main)}
        headings = _headings(document, related.get("styles", ""))
        for part in ("", "footnotes", "endnotes"):
            member = related.get(part, "") if part else main
            if member and (member in document or not part):
                for text, place in _Body(file.name, headings).read(document.blocks(member)):
                    number += 1
                    yield number, text, place | ({"part": part} if part else {})


def _headings(document: Archive, member: str) -> dict[str, int]:
    return dict(_Styles(document.name).read(document.blocks(member))) if member in document else {}


def _value(attributes: Attributes, name: str) -> str:
    """An attribute in the namespace of Word, old or new."""
    return next((attributes[key] for uri in _WORD if (key := f"{uri} {name}") in attributes), "")


class _Styles(XmlStream[tuple[str, int]]):
    """The styles of headings, and the level of each: names are English in every language's Word, ids are not."""

    root, what, namespaces = frozenset({"styles"}), _WHAT, frozenset(_WORD)
    _id = ""

    def start(self, tag: str, attributes: Attributes) -> None:
        if tag == "style":
            self._id = _value(attributes, "styleId")
        elif (
            tag == "name" and self.path[-2] == "style" and (found := _HEADING.match(_value(attributes, "val").lower()))
        ):
            self.charge(_COST + len(self._id))
            self.ready.append((self._id, int(found[1] or 0)))


class _Body(XmlStream[Paragraph]):
    root, what, namespaces = frozenset({"document", "endnotes", "footnotes"}), _WHAT, frozenset(_WORD)

    def __init__(self, name: str, headings: dict[str, int]) -> None:
        super().__init__(name)
        self._headings, self._muted, self._count = headings, 0, 0
        self._open: list[tuple[list[str], dict[str, Any]]] = []  # paragraphs, the innermost last
        self._tables: list[dict[str, int]] = []

    def start(self, tag: str, attributes: Attributes) -> None:
        if tag in _UNHEARD:
            self._muted += 1
        elif self._muted:
            return
        elif tag == "t":
            self.listening = bool(self._open)
        elif tag == "p":
            self.charge(_COST)
            self._open.append(([], dict(self._tables[-1]) if self._tables else {}))
        elif tag in _SIGNS:
            if self._open and self.path[-2] == "r":
                self.add(_SIGNS[tag])
                self._open[-1][0].append(self.taken())
        elif tag in ("pStyle", "outlineLvl"):
            self._style(tag, _value(attributes, "val"))
        else:
            self._table(tag)

    def end(self, tag: str) -> None:
        if tag in _UNHEARD:
            self._muted -= 1
        elif self._muted:
            return
        elif tag == "t":
            self.listening = False
            if self._open:
                self._open[-1][0].append(self.taken())
        elif tag == "p":
            pieces, place = self._open.pop()
            if (text := "".join(pieces)).strip():
                self.ready.append((text, place))
            if not self._open:
                self.settle()
        elif tag == "tbl":
            self._tables.pop()

    def _style(self, tag: str, value: str) -> None:
        if self._open and self.path[-2] == "pPr":
            if tag == "pStyle" and value in self._headings:
                self._open[-1][1]["heading"] = self._headings[value]
            elif tag == "outlineLvl" and value in tuple("012345678"):
                self._open[-1][1].setdefault("heading", int(value) + 1)

    def _table(self, tag: str) -> None:
        if tag == "tbl":
            self._count += 1
            self._tables.append({"table": self._count, "row": 0, "column": 0})
        elif tag == "tr" and self._tables:
            self._tables[-1].update(row=self._tables[-1]["row"] + 1, column=0)
        elif tag == "tc" and self._tables:
            self._tables[-1]["column"] += 1
