"""Bilingual lexicons: pairs of words, one a line, in the manner of MUSE."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import InputError, ReadError
from phrasemate.text.text_file import numbered_lines
from phrasemate.vectors.word_vectors import WordVectors

Lexicon = Sequence[tuple[str, str]]
"""Pairs of a source word and a target word; a source word with several translations comes several times."""

Rows = NDArray[np.int64]


def read_lexicon(path: str | Path, columns: tuple[int, int] = (1, 2)) -> list[tuple[str, str]]:
    """The pairs of a file, in its order: cells between tabs, or between spaces where a line has no tab; gzip by name.

    ``columns``: of the source and the target word, from 1. Raises ReadError naming file and line.
    """
    if min(columns) < 1 or columns[0] == columns[1]:
        raise InputError(f"columns {columns[0]},{columns[1]}; expected two different numbers from 1")
    path, pairs = Path(path), []
    for number, text in numbered_lines(path):
        if not text.strip():
            continue
        cells = [cell.strip() for cell in (text.split("\t") if "\t" in text else text.split())]
        if max(columns) > len(cells) or not all(cells[column - 1] for column in columns):
            reason = f"{len(cells)} word{'s' * (len(cells) != 1)}, or one that is blank"
            raise ReadError(str(path), number, reason, f"expected words in columns {columns[0]} and {columns[1]}")
        pairs.append((cells[columns[0] - 1], cells[columns[1] - 1]))
    if not pairs:
        raise ReadError(str(path), 0, "no pair of words in it", "give a lexicon with one pair a line")
    return pairs


def entries(lexicon: Lexicon, first: int = 1, last: int | None = None) -> list[tuple[str, str]]:
    """The pairs of the source words number ``first`` to ``last`` (from 1, both included), counted as they first occur.

    So one lexicon gives words to learn from and others to test with: no source word is in both.
    """
    order: dict[str, int] = {}
    for source, _ in lexicon:
        order.setdefault(source, len(order) + 1)
    found = [pair for pair in lexicon if first <= order[pair[0]] and (last is None or order[pair[0]] <= last)]
    if not found:
        raise InputError(
            f"entries {first} to {last or 'the last'} of a lexicon of {len(order):,} words: there are none"
        )
    return found


def parse_range(text: str) -> tuple[int, int | None]:
    """``"1:5000"``, ``"5001:"``, ``":5000"`` -> first and last number, both included; raises InputError."""
    match = re.fullmatch(r"(\d{0,18}):(\d{0,18})", text.strip(), re.ASCII)
    first, last = (int(part) if part else None for part in match.groups()) if match else (0, 0)
    if first == 0 or last == 0 or (first and last and first > last):
        raise InputError(f"entries {text[:40]!r}; expected two numbers from 1, such as 1:5000 or 5001:")
    return first or 1, last


def pair_rows(source: WordVectors, target: WordVectors, lexicon: Lexicon) -> tuple[Rows, Rows]:
    """Rows of both words of each pair that has both vectors, (pairs,) each.

    Raises InputError if there is no such pair.
    """
    found = [(source.index[a], target.index[b]) for a, b in lexicon if a in source.index and b in target.index]
    if not found:
        raise InputError(
            f"none of the {len(lexicon):,} pairs of the lexicon has both its words among the vectors; "
            "check its languages, its columns and its case"
        )
    rows = np.array(found, np.int64)
    return rows[:, 0], rows[:, 1]
