"""Sentence retrieval with a second look: MAP before and after re-ranking the first 20.

Each first sentence ranks all second ones of its set; MAP is the mean reciprocal rank of its mate. Rows: the encoder's
cosine; CSLS, with several numbers of neighbours; and, for the first 20 by CSLS, the words' worst matches
(`phrasemate.mine`'s WordMatch), the re-ranker as it is before training, and the trained one, each alone and both ways
(`phrasemate.reranker.both_ways`): from each side's lists, with margins after it.

    python bench/rerank.py --work .cache/states
    python bench/rerank.py --work .cache/states --held .cache/rerank --tune
    python bench/rerank.py --work .cache/states --errors de-en

``--held DIR``: on DIR/PAIR/dev.tsv of bench/rerank_data.py instead of Europarl; what is chosen is chosen there.
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
from phrasemate.align import ParallelText
from phrasemate.evaluate.report import signature
from phrasemate.evaluate.sentences import SentenceSet, read_set, run_precisions
from phrasemate.mine.word_match import WordMatch
from phrasemate.rank import csls, rerank, run_of, whole
from phrasemate.reranker import Network, Read, both_ways, load_reranker
from phrasemate.training.frozen_states import SentenceStates, sentence_states
from phrasemate.training.reranker import first_network
from phrasemate.types import PhrasePair, Run, Scorer

PAIRS = ("de-en", "cs-en", "hu-en", "cs-de", "hu-de", "cs-hu")
NEIGHBOURS = (1, 2, 4, 10)
FIRST = 20
MIXES = (
    (20.0, 0.0, 0.0),
    (20.0, 20.0, 0.0),
    (20.0, 40.0, 0.0),
    (20.0, 80.0, 0.0),
    (0.0, 40.0, 0.0),
    (20.0, 40.0, 10.0),
)

Floats = NDArray[np.float32]


class Looked(NamedTuple):
    """A set, the states of both sides, and the cosines of all pairs: -inf where a document is no wrong answer."""

    texts: SentenceSet
    sides: tuple[SentenceStates, SentenceStates]
    cosines: Floats


class Ready:
    """A `Scorer` that reads kept states instead of encoding, and keeps what it has scored for another ``mix``."""

    def __init__(self, network: Network, looked: Looked) -> None:
        self._network, self.mix = network, network.arrays["mix"]
        self._parts: dict[tuple[str, str], Floats] = {}
        self._known: dict[str, Read] = {}
        for texts, kept in zip((looked.texts.queries, looked.texts.documents), looked.sides, strict=True):
            for at, text in enumerate(texts):
                self._known[text] = network.read(kept.tokens(at).astype(np.float32), kept.vectors[at])

    def score(self, pairs: Sequence[PhrasePair]) -> Floats:
        """(pairs,) float32."""
        keys = [(pair.source.text, pair.target.text) for pair in pairs]
        order: dict[str, list[str]] = {}
        for source, target in dict.fromkeys(key for key in keys if key not in self._parts):
            order.setdefault(source, []).append(target)
        for source, targets in order.items():
            made = self._network.parts(self._known[source], [self._known[target] for target in targets])
            self._parts |= zip([(source, target) for target in targets], made, strict=True)
        scores: Floats = np.stack([self._parts[key] for key in keys]) @ self.mix
        return scores


def sets(args: argparse.Namespace) -> Iterator[SentenceSet]:
    """Europarl's, or what is held out."""
    for pair in args.pairs.split(","):
        if args.held is None:
            yield read_set(args.data / "sentence_bench" / "europarl", pair)
        else:
            path = args.held / pair / "dev.tsv"
            rows = [row for row in ParallelText(path) if all(row)][: args.most or None]
            yield SentenceSet(pair, [row[0] for row in rows], [row[1] for row in rows], (path, path))


def look(each: SentenceSet, model: Model, work: Path) -> Looked:
    """Encode, or take what is kept."""
    first, second = (sentence_states(model, texts, work) for texts in (each.queries, each.documents))
    return Looked(each, (first, second), first.vectors @ second.vectors.T)


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
    if args.tune:
        scorer = Ready(start, looked)
        for mix in MIXES:
            name = "mix " + " ".join(f"{each:g}" for each in mix)
            scorer.mix = np.array(mix, np.float32)
            yield name, alone(looked, scorer, args.k)
            for after in NEIGHBOURS:
                yield f"{name}, both ways, k = {after}", both(looked, scorer, args.k, after)
        return
    if args.words:
        yield "CSLS, words", alone(looked, WordMatch(model), args.k)
    for name in args.networks.split(","):
        scorer = Ready(load_reranker(args.reranker).network if name == "trained" else start, looked)
        yield f"CSLS, {name}", alone(looked, scorer, args.k)
        yield f"CSLS, {name}, both ways", both(looked, scorer, args.k, args.after)


def told(looked: Looked, run: Run, most: int) -> None:
    """Print queries whose mate is not first, with the mate and what is."""
    wrong = np.flatnonzero(run.ids[:, 0] != np.arange(len(run.ids)))
    for row in wrong[:most].tolist():
        rank = int(np.argmax(run.ids[row] == row)) + 1
        lines = looked.texts.queries[row], looked.texts.documents[row], looked.texts.documents[int(run.ids[row, 0])]
        print(f"\nline {row + 1}, rank {rank}\n  query {lines[0]}\n  mate  {lines[1]}\n  first {lines[2]}")
    print(f"\n{len(wrong)} of {len(run.ids)} queries")


def main() -> None:
    """Print the table."""
    options = parser(__doc__)
    options.add_argument("--work", type=Path, required=True, help="token states are kept here (80 MB a thousand)")
    options.add_argument("--held", type=Path, help="folder of held-out pairs (default: Europarl's test sets)")
    options.add_argument("--most", type=int, default=0, help="held-out pairs of each (default: all)")
    options.add_argument("--pairs", default=",".join(PAIRS))
    options.add_argument("--reranker", type=Path, help="folder of a trained one (default: the bundled one)")
    options.add_argument("--networks", default="untrained,trained", help="which of these (default: both)")
    options.add_argument("--words", action="store_true", help="with mine's matching of words (encodes once more)")
    options.add_argument("--tune", action="store_true", help="mixes of scores and numbers of neighbours, untrained")
    options.add_argument("-k", type=int, default=1, help="neighbours of CSLS before it (default: %(default)s)")
    options.add_argument(
        "--after", type=int, default=1, help="neighbours of the margins after it (default: %(default)s)"
    )
    options.add_argument("--errors", help="a pair: print what the last system gets wrong")
    args = options.parse_args()
    model = load_model(args.model, args.threads)
    found: dict[str, dict[str, float]] = {}
    for each in sets(args):
        looked = look(each, model, args.work)
        for name, run in systems(args, model, looked):
            found.setdefault(name, {})[each.pair] = float(run_precisions(run).mean())
        if args.errors == each.pair:
            told(looked, run, 20)
    pairs = list(next(iter(found.values())))
    rows = [[name, *(row[pair] for pair in pairs), float(np.mean(list(row.values())))] for name, row in found.items()]
    facts: dict[str, Any] = {"sets": "held out" if args.held else "europarl", "first": FIRST, "k": args.k}
    facts["after"] = args.after
    if "trained" in args.networks.split(",") and not args.tune:
        facts["re-ranker"] = load_reranker(args.reranker).hash[:12]
    name = "_".join(["rerank", *(["held"] if args.held else []), *(["tune"] if args.tune else [])])
    report(name, ["system", *pairs, "mean"], rows, signature(model, **facts))


if __name__ == "__main__":
    main()
