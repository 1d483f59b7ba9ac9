"""How many dimensions phrases need, and whether to centre and whiten them: the figures behind docs/decisions.md.

Learns principal components of the ends of phrases from sentences of twelve languages and ranks the gold spans of
phrase_bench with each of them (docs/evaluate.md), all in one pass over the distractors.

    python bench/projection.py --sentences 4000
"""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from common import parser, report

from phrasemate import Model, Phrase, load_model
from phrasemate.encode.pooling import unit
from phrasemate.evaluate.data import LANGS
from phrasemate.evaluate.distractors import distractor_sentences, spans_of
from phrasemate.evaluate.phrases import evaluate_phrases
from phrasemate.evaluate.report import signature
from phrasemate.evaluate.systems import Block, ModelSource

Projection = tuple[np.ndarray, np.ndarray] | None
LEARNT_FROM = ("cs", "de", "es", "fi", "fr", "hu", "ja", "ko", "ru", "tr", "zh")
FIRST = 15_000  # lines before it give the distractors
EACH = 220  # sentence pairs of each corpus, both sides: 4,840 sentences


def sentences(data: Path, seed: int) -> list[str]:
    """Sentences of every language, as many of English as of all the others together."""
    draw, found = random.Random(seed), []
    for lang in LEARNT_FROM:
        with gzip.open(data / "parallel" / f"en-{lang}.tsv.gz", "rt", encoding="utf-8") as file:
            rows = [line.rstrip("\n").split("\t") for line in file][FIRST:]
        for english, other, *_ in draw.sample(rows, EACH):
            found += [english, other]
    return found


def projections(model: Model, texts: list[str], dims: list[int]) -> dict[str, Projection]:
    """Kernel and bias by name; None is the two ends in full."""
    found = unit(np.concatenate(list(model.ends(texts)))).astype(np.float64)
    made: dict[str, Projection] = {"both ends in full": None}
    for centred in (False, True):
        mean = found.mean(0) if centred else np.zeros(found.shape[1])
        values, axes = np.linalg.eigh((found - mean).T @ (found - mean) / len(found))
        if centred:
            made["both ends, centred"] = (np.eye(len(mean)), -mean)
        for dim in dims:
            for whitening in (0.0, 0.5):
                kernel = axes[:, ::-1][:, :dim] * values[::-1][:dim] ** (-whitening / 2)
                name = f"{dim}{', centred' if centred else ''}{', half whitened' if whitening else ''}"
                made[name] = (kernel, -mean @ kernel)
    return made


class Projected:
    """The ends of spans under every projection, from one pass of the encoder."""

    def __init__(self, model: Model, made: dict[str, Projection]) -> None:
        self.ends, self.made, self.names = ModelSource(model, {"ends": "ends"}), made, tuple(made)

    def queries(self, phrases: Sequence[Phrase]) -> dict[str, np.ndarray]:
        """As in `Source`."""
        found = self.ends.queries(phrases)["ends"]
        return {name: project(found, each) for name, each in self.made.items()}

    def blocks(self, texts: Sequence[str], found: Sequence[np.ndarray]) -> Iterator[tuple[str, Block]]:
        """As in `Source`."""
        for _, block in self.ends.blocks(texts, found):
            for name, each in self.made.items():
                yield name, Block(project(block.vectors, each))


def project(found: np.ndarray, projection: Projection) -> np.ndarray:
    """(n, width) unit vectors -> (n, dim) unit vectors."""
    return found if projection is None else unit((found @ projection[0] + projection[1]).astype(np.float32))


def main() -> None:
    """Print the table."""
    options = parser(__doc__)
    options.add_argument("--sentences", type=int, default=4_000, help="distractor sentences")
    options.add_argument("--dims", type=int, nargs="+", default=[128, 192, 256])
    args = options.parse_args()
    model = load_model(args.model, args.threads)
    made = projections(model, sentences(args.data, args.seed), args.dims)
    texts = list(islice(distractor_sentences(args.data), args.sentences))
    figures = evaluate_phrases([Projected(model, made)], args.data, sum(len(spans_of(text)) for text in texts))
    rows = [[name, *(float(each[lang].hits().mean()) for lang in LANGS)] for name, each in figures.rankings.items()]
    rows = [[*row, float(np.mean(row[1:]))] for row in rows]
    facts = signature(model, measure="acc@1", distractor_sentences=len(texts), seed=args.seed)
    report("projection", ["vectors", *LANGS, "mean"], rows, facts)


if __name__ == "__main__":
    main()
