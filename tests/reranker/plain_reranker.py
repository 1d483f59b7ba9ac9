"""The equations of the re-ranker as plain loops, one number at a time."""

from __future__ import annotations

from math import exp, sqrt, tanh
from typing import Any

import numpy as np

from phrasemate.reranker import Network

Vector = list[float]


def shaken(width: int, dim: int, seed: int = 0) -> Network:
    """A network whose weights are all random."""
    draw = np.random.default_rng(seed)
    start = Network.start(draw.normal(size=(width, dim)), draw.normal(size=dim))
    noise = {name: draw.normal(scale=0.3, size=array.shape) for name, array in start.arrays.items()}
    return Network({name: np.asarray(array + noise[name], np.float32) for name, array in start.arrays.items()})


def score(network: Network, first: Any, second: Any, cosine: float) -> float:
    """Of two sentences, (T, width) states each."""
    w = {name: array.tolist() for name, array in network.arrays.items()}
    x, y = ([project(w, state) for state in side.tolist()] for side in (first, second))
    (q1, e1), (q2, e2) = crossed(w, x, y), crossed(w, y, x)
    dims = range(len(e1))
    g = sum(e1[a] * (w["bilinear"][a][b] + w["bilinear"][b][a]) / 2 * e2[b] for a in dims for b in dims)
    a1, a2, a3 = w["mix"]
    return a1 * cosine + a2 * (q1 + q2) / 2 + a3 * tanh(g + w["bilinear_bias"])


def project(w: dict[str, Any], state: Vector) -> Vector:
    totals = [
        sum(state[i] * w["project"][i][a] for i in range(len(state))) + w["project_bias"][a]
        for a in range(len(w["project_bias"]))
    ]
    return unit(totals)


def crossed(w: dict[str, Any], vectors: list[Vector], other: list[Vector]) -> tuple[float, Vector]:
    """The q and e of a sentence."""
    q, total, e = 0.0, sum(exp(dot(x, w["weigh"])) for x in vectors), [0.0] * len(vectors[0])
    for x in vectors:
        rows = [[dot(x, [row[b] for row in w["match"]]) for b in range(len(x))]]  # x W
        m = [tanh(dot(rows[0], y) + w["match_bias"]) for y in other]
        powers = [exp(exp(w["sharpness"]) * item) for item in m]
        hbar = [sum(p * y[a] for p, y in zip(powers, other, strict=True)) / sum(powers) for a in range(len(x))]
        q += exp(dot(x, w["weigh"])) / total * dot(x, hbar)
        gamma = tanh(dot(hbar, w["attend"]) + w["attend_bias"])
        e = [old + gamma * entry for old, entry in zip(e, hbar, strict=True)]
    return q, unit(e)


def dot(one: Vector, other: Vector) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def unit(vector: Vector) -> Vector:
    return [item / sqrt(dot(vector, vector)) for item in vector]
