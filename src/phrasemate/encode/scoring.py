"""Scores of answers: phrases compared in their sentence and alone, the confidence of a search, and candidates.

Views: a phrase compared twice, in its sentence and alone.

A vector in context tells what a phrase means where it stands, and a part of it tells where that is. The equivalent that
a search wants stands in other text. So the hits of a search are looked at again, with some of the phrase by itself, as
a dictionary has it, added on both sides::

    q' = unit(q + a q_alone)                                 the query
    v' = unit(v + b v_alone)                                 a hit
    support(wording) = t ln sum_hits exp(cos(q', v') / t)    over the hits of a wording

The support is a soft maximum: the best hit's cosine, and more where several hits agree, as neighbours vote in kNN
translation (Khandelwal et al., 2021). Votes alone (`VOTES`) take no pass of the encoder. The numbers were chosen for
the bundled model (docs/decisions). More of the phrase alone makes more answers right, but the sentence then tells the
senses of a word less apart.

Confidence: the probability that the best of what it found is an equivalent at all.

It is a logistic function of three features. The first is the best group's cosine. The second is its distance to the
groups after it: a phrase without an equivalent is about as near to many others. The third is how many of the first hits
have its wording: an equivalent occurs again and again. Fitted on real text; kept in the
model's folder as confidence.json, beside what the model's hash seals, since no vector depends on it::

    {"model": HASH, "bias": b, "weights": [u, v, w], "signature": {...}}

    P = 1 / (1 + exp(-(b + u s + v (s - m) + w ln n)))

s: cosine of the best group, m: mean cosine of the next `OTHERS` groups, n: how many of the first `HITS` hits have its
wording; groups come by support (`Views`). A search that looks at its hits again has other cosines
and fewer hits, so it has a bias and weights of its own, under the key ``views``.

Candidates: the choice among the candidates of a search. A network with one layer of hidden units weighs what speaks for
each::

    P(right) = 1 / (1 + exp(-(b + w . f + sum_units o max(0, c + v . f))))

Without hidden units it is a logistic function. A query of which no candidate is listed in a dictionary has weights of
its own, under the key ``unlisted``.

The features f of a candidate wording are those of `FEATURES`; the weights w are the same for every language. They are
fitted by ``bench/candidate_scorer.py`` on look-ups in text that is not a translation, and kept in the model's folder as
scorer.json, beside what the model's hash seals::

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
    """Shares of the phrase alone; the symbols are those of the module.

    ``query``: a. ``hit``: b. ``sharpness``: t, in cosines. ``first``: hits of a query that are looked at again, if they
    hold as many wordings as are asked for, else more. Raises InputError for a weight below 0, a sharpness that is not
    above it, and for no hits.

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
        """Whether anything of the phrase alone is added, so that it has to be encoded."""
        return self.query > 0 or self.hit > 0

    @property
    def votes(self) -> Views:
        """Views for votes, without the phrase alone."""
        return replace(self, query=0.0, hit=0.0, first=HITS)

    def queries(self, model: Encoder, phrases: Sequence[Phrase]) -> tuple[Floats, Floats]:
        """The q and q' of queries, (phrases, dim) each, from one call of the encoder."""
        query_vectors = model.encode([*phrases, *(alone(phrase) for phrase in phrases if self.query)])
        vectors = query_vectors[: len(phrases)]
        return vectors, unit(vectors + self.query * query_vectors[len(phrases) :]) if self.query else vectors

    def hits(self, model: Encoder, phrases: Sequence[Phrase], vectors: Floats) -> Floats:
        """The v' of hits with the vectors v, (phrases, dim); each wording is encoded once."""
        if not self.hit or not len(phrases):
            return vectors
        texts = list(dict.fromkeys(map(alone, phrases)))
        places = {phrase: place for place, phrase in enumerate(texts)}
        return unit(vectors + self.hit * model.encode(texts)[[places[alone(phrase)] for phrase in phrases]])

    def support(self, scores: Sequence[float]) -> float:
        """The soft maximum of the cosines of a wording's hits, one or more."""
        return float(self.sharpness * np.logaddexp.reduce(np.asarray(scores, np.float64) / self.sharpness))


VOTES = Views().votes


def alone(phrase: Phrase) -> Phrase:
    """The phrase without its sentence."""
    return Phrase(phrase.text, 0, len(phrase.text))


@dataclass(frozen=True, slots=True)
class Confidence:
    """Features -> probability; see the module. ``with_views``: the one for searches with views.

    >>> Confidence(0.0, (1.0, 0.0, 0.0)).of([[0.0, 0.5, 2.0]]).tolist()  # 1 / (1 + e ** 0)
    [0.5]
    """

    bias: float
    weights: tuple[float, float, float]
    with_views: Confidence | None = None

    def of(self, values: ArrayLike) -> NDArray[np.float64]:
        """(n,) probabilities of (n, 3) `features`."""
        logits = np.asarray(values, np.float64) @ np.array(self.weights) + self.bias
        probabilities: NDArray[np.float64] = 1 / (1 + np.exp(-logits))
        return probabilities

    def save(self, folder: Path, model_hash: str, signature: Mapping[str, Any]) -> None:
        """Put it into a model's folder."""
        record: dict[str, Any] = {"model": model_hash, "bias": self.bias, "weights": self.weights}
        if self.with_views is not None:
            record["views"] = {"bias": self.with_views.bias, "weights": self.with_views.weights}
        record["signature"] = dict(signature)
        (folder / CONFIDENCE).write_text(json.dumps(record, indent=1, default=str) + "\n", encoding="utf-8")


def features(groups: Iterable[Sequence[float]]) -> tuple[float, float, float]:
    """The best group's cosine, its distance to the mean of the next `OTHERS` (0 without others), ln of its hits.

    ``groups``: the scores of the first `HITS` hits by wording, the best group and the best hit first. Raises InputError
    for no groups.
    """
    best, *remainder = groups if (groups := list(groups)) else [[]]
    if not len(best):
        raise InputError("no groups; a search that finds nothing has a confidence of 0")
    rest = [group[0] for group in remainder[:OTHERS]]
    return best[0], (best[0] - sum(rest) / len(rest)) if rest else 0.0, log(len(best))


def load_confidence(folder: Path, model_hash: str) -> Confidence | None:
    """Confidence of a model's folder; None where there is none, or one of another model.

    Raises ModelDamaged for a file that is not one.
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
    """Raises ModelDamaged for what the reading of a file of another kind raises."""
    try:
        yield
    except (OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise ModelDamaged(f"{path}: not {kind} ({error}); remove it, or {remedy}") from error


def _confidence(record: Mapping[str, Any]) -> Confidence:
    """Raises ValueError, TypeError or KeyError for what is not one."""
    first, second, third = map(float, record["weights"])
    confidence = Confidence(float(record["bias"]), (first, second, third))
    if not np.isfinite([confidence.bias, *confidence.weights]).all():
        raise ValueError("a number that is not finite")
    return confidence


# What speaks for a candidate. Cosines are with the query in its sentence, but for those "alone".
FEATURES = (
    "context",  # cosine of its nearest occurrence
    "contexts",  # mean cosine of its three nearest occurrences
    "lead",  # the nearest occurrence's cosine, less the highest one among all candidates
    "type",  # cosine of the mean of its occurrences
    "alike",  # length of the mean of its occurrences: 1 if all have one vector, less the more they differ
    "alone",  # cosine of the mean of its occurrences with the query without its sentence
    "alone lead",  # the same, less the highest one among all candidates
    "listed",  # 1 if a dictionary or the lexicon gives it, else 0
    "exact",  # 1 if what lists it has the query itself, and not only other forms of its words
    "verbatim",  # 1 if it is what is listed, and not only another form of it
    "probability",  # logarithm of its probability there, at least e ** LEAST_LOG; that of LEAST_LOG if it is not listed
    "collocates",  # how often its words stand with the equivalents of the words around the query (lexicon.collocates)
    # of a listed one, less the highest of all that are listed; 0 for one that is not listed:
    "listed context",
    "listed contexts",
    "listed type",
    "listed probability",
    "listed collocates",
    "listed shift",  # "type" less "alone": what the sentence adds
    "others listed",  # 1 if it is not listed and another candidate is
    "covered",  # share of its words that are equivalents of one of the query's words
    "covers",  # share of the query's words that have an equivalent among its words
    "composed",  # mean logarithm of the probabilities with which its words translate the query's content words
    "word by word",  # 1 if the query has several words, and they and its words translate one another
    "covers function words",  # share of the query's function words that have one; 1 if it has none of them
    "same wording",  # 1 if it reads like the query and no dictionary lists it, such as a name
    "count",  # logarithm of how often it occurs
    "words",  # how many words it has more than the query, at least 0
    "fewer words",  # how many words it has less
    "function word",  # 1 if it begins with a function word
    "no lexicon",  # 1 if no lexicon has the languages of the query and the index: not to be listed then tells nothing
)
LISTED = FEATURES.index("listed")
REASONS = {  # what a person calls the features
    "meaning in its sentence": (
        *("context", "contexts", "lead", "type", "alike"),
        *("listed context", "listed contexts", "listed type", "listed shift"),
    ),
    "meaning by itself": ("alone", "alone lead"),
    "dictionary": ("listed", "exact", "verbatim", "probability", "listed probability", "others listed", "no lexicon"),
    "words around it": ("collocates", "listed collocates"),
    "words that translate each other": ("covered", "covers", "composed", "word by word", "covers function words"),
    "same wording": ("same wording",),
    "length and frequency": ("count", "words", "fewer words", "function word"),
}
LEAST_LOG = -6.0


class HiddenUnit(NamedTuple):
    """Unit of the hidden layer: its part of the log-odds is output max(0, bias + weights . f).

    >>> HiddenUnit(output=2.0, bias=-1.0, weights=(0.5,))
    HiddenUnit(output=2.0, bias=-1.0, weights=(0.5,))
    """

    output: float
    bias: float
    weights: tuple[float, ...]


@dataclass(frozen=True)
class CandidateScorer:
    """Features of candidates -> how likely each is right. ``unlisted``: for queries without a listed candidate.

    >>> scorer = CandidateScorer(0.0, (0.0,) * len(FEATURES))
    >>> scorer.probabilities(np.zeros((1, len(FEATURES)))).tolist()  # 1 / (1 + e ** 0)
    [0.5]
    """

    bias: float
    weights: tuple[float, ...]
    unlisted: CandidateScorer | None = None
    units: tuple[HiddenUnit, ...] = ()

    def probabilities(self, features: ArrayLike) -> Doubles:
        """(n,) probabilities of the n candidates of a query, with features (n, len(FEATURES))."""
        table = np.asarray(features, np.float64)
        values: Doubles = 1 / (1 + np.exp(-self._chosen(table).log_odds(table)))
        return values

    def reasons(self, features: ArrayLike, chosen: Sequence[int]) -> list[dict[str, float]]:
        """Reasons for each ``chosen`` candidate and against it: kind of `REASONS` -> log-odds.

        They are the Shapley values (1953) of the kinds. The features of the mean candidate are replaced by this one's,
        kind after kind. What each kind adds then is its reason, as a mean over all orders of the kinds. So the reasons
        sum up to how far a candidate's log-odds lie above those of the mean candidate.

        ``features``: (n, len(FEATURES)), of all candidates of a query.
        """
        table = np.asarray(features, np.float64)
        scorer, mean = self._chosen(table), table.mean(axis=0)
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

    def _chosen(self, table: Doubles) -> CandidateScorer:
        """The scorer for queries without a listed candidate, if these candidates are such, else this one."""
        return self if self.unlisted is None or table[:, LISTED].any() else self.unlisted

    def log_odds(self, table: Doubles) -> Doubles:
        """(n,) log-odds of features (n, len(FEATURES)), by this scorer whether one is listed or not."""
        weights, (outputs, biases, inputs) = self._arrays
        values: Doubles = table @ weights + self.bias
        if self.units:
            values += np.maximum(table @ inputs + biases, 0) @ outputs
        return values

    @cached_property
    def _arrays(self) -> tuple[Doubles, tuple[Doubles, Doubles, Doubles]]:
        """The weights, and of the units outputs and biases, (units,), and weights, (features, units)."""
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
    """All sets of players, (2 ** players, players) bool, and the weights (players, 2 ** players) of Shapley values.

    The value of a player is the sum of its weights times the worths of the sets.
    """
    sets = np.array(list(product([False, True], repeat=players)))
    sizes = sets.sum(axis=1)
    orders = np.array([factorial(size) * factorial(players - size - 1) for size in range(players)]) / factorial(players)
    joins, stays = orders[sizes - 1], orders[np.minimum(sizes, players - 1)]
    return sets, np.where(sets.T, joins, -stays)


def load_scorer(folder: Path, model_hash: str) -> CandidateScorer | None:
    """The scorer of a model's folder; None where there is none, or one of another model or with unknown features.

    Features that it has no weights for, those of later versions, count nothing.
    Raises ModelDamaged for a file that cannot be read as one.
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
    """The features that a record has weights for."""
    return {*record["weights"], *(name for unit in record.get("hidden", ()) for name in unit["weights"])}


def _scorer(record: Mapping[str, Any], unlisted: CandidateScorer | None) -> CandidateScorer:
    """Raises ValueError for a number that is not finite, TypeError, KeyError or AttributeError for another record."""
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
