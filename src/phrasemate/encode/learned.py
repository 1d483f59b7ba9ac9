"""The learned segmenter: which spans of a sentence are phrases, told by its token states.

CCPR (Li et al. 2024), section 5.2, eq. 5: a linear layer on the states of a span's two ends, [H_i ; H_j], says whether
the span is a phrase. As the layer is linear, a token has one scalar as a start and one as an end, and the logits of all
spans are one broadcast sum. Deviations: each length in words may have a bias of its own; the ends are those of words,
not of sub-words, and length is counted in words (their code: 6 sub-words); the two ends' states are the first
sub-word's and the last sub-word's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Unpack

import numpy as np
from numpy.typing import NDArray

from phrasemate.encode.pool import token_rows
from phrasemate.encode.runtime import States
from phrasemate.encode.segment import LETTER, SegmentOptions, Spans, check_options
from phrasemate.text import words

THRESHOLD = 0.7  # CCPR, section 6.1, for what is indexed (0.9 for queries)
MAX_WORDS = 6  # CCPR's code, there in sub-words
CELLS = 1 << 21  # logits held at once: 8 MB
UNIT = 1 << 30  # scores become multiples of 1 / UNIT where totals are compared, so that equal totals are equal

Floats = NDArray[np.float32]
Rows = NDArray[np.int64]


class _Words(NamedTuple):
    """The words of a block, one text after another, each (words,); text i has the words bounds[i]:bounds[i + 1]."""

    bounds: Rows
    starts: NDArray[np.int32]
    ends: NDArray[np.int32]
    lettered: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class LearnedSegmenter:
    """Every span of words whose probability of being a phrase is ``threshold`` or more; the score is that probability.

    ``start``, ``end`` (width,) and ``bias`` (lengths,): the span of the words i to j has the logit
    H_i . start + H_j . end + bias_w, where w is its number of words (longer ones have the last bias),
    with H_i the state of the first token of word i and H_j that of the last token of word j. Spans of more than
    ``max_words`` words (None: no limit) and spans without a letter are left out.

    Not ``overlapping``: of these, spans that share no word, with the best total of words x (score - threshold): a word
    that is covered rightly earns 1 - threshold, one covered wrongly costs threshold, and the total is what is earned on
    average. So a long span displaces the short ones in it when it is as probable as they are, weighted by their
    words, and not because it is long. Of equal totals: more words covered, then fewer spans.

    Frequent words are for the n-gram segmenter: this one has learned where phrases begin and end, and ignores them.
    Raises InputError for a threshold outside 0 to 1 and for ``max_words`` below 1.
    """

    start: Floats
    end: Floats
    bias: Floats
    threshold: float = THRESHOLD
    max_words: int | None = MAX_WORDS
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
        found = _words(texts)
        first, last, scores = self._scored(found, states)  # (spans,) numbers of words
        if not self.overlapping:
            taken = disjoint(first, last, scores, self.threshold)
            first, last, scores = first[taken], last[taken], scores[taken]
        bounds = np.searchsorted(first, found.bounds)  # spans are by first word: where each text's begin
        return Spans(bounds, found.starts[first], found.ends[last], scores)

    def _scored(self, found: _Words, states: States) -> tuple[Rows, Rows, Floats]:
        """First word, last word and probability of each span, by first word, then last."""
        counts = np.diff(found.bounds)
        texts = np.repeat(np.arange(len(counts)), counts)  # (words,)
        first, last = token_rows(states, texts, found.starts, found.ends)
        as_start: Floats = (states.values @ self.start)[first]  # (words,)
        as_end: Floats = (states.values @ self.end)[last] + self.bias[0]  # (words,)
        reach = found.bounds[texts + 1] - np.arange(len(texts))  # words from here to the end of the text
        if self.max_words is not None:
            reach = np.minimum(reach, self.max_words)
        before = np.concatenate([[0], np.cumsum(found.lettered)])  # (words + 1,) words with a letter before each
        table = _Table(as_start, as_end, self.bias - self.bias[0], reach, before)
        pieces = [_passing(table, rows, self.threshold) for rows in _parts(reach)]
        starts, ends, scores = (np.concatenate(each) for each in zip(*pieces, strict=True))
        return starts, ends, scores


def _words(texts: Sequence[str]) -> _Words:
    found = [words(text) for text in texts]
    bounds = np.cumsum([0, *map(len, found)], dtype=np.int64)
    offsets = np.array([pair for pairs in found for pair in pairs], np.int32).reshape(-1, 2)
    lettered = [
        LETTER.search(text, *pair) is not None for text, pairs in zip(texts, found, strict=True) for pair in pairs
    ]
    return _Words(bounds, offsets[:, 0], offsets[:, 1], np.array(lettered, np.bool_))


def _parts(reach: Rows) -> Iterator[slice]:
    """The words in stretches whose tables of logits, as wide as the farthest reach, stay within `CELLS`."""
    low = 0
    while low < len(reach) or not low:
        some = reach[low : low + CELLS]
        cells = np.arange(1, len(some) + 1) * np.maximum.accumulate(some)
        high = low + max(1, int(np.searchsorted(cells, CELLS, side="right")))
        yield slice(low, high)
        low = high


class _Table(NamedTuple):
    """The summands of all logits: of each word as a start and as an end, (words,), and of each length less the first's.

    ``reach``: words from each to the farthest end; ``before``: words with a letter before each.
    """

    as_start: Floats
    as_end: Floats
    longer: Floats
    reach: Rows
    before: Rows


def _passing(table: _Table, rows: slice, threshold: float) -> tuple[Rows, Rows, Floats]:
    """First word, last word and probability of the spans that begin in ``rows`` and have ``threshold`` or more."""
    as_start, as_end, longer, reach, before = table
    begin = np.arange(len(as_start))[rows, None]  # (rows, 1)
    length = np.arange(reach[rows].max(initial=0))  # (lengths,) less one
    finish = np.minimum(begin + length, len(as_start) - 1)  # (rows, lengths)
    logits = as_start[begin] + as_end[finish]  # (rows, lengths): the broadcast sum
    if len(longer) > 1:
        logits += longer[np.minimum(length, len(longer) - 1)]
    scores = sigmoid(logits)
    kept = (scores >= np.float32(threshold)) & (length < reach[begin]) & (before[finish + 1] > before[begin])
    row, column = np.nonzero(kept)
    return row + rows.start, finish[row, column], scores[row, column]


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
    taken, size = [], len(best) - 1
    while size > 0:
        span = choice[size]
        taken += [span] if span >= 0 else []
        size = froms[span] if span >= 0 else size - 1
    return np.array(taken[::-1], np.int64)
