"""Measures of a ranking in which each query has exactly one right answer, and how sure a figure is.

A rank is 0-based: how many wrong answers score higher than the right one. Ties count half, so that a model that gives
the same score to everything does not look good. Where ties are many, `Ranking` keeps them apart and every measure is
its expected value over a random order of what is tied.

Bootstrap intervals and paired tests of two systems over the same queries: Efron and Tibshirani 1993, "An Introduction
to the Bootstrap", chapters 13 (percentile interval) and 16 (test). Randomisation: Yeh 2000, "More accurate tests for
the statistical significance of result differences". All are two-sided; the same seed gives the same figures.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phrasemate.errors import InputError
from phrasemate.utils import import_extra
from phrasemate.utils.arrays import Doubles

Floats = NDArray[np.floating]

SMALL = 32  # harmonic numbers up to here are summed, further ones taken from the series (error below 1e-12)
_HARMONIC = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, SMALL + 1))])


class Ranking(NamedTuple):
    """Ranks of queries, (n,) each: wrong answers that score ``higher`` than the right one, those ``tied`` with it.

    ``higher`` is infinite where the right answer is not among the candidates at all.
    """

    higher: Doubles
    tied: Doubles

    def hits(self, k: int = 1) -> Doubles:
        """(n,) the chance that the right answer is among the first k: (k - higher) / (tied + 1), within 0 and 1."""
        hits: Doubles = np.clip((k - self.higher) / (self.tied + 1), 0, 1)
        return hits

    def reciprocal(self) -> Doubles:
        """(n,) the expected 1 / (rank + 1): the mean of 1 / (higher + 1) to 1 / (higher + tied + 1)."""
        finite = np.isfinite(self.higher)
        higher = np.where(finite, self.higher, 0)
        mean = (harmonic(higher + self.tied + 1) - harmonic(higher)) / (self.tied + 1)
        ranks: Doubles = np.where(self.tied == 0, 1 / (higher + 1), mean)  # exactly what any other way to count gives
        return np.where(finite, ranks, 0.0)


def harmonic(numbers: Doubles) -> Doubles:
    """(n,) whole numbers -> (n,) 1 + 1/2 + ... + 1/number, 0 for 0."""
    small = _HARMONIC[np.minimum(numbers, SMALL).astype(np.int64)]
    large = np.maximum(numbers, 1.0)
    series = np.log(large) + np.euler_gamma + 1 / (2 * large) - 1 / (12 * large**2) + 1 / (120 * large**4)
    return np.where(numbers <= SMALL, small, series)


def check_numbers(scores: Floats) -> None:
    """Raises InputError for NaN: no wrong answer scores higher than that, so it would be the best of all."""
    wrong = int(np.isnan(scores).sum())
    if wrong:
        raise InputError(f"{wrong:,} of {scores.size:,} scores are not numbers; look at the model that gave them")


def ranks_of(scores: Floats, gold: NDArray[np.int64]) -> Doubles:
    """(queries,) rank of column ``gold[i]`` in row i of ``scores`` (queries, candidates).

    Raises InputError for NaN among the scores.
    """
    check_numbers(scores)
    gold_scores = scores[np.arange(len(gold)), gold][:, None]
    higher = (scores > gold_scores).sum(1)
    ties = (scores == gold_scores).sum(1) - 1
    return higher + ties / 2  # type: ignore[no-any-return]


def accuracy(ranks: Doubles, k: int = 1) -> float:
    """acc@k: the share of queries whose right answer is among the first k."""
    return float((ranks < k).mean())


def mean_reciprocal_rank(ranks: Doubles) -> float:
    """MRR, the mean of 1 / (rank + 1); with one right answer a query it equals MAP."""
    return float((1 / (ranks + 1)).mean())


SAMPLES = 10_000
LEVEL = 0.95
EXACT = 16  # differences up to which all 2^n signs are tried: 65,536
CELLS = 4_000_000  # numbers drawn at once, 32 MB
ROUNDING = 1e-9  # sums of the same numbers in another order may differ by so much


class Estimate(NamedTuple):
    """A figure and the ends of its 95 % interval.

    >>> estimate = bootstrap([1, 1, 1, 0])
    >>> estimate.value, estimate.low < estimate.value < estimate.high
    (0.75, True)
    """

    value: float
    low: float
    high: float


def check_seed(seed: int) -> int:
    """The seed. Raises InputError for one below 0, which NumPy does not take."""
    if seed < 0:
        raise InputError(f"seed {seed}; expected 0 or more")
    return seed


def resampled_means(
    scores: ArrayLike, groups: ArrayLike | None = None, samples: int = SAMPLES, seed: int = 0
) -> Doubles:
    """(samples,) means of the scores, (n,), each time of n that are drawn with replacement.

    ``groups`` (n,): whatever belongs together (queries of one phrase) is drawn together. Raises InputError for no
    scores, scores that are not numbers, or another number of groups.
    """
    values, weights = _units(scores, groups)
    return np.concatenate([(times @ values) / (times @ weights) for times in _draws(len(values), samples, seed)])


def _draws(units: int, samples: int, seed: int) -> Iterator[Doubles]:
    """(some, units) how many times each unit was drawn, until there are as many rows as samples."""
    size = max(1, CELLS // units)
    for start in range(0, samples, size):
        yield _drawn(units, min(size, samples - start), seed, start)


@lru_cache(maxsize=4)  # a table asks for the same draws for each of its rows
def _drawn(units: int, size: int, seed: int, start: int) -> Doubles:
    """(size, units): how many times each unit was drawn; sums of a row are ``units``."""
    draw = np.random.default_rng((check_seed(seed), start))
    return draw.multinomial(units, np.full(units, 1 / units), size=size).astype(np.float64)


def bootstrap(
    scores: ArrayLike, groups: ArrayLike | None = None, samples: int = SAMPLES, seed: int = 0, level: float = LEVEL
) -> Estimate:
    """Estimate the mean of the scores, with its percentile interval.

    Args:
        scores: A score for each query.
        groups: Group of each query; groups are resampled as a whole. None: each query by itself.
        samples: Resamples.
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
    """The mean of the means of several sets, each resampled by itself, with its percentile interval."""
    if not 0 < level < 1 or samples < 1:
        raise InputError(f"level {level}, samples {samples}; expected a level between 0 and 1 and 1 sample or more")
    owners: Sequence[ArrayLike | None] = [None] * len(sets) if groups is None else groups
    means = [resampled_means(s, g, samples, seed + i) for i, (s, g) in enumerate(zip(sets, owners, strict=True))]
    low, high = np.quantile(np.mean(means, axis=0), [(1 - level) / 2, (1 + level) / 2])
    return Estimate(float(np.mean([np.mean(np.asarray(s)) for s in sets])), float(low), float(high))


def joint_means(
    sets: Sequence[ArrayLike], groups: Sequence[ArrayLike], samples: int = SAMPLES, seed: int = 0
) -> Doubles:
    """(samples,) means of the means of several sets, whose queries are drawn by groups that the sets may share.

    ``groups``: for each set the group of each query. A group that is drawn counts in every set that has it.
    """
    names = [np.asarray(group) for group in groups]
    units, owners = np.unique(np.concatenate(names), return_inverse=True)
    edges = np.cumsum([len(group) for group in names])[:-1]
    columns = [(np.asarray(scores), owner) for scores, owner in zip(sets, np.split(owners, edges), strict=True)]
    values = np.stack([np.bincount(owner, scores, len(units)) for scores, owner in columns], 1)  # (units, sets)
    weights = np.stack([np.bincount(owner, minlength=len(units)) for _, owner in columns], 1).astype(np.float64)
    with np.errstate(invalid="ignore"):  # a set of which nothing was drawn is left out of that mean
        draws = _draws(len(units), samples, seed)
        return np.concatenate([np.nanmean((times @ values) / (times @ weights), axis=1) for times in draws])


def over_runs(sets: Sequence[ArrayLike], groups: Sequence[ArrayLike], seed: int = 0) -> Estimate:
    """The mean of the means of several sets of scores (runs, queries), with an interval for other queries and runs.

    The queries are drawn as in `joint_means`. To their interval comes that of Student's t over the runs' means, as
    errors add up: by their squares. One run tells nothing of others. Raises InputError for unequal numbers of runs.
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
    """P of the paired bootstrap: how often resampled differences stray from their mean as far as it is from zero."""
    return stratified_test([(first, second)], [groups], samples, seed)


def stratified_test(
    sets: Sequence[tuple[ArrayLike, ArrayLike]],
    groups: Sequence[ArrayLike | None] | None = None,
    samples: int = SAMPLES,
    seed: int = 0,
) -> float:
    """Test, as `bootstrap_test`, the mean of the means of several sets, each resampled by itself.

    A set has the scores of the first system and of the second.
    """
    owners: Sequence[ArrayLike | None] = [None] * len(sets) if groups is None else groups
    differences = [_differences(*group) for group in sets]
    draws = [resampled_means(d, g, samples, seed + i) for i, (d, g) in enumerate(zip(differences, owners, strict=True))]
    mean = np.mean([difference.mean() for difference in differences])
    extremes = np.abs(np.mean(draws, axis=0) - mean) >= abs(mean) - ROUNDING
    return float((1 + extremes.sum()) / (1 + samples))


def randomisation_test(first: ArrayLike, second: ArrayLike, samples: int = SAMPLES, seed: int = 0) -> float:
    """The p value of a paired randomisation test: how often random signs give a sum at least as large.

    Exact where at most 16 queries differ, else of ``samples`` random draws.

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
    for start in range(0, samples, at_once):
        signs = draw.integers(0, 2, size=(min(at_once, samples - start), len(differences)), dtype=np.int8)
        extreme_count += int((np.abs((2.0 * signs - 1) @ differences) >= threshold).sum())
    return (1 + extreme_count) / (1 + samples)


def t_test(first: ArrayLike, second: ArrayLike) -> tuple[float, float]:
    """(t, p) of Student's paired t-test; (0, 1) where no query differs, t infinite where all differ alike."""
    differences = _differences(first, second)
    count = len(differences)
    if count < 2:
        raise InputError(f"{count} pair of scores; a t-test needs 2 or more")
    mean, deviation = float(differences.mean()), float(differences.std(ddof=1))
    if deviation == 0:
        return (0.0, 1.0) if mean == 0 else (math.copysign(math.inf, mean), 0.0)
    t = mean / (deviation / math.sqrt(count))
    return t, student_tails(t, count - 1)


def student_tails(t: float, freedom: float) -> float:
    """Probability of a value beyond -|t| or |t| under Student's t. Raises MissingExtra without scipy."""
    return 2 * float(_special().stdtr(freedom, -abs(t)))


def student_quantile(share: float, freedom: float) -> float:
    """The t below which so large a share of Student's distribution lies. Raises MissingExtra without scipy."""
    return float(_special().stdtrit(freedom, share))


def _special() -> Any:
    return import_extra("scipy.special", "scipy", "evaluate")


def _differences(first: ArrayLike, second: ArrayLike) -> Doubles:
    left, right = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if left.shape != right.shape or left.ndim != 1 or not len(left):
        raise InputError(
            f"scores of shapes {left.shape} and {right.shape}; expected one score per query from each system"
        )
    differences = left - right
    if not np.isfinite(differences).all():
        raise InputError(f"scores that are not numbers, of {(~np.isfinite(differences)).sum()} queries")
    return differences


def _units(scores: ArrayLike, groups: ArrayLike | None) -> tuple[Doubles, Doubles]:
    """Units that are drawn: sums of scores and numbers of scores, of each group or of each score."""
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
