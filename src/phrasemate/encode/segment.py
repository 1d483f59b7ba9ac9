"""Which spans of a sentence are phrases: the protocol, and the n-gram segmenter (`learned` is the other one).

The n-gram segmenter takes every run of 1 to n words that neither begins nor ends in one of the most frequent words,
has a letter, and is not cut by punctuation. The frequent words are counted in the text that is indexed; for a text
about which nothing is known they come from the scores of the encoder's own tokenizer, which is a language model of
single words in all of its languages.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol, Self, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from phrasemate.encode.runtime import States
from phrasemate.errors import InputError
from phrasemate.text import folded, words
from phrasemate.text.normalize import INVISIBLE
from phrasemate.types import Span

MAX_WORDS = 5  # longer phrases are rare in use, and the index grows with every word
RATE = 0.004  # a word that is one in 250 is a function word: some 50 words of English
ENOUGH = 1_000  # words below which a rate says nothing
COMMON_WORD = -9.6  # log-probability above which a whole-word piece is a function word ("eine" -9.4, "time" -10.0)
COMMON_BARE = -9.0  # the same for pieces inside unspaced scripts ("の" -7.8, "在" -8.1, "一" -8.6)
UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]+")
JOINT = re.compile(
    rf"[\s{INVISIBLE}]*+[-‐‑–'’/&+·]?[\s{INVISIBLE}]*+"
)  # what may stand between two words of a phrase; nothing is tried twice
LETTER = re.compile(r"[^\W\d_]")


class Spans(NamedTuple):
    """The phrases of some texts, one text after another, each text's by start, then end.

    Text i has the spans ``bounds[i]:bounds[i + 1]``, int64; ``starts``, ``ends`` (spans,) int32 are character offsets
    into their text, ``scores`` (spans,) float32 the segmenter's belief, 0 to 1.
    """

    bounds: NDArray[np.int64]
    starts: NDArray[np.int32]
    ends: NDArray[np.int32]
    scores: NDArray[np.float32]

    @property
    def texts(self) -> NDArray[np.int64]:
        """(spans,) the text that each span is of."""
        return np.repeat(np.arange(len(self.bounds) - 1), np.diff(self.bounds))

    def lists(self) -> list[list[Span]]:
        """The spans of each text."""
        spans = list(map(Span, self.starts.tolist(), self.ends.tolist(), self.scores.tolist()))
        cuts = self.bounds.tolist()
        return [spans[low:high] for low, high in pairwise(cuts)]

    @classmethod
    def of(cls, lists: Sequence[Sequence[Span]]) -> Self:
        """The inverse of `lists`."""
        table = np.array([span for spans in lists for span in spans], np.float64).reshape(-1, 3)
        bounds = np.cumsum([0, *map(len, lists)], dtype=np.int64)
        starts, ends = table[:, :2].astype(np.int32).T
        return cls(bounds, starts, ends, table[:, 2].astype(np.float32))


class SegmentOptions(TypedDict, total=False):
    """What may be asked of a segmenter; what is left out is as the segmenter was made.

    ``threshold``: the least score that counts, 0 (every span) to 1. ``max_words``: of a phrase, None for no limit.
    ``overlapping``: False for phrases that share no word, those of the best total (see `LearnedSegmenter`).
    """

    threshold: float
    max_words: int | None
    overlapping: bool


class Segmenter(Protocol):
    """Finds the phrases of texts."""

    @property
    def contextual(self) -> bool:
        """Whether it reads token states, which cost a pass of the encoder, or the text alone."""
        ...

    def find(self, texts: Sequence[str], states: States | None = None, frequent: Collection[str] = ()) -> Spans:
        """The phrases of the texts of a block; a contextual segmenter takes their ``states``.

        ``frequent``: case-folded words at which no phrase may begin or end, for a segmenter that knows no better.
        """
        ...

    def using(self, **options: Unpack[SegmentOptions]) -> Self:
        """The same segmenter with other options. Raises InputError for one that makes no sense."""
        ...


def check_options(threshold: float = 1, max_words: int | None = None, overlapping: bool = True) -> None:
    """Raises InputError for options that make no sense, TypeError for what is none (they may come from a file)."""
    if not 0 <= threshold <= 1:
        raise InputError(f"threshold: {threshold}; expected 0 to 1")
    if max_words is not None and (not isinstance(max_words, int) or not 1 <= max_words < 1 << 31):
        raise InputError(f"max_words: {str(max_words)[:20]}; expected 1 or more")
    if not isinstance(overlapping, bool):
        raise InputError(f"overlapping: {overlapping}; expected true or false")


class FrequentWords:
    """Counts words of a running text, to tell the most frequent ones."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def update(self, text: str) -> None:
        """Count the words of a text, case-folded."""
        self.counts.update(folded(text[start:end]) for start, end in words(text))

    def words(self, rate: float = RATE, most: int = 100) -> list[str]:
        """The words that make up at least ``rate`` of the text, most frequent first, ``most`` at most.

        None below 1,000 words of text: a rate says nothing there.
        """
        total = self.counts.total()
        if total < ENOUGH:
            return []
        return [word for word, count in self.counts.most_common(most) if count >= rate * total]


class NgramSegmenter:
    """Every run of 1 to ``max_words`` words (None: any length), less what cannot be a phrase; the score is always 1.

    ``common``: case-folded words that are frequent in any language (see `common_pieces`). Raises InputError for
    ``max_words`` below 1.
    """

    contextual = False

    def __init__(self, common: Collection[str] = (), max_words: int | None = MAX_WORDS) -> None:
        check_options(max_words=max_words)
        self.common, self.max_words = frozenset(common), max_words

    def find(self, texts: Sequence[str], states: States | None = None, frequent: Collection[str] = ()) -> Spans:
        """As in `Segmenter`; the states are not looked at."""
        return Spans.of([self(text, frequent) for text in texts])

    def using(self, **options: Unpack[SegmentOptions]) -> NgramSegmenter:
        """As in `Segmenter`. Every score is 1, so each threshold lets all pass, and none can be preferred."""
        check_options(**options)
        if not options.get("overlapping", True):
            raise InputError("overlapping: False; the n-gram segmenter has no scores to choose by, a learned one has")
        return NgramSegmenter(self.common, options.get("max_words", self.max_words))

    def __call__(self, text: str, frequent: Collection[str] = ()) -> list[Span]:
        """The phrases of one text; ``frequent`` as in `Segmenter.find`."""
        found = words(text)
        content = [self._is_content(text[start:end], frequent) for start, end in found]
        letters = [LETTER.search(text, start, end) is not None for start, end in found]
        spans = []
        for i, (start, _) in enumerate(found):
            if not content[i]:
                continue
            lettered = False
            for j in range(i, min(i + (self.max_words or len(found)), len(found))):
                if j > i and not JOINT.fullmatch(text, found[j - 1][1], found[j][0]):
                    break
                lettered = lettered or letters[j]
                if content[j] and lettered:
                    spans.append(Span(start, found[j][1]))
        return spans

    def _is_content(self, word: str, frequent: Collection[str]) -> bool:
        wording = folded(word)
        return wording not in frequent and wording not in self.common


def common_pieces(vocabulary: Mapping[str, float] | Sequence[tuple[str, float]]) -> set[str]:
    """Case-folded words that a Unigram tokenizer finds frequent, whatever the language.

    ``vocabulary``: pieces and their log-probabilities; a piece that begins a word begins with "▁".
    """
    pairs = vocabulary.items() if isinstance(vocabulary, Mapping) else vocabulary
    found = set()
    for piece, score in pairs:
        word = piece.removeprefix("▁")
        if score >= 0 or not LETTER.search(word):  # special tokens, punctuation, numbers
            continue
        whole = word != piece and score > COMMON_WORD
        if whole or (score > COMMON_BARE and UNSPACED.fullmatch(word)):
            found.add(word.casefold())
    return found
