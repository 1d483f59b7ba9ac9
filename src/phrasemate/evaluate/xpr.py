"""The evaluation of XPR (Zheng et al. 2022) on a data set of its form: acc@1 in both directions, by setting.

A query is a phrase of the test part; the candidates are the phrases of the other side of the test part. Vectors are
compared by cosine (eq. 5), or by CSLS where a row says so. Candidates that mean the same by the data set's own word are
no wrong answers: those whose pair shares a wording with the query's pair on either side. Figures of several seeds, and
of both directions of a phrase pair, are averaged before they are tested: they stand and fall together. p is of the
paired randomisation test over all phrase pairs of all language pairs, against the table's first row.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phrasemate.dataset import ExamplePair, language_pairs, read
from phrasemate.encode import Model, load_model
from phrasemate.encode.example_pooling import by_examples
from phrasemate.encode.pooling import unit
from phrasemate.errors import InputError, ReadError
from phrasemate.evaluate.data import digest, languages, name_of
from phrasemate.evaluate.metrics import Ranking, check_numbers
from phrasemate.evaluate.report import Named, Result, Table, signature, write_json
from phrasemate.evaluate.significance import check_seed, randomisation_test, stratified
from phrasemate.evaluate.xpr_rows import BUNDLED, LISTED, Row, read_rows
from phrasemate.rank import csls, numbered
from phrasemate.text.normalize import composed
from phrasemate.text.text_file import numbered_lines
from phrasemate.types import Phrase
from phrasemate.vectors import WordVectors, procrustes, tokens

TRAINING = "train"  # the part that a mapping is learnt from
EPSILON = 2e-6  # two ways to compute the same float32 dot product differ by less

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Progress = Callable[[str, int, int], None]
Sides = tuple[Floats, Floats]
Scores = dict[str, Doubles]  # pair -> (phrase pairs,): the chance that its two queries find each other first, mean


@dataclass(frozen=True, slots=True)
class Settings:
    """``rows``: a file as `read_rows` has it, its folders relative to it; ``data``: a data set's folder; ``split``: the
    part to measure on, or several joined by ``+``; ``most``: so many phrase pairs of each of these parts, and of the
    training part for a mapping (0: all); ``only``: tables to make; ``without``: files of phrase pairs that are not
    asked, because a model has been trained on them (they stay candidates).
    """

    rows: Path
    data: Path
    split: str = "test"
    most: int = 0
    only: tuple[str, ...] = ()
    threads: int | None = None
    seed: int = 0
    out: Path | None = None
    without: tuple[Path, ...] = ()


def run(settings: Settings, progress: Progress = lambda what, done, total: None) -> Result:
    """Measure every row. Raises InputError, before anything is computed, for rows or data that are not there."""
    check_seed(settings.seed)
    rows = [row for row in read_rows(settings.rows) if not settings.only or row.table in settings.only]
    unknown = sorted(set(settings.only) - {row.table for row in rows})
    if unknown or not rows:
        raise InputError(f"{settings.rows}: no table {', '.join(unknown)}; leave --only out to have all")
    pairs = language_pairs(settings.data)
    if not pairs:
        raise InputError(f"{settings.data}: no data set; expected folders such as de-en with train, dev, test.jsonl")
    for row in rows:
        if row.table in pairs:  # two columns of one name
            raise InputError(f"{settings.rows}: a table is named {row.table!r}, as a language pair is; give it another")
    _check_folders(rows, pairs, settings.rows.parent)
    measured = _Measured(settings, pairs)
    for pair in dict.fromkeys(pair for row in rows for pair in row.pairs or pairs):
        measured.questions(pair)
    mapped = sorted({pair for row in rows if row.mapped for pair in row.pairs or pairs})
    for pair in mapped:
        measured.lessons(pair)
    if settings.out is not None:
        from phrasemate.evaluate.plots import need_matplotlib

        need_matplotlib()
        settings.out.mkdir(parents=True, exist_ok=True)
    scores = evaluate_rows(rows, measured, progress)
    result = Result([_table(name, rows, scores, settings.seed) for name in dict.fromkeys(row.table for row in rows)])
    result.more = {f"by {what}": _curve(rows, scores, what) for what in LISTED}
    facts: dict[str, Any] = {
        "data": f"{name_of(settings.data)} {measured.digest()}",
        "split": settings.split,
        "most": settings.most,
        "seed": settings.seed,
    }
    if mapped:
        facts["training"] = digest(settings.data / pair / f"{TRAINING}.jsonl" for pair in mapped)
    if measured.spaces:  # one hash over all: there may be dozens
        every = " ".join(measured.spaces[folder] for folder in sorted(measured.spaces))
        facts["word_vectors"] = f"{sha256(every.encode()).hexdigest()[:12]} ({len(measured.spaces)} folders)"
    if settings.without:
        facts["not_asked"] = {pair: int((~asked).sum()) for pair, asked in sorted(measured.asked.items())}
    result.signature = signature(measured.models, **facts)
    if settings.out is not None:
        from phrasemate.evaluate.plots import draw

        path = settings.out / "xpr.json"
        write_json(path, result.tables, result.signature, result.more)
        result.written = [path, *draw(result.as_dict(), settings.out, "xpr")]
    return result


def _check_folders(rows: Sequence[Row], pairs: Sequence[str], base: Path) -> None:
    """InputError for the first folder that is not there: hours may lie between it and the first row."""
    for row in rows:
        for pair in row.pairs or pairs:
            for lang in languages(pair) if row.vectors else [""]:
                for seed in row.seeds:
                    folder = row.folder(base, pair, seed, lang)
                    if folder is not None and not folder.is_dir():
                        made = "word vectors made by phrasemate vectors" if row.vectors else "a model folder"
                        raise InputError(f"{folder}: no such folder; row {row.name!r} expects {made}")


class _Measured:
    """The data set and the models, each read once."""

    def __init__(self, settings: Settings, pairs: Sequence[str]) -> None:
        self.settings, self.pairs, self.models = settings, list(pairs), dict[str, Named]()
        self._data: dict[tuple[str, str], list[ExamplePair]] = {}
        self._loaded: tuple[Path | None, Model] | None = None
        self._without = frozenset(each for path in settings.without for each in phrase_pairs(path))
        self.asked: dict[str, NDArray[np.bool_]] = {}
        self.spaces: dict[str, str] = {}  # hashes of word vectors, by their folders

    def data(self, pair: str, split: str) -> list[ExamplePair]:
        if (pair, split) not in self._data:
            most = self.settings.most or None
            parts = [read(self.settings.data, pair, part)[:most] for part in split.split("+")]
            self._data[pair, split] = [each for part in parts for each in part]
        return self._data[pair, split]

    def questions(self, pair: str) -> NDArray[np.bool_]:
        """(n,): the phrase pairs of the test part that are asked. Raises InputError where none is left."""
        if pair not in self.asked:
            test = self.data(pair, self.settings.split)
            if not test:
                raise InputError(f"{self.settings.data}, {pair}: no phrase pairs in its part {self.settings.split}")
            wordings = ((_folded(each.source), _folded(each.target)) for each in test)
            found = np.array([each not in self._without for each in wordings], np.bool_)
            if not found.any():
                raise InputError(f"{pair}: all {len(test)} phrase pairs are among those that are not to be asked")
            self.asked[pair] = found
        return self.asked[pair]

    def lessons(self, pair: str) -> list[ExamplePair]:
        """The phrase pairs that a mapping is learnt from. Raises InputError where there are none."""
        found = self.data(pair, TRAINING)
        if not found:
            raise InputError(f"{self.settings.data}, {pair}: no phrase pairs in its part {TRAINING} to learn a mapping")
        return found

    def model(self, folder: Path | None) -> Model:
        """The model of a folder; only the latest stays in memory."""
        if self._loaded is None or self._loaded[0] != folder:
            self._loaded = None  # before the next one comes
            model = load_model(folder, self.settings.threads)
            self._loaded = folder, model
            self.models[self._named(folder)] = Named(model.name, model.hash)
        return self._loaded[1]

    def _named(self, folder: Path | None) -> str:
        """As ROWS has it: the last part alone may be the same for all."""
        base = self.settings.rows.parent
        if folder is None:
            return BUNDLED
        return str(folder.relative_to(base) if folder.is_relative_to(base) else folder)

    def digest(self) -> str:
        """Of the files that the phrase pairs come from."""
        parts = self.settings.split.split("+")
        return digest(self.settings.data / pair / f"{part}.jsonl" for pair in sorted(self.asked) for part in parts)

    def words(self, folder: Path) -> WordVectors:
        """The word vectors of a folder."""
        space = WordVectors.load(str(folder))
        self.spaces[str(folder)] = str(space.facts["hash"])
        return space


def evaluate_rows(rows: Sequence[Row], measured: Any, progress: Progress) -> dict[tuple[str, str], Scores]:
    """(table, name) -> pair -> each phrase pair's chance to be found first, mean of both directions and of seeds."""
    jobs = [(row, pair) for row in rows for pair in row.pairs or measured.pairs]
    found: dict[tuple[str, str], Scores] = {(row.table, row.name): {} for row in rows}
    once: dict[tuple[object, ...], Sides] = {}  # many tables hold the same system
    for done, (row, pair) in enumerate(jobs):
        progress(f"{row.table}: {row.name} {pair}", done, len(jobs))
        test = measured.data(pair, measured.settings.split)
        chances = []
        for seed in row.seeds:
            system = pair, *row.system(measured.settings.rows.parent, pair, seed)
            if system not in once:
                once[system] = _vectors(row, pair, seed, measured)
            asked = measured.questions(pair)
            chances.append(np.mean(_chances(once[system], test, row.csls), axis=0)[asked])
        found[row.table, row.name][pair] = np.mean(chances, axis=0)
    return found


def rank_mates(queries: Floats, candidates: Floats, rivals: NDArray[np.bool_], neighbours: int = 0) -> Ranking:
    """Where candidate i stands for query i, among those j that are ``rivals`` (i, j) of it; vectors of unit length.

    By cosine, or with ``neighbours`` by cross-domain similarity local scaling (`phrasemate.rank.csls`). A query without
    a vector (zeros) finds nothing. Raises InputError for NaN.
    """
    scores = queries @ candidates.T
    check_numbers(scores)
    if neighbours:
        scores = csls(scores, neighbours)
    own = scores.diagonal()[:, None]
    higher = (rivals & (scores > own + EPSILON)).sum(1).astype(np.float64)
    tied = (rivals & (np.abs(scores - own) <= EPSILON)).sum(1).astype(np.float64)
    return Ranking(np.where(queries.any(1) & candidates.any(1), higher, np.inf), tied)


def _chances(sides: Sides, pairs: Sequence[ExamplePair], neighbours: int = 0) -> tuple[Doubles, Doubles]:
    rivals = _rivals(pairs)
    found = rank_mates(*sides, rivals, neighbours), rank_mates(*sides[::-1], rivals.T, neighbours)
    return found[0].hits(1), found[1].hits(1)


def phrase_pairs(path: Path) -> Iterator[tuple[str, str]]:
    """The wordings of a file's phrase pairs, as they are compared: JSON lines with ``source`` and ``target``.

    Raises ReadError for another line.
    """
    for number, line in numbered_lines(path):
        try:
            entry = json.loads(line)
            found = _folded(entry["source"]), _folded(entry["target"])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            reason = f"not phrase pairs ({type(error).__name__}: {error})"
            raise ReadError(str(path), number, reason, "expected JSON lines with source and target") from error
        yield found


def _folded(text: str) -> str:
    """Whatever the case, and whether accents are characters of their own."""
    return composed(text).casefold()


def _rivals(pairs: Sequence[ExamplePair]) -> NDArray[np.bool_]:
    """(n, n): whether pair j has neither wording of pair i."""
    same = np.zeros((len(pairs), len(pairs)), np.bool_)
    for side in ([pair.source for pair in pairs], [pair.target for pair in pairs]):
        numbers = numbered(map(_folded, side))
        same |= numbers[:, None] == numbers[None, :]
    return ~same


def _vectors(row: Row, pair: str, seed: int, measured: Any) -> Sides:
    """The vectors of both sides of the test part, (n, dim) each."""
    base = measured.settings.rows.parent

    def of(pairs: Sequence[ExamplePair]) -> Sides:
        if row.vectors:
            spaces = [measured.words(row.folder(base, pair, seed, lang)) for lang in languages(pair)]
            texts = [[each.source for each in pairs], [each.target for each in pairs]]
            return _means(spaces[0], texts[0]), _means(spaces[1], texts[1])
        return _encoded(measured.model(row.folder(base, pair, seed)), row, pairs)

    test = of(measured.data(pair, measured.settings.split))
    if not row.mapped:
        return test
    source, target = of(measured.lessons(pair))
    known = source.any(1) & target.any(1)
    return unit(test[0] @ procrustes(source[known], target[known])), test[1]


def _encoded(model: Model, row: Row, pairs: Sequence[ExamplePair]) -> Sides:
    def side(phrases: list[str], examples: list[Sequence[Phrase]]) -> Floats:
        return by_examples(model, phrases, examples, row.pooling, row.layer or None, row.bare)[0]

    return (
        side([each.source for each in pairs], [each.source_examples[: row.examples] for each in pairs]),
        side([each.target for each in pairs], [each.target_examples[: row.examples] for each in pairs]),
    )


def _means(space: WordVectors, phrases: Sequence[str]) -> Floats:
    """(phrases, dim): the mean of the vectors of a phrase's words at unit length; zeros where none is known."""
    vectors = np.zeros((len(phrases), space.dim), np.float32)
    for number, phrase in enumerate(phrases):
        rows = space.rows(token.word for token in tokens(phrase))
        if len(rows):
            vectors[number] = space.matrix[rows].mean(0)
    return unit(vectors)


def _table(name: str, rows: Sequence[Row], scores: dict[tuple[str, str], Scores], seed: int) -> Table:
    own = [row for row in rows if row.table == name]
    pairs = list(dict.fromkeys(pair for row in own for pair in scores[name, row.name]))
    cells = []
    for row in own:
        found = scores[name, row.name]
        values = [float(found[pair].mean()) if pair in found else None for pair in pairs]
        mean = stratified(list(found.values()), seed=seed)
        cells.append((row.name, *values, mean, None if row is own[0] else _p(scores[name, own[0].name], found)))
    note = f"acc@1, mean of both directions; p against {own[0].name}, over the pairs that both have"
    return Table(name, name, (name, *pairs, "mean", "p"), tuple(cells), note)


def _p(first: Scores, second: Scores) -> float:
    shared = [pair for pair in first if pair in second]
    if not shared:
        return 1.0
    return randomisation_test(
        np.concatenate([first[pair] for pair in shared]), np.concatenate([second[pair] for pair in shared])
    )


def _curve(rows: Sequence[Row], scores: dict[tuple[str, str], Scores], what: str) -> list[dict[str, Any]]:
    """The points of what a row gave as a list: its value and acc@1, the mean over pairs."""
    points = []
    for row in rows:
        before, listed, after = row.name.partition(f", {what} {getattr(row, what)}")
        if listed:
            name = before + after
            mean = float(np.mean([each.mean() for each in scores[row.table, row.name].values()]))
            points.append({"row": f"{row.table}: {name}", "value": getattr(row, what), "acc@1": mean})
    return points
