"""What a segmenter is worth to an index: accuracy of phrase retrieval at equal index size (after CCPR, table 4).

The index holds the spans that a segmenter proposes in the target and distractor sentences of phrase_bench, and nothing
else; a gold span that it lacks is a miss. The n-gram segmenter is given 1 to 6 words, its frequent words counted in
these sentences; each time the learned one is cut at the probability that gives as many spans (more only where
probabilities are equal). Vectors, queries, ranks and ties are as in `phrasemate.evaluate.phrases`. The target sentences
of a set are candidates for its own queries; the size is that of all together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasemate.encode import Model, NgramSegmenter
from phrasemate.evaluate.distractors import chunks
from phrasemate.evaluate.metrics import Ranking
from phrasemate.evaluate.phrases import PhraseSet, Tally, read_set, rivals_of
from phrasemate.evaluate.report import Table
from phrasemate.evaluate.segmentation import USUAL, frequent_words, learned_spans
from phrasemate.evaluate.significance import bootstrap, randomisation_test
from phrasemate.evaluate.systems import ModelSource
from phrasemate.text import words

SIZES = (1, 2, 3, 4, 5, 6)  # words of the n-gram segmenter
CHUNK = 1_000  # sentences

Floats = NDArray[np.float32]
Offsets = NDArray[np.int32]
Progress = Callable[[str, int, int], None]


class _Candidates(NamedTuple):
    """Spans of one text, (n, 2): probability by the learned segmenter, words by the n-gram one (0: not proposed)."""

    spans: Offsets
    scores: Floats
    lengths: NDArray[np.int64]


def evaluate_index_sizes(
    model: Model,
    data: Path,
    distractors: int,
    langs: Sequence[str],
    progress: Progress = lambda what, done, total: None,
    seed: int = 0,
) -> tuple[Table, list[dict[str, Any]]]:
    """The table, and its points for a plot. A model without a learned segmenter gets the n-gram columns only."""
    sets = [read_set(data, lang) for lang in langs]
    texts = [text for chunk in chunks(rivals_of(data, sets), distractors) for text in chunk.texts]
    everything = [text for each in sets for text in each.targets.texts] + texts
    finder = _Finder(model, frequent_words(everything, USUAL))
    cuts, sizes = _cuts(finder, everything, progress)
    tallies = [_of_set(finder, each, cuts) for each in sets]
    tally = Tally.joined(tallies)
    for at in range(0, len(texts), CHUNK):
        progress("index by segmenter", at, len(texts))
        part = texts[at : at + CHUNK]
        _count(finder, tally, part, finder(part), cuts)
    progress("index by segmenter", len(texts), len(texts))
    return _table(Ranking(tally.higher, tally.tied), sizes, model.learned is not None, seed)


class _Finder:
    """All candidates of texts."""

    def __init__(self, model: Model, frequent: frozenset[str]) -> None:
        self.model, self.frequent = model, frequent
        self.source = ModelSource(model, {"": model.pooling})

    def __call__(self, texts: Sequence[str]) -> list[_Candidates]:
        lengths = ngram_lengths(self.model, texts, self.frequent)
        learned = learned_spans(self.model, texts)
        if learned is None:
            return [_merged(np.zeros((0, 2), np.int32), np.zeros(0, np.float32), each) for each in lengths]
        return list(map(_merged, learned.spans, learned.scores, lengths))

    def vectors(self, texts: Sequence[str], spans: Sequence[Offsets]) -> Iterator[Floats]:
        """(some spans, dim), block by block."""
        for _, block in self.source.blocks(texts, spans):
            yield block.vectors


def ngram_lengths(model: Model, texts: Sequence[str], frequent: frozenset[str]) -> list[dict[tuple[int, int], int]]:
    """Of each text: span -> number of words, of all that the n-gram segmenter proposes at its longest.

    With a limit of n words it proposes those of n words or fewer.
    """
    segmenter = NgramSegmenter(model.config.get("common_words", ()), max(SIZES))
    lengths = []
    for text, spans in zip(texts, segmenter.find(texts, None, frequent).lists(), strict=True):
        found = words(text)
        first = {start: number for number, (start, _) in enumerate(found)}
        last = {end: number for number, (_, end) in enumerate(found)}
        lengths.append({(span.start, span.end): last[span.end] - first[span.start] + 1 for span in spans})
    return lengths


def _merged(spans: Offsets, scores: Floats, lengths: dict[tuple[int, int], int]) -> _Candidates:
    """The learned segmenter's spans, and after them those that only the n-gram segmenter has (probability 0)."""
    listed = [(start, end) for start, end in spans.tolist()]
    having = set(listed)
    more = [span for span in lengths if span not in having]
    every = np.array([*listed, *more], np.int32).reshape(-1, 2)
    known = np.concatenate([scores, np.zeros(len(more), np.float32)])
    return _Candidates(every, known, np.array([lengths.get(span, 0) for span in (*listed, *more)], np.int64))


def _cuts(finder: _Finder, texts: Sequence[str], progress: Progress) -> tuple[Floats, list[tuple[int, int]]]:
    """(sizes,) the probabilities that give the learned index the n-gram index's sizes; and both sizes of each."""
    scores: list[Floats] = []
    counts = np.zeros(max(SIZES) + 1, np.int64)
    for at in range(0, len(texts), CHUNK):
        progress("index sizes", at, len(texts))
        for each in finder(texts[at : at + CHUNK]):
            scores.append(each.scores)
            counts += np.bincount(each.lengths, minlength=len(counts))
    progress("index sizes", len(texts), len(texts))
    ordered = np.sort(np.concatenate(scores))[::-1]
    wanted = [int(counts[1 : size + 1].sum()) for size in SIZES]
    cuts = np.array([ordered[min(size, len(ordered)) - 1] if size else 2.0 for size in wanted], np.float32)
    cuts = np.maximum(cuts, np.finfo(np.float32).tiny)  # what only the n-gram segmenter has is never learned
    having = [int(np.searchsorted(-ordered, -cut, side="right")) for cut in cuts]
    return cuts, list(zip(wanted, having, strict=True))


def _weights(some: Sequence[_Candidates], cuts: Floats) -> Floats:
    """(spans, 2 x sizes): whether each span is in the n-gram index of each size, and in the learned one."""
    lengths = np.concatenate([each.lengths for each in some])[:, None]
    scores = np.concatenate([each.scores for each in some])[:, None]
    ngram = (lengths > 0) & (lengths <= np.array(SIZES))
    return np.concatenate([ngram, scores >= cuts], axis=1).astype(np.float32)


def _of_set(finder: _Finder, one: PhraseSet, cuts: Floats) -> Tally:
    """The tally of a set with the candidates of its own sentences; infinite where an index lacks the gold span."""
    texts = one.targets.texts
    flat = [(row, start, end) for row, each in enumerate(one.targets.spans) for start, end in each.tolist()]
    gold = [flat[number] for number in one.gold]
    found = finder(texts)
    wanted: list[set[tuple[int, int]]] = [set() for _ in texts]
    for row, start, end in gold:
        wanted[row].add((start, end))
    found = [_with(each, spans) for each, spans in zip(found, wanted, strict=True)]
    places: dict[tuple[int, int, int], int] = {}
    for row, each in enumerate(found):
        for start, end in each.spans.tolist():
            places[row, start, end] = len(places)
    rows = np.array([places[span] for span in gold], np.int64)
    vectors = np.concatenate(list(finder.vectors(texts, [each.spans for each in found])))
    queries = finder.source.queries(one.queries)[""]
    weights = _weights(found, cuts)
    tally = Tally(queries, (queries * vectors[rows]).sum(1), weights.shape[1])
    tally.count(vectors, weights)
    tally.tied -= weights[rows]  # the gold span itself
    tally.higher[weights[rows] == 0] = np.inf
    tally.tied[weights[rows] == 0] = 0
    return tally


def _with(found: _Candidates, spans: set[tuple[int, int]]) -> _Candidates:
    """With these spans too, as ones that no segmenter proposes."""
    having = set(map(tuple, found.spans.tolist()))
    more = sorted(spans - having)
    return _Candidates(
        np.concatenate([found.spans, np.array(more, np.int32).reshape(-1, 2)]),
        np.concatenate([found.scores, np.zeros(len(more), np.float32)]),
        np.concatenate([found.lengths, np.zeros(len(more), np.int64)]),
    )


def _count(finder: _Finder, tally: Tally, texts: Sequence[str], found: Sequence[_Candidates], cuts: Floats) -> None:
    weights, at = _weights(found, cuts), 0
    for vectors in finder.vectors(texts, [each.spans for each in found]):
        tally.count(vectors, weights[at : at + len(vectors)])
        at += len(vectors)


def _table(
    ranking: Ranking, sizes: Sequence[tuple[int, int]], learned: bool, seed: int
) -> tuple[Table, list[dict[str, Any]]]:
    """``ranking``: (queries, 2 x sizes)."""
    hits, there = ranking.hits(1), np.isfinite(ranking.higher)
    rows: list[tuple[Any, ...]] = []
    points: list[dict[str, Any]] = []
    for k, (words_, (wanted, having)) in enumerate(zip(SIZES, sizes, strict=True)):
        columns = {"ngram": (k, wanted), "learned": (k + len(SIZES), having)}
        row: list[Any] = [words_]
        for kind, (column, spans) in columns.items() if learned else [("ngram", columns["ngram"])]:
            row += [spans, float(there[:, column].mean()), bootstrap(hits[:, column], seed=seed)]
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
