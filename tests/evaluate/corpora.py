"""A made-up folder of corpora, tiny, in the formats of the real one."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

PAIRS = [
    ("Das alte Haus am Fluss ist rot .", "The old house on the river is red .", "0-0 1-1 2-2 3-3 4-5 5-6 6-7 7-8"),
    ("Er liest ein Buch auf der Bank .", "He read a book on the bank .", "0-0 1-1 2-2 3-3 4-4 5-5 6-6 7-7"),
    ("Sie sitzt auf der alten Bank .", "She sat on the old bank .", "0-0 1-1 2-2 3-3 4-4 5-5 6-6"),
    ("Das Fenster war zu .", "The window was closed .", "0-0 1-1 2-2 3-3 4-4"),
]
PHRASES = [(0, "alte Haus", "old house"), (1, "Buch", "book"), (1, "Bank", "bank"), (2, "alten Bank", "old bank")]
ENGLISH = [
    "A red house stands near the old river.",
    "He opened the window because it was hot.",
    "She read a closed book",
]
POLYSEMY = {
    "lang": "de",
    "phrase": "Bank",
    "senses": [
        {
            "english": "bench",
            "contexts": ["Er liest auf der [[Bank]] am Fluss.", "Die [[Bank]] ist rot."],
            "mates": ["She sat on the old [[bench]] and read."],
        },
        {
            "english": "bank",
            "contexts": ["Die [[Bank]] war zu."],
            "mates": ["The [[bank]] was closed.", "A [[bank]] is near."],
        },
    ],
}


def make(folder: Path, langs: tuple[str, ...] = ("de", "cs")) -> Path:
    """The folder, with the same sets for each language."""
    for name in ("phrase_bench", "gold_alignments", "parallel"):
        (folder / name).mkdir(parents=True)
    for lang in langs:
        lines(folder / "phrase_bench" / f"{lang}-en.jsonl", [phrase(*item) for item in PHRASES])
        rows = []
        for source, target, links in PAIRS:
            pairs = [[int(number) for number in link.split("-")] for link in links.split()]
            rows.append({"source": source.split(), "target": target.split(), "links": pairs})
        lines(folder / "gold_alignments" / f"{lang}-en.jsonl", rows)
    for number, lang in enumerate(("cs", "de", "es", "fr", "ja")):
        more = [f"The old bank on the river was closed {word} times." for word in ("one", "two", "three")[:number]]
        with gzip.open(folder / "parallel" / f"en-{lang}.tsv.gz", "wt", encoding="utf-8") as file:
            file.writelines(f"{text}\tsomething {lang}\ttest\n" for text in [*ENGLISH, "too short", "x" * 200, *more])
    lines(folder / "polysemy.jsonl", [POLYSEMY])
    return folder


def phrase(number: int, source: str, target: str) -> dict[str, Any]:
    """A line of phrase_bench."""
    left, right, _ = PAIRS[number]
    start, other = left.index(source), right.index(target)
    places = {"start": start, "end": start + len(source), "target_start": other, "target_end": other + len(target)}
    return {"source": left, "target": right, **places}


def lines(path: Path, rows: list[dict[str, Any]]) -> None:
    """JSON lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
