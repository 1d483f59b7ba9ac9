"""Inline codes of documents in translation: find the white space that each code stands for, from its name or content.

A code such as a line break, tab or paragraph mark separates words or sentences; a code such as bold does not.
"""

from __future__ import annotations

import re
from html import unescape

from phrasemate.text.formats.xml import NAME, NAMES, Item, XmlStream

# elements with "display: block", "table", "list-item" and similar values (WHATWG HTML, section 15.3)
CELLS = frozenset({"td", "th"})
BLOCKS = CELLS | frozenset(
    {"address", "article", "aside", "blockquote", "body", "caption", "center", "col", "colgroup", "dd"}
    | {"details", "dialog", "dir", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form"}
    | {"frameset", "h1", "h2", "h3", "h4", "h5", "h6", "head", "header", "hgroup", "hr", "html", "legend", "li"}
    | {"listing", "main", "menu", "nav", "noembed", "noframes", "ol", "optgroup", "option", "p", "plaintext"}
    | {"pre", "search", "section", "summary", "table", "tbody", "tfoot", "thead", "title", "tr", "ul", "xmp"}
)
# Names of codes, in lower case and letters only: "carriage-return" is "carriagereturn".
_BREAK = re.compile(
    r"br|cr(?:lf)?|eol|lb|lf|nl|newline"
    r"|(?:carriage|column|forced|hard|line|manual|new|optional|page|section|soft|text|wrapping)*"
    r"(?:break|eol|feed|return|lineend|lineseparator|newline)(?:char|character)?"
)
_BLANK = re.compile(
    r"(?:em|en|figure|fixed|hair|hard|horizontal|left|narrow|no|non|break|breaking|right|thin|vertical)*"
    r"(?:nbsp|space|sp|ptab|tab|tabulator|tabstop|whitespace|blank)s?(?:char|character|mark)?"
)
# Block elements of DocBook, DITA, XSL-FO, Office documents and layouts, in addition to those of HTML; table cells.
_PARTS = frozenset(
    {"block", "choice", "formalpara", "h", "informaltable", "item", "itemizedlist", "listitem", "orderedlist"}
    | {"horizontalrule", "para", "paragraph", "paragraphbreak", "paragraphmark", "paragraphend", "parabreak", "pb"}
    | {"row", "simpara", "sli", "step", "steps", "substep", "tablebody", "tablefooter", "tableheader", "tablerow"}
    | {"unorderedlist"}
)
_CELL_NAMES = CELLS | {"cell", "entry", "stentry", "tablecell", "tableheadercell", "tc"}
_HEADING = re.compile(r"heading(?:level)?")

# A gap is a string of these two, which occur in no text: "", a space, a line break, or two breaks for a paragraph.
_SPACE, _LINE = "\udc00", "\udc01"
_UNKNOWN = "\udc02"  # a code of unknown meaning: it becomes a space between a full stop and a capital
_WHITE = re.compile(rf"[\s{_SPACE}{_LINE}]+")
_BETWEEN_SENTENCES = re.compile(rf"(?<=[^\W\d_][.!?…]){_UNKNOWN}+(?=([^\W\d_]))")
_TAG = re.compile(r"<(/?)\s*([^\W\d][\w.:-]*)([^<>]*)>")
_VALUE = re.compile(r"""\b(?:val|value|char|displaytext|equiv-text)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_TYPE = re.compile(r"""\b(?:ctype|subType|type)\s*=\s*["']([\w:-]+)""")
# Escapes of white space in programs: with a letter, or with the number of the character.
_ESCAPE = (
    r"\\{1,2}(?:r\\{1,2}n|[nrtfv]|u\{0*(?:9|[abcd]|20|85|a0|202[89f]|3000)\}"
    r"|u(?:0009|000[abcd]|0020|0085|00a0|200[0-9a]|202[89f]|205f|3000)|x(?:09|0[abcd]|20|85|a0)|0?(?:11|1[2345]|40))"
)
_ESCAPES = re.compile(rf"(?:{_ESCAPE}|%0[9ad]|%20|\s)+", re.IGNORECASE)
_LINE_ESCAPE = re.compile(
    r"\\(?:r\\{1,2}n|[nrf]|u\{0*[acd]\}|u(?:000[acd]|0085|202[89])|x(?:0[acd]|85)|0?1[245])|%0d%0a|%0[ad]|\n", re.I
)
_RTF = re.compile(r"\\(?:(par|line|lbr|softline|page|column|sect)|tab|cell|row|emspace|enspace|'a0|~)(?![a-z])")
_BRACKETS = "<>{}[]()&;"
_ARROWS = {
    **dict.fromkeys("↲↩↵⏎␊␌␍␤⤶⮐", _LINE),
    **dict.fromkeys("¶", _LINE * 2),
    **dict.fromkeys((*"→⇥↹⭾␉␋␠␣·", "^t", "^s"), _SPACE),
    **{"^l": _LINE, "^n": _LINE, "^p": _LINE * 2, "\\\\": _LINE},
}
_NO_LETTER = re.compile(r"[\W\d_]+")
_PREFIXES = re.compile(r"^(?:x-|xlf:|html-|fmt-|x-html-)+")
_NUMBER = re.compile(r"[\d_-]+$")
_HALF_OF_PAIR = re.compile(r"^(?:(?:start|close|end|open|tag)_)+", re.IGNORECASE)


def gap_of_name(name: str) -> str:
    """Return the gap of an element or type of code, by its name: "br", "w:tab", "x-html-p", "LINE_BREAK"."""
    name = _PREFIXES.sub("", name.strip().lower()).rpartition(":")[2]
    plain = _NO_LETTER.sub("", name)
    if plain in _CELL_NAMES:
        return _SPACE
    if name in BLOCKS or plain in _PARTS or _HEADING.fullmatch(plain):
        return _LINE * 2
    return _gap_of_word(plain)


def _gap_of_word(plain: str) -> str:
    """Return the gap of a name that always means white space, unlike "title" or "item", which may stand for a word."""
    if _BLANK.fullmatch(plain):
        return _SPACE
    return _LINE if _BREAK.fullmatch(plain) else ""


def gap_of_id(name: str) -> str:
    """Return the gap of a code by an id that is a name, such as "LINE_BREAK", "START_PARAGRAPH", "br2"."""
    if half := _HALF_OF_PAIR.match(name):
        return gap_of_name(_NUMBER.sub("", name[half.end() :]))
    plain = _NO_LETTER.sub("", name).lower()
    return _LINE * 2 if plain == "horizontalrule" else _gap_of_word(plain)


def gap_of_content(content: str) -> str:
    r"""Return the gap of a code by its content: white space, escapes ("\t", "&nbsp;"), tags or control words of RTF.

    It is "" for a code that can stand within a word, such as ``<b>`` or ``{0}``.
    """
    content = unescape(content)
    if not content:
        return ""
    gaps = [_gap_of_tag(*tag) for tag in _TAG.findall(content)]
    rest = _TAG.sub("", content)
    inner = rest.strip().strip(_BRACKETS)
    if not rest.strip():
        gaps += [_LINE * rest.count("\n") or _SPACE] if rest else []
    elif rest.strip() in _ARROWS:
        gaps.append(_ARROWS[rest.strip()])
    elif escapes := _ESCAPES.fullmatch(rest.strip()) or _ESCAPES.fullmatch(inner):
        gaps.append(_LINE * len(_LINE_ESCAPE.findall(escapes[0])) or _SPACE)
    else:
        gaps += [_LINE if word else _SPACE for word in _RTF.findall(rest)]
        gaps.append(_gap_of_word(_NO_LETTER.sub("", inner).lower()))
    return "".join(gaps)


def wider(*gaps: str) -> str:
    """Return the widest of some gaps."""
    return max(gaps, key=lambda gap: (gap.count(_LINE), len(gap)), default="")


def _gap_of_tag(end: str, name: str, attributes: str) -> str:
    if name.lower() == "text:s":  # spaces in OpenDocument
        return _SPACE
    if name.lower() == "char":  # <Char HardReturn> in FrameMaker's MIF
        return gap_of_name(attributes)
    values = (gap_of_content(quoted_value or bare_value) for quoted_value, bare_value in _VALUE.findall(attributes))
    gap = wider(gap_of_name(name), *map(gap_of_name, _TYPE.findall(attributes)), *values)
    return "" if end and gap in (_SPACE, _LINE) and gap_of_name(name) == _LINE else gap  # <br></br> is one break


def spaced(text: str) -> str:
    """Replace the gaps of a text by a space, or by a blank line for a paragraph; gaps at its ends are removed."""
    if _UNKNOWN in text:
        text = _BETWEEN_SENTENCES.sub(lambda code: _SPACE if code[1].isupper() else "", text).replace(_UNKNOWN, "")
    if _SPACE not in text and _LINE not in text:
        return text

    def white(match: re.Match[str]) -> str:
        gap = match[0]
        if _SPACE not in gap and _LINE not in gap:
            return gap
        if match.start() == 0 or match.end() == len(text):
            return ""
        if gap.count(_LINE) > 1:
            return "\n\n"
        return "\n" * min(2, gap.count("\n")) or " "

    return _WHITE.sub(white, text)


class CodedStream(XmlStream[Item]):
    """Reader of a document with inline codes, each of which becomes a gap, or nothing, in its text.

    `coded` returns the text since `hear`, with gaps; `spaced` converts these to white space.
    """

    def __init__(self, name: str, encoding: str | None = None) -> None:
        super().__init__(name, encoding)
        self._pieces: list[str] = []
        self._codes = 0  # depth of nested codes
        self._gap = self._pair = ""
        self._gaps_of_pairs: dict[str, str] = {}  # id of an opening code -> its gap, for the closing one

    def hear(self, cost: int) -> None:
        """Start a text; ``cost`` is charged in addition to its characters."""
        self.charge(cost)
        self.listening, self._codes, self._gap = True, 0, ""
        self._gaps_of_pairs.clear()
        self._pieces.clear()
        self.take_text()

    def begin_code(self, gap: str = "", pair: str = "") -> None:
        """Start a code, or text within it that does not belong here; ``gap`` is the gap by its attributes.

        ``pair`` is the id that opening and closing code share.
        """
        if not self._codes:
            self._pieces.append(self.take_text())
            self._gap, self._pair = gap, pair
        self._codes += 1
        self.listening = self._codes == 1

    def end_code(self) -> None:
        self._codes -= 1
        self.listening = self._codes <= 1
        if not self._codes:
            content = self.take_text()
            gap = self._gap_of_pair(wider(self._gap, gap_of_content(content)), self._pair)
            self.add(gap or ("" if content else _UNKNOWN))

    def leave_gap(self, gap: str, pair: str = "", is_unknown: bool = False) -> None:
        """Insert a gap at this place of the text, if there is one; ``pair`` as in `begin_code`."""
        if self.listening and not self._codes:
            self.add(self._gap_of_pair(gap, pair) or (_UNKNOWN if is_unknown else ""))

    def _gap_of_pair(self, gap: str, pair: str) -> str:
        """Return the gap of a code, or that of an earlier code with the same id if it is wider."""
        if pair and len(pair) <= NAME and len(self._gaps_of_pairs) < NAMES:
            gap = self._gaps_of_pairs[pair] = wider(gap, self._gaps_of_pairs.get(pair, ""))
        return gap

    def coded(self) -> str:
        """Return the text since the last call, with its gaps."""
        text = "".join([*self._pieces, self.take_text()])
        self._pieces.clear()
        return text
