"""The data set on disk: phrase pairs with example sentences on both sides, as JSON lines.

A folder holds ``<pair>/train.jsonl``, ``dev.jsonl`` and ``test.jsonl``; ``<pair>`` is two language codes, such as
``de-en``. One line is one phrase pair; ``start`` and ``end`` are characters of ``text``::

    {"source": "Speisekarte", "target": "menu",
     "source_examples": [{"text": "Die Speisekarte ist kurz.", "start": 4, "end": 15}], "target_examples": [...]}
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phrasemate.errors import InputError, ReadError
from phrasemate.text.text_file import numbered_lines
from phrasemate.types import Phrase
from phrasemate.utils.storage import NewFile

SPLITS = ("train", "dev", "test")


@dataclass(frozen=True, slots=True)
class ExamplePair:
    """Two phrases that mean the same, each with sentences that it occurs in."""

    source: str
    target: str
    source_examples: tuple[Phrase, ...] = ()
    target_examples: tuple[Phrase, ...] = ()


def read(folder: str | Path, pair: str, split: str) -> list[ExamplePair]:
    """The pairs of one split, in the order of the file.

    Raises InputError for a split or pair that is not there, ReadError naming file and line for what is not such a line.
    """
    if split not in SPLITS:
        raise InputError(f"split {split!r}; expected one of {', '.join(SPLITS)}")
    path = Path(folder) / pair / f"{split}.jsonl"
    if not path.is_file():
        names = ", ".join(language_pairs(folder)) or "none"
        raise InputError(f"{path}: no such file; the pairs in {folder} are: {names}")
    return [_parsed(path, number, line) for number, line in numbered_lines(path)]


def language_pairs(folder: str | Path) -> list[str]:
    """The language pairs that a folder holds, sorted."""
    paths = Path(folder).glob(f"*-*/{SPLITS[0]}.jsonl")
    return sorted(path.parent.name for path in paths)


def write(path: str | Path, pairs: Iterable[ExamplePair]) -> int:
    """Write one split, whole or not at all; returns the number of pairs."""
    count = 0
    with NewFile(path) as file:
        for count, pair in enumerate(pairs, 1):  # noqa: B007 (counted here)
            file.write(json.dumps(_plain(pair), ensure_ascii=False) + "\n")
    return count


def _plain(pair: ExamplePair) -> dict[str, Any]:
    return {
        "source": pair.source,
        "target": pair.target,
        "source_examples": _examples(pair.source_examples),
        "target_examples": _examples(pair.target_examples),
    }


def _examples(phrases: Sequence[Phrase]) -> list[dict[str, Any]]:
    return [{"text": phrase.context, "start": phrase.start, "end": phrase.end} for phrase in phrases]


def _parsed(path: Path, number: int, line: str) -> ExamplePair:
    try:
        row = json.loads(line)
        sides = [
            tuple(Phrase(str(one["text"]), int(one["start"]), int(one["end"])) for one in row[f"{side}_examples"])
            for side in ("source", "target")
        ]
        return ExamplePair(str(row["source"]), str(row["target"]), *sides)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError, InputError) as error:
        reason = f"not a phrase pair with examples ({type(error).__name__}: {error})"
        raise ReadError(str(path), number, reason, "make the data set again with phrasemate dataset xpr") from error
