"""Evaluation of XPR (Zheng et al. 2022) on a data set of its form: acc@1 in both directions, for a list of settings.

The settings are the rows of a TOML file::

    [[row]]
    table = "supervised"            # the rows of a table are compared with its first row
    name = "XPR"
    model = "models/xpr-{pair}-{seed}"   # a model folder or "bundled"; {pair} and {seed} are filled in
    pooling = "head"                # mean, ends, cls, head, or several: "mean+head" (default: mean)
    examples = 32                   # most example sentences of a phrase; 0: the bare phrase
    bare = 0.5                      # weight of the bare phrase beside its examples (default: 0.0, as in the paper)
    layer = 8                       # default: the last
    csls = 2                        # neighbours of CSLS instead of the cosine (default: 0, the cosine)
    seeds = [0, 1, 2]
    pairs = ["de-en"]               # default: every pair of the data set

    [[row]]
    table = "supervised"
    name = "CLWE"
    vectors = "vectors/{lang}"      # folders of word vectors instead of a model; a phrase is the mean of its words
    mapped = true                   # whether an orthogonal mapping is learnt on the training pairs
    mapped_on = ["zh-en"]           # language pairs it is learnt on (default: the tested pair)

With other pairs than the tested one, ``mapped_on`` measures zero-shot transfer; with all pairs, a multilingual mapping.
A list in ``examples`` or ``layer`` stands for a row with each of its values.

A query is a phrase of the test part; the candidates are the phrases of the test part in the other language. Vectors are
compared by cosine (eq. 5), or by CSLS if the row says so. A candidate is not a wrong answer if its pair shares a
wording with the query's pair on either side: it then means the same.

Intervals cover the choice of phrases and the choice of seeds. Both directions of a phrase pair are averaged, and a
phrase of the second language is drawn together in all language pairs that have it, because these are not independent.
The spread of the means of the seeds is added (`phrasemate.evaluate.metrics.over_runs`). "difference" is the difference
to the table's first row, over the language pairs of both rows, with such an interval. Two rows with equal numbers of
seeds are compared seed by seed. p is that of the paired randomisation test over the phrases, on the means of the seeds:
it does not cover other seeds.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from hashlib import sha256
from itertools import compress
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phrasemate.dataset import ExamplePair, language_pairs, read_dataset
from phrasemate.encode import Model, load_model
from phrasemate.encode.pooling import POOLINGS, by_examples, unit
from phrasemate.errors import InputError, ReadError, line_fault
from phrasemate.evaluate.data import digest, languages, name_of
from phrasemate.evaluate.metrics import Estimate, Ranking, check_numbers, check_seed, over_runs, randomisation_test
from phrasemate.evaluate.report import ModelDescription, Result, Table, make_folder, signature
from phrasemate.rank import numbered
from phrasemate.text.normalize import composed
from phrasemate.text.text_file import numbered_lines
from phrasemate.types import Phrase, Progress
from phrasemate.utils.arrays import Doubles, Floats
from phrasemate.utils.margin import csls
from phrasemate.vectors import WordVectors, procrustes, tokens

BUNDLED = "bundled"
LISTED = ("examples", "layer")  # keys of a row that may have a list of values
RESERVED = ("signature", *(f"by {key}" for key in LISTED))  # keys of the results that are not tables
COLUMNS = ("mean", "difference", "p")  # columns of a table besides the language pairs


@dataclass(frozen=True, slots=True)
class Row:
    """Row of a table; the module describes its keys. ``layer`` 0 is the last.

    Raises InputError for values that are invalid or do not fit together.
    """

    table: str
    name: str
    model: str = ""
    vectors: str = ""
    pooling: str = "mean"
    examples: int = 32
    layer: int = 0
    bare: float = 0.0
    csls: int = 0
    mapped: bool = False
    mapped_on: tuple[str, ...] = ()
    seeds: tuple[int, ...] = (0,)
    pairs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if bool(self.model) == bool(self.vectors):
            raise InputError(f"row {self.name!r}: expected either model or vectors, exactly one of them")
        unknown = [name for name in self.pooling.split("+") if name not in POOLINGS]
        if unknown:
            requirement = f"{', '.join(POOLINGS)}, or several of these joined by +"
            raise InputError(
                f"row {self.name!r}: pooling {self.pooling!r} holds {unknown[0]!r}; expected {requirement}"
            )
        if self.mapped_on and not self.mapped:
            raise InputError(f"row {self.name!r}: mapped_on without mapped; give mapped = true")
        if self.table in (*RESERVED, *COLUMNS):
            raise InputError(f"row {self.name!r}: {self.table!r} is reserved; choose another table name")
        if min(self.examples, self.layer, self.csls) < 0 or not 0 <= self.bare < inf or not self.seeds:
            raise InputError(f"row {self.name!r}: examples, layer, bare and csls are 0 or more, seeds one or more")
        if "{seed}" not in self.model + self.vectors and len(self.seeds) > 1:
            raise InputError(f"row {self.name!r}: {len(self.seeds)} seeds, but its folder has no {{seed}}; add it")

    def folder(self, base: Path, pair: str, seed: int, lang: str = "") -> Path | None:
        """Return the folder of the model, or of a language's word vectors; None for the bundled model."""
        if self.model == BUNDLED:
            return None
        text = (self.model or self.vectors).replace("{pair}", pair).replace("{seed}", str(seed))
        return base / text.replace("{lang}", lang)

    def system(self, base: Path, pair: str, seed: int) -> tuple[object, ...]:
        """Return the key of the row's vectors of a language pair: rows with equal keys have the same vectors."""
        vectors = bool(self.model), self.pooling, self.examples, self.layer, self.bare
        return self.folder(base, pair, seed, "{lang}"), *vectors, self.mapped, self.mapped_on

    def lessons(self, pair: str) -> tuple[str, ...]:
        """Return the language pairs whose training parts a mapping is learnt on; empty without a mapping."""
        return (self.mapped_on or (pair,)) if self.mapped else ()


def read_rows(path: Path) -> list[Row]:
    """Read the rows of a TOML file, in its order. Raises InputError if the file or a row is malformed."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: not readable as TOML ({error}); expected [[row]] tables") from error
    tables = content.get("row")
    if set(content) != {"row"} or not isinstance(tables, list) or not tables:
        raise InputError(f"{path}: holds {', '.join(content) or 'nothing'}; expected [[row]] tables and nothing else")
    rows = [row for table in tables for row in _rows(path, table)]
    names = [(row.table, row.name) for row in rows]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"{path}: two rows of table {twice[0][0]!r} are named {twice[0][1]!r}; give each its own name")
    return rows


def _rows(path: Path, table: Any) -> Iterator[Row]:
    """Yield the row of a table, or a row for each value of a list in it."""
    if not isinstance(table, Mapping):
        raise InputError(f"{path}: a row is {table!r}; expected [[row]] tables")
    for key in LISTED:
        values = table.get(key)
        if isinstance(values, list):
            if not values:
                raise InputError(f"{path}: row {table.get('name')!r}: {key} is empty; expected a number or several")
            for value in values:
                yield from _rows(path, {**table, key: value, "name": f"{table.get('name')}, {key} {value}"})
            return
    yield _row(path, table)


def _row(path: Path, table: Mapping[str, Any]) -> Row:
    label = f"{path}: row {table.get('name')!r}"
    kinds = {field.name: str(field.type) for field in fields(Row)}
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
    for key, value in values.items():
        if key not in kinds:
            raise InputError(f"{label}: {key} is unknown; expected some of {', '.join(kinds)}")
        if not _fits(value, kinds[key]):
            raise InputError(f"{label}: {key} is {value!r}; expected {kinds[key]}")
    try:
        return Row(**values)
    except TypeError as error:
        raise InputError(f"{label}: {error}") from error


def _fits(value: Any, kind: str) -> bool:
    inner = {"tuple[int, ...]": int, "tuple[str, ...]": str}.get(kind)
    if inner is not None:
        return isinstance(value, tuple) and all(type(item) is inner for item in value)
    return type(value).__name__ == kind


TRAINING = "train"  # split that a mapping is learnt from
EPSILON = 2e-6  # two ways to compute the same float32 dot product differ by less

Sides = tuple[Floats, Floats]
Phrases = dict[str, list[str]]  # language pair -> phrases of the second language; equal wordings are the same phrase
# Language pair -> (seeds, phrase pairs): probability that the mate is the first hit, mean of both directions.
Scores = dict[str, Doubles]


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the XPR evaluation.

    Args:
        rows: TOML file as the module describes it; its folders are relative to it.
        data: Folder of a data set.
        split: Split to measure on, or several joined by ``+``.
        most: Number of phrase pairs taken of each of these splits, and of the training split for a mapping (0: all).
        only: Tables to make; empty for all.
        threads: Threads of the encoder; None for the default.
        seed: Seed of the resampling.
        out: Folder for results and plots; None to write nothing.
        without: Files of phrase pairs that are not queries, because a model was trained on them; they stay candidates.
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


def run(settings: Settings, progress: Progress = lambda what, step, total: None) -> Result:
    """Measure every row.

    Raises InputError before anything is computed if rows or data are missing or do not fit together.
    """
    check_seed(settings.seed)
    rows, pairs = _rows_of_tables(settings), _pairs_of(settings)
    _check_tables(rows, pairs, settings.rows)
    _check_folders(rows, pairs, settings.rows.parent)
    materials = _Materials(settings, pairs)
    for pair in dict.fromkeys(pair for row in rows for pair in row.pairs or pairs):
        materials.questions(pair)
    _check_lessons(rows, pairs)
    lesson_pairs = sorted({name for row in rows for pair in row.pairs or pairs for name in row.lessons(pair)})
    for pair in lesson_pairs:
        materials.lessons(pair)
    make_folder(settings.out)
    scores = evaluate_rows(rows, materials, progress)
    tables, phrases = dict.fromkeys(row.table for row in rows), materials.phrases()
    result = Result([_table(name, rows, scores, phrases, settings.seed) for name in tables])
    result.more = {f"by {key}": _curve(rows, scores, key) for key in LISTED}
    result.signature = signature(materials.models, **_facts(settings, materials, lesson_pairs))
    result.write(settings.out, "xpr")
    return result


def _rows_of_tables(settings: Settings) -> list[Row]:
    """Return the rows of the tables to make. Raises InputError for an unknown table."""
    rows = [row for row in read_rows(settings.rows) if not settings.only or row.table in settings.only]
    unknown = sorted(set(settings.only) - {row.table for row in rows})
    if unknown:
        raise InputError(f"{settings.rows}: no table {', '.join(unknown)}; omit --only for all tables")
    return rows


def _pairs_of(settings: Settings) -> list[str]:
    """Return the language pairs of the data set. Raises InputError if the folder has none."""
    pairs = language_pairs(settings.data)
    if not pairs:
        raise InputError(f"{settings.data}: no data set; expected folders such as de-en with train, dev, test.jsonl")
    return pairs


def _check_tables(rows: Sequence[Row], pairs: Sequence[str], path: Path) -> None:
    """Raise InputError for a table with the name of a language pair: both are names of columns."""
    for row in rows:
        if row.table in pairs:
            raise InputError(f"{path}: the table {row.table!r} has the name of a language pair; rename the table")


def _facts(settings: Settings, materials: _Materials, lesson_pairs: Sequence[str]) -> dict[str, Any]:
    """Return the facts of the signature: data, settings, and what mappings and word vectors come from."""
    facts: dict[str, Any] = {
        "data": f"{name_of(settings.data)} {materials.digest()}",
        "split": settings.split,
        "most": settings.most,
        "seed": settings.seed,
    }
    if lesson_pairs:
        facts["training"] = digest(settings.data / pair / f"{TRAINING}.jsonl" for pair in lesson_pairs)
    if materials.spaces:  # one hash for all folders, of which there may be dozens
        hashes = " ".join(materials.spaces[folder] for folder in sorted(materials.spaces))
        facts["word_vectors"] = f"{sha256(hashes.encode()).hexdigest()[:12]} ({len(materials.spaces)} folders)"
    if settings.without:
        facts["not_asked"] = {pair: int((~mask).sum()) for pair, mask in sorted(materials.asked.items())}
    return facts


def _check_lessons(rows: Sequence[Row], pairs: Sequence[str]) -> None:
    """Raise InputError if a mapping is to be learnt on a missing pair or on a pair with another second language."""
    for row in rows:
        unknown = sorted(set(row.mapped_on) - set(pairs))
        if unknown:
            raise InputError(f"row {row.name!r}: mapped_on {unknown[0]!r}; the data set has {', '.join(pairs)}")
        second = {languages(name)[1] for pair in row.pairs or pairs for name in (pair, *row.lessons(pair))}
        if row.mapped_on and len(second) > 1:
            requirement = "pairs with one second language"
            raise InputError(f"row {row.name!r}: mapped_on between {', '.join(sorted(second))}; expected {requirement}")


def _check_folders(rows: Sequence[Row], pairs: Sequence[str], base: Path) -> None:
    """Raise InputError for the first missing folder; without this check it might show after hours."""
    for row in rows:
        for pair in {name for item in row.pairs or pairs for name in (item, *row.lessons(item))}:
            for lang in languages(pair) if row.vectors else [""]:
                for seed in row.seeds:
                    folder = row.folder(base, pair, seed, lang)
                    if folder is not None and not folder.is_dir():
                        requirement = "word vectors made by phrasemate vectors" if row.vectors else "a model folder"
                        raise InputError(f"{folder}: no such folder; row {row.name!r} expects {requirement}")


class _Materials:
    """Data set and models of an evaluation, each read once.

    ``asked`` maps language pairs to masks of their phrase pairs that are queries. ``spaces`` maps folders of word
    vectors to their hashes.
    """

    def __init__(self, settings: Settings, pairs: Sequence[str]) -> None:
        self.settings, self.pairs, self.models = settings, list(pairs), dict[str, ModelDescription]()
        self._data: dict[tuple[str, str], list[ExamplePair]] = {}
        self._loaded: tuple[Path | None, Model] | None = None
        self._without = frozenset(pair for path in settings.without for pair in phrase_pairs(path))
        self.asked: dict[str, NDArray[np.bool_]] = {}
        self.spaces: dict[str, str] = {}

    def data(self, pair: str, split: str) -> list[ExamplePair]:
        """Return the phrase pairs of a split, or of several splits joined by ``+``."""
        if (pair, split) not in self._data:
            most = self.settings.most or None
            parts = [read_dataset(self.settings.data, pair, part)[:most] for part in split.split("+")]
            self._data[pair, split] = [item for part in parts for item in part]
        return self._data[pair, split]

    def questions(self, pair: str) -> NDArray[np.bool_]:
        """Return (n,) a mask of the phrase pairs of the test part that are queries.

        Raises InputError if there are no phrase pairs or ``without`` excludes all of them.
        """
        if pair not in self.asked:
            test = self.data(pair, self.settings.split)
            if not test:
                raise InputError(f"{self.settings.data}, {pair}: no phrase pairs in its part {self.settings.split}")
            wordings = ((_fold(item.source), _fold(item.target)) for item in test)
            mask = np.array([wording not in self._without for wording in wordings], np.bool_)
            if not mask.any():
                raise InputError(f"{pair}: all {len(test)} phrase pairs are excluded by --without")
            self.asked[pair] = mask
        return self.asked[pair]

    def phrases(self) -> Phrases:
        """Return the phrases of the second language that are queries, by language pair."""
        return {
            pair: [
                f"{languages(pair)[1]} {_fold(item.target)}"
                for item in compress(self.data(pair, self.settings.split), mask)
            ]
            for pair, mask in self.asked.items()
        }

    def lessons(self, pair: str) -> list[ExamplePair]:
        """Return the phrase pairs that a mapping is learnt from. Raises InputError if there are none."""
        pairs = self.data(pair, TRAINING)
        if not pairs:
            raise InputError(f"{self.settings.data}, {pair}: no phrase pairs in its part {TRAINING} to learn a mapping")
        return pairs

    def model(self, folder: Path | None) -> Model:
        """Return the model of a folder; only the latest one stays in memory."""
        if self._loaded is None or self._loaded[0] != folder:
            self._loaded = None  # frees the memory before the next model is loaded
            model = load_model(folder, self.settings.threads)
            self._loaded = folder, model
            self.models[self._name_of(folder)] = ModelDescription(model.name, model.hash)
        return self._loaded[1]

    def _name_of(self, folder: Path | None) -> str:
        """Return a model's name for the signature: its path relative to the file of rows.

        The last part of the path alone may be equal for several models.
        """
        base = self.settings.rows.parent
        if folder is None:
            return BUNDLED
        return str(folder.relative_to(base) if folder.is_relative_to(base) else folder)

    def digest(self) -> str:
        """Return the digest of the files that the phrase pairs come from."""
        parts = self.settings.split.split("+")
        return digest(self.settings.data / pair / f"{part}.jsonl" for pair in sorted(self.asked) for part in parts)

    def words(self, folder: Path) -> WordVectors:
        """Return the word vectors of a folder and remember their hash."""
        space = WordVectors.load(str(folder))
        self.spaces[str(folder)] = str(space.facts["hash"])
        return space


def evaluate_rows(rows: Sequence[Row], measured: Any, progress: Progress) -> dict[tuple[str, str], Scores]:
    """Return the scores of every row, (table, name) -> language pair -> (seeds, phrase pairs).

    A score is the probability that a phrase pair's query has its mate as first hit, the mean of both directions.
    """
    jobs = [(row, pair) for row in rows for pair in row.pairs or measured.pairs]
    scores: dict[tuple[str, str], Scores] = {(row.table, row.name): {} for row in rows}
    once: dict[tuple[object, ...], Sides] = {}  # vectors by system, since several tables may have the same system
    for number, (row, pair) in enumerate(jobs):
        progress(f"{row.table}: {row.name} {pair}", number, len(jobs))
        test = measured.data(pair, measured.settings.split)
        chances = []
        for seed in row.seeds:
            system = pair, *row.system(measured.settings.rows.parent, pair, seed)
            if system not in once:
                once[system] = _vectors(row, pair, seed, measured)
            mask = measured.questions(pair)
            chances.append(np.mean(_chances(once[system], test, row.csls), axis=0)[mask])
        scores[row.table, row.name][pair] = np.array(chances)
    return scores


def rank_mates(queries: Floats, candidates: Floats, rivals: NDArray[np.bool_], neighbours: int = 0) -> Ranking:
    """Rank candidate i for query i, among the candidates j with ``rivals[i, j]``; vectors have unit length.

    Scores are cosines, or with ``neighbours`` cross-domain similarity local scaling (`phrasemate.utils.margin.csls`).
    The rank is infinite for a zero vector. Raises InputError for NaN.
    """
    scores = queries @ candidates.T
    check_numbers(scores)
    if neighbours:
        scores = csls(scores, neighbours)
    gold = scores.diagonal()[:, None]
    higher = (rivals & (scores > gold + EPSILON)).sum(1).astype(np.float64)
    ties = (rivals & (np.abs(scores - gold) <= EPSILON)).sum(1).astype(np.float64)
    return Ranking(np.where(queries.any(1) & candidates.any(1), higher, np.inf), ties)


def _chances(sides: Sides, pairs: Sequence[ExamplePair], neighbours: int = 0) -> tuple[Doubles, Doubles]:
    """Return two arrays (n,): the probabilities that each query has its mate as first hit, in both directions."""
    rivals = _rivals(pairs)
    rankings = rank_mates(*sides, rivals, neighbours), rank_mates(*sides[::-1], rivals.T, neighbours)
    return rankings[0].hits(1), rankings[1].hits(1)


def phrase_pairs(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the phrase pairs of a file, composed and case-folded: JSON lines with ``source`` and ``target``.

    Raises ReadError for a line without them.
    """
    for number, line in numbered_lines(path):
        try:
            entry = json.loads(line)
            pair = _fold(entry["source"]), _fold(entry["target"])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            reason = f"not phrase pairs ({line_fault(error)})"
            raise ReadError(str(path), number, reason, "expected JSON lines with source and target") from error
        yield pair


def _fold(text: str) -> str:
    """Return the text case-folded, with accents as parts of their letters."""
    return composed(text).casefold()


def _rivals(pairs: Sequence[ExamplePair]) -> NDArray[np.bool_]:
    """Return (n, n) whether pair j shares no wording with pair i on the same side."""
    same_side = np.zeros((len(pairs), len(pairs)), np.bool_)
    for side in ([pair.source for pair in pairs], [pair.target for pair in pairs]):
        numbers = numbered(map(_fold, side))
        same_side |= numbers[:, None] == numbers[None, :]
    return ~same_side


def _vectors(row: Row, pair: str, seed: int, materials: Any) -> Sides:
    """Return the vectors of both sides of the test part, (n, dim) each."""
    base = materials.settings.rows.parent

    def encoded(pairs: Sequence[ExamplePair], name: str) -> Sides:
        if row.vectors:
            spaces = [materials.words(row.folder(base, name, seed, lang)) for lang in languages(name)]
            texts = [[item.source for item in pairs], [item.target for item in pairs]]
            return _means(spaces[0], texts[0]), _means(spaces[1], texts[1])
        return _encode(materials.model(row.folder(base, pair, seed)), row, pairs)

    test = encoded(materials.data(pair, materials.settings.split), pair)
    if not row.mapped:
        return test
    parts = [encoded(materials.lessons(name), name) for name in row.lessons(pair)]
    source, target = (np.concatenate(side) for side in zip(*parts, strict=True))
    coverage = source.any(1) & target.any(1)
    return unit(test[0] @ procrustes(source[coverage], target[coverage])), test[1]


def _encode(model: Model, row: Row, pairs: Sequence[ExamplePair]) -> Sides:
    def side(phrases: list[str], examples: list[Sequence[Phrase]]) -> Floats:
        return by_examples(model, phrases, examples, row.pooling, row.layer or None, row.bare)[0]

    return (
        side([pair.source for pair in pairs], [pair.source_examples[: row.examples] for pair in pairs]),
        side([pair.target for pair in pairs], [pair.target_examples[: row.examples] for pair in pairs]),
    )


def _means(space: WordVectors, phrases: Sequence[str]) -> Floats:
    """Return (phrases, dim) the mean vectors of the words of each phrase at unit length; zeros if no word is known."""
    vectors = np.zeros((len(phrases), space.dim), np.float32)
    for number, phrase in enumerate(phrases):
        rows = space.rows(token.word for token in tokens(phrase))
        if len(rows):
            vectors[number] = space.matrix[rows].mean(0)
    return unit(vectors)


def _table(name: str, rows: Sequence[Row], scores: dict[tuple[str, str], Scores], phrases: Phrases, seed: int) -> Table:
    group = [row for row in rows if row.table == name]
    pairs = list(dict.fromkeys(pair for row in group for pair in scores[name, row.name]))
    first = scores[name, group[0].name]
    cells = []
    for row in group:
        row_scores = scores[name, row.name]
        values = [float(row_scores[pair].mean()) if pair in row_scores else None for pair in pairs]
        mean = over_runs(list(row_scores.values()), [phrases[pair] for pair in row_scores], seed=seed)
        comparison = (None, None) if row is group[0] else _compare(first, row_scores, phrases, seed)
        cells.append((row.name, *values, mean, *comparison))
    note = f"acc@1, mean of both directions; difference to {group[0].name} and its p, over the pairs that both have"
    return Table(name, name, (name, *pairs, *COLUMNS), tuple(cells), note)


def _compare(first: Scores, second: Scores, phrases: Phrases, seed: int) -> tuple[Estimate | None, float]:
    """Return the difference of two rows over the language pairs that both have, and p.

    All language pairs have the same weight.
    """
    common_pairs = [pair for pair in first if pair in second]
    if not common_pairs:
        return None, 1.0
    groups = [phrases[pair] for pair in common_pairs]
    differences = [_differences(first[pair], second[pair]) for pair in common_pairs]
    shares = [difference.mean(0) / difference.shape[1] for difference in differences]
    owners = np.unique(np.concatenate(groups), return_inverse=True)[1]
    sums = np.bincount(owners, np.concatenate(shares))
    return over_runs(differences, groups, seed=seed), randomisation_test(sums, np.zeros(len(sums)))


def _differences(first: Doubles, second: Doubles) -> Doubles:
    """Return (runs, phrase pairs) the second scores minus the first.

    Runs are compared one by one if both rows have the same number, or one row has a single run. Otherwise the means
    over the runs are compared.
    """
    if len(first) != len(second) and min(len(first), len(second)) > 1:
        first, second = first.mean(0, keepdims=True), second.mean(0, keepdims=True)
    return second - first


def _curve(rows: Sequence[Row], scores: dict[tuple[str, str], Scores], key: str) -> list[dict[str, Any]]:
    """Return the points of a plot of acc@1 (mean over language pairs) by a key that has a list of values."""
    points = []
    for row in rows:
        before, separator, after = row.name.partition(f", {key} {getattr(row, key)}")
        if separator:
            name = before + after
            mean = float(np.mean([score.mean() for score in scores[row.table, row.name].values()]))
            points.append({"row": f"{row.table}: {name}", "value": getattr(row, key), "acc@1": mean})
    return points
