"""Word vectors: what the record does, and that nothing senseless gets in."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from phrasemate.errors import InputError
from phrasemate.vectors import WordVectors


def test_what_it_knows(few: WordVectors) -> None:
    assert (len(few), few.dim, few.language) == (4, 3, "de")
    assert few.index == {"das": 0, "haus": 1, "größe": 2, "東京": 3}
    np.testing.assert_array_equal(few.get("haus"), [0, 2, 0])
    assert few.get("Haus") is None
    assert "größe" in few
    assert "Größe" not in few
    assert few.rows(["東京", "none", "das"]).tolist() == [3, 0]
    assert repr(few) == "<WordVectors de 4 x 3>"


def test_first(few: WordVectors) -> None:
    two = few.first(2)
    assert two.words == ("das", "haus")
    assert two.matrix.shape == (2, 3)
    assert two.counts is not None
    assert two.counts.tolist() == [9, 5]
    assert len(few.first(99)) == 4


def test_prepared_is_unit_centred_unit(few: WordVectors) -> None:
    expected = []
    lengths = [row / np.sqrt((row**2).sum()) for row in few.matrix.astype(np.float64)]
    mean = sum(lengths) / 4
    for row in lengths:
        centred = row - mean
        expected.append(centred / np.sqrt((centred**2).sum()))
    np.testing.assert_allclose(few.prepared().matrix, expected, atol=1e-6)
    np.testing.assert_allclose(few.normalised().matrix[0], [3 / 5, 4 / 5, 0], atol=1e-7)
    np.testing.assert_allclose(few.centred().matrix[1], [0 - 4 / 4, 2 - 7 / 4, 0 - 0 / 4], atol=1e-7)
    np.testing.assert_array_equal(few.matrix[1], [0, 2, 0])  # the vectors themselves stay


def test_a_vector_of_zeros_stays() -> None:
    vectors = WordVectors(("a", "b"), np.array([[0, 0], [0, 2]], np.float32)).normalised()
    np.testing.assert_array_equal(vectors.matrix, [[0, 0], [0, 1]])


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"words": ("a", "b", "c")}, "3 words and vectors of shape"),
        ({"matrix": np.zeros(4, np.float32)}, "expected \\(words, dim\\)"),
        ({"matrix": np.zeros((4, 0), np.float32)}, "not empty"),
        ({"words": ("a", "b", "a", "c")}, "occurs twice"),
        ({"words": ("a", "", "b", "c")}, "is empty"),
        ({"matrix": np.full((4, 3), np.nan, np.float32)}, "not finite"),
        ({"counts": np.array([1, 2])}, "counts of shape"),
    ],
)
def test_what_makes_no_sense(few: WordVectors, change: dict[str, object], expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        replace(few, **change)
