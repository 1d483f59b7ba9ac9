"""Segmenters, which find the phrases of a sentence: the protocol, an n-gram segmenter and a learned one.

The n-gram segmenter takes every run of 1 to n words that contains a letter, is not interrupted by punctuation, and
neither begins nor ends with a frequent word. The frequent words are counted in the indexed text. Words that are
frequent in any language come from the encoder's Unigram tokenizer, whose pieces have log-probabilities.

The learned segmenter scores spans by their token states (CCPR, Li et al. 2024, section 5.2, eq. 5). A linear layer on
the concatenated states of a span's two ends, [H_i ; H_j], classifies the span as a phrase or not. The layer is linear,
so each token has one scalar as a start and one as an end, and the logits of all spans are one broadcast sum.
Differences from the paper: spans begin and end at word boundaries, and length is counted in words (the paper's code: up
to 6 sub-words). Each length may have its own bias. H_i is the state of the first word's first sub-word, H_j that of
the last word's last sub-word. If it is an inflected Japanese verb or adjective, the last sub-word of its stem counts
if that is likelier as an end, because the layer was trained on stems. English phrasal verbs such as "gave up" are
always phrases: particles often have no equivalent in other languages, so the layer has learned to leave them out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from numbers import Real
from typing import ClassVar, NamedTuple, Protocol, Self, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from phrasemate.encode.pooling import token_rows
from phrasemate.encode.runtime import States
from phrasemate.errors import InputError
from phrasemate.text import folded, words
from phrasemate.text.english_verbs import PARTICLES, is_phrasal_verb
from phrasemate.text.japanese import stem_length
from phrasemate.text.normalize import INVISIBLE, folded_parts
from phrasemate.types import Span, to_whole
from phrasemate.utils.arrays import Flags, Floats, Rows

MAX_WORDS = 5  # longer phrases are rare in use, and the index grows with every word
RATE = 0.004  # share of the text from which a word counts as frequent: about 50 words in English
ENOUGH = 1_000  # words of text needed to estimate frequencies
COMMON_WORD = -9.6  # log-probability above which a whole-word piece is a function word ("eine" -9.4, "time" -10.0)
COMMON_BARE = -9.0  # the same for pieces of scripts without spaces ("の" -7.8, "在" -8.1, "一" -8.6)
UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]+")
JOINT = re.compile(
    rf"[\s{INVISIBLE}]*+[-‐‑–'’/&+·]?[\s{INVISIBLE}]*+"
)  # text allowed between two words of a phrase; possessive quantifiers prevent backtracking
LETTER = re.compile(r"[^\W\d_]")


class Spans(NamedTuple):
    """Phrases of several texts in flat arrays, ordered by text, start and end.

    Text i has the spans ``bounds[i]:bounds[i + 1]``; ``bounds`` (texts + 1,) int64. ``starts`` and ``ends`` (spans,)
    int32 are character offsets into the span's text. ``scores`` (spans,) float32 are probabilities, 0 to 1.
    """

    bounds: NDArray[np.int64]
    starts: NDArray[np.int32]
    ends: NDArray[np.int32]
    scores: NDArray[np.float32]

    @property
    def texts(self) -> NDArray[np.int64]:
        """Return the index of each span's text, (spans,)."""
        return np.repeat(np.arange(len(self.bounds) - 1), np.diff(self.bounds))

    def lists(self) -> list[list[Span]]:
        """Return a list of spans for each text."""
        spans = list(map(Span, self.starts.tolist(), self.ends.tolist(), self.scores.tolist()))
        return [spans[low:high] for low, high in pairwise(self.bounds.tolist())]

    @classmethod
    def of(cls, lists: Sequence[Sequence[Span]]) -> Self:
        """Build from a list of spans for each text; the inverse of `lists`."""
        table = np.array([span for spans in lists for span in spans], np.float64).reshape(-1, 3)
        bounds = np.cumsum([0, *map(len, lists)], dtype=np.int64)
        starts, ends = table[:, :2].astype(np.int32).T
        return cls(bounds, starts, ends, table[:, 2].astype(np.float32))


class SegmentOptions(TypedDict, total=False):
    """Options of a segmenter; an option left out keeps the segmenter's value.

    ``threshold``: lowest score of a phrase, 0 (every span) to 1. ``max_words``: longest phrase in words, None for no
    limit. ``overlapping``: whether phrases may share words; if False, the best disjoint set (see `LearnedSegmenter`).
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
        """Whether the segmenter needs token states, and so a pass of the encoder, or only the text."""

    def find(self, texts: Sequence[str], states: States | None = None, frequent: Collection[str] = ()) -> Spans:
        """Find the phrases of a block of texts.

        Args:
            texts: Texts of the block.
            states: Token states of the texts, for a contextual segmenter.
            frequent: Case-folded words at which no phrase may begin or end, for the n-gram segmenter.
        """

    def using(self, **options: Unpack[SegmentOptions]) -> Self:
        """Return a copy of the segmenter with other options. Raises InputError for invalid options."""


def check_options(threshold: float = 1, max_words: int | None = None, overlapping: bool = True) -> None:
    """Check segmenter options. Raises InputError for an invalid value; an unknown option is a TypeError."""
    if not isinstance(threshold, Real) or not 0 <= threshold <= 1:
        raise InputError(f"threshold: {threshold!r}; expected 0 to 1")
    if max_words is not None and (to_whole("max_words", max_words) >= 1 << 31):
        raise InputError(f"max_words: {str(max_words)[:20]}; expected 1 or more")
    if not isinstance(overlapping, bool):
        raise InputError(f"overlapping: {overlapping}; expected true or false")


class FrequentWords:
    """Counter of the words of a text that is read piece by piece, to find its most frequent words."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def update(self, text: str) -> None:
        """Count the words of a text, case-folded."""
        self.counts.update(folded_parts(text, words(text)))

    def words(self, rate: float = RATE, most: int = 100) -> list[str]:
        """Return up to ``most`` words that each make up at least ``rate`` of the text, most frequent first.

        The list is empty for a text of fewer than 1,000 words, too short to estimate frequencies.
        """
        total = self.counts.total()
        if total < ENOUGH:
            return []
        return [word for word, count in self.counts.most_common(most) if count >= rate * total]


class NgramSegmenter:
    """Segmenter that returns word sequences of up to ``max_words`` words (None: any length), each with score 1.

    ``common``: case-folded words at which no phrase may begin or end (see `common_pieces`). Raises InputError for
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
        """As in `Segmenter`; ``states`` is ignored."""
        return Spans.of([self(text, frequent) for text in texts])

    def using(self, **options: Unpack[SegmentOptions]) -> NgramSegmenter:
        """As in `Segmenter`, but all scores are 1: no effect of ``threshold``, InputError if not ``overlapping``."""
        check_options(**options)
        if not options.get("overlapping", True):
            raise InputError("overlapping: False; the n-gram segmenter has no scores to choose by, a learned one has")
        return NgramSegmenter(self.common, options.get("max_words", self.max_words))

    def __call__(self, text: str, frequent: Collection[str] = ()) -> list[Span]:
        """Find the phrases of one text; ``frequent`` as in `Segmenter.find`."""
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
    """Collect the case-folded function words of all languages from the vocabulary of a Unigram tokenizer.

    ``vocabulary``: pieces and their log-probabilities; "▁" marks a piece that begins a word.
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


THRESHOLD = 0.7  # CCPR, section 6.1, for indexed text (0.9 for queries)
MAX_WORDS_LEARNED = 6  # CCPR's code: 6 sub-words
ALWAYS = 2.2  # logit, at least, of what is always a phrase (0.9): an inflected Japanese word, an English phrasal verb
CELLS = 1 << 21  # logits held at once: 8 MB
UNIT = 1 << 30  # `disjoint` rounds scores to multiples of 1 / UNIT and sums integers, so that ties are exact


class _Words(NamedTuple):
    """Words of a block of texts, (words,) each; text i has the words ``bounds[i]:bounds[i + 1]``.

    ``stem_ends``: where the stem of an inflected Japanese word ends; for other words, where the word ends.
    ``lettered``: whether the word contains a letter. ``phrasal``: whether it is a phrasal verb together with the next.
    """

    bounds: Rows
    starts: NDArray[np.int32]
    ends: NDArray[np.int32]
    stem_ends: NDArray[np.int32]
    lettered: Flags
    phrasal: Flags


@dataclass(frozen=True, eq=False)
class LearnedSegmenter:
    """Segmenter that returns all spans whose phrase probability, their score, is at least ``threshold``.

    The span of the words i to j, w words in all, has the logit H_i . start + H_j . end + bias_w. H_i is the state of
    the first token of word i, H_j that of the last token of word j. ``start`` and ``end`` (width,), ``bias``
    (lengths,); spans longer than the biases use the last one. Spans of more than ``max_words`` words (None: no limit)
    and spans without a letter are dropped.

    If not ``overlapping``, the result is the set of disjoint spans with the greatest total of words x (score -
    threshold). A correctly covered word counts 1 - threshold, a wrongly covered one -threshold, and the total is the
    expected value. A long span thus replaces shorter ones inside it only if it is as probable as their mean, weighted
    by words. Ties go to more words, then to fewer spans.

    The argument ``frequent`` is ignored: the model has learned where phrases begin and end. Raises InputError for a
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
        first, last, scores = self._score_spans(text_words, states)  # (spans,) indices of words
        if not self.overlapping:
            selection = disjoint(first, last, scores, self.threshold)
            first, last, scores = first[selection], last[selection], scores[selection]
        bounds = np.searchsorted(first, text_words.bounds)  # spans are sorted by first word
        return Spans(bounds, text_words.starts[first], text_words.ends[last], scores)

    def _score_spans(self, text_words: _Words, states: States) -> tuple[Rows, Rows, Floats]:
        """Return first word, last word and probability of the spans above the threshold, by first word, then last."""
        counts = np.diff(text_words.bounds)
        texts = np.repeat(np.arange(len(counts)), counts)  # (words,)
        first, last = token_rows(states, texts, text_words.starts, text_words.ends)
        as_start: Floats = (states.values @ self.start)[first]  # (words,)
        values = states.values @ self.end
        as_end: Floats = values[last]  # (words,)
        is_inflected = text_words.stem_ends < text_words.ends
        if is_inflected.any():
            last_of_stem = token_rows(states, texts, text_words.starts, text_words.stem_ends)[1]
            as_end = np.maximum(as_end, values[last_of_stem])
        as_end = as_end + self.bias[0]
        reach = text_words.bounds[texts + 1] - np.arange(len(texts))  # (words,) longest span that begins here
        if self.max_words is not None:
            reach = np.minimum(reach, self.max_words)
        before = np.concatenate([[0], np.cumsum(text_words.lettered)])  # (words + 1,) lettered words before each word
        pieces = [self._passing(as_start, as_end, text_words, reach, before, rows) for rows in _parts(reach)]
        starts, ends, scores = (np.concatenate(column) for column in zip(*pieces, strict=True))
        return starts, ends, scores

    def _passing(
        self, as_start: Floats, as_end: Floats, text_words: _Words, reach: Rows, before: Rows, rows: slice
    ) -> tuple[Rows, Rows, Floats]:
        """Score the spans that begin at the words ``rows``; see `_score_spans` for the result."""
        begin = np.arange(len(as_start))[rows, None]  # (rows, 1)
        length = np.arange(reach[rows].max(initial=0))  # (lengths,) words after the first
        finish = np.minimum(begin + length, len(as_start) - 1)  # (rows, lengths)
        logits = as_start[begin] + as_end[finish]  # (rows, lengths): the broadcast sum
        if len(self.bias) > 1:
            logits += (self.bias - self.bias[0])[np.minimum(length, len(self.bias) - 1)]
        is_inflected = text_words.stem_ends < text_words.ends
        for words_after, are_phrases in enumerate((is_inflected[rows], text_words.phrasal[rows])):
            if are_phrases.any() and words_after < len(length):
                logits[are_phrases, words_after] = np.maximum(logits[are_phrases, words_after], ALWAYS)
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
    stem_ends = [
        start + stem_length(text[start:end])
        for text, pairs in zip(texts, word_spans, strict=True)
        for start, end in pairs
    ]
    phrasal_flags = [flag for text, pairs in zip(texts, word_spans, strict=True) for flag in _phrasal(text, pairs)]
    flags = np.array(letter_flags, np.bool_), np.array(phrasal_flags, np.bool_)
    return _Words(bounds, offsets[:, 0], offsets[:, 1], np.array(stem_ends, np.int32), *flags)


def _phrasal(text: str, spans: Sequence[tuple[int, int]]) -> list[bool]:
    """Return whether each word of a text is a phrasal verb together with the next."""
    flags = [False] * len(spans)
    for number, ((start, end), (low, high)) in enumerate(pairwise(spans)):
        if text[low:high] in PARTICLES and text[end:low] == " ":
            flags[number] = is_phrasal_verb(text[start:end].lower(), text[low:high])
    return flags


def _parts(reach: Rows) -> Iterator[slice]:
    """Cut the words into slices whose (words, lengths) tables of logits have at most `CELLS` entries."""
    low = 0
    while low < len(reach) or not low:
        reach_block = reach[low : low + CELLS]
        cells = np.arange(1, len(reach_block) + 1) * np.maximum.accumulate(reach_block)
        high = low + max(1, int(np.searchsorted(cells, CELLS, side="right")))
        yield slice(low, high)
        low = high


def sigmoid(logits: Floats) -> Floats:
    """Compute 1 / (1 + exp(-x)) in float32."""
    with np.errstate(over="ignore", under="ignore"):  # exp(100) is inf, and 1 / inf is 0, as it should be
        probabilities: Floats = np.float32(1) / (np.float32(1) + np.exp(-logits))
    return probabilities


def disjoint(first: Rows, last: Rows, scores: Floats, threshold: float) -> Rows:
    """Select the best set of spans that share no word (weighted interval scheduling, by dynamic programming).

    ``first``, ``last`` (inclusive) and ``scores`` are (spans,) each; the objective is that of `LearnedSegmenter`.
    Returns the ascending indices of the selected spans.
    """
    length = (last - first + 1).tolist()
    margins = np.rint(scores.astype(np.float64) * UNIT).astype(np.int64) - round(threshold * UNIT)
    worth = [(n * m << 64) + (n << 32) - 1 for n, m in zip(length, np.maximum(margins, 0).tolist(), strict=True)]
    froms, tos = first.tolist(), last.tolist()
    best, choice = [0], [-1]  # of the first 0, 1, 2 ... words: the best total, and the span that ends there or -1
    for span in np.lexsort((first, last)).tolist():
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
