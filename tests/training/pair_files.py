"""Small files of phrase pairs, and of a configuration."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

PAIRS = {"haus": "house", "fluss": "river", "bank": "bank", "buch": "book", "fenster": "window", "rot": "red"}


def write_pairs(path: Path, count: int, seed: int) -> Path:
    """Sentence pairs of four words, each with the phrase pairs of single words and of neighbours."""
    draw, lines = random.Random(seed), []
    for _ in range(count):
        words = draw.sample(sorted(PAIRS), 4)
        source, target = " ".join(words), " ".join(PAIRS[word] for word in words)
        places = [_places(source), _places(target)]
        runs = [(i, j) for i in range(4) for j in (i, i + 1) if j < 4]
        pairs = [[places[0][i][0], places[0][j][1], places[1][i][0], places[1][j][1]] for i, j in runs]
        lines.append(json.dumps({"source": source, "target": target, "pairs": pairs}))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _places(text: str) -> list[tuple[int, int]]:
    result, at = [], 0
    for word in text.split():
        result.append((at, at + len(word)))
        at += len(word) + 1
    return result


def write_toml(path: Path, tables: dict[str, Any]) -> Path:
    rows = [
        f"[{name}]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in table.items()) for name, table in tables.items()
    ]
    path.write_text("\n".join(rows), encoding="utf-8")
    return path
