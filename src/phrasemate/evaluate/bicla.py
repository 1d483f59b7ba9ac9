"""Evaluation of BiCLA (Glavaš and Vulić, ECIR 2019): rankers, ensembles and zero-shot transfer, with their tables.

The task is mate retrieval on sentence sets of several language pairs. Every sentence of the first language ranks all
sentences of the second, and its translation is the only right answer. MAP is the mean of the average precisions; p is
from the two-tailed paired t-test over them. The tables are computed from average precisions, a mapping test pair ->
system -> (n,).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from phrasemate.encode import Model, load_model
from phrasemate.errors import InputError, ReadError
from phrasemate.evaluate.data import digest
from phrasemate.evaluate.metrics import Ranking, check_numbers, t_test
from phrasemate.evaluate.report import Result, Table, make_folder, signature
from phrasemate.rank import agg, interpolate, numbered, qlm, run_of, tbt, weighted_sum, z_scores
from phrasemate.reranker import Attention, load_reranker, mates
from phrasemate.text.normalize import composed
from phrasemate.text.sentences import content_words, stop_words
from phrasemate.types import Progress, Run
from phrasemate.utils.arrays import Doubles, Floats
from phrasemate.utils.margin import csls
from phrasemate.vectors.word_vectors import WordVectors


class SentenceSet(NamedTuple):
    """Sentence set of a language pair (``pair``, such as de-en); query i and document i are translations."""

    pair: str
    queries: list[str]
    documents: list[str]
    paths: tuple[Path, Path]

    @property
    def languages(self) -> tuple[str, str]:
        """Return the languages of the queries and of the documents."""
        source, _, target = self.pair.partition("-")
        return source, target

    def candidates(self, scores: Floats) -> Floats:
        """Return the scores (n, n), with -inf for other documents with the mate's wording: they are not wrong answers.

        Wordings are compared in composed Unicode, so that it does not matter whether an accent is a separate character.
        """
        number = numbered(map(composed, self.documents))
        again = (number[:, None] == number) & ~np.eye(len(number), dtype=bool)
        return np.where(again, np.float32(-np.inf), scores)


def read_set(folder: Path, pair: str, first: int | None = None) -> SentenceSet:
    """Read PAIR.SOURCE and PAIR.TARGET of a folder, one sentence on each line, at most ``first`` lines (None: all).

    Raises InputError if a file is missing or the two differ in length, ReadError for an empty file, a blank line or a
    line that is not UTF-8.
    """
    paths = tuple(folder / f"{pair}.{language}" for language in pair.split("-"))
    if len(paths) != 2:
        raise InputError(f"pair {pair!r}; expected two languages such as de-en")
    queries, documents = (_lines(path) for path in paths)
    if len(queries) != len(documents):
        raise InputError(
            f"{paths[0]} has {len(queries)} lines and {paths[1].name} {len(documents)}; the numbers must be equal"
        )
    return SentenceSet(pair, queries[:first], documents[:first], (paths[0], paths[1]))


def _lines(path: Path) -> list[str]:
    try:
        lines = path.read_bytes().decode("utf-8-sig").split("\n")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; expected the sentences of one language, one per line") from error
    except UnicodeDecodeError as error:
        raise ReadError(str(path), 0, f"not UTF-8 ({error.reason})", "convert it to UTF-8") from error
    lines = [line.rstrip("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]
    blank = next((number for number, line in enumerate(lines, 1) if not line.strip()), 0)
    if blank:
        raise ReadError(str(path), blank, "a blank line", "expected one sentence per line")
    if not lines:
        raise ReadError(str(path), 0, "an empty file", "expected one sentence per line")
    return lines


def average_precisions(scores: Floats) -> Doubles:
    """Return (n,) average precisions of scores (n, n), where document i is the only right answer of query i.

    With one right answer, average precision is the reciprocal rank 1 / (rank + 1). If documents tie with the answer, it
    is the expected value in a random order. Raises InputError for NaN among the scores.
    """
    check_numbers(scores)
    gold = np.diag(scores)[:, None]
    higher, ties = (scores > gold).sum(1).astype(np.float64), (scores == gold).sum(1) - 1.0
    return Ranking(higher, ties).reciprocal()


def run_precisions(run: Run) -> Doubles:
    """Return (n,) average precisions of a run, by the order of its lists; 0 for a query whose list lacks the answer."""
    hits = run.ids == np.arange(len(run.ids))[:, None]
    precisions: Doubles = np.where(hits.any(1), 1 / (hits.argmax(1) + 1.0), 0.0)
    return precisions


Precisions = Mapping[str, Mapping[str, Doubles]]

LEVEL = 0.01  # significance level
UNTRAINED = ("QLM", "AGG", "TbT")
KINDS = ("source", "target", "full")
BY_SCORES = ", scores"  # suffix of the names of ensembles that interpolate scores instead of ranks
PAIRS = ("de-en", "cs-en", "hu-en", "cs-de", "hu-de", "cs-hu")
# MAP in Glavaš and Vulić 2019: table 2, and the best row of table 3.
PAPER = {
    "QLM": dict(zip(PAIRS, (0.303, 0.121, 0.141, 0.064, 0.054, 0.083), strict=True)),
    "AGG": dict(zip(PAIRS, (0.390, 0.547, 0.372, 0.374, 0.356, 0.378), strict=True)),
    "TbT": dict(zip(PAIRS, (0.490, 0.563, 0.357, 0.228, 0.142, 0.124), strict=True)),
    "InAtt": dict(zip(PAIRS, (0.506, 0.597, 0.462, 0.495, 0.422, 0.404), strict=True)),
    "BiCLA": dict(zip(PAIRS, (0.604, 0.665, 0.569, 0.562, 0.577, 0.575), strict=True)),
}
PAPER_BEST = dict(zip(PAIRS, (0.708, 0.859, 0.726, 0.697, 0.647, 0.708), strict=True))
_OTHERWISE = "Paper: the same test sets, but other word vectors and other training text."


def kind_of(trained: str, tested: str) -> str:
    """Return the kind of zero-shot transfer between two pairs.

    "source": only the source language differs; "target": only the target language differs; "full": both differ; "": the
    pairs are equal.
    """
    if trained == tested:
        return ""
    equal_source, equal_target = (a == b for a, b in zip(trained.split("-"), tested.split("-"), strict=True))
    return "target" if equal_source else "source" if equal_target else "full"


def ranker_tables(precisions: Precisions) -> list[Table]:
    """Return table 2 (MAP of each ranker), and the table of p against BiCLA."""
    pairs, rows = list(precisions), []
    for name in _systems(precisions):
        rows.append((name, *_maps(precisions, name)))
        if name in PAPER:
            rows.append((f"  paper's {name}", *_with_mean([PAPER[name].get(pair) for pair in pairs])))
    tables = [Table("rankers", "Table 2: rankers, MAP", ("ranker", *pairs, "mean"), tuple(rows), _OTHERWISE)]
    simple_rankers = [name for name in _systems(precisions) if name != "BiCLA"]
    if "BiCLA" in _systems(precisions) and simple_rankers:
        tests = tuple((name, *(_p(precisions[pair], "BiCLA", name) for pair in pairs)) for name in simple_rankers)
        note = "Two-tailed paired t-test over average precisions; worse: BiCLA has the lower MAP."
        tables.append(Table("rankers p", "p of BiCLA against the others", ("ranker", *pairs), tests, note))
    return tables


def ensemble_tables(precisions: Precisions, rankers: Precisions) -> list[Table]:
    """Return table 3 (MAP of each ensemble and the best of each pair), and tables of p of the best against BiCLA."""
    pairs = list(precisions)
    rows: list[tuple[Any, ...]] = [(name, *_maps(precisions, name)) for name in _systems(precisions)]
    best = {kind: _best_ensembles(precisions, kind) for kind in ("ranks", "scores")}
    rows.append(("BiCLA alone", *_maps({pair: rankers[pair] for pair in pairs}, "BiCLA")))
    for kind, names in best.items():
        rows.append((f"best of {kind}", *_with_mean([_map(precisions[pair], names[pair]) for pair in pairs])))
    rows.append(("  paper's best", *_with_mean([PAPER_BEST.get(pair) for pair in pairs])))
    note = f"Ranks or, where it says so, z-scores of each query's list, interpolated with these weights. {_OTHERWISE}"
    tables = [Table("ensembles", "Table 3: ensembles, MAP", ("ensemble", *pairs, "mean"), tuple(rows), note)]
    for kind, names in best.items():
        best_rows = []
        for pair, name in names.items():
            system, alone = precisions[pair][name], rankers[pair]["BiCLA"]
            best_rows.append((pair, name, float(system.mean()), float(alone.mean()), _format_p(system, alone)))
        header = ("pair", "ensemble", "MAP", "BiCLA", "p")
        tables.append(Table(f"best ensembles of {kind}", f"The best ensembles of {kind}", header, tuple(best_rows)))
    return tables


def _best_ensembles(precisions: Precisions, kind: str) -> dict[str, str]:
    """Return the name of the best ensemble of each pair; ``kind`` is "ranks" or "scores"."""
    parts = {
        pair: {name: value for name, value in item.items() if name.endswith(BY_SCORES) == (kind == "scores")}
        for pair, item in precisions.items()
    }
    return {pair: max(part, key=lambda name: float(part[name].mean())) for pair, part in parts.items() if part}


def transfer_tables(
    precisions: Precisions, with_agg: Mapping[str, Mapping[tuple[str, str], Doubles]], rankers: Precisions
) -> list[Table]:
    """Return tables 4 and 5 and a summary of each by kind of transfer.

    Table 4 has the MAP of every model on every pair, table 5 that of its ensembles with AGG.

    Args:
        precisions: Average precisions by test pair and pair that the model was trained on.
        with_agg: Average precisions of the ensembles with AGG, by test pair, then (trained pair, weights).
        rankers: Average precisions of the rankers, by test pair and name.
    """
    header, names = ("trained on", *precisions), _systems(precisions)
    note = "The diagonal is not transfer. Columns: tested on."

    def tables(name: str, title: str, kinds: str, part: Precisions) -> list[Table]:
        rows = tuple((model, *(_map(systems, model) for systems in part.values())) for model in names)
        return [Table(name, title, header, rows, note), _kinds(f"{name} kinds", kinds, part, rankers)]

    every = tables("zero-shot", "Table 4: zero-shot transfer, MAP", "Table 4 by kind of transfer", precisions)
    for weight in dict.fromkeys(key[1] for item in with_agg.values() for key in item):
        part = {pair: {name: with_agg[pair][name, weight] for name in systems} for pair, systems in precisions.items()}
        title = f"Table 5: zero-shot transfer, BiCLA + AGG {weight}, MAP"
        every += tables(f"zero-shot with AGG {weight}", title, f"The same by kind, {weight}", part)
    return every


def _kinds(name: str, title: str, precisions: Precisions, rankers: Precisions) -> Table:
    """Return a table with a row for each test pair.

    Its columns are the best ranker without training, the model trained on the pair itself, and mean and best of each
    kind of transfer.
    """
    rows = []
    for pair, systems in precisions.items():
        simple = _best_untrained(rankers[pair])
        row: list[Any] = [pair, simple, float(rankers[pair][simple].mean()), _map(systems, pair)]
        for kind in KINDS:
            values = [
                float(value.mean()) for trained_pair, value in systems.items() if kind_of(trained_pair, pair) == kind
            ]
            row += [float(np.mean(values)), max(values)] if values else [None, None]
        rows.append(tuple(row))
    columns = [column for kind in KINDS for column in (f"{kind}, mean", f"{kind}, best")]
    return Table(name, title, ("pair", "untrained", "its MAP", "supervised", *columns), tuple(rows))


def summary_table(rankers: Precisions, ensembles: Precisions, transfer: Precisions) -> Table:
    """Count in how many cases the paper's findings hold for these figures."""
    rows: list[tuple[str, int, int]] = []
    measured_pairs = [pair for pair in rankers if "BiCLA" in rankers[pair]]
    for name in (*UNTRAINED, "InAtt"):
        having = [pair for pair in measured_pairs if name in rankers[pair]]
        wins = [_better(rankers[pair]["BiCLA"], rankers[pair][name]) for pair in having]
        rows.append((f"BiCLA above {name}, p < {LEVEL}", sum(wins), len(wins)))
    for kind in ("ranks", "scores"):
        best = _best_ensembles(ensembles, kind)
        gains = [float((ensembles[pair][name] - rankers[pair]["BiCLA"]).mean()) > 0 for pair, name in best.items()]
        rows.append((f"best ensemble of {kind} above BiCLA", sum(gains), len(gains)))
    for kind in KINDS:
        above = [
            float(value.mean()) > float(rankers[pair][_best_untrained(rankers[pair])].mean())
            for pair, systems in transfer.items()
            for trained_pair, value in systems.items()
            if kind_of(trained_pair, pair) == kind
        ]
        rows.append((f"zero-shot, {kind}: above the best ranker without training", sum(above), len(above)))
    filled_rows = tuple(row for row in rows if row[2])
    return Table("summary", "What the paper finds, here", ("finding", "holds", "of"), filled_rows)


def _systems(precisions: Precisions) -> list[str]:
    return list(dict.fromkeys(name for item in precisions.values() for name in item))


def _maps(precisions: Precisions, name: str) -> list[float | None]:
    return _with_mean([_map(item, name) for item in precisions.values()])


def _map(systems: Mapping[str, Doubles], name: str) -> float | None:
    return float(systems[name].mean()) if name in systems else None


def _with_mean(values: Sequence[float | None]) -> list[float | None]:
    """Return the values and their mean; the mean is None if a value is missing."""
    numbers = [value for value in values if value is not None]
    return [*values, float(np.mean(numbers)) if len(numbers) == len(values) else None]


def _best_untrained(systems: Mapping[str, Doubles]) -> str:
    return max((name for name in UNTRAINED if name in systems), key=lambda name: float(systems[name].mean()))


def _p(systems: Mapping[str, Doubles], first: str, second: str) -> str | None:
    return _format_p(systems[first], systems[second]) if first in systems and second in systems else None


def _format_p(first: Doubles, second: Doubles) -> str:
    """Return p, followed by "worse" if the first system has the lower mean."""
    t, p = t_test(first, second)
    return (f"{p:.4f}" if p >= 0.0001 else "<.0001") + " worse" * (t < 0)


def _better(first: Doubles, second: Doubles) -> bool:
    t, p = t_test(first, second)
    return t > 0 and p < LEVEL


PARTS = ("rankers", "ensembles", "transfer")
SETS = Path("sentence_bench") / "europarl"
# Weights of the paper's ensembles of two and of three rankers; the first weight is BiCLA's.
TWO = ((0.5, 0.5), (0.7, 0.3), (0.9, 0.1))
THREE = ((0.3, 0.3, 0.3), (0.6, 0.2, 0.2), (0.8, 0.1, 0.1))
OTHERS = ("QLM", "AGG", "TbT", "InAtt")  # rankers that BiCLA is combined with

Sentences = Sequence[Floats]


class TrainedRanker(NamedTuple):
    """Trained model: its ``kind`` (BiCLA, InAtt), the ``pair`` it was trained on, and the ``hash`` of its folder.

    ``score`` returns the scores (queries, documents). It takes the word vectors (words, ``dim``) of each query and of
    each document, and a callback for progress (finished pairs, all pairs). ``vectors`` has the hash of the word vectors
    of each language that the model was trained with.
    """

    kind: str
    pair: str
    hash: str
    dim: int
    score: Callable[[Sentences, Sentences, Callable[[int, int], None]], Floats]
    vectors: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the BiCLA evaluation.

    Args:
        data: Folder that holds sentence_bench/europarl/PAIR.LANG.
        vectors: Folder of word vectors, one for each language.
        pairs: Language pairs to test on.
        parts: Parts to run, some of `PARTS`.
        bundled: Whether the bundled encoder is measured too.
        reranker: Folder of the re-ranker of the bundled encoder; None for the bundled re-ranker.
        first: Number of sentences of each set (0: all).
        threads: Threads of the encoder; None for the default.
        out: Folder for results and plots; None to write nothing.
    """

    data: Path
    vectors: Path
    pairs: tuple[str, ...] = PAIRS
    parts: tuple[str, ...] = PARTS
    bundled: bool = True
    reranker: Path | None = None
    first: int = 0
    threads: int | None = None
    out: Path | None = None


@dataclass(slots=True)
class Figures:
    """Average precisions (n,) of each system on each test pair.

    ``rankers`` and ``ensembles`` are test pair -> name -> (n,). ``transfer`` is test pair -> trained pair -> (n,).
    ``with_agg`` is test pair -> (trained pair, weights) -> (n,).
    """

    rankers: dict[str, dict[str, Doubles]] = field(default_factory=dict)
    ensembles: dict[str, dict[str, Doubles]] = field(default_factory=dict)
    transfer: dict[str, dict[str, Doubles]] = field(default_factory=dict)
    with_agg: dict[str, dict[tuple[str, str], Doubles]] = field(default_factory=dict)


def run(
    settings: Settings,
    trained: Sequence[TrainedRanker] = (),
    progress: Progress = lambda title, step, total: None,
) -> Result:
    """Run the parts of the evaluation on all sets; ``trained`` are the trained models.

    Raises InputError before anything is computed if something that is needed is missing.
    """
    if not settings.pairs:
        raise InputError("no language pair was given; expected pairs such as de-en")
    make_folder(settings.out)
    work = _Work(settings, trained, progress)
    figures = Figures()
    for group in work.sets:
        work.measure(group, figures)
    result = Result(tables=_tables(settings, figures))
    result.more = {"average precisions": _plain(figures)}
    result.signature = work.signature()
    result.write(settings.out, "bicla")
    return result


def _tables(settings: Settings, figures: Figures) -> list[Table]:
    tables = []
    if "rankers" in settings.parts:
        tables += ranker_tables(figures.rankers)
    if "ensembles" in settings.parts and any(figures.ensembles.values()):
        tables += ensemble_tables(figures.ensembles, figures.rankers)
    if "transfer" in settings.parts and any(figures.transfer.values()):
        tables += transfer_tables(figures.transfer, figures.with_agg, figures.rankers)
    table = summary_table(figures.rankers, figures.ensembles, figures.transfer)
    return [*tables, *([table] if table.rows else [])]


def _check_sets(settings: Settings) -> None:
    """Raise InputError if test sets are missing, naming them and those that exist."""
    folder = settings.data / SETS

    def is_there(pair: str) -> bool:
        return all((folder / f"{pair}.{language}").exists() for language in pair.split("-"))

    absent = [pair for pair in settings.pairs if pair.count("-") == 1 and not is_there(pair)]
    if absent:
        pairs_there = ", ".join(pair for pair in PAIRS if is_there(pair)) or "none"
        reason = f"{folder}: lacks the test sets {', '.join(absent)}; it has these sets of the paper: {pairs_there}"
        raise InputError(f"{reason}; choose with --pairs")


class _Work:
    """Sentence sets, and the systems that are measured on them: word vectors, trained rankers, the encoder."""

    def __init__(self, settings: Settings, trained: Sequence[TrainedRanker], progress: Progress) -> None:
        self._settings, self._progress = settings, progress
        _check_sets(settings)
        first = settings.first or None
        self.sets = [read_set(settings.data / SETS, pair, first) for pair in dict.fromkeys(settings.pairs)]
        self._trained = {(item.kind, item.pair): item for item in trained}
        if len(self._trained) < len(trained):
            names = [f"{item.kind} {item.pair}" for item in trained]
            twice = sorted({name for name in names if names.count(name) > 1})
            raise InputError(f"two trained folders for {', '.join(twice)}; give one for each kind and language pair")
        languages = dict.fromkeys(language for group in self.sets for language in group.languages)
        self._stop = {language: stop_words(language) for language in languages}
        self._vectors = {language: WordVectors.load(settings.vectors / language) for language in languages}
        self._check_widths()
        self._model: Model | None = load_model(None, settings.threads) if settings.bundled else None
        self._reranker = self._second_look()

    def _second_look(self) -> Attention | None:
        """Return the re-ranker of the bundled model, or None.

        The bundled re-ranker is used only if it was trained for the bundled model.
        """
        if self._model is None:
            return None
        reranker = load_reranker(self._settings.reranker)
        if self._settings.reranker is None and reranker.encoder != self._model.hash:
            return None
        return Attention(self._model, reranker)

    def _check_widths(self) -> None:
        """Raise InputError if word vectors and models do not all have the same number of dimensions."""
        dims = {f"vectors of {language}": space.dim for language, space in self._vectors.items()}
        dims |= {f"{kind} of {pair}": item.dim for (kind, pair), item in self._trained.items()}
        if len(set(dims.values())) > 1:
            widths = ", ".join(f"{name}: {dim}" for name, dim in dims.items())
            raise InputError(
                f"{self._settings.vectors}: different numbers of dimensions ({widths}); expected vectors of one space"
            )

    def measure(self, sentence_set: SentenceSet, figures: Figures) -> None:
        """Measure all systems on one set and add their average precisions to the figures."""
        pair, parts = sentence_set.pair, self._settings.parts
        sides = zip((sentence_set.queries, sentence_set.documents), sentence_set.languages, strict=True)
        words = [[content_words(text, self._stop[language]) for text in side] for side, language in sides]
        scores = (
            self._baselines(sentence_set, words)
            | self._trained_scores(sentence_set, words)
            | self._encoder(sentence_set)
        )
        scores = {name: sentence_set.candidates(values) for name, values in scores.items()}
        figures.rankers[pair] = {name: average_precisions(values) for name, values in scores.items()}
        figures.rankers[pair] |= self._rerank(sentence_set, scores)
        if "ensembles" in parts and "BiCLA" in scores:
            figures.ensembles[pair] = self._ensembles(pair, scores)
        if "transfer" in parts:
            self._transfer(sentence_set, words, scores, figures)

    def _baselines(self, sentence_set: SentenceSet, words: list[list[list[str]]]) -> dict[str, Floats]:
        queries, documents = words
        source, target = (self._vectors[language] for language in sentence_set.languages)
        self._progress(f"{sentence_set.pair}: QLM, AGG, TbT", 0, 1)
        return {
            "QLM": qlm(queries, documents),
            "AGG": agg(queries, documents, source, target),
            "TbT": tbt(queries, documents, source, target),
        }

    def _trained_scores(self, sentence_set: SentenceSet, words: list[list[list[str]]]) -> dict[str, Floats]:
        """Return the scores of the systems that were trained on this pair."""
        kinds = [kind for kind in ("InAtt", "BiCLA") if (kind, sentence_set.pair) in self._trained]
        return {kind: self._score(self._trained[kind, sentence_set.pair], sentence_set, words) for kind in kinds}

    def _score(self, ranker: TrainedRanker, sentence_set: SentenceSet, words: list[list[list[str]]]) -> Floats:
        sides = [
            [self._vectors[language].matrix[self._vectors[language].rows(sentence)] for sentence in side]
            for side, language in zip(words, sentence_set.languages, strict=True)
        ]
        title = f"{sentence_set.pair}: {ranker.kind} of {ranker.pair}"
        return ranker.score(sides[0], sides[1], lambda step, total: self._progress(title, step, total))

    def _encoder(self, sentence_set: SentenceSet) -> dict[str, Floats]:
        if self._model is None:
            return {}
        self._progress(f"{sentence_set.pair}: bundled encoder", 0, 1)
        queries, documents = map(self._model.encode_sentences, (sentence_set.queries, sentence_set.documents))
        cosines = queries @ documents.T
        return {"encoder": cosines, "encoder, CSLS": csls(cosines)}

    def _rerank(self, sentence_set: SentenceSet, scores: Mapping[str, Floats]) -> dict[str, Doubles]:
        """Return the average precisions of the encoder's lists whose first entries the re-ranker has reordered."""
        if self._reranker is None:
            return {}
        self._progress(f"{sentence_set.pair}: re-ranker", 0, 1)
        run = mates(self._reranker, scores["encoder"], sentence_set.queries, sentence_set.documents)
        return {"encoder, CSLS, re-ranker": run_precisions(run)}

    def _ensembles(self, pair: str, scores: Mapping[str, Floats]) -> dict[str, Doubles]:
        """Return the average precisions of BiCLA with one and with two other rankers.

        The ensembles interpolate ranks, as in the paper, or z-scores of the scores.
        """
        runs = {name: run_of(scores[name], name=name) for name in ("BiCLA", *OTHERS) if name in scores}
        rankers = list(runs)[1:]
        subsets: list[tuple[tuple[str, ...], tuple[float, ...]]] = []
        subsets += [(("BiCLA", ranker), weights) for ranker in rankers for weights in TWO]
        subsets += [(("BiCLA", *two), weights) for two in combinations(rankers, 2) for weights in THREE]
        normal = {name: z_scores(run) for name, run in runs.items()}
        by_ranks, by_scores = {}, {}
        for number, (names, weights) in enumerate(subsets):
            self._progress(f"{pair}: ensembles", number, len(subsets))
            label = f"{' + '.join(names)} {weighted(weights)}"
            by_ranks[label] = run_precisions(interpolate([runs[name] for name in names], weights))
            by_scores[label + BY_SCORES] = run_precisions(weighted_sum([normal[name] for name in names], weights))
        return by_ranks | by_scores

    def _transfer(
        self, sentence_set: SentenceSet, words: list[list[list[str]]], scores: Mapping[str, Floats], figures: Figures
    ) -> None:
        """Add the average precisions of BiCLA trained on every pair, alone and with AGG."""
        figures.transfer[sentence_set.pair], figures.with_agg[sentence_set.pair] = {}, {}
        simple = run_of(scores["AGG"])
        for (kind, pair), ranker in self._trained.items():
            if kind != "BiCLA":
                continue
            if "BiCLA" in scores and pair == sentence_set.pair:
                matrix = scores["BiCLA"]
            else:
                matrix = sentence_set.candidates(self._score(ranker, sentence_set, words))
            figures.transfer[sentence_set.pair][pair] = average_precisions(matrix)
            ranking = run_of(matrix)
            for weights in TWO:
                fusion = run_precisions(interpolate([ranking, simple], weights))
                figures.with_agg[sentence_set.pair][pair, weighted(weights)] = fusion

    def signature(self) -> dict[str, Any]:
        """Return the signature of the figures: data, word vectors, models, package versions."""
        facts: dict[str, Any] = {"data": digest([path for group in self.sets for path in group.paths])}
        facts["sentences"] = ",".join(str(len(group.queries)) for group in self.sets)
        facts["parts"] = ",".join(self._settings.parts)
        for language, space in self._vectors.items():
            facts[f"vectors {language}"] = f"{len(space)}x{space.dim} {str(space.facts.get('hash', ''))[:12]}"
        for (kind, pair), item in self._trained.items():
            facts[f"{kind} {pair}"] = item.hash[:12]
        if self._reranker is not None:
            facts["re-ranker"] = self._reranker.trained.hash[:12]
        return signature(self._model, **facts, **self._vector_warnings())

    def _vector_warnings(self) -> dict[str, str]:
        """Return a warning that lists the models trained with other word vectors than those used here."""
        hashes = {language: space.facts.get("hash") for language, space in self._vectors.items()}
        warnings = [
            f"{kind} {pair} ({language})"
            for (kind, pair), item in self._trained.items()
            for language, trained_pair in item.vectors.items()
            if language in hashes and trained_pair != hashes[language]
        ]
        return {"trained with other vectors": ", ".join(warnings)} if warnings else {}


def weighted(weights: Sequence[float]) -> str:
    """Format weights: (0.5, 0.5) becomes ".5/.5"."""
    return "/".join(f"{weight:g}".removeprefix("0") for weight in weights)


def _plain(figures: Figures) -> dict[str, Any]:
    """Return a mapping for JSON with every average precision, so that other tests can be computed later."""

    def rounded(scores: Mapping[Any, Doubles]) -> dict[str, list[float]]:
        return {
            " ".join(key) if isinstance(key, tuple) else key: np.round(value, 6).tolist()
            for key, value in scores.items()
        }

    groups = {"rankers": figures.rankers, "ensembles": figures.ensembles}
    groups |= {"transfer": figures.transfer, "transfer with AGG": figures.with_agg}  # type: ignore[dict-item]
    return {name: {pair: rounded(scores) for pair, scores in group.items()} for name, group in groups.items()}
