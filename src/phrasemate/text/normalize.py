"""Unicode's forms NFC and NFD in a time that grows with the text alone.

Python puts the marks of one letter in order by insertion: a million of them would take an hour.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from unicodedata import combining, normalize

_MARKS = 30  # in a row are more than any language writes (UAX #15, section 13, Stream-Safe Text Format)
_RUN = re.compile(rf"[^\w\x00-\x7f]{{{_MARKS + 1},}}")  # no mark is a letter or a digit


def composed(text: str) -> str:
    """The text with each letter and its marks as one character, where there is one (NFC)."""
    return normalize("NFC", _in_order(text))


def decomposed(text: str) -> str:
    """The text with each letter apart from its marks (NFD)."""
    return normalize("NFD", _in_order(text))


def _in_order(text: str) -> str:
    """The text with more marks than are written in canonical order, which no form of it depends on."""
    if len(text) <= _MARKS or text.isascii():
        return text
    return _RUN.sub(lambda run: "".join(_ordered(run[0])), text)


def _ordered(text: str) -> Iterator[str]:
    """The decomposed characters in canonical order: marks by class, those of one class as they came."""
    marks: list[str] = []
    for character in text:
        for part in normalize("NFD", character):
            if combining(part):
                marks.append(part)
                continue
            yield from sorted(marks, key=combining)
            marks.clear()
            yield part
    yield from sorted(marks, key=combining)
