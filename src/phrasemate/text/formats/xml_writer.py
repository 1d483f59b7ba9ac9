"""An atomic writer of XML files: markup as it is, texts and attributes escaped."""

from __future__ import annotations

import re
from xml.sax.saxutils import escape, quoteattr

from phrasemate.utils.storage import NewFile

_UNWRITABLE = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")  # XML 1.0, production 2
_LINE_END = {"\r": "&#13;"}  # a bare one would be read as a line feed (XML 1.0, section 2.11)


def writable(text: str) -> str:
    """The text with U+FFFD for each character that XML cannot hold: most control characters, halves of pairs."""
    return _UNWRITABLE.sub("\ufffd", text)


class XmlFile(NewFile):
    """A `NewFile` of XML: what is written is markup, `text` and `attribute` make texts fit for it."""

    def __enter__(self) -> XmlFile:
        self.write('<?xml version="1.0" encoding="UTF-8"?>\n')
        return self

    @staticmethod
    def text(text: str) -> str:
        return escape(writable(text), _LINE_END)

    @staticmethod
    def attribute(text: str) -> str:
        """With quotation marks around it."""
        return quoteattr(writable(text))
