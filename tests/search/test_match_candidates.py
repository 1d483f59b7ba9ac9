"""Which pairs of terms may match: margins, mutual best and one to one, against the whole matrix and by hand."""

from __future__ import annotations

import sys
from itertools import permutations

import numpy as np
import pytest

from phrasemate.encode.scoring import FEATURES, CandidateScorer
from phrasemate.errors import InputError, MissingExtra
from phrasemate.lexicon import Dictionary
from phrasemate.match import (
    WEIGHTS,
    Candidates,
    MatchSettings,
    Occurrences,
    assign,
    candidates,
    likely_pairs,
    measure_pairs,
    select,
    weigh_pairs,
)

HALF = np.sqrt(0.75)


def vectors(*degrees: float) -> np.ndarray:
    """Points on the unit circle."""
    angles = np.radians(np.array(degrees))
    return np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float32)


def drawn(n: int, m: int, seed: int = 0, dim: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Sources, and targets of which some are near to a source."""
    draw = np.random.default_rng(seed)
    source = draw.standard_normal((n, dim))
    target = np.concatenate([source + draw.standard_normal((n, dim)) / 2, draw.standard_normal((n + m, dim))])[:m]
    return tuple((x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32) for x in (source, target))


def test_margins_by_hand() -> None:
    result = candidates(vectors(0, 90), vectors(0, 60), k=2)
    # cosines: 1, 1/2; 0, sqrt(3)/2. Means over both of the other list: .75, .433; .5, .683
    cosines = np.array([[1, 0.5], [0, HALF]])
    row_means, other = cosines.mean(1), cosines.mean(0)
    expected = 2 * cosines - row_means[:, None] - other[None]
    assert result.sources.tolist() == [0, 0, 1, 1]
    assert result.targets.tolist() == [0, 1, 1, 0]  # by margin, highest first
    assert result.scores == pytest.approx([1, 0.5, HALF, 0], abs=1e-6)
    assert result.margins == pytest.approx(expected[result.sources, result.targets], abs=1e-6)
    assert result.ranks.tolist() == [1, 2, 1, 2]
    assert result.mutual.tolist() == [True, False, True, False]
    ratios = candidates(vectors(0, 90), vectors(0, 60), k=2, how="ratio")
    assert ratios.margins[0] == pytest.approx(1 / ((0.75 + 0.5) / 2), abs=1e-6)


@pytest.mark.parametrize("how", ["csls", "ratio"])
@pytest.mark.parametrize("shape", [(40, 60), (60, 40), (5, 3), (1, 1)])
def test_as_by_the_whole_matrix(how: str, shape: tuple[int, int]) -> None:
    source, target = drawn(*shape)
    cosines = source @ target.T
    row_means = np.sort(cosines, 1)[:, -10:].mean(1)[:, None]
    other = np.sort(cosines, 0)[-10:].mean(0)[None]
    margins = 2 * cosines - row_means - other if how == "csls" else cosines / np.maximum((row_means + other) / 2, 1e-6)
    result = candidates(source, target, 10, how, depth=100)  # deep enough for every pair
    assert len(result.sources) == cosines.size
    best = result.only(result.ranks == 1)
    assert best.targets.tolist() == margins.argmax(1).tolist()
    assert best.margins == pytest.approx(margins.max(1), abs=1e-5)
    mutual = [(i, j) for i, j in enumerate(margins.argmax(1)) if margins[:, j].argmax() == i]
    assert list(zip(*(column[result.mutual].tolist() for column in result[:2]), strict=True)) == mutual


def test_what_is_far_from_both_is_not_candidate_and_the_best_stay() -> None:
    source, target = drawn(300, 300)
    few, all_ = candidates(source, target), candidates(source, target, depth=300)
    assert len(few.sources) < 300 * 40 < len(all_.sources) == 300 * 300
    assert few.only(few.ranks == 1).targets.tolist() == all_.only(all_.ranks == 1).targets.tolist()


def pairs(*rows: tuple[int, int, float]) -> Candidates:
    sources, targets, margins = zip(*rows, strict=True)
    ranks = [1 + sum(a == s and n > m for a, _, n in rows) for s, _, m in rows]
    result = np.array(sources), np.array(targets), np.array(margins, np.float32), np.array(margins, np.float32)
    return Candidates(*result, np.array(ranks), np.zeros(len(rows), np.bool_))


def index_pairs(candidates: Candidates) -> list[tuple[int, int]]:
    return list(zip(candidates.sources.tolist(), candidates.targets.tolist(), strict=True))


def test_one_to_one_gives_up_a_best_pair_for_a_greater_sum() -> None:
    result = pairs((0, 0, 0.9), (0, 1, 0.8), (1, 0, 0.8), (1, 1, 0.1))
    assert index_pairs(result.only(assign(result))) == [(0, 1), (1, 0)]  # .8 + .8 > .9 + .1
    lone = pairs((0, 0, 0.9), (1, 0, 0.8), (2, 0, 0.7))
    assert index_pairs(lone.only(assign(lone))) == [(0, 0)]
    assert assign(pairs((4, 7, 0.5))).tolist() == [True]
    assert assign(result.only(np.zeros(4, np.bool_))).tolist() == []


@pytest.mark.parametrize("seed", range(8))
def test_one_to_one_as_by_trying_every_assignment(seed: int) -> None:
    draw = np.random.default_rng(seed)
    rows = [(i, j, float(draw.random())) for i in range(5) for j in range(6) if draw.random() < 0.5]
    worth = {(i, j): margin for i, j, margin in pairs_of(rows)}
    best = max(
        sum(worth.get((i, j), 0) for i, j in enumerate(order)) for order in permutations([*range(6), *[-1] * 5], 5)
    )
    result = pairs(*rows)
    chosen = index_pairs(result.only(assign(result)))
    assert len({i for i, _ in chosen}) == len({j for _, j in chosen}) == len(chosen)
    assert sum(worth[pair] for pair in chosen) == pytest.approx(best, abs=1e-4)


def pairs_of(rows: list[tuple[int, int, float]]) -> list[tuple[int, int, float]]:
    """With margins counted from the least one."""
    least = min(margin for *_, margin in rows)
    return [(i, j, margin - least) for i, j, margin in rows]


def test_what_is_selected() -> None:
    result = candidates(*drawn(40, 60))
    assert (select(result, MatchSettings(threshold=0.3)).margins >= 0.3).all()
    assert (select(result, MatchSettings(threshold=-9, least_score=0.9)).scores >= 0.9).all()
    assert select(result, MatchSettings(threshold=-9, mutual=True)).mutual.all()
    three = select(result, MatchSettings(threshold=-9, candidates=3))
    assert np.bincount(three.sources).tolist() == [3] * 40
    alone = select(result, MatchSettings(threshold=-9, one_to_one=True))
    assert len(set(alone.targets.tolist())) == len(alone.targets) == 40
    assert MatchSettings(margin="ratio").least_margin == 1.15


def test_settings_without_sense() -> None:
    for wrong in (
        {"margin": "distance"}, {"candidates": 0}, {"neighbours": 0}, {"examples": -1}, {"bare": float("nan")},
        {"candidates": 2, "one_to_one": True},
    ):  # fmt: skip
        with pytest.raises(InputError):
            MatchSettings(**wrong)


def test_one_to_one_without_scipy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.sparse.csgraph", None)
    with pytest.raises(MissingExtra, match=r"phrasemate\[match\]"):
        assign(pairs((0, 0, 0.9)))


@pytest.mark.parametrize("setting", ["threshold", "least_score"])
def test_a_limit_that_is_not_number_is_refused(setting: str) -> None:
    with pytest.raises(InputError, match="expected a number"):  # nothing would be a match, without a word
        MatchSettings(**{setting: float("nan")})  # type: ignore[arg-type]


def test_a_scorer_finds_what_the_lexicon_lists() -> None:
    """Vectors are all alike: only the lexicon and a dictionary tell the terms apart."""
    mine = Dictionary("mine", [[("en", "pencils"), ("de", "Xyzzy")]])
    weights = tuple(4.0 if name == "listed" else 0.0 for name in FEATURES)
    one = np.array([[1, 0]], np.float32)
    german, english = ["Haus", "Hund", "Xyzzy"], ["dog", "houses", "pencil"]
    sides = [
        Occurrences(terms, np.array([2, 1, 1]), np.repeat(one, 4, axis=0), np.repeat(one, 3, axis=0))
        for terms in (german, english)
    ]
    for languages, order in ((("de", "en"), sides), (("en", "de"), sides[::-1])):
        pairs = likely_pairs(*order, CandidateScorer(-2.0, weights), languages, [mine])
        best = pairs.only(pairs.mutual & (pairs.margins > 0.5))
        words = [(order[0].terms[a], order[1].terms[b]) for a, b in zip(best.sources, best.targets, strict=True)]
        expected = {("Haus", "houses"), ("Hund", "dog"), ("Xyzzy", "pencil")}
        assert {pair if languages[0] == "de" else pair[::-1] for pair in words} == expected
        assert best.margins == pytest.approx(1 / (1 + np.exp(-2.0)))  # 4 - 2
        assert best.scores == pytest.approx(1.0)


@pytest.mark.parametrize(("language", "no_lexicon"), [("de", 0.5), ("nb", 1.0)])
def test_not_being_listed_tells_less_of_a_term_than_of_a_phrase(language: str, no_lexicon: float) -> None:
    one = np.array([[1, 0]], np.float32)
    sides = [Occurrences([term], np.array([1]), one, one) for term in ("Xyzzy", "pencil")]
    scorer = CandidateScorer(0.0, tuple(4.0 * (name == "no lexicon") for name in FEATURES))
    pairs = likely_pairs(sides[0], sides[1], scorer, (language, "en"), [])
    assert pairs.margins == pytest.approx(1 / (1 + np.exp(-4.0 * no_lexicon)))


def of_probabilities(*rows: tuple[int, int, float]) -> Candidates:
    """Pairs of source, target and the scorer's probability."""
    sources, targets, margins = (np.array(column) for column in zip(*rows, strict=True))
    one = np.ones(len(rows))
    return Candidates(
        sources, targets, one.astype(np.float32), margins.astype(np.float32), one.astype(np.int64), one > 0
    )


def test_probability_heeds_the_other_pairs_of_the_terms() -> None:
    source, target = vectors(0, 90), vectors(0, 60)
    pairs = of_probabilities((0, 0, 0.8), (0, 1, 0.5), (1, 1, 0.01))
    cosines, csls, lead = measure_pairs(pairs, source, target, k=2)
    assert cosines == pytest.approx([1, 0.5, HALF], abs=1e-6)
    assert csls == pytest.approx([2 - 0.75 - 0.5, 1 - 0.75 - (0.5 + HALF) / 2, 1.5 * HALF - (0.5 + HALF) / 2], abs=1e-6)
    odds, least = np.log([0.8 / 0.2, 1, 0.01 / 0.99]), np.log(0.05 / 0.95)
    # the best other pair of 0: (0, 1); of the targets 0 and 1: none, (0, 1); less likely ones than 0.05 count as that
    ahead = [2 * odds[0] - odds[1] - least, 2 * odds[1] - odds[0] - least, 2 * odds[2] - least - odds[1]]
    assert lead == pytest.approx(ahead, rel=1e-5)
    constant, of_csls, of_lead = WEIGHTS
    expected = 1 / (1 + np.exp(-(constant + of_csls * csls + of_lead * lead)))
    result = weigh_pairs(pairs, source, target, k=2)
    assert result.scores == pytest.approx(cosines)
    assert result.margins == pytest.approx(expected, rel=1e-5)
    assert result.margins[0] > 0.9
    assert (result.margins[1:] < 0.2).all()
    assert result.mutual.tolist() == [True, False, True]  # its rival is likelier elsewhere


def test_a_likely_pair_beside_one_as_likely_is_not_sure() -> None:
    one = vectors(0, 0)
    alone, rivals = (
        weigh_pairs(of_probabilities(*rows), one, one, 1) for rows in ([(0, 0, 0.6)], [(0, 0, 0.6), (0, 1, 0.6)])
    )
    assert rivals.margins == pytest.approx([rivals.margins[0]] * 2)
    assert alone.margins[0] > rivals.margins[0] + 0.2
