"""Whole files: a parallel text -> word links -> phrase pairs, as a stream that can be stopped and continued."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from phrasemate.align.links import Links, format_links, parse_links, read_links
from phrasemate.align.pairs import LEAST, MAX_WORDS, RATE, BorderWords, PhraseFinder
from phrasemate.align.parallel import ParallelText
from phrasemate.align.types import Aligner, Worded
from phrasemate.errors import InputError, ReadError
from phrasemate.text.text_file import numbered_lines
from phrasemate.types import Phrase, PhrasePair
from phrasemate.utils.storage import ResumableFile, sha256_of

BATCH = 1000  # sentence pairs between two writes of phrase pairs

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how many lines are done, and of how many."""


@dataclass(frozen=True, slots=True)
class Report:
    """What came of a run: ``lines`` of the whole output, of which ``new`` are of this run; ``found`` links or phrase
    pairs in the new ones; ``blank`` new lines without text; ``seconds``.
    """

    out: str
    lines: int
    new: int
    found: int
    blank: int
    seconds: float


@dataclass(frozen=True, slots=True)
class PhraseSettings:
    """Which phrase pairs are taken: see `PhraseFinder` and `BorderWords`."""

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
    """Word links of a parallel text, one line in the Pharaoh format for each of its lines.

    A run that was stopped goes on where it was (see `ResumableFile`). Raises ReadError for a text that cannot be read
    or whose sides differ in length, InputError for an output that is there already or was begun otherwise.
    """
    started, total = time.perf_counter(), text.count()
    settings = _inputs(text) | aligner.signature | {"tokenised": str(tokenised)}
    found = blank = 0
    with ResumableFile(out, settings, force, total) as file:
        first = done = file.done
        rows = ((Worded.of(source, tokenised), Worded.of(target, tokenised)) for source, target in text)
        if done:
            _learn(aligner, rows, file)
        while batch := list(islice(rows, aligner.chunk)):
            links = aligner.align(batch)
            file.write(map(format_links, links))
            found, done = found + sum(map(len, links)), done + len(batch)
            blank += sum(not source.text for source, _ in batch)
            progress("aligning", done, total)
        file.finish()
    return Report(str(out), done, done - first, found, blank, time.perf_counter() - started)


def _learn(aligner: Aligner, rows: Iterator[tuple[Worded, Worded]], file: ResumableFile) -> None:
    """Pass over what is aligned already, and let the aligner see the first part of it."""
    aligned = _aligned(rows, file)
    aligner.learn(islice(aligned, aligner.chunk))
    for _ in aligned:
        pass


def _aligned(rows: Iterator[tuple[Worded, Worded]], file: ResumableFile) -> Iterator[tuple[Worded, Worded, Links]]:
    """Raises ReadError for lines that are no links of these pairs."""
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
    """Phrase pairs of a parallel text with word links, one JSON object for each of its lines.

    ``{"source": ..., "target": ..., "pairs": [[start, end, start, end], ...]}``: characters of source and target.
    The text is read twice: first to count the words that may not begin or end a phrase. Stopped and continued as
    `align_files`; raises the same, and ReadError for links that are no links of this text.
    """
    settings, started = settings or PhraseSettings(), time.perf_counter()
    total = text.count(Path(links))
    facts = _inputs(text) | {"links": _identity(Path(links)), "tokenised": str(tokenised), "settings": str(settings)}
    found = blank = 0
    with ResumableFile(out, facts, force, total) as file:
        first = done = file.done
        finder = PhraseFinder(
            _frequent(text, tokenised, settings, lambda lines: progress("counting", lines, total)),
            settings.max_words,
            settings.loose,
        )
        rows = islice(zip(text, read_links(links), strict=True), done, None)
        while batch := list(islice(rows, BATCH)):
            lines = []
            for number, ((source, target), each) in enumerate(batch, done + 1):
                spans = _spans(finder, Worded.of(source, tokenised), Worded.of(target, tokenised), each, links, number)
                lines.append(json.dumps({"source": source, "target": target, "pairs": spans}, ensure_ascii=False))
                found, blank = found + len(spans), blank + (not source)
            file.write(lines)
            done += len(batch)
            progress("extracting", done, total)
        file.finish()
    return Report(str(out), done, done - first, found, blank, time.perf_counter() - started)


def read_pairs(path: str | Path) -> Iterator[PhrasePair]:
    """The phrase pairs of a file that `pair_files` made (gzip where its name ends in .gz).

    Raises ReadError naming file and line for what is no such line.
    """
    path = Path(path)
    for number, line in numbered_lines(path):
        try:
            row = json.loads(line)
            source, target, pairs = str(row["source"]), str(row["target"]), [tuple(map(int, p)) for p in row["pairs"]]
            found = [PhrasePair(Phrase(source, s, e), Phrase(target, s2, e2)) for s, e, s2, e2 in pairs]
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError, InputError) as error:
            reason = f"not a line of phrase pairs ({type(error).__name__}: {error})"
            raise ReadError(str(path), number, reason, "make the file again with phrasemate pairs") from error
        yield from found


def _frequent(
    text: ParallelText, tokenised: bool, settings: PhraseSettings, progress: Callable[[int], None]
) -> tuple[frozenset[str], frozenset[str]]:
    """The words of each side that may not begin or end a phrase."""
    counters = BorderWords(settings.rate, settings.least), BorderWords(settings.rate, settings.least)
    for number, pair in enumerate(text, 1):
        for counter, side in zip(counters, pair, strict=True):
            counter.update(Worded.of(side, tokenised))
        if number % BATCH == 0:
            progress(number)
    return counters[0].frequent(), counters[1].frequent()


def _spans(
    finder: PhraseFinder, source: Worded, target: Worded, links: Links, file: str | Path, number: int
) -> list[tuple[int, int, int, int]]:
    try:
        return finder.spans(source, target, links)
    except InputError as error:
        reason, _, remedy = str(error).partition("; ")
        raise ReadError(str(file), number, reason, remedy) from error


def _inputs(text: ParallelText) -> dict[str, str]:
    """Which text it is: a stopped run is only continued on the same one."""
    sides = dict(zip(("source", "target"), map(_identity, text.files), strict=False))
    if any(text.languages):
        return sides | {"languages": ",".join(text.languages)}
    return sides if text.target else sides | {"columns": "{},{}".format(*text.columns)}


def _identity(path: Path) -> str:
    try:
        return f"{path.resolve()} of {path.stat().st_size} bytes, checksum {sha256_of(path)[:16]}"
    except OSError as error:
        raise ReadError(str(path), 0, f"cannot be read ({error.strerror})", "check the path") from error
