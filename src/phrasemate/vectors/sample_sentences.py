"""Which sentences show a word: a bounded random sample for each of many words, in one pass.

Every sentence draws a number; a word keeps the sentences with the smallest numbers among those that it stands in. For
each word that is a uniform sample without replacement, and as all words look at the same numbers, they share sentences
(coordinated bottom-k samples, Cohen and Kaplan 2007): far fewer have to be encoded than with a sample drawn for each
word by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasemate.vectors.vocabulary import EVERY, Progress, tokens

CHUNK = 1_000_000  # occurrences between two merges

Ints = NDArray[np.int64]


class Contexts(NamedTuple):
    """Occurrences by sentence, then by place: row of the ``word``, number of the ``sentence`` (from 0), ``start`` and
    ``end`` in it; (n,) int64 each.
    """

    word: Ints
    sentence: Ints
    start: Ints
    end: Ints


def sample_contexts(
    texts: Iterable[str],
    index: Mapping[str, int],
    most: int,
    least: int | None = None,
    seed: int = 0,
    total: int = 0,
    progress: Progress = lambda *_: None,
) -> Contexts:
    """Up to ``most`` sentences for each word of ``index`` (its row), with the word's first place in each.

    ``least`` (default: ``most``): a sentence has to be among that many first ones of some word; beyond its ``least``, a
    word gets only sentences that are there for another. Rare words are what costs, and so they cost less.
    """
    draw = np.random.default_rng(seed)
    kept = np.empty((0, 4), np.int64), np.empty(0)
    rows: list[tuple[int, int, int, int]] = []
    numbers: list[float] = []
    for sentence, text in enumerate(texts):
        number, seen = float(draw.random()), set()
        for word, start, end in tokens(text):
            row = index.get(word)
            if row is not None and row not in seen:
                seen.add(row)
                rows.append((row, sentence, start, end))
                numbers.append(number)
        if len(rows) > CHUNK:
            kept, rows, numbers = _smallest(kept, rows, numbers, most), [], []
        if sentence % EVERY == EVERY - 1:
            progress("choosing contexts", sentence + 1, total)
    found, _ = _smallest(kept, rows, numbers, most)
    taken = found[_rank(found) < (most if least is None else least), 1]
    found = found[np.isin(found[:, 1], taken)]
    return Contexts(*found[np.lexsort((found[:, 2], found[:, 1]))].T)


def _smallest(
    kept: tuple[Ints, NDArray[np.float64]], rows: list[tuple[int, int, int, int]], numbers: list[float], most: int
) -> tuple[Ints, NDArray[np.float64]]:
    """Of each word the ``most`` occurrences in sentences of the smallest numbers."""
    every = np.concatenate([kept[0], np.array(rows, np.int64).reshape(-1, 4)])
    drawn = np.concatenate([kept[1], numbers])
    order = np.lexsort((drawn, every[:, 0]))
    every, drawn = every[order], drawn[order]
    among = _rank(every) < most
    return every[among], drawn[among]


def _rank(sorted_rows: Ints) -> Ints:
    """How many rows of the same word stand before each; the rows are in the order of their words."""
    words = sorted_rows[:, 0]
    return np.arange(len(words)) - np.searchsorted(words, words)
