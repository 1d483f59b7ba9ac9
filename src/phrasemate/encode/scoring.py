"""Scores of search results: views of a phrase in context and alone, confidence, and the candidate scorer.

**Views.** A vector in context encodes the meaning of a phrase, but in part also its surroundings, and an equivalent
has other surroundings. So the hits of a search are scored again, with the vector of the phrase alone, without its
sentence, added to the query and to each hit::

    q' = unit(q + a q_alone)                                 the query
    v' = unit(v + b v_alone)                                 a hit
    support(wording) = t ln sum_hits exp(cos(q', v') / t)    over the hits of a wording

The support is a soft maximum of cosines. It is at least the best hit's, and higher if several hits agree, as neighbours
vote in kNN translation (Khandelwal et al., 2021). Support without the phrases alone (`VOTES`) needs no further pass of
the encoder. The parameters were tuned on the bundled model (docs/decisions). Larger weights a and b give more correct
answers, but the sentence then distinguishes the senses of a word less.

**Confidence** is the probability that the best result of a search is an equivalent of the query. It is a logistic
function of three features. The first is the cosine of the best group (the hits of one wording). The second is its
margin over the following groups: a phrase without an equivalent is about as near to many groups. The third is the
number of hits of the best group: an equivalent occurs repeatedly. The weights are fitted on real text, and stored as
confidence.json in the model's folder, outside the manifest, since no vector depends on them::

    {"model": HASH, "bias": b, "weights": [u, v, w], "signature": {...}}

    P = 1 / (1 + exp(-(b + u s + v (s - m) + w ln n)))

s: cosine of the best group, m: mean cosine of the next `OTHERS` groups, n: hits of the best group among the first
`HITS`. Groups are ordered by support. A search with views has other cosines and fewer hits, so it has its own bias and
weights, under the key ``views``.

**The candidate scorer** estimates the probability that a candidate wording is a correct equivalent, from its `FEATURES`
f. It is a logistic function, or a network with one hidden layer::

    P(right) = 1 / (1 + exp(-(b + w . f + sum_units o max(0, c + v . f))))

Queries without any candidate listed in a dictionary have their own weights, under the key ``unlisted``. All languages
share the weights. ``bench/candidate_scorer.py`` fits them on look-ups in non-parallel text. They are stored as
scorer.json in the model's folder, outside the manifest::

    {"model": HASH, "bias": b, "weights": {FEATURE: w, ...},
     "hidden": [{"output": o, "bias": c, "weights": {FEATURE: v, ...}}, ...],
     "unlisted": {"bias": b, "weights": {...}, "hidden": [...]}, "signature": {}}
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import product
from math import factorial, log
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phrasemate.encode.model_folder import CONFIDENCE, SCORER
from phrasemate.encode.pooling import unit
from phrasemate.errors import InputError, ModelDamaged
from phrasemate.types import Encoder, Phrase
from phrasemate.utils.arrays import Doubles, Floats

HITS = 100
OTHERS = 10


@dataclass(frozen=True, slots=True)
class Views:
    """Weights of the phrase alone; see the module for the formulas.

    ``query``: a. ``hit``: b. ``sharpness``: t. ``first``: hits of a query to score again, or more if these have fewer
    wordings than requested. Raises InputError for a weight below 0, and for a sharpness or ``first`` of 0 or less.

    >>> Views(query=0.0, hit=0.0).mixed
    False
    """

    query: float = 0.2
    hit: float = 0.5
    sharpness: float = 0.05
    first: int = 32

    def __post_init__(self) -> None:
        if not (self.query >= 0 and self.hit >= 0 and self.sharpness > 0 and self.first > 0):
            raise InputError(f"{self}: expected weights of 0 or more, a sharpness above 0 and a hit or more")

    @property
    def mixed(self) -> bool:
        """Whether a phrase alone is added to queries or hits, and so must be encoded."""
        return self.query > 0 or self.hit > 0

    @property
    def votes(self) -> Views:
        """Views with the same sharpness, without the phrases alone."""
        return replace(self, query=0.0, hit=0.0, first=HITS)

    def queries(self, model: Encoder, phrases: Sequence[Phrase]) -> tuple[Floats, Floats]:
        """Encode queries: q and q', (phrases, dim) each, in one call of the encoder."""
        query_vectors = model.encode([*phrases, *(alone(phrase) for phrase in phrases if self.query)])
        vectors = query_vectors[: len(phrases)]
        return vectors, unit(vectors + self.query * query_vectors[len(phrases) :]) if self.query else vectors

    def hits(self, model: Encoder, phrases: Sequence[Phrase], vectors: Floats) -> Floats:
        """Compute v' of hits from their vectors v, (phrases, dim); each wording is encoded once."""
        if not self.hit or not len(phrases):
            return vectors
        texts = list(dict.fromkeys(map(alone, phrases)))
        places = {phrase: place for place, phrase in enumerate(texts)}
        return unit(vectors + self.hit * model.encode(texts)[[places[alone(phrase)] for phrase in phrases]])

    def support(self, scores: Sequence[float]) -> float:
        """Compute the support of a wording from the cosines of its hits, at least one."""
        return float(self.sharpness * np.logaddexp.reduce(np.asarray(scores, np.float64) / self.sharpness))


VOTES = Views().votes


def alone(phrase: Phrase) -> Phrase:
    """Return the phrase without its sentence."""
    return Phrase(phrase.text, 0, len(phrase.text))


@dataclass(frozen=True, slots=True)
class Confidence:
    """Logistic calibration of search results; see the module. ``with_views``: calibration of searches with views.

    >>> Confidence(0.0, (1.0, 0.0, 0.0)).of([[0.0, 0.5, 2.0]]).tolist()  # 1 / (1 + e ** 0)
    [0.5]
    """

    bias: float
    weights: tuple[float, float, float]
    with_views: Confidence | None = None

    def of(self, values: ArrayLike) -> NDArray[np.float64]:
        """Compute (n,) probabilities from (n, 3) `features`."""
        logits = np.asarray(values, np.float64) @ np.array(self.weights) + self.bias
        probabilities: NDArray[np.float64] = 1 / (1 + np.exp(-logits))
        return probabilities

    def save(self, folder: Path, model_hash: str, signature: Mapping[str, Any]) -> None:
        """Write confidence.json into a model's folder."""
        record: dict[str, Any] = {"model": model_hash, "bias": self.bias, "weights": self.weights}
        if self.with_views is not None:
            record["views"] = {"bias": self.with_views.bias, "weights": self.with_views.weights}
        record["signature"] = dict(signature)
        (folder / CONFIDENCE).write_text(json.dumps(record, indent=1, default=str) + "\n", encoding="utf-8")


def features(groups: Iterable[Sequence[float]]) -> tuple[float, float, float]:
    """Compute the features of `Confidence`: s, s - m (0 for a single group) and ln n.

    ``groups``: the cosines of the first `HITS` hits, grouped by wording; best group first, and best hit first in each.
    Raises InputError if there are none.
    """
    best, *remainder = groups if (groups := list(groups)) else [[]]
    if not len(best):
        raise InputError("no groups; a search that finds nothing has a confidence of 0")
    rest = [group[0] for group in remainder[:OTHERS]]
    return best[0], (best[0] - sum(rest) / len(rest)) if rest else 0.0, log(len(best))


def load_confidence(folder: Path, model_hash: str) -> Confidence | None:
    """Load the confidence of a model's folder; None if there is none or it was fitted for another model.

    Raises ModelDamaged for an invalid file.
    """
    path = folder / CONFIDENCE
    if not path.exists():
        return None
    with _reading(path, "a confidence file", "export the model again"):
        record = json.loads(path.read_text(encoding="utf-8"))
        confidence = _confidence(record)
        if "views" in record:
            confidence = replace(confidence, with_views=_confidence(record["views"]))
        return confidence if record["model"] == model_hash else None


@contextmanager
def _reading(path: Path, kind: str, remedy: str) -> Iterator[None]:
    """Turn the exceptions of reading an invalid file into ModelDamaged."""
    try:
        yield
    except (OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise ModelDamaged(f"{path}: not {kind} ({error}); remove it, or {remedy}") from error


def _confidence(record: Mapping[str, Any]) -> Confidence:
    """Parse a record. Raises ValueError, TypeError or KeyError for an invalid one."""
    first, second, third = map(float, record["weights"])
    confidence = Confidence(float(record["bias"]), (first, second, third))
    if not np.isfinite([confidence.bias, *confidence.weights]).all():
        raise ValueError("a number that is not finite")
    return confidence


# Features of a candidate. Cosines are with the query in its sentence, except those called "alone".
FEATURES = (
    "context",  # cosine of the nearest occurrence
    "contexts",  # mean cosine of the three nearest occurrences
    "lead",  # "context" minus the highest "context" of all candidates
    "type",  # cosine of the mean vector of the occurrences
    "alike",  # length of the mean vector of the occurrences: 1 if they are equal, lower the more they differ
    "alone",  # cosine of the mean vector of the occurrences with the query without its sentence
    "alone lead",  # "alone" minus the highest "alone" of all candidates
    "listed",  # 1 if a dictionary or the lexicon lists the candidate, else 0
    "exact",  # 1 if the entry is the query itself, not only another form of its words
    "verbatim",  # 1 if the entry lists the candidate itself, not only another form of it
    "probability",  # logarithm of its probability in the entry, at least LEAST_LOG; LEAST_LOG if it is not listed
    "collocates",  # how often its words occur with the equivalents of the words around the query (lexicon.senses)
    "sense",  # how near it is to sentences in which the query is translated so, minus the highest (lexicon.senses)
    # differences to the highest value of all listed candidates; 0 for a candidate that is not listed:
    "listed context",
    "listed contexts",
    "listed type",
    "listed probability",
    "listed collocates",
    "listed shift",  # of "type" minus "alone", the contribution of the sentence
    "others listed",  # 1 if the candidate is not listed and another one is
    "covered",  # share of its words that are equivalents of a word of the query
    "covers",  # share of the query's words that have an equivalent in the candidate
    "composed",  # mean logarithm of the probabilities with which its words translate the query's content words
    "word by word",  # 1 if the query has several words, and its words and the candidate's translate each other
    "covers function words",  # share of the query's function words with an equivalent; 1 if the query has none
    "same wording",  # 1 if the candidate equals the query and no dictionary lists it, such as a name
    "count",  # logarithm of its number of occurrences
    "words",  # its words in excess of the query's, at least 0
    "fewer words",  # the query's words in excess of its own, at least 0
    "function word",  # 1 if it begins with a function word
    "no lexicon",  # 1 if no lexicon covers the languages of query and index, so that "listed" means nothing
)
LISTED = FEATURES.index("listed")
REASONS = {  # groups of features, with names for users
    "meaning in its sentence": (
        *("context", "contexts", "lead", "type", "alike"),
        *("listed context", "listed contexts", "listed type", "listed shift"),
    ),
    "meaning by itself": ("alone", "alone lead"),
    "dictionary": ("listed", "exact", "verbatim", "probability", "listed probability", "others listed", "no lexicon"),
    "words around it": ("collocates", "listed collocates"),
    "similar sentences": ("sense",),
    "words that translate each other": ("covered", "covers", "composed", "word by word", "covers function words"),
    "same wording": ("same wording",),
    "length and frequency": ("count", "words", "fewer words", "function word"),
}
LEAST_LOG = -6.0


class HiddenUnit(NamedTuple):
    """Unit of the hidden layer; it adds output x max(0, bias + weights . f) to the log-odds.

    >>> HiddenUnit(output=2.0, bias=-1.0, weights=(0.5,))
    HiddenUnit(output=2.0, bias=-1.0, weights=(0.5,))
    """

    output: float
    bias: float
    weights: tuple[float, ...]


@dataclass(frozen=True)
class CandidateScorer:
    """Scorer of candidates; see the module. ``unlisted``: the scorer for queries without a listed candidate.

    >>> scorer = CandidateScorer(0.0, (0.0,) * len(FEATURES))
    >>> scorer.probabilities(np.zeros((1, len(FEATURES)))).tolist()  # 1 / (1 + e ** 0)
    [0.5]
    """

    bias: float
    weights: tuple[float, ...]
    unlisted: CandidateScorer | None = None
    units: tuple[HiddenUnit, ...] = ()

    def probabilities(self, features: ArrayLike) -> Doubles:
        """Compute (n,) probabilities of all n candidates of a query from their features (n, len(FEATURES))."""
        table = np.asarray(features, np.float64)
        values: Doubles = 1 / (1 + np.exp(-self._scorer_for(table).log_odds(table)))
        return values

    def reasons(self, features: ArrayLike, chosen: Sequence[int]) -> list[dict[str, float]]:
        """Explain the scores of the ``chosen`` candidates: for each, the contribution of each of `REASONS` in log-odds.

        Contributions are Shapley values (1953). The features of the mean candidate are replaced by those of the
        candidate, one group after another. The change at a group's turn, averaged over all orders of the groups, is
        its contribution. Their sum is the candidate's log-odds minus those of the mean candidate.

        ``features``: (n, len(FEATURES)), of all candidates of a query. ``chosen``: rows of ``features``.
        """
        table = np.asarray(features, np.float64)
        scorer, mean = self._scorer_for(table), table.mean(axis=0)
        kinds_known, shares = _coalitions(len(REASONS))
        kind_of = {name: number for number, names in enumerate(REASONS.values()) for name in names}
        is_known = kinds_known[:, [kind_of[name] for name in FEATURES]]  # (2 ** kinds, features)
        inputs = np.where(is_known, table[list(chosen)][:, None], mean)  # (chosen, 2 ** kinds, features)
        worths = scorer.log_odds(inputs.reshape(-1, len(FEATURES))).reshape(len(chosen), -1)
        return [dict(zip(REASONS, values, strict=True)) for values in (worths @ shares.T).tolist()]

    def save(self, folder: Path, model_hash: str, signature: Mapping[str, Any]) -> None:
        """Write scorer.json into a model's folder."""
        record: dict[str, Any] = {"model": model_hash, **self._numbers()}
        if self.unlisted is not None:
            record["unlisted"] = self.unlisted._numbers()
        record["signature"] = dict(signature)
        (folder / SCORER).write_text(json.dumps(record, indent=1, default=str) + "\n", encoding="utf-8")

    def _scorer_for(self, table: Doubles) -> CandidateScorer:
        """Return `unlisted` if it exists and none of the candidates is listed, else this scorer."""
        return self if self.unlisted is None or table[:, LISTED].any() else self.unlisted

    def log_odds(self, table: Doubles) -> Doubles:
        """Compute (n,) log-odds from features (n, len(FEATURES)) by this scorer, never by ``unlisted``."""
        weights, (outputs, biases, inputs) = self._arrays
        values: Doubles = table @ weights + self.bias
        if self.units:
            values += np.maximum(table @ inputs + biases, 0) @ outputs
        return values

    @cached_property
    def _arrays(self) -> tuple[Doubles, tuple[Doubles, Doubles, Doubles]]:
        """Weights (features,), and the units' outputs (units,), biases (units,) and weights (features, units)."""
        outputs, biases, weights = zip(*self.units, strict=True) if self.units else ((), (), ())
        return np.array(self.weights), (np.array(outputs), np.array(biases), np.array(weights).T)

    def _numbers(self) -> dict[str, Any]:
        record: dict[str, Any] = {"bias": self.bias, "weights": dict(zip(FEATURES, self.weights, strict=True))}
        if self.units:
            record["hidden"] = [
                {**unit._asdict(), "weights": dict(zip(FEATURES, unit.weights, strict=True))} for unit in self.units
            ]
        return record


@cache
def _coalitions(players: int) -> tuple[NDArray[np.bool_], Doubles]:
    """Enumerate all sets of players, (2 ** players, players) bool, with the weights of their worths in Shapley values.

    The weights are (players, 2 ** players): the value of player i is ``weights[i]`` . worths of the sets.
    """
    sets = np.array(list(product([False, True], repeat=players)))
    sizes = sets.sum(axis=1)
    orders = np.array([factorial(size) * factorial(players - size - 1) for size in range(players)]) / factorial(players)
    joins, stays = orders[sizes - 1], orders[np.minimum(sizes, players - 1)]
    return sets, np.where(sets.T, joins, -stays)


def load_scorer(folder: Path, model_hash: str) -> CandidateScorer | None:
    """Load the scorer of a model's folder; None if there is none, or if it has another model or unknown features.

    A feature without a weight, added in a later version, has weight 0. Raises ModelDamaged for an invalid file.
    """
    path = folder / SCORER
    if not path.exists():
        return None
    with _reading(path, "a scorer file", "fit it again"):
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["model"] != model_hash or not _named(record) <= set(FEATURES):
            return None
        return _scorer(record, _scorer(record["unlisted"], None) if "unlisted" in record else None)


def _named(record: Mapping[str, Any]) -> set[str]:
    """Collect the names of the features that have weights in a record."""
    return {*record["weights"], *(name for unit in record.get("hidden", ()) for name in unit["weights"])}


def _scorer(record: Mapping[str, Any], unlisted: CandidateScorer | None) -> CandidateScorer:
    """Parse a record. Raises ValueError, TypeError, KeyError or AttributeError for an invalid one."""
    units = tuple(
        HiddenUnit(float(unit["output"]), float(unit["bias"]), _weights(unit)) for unit in record.get("hidden", ())
    )
    scorer = CandidateScorer(float(record["bias"]), _weights(record), unlisted, units)
    of_units = [number for unit in units for number in (unit.output, unit.bias, *unit.weights)]
    if not np.isfinite([scorer.bias, *scorer.weights, *of_units]).all():
        raise ValueError("a number that is not finite")
    return scorer


def _weights(record: Mapping[str, Any]) -> tuple[float, ...]:
    return tuple(float(record["weights"].get(name, 0.0)) for name in FEATURES)
