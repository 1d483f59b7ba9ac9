"""Evaluation of segmenters: the learned and the n-gram segmenter against the phrases that gold word links imply.

The gold phrases of a sentence are its sides of all consistent phrase pairs (`phrasemate.align.consistent_boxes`) of its
gold links. Words are those of `phrasemate.text.words`, as in training. A gold token with several words (low-down) gives
its links to each of them; a token without a word (punctuation) loses its links. A phrase has one to six words on both
sides and a letter. It does not begin or end with a word without a link, or with a frequent word. A word is frequent if
it has more than 0.06 occurrences for each sentence on that side of the set, and more than 5 in all. Precision is the
share of proposed spans that are gold, recall the share of gold spans that are proposed. Both are measured on each side
of every set, and on all sides together.

The learned segmenter gives every span of up to six words a probability, and is measured at every threshold. The n-gram
segmenter is measured for each number of words and each definition of frequent words. These
are in the model's list, or have a given share of the side's words. At equal index size, the learned segmenter proposes
as many spans of all sentences as the n-gram segmenter, the most probable ones.

Phrase retrieval at equal index size is measured as in CCPR, table 4. The index holds only the spans that a segmenter
proposes in the target and distractor sentences of phrase_bench. A gold span that the index lacks is a miss. The n-gram
segmenter has a limit of 1 to 6 words, and its frequent words are counted in these sentences. The learned segmenter is
cut at the probability that gives as many spans, or more if probabilities are equal. Vectors, queries, ranks and ties
are those of `phrasemate.evaluate.phrases`. The target sentences of a set are candidates for its own queries only; the
index size counts all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasemate.align import BorderWords, Links, PhraseFinder, TokenizedSentence
from phrasemate.encode import FrequentWords, Model, NgramSegmenter
from phrasemate.evaluate.data import links_of
from phrasemate.evaluate.metrics import Ranking, bootstrap, randomisation_test
from phrasemate.evaluate.phrases import ModelSource, PhraseSet, Tally, chunks, read_set, rivals_of
from phrasemate.evaluate.report import Table
from phrasemate.text import words
from phrasemate.types import Progress
from phrasemate.utils.arrays import Floats, Offsets

MAX_WORDS = 6
# Occurrences in each sentence, and in all, above which a word is frequent (see results/log/evaluate.md). The second
# limit is for small sets.
RATE, LEAST = 0.06, 5
THRESHOLDS = np.arange(0, 100) / 100


class Ngram(NamedTuple):
    """Setting of the n-gram segmenter.

    Words whose share is ``rate`` or more are frequent, besides those of the model's list; None: those of the list only.
    """

    max_words: int
    rate: float | None

    @property
    def name(self) -> str:
        """Return a short name of the setting for tables."""
        return f"{self.max_words} word{'s' * (self.max_words > 1)}" + (
            f", rate {self.rate}" if self.rate else ", list only"
        )


NGRAMS = tuple(Ngram(size, rate) for rate in (None, 0.008, 0.004, 0.002, 0.001) for size in range(1, MAX_WORDS + 1))
USUAL = 0.004  # rate of the n-gram segmenter in the measurement of phrase retrieval


class Side(NamedTuple):
    """Side of a set: its sentences, and the gold phrases of each as (start, end) in characters."""

    name: str
    texts: list[str]
    gold: list[set[tuple[int, int]]]


class SpanScores(NamedTuple):
    """Spans of several texts: the offsets (n, 2) and probabilities (n,) of each text."""

    spans: list[Offsets]
    scores: list[Floats]


class Counts(NamedTuple):
    """Numbers of proposed spans, of proposed spans that are gold (``right``), and of gold spans."""

    proposed: int
    right: int
    gold: int

    @property
    def precision(self) -> float:
        """Return the precision; 1 if nothing is proposed."""
        return self.right / self.proposed if self.proposed else 1.0

    @property
    def recall(self) -> float:
        """Return the recall; 1 if there are no gold spans."""
        return self.right / self.gold if self.gold else 1.0

    @property
    def f1(self) -> float:
        """Return F1, 2 right / (proposed + gold)."""
        return 2 * self.right / max(1, self.proposed + self.gold)


def gold_sides(data: Path, lang: str, first: int | None = None) -> list[Side]:
    """Read the two sides of a gold alignment, first the foreign and then the English one."""
    pairs, links, _ = links_of(data, lang, first)
    reworded_pairs = [_divide_into_words(*pair, link) for pair, link in zip(pairs, links, strict=True)]
    counters = BorderWords(RATE, LEAST), BorderWords(RATE, LEAST)
    for source, target, _ in reworded_pairs:
        counters[0].update(source)
        counters[1].update(target)
    finder = PhraseFinder((counters[0].frequent(), counters[1].frequent()), MAX_WORDS)
    spans = [finder.spans(*sentence) for sentence in reworded_pairs]
    return [
        Side(
            f"{lang}-en {lang}", [s.text for s, _, _ in reworded_pairs], [{row[:2] for row in rows} for rows in spans]
        ),
        Side(f"{lang}-en en", [t.text for _, t, _ in reworded_pairs], [{row[2:] for row in rows} for rows in spans]),
    ]


def _divide_into_words(
    source: TokenizedSentence, target: TokenizedSentence, links: Links
) -> tuple[TokenizedSentence, TokenizedSentence, Links]:
    """Return a sentence pair in the words of `phrasemate.text.words`, with the links of the tokens under each word.

    A link to a token that does not exist gives no link.
    """
    new = TokenizedSentence.of(source.text), TokenizedSentence.of(target.text)
    owners = [_overlaps(old.spans, fresh.spans) for old, fresh in zip((source, target), new, strict=True)]
    word_links = [(left, right) for left, right in links if left < len(owners[0]) and right < len(owners[1])]
    pairs = {(i, j) for left, right in word_links for i in owners[0][left] for j in owners[1][right]}
    return *new, sorted(pairs)


def _overlaps(tokens: Sequence[tuple[int, int]], words: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Return the numbers of the words that each token overlaps."""
    return [[number for number, (low, high) in enumerate(words) if low < end and start < high] for start, end in tokens]


def learned_spans(model: Model, texts: Sequence[str]) -> SpanScores:
    """Return every span of up to six words with its probability; no spans if the model has no learned segmenter."""
    if model.learned is None:
        return SpanScores([np.zeros((0, 2), np.int32)] * len(texts), [np.zeros(0, np.float32)] * len(texts))
    segmenter = model.learned.using(threshold=0.0, max_words=MAX_WORDS, overlapping=True)
    spans: list[Offsets] = []
    scores: list[Floats] = []
    for part, states in model.runtime.blocks(texts):
        segments = segmenter.find(texts[part], states)
        cuts = segments.bounds[1:-1]
        spans += np.split(np.stack([segments.starts, segments.ends], axis=1), cuts)
        scores += np.split(segments.scores, cuts)
    return SpanScores(spans, scores)


def ngram_spans(model: Model, texts: Sequence[str], setting: Ngram) -> list[set[tuple[int, int]]]:
    """Return the spans that the n-gram segmenter proposes in each text; frequent words are counted in these texts."""
    segmenter = NgramSegmenter(model.config.get("common_words", ()), setting.max_words)
    frequent = frequent_words(texts, setting.rate)
    return [{(span.start, span.end) for span in spans} for spans in segmenter.find(texts, None, frequent).lists()]


def frequent_words(texts: Iterable[str], rate: float | None) -> frozenset[str]:
    """Return the words whose share of all words of the texts is at least ``rate``; none if ``rate`` is None."""
    if rate is None:
        return frozenset()
    counter = FrequentWords()
    for text in texts:
        counter.update(text)
    return frozenset(counter.words(rate, most=1_000))


def evaluate_segmenters(
    models: Mapping[str, Model],
    data: Path,
    langs: Sequence[str],
    most: Mapping[str, int],
    progress: Progress = lambda label, step, total: None,
) -> tuple[list[Table], dict[str, Any]]:
    """Return the table of thresholds, the table of equal sizes, and the curves for plots.

    The n-gram segmenter uses the list of frequent words of the last model.

    Args:
        models: Models by name.
        data: Folder of the corpora.
        langs: Languages of the gold alignments.
        most: Largest number of sentence pairs of a language; a language that is absent has no limit.
        progress: Called with a label, the number of finished steps and the number of all steps.
    """
    sides = [side for lang in langs for side in gold_sides(data, lang, most.get(lang))]
    curves: dict[str, Any] = {"learned": {}, "ngram": {}}
    by_threshold: list[tuple[Any, ...]] = []
    poolings: dict[str, _RankedSpans] = {}
    for number, (name, model) in enumerate(models.items()):
        progress("segments", number, len(models) + 1)
        if model.learned is None:
            continue
        pooling = [_RankedSpans.of(learned_spans(model, side.texts), side) for side in sides]
        poolings[name] = _RankedSpans.joined(pooling)
        curves["learned"][name] = poolings[name].curve()
        by_threshold += _threshold_rows(name, sides, pooling, poolings[name])
    progress("segments", len(models), len(models) + 1)
    rows, curves["ngram"] = _size_rows(list(models.values())[-1], sides, poolings)
    header = ("words", "spans", "n-gram P", "n-gram R", "n-gram F1", *(f"{name} F1" for name in poolings))
    tables = [
        Table("segmenter sizes", "Segmenters at equal index size, all sides", header, tuple(rows), _summary(rows))
    ]
    if by_threshold:
        columns = ("model", "side", "gold", *(f"F1 at {t}" for t in SHOWN), "best F1", "at", "P", "R")
        tables.insert(0, Table("segmenter", "Learned segmenter against gold phrases", columns, tuple(by_threshold)))
    return tables, {"segmenter_curves": curves}


SHOWN = (0.3, 0.5, 0.7, 0.9)  # thresholds in the table


class _RankedSpans(NamedTuple):
    """Spans by probability, highest first.

    ``scores`` (n,) are the probabilities, ``right`` (n,) says whether each is gold, ``gold`` is the number of gold
    spans.
    """

    scores: Floats
    right: NDArray[np.bool_]
    gold: int

    @classmethod
    def of(cls, scored: SpanScores, side: Side) -> _RankedSpans:
        """Return the spans of all texts of a side."""
        texts = zip(scored.spans, side.gold, strict=True)
        right = [(start, end) in gold for spans, gold in texts for start, end in spans.tolist()]
        return cls.joined([cls(np.concatenate(scored.scores), np.array(right, np.bool_), sum(map(len, side.gold)))])

    @classmethod
    def joined(cls, parts: Sequence[_RankedSpans]) -> _RankedSpans:
        """Return the spans of several parts together."""
        scores, right = np.concatenate([p.scores for p in parts]), np.concatenate([p.right for p in parts])
        order = np.argsort(-scores, kind="stable")
        return cls(scores[order], right[order], sum(p.gold for p in parts))

    def first(self, count: int) -> Counts:
        """Return the counts of the ``count`` most probable spans."""
        count = min(count, len(self.scores))
        return Counts(count, int(self.right[:count].sum()), self.gold)

    def at(self, threshold: float) -> Counts:
        """Return the counts of the spans with at least this probability."""
        return self.first(int(np.searchsorted(-self.scores, -np.float32(threshold), side="right")))

    def curve(self) -> dict[str, list[float]]:
        """Return number of spans, precision, recall and F1 at each threshold."""
        counts = [self.at(float(threshold)) for threshold in THRESHOLDS]
        return {"threshold": THRESHOLDS.tolist()} | _columns(counts)


def _columns(counts: Sequence[Counts]) -> dict[str, list[float]]:
    return {
        "spans": [count.proposed for count in counts],
        "precision": [count.precision for count in counts],
        "recall": [count.recall for count in counts],
        "F1": [count.f1 for count in counts],
    }


def _threshold_rows(
    name: str, sides: Sequence[Side], columns: Sequence[_RankedSpans], whole: _RankedSpans
) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    for label, pooling in (*zip((side.name for side in sides), columns, strict=True), ("all", whole)):
        best = max(((pooling.at(float(t)).f1, float(t)) for t in THRESHOLDS), key=lambda pair: pair[0])
        counts = pooling.at(best[1])
        scores = (pooling.at(threshold).f1 for threshold in SHOWN)
        rows.append((name, label, pooling.gold, *scores, counts.f1, f"{best[1]:.2f}", counts.precision, counts.recall))
    return rows


def _size_rows(
    model: Model, sides: Sequence[Side], learned: Mapping[str, _RankedSpans]
) -> tuple[list[tuple[Any, ...]], dict[str, Any]]:
    """Return a row for each setting of the n-gram segmenter, by its number of spans, and the points for a plot.

    The row has the F1 of each learned segmenter with the same number of spans.
    """
    points = []
    gold = [spans for side in sides for spans in side.gold]
    for setting in NGRAMS:
        proposals = [spans for side in sides for spans in ngram_spans(model, side.texts, setting)]
        right = sum(len(spans & gold_spans) for spans, gold_spans in zip(proposals, gold, strict=True))
        points.append((setting, Counts(sum(map(len, proposals)), right, sum(map(len, gold)))))
    points.sort(key=lambda point: point[1].proposed)
    rows = [
        (setting.name, c.proposed, c.precision, c.recall, c.f1, *(p.first(c.proposed).f1 for p in learned.values()))
        for setting, c in points
    ]
    counts = [item for _, item in points]
    return rows, {"setting": [setting.name for setting, _ in points]} | _columns(counts)


def _summary(rows: Sequence[tuple[Any, ...]]) -> str:
    """Say at how many sizes the last learned segmenter is better."""
    if len(rows[0]) < 6:
        return "no model has a learned segmenter"
    apart = [row[-1] - row[4] for row in rows]
    return (
        f"learned above n-gram at {sum(d > 0 for d in apart)} of {len(apart)} sizes, least difference {min(apart):+.4f}"
    )


SIZES = (1, 2, 3, 4, 5, 6)  # limits of words of the n-gram segmenter
CHUNK = 1_000  # sentences that are encoded together


class _Candidates(NamedTuple):
    """Spans (n, 2) of one text, their probabilities by the learned segmenter, and their words.

    The number of words is 0 if the n-gram segmenter does not propose the span.
    """

    spans: Offsets
    scores: Floats
    lengths: NDArray[np.int64]


def evaluate_index_sizes(
    model: Model,
    data: Path,
    distractors: int,
    langs: Sequence[str],
    progress: Progress = lambda label, step, total: None,
    seed: int = 0,
) -> tuple[Table, list[dict[str, Any]]]:
    """Return the table of phrase retrieval by index size, and its points for a plot.

    A model without a learned segmenter gets the columns of the n-gram segmenter only.

    Args:
        model: Model with its segmenters.
        data: Folder of the corpora.
        distractors: Least number of distractor spans, in whole sentences.
        langs: Languages of the sets.
        progress: Called with a label, the number of finished sentences and the number of all sentences.
        seed: Seed of the resampling.
    """
    sets = [read_set(data, lang) for lang in langs]
    texts = [text for chunk in chunks(rivals_of(data, sets), distractors) for text in chunk.texts]
    all_texts = [text for group in sets for text in group.targets.texts] + texts
    finder = _Finder(model, frequent_words(all_texts, USUAL))
    cuts, sizes = _cuts(finder, all_texts, progress)
    tallies = [_of_set(finder, group, cuts) for group in sets]
    tally = Tally.joined(tallies)
    for at in range(0, len(texts), CHUNK):
        progress("index by segmenter", at, len(texts))
        part = texts[at : at + CHUNK]
        _count(finder, tally, part, finder(part), cuts)
    progress("index by segmenter", len(texts), len(texts))
    return _table(Ranking(tally.higher, tally.tied), sizes, model.learned is not None, seed)


class _Finder:
    """Finder of the candidates of both segmenters in texts."""

    def __init__(self, model: Model, frequent: frozenset[str]) -> None:
        self.model, self.frequent = model, frequent
        self.source = ModelSource(model, {"": model.pooling})

    def __call__(self, texts: Sequence[str]) -> list[_Candidates]:
        return list(map(_merge, *learned_spans(self.model, texts), ngram_lengths(self.model, texts, self.frequent)))

    def vectors(self, texts: Sequence[str], spans: Sequence[Offsets]) -> Iterator[Floats]:
        """Yield the vectors (m, dim) of consecutive spans, block by block."""
        for _, block in self.source.blocks(texts, spans):
            yield block.vectors


def ngram_lengths(model: Model, texts: Sequence[str], frequent: frozenset[str]) -> list[dict[tuple[int, int], int]]:
    """Return for each text the spans that the n-gram segmenter proposes at its longest, with their numbers of words.

    With a limit of n words it proposes exactly those of n words or fewer.
    """
    segmenter = NgramSegmenter(model.config.get("common_words", ()), max(SIZES))
    lengths = []
    for text, spans in zip(texts, segmenter.find(texts, None, frequent).lists(), strict=True):
        word_spans = words(text)
        first = {start: number for number, (start, _) in enumerate(word_spans)}
        last = {end: number for number, (_, end) in enumerate(word_spans)}
        lengths.append({(span.start, span.end): last[span.end] - first[span.start] + 1 for span in spans})
    return lengths


def _merge(spans: Offsets, scores: Floats, lengths: dict[tuple[int, int], int]) -> _Candidates:
    """Return the spans of the learned segmenter, followed by those that only the n-gram segmenter proposes."""
    span_lengths = np.array([lengths.get((start, end), 0) for start, end in spans.tolist()], np.int64)
    return _add_missing(_Candidates(spans, scores, span_lengths), lengths)


def _cuts(finder: _Finder, texts: Sequence[str], progress: Progress) -> tuple[Floats, list[tuple[int, int]]]:
    """Return (sizes,) the probabilities that cut the learned index to the n-gram index's sizes, and both sizes."""
    scores: list[Floats] = []
    counts = np.zeros(max(SIZES) + 1, np.int64)
    for at in range(0, len(texts), CHUNK):
        progress("index sizes", at, len(texts))
        for item in finder(texts[at : at + CHUNK]):
            scores.append(item.scores)
            counts += np.bincount(item.lengths, minlength=len(counts))
    progress("index sizes", len(texts), len(texts))
    score_order = np.sort(np.concatenate(scores))[::-1]
    sizes = [int(counts[1 : size + 1].sum()) for size in SIZES]
    cuts = np.array([score_order[min(size, len(score_order)) - 1] if size else 2.0 for size in sizes], np.float32)
    cuts = np.maximum(cuts, np.finfo(np.float32).tiny)  # spans of only the n-gram segmenter have the probability 0
    having = [int(np.searchsorted(-score_order, -cut, side="right")) for cut in cuts]
    return cuts, list(zip(sizes, having, strict=True))


def _weights(some: Sequence[_Candidates], cuts: Floats) -> Floats:
    """Return (spans, 2 x sizes) whether each span is in the n-gram index of each size, then in the learned one."""
    lengths = np.concatenate([candidates.lengths for candidates in some])[:, None]
    scores = np.concatenate([candidates.scores for candidates in some])[:, None]
    ngram = (lengths > 0) & (lengths <= np.array(SIZES))
    return np.concatenate([ngram, scores >= cuts], axis=1).astype(np.float32)


def _of_set(finder: _Finder, one: PhraseSet, cuts: Floats) -> Tally:
    """Return the tally of a set over the candidates of its own sentences.

    ``higher`` is infinite for an index that lacks the gold span.
    """
    texts = one.targets.texts
    flat = [(row, start, end) for row, span in enumerate(one.targets.spans) for start, end in span.tolist()]
    gold = [flat[number] for number in one.gold]
    targets: list[dict[tuple[int, int], int]] = [{} for _ in texts]
    for row, start, end in sorted(gold):
        targets[row][start, end] = 0  # no segmenter need propose it
    candidates = list(map(_add_missing, finder(texts), targets))
    spans = [(row, start, end) for row, item in enumerate(candidates) for start, end in item.spans.tolist()]
    places = {span: number for number, span in enumerate(spans)}
    rows = np.array([places[span] for span in gold], np.int64)
    vectors = np.concatenate(list(finder.vectors(texts, [element.spans for element in candidates])))
    queries = finder.source.queries(one.queries)[""]
    weights = _weights(candidates, cuts)
    tally = Tally(queries, (queries * vectors[rows]).sum(1), weights.shape[1])
    tally.count(vectors, weights)
    tally.tied -= weights[rows]  # the gold span ties with itself
    tally.higher[weights[rows] == 0] = np.inf
    tally.tied[weights[rows] == 0] = 0
    return tally


def _add_missing(candidates: _Candidates, lengths: Mapping[tuple[int, int], int]) -> _Candidates:
    """Return the candidates and the spans that they lack, with these lengths and the probability 0."""
    having = set(map(tuple, candidates.spans.tolist()))
    more = {span: length for span, length in lengths.items() if span not in having}
    return _Candidates(
        np.concatenate([candidates.spans, np.array([*more], np.int32).reshape(-1, 2)]),
        np.concatenate([candidates.scores, np.zeros(len(more), np.float32)]),
        np.concatenate([candidates.lengths, np.array([*more.values()], np.int64)]),
    )


def _count(
    finder: _Finder, tally: Tally, texts: Sequence[str], candidates: Sequence[_Candidates], cuts: Floats
) -> None:
    weights, at = _weights(candidates, cuts), 0
    for vectors in finder.vectors(texts, [item.spans for item in candidates]):
        tally.count(vectors, weights[at : at + len(vectors)])
        at += len(vectors)


def _table(
    ranking: Ranking, sizes: Sequence[tuple[int, int]], learned: bool, seed: int
) -> tuple[Table, list[dict[str, Any]]]:
    """Return the table of phrase retrieval and its points; ``ranking`` holds arrays (queries, 2 x sizes)."""
    hits, finite = ranking.hits(1), np.isfinite(ranking.higher)
    rows: list[tuple[Any, ...]] = []
    points: list[dict[str, Any]] = []
    for k, (words_, (target_size, having)) in enumerate(zip(SIZES, sizes, strict=True)):
        columns = {"ngram": (k, target_size), "learned": (k + len(SIZES), having)}
        row: list[Any] = [words_]
        for kind, (column, spans) in columns.items() if learned else [("ngram", columns["ngram"])]:
            row += [spans, float(finite[:, column].mean()), bootstrap(hits[:, column], seed=seed)]
            points.append({"segmenter": kind, "spans": spans, "acc@1": float(hits[:, column].mean())})
        if learned:
            row.append(randomisation_test(hits[:, k + len(SIZES)], hits[:, k], seed=seed))
        rows.append(tuple(row))
    header: tuple[str, ...] = ("words", "n-gram spans", "n-gram has gold", "n-gram acc@1")
    if learned:
        header += ("learned spans", "learned has gold", "learned acc@1", "p")
    title = "Phrase retrieval in the index of a segmenter, all languages"
    note = "has gold: share of the gold spans that are in the index" + "; p: paired randomisation test" * learned
    return Table("segmenter index", title, header, tuple(rows), note), points
