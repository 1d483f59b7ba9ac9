"""Phrase pairs and text of both languages -> a data set of the WikiXPR form.

Zheng et al., "Cross-Lingual Phrase Retrieval" (ACL 2022), section 4.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, Protocol

from phrasemate.dataset.choose import Settings, Split, candidates, divided
from phrasemate.dataset.records import ExamplePair, write
from phrasemate.errors import InputError
from phrasemate.text import Skipped, words
from phrasemate.types import Phrase

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
    given = _Counted(pairs, progress)
    chosen = candidates(given, languages, settings, removed)
    examples = [
        _examples(finder, sorted({pair[side] for pair in chosen}), settings, f"{languages[side]} examples", progress)
        for side, finder in enumerate((source, target))
    ]
    full = (ExamplePair(a, b, tuple(examples[0][a]), tuple(examples[1][b])) for a, b in chosen)
    splits = divided(_supported(full, settings.least, removed), settings, removed)
    name = "-".join(languages)
    _require(splits, name, given.count, removed)
    (Path(out) / name).mkdir(parents=True, exist_ok=True)
    for split, kept in splits.items():
        write(Path(out) / name / f"{split}.jsonl", kept)
    sides = _facts(languages[0], splits, 0), _facts(languages[1], splits, 1)
    counts = {split: len(kept) for split, kept in splits.items()}
    report = Report(name, given.count, dict(removed), counts, sides, time.perf_counter() - started, tuple(skipped))
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
        progress: Callable[[int, int], None] = lambda done, total: None,
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
    found = finder.find_all(
        phrases, settings.examples, settings.extra, settings.seed, lambda done, total: progress(what, done, total)
    )
    return dict(zip(phrases, found, strict=True))


def _supported(pairs: Iterable[ExamplePair], least: int, removed: Counter[str]) -> Iterable[ExamplePair]:
    """The pairs with enough examples on both sides."""
    for pair in pairs:
        if min(len(pair.source_examples), len(pair.target_examples)) >= least:
            yield pair
        else:
            removed["few examples"] += 1


def _require(splits: Split, name: str, given: int, removed: Mapping[str, int]) -> None:
    if any(splits.values()):
        return
    why = ", ".join(f"{count:,} {reason}" for reason, count in removed.items()) or "nothing was given"
    raise InputError(f"{name}: no pair is left of {given:,} ({why}); give more pairs, more text or milder filters")


def _facts(language: str, splits: Split, side: int) -> SideFacts:
    pairs = [pair for kept in splits.values() for pair in kept]
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
        found = json.loads(path.read_text("utf-8")) if path.exists() else {}
    except (ValueError, RecursionError):
        found = {}
    known = found if isinstance(found, dict) else {}
    known[report.pair] = report.as_dict() | {"settings": asdict(settings)}
    temporary = path.with_name(path.name + ".part")
    temporary.write_text(json.dumps(known, ensure_ascii=False, indent=1) + "\n", "utf-8")
    temporary.replace(path)
