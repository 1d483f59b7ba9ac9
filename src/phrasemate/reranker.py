"""Score sentence pairs by cross-attention over the encoder's token states; ``train reranker`` trains the network.

The network is the cross-attention of BiCLA (Glavaš and Vulić, ECIR 2019). The tokens of two sentences are unit vectors
x_i and y_j of d numbers, projected from the encoder's states: x = unit(P state + p). The formulas for the first
sentence, and likewise for the second, are::

    m_ij    = tanh(x_i W y_j + b)                                   eq. 1
    alpha_ij = exp(s m_ij) / sum over j of exp(s m_ij)              eq. 2; without s in the paper
    hbar_i  = sum over j of alpha_ij y_j                            eq. 3
    gamma_i = tanh(hbar_i v + c)                                    eq. 4
    e^1     = unit(sum over i of gamma_i hbar_i)                    eq. 4
    g       = tanh(e^1 B e^2 + c_B)                                 eq. 5
    match^1 = sum over i of softmax(u x)_i sum over j of alpha_ij x_i y_j

The score is a_1 times the cosine of the two sentence vectors, plus a_2 times the mean of match^1 and match^2, plus
a_3 g. The paper scores with g alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from cachetools import LRUCache
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from phrasemate.encode import Model
from phrasemate.errors import InputError, ModelMismatch
from phrasemate.rank import margin_lists, rerank, run_of, whole
from phrasemate.types import Phrase, PhrasePair, Run, Scorer
from phrasemate.utils.arrays import Floats
from phrasemate.utils.machine import parts, single_blas
from phrasemate.utils.margin import csls
from phrasemate.utils.storage import Seal

Arrays = dict[str, Floats]

SHARPNESS = 20.0  # initial s of eq. 2: a temperature of 0.05, as in the training of the bundled model
START_MIX = (0.0, 40.0, 0.0)  # initial a_1, a_2, a_3, chosen on held-out text (results/log/rerank.md)
TINY = np.float32(1e-30)  # lower bound of a norm, so that nothing is divided by 0


class Read(NamedTuple):
    """Input of the network for one sentence.

    Attributes:
        tokens: Projected token states, (T, d).
        vector: Sentence vector of the encoder, (width,), of unit length.
    """

    tokens: Floats
    vector: Floats


@dataclass(frozen=True)
class Network:
    """Weights of the network, with their symbols in the equations of this module::

        project (width, d), project_bias (d,)   P, p
        match (d, d), match_bias                W, b
        sharpness                               log s
        attend (d,), attend_bias                v, c
        weigh (d,)                              u
        bilinear (d, d), bilinear_bias          symmetric part B, c_B
        mix (3,)                                a

    Raises InputError for an array that is missing, not finite or of another shape.
    """

    arrays: Arrays

    def __post_init__(self) -> None:
        project = self.arrays.get("project", np.zeros((0, 0), np.float32))
        if project.ndim != 2:
            raise InputError(f"project: {project.dtype} {project.shape}; expected finite float32 (width, d)")
        width, dim = project.shape
        expected = shapes(width, dim)
        if set(expected) != set(self.arrays):
            raise InputError(
                f"arrays {', '.join(sorted(self.arrays)) or 'none'}; expected {', '.join(sorted(expected))}"
            )
        for name, shape in expected.items():
            array = self.arrays[name]
            if array.shape != shape or array.dtype != np.float32 or not np.isfinite(array).all():
                raise InputError(f"{name}: {array.dtype} {array.shape}; expected finite float32 {shape}")

    @classmethod
    def start(cls, project: Floats, bias: Floats, mix: Sequence[float] = START_MIX) -> Network:
        """Initialise a network for training.

        Args:
            project: Projection P of token states, (width, d).
            bias: Bias p of the projection, (d,).
            mix: Weights a of the three parts of the score.
        """
        dim = len(bias)
        return cls(
            {
                "project": np.asarray(project, np.float32),
                "project_bias": np.asarray(bias, np.float32),
                "match": np.eye(dim, dtype=np.float32),
                "match_bias": np.zeros((), np.float32),
                "sharpness": np.array(np.log(SHARPNESS), np.float32),
                "attend": np.zeros(dim, np.float32),
                "attend_bias": np.ones((), np.float32),
                "weigh": np.zeros(dim, np.float32),
                "bilinear": np.eye(dim, dtype=np.float32),
                "bilinear_bias": np.zeros((), np.float32),
                "mix": np.array(mix, np.float32),
            }
        )

    @property
    def width(self) -> int:
        """Width of the encoder's states."""
        return len(self.arrays["project"])

    def read(self, states: Floats, vector: Floats) -> Read:
        """Project the token states of a sentence.

        Args:
            states: States of the tokens without the special ones, (T, width).
            vector: Sentence vector, (width,), of unit length.
        """
        return Read(_unit(states.astype(np.float32) @ self.arrays["project"] + self.arrays["project_bias"]), vector)

    def scores(self, query: Read, others: Sequence[Read]) -> Floats:
        """Score a sentence with each of several others, (others,) float32."""
        mixture: Floats = self.parts(query, others) @ self.arrays["mix"]
        return mixture

    def parts(self, query: Read, others: Sequence[Read]) -> Floats:
        """Compute the three parts of the scores: cosine, match, and g of eq. 5, (others, 3).

        The vectors hbar are not computed: with k_j = sum_i gamma_i alpha_ij, e^1 = unit(sum_j k_j y_j), and v hbar_i =
        sum_j alpha_ij (v y_j). For a sentence without tokens, the match and e are 0.
        """
        if not others:
            return np.zeros((0, 3), np.float32)
        w, x = self.arrays, query.tokens  # (I, d)
        nonempty = [number for number, read in enumerate(others) if len(read.tokens)] if len(x) else []
        values = np.zeros((len(others), 2), np.float32)
        if nonempty:
            values[nonempty] = self._cross(x, [others[number].tokens for number in nonempty])
        values[:, 1] = np.tanh(values[:, 1] + w["bilinear_bias"])  # eq. 5
        cosines = np.stack([read.vector for read in others]) @ query.vector
        return np.column_stack([cosines, values])

    def _cross(self, x: Floats, sides: Sequence[Floats]) -> Floats:
        """Compare a sentence x (I, d) with each of K sentences (J_k, d): return match and e^1 B e^2, (K, 2)."""
        w, y = self.arrays, np.concatenate(sides)  # (J, d), one sentence after the other
        lengths = np.array([len(side) for side in sides])
        first = np.cumsum(lengths) - lengths  # (K,) the first token of each
        cosines = x @ y.T  # (I, J)
        forth = _softmax_of_sides(self._logits(x @ w["match"] @ y.T), first, lengths)  # (I, J); alpha from x to y
        back = _softmax(self._logits((y @ w["match"] @ x.T).T))  # (I, J); alpha from y to x
        x_weights = _softmax(x @ w["weigh"])  # (I,)
        y_weights = _softmax_of_sides(y @ w["weigh"], first, lengths)  # (J,)
        matches = x_weights @ (forth * cosines) + y_weights * (back * cosines).sum(0)  # (J,)
        match = np.add.reduceat(matches, first) / 2  # (K,)
        gamma = np.tanh(np.add.reduceat(forth * (y @ w["attend"]), first, 1) + w["attend_bias"])  # (I, K); eq. 4
        k = (forth * np.repeat(gamma, lengths, 1)).sum(0)  # (J,)
        e1 = _unit(np.add.reduceat(k[:, None] * y, first, 0))  # (K, d)
        gamma = np.tanh((x @ w["attend"]) @ back + w["attend_bias"])  # (J,)
        e2 = _unit(np.add.reduceat(back * gamma, first, 1).T @ x)  # (K, d)
        bilinear = (w["bilinear"] + w["bilinear"].T) / 2
        return np.column_stack([match, ((e1 @ bilinear) * e2).sum(1)]).astype(np.float32)

    def _logits(self, products: NDArray[np.floating]) -> Floats:
        """Return s m, the logits of eq. 2, for the products x W y of eq. 1."""
        similarities: Floats = np.exp(self.arrays["sharpness"]) * np.tanh(products + self.arrays["match_bias"])
        return similarities


def shapes(width: int, dim: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a network's arrays for states of ``width`` numbers, projected to ``dim``."""
    return {
        "project": (width, dim),
        "project_bias": (dim,),
        "match": (dim, dim),
        "match_bias": (),
        "sharpness": (),
        "attend": (dim,),
        "attend_bias": (),
        "weigh": (dim,),
        "bilinear": (dim, dim),
        "bilinear_bias": (),
        "mix": (3,),
    }


def _softmax(values: Floats) -> Floats:
    """Compute the softmax over the first axis."""
    powers: Floats = np.exp(values - values.max(0))
    powers /= powers.sum(0)
    return powers


def _softmax_of_sides(values: Floats, first: NDArray[np.int64], lengths: NDArray[np.int64]) -> Floats:
    """Compute the softmax over the last axis, separately for the tokens of each sentence.

    Args:
        values: Logits; the tokens of all sentences are along the last axis.
        first: Index of each sentence's first token, (sentences,).
        lengths: Number of tokens of each sentence, (sentences,).
    """
    powers: Floats = np.exp(values - np.repeat(np.maximum.reduceat(values, first, -1), lengths, -1))
    powers /= np.repeat(np.add.reduceat(powers, first, -1), lengths, -1)
    return powers


def _unit(rows: Floats) -> Floats:
    """Scale each row to unit length; rows of zeros stay."""
    unit_rows: Floats = rows / np.maximum(np.sqrt((rows * rows).sum(1, keepdims=True)), TINY)
    return unit_rows


SEAL = Seal(
    "phrasemate-reranker",
    1,
    "phrasemate train reranker",
    "train it again, or reinstall phrasemate if it is the bundled one",
)


class TrainedReranker(NamedTuple):
    """A trained re-ranker.

    Attributes:
        network: The network.
        encoder: Hash of the encoder that it was trained with.
        facts: Facts about the training, such as its data.
        hash: Hash of the re-ranker's files.
    """

    network: Network
    encoder: str
    facts: dict[str, Any]
    hash: str


def bundled_reranker() -> Path:
    """Return the folder of the re-ranker that comes with the package, for the bundled encoder.

    >>> bundled_reranker().name
    'e5-small-reranker'
    """
    return Path(__file__).parent / "models" / "e5-small-reranker"


def save_reranker(network: Network, folder: str | Path, encoder: str, facts: Mapping[str, Any]) -> None:
    """Write a re-ranker, in float16, into an existing folder.

    Args:
        network: The network.
        folder: Folder to write into.
        encoder: Hash of the encoder that the network was trained with.
        facts: Facts about the training, as plain data for JSON.
    """
    weights = save({name: array.astype(np.float16) for name, array in network.arrays.items()})
    SEAL.write(Path(folder), weights, {"encoder": encoder, "facts": dict(facts)})


def load_reranker(folder: str | Path | None = None) -> TrainedReranker:
    """Read a re-ranker from its folder (default: the bundled one), and verify its checksums.

    Raises ModelError if there is no re-ranker, ModelUnsupported for a foreign or newer format, and ModelDamaged for
    missing or altered files.

    >>> load_reranker().network.width
    384
    """
    folder = bundled_reranker() if folder is None else Path(folder)
    content, digest = SEAL.read(folder)
    try:
        weights = SEAL.weights(folder, content)
        arrays = {name: array.astype(np.float32) for name, array in load(weights).items()}
        return TrainedReranker(Network(arrays), str(content["encoder"]), dict(content["facts"]), digest)
    except (KeyError, TypeError, ValueError, SafetensorError, InputError) as error:
        raise SEAL.misfit(folder, error) from error


FIRST = 20  # documents of a ranking that are re-ranked
NEIGHBOURS = 1  # k of CSLS before and after re-ranking, chosen on held-out text (results/log/rerank.md)
HELD = 200_000  # tokens of cached sentences: 150 MB for 192 dimensions
TOGETHER = 4096  # tokens of other sentences that one sentence is compared with at once


class Attention:
    """Scorer of sentence pairs by cross-attention over the encoder's token states.

    The score of a pair does not depend on the order of its sentences, and is at most ``highest``. A cache holds the
    sentences used last, with up to ``token_limit`` tokens in all. Raises ModelMismatch for a re-ranker that was trained
    with another encoder.
    """

    def __init__(self, model: Model, trained: TrainedReranker, token_limit: int = HELD) -> None:
        if trained.encoder != model.hash or trained.network.width != model.width:
            raise ModelMismatch(
                f"the re-ranker {trained.hash[:12]} was trained on the encoder {trained.encoder[:12]}, this one is "
                f"{model.hash[:12]}; give the encoder that it belongs to, or train one for yours"
            )
        self.trained = trained
        self._model, self._network = model, trained.network
        self.highest = float(np.abs(trained.network.arrays["mix"]).sum())
        self._cache: LRUCache[str, Read] = LRUCache(token_limit, lambda read: len(read.tokens))
        self.signature = f"attention {trained.hash} {model.hash}"

    @single_blas
    def score(self, pairs: Sequence[PhrasePair]) -> Floats:
        """Score pairs, (pairs,) float32; translations of each other have high scores."""
        texts = [(pair.source.text, pair.target.text) for pair in pairs]
        reads = self._reads(texts)
        targets_of: dict[str, list[int]] = defaultdict(list)
        for number, (source, _) in enumerate(texts):
            targets_of[source].append(number)
        pair_scores = np.zeros(len(pairs), np.float32)
        for source, numbers in targets_of.items():
            for part in parts(numbers, lambda number: len(reads[texts[number][1]].tokens), TOGETHER):
                pair_scores[part] = self._network.scores(reads[source], [reads[texts[number][1]] for number in part])
        return pair_scores

    def _reads(self, texts: Sequence[tuple[str, str]]) -> dict[str, Read]:
        """Return the network's input for each sentence of the pairs, from the cache or encoded now."""
        distinct = dict.fromkeys(text for pair in texts for text in pair)
        sentences = {text: self._cache[text] for text in distinct if text in self._cache}
        missing = [text for text in distinct if text not in sentences]
        blocks = (zip(*block, strict=True) for block in sentence_blocks(self._model, missing))
        for text, sentence in zip(missing, chain.from_iterable(blocks), strict=True):
            sentences[text] = read = self._network.read(*sentence)
            if len(read.tokens) <= self._cache.maxsize:
                self._cache[text] = read
        return sentences


def sentence_blocks(model: Model, texts: Sequence[str]) -> Iterator[tuple[list[Floats], Floats]]:
    """Encode sentences in blocks: yield the token states (T, width) of each, and the sentence vectors (n, width).

    The tokens include those of the model's prompt, but not the special tokens.
    """
    prefix = model.sentence_prompt()
    opening, closing = len(model.runtime.opening), len(model.runtime.closing)
    for states in model.token_states([prefix + text for text in texts]):
        tokens = [states.values[a + opening : b - closing] for a, b in pairwise(states.bounds.tolist())]
        yield tokens, model.sentence_vectors(states, prefix)


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
    """Re-rank the first n documents of each query by a scorer and CSLS.

    The new score is CSLS of the scorer's scores: 2 score - mean of the query's k best - mean of the document's k best.
    So a document that fits another query better loses. For the document's best scores, the first n queries of each
    document are scored, too. The documents beyond n follow in their former order. Each pair is scored once.

    Args:
        run: Documents of each query.
        back: Queries of each document; row i belongs to document i.
        scorer: Scorer of pairs of query and document.
        n: Number of documents of each query, and of queries of each document, to score.
        query: Returns the phrase of a row, as in `rerank`.
        document: Returns the phrase of a document id, as in `rerank`.
        k: Number of neighbours of CSLS, at most n.
        name: Name of the new run; "" for the name of ``run``.

    Raises InputError for k above n, and for a document without a row in ``back``.
    """
    if k > n:
        raise InputError(f"k {k} and n {n}; expected no more neighbours than are re-ranked")
    once = _CachingScorer(scorer)
    forward_scores = rerank(_first(run, n), once, n, query, document)
    backward_scores = rerank(_first(back, n), _SwappedScorer(once), n, document, query)
    best = margin_lists(forward_scores, backward_scores, k, "csls")
    rest = run.scores[:, n:]
    if not rest.size:
        return Run(best.ids, best.scores, name or run.name)
    lowest = np.where(best.ids >= 0, best.scores, np.inf).min(1, keepdims=True)
    more = run.ids[:, n:] >= 0
    gap = np.subtract(run.scores[:, n : n + 1], rest, out=np.zeros_like(rest), where=more)
    scores = np.where(more, np.nextafter(lowest, np.float32(-np.inf)) - gap, -np.inf).astype(np.float32)
    return Run(np.hstack([best.ids, run.ids[:, n:]]), np.hstack([best.scores, scores]), name or run.name)


def mates(scorer: Scorer, cosines: Floats, queries: Sequence[str], documents: Sequence[str], name: str = "") -> Run:
    """Rank all documents for each query by CSLS, and re-rank the best from both sides (`both_ways`).

    Args:
        scorer: Scorer of pairs of query and document.
        cosines: Cosines (queries, documents); -inf excludes a pair.
        queries: Sentences.
        documents: Sentences.
        name: Name of the run.
    """
    if not cosines.size:
        return run_of(cosines, name=name)
    values = csls(cosines, NEIGHBOURS)
    query_phrases, document_phrases = ([whole(text) for text in side] for side in (queries, documents))
    n = min(FIRST, *values.shape)
    return both_ways(
        run_of(values),
        run_of(values.T),
        scorer,
        n,
        query_phrases.__getitem__,
        document_phrases.__getitem__,
        min(NEIGHBOURS, n),
        name,
    )


def _first(run: Run, n: int) -> Run:
    """Return the first n documents of each query."""
    return Run(run.ids[:, :n], run.scores[:, :n], run.name)


class _CachingScorer:
    """Scorer that remembers the scores of another, so that each pair is scored once."""

    def __init__(self, scorer: Scorer) -> None:
        self._scorer, self._known = scorer, dict[tuple[str, str], float]()

    @single_blas
    def score(self, pairs: Sequence[PhrasePair]) -> Floats:
        keys = [(pair.source.text, pair.target.text) for pair in pairs]
        new = {key: pair for key, pair in zip(keys, pairs, strict=True) if key not in self._known}
        if new:
            self._known |= zip(new, np.asarray(self._scorer.score(list(new.values()))).tolist(), strict=True)
        return np.array([self._known[key] for key in keys], np.float32)


class _SwappedScorer:
    """Scorer that passes pairs to another with source and target exchanged."""

    def __init__(self, scorer: Scorer) -> None:
        self._scorer = scorer

    @single_blas
    def score(self, pairs: Sequence[PhrasePair]) -> Floats:
        return self._scorer.score([PhrasePair(pair.target, pair.source) for pair in pairs])
