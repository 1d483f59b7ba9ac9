"""Word links (words, Pharaoh format), and the consistent phrase pairs that they imply.

Phrase pairs: Koehn et al. 2003, "Statistical Phrase-Based Translation", section 3.

A run of source words and a run of target words are a phrase pair if at least one link is inside and no link has only
one end inside. Filters as in CCPR (Li et al. 2024, appendix A.1): none begins or ends with a frequent word, and none is
without a letter.
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
    """The links of one line in the Pharaoh format, ``0-0 1-2``: source word, target word, counted from 0.

    ``file`` and ``number`` are named in the ReadError that anything else raises.
    """
    links = set()
    for item in line.split():
        match = _LINK.fullmatch(item)
        if match is None:
            raise ReadError(file, number, f"{item[:40]!r} is not a word link", "expected links such as 0-0 1-2")
        links.add((int(match[1]), int(match[2])))
    return sorted(links)


def format_links(links: Iterable[tuple[int, int]]) -> str:
    """Format links as one line in the Pharaoh format, without the line end."""
    return " ".join(f"{source}-{target}" for source, target in links)


def read_links(path: str | Path) -> Iterator[Links]:
    """Read the links of each line of a file (gzip if its name ends in .gz); raises ReadError with file and line."""
    path = Path(path)
    for number, line in numbered_lines(path):
        yield parse_links(line, str(path), number)


_TOKEN = re.compile(r"[^ \t]+")  # a no-break space is part of a token, for all programs that write links


class TokenizedSentence(NamedTuple):
    """A sentence and the character spans of its words, in order; links count these words from 0.

    >>> TokenizedSentence.of("Der Hund bellt.").words()
    ['Der', 'Hund', 'bellt']
    """

    text: str
    spans: list[tuple[int, int]]

    @classmethod
    def of(cls, text: str, tokenised: bool = False) -> TokenizedSentence:
        """Words as spaces and tabs part them in tokenised text, else as `phrasemate.text.words` finds them."""
        return cls(text, [match.span() for match in _TOKEN.finditer(text)] if tokenised else words(text))

    @classmethod
    def of_tokens(cls, tokens: Sequence[str]) -> TokenizedSentence:
        """A sentence given as its tokens, joined with spaces."""
        starts = list(accumulate((len(token) + 1 for token in tokens), initial=0))[:-1]
        return cls(" ".join(tokens), [(start, start + len(token)) for start, token in zip(starts, tokens, strict=True)])

    def words(self) -> list[str]:
        """The words themselves."""
        return [self.text[start:end] for start, end in self.spans]


class Aligner(Protocol):
    """Sentence pairs -> word links; ``chunk`` is how many pairs it likes to get at once.

    ``learn`` is given pairs that are aligned already when a stopped run resumes: ``chunk`` of them at most.
    """

    chunk: int

    @property
    def signature(self) -> dict[str, str]:
        """Name what decides about the links: method and its settings, model."""

    def align(self, pairs: Sequence[tuple[TokenizedSentence, TokenizedSentence]]) -> list[Links]: ...

    def learn(self, aligned: Iterable[tuple[TokenizedSentence, TokenizedSentence, Links]]) -> None: ...


MAX_WORDS = 6  # CCPR's code has 6 sub-words; words leave room for what one language splits and another joins
RATE = 0.003  # CCPR, appendix A.1: 30,000 occurrences in 10 million sentence pairs
LEAST = 10  # occurrences; in a small text a rate alone would bar every word that comes twice
TABLE = 500_000  # words that are counted at once, some 60 MB

_LETTER = re.compile(r"[^\W\d_]")


class Box(NamedTuple):
    """A phrase pair as words, ends exclusive: source words ``start:end``, target words ``other_start:other_end``."""

    start: int
    end: int
    other_start: int
    other_end: int


def consistent_boxes(
    links: Links, sources: int, targets: int, max_words: int = MAX_WORDS, loose: bool = False
) -> list[Box]:
    """List the consistent phrase pairs of a sentence pair of ``sources`` and ``targets`` words, sorted.

    At most ``max_words`` words on each side. Words without a link may stand inside, but at a border only if ``loose``.
    The time is linear in the words (and in the boxes). Raises InputError for a link to a word that is not there.
    """
    if max_words < 1:
        raise InputError(f"max_words: {max_words}; expected 1 or more")
    if not links:
        return []
    pairs = np.array(links, np.int64)  # (links, 2)
    if pairs.min() < 0 or (pairs.max(axis=0) >= (sources, targets)).any():
        raise InputError(
            f"a link to word {pairs[:, 0].max()}-{pairs[:, 1].max()} in a pair of {sources} and {targets} words; "
            "give the links of these very sentences, split into words in the same way"
        )
    max_words = min(max_words, max(sources, targets))  # no limit may be asked for
    low, high = _reach(pairs[:, 0], pairs[:, 1], sources, max_words)  # target words that a source run links to
    back_low, back_high = _reach(pairs[:, 1], pairs[:, 0], targets, max_words)
    widths, starts = np.nonzero((high >= 0) & (high - low < max_words))  # runs that link to something short enough
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
    """(widest, length) twice: the first and last word linked to words i..i+w, at [w, i]; last -1 where there is none.

    A run that would leave the sentence is as one without links.
    """
    limit = np.iinfo(np.int64).max
    low, high = np.full((widest, length), limit), np.full((widest, length), -1)
    np.minimum.at(low[0], words, others)
    np.maximum.at(high[0], words, others)
    for width in range(1, min(widest, length)):
        low[width, :-width] = np.minimum(low[width - 1, :-width], low[0, width:])
        high[width, :-width] = np.maximum(high[width - 1, :-width], high[0, width:])
    return low, high


def _widened(box: Box, linked: list[bool], other: list[bool], max_words: int) -> Iterator[Box]:
    """A box with all choices of words without a link at its borders."""
    for start, end in _runs(box.start, box.end, linked, max_words):
        for other_start, other_end in _runs(box.other_start, box.other_end, other, max_words):
            yield Box(start, end, other_start, other_end)


def _runs(start: int, end: int, linked: list[bool], max_words: int) -> Iterator[tuple[int, int]]:
    first = start
    while True:
        last = end
        while last - first <= max_words:
            yield first, last
            if last == len(linked) or linked[last]:
                break
            last += 1
        if first == 0 or linked[first - 1] or end - first >= max_words:
            return
        first -= 1


class BorderWords:
    """Counts the words of one side of a parallel text, to tell those that are too frequent to begin or end a phrase.

    A word is too frequent with more than ``rate`` occurrences per sentence, and more than ``least`` in all. Memory does
    not grow with the text, unless the rate is so low that most words have to be counted. From time to time words far
    below the rate are forgotten (lossy counting, Manku and Motwani 2002, section 4.2). So a count may be too low by a
    tenth of the rate.
    """

    def __init__(self, rate: float = RATE, least: int = LEAST) -> None:
        if not rate > 0 or least < 0:
            raise InputError(f"rate {rate}, least {least}; expected a rate above 0 and least of 0 or more")
        self.rate, self.least, self.sentences = rate, least, 0
        self.counts: Counter[str] = Counter()
        self._most = TABLE
        self._missed: dict[str, float] = {}  # how often, at most, a word came before it was counted (their delta)
        self._floor = 0.0  # the same for words that are new since the last time

    def update(self, sentence: TokenizedSentence) -> None:
        """Count the words of a sentence, case-folded."""
        self.sentences += 1
        self.counts.update(word.casefold() for word in sentence.words())
        if len(self.counts) > self._most:
            floor = max(1, self.rate * self.sentences / 10)
            estimates = ((word, self._missed.get(word, self._floor)) for word in self.counts)
            self._missed = {word: before for word, before in estimates if self.counts[word] + before > floor}
            self.counts = Counter({word: self.counts[word] for word in self._missed})
            self._floor = floor
            self._most = max(TABLE, 2 * len(self.counts))  # or each sentence would look at all that must stay

    def frequent(self) -> frozenset[str]:
        """The words that may not begin or end a phrase, case-folded."""
        most = max(self.rate * self.sentences, self.least)
        return frozenset(word for word, count in self.counts.items() if count > most)


class PhraseFinder:
    """Extractor of filtered phrase pairs from a sentence pair and its links.

    ``frequent``: for each side the case-folded words that may not begin or end a phrase (`BorderWords`).

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
        """Phrase pairs as characters: start and end in the source text, start and end in the target text.

        Args:
            source: Source sentence with its words.
            target: Target sentence with its words.
            links: Word links of the two.
        """
        may_border = _allowed(source, self.frequent[0]), _allowed(target, self.frequent[1])
        boxes = consistent_boxes(links, len(source.spans), len(target.spans), self.max_words, self.loose)
        return [
            (source.spans[s][0], source.spans[e - 1][1], target.spans[s2][0], target.spans[e2 - 1][1])
            for s, e, s2, e2 in boxes
            if may_border[0](s, e) and may_border[1](s2, e2)
        ]

    def __call__(self, source: TokenizedSentence, target: TokenizedSentence, links: Links) -> Iterator[PhrasePair]:
        """The phrase pairs, each with both sentences and its positions in them."""
        for start, end, other_start, other_end in self.spans(source, target, links):
            yield PhrasePair(Phrase(source.text, start, end), Phrase(target.text, other_start, other_end))


def _allowed(sentence: TokenizedSentence, frequent: Collection[str]) -> Callable[[int, int], bool]:
    """Whether words start:end may be a phrase."""
    words = sentence.words()
    may = [word.casefold() not in frequent for word in words]
    letters = [_LETTER.search(word) is not None for word in words]
    return lambda start, end: may[start] and may[end - 1] and any(letters[start:end])
