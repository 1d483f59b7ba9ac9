"""Phrase pairs and text of both languages -> a data set of the WikiXPR form.

Zheng et al., "Cross-Lingual Phrase Retrieval" (ACL 2022), section 4.

From files to a data set: phrase pairs of a table or of inter-language links, texts or dumps of both languages.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, Protocol

from phrasemate.dataset.aho_corasick import SentenceFiles
from phrasemate.dataset.dump import Titles, is_dump, linked_titles
from phrasemate.dataset.jsonl import SPLITS, ExamplePair, write
from phrasemate.dataset.sources import Reading, Staged, staged
from phrasemate.dataset.split import Settings, Split, TimeWords, candidates, divided
from phrasemate.errors import InputError, ReadError
from phrasemate.text import Skipped, words
from phrasemate.text.error_policy import Damage
from phrasemate.text.formats.tables import meant
from phrasemate.text.text_file import TextFile
from phrasemate.types import Phrase, check_language
from phrasemate.utils.storage import acquire_lock, release_lock, write_text

STATS = "stats.json"

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done (bytes or pairs), and of how much (0: not known)."""


@dataclass(frozen=True, slots=True)
class SideFacts:
    """The statistics of one language: phrases, and means over phrases and over sentences."""

    language: str
    phrases: int
    phrase_words: float
    phrase_characters: float
    examples: int
    examples_a_phrase: float
    sentence_words: float
    sentence_characters: float


@dataclass(frozen=True, slots=True)
class Report:
    """What came of it: pairs given, how many each filter removed, pairs of each split, each language's statistics.

    ``skipped`` is what was passed over of the texts.
    """

    pair: str
    given: int
    removed: Mapping[str, int]
    splits: Mapping[str, int]
    sides: tuple[SideFacts, SideFacts]
    seconds: float = field(compare=False, default=0.0)
    skipped: tuple[Skipped, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self) | {"skipped": [item._asdict() for item in self.skipped]}


def build(
    out: str | Path,
    languages: tuple[str, str],
    pairs: Iterable[tuple[str, str]],
    source: FindsAll,
    target: FindsAll,
    settings: Settings | None = None,
    progress: Progress = lambda *_: None,
    skipped: Sequence[Skipped] = (),
) -> Report:
    """Write ``OUT/<source>-<target>/{train,dev,test}.jsonl``, and the statistics into ``OUT/stats.json``.

    ``pairs`` are (source phrase, target phrase); ``source`` and ``target`` find their example sentences; ``skipped``,
    what their texts lack, is reported. Raises InputError where no pair is left, saying what removed them.
    """
    started, settings, removed = time.perf_counter(), settings or Settings(), Counter[str]()
    counted = _Counted(pairs, progress)
    chosen = candidates(counted, languages, settings, removed)
    examples = [
        _examples(finder, sorted({pair[side] for pair in chosen}), settings, f"{languages[side]} examples", progress)
        for side, finder in enumerate((source, target))
    ]
    full = (ExamplePair(a, b, tuple(examples[0][a]), tuple(examples[1][b])) for a, b in chosen)
    splits = divided(_supported(full, settings.least, removed), settings, removed)
    name = "-".join(languages)
    _require(splits, name, counted.count, removed)
    (Path(out) / name).mkdir(parents=True, exist_ok=True)
    for split, pair_list in splits.items():
        write(Path(out) / name / f"{split}.jsonl", pair_list)
    sides = _facts(languages[0], splits, 0), _facts(languages[1], splits, 1)
    counts = {split: len(examples) for split, examples in splits.items()}
    report = Report(name, counted.count, dict(removed), counts, sides, time.perf_counter() - started, tuple(skipped))
    _note(Path(out), report, settings)
    return report


class FindsAll(Protocol):
    """Gives the example sentences of many phrases: `SentenceFiles`, or an ``ExampleIndex``."""

    def find_all(
        self,
        phrases: Sequence[str],
        limit: int = 32,
        extra: int = 10,
        seed: int = 0,
        progress: Callable[[int, int], None] = lambda step, total: None,
    ) -> list[list[Phrase]]:
        """At most ``limit`` sentences of each phrase, each at least ``extra`` characters longer than it."""
        ...


class _Counted:
    """An iterable that counts what it gave."""

    def __init__(self, pairs: Iterable[tuple[str, str]], progress: Progress) -> None:
        self._pairs, self._progress, self.count = pairs, progress, 0

    def __iter__(self) -> Iterator[tuple[str, str]]:
        for pair in self._pairs:
            self.count += 1
            if self.count % 1000 == 0:
                self._progress("phrase pairs", self.count, 0)
            yield pair


def _examples(
    finder: FindsAll, phrases: list[str], settings: Settings, what: str, progress: Progress
) -> dict[str, list[Phrase]]:
    samples = finder.find_all(
        phrases, settings.examples, settings.extra, settings.seed, lambda step, total: progress(what, step, total)
    )
    return dict(zip(phrases, samples, strict=True))


def _supported(pairs: Iterable[ExamplePair], least: int, removed: Counter[str]) -> Iterable[ExamplePair]:
    """The pairs with enough examples on both sides."""
    for pair in pairs:
        if min(len(pair.source_examples), len(pair.target_examples)) >= least:
            yield pair
        else:
            removed["few examples"] += 1


def _require(splits: Split, name: str, available: int, removed: Mapping[str, int]) -> None:
    if any(splits.values()):
        return
    why = ", ".join(f"{count:,} {reason}" for reason, count in removed.items()) or "nothing was given"
    raise InputError(f"{name}: no pair is left of {available:,} ({why}); give more pairs, more text or milder filters")


def _facts(language: str, splits: Split, side: int) -> SideFacts:
    pairs = [pair for examples in splits.values() for pair in examples]
    phrases = [(pair.source, pair.target)[side] for pair in pairs]
    examples = [one.context for pair in pairs for one in (pair.source_examples, pair.target_examples)[side]]
    return SideFacts(
        language,
        len(phrases),
        _mean([len(words(phrase)) for phrase in phrases]),
        _mean([len(phrase) for phrase in phrases]),
        len(examples),
        round(len(examples) / len(phrases), 2),
        _mean([len(words(text)) for text in examples]),
        _mean([len(text) for text in examples]),
    )


def _mean(numbers: list[int]) -> float:
    return round(fmean(numbers), 2) if numbers else 0.0


def _note(out: Path, report: Report, settings: Settings) -> None:
    """Add a pair's report to the statistics of the folder."""
    path = out / STATS
    try:
        stored = json.loads(path.read_text("utf-8")) if path.exists() else {}
    except (ValueError, RecursionError):
        stored = {}
    facts = stored if isinstance(stored, dict) else {}
    facts[report.pair] = report.as_dict() | {"settings": asdict(settings)}
    write_text(path, json.dumps(facts, ensure_ascii=False, indent=1) + "\n")


WORK = ".work"
Pairs = Iterator[tuple[str, str]]


class Side:
    """One language of a data set: its code, its texts or dumps, and how texts are read."""

    def __init__(self, language: str, paths: Sequence[str | Path], reading: Reading | None = None) -> None:
        if not language:
            raise InputError("no language; expected a code such as de")
        check_language(language)
        self.language, self.paths, self.reading = language, list(paths), reading or Reading()

    def staged(self, work: Path, progress: Progress) -> Staged:
        """Its sentences and titles, made where they are not there yet."""
        return staged(work, self.paths, self.language, self.reading, progress)


def build_files(
    out: str | Path,
    source: Side,
    target: Side,
    pairs: str | Path | None = None,
    links: str | Path | None = None,
    columns: tuple[int, int] = (1, 2),
    settings: Settings | None = None,
    force: bool = False,
    progress: Progress = lambda *_: None,
) -> Report:
    """Write a data set of the WikiXPR form; see `phrasemate.dataset.build.build` for what is written.

    The phrase pairs come from ``pairs``, a table with tabs, or from ``links``, a dump of the source wiki's langlinks.
    Page numbers of ``links`` are looked up in the dumps among the source's texts. What was read is kept in
    ``OUT/.work`` and not read again. Raises InputError for arguments that do not fit or a data set that already exists,
    ReadError for what cannot be read.
    """
    settings, languages = settings or Settings(), (source.language, target.language)
    _check(source, target, pairs, links, columns, settings)
    folder = Path(out) / "-".join(languages)
    if not force and any((folder / f"{split}.jsonl").exists() for split in SPLITS):
        raise InputError(f"{folder}: already exists; take another folder, or add --force to overwrite it")
    with _locked(Path(out)):
        ours, theirs = (side.staged(Path(out) / WORK, progress) for side in (source, target))
        phrase_rows = _linked(ours, links, target.language, progress) if links else phrase_pairs(pairs or "", columns)
        finders = [SentenceFiles(*item.sentences, longest=settings.longest) for item in (ours, theirs)]
        skipped = list(dict.fromkeys([*ours.skipped, *theirs.skipped]))
        return build(out, languages, phrase_rows, finders[0], finders[1], settings, progress, skipped)


def phrase_pairs(path: str | Path, columns: tuple[int, int] = (1, 2)) -> Pairs:
    """The phrases in two columns (from 1) of a table with tabs (gzip where the name ends in .gz).

    Raises ReadError for a line with fewer columns.
    """
    path = Path(path)
    if min(columns) < 1 or columns[0] == columns[1]:
        raise InputError(f"columns {columns[0]},{columns[1]}; expected two different numbers from 1, such as 1,2")
    if not path.is_file():
        raise ReadError(str(path), 0, "not a file" if path.exists() else "no such file", "check the path")
    file = TextFile(path, str(path), path.suffix == ".gz", "utf-8", Damage(skip=False))
    for number, line in file.lines():
        cells = line.split("\t")
        if len(cells) >= max(columns):
            yield meant(cells[columns[0] - 1]), meant(cells[columns[1] - 1])
        elif line.strip():
            reason = f"{len(cells)} column{'s' * (len(cells) > 1)}; expected {max(columns)}, separated by tabs"
            raise ReadError(str(path), number, reason, "fix it or give --columns")


def _check(
    source: Side,
    target: Side,
    pairs: str | Path | None,
    links: str | Path | None,
    columns: tuple[int, int],
    settings: Settings,
) -> None:
    """What would show only after hours of reading dumps."""
    if (pairs is None) == (links is None):
        raise InputError("give either a table of phrase pairs or a dump of langlinks, one of the two")
    if pairs is not None:
        next(phrase_pairs(pairs, columns), None)
    elif not any(map(is_dump, source.paths)):
        raise InputError("--links needs the dump that its page numbers belong to; give it as source text")
    for path in [links, *source.paths, *target.paths]:
        if path not in (None, "-") and not Path(str(path)).exists():
            raise ReadError(str(path), 0, "no such file or folder", "check the path")
    if not settings.times:
        for side in (source, target):
            TimeWords.of(side.language)


def _linked(source: Staged, links: str | Path, language: str, progress: Progress) -> Pairs:
    show = partial(progress, f"reading {Path(links).name}")
    with Titles(*source.titles) as titles:
        yield from linked_titles(titles, links, language, show)


@contextmanager
def _locked(out: Path) -> Iterator[None]:
    """One process at a time writes to a folder."""
    (out / WORK).mkdir(parents=True, exist_ok=True)
    lock = acquire_lock(out / WORK / "lock", f"{out}: another process is writing it; wait for it to end")
    try:
        yield
    finally:
        release_lock(lock)
