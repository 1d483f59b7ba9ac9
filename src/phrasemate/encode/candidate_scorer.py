"""The choice among the candidates of a search: one logistic function of what speaks for each.

    P(right) = 1 / (1 + exp(-(b + w . f)))

The features f of a candidate wording are those of `FEATURES`; the weights w are the same for every language. They are
fitted by ``bench/candidate_scorer.py`` on look-ups in text that is not a translation, and kept in the model's folder as
scorer.json, beside what the model's hash seals::

    {"model": HASH, "bias": b, "weights": {FEATURE: w, ...}, "signature": {...}}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phrasemate.errors import ModelDamaged

SCORER = "scorer.json"
# What speaks for a candidate. Cosines are with the query in its sentence, but for those "alone".
FEATURES = (
    "context",  # cosine of its nearest occurrence
    "contexts",  # mean cosine of its three nearest occurrences
    "lead",  # the nearest occurrence's cosine, less the highest one among all candidates
    "type",  # cosine of the mean of its occurrences
    "alone",  # cosine of the mean of its occurrences with the query without its sentence
    "alone lead",  # the same, less the highest one among all candidates
    "listed",  # 1 if a dictionary or the lexicon gives it, else 0
    "probability",  # logarithm of its probability there, at least e ** LEAST_LOG; that of LEAST_LOG if it is not listed
    "others listed",  # 1 if it is not listed and another candidate is
    "covered",  # share of its words that are equivalents of one of the query's words
    "covers",  # share of the query's words that have an equivalent among its words
    "same wording",  # 1 if it reads like the query
    "count",  # logarithm of how often it occurs
    "words",  # how many words it has more than the query, at least 0
    "fewer words",  # how many words it has less
    "function word",  # 1 if it begins with a function word
)
LEAST_LOG = -6.0

Doubles = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class CandidateScorer:
    """Features of candidates -> how likely each is right.

    Example::

        scorer = load_model().scorer
        scorer.probabilities(np.zeros((1, len(FEATURES))))  # (1,) between 0 and 1
    """

    bias: float
    weights: tuple[float, ...]

    def probabilities(self, features: ArrayLike) -> Doubles:
        """(n,) probabilities of (n, len(FEATURES)) features."""
        logits = np.asarray(features, np.float64) @ np.array(self.weights) + self.bias
        values: Doubles = 1 / (1 + np.exp(-logits))
        return values

    def save(self, folder: Path, model_hash: str, signature: Mapping[str, Any]) -> None:
        """Write scorer.json into a model's folder."""
        weights = dict(zip(FEATURES, self.weights, strict=True))
        record = {"model": model_hash, "bias": self.bias, "weights": weights, "signature": dict(signature)}
        (folder / SCORER).write_text(json.dumps(record, indent=1, default=str) + "\n", encoding="utf-8")


def load_scorer(folder: Path, model_hash: str) -> CandidateScorer | None:
    """The scorer of a model's folder; None where there is none, or one of another model or with other features.

    Raises ModelDamaged for a file that cannot be read as one.
    """
    path = folder / SCORER
    if not path.exists():
        return None
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["model"] != model_hash or set(record["weights"]) != set(FEATURES):
            return None
        scorer = CandidateScorer(float(record["bias"]), tuple(float(record["weights"][name]) for name in FEATURES))
        if not np.isfinite([scorer.bias, *scorer.weights]).all():
            raise ValueError("a number that is not finite")
    except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise ModelDamaged(f"{path}: not a scorer file ({error}); remove it, or fit it again") from error
    return scorer
