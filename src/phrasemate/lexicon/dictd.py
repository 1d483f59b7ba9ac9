"""Dictionaries of the DICT server (dictd, dictfmt), as FreeDict publishes them: .index beside .dict or .dict.dz."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

from phrasemate.errors import ReadError
from phrasemate.lexicon.entries import definition_equivalents
from phrasemate.lexicon.packed import ENTRIES, beside, defined, read_whole

_DIGITS = {
    digit: value for value, digit in enumerate(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
}


def read_dictd(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Each headword of the dictionary with its .index file at ``path``, and its equivalents.

    The index leaves out punctuation: the headword is the one in the first line of the definition where both agree.
    Raises ReadError for files that are missing, damaged or too large.
    """
    dict_path = beside(path, (".dict.dz", ".dict"))
    content = read_whole(dict_path)
    read = 0
    for number, line in enumerate(BytesIO(read_whole(path)), 1):
        cells = line.rstrip(b"\r\n").split(b"\t")
        if number > ENTRIES:
            raise ReadError(str(path), number, f"more than {ENTRIES:,} entries", "split the dictionary")
        if len(cells) < 3:
            raise ReadError(str(path), number, "no headword, position and length between tabs", "check the file")
        start, size = (_number(path, number, cell) for cell in cells[1:3])
        if cells[0].startswith((b"00-database", b"00database")):
            continue
        entry = defined(dict_path, content, start, size, read)
        read += len(entry)
        text = entry.decode("utf-8", "replace")
        word = (cells[3] if len(cells) > 3 else cells[0]).decode("utf-8", "replace")
        first, _, rest = text.partition("\n")
        shown = first.split(" /")[0].split(" <")[0].strip()
        if _letters(shown) == _letters(word):
            word, text = shown, rest
        yield word, definition_equivalents(text, word)


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


def _number(path: Path, line: int, digits: bytes) -> int:
    """A number in the base of 64, the highest digit first."""
    value = 0
    for digit in digits.strip()[:12]:
        if digit not in _DIGITS:
            raise ReadError(
                str(path), line, f"no number: {digits[:20]!r}", "give the .index file of a dictd dictionary"
            )
        value = value * 64 + _DIGITS[digit]
    return value
