"""Nearest neighbours and CSLS in blocks, against plain loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from phrasemate.errors import InputError
from phrasemate.utils.knn import blocks
from phrasemate.vectors import csls_penalties, nearest, neighbour_means


def some(count: int, dim: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, dim)).astype(np.float32)


def ordered(values: list[float]) -> list[int]:
    """Positions, greatest value first, equal ones by position."""
    return sorted(range(len(values)), key=lambda i: (-values[i], i))


@pytest.fixture(params=[7, 100, 10**9])
def block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Similarities held at once: less than a row, some rows, all."""
    monkeypatch.setattr("phrasemate.utils.knn.BLOCK", request.param)
    return int(request.param)


@pytest.mark.parametrize(("many", "k"), [(5, 3), (40, 1), (300, 2), (700, 3), (5, 9)])
def test_nearest_as_a_plain_loop(block: int, many: int, k: int) -> None:
    x, z = some(23, 6, 0), some(many, 6, 1)
    rows, values = nearest(x, z, k)
    assert rows.shape == values.shape == (23, min(k, many))
    for i in range(23):
        similar = [float(x[i] @ z[j]) for j in range(many)]
        assert rows[i].tolist() == ordered(similar)[:k]
        np.testing.assert_allclose(values[i], sorted(similar, reverse=True)[:k], rtol=1e-5)


@pytest.mark.parametrize("k", [1, 3])
def test_csls_as_a_plain_loop(block: int, k: int) -> None:
    x, z = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in (some(30, 5, 2), some(400, 5, 3)))
    cosines = [[float(a @ b) for b in z] for a in x]
    r_x = [sum(sorted(row, reverse=True)[:k]) / k for row in cosines]
    r_z = [sum(sorted((row[j] for row in cosines), reverse=True)[:k]) / k for j in range(400)]
    csls = [[2 * cosines[i][j] - r_x[i] - r_z[j] for j in range(400)] for i in range(30)]
    np.testing.assert_allclose(neighbour_means(x, z, k), r_x, rtol=1e-5)
    penalties = csls_penalties(x, z, k)
    np.testing.assert_allclose(penalties, np.array(r_z) / 2, rtol=1e-5)
    rows, values = nearest(x, z, 4, penalties)
    for i in range(30):
        assert rows[i].tolist() == ordered(csls[i])[:4]
        np.testing.assert_allclose(2 * values[i] - r_x[i], sorted(csls[i], reverse=True)[:4], atol=1e-5)


def test_csls_takes_hubs_back() -> None:
    x = np.array([[1, 0], [0.8, 0.6], [0.6, 0.8]], np.float32)
    hub, mate = [0.8, 0.6], [0.995, 0.0998]
    z = np.array([hub, mate], np.float32)
    assert nearest(x, z)[0][:, 0].tolist() == [1, 0, 0]
    assert nearest(x, z, penalties=csls_penalties(x, z, 3))[0][0, 0] == 1


def test_equal_ones_in_their_order(block: int) -> None:
    z = np.repeat(some(1, 4, 5), 300, axis=0)
    rows, _ = nearest(z[:2], z, 2)
    assert rows[:, 0].tolist() == [rows[0, 0]] * 2
    assert (np.diff(rows, axis=1) > 0).all()


@pytest.mark.parametrize(("many", "k"), [(6, 1), (6, 3), (1000, 3), (1000, 1), (200, 70)])
def test_of_equal_ones_the_first_are_taken(many: int, k: int) -> None:
    draw = np.random.default_rng(many)
    x, z = np.eye(3, 2, dtype=np.float32), draw.integers(0, 2, (many, 2)).astype(np.float32)
    rows, values = nearest(x, z, k)  # the third row is 0: all are equal
    similar = x @ z.T
    assert rows.tolist() == [ordered(row)[:k] for row in similar.tolist()]
    np.testing.assert_array_equal(values, np.take_along_axis(similar, rows, 1))


@pytest.mark.parametrize("k", [0, 2.0, "3", None, True])
def test_the_number_of_neighbours_is_a_whole_number_from_1(k: Any) -> None:
    x, z = some(40, 4, 0), some(40, 4, 1)
    for function in (nearest, neighbour_means, csls_penalties):
        with pytest.raises(InputError, match=rf"k: {k!r}; expected 1 or more, a whole number"):
            function(x, z, k)


def test_what_is_held_already() -> None:
    x, z = some(9, 4, 6), some(150, 4, 7)
    product = x @ z.T
    np.testing.assert_array_equal(neighbour_means(x, z, 5, product), neighbour_means(x, z, 5))
    np.testing.assert_allclose(neighbour_means(z, x, 5, product.T), neighbour_means(z, x, 5), rtol=1e-6)
    before = product.copy()
    for _, block in blocks(x, z, product):
        block -= 1
    np.testing.assert_array_equal(product, before)


def test_unlike_vectors() -> None:
    with pytest.raises(InputError, match="vectors of 4 and of 5 dimensions"):
        nearest(some(3, 4, 0), some(3, 5, 0))
