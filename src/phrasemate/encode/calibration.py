"""How sure a search is: the probability that the best of what it found is an equivalent at all.

A logistic function of three things: the best group's cosine; how far it stands above the groups after it (a phrase
without an equivalent is about as near to many others); and how many of the first hits have its wording (an equivalent
is found again and again). Fitted by ``bench/confidence.py`` on real text; kept in the model's folder as
confidence.json, beside what the model's hash seals, since no vector depends on it::

    {"model": HASH, "bias": b, "weights": [u, v, w], "signature": {...}}

    P = 1 / (1 + exp(-(b + u s + v (s - m) + w ln n)))

s: cosine of the best group, m: mean cosine of the next `OTHERS` groups, n: how many of the first `HITS` hits have its
wording; groups come by support (`phrasemate.encode.rescoring`). A search that looks at its hits again has other cosines
and fewer hits, so it has a bias and weights of its own, under the key ``views``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phrasemate.errors import InputError, ModelDamaged

CONFIDENCE = "confidence.json"
HITS = 100
OTHERS = 10
STEPS, CLOSE = 100, 1e-9
RIDGE = 1e-3  # keeps the weights finite where the examples can be separated

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Confidence:
    """Features -> probability; see the module. ``with_views``: the one for searches with views."""

    bias: float
    weights: tuple[float, float, float]
    with_views: Confidence | None = None

    def of(self, given: ArrayLike) -> NDArray[np.float64]:
        """(n,) probabilities of (n, 3) `features`."""
        logits = np.asarray(given, np.float64) @ np.array(self.weights) + self.bias
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
    """The best group's cosine, its distance to the mean of the next `OTHERS` (0 if there is no other), ln of its hits.

    ``groups``: the scores of the first `HITS` hits by wording, the best group and the best hit first. Raises InputError
    for no groups.
    """
    best, *others = groups if (groups := list(groups)) else [[]]
    if not len(best):
        raise InputError("no groups; a search that finds nothing has a confidence of 0")
    rest = [group[0] for group in others[:OTHERS]]
    return best[0], (best[0] - sum(rest) / len(rest)) if rest else 0.0, log(len(best))


def fit_confidence(given: ArrayLike, right: ArrayLike) -> Confidence:
    """Logistic regression by Newton's method: (n, 3) `features`, (n,) whether the best group was right.

    Raises InputError where all are right or none is.
    """
    x, y = np.asarray(given, np.float64), np.asarray(right, np.float64)
    if not 0 < y.sum() < len(y):
        raise InputError(f"{int(y.sum())} of {len(y)} examples are right; expected some of both kinds")
    x = np.column_stack([np.ones(len(x)), x])  # (n, 4)
    weights, loss = np.zeros(4), _loss(np.zeros(4), x, y)
    for _ in range(STEPS):
        p = 1 / (1 + np.exp(-x @ weights))
        gradient = x.T @ (y - p) - RIDGE * weights
        step = np.linalg.solve((x.T * (p * (1 - p))) @ x + RIDGE * np.eye(4), gradient)
        while _loss(weights + step, x, y) > loss and np.abs(step).max() > CLOSE:
            step /= 2
        weights, loss = weights + step, _loss(weights + step, x, y)
        if np.abs(step).max() <= CLOSE:
            break
    bias, first, second, third = weights.tolist()
    return Confidence(bias, (first, second, third))


def _loss(weights: NDArray[np.float64], x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    """Minus the log-likelihood, and the ridge."""
    logits = x @ weights
    return float(np.logaddexp(0, logits).sum() - y @ logits + RIDGE / 2 * weights @ weights)


def load_confidence(folder: Path, model_hash: str) -> Confidence | None:
    """That of a model's folder; None where there is none, or one of another model.

    Raises ModelDamaged for a file that is not one.
    """
    path = folder / CONFIDENCE
    if not path.exists():
        return None
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        found = _read(record)
        if "views" in record:
            found = replace(found, with_views=_read(record["views"]))
        return found if record["model"] == model_hash else None
    except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise ModelDamaged(f"{path}: not a confidence file ({error}); remove it, or export the model again") from error


def _read(record: Mapping[str, Any]) -> Confidence:
    """Raises ValueError, TypeError or KeyError for what is not one."""
    first, second, third = map(float, record["weights"])
    found = Confidence(float(record["bias"]), (first, second, third))
    if not np.isfinite([found.bias, *found.weights]).all():
        raise ValueError("a number that is not finite")
    return found
