"""Inline codes of translators' formats: what stands for a line break, a tab or a block parts the words beside it."""

from __future__ import annotations

import re
from html import unescape
from typing import TypeVar

from phrasemate.text.formats.elements import BLOCKS, BREAKS, CELLS, SPACES
from phrasemate.text.formats.xml import XmlStream

Item = TypeVar("Item")

# A gap is a string of these two, which no text holds: nothing, a space, a line break, or two for a paragraph.
_SPACE, _LINE = "\udc00", "\udc01"
_WHITE = re.compile(rf"[\s{_SPACE}{_LINE}]+")
_TAG = re.compile(r"</?\s*([^\W\d][\w.:-]*)([^<>]*)>")
_VALUE = re.compile(r"""\b(?:val|value|char)\s*=\s*(["'])(\s+)\1""")
_ESCAPES = re.compile(r"(?:\\(?:r\\n|[nrtfv])|\s)+")  # as they stand in the text of a program
_RTF = re.compile(r"\\(par|line|lbr|page|sect|tab|cell|row)(?![a-z])")
_ARROWS = {
    "\N{DOWNWARDS ARROW WITH CORNER LEFTWARDS}": _LINE,
    "\N{RETURN SYMBOL}": _LINE,
    "\N{PILCROW SIGN}": _LINE * 2,
}
_NO_LETTER = re.compile(r"[\W\d_]+")
_PREFIXES = re.compile(r"^(?:x-|xlf:|html-|fmt-|x-html-)+")
_DIGITS = re.compile(r"\d+$")


def gap_of_name(name: str) -> str:
    """The gap that an element, or a type of code, leaves by its name: "br", "w:tab", "x-html-p", "LINE_BREAK"."""
    name = _PREFIXES.sub("", name.strip().lower()).rpartition(":")[2]
    plain = _NO_LETTER.sub("", name)
    if name in ("p", "pb", "para") or (name in BLOCKS and name not in CELLS):
        return _LINE * 2
    if plain in BREAKS:
        return _LINE
    return _SPACE if name in CELLS or _DIGITS.sub("", name) in CELLS or plain in SPACES else ""


def gap_of_content(content: str) -> str:
    r"""The gap that a code leaves by what it holds: white space, its escapes ("\t", "&nbsp;"), tags, words of RTF.

    Nothing for a code that stands within a word, such as ``<b>`` or ``{0}``.
    """
    content = unescape(content)
    if not content:
        return ""
    gaps = [_gap_of_tag(*tag) for tag in _TAG.findall(content)]
    rest = _TAG.sub("", content)
    if not rest.strip():
        gaps += [_LINE * rest.count("\n") or _SPACE] if rest else []
    elif _ESCAPES.fullmatch(rest):
        gaps.append(_LINE * rest.replace("\\r\\n", "\\n").count("\\n") or _SPACE)
    elif rest.strip() in _ARROWS:
        gaps.append(_ARROWS[rest.strip()])
    else:
        gaps += [_SPACE if word in ("tab", "cell") else _LINE for word in _RTF.findall(rest)]
        plain = _NO_LETTER.sub("", rest).lower()
        gaps.append(_LINE if plain in BREAKS else _SPACE if plain in SPACES else "")
    return "".join(gaps)


def wider(*gaps: str) -> str:
    """The widest of some gaps."""
    return max(gaps, key=lambda gap: (gap.count(_LINE), len(gap)), default="")


def _gap_of_tag(name: str, attributes: str) -> str:
    if name.lower() == "text:s":  # of OpenDocument: spaces
        return _SPACE
    return gap_of_name(name) or (_SPACE if _VALUE.search(attributes) else "")


def spaced(text: str) -> str:
    """A text with white space where it has gaps: one space, or a blank line for a paragraph; none at its ends."""
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
    """Documents whose texts hold inline codes: a code gives a gap, or nothing, to the text around it.

    `coded` gives the text, with the gaps, since `hear`; `spaced` makes white space of them.
    """

    def __init__(self, name: str, encoding: str | None = None) -> None:
        super().__init__(name, encoding)
        self._pieces: list[str] = []
        self._codes = 0  # how many lie within one another
        self._gap = ""

    def hear(self) -> None:
        """A text begins."""
        self.listening, self._codes, self._gap = True, 0, ""
        self._pieces.clear()
        self.taken()

    def begin_code(self, gap: str = "") -> None:
        """A code, or text within it that belongs elsewhere, begins; ``gap`` is what its attributes say."""
        if not self._codes:
            self._pieces.append(self.taken())
            self._gap = gap
        self._codes += 1
        self.listening = self._codes == 1

    def end_code(self) -> None:
        self._codes -= 1
        self.listening = self._codes <= 1
        if not self._codes:
            content = self.taken()
            self.add(wider(self._gap, gap_of_content(content)))

    def leave_gap(self, gap: str) -> None:
        """A gap at this place, if text is listened to."""
        if gap and self.listening and not self._codes:
            self.add(gap)

    def coded(self) -> str:
        """The text, with its gaps, since the last call."""
        text = "".join([*self._pieces, self.taken()])
        self._pieces.clear()
        return text
