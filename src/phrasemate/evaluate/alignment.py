"""Alignment error rate on gold word alignments, and speed: the neural methods and eflomal in one run.

Words are those of the gold sets. AER = 1 - (|A & S| + |A & P|) / (|A| + |S|), over all links of a set. S are the sure
links, P these and the possible ones. Where a set has no possible links, P is S. See Och and Ney 2003, "A Systematic
Comparison of Various Statistical Alignment Models", section 5. eflomal learns from the gold sentences and from the
first lines of the parallel file of that language, which count in its time. The neural methods see each sentence pair
by itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasemate.align import EflomalAligner, Links, NeuralAligner, TokenizedSentence, symmetrise
from phrasemate.encode import Model
from phrasemate.errors import InputError, MissingExtra
from phrasemate.evaluate.data import links_of, parallel
from phrasemate.evaluate.metrics import LEVEL, Estimate, resampled_means
from phrasemate.evaluate.report import Table
from phrasemate.types import Progress

HEADER = ("pair", "aligner", "AER", "precision", "recall", "links", "pairs/s", "beside the first")
NEURAL: dict[str, dict[str, Any]] = {
    "intersection": {},
    "intersection of subwords": {"units": "subwords"},
    "intersection with ties": {"ties": 0.2},
    "intersection grow-diag": {"symmetrisation": "grow-diag"},
    "itermax": {"method": "itermax"},
    "itermax of subwords": {"method": "itermax", "units": "subwords"},
    "softmax": {"method": "softmax"},
    "softmax of subwords": {"method": "softmax", "units": "subwords"},
    "softmax with ties": {"method": "softmax", "ties": 0.2},
    "mwmf": {"method": "mwmf"},
}
EFLOMAL = ("intersection", "grow-diag", "grow-diag-final-and")

Pairs = list[tuple[TokenizedSentence, TokenizedSentence]]
Counts = NDArray[np.float64]


class Quality(NamedTuple):
    """Alignment error rate, precision and recall over all links of a set, and how many links were found."""

    aer: float
    precision: float
    recall: float
    links: int


def counts(links: Sequence[Links], sure: Sequence[Links], acceptable: Sequence[Links]) -> Counts:
    """(sentence pairs, 4): found links that are sure, those that are acceptable, all found links, all sure links.

    Raises InputError where there are no sure links at all.
    """
    if not any(sure):
        raise InputError("a gold alignment without a link; restore the file")
    groups = zip(map(set, links), map(set, sure), map(set, acceptable), strict=True)
    return np.array([[len(a & s), len(a & p), len(a), len(s)] for a, s, p in groups], np.float64)


def quality(table: Counts) -> Quality:
    """Quality of `counts`; precision of no links is 1: none of them is wrong."""
    sure, acceptable, links, gold = table.sum(0).tolist()
    return Quality(
        1 - (sure + acceptable) / (links + gold), acceptable / links if links else 1.0, sure / gold, int(links)
    )


def difference(table: Counts, other: Counts) -> Estimate:
    """How much more AER than the other aligner's, with the interval of a paired bootstrap over sentence pairs."""
    ratios = [resampled_means(item[:, :2].sum(1)) / resampled_means(item[:, 2:].sum(1)) for item in (table, other)]
    low, high = np.quantile(ratios[1] - ratios[0], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(quality(table).aer - quality(other).aer, float(low), float(high))


def evaluate_alignment(
    models: Mapping[str, Model],
    data: Path,
    langs: Sequence[str],
    most: Mapping[str, int],
    extra: int,
    progress: Progress = lambda what, step, total: None,
) -> tuple[Table, dict[str, str]]:
    """The table, and a remark for the signature where eflomal, or what a method needs, is not installed.

    ``most``: how many sentence pairs of a language at most; ``extra``: pairs for eflomal to learn from besides.
    """
    rows: list[tuple[Any, ...]] = []
    remarks: dict[str, str] = {}
    for number, lang in enumerate(langs):
        progress("word links", number, len(langs))
        pairs, sure, acceptable = links_of(data, lang, most.get(lang))
        results: list[tuple[str, list[Links], float]] = []
        for name, model in models.items():
            before = f"{name} " if len(models) > 1 else ""
            for method, arguments in NEURAL.items():
                try:
                    results.append((before + method, *_neural(model, arguments, pairs)))
                except MissingExtra as error:
                    remarks[f"not measured, {method}"] = str(error)
        try:
            results += [(f"eflomal {how}", links, rate) for how, links, rate in _eflomal(pairs, data, lang, extra)]
        except MissingExtra as error:
            remarks["not measured"] = f"eflomal ({error})"
        tables = [counts(links, sure, acceptable) for _, links, _ in results]
        for (name, _, rate), table in zip(results, tables, strict=True):
            beside = None if table is tables[0] else difference(table, tables[0])
            rows.append((f"{lang}-en", name, *quality(table), rate, beside))
    progress("word links", len(langs), len(langs))
    note = "beside the first: AER less that of the first row of the pair [95 % paired bootstrap interval]"
    return Table("alignment", "Word alignment against gold links", HEADER, tuple(rows), note), remarks


def _neural(model: Model, arguments: Mapping[str, Any], pairs: Pairs) -> tuple[list[Links], float]:
    """Links and sentence pairs a second of one setting."""
    aligner = NeuralAligner(model, **arguments)
    aligner.align(pairs[:1])  # kernels are made on first use
    start_time = time.perf_counter()
    links = aligner.align(pairs)
    return links, len(pairs) / (time.perf_counter() - start_time)


def _eflomal(pairs: Pairs, data: Path, lang: str, extra: int) -> Iterator[tuple[str, list[Links], float]]:
    """Links and sentence pairs a second of each symmetrisation of one run."""
    aligner = EflomalAligner()
    more = [
        (TokenizedSentence.of(foreign), TokenizedSentence.of(english))
        for english, foreign in (parallel(data, lang, extra) if extra else ())
    ]
    start_time = time.perf_counter()
    directions = aligner.directions([*pairs, *more])[: len(pairs)]
    rate = (len(pairs) + len(more)) / (time.perf_counter() - start_time)
    for how in EFLOMAL:
        yield how, [symmetrise(*direction, how) for direction in directions], rate
