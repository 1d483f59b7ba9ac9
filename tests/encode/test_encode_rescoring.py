"""A phrase seen twice: the formulas worked out, and who is encoded how often."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log, sqrt

import numpy as np
import pytest

from phrasemate.encode.scoring import Views, alone
from phrasemate.errors import InputError
from phrasemate.types import Phrase

SENTENCE = "He sat on the bench."
BENCH, SAT = Phrase(SENTENCE, 14, 19), Phrase(SENTENCE, 3, 6)


class Known:
    """Vectors of texts without a sentence; in one, all are (1, 0)."""

    dim = 2

    def __init__(self, **vectors: tuple[float, float]) -> None:
        self.vectors, self.requests = vectors, []

    def encode(self, phrases: Sequence[Phrase]) -> np.ndarray:
        self.requests.append([phrase.context for phrase in phrases])
        return np.array([self.vectors.get(phrase.context, (1, 0)) for phrase in phrases], np.float32).reshape(-1, 2)


def test_alone_is_the_phrase_without_its_sentence() -> None:
    assert alone(BENCH) == Phrase("bench", 0, 5)
    assert alone(alone(BENCH)) == alone(BENCH)


def test_a_vector_is_mixed_with_that_of_the_phrase_alone() -> None:
    model = Known(bench=(0.0, 1.0))
    vectors = np.array([[1, 0]], np.float32)
    views = Views(query=0.2, hit=0.5)
    plain, mixed = views.queries(model, [BENCH])
    assert plain.tolist() == [[1, 0]]
    assert mixed == pytest.approx(np.array([[1, 0.2]]) / sqrt(1.04))
    assert model.requests == [[SENTENCE, "bench"]]  # one call
    assert views.hits(model, [BENCH], vectors) == pytest.approx(np.array([[1, 0.5]]) / sqrt(1.25))
    assert vectors.tolist() == [[1, 0]]


def test_each_text_is_encoded_once_and_order_is_kept() -> None:
    model = Known(bench=(0.0, 1.0), sat=(1.0, 0.0))
    phrases = [BENCH, SAT, Phrase("bench or bench", 9, 14), SAT]
    vectors = np.array([[1, 0], [1, 0], [0, 1], [0, 1]], np.float32)
    hits = Views(hit=1).hits(model, phrases, vectors)
    half = 1 / sqrt(2)
    assert hits == pytest.approx(np.array([[half, half], [1, 0], [0, 1], [half, half]]))
    assert model.requests == [["bench", "sat"]]


@pytest.mark.parametrize("weight", [0, 0.5])
def test_nothing_is_encoded_for_nothing(weight: float) -> None:
    model = Known(bench=(0.0, 1.0))
    none = np.zeros((0, 2), np.float32)
    assert Views(hit=weight).hits(model, [], none).shape == (0, 2)
    one = np.array([[1, 0]], np.float32)
    assert Views(hit=0).hits(model, [BENCH], one) is one
    assert model.requests == []
    assert [query.shape for query in Views(query=weight).queries(model, [])] == [(0, 2)] * 2
    same, mixed = Views(query=0).queries(model, [BENCH])
    assert same is mixed
    assert model.requests == [[], [SENTENCE]]


def test_support_is_a_soft_maximum() -> None:
    assert Views(sharpness=0.05).support([0.7]) == pytest.approx(0.7)
    assert Views(sharpness=0.05).support([0.7, 0.7]) == pytest.approx(0.7 + 0.05 * log(2))
    assert Views(sharpness=0.05).support([0.7, 0.6]) == pytest.approx(0.05 * log(exp(14) + exp(12)))
    assert Views(sharpness=1e-4).support([0.7, 0.6]) == pytest.approx(0.7)
    assert Views(sharpness=1e-6).support([1.0, -1.0]) == pytest.approx(1)  # no overflow
    assert Views(sharpness=0.1).support([0.5, 0.5]) == pytest.approx(0.5 + 0.1 * log(2))


@pytest.mark.parametrize(
    "numbers", [{"query": -0.1}, {"hit": -1}, {"sharpness": 0}, {"first": 0}, {"query": float("nan")}]
)
def test_senseless_numbers(numbers: dict[str, float]) -> None:
    with pytest.raises(InputError, match="expected weights of 0 or more"):
        Views(**numbers)  # type: ignore[arg-type]
