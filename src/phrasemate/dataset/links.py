"""Inter-language links: the table ``langlinks`` as an SQL dump, streamed, joined with the titles of a wiki."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import IO

from phrasemate.dataset.dump import blocks
from phrasemate.errors import ReadError

_INSERT = re.compile(rb"INSERT INTO [`\"]?(\w+)[`\"]?\s*(?:\([^()]*\)\s*)?VALUES\s*", re.IGNORECASE)
_STRING = rb"'((?:[^'\\]++|\\.|'')*+)'"
_ROW = re.compile(rb"\s*\(\s*(\d{1,18})\s*,\s*" + _STRING + rb"\s*,\s*" + _STRING + rb"\s*\)\s*([,;])\s*", re.DOTALL)
_TITLE = re.compile(rb"(\d{1,18})\t")  # the beginning of a line of titles; 64 bits hold the number
_ESCAPED = re.compile(rb"\\(.)|''", re.DOTALL)
_ESCAPES = {b"0": b"\0", b"b": b"\b", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"Z": b"\x1a"}  # MySQL, string literals
_KEPT = 1 << 16  # bytes between two statements that may hold the beginning of the next
_LONGEST = 1 << 20  # bytes of a row
_PLACE = 48  # bits of a place in a file of titles
_EXPLAINED = re.compile(r"\s*[(（][^()（）]*[)）]$")  # Mercury (planet)


def linked_titles(
    titles: Titles, path: str | Path, language: str, progress: Callable[[int, int], None] = lambda done, total: None
) -> Iterator[tuple[str, str]]:
    """Pairs of titles, (of the wiki, of the other one), without the explanation in brackets behind either."""
    for page, title in language_links(path, language, progress):
        own = titles.get(page)
        if own:
            yield _EXPLAINED.sub("", own), _EXPLAINED.sub("", title)


def language_links(
    path: str | Path, language: str, progress: Callable[[int, int], None] = lambda done, total: None
) -> Iterator[tuple[int, str]]:
    """Page number and title in ``language`` of each link; titles that are not UTF-8 are passed over.

    Raises ReadError for a file that is no dump of ``langlinks``, or that ends within a statement.
    """
    wanted = language.encode()
    for page, lang, title in _rows(Path(path), progress):
        if lang == wanted:
            try:
                yield page, " ".join(_unescaped(title).decode().replace("_", " ").split())
            except UnicodeDecodeError:
                continue  # the database cuts a title at 255 bytes


class Titles:
    """Page number -> title, of files with both in each line, separated by a tab.

    Only where each title stands is kept in memory: 16 bytes a page. Use it in ``with``. Raises ReadError for another
    file.
    """

    def __init__(self, *paths: str | Path) -> None:
        self._numbers, self._places = array("q"), array("q")
        with ExitStack() as stack:
            self._files = [stack.enter_context(Path(path).open("rb")) for path in paths]
            for at, (path, file) in enumerate(zip(paths, self._files, strict=True)):
                self._add(path, file, at << _PLACE)
            self._close = stack.pop_all().close
        self._sort()

    def _add(self, path: str | Path, file: IO[bytes], place: int) -> None:
        for number, line in enumerate(file, 1):
            if (match := _TITLE.match(line)) is None:
                shown = line[:40].decode("utf-8", "backslashreplace")
                reason = f"not a page number and a title: {shown!r}; expected 1 to 18 digits, a tab, a title"
                raise ReadError(str(path), number, reason, "delete the file, it is made anew")
            self._numbers.append(int(match[1]))
            self._places.append(place)
            place += len(line)

    def _sort(self) -> None:
        """By number, as one dump is already, but perhaps not several."""
        if any(a > b for a, b in pairwise(self._numbers)):
            order = sorted(range(len(self._numbers)), key=self._numbers.__getitem__)
            self._numbers = array("q", (self._numbers[at] for at in order))
            self._places = array("q", (self._places[at] for at in order))

    def __len__(self) -> int:
        return len(self._numbers)

    def get(self, number: int) -> str:
        """The title of a page; "" if there is none."""
        at = bisect_left(self._numbers, number)
        if at == len(self._numbers) or self._numbers[at] != number:
            return ""
        file = self._files[self._places[at] >> _PLACE]
        file.seek(self._places[at] & ((1 << _PLACE) - 1))
        return file.readline().decode().rstrip("\n").partition("\t")[2]

    def __enter__(self) -> Titles:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()


def _rows(path: Path, progress: Callable[[int, int], None]) -> Iterator[tuple[int, bytes, bytes]]:
    """The rows of all INSERT statements: page, language, title as it is written."""
    buffer, inside, statements, line = b"", False, 0, 1
    for block in blocks(path, progress):
        buffer += block
        at = 0
        while True:
            match = _ROW.match(buffer, at) if inside else _INSERT.search(buffer, at)
            if match is None:
                break
            line += buffer.count(b"\n", at, match.end())
            at = match.end()
            if inside:
                inside = match[4] == b","
                yield int(match[1]), match[2], match[3]
            else:
                _require_table(path, line, match[1])
                inside, statements = True, statements + 1
        if inside and len(buffer) - at > _LONGEST:
            raise _no_row(path, line, buffer[at : at + 40])
        keep = at if inside else max(at, len(buffer) - _KEPT)
        line += buffer.count(b"\n", at, keep)
        buffer = buffer[keep:]
    if inside or b"INSERT INTO" in buffer:
        raise _no_row(path, line, buffer[:40])
    if not statements:
        raise ReadError(str(path), 0, "no INSERT INTO langlinks in it", "give a dump of langlinks (…-langlinks.sql.gz)")


def _require_table(path: Path, line: int, table: bytes) -> None:
    if table.lower() != b"langlinks":
        name = table.decode("ascii", "backslashreplace")
        raise ReadError(str(path), line, f"rows of the table {name}", "give a dump of langlinks (…-langlinks.sql.gz)")


def _no_row(path: Path, line: int, seen: bytes) -> ReadError:
    shown = seen.decode("utf-8", "backslashreplace")
    reason = f"not a whole row of langlinks: {shown!r}; expected (page,'language','title')"
    return ReadError(str(path), line, reason, "the file may be cut short: download it again")


def _unescaped(literal: bytes) -> bytes:
    """What a string literal of MySQL stands for."""
    if b"\\" not in literal and b"''" not in literal:
        return literal
    return _ESCAPED.sub(lambda m: b"'" if m[1] is None else _ESCAPES.get(m[1], m[1]), literal)
