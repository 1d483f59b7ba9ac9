"""The words of a text as word vectors know them: found in any script, lower-cased, counted with a bound on memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from typing import NamedTuple

from phrasemate.errors import InputError
from phrasemate.text import words
from phrasemate.text.normalize import composed, visible
from phrasemate.types import Document

HELD = 4_000_000  # different words that are held at once (about 0.5 GB); beyond that the rarest go
EVERY = 10_000  # sentences between two calls of progress

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how many are done, and of how many (0: not known)."""


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
    """The sentences of documents as texts that can be gone through again and again: ``Sentences(read("corpus/"))``."""

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
        raise InputError("texts that can be read only once; give a list, or Sentences(read(...))")
    if most < 1 or least < 1:
        raise InputError(f"{most} words of at least {least} occurrences; expected numbers from 1")
    counts: Counter[str] = Counter()
    sentences = total = dropped = 0
    state = sha256()
    for sentences, text in enumerate(texts, 1):
        found = [word for word, _, _ in tokens(text)]
        counts.update(found)
        total += len(found)
        state.update(text.encode("utf-8", "surrogatepass") + b"\n")
        while len(counts) > HELD:
            dropped += 1
            counts = Counter({word: count for word, count in counts.items() if count > dropped})
        if sentences % EVERY == 0:
            progress("counting words", sentences, 0)
    best = sorted(((-count, word) for word, count in counts.items() if count >= least))[:most]
    if not best:
        raise InputError(f"{sentences:,} sentences, but no word occurs {least:,} times in them; give more text")
    return Vocabulary(
        tuple(word for _, word in best), tuple(-count for count, _ in best), sentences, total, state.hexdigest()
    )
