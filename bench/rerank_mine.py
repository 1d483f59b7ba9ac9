"""Mining with the re-ranker instead of the matching of words: which second look is better for `phrasemate mine`?

As bench/mine.py, on a small collection whose sides are other lines of one parallel text: pairs of Tatoeba hidden in it,
the threshold calibrated in two folds. The re-ranker's scores are divided by the highest there can be.

    python bench/rerank_mine.py --languages de --size 2500 --work .cache/rerank-mine
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from common import parser, report, signature
from mine import LOW, Task, tell
from numpy.typing import NDArray

from phrasemate import Document, Model, load_model
from phrasemate.mine import Mined, Mining, mine
from phrasemate.reranker import Attention, load_attention
from phrasemate.types import PhrasePair, Scorer

HEADER = ["pair", "second look", "weight", "precision", "recall", "F1", "F1 strictly", "best F1", "seconds"]


class Scaled:
    """The re-ranker's scores, 1 at most."""

    def __init__(self, attention: Attention) -> None:
        self._attention = attention
        self._most = float(np.abs(attention.trained.network.arrays["mix"]).sum())
        self.signature = f"scaled {attention.signature}"

    def score(self, pairs: Sequence[PhrasePair]) -> NDArray[np.float32]:
        """(pairs,) float32."""
        made: NDArray[np.float32] = self._attention.score(pairs) / np.float32(self._most)
        return made


def rows(args: argparse.Namespace, lang: str, model: Model, looks: Sequence[tuple[str, Mining, Scorer | None]]) -> Any:
    """A row for each second look."""
    task, folder = Task(args, lang), args.work / f"{lang}-{args.size}"
    folds = task.gold[::2], task.gold[1::2]

    def run(settings: Mining, scorer: Scorer | None, known: Sequence[tuple[str, str]] = ()) -> Mined:
        sides = [[Document.from_texts(name, getattr(task, name))] for name in ("source", "target")]
        given = replace(settings, languages=(lang, "en"))
        return mine(*sides, model, folder, given, known, scorer=scorer, progress=tell(lang))

    for name, settings, scorer in looks:
        thresholds, seconds = [], 0.0
        for fold in folds:
            with run(settings, scorer, fold) as mined:
                assert mined.report.calibration is not None
                thresholds.append(mined.report.calibration.threshold)
                seconds += mined.report.seconds.get("reranking", 0.0)
        with run(replace(settings, threshold=LOW[settings.margin]), scorer) as mined:
            found = list(mined)
        figures = task.scores(found, folds, thresholds)[:3]
        strictly = task.scores(found, folds, thresholds, strict=True)[2]
        best = max(task.scores(found, folds, [at, at])[2] for at in np.arange(0.4, 3, 0.01))
        yield [f"{lang}-en", name, settings.weight, *figures, strictly, best, seconds]


def main() -> None:
    """Print the table."""
    options = parser(__doc__)
    options.add_argument("--languages", default="de", help="codes, with commas (default: %(default)s)")
    options.add_argument("--size", type=int, default=2_500, help="sentences a side (default: %(default)s)")
    options.add_argument("--pairs", type=int, default=1_000, help="hidden pairs (default: %(default)s)")
    options.add_argument("--work", type=Path, required=True, help="keep vectors here, go on there")
    args = options.parse_args()
    args.apart = "lines"
    args.work.mkdir(parents=True, exist_ok=True)
    model = load_model(args.model, args.threads)
    attention = Scaled(load_attention(model))
    looks: list[tuple[str, Mining, Scorer | None]] = [("none", Mining(rerank="none"), None), ("words", Mining(), None)]
    looks += [("re-ranker", Mining(weight=weight), attention) for weight in (0.5, 1.0, 2.0)]
    table = [row for lang in args.languages.split(",") for row in rows(args, lang, model, looks)]
    facts = {
        "size": args.size,
        "pairs": args.pairs,
        "seed": args.seed,
        "re-ranker": load_attention(model).trained.hash[:12],
    }
    report("rerank_mine", HEADER, table, signature(model, **facts))


if __name__ == "__main__":
    main()
