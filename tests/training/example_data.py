"""A small data set of phrase pairs with example sentences, and a configuration of XPR for it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from phrasemate.dataset.wikixpr import ExamplePair, write
from phrasemate.types import Phrase

WORDS = {
    "haus": "house",
    "fluss": "river",
    "bank": "bank",
    "buch": "book",
    "fenster": "window",
    "rot": "red",
    "alte": "old",
    "stuhl": "chair",
    "brot": "bread",
    "katze": "cat",
    "hund": "dog",
    "baum": "tree",
}


def example(phrase: str, others: list[str], draw: random.Random) -> Phrase:
    """The phrase between some other words."""
    before, after = ([*draw.choices(others, k=draw.randrange(4))] for _ in range(2))
    start = sum(len(word) + 1 for word in before)
    return Phrase(" ".join([*before, phrase, *after]), start, start + len(phrase))


def write_split(path: Path, seed: int, count: int = 12, examples: int = 5) -> Path:
    """So many pairs of one or two words; each side has up to so many examples, the first pair none."""
    draw, pairs = random.Random(seed), []
    for number in range(count):
        words = draw.sample(sorted(WORDS), 1 + number % 2)
        sides = [" ".join(words), " ".join(WORDS[word] for word in words)]
        others = [sorted(WORDS), sorted(WORDS.values())]
        counts = [draw.randint(1, examples) if number else 0 for _ in sides]
        results = [
            tuple(example(phrase, other, draw) for _ in range(some))
            for phrase, other, some in zip(sides, others, counts, strict=True)
        ]
        pairs.append(ExamplePair(*sides, *results))
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, pairs)
    return path


def write_data(folder: Path) -> Path:
    """Two language pairs with all three splits."""
    for number, pair in enumerate(("xx-en", "yy-en")):
        for place, split in enumerate(("train", "dev", "test")):
            write_split(folder / pair / f"{split}.jsonl", 10 * number + place, 12 if split == "train" else 6)
    return folder


def settings(base: Path, **changes: dict[str, Any]) -> dict[str, Any]:
    """The tables of a configuration, each with its changes."""
    tables: dict[str, Any] = {
        "data": {"batch": 4, "examples": 2, "max_tokens": 16, "dev_examples": 3},
        "model": {"base": str(base), "dropout": 0.0},
        "loss": {"momentum": 0.9, "temperature": 0.1},
        "optimizer": {"encoder": 1e-3, "heads": 1e-2, "chunk": 48},
        "loop": {
            "steps": 6,
            "warmup": 2,
            "schedule": "linear",
            "weight_decay": 0.0,
            "log": 1,
            "evaluate": 4,
            "checkpoint": 3,
            "precision": "fp32",
        },
    }
    return {name: {**table, **changes.get(name, {})} for name, table in tables.items()}
