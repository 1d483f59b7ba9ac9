"""Bilingual lexicons: read and cut them (a pair of words a line, as MUSE has them), and test vectors by induction.

Induction asks how often the nearest word of the other language is a translation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import InputError, ReadError
from phrasemate.text.text_file import numbered_lines
from phrasemate.utils.arrays import Rows
from phrasemate.utils.knn import nearest
from phrasemate.utils.margin import csls_penalties
from phrasemate.vectors.word_vectors import WordVectors

Lexicon = Sequence[tuple[str, str]]
"""Pairs of a source word and a target word; a source word with several translations comes several times."""


def read_lexicon(path: str | Path, columns: tuple[int, int] = (1, 2)) -> list[tuple[str, str]]:
    """Read the pairs of a file in order, separated by tabs, or by spaces in a line without tabs; gzip by name.

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
        raise ReadError(str(path), 0, "no pair of words in it", "give a lexicon with one pair per line")
    return pairs


def entries(lexicon: Lexicon, first: int = 1, last: int | None = None) -> list[tuple[str, str]]:
    """The pairs of the source words number ``first`` to ``last`` (from 1, both included), counted as they first occur.

    So one lexicon gives words to learn from and others to test with: no source word is in both.
    """
    order: dict[str, int] = {}
    for source, _ in lexicon:
        order.setdefault(source, len(order) + 1)
    selection = [pair for pair in lexicon if first <= order[pair[0]] and (last is None or order[pair[0]] <= last)]
    if not selection:
        raise InputError(
            f"entries {first} to {last or 'the last'} of a lexicon of {len(order):,} words: there are none"
        )
    return selection


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
    pairs = [(source.index[a], target.index[b]) for a, b in lexicon if a in source.index and b in target.index]
    if not pairs:
        raise _foreign(lexicon)
    rows = np.array(pairs, np.int64)
    return rows[:, 0], rows[:, 1]


def _foreign(lexicon: Lexicon) -> InputError:
    """The error of a lexicon of other words."""
    return InputError(
        f"none of the {len(lexicon):,} pairs of the lexicon has both its words among the vectors; "
        "check its languages, its columns and its case"
    )


NEIGHBOURS = 10  # k of CSLS (Conneau et al. 2018, section 2.3)


@dataclass(frozen=True, slots=True)
class Induction:
    """Result of an induction. ``words`` were asked; ``missing`` counts words without a vector, or whose translations
    all lack one. ``nearest`` and ``csls`` (words,) bool: whether the first answer was right, by nearest neighbour and
    by CSLS, in the order of the lexicon.

    >>> german = WordVectors(["hund", "haus"], np.eye(2, dtype=np.float32), "de")
    >>> english = WordVectors(["dog", "house"], np.eye(2, dtype=np.float32), "en")
    >>> induce(german, english, [("hund", "dog"), ("haus", "house")], k=1).as_dict()["acc@1 csls"]
    1.0
    """

    words: tuple[str, ...]
    missing: int
    nearest: NDArray[np.bool_]
    csls: NDArray[np.bool_]

    def as_dict(self) -> dict[str, float]:
        """Counts and accuracies at 1: the share of right words among those asked."""
        return {
            "words": len(self.words),
            "missing": self.missing,
            "acc@1 nearest": float(self.nearest.mean()),
            "acc@1 csls": float(self.csls.mean()),
        }


def induce(source: WordVectors, target: WordVectors, lexicon: Lexicon, k: int = NEIGHBOURS) -> Induction:
    """Find the nearest target word of each source word of a lexicon, by cosine and by CSLS.

    Any of its translations counts as right. CSLS takes the hubs from all words of both sides.

    Args:
        source: Vectors of the source language.
        target: Vectors of the target language, of the same length and space.
        lexicon: Pairs of a source word and a translation.
        k: Neighbours of CSLS.

    Raises InputError if the vectors differ in length, no pair of the lexicon has both, or ``k`` is below 1.
    """
    gold: dict[str, set[int]] = {}
    for word, translation in lexicon:
        gold.setdefault(word, set())
        if word in source.index and translation in target.index:
            gold[word].add(target.index[translation])
    words = tuple(word for word, right in gold.items() if right)
    if not words:
        raise _foreign(lexicon)
    x, z = source.normalised().matrix, target.normalised().matrix
    queries = x[source.rows(words)]
    answers = (nearest(queries, z)[0], nearest(queries, z, penalties=csls_penalties(x, z, k))[0])
    right = [np.array([int(row[0]) in gold[word] for word, row in zip(words, rows, strict=True)]) for rows in answers]
    return Induction(words, len(gold) - len(words), *right)
