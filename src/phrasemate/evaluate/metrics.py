"""Measures of rankings with exactly one right answer for each query, with intervals and significance tests.

A rank is 0-based: the number of wrong answers that score higher than the right one. A tie counts as half a rank, so
that a model that gives everything the same score does not look good. `Ranking` counts ties separately: its measures are
expected values over a random order of the tied answers.

Bootstrap intervals and paired tests of two systems over the same queries: Efron and Tibshirani 1993, "An Introduction
to the Bootstrap", chapters 13 (percentile interval) and 16 (test). Randomisation test: Yeh 2000, "More accurate tests
for the statistical significance of result differences". All tests are two-sided. The same seed gives the same figures.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phrasemate.errors import InputError
from phrasemate.types import to_whole
from phrasemate.utils import import_extra
from phrasemate.utils.arrays import Doubles

Floats = NDArray[np.floating]

SMALL = 32  # harmonic numbers up to here are summed, larger ones come from the series (error below 1e-12)
_HARMONIC = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, SMALL + 1))])


class Ranking(NamedTuple):
    """Ranks of the right answers of queries, with ties counted separately.

    ``higher`` (n,) is the number of wrong answers that score higher than the right one, ``tied`` (n,) the number that
    score the same. ``higher`` is infinite if the right answer is not among the candidates.
    """

    higher: Doubles
    tied: Doubles

    def hits(self, k: int = 1) -> Doubles:
        """Return (n,) probabilities that the right answer is among the first k.

        The formula is (k - higher) / (tied + 1), limited to 0 and 1.
        """
        hits: Doubles = np.clip((k - self.higher) / (self.tied + 1), 0, 1)
        return hits

    def reciprocal(self) -> Doubles:
        """Return (n,) the expected reciprocal rank: the mean of 1 / (higher + 1) to 1 / (higher + tied + 1)."""
        finite = np.isfinite(self.higher)
        higher = np.where(finite, self.higher, 0)
        mean = (harmonic(higher + self.tied + 1) - harmonic(higher)) / (self.tied + 1)
        ranks: Doubles = np.where(self.tied == 0, 1 / (higher + 1), mean)  # exact without ties
        return np.where(finite, ranks, 0.0)


def harmonic(numbers: Doubles) -> Doubles:
    """Return the harmonic numbers (n,) of whole numbers (n,): 1 + 1/2 + ... + 1/number, 0 for 0."""
    small = _HARMONIC[np.minimum(numbers, SMALL).astype(np.int64)]
    large = np.maximum(numbers, 1.0)
    series = np.log(large) + np.euler_gamma + 1 / (2 * large) - 1 / (12 * large**2) + 1 / (120 * large**4)
    return np.where(numbers <= SMALL, small, series)


def check_numbers(scores: Floats) -> None:
    """Raise InputError for NaN scores: no score is higher than NaN, so a right answer with NaN would rank first."""
    wrong = int(np.isnan(scores).sum())
    if wrong:
        raise InputError(f"{wrong:,} of {scores.size:,} scores are not numbers; check the model that gave them")


def ranks_of(scores: Floats, gold: NDArray[np.int64]) -> Doubles:
    """Return (queries,) the rank, from 0, of column ``gold[i]`` in row i of ``scores`` (queries, candidates).

    A tie counts as half a rank.

    Raises InputError for NaN among the scores.
    """
    check_numbers(scores)
    gold_scores = scores[np.arange(len(gold)), gold][:, None]
    higher = (scores > gold_scores).sum(1)
    ties = (scores == gold_scores).sum(1) - 1
    return higher + ties / 2  # type: ignore[no-any-return]


def accuracy(ranks: Doubles, k: int = 1) -> float:
    """Return acc@k, the share of queries whose right answer is among the first k. Ranks count from 0 (`ranks_of`).

    Raises InputError unless k is a whole number from 1.
    """
    return float((ranks < to_whole("k", k)).mean())


def mean_reciprocal_rank(ranks: Doubles) -> float:
    """Return MRR, the mean of 1 / (rank + 1), as ranks count from 0. With one right answer per query it equals MAP."""
    return float((1 / (ranks + 1)).mean())


SAMPLES = 10_000
LEVEL = 0.95
EXACT = 16  # number of differences up to which all 2^n combinations of signs are tried: 65,536
CELLS = 4_000_000  # numbers drawn at once, 32 MB
ROUNDING = 1e-9  # rounding error of a sum, which depends on the order of its terms


class Estimate(NamedTuple):
    """Figure with the lower and upper end of its 95 % interval.

    >>> estimate = bootstrap([1, 1, 1, 0])
    >>> estimate.value, estimate.low < estimate.value < estimate.high
    (0.75, True)
    """

    value: float
    low: float
    high: float


def check_seed(seed: int) -> int:
    """Return the seed as an int. Raises InputError for a negative one, which NumPy does not accept."""
    return to_whole("seed", seed, 0)


def resampled_means(
    scores: ArrayLike, groups: ArrayLike | None = None, samples: int = SAMPLES, seed: int = 0
) -> Doubles:
    """Return (samples,) means of resampled scores: each sample draws n of the scores (n,) with replacement.

    ``groups`` (n,) names the group of each score, for instance its phrase; a group is drawn as a whole. Raises
    InputError if there are no scores, if a score is not finite, or if the numbers of groups and scores differ.
    """
    values, weights = _units(scores, groups)
    return np.concatenate([(times @ values) / (times @ weights) for times in _draws(len(values), samples, seed)])


def _draws(units: int, samples: int, seed: int) -> Iterator[Doubles]:
    """Yield arrays (rows, units) that say how often each unit was drawn, ``samples`` rows in all."""
    size = max(1, CELLS // units)
    for start in range(0, to_whole("samples", samples), size):
        yield _draw_counts(units, min(size, samples - start), seed, start)


@lru_cache(maxsize=4)  # all rows of a table use the same draws
def _draw_counts(units: int, size: int, seed: int, start: int) -> Doubles:
    """Return (size, units) how often each unit was drawn; each row sums to ``units``."""
    draw = np.random.default_rng((check_seed(seed), start))
    return draw.multinomial(units, np.full(units, 1 / units), size=size).astype(np.float64)


def bootstrap(
    scores: ArrayLike, groups: ArrayLike | None = None, samples: int = SAMPLES, seed: int = 0, level: float = LEVEL
) -> Estimate:
    """Estimate the mean of the scores, with its percentile interval.

    Args:
        scores: A score for each query.
        groups: Group of each query; a group is resampled as a whole. None: each query is its own group.
        samples: Number of resamples.
        seed: Seed of the draws.
        level: Share of the resampled means inside the interval.
    """
    return stratified([scores], [groups], samples, seed, level)


def stratified(
    sets: Sequence[ArrayLike],
    groups: Sequence[ArrayLike | None] | None = None,
    samples: int = SAMPLES,
    seed: int = 0,
    level: float = LEVEL,
) -> Estimate:
    """Estimate the mean of the means of several sets, with its percentile interval; each set is resampled separately.

    ``groups`` are those of `bootstrap`, for each set. Raises InputError for a level outside 0 to 1 or fewer than 1
    sample.
    """
    if not 0 < level < 1:
        raise InputError(f"level {level}; expected a number between 0 and 1")
    seed, owners = check_seed(seed), [None] * len(sets) if groups is None else groups
    means = [resampled_means(s, g, samples, seed + i) for i, (s, g) in enumerate(zip(sets, owners, strict=True))]
    low, high = np.quantile(np.mean(means, axis=0), [(1 - level) / 2, (1 + level) / 2])
    return Estimate(float(np.mean([np.mean(np.asarray(s)) for s in sets])), float(low), float(high))


def joint_means(
    sets: Sequence[ArrayLike], groups: Sequence[ArrayLike], samples: int = SAMPLES, seed: int = 0
) -> Doubles:
    """Return (samples,) means of the means of several sets that share groups of queries.

    ``groups`` names the group of each query, for each set. A drawn group counts in every set that contains it.
    """
    names = [np.asarray(group) for group in groups]
    units, owners = np.unique(np.concatenate(names), return_inverse=True)
    edges = np.cumsum([len(group) for group in names])[:-1]
    columns = [(np.asarray(scores), owner) for scores, owner in zip(sets, np.split(owners, edges), strict=True)]
    values = np.stack([np.bincount(owner, scores, len(units)) for scores, owner in columns], 1)  # (units, sets)
    weights = np.stack([np.bincount(owner, minlength=len(units)) for _, owner in columns], 1).astype(np.float64)
    with np.errstate(invalid="ignore"):  # 0/0 is NaN for a set without a drawn group; nanmean ignores such a set
        draws = _draws(len(units), samples, seed)
        return np.concatenate([np.nanmean((times @ values) / (times @ weights), axis=1) for times in draws])


def over_runs(sets: Sequence[ArrayLike], groups: Sequence[ArrayLike], seed: int = 0) -> Estimate:
    """Estimate the mean of the means of several sets of scores (runs, queries), for other queries and other runs.

    The queries are drawn as in `joint_means`. The interval combines two errors as the root of the sum of their squares:
    the bootstrap interval over queries, and Student's t interval over the means of the runs. A single run contributes
    no error of runs. Raises InputError if the sets differ in their numbers of runs.
    """
    scores = [np.atleast_2d(np.asarray(run_scores, np.float64)) for run_scores in sets]
    counts = {len(run_scores) for run_scores in scores}
    if len(counts) != 1:
        raise InputError(f"sets of {', '.join(map(str, sorted(counts)))} runs; the numbers must be equal")
    draws = joint_means([run_scores.mean(0) for run_scores in scores], groups, seed=seed)
    ends = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    value = float(np.mean([run_scores.mean() for run_scores in scores]))
    (runs,) = counts
    half = 0.0
    if runs > 1:
        means = np.mean([run_scores.mean(1) for run_scores in scores], axis=0)  # (runs,)
        half = student_quantile((1 + LEVEL) / 2, runs - 1) * float(means.std(ddof=1)) / math.sqrt(runs)
    low, high = (math.hypot(float(end) - value, half) for end in ends)
    return Estimate(value, value - low, value + high)


def bootstrap_test(
    first: ArrayLike, second: ArrayLike, groups: ArrayLike | None = None, samples: int = SAMPLES, seed: int = 0
) -> float:
    """Return p of the paired bootstrap test between two systems.

    It is the share of resamples whose difference deviates from the measured mean difference by at least the latter's
    absolute value.
    """
    return stratified_test([(first, second)], [groups], samples, seed)


def stratified_test(
    sets: Sequence[tuple[ArrayLike, ArrayLike]],
    groups: Sequence[ArrayLike | None] | None = None,
    samples: int = SAMPLES,
    seed: int = 0,
) -> float:
    """Return p of `bootstrap_test` for the mean of the means of several sets; each set is resampled separately.

    A set has the scores of the first system and of the second.
    """
    seed, owners = check_seed(seed), [None] * len(sets) if groups is None else groups
    differences = [_differences(*group) for group in sets]
    draws = [resampled_means(d, g, samples, seed + i) for i, (d, g) in enumerate(zip(differences, owners, strict=True))]
    mean = np.mean([difference.mean() for difference in differences])
    extremes = np.abs(np.mean(draws, axis=0) - mean) >= abs(mean) - ROUNDING
    return float((1 + extremes.sum()) / (1 + samples))


def randomisation_test(first: ArrayLike, second: ArrayLike, samples: int = SAMPLES, seed: int = 0) -> float:
    """Return p of the paired randomisation test: how often random signs give a sum of differences at least as large.

    Exact if at most 16 queries differ, otherwise from ``samples`` random draws.

    Args:
        first: Scores of the first system, one for each query.
        second: Scores of the second system.
        samples: Random draws.
        seed: Seed of the draws.
    """
    differences = _differences(first, second)
    differences = differences[differences != 0]
    threshold = abs(differences.sum()) - ROUNDING
    if len(differences) <= EXACT:
        sums = np.zeros(1)
        for difference in differences:
            sums = np.concatenate([sums + difference, sums - difference])
        return float((np.abs(sums) >= threshold).mean())
    draw, extreme_count = np.random.default_rng(check_seed(seed)), 0
    at_once = max(1, CELLS // len(differences))
    for start in range(0, to_whole("samples", samples), at_once):
        signs = draw.integers(0, 2, size=(min(at_once, samples - start), len(differences)), dtype=np.int8)
        extreme_count += int((np.abs((2.0 * signs - 1) @ differences) >= threshold).sum())
    return (1 + extreme_count) / (1 + samples)


def t_test(first: ArrayLike, second: ArrayLike) -> tuple[float, float]:
    """Return (t, p) of Student's paired t-test.

    The result is (0, 1) if no query differs; t is infinite if all queries differ by the same amount. Raises InputError
    for fewer than two pairs of scores.
    """
    differences = _differences(first, second)
    count = len(differences)
    if count < 2:
        raise InputError(f"{count} pairs of scores; a t-test needs 2 or more")
    mean, deviation = float(differences.mean()), float(differences.std(ddof=1))
    if deviation == 0:
        return (0.0, 1.0) if mean == 0 else (math.copysign(math.inf, mean), 0.0)
    t = mean / (deviation / math.sqrt(count))
    return t, student_tails(t, count - 1)


def student_tails(t: float, freedom: float) -> float:
    """Return the probability of a value beyond -|t| or |t| under Student's t distribution.

    ``freedom`` is the number of degrees of freedom. Raises MissingExtra if scipy is not installed.
    """
    return 2 * float(_special().stdtr(freedom, -abs(t)))


def student_quantile(share: float, freedom: float) -> float:
    """Return the quantile of Student's t distribution below which ``share`` of it lies.

    ``freedom`` is the number of degrees of freedom. Raises MissingExtra if scipy is not installed.
    """
    return float(_special().stdtrit(freedom, share))


def _special() -> Any:
    return import_extra("scipy.special", "scipy", "evaluate")


def _differences(first: ArrayLike, second: ArrayLike) -> Doubles:
    """Return (n,) the first scores minus the second. Raises InputError unless both are finite and of one length."""
    left, right = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if left.shape != right.shape or left.ndim != 1 or not len(left):
        raise InputError(
            f"scores of shapes {left.shape} and {right.shape}; expected one score per query from each system"
        )
    differences = left - right
    if not np.isfinite(differences).all():
        raise InputError(f"scores of {(~np.isfinite(differences)).sum()} queries are not finite; check the systems")
    return differences


def _units(scores: ArrayLike, groups: ArrayLike | None) -> tuple[Doubles, Doubles]:
    """Return the sums of scores and the numbers of scores, (units,) each.

    A unit is a group or, without groups, a single score.
    """
    values = np.asarray(scores, np.float64)
    if values.ndim != 1 or not len(values) or not np.isfinite(values).all():
        raise InputError(f"scores of shape {values.shape}; expected a row of one or more finite numbers")
    if groups is None:
        return values, np.ones(len(values))
    number = np.unique(np.asarray(groups), return_inverse=True)[1]
    if len(number) != len(values):
        raise InputError(f"{len(number)} groups for {len(values)} scores; the numbers must be equal")
    sums = np.bincount(number, weights=values).astype(np.float64)
    return sums, np.bincount(number).astype(np.float64)
