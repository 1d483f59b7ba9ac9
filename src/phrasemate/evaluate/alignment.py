"""Word aligners on gold alignments: alignment error rate and speed of the neural methods and of eflomal.

Words are the words of the gold sets. With A the links of an aligner, S the sure gold links and P the sure and possible
ones, over all sentence pairs of a set:

    AER = 1 - (|A & S| + |A & P|) / (|A| + |S|)

P equals S in a set without possible links. Source: Och and Ney 2003, "A Systematic Comparison of Various Statistical
Alignment Models", section 5.

eflomal learns from the gold sentences and from the first lines of the language's parallel file. Its time includes these
lines. The neural methods align each sentence pair independently of the others.
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
    """Alignment error rate, precision and recall over all links of a set, and the number of proposed links."""

    aer: float
    precision: float
    recall: float
    links: int


def counts(links: Sequence[Links], sure: Sequence[Links], acceptable: Sequence[Links]) -> Counts:
    """Count the links of each sentence pair.

    Args:
        links: Links that the aligner proposes, for each sentence pair.
        sure: Sure gold links of each sentence pair.
        acceptable: Sure and possible gold links of each sentence pair.

    Returns an array (sentence pairs, 4): proposed links that are sure, proposed links that are acceptable, all proposed
    links, all sure links. Raises InputError if no sentence pair has a sure link.
    """
    if not any(sure):
        raise InputError("the gold alignment has no sure link; restore the file")
    groups = zip(map(set, links), map(set, sure), map(set, acceptable), strict=True)
    return np.array([[len(a & s), len(a & p), len(a), len(s)] for a, s, p in groups], np.float64)


def quality(table: Counts) -> Quality:
    """Return the quality over all rows of `counts`; the precision of zero links is 1."""
    sure, acceptable, links, gold = table.sum(0).tolist()
    return Quality(
        1 - (sure + acceptable) / (links + gold), acceptable / links if links else 1.0, sure / gold, int(links)
    )


def difference(table: Counts, other: Counts) -> Estimate:
    """Return the AER of one aligner minus that of another, with its 95 % interval.

    The interval comes from the paired bootstrap over sentence pairs.
    """
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
    """Measure all aligners on the gold alignments of all languages.

    Args:
        models: Models of the neural methods, by name.
        data: Folder of the corpora.
        langs: Languages to measure.
        most: Largest number of sentence pairs of a language; a language that is absent has no limit.
        extra: Number of further sentence pairs that eflomal learns from.
        progress: Called with a label, the number of finished languages and the number of all languages.

    Returns the table, and remarks for the signature about methods whose packages are not installed.
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
    note = "beside the first: AER minus the AER of the pair's first row [95 % paired bootstrap interval]"
    return Table("alignment", "Word alignment against gold links", HEADER, tuple(rows), note), remarks


def _neural(model: Model, arguments: Mapping[str, Any], pairs: Pairs) -> tuple[list[Links], float]:
    """Return the links of one neural method, and its speed in sentence pairs per second."""
    aligner = NeuralAligner(model, **arguments)
    aligner.align(pairs[:1])  # kernels are made on first use
    start_time = time.perf_counter()
    links = aligner.align(pairs)
    return links, len(pairs) / (time.perf_counter() - start_time)


def _eflomal(pairs: Pairs, data: Path, lang: str, extra: int) -> Iterator[tuple[str, list[Links], float]]:
    """Yield each symmetrisation of one eflomal run: its name, the links, and the speed in sentence pairs per second."""
    aligner = EflomalAligner(languages=(lang, "en"))
    more = [
        (TokenizedSentence.of(foreign), TokenizedSentence.of(english))
        for english, foreign in (parallel(data, lang, extra) if extra else ())
    ]
    start_time = time.perf_counter()
    directions = aligner.directions([*pairs, *more])[: len(pairs)]
    rate = (len(pairs) + len(more)) / (time.perf_counter() - start_time)
    for how in EFLOMAL:
        yield how, [symmetrise(*direction, how) for direction in directions], rate
