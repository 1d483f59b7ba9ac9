"""Reader of Word documents (docx): paragraphs, headings, table cells, footnotes, endnotes and equations, in order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from phrasemate.text.formats.archive import Archive, archive
from phrasemate.text.formats.units import Paragraph
from phrasemate.text.formats.xml import COST, OFFICE_TOKEN, Attributes, XmlStream
from phrasemate.text.normalize import is_symbol_font, symbol_character, symbols_in_unicode
from phrasemate.text.text_file import TextFile

_HEXADECIMAL = re.compile("[0-9a-fA-F]{1,6}")
_SCRIPTS = {"sub": "_", "sup": "^"}
_PROPERTIES = {"naryPr": "∫", "dPr": "(", "radPr": "√"}


class Equation:
    """Converts an equation (OMML) to plain text: the signs for its elements, in addition to their texts."""

    def __init__(self) -> None:
        self._sign = ""  # sign before the next text, if the element has any
        self._character: str | None = None
        self._ends: list[str] = []  # closing brackets of the open elements
        self._end = ""

    def start(self, name: str, value: str | None) -> str:
        """Return the sign at the start of an element; ``value`` is its m:val."""
        if name == "den":
            return "/"
        if name in _SCRIPTS:
            self._sign = _SCRIPTS[name]
        elif name in _PROPERTIES:
            self._character, self._end = None, ")"
        elif name in ("begChr", "chr"):
            self._character = value or ""
        elif name == "endChr":
            self._end = value or ""
        elif name == "d":
            self._ends.append("")
        return ""

    def end(self, name: str) -> str:
        """Return the sign at the end of an element."""
        if name in _SCRIPTS:
            self._sign = ""
        elif name == "d":
            return self._ends.pop() if self._ends else ""
        elif name in _PROPERTIES:
            if name == "dPr" and self._ends:
                self._ends[-1] = self._end
            return _PROPERTIES[name] if self._character is None else self._character
        return ""

    def text(self, text: str) -> str:
        """Return a text with the sign before it."""
        sign, self._sign = (self._sign, "") if text else ("", self._sign)
        return sign + text


_WHAT = "a Word document (docx)"
_WORD = (
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
    "http://purl.oclc.org/ooxml/wordprocessingml/main",
)
MATH = ("http://schemas.openxmlformats.org/officeDocument/2006/math", "http://purl.oclc.org/ooxml/officeDocument/math")
FALLBACK = "http://schemas.openxmlformats.org/markup-compatibility/2006 Fallback"  # the same text for old programs
_UNHEARD = frozenset({FALLBACK, "del", "moveFrom", "rt"})  # ignored: also deleted and moved text, and ruby
_REMOVED = frozenset({"del", "moveFrom"})  # paragraph property: its mark was deleted, so it continues in the next one
_DEAD = (["trPr", "del"], ["trPr", "hidden"], ["tcPr", "cellDel"])  # deleted or hidden rows and cells
_HIDING = frozenset({"specVanish", "vanish"})  # paragraph property: its mark is hidden
_SIGNS = {"br": "\n", "cr": "\n", "noBreakHyphen": "-", "ptab": "\t", "tab": "\t"}
_HEADING = re.compile(r"heading (\d)|(title)$")
_BASES = 20  # maximum length of a chain of styles that are based on one another


def docx_paragraphs(file: TextFile) -> Iterator[Paragraph]:
    """Yield text and place of each paragraph that is not blank.

    The place has "heading" (level from 1; 0 for a title), "table", "row" and "column" (from 1), and "part" for notes.
    Deleted and hidden text, field codes, comments, headers and footers are left out. The text of a box comes before the
    paragraph with the box. Raises ReadError.
    """
    with archive(file, _WHAT) as document:
        main = document.main("word/document.xml")
        members_by_kind = {relation["kind"]: relation["member"] for relation in document.related(main)}
        styles = _styles(document, members_by_kind.get("styles", ""))
        for part in ("", "footnotes", "endnotes"):
            member = members_by_kind.get(part, "") if part else main
            if member and (member in document or not part):
                for text, place in _Body(file.name, styles).read(document.blocks(member)):
                    yield text, place | ({"part": part} if part else {})


class _Style(NamedTuple):
    """A style: level of its heading, whether its text is hidden, its font, and the id of the style it is based on."""

    heading: int | None = None
    hidden: bool | None = None
    font: str = ""
    base: str = ""


def _styles(document: Archive, member: str) -> dict[str, _Style]:
    """Read the styles by id, with the properties that they inherit."""
    styles = dict(_Styles(document.name).read(document.blocks(member))) if member in document else {}
    return {name: _with_base(styles, style) for name, style in styles.items()}


def _with_base(styles: Mapping[str, _Style], style: _Style) -> _Style:
    """Add the properties that a style inherits from those it is based on."""
    base = style
    for _ in range(_BASES):
        if base.base not in styles:
            break
        base = styles[base.base]
        style = style._replace(
            hidden=base.hidden if style.hidden is None else style.hidden, font=style.font or base.font
        )
    return style


def _value(attributes: Attributes, name: str) -> str:
    """Return an attribute in the namespace of Word (transitional or strict), or ""."""
    return next((attributes[key] for uri in _WORD if (key := f"{uri} {name}") in attributes), "")


def _font(attributes: Attributes) -> str:
    """Return the font of an ``rFonts`` element for letters, digits and signs; a symbol font if it names one."""
    fonts = [name for script in ("ascii", "hAnsi") if (name := _value(attributes, script))]
    return next(filter(is_symbol_font, fonts), fonts[0] if fonts else "")


def _is_on(attributes: Attributes) -> bool:
    """Tell whether a toggle property is on, as it is by default."""
    return _value(attributes, "val") not in ("0", "false", "off")


class _Styles(XmlStream[tuple[str, _Style]]):
    """Reader of styles.xml; headings are found by name, which is English in every Word, unlike the id."""

    root, format_name, namespaces, token = frozenset({"styles"}), _WHAT, frozenset(_WORD), OFFICE_TOKEN
    _id, _style = "", _Style()

    def start(self, tag: str, attributes: Attributes) -> None:
        if tag == "style":
            self._id, self._style = _value(attributes, "styleId"), _Style()
        elif (
            tag == "name" and self.path[-2] == "style" and (match := _HEADING.match(_value(attributes, "val").lower()))
        ):
            self._style = self._style._replace(heading=int(match[1] or 0))
        elif tag == "basedOn":
            self._style = self._style._replace(base=_value(attributes, "val"))
        elif tag == "rFonts" and self.path[-3:-1] == ["style", "rPr"]:
            self._style = self._style._replace(font=_font(attributes))
        elif tag == "vanish" and self.path[-3:-1] == ["style", "rPr"]:
            self._style = self._style._replace(hidden=_is_on(attributes))

    def end(self, tag: str) -> None:
        if tag == "style" and self._style != _Style():
            self.charge(COST + len(self._id) + len(self._style.base) + len(self._style.font))
            self.ready.append((self._id, self._style))


class _Paragraph:
    """A paragraph that is being read. ``joins``: its mark is deleted or hidden, so it continues in the next one."""

    def __init__(self, pieces: list[str], place: dict[str, Any]) -> None:
        self.pieces, self.place, self.joins, self.hidden, self.font = pieces, place, False, False, ""


class _Body(XmlStream[Paragraph]):
    root, format_name, token = frozenset({"document", "endnotes", "footnotes"}), _WHAT, OFFICE_TOKEN
    namespaces = frozenset(_WORD)
    _RUNS = frozenset({"r", *(f"{uri} r" for uri in MATH)})

    def __init__(self, name: str, styles: Mapping[str, _Style]) -> None:
        super().__init__(name)
        self._styles, self._muted, self._count = styles, 0, 0
        self._open: list[_Paragraph] = []  # open paragraphs, the innermost last
        self._runs: list[bool] = []  # whether each open run is hidden
        self._joined: dict[int, list[str]] = {}  # depth of paragraphs -> text that continues in the next paragraph
        self._tables: list[dict[str, int]] = []
        self._dead_rows: set[int] = set()  # depths of the open rows and cells that are deleted or hidden
        self._equation, self._font = Equation(), ""

    def start(self, tag: str, attributes: Attributes) -> None:
        if tag in _REMOVED | _HIDING and self.path[-3:-1] == ["pPr", "rPr"] and self._open:
            self._open[-1].joins |= tag in _REMOVED or _is_on(attributes)
        if self.path[-2:] in _DEAD and (tag != "hidden" or _is_on(attributes)):
            self._dead_rows.add(len(self.path) - 2)
            self._muted += 1
        if tag in _UNHEARD:
            self._muted += 1
        elif self._muted:
            return
        elif tag == "t":
            self.listening = self._is_shown()
        elif tag == "p":
            self.charge(COST)
            place = dict(self._tables[-1]) if self._tables else {}
            self._open.append(_Paragraph(self._joined.pop(len(self._open), []), place))
        elif tag == "r":
            self._runs.append(bool(self._open) and self._open[-1].hidden)
            self._font = self._open[-1].font if self._open else ""
        elif tag in ("rStyle", "vanish"):
            self._hide(tag, attributes)
        elif tag == "rFonts" and self.path[-3] in self._RUNS and self.path[-2] == "rPr":
            self._font = _font(attributes)
        elif tag == "sym":
            code = _value(attributes, "char")
            code_point = int(code, 16) if _HEXADECIMAL.fullmatch(code) else 0
            self._put(symbol_character(_value(attributes, "font"), code_point))
        elif tag in _SIGNS:
            if self.path[-2] == "r":
                self._put(_SIGNS[tag])
        elif tag in ("pStyle", "outlineLvl"):
            self._style(tag, _value(attributes, "val"))
        elif " " in tag:
            self._math(tag, attributes)
        else:
            self._table(tag)

    def end(self, tag: str) -> None:
        if tag in _UNHEARD:
            self._muted -= 1
        elif tag in ("tc", "tr") and len(self.path) + 1 in self._dead_rows:
            self._dead_rows.discard(len(self.path) + 1)
            self._muted -= 1
        elif self._muted:
            return
        elif tag == "t":
            self._heard_text()
        elif tag == "r":
            self._runs.pop()
        elif tag == "p":
            self._end_paragraph(self._open.pop())
        elif tag in ("body", "tc", "txbxContent", "footnote", "endnote"):
            self._flush()
        elif " " in tag:
            uri, _, name = tag.rpartition(" ")
            if uri in MATH and name == "t":
                self._heard_text(self._equation)
            elif uri in MATH:
                self._put(self._equation.end(name))
        if tag == "tbl":
            self._tables.pop()

    def _heard_text(self, equation: Equation | None = None) -> None:
        self.listening = False
        if self._open:
            text = symbols_in_unicode(self._font, self.take_text())
            self._open[-1].pieces.append(equation.text(text) if equation else text)

    def _end_paragraph(self, paragraph: _Paragraph) -> None:
        if paragraph.joins:
            self._joined[len(self._open)] = paragraph.pieces
        elif (text := "".join(paragraph.pieces)).strip():
            self.ready.append((text, paragraph.place))
        if not self._open and not self._joined:
            self.settle()

    def _flush(self) -> None:
        """Give the text that would continue in the next paragraph, if there is no next one."""
        if (text := "".join(self._joined.pop(len(self._open), []))).strip():
            self.ready.append((text, {}))

    def _is_shown(self) -> bool:
        return bool(self._open) and not (self._runs and self._runs[-1])

    def _put(self, text: str) -> None:
        if text and self._is_shown():
            self.add(text)
            self._open[-1].pieces.append(self.take_text())

    def _hide(self, tag: str, attributes: Attributes) -> None:
        if self._runs and self.path[-3:-1] == ["r", "rPr"]:
            style = self._styles.get(_value(attributes, "val"), _Style())
            is_hidden = _is_on(attributes) if tag == "vanish" else style.hidden
            self._font = style.font or self._font
            self._runs[-1] = self._runs[-1] if is_hidden is None else is_hidden

    def _math(self, tag: str, attributes: Attributes) -> None:
        uri, _, name = tag.rpartition(" ")
        if uri not in MATH:
            return
        if name == "t":
            self.listening = self._is_shown()
        elif name == "r":
            self._font = ""
        else:
            self._put(self._equation.start(name, attributes.get(f"{uri} val")))

    def _style(self, tag: str, value: str) -> None:
        if self._open and self.path[-2] == "pPr":
            paragraph = self._open[-1]
            if tag == "outlineLvl" and value in tuple("012345678"):
                paragraph.place.setdefault("heading", int(value) + 1)
            elif tag == "pStyle" and value in self._styles:
                heading, is_hidden, font, _ = self._styles[value]
                paragraph.hidden, paragraph.font = bool(is_hidden), font
                if heading is not None:
                    paragraph.place["heading"] = heading

    def _table(self, tag: str) -> None:
        if tag == "tbl":
            self._flush()
            self._count += 1
            self._tables.append({"table": self._count, "row": 0, "column": 0})
        elif tag == "tr" and self._tables:
            self._tables[-1].update(row=self._tables[-1]["row"] + 1, column=0)
        elif tag == "tc" and self._tables:
            self._tables[-1]["column"] += 1
