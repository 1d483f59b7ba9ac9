"""Parallel text in files to word links to phrase pairs, as a stream that can be stopped and resumed.

A parallel text is two files whose lines correspond, one file with two columns, or a translation memory.
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
from phrasemate.errors import InputError, ReadError
from phrasemate.text.formats.bilingual import format_of, read_bilingual
from phrasemate.text.text_file import Damage, SkippedInput, TextFile, numbered_lines, without_options
from phrasemate.types import Phrase, PhrasePair, Progress
from phrasemate.utils.storage import ResumableFile, sha256_of

_BLOCK = 1 << 20


class ParallelText:
    r"""Sentence pairs in UTF-8 files (gzip where the name ends in .gz), read as a stream, as often as needed.

    ``target`` None: ``source`` holds both sides, in the columns ``columns`` (from 1), separated by tabs. A pair raises
    ReadError if one side only is blank, a column is missing or the text cannot be decoded. With ``skip`` it is listed
    and read as a pair of empty texts, so that line n stays line n. A pair that is blank on both sides is that anyway.

    A translation memory or a document in translation (.tmx, .xliff; see `read_bilingual`) gives a pair for each unit
    that has both sides. ``languages`` are source and target, needed where it has more than two.

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
    def skipped(self) -> list[SkippedInput]:
        """List what was passed over so far."""
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

    def lines_beside(self, path: Path) -> Iterator[str]:
        """The lines of another file, read as those of the text are: one that cannot be decoded is raised or empty."""
        with without_options(encoding_only=True):
            yield from self._lines(path)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Yield the two sides of each line, without white space around them.

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
            self.damage.line(str(self.source), number, reason, "fix it, give --columns or use --on-error skip")
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
        """Every line, an empty one for each that was passed over."""
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


BATCH = 1000  # sentence pairs between two writes of phrase pairs


@dataclass(frozen=True, slots=True)
class Report:
    """Report of a run: ``lines`` of the whole output, of which this run wrote ``new``. ``found`` counts links or phrase
    pairs in the new lines, ``blank`` new lines without text; ``seconds``.
    """

    out: str
    lines: int
    new: int
    found: int
    blank: int
    seconds: float


@dataclass(frozen=True, slots=True)
class PhraseSettings:
    r"""Limits of the phrase pairs that are taken: see `PhraseFinder` and `BorderWords`.

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


def align_files(
    text: ParallelText,
    out: str | Path,
    aligner: Aligner,
    tokenised: bool = False,
    force: bool = False,
    progress: Progress = lambda *_: None,
) -> Report:
    """Write the word links of a parallel text in the Pharaoh format, line by line.

    A stopped run continues where it was (see `ResumableFile`).

    Args:
        text: Sentence pairs.
        out: File to write.
        aligner: `NeuralAligner` or `EflomalAligner`.
        tokenised: Whether spaces part the words; else they are found by the rules of Unicode.
        force: Overwrite a file that exists.
        progress: Called with what is being done, how many lines are done, and of how many.

    Raises ReadError for a text that cannot be read or whose sides differ in length, InputError for an output that
    already exists or was started otherwise.
    """
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
    """Pass over what is aligned already, and let the aligner see the first part of it."""
    priors_lines = _aligned(rows, file)
    aligner.learn(islice(priors_lines, aligner.chunk))
    deque(priors_lines, maxlen=0)


def _aligned(
    rows: Iterator[tuple[TokenizedSentence, TokenizedSentence]], file: ResumableFile
) -> Iterator[tuple[TokenizedSentence, TokenizedSentence, Links]]:
    """Raises ReadError for lines that are not links of these pairs."""
    for number, ((source, target), line) in enumerate(zip(islice(rows, file.done), file.written(), strict=True), 1):
        links = parse_links(line, str(file.part), number)
        if any(a >= len(source.spans) or b >= len(target.spans) for a, b in links):
            reason = f"links of other sentences than {source.text[:40]!r} and its mate"
            raise ReadError(str(file.part), number, reason, "delete it, and give the command again")
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

    ``{"source": ..., "target": ..., "pairs": [[start, end, start, end], ...]}``: characters of source and target. The
    text is read twice: first to count the words that may not begin or end a phrase. A stopped run continues where it
    was.

    Args:
        text: Sentence pairs.
        links: File of word links, a line for each pair.
        out: File to write.
        settings: Which phrase pairs are taken.
        tokenised: Whether spaces part the words, as when the links were made.
        force: Overwrite a file that exists.
        progress: Called with what is being done, how many lines are done, and of how many.

    Raises what `align_files` raises, and ReadError for links that are not links of this text. If the text skips what
    cannot be used, their line has no phrase pairs and is listed.
    """
    settings, start = settings or PhraseSettings(), time.perf_counter()
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
    """Read the phrase pairs of a file that `pair_files` made (gzip if its name ends in .gz).

    Raises ReadError naming file and line for what is not such a line.
    """
    path = Path(path)
    for number, line in numbered_lines(path):
        try:
            row = json.loads(line)
            source, target, pairs = str(row["source"]), str(row["target"]), [tuple(map(int, p)) for p in row["pairs"]]
            phrase_pairs = [PhrasePair(Phrase(source, s, e), Phrase(target, s2, e2)) for s, e, s2, e2 in pairs]
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError, InputError) as error:
            reason = f"not a line of phrase pairs ({type(error).__name__}: {error})"
            raise ReadError(str(path), number, reason, "make the file again with phrasemate pairs") from error
        yield from phrase_pairs


def _frequent(
    text: ParallelText, tokenised: bool, settings: PhraseSettings, progress: Callable[[int], None]
) -> tuple[frozenset[str], frozenset[str]]:
    """The words of each side that may not begin or end a phrase."""
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
    """The phrase pairs by the links of a line; none for a line that cannot be used and may be skipped."""
    try:
        return finder.spans(*pair, parse_links(line, file, number))
    except ReadError as error:
        reason, remedy = error.reason, error.remedy
    except InputError as error:
        reason, _, remedy = str(error).partition("; ")
    damage.line(file, number, reason, f"{remedy}, or use --on-error skip")
    return []


def _inputs(text: ParallelText) -> dict[str, str]:
    """Identity of the text: a stopped run is only continued on the same one."""
    sides = dict(zip(("source", "target"), map(_identity, text.files), strict=False))
    if any(text.languages):
        return sides | {"languages": ",".join(text.languages)}
    return sides if text.target else sides | {"columns": "{},{}".format(*text.columns)}


def _identity(path: Path) -> str:
    try:
        return f"{path.resolve()} of {path.stat().st_size} bytes, checksum {sha256_of(path)[:16]}"
    except OSError as error:
        raise ReadError(str(path), 0, f"cannot be read ({error.strerror})", "check the path") from error
