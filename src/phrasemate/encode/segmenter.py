"""Segmenters, which say what spans of a sentence are phrases: the protocol, the n-gram one and the learned one.

The n-gram segmenter takes every run of 1 to n words that has a letter and is not cut by punctuation. A run neither
begins nor ends in one of the most frequent words. The frequent words are counted in the indexed text. For a text of
which nothing is known they come from the scores of the encoder's tokenizer, which is a language model of single words
in all of its languages.

The learned segmenter scores spans by their token states (CCPR, Li et al. 2024, section 5.2, eq. 5): a linear layer on
the states of a span's two ends, [H_i ; H_j], says whether the span is a phrase. As the layer is linear, a token has one
scalar as a start and one as an end, and the logits of all spans are one broadcast sum. Deviations: each length in words
may have a bias of its own. The ends are those of words, not of sub-words, and length is counted in words (their code: 6
sub-words). The two ends' states are the first sub-word's and the last sub-word's.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar, NamedTuple, Protocol, Self, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from phrasemate.encode.pooling import token_rows
from phrasemate.encode.runtime import States
from phrasemate.errors import InputError
from phrasemate.text import folded, words
from phrasemate.text.normalize import INVISIBLE, folded_parts
from phrasemate.types import Span
from phrasemate.utils.arrays import Floats, Rows

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
        return [spans[low:high] for low, high in pairwise(self.bounds.tolist())]

    @classmethod
    def of(cls, lists: Sequence[Sequence[Span]]) -> Self:
        """The inverse of `lists`."""
        table = np.array([span for spans in lists for span in spans], np.float64).reshape(-1, 3)
        bounds = np.cumsum([0, *map(len, lists)], dtype=np.int64)
        starts, ends = table[:, :2].astype(np.int32).T
        return cls(bounds, starts, ends, table[:, 2].astype(np.float32))


class SegmentOptions(TypedDict, total=False):
    """Options of a segmenter; what is left out is as the segmenter was made.

    ``threshold``: the least score that counts, 0 (every span) to 1. ``max_words``: of a phrase, None for no limit.
    ``overlapping``: False for phrases that share no word, those of the best total (see `LearnedSegmenter`).
    """

    threshold: float
    max_words: int | None
    overlapping: bool


class Segmenter(Protocol):
    """Protocol of a segmenter, which finds the phrases of texts.

    >>> segmenter: Segmenter = NgramSegmenter(max_words=1)
    >>> segmenter.contextual, len(segmenter.find(["red house"]).starts)
    (False, 2)
    """

    @property
    def contextual(self) -> bool:
        """Whether it reads token states, which cost a pass of the encoder, or the text alone."""

    def find(self, texts: Sequence[str], states: States | None = None, frequent: Collection[str] = ()) -> Spans:
        """The phrases of the texts of a block.

        Args:
            texts: Texts of the block.
            states: Token states of the texts, for a contextual segmenter.
            frequent: Case-folded words at which no phrase may begin or end, for the n-gram segmenter.
        """

    def using(self, **options: Unpack[SegmentOptions]) -> Self:
        """Segmenter with other options. Raises InputError for invalid ones."""


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
        self.counts.update(folded_parts(text, words(text)))

    def words(self, rate: float = RATE, most: int = 100) -> list[str]:
        """The words that make up at least ``rate`` of the text, most frequent first, ``most`` at most.

        None below 1,000 words of text: a rate says nothing there.
        """
        total = self.counts.total()
        if total < ENOUGH:
            return []
        return [word for word, count in self.counts.most_common(most) if count >= rate * total]


class NgramSegmenter:
    """Segmenter that takes all sequences of 1 to ``max_words`` words (None: any length) as phrases, with score 1.

    ``common``: case-folded words that are frequent in any language (see `common_pieces`). Raises InputError for
    ``max_words`` below 1.

    >>> spans = NgramSegmenter(common=["the"], max_words=2).find(["the red house"]).lists()[0]
    >>> ["the red house"[span.start : span.end] for span in spans]
    ['red', 'red house', 'house']
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
        word_spans = words(text)
        content = [self._is_content(text[start:end], frequent) for start, end in word_spans]
        letters = [LETTER.search(text, start, end) is not None for start, end in word_spans]
        spans = []
        for i, (start, _) in enumerate(word_spans):
            if not content[i]:
                continue
            has_letter = False
            for j in range(i, min(i + (self.max_words or len(word_spans)), len(word_spans))):
                if j > i and not JOINT.fullmatch(text, word_spans[j - 1][1], word_spans[j][0]):
                    break
                has_letter = has_letter or letters[j]
                if content[j] and has_letter:
                    spans.append(Span(start, word_spans[j][1]))
        return spans

    def _is_content(self, word: str, frequent: Collection[str]) -> bool:
        wording = folded(word)
        return wording not in frequent and wording not in self.common


def common_pieces(vocabulary: Mapping[str, float] | Sequence[tuple[str, float]]) -> set[str]:
    """Case-folded words that a Unigram tokenizer finds frequent, whatever the language.

    ``vocabulary``: pieces and their log-probabilities; a piece that begins a word begins with "▁".
    """
    pairs = vocabulary.items() if isinstance(vocabulary, Mapping) else vocabulary
    common = set()
    for piece, score in pairs:
        word = piece.removeprefix("▁")
        if score >= 0 or not LETTER.search(word):  # special tokens, punctuation, numbers
            continue
        whole = word != piece and score > COMMON_WORD
        if whole or (score > COMMON_BARE and UNSPACED.fullmatch(word)):
            common.add(word.casefold())
    return common


THRESHOLD = 0.7  # CCPR, section 6.1, for what is indexed (0.9 for queries)
MAX_WORDS_LEARNED = 6  # CCPR's code, there in sub-words
CELLS = 1 << 21  # logits held at once: 8 MB
UNIT = 1 << 30  # scores become multiples of 1 / UNIT where totals are compared, so that equal totals are equal


class _Words(NamedTuple):
    """The words of a block, one text after another, each (words,); text i has the words bounds[i]:bounds[i + 1]."""

    bounds: Rows
    starts: NDArray[np.int32]
    ends: NDArray[np.int32]
    lettered: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class LearnedSegmenter:
    """Segmenter that finds all spans with a phrase probability of at least ``threshold``, which is their score.

    ``start``, ``end`` (width,) and ``bias`` (lengths,): the span of the words i to j has the logit H_i . start + H_j .
    end + bias_w, where w is its number of words (longer ones have the last bias). H_i is the state of the first token
    of word i, and H_j that of the last token of word j. Spans of more than ``max_words`` words (None: no limit) and
    spans without a letter are left out.

    Not ``overlapping``: of these, spans that share no word, with the best total of words x (score - threshold). A word
    that is covered rightly earns 1 - threshold, one covered wrongly costs threshold; the total is the expected gain. So
    a long span displaces the short ones in it when it is as probable as they are, weighted by their words, and not
    because it is long. Of equal totals: more words covered, then fewer spans.

    Frequent words are ignored, because this segmenter has learned where phrases begin and end. Raises InputError for a
    threshold outside 0 to 1 and for ``max_words`` below 1.

    >>> from phrasemate import load_model
    >>> sentence = "The central bank warned of rising prices."
    >>> spans = load_model().segment([sentence], threshold=0.5, overlapping=False)[0]
    >>> [sentence[span.start : span.end] for span in spans]
    ['central bank', 'warned', 'rising', 'prices']
    """

    start: Floats
    end: Floats
    bias: Floats
    threshold: float = THRESHOLD
    max_words: int | None = MAX_WORDS_LEARNED
    overlapping: bool = True
    contextual: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_options(self.threshold, self.max_words, self.overlapping)

    def using(self, **options: Unpack[SegmentOptions]) -> LearnedSegmenter:
        """As in `Segmenter`."""
        check_options(**options)
        return replace(self, **options)

    def find(self, texts: Sequence[str], states: States | None = None, frequent: Collection[str] = ()) -> Spans:
        """As in `Segmenter`; ``states`` must be given, ``frequent`` is ignored."""
        assert states is not None
        text_words = _words(texts)
        first, last, scores = self._scored(text_words, states)  # (spans,) numbers of words
        if not self.overlapping:
            selection = disjoint(first, last, scores, self.threshold)
            first, last, scores = first[selection], last[selection], scores[selection]
        bounds = np.searchsorted(first, text_words.bounds)  # spans are by first word: where each text's begin
        return Spans(bounds, text_words.starts[first], text_words.ends[last], scores)

    def _scored(self, text_words: _Words, states: States) -> tuple[Rows, Rows, Floats]:
        """First word, last word and probability of each span, by first word, then last."""
        counts = np.diff(text_words.bounds)
        texts = np.repeat(np.arange(len(counts)), counts)  # (words,)
        first, last = token_rows(states, texts, text_words.starts, text_words.ends)
        as_start: Floats = (states.values @ self.start)[first]  # (words,)
        as_end: Floats = (states.values @ self.end)[last] + self.bias[0]  # (words,)
        reach = text_words.bounds[texts + 1] - np.arange(len(texts))  # words from here to the end of the text
        if self.max_words is not None:
            reach = np.minimum(reach, self.max_words)
        before = np.concatenate([[0], np.cumsum(text_words.lettered)])  # (words + 1,) words with a letter before each
        pieces = [self._passing(as_start, as_end, reach, before, rows) for rows in _parts(reach)]
        starts, ends, scores = (np.concatenate(column) for column in zip(*pieces, strict=True))
        return starts, ends, scores

    def _passing(
        self, as_start: Floats, as_end: Floats, reach: Rows, before: Rows, rows: slice
    ) -> tuple[Rows, Rows, Floats]:
        """First word, last word and probability of the spans that begin in ``rows`` and have the threshold or more."""
        begin = np.arange(len(as_start))[rows, None]  # (rows, 1)
        length = np.arange(reach[rows].max(initial=0))  # (lengths,) less one
        finish = np.minimum(begin + length, len(as_start) - 1)  # (rows, lengths)
        logits = as_start[begin] + as_end[finish]  # (rows, lengths): the broadcast sum
        if len(self.bias) > 1:
            logits += (self.bias - self.bias[0])[np.minimum(length, len(self.bias) - 1)]
        scores = sigmoid(logits)
        passing = (scores >= np.float32(self.threshold)) & (length < reach[begin])
        row, column = np.nonzero(passing & (before[finish + 1] > before[begin]))
        return row + rows.start, finish[row, column], scores[row, column]


def _words(texts: Sequence[str]) -> _Words:
    word_spans = [words(text) for text in texts]
    bounds = np.cumsum([0, *map(len, word_spans)], dtype=np.int64)
    offsets = np.array([pair for pairs in word_spans for pair in pairs], np.int32).reshape(-1, 2)
    letter_flags = [
        LETTER.search(text, *pair) is not None for text, pairs in zip(texts, word_spans, strict=True) for pair in pairs
    ]
    return _Words(bounds, offsets[:, 0], offsets[:, 1], np.array(letter_flags, np.bool_))


def _parts(reach: Rows) -> Iterator[slice]:
    """The words in stretches whose tables of logits, as wide as the farthest reach, stay within `CELLS`."""
    low = 0
    while low < len(reach) or not low:
        reach_block = reach[low : low + CELLS]
        cells = np.arange(1, len(reach_block) + 1) * np.maximum.accumulate(reach_block)
        high = low + max(1, int(np.searchsorted(cells, CELLS, side="right")))
        yield slice(low, high)
        low = high


def sigmoid(logits: Floats) -> Floats:
    """1 / (1 + exp(-x)) in float32."""
    with np.errstate(over="ignore", under="ignore"):  # exp(100) is inf, and 1 / inf the 0 that is meant
        probabilities: Floats = np.float32(1) / (np.float32(1) + np.exp(-logits))
    return probabilities


def disjoint(first: Rows, last: Rows, scores: Floats, threshold: float) -> Rows:
    """Weighted interval scheduling: which spans of the words ``first`` to ``last`` to take so that none share a word.

    All arrays (spans,), ``last`` inclusive; the total that is best is that of `LearnedSegmenter`. Exact: best total of
    the words before each word, from left to right. Returns ascending numbers of spans.
    """
    length = (last - first + 1).tolist()
    margins = np.rint(scores.astype(np.float64) * UNIT).astype(np.int64) - round(threshold * UNIT)
    worth = [(n * m << 64) + (n << 32) - 1 for n, m in zip(length, np.maximum(margins, 0).tolist(), strict=True)]
    froms, tos = first.tolist(), last.tolist()
    best, choice = [0], [-1]  # of the first 0, 1, 2 ... words: the best total, and the span at their end or -1
    for span in np.lexsort((first, last)).tolist():  # a step needs the one before it, so it is a plain loop
        size = tos[span] + 1
        while len(best) <= size:
            best.append(best[-1])
            choice.append(-1)
        value = best[froms[span]] + worth[span]
        if value > best[size]:
            best[size], choice[size] = value, span
    selection, size = [], len(best) - 1
    while size > 0:
        span = choice[size]
        selection += [span] if span >= 0 else []
        size = froms[span] if span >= 0 else size - 1
    return np.array(selection[::-1], np.int64)
