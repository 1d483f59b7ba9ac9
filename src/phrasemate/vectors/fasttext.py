"""fastText text vectors (.vec, .vec.gz): a line with the number of words and of dimensions, then a word a line."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, cast

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import InputError, ReadError
from phrasemate.text.error_policy import Damage, Skipped
from phrasemate.text.text_file import TextFile
from phrasemate.utils.storage import NewFile, check_new
from phrasemate.vectors.word_vectors import WordVectors

_DIGITS = 19  # of a count that means something
_UNWRITABLE = re.compile("[ \0\n\r\ud800-\udfff]")
_EVERY = 1000  # rows between two calls of progress
_MEND = "mend or delete the line, or use --on-error skip"
_COUNT = "copy it again, mend line 1 or use --on-error skip"

Floats = NDArray[np.float32]


def read_fasttext(
    path: str | Path,
    limit: int | None = None,
    language: str = "",
    skipped: list[Skipped] | None = None,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> WordVectors:
    """The vectors of a file, or the first ``limit`` of them; it is read as a stream, the numbers go into one matrix.

    A word that occurs again is passed over: the first is the more frequent. ``skipped``: a list that takes what cannot
    be used (None: that raises). ``progress``: called with the words read, and of how many.
    Raises ReadError naming file and line for a header that is none, a row of another length, a number that is none,
    more or fewer rows than the header says, text that is not UTF-8 and damaged gzip data.
    """
    if limit is not None and limit < 1:
        raise InputError(f"limit {limit}; expected 1 or more")
    path, damage = Path(path), Damage(skipped is not None)
    file = TextFile(path, str(path), path.suffix == ".gz", "utf-8", damage)
    lines = file.lines()
    count, dim = _header(file, lines)
    matrix = _room(file, min(count, limit or count), dim)
    words: dict[str, None] = {}
    rows = 0
    for number, text in lines:
        if rows == count:
            file.broken(number, f"a row more than the {count:,} that line 1 says", _COUNT)
            break
        rows += 1
        row = _row(file, number, text, dim)
        if row is not None and row[0] not in words:
            matrix[len(words)] = row[1]
            words[row[0]] = None
            if len(words) % _EVERY == 0:
                progress(len(words), len(matrix))
            if len(words) == limit:
                break
    if rows < count and len(words) != limit:
        file.broken(0, f"ends after {rows:,} rows, but line 1 says {count:,}", _COUNT)
    if skipped is not None:
        skipped += damage.skipped()
    if not words:
        raise ReadError(str(path), 0, "no word with a vector in it", "give another file")
    progress(len(words), len(words))
    return WordVectors(tuple(words), matrix[: len(words)], language, facts={"method": "fastText", "file": path.name})


def write_fasttext(vectors: WordVectors, path: str | Path, force: bool = False) -> None:
    """Write a .vec file (packed where the name ends in .gz), whole or not at all, seven significant digits a number.

    Raises InputError if it is there already (unless ``force``) or cannot be written, and for a word with white space
    that would split it, with U+0000 or with half of a surrogate pair.
    """
    path = Path(path)
    check_new(path, force)
    if bad := next(filter(_UNWRITABLE.search, vectors.words), None):
        raise InputError(f"the word {bad!r} holds a space, a line end, U+0000 or half a character; take it out")
    with NewFile(path, binary=True) as new:
        raw = cast("IO[bytes]", new.stream)
        if path.suffix != ".gz":
            return raw.writelines(_lines(vectors))
        with gzip.GzipFile(path.name, "wb", fileobj=raw) as packed:
            packed.writelines(_lines(vectors))
    return None


def _lines(vectors: WordVectors) -> Iterable[bytes]:
    yield f"{len(vectors)} {vectors.dim}\n".encode()
    for word, row in zip(vectors.words, vectors.matrix, strict=True):
        yield f"{word} {' '.join(format(value, '.7g') for value in row.tolist())}\n".encode()


def _header(file: TextFile, lines: Iterator[tuple[int, str]]) -> tuple[int, int]:
    """The number of words and of dimensions; a file without them cannot be read at all."""
    number, text = next(lines, (0, ""))
    cells = text.split()
    numbers = len(cells) == 2 and all(cell.isascii() and cell.isdigit() and len(cell) < _DIGITS for cell in cells)
    if numbers and int(cells[0]) * int(cells[1]):
        return int(cells[0]), int(cells[1])
    if not number:
        for item in file.damage.skipped():
            raise ReadError(item.file, item.line, item.reason, "give another file")
        raise ReadError(file.name, 0, "an empty file", "expected fastText text vectors (.vec)")
    shown = text if len(text) < 40 else text[:39] + "…"
    raise ReadError(
        file.name,
        number,
        f"begins with {shown!r}",
        "expected the number of words and of dimensions, such as '200000 300' (GloVe files lack that line: add it)",
    )


def _room(file: TextFile, rows: int, dim: int) -> Floats:
    try:
        return np.empty((rows, dim), np.float32)
    except (MemoryError, ValueError) as error:
        reason = f"announces {rows:,} words of {dim:,} dimensions, more than the memory holds"
        raise ReadError(file.name, 1, reason, "mend the line or give a limit") from error


def _row(file: TextFile, number: int, text: str, dim: int) -> tuple[str, Floats] | None:
    """The word and its vector; None if the row is damaged and that is allowed."""
    cells = text.rstrip(" ").split(" ")
    if len(cells) != dim + 1:
        file.bad(number, f"{len(cells) - 1:,} numbers, expected {dim:,}", _MEND)
    elif not cells[0]:
        file.bad(number, "no word before the numbers", _MEND)
    else:
        try:
            with np.errstate(over="ignore"):  # what is too great becomes infinite, and shows below
                vector = np.array(cells[1:], np.float32)
            if np.isfinite(vector).all():
                return cells[0], vector
            file.bad(number, "a number that is not finite", _MEND)
        except ValueError:
            file.bad(number, "something that is no number among the numbers", _MEND)
    return None
