"""The text of web pages: paragraphs as a reader sees them, without scripts, styles and markup."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from phrasemate.errors import MissingExtra, ReadError
from phrasemate.text.formats.codes import BLOCKS
from phrasemate.text.text_file import NO_CHARSETS, TextFile, binary_kind

PAGE = 64_000_000  # bytes of a page
DEPTH = 1000  # elements within one another: the parser looks through all that are open for each end that fits to none
_HEAD = 1024  # bytes in which a page should say its encoding (WHATWG HTML, section 4.2.5.5)
_LATE = 1 << 18  # bytes in which it may
_APART = frozenset({"button"})  # a box in the line, apart from the words beside it
_UNSEEN = frozenset(
    {
        "applet",
        "audio",
        "canvas",
        "datalist",
        "iframe",
        "annotation",
        "annotation-xml",
        "noscript",
        "object",
        "rp",
        "rt",
        "script",
    }
    | {"select", "style", "svg", "template", "textarea", "video"}
)
_ALSO_CALLED = {"ascii": "cp1252", "iso8859-1": "cp1252", "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932"}
_CHARSET = re.compile(rb"""<(?:meta|\?xml)[^>]*?(?:charset|encoding)\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
# What stands between the parts of an equation (MathML), by the element and the number of the next part.
_SIGNS = {("mfrac", 2): "/", ("msub", 2): "_", ("msup", 2): "^", ("msubsup", 2): "_", ("msubsup", 3): "^"}
_SPACE = re.compile(r"[ \t\n\r\f]+")
_TOTAL = "phrasemate.windows1252"


def html_paragraphs(file: TextFile) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Number (from 1), text and metadata ("heading": its level; the title has 0) of each paragraph that is not blank.

    The encoding is the one that the page declares. One that declares none is in UTF-8, or in windows-1252 if it is not.
    Raises ReadError for what is not a page or larger than 64 MB, MissingExtra without lxml.
    """
    return page_paragraphs(file.name, (text.encode("utf-8", "replace") for text in _decoded(file)))


def page_paragraphs(name: str, blocks: Iterable[bytes]) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """The same of a page in UTF-8, as it comes. Raises ReadError, MissingExtra without lxml."""
    try:
        from lxml import etree
    except ImportError:
        raise MissingExtra("lxml", "formats") from None
    page = _Page()
    parser = etree.HTMLParser(target=page, encoding="utf-8", no_network=True, remove_comments=True, remove_pis=True)
    number = 0
    for block in chain(blocks, [None]):
        try:
            parser.close() if block is None else parser.feed(block)
        except etree.LxmlError as error:
            raise ReadError(name, 0, f"no web page ({error})", "check the file") from None
        for paragraph, metadata in page.ready:
            number += 1
            yield number, paragraph, metadata
        page.ready.clear()
        if page.deepest > DEPTH:
            reason = f"elements nested more than {DEPTH:,} deep; expected a web page"
            raise ReadError(name, 0, reason, "close the elements that are open")


def _decoded(file: TextFile) -> Iterator[str]:
    encoding, reason = ("utf-8", "that was given") if file.encoding != "utf-8" else _encoding(file)
    blocks = _blocks(file)
    first = next(blocks, b"")
    if not encoding.startswith("utf-16") and (kind := binary_kind(first[:8192])):
        raise ReadError(file.name, 0, *kind)
    decoder = codecs.getincrementaldecoder(encoding)(_TOTAL if encoding == "cp1252" else "strict")
    try:
        for block in chain([first], blocks):
            yield decoder.decode(block)
        yield decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        problem = f"byte 0x{error.object[error.start]:02X} is not {encoding}, {reason}"
        raise ReadError(file.name, 0, problem, "give the right --encoding") from None


def _blocks(file: TextFile) -> Iterator[bytes]:
    size = 0
    for block in file.blocks():
        size += len(block)
        if size > PAGE:
            raise ReadError(file.name, 0, f"more than {PAGE:,} bytes; expected a web page", "split it")
        yield block


def _encoding(file: TextFile) -> tuple[str, str]:
    """The encoding that a page is in, and how that is known; all of it is read if its first bytes do not say."""
    blocks = _blocks(file)
    head = next(blocks, b"")
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            return encoding, "with whose mark it begins"
    if declared := _declared(head[:_HEAD]):
        return declared, "in which the page says that it is"
    decoder, head = codecs.getincrementaldecoder("utf-8")("replace"), head[:_LATE]
    text = decoder.decode(head)
    wrong, right = text.count("\ufffd"), _beyond_ascii(text)
    for block in blocks:
        head += block[: _LATE - len(head)]
        text = decoder.decode(block)
        wrong, right = wrong + text.count("\ufffd"), right + _beyond_ascii(text)
    if declared := _declared(head):
        return declared, "in which the page says that it is"
    return ("cp1252" if wrong > right - wrong else "utf-8"), "which most of the page is; it does not say its encoding"


def _beyond_ascii(text: str) -> int:
    return 0 if text.isascii() else len(text) - len(text.encode("ascii", "ignore"))


def _declared(head: bytes) -> str:
    """The encoding that the beginning of a page declares; nothing if there is none that is known."""
    declaration = _CHARSET.search(head)
    try:
        usual = codecs.lookup(declaration[1].decode("ascii")).name if declaration else ""
        "".encode(usual or "utf-8")  # refuses what is not an encoding of text, such as base64
    except (LookupError, UnicodeError):
        return ""
    if usual in NO_CHARSETS:
        return ""
    return "utf-8" if usual.startswith("utf-16") else _ALSO_CALLED.get(usual, usual)  # it could not be read so far


def _same_code(error: UnicodeError) -> tuple[str, int]:
    """The five bytes that windows-1252 leaves out are control characters (WHATWG Encoding, section 9)."""
    assert isinstance(error, UnicodeDecodeError)
    return error.object[error.start : error.end].decode("latin-1"), error.end


codecs.register_error(_TOTAL, _same_code)


class _Page:
    """What the parser tells of a page, made into paragraphs."""

    def __init__(self) -> None:
        self.ready: list[tuple[str, dict[str, Any]]] = []
        self._pieces: list[str] = []
        self._unseen = self._kept = self._depth = self.deepest = 0
        self._metadata: dict[str, Any] = {}
        self._in_head = False
        self._equation: list[list[Any]] = []  # its elements that are open, and how many parts each has so far

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        self._depth += 1
        self.deepest = max(self.deepest, self._depth)
        if self._unseen or tag in _UNSEEN:
            self._unseen += 1
        elif tag == "math" or self._equation:
            self._begin_part(tag)
        elif tag == "br":
            self._pieces.append("\n" if self._kept else "\0")
        elif tag in _APART:
            self._pieces.append(" ")
        elif tag in BLOCKS:
            self._finish()
            self._kept += tag == "pre"
            self._in_head = tag == "head" or (self._in_head and tag != "body")
            if tag == "title" or (len(tag) == 2 and tag[0] == "h" and tag[1] in "123456"):
                self._metadata = {"heading": 0 if tag == "title" else int(tag[1])}

    def end(self, tag: str) -> None:
        self._depth -= 1
        if self._unseen:
            self._unseen -= 1
        elif self._equation:
            self._equation.pop()
        elif tag in _APART:
            self._pieces.append(" ")
        elif tag in BLOCKS:
            self._finish()
            self._kept -= tag == "pre"
            self._in_head = self._in_head and tag != "head"

    def data(self, text: str) -> None:
        if not self._unseen and (not self._in_head or self._metadata):
            text = text.strip() if self._equation else text
            self._pieces.append(text if self._kept else _SPACE.sub(" ", text))

    def _begin_part(self, tag: str) -> None:
        if tag in BLOCKS:  # the equation was not closed
            self._finish()
        if self._equation:
            self._equation[-1][1] += 1
            self._pieces.append(_SIGNS.get((self._equation[-1][0], self._equation[-1][1]), ""))
        self._pieces.append("√" if tag == "msqrt" else "")
        self._equation.append([tag, 0])

    def close(self) -> None:
        self._finish()

    def _finish(self) -> None:
        text = "".join(self._pieces)
        self._pieces.clear()
        if not self._kept:
            text = "\n".join(_SPACE.sub(" ", line).strip() for line in text.split("\0"))
        if text.strip():
            self.ready.append((text.strip(), self._metadata))
        self._metadata = {}
