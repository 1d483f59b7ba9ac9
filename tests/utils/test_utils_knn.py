"""The k greatest numbers of each row, against sorting the whole row."""

from __future__ import annotations

import numpy as np
import pytest

from phrasemate.utils.knn import argsort_desc, pad_ragged, topk, topk_candidates


def some(kind: str, columns: int) -> np.ndarray:
    draw = np.random.default_rng(columns)
    values = draw.standard_normal((7, columns)).astype(np.float32)
    if kind == "ties":
        values = draw.integers(-1, 2, values.shape).astype(np.float32)
        values[draw.random(values.shape) < 0.2] = -0.0
    if kind == "equal":
        values[:] = 0.25
    if kind == "infinite":
        values[draw.random(values.shape) < 0.5] = -np.inf
        values[0], values[1, :2] = -np.inf, np.inf
    return values


@pytest.mark.parametrize("kind", ["mixed", "ties", "equal", "infinite"])
@pytest.mark.parametrize("columns", [0, 1, 15, 16, 33, 64, 700])
@pytest.mark.parametrize("k", [0, 1, 3, 40, 700])
def test_the_greatest_are_the_head_of_a_stable_sort(kind: str, columns: int, k: int) -> None:
    values, k = some(kind, columns), min(k, columns)
    expected = np.argsort(-values, axis=1, kind="stable")
    assert argsort_desc(values).tolist() == expected.tolist()
    best, scores = topk(values, k)
    assert best.tolist() == expected[:, :k].tolist()
    assert scores.dtype == np.float32
    np.testing.assert_array_equal(scores, np.take_along_axis(values, expected[:, :k], 1))


def test_no_rows() -> None:
    for columns in (0, 5, 100):
        best, scores = topk(np.zeros((0, columns), np.float32), min(3, columns))
        assert best.shape == scores.shape == (0, min(3, columns))


def test_few_columns_are_promising_and_all_that_are_needed() -> None:
    values = some("mixed", 3200)
    columns, scores = topk_candidates(values, 5)
    assert columns.shape[1] < 100
    assert (np.sort(scores, axis=1)[:, -5:] == np.sort(values, axis=1)[:, -5:]).all()
    columns, scores = topk_candidates(values, 5, np.float32([9, -9] + [2.5] * 5))
    assert (columns[0] == -1).all()
    assert (scores[0] == -np.inf).all()
    assert (columns[1] >= 0).sum() >= 5
    assert scores[2:][columns[2:] >= 0].min() >= 2.5


def test_places_side_by_side() -> None:
    values = np.float32([[1, 2, 3], [4, 5, 6], [7, 8, 9]])
    columns, scores = pad_ragged(np.array([2, 0, 2]), np.array([2, 1, 0]), values)
    assert columns.tolist() == [[1, -1], [-1, -1], [0, 2]]
    assert scores.tolist() == [[2, -np.inf], [-np.inf, -np.inf], [7, 9]]
