"""BiCLA's settings for text of another domain, chosen on news: the learning rate, how long, how much of it is kept.

    python bench/bicla_data.py .cache/bicla --most 20000 --joined 16000
    mkdir -p .cache/news/sentence_bench
    ln -s "$(realpath ../shared/data/mt)" .cache/news/sentence_bench/europarl
    python bench/bicla_vectors.py .cache/vectors .cache/bicla .cache/news/vectors --data .cache/news --pairs de-en cs-en
    python bench/bicla_share.py .cache/bicla .cache/news/vectors --data .cache/news

MAP of AGG, of AGG in the metric in which mates of the training text are alike ("within"), and of InAtt and BiCLA with
several shares of what training has changed (0: as it began), on the sets of --data (a thousand news sentences of each
pair), trained on the pair itself. All else is as in `phrasemate train bicla bicla-small`, or as --set says.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from common import parser, report
from numpy.typing import NDArray

from phrasemate.baselines import sums
from phrasemate.encode.pooling import unit
from phrasemate.evaluate.bicla import SETS
from phrasemate.evaluate.data import digest
from phrasemate.evaluate.report import signature
from phrasemate.evaluate.sentences import SentenceSet, average_precisions, read_set
from phrasemate.text.stopwords import content_words, stop_words
from phrasemate.training.bicla import BiCLATask, Config, score_matrix, within
from phrasemate.training.config import overridden, read_toml
from phrasemate.training.trainer import Trainer, chosen_device
from phrasemate.vectors import WordVectors

CONFIG = Path(__file__).parent.parent / "src" / "phrasemate" / "configs" / "bicla-small.toml"
KINDS = {"InAtt": "false", "BiCLA": "true"}

Floats = NDArray[np.float32]


class Asked:
    """A test set: its content words, and their vectors."""

    def __init__(self, each: SentenceSet, vectors: Path) -> None:
        self.each, self.spaces = each, [WordVectors.load(vectors / language) for language in each.languages]
        self.words = [
            [content_words(text, stop_words(language)) for text in side]
            for side, language in zip((each.queries, each.documents), each.languages, strict=True)
        ]
        self.sides = [
            [space.matrix[space.rows(sentence)] for sentence in side]
            for side, space in zip(self.words, self.spaces, strict=True)
        ]

    def precision(self, scores: Floats) -> float:
        """MAP of (queries, documents) scores."""
        return float(average_precisions(self.each.candidates(scores)).mean())

    def agg(self, metric: Floats | None = None) -> float:
        """That of AGG, of sums times a metric."""
        each = [sums(words, space) for words, space in zip(self.words, self.spaces, strict=True)]
        queries, documents = (unit(side if metric is None else side @ metric) for side in each)
        return self.precision(queries @ documents.T)


def trained(asked: Asked, tables: dict[str, Any], folders: tuple[Path, Path], shares: list[float]) -> list[float]:
    """MAP of AGG within, and with each share."""
    task = BiCLATask(Config.of(tables), *folders)
    with tempfile.TemporaryDirectory() as run:
        Trainer(task, task.config.loop, Path(run), task.facts()).run()
    task.module.eval()
    found = [asked.agg(within(*task.train.sums))]
    for share in shares:
        with task.averaged(share):
            found.append(asked.precision(score_matrix(task.module, *asked.sides)))
    return found


def main() -> None:
    """Train, print the table."""
    options = parser(__doc__)
    options.add_argument("training", type=Path, metavar="PAIRS", help="of bench/bicla_data.py")
    options.add_argument("vectors", type=Path, metavar="VECTORS", help="of bench/bicla_vectors.py")
    options.add_argument("--pairs", nargs="+", default=["de-en", "cs-en"], metavar="XX-YY")
    options.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    options.add_argument("--rates", nargs="+", type=float, default=[1e-4])
    options.add_argument("--steps", nargs="+", type=int, default=[50])
    options.add_argument("--shares", nargs="+", type=float, default=[0, 0.25, 0.5, 0.75, 1])
    options.add_argument("--set", nargs="*", default=[], metavar="TABLE.KEY=VALUE", help="other settings")
    args = options.parse_args()
    chosen_device("cpu", args.threads)
    header = ["pair", "ranker", "rate", "steps", "AGG", "within", *(f"share {share:g}" for share in args.shares)]
    rows: list[list[Any]] = []
    for pair in args.pairs:
        asked = Asked(read_set(args.data / SETS, pair), args.vectors)
        simple = asked.agg()
        for kind, rate, steps in ((k, r, s) for k in args.kinds for r in args.rates for s in args.steps):
            loop = [f"loop.{name}={steps}" for name in ("steps", "evaluate", "checkpoint")]
            own = [f"data.pair={pair}", f"model.cross={KINDS[kind]}", f"optimizer.rate={rate}", *loop]
            tables = overridden(read_toml(CONFIG), [*own, f"loop.seed={args.seed}", *args.set])
            found = trained(asked, tables, (args.training, args.vectors), args.shares)
            rows.append([pair, kind, rate, steps, simple, *found])
    data = digest([path for pair in args.pairs for path in read_set(args.data / SETS, pair).paths])
    report("bicla_share", header, rows, signature(None, data=data, seed=args.seed, settings=" ".join(args.set)))


if __name__ == "__main__":
    main()
