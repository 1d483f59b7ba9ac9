"""Which second look is better for `phrasemate mine`, words or the re-ranker, and how often should it count?

As bench/mine.py: pairs of Tatoeba hidden in collections, the threshold calibrated in two folds. Choose by languages
that bench/mine.py does not report on.

    python bench/rerank_mine.py --languages hu,tr --size 20000 --apart sources --work .cache/rerank-mine
    python bench/rerank_mine.py --languages de --size 2500 --apart lines --work .cache/rerank-mine
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from common import parser, report
from mine import LOW, WITHOUT, Task, tell

from phrasemate import Document, Model, load_model
from phrasemate.evaluate.report import signature
from phrasemate.mine import Mined, Mining, mine
from phrasemate.reranker import load_reranker

HEADER = [
    "pair",
    "second look",
    "weight",
    "threshold",
    "precision",
    "recall",
    "F1",
    "F1 strictly",
    "best F1",
    "seconds",
]


def rows(args: argparse.Namespace, lang: str, model: Model, looks: Sequence[Mining]) -> Iterator[list[Any]]:
    """A row for each second look."""
    task, folder = Task(args, lang), args.work / f"{lang}-{args.size}"
    folds = task.gold[::2], task.gold[1::2]

    def run(settings: Mining, known: Sequence[tuple[str, str]] = ()) -> Mined:
        sides = [[Document.from_texts(name, getattr(task, name))] for name in ("source", "target")]
        given = replace(settings, languages=(lang, "en"))
        return mine(*sides, model, folder, given, known, progress=tell(lang))

    for settings in looks:
        thresholds, seconds = [], 0.0
        for fold in folds:
            with run(settings, fold) as mined:
                assert mined.report.calibration is not None
                thresholds.append(mined.report.calibration.threshold)
                seconds += mined.report.seconds.get("reranking", 0.0)
        with run(replace(settings, threshold=LOW[settings.margin])) as mined:
            found = list(mined)
        figures = task.scores(found, folds, thresholds)[:3]
        strictly = task.scores(found, folds, thresholds, strict=True)[2]
        best = max(task.scores(found, folds, [at, at])[2] for at in np.arange(0.4, 3, 0.01))
        weight = "" if settings.weight is None else settings.weight
        threshold = float(np.mean(thresholds))
        yield [f"{lang}-en", settings.rerank, weight, threshold, *figures, strictly, best, seconds]


def main() -> None:
    """Print the table."""
    options = parser(__doc__)
    options.add_argument("--languages", default="de", help="codes, with commas (default: %(default)s)")
    options.add_argument("--size", type=int, default=2_500, help="sentences a side (default: %(default)s)")
    options.add_argument("--pairs", type=int, default=1_000, help="hidden pairs (default: %(default)s)")
    options.add_argument("--apart", choices=["sources", "lines"], default="sources", help="as of bench/mine.py")
    options.add_argument("--without", default=WITHOUT, help="as of bench/mine.py (default: %(default)s)")
    options.add_argument("--work", type=Path, required=True, help="keep vectors here, go on there")
    args = options.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    model = load_model(args.model, args.threads)
    looks = [Mining(rerank="none")]
    looks += [Mining(rerank="words", weight=weight) for weight in (0.1, 0.25, 0.5)]
    looks += [Mining(rerank="reranker", weight=weight) for weight in (0.5, 1.0, 2.0, 3.0)]
    table = [row for lang in args.languages.split(",") for row in rows(args, lang, model, looks)]
    facts = {
        "apart": args.apart,
        "without": args.without,
        "size": args.size,
        "pairs": args.pairs,
        "seed": args.seed,
        "re-ranker": load_reranker().hash[:12],
    }
    report("rerank_mine", HEADER, table, signature(model, **facts))


if __name__ == "__main__":
    main()
