"""Count the words of a text in bounded memory, and draw a random sample of sentences for each word.

Each sentence gets a random number. The sample of a word consists of the sentences with the smallest numbers among those
that contain the word, which is a uniform sample without replacement. All words use the same numbers, so their samples
overlap, and far fewer sentences must be encoded (coordinated bottom-k samples, Cohen and Kaplan 2007).
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
from phrasemate.types import Document, Progress, iterate_documents
from phrasemate.utils.arrays import Integers

HELD = 4_000_000  # maximum number of different words in memory (about 0.5 GB); the rarest words are dropped
EVERY = 10_000  # sentences between two calls of ``progress``


class Token(NamedTuple):
    """Word in the form that is counted, and its span of characters in the text."""

    word: str
    start: int
    end: int


class Vocabulary(NamedTuple):
    """Most frequent words of a text and their counts, most frequent first; words of equal count are in lexical order.

    ``sentences`` and ``total`` are the numbers of sentences and of words in the text; ``digest`` is its SHA-256.
    """

    words: tuple[str, ...]
    counts: tuple[int, ...]
    sentences: int
    total: int
    digest: str


class Sentences:
    """Sentences of documents, as an iterable that can be read several times: ``Sentences(read("corpus/"))``.

    >>> texts = Sentences([Document.from_texts("story", ["It rained.", "It snowed."])])
    >>> list(texts) == list(texts) == ["It rained.", "It snowed."]
    True
    """

    def __init__(self, documents: Iterable[Document]) -> None:
        iterate_documents(documents)  # what is not a list of them is refused now
        self._documents = documents

    def __iter__(self) -> Iterator[str]:
        return (sentence.text for document in iterate_documents(self._documents) for sentence in document.sentences())


def tokens(text: str) -> list[Token]:
    """Find the words of a text by ICU, in lower case and composed (NFC), with their offsets in the original text.

    >>> tokens("It rained.")
    [Token(word='it', start=0, end=2), Token(word='rained', start=3, end=9)]
    """
    return [Token(composed(visible(text[start:end]).lower()), start, end) for start, end in words(text)]


def count_words(texts: Iterable[str], most: int, least: int = 1, progress: Progress = lambda *_: None) -> Vocabulary:
    """Count the words of a text, and return the most frequent ones.

    If more than 4 million different words are in memory, the rarest are dropped (lossy counting, Manku and Motwani
    2002).

    Args:
        texts: Sentences, as an iterable that can be read several times.
        most: Maximum number of words.
        least: Minimum number of occurrences of a word.
        progress: Called with the name of the stage, the number of sentences that are counted, and 0.

    Raises InputError for texts that can be read only once, and for texts in which no word occurs ``least`` times.
    """
    if iter(texts) is texts:
        raise InputError("the texts can be read only once; give a list, or Sentences(read(...))")
    if most < 1 or least < 1:
        raise InputError(f"{most} words of at least {least} occurrences; expected numbers of 1 or more")
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


CHUNK = 1_000_000  # occurrences that are collected before they are merged into the sample


class Contexts(NamedTuple):
    """Occurrences of words in sentences, in the order of the text: four columns (n,) int64.

    ``word`` is the row of the word in its index, ``sentence`` the number of the sentence, from 0, and ``start`` and
    ``end`` are offsets of characters in the sentence.
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
    """Draw a sample of sentences for each word, with the first occurrence of the word in each of its sentences.

    Args:
        texts: Sentences.
        index: Row of each word.
        most: Maximum number of sentences per word.
        least: Number of sentences that are chosen for a word itself; None for ``most``. Beyond it, a word only gets
            sentences that were chosen for another word. This keeps the total low, which rare words would dominate.
        seed: Seed of the random numbers.
        total: Number of sentences, for ``progress``; 0 if unknown.
        progress: Called with the name of the stage, the number of sentences that are done, and ``total``.
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
    """Merge occurrences into a sample: keep, for each word, the ``most`` occurrences with the smallest numbers.

    A sample is the occurrences, (n, 4) with the columns of `Contexts`, and the random numbers of their sentences (n,).
    """
    occurrences = np.concatenate([sample[0], np.array(rows, np.int64).reshape(-1, 4)])
    sentence_numbers = np.concatenate([sample[1], numbers])
    order = np.lexsort((sentence_numbers, occurrences[:, 0]))
    occurrences, sentence_numbers = occurrences[order], sentence_numbers[order]
    mask = _rank(occurrences) < most
    return occurrences[mask], sentence_numbers[mask]


def _rank(sorted_rows: Integers) -> Integers:
    """Return, for each row, the number of rows of the same word before it; ``sorted_rows`` (n, 4) is sorted by word."""
    words = sorted_rows[:, 0]
    return np.arange(len(words)) - np.searchsorted(words, words)
