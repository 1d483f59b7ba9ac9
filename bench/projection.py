"""How many dimensions phrases need, and whether to centre and whiten them: the figures behind docs/decisions.md.

Learns principal components of the ends of phrases from the text of bench/bundled_model.py and ranks the gold spans of
phrase_bench with each of them (see bench/phrase_retrieval.py), all in one pass over the distractors.

    python bench/projection.py --sentences 4000
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from bundled_model import sentences
from common import parser, report, signature
from phrase_retrieval import SETS, Set, distractors, spans, vectors

from phrasemate import Model, Phrase, load_model
from phrasemate.encode.pool import unit
from phrasemate.evaluate import accuracy

Projection = tuple[np.ndarray, np.ndarray] | None


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


class Ranks:
    """How many spans beat the gold one of each query, for every projection."""

    def __init__(self, data: Path, lang: str, model: Model, made: dict[str, Projection]) -> None:
        self.set, self.made = Set(data, lang, model, ["ends"]), made
        with (data / "phrase_bench" / f"{lang}-en.jsonl").open(encoding="utf-8") as file:
            pairs = [json.loads(line) for line in file]
        gold = model.encode([Phrase(p["target"], p["target_start"], p["target_end"]) for p in pairs], pooling="ends")
        self.queries = {name: project(self.set.queries["ends"], each) for name, each in made.items()}
        self.gold = {name: (self.queries[name] * project(gold, each)).sum(1) for name, each in made.items()}
        self.ranks = {name: np.zeros(len(pairs)) for name in made}
        for block in vectors(model, *self.set.targets(), ["ends"]):
            self.count({name: project(block["ends"], each) for name, each in made.items()})

    def count(self, block: dict[str, np.ndarray]) -> None:
        """Add a block of projected spans."""
        for name, found in block.items():
            self.ranks[name] += (self.queries[name] @ found.T > self.gold[name][:, None] + 1e-5).sum(1)


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
    sets = [Ranks(args.data, lang, model, made) for lang in SETS]
    texts = distractors(args.data, args.sentences)
    for at in range(0, len(texts), 500):
        part = texts[at : at + 500]
        for block in vectors(model, part, [spans(text) for text in part], ["ends"]):
            projected = {name: project(block["ends"], each) for name, each in made.items()}
            for each in sets:
                each.count(projected)
    rows = [[name, *(accuracy(each.ranks[name]) for each in sets)] for name in made]
    rows = [[*row, float(np.mean(row[1:]))] for row in rows]
    facts = signature(model, measure="acc@1", distractor_sentences=len(texts), seed=args.seed)
    report("projection", ["vectors", *SETS, "mean"], rows, facts)


if __name__ == "__main__":
    main()
