"""Which spans are phrases: the learned and the n-gram segmenter against the phrases that gold word links imply.

Gold phrases of a sentence: of all consistent phrase pairs (`phrasemate.align.consistent_boxes`) of its gold links, this
sentence's side. Words are those of `phrasemate.text.words`, as in training: a gold token that holds several (low-down)
gives its links to each, one that holds none (punctuation) gives them to nothing. One to six words on both sides,
neither side beginning or ending with a word without a link, nor with a frequent one (more than 0.06 occurrences a
sentence on that side of the set, and more than 5 in all), nor without a letter. Both sides of every set are counted,
and all together: precision is the share of proposed spans that are gold, recall the share of gold spans proposed.

Learned: every span of up to six words with its probability, cut at every threshold. N-gram: one point for each number
of words and each way to tell frequent words (the model's list; besides, words that are at least a given share of the
side's own words). At equal index size: as many of the most probable spans of all sentences as the n-gram segmenter
proposes in them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasemate.align import BorderWords, Links, PhraseFinder, Worded
from phrasemate.encode import FrequentWords, Model, NgramSegmenter
from phrasemate.evaluate.data import links_of
from phrasemate.evaluate.report import Table

MAX_WORDS = 6
RATE, LEAST = 0.06, 5  # of words that are no borders: bench/training_data.py; a small set needs a least count
THRESHOLDS = np.arange(0, 100) / 100

Offsets = NDArray[np.int32]
Floats = NDArray[np.float32]
Progress = Callable[[str, int, int], None]


class Ngram(NamedTuple):
    """A setting of the n-gram segmenter; ``rate``: from which share on words are frequent besides the model's list."""

    max_words: int
    rate: float | None

    @property
    def name(self) -> str:
        """Short."""
        return f"{self.max_words} word{'s' * (self.max_words > 1)}" + (
            f", rate {self.rate}" if self.rate else ", list only"
        )


NGRAMS = tuple(Ngram(size, rate) for rate in (None, 0.008, 0.004, 0.002, 0.001) for size in range(1, MAX_WORDS + 1))
USUAL = 0.004  # the rate of the index


class Side(NamedTuple):
    """One side of a set: its sentences, and the gold phrases of each as (start, end) in characters."""

    name: str
    texts: list[str]
    gold: list[set[tuple[int, int]]]


class Scored(NamedTuple):
    """Spans of some texts, each text's (n, 2) offsets and (n,) probabilities."""

    spans: list[Offsets]
    scores: list[Floats]


class Counts(NamedTuple):
    """How many spans were proposed, how many of these are right, and how many right ones there are."""

    proposed: int
    right: int
    gold: int

    @property
    def precision(self) -> float:
        """1 where nothing is proposed."""
        return self.right / self.proposed if self.proposed else 1.0

    @property
    def recall(self) -> float:
        """1 where there is nothing to find."""
        return self.right / self.gold if self.gold else 1.0

    @property
    def f1(self) -> float:
        """2 right / (proposed + gold)."""
        return 2 * self.right / max(1, self.proposed + self.gold)


def gold_sides(data: Path, lang: str, first: int | None = None) -> list[Side]:
    """Both sides of a gold alignment, the other language's first."""
    pairs, links = links_of(data, lang, first)
    worded = [_reworded(*pair, each) for pair, each in zip(pairs, links, strict=True)]
    counters = BorderWords(RATE, LEAST), BorderWords(RATE, LEAST)
    for source, target, _ in worded:
        counters[0].update(source)
        counters[1].update(target)
    finder = PhraseFinder((counters[0].frequent(), counters[1].frequent()), MAX_WORDS)
    found = [finder.spans(*each) for each in worded]
    return [
        Side(f"{lang}-en {lang}", [s.text for s, _, _ in worded], [{row[:2] for row in rows} for rows in found]),
        Side(f"{lang}-en en", [t.text for _, t, _ in worded], [{row[2:] for row in rows} for rows in found]),
    ]


def _reworded(source: Worded, target: Worded, links: Links) -> tuple[Worded, Worded, Links]:
    """The same sentences in words as training has them, each with the links of the tokens that it overlaps.

    A link to a token that is not there leads to no word.
    """
    new = Worded.of(source.text), Worded.of(target.text)
    owners = [_overlapping(old.spans, fresh.spans) for old, fresh in zip((source, target), new, strict=True)]
    there = [(left, right) for left, right in links if left < len(owners[0]) and right < len(owners[1])]
    found = {(i, j) for left, right in there for i in owners[0][left] for j in owners[1][right]}
    return *new, sorted(found)


def _overlapping(tokens: Sequence[tuple[int, int]], words: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Of each token, the numbers of the words that it overlaps."""
    found = []
    for start, end in tokens:
        found.append([number for number, (low, high) in enumerate(words) if low < end and start < high])
    return found


def learned_spans(model: Model, texts: Sequence[str]) -> Scored | None:
    """Every span of up to six words with its probability, of each text; None where the model has learned none."""
    if model.learned is None:
        return None
    segmenter = model.learned.using(threshold=0.0, max_words=MAX_WORDS, overlapping=True)
    spans: list[Offsets] = []
    scores: list[Floats] = []
    for part, states in model.runtime.blocks(texts):
        found = segmenter.find(texts[part], states)
        cuts = found.bounds[1:-1]
        spans += np.split(np.stack([found.starts, found.ends], axis=1), cuts)
        scores += np.split(found.scores, cuts)
    return Scored(spans, scores)


def ngram_spans(model: Model, texts: Sequence[str], setting: Ngram) -> list[set[tuple[int, int]]]:
    """The spans that the n-gram segmenter proposes, frequent words being counted in these texts."""
    segmenter = NgramSegmenter(model.config.get("common_words", ()), setting.max_words)
    frequent = frequent_words(texts, setting.rate)
    return [{(span.start, span.end) for span in spans} for spans in segmenter.find(texts, None, frequent).lists()]


def frequent_words(texts: Iterable[str], rate: float | None) -> frozenset[str]:
    """The words that are at least this share of the words of the texts; none for None."""
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
    progress: Progress = lambda what, done, total: None,
) -> tuple[list[Table], dict[str, Any]]:
    """The table of thresholds, the table of equal sizes, and the curves.

    ``most``: how many sentence pairs of a language at most. The n-gram segmenter is that of the last model.
    """
    sides = [side for lang in langs for side in gold_sides(data, lang, most.get(lang))]
    curves: dict[str, Any] = {"learned": {}, "ngram": {}}
    by_threshold: list[tuple[Any, ...]] = []
    learned: dict[str, _Pooled] = {}
    for number, (name, model) in enumerate(models.items()):
        progress("segments", number, len(models) + 1)
        found = [learned_spans(model, side.texts) for side in sides]
        if any(each is None for each in found):
            continue
        pooled = [_Pooled.of([each], [side]) for each, side in zip(found, sides, strict=True) if each is not None]
        learned[name] = _Pooled.joined(pooled)
        curves["learned"][name] = learned[name].curve()
        by_threshold += _threshold_rows(name, sides, pooled, learned[name])
    progress("segments", len(models), len(models) + 1)
    rows, curves["ngram"] = _size_rows(list(models.values())[-1], sides, learned)
    header = ("words", "spans", "n-gram P", "n-gram R", "n-gram F1", *(f"{name} F1" for name in learned))
    tables = [
        Table("segmenter sizes", "Segmenters at equal index size, all sides", header, tuple(rows), _summary(rows))
    ]
    if by_threshold:
        named = ("model", "side", "gold", *(f"F1 at {t}" for t in SHOWN), "best F1", "at", "P", "R")
        tables.insert(0, Table("segmenter", "Learned segmenter against gold phrases", named, tuple(by_threshold)))
    return tables, {"segmenter_curves": curves}


SHOWN = (0.3, 0.5, 0.7, 0.9)


class _Pooled(NamedTuple):
    """All spans by falling probability: ``scores`` and whether each is ``right``, (n,); and how many are gold."""

    scores: Floats
    right: NDArray[np.bool_]
    gold: int

    @classmethod
    def of(cls, found: Sequence[Scored], sides: Sequence[Side]) -> _Pooled:
        """Of the spans of one side or several."""
        scores, right = [np.zeros(0, np.float32)], [np.zeros(0, np.bool_)]
        for each, side in zip(found, sides, strict=True):
            for spans, values, gold in zip(each.spans, each.scores, side.gold, strict=True):
                scores.append(values)
                right.append(np.array([(start, end) in gold for start, end in spans.tolist()], np.bool_))
        made = cls(np.concatenate(scores), np.concatenate(right), sum(len(g) for side in sides for g in side.gold))
        return cls.joined([made])

    @classmethod
    def joined(cls, parts: Sequence[_Pooled]) -> _Pooled:
        """Several together."""
        scores, right = np.concatenate([p.scores for p in parts]), np.concatenate([p.right for p in parts])
        order = np.argsort(-scores, kind="stable")
        return cls(scores[order], right[order], sum(p.gold for p in parts))

    def first(self, count: int) -> Counts:
        """Of the ``count`` most probable spans."""
        count = min(count, len(self.scores))
        return Counts(count, int(self.right[:count].sum()), self.gold)

    def at(self, threshold: float) -> Counts:
        """Of the spans of this probability or more."""
        return self.first(int(np.searchsorted(-self.scores, -np.float32(threshold), side="right")))

    def curve(self) -> dict[str, list[float]]:
        """Over all thresholds."""
        counts = [self.at(float(threshold)) for threshold in THRESHOLDS]
        return {"threshold": THRESHOLDS.tolist()} | _columns(counts)


def _columns(counts: Sequence[Counts]) -> dict[str, list[float]]:
    return {
        "spans": [each.proposed for each in counts],
        "precision": [each.precision for each in counts],
        "recall": [each.recall for each in counts],
        "F1": [each.f1 for each in counts],
    }


def _threshold_rows(name: str, sides: Sequence[Side], each: Sequence[_Pooled], whole: _Pooled) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    for label, pooled in (*zip((side.name for side in sides), each, strict=True), ("all", whole)):
        best = max(((pooled.at(float(t)).f1, float(t)) for t in THRESHOLDS), key=lambda pair: pair[0])
        counts = pooled.at(best[1])
        shown = (pooled.at(threshold).f1 for threshold in SHOWN)
        rows.append((name, label, pooled.gold, *shown, counts.f1, f"{best[1]:.2f}", counts.precision, counts.recall))
    return rows


def _size_rows(
    model: Model, sides: Sequence[Side], learned: Mapping[str, _Pooled]
) -> tuple[list[tuple[Any, ...]], dict[str, Any]]:
    """The n-gram segmenter's points by number of spans, and each learned one's F1 with as many."""
    points = []
    for setting in NGRAMS:
        proposed = right = gold = 0
        for side in sides:
            for found, wanted in zip(ngram_spans(model, side.texts, setting), side.gold, strict=True):
                proposed, right, gold = proposed + len(found), right + len(found & wanted), gold + len(wanted)
        points.append((setting, Counts(proposed, right, gold)))
    points.sort(key=lambda point: point[1].proposed)
    rows = [
        (setting.name, c.proposed, c.precision, c.recall, c.f1, *(p.first(c.proposed).f1 for p in learned.values()))
        for setting, c in points
    ]
    counts = [each for _, each in points]
    return rows, {"setting": [setting.name for setting, _ in points]} | _columns(counts)


def _summary(rows: Sequence[tuple[Any, ...]]) -> str:
    """At how many sizes the last learned segmenter is better."""
    if len(rows[0]) < 6:
        return "no model here has a learned segmenter"
    apart = [row[-1] - row[4] for row in rows]
    return (
        f"learned above n-gram at {sum(d > 0 for d in apart)} of {len(apart)} sizes, least difference {min(apart):+.4f}"
    )
