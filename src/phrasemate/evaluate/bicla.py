"""The evaluation of BiCLA (Glavaš and Vulić, ECIR 2019) as one run: rankers, ensembles, zero-shot transfer.

Mate retrieval on sentence sets of several language pairs: every sentence of the first language ranks all sentences of
the second, and its own translation is the one answer. MAP is the mean of the average precisions, p is the two-tailed
paired t-test over them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasemate.baselines import agg, qlm, tbt
from phrasemate.encode import Model, load_model
from phrasemate.errors import InputError
from phrasemate.evaluate.bicla_tables import BY_SCORES, ensemble_tables, ranker_tables, summary_table, transfer_tables
from phrasemate.evaluate.data import digest
from phrasemate.evaluate.report import Result, Table, signature, write_json
from phrasemate.evaluate.sentences import SentenceSet, average_precisions, read_set, run_precisions
from phrasemate.rank import csls, interpolate, run_of, weighted_sum, z_scores
from phrasemate.reranker import Attention, load_reranker, mates
from phrasemate.text.stopwords import content_words, stop_words
from phrasemate.vectors.word_vectors import WordVectors

PAIRS = ("de-en", "cs-en", "hu-en", "cs-de", "hu-de", "cs-hu")
PARTS = ("rankers", "ensembles", "transfer")
SETS = Path("sentence_bench") / "europarl"
TWO = ((0.5, 0.5), (0.7, 0.3), (0.9, 0.1))  # weights of the paper's ensembles, the first for BiCLA
THREE = ((0.3, 0.3, 0.3), (0.6, 0.2, 0.2), (0.8, 0.1, 0.1))
OTHERS = ("QLM", "AGG", "TbT", "InAtt")  # that BiCLA is combined with

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Progress = Callable[[str, int, int], None]
Sentences = Sequence[Floats]


class TrainedRanker(NamedTuple):
    """A trained model: its ``kind`` (BiCLA, InAtt), the ``pair`` it was trained on, the ``hash`` of its folder.

    ``score`` takes the word vectors of queries and of documents, (words, ``dim``) a sentence, and a callback (pairs
    done, of all), and gives the (queries, documents) scores. ``vectors``: hashes of the vectors it was trained with.
    """

    kind: str
    pair: str
    hash: str
    dim: int
    score: Callable[[Sentences, Sentences, Callable[[int, int], None]], Floats]
    vectors: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Settings:
    """What to measure: ``data`` holds sentence_bench/europarl/PAIR.LANG, ``vectors`` a folder for each language.

    ``bundled``: rows of the model that comes with the package, one of them with the ``reranker`` of a folder (None:
    what comes with that model); ``first``: only so many sentences of each set (0: all).
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

    ``rankers`` [pair][name]; ``ensembles`` [pair][name]; ``transfer`` [pair][pair trained on], ``with_agg`` [pair]
    [(pair trained on, weights)].
    """

    rankers: dict[str, dict[str, Doubles]] = field(default_factory=dict)
    ensembles: dict[str, dict[str, Doubles]] = field(default_factory=dict)
    transfer: dict[str, dict[str, Doubles]] = field(default_factory=dict)
    with_agg: dict[str, dict[tuple[str, str], Doubles]] = field(default_factory=dict)


def run(
    settings: Settings,
    trained: Sequence[TrainedRanker] = (),
    progress: Progress = lambda what, done, total: None,
) -> Result:
    """Measure. Raises InputError before anything is computed where something that is needed is not there."""
    if not settings.pairs:
        raise InputError("no language pair; expected some such as de-en")
    if settings.out is not None:
        from phrasemate.evaluate.plots import need_matplotlib

        need_matplotlib()
        settings.out.mkdir(parents=True, exist_ok=True)
    work = _Work(settings, trained, progress)
    figures = Figures()
    for each in work.sets:
        work.measure(each, figures)
    result = Result(tables=_tables(settings, figures))
    result.more = {"average precisions": _plain(figures)}
    result.signature = work.signature()
    if settings.out is not None:
        from phrasemate.evaluate.plots import draw

        path = settings.out / "bicla.json"
        write_json(path, result.tables, result.signature, result.more)
        result.written = [path, *draw(result.as_dict(), settings.out, "bicla")]
    return result


def _tables(settings: Settings, figures: Figures) -> list[Table]:
    found = []
    if "rankers" in settings.parts:
        found += ranker_tables(figures.rankers)
    if "ensembles" in settings.parts and any(figures.ensembles.values()):
        found += ensemble_tables(figures.ensembles, figures.rankers)
    if "transfer" in settings.parts and any(figures.transfer.values()):
        found += transfer_tables(figures.transfer, figures.with_agg, figures.rankers)
    table = summary_table(figures.rankers, figures.ensembles, figures.transfer)
    return [*found, *([table] if table.rows else [])]


def _check_sets(settings: Settings) -> None:
    """Raises InputError that names the test sets that are not there, and those that are."""
    folder = settings.data / SETS

    def is_there(pair: str) -> bool:
        return all((folder / f"{pair}.{language}").exists() for language in pair.split("-"))

    absent = [pair for pair in settings.pairs if pair.count("-") == 1 and not is_there(pair)]
    if absent:
        others = ", ".join(pair for pair in PAIRS if is_there(pair)) or "none"
        reason = f"{folder}: lacks the test sets {', '.join(absent)}; those of the paper that are there: {others}"
        raise InputError(f"{reason}; choose with --pairs")


class _Work:
    """What the sets are measured with: word vectors, trained rankers, the encoder."""

    def __init__(self, settings: Settings, trained: Sequence[TrainedRanker], progress: Progress) -> None:
        self._settings, self._progress = settings, progress
        _check_sets(settings)
        self.sets = [self._cut(read_set(settings.data / SETS, pair)) for pair in dict.fromkeys(settings.pairs)]
        self._trained = {(each.kind, each.pair): each for each in trained}
        if len(self._trained) < len(trained):
            names = [f"{each.kind} {each.pair}" for each in trained]
            twice = sorted({name for name in names if names.count(name) > 1})
            raise InputError(f"two trained folders for {', '.join(twice)}; give one for each kind and language pair")
        languages = dict.fromkeys(language for each in self.sets for language in each.languages)
        self._stop = {language: stop_words(language) for language in languages}
        self._vectors = {language: WordVectors.load(settings.vectors / language) for language in languages}
        self._check_widths()
        self._model: Model | None = load_model(None, settings.threads) if settings.bundled else None
        self._reranker = self._second_look()

    def _cut(self, whole: SentenceSet) -> SentenceSet:
        first = self._settings.first or None
        return whole._replace(queries=whole.queries[:first], documents=whole.documents[:first])

    def _second_look(self) -> Attention | None:
        """The re-ranker; of those that come with the package, only one that belongs to the model."""
        if self._model is None:
            return None
        trained = load_reranker(self._settings.reranker)
        if self._settings.reranker is None and trained.encoder != self._model.hash:
            return None
        return Attention(self._model, trained)

    def _check_widths(self) -> None:
        """Raises InputError where two languages, or a model and its vectors, cannot be of one space."""
        dims = {f"vectors of {language}": space.dim for language, space in self._vectors.items()}
        dims |= {f"{kind} of {pair}": each.dim for (kind, pair), each in self._trained.items()}
        if len(set(dims.values())) > 1:
            told = ", ".join(f"{name}: {dim}" for name, dim in dims.items())
            raise InputError(f"{self._settings.vectors}: not all of one width ({told}); expected vectors of one space")

    def measure(self, each: SentenceSet, figures: Figures) -> None:
        """All systems on one set."""
        pair, parts = each.pair, self._settings.parts
        words = [
            [content_words(text, self._stop[language]) for text in side]
            for side, language in zip((each.queries, each.documents), each.languages, strict=True)
        ]
        scores = self._baselines(each, words) | self._learnt(each, words) | self._encoder(each)
        scores = {name: each.candidates(found) for name, found in scores.items()}
        figures.rankers[pair] = {name: average_precisions(found) for name, found in scores.items()}
        figures.rankers[pair] |= self._reranked(each, scores)
        if "ensembles" in parts and "BiCLA" in scores:
            figures.ensembles[pair] = self._ensembles(pair, scores)
        if "transfer" in parts:
            self._transfer(each, words, scores, figures)

    def _baselines(self, each: SentenceSet, words: list[list[list[str]]]) -> dict[str, Floats]:
        queries, documents = words
        source, target = (self._vectors[language] for language in each.languages)
        self._progress(f"{each.pair}: QLM, AGG, TbT", 0, 1)
        return {
            "QLM": qlm(queries, documents),
            "AGG": agg(queries, documents, source, target),
            "TbT": tbt(queries, documents, source, target),
        }

    def _learnt(self, each: SentenceSet, words: list[list[list[str]]]) -> dict[str, Floats]:
        """Those that were trained on the pair itself."""
        kinds = [kind for kind in ("InAtt", "BiCLA") if (kind, each.pair) in self._trained]
        return {kind: self._scored(self._trained[kind, each.pair], each, words) for kind in kinds}

    def _scored(self, ranker: TrainedRanker, each: SentenceSet, words: list[list[list[str]]]) -> Floats:
        sides = [
            [self._vectors[language].matrix[self._vectors[language].rows(sentence)] for sentence in side]
            for side, language in zip(words, each.languages, strict=True)
        ]
        what = f"{each.pair}: {ranker.kind} of {ranker.pair}"
        return ranker.score(sides[0], sides[1], lambda done, total: self._progress(what, done, total))

    def _encoder(self, each: SentenceSet) -> dict[str, Floats]:
        if self._model is None:
            return {}
        self._progress(f"{each.pair}: bundled encoder", 0, 1)
        queries, documents = (self._model.encode_sentences(side) for side in (each.queries, each.documents))
        cosines = queries @ documents.T
        return {"encoder": cosines, "encoder, CSLS": csls(cosines)}

    def _reranked(self, each: SentenceSet, scores: Mapping[str, Floats]) -> dict[str, Doubles]:
        """The first of the encoder's lists, put in another order."""
        if self._reranker is None:
            return {}
        self._progress(f"{each.pair}: re-ranker", 0, 1)
        run = mates(self._reranker, scores["encoder"], each.queries, each.documents)
        return {"encoder, CSLS, re-ranker": run_precisions(run)}

    def _ensembles(self, pair: str, scores: Mapping[str, Floats]) -> dict[str, Doubles]:
        """BiCLA with one and with two of the others: by interpolation of ranks, as in the paper, and of z-scores."""
        runs = {name: run_of(scores[name], name=name) for name in ("BiCLA", *OTHERS) if name in scores}
        others = list(runs)[1:]
        wanted: list[tuple[tuple[str, ...], tuple[float, ...]]] = []
        wanted += [(("BiCLA", other), weights) for other in others for weights in TWO]
        wanted += [(("BiCLA", *both), weights) for both in combinations(others, 2) for weights in THREE]
        normal = {name: z_scores(run) for name, run in runs.items()}
        by_ranks, by_scores = {}, {}
        for number, (names, weights) in enumerate(wanted):
            self._progress(f"{pair}: ensembles", number, len(wanted))
            told = f"{' + '.join(names)} {weighted(weights)}"
            by_ranks[told] = run_precisions(interpolate([runs[name] for name in names], weights))
            by_scores[told + BY_SCORES] = run_precisions(weighted_sum([normal[name] for name in names], weights))
        return by_ranks | by_scores

    def _transfer(
        self, each: SentenceSet, words: list[list[list[str]]], scores: Mapping[str, Floats], figures: Figures
    ) -> None:
        """BiCLA trained on every pair, alone and with AGG."""
        figures.transfer[each.pair], figures.with_agg[each.pair] = {}, {}
        simple = run_of(scores["AGG"])
        for (kind, pair), ranker in self._trained.items():
            if kind != "BiCLA":
                continue
            known = "BiCLA" in scores and pair == each.pair
            found = scores["BiCLA"] if known else each.candidates(self._scored(ranker, each, words))
            figures.transfer[each.pair][pair] = average_precisions(found)
            own = run_of(found)
            for weights in TWO:
                fused = run_precisions(interpolate([own, simple], weights))
                figures.with_agg[each.pair][pair, weighted(weights)] = fused

    def signature(self) -> dict[str, Any]:
        """How the figures were made."""
        facts: dict[str, Any] = {"data": digest([path for each in self.sets for path in each.paths])}
        facts["sentences"] = ",".join(str(len(each.queries)) for each in self.sets)
        facts["parts"] = ",".join(self._settings.parts)
        for language, space in self._vectors.items():
            facts[f"vectors {language}"] = f"{len(space)}x{space.dim} {str(space.facts.get('hash', ''))[:12]}"
        for (kind, pair), each in self._trained.items():
            facts[f"{kind} {pair}"] = each.hash[:12]
        if self._reranker is not None:
            facts["re-ranker"] = self._reranker.trained.hash[:12]
        return signature(self._model, **facts, **self._strangers())

    def _strangers(self) -> dict[str, str]:
        """What was trained with other vectors than those that it is measured with."""
        now = {language: space.facts.get("hash") for language, space in self._vectors.items()}
        found = [
            f"{kind} {pair} ({language})"
            for (kind, pair), each in self._trained.items()
            for language, known in each.vectors.items()
            if language in now and known != now[language]
        ]
        return {"trained with other vectors": ", ".join(found)} if found else {}


def weighted(weights: Sequence[float]) -> str:
    """(0.5, 0.5) -> ".5/.5"."""
    return "/".join(f"{weight:g}".removeprefix("0") for weight in weights)


def _plain(figures: Figures) -> dict[str, Any]:
    """For JSON: every average precision, so that any other test can be made."""

    def rounded(found: Mapping[Any, Doubles]) -> dict[str, list[float]]:
        return {
            " ".join(key) if isinstance(key, tuple) else key: np.round(value, 6).tolist()
            for key, value in found.items()
        }

    groups = {"rankers": figures.rankers, "ensembles": figures.ensembles}
    groups |= {"transfer": figures.transfer, "transfer with AGG": figures.with_agg}  # type: ignore[dict-item]
    return {name: {pair: rounded(found) for pair, found in group.items()} for name, group in groups.items()}
