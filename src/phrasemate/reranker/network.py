"""The re-ranker: cross-attention over an encoder's token states, in NumPy.

The attention and the bilinear score of Glavaš and Vulić ("Zero-Shot Language Transfer for Cross-Lingual Sentence
Retrieval Using Bidirectional Attention Model", ECIR 2019), fed with contextual states instead of a BiLSTM's. With the
states h_i and h'_j of two sentences' tokens, x_i = P h_i + p and y_j = P h'_j + p brought to unit length::

    m_ij = tanh(x_i W y_j + b)                       eq. 1
    alpha_ij = exp(s m_ij) / sum_j' exp(s m_ij')     eq. 2; the paper has s = 1, which is nearly a plain mean
    hbar_i = sum_j alpha_ij y_j                      eq. 3
    gamma_i = tanh(hbar_i . v + c), e = sum_i gamma_i hbar_i / its length     eq. 4
    g = tanh(e^1 B e^2 + c_B)                        eq. 5, B symmetric
    q = sum_i w_i (x_i . hbar_i),  w_i = exp(x_i . u) / sum_i' exp(x_i' . u)  ours: has every token its match?
    score = a_1 cosine + a_2 (q^1 + q^2) / 2 + a_3 g                          ours

The cosine is that of the encoder's own sentence vectors. Both sentences share all weights, so that a pair has one
score, whichever of the two comes first. `Network.start` gives weights with which the attention is a soft alignment and
the score the match alone: training improves on that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import InputError

Floats = NDArray[np.float32]
Arrays = dict[str, Floats]

SHARPNESS = 20.0  # s of eq. 2: a temperature of 0.05, that of the bundled model's training
START_MIX = (0.0, 40.0, 0.0)  # a_1, a_2, a_3, chosen on held-out text (docs/rerank.md)
TINY = np.float32(1e-30)


class Read(NamedTuple):
    """A sentence as the network takes it: ``tokens`` (T, d) projected, ``vector`` (width,) of the encoder, unit."""

    tokens: Floats
    vector: Floats


@dataclass(frozen=True)
class Network:
    """``arrays``: ``project`` P (width, d), ``project_bias`` p, ``match`` W (d, d), ``match_bias`` b, ``sharpness`` log
    s, ``attend`` v (d,), ``attend_bias`` c, ``weigh`` u (d,), ``bilinear`` (d, d) whose symmetric part is B,
    ``bilinear_bias`` c_B, ``mix`` a (3,). Raises InputError where one is not there, not finite or of another shape.
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
        """Before training, from a projection of states: (width, d) and (d,)."""
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
        """Of the encoder's states."""
        return len(self.arrays["project"])

    @property
    def dim(self) -> int:
        """Of the projected ones."""
        return len(self.arrays["project_bias"])

    def read(self, states: Floats, vector: Floats) -> Read:
        """A sentence: (T, width) states of its tokens without the special ones, (width,) its unit vector."""
        made = states.astype(np.float32) @ self.arrays["project"] + self.arrays["project_bias"]
        return Read(made / np.maximum(np.sqrt((made * made).sum(1, keepdims=True)), TINY), vector)

    def scores(self, own: Read, others: Sequence[Read]) -> Floats:
        """(others,) float32 scores of a sentence with each of the others, all at once."""
        mixed: Floats = self.parts(own, others) @ self.arrays["mix"]
        return mixed

    def parts(self, own: Read, others: Sequence[Read]) -> Floats:
        """(others, 3): cosine, match and g of eq. 5, which the score is mixed of.

        No hbar is computed: with k_j = sum_i gamma_i alpha_ij, e^1 = sum_j k_j y_j, and what is taken of the hbar_i is
        a sum over j of what is taken of the y_j. A sentence without tokens has a match and an e of 0.
        """
        if not others:
            return np.zeros((0, 3), np.float32)
        w, x = self.arrays, own.tokens  # (I, d)
        full = [number for number, each in enumerate(others) if len(each.tokens)] if len(x) else []
        found = np.zeros((len(others), 2), np.float32)
        if full:
            found[full] = self._crossed(x, [others[number].tokens for number in full])
        found[:, 1] = np.tanh(found[:, 1] + w["bilinear_bias"])  # eq. 5
        cosines = np.stack([each.vector for each in others]) @ own.vector
        return np.column_stack([cosines, found])

    def _crossed(self, x: Floats, sides: Sequence[Floats]) -> Floats:
        """(K, 2): the match, and what eq. 5 takes the tanh of but for its bias, with each of K sentences (J_k, d)."""
        w, y = self.arrays, np.concatenate(sides)  # (J, d), one sentence after the other
        lengths = np.array([len(side) for side in sides])
        first = np.cumsum(lengths) - lengths  # (K,) where each begins
        cosines = x @ y.T  # (I, J)
        m = self._matches(x @ w["match"] @ y.T)  # (I, J); x asks
        there = np.exp(m - np.repeat(np.maximum.reduceat(m, first, 1), lengths, 1))
        there /= np.repeat(np.add.reduceat(there, first, 1), lengths, 1)  # (I, J); alpha of x's tokens, eq. 2
        m = self._matches((y @ w["match"] @ x.T).T)  # (I, J); y asks
        back = np.exp(m - m.max(0))
        back /= back.sum(0)  # (I, J); alpha of y's tokens
        own = _softmax(x @ w["weigh"])  # (I,) w of q^1
        theirs = y @ w["weigh"]
        theirs = np.exp(theirs - np.repeat(np.maximum.reduceat(theirs, first), lengths))
        theirs /= np.repeat(np.add.reduceat(theirs, first), lengths)  # (J,) w of q^2
        match = np.add.reduceat(own @ (there * cosines) + theirs * (back * cosines).sum(0), first) / 2  # (K,)
        gamma = np.tanh(np.add.reduceat(there * (y @ w["attend"]), first, 1) + w["attend_bias"])  # (I, K); eq. 4
        k = (there * np.repeat(gamma, lengths, 1)).sum(0)  # (J,)
        e1 = _unit(np.add.reduceat(k[:, None] * y, first, 0))  # (K, d)
        gamma = np.tanh((x @ w["attend"]) @ back + w["attend_bias"])  # (J,)
        e2 = _unit(np.add.reduceat(back * gamma, first, 1).T @ x)  # (K, d)
        bilinear = (w["bilinear"] + w["bilinear"].T) / 2
        return np.column_stack([match, ((e1 @ bilinear) * e2).sum(1)]).astype(np.float32)

    def _matches(self, products: NDArray[np.floating]) -> Floats:
        """The s m of eq. 1 and 2."""
        made: Floats = np.exp(self.arrays["sharpness"]) * np.tanh(products + self.arrays["match_bias"])
        return made


def shapes(width: int, dim: int) -> dict[str, tuple[int, ...]]:
    """Of the arrays of a network."""
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
    powers: Floats = np.exp(values - values.max())
    powers /= powers.sum()
    return powers


def _unit(rows: Floats) -> Floats:
    made: Floats = rows / np.maximum(np.sqrt((rows * rows).sum(1, keepdims=True)), TINY)
    return made
