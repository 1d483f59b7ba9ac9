"""The tables of the evaluation of BiCLA, with the paper's figures beside ours where its authors give them.

Everything takes average precisions, [test pair][system] -> (n,).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phrasemate.evaluate.report import Table
from phrasemate.evaluate.significance import t_test

Doubles = NDArray[np.float64]
Precisions = Mapping[str, Mapping[str, Doubles]]

LEVEL = 0.01  # of significance
UNTRAINED = ("QLM", "AGG", "TbT")
KINDS = ("source", "target", "full")
BY_SCORES = ", scores"  # ends the name of an ensemble that is not one of ranks
_PAIRS = ("de-en", "cs-en", "hu-en", "cs-de", "hu-de", "cs-hu")
# Glavaš and Vulić 2019, table 2, and the best row of table 3.
PAPER = {
    "QLM": dict(zip(_PAIRS, (0.303, 0.121, 0.141, 0.064, 0.054, 0.083), strict=True)),
    "AGG": dict(zip(_PAIRS, (0.390, 0.547, 0.372, 0.374, 0.356, 0.378), strict=True)),
    "TbT": dict(zip(_PAIRS, (0.490, 0.563, 0.357, 0.228, 0.142, 0.124), strict=True)),
    "InAtt": dict(zip(_PAIRS, (0.506, 0.597, 0.462, 0.495, 0.422, 0.404), strict=True)),
    "BiCLA": dict(zip(_PAIRS, (0.604, 0.665, 0.569, 0.562, 0.577, 0.575), strict=True)),
}
PAPER_BEST = dict(zip(_PAIRS, (0.708, 0.859, 0.726, 0.697, 0.647, 0.708), strict=True))
_OTHERWISE = "Paper: other word vectors and other training text than ours, the same test sets."


def kind_of(trained: str, tested: str) -> str:
    """The kind of zero-shot transfer: "source" (that language alone differs), "target" or "full"; "" for none."""
    if trained == tested:
        return ""
    same = [one == other for one, other in zip(trained.split("-"), tested.split("-"), strict=True)]
    return "target" if same[0] else "source" if same[1] else "full"


def ranker_tables(found: Precisions) -> list[Table]:
    """Table 2: MAP of each ranker, and p of the difference to BiCLA."""
    pairs, rows = list(found), []
    for name in _systems(found):
        rows.append((name, *_maps(found, name)))
        if name in PAPER:
            rows.append((f"  paper's {name}", *_with_mean([PAPER[name].get(pair) for pair in pairs])))
    tables = [Table("rankers", "Table 2: rankers, MAP", ("ranker", *pairs, "mean"), tuple(rows), _OTHERWISE)]
    others = [name for name in _systems(found) if name != "BiCLA"]
    if "BiCLA" in _systems(found) and others:
        tests = tuple((name, *(_p(found[pair], "BiCLA", name) for pair in pairs)) for name in others)
        note = "Two-tailed paired t-test over average precisions; worse: BiCLA is the worse one."
        tables.append(Table("rankers p", "p of BiCLA against the others", ("ranker", *pairs), tests, note))
    return tables


def ensemble_tables(found: Precisions, rankers: Precisions) -> list[Table]:
    """Table 3: MAP of each ensemble, the best of each pair and of either kind, and p of its difference to BiCLA."""
    pairs = list(found)
    rows: list[tuple[Any, ...]] = [(name, *_maps(found, name)) for name in _systems(found)]
    best = {kind: _best_ensembles(found, kind) for kind in ("ranks", "scores")}
    rows.append(("BiCLA alone", *_maps({pair: rankers[pair] for pair in pairs}, "BiCLA")))
    for kind, names in best.items():
        rows.append((f"best of {kind}", *_with_mean([_map(found[pair], names[pair]) for pair in pairs])))
    rows.append(("  paper's best", *_with_mean([PAPER_BEST.get(pair) for pair in pairs])))

    def row(pair: str, name: str) -> tuple[str, str, float, float, str]:
        own, alone = found[pair][name], rankers[pair]["BiCLA"]
        return pair, name, float(own.mean()), float(alone.mean()), _signed(own, alone)

    note = f"Ranks or, where it says so, z-scores of each query's list, interpolated with these weights. {_OTHERWISE}"
    tables = [Table("ensembles", "Table 3: ensembles, MAP", ("ensemble", *pairs, "mean"), tuple(rows), note)]
    for kind, names in best.items():
        named = tuple(row(*each) for each in names.items())
        header = ("pair", "ensemble", "MAP", "BiCLA", "p")
        tables.append(Table(f"best ensembles of {kind}", f"The best ensembles of {kind}", header, named))
    return tables


def _best_ensembles(found: Precisions, kind: str) -> dict[str, str]:
    """The name of each pair's best ensemble of ranks or of scores."""
    parts = {
        pair: {name: value for name, value in each.items() if name.endswith(BY_SCORES) == (kind == "scores")}
        for pair, each in found.items()
    }
    return {pair: max(part, key=lambda name: float(part[name].mean())) for pair, part in parts.items() if part}


def transfer_tables(
    found: Precisions, with_agg: Mapping[str, Mapping[tuple[str, str], Doubles]], rankers: Precisions
) -> list[Table]:
    """Table 4, zero-shot transfer: every model on every pair; table 5: the same with AGG; both by kind of transfer."""
    pairs, trained = list(found), list(dict.fromkeys(name for each in found.values() for name in each))
    rows = tuple((name, *(_map(found[pair], name) for pair in pairs)) for name in trained)
    header = ("trained on", *pairs)
    shown = "The diagonal is no transfer. Columns: tested on."
    tables = [Table("zero-shot", "Table 4: zero-shot transfer, MAP", header, rows, shown)]
    tables.append(_kinds("zero-shot kinds", "Table 4 by kind of transfer", found, rankers))
    weights = list(dict.fromkeys(key[1] for each in with_agg.values() for key in each))
    for each in weights:
        part = {pair: {name: with_agg[pair][name, each] for name in found[pair]} for pair in pairs}
        more = tuple((name, *(_map(part[pair], name) for pair in pairs)) for name in trained)
        title = f"Table 5: zero-shot transfer, BiCLA + AGG {each}, MAP"
        tables.append(Table(f"zero-shot with AGG {each}", title, header, more, shown))
        tables.append(_kinds(f"zero-shot with AGG {each} kinds", f"The same by kind, {each}", part, rankers))
    return tables


def _kinds(name: str, title: str, found: Precisions, rankers: Precisions) -> Table:
    """Of each pair: the best ranker without training, the supervised figure, and mean and best of each transfer."""
    rows = []
    for pair, systems in found.items():
        simple = _best_untrained(rankers[pair])
        row: list[Any] = [pair, simple, float(rankers[pair][simple].mean()), _map(systems, pair)]
        for kind in KINDS:
            values = [float(value.mean()) for other, value in systems.items() if kind_of(other, pair) == kind]
            row += [float(np.mean(values)), max(values)] if values else [None, None]
        rows.append(tuple(row))
    columns = [column for kind in KINDS for column in (f"{kind}, mean", f"{kind}, best")]
    return Table(name, title, ("pair", "untrained", "its MAP", "supervised", *columns), tuple(rows))


def summary_table(rankers: Precisions, ensembles: Precisions, transfer: Precisions) -> Table:
    """In how many cases what the paper finds holds for these figures."""
    rows: list[tuple[str, int, int]] = []
    supervised = [pair for pair in rankers if "BiCLA" in rankers[pair]]
    for name in (*UNTRAINED, "InAtt"):
        having = [pair for pair in supervised if name in rankers[pair]]
        won = [_better(rankers[pair]["BiCLA"], rankers[pair][name]) for pair in having]
        rows.append((f"BiCLA above {name}, p < {LEVEL}", sum(won), len(won)))
    for kind in ("ranks", "scores"):
        best = _best_ensembles(ensembles, kind)
        gained = [float((ensembles[pair][name] - rankers[pair]["BiCLA"]).mean()) > 0 for pair, name in best.items()]
        rows.append((f"best ensemble of {kind} above BiCLA", sum(gained), len(gained)))
    for kind in KINDS:
        cells = [
            _map(systems, other) or 0.0
            for pair, systems in transfer.items()
            for other in systems
            if kind_of(other, pair) == kind
        ]
        simple = [
            float(rankers[pair][_best_untrained(rankers[pair])].mean())
            for pair, systems in transfer.items()
            for other in systems
            if kind_of(other, pair) == kind
        ]
        above = sum(one > other for one, other in zip(cells, simple, strict=True))
        rows.append((f"zero-shot, {kind}: above the best ranker without training", above, len(cells)))
    kept = tuple(row for row in rows if row[2])
    return Table("summary", "What the paper finds, here", ("finding", "holds", "of"), kept)


def _systems(found: Precisions) -> list[str]:
    return list(dict.fromkeys(name for each in found.values() for name in each))


def _maps(found: Precisions, name: str) -> list[float | None]:
    return _with_mean([_map(each, name) for each in found.values()])


def _map(each: Mapping[str, Doubles], name: str) -> float | None:
    return float(each[name].mean()) if name in each else None


def _with_mean(values: Sequence[float | None]) -> list[float | None]:
    """The values and their mean; no mean where one is missing."""
    there = [value for value in values if value is not None]
    return [*values, float(np.mean(there)) if len(there) == len(values) else None]


def _best_untrained(each: Mapping[str, Doubles]) -> str:
    return max((name for name in UNTRAINED if name in each), key=lambda name: float(each[name].mean()))


def _p(each: Mapping[str, Doubles], first: str, second: str) -> str | None:
    return _signed(each[first], each[second]) if first in each and second in each else None


def _signed(first: Doubles, second: Doubles) -> str:
    """p, and "worse" where the first is the worse one."""
    t, p = t_test(first, second)
    return (f"{p:.4f}" if p >= 0.0001 else "<.0001") + " worse" * (t < 0)


def _better(first: Doubles, second: Doubles) -> bool:
    t, p = t_test(first, second)
    return t > 0 and p < LEVEL
