"""Measure mining of sentence mates: how many hidden pairs are found, for several pairs of languages.

Up to 1,000 pairs of Tatoeba are hidden among sentences of the parallel texts. So that there are no other mates, each
side comes from different documents. The side of the language has its largest sources. English has all sources that are
not among these, from all pairs of languages. Sentences whose mate is on the other side are left out. If a language has
fewer sentences than asked for, all of them are taken. Sources of ``--without`` are not used: small_enja comes from the
Tanaka corpus, from which Tatoeba's English grew.

The threshold is calibrated in two folds. Each half of the pairs is tested at the threshold that is fitted to the other
half, and the wrong pairs of both runs are averaged. Pairs are judged strictly, or "leniently". A lenient pair is right
if its English is nearly that of the right one (Tatoeba has "I didn't know that" beside "I didn't know"). It does not
count if its English is nearly the one in the parallel text. Nearly means a Dice coefficient of groups of three letters
above 0.75.

    python bench/mine.py --languages de,cs,ru,zh,ar --size 50000

With --fit nothing is measured. The regressions of `phrasemate.mine.select` and their default thresholds are fitted to
the pairs of all given languages and sizes: with the lexicon and without, each with compared words and without.

    python bench/mine.py --fit --languages hu,fr --sizes 5000,30000
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import log, sqrt
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from common import Pair as Row
from common import corpora, parallel, parser, report
from scipy.optimize import minimize

from phrasemate import Document, Model, load_model
from phrasemate.evaluate.report import signature
from phrasemate.mine import Mate, Mining, MiningResult, mine
from phrasemate.mine.collection import normal
from phrasemate.mine.select import REGRESSION, USUAL, is_copy, probabilities, usual_threshold

LEAST, MOST = 10, 400  # characters of an English sentence; the other side has at least four
NEAR = 0.75  # Dice coefficient above which two sentences are nearly equal
PENALTY = 1e-5  # weight of half the sum of the squared weights of the regression
WITHOUT = "small_enja"
SYSTEMS = {
    "default": Mining(margin="regression"),
    "lexicon": Mining(margin="regression", rerank="none"),
    "vectors": Mining(margin="regression", lexicon=False),
    "none": Mining(margin="regression", lexicon=False, rerank="none"),
    "quarter": Mining(margin="quarter"),
    "reranker": Mining(margin="quarter", rerank="reranker"),
    "ratio": Mining(margin="ratio"),
    "cosine": Mining(margin="absolute"),
    "approximate": Mining(margin="regression", engine="approximate"),
}
BEFORE = ["pair", "sentences", "English", "mates", "threshold", "precision", "recall"]
AFTER = ["F1 strictly", "F1 at default", "best F1", "wrong", "encoding s", "search s", "second look s"]
LOW = {"regression": 0.02, "quarter": 0.4, "ratio": 1.0, "absolute": 0.6}  # a threshold below all that are fitted
Pair = tuple[str, str]


def bare(text: str) -> str:
    """Return the letters only, so that sentences which differ in numbers or punctuation are equal."""
    return "".join(filter(str.isalpha, text.casefold()))


def shuffled(data: Path, lang: str, seed: int) -> list[Row]:
    """Return the lines of a parallel text that have reasonable lengths, shuffled."""
    rows = {row for row in parallel(data, lang) if LEAST <= len(row.english) <= MOST and len(row.other) >= 4}
    usable = sorted(rows, key=lambda row: (row.other, row.english, row.source))
    random.Random(seed).shuffle(usable)
    return usable


def tatoeba(data: Path, lang: str, count: int) -> list[Pair]:
    """Return (other, English) pairs without repeated sentences."""
    sides = [(data / "sentence_bench" / "tatoeba" / f"{lang}-en.{side}").read_text("utf-8") for side in (lang, "en")]
    pairs: list[Pair] = []
    used: tuple[set[str], set[str]] = set(), set()
    for pair in zip(*(side.rstrip("\n").split("\n") for side in sides), strict=True):
        if not any(bare(text) in texts_used for text, texts_used in zip(pair, used, strict=True)):
            pairs.append(pair)
            for text, texts_used in zip(pair, used, strict=True):
                texts_used.add(bare(text))
    return pairs[:count]


class Task:
    """Two collections with hidden pairs; ``mates`` has the English of the parallel text for its sentences."""

    def __init__(self, args: argparse.Namespace, lang: str) -> None:
        self.lang, self.gold = lang, tatoeba(args.data, lang, args.pairs)
        self.gold = [(normal(one), normal(two)) for one, two in self.gold]
        self.english = dict(self.gold)
        rest = args.size - len(self.gold)
        self.without = {name for name in args.without.split(",") if name}
        rows = self._rows(args, lang)
        side_rows, english = self._by_source(args, rows, rest)
        self.mates = {normal(row.other): row.english for row in side_rows}
        excluded = {bare(text) for text in self.mates.values()}
        self.source = self._mixed([one for one, _ in self.gold], list(self.mates), rest, args.seed)
        english = [text for text in english if bare(text) not in excluded]
        self.target = self._mixed([two for _, two in self.gold], english, rest, args.seed)

    def _rows(self, args: argparse.Namespace, lang: str) -> list[Row]:
        return [row for row in shuffled(args.data, lang, args.seed) if row.source not in self.without]

    def _by_source(self, args: argparse.Namespace, rows: list[Row], rest: int) -> tuple[list[Row], list[str]]:
        """Return lines of the language's largest sources, and English sentences of all other sources."""
        counts = Counter(row.source for row in rows).most_common()
        enough = next((at for at in range(1, len(counts)) if sum(n for _, n in counts[:at]) >= rest), len(counts))
        origins = {origin for origin, _ in counts[:enough]}
        others = {row.english: row for one in corpora(args.data) for row in self._rows(args, one)}
        english = sorted(text for text, row in others.items() if row.source not in origins)
        random.Random(args.seed).shuffle(english)
        return [row for row in rows if row.source in origins][:rest], english

    def _mixed(self, gold: list[str], others: Sequence[str], rest: int, seed: int) -> list[str]:
        gold_texts = {bare(text) for text in gold}
        texts = gold + [text for text in dict.fromkeys(others) if bare(text) not in gold_texts][:rest]
        random.Random(seed + 1).shuffle(texts)
        return texts

    def run(self, model: Model, work: Path, settings: Mining, seeds: Sequence[Pair] = ()) -> MiningResult:
        """Mine with these settings; the work folder stores what does not depend on them."""
        mining = replace(settings, languages=(self.lang, "en"))
        sides = (Document.from_texts(name, texts) for name, texts in (("source", self.source), ("target", self.target)))
        return mine(*([side] for side in sides), model, work, mining, seeds)

    def measure(self, model: Model, work: Path, systems: Sequence[str]) -> list[Any]:
        """Return the row of the table; the first system has further columns besides F1."""
        folds, clock = (self.gold[::2], self.gold[1::2]), Counter[str]()
        mates, thresholds, looks = {}, {}, {}
        for name in systems:
            settings = SYSTEMS[name]
            thresholds[name] = []
            for fold in folds:
                with self.run(model, work, settings, fold) as mined:
                    clock.update(mined.report.seconds)
                    assert mined.report.calibration is not None
                    thresholds[name].append(mined.report.calibration.threshold)
            with self.run(model, work, replace(settings, threshold=LOW[settings.margin])) as mined:
                mates[name], looks[name] = list(mined), mined.report.rerank
        first = systems[0]
        settings = SYSTEMS[first]
        precision, recall, _, wrong = self.scores(mates[first], folds, thresholds[first])
        f1 = [self.scores(mates[name], folds, thresholds[name])[2] for name in systems]
        strictly = self.scores(mates[first], folds, thresholds[first], strict=True)[2]
        sides = len(self.source), len(self.target)
        usual = usual_threshold(settings.margin, looks[first], *sides, settings.lexicon)
        default = self.scores(mates[first], folds, [np.inf if usual is None else usual] * 2)[2]
        best = max(self.scores(mates[first], folds, [at, at])[2] for at in np.arange(0.02, 2.5, 0.01))
        sizes = *sides, len(self.gold)
        figures = [float(np.mean(thresholds[first])), precision, recall, *f1, strictly, default, best, wrong]
        return [f"{self.lang}-en", *sizes, *figures, *(clock[name] for name in ("encoding", "searching", "reranking"))]

    def scores(
        self, mates: Sequence[Mate], folds: Sequence[Sequence[Pair]], thresholds: Sequence[float], strict: bool = False
    ) -> tuple[float, float, float, float]:
        """Return precision, recall, F1 and wrong pairs.

        Each fold is tested at the threshold that is fitted to the other one.
        """
        right, wrong = 0, 0
        for tested, threshold in zip((folds[1], folds[0]), thresholds, strict=True):
            sources = {one for one, _ in tested}
            above = [mate for mate in mates if mate.score >= threshold]
            judged = [(mate.source in sources, self._judged(mate, strict)) for mate in above]
            right += sum(mine and good is True for mine, good in judged)
            wrong += sum(good is False for _, good in judged)
        mean_wrong = wrong / 2
        precision, recall = right / max(right + mean_wrong, 1), right / len(self.gold)
        return precision, recall, 2 * precision * recall / max(precision + recall, 1e-9), mean_wrong

    def _judged(self, mate: Mate, strict: bool) -> bool | None:
        """Return whether a pair is right; None if it is unknown."""
        if (true := self.english.get(mate.source)) is not None:
            return mate.target == true or (not strict and is_copy(true, mate.target, NEAR))
        return None if not strict and is_copy(self.mates.get(mate.source, ""), mate.target, NEAR) else False


class Example(NamedTuple):
    """Pairs of one task, by the places of their sentences.

    ``features`` has a row for each pair. ``right`` is 1 for a right pair, 0 for a wrong one, -1 if it is unknown.
    """

    task: Task
    mates: list[Mate]
    features: np.ndarray
    right: np.ndarray

    @classmethod
    def of(cls, task: Task, model: Model, work: Path, settings: Mining) -> Example:
        """Return all pairs that the last regression of a run ranks."""
        last: list[np.ndarray] = []

        def record(features: np.ndarray, lexicon: bool, looked_at: bool = False) -> np.ndarray:
            if not looked_at and settings.rerank != "none":
                return probabilities(features, lexicon)
            last.append(features)
            return 2 + np.arange(len(features), 0, -1, dtype=np.float32)  # the order stays; these pairs are the first

        with (
            patch("phrasemate.mine.mining.probabilities", record),
            task.run(model, work, replace(settings, threshold=-np.inf, pairing="all")) as mined,
        ):
            mates = list(mined)[: len(last[0])]
        right = [{True: 1, False: 0, None: -1}[task._judged(mate, False)] for mate in mates]
        return cls(task, mates, last[0], np.array(right))

    def curve(self, log_odds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the log odds of the pairs that are selected one to one, and F1 with each of them as the threshold.

        The log odds are in descending order.
        """
        sources: set[str] = set()
        targets: set[str] = set()
        rows = []
        for row in np.argsort(-log_odds, kind="stable").tolist():
            source, target = self.mates[row][:2]
            if source not in sources and target not in targets:
                sources.add(source)
                targets.add(target)
                rows.append(row)
        right, wrong = np.cumsum(self.right[rows] == 1), np.cumsum(self.right[rows] == 0)
        return log_odds[rows], 2 * right / (right + wrong + len(self.task.gold))


def regression(examples: Sequence[Example]) -> tuple[float, np.ndarray]:
    """Return bias and weights of a logistic regression over the pairs of all tasks, which have equal weights."""
    pairs = [(example, example.right >= 0) for example in examples]
    table = np.concatenate([example.features[rows] for example, rows in pairs]).astype(float)
    right = np.concatenate([example.right[rows] for example, rows in pairs])
    share = np.concatenate([np.full(rows.sum(), 1 / rows.sum() / len(pairs)) for _, rows in pairs])
    mean, scale = table.mean(0), table.std(0)
    inputs = np.column_stack([(table - mean) / scale, np.ones(len(table))])

    def loss(values: np.ndarray) -> tuple[float, np.ndarray]:
        odds = inputs @ values
        slopes = np.append(values[:-1], 0)
        gradient = (share * (1 / (1 + np.exp(-odds)) - right)) @ inputs + PENALTY * slopes
        return float(share @ (np.logaddexp(0, odds) - right * odds) + PENALTY * slopes @ slopes / 2), gradient

    values = minimize(loss, np.zeros(inputs.shape[1]), jac=True, method="L-BFGS-B").x
    weights = values[:-1] / scale
    return float(values[-1] - weights @ mean), weights


def fit(args: argparse.Namespace, model: Model) -> None:
    """Print the regressions, their default thresholds, and F1 with these.

    A regression with compared words is fitted to the pairs that the fitted one without them calls promising.
    """
    sizes = [int(size) for size in args.sizes.split(",")]
    tasks = []
    for lang in args.languages.split(","):
        for size in sizes:
            task = Task(argparse.Namespace(**{**vars(args), "size": size}), lang)
            tasks.append((task, args.work / f"{lang}-sources-{size}"))
    for name in ("none", "lexicon", "vectors", "default"):
        settings = SYSTEMS[name]
        examples = [Example.of(task, model, work, settings) for task, work in tasks]
        bias, weights = regression(examples)
        REGRESSION[settings.lexicon, settings.rerank != "none"] = bias, tuple(weights)
        curves = [example.curve(example.features @ weights + bias) for example in examples]
        growths = [log(sqrt(len(one.task.source) * len(one.task.target)) / USUAL) for one in examples]

        def at(threshold: float, growth: float, curves: Any = curves, growths: Any = growths) -> list[float]:
            places = [
                np.searchsorted(-odds, -(threshold + growth * size), "right") - 1
                for (odds, _), size in zip(curves, growths, strict=True)
            ]
            return [float(f1[place]) for (_, f1), place in zip(curves, places, strict=True)]

        grid = list(product(np.arange(-2.5, 3.5, 0.1), np.arange(0, 1.01, 0.1)))
        threshold, growth = max(grid, key=lambda pair: float(np.mean(at(*pair))))
        print(
            f"{name}: {bias:.4f}, ({', '.join(f'{weight:.4f}' for weight in weights)}); {threshold:.1f}, {growth:.1f}"
        )
        for example, (odds, f1), default in zip(examples, curves, at(threshold, growth), strict=True):
            best = int(f1.argmax())
            size = len(example.task.source)
            print(f"  {example.task.lang} {size}: {default:.4f}; best {f1[best]:.4f} at {odds[best]:.2f}")


def mates(args: argparse.Namespace, model: Model) -> None:
    """Measure each language and print the table."""
    systems = args.systems.split(",")
    rows, header = [], [*BEFORE, *(f"F1, {name}" for name in systems), *AFTER]
    for lang in args.languages.split(","):
        folder = args.work / f"{lang}-sources-{args.size}"
        rows.append(Task(args, lang).measure(model, folder, systems))
        print(rows[-1], file=sys.stderr)
    means = [float(np.mean([row[at] for row in rows])) for at in range(4, len(header))]
    rows.append(["mean", "", "", "", *means])
    names = ("without", "size", "pairs", "seed")
    report("mine", header, rows, signature(model, **{name: getattr(args, name) for name in names}))


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--languages", default="de,cs,ru,zh,ar", help="codes, with commas (default: %(default)s)")
    options.add_argument("--size", type=int, default=50_000, help="sentences of each side (default: %(default)s)")
    options.add_argument("--pairs", type=int, default=1_000, help="hidden pairs (default: %(default)s)")
    options.add_argument("--without", default=WITHOUT, help="sources, with commas (default: %(default)s)")
    options.add_argument(
        "--systems", default=",".join(SYSTEMS), help="systems, with commas; the first has more columns"
    )
    options.add_argument("--fit", action="store_true", help="fit the regression")
    options.add_argument(
        "--sizes", default="5000,30000", help="sentences of each side, for --fit (default: %(default)s)"
    )
    options.add_argument("--work", type=Path, help="folder for vectors, used again by later runs (default: temporary)")
    args = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        args.work = args.work or Path(folder)
        args.work.mkdir(parents=True, exist_ok=True)
        (fit if args.fit else mates)(args, load_model(args.model, args.threads))


if __name__ == "__main__":
    main()
