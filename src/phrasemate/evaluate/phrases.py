"""Contextual phrase retrieval (Li et al. 2024, CCPR, section 6.2, table 1) on the sets of phrase_bench.

Query: a marked phrase in its sentence. Candidates: every span of one to six white-space words that begins and ends in
a letter or digit, of all target sentences of its set (each sentence once) and of the distractor sentences, and the
gold spans. Exact search by dot product; right is the very gold span, not its wording elsewhere. Nothing is kept but the
number of spans that score higher than the gold one and of those that tie with it (within 2e-6, the rounding of
float32); measures are expected values over a random order of ties (see `Ranking`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import InputError, ReadError
from phrasemate.evaluate.data import LANGS, json_lines
from phrasemate.evaluate.distractors import Chunk, chunks, distractor_sentences, spans_of
from phrasemate.evaluate.metrics import Ranking, check_numbers
from phrasemate.evaluate.report import Table
from phrasemate.evaluate.significance import Estimate, bootstrap, randomisation_test, stratified
from phrasemate.evaluate.systems import Source
from phrasemate.types import Phrase

DISTRACTORS = 610_093  # spans of the first 12,000 sentences
PAPER = ("de", "cs", "ro")  # the languages of the paper's table, over which its mean is
EPSILON = 2e-6  # two ways to compute the same float32 dot product differ by less
COLUMNS = 8_192  # spans that are compared at once: 26 MB of scores for 800 queries
MEASURES: dict[str, Callable[[Ranking], NDArray[np.float64]]] = {
    "acc@1": lambda ranking: ranking.hits(1),
    "acc@10": lambda ranking: ranking.hits(10),
    "MRR": lambda ranking: ranking.reciprocal(),
}

Floats = NDArray[np.float32]
Progress = Callable[[str, int, int], None]


class PhraseSet(NamedTuple):
    """Queries of one language, the gold phrase of each, the candidates of their own sentences, and the gold's rows."""

    lang: str
    queries: list[Phrase]
    targets: Chunk
    gold: NDArray[np.int64]  # (queries,) rows among all spans of the targets


class Tally:
    """How many candidates beat, and how many tie with, each query's right answer; counted block by block.

    ``queries`` (q, dim) and ``own`` (q,), the score of the right answer. ``higher`` and ``tied`` are (q, columns): each
    column is a choice of the candidates (one column: all of them). Raises InputError for NaN, there and in candidates.
    """

    def __init__(self, queries: Floats, own: Floats, columns: int = 1) -> None:
        check_numbers(own)
        self.queries, self.own = queries, own.astype(np.float32)[:, None]
        self.higher, self.tied = np.zeros((len(queries), columns)), np.zeros((len(queries), columns))

    @classmethod
    def joined(cls, parts: Sequence[Tally]) -> Tally:
        """Tallies of several sets, one below another."""
        made = cls(np.concatenate([t.queries for t in parts]), np.concatenate([t.own[:, 0] for t in parts]))
        made.higher, made.tied = np.concatenate([t.higher for t in parts]), np.concatenate([t.tied for t in parts])
        return made

    def count(self, vectors: Floats, weights: Floats | None = None) -> None:
        """Compare (m, dim) candidates with the queries.

        ``weights`` (m,) or (m, columns): how many candidates each row stands for; None: one.
        """
        for at in range(0, len(vectors), COLUMNS):
            scores = self.queries @ vectors[at : at + COLUMNS].T  # (q, m)
            check_numbers(scores[:1])  # NaN in a candidate is in each of its scores
            above, level = scores > self.own + EPSILON, scores >= self.own - EPSILON
            if weights is None:
                higher = np.count_nonzero(above, axis=1)[:, None]
                upward = np.count_nonzero(level, axis=1)[:, None]
            else:
                part = weights[at : at + COLUMNS].reshape(scores.shape[1], -1)
                higher, upward = above.astype(np.float32) @ part, level.astype(np.float32) @ part
            self.higher += higher
            self.tied += upward - higher


@dataclass(frozen=True, slots=True)
class Figures:
    """System -> language -> ranking of its queries; and how many distractor spans and sentences there were."""

    rankings: dict[str, dict[str, Ranking]]
    spans: int
    sentences: int


def read_set(data: Path, lang: str) -> PhraseSet:
    """One set of phrase_bench. Raises InputError for no such file, ReadError for a line whose offsets mark nothing."""
    path = data / "phrase_bench" / f"{lang}-en.jsonl"
    rows = json_lines(path, ("source", "start", "end", "target", "target_start", "target_end"))
    queries, golds = [], []
    for number, row in enumerate(rows, 1):
        try:
            queries.append(_phrase(row["source"], row["start"], row["end"]))
            golds.append(_phrase(row["target"], row["target_start"], row["target_end"]))
        except InputError as error:
            raise ReadError(str(path), number, str(error), "restore the file") from error
    return PhraseSet(lang, queries, *_targets(golds))


def _phrase(text: Any, start: Any, end: Any) -> Phrase:
    if type(text) is not str or type(start) is not int or type(end) is not int:
        raise InputError(f"a phrase of {text!r:.40}, {start!r:.40} and {end!r:.40}; expected texts and whole numbers")
    return Phrase(text, start, end)


def rivals_of(data: Path, sets: Iterable[PhraseSet]) -> Iterator[str]:
    """The distractor sentences that are no target sentence, where a gold phrase would compete with itself."""
    own = {text.lower() for each in sets for text in each.targets.texts}
    return (text for text in distractor_sentences(data) if text not in own)


def _targets(golds: Sequence[Phrase]) -> tuple[Chunk, NDArray[np.int64]]:
    """The gold phrases' sentences, each once, with all their spans; and at which of these the gold ones are."""
    own: dict[str, set[tuple[int, int]]] = {}
    for gold in golds:
        own.setdefault(gold.context, set()).add((gold.start, gold.end))
    spans = {text: sorted({*map(tuple, spans_of(text).tolist()), *some}) for text, some in own.items()}
    flat = [(text, *span) for text, each in spans.items() for span in each]
    place = {span: number for number, span in enumerate(flat)}
    gold_rows = np.array([place[gold.context, gold.start, gold.end] for gold in golds], np.int64)
    return Chunk(list(own), [np.array(each, np.int32) for each in spans.values()]), gold_rows


def evaluate_phrases(
    sources: Sequence[Source],
    data: Path,
    distractors: int = DISTRACTORS,
    langs: Sequence[str] = LANGS,
    progress: Progress = lambda what, done, total: None,
) -> Figures:
    """Rank the gold spans of all sets by all systems.

    ``distractors``: as many spans at least, by whole sentences. The candidates of a set's own sentences count for that
    set only, distractors for all. Memory is bounded by a chunk of 1,000 sentences.
    """
    sets = [read_set(data, lang) for lang in langs]
    tallies: dict[str, Tally] = {}
    for source in sources:
        tallies |= _of_targets(source, sets, progress)
    spans = sentences = 0
    progress("distractors", 0, distractors)
    for chunk in chunks(rivals_of(data, sets), distractors) if distractors else ():
        for source in sources:
            for name, block in source.blocks(chunk.texts, chunk.spans):
                tallies[name].count(block.vectors, block.counts())
        spans, sentences = spans + sum(map(len, chunk.spans)), sentences + len(chunk.texts)
        progress("distractors", min(spans, distractors), distractors)
    return Figures({name: _rankings(tally, sets) for name, tally in tallies.items()}, spans, sentences)


def _of_targets(source: Source, sets: Sequence[PhraseSet], progress: Progress) -> dict[str, Tally]:
    """Tallies of a source's systems, all sets one below another, with the candidates of the sets' own sentences."""
    tallies: dict[str, list[Tally]] = {name: [] for name in source.names}
    for number, each in enumerate(sets):
        progress(f"queries of {', '.join(source.names)}", number, len(sets))
        asked, found = source.queries(each.queries), collect(source, each.targets)
        for name in source.names:
            tally = Tally(asked[name], (asked[name] * found[name][each.gold]).sum(1))
            tally.tied -= 1  # the gold span itself, which is among the candidates
            tally.count(found[name])
            tallies[name].append(tally)
    return {name: Tally.joined(parts) for name, parts in tallies.items()}


def collect(source: Source, chunk: Chunk) -> dict[str, Floats]:
    """System -> (spans, dim), all spans of a chunk."""
    found: dict[str, list[Floats]] = {name: [] for name in source.names}
    for name, block in source.blocks(chunk.texts, chunk.spans):
        found[name].append(block.expanded())
    return {name: np.concatenate(parts) for name, parts in found.items()}


def rows_of(sets: Iterable[PhraseSet]) -> list[slice]:
    """The rows of each set's queries, all sets one below another."""
    ends = np.cumsum([0, *(len(each.queries) for each in sets)]).tolist()
    return [slice(start, end) for start, end in pairwise(ends)]


def _rankings(tally: Tally, sets: Sequence[PhraseSet]) -> dict[str, Ranking]:
    return {
        each.lang: Ranking(tally.higher[rows, 0], tally.tied[rows, 0])
        for each, rows in zip(sets, rows_of(sets), strict=True)
    }


def phrase_tables(figures: Figures, against: str, seed: int = 0) -> list[Table]:
    """A table for each measure: each system's figure in each language with its 95 % interval, their means, and p.

    ``mean`` is of de, cs and ro as far as they are there, as in the paper; p is that of the randomisation test
    against the system ``against``, over the queries of all languages together.
    """
    tables = []
    langs = list(next(iter(figures.rankings.values())))
    paper = [lang for lang in langs if lang in PAPER] or langs
    for measure, score in MEASURES.items():
        scores = {name: {lang: score(r) for lang, r in each.items()} for name, each in figures.rankings.items()}
        rows: list[tuple[Any, ...]] = []
        for name, each in scores.items():
            cells: list[Estimate] = [bootstrap(each[lang], seed=seed) for lang in langs]
            mean = stratified([each[lang] for lang in paper], seed=seed)
            whole, other = (np.concatenate([s[lang] for lang in langs]) for s in (each, scores[against]))
            p = None if name == against else randomisation_test(whole, other, seed=seed)
            rows.append((name, *cells, mean, p))
        header = ("system", *langs, f"mean {' '.join(paper)}", "p")
        title = f"Phrase retrieval, {measure}, {figures.spans:,} distractor spans"
        note = f"[95 % bootstrap interval]; p: paired randomisation test against {against}, all languages together"
        tables.append(Table(f"phrases {measure}", title, header, tuple(rows), note))
    return tables
