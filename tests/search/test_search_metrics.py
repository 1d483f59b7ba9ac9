"""The measures, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from phrasemate.evaluate import accuracy, mean_reciprocal_rank, ranks_of

SCORES = np.array(
    [
        [0.9, 0.1, 0.5, 0.3],  # gold 0: nothing is higher
        [0.9, 0.1, 0.5, 0.3],  # gold 3: two are higher
        [0.5, 0.5, 0.5, 0.1],  # gold 1: two tied, each counts half
        [0.2, 0.2, 0.9, 0.2],  # gold 0: one is higher, two tied
        [0.0, 0.0, 0.0, 0.0],  # gold 2: three tied
    ]
)
GOLD = np.array([0, 3, 1, 0, 2])
RANKS = np.array([0, 2, 2 / 2, 1 + 2 / 2, 3 / 2])


def test_ranks() -> None:
    np.testing.assert_array_equal(ranks_of(SCORES, GOLD), RANKS)


def test_ranks_against_a_plain_loop() -> None:
    drawn = np.random.default_rng(0)
    scores, gold = drawn.integers(0, 5, (50, 12)).astype(np.float32), drawn.integers(0, 12, 50)
    for row, right, rank in zip(scores, gold, ranks_of(scores, gold), strict=True):
        others = np.delete(row, right)
        assert rank == sum(other > row[right] for other in others) + sum(other == row[right] for other in others) / 2


@pytest.mark.parametrize(("k", "share"), [(1, 1 / 5), (2, 3 / 5), (3, 5 / 5)])
def test_accuracy(k: int, share: float) -> None:
    assert accuracy(RANKS, k) == share


def test_mean_reciprocal_rank() -> None:
    assert mean_reciprocal_rank(RANKS) == pytest.approx((1 / 1 + 1 / 3 + 1 / 2 + 1 / 3 + 1 / 2.5) / 5)


def test_one_score_for_all_is_not_good_model() -> None:
    ranks = ranks_of(np.zeros((4, 101)), np.arange(4))
    assert ranks.tolist() == [50] * 4
    assert accuracy(ranks) == 0
