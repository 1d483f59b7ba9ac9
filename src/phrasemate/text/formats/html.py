"""Reader of web pages: paragraphs as a person sees them, without scripts, styles and markup."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from phrasemate.errors import ReadError, needs_extra
from phrasemate.text.formats.codes import BLOCKS
from phrasemate.text.formats.units import Paragraph
from phrasemate.text.text_file import NO_CHARSETS, TextFile, binary_kind

PAGE = 64_000_000  # maximum bytes of a page
DEPTH = 1000  # maximum depth of elements: the parser searches all open ones for each unmatched end tag
_HEAD = 1024  # bytes in which a page should declare its encoding (WHATWG HTML, section 4.2.5.5)
_LATE = 1 << 18  # bytes in which a late declaration is still found
_APART = frozenset({"button"})  # inline boxes, separate from the words beside them
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
# Python codec -> labels that browsers accept for it and Python does not know or maps to another (WHATWG Encoding, 4.2).
_LABELS = {
    "big5hkscs": ("big5", "cn-big5", "csbig5", "x-x-big5"),
    **{f"cp{page}": (f"x-cp{page}",) for page in (1250, 1251, 1253, 1255, 1256, 1257, 1258)},
    "cp1252": (
        *("ansi_x3.4-1968", "ascii", "us-ascii", "x-cp1252", "iso-ir-100", "csisolatin1"),
        *("cp819", "ibm819", "l1", "latin1", "iso8859-1", "iso88591", "iso-8859-1", "iso_8859-1", "iso_8859-1:1987"),
        "x-user-defined",
    ),
    "cp1254": (
        *("x-cp1254", "l5", "latin5", "iso-ir-148", "csisolatin5", "iso_8859-9:1989"),
        *("iso8859-9", "iso88599", "iso-8859-9", "iso_8859-9"),
    ),
    "cp874": ("dos-874", "iso-8859-11", "iso8859-11", "iso885911", "tis-620", "windows-874"),
    "cp932": ("csshiftjis", "shift-jis", "shift_jis", "sjis", "windows-31j", "x-sjis"),
    "cp949": (
        *("cseuckr", "csksc56011987", "euc-kr", "iso-ir-149", "korean", "ks_c_5601-1987", "ks_c_5601-1989"),
        *("ksc5601", "ksc_5601", "windows-949"),
    ),
    "euc_jp": ("cseucpkdfmtjapanese", "x-euc-jp"),
    "gb18030": (
        *("chinese", "csgb2312", "csiso58gb231280", "gb2312", "gb_2312", "gb_2312-80", "gbk", "iso-ir-58", "x-gbk"),
    ),
    "iso8859_2": ("csisolatin2", "iso-ir-101", "iso_8859-2:1987", "iso88592", "l2", "latin2"),
    "iso8859_6": ("arabic", "asmo-708", "csiso88596e", "csiso88596i", "ecma-114", "iso-8859-6-e", "iso-8859-6-i"),
    "iso8859_7": ("ecma-118", "elot_928", "greek", "greek8", "sun_eu_greek"),
    "iso8859_8": ("csiso88598e", "csiso88598i", "hebrew", "iso-8859-8-e", "iso-8859-8-i", "logical", "visual"),
    "koi8_r": ("cskoi8r", "koi", "koi8", "koi8-r", "koi8_r"),
    "koi8_u": ("koi8-ru", "koi8-u"),
    "mac_cyrillic": ("x-mac-cyrillic", "x-mac-ukrainian"),
    "mac_roman": ("csmacintosh", "mac", "macintosh", "x-mac-roman"),
    "utf-8": ("unicode-1-1-utf-8", "unicode11utf8", "unicode20utf8", "x-unicode20utf8"),
    "utf-16": ("csunicode", "iso-10646-ucs-2", "ucs-2", "unicode", "unicodefeff", "unicodefffe", "utf-16be"),
}
_CODECS = {label: codec for codec, labels in _LABELS.items() for label in labels}
_COMMENT = re.compile(rb"<!--.*?(?:-->|\Z)", re.DOTALL)
_META = re.compile(rb"""<meta[\s/](?:[^>"']|"[^"]*"|'[^']*')*>|<\?xml[^>]*>""", re.IGNORECASE)
_CHARSET = re.compile(rb"""(?:^|[\s/"';])(?:charset|encoding)\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)
_HTTP_EQUIV = re.compile(rb"""\shttp-equiv\s*=\s*["']?\s*content-type""", re.IGNORECASE)
_CONTENT = re.compile(rb"""\scontent\s*=\s*("[^"]*"|'[^']*'|[^\s>]+)""", re.IGNORECASE)
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
# MathML: (element, number of the next part) -> sign before this part
_SIGNS = {("mfrac", 2): "/", ("msub", 2): "_", ("msup", 2): "^", ("msubsup", 2): "_", ("msubsup", 3): "^"}
_SPACE = re.compile(r"[ \t\n\r\f]+")
_TOTAL = "phrasemate.windows1252"


def html_paragraphs(file: TextFile) -> Iterator[Paragraph]:
    """Yield text and metadata ("heading": level, 0 for the title) of each paragraph that is not blank.

    The encoding is the one that the page declares. A page without a declaration is read as UTF-8, or as windows-1252 if
    most of its bytes are not UTF-8. Raises ReadError for anything but a page of at most 64 MB, MissingExtra without
    lxml.
    """
    return page_paragraphs(file.name, (text.encode("utf-8", "replace") for text in _decoded(file)))


def page_paragraphs(name: str, blocks: Iterable[bytes]) -> Iterator[Paragraph]:
    """Yield the paragraphs of a page in UTF-8, which comes in blocks. Raises ReadError, MissingExtra without lxml."""
    with needs_extra("formats", "lxml"):
        from lxml import etree
    page = _Page()
    parser = etree.HTMLParser(target=page, encoding="utf-8", no_network=True, remove_comments=True, remove_pis=True)
    for block in chain(blocks, [None]):
        try:
            parser.close() if block is None else parser.feed(block)
        except etree.LxmlError as error:
            raise ReadError(name, 0, f"no web page ({error})", "check the file") from None
        yield from page.ready
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
    decoder = codecs.getincrementaldecoder(encoding)(_TOTAL if encoding.startswith("cp125") else "strict")
    try:
        for block in chain([first], blocks):
            yield decoder.decode(block)
        yield decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        problem = f"byte 0x{error.object[error.start]:02X} is not {encoding}, {reason}"
        raise ReadError(file.name, 0, problem, "give the right --encoding") from None


def _blocks(file: TextFile) -> Iterator[bytes]:
    return file.limited(PAGE, "a web page", "split it")


def _encoding(file: TextFile) -> tuple[str, str]:
    """Determine the encoding of a page, and the reason for error messages; may read the whole page."""
    blocks = _blocks(file)
    head = next(blocks, b"")
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            return encoding, "with whose mark it begins"
    if encoding_name := _declared(head[:_HEAD]):
        return encoding_name, "in which the page says that it is"
    decoder, beginning, wrong, right = codecs.getincrementaldecoder("utf-8")("replace"), b"", 0, 0
    for block in chain([head], blocks):
        beginning += block[: _LATE - len(beginning)]
        text = decoder.decode(block)
        wrong += text.count("\ufffd")
        right += 0 if text.isascii() else len(text) - len(text.encode("ascii", "ignore"))
    if encoding_name := _declared(beginning):
        return encoding_name, "in which the page says that it is"
    return ("cp1252" if wrong > right - wrong else "utf-8"), "which most of the page is; it does not say so"


def _declared(head: bytes) -> str:
    """Return the encoding that the beginning of a page declares; "" for none or an unknown one."""
    for declaration in _META.findall(_COMMENT.sub(b"", head)):
        if label := _label(declaration):
            codec = _codec(label.decode("ascii").lower())
            return "" if codec.startswith("utf-16") else codec  # false: the declaration itself is in ASCII
    return ""


def _label(declaration: bytes) -> bytes:
    """Return the label of the encoding in a declaration: an attribute, or the content of an http-equiv header."""
    content = _CONTENT.search(declaration)
    if content:
        rest = declaration[: content.start()] + b" " + declaration[content.end() :]
        texts = [rest, content[1].strip(b"\"'")] if _HTTP_EQUIV.search(rest) else [rest]
    else:
        texts = [declaration]
    return next((charset[1] for text in texts if (charset := _CHARSET.search(text))), b"")


def _codec(label: str) -> str:
    """Return Python's name of the encoding with this label; "" if it is unknown."""
    if label in _CODECS:
        return _CODECS[label]
    try:
        usual = codecs.lookup(label).name
        "".encode(usual)  # refuses what is not an encoding of text, such as base64
    except (LookupError, UnicodeError):
        return ""
    return "" if usual in NO_CHARSETS else usual


def _same_code(error: UnicodeError) -> tuple[str, int]:
    """Decode the bytes that Python's cp1252 leaves undefined as control characters (WHATWG Encoding, section 9)."""
    assert isinstance(error, UnicodeDecodeError)
    return error.object[error.start : error.end].decode("latin-1"), error.end


codecs.register_error(_TOTAL, _same_code)


_NOTES = re.compile(r"\b(?:doc-)?(?:noteref|backlink)\b|^(?:sdfootnote|sdendnote)(?:anc|sym)$|^footnote-(?:back)?ref$")


def _is_note_reference(attributes: Mapping[str, str], raised: bool) -> bool:
    """Tell whether a link is the number of a footnote or leads back from it: by its class, or as a superscript."""
    kinds = (attributes.get(name, "") for name in ("epub:type", "role", "class"))
    return (raised and attributes.get("href", "").startswith("#")) or any(map(_NOTES.search, kinds))


class _Page:
    """Parser target that collects the paragraphs of a page in ``ready``."""

    def __init__(self) -> None:
        self.ready: list[Paragraph] = []
        self._pieces: list[str] = []
        self._unseen = self._kept = self._depth = self.deepest = 0
        self._metadata: dict[str, Any] = {}
        self._in_head = False
        self._raised = 0  # number of open `sup` elements
        self._equation: list[list[Any]] = []  # open elements of an equation, with the number of their parts so far

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        self._depth += 1
        self.deepest = max(self.deepest, self._depth)
        if self._unseen or tag in _UNSEEN or (tag == "a" and _is_note_reference(attributes, self._raised > 0)):
            self._unseen += 1
        elif tag == "math" or self._equation:
            self._begin_part(tag)
        elif tag == "sup":
            self._raised += 1
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
        elif tag == "sup":
            self._raised = max(0, self._raised - 1)
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
