"""Sentence retrieval with a second look: MAP before and after re-ranking the first 20.

Each first sentence ranks all second ones of its set; MAP is the mean reciprocal rank of its mate. Rows: the encoder's
cosine; CSLS, with several numbers of neighbours; and, for the first 20 by CSLS, the re-ranker as it is before training,
and the trained one, each alone and both ways (`phrasemate.reranker.both_ways`): from each side's lists, with margins
after it.

    python bench/rerank.py --work .cache/states
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import parser, report
from numpy.typing import NDArray

from phrasemate import Model, load_model
from phrasemate.evaluate.bicla import SentenceSet, read_set, run_precisions
from phrasemate.evaluate.report import signature
from phrasemate.rank import csls, rerank, run_of, whole
from phrasemate.reranker import Network, Read, both_ways, load_reranker
from phrasemate.training.frozen_states import SentenceStates, sentence_states
from phrasemate.training.reranker import first_network
from phrasemate.types import PhrasePair, Run, Scorer

PAIRS = ("de-en", "cs-en", "hu-en", "cs-de", "hu-de", "cs-hu")
NEIGHBOURS = (1, 2, 4, 10)
FIRST = 20

Floats = NDArray[np.float32]


class Looked(NamedTuple):
    """A set, the states of both sides, and the cosines of all pairs: -inf where a document is not a wrong answer."""

    texts: SentenceSet
    sides: tuple[SentenceStates, SentenceStates]
    cosines: Floats


class Ready:
    """A `Scorer` that reads kept states instead of encoding."""

    def __init__(self, network: Network, looked: Looked) -> None:
        self._network = network
        self._scores: dict[tuple[str, str], float] = {}
        self._known: dict[str, Read] = {}
        for texts, states in zip((looked.texts.queries, looked.texts.documents), looked.sides, strict=True):
            for at, text in enumerate(texts):
                self._known[text] = network.read(states.tokens(at).astype(np.float32), states.vectors[at])

    def score(self, pairs: Sequence[PhrasePair]) -> Floats:
        """(pairs,) float32."""
        keys = [(pair.source.text, pair.target.text) for pair in pairs]
        order: dict[str, list[str]] = {}
        for source, target in dict.fromkeys(key for key in keys if key not in self._scores):
            order.setdefault(source, []).append(target)
        for source, targets in order.items():
            parts = self._network.parts(self._known[source], [self._known[target] for target in targets])
            scores = (parts @ self._network.arrays["mix"]).tolist()
            self._scores |= zip([(source, target) for target in targets], scores, strict=True)
        return np.array([self._scores[key] for key in keys], np.float32)


def look(sentences: SentenceSet, model: Model, work: Path) -> Looked:
    """Encode, or take what is kept."""
    first, second = (sentence_states(model, texts, work) for texts in (sentences.queries, sentences.documents))
    return Looked(sentences, (first, second), first.vectors @ second.vectors.T)


def first_run(looked: Looked, k: int) -> Run:
    """All documents for each query, by CSLS."""
    return run_of(looked.texts.candidates(csls(looked.cosines, k)))


def alone(looked: Looked, scorer: Scorer, k: int) -> Run:
    """The first of each query's list re-ranked."""
    query, document = _phrases(looked)
    return rerank(first_run(looked, k), scorer, FIRST, query, document, batch=1 << 20)


def both(looked: Looked, scorer: Scorer, k: int, after: int) -> Run:
    """The first of both sides' lists re-ranked, and margins of ``after`` neighbours."""
    query, document = _phrases(looked)
    values = looked.texts.candidates(csls(looked.cosines, k))
    return both_ways(run_of(values), run_of(values.T), scorer, FIRST, query, document, after)


def _phrases(looked: Looked) -> Any:
    sides = ([whole(text) for text in side] for side in (looked.texts.queries, looked.texts.documents))
    return tuple(side.__getitem__ for side in sides)


def systems(args: argparse.Namespace, model: Model, looked: Looked) -> Iterator[tuple[str, Run]]:
    """Each system's ranking."""
    yield "cosine", run_of(looked.texts.candidates(looked.cosines))
    for k in NEIGHBOURS:
        yield f"CSLS, k = {k}", first_run(looked, k)
    start = first_network(model)
    for name in args.networks.split(","):
        scorer = Ready(load_reranker(args.reranker).network if name == "trained" else start, looked)
        yield f"CSLS, {name}", alone(looked, scorer, args.k)
        yield f"CSLS, {name}, both ways", both(looked, scorer, args.k, args.after)


def main() -> None:
    """Print the table."""
    options = parser(__doc__)
    options.add_argument("--work", type=Path, required=True, help="token states are kept here (80 MB a thousand)")
    options.add_argument("--pairs", default=",".join(PAIRS))
    options.add_argument("--reranker", type=Path, help="folder of a trained one (default: the bundled one)")
    options.add_argument("--networks", default="untrained,trained", help="which of these (default: both)")
    options.add_argument("-k", type=int, default=1, help="neighbours of CSLS before it (default: %(default)s)")
    options.add_argument(
        "--after", type=int, default=1, help="neighbours of the margins after it (default: %(default)s)"
    )
    args = options.parse_args()
    model = load_model(args.model, args.threads)
    figures: dict[str, dict[str, float]] = {}
    for pair in args.pairs.split(","):
        texts = read_set(args.data / "sentence_bench" / "europarl", pair)
        looked = look(texts, model, args.work)
        for name, run in systems(args, model, looked):
            figures.setdefault(name, {})[texts.pair] = float(run_precisions(run).mean())
    pairs = list(next(iter(figures.values())))
    rows = [[name, *(row[pair] for pair in pairs), float(np.mean(list(row.values())))] for name, row in figures.items()]
    facts: dict[str, Any] = {"sets": "europarl", "first": FIRST, "k": args.k, "after": args.after}
    if "trained" in args.networks.split(","):
        facts["re-ranker"] = load_reranker(args.reranker).hash[:12]
    report("rerank", ["system", *pairs, "mean"], rows, signature(model, **facts))


if __name__ == "__main__":
    main()
