"""StarDict dictionaries: .ifo, .idx, .dict and .syn, of versions 2.4.2 and 3.0.0.

The format is that of StarDict's own description, "Format for StarDict dictionary files".
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from phrasemate.errors import ReadError
from phrasemate.lexicon.entries import definition_equivalents, plain_markup
from phrasemate.lexicon.packed import ENTRIES, beside, defined, read_whole

_MAGIC = "StarDict's dict ifo file"
_TEXT, _MARKUP = "ml", "hgxkw"  # types of definitions that hold equivalents; t and y are pronunciations, r files
_COPY = "copy or download the files again"


def book_name(path: Path) -> str:
    """The title of the dictionary. Raises ReadError."""
    return _facts(path).get("bookname", "") or path.stem


def read_stardict(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Each headword of the dictionary with its .ifo file at ``path``, and its equivalents.

    Raises ReadError for files that are missing, damaged or too large.
    """
    facts = _facts(path)
    index_path = beside(path, (".idx", ".idx.gz"))
    index = read_whole(index_path)
    dict_path = beside(path, (".dict.dz", ".dict"))
    content = read_whole(dict_path)
    width = 8 if facts.get("idxoffsetbits") == "64" else 4
    types = facts.get("sametypesequence", "")
    synonyms = _synonyms(path)
    at = number = read = 0
    while at < len(index):
        end = index.find(b"\0", at, at + 2048)
        if end < 0 or end + 1 + width + 4 > len(index):
            raise ReadError(str(index_path), 0, f"no entry at byte {at:,}", _COPY)
        word = index[at:end].decode("utf-8", "replace")
        start = int.from_bytes(index[end + 1 : end + 1 + width], "big")
        size = int.from_bytes(index[end + 1 + width : end + 5 + width], "big")
        at = end + 5 + width
        entry = defined(dict_path, content, start, size, read)
        read += len(entry)
        equivalents = [text for field in _fields(entry, types) for text in definition_equivalents(field, word)]
        for headword in (word, *synonyms.get(number, ())):
            yield headword, equivalents
        number += 1
        if number > ENTRIES:
            raise ReadError(str(index_path), 0, f"more than {ENTRIES:,} entries", "split the dictionary")


def _facts(path: Path) -> dict[str, str]:
    lines = read_whole(path)[:100_000].decode("utf-8-sig", "replace").splitlines()
    if not lines or lines[0].strip() != _MAGIC:
        raise ReadError(str(path), 1, f"does not begin with {_MAGIC!r}", "give the .ifo file of a StarDict dictionary")
    return {key.strip(): value.strip() for key, _, value in (line.partition("=") for line in lines[1:])}


def _synonyms(path: Path) -> dict[int, list[str]]:
    """Other headwords of entries, by the number of the entry."""
    file = next((path.with_suffix(end) for end in (".syn", ".syn.dz") if path.with_suffix(end).is_file()), None)
    words: dict[int, list[str]] = {}
    if file is None:
        return words
    content = read_whole(file)
    at = count = 0
    while at < len(content):
        end = content.find(b"\0", at, at + 2048)
        if end < 0 or end + 5 > len(content) or count == ENTRIES:
            raise ReadError(str(file), 0, f"no entry at byte {at:,}", _COPY)
        number = int.from_bytes(content[end + 1 : end + 5], "big")
        words.setdefault(number, []).append(content[at:end].decode("utf-8", "replace"))
        at, count = end + 5, count + 1
    return words


def _fields(entry: bytes, types: str) -> Iterator[str]:
    """The texts of an entry that may hold equivalents, without markup."""
    at, number = 0, 0
    while at < len(entry) and (not types or number < len(types)):
        number += 1
        if types:
            kind = types[number - 1]
        else:
            kind, at = chr(entry[at]), at + 1
        if types and number == len(types):  # the last field has neither a size nor a zero at its end
            raw, at = entry[at:], len(entry)
        elif kind.isupper():
            size = int.from_bytes(entry[at : at + 4], "big")
            raw, at = entry[at + 4 : at + 4 + size], at + 4 + size
        else:
            end = entry.find(b"\0", at)
            end = len(entry) if end < 0 else end
            raw, at = entry[at:end], end + 1
        if kind in _TEXT:
            yield raw.decode("utf-8", "replace")
        elif kind in _MARKUP:
            yield plain_markup(raw.decode("utf-8", "replace"))
