"""Looking at hits again: which are, in what order they come, what it costs, and when it is not done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import exp, log, sqrt
from typing import Any

import numpy as np
import pytest
from search_fakes import FakeIndex, hit

from phrasemate.encode.scoring import VOTES, Confidence, Views
from phrasemate.results import SearchRequest
from phrasemate.search import Searcher
from phrasemate.types import Hit, Phrase
from phrasemate.vote_search import FETCH, VoteSearch

QUERY = "Er sitzt auf der [[Bank]]."
VIEWS = Views(query=0.5, hit=1.0, sharpness=0.1, first=4)


class TwoWays:
    """In a sentence all phrases are (1, 0); alone they are what was said, or (0, 1)."""

    dim = 2
    pooling = "head"
    confidence: Any = None

    def __init__(self, **alone: tuple[float, float]) -> None:
        self.alone = alone

    def encode(self, phrases: Sequence[Phrase]) -> np.ndarray:
        whole = [phrase.end - phrase.start == len(phrase.context) for phrase in phrases]
        return np.array(
            [self.alone.get(p.text, (0, 1)) if w else (1, 0) for p, w in zip(phrases, whole, strict=True)], np.float32
        )


class Stored(FakeIndex):
    """Every phrase is stored as (1, 0); the queries are not told apart by their vectors."""

    def nearest(self, vectors: np.ndarray, *rest: Any) -> Any:
        self.requests = vectors
        return super().nearest(np.zeros((len(vectors), 2)), *rest)

    def vectors(self, ids: np.ndarray) -> np.ndarray:
        assert self.inside  # or a phrase may be deleted before its vector is read
        return np.tile(np.array([[1, 0]], np.float32), (len(ids), 1))


def answers_of(hits: list[Hit], model: Any, views: Views | bool = VIEWS, **options: Any) -> tuple[Any, Any]:
    index: Any = Stored(hits, model=model)
    return Searcher(index, model, views).search(QUERY, **options), index


def test_query_and_hits_are_mixed_with_the_phrase_alone() -> None:
    model = TwoWays(Bank=(0.0, 1.0), bank=(0.0, 1.0), bench=(-1.0, 0.0), seat=(1.0, 0.0))
    answers, index = answers_of([hit("bench", 0.9, " a"), hit("seat", 0.8, " a"), hit("bank", 0.7, " a")], model)
    assert index.requests == pytest.approx(np.array([[1, 0.5]]) / sqrt(1.25))  # (1, 0) + .5 (0, 1)
    assert [group.text for group in answers.groups] == ["bank", "seat", "bench"]
    # bank: (1, 1) / sqrt(2); seat: (1, 0); bench: (1, 0) - (1, 0), which has no direction
    expected = [(1 + 0.5) / sqrt(1.25 * 2), 1 / sqrt(1.25), 0]
    assert [group.score for group in answers.groups] == pytest.approx(expected)


def test_groups_come_by_the_votes_of_their_hits() -> None:
    model = TwoWays(Bank=(1.0, 0.0), one=(1.0, 0.0), many=(1.0, 0.2))
    answers, _ = answers_of([hit("one", 0.9, " a"), *(hit("many", 0.8, f" {n}") for n in range(3))], model, contexts=2)
    many, one = answers.groups
    cosine = 2 / sqrt(4 + 0.04)
    assert (many.text, many.count, len(many.hits)) == ("many", 3, 2)
    assert (many.score, one.score) == (pytest.approx(cosine), pytest.approx(1))
    assert many.support == many.weight == pytest.approx(cosine + 0.1 * log(3), abs=1e-6)
    assert many.as_dict()["support"] == round(many.support, 4)


def test_hits_vote_where_nothing_is_looked_at_again() -> None:
    model = TwoWays()
    hits = [hit("one", 0.8, " a"), *(hit("many", 0.79, f" {n}") for n in range(3)), hit("other", 0.5, " b")]
    second: list[int] = []
    encode = model.encode
    model.encode = lambda phrases: second.append(len(phrases)) or encode(phrases)  # type: ignore[assignment, func-returns-value]
    answers, index = answers_of(hits, model, views=False, k=2)
    assert second == [1]  # the query's phrase, once, in its sentence
    assert index.searches == [([0], FETCH)]
    many, one = answers.groups
    assert (many.text, many.score, many.count) == ("many", pytest.approx(0.79), 3)
    assert many.support == pytest.approx(0.79 + 0.05 * log(3))
    assert (one.text, one.support) == ("one", pytest.approx(0.8))


def test_further_hits_do_not_change_the_votes() -> None:
    """Or the first answer would depend on how many are asked for."""
    hits = [hit("one", 0.8, " a"), *(hit("many", 0.79, f" {n}") for n in range(99))]
    hits += [hit("one", 0.78, f" {n}") for n in range(200)] + [hit("other", 0.5, " b")]
    for k in (1, 3):
        answers, index = answers_of(hits, TwoWays(), views=False, k=k)
        assert [(group.text, group.count) for group in answers.groups[:2]] == [("many", 99), ("one", 1)][:k]
    assert [group.text for group in answers.groups] == ["many", "one", "other"]
    assert [fetched for _, fetched in index.searches] == [100, 400]


def test_so_many_hits_are_looked_at_and_more_while_wordings_lack() -> None:
    hits = [hit(f"w{n // 4}", 1 - n / 100, f" {n}") for n in range(40)]
    assert answers_of(hits, TwoWays(), k=1)[1].searches == [([0], 4)]
    assert answers_of(hits, TwoWays(), k=2)[1].searches == [([0], 4), ([0], 16)]
    assert answers_of(hits, TwoWays(), k=3)[1].searches == [([0], 6), ([0], 24)]


def test_of_further_hits_only_new_wordings_are_looked_at() -> None:
    hits = [hit(f"w{n // 4}", 1 - n / 100, f" {n}") for n in range(40)]
    model = TwoWays()
    second: list[list[str]] = []
    encode = model.encode
    model.encode = lambda phrases: second.append([phrase.text for phrase in phrases]) or encode(phrases)  # type: ignore[assignment, func-returns-value]
    answers, _ = answers_of(hits, model, k=3)  # six hits hold w0 and w1, 24 hold six wordings
    assert second == [["Bank", "Bank"], ["w0", "w1"], ["w2"]]
    assert [(group.text, group.count) for group in answers.groups] == [("w0", 4), ("w2", 4), ("w1", 2)]


def test_each_query_keeps_its_own_hits() -> None:
    lists = [[hit("a", 0.9, " 1"), hit("b", 0.8, " 1")], [hit("c", 0.7, " 1")], []]
    model = TwoWays()
    index: Any = FakeIndex(*lists, model=model)
    index.vectors = lambda ids: np.tile(np.array([[1, 0]], np.float32), (len(ids), 1))
    numbers = np.array([[0, 0], [1, 0], [2, 0]], np.float32)  # FakeIndex takes the first value as the number of a query
    answers = VoteSearch(index, model, Views(query=0, hit=1)).answers(numbers, numbers, SearchRequest(5))
    assert [[group.text for group in groups] for groups, _ in answers] == [["a", "b"], ["c"], []]


def test_hits_of_a_wording_come_by_their_cosine_in_their_sentences() -> None:
    """Alone, they are all the same; and mixing pulls what is far from the phrase alone nearer to it."""
    model = TwoWays(bank=(0.0, 1.0))
    hits = [hit("bank", 0.9, " of a river"), hit("bank", 0.8, " with money")]
    index: Any = Stored(hits, model=model)
    river, money = (0.0, 1.0), (0.8, 0.6)
    index.vectors = lambda ids: np.array([river, money], np.float32)
    (group,) = Searcher(index, model, Views(query=2, hit=1)).search(QUERY).groups  # q (1, 0), q' (1, 2) / sqrt(5)
    assert [answers.context for answers in group.hits] == ["bank with money", "bank of a river"]
    assert [answers.score for answers in group.hits] == pytest.approx([0.8, 0.0])
    by_money, by_river = (0.8 + 2 * 1.6) / sqrt(5 * (0.64 + 2.56)), 2 * 2 / sqrt(5 * 4)
    assert group.score == pytest.approx(max(by_money, by_river))
    assert by_money == pytest.approx(1)


def test_of_equal_hits_the_lower_id_comes_first() -> None:
    """The first look may find them in either order: it rounds otherwise for one query than for several at once."""
    one, other = replace(hit("bank", 0.9, " of a river"), phrase_id=7), replace(hit("bank", 0.9, " or so"), phrase_id=3)
    for hits in ([one, other], [other, one]):
        (group,) = Searcher(Stored(hits), TwoWays(), VIEWS).search(QUERY).groups  # type: ignore[arg-type]
        assert [answers.phrase_id for answers in group.hits] == [3, 7]


@pytest.mark.parametrize("views", [True, False])
@pytest.mark.parametrize("pooling", ["head", "ends", None])
def test_it_is_done_for_models_with_a_trained_head(pooling: str | None, views: bool) -> None:
    model: Any = TwoWays()
    model.pooling = pooling
    answers, index = answers_of([hit("bank", 0.9, " a")], model, views)
    again = pooling == "head" and views
    assert Searcher(index, model, views).views == (None if pooling != "head" else Views() if views else VOTES)
    assert index.searches == [([0], Views().first if again else FETCH)]
    assert (answers.groups[0].support is not None) == (pooling == "head")
    assert answers.groups[0].weight == pytest.approx(1.0 if again else 0.9, abs=0.2)


def test_confidence_is_the_one_that_was_fitted_for_it() -> None:
    plain, second = Confidence(0.0, (1.0, 0.0, 0.0)), Confidence(-1.0, (2.0, 0.0, 0.0))
    model: Any = TwoWays(Bank=(1.0, 0.0), bank=(1.0, 0.0))
    hits = [hit("bank", 0.9, " a")]
    for fitted, views, expected in (
        (Confidence(0.0, plain.weights, second), True, 1 / (1 + exp(1 - 2 * 1.0))),
        (Confidence(0.0, plain.weights, second), False, 1 / (1 + exp(-0.9))),
        (plain, True, None),  # not calibrated with views
        (Confidence(0.0, plain.weights, second), VIEWS, None),  # nor with these
    ):
        model.confidence = fitted
        assert answers_of(hits, model, views)[0].confidence == (None if expected is None else pytest.approx(expected))
