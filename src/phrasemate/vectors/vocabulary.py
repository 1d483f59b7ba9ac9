"""Words of a text, counted with a bound on memory, and a random sample of sentences for each of them.

Every sentence draws a number; a word keeps the sentences with the smallest numbers among those that contain it. That is
a uniform sample without replacement for each word. All words look at the same numbers, so they share sentences
(coordinated bottom-k samples, Cohen and Kaplan 2007), and far fewer have to be encoded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import InputError
from phrasemate.text import words
from phrasemate.text.normalize import composed, visible
from phrasemate.types import Document, Progress
from phrasemate.utils.arrays import Integers

HELD = 4_000_000  # different words that are held at once (about 0.5 GB); beyond that the rarest go
EVERY = 10_000  # sentences between two calls of progress


class Token(NamedTuple):
    """A word as it is counted, and where it stands in its text."""

    word: str
    start: int
    end: int


class Vocabulary(NamedTuple):
    """The most frequent words of a text with their counts, most frequent first (equal ones by their letters).

    ``sentences`` of the text, ``total`` words in it, and ``digest``, which is that of the text.
    """

    words: tuple[str, ...]
    counts: tuple[int, ...]
    sentences: int
    total: int
    digest: str


class Sentences:
    """The sentences of documents, which can be read several times: ``Sentences(read("corpus/"))``.

    >>> texts = Sentences([Document.from_texts("story", ["It rained.", "It snowed."])])
    >>> list(texts) == list(texts) == ["It rained.", "It snowed."]
    True
    """

    def __init__(self, documents: Iterable[Document]) -> None:
        self._documents = documents

    def __iter__(self) -> Iterator[str]:
        return (sentence.text for document in self._documents for sentence in document.sentences())


def tokens(text: str) -> list[Token]:
    """The words of a text by ICU, lower-cased and composed (NFC); offsets are characters of the text as it is."""
    return [Token(composed(visible(text[start:end]).lower()), start, end) for start, end in words(text)]


def count_words(texts: Iterable[str], most: int, least: int = 1, progress: Progress = lambda *_: None) -> Vocabulary:
    """The ``most`` most frequent words that occur at least ``least`` times.

    With more than 4 million different words the rarest are dropped on the way (lossy counting, Manku and Motwani
    2002). Raises InputError for texts that can be read only once, and for texts without a word that often.
    """
    if iter(texts) is texts:
        raise InputError("the texts can be read only once; give a list, or Sentences(read(...))")
    if most < 1 or least < 1:
        raise InputError(f"{most} words of at least {least} occurrences; expected numbers from 1")
    counts: Counter[str] = Counter()
    sentences = total = drop_count = 0
    state = sha256()
    for sentences, text in enumerate(texts, 1):
        tokens_of_text = [word for word, _, _ in tokens(text)]
        counts.update(tokens_of_text)
        total += len(tokens_of_text)
        state.update(text.encode("utf-8", "surrogatepass") + b"\n")
        while len(counts) > HELD:
            drop_count += 1
            counts = Counter({word: count for word, count in counts.items() if count > drop_count})
        if sentences % EVERY == 0:
            progress("counting words", sentences, 0)
    best = sorted(((-count, word) for word, count in counts.items() if count >= least))[:most]
    if not best:
        raise InputError(f"{sentences:,} sentences, but no word occurs {least:,} times in them; give more text")
    return Vocabulary(
        tuple(word for _, word in best), tuple(-count for count, _ in best), sentences, total, state.hexdigest()
    )


CHUNK = 1_000_000  # occurrences between two merges


class Contexts(NamedTuple):
    """Occurrences by sentence, then by place: row of the ``word``, number of the ``sentence`` (from 0), ``start`` and
    ``end`` in it; (n,) int64 each.
    """

    word: Integers
    sentence: Integers
    start: Integers
    end: Integers


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
    sample = np.empty((0, 4), np.int64), np.empty(0)
    rows: list[tuple[int, int, int, int]] = []
    numbers: list[float] = []
    for sentence, text in enumerate(texts):
        number, rows_of_text = float(draw.random()), set()
        for word, start, end in tokens(text):
            row = index.get(word)
            if row is not None and row not in rows_of_text:
                rows_of_text.add(row)
                rows.append((row, sentence, start, end))
                numbers.append(number)
        if len(rows) > CHUNK:
            sample, rows, numbers = _smallest(sample, rows, numbers, most), [], []
        if sentence % EVERY == EVERY - 1:
            progress("choosing contexts", sentence + 1, total)
    occurrences, _ = _smallest(sample, rows, numbers, most)
    sentences = occurrences[_rank(occurrences) < (most if least is None else least), 1]
    occurrences = occurrences[np.isin(occurrences[:, 1], sentences)]
    return Contexts(*occurrences[np.lexsort((occurrences[:, 2], occurrences[:, 1]))].T)


def _smallest(
    sample: tuple[Integers, NDArray[np.float64]], rows: list[tuple[int, int, int, int]], numbers: list[float], most: int
) -> tuple[Integers, NDArray[np.float64]]:
    """Keep of each word the ``most`` occurrences in sentences of the smallest numbers."""
    every = np.concatenate([sample[0], np.array(rows, np.int64).reshape(-1, 4)])
    numbers_drawn = np.concatenate([sample[1], numbers])
    order = np.lexsort((numbers_drawn, every[:, 0]))
    every, numbers_drawn = every[order], numbers_drawn[order]
    among = _rank(every) < most
    return every[among], numbers_drawn[among]


def _rank(sorted_rows: Integers) -> Integers:
    """Count the rows of the same word before each; the rows are in the order of their words."""
    words = sorted_rows[:, 0]
    return np.arange(len(words)) - np.searchsorted(words, words)
