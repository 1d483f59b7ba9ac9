"""Unicode's form NFC in a time that grows with the text alone."""

from __future__ import annotations

from collections.abc import Iterator
from unicodedata import combining, normalize

__all__ = ["composed"]

LONG = 1_000  # characters; Python puts the marks of one letter in order by insertion: a million of them take an hour


def composed(text: str) -> str:
    """The text with each letter and its marks as one character, where there is one (NFC)."""
    if len(text) > LONG and not text.isascii():
        text = "".join(_ordered(text))
    return normalize("NFC", text)


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
