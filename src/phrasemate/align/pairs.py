"""Read and write word links in the Pharaoh format, and extract the consistent phrase pairs of linked sentences.

A phrase pair is consistent if at least one link joins its two sides and no link joins a side to a word outside (Koehn
et al. 2003, "Statistical Phrase-Based Translation", section 3). As in CCPR (Li et al. 2024, appendix A.1), phrases that
begin or end with a frequent word, or have no letter, are left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from phrasemate.align.symmetrise import Links
from phrasemate.errors import InputError, ReadError
from phrasemate.text import words
from phrasemate.text.text_file import numbered_lines
from phrasemate.types import Phrase, PhrasePair
from phrasemate.utils.arrays import Integers

_LINK = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")


def parse_links(line: str, file: str = "links", number: int = 0) -> Links:
    """Parse a line of links in the Pharaoh format, such as ``0-0 1-2``: source word and target word, from 0.

    Raises ReadError, with ``file`` and line ``number``, for a line in another format.
    """
    links = set()
    for item in line.split():
        match = _LINK.fullmatch(item)
        if match is None:
            raise ReadError(file, number, f"{item[:40]!r} is not a word link", "expected links such as 0-0 1-2")
        links.add((int(match[1]), int(match[2])))
    return sorted(links)


def format_links(links: Iterable[tuple[int, int]]) -> str:
    """Format links as a line in the Pharaoh format, without the line end."""
    return " ".join(f"{source}-{target}" for source, target in links)


def read_links(path: str | Path) -> Iterator[Links]:
    """Read the links of each line of a file in the Pharaoh format (gzip if its name ends in .gz).

    Raises ReadError, with file and line, for a line in another format.
    """
    path = Path(path)
    for number, line in numbered_lines(path):
        yield parse_links(line, str(path), number)


_TOKEN = re.compile(r"[^ \t]+")  # a no-break space is part of a token, as in other programs that write links


class TokenizedSentence(NamedTuple):
    """Sentence and the character spans of its words, in order; word links count these words from 0.

    >>> TokenizedSentence.of("Der Hund bellt.").words()
    ['Der', 'Hund', 'bellt']
    """

    text: str
    spans: list[tuple[int, int]]

    @classmethod
    def of(cls, text: str, tokenised: bool = False) -> TokenizedSentence:
        """Find the words of a text: split ``tokenised`` text at spaces and tabs, else use `phrasemate.text.words`."""
        return cls(text, [match.span() for match in _TOKEN.finditer(text)] if tokenised else words(text))

    @classmethod
    def of_tokens(cls, tokens: Sequence[str]) -> TokenizedSentence:
        """Build a sentence from its tokens, joined with spaces."""
        starts = list(accumulate((len(token) + 1 for token in tokens), initial=0))[:-1]
        return cls(" ".join(tokens), [(start, start + len(token)) for start, token in zip(starts, tokens, strict=True)])

    def words(self) -> list[str]:
        """Return the words as strings."""
        return [self.text[start:end] for start, end in self.spans]


def check_pair(pair: tuple[TokenizedSentence, TokenizedSentence]) -> None:
    """Raise InputError for a pair of texts, or a single sentence, instead of a pair of tokenized sentences."""
    if not all(isinstance(side, TokenizedSentence) for side in pair):
        raise InputError(f"{repr(pair)[:40]}: expected pairs of sentences, each as TokenizedSentence.of(text)")


class Aligner(Protocol):
    """Word aligner, as `align_files` uses it; ``chunk`` is the number of sentence pairs for one call of ``align``."""

    chunk: int

    @property
    def signature(self) -> dict[str, str]:
        """Return everything that affects the links, by name: the method, its settings and the model."""

    def align(self, pairs: Sequence[tuple[TokenizedSentence, TokenizedSentence]]) -> list[Links]:
        """Return the links of each sentence pair."""

    def learn(self, aligned: Iterable[tuple[TokenizedSentence, TokenizedSentence, Links]]) -> None:
        """Learn from up to ``chunk`` pairs that an earlier run has aligned; called before a stopped run resumes."""


MAX_WORDS = 6  # the code of CCPR allows 6 sub-words; 6 words allow for compounds that one of the languages splits
RATE = 0.003  # occurrences per sentence; CCPR, appendix A.1: 30,000 in 10 million sentence pairs
LEAST = 10  # occurrences; without this minimum, every word that occurs twice would be frequent in a small text
TABLE = 500_000  # words that are counted at once, about 60 MB

_LETTER = re.compile(r"[^\W\d_]")


class Box(NamedTuple):
    """Phrase pair as positions of words: source words ``start:end`` and target words ``other_start:other_end``."""

    start: int
    end: int
    other_start: int
    other_end: int


def consistent_boxes(
    links: Links, sources: int, targets: int, max_words: int = MAX_WORDS, loose: bool = False
) -> list[Box]:
    """List the consistent phrase pairs of a linked sentence pair, sorted.

    The time is linear in the number of words and of phrase pairs.

    Args:
        links: Word links of the sentence pair.
        sources: Number of source words.
        targets: Number of target words.
        max_words: Maximum number of words on each side of a phrase pair.
        loose: Whether a phrase may begin or end with a word without a link. Inside a phrase, such words are allowed.

    Raises InputError for a link to a word that does not exist, and for ``max_words`` below 1.

    >>> [tuple(box) for box in consistent_boxes([(0, 0), (1, 1)], sources=2, targets=2)]
    [(0, 1, 0, 1), (0, 2, 0, 2), (1, 2, 1, 2)]
    """
    if max_words < 1:
        raise InputError(f"max_words: {max_words}; expected 1 or more")
    if not links:
        return []
    pairs = np.array(links, np.int64)  # (links, 2)
    if pairs.min() < 0 or (pairs.max(axis=0) >= (sources, targets)).any():
        raise InputError(
            f"a link to word {pairs[:, 0].max()}-{pairs[:, 1].max()} in a pair of {sources} and {targets} words; "
            "give links of the same sentences, with words split in the same way"
        )
    max_words = min(max_words, max(sources, targets))  # bounds the arrays if max_words is huge
    low, high = _reach(pairs[:, 0], pairs[:, 1], sources, max_words)  # linked target words of source sequences
    back_low, back_high = _reach(pairs[:, 1], pairs[:, 0], targets, max_words)
    widths, starts = np.nonzero((high >= 0) & (high - low < max_words))  # source sequences with short counterparts
    first, last = low[widths, starts], high[widths, starts]
    consistent = back_low[last - first, first] >= starts
    consistent &= back_high[last - first, first] <= starts + widths
    source_links = np.bincount(pairs[:, 0], minlength=sources) > 0
    consistent &= source_links[starts] & source_links[np.minimum(starts + widths, sources - 1)]
    table = np.stack([starts, starts + widths + 1, first, last + 1], axis=1)[consistent]
    boxes = [Box(*row) for row in table[np.lexsort(table.T[::-1])].tolist()]
    if not loose:
        return boxes
    target_links = np.bincount(pairs[:, 1], minlength=targets) > 0
    return sorted(
        {wider for box in boxes for wider in _widened(box, source_links.tolist(), target_links.tolist(), max_words)}
    )


def _reach(words: Integers, others: Integers, length: int, widest: int) -> tuple[Integers, Integers]:
    """Return the first and the last word of the other side that is linked to words i..i+w, at [w, i].

    Both arrays have the shape (widest, length). The last word is -1 if there is no link, and if i+w is beyond the
    sentence. ``words`` and ``others`` (links,) are the two ends of the links, ``length`` is the number of words.
    """
    limit = np.iinfo(np.int64).max
    low, high = np.full((widest, length), limit), np.full((widest, length), -1)
    np.minimum.at(low[0], words, others)
    np.maximum.at(high[0], words, others)
    for width in range(1, min(widest, length)):
        low[width, :-width] = np.minimum(low[width - 1, :-width], low[0, width:])
        high[width, :-width] = np.maximum(high[width - 1, :-width], high[0, width:])
    return low, high


def _widened(box: Box, source_links: list[bool], target_links: list[bool], max_words: int) -> Iterator[Box]:
    """Yield a box and all boxes that extend it by adjacent words without a link.

    ``source_links`` and ``target_links`` mark the words that have a link.
    """
    for start, end in _extensions(box.start, box.end, source_links, max_words):
        for other_start, other_end in _extensions(box.other_start, box.other_end, target_links, max_words):
            yield Box(start, end, other_start, other_end)


def _extensions(start: int, end: int, has_link: list[bool], max_words: int) -> Iterator[tuple[int, int]]:
    """Yield the sequence of words start:end and its extensions by words without a link, up to ``max_words`` words."""
    first = start
    while True:
        last = end
        while last - first <= max_words:
            yield first, last
            if last == len(has_link) or has_link[last]:
                break
            last += 1
        if first == 0 or has_link[first - 1] or end - first >= max_words:
            return
        first -= 1


class BorderWords:
    """Counter of the words of one side of a parallel text, which finds those too frequent to begin or end a phrase.

    A word is too frequent if it has more than ``rate`` occurrences per sentence and more than ``least`` in all.

    The memory is bounded, unless the rate is so low that most words must be counted. When the table is full, words far
    below the rate are dropped (lossy counting, Manku and Motwani 2002, section 4.2). A count may therefore be too low,
    by up to a tenth of the rate.

    >>> counter = BorderWords(rate=0.5, least=1)
    >>> for text in ("the dog", "the cat", "a dog"):
    ...     counter.update(TokenizedSentence.of(text))
    >>> sorted(counter.frequent())
    ['dog', 'the']
    """

    def __init__(self, rate: float = RATE, least: int = LEAST) -> None:
        if not rate > 0 or least < 0:
            raise InputError(f"rate {rate}, least {least}; expected a rate above 0 and least of 0 or more")
        self.rate, self.least, self.sentences = rate, least, 0
        self.counts: Counter[str] = Counter()
        self._capacity = TABLE
        self._missed: dict[str, float] = {}  # most occurrences of a word that were not counted (delta in the paper)
        self._floor = 0.0  # the same for words that were added since words were last dropped

    def update(self, sentence: TokenizedSentence) -> None:
        """Count the words of a sentence, case-folded."""
        self.sentences += 1
        self.counts.update(word.casefold() for word in sentence.words())
        if len(self.counts) > self._capacity:
            floor = max(1, self.rate * self.sentences / 10)
            estimates = ((word, self._missed.get(word, self._floor)) for word in self.counts)
            self._missed = {word: missed for word, missed in estimates if self.counts[word] + missed > floor}
            self.counts = Counter({word: self.counts[word] for word in self._missed})
            self._floor = floor
            self._capacity = max(TABLE, 2 * len(self.counts))  # so that not every sentence scans a full table

    def frequent(self) -> frozenset[str]:
        """Return the words that are too frequent to begin or end a phrase, case-folded."""
        limit = max(self.rate * self.sentences, self.least)
        return frozenset(word for word, count in self.counts.items() if count > limit)


class PhraseFinder:
    """Extractor of the phrase pairs of a sentence pair, by its word links.

    Args:
        frequent: Words of each side, case-folded, that may not begin or end a phrase (`BorderWords.frequent`).
        max_words: Maximum number of words on each side.
        loose: Whether a phrase may begin or end with a word that has no link.

    >>> german, english = TokenizedSentence.of("Der Hund bellt."), TokenizedSentence.of("The dog barks.")
    >>> pairs = PhraseFinder(max_words=1)(german, english, [(1, 1), (2, 2)])
    >>> [(pair.source.text, pair.target.text) for pair in pairs]
    [('Hund', 'dog'), ('bellt', 'barks')]
    """

    def __init__(
        self,
        frequent: tuple[Collection[str], Collection[str]] = ((), ()),
        max_words: int = MAX_WORDS,
        loose: bool = False,
    ) -> None:
        self.frequent, self.max_words, self.loose = frequent, max_words, loose

    def spans(
        self, source: TokenizedSentence, target: TokenizedSentence, links: Links
    ) -> list[tuple[int, int, int, int]]:
        """Return the phrase pairs as offsets of characters: start and end in the source, start and end in the target.

        Args:
            source: Source sentence with its words.
            target: Target sentence with its words.
            links: Word links of the two sentences.

        Raises InputError for a link to a word that does not exist.
        """
        source_filter, target_filter = _filter(source, self.frequent[0]), _filter(target, self.frequent[1])
        boxes = consistent_boxes(links, len(source.spans), len(target.spans), self.max_words, self.loose)
        return [
            (source.spans[s][0], source.spans[e - 1][1], target.spans[s2][0], target.spans[e2 - 1][1])
            for s, e, s2, e2 in boxes
            if source_filter(s, e) and target_filter(s2, e2)
        ]

    def __call__(self, source: TokenizedSentence, target: TokenizedSentence, links: Links) -> Iterator[PhrasePair]:
        """Yield the phrase pairs, each with both sentences and its positions in them."""
        for start, end, other_start, other_end in self.spans(source, target, links):
            yield PhrasePair(Phrase(source.text, start, end), Phrase(target.text, other_start, other_end))


def _filter(sentence: TokenizedSentence, frequent: Collection[str]) -> Callable[[int, int], bool]:
    """Return a function that tells whether words start:end may be a phrase: no frequent border word, and a letter."""
    words = sentence.words()
    may_border = [word.casefold() not in frequent for word in words]
    letters = [_LETTER.search(word) is not None for word in words]
    return lambda start, end: may_border[start] and may_border[end - 1] and any(letters[start:end])
