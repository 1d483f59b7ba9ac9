"""Read bilingual lexicons, and evaluate mapped word vectors by bilingual lexicon induction.

A lexicon file has a pair of words on each line, as the lexicons of MUSE do. Induction measures how often the nearest
word of the other language is a translation.
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
from phrasemate.types import check_columns
from phrasemate.utils.arrays import Rows
from phrasemate.utils.knn import nearest
from phrasemate.utils.margin import csls_penalties
from phrasemate.vectors.word_vectors import WordVectors

Lexicon = Sequence[tuple[str, str]]
"""Pairs of a source word and a target word, one pair for each translation."""


def read_lexicon(path: str | Path, columns: tuple[int, int] = (1, 2)) -> list[tuple[str, str]]:
    """Read the pairs of a lexicon file in order. Columns are separated by tabs, or by spaces in a line without tabs.

    Args:
        path: File, decompressed if its name ends in .gz.
        columns: Numbers of the columns of the source and target word, from 1.

    Raises ReadError, with file and line, for a line without a word in these columns, and for a file without pairs.
    """
    check_columns(columns)
    path, pairs = Path(path), []
    for number, text in numbered_lines(path):
        if not text.strip():
            continue
        cells = [cell.strip() for cell in (text.split("\t") if "\t" in text else text.split())]
        if max(columns) > len(cells) or not all(cells[column - 1] for column in columns):
            reason = f"{len(cells)} column{'s' * (len(cells) != 1)}, or a blank one"
            raise ReadError(str(path), number, reason, f"expected words in columns {columns[0]} and {columns[1]}")
        pairs.append((cells[columns[0] - 1], cells[columns[1] - 1]))
    if not pairs:
        raise ReadError(str(path), 0, "no pair of words in it", "give a lexicon with one pair per line")
    return pairs


def entries(lexicon: Lexicon, first: int = 1, last: int | None = None) -> list[tuple[str, str]]:
    """Return the pairs of source words ``first`` to ``last`` (from 1, both included), numbered by first occurrence.

    This splits a lexicon into parts for training and for evaluation that share no source word. Raises InputError if
    there is no such pair.

    >>> entries([("hund", "dog"), ("hund", "hound"), ("haus", "house")], first=1, last=1)
    [('hund', 'dog'), ('hund', 'hound')]
    """
    order: dict[str, int] = {}
    for source, _ in lexicon:
        order.setdefault(source, len(order) + 1)
    selection = [pair for pair in lexicon if first <= order[pair[0]] and (last is None or order[pair[0]] <= last)]
    if not selection:
        raise InputError(f"entries {first} to {last or 'the last'} of a lexicon of {len(order):,} words: none exist")
    return selection


def parse_range(text: str) -> tuple[int, int | None]:
    """Parse a range of entries: ``1:5000`` to (1, 5000), ``:5000`` to (1, 5000), ``5001:`` to (5001, None).

    Raises InputError for any other text.
    """
    match = re.fullmatch(r"(\d{0,18}):(\d{0,18})", text.strip(), re.ASCII)
    first, last = (int(part) if part else None for part in match.groups()) if match else (0, 0)
    if first == 0 or last == 0 or (first and last and first > last):
        raise InputError(f"entries {text[:40]!r}; expected two numbers from 1, such as 1:5000 or 5001:")
    return first or 1, last


def pair_rows(source: WordVectors, target: WordVectors, lexicon: Lexicon) -> tuple[Rows, Rows]:
    """Return the rows of the source and target words, (pairs,) each, of all pairs with two vectors.

    Raises InputError if there is no such pair.
    """
    pairs = [(source.index[a], target.index[b]) for a, b in lexicon if a in source.index and b in target.index]
    if not pairs:
        raise _no_pair(lexicon)
    rows = np.array(pairs, np.int64)
    return rows[:, 0], rows[:, 1]


def _no_pair(lexicon: Lexicon) -> InputError:
    """Return the error for a lexicon without any pair in the vectors."""
    return InputError(
        f"none of the {len(lexicon):,} pairs of the lexicon has a vector for both words; "
        "check the languages, the columns, and upper and lower case"
    )


NEIGHBOURS = 10  # k of CSLS (Conneau et al. 2018, section 2.3)


@dataclass(frozen=True, slots=True)
class Induction:
    """Result of bilingual lexicon induction.

    Args:
        words: Source words that were evaluated, in the order of the lexicon.
        missing: Number of other source words: they, or all their translations, have no vector.
        nearest: Whether the nearest target word of each source word is a translation, (words,).
        csls: Whether the best target word by CSLS is a translation, (words,).

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
        """Return the numbers of words, and accuracy at 1 by nearest neighbour and by CSLS: shares of ``words``."""
        return {
            "words": len(self.words),
            "missing": self.missing,
            "acc@1 nearest": float(self.nearest.mean()),
            "acc@1 csls": float(self.csls.mean()),
        }


def induce(source: WordVectors, target: WordVectors, lexicon: Lexicon, k: int = NEIGHBOURS) -> Induction:
    """Evaluate word vectors: find the nearest target word of each source word of a lexicon, by cosine and by CSLS.

    An answer is correct if it is any of the word's translations. CSLS uses the neighbourhoods of all words of both
    sides, not only those of the lexicon.

    Args:
        source: Vectors of the source language.
        target: Vectors of the target language, in the same space.
        lexicon: Pairs of a source word and a translation.
        k: Number of neighbours of CSLS.

    Raises InputError if the vectors differ in dimension, no pair has vectors for both words, or ``k`` is below 1.
    """
    gold: dict[str, set[int]] = {}
    for word, translation in lexicon:
        gold.setdefault(word, set())
        if word in source.index and translation in target.index:
            gold[word].add(target.index[translation])
    words = tuple(word for word, translations in gold.items() if translations)
    if not words:
        raise _no_pair(lexicon)
    x, z = source.normalised().matrix, target.normalised().matrix
    queries = x[source.rows(words)]
    answers = (nearest(queries, z)[0], nearest(queries, z, penalties=csls_penalties(x, z, k))[0])
    correct = [np.array([int(row[0]) in gold[word] for word, row in zip(words, rows, strict=True)]) for rows in answers]
    return Induction(words, len(gold) - len(words), *correct)
