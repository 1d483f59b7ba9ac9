"""Making runs, fusing them and normalising their scores: each formula written out, and plain loops over random ones."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from phrasemate.errors import InputError
from phrasemate.rank import interpolate, rank_positions, run_of, softmax, weighted_sum, z_scores
from phrasemate.types import Run

INF = math.inf


def run(*lists: list[tuple[int, float]]) -> Run:
    """A run from lists of (id, score), filled up."""
    width = max(map(len, lists))
    filled = [[*one, *[(-1, -INF)] * (width - len(one))] for one in lists]
    return Run(
        np.array([[i for i, _ in one] for one in filled], np.int64),
        np.array([[s for _, s in one] for one in filled], np.float32),
    )


def as_lists(run: Run) -> list[list[tuple[int, float]]]:
    return [
        [(int(i), float(s)) for i, s in zip(*both, strict=True) if i >= 0]
        for both in zip(run.ids, run.scores, strict=True)
    ]


def same(run: Run, *expected: list[tuple[int, float]]) -> None:
    result = as_lists(run)
    assert [[i for i, _ in one] for one in result] == [[i for i, _ in one] for one in expected]
    for one, other in zip(result, expected, strict=True):
        assert [s for _, s in one] == pytest.approx([s for _, s in other], abs=1e-6)


A = run([(0, 0.9), (1, 0.5), (2, 0.1)], [(5, 3.0)])
B = run([(2, 7.0), (0, 6.0)], [(4, 2.0), (5, 2.0)])


def test_ids_may_be_as_large_as_64_bits_are() -> None:
    great = 2**63 - 1
    first = run([(great, 2.0), (1, 1.0)], [(2**62, 2.0), (3, 1.0)], [(4, 2.0), (great - 1, 1.0)])
    second = run([(1, 5.0), (great, 4.0)], [(3, 5.0)], [(great - 1, 5.0), (7, 4.0)])
    result = weighted_sum([first, second])
    same(result, [(great, 6.0), (1, 6.0)], [(3, 6.0), (2**62, 2.0)], [(great - 1, 6.0), (7, 4.0), (4, 2.0)])


def test_a_run_of_scores() -> None:
    scores = np.array([[0.1, 0.7, 0.7, -INF], [3.0, 1.0, 2.0, 4.0]])
    same(run_of(scores, 3, "x"), [(1, 0.7), (2, 0.7), (0, 0.1)], [(3, 4.0), (0, 3.0), (2, 2.0)])
    same(run_of(scores), [(1, 0.7), (2, 0.7), (0, 0.1)], [(3, 4.0), (0, 3.0), (2, 2.0), (1, 1.0)])
    assert run_of(scores, 3, "x").name == "x"
    same(run_of(scores, 1), [(1, 0.7)], [(3, 4.0)])
    assert run_of(scores, 9).ids.shape == (2, 4)
    assert run_of(np.zeros((2, 0)), 5).ids.shape == (2, 0)


def test_a_run_in_blocks_is_the_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = np.random.default_rng(0).integers(0, 5, (7, 11)).astype(np.float32)
    at_once = run_of(scores, 4)
    monkeypatch.setattr("phrasemate.rank._SCORES_PER_BLOCK", 25)  # two rows of 11 at a time, the last alone
    assert (run_of(scores, 4).ids == at_once.ids).all()
    assert at_once.ids.tolist() == [sorted(range(11), key=lambda d: (-row[d], d))[:4] for row in scores]


@pytest.mark.parametrize(("scores", "k"), [(np.zeros(3), 1), (np.zeros((2, 3)), 0), (np.array([[1.0, np.nan]]), 1)])
def test_what_is_not_score_matrix(scores: np.ndarray, k: int) -> None:
    with pytest.raises(InputError, match="expected"):
        run_of(scores, k)


def test_positions_share_ties() -> None:
    tied = run([(3, 0.9), (1, 0.5), (7, 0.5), (2, 0.5), (8, 0.1)], [(1, 1.0), (2, 1.0)])
    assert rank_positions(tied).tolist() == [[1, (2 + 3 + 4) / 3, 3, 3, 5], [(1 + 2) / 2, 1.5, INF, INF, INF]]
    assert rank_positions(run_of(np.zeros((2, 0)))).shape == (2, 0)


def test_interpolation_of_ranks() -> None:
    # query 0: 1 is absent from B, whose two documents leave it rank 3; query 1: 4 is absent from A, rank 2
    same(
        interpolate([A, B], [0.7, 0.3], "both"),
        [(0, -(0.7 * 1 + 0.3 * 2)), (1, -(0.7 * 2 + 0.3 * 3)), (2, -(0.7 * 3 + 0.3 * 1))],
        [(5, -(0.7 * 1 + 0.3 * 1.5)), (4, -(0.7 * 2 + 0.3 * 1.5))],
    )
    same(interpolate([A, B]), *as_lists(interpolate([A, B], [0.5, 0.5])))
    assert interpolate([A, B], name="both").name == "both"


def test_equal_interpolated_ranks_stand_as_the_heavier_run_has_them() -> None:
    first, second = run([(1, 2.0), (0, 1.0), (2, 0.0)]), run([(0, 2.0), (1, 1.0), (2, 0.0)])
    assert interpolate([first, second]).ids.tolist() == [[1, 0, 2]]
    third = run([(2, 2.0), (0, 1.0), (1, 0.0)])
    tied = interpolate([first, third], [0.5, 0.5])  # 1: (1 + 3) / 2, 0: (2 + 2) / 2, 2: (3 + 1) / 2
    assert tied.ids.tolist() == [[1, 0, 2]]
    assert tied.scores.tolist() == [[-2.0, -2.0, -2.0]]


def test_a_run_fused_with_itself_is_itself() -> None:
    assert as_lists(interpolate([A, A])) == [[(0, -1.0), (1, -2.0), (2, -3.0)], [(5, -1.0)]]


def test_sum_of_scores() -> None:
    same(
        weighted_sum([A, B], [1, 0.1]),
        [(0, 0.9 + 0.1 * 6), (2, 0.1 + 0.1 * 7), (1, 0.5)],
        [(5, 3 + 0.1 * 2), (4, 0.1 * 2)],
    )
    same(
        weighted_sum([A, B], absent=-1),
        [(2, 0.1 + 7), (0, 0.9 + 6), (1, 0.5 - 1)],
        [(5, 3.0 + 2.0), (4, -1 + 2.0)],
    )
    fused = weighted_sum([run([(0, 0.3), (1, 0.2), (2, 0.2)]), run([(1, 0.2), (0, 0.2), (2, 0.1)])], absent=-1e9)
    same(fused, [(0, 0.5), (1, 0.4), (2, 0.3)])  # all are listed: what others would have is of no matter


def test_normalised_scores() -> None:
    deviation = math.sqrt((0.4**2 + 0.0**2 + 0.4**2) / 3)
    same(z_scores(A), [(0, 0.4 / deviation), (1, 0.0), (2, -0.4 / deviation)], [(5, 0.0)])
    total = math.exp(0.9 / 0.5) + math.exp(0.5 / 0.5) + math.exp(0.1 / 0.5)
    expected = [(i, math.exp(s / 0.5) / total) for i, s in ((0, 0.9), (1, 0.5), (2, 0.1))]
    same(softmax(A, 0.5), expected, [(5, 1.0)])
    same(softmax(run([(0, 1000.0), (1, 999.0)])), [(0, 1 / (1 + math.exp(-1))), (1, 1 / (1 + math.e))])


@pytest.mark.parametrize("normalise", [z_scores, softmax, lambda one: interpolate([one, one])])
@pytest.mark.filterwarnings("error")
def test_queries_without_results(normalise: Callable[[Run], Run]) -> None:
    result = normalise(run([(4, 0.3), (2, 0.1)], []))
    assert result.ids.tolist() == [[4, 2], [-1, -1]]
    assert (result.scores[1] == -INF).all()
    nobody = normalise(run([], []))
    assert nobody.ids.shape == (2, 0)


def plain_interpolation(lists: list[dict[int, float]], weights: list[float]) -> dict[int, float]:
    """Rank by rank: ties share the mean of their ranks, what is absent comes next."""
    table = {}
    for document in set().union(*lists):
        table[document] = 0.0
        for one, weight in zip(lists, weights, strict=True):
            above = sum(score > one.get(document, -INF) for score in one.values())
            equal = sum(score == one[document] for score in one.values()) if document in one else 1
            table[document] -= weight * (above + (equal + 1) / 2)
    return table


def test_fusion_against_a_plain_loop() -> None:
    draw = np.random.default_rng(3)
    matrices = [draw.integers(0, 6, (20, 9)).astype(np.float32) for _ in range(3)]
    runs = [run_of(matrix, k) for matrix, k in zip(matrices, (9, 4, 6), strict=True)]
    weights = [0.6, 0.2, 0.2]
    fused = as_lists(interpolate(runs, weights))
    for query, result in enumerate(fused):
        expected = plain_interpolation([dict(as_lists(one)[query]) for one in runs], weights)
        assert dict(result) == pytest.approx(expected, abs=1e-5)
        assert [s for _, s in result] == sorted((s for _, s in result), reverse=True)


@pytest.mark.parametrize("fuse", [interpolate, weighted_sum])
def test_what_cannot_be_fused(fuse: Callable[..., Run]) -> None:
    with pytest.raises(InputError, match="equal numbers of queries"):
        fuse([A, run([(1, 1.0)])])
    with pytest.raises(InputError, match="equal numbers of queries"):
        fuse([])
    for weights in ([1.0], [1.0, -1.0]):
        with pytest.raises(InputError, match="one for each, 0 or more"):
            fuse([A, B], weights)
    with pytest.raises(InputError, match="temperature 0"):
        softmax(A, 0)


@pytest.mark.parametrize("odd", [math.nan, math.inf])
def test_numbers_that_are_invalid_are_refused(odd: float) -> None:
    for fuse in (interpolate, weighted_sum):
        with pytest.raises(InputError, match="expected one for each, 0 or more"):
            fuse([A, B], [1.0, odd])
    with pytest.raises(InputError, match="temperature"):
        softmax(A, odd)
    with pytest.raises(InputError, match=r"absent .*; expected a number"):
        weighted_sum([A, B], absent=-odd)
