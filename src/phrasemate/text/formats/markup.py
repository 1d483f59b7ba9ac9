"""Readers of documents in markup languages: Markdown, DocBook and RTF."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Any

from phrasemate.errors import ReadError, needs_extra
from phrasemate.text.formats.units import Paragraph, Record
from phrasemate.text.formats.xml import Attributes, XmlStream
from phrasemate.text.normalize import is_symbol_font, symbols_in_unicode
from phrasemate.text.text_file import WHOLE, TextFile

_FRONT_MATTER = re.compile(r"\A---\n.*?\n(?:---|\.\.\.)\n", re.DOTALL)
_TAG = re.compile(r"<!--.*?-->|</?[a-zA-Z][^<>]*>", re.DOTALL)
_SPACE = re.compile(r"[ \t\n\r\f]+")
_EMBEDDED = re.compile(
    r"\bdata:[\w.+-]+/[\w.+-]+;base64,[\w+/=%-]++"
)  # an embedded image, which is not text and slow to parse


def markdown_paragraphs(file: TextFile) -> Iterator[Record]:
    """Yield line, text and "heading" (level from 1) of each paragraph, heading, list item and table cell of CommonMark.

    Code blocks and front matter are left out. Raises ReadError, MissingExtra without markdown-it-py.
    """
    with needs_extra("formats", "markdown-it-py"):
        from markdown_it import MarkdownIt
    text = _EMBEDDED.sub("#", file.whole())
    front = _FRONT_MATTER.match(text)
    skip_count = front[0].count("\n") if front else 0
    heading = 0
    for token in MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text[front.end() if front else 0 :]):
        if token.type == "heading_open":
            heading = int(token.tag[1:])
        elif token.type == "heading_close":
            heading = 0
        elif token.type == "inline" or token.type == "html_block":
            words = _inline(token.children) if token.children else html.unescape(_TAG.sub(" ", token.content))
            line = token.map[0] + 1 + skip_count if token.map else 0
            if words.strip():
                yield line, words.strip(), {"heading": heading} if heading else {}


def _inline(tokens: Any) -> str:
    signs = {"softbreak": " ", "hardbreak": "\n"}
    pieces = []
    for token in tokens:
        if token.type in ("text", "code_inline", "image", "text_special"):
            pieces.append(_inline(token.children) if token.children else token.content)
        elif token.type == "html_inline":
            pieces.append("\n" if token.content.lower().startswith("<br") else "")
        else:
            pieces.append(signs.get(token.type, ""))
    return "".join(pieces)


_DOCBOOK = ("http://docbook.org/ns/docbook",)
_ROOTS = frozenset(
    {"appendix", "article", "book", "chapter", "glossary", "part", "preface", "refentry", "reference", "section", "set"}
)
# inline elements (DocBook 5.1, "Inlines"); all others are blocks
_INLINES = frozenset(
    [
        "abbrev",
        "accel",
        "acronym",
        "alt",
        "anchor",
        "application",
        "author",
        "biblioref",
        "citation",
        "citetitle",
        "classname",
        "code",
        "command",
        "computeroutput",
        "constant",
        "corpauthor",
        "coref",
        "date",
        "edition",
        "editor",
        "email",
        "emphasis",
        "envar",
        "errorcode",
        "errorname",
        "exceptionname",
        "filename",
        "firstname",
        "firstterm",
        "foreignphrase",
        "function",
        "glossterm",
        "guibutton",
        "guiicon",
        "guilabel",
        "guimenu",
        "guimenuitem",
        "guisubmenu",
        "hardware",
        "honorific",
        "initializer",
        "inlineequation",
        "inlinemediaobject",
        "interfacename",
        "jobtitle",
        "keycap",
        "keycode",
        "keycombo",
        "keysym",
        "link",
        "literal",
        "markup",
        "mathphrase",
        "menuchoice",
        "methodname",
        "modifier",
        "mousebutton",
        "nonterminal",
        "olink",
        "option",
        "optional",
        "orgname",
        "othername",
        "package",
        "parameter",
        "personname",
        "phrase",
        "productname",
        "productnumber",
        "prompt",
        "property",
        "quote",
        "remark",
        "replaceable",
        "returnvalue",
        "sgmltag",
        "shortcut",
        "subscript",
        "superscript",
        "surname",
        "symbol",
        "systemitem",
        "tag",
        "termdef",
        "token",
        "trademark",
        "type",
        "ulink",
        "uri",
        "userinput",
        "varname",
        "wordasword",
        "xref",
        "year",
    ]
)
_UNREAD = frozenset({"indexterm", "programlisting", "screen", "synopsis", "cmdsynopsis", "funcsynopsis", "imagedata"})
_WITHIN_LINE = _INLINES | {"imagedata", "indexterm"}


class _DocBook(XmlStream[Record]):
    root, format_name, namespaces = _ROOTS, "DocBook", frozenset(_DOCBOOK)

    def __init__(self, name: str, encoding: str | None = None) -> None:
        super().__init__(name, encoding)
        self._unread, self._line = 0, 1
        self._held: list[list[str]] = [[]]  # pieces of the text, and of each open footnote in it

    def start(self, tag: str, attributes: Attributes) -> None:
        self.listening = True
        if tag in _UNREAD:
            self._keep() if self._unread or tag in _WITHIN_LINE else self._finish()
            self._unread += 1
        elif tag == "footnote":
            self._keep()
            self._held.append([])
        elif tag not in _INLINES:
            self._finish()
        self._line = self._line if "".join(self._held[-1]).strip() else self.line

    def end(self, tag: str) -> None:
        if tag in _UNREAD:
            self.take_text()
            self._unread -= 1
        elif tag == "footnote":
            self._finish()
            self._held.pop()
        elif tag not in _INLINES:
            self._finish()

    def _unknown_entity(self, name: str, is_parameter: bool) -> None:
        """Read a character entity, which the DTD of DocBook shares with HTML."""
        if f"{name};" not in html.entities.html5:
            super()._unknown_entity(name, is_parameter)
        self.add(html.entities.html5[f"{name};"])

    def _keep(self) -> None:
        text = self.take_text()
        if not self._unread:
            self._held[-1].append(text)

    def _finish(self) -> None:
        self._keep()
        text = _SPACE.sub(" ", "".join(self._held[-1])).strip()
        self._held[-1].clear()
        if text:
            self.ready.append((self._line, text, {}))
            self.settle()


def docbook_paragraphs(file: TextFile) -> Iterator[Record]:
    """Yield line and text of each block of a DocBook document (4 or 5); code and index terms are left out."""
    return _DocBook(file.name, None if file.encoding == "utf-8" else "utf-8").read(file.blocks())


_RTF = re.compile(
    r"\\([a-z]{1,32})(-?\d{1,10})? ?|\\'([0-9a-fA-F]{2})|\\([^a-z])|([{}])|[\r\n]+|([^\\{}\r\n]+)", re.DOTALL
)
_UNHEARD = frozenset(
    {
        "annotation",
        "author",
        "colortbl",
        "filetbl",
        "fldinst",
        "fonttbl",
        "footer",
        "footerf",
        "footerl",
        "footerr",
        "ftncn",
    }
    | {
        "ftnsep",
        "generator",
        "header",
        "headerf",
        "headerl",
        "headerr",
        "info",
        "listtable",
        "listtext",  # number or bullet of a list item, for programs without lists
        "nonshppict",
        "object",
        "pict",
        "pntext",
    }
    | {"rsidtbl", "stylesheet", "themedata", "xmlnstbl", "atnid", "atnauthor", "ftnsepc", "aftnsep", "revtbl"}
)
_SIGNS = {"bullet": "•", "emdash": "—", "endash": "–", "ldblquote": "“", "line": "\n", "lquote": "‘", "rdblquote": "”"}
_SIGNS |= {"rquote": "’", "tab": "\t", "emspace": "\u2003", "enspace": "\u2002"}
_ENDS = frozenset({"cell", "nestcell", "page", "par", "row", "sect"})
_CHARSETS = {128: "cp932", 129: "cp949", 134: "cp936", 136: "cp950", 161: "cp1253", 162: "cp1254", 163: "cp1258"}
_CHARSETS |= {177: "cp1255", 178: "cp1256", 186: "cp1257", 204: "cp1251", 222: "cp874", 238: "cp1250", 0: "cp1252"}
_GROUPS = 1000  # maximum depth of groups


def rtf_paragraphs(file: TextFile) -> Iterator[Paragraph]:
    """Yield the text of each paragraph and cell of an RTF document (1.9); notes come before their paragraph.

    Hidden and deleted text, field codes, headers and footers are left out. Raises ReadError.
    """
    raw = b"".join(file.limited(WHOLE, "an RTF document", "take out pictures"))
    if not raw.startswith(b"{\\rtf"):
        raise ReadError(file.name, 0, "no RTF document; expected one that begins with {\\rtf", "check the file")
    for text in _Rtf(file.name).read(raw.decode("latin-1")):
        yield text, {}


class _Rtf:
    """Parser of one RTF document, with the state of the current group, which ends with the group."""

    def __init__(self, name: str) -> None:
        self._name, self._page, self._bytes, self._after = name, "cp1252", bytearray(), 0
        self._fonts: dict[int, str] = {}
        self._symbols: dict[int, str] = {}  # font number -> symbol font
        self._texts: list[list[str]] = [[]]  # pieces of the paragraph, and of each open note in it
        self._state: dict[str, Any] = {
            "unheard": False,
            "hidden": False,
            "skip": 1,
            "page": "",
            "symbols": "",
            "table": False,
            "note": False,
        }

    def read(self, document: str) -> Iterator[str]:
        """Yield the paragraphs. Raises ReadError."""
        stack: list[dict[str, Any]] = []
        star = False
        for match in _RTF.finditer(document):
            word, number, code, sign, brace, text = match.groups()
            if brace == "{":
                self._flush()
                stack.append(dict(self._state))
                self._state["note"] = False
                if len(stack) > _GROUPS:
                    raise ReadError(self._name, 0, f"groups nested more than {_GROUPS} deep", "save it again")
            elif brace == "}":
                self._flush()
                if self._state["note"]:
                    yield from self._paragraph()
                    self._texts.pop()
                if not stack:
                    break
                self._state = stack.pop()
                self._after = 0
            elif word:
                if star and word not in ("shppict", "shpinst", "shptxt", "footnote"):
                    self._state["unheard"] = True
                if word in _ENDS:
                    if not self._state["unheard"]:
                        self._flush()
                        yield from self._paragraph()
                else:
                    self._word(word, int(number) if number else None)
            elif code:
                self._byte(int(code, 16))
            elif sign:
                if sign in "\r\n" and not self._state["unheard"]:  # the same as \par; written by TextEdit
                    self._flush()
                    yield from self._paragraph()
                self._put({"~": "\u00a0", "-": "\u00ad", "_": "\u2011", "\\": "\\", "{": "{", "}": "}"}.get(sign, ""))
            elif text:
                self._plain(text)
            star = sign == "*"
        self._flush()
        while self._texts:
            yield from self._paragraph()
            self._texts.pop()

    def _word(self, word: str, number: int | None) -> None:
        state = self._state
        if word in _UNHEARD:
            state["unheard"] = True
            state["table"] = word == "fonttbl"
        elif word == "footnote":
            state["note"] = True
            self._flush()
            self._texts.append([])
        elif word in ("v", "deleted"):
            self._flush()
            state["hidden"] = number != 0
        elif word == "plain":
            state["hidden"], state["page"], state["symbols"] = False, "", ""
        elif word == "ansicpg" and number:
            self._page = f"cp{number}"
        elif word == "f" and number is not None:
            self._flush()
            state["font"], state["page"] = number, self._fonts.get(number, "")
            state["symbols"] = self._symbols.get(number, "")
        elif word == "fcharset" and state["table"] and number in _CHARSETS:
            self._fonts[state.get("font", 0)] = _CHARSETS[number] if number else ""
        elif word == "uc" and number is not None:
            state["skip"] = number
        elif word == "u" and number is not None:
            self._put(symbols_in_unicode(self._state["symbols"], chr(number % 65536)))
            self._after = state["skip"]
        else:
            self._put(_SIGNS.get(word, ""))

    def _byte(self, byte: int) -> None:
        if self._after:
            self._after -= 1
        elif not (self._state["unheard"] or self._state["hidden"]):
            self._bytes.append(byte)

    def _plain(self, text: str) -> None:
        if self._state["table"] and is_symbol_font(name := text.rstrip(";")):
            self._symbols[self._state.get("font", 0)] = name
        skip_count = min(self._after, len(text))
        self._after -= skip_count
        if text[skip_count:] and not (self._state["unheard"] or self._state["hidden"]):
            self._bytes += text[skip_count:].encode("latin-1")

    def _put(self, text: str) -> None:
        if text and not (self._state["unheard"] or self._state["hidden"]):
            self._flush()
            self._texts[-1].append(text)

    def _flush(self) -> None:
        if self._bytes and self._state["symbols"]:
            self._texts[-1].append(symbols_in_unicode(self._state["symbols"], self._bytes.decode("latin-1")))
            self._bytes.clear()
        elif self._bytes:
            try:
                self._texts[-1].append(self._bytes.decode(self._state["page"] or self._page, "replace"))
            except LookupError:
                self._texts[-1].append(self._bytes.decode("cp1252", "replace"))
            self._bytes.clear()

    def _paragraph(self) -> Iterator[str]:
        text = "".join(self._texts[-1]).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").strip()
        self._texts[-1].clear()
        if text:
            yield text.replace("\0", "\ufffd")
