"""Alignment error rate on gold word alignments, and speed: the neural methods and eflomal in one run.

Words are those of the gold sets, sure links only: AER = 1 - 2 |A & S| / (|A| + |S|), over all links of a set. eflomal
learns from the gold sentences and from the first lines of the parallel file of that language, which count in its time.
The neural methods see each sentence pair by itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from phrasemate.align import EflomalAligner, Links, NeuralAligner, Worded, symmetrise
from phrasemate.encode import Model
from phrasemate.errors import InputError, MissingExtra
from phrasemate.evaluate.data import links_of, parallel
from phrasemate.evaluate.report import Table
from phrasemate.types import Progress

HEADER = ("pair", "aligner", "AER", "precision", "recall", "links", "pairs/s")
NEURAL: dict[str, dict[str, Any]] = {
    "intersection": {},
    "intersection grow-diag": {"symmetrisation": "grow-diag"},
    "itermax": {"method": "itermax"},
    "softmax": {"method": "softmax"},
    "softmax of subwords": {"method": "softmax", "units": "subwords"},
    "softmax with ties": {"method": "softmax", "ties": 0.2},
    "mwmf": {"method": "mwmf"},
}
EFLOMAL = ("intersection", "grow-diag", "grow-diag-final-and")

Pairs = list[tuple[Worded, Worded]]


class Quality(NamedTuple):
    """Alignment error rate, precision and recall over all links of a set, and how many links were found."""

    aer: float
    precision: float
    recall: float
    links: int


def quality(links: Sequence[Links], right: Sequence[Links]) -> Quality:
    """Found links of each sentence pair against the right ones.

    Precision of no links is 1: none of them is wrong. Raises InputError where there are no right links at all.
    """
    agreement = sum(len(set(a) & set(s)) for a, s in zip(links, right, strict=True))
    mine, sure = sum(len(set(a)) for a in links), sum(len(set(s)) for s in right)
    if not sure:
        raise InputError("a gold alignment without a link; restore the file")
    return Quality(1 - 2 * agreement / (mine + sure), agreement / mine if mine else 1.0, agreement / sure, mine)


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
        pairs, right = links_of(data, lang, most.get(lang))
        for name, model in models.items():
            before = f"{name} " if len(models) > 1 else ""
            for method, arguments in NEURAL.items():
                try:
                    links, rate = _neural(model, arguments, pairs)
                except MissingExtra as error:
                    remarks[f"not measured, {method}"] = str(error)
                    continue
                rows.append((f"{lang}-en", before + method, *quality(links, right), rate))
        try:
            for how, links, rate in _eflomal(pairs, data, lang, extra):
                rows.append((f"{lang}-en", f"eflomal {how}", *quality(links, right), rate))
        except MissingExtra as error:
            remarks["not measured"] = f"eflomal ({error})"
    progress("word links", len(langs), len(langs))
    return Table("alignment", "Word alignment against sure gold links", HEADER, tuple(rows)), remarks


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
        (Worded.of(foreign), Worded.of(english)) for english, foreign in (parallel(data, lang, extra) if extra else ())
    ]
    start_time = time.perf_counter()
    directions = aligner.directions([*pairs, *more])[: len(pairs)]
    rate = (len(pairs) + len(more)) / (time.perf_counter() - start_time)
    for how in EFLOMAL:
        yield how, [symmetrise(*direction, how) for direction in directions], rate
