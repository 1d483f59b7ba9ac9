"""Pooling worked out by hand, and the rows of a span against a plain loop over the tokens."""

from __future__ import annotations

import math
from statistics import NormalDist

import encoders
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phrasemate.encode import Model
from phrasemate.encode.heads import ACTIVATIONS
from phrasemate.encode.pooling import Head, pool_cls, pool_ends, pool_mean, token_rows, unit
from phrasemate.encode.runtime import States
from phrasemate.errors import InputError
from phrasemate.types import Phrase

VALUES = np.array([[1, 2], [3, 4], [5, 0], [0, 8]], np.float32)
FIRST, LAST = np.array([0, 1, 2]), np.array([3, 2, 2])


def test_by_hand() -> None:
    np.testing.assert_array_equal(pool_ends(VALUES, FIRST, LAST), [[1, 2, 0, 8], [3, 4, 5, 0], [5, 0, 5, 0]])
    expected = [[(1 + 3 + 5 + 0) / 4, (2 + 4 + 0 + 8) / 4], [(3 + 5) / 2, (4 + 0) / 2], [5, 0]]
    np.testing.assert_array_equal(pool_mean(VALUES, FIRST, LAST), expected)
    states = States(VALUES, np.array([0, 3, 4]), np.zeros(4, np.int32), np.zeros(4, np.int32))
    np.testing.assert_array_equal(pool_cls(states), [[1, 2], [0, 8]])
    np.testing.assert_array_equal(unit(np.array([[3, 4], [0, 0]], np.float32)), np.float32([[3 / 5, 4 / 5], [0, 0]]))


def test_the_head_is_the_linear_map_of_both_ends() -> None:
    drawn = np.random.default_rng(0)
    head = Head(*(drawn.standard_normal(shape).astype(np.float32) for shape in ((2, 3), (2, 3), (3,))))
    kernel = np.concatenate([head.start, head.end])  # W of W [h_start; h_end] + b, (4, 3)
    expected = [np.concatenate([VALUES[i], VALUES[j]]) @ kernel + head.bias for i, j in zip(FIRST, LAST, strict=True)]
    np.testing.assert_allclose(head(VALUES, FIRST, LAST), expected, rtol=1e-5)
    np.testing.assert_allclose(head(VALUES, FIRST[:1], LAST[:1]), expected[:1], rtol=1e-5)  # few spans: rows first


def test_activations_are_their_formulas() -> None:
    """GELU is x times the share of a normal distribution below x."""
    numbers = (-30.0, -1.5, 0.0, 0.25, 3.0)
    expected = {
        "Identity": list(numbers),
        "Tanh": [math.tanh(x) for x in numbers],
        "ReLU": [max(0.0, x) for x in numbers],
        "Sigmoid": [1 / (1 + math.exp(-x)) for x in numbers],
        "SiLU": [x / (1 + math.exp(-x)) for x in numbers],
        "GELU": [x * NormalDist().cdf(x) for x in numbers],
    }
    assert set(expected) == set(ACTIVATIONS)
    for name, values in expected.items():
        result = ACTIVATIONS[name](np.array([numbers], np.float32))
        assert result.dtype == np.float32
        np.testing.assert_allclose(result, [values], rtol=1e-5, atol=1e-6)
    assert ACTIVATIONS["GELU"](np.zeros((0, 3), np.float32)).shape == (0, 3)


def test_means_of_long_texts_do_not_drift() -> None:
    values = np.random.default_rng(1).standard_normal((30_000, 4)).astype(np.float32) + 10
    first, last = np.array([0, 29_000]), np.array([29_999, 29_003])
    expected = [values[i : j + 1].astype(np.float64).mean(0) for i, j in zip(first, last, strict=True)]
    np.testing.assert_allclose(pool_mean(values, first, last), expected, rtol=1e-6)


@given(lengths=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)), max_size=6), after=st.integers(0, 2))
def test_means_of_spans_one_after_another(lengths: list[tuple[int, int]], after: int) -> None:
    spans, at = [], 0
    for gap, length in lengths:
        spans.append((at + gap, at + gap + length - 1))
        at += gap + length
    values = np.random.default_rng(at).standard_normal((at + after, 3)).astype(np.float32)
    expected = [values[i : j + 1].astype(np.float64).mean(0) for i, j in spans]
    means = pool_mean(values, *np.array(spans, np.int64).reshape(-1, 2).T)
    np.testing.assert_allclose(means, np.reshape(expected, (-1, 3)), rtol=1e-5, atol=1e-6)


def plain_rows(tokens: list[tuple[int, int]], start: int, end: int) -> tuple[int, int]:
    overlapping = [row for row, (a, b) in enumerate(tokens) if a < end and b > start]
    if overlapping:
        return overlapping[0], overlapping[-1]
    following = next((row for row, (_, b) in enumerate(tokens) if b > start), len(tokens) - 1)
    return following, following


@st.composite
def token_lists(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Tokens with gaps between them, and the empty special ones at both ends."""
    tokens, at = [(0, 0)], 0
    for gap, length in draw(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3)), max_size=8)):
        tokens.append((at + gap, at + gap + length))
        at += gap + length
    length = at + draw(st.integers(0, 2))
    return [*tokens, (length, length)]


@given(texts=st.lists(token_lists(), min_size=1, max_size=3), data=st.data())
@settings(max_examples=150, deadline=None)
def test_rows_against_a_plain_loop(texts: list[list[tuple[int, int]]], data: st.DataObject) -> None:
    bounds = np.cumsum([0, *map(len, texts)])
    starts, ends = np.array([pair for text in texts for pair in text], np.int32).T
    states = States(np.zeros((len(starts), 1), np.float32), bounds, starts, ends)
    for number, tokens in enumerate(texts):
        length = tokens[-1][1]
        pairs = st.tuples(st.integers(0, length), st.integers(0, length)).filter(lambda pair: pair[0] < pair[1])
        spans = data.draw(st.lists(pairs, max_size=5)) if length else []
        first, last = token_rows(states, number, *np.array(spans, np.int32).reshape(-1, 2).T)
        expected = [plain_rows(tokens, *span) for span in spans]
        items = list(zip(first - bounds[number], last - bounds[number], strict=True))
        assert items == expected


@pytest.mark.parametrize("pooling", ["mean", "ends", "cls"])
def test_encode_is_the_pooling_of_the_states(model: Model, pooling: str) -> None:
    phrases = [Phrase(text, text.index("bank"), text.index("bank") + 4) for text in encoders.SENTENCES[:2]]
    phrases.append(Phrase(encoders.SENTENCES[1], 0, 7))  # "She sat"
    (states,) = model.token_states(encoders.SENTENCES[:2])
    second = int(states.bounds[1])
    rows = [(3, 3), (second + 5, second + 5), (second + 1, second + 2)]
    expected = []
    for (i, j), opening in zip(rows, (0, second, second), strict=True):
        span = states.values[i : j + 1]
        vector = {"mean": span.mean(0), "ends": np.concatenate([span[0], span[-1]]), "cls": states.values[opening]}
        expected.append(vector[pooling] / np.linalg.norm(vector[pooling]))
    vectors = model.encode(phrases, pooling=pooling)
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    assert vectors.dtype == np.float32


def test_a_pooling_or_dimension_that_the_model_lacks(model: Model) -> None:
    phrase = Phrase("a bank", 2, 6)
    for name in ("head", "max"):
        with pytest.raises(InputError, match=f"pooling '{name}': this model has cls, ends, mean"):
            model.encode([phrase], pooling=name)
    assert model.dim == 2 * encoders.HIDDEN
    assert [model.encode([], pooling=name).shape for name in ("ends", "mean")] == [
        (0, model.dim),
        (0, encoders.HIDDEN),
    ]


def test_sentences_are_the_mean_of_all_tokens(model: Model) -> None:
    (states,) = model.token_states(encoders.SENTENCES)
    means = [states.values[a:b].mean(0) for a, b in zip(states.bounds, states.bounds[1:], strict=False)]
    expected = [mean / np.linalg.norm(mean) for mean in means]
    np.testing.assert_allclose(model.encode_sentences(encoders.SENTENCES), expected, atol=1e-5)


def test_phrases_come_back_in_their_order(model: Model) -> None:
    """Contexts are encoded once each, whatever the order in which their phrases come."""
    first, second = encoders.SENTENCES[:2]
    phrases = [Phrase(second, 0, 3), Phrase(first, 4, 7), Phrase(second, 4, 7), Phrase(first, 8, 12)]
    order = [2, 0, 3, 1]
    np.testing.assert_array_equal(model.encode([phrases[i] for i in order]), model.encode(phrases)[order])


@pytest.mark.parametrize("threads", [1, 3])
def test_unit_vectors_of_a_head_are_those_of_a_plain_loop(threads: int) -> None:
    drawn = np.random.default_rng(3)
    head = Head(*(drawn.standard_normal(shape).astype(np.float32) for shape in ((6, 4), (6, 4), 4)))
    values = drawn.standard_normal((50, 6)).astype(np.float32)
    first = drawn.integers(0, 50, 9_000)  # more chunks than threads
    last = np.minimum(first + drawn.integers(0, 5, 9_000), 49)
    result = head.unit(values, first, last, threads)
    for i in (0, 1, 2_047, 2_048, 8_999):
        plain = values[first[i]] @ head.start + values[last[i]] @ head.end + head.bias
        np.testing.assert_allclose(result[i], plain / np.linalg.norm(plain), atol=1e-5)
    np.testing.assert_array_equal(result, head.unit(values, first, last))
    assert head.unit(values, first[:0], last[:0], threads).shape == (0, 4)
