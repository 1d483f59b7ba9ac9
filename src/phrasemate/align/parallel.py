"""A parallel text on disk: two files whose lines correspond, one with two columns, or a translation memory."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import IO, cast

from phrasemate.errors import InputError, ReadError
from phrasemate.text.error_policy import Damage, Skipped, without_options
from phrasemate.text.formats.bilingual import format_of, read_bilingual
from phrasemate.text.text_file import TextFile

_BLOCK = 1 << 20


class ParallelText:
    """Sentence pairs in UTF-8 files (gzip where the name ends in .gz), read as a stream, as often as needed.

    ``target`` None: ``source`` holds both sides, in the columns ``columns`` (from 1), separated by tabs.
    A pair that is blank on one side only, lacks a column or cannot be decoded raises ReadError; with ``skip`` it is
    listed and read as a pair of empty texts, so that line n stays line n. A pair that is blank on both sides is that
    anyway.

    A translation memory or a document in translation (.tmx, .xliff; see `read_bilingual`) gives a pair for each unit
    that has both sides; ``languages`` are source and target, needed where it has more than two.
    """

    def __init__(
        self,
        source: str | Path,
        target: str | Path | None = None,
        columns: tuple[int, int] = (1, 2),
        skip: bool = False,
        languages: tuple[str, str] = ("", ""),
    ) -> None:
        self.source, self.target = Path(source), None if target is None else Path(target)
        if min(columns) < 1 or columns[0] == columns[1]:
            raise InputError(f"columns {columns[0]},{columns[1]}; expected two different numbers from 1, such as 1,2")
        self.columns, self.languages, self.damage = columns, languages, Damage(skip)
        self._of_units = target is None and format_of(source) != ""
        if any(languages) and not self._of_units:
            raise InputError(f"languages {','.join(languages)} for {source}; expected them with .tmx or .xliff only")

    @property
    def files(self) -> list[Path]:
        """The file or files."""
        return [self.source] if self.target is None else [self.source, self.target]

    @property
    def skipped(self) -> list[Skipped]:
        """What was passed over so far."""
        return self.damage.skipped()

    def count(self, *others: Path) -> int:
        """The number of pairs; raises ReadError where the two files, or ``others``, have not as many lines."""
        if not self._of_units:
            return same_length(*self.files, *others)
        pairs = sum(1 for _ in self)
        for path in others:
            if (lines := count_lines(path)) != pairs:
                reason = f"{lines:,} lines, but {self.source} has {pairs:,} sentence pairs"
                raise ReadError(str(path), lines, reason, "give files that belong together")
        return pairs

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Both sides of each line, without white space around them.

        Raises ReadError for what cannot be read, and where one file ends before the other.
        """
        with without_options(encoding_only=True):
            yield from self._pairs()

    def _pairs(self) -> Iterator[tuple[str, str]]:
        if self._of_units:
            yield from read_bilingual(self.source, *self.languages)
            return
        if self.target is None:
            yield from (self._split(number, line) for number, line in enumerate(self._lines(self.source), 1))
            return
        lines = zip_longest(self._lines(self.source), self._lines(self.target))
        for number, (source, target) in enumerate(lines, 1):
            if source is None or target is None:
                same_length(*self.files)
                return
            yield self._pair(number, source, target)

    def _split(self, number: int, line: str) -> tuple[str, str]:
        if not line.strip():
            return "", ""
        cells = line.split("\t")
        if max(self.columns) > len(cells):
            reason = f"{len(cells)} column{'s' * (len(cells) > 1)}; expected {max(self.columns)}, separated by tabs"
            self.damage.line(str(self.source), number, reason, "mend it, give --columns or use --on-error skip")
            return "", ""
        return self._pair(number, cells[self.columns[0] - 1], cells[self.columns[1] - 1])

    def _pair(self, number: int, source: str, target: str) -> tuple[str, str]:
        source, target = source.strip(), target.strip()
        if bool(source) == bool(target):
            return source, target
        blank = self.source if target or self.target is None else self.target
        side = "" if self.target else f"column {self.columns[bool(source)]} is "
        reason = f"{side}blank, its other side is not"
        self.damage.line(str(blank), number, reason, "delete the pair or use --on-error skip")
        return "", ""

    def _lines(self, path: Path) -> Iterator[str]:
        """Every line, an empty one in place of each that was passed over."""
        expected = 1
        for number, line in _text_file(path, self.damage).lines():
            yield from ("" for _ in range(expected, number))
            yield line
            expected = number + 1
        for item in self.skipped:
            if item.whole:
                raise ReadError(item.file, item.line, item.reason, "mend the file")
        yield from ("" for _ in range(expected, count_lines(path) + 1))


def _text_file(path: Path, damage: Damage) -> TextFile:
    return TextFile(path, str(path), path.suffix == ".gz", "utf-8", damage)


def count_lines(path: Path) -> int:
    """The lines of a file, unpacked where its name ends in .gz; raises ReadError if it cannot be read."""
    if not path.is_file():
        raise ReadError(str(path), 0, "not a file" if path.exists() else "no such file", "check the path")
    lines, last = 0, b"\n"
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            while block := cast(IO[bytes], file).read(_BLOCK):
                lines, last = lines + block.count(b"\n"), block[-1:]
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ReadError(str(path), lines + 1, f"damaged gzip data ({error})", "copy or download it again") from error
    except OSError as error:
        raise ReadError(str(path), 0, f"cannot be read ({error.strerror})", "check its permissions") from error
    return lines + (last != b"\n")


def same_length(*paths: Path) -> int:
    """The number of lines that all of the files have; raises ReadError naming the first that ends early."""
    counts = [count_lines(path) for path in paths]
    if len(set(counts)) > 1:
        short, long = counts.index(min(counts)), counts.index(max(counts))
        raise ReadError(
            str(paths[short]),
            counts[short],
            f"the file ends here, but {paths[long]} has {counts[long]:,} lines",
            "give files whose lines correspond",
        )
    return counts[0]
