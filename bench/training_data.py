"""Phrase pairs on which earlier bundled models were trained, which a test with held-out text has to leave out.

They come from parallel text of 13 languages with English, with a limit on the sentence pairs of each language, the
sources in equal shares as far as possible. The first 15,000 lines of a file (some are distractors of phrase_bench) and
sentences of test sets are left out. So are pairs with fewer than 4 or more than 60 words on a side. So are pairs whose
ratio of lengths in characters differs from the usual one by a factor above 2.2.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import TypeVar

from common import parallel

from phrasemate.text import words

LANGS = ("ar", "cs", "de", "es", "fi", "fr", "hu", "ja", "ko", "ro", "ru", "tr", "zh")
DISTRACTORS = ("cs", "de", "es", "fr")  # languages whose first lines may be distractors of phrase_bench
FIRST = 15_000  # number of these lines
WORDS = (4, 60)  # least and most words of a side
RATIO = 2.2  # largest factor between a pair's ratio of lengths and the usual ratio
T = TypeVar("T")


def tested(data: Path) -> set[str]:
    """Return the sentences of the test sets, in the form of `key`."""
    keys: set[str] = set()
    for path in (data / "sentence_bench").rglob("*"):
        if path.is_file():
            keys.update(map(key, path.read_text(encoding="utf-8").splitlines()))
    for path in (data / "phrase_bench").glob("*.jsonl"):
        for line in path.read_text(encoding="utf-8").splitlines():
            keys.update(key(json.loads(line)[side]) for side in ("source", "target"))
    return keys


def key(text: str) -> str:
    """Return a sentence without case, white space and punctuation."""
    return "".join(char for char in text.casefold() if char.isalnum())


def pairs(data: Path, lang: str, unwanted: set[str]) -> dict[str, list[tuple[str, str]]]:
    """Return the usable (other, English) pairs of each source; no sentence is repeated."""
    rows = list(parallel(data, lang))[FIRST if lang in DISTRACTORS else 0 :]
    usual = median(len(other) / max(len(english), 1) for english, other, _ in rows)
    by_source: dict[str, list[tuple[str, str]]] = defaultdict(list)
    unique: set[str] = set()
    for english, other, source in rows:
        keys = key(english), key(other)
        ratio = len(other) / max(len(english), 1) / usual
        if not all(keys) or not 1 / RATIO <= ratio <= RATIO or not unique.isdisjoint(keys) or keys[0] == keys[1]:
            continue
        if not unwanted.isdisjoint(keys) or not all(WORDS[0] <= len(words(s)) <= WORDS[1] for s in (english, other)):
            continue
        unique.update(keys)
        by_source[source].append((other, english))
    return by_source


def shares(sizes: dict[str, int], most: int) -> dict[str, int]:
    """Return the number of rows to take of each source: all of small ones, equal numbers of the others."""
    counts: dict[str, int] = {}
    for place, (name, size) in enumerate(sorted(sizes.items(), key=lambda item: item[1])):
        counts[name] = min(size, (most - sum(counts.values())) // (len(sizes) - place))
    return counts


def sampled(by_source: Mapping[str, list[T]], most: int, seed: int) -> list[T]:
    """Draw at most ``most`` rows, the sources in equal shares as far as possible."""
    draw = random.Random(seed)
    sizes = shares({name: len(rows) for name, rows in by_source.items()}, most)
    return [row for name, size in sizes.items() for row in draw.sample(by_source[name], size)]


def chosen(by_source: dict[str, list[tuple[str, str]]], most: int, seed: int) -> Iterator[tuple[str, str]]:
    """Draw at most ``most`` pairs of a language and yield them; neighbours in a source stay in order."""
    draw = random.Random(seed)
    for name, count in shares({name: len(rows) for name, rows in by_source.items()}, most).items():
        rows = by_source[name]
        yield from (rows[i] for i in sorted(draw.sample(range(len(rows)), count)))
