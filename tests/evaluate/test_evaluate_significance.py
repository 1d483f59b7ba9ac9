from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from phrasemate.errors import InputError
from phrasemate.evaluate.metrics import (
    Ranking,
    accuracy,
    bootstrap,
    bootstrap_test,
    harmonic,
    joint_means,
    mean_reciprocal_rank,
    over_runs,
    randomisation_test,
    ranks_of,
    resampled_means,
    stratified,
    stratified_test,
    student_quantile,
    student_tails,
    t_test,
)


def test_a_ranking_without_ties_is_the_plain_measure() -> None:
    ranking = Ranking(np.array([0.0, 1, 9, 10]), np.zeros(4))
    assert ranking.hits(1).tolist() == [1, 0, 0, 0]
    assert ranking.hits(10).tolist() == [1, 1, 1, 0]
    assert ranking.reciprocal() == pytest.approx([1, 1 / 2, 1 / 10, 1 / 11])


def test_ties_count_as_the_mean_over_their_orders() -> None:
    ranking = Ranking(np.array([0.0, 2, 1]), np.array([3.0, 1, 0]))
    assert ranking.hits(1).tolist() == [1 / 4, 0, 0]
    assert ranking.hits(3).tolist() == [3 / 4, 1 / 2, 1]
    assert ranking.reciprocal() == pytest.approx([(1 + 1 / 2 + 1 / 3 + 1 / 4) / 4, (1 / 3 + 1 / 4) / 2, 1 / 2])


def test_an_answer_that_is_not_there_counts_nothing() -> None:
    ranking = Ranking(np.array([math.inf]), np.array([0.0]))
    assert ranking.hits(10).tolist() == [0]
    assert ranking.reciprocal().tolist() == [0]


@pytest.mark.parametrize("number", [0, 1, 2, 31, 32, 33, 100, 5000])
def test_harmonic_numbers(number: int) -> None:
    assert harmonic(np.array([float(number)]))[0] == pytest.approx(sum(1 / i for i in range(1, number + 1)), abs=1e-11)


def test_ranks_of_counts_ties_by_half() -> None:
    scores = np.array([[0.1, 0.9, 0.5], [0.3, 0.3, 0.3], [0.9, 0.2, 0.1]])
    ranks = ranks_of(scores, np.array([2, 0, 0]))
    assert ranks.tolist() == [1, 1, 0]  # one above; none above and two tied; none
    assert accuracy(ranks) == 1 / 3
    assert mean_reciprocal_rank(ranks) == pytest.approx((1 / 2 + 1 / 2 + 1) / 3)


def test_the_interval_of_a_share_is_about_that_of_the_normal_distribution() -> None:
    scores = np.repeat([1.0, 0.0], [60, 40])
    interval = bootstrap(scores, seed=3)
    error = math.sqrt(0.6 * 0.4 / 100)
    assert interval.value == pytest.approx(0.6)
    assert interval.low == pytest.approx(0.6 - 1.96 * error, abs=0.015)
    assert interval.high == pytest.approx(0.6 + 1.96 * error, abs=0.015)
    assert interval == bootstrap(scores, seed=3)


def test_equal_scores_have_no_width() -> None:
    assert bootstrap([0.25, 0.25, 0.25]) == (0.25, 0.25, 0.25)


def test_groups_are_drawn_together() -> None:
    scores, groups = [1.0] * 50 + [0.0] * 50, [0] * 50 + [1] * 50
    means = resampled_means(scores, groups, samples=4000)
    assert set(means.round(6)) == {0, 0.5, 1}  # two groups: none, one or two of the good one
    assert (means == 0.5).mean() == pytest.approx(1 / 2, abs=0.04)
    assert bootstrap(scores).high - bootstrap(scores).low < 0.25


def test_groups_of_unequal_size_are_weighed_by_it() -> None:
    means = resampled_means([1.0, 1, 1, 0], [7, 7, 7, 9], samples=500)
    assert set(means.round(6)) == {0, 0.75, 1}


def test_the_mean_of_sets_weighs_sets_not_scores() -> None:
    assert stratified([[1.0] * 10, [0.0]]).value == 0.5


def test_randomisation_of_few_differences_is_exact() -> None:
    first, second = np.array([1.0, 1, 1, 0.5, 0, 1]), np.array([0.0, 0, 1, 0, 0.25, 0])
    differences = (first - second)[first != second]
    sums = [
        sum(s * d for s, d in zip(signs, differences, strict=True)) for signs in itertools.product((1, -1), repeat=5)
    ]
    share = sum(abs(item) >= abs(differences.sum()) - 1e-9 for item in sums) / 2**5
    assert randomisation_test(first, second) == share
    assert randomisation_test(second, first) == share


def test_randomisation_by_sampling_is_near_the_sign_test() -> None:
    first, second = np.repeat([1.0, 0.0], [20, 10]), np.repeat([0.0, 1.0], [20, 10])
    tail = sum(math.comb(30, k) for k in range(20, 31)) / 2**30
    assert randomisation_test(first, second) == pytest.approx(2 * tail, abs=0.01)


def test_no_difference_is_not_evidence() -> None:
    same = [0.0, 1.0, 1.0]
    assert randomisation_test(same, same) == 1
    assert bootstrap_test(same, same) == 1
    assert t_test(same, same) == (0, 1)


def test_the_bootstrap_test_agrees_with_the_normal_distribution() -> None:
    draw = np.random.default_rng(0)
    differences = draw.normal(0.1, 1, 400)
    z = differences.mean() / (differences.std() / 20)
    assert bootstrap_test(differences, np.zeros(400)) == pytest.approx(math.erfc(z / math.sqrt(2)), abs=0.02)


# Table of Student's distribution, two-sided.
@pytest.mark.parametrize(
    ("freedom", "t", "p"),
    [(1, 12.706, 0.05), (2, 4.303, 0.05), (10, 2.228, 0.05), (10, 3.169, 0.01), (30, 1.697, 0.10), (1e6, 2.576, 0.01)],
)
def test_the_tails_of_student(freedom: float, t: float, p: float) -> None:
    assert student_tails(t, freedom) == pytest.approx(p, abs=1e-4)
    assert student_tails(-t, freedom) == student_tails(t, freedom)


def test_student_of_one_and_two_degrees_in_closed_form() -> None:
    for t in (0.01, 0.5, 1.0, 3.0, 40.0):
        assert student_tails(t, 1) == pytest.approx(1 - 2 * math.atan(t) / math.pi, abs=1e-12)
        assert student_tails(t, 2) == pytest.approx(1 - t / math.sqrt(2 + t * t), abs=1e-12)


def test_the_paired_t_test() -> None:
    t, p = t_test([5.0, 7, 8, 9], [4.0, 5, 8, 6])  # differences 1, 2, 0, 3: mean 3/2, variance 5/3
    assert t == pytest.approx(1.5 / math.sqrt((5 / 3) / 4))
    assert p == student_tails(t, 3)
    assert t_test([2.0, 3.0], [1.0, 2.0]) == (math.inf, 0)


@pytest.mark.parametrize("call", [lambda: bootstrap([]), lambda: bootstrap([math.nan]), lambda: bootstrap([[1.0]])])
def test_senseless_scores_are_refused(call) -> None:
    with pytest.raises(InputError, match="expected a row"):
        call()


def test_scores_that_are_not_paired_are_refused() -> None:
    with pytest.raises(InputError, match="expected one score per query"):
        randomisation_test([1.0, 0.0], [1.0])
    with pytest.raises(InputError, match="the numbers must be equal"):
        bootstrap([1.0, 0.0], [1])
    with pytest.raises(InputError, match="2 or more"):
        t_test([1.0], [0.0])
    with pytest.raises(InputError, match="level"):
        bootstrap([1.0], level=95)


@pytest.mark.parametrize("test", [bootstrap_test, randomisation_test, t_test])
@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_scores_that_are_not_numbers_are_not_significant(test: Any, wrong: float) -> None:
    with pytest.raises(InputError, match="scores of 1 queries are not finite"):
        test([wrong, 0.5, 0.25], [0.0, 0.5, 0.5])


def test_a_stratified_test_weighs_sets_not_queries() -> None:
    draw = np.random.default_rng(4)
    large = draw.normal(0.0, 1, 2000), np.zeros(2000)
    small = draw.normal(1.0, 0.1, 20), np.zeros(20)
    assert stratified_test([large], samples=999) == bootstrap_test(*large, samples=999)
    assert stratified_test([large, small], samples=999) == 0.001  # the mean of the means is about one half
    together = [np.concatenate(item) for item in zip(large, small, strict=True)]
    assert bootstrap_test(*together, samples=999) > 0.05  # of all queries it is about a hundredth


def test_an_interval_over_runs_adds_their_spread() -> None:
    """Half-widths by hand: t(2, .975) = 4.3027, means of runs .4, .5 and .6 with a deviation of .1."""
    queries, names = np.array([0.0, 1.0] * 50), np.arange(100)
    runs = np.stack([queries * 0.8, queries, queries * 1.2])
    alone = over_runs([queries], [names])
    both = over_runs([runs], [names])
    half = 4.30265 * 0.1 / math.sqrt(3)
    assert both.value == pytest.approx(0.5)
    assert both.high - 0.5 == pytest.approx(math.hypot(alone.high - 0.5, half), rel=1e-4)
    assert 0.5 - both.low == pytest.approx(math.hypot(0.5 - alone.low, half), rel=1e-4)
    assert alone == bootstrap(queries)
    with pytest.raises(InputError, match="sets of 1, 3 runs"):
        over_runs([runs, queries], [names, names])


def test_what_two_sets_share_is_drawn_in_both() -> None:
    """The same queries twice count once, other ones count as more: a deviation of .5 / 10, of .5 / sqrt(200)."""
    queries, names = np.array([0.0, 1.0] * 50), np.arange(100)
    shared = over_runs([queries, queries], [names, names])
    assert shared == over_runs([queries], [names])
    assert (shared.high - shared.low) / 2 == pytest.approx(1.96 * 0.5 / 10, rel=0.05)
    others = over_runs([queries, queries], [names, names + 100])
    assert (others.high - others.low) / 2 == pytest.approx(1.96 * 0.5 / math.sqrt(200), rel=0.05)


def test_a_set_counts_as_much_as_another_however_small() -> None:
    draws = joint_means([[1.0] * 50, [0.0]], [range(50), [50]], samples=200)
    assert set(draws) <= {0.5, 1.0}  # where its one query is not drawn, it is left out
    assert 0.5 in draws
    assert over_runs([[1.0] * 50, [0.0]], [range(50), [50]]).value == 0.5


@pytest.mark.parametrize(("share", "freedom", "value"), [(0.975, 2, 4.30265), (0.95, 10, 1.81246), (0.5, 3, 0.0)])
def test_quantiles_of_student(share: float, freedom: float, value: float) -> None:
    assert student_quantile(share, freedom) == pytest.approx(value, abs=1e-4)


@pytest.mark.parametrize("samples", [0, 10.0, "10", None])
def test_the_number_of_samples_is_a_whole_number_from_1(samples: Any) -> None:
    first, second = np.zeros(20), np.ones(20)
    for function in (bootstrap_test, randomisation_test):
        with pytest.raises(InputError, match=r"samples: .*; expected 1 or more, a whole number"):
            function(first, second, samples=samples)
    for estimate in (bootstrap, resampled_means):
        with pytest.raises(InputError, match=r"samples: .*; expected 1 or more, a whole number"):
            estimate(second, samples=samples)


@pytest.mark.parametrize("seed", [-1, 1.0, "1", None])
def test_a_seed_is_a_whole_number_from_0(seed: Any) -> None:
    with pytest.raises(InputError, match=r"seed: .*; expected 0 or more, a whole number"):
        bootstrap(np.ones(20), seed=seed)
    with pytest.raises(InputError, match=r"seed: .*; expected 0 or more, a whole number"):
        bootstrap_test(np.zeros(20), np.ones(20), seed=seed)


@pytest.mark.parametrize("k", [0, 1.5, "1", None])
def test_accuracy_counts_the_first_k_of_a_whole_number(k: Any) -> None:
    with pytest.raises(InputError, match=r"k: .*; expected 1 or more, a whole number"):
        accuracy(np.array([0.0, 2.0]), k)
