"""Margins and CSLS against hubness, and re-ranking: formulas by hand and against plain loops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from phrasemate.errors import InputError
from phrasemate.rank import margin_lists, rerank, run_of, whole
from phrasemate.types import PhrasePair, Run
from phrasemate.utils.margin import csls, lead, margin, margin_of, neighbour_pairs, neighbourhood

COSINES = np.array([[0.9, 0.8, 0.1], [0.2, 0.7, 0.3]], np.float32)


def test_margins_by_hand() -> None:
    row_mean, other = (0.9 + 0.8) / 2, (0.8 + 0.7) / 2  # of query 0 and of document 1, k = 2
    middle = (row_mean + other) / 2
    assert margin(COSINES, 2, "ratio")[0, 1] == pytest.approx(0.8 / middle)
    assert margin(COSINES, 2, "distance")[0, 1] == pytest.approx(0.8 - middle)
    assert margin(COSINES, 2, "quarter")[0, 1] == pytest.approx(0.8 - middle / 4)
    assert margin(COSINES, 2, "absolute")[0, 1] == pytest.approx(0.8)
    assert csls(COSINES, 2)[0, 1] == pytest.approx(2 * 0.8 - row_mean - other)


def plain_margin(scores: np.ndarray, k: int, how: str) -> np.ndarray:
    values = np.zeros_like(scores)
    for x, row in enumerate(scores):
        for y, cosine in enumerate(row):
            row_mean = np.mean(sorted(row, reverse=True)[:k])
            other = np.mean(sorted(scores[:, y], reverse=True)[:k])
            values[x, y] = {
                "absolute": cosine,
                "csls": 2 * cosine - row_mean - other,
                "distance": cosine - (row_mean + other) / 2,
                "quarter": cosine - (row_mean + other) / 8,
                "ratio": cosine / ((row_mean + other) / 2),
            }[how]
    return values


@pytest.mark.parametrize("how", ["absolute", "csls", "distance", "quarter", "ratio"])
@pytest.mark.parametrize("k", [1, 3, 50])
def test_margins_against_plain_loops(how: str, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phrasemate.utils.margin._SCORES_PER_BLOCK", 20)  # a few rows at a time
    scores = np.random.default_rng(k).uniform(0.1, 1, (8, 13)).astype(np.float32)
    assert margin(scores, k, how) == pytest.approx(plain_margin(scores, k, how), abs=1e-5)


def lists(scores: np.ndarray, depth: int) -> tuple[Run, Run]:
    """The nearest neighbours both ways."""
    return run_of(scores, depth), run_of(scores.T, depth)


@pytest.mark.parametrize("how", ["absolute", "csls", "distance", "quarter", "ratio"])
def test_lists_say_what_the_matrix_says(how: str) -> None:
    scores = np.random.default_rng(1).uniform(0.1, 1, (30, 20)).astype(np.float32)
    run, back = lists(scores, 6)
    result, whole_matrix = margin_lists(run, back, 4, how), margin(scores, 4, how)
    for query, (ids, values) in enumerate(zip(result.ids, result.scores, strict=True)):
        assert set(ids) == set(run.ids[query])
        assert values == pytest.approx(whole_matrix[query, ids], abs=1e-5)
        assert (np.diff(values) <= 0).all()


def test_a_hub_loses_its_mates() -> None:
    """Document 0 is near to everybody; the right answers are on the diagonal."""
    scores = np.array([[0.90, 0.1, 0.2], [0.86, 0.85, 0.2], [0.86, 0.1, 0.85]], np.float32)
    run, back = lists(scores, 3)
    assert run.ids[:, 0].tolist() == [0, 0, 0]
    assert margin_lists(run, back, 2, "ratio").ids[:, 0].tolist() == [0, 1, 2]
    assert run_of(csls(scores, 2)).ids[:, 0].tolist() == [0, 1, 2]


def test_neighbourhoods_of_short_lists() -> None:
    short = run_of(np.array([[0.9, 0.5, 0.1], [0.4, -np.inf, -np.inf], [-np.inf] * 3]))
    assert neighbourhood(short, 2).tolist() == pytest.approx([(0.9 + 0.5) / 2, 0.4, 0.0])
    assert neighbourhood(short, 9).tolist() == pytest.approx([(0.9 + 0.5 + 0.1) / 3, 0.4, 0.0])


def test_what_is_not_candidate_is_not_neighbour() -> None:
    cosines = np.array([[0.9, -np.inf], [0.1, 0.8]], np.float32)
    row_mean, other = [0.9, (0.1 + 0.8) / 2], [(0.9 + 0.1) / 2, 0.8]
    values = csls(cosines, 2)
    assert values[0, 0] == pytest.approx(2 * 0.9 - row_mean[0] - other[0])
    assert values[0, 1] == -np.inf
    assert values[1].tolist() == pytest.approx([2 * 0.1 - row_mean[1] - other[0], 2 * 0.8 - row_mean[1] - other[1]])
    assert csls(np.full((2, 2), -np.inf, np.float32), 2).tolist() == [[-np.inf] * 2] * 2
    with pytest.raises(InputError, match="k: 0; expected 1 or more"):
        neighbourhood(run_of(cosines), 0)


def test_a_ratio_of_nothing_in_common() -> None:
    nothing = np.zeros(1, np.float32)
    assert margin_of(nothing, nothing, nothing).tolist() == [0.0]
    assert margin_of(np.array([0.5], np.float32), nothing, -nothing - 1).tolist() == pytest.approx([0.5 / 1e-6])


def test_what_makes_no_sense() -> None:
    back = lists(COSINES, 2)[1]
    with pytest.raises(InputError, match="margin 'cosine'; expected one of absolute, csls"):
        margin(COSINES, 2, "cosine")
    with pytest.raises(InputError, match="k: 0; expected 1 or more"):
        margin(COSINES, 0)
    with pytest.raises(InputError, match="document 2: the lists the other way have 2 rows"):
        margin_lists(run_of(COSINES), Run(back.ids[:2], back.scores[:2]))


class Lengths:
    """Scores a pair by the length of its target."""

    def __init__(self) -> None:
        self.batches: list[int] = []

    def score(self, pairs: Sequence[PhrasePair]) -> np.ndarray:
        self.batches.append(len(pairs))
        return np.array([len(pair.target.text) for pair in pairs], np.float32)


TEXTS = ["four", "sixsix", "one word", "x", "threes"]


def test_the_first_n_are_put_in_the_scorers_order() -> None:
    run = run_of(np.array([[0.5, 0.4, 0.3, 0.2, 0.1], [0.1, 0.9, -np.inf, -np.inf, -np.inf]]), name="first")
    scorer = Lengths()
    result = rerank(run, scorer, 3, lambda q: whole(f"query {q}"), lambda d: whole(TEXTS[d]), batch=2)
    assert result.ids.tolist() == [[2, 1, 0, 3, 4], [1, 0, -1, -1, -1]]
    assert result.scores[0, :3].tolist() == [8, 6, 4]
    assert 4 > result.scores[0, 3] > result.scores[0, 4]
    assert result.scores[0, 3] - result.scores[0, 4] == pytest.approx(0.2 - 0.1)
    assert result.scores[1].tolist() == [6, 4, -np.inf, -np.inf, -np.inf]
    assert scorer.batches == [2, 2, 1]
    assert result.name == "first"
    assert run.ids[0].tolist() == [0, 1, 2, 3, 4]  # the run itself stays


@pytest.mark.parametrize("n", [1, 5, 99])
def test_reranking_against_a_plain_loop(n: int) -> None:
    scores = np.random.default_rng(n).standard_normal((6, 5)).astype(np.float32)
    result = rerank(run_of(scores), Lengths(), n, lambda q: whole("q"), lambda d: whole(TEXTS[d]))
    for row, ids in zip(scores, result.ids, strict=True):
        ranked = sorted(range(5), key=lambda d: -row[d])
        assert ids.tolist() == sorted(ranked[:n], key=lambda d: -len(TEXTS[d])) + ranked[n:]
    assert (np.diff(result.scores) <= 0).all()


def test_scorers_that_do_not_score() -> None:
    class Bad:
        def __init__(self, values: list[float]) -> None:
            self.found = np.array(values, np.float32)

        def score(self, pairs: Sequence[PhrasePair]) -> np.ndarray:
            return self.found

    for result in ([1.0], [1.0, np.nan]):
        with pytest.raises(InputError, match="from the scorer for 2 pairs"):
            rerank(run_of(COSINES[:1]), Bad(result), 2, lambda q: whole("q"), lambda d: whole("d"))
    with pytest.raises(InputError, match="expected 1 or more of each"):
        rerank(run_of(COSINES), Lengths(), 0, lambda q: whole("q"), lambda d: whole("d"))


def test_pairs_of_neighbours_come_once_from_either_side() -> None:
    run = Run(np.array([[1, 0], [1, -1]]), np.array([[0.9, 0.5], [0.7, -np.inf]], np.float32))
    back = Run(np.array([[0, 1], [0, -1], [1, -1]]), np.array([[0.5, 0.4], [0.9, -np.inf], [0.3, -np.inf]], np.float32))
    queries, documents, cosines = neighbour_pairs(run, back)
    assert list(zip(queries.tolist(), documents.tolist(), strict=True)) == [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]
    np.testing.assert_allclose(cosines, [0.5, 0.9, 0.4, 0.7, 0.3])


@pytest.mark.parametrize("least", [-np.inf, 0.4])
def test_lead_against_a_plain_loop(least: float) -> None:
    draw = np.random.default_rng(3)
    numbers = draw.choice(30 * 20, 90, replace=False)
    rows, columns, scores = numbers // 20, numbers % 20, draw.random(90).astype(np.float32).round(1)  # many are equal
    expected = [
        2 * score
        - max([least, *(scores[other] for other in range(90) if other != at and rows[other] == rows[at])])
        - max([least, *(scores[other] for other in range(90) if other != at and columns[other] == columns[at])])
        for at, score in enumerate(scores)
    ]
    assert lead(rows, columns, scores, least) == pytest.approx(expected, rel=1e-5)


def test_lead_by_hand() -> None:
    rows, columns = np.array([0, 0, 1]), np.array([0, 1, 1])
    # 0.9: the other pair of its row has 0.5, its column has none; 0.5: 0.9 and 0.7; 0.7: none, 0.5
    scores = lead(rows, columns, np.array([0.9, 0.5, 0.7], np.float32), 0.1)
    assert scores == pytest.approx([0.4 + 0.8, -0.4 - 0.2, 0.6 + 0.2])
    assert lead(rows[:0], columns[:0], np.zeros(0, np.float32)).tolist() == []
