"""Write the word links and the phrase pairs of parallel text in files, in runs that can be stopped and resumed.

A parallel text consists of two files with corresponding lines, one file with columns, or a translation memory.
"""

from __future__ import annotations

import gzip
import json
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path
from typing import IO, cast

from phrasemate.align.pairs import (
    LEAST,
    MAX_WORDS,
    RATE,
    Aligner,
    BorderWords,
    PhraseFinder,
    TokenizedSentence,
    format_links,
    parse_links,
)
from phrasemate.align.symmetrise import Links
from phrasemate.errors import InputError, ReadError, line_fault
from phrasemate.text.formats.bilingual import format_of, read_bilingual
from phrasemate.text.text_file import Damage, SkippedInput, TextFile, numbered_lines, without_options
from phrasemate.types import (
    Phrase,
    PhrasePair,
    Progress,
    check_columns,
    check_fields,
    check_language_pair,
    check_progress,
    to_settings,
)
from phrasemate.utils.storage import ResumableFile, sha256_of

_BLOCK = 1 << 20


class ParallelText:
    r"""Sentence pairs in UTF-8 files (gzip if the name ends in .gz): an iterable that reads the files in each pass.

    A translation memory or a document in translation (.tmx, .xliff; see `read_bilingual`) gives a pair for each unit
    that has both sides.

    Args:
        source: File with the source sentences, or with both sides.
        target: File with the target sentences, line by line; None if ``source`` holds both sides.
        columns: Numbers of the source and target columns, from 1, if ``source`` holds both sides separated by tabs.
        skip: Whether an unusable pair is listed and read as a pair of empty texts, which preserves line numbers.
            Without, it raises ReadError: one side alone is blank, a column is missing, or a line cannot be decoded.
        languages: Source and target language, needed for a translation memory in more than two languages.

    >>> _ = Path("text.de").write_text("Der Hund bellt.\n")
    >>> _ = Path("text.en").write_text("The dog barks.\n")
    >>> list(ParallelText("text.de", "text.en"))
    [('Der Hund bellt.', 'The dog barks.')]
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
        check_columns(columns)
        check_language_pair(languages)
        self.columns, self.languages, self.damage = columns, languages, Damage(skip)
        self._has_units = target is None and format_of(source) != ""
        if any(languages) and not self._has_units:
            raise InputError(
                f"languages {','.join(languages)} for {source}; expected them with .tmx, .xliff or the method eflomal"
            )

    @property
    def files(self) -> list[Path]:
        """Return the one or two files of the text."""
        return [self.source] if self.target is None else [self.source, self.target]

    @property
    def skipped(self) -> list[SkippedInput]:
        """Return the places that were skipped so far."""
        return self.damage.skipped()

    def count(self, *others: Path) -> int:
        """Return the number of pairs. Raises ReadError if the files, or ``others``, differ in their number of lines."""
        if not self._has_units:
            return same_length(*self.files, *others)
        pairs = sum(1 for _ in self)
        for path in others:
            if (lines := count_lines(path)) != pairs:
                reason = f"{lines:,} lines, but {self.source} has {pairs:,} sentence pairs"
                raise ReadError(str(path), lines, reason, "give files that belong together")
        return pairs

    def lines_beside(self, path: Path) -> Iterator[str]:
        """Yield the lines of another file that belongs to the text, such as its word links.

        A line that cannot be decoded is treated as in the text: it raises ReadError, or is listed and yielded empty.
        """
        with without_options(encoding_only=True):
            yield from self._lines(path)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Yield source and target of each pair, without surrounding white space.

        Raises ReadError for text that cannot be read, and if one file ends before the other.
        """
        with without_options(encoding_only=True):
            yield from self._pairs()

    def _pairs(self) -> Iterator[tuple[str, str]]:
        if self._has_units:
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
        """Take the pair from the columns of a line; a pair of empty texts if a column is missing and may be skipped."""
        if not line.strip():
            return "", ""
        cells = line.split("\t")
        if max(self.columns) > len(cells):
            reason = f"{len(cells)} column{'s' * (len(cells) > 1)}; expected {max(self.columns)}, separated by tabs"
            self.damage.line(str(self.source), number, reason, "fix it, give --columns or use --on-error skip")
            return "", ""
        return self._pair(number, cells[self.columns[0] - 1], cells[self.columns[1] - 1])

    def _pair(self, number: int, source: str, target: str) -> tuple[str, str]:
        """Strip both sides; report the pair and return empty texts if one side alone is blank."""
        source, target = source.strip(), target.strip()
        if bool(source) == bool(target):
            return source, target
        blank = self.source if target or self.target is None else self.target
        side = "" if self.target else f"column {self.columns[bool(source)]} is "
        reason = f"{side}blank, but the other side is not"
        self.damage.line(str(blank), number, reason, "delete the pair or use --on-error skip")
        return "", ""

    def _lines(self, path: Path) -> Iterator[str]:
        """Yield each line of a file, with an empty text for a skipped one."""
        line_number = 1
        for number, line in TextFile(path, str(path), path.suffix == ".gz", "utf-8", self.damage).lines():
            yield from ("" for _ in range(line_number, number))
            yield line
            line_number = number + 1
        for item in self.skipped:
            if item.whole:
                raise ReadError(item.file, item.line, item.reason, "fix the file")
        yield from ("" for _ in range(line_number, count_lines(path) + 1))


def count_lines(path: Path) -> int:
    """Count the lines of a file, decompressed if its name ends in .gz. Raises ReadError if it cannot be read."""
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
    """Return the common number of lines of the files. Raises ReadError, naming the shortest file, if they differ."""
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


BATCH = 1000  # sentence pairs per write of phrase pairs, and per call of ``progress`` while words are counted


@dataclass(frozen=True, slots=True)
class Report:
    """Report of a run of `align_files` or `pair_files`.

    Args:
        out: Output file.
        lines: Lines of the whole output.
        new: Lines that this run wrote, fewer than ``lines`` if it resumed a stopped run.
        found: Links or phrase pairs in the new lines.
        blank: New lines without text.
        seconds: Duration of the run.
    """

    out: str
    lines: int
    new: int
    found: int
    blank: int
    seconds: float


@dataclass(frozen=True, slots=True)
class PhraseSettings:
    r"""Settings of `pair_files` that select phrase pairs.

    Args:
        max_words: Maximum number of words on each side.
        rate: Occurrences per sentence above which a word may not begin or end a phrase; see `BorderWords`.
        least: Number of occurrences up to which a word may begin or end a phrase, even above ``rate``.
        loose: Whether a phrase may begin or end with a word that has no link; see `consistent_boxes`.

    >>> _ = Path("pairs.tsv").write_text("Der Hund bellt.\tThe dog barks.\n")
    >>> _ = Path("links.txt").write_text("0-0 1-1 2-2\n")
    >>> report = pair_files(ParallelText("pairs.tsv"), "links.txt", "phrases.jsonl", PhraseSettings(max_words=1))
    >>> [(pair.source.text, pair.target.text) for pair in read_pairs("phrases.jsonl")]
    [('Der', 'The'), ('Hund', 'dog'), ('bellt', 'barks')]
    """

    max_words: int = MAX_WORDS
    rate: float = RATE
    least: int = LEAST
    loose: bool = False

    def __post_init__(self) -> None:
        check_fields(self)


def align_files(
    text: ParallelText,
    out: str | Path,
    aligner: Aligner,
    tokenised: bool = False,
    force: bool = False,
    progress: Progress = lambda *_: None,
) -> Report:
    """Write the word links of a parallel text in the Pharaoh format, one line for each sentence pair.

    If a run is stopped, the same call resumes it (see `ResumableFile`).

    Args:
        text: Sentence pairs.
        out: File to write.
        aligner: `NeuralAligner` or `EflomalAligner`.
        tokenised: Whether words are separated by spaces; otherwise `phrasemate.text.words` finds them.
        force: Whether to overwrite an existing file, and to discard a stopped run.
        progress: Called with the name of the stage, the number of lines that are done, and the total.

    Raises ReadError for a text that cannot be read or that has sides of different length. Raises InputError if the
    output exists, or belongs to a stopped run with other settings.
    """
    check_progress(progress)
    start, total = time.perf_counter(), text.count()
    settings = _inputs(text) | aligner.signature | {"tokenised": str(tokenised)}
    count = blank = 0
    with ResumableFile(out, settings, force, total) as file:
        first = lines_before = file.done
        rows = (
            (TokenizedSentence.of(source, tokenised), TokenizedSentence.of(target, tokenised))
            for source, target in text
        )
        if lines_before:
            _learn(aligner, rows, file)
        while batch := list(islice(rows, aligner.chunk)):
            links = aligner.align(batch)
            file.write(map(format_links, links))
            count, lines_before = count + sum(map(len, links)), lines_before + len(batch)
            blank += sum(not source.text for source, _ in batch)
            progress("aligning", lines_before, total)
        file.finish()
    return Report(str(out), lines_before, lines_before - first, count, blank, time.perf_counter() - start)


def _learn(aligner: Aligner, rows: Iterator[tuple[TokenizedSentence, TokenizedSentence]], file: ResumableFile) -> None:
    """Give the first chunk of the aligned pairs of a stopped run to the aligner; check and skip the other ones."""
    aligned_pairs = _aligned(rows, file)
    aligner.learn(islice(aligned_pairs, aligner.chunk))
    deque(aligned_pairs, maxlen=0)


def _aligned(
    rows: Iterator[tuple[TokenizedSentence, TokenizedSentence]], file: ResumableFile
) -> Iterator[tuple[TokenizedSentence, TokenizedSentence, Links]]:
    """Yield the sentence pairs that a stopped run has aligned, and their links.

    Raises ReadError for a line that does not hold links of its sentence pair.
    """
    for number, ((source, target), line) in enumerate(zip(islice(rows, file.done), file.written(), strict=True), 1):
        links = parse_links(line, str(file.part), number)
        if any(a >= len(source.spans) or b >= len(target.spans) for a, b in links):
            reason = f"a link to a word that {source.text[:40]!r} or its translation does not have"
            raise ReadError(str(file.part), number, reason, "delete this file and run the command again")
        yield source, target, links


def pair_files(
    text: ParallelText,
    links: str | Path,
    out: str | Path,
    settings: PhraseSettings | None = None,
    tokenised: bool = False,
    force: bool = False,
    progress: Progress = lambda *_: None,
) -> Report:
    """Write the phrase pairs of a parallel text with word links, one JSON object per line.

    Each object is ``{"source": ..., "target": ..., "pairs": [[start, end, start, end], ...]}``, with offsets of
    characters in the source, then in the target. The text is read twice: a first pass counts words, to find those that
    may not begin or end a phrase. If a run is stopped, the same call resumes it.

    Args:
        text: Sentence pairs.
        links: File of word links, one line for each sentence pair.
        out: File to write.
        settings: Filters of the phrase pairs; None for the defaults.
        tokenised: Whether words are separated by spaces; must be as in the call that made the links.
        force: Whether to overwrite an existing file, and to discard a stopped run.
        progress: Called with the name of the stage, the number of lines that are done, and the total.

    Raises ReadError and InputError as `align_files` does, and ReadError for links that do not belong to the text. With
    ``skip``, such a line is listed and gets no phrase pairs.
    """
    check_progress(progress)
    settings, start = to_settings(settings, PhraseSettings), time.perf_counter()
    total = text.count(Path(links))
    facts = _inputs(text) | {"links": _identity(Path(links)), "tokenised": str(tokenised), "settings": str(settings)}
    count = blank = 0
    with ResumableFile(out, facts, force, total) as file:
        first = lines_before = file.done
        finder = PhraseFinder(
            _frequent(text, tokenised, settings, lambda lines: progress("counting", lines, total)),
            settings.max_words,
            settings.loose,
        )
        rows = islice(zip(text, text.lines_beside(Path(links)), strict=True), lines_before, None)
        while batch := list(islice(rows, BATCH)):
            lines = []
            for number, ((source, target), line) in enumerate(batch, lines_before + 1):
                pair = TokenizedSentence.of(source, tokenised), TokenizedSentence.of(target, tokenised)
                spans = _spans(finder, pair, line, str(links), number, text.damage)
                lines.append(json.dumps({"source": source, "target": target, "pairs": spans}, ensure_ascii=False))
                count, blank = count + len(spans), blank + (not source)
            file.write(lines)
            lines_before += len(batch)
            progress("extracting", lines_before, total)
        file.finish()
    return Report(str(out), lines_before, lines_before - first, count, blank, time.perf_counter() - start)


def read_pairs(path: str | Path) -> Iterator[PhrasePair]:
    """Read the phrase pairs of a file that `pair_files` wrote (gzip if its name ends in .gz).

    Raises ReadError, with file and line, for a line in another format.
    """
    path = Path(path)
    for number, line in numbered_lines(path):
        try:
            row = json.loads(line)
            source, target, pairs = str(row["source"]), str(row["target"]), [tuple(map(int, p)) for p in row["pairs"]]
            phrase_pairs = [PhrasePair(Phrase(source, s, e), Phrase(target, s2, e2)) for s, e, s2, e2 in pairs]
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError, InputError) as error:
            reason = f"not a line of phrase pairs ({line_fault(error)})"
            raise ReadError(str(path), number, reason, "make the file again with phrasemate pairs") from error
        yield from phrase_pairs


def _frequent(
    text: ParallelText, tokenised: bool, settings: PhraseSettings, progress: Callable[[int], None]
) -> tuple[frozenset[str], frozenset[str]]:
    """Return the words of each side that are too frequent to begin or end a phrase."""
    counters = BorderWords(settings.rate, settings.least), BorderWords(settings.rate, settings.least)
    for number, pair in enumerate(text, 1):
        for counter, side in zip(counters, pair, strict=True):
            counter.update(TokenizedSentence.of(side, tokenised))
        if number % BATCH == 0:
            progress(number)
    return counters[0].frequent(), counters[1].frequent()


def _spans(
    finder: PhraseFinder,
    pair: tuple[TokenizedSentence, TokenizedSentence],
    line: str,
    file: str,
    number: int,
    damage: Damage,
) -> list[tuple[int, int, int, int]]:
    """Return the phrase pairs of a sentence pair by a line of links; none for an unusable line that may be skipped."""
    try:
        return finder.spans(*pair, parse_links(line, file, number))
    except ReadError as error:
        reason, remedy = error.reason, error.remedy
    except InputError as error:
        reason, _, remedy = str(error).partition("; ")
    damage.line(file, number, reason, f"{remedy}, or use --on-error skip")
    return []


def _inputs(text: ParallelText) -> dict[str, str]:
    """Return facts that identify the text, so that a stopped run is resumed with the same text only."""
    sides = dict(zip(("source", "target"), map(_identity, text.files), strict=False))
    if any(text.languages):
        return sides | {"languages": ",".join(text.languages)}
    return sides if text.target else sides | {"columns": "{},{}".format(*text.columns)}


def _identity(path: Path) -> str:
    """Identify a file by its path, size and checksum."""
    try:
        return f"{path.resolve()} of {path.stat().st_size} bytes, checksum {sha256_of(path)[:16]}"
    except OSError as error:
        raise ReadError(str(path), 0, f"cannot be read ({error.strerror})", "check the path") from error
