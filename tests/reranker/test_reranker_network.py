"""The re-ranker's equations, in NumPy."""

from __future__ import annotations

from math import exp, sqrt, tanh

import numpy as np
import plain_reranker
import pytest

from phrasemate.errors import InputError
from phrasemate.reranker import Network, Read

Floats = np.ndarray


def sentence(network: Network, tokens: int, seed: int) -> tuple[Floats, Read]:
    draw = np.random.default_rng(seed)
    states = draw.normal(size=(tokens, network.width)).astype(np.float32)
    vector = draw.normal(size=network.width)
    return states, network.read(states, (vector / np.linalg.norm(vector)).astype(np.float32))


def test_two_sentences_by_hand() -> None:
    """With x = (1, 0), (0, 1) and y = (0.6, 0.8), the weights as before training but s = 2, a = (1, 10, 100)."""
    network = Network.start(np.eye(2), np.zeros(2), (1, 10, 100))
    network.arrays["sharpness"] = np.array(np.log(2), np.float32)
    first = network.read(np.array([[2, 0], [0, 3]], np.float32), np.array([1, 0], np.float32))
    second = network.read(np.array([[0.3, 0.4]], np.float32), np.array([0, 1], np.float32))
    q1 = (0.6 + 0.8) / 2  # both tokens of x have y alone to look at, and count alike
    a, b = exp(2 * tanh(0.6)), exp(2 * tanh(0.8))
    hbar = np.array([a, b]) / (a + b)  # of y: a mean of (1, 0) and (0, 1)
    q2 = 0.6 * hbar[0] + 0.8 * hbar[1]
    e1, e2 = np.array([0.6, 0.8]), hbar / sqrt(hbar @ hbar)  # gamma = tanh 1 for every token
    expected = 1 * 0.0 + 10 * (q1 + q2) / 2 + 100 * tanh(e1 @ e2)
    assert network.scores(first, [second]) == pytest.approx([expected], rel=1e-6)


def test_all_at_once_is_as_one_by_one_and_as_the_loops(network: Network) -> None:
    states, state = sentence(network, 5, 1)
    others = [sentence(network, tokens, 10 + tokens) for tokens in (3, 1, 7, 4)]
    together = network.scores(state, [read for _, read in others])
    alone = [float(network.scores(state, [read])[0]) for _, read in others]
    loops = [plain_reranker.score(network, states, item, float(state.vector @ read.vector)) for item, read in others]
    assert together == pytest.approx(alone, rel=1e-5)
    assert together == pytest.approx(loops, rel=1e-5)


def test_a_pair_has_one_score_both_ways(network: Network) -> None:
    one, other = sentence(network, 5, 1)[1], sentence(network, 8, 2)[1]
    assert network.scores(one, [other]) == pytest.approx(network.scores(other, [one]), rel=1e-5)


def test_a_sentence_without_tokens_has_its_cosine_and_bias(network: Network) -> None:
    one, none = sentence(network, 5, 1)[1], sentence(network, 0, 2)[1]
    mix, bias = network.arrays["mix"], float(network.arrays["bilinear_bias"])
    expected = float(mix[0] * (one.vector @ none.vector) + mix[2] * tanh(bias))
    assert network.scores(one, [none]) == pytest.approx([expected], rel=1e-5)
    assert network.scores(none, [one]) == pytest.approx([expected], rel=1e-5)
    assert network.scores(one, []).shape == (0,)


def test_a_sharp_attention_takes_the_nearest_token_and_does_not_overflow() -> None:
    """With s = 1e5 the match is the mean of each token's highest cosine."""
    network = Network.start(np.eye(3), np.zeros(3), (0, 1, 0))
    network.arrays["sharpness"] = np.array(np.log(1e5), np.float32)
    draw = np.random.default_rng(3)
    one, other = (network.read(draw.normal(size=(n, 3)).astype(np.float32), np.ones(3, np.float32)) for n in (4, 6))
    cosines = one.tokens @ other.tokens.T
    expected = (cosines.max(1).mean() + cosines.max(0).mean()) / 2
    assert network.scores(one, [other]) == pytest.approx([expected], abs=1e-4)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("weigh", np.zeros(5, np.float32), r"weigh: float32 \(5,\); expected finite float32 \(4,\)"),
        ("mix", np.zeros(3), r"mix: float64 \(3,\); expected"),
        ("match", np.full((4, 4), np.nan, np.float32), "match: .* expected finite"),
        ("project", np.zeros(3, np.float32), r"project: float32 \(3,\); expected finite float32 \(width, d\)"),
        ("another", np.zeros(3, np.float32), "arrays another, attend, .*; expected attend,"),
    ],
)
def test_wrong_arrays_are_refused(network: Network, name: str, value: Floats, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Network(network.arrays | {name: value})
    with pytest.raises(InputError, match="arrays none"):
        Network({})
