"""The re-ranker at work: a `Scorer` of sentence pairs, and lists that are re-ranked from both sides."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from phrasemate.encode import Model
from phrasemate.encode.pooling import pool_mean, unit
from phrasemate.encode.runtime import States
from phrasemate.errors import InputError, ModelMismatch
from phrasemate.rank import csls, margin_lists, rerank, run_of, whole
from phrasemate.reranker.folder import Trained, load_reranker
from phrasemate.reranker.network import Network, Read
from phrasemate.types import Phrase, PhrasePair, Run, Scorer
from phrasemate.utils.batching import parts

Floats = NDArray[np.float32]
FIRST = 20  # of a list, that are re-ranked
NEIGHBOURS = 1  # k of CSLS, before it and after it, chosen on held-out text (docs/rerank.md)
HELD = 200_000  # tokens of sentences that are kept between calls: 150 MB at a dimension of 192
TOGETHER = 4096  # tokens of other sentences that one sentence is compared with at once


class Attention:
    """Scores sentence pairs by cross-attention over the encoder's token states; a pair has one score both ways.

    Sentences are encoded once and kept, the latest ``held`` tokens of them. No score is above ``highest``. Raises
    ModelMismatch for a re-ranker that was trained on another encoder's states.
    """

    def __init__(self, model: Model, trained: Trained, held: int = HELD) -> None:
        if trained.encoder != model.hash or trained.network.width != model.width:
            raise ModelMismatch(
                f"the re-ranker {trained.hash[:12]} was trained on the encoder {trained.encoder[:12]}, this one is "
                f"{model.hash[:12]}; give the encoder that it belongs to, or train one for yours"
            )
        self.trained = trained
        self._model, self._network, self._most = model, trained.network, held
        self.highest = float(np.abs(trained.network.arrays["mix"]).sum())
        self._kept: OrderedDict[str, Read] = OrderedDict()
        self._tokens = 0
        self.signature = f"attention {trained.hash} {model.hash}"

    def score(self, pairs: Sequence[PhrasePair]) -> Floats:
        """(pairs,) float32: the higher, the likelier is a pair one of translations."""
        texts = [(pair.source.text, pair.target.text) for pair in pairs]
        known = self._reads(texts)
        others: dict[str, list[int]] = defaultdict(list)
        for number, (source, _) in enumerate(texts):
            others[source].append(number)
        found = np.zeros(len(pairs), np.float32)
        for source, numbers in others.items():
            for part in parts(numbers, lambda number: len(known[texts[number][1]].tokens), TOGETHER):
                found[part] = self._network.scores(known[source], [known[texts[number][1]] for number in part])
        return found

    def _reads(self, texts: Sequence[tuple[str, str]]) -> dict[str, Read]:
        """The sentences of some pairs; those of earlier calls are kept as far as there is room."""
        wanted = dict.fromkeys(text for pair in texts for text in pair)
        missing = [text for text in wanted if text not in self._kept]
        for text, made in zip(missing, reads(self._model, self._network, missing), strict=True):
            self._kept[text] = made
            self._tokens += len(made.tokens)
        for text in wanted:
            self._kept.move_to_end(text)
        known = {text: self._kept[text] for text in wanted}
        while self._tokens > self._most and self._kept:
            self._tokens -= len(self._kept.popitem(last=False)[1].tokens)
        return known


def load_attention(model: Model, folder: Path | None = None) -> Attention:
    """The re-ranker of a folder (default: the one that comes with the bundled encoder). Raises as `load_reranker` and
    `Attention` do.
    """
    return Attention(model, load_reranker(folder))


def reads(model: Model, network: Network, texts: Sequence[str]) -> Iterator[Read]:
    """Each sentence as the network takes it, block by block of the encoder."""
    prefix = str(model.config.get("sentence_prefix", ""))
    for states in model.token_states([prefix + text for text in texts]):
        yield from _block(network, states)


def _block(network: Network, states: States) -> Iterator[Read]:
    vectors = unit(pool_mean(states.values, states.bounds[:-1], states.bounds[1:] - 1))
    for vector, first, last in zip(vectors, states.bounds[:-1].tolist(), states.bounds[1:].tolist(), strict=True):
        yield network.read(states.values[first + 1 : last - 1], vector)


def both_ways(
    run: Run,
    back: Run,
    scorer: Scorer,
    n: int,
    query: Callable[[int], Phrase],
    document: Callable[[int], Phrase],
    k: int = NEIGHBOURS,
    name: str = "",
) -> Run:
    """Re-rank the first n of each query's list and of each document's, and see each score against its neighbours'.

    ``run``: documents of each query; ``back``: queries of each document; ``query`` and ``document`` as in `rerank`. A
    document that another query fits better is put behind: 2 score - the mean of the query's k best - that of the
    document's (CSLS). What is beyond n stays behind, in its order. Each pair is scored once. Raises InputError where a
    document has no row in ``back``.
    """
    if k > n:
        raise InputError(f"k {k} and n {n}; expected no more neighbours than are re-ranked")
    once = _Once(scorer)
    there = rerank(_first(run, n), once, n, query, document)
    asked = rerank(_first(back, n), _Turned(once), n, document, query)
    best = margin_lists(there, asked, k, "csls")
    rest = run.scores[:, n:]
    if not rest.size:
        return Run(best.ids, best.scores, name or run.name)
    lowest = np.where(best.ids >= 0, best.scores, np.inf).min(1, keepdims=True)
    more = run.ids[:, n:] >= 0
    gap = np.subtract(run.scores[:, n : n + 1], rest, out=np.zeros_like(rest), where=more)
    scores = np.where(more, np.nextafter(lowest, np.float32(-np.inf)) - gap, -np.inf).astype(np.float32)
    return Run(np.hstack([best.ids, run.ids[:, n:]]), np.hstack([best.scores, scores]), name or run.name)


def mates(scorer: Scorer, cosines: Floats, queries: Sequence[str], documents: Sequence[str], name: str = "") -> Run:
    """All documents for each query by CSLS of the cosines (queries, documents), the best re-ranked from both sides:
    see `both_ways`. -inf: no candidate.
    """
    if not cosines.size:
        return run_of(cosines, name=name)
    values = csls(cosines, NEIGHBOURS)
    asked, given = ([whole(text) for text in side] for side in (queries, documents))
    n = min(FIRST, *values.shape)
    return both_ways(
        run_of(values), run_of(values.T), scorer, n, asked.__getitem__, given.__getitem__, min(NEIGHBOURS, n), name
    )


def _first(run: Run, n: int) -> Run:
    return Run(run.ids[:, :n], run.scores[:, :n], run.name)


class _Once:
    """A scorer that is asked about each pair once."""

    def __init__(self, scorer: Scorer) -> None:
        self._scorer, self._known = scorer, dict[tuple[str, str], float]()

    def score(self, pairs: Sequence[PhrasePair]) -> Floats:
        keys = [(pair.source.text, pair.target.text) for pair in pairs]
        new = {key: pair for key, pair in zip(keys, pairs, strict=True) if key not in self._known}
        if new:
            self._known |= zip(new, np.asarray(self._scorer.score(list(new.values()))).tolist(), strict=True)
        return np.array([self._known[key] for key in keys], np.float32)


class _Turned:
    """Asks about the pairs with source and target exchanged."""

    def __init__(self, scorer: Scorer) -> None:
        self._scorer = scorer

    def score(self, pairs: Sequence[PhrasePair]) -> Floats:
        return self._scorer.score([PhrasePair(pair.target, pair.source) for pair in pairs])
