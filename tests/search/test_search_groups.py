"""Hits by wording: what is one group, what it counts, what it shows, and how far the search looks for more."""

from __future__ import annotations

from math import exp, log
from typing import Any

import numpy as np
import pytest
from search_fakes import FakeIndex, FakeModel, hit

from phrasemate.encode.scoring import Confidence
from phrasemate.errors import InputError, QueryError
from phrasemate.index.types import Filters
from phrasemate.results import Group, Result
from phrasemate.search import Searcher
from phrasemate.text.sentences import is_of
from phrasemate.types import Hit, Phrase
from phrasemate.vote_search import FETCH, FETCH_MOST

QUERY = "Er sitzt auf der [[Bank]]."


def searcher(*lists: list[Hit]) -> tuple[Searcher, Any]:
    index: Any = FakeIndex(*lists)
    return Searcher(index), index


def groups(hits: list[Hit], **options: Any) -> tuple[Group, ...]:
    return searcher(hits)[0].search(QUERY, **options).groups


def test_wordings_are_case_folded_and_their_white_space_is_one() -> None:
    result = groups(
        [
            hit("Straße", 0.9, " 1"),
            hit("old  bank", 0.8, " 2"),
            hit("STRASSE", 0.7, " 3"),
            hit("Old\n Bank", 0.6, " 4"),
            hit("old-bank", 0.5, " 5"),
            hit("straße", 0.4, " 6"),
        ]
    )
    assert [(group.text, group.score, group.count) for group in result] == [
        ("Straße", 0.9, 3),
        ("old  bank", 0.8, 2),
        ("old-bank", 0.5, 1),
    ]
    assert [hit.score for hit in result[0].hits] == [0.9, 0.7, 0.4]


def test_a_sentence_is_shown_once_with_its_best_hit() -> None:
    """The same sentence in two documents, and a wording twice in one sentence, count but are not shown again."""
    twice = "bank or Bank"
    hits = [
        Hit(Phrase(twice, 8, 12), 0.9, "a", 1),
        Hit(Phrase(twice, 0, 4), 0.8, "a", 1),
        Hit(Phrase(twice, 8, 12), 0.7, "b", 5),
        hit("bank", 0.6, " there"),
    ]
    (group,) = groups(hits)
    assert (group.text, group.count) == ("Bank", 4)
    assert group.hits == (hits[0], hits[3])


def test_equal_scores_stay_in_the_order_of_the_index() -> None:
    hits = [hit("Bank", 0.9, " 1"), hit("bank", 0.9, " 2"), hit("BANK", 0.9, " 3"), hit("bench", 0.9)]
    result = groups(hits, contexts=2)
    assert [group.text for group in result] == ["Bank", "bench"]
    assert result[0].hits == tuple(hits[:2])
    assert result[0].hits[0].text == result[0].text


@pytest.mark.parametrize("contexts", [0, 1, 3, 9])
def test_contexts(contexts: int) -> None:
    (group,) = groups([hit("bank", 1 - number / 10, f" {number}") for number in range(4)], contexts=contexts)
    assert group.count == 4
    assert [result.context for result in group.hits] == [f"bank {number}" for number in range(min(contexts, 4))]


@pytest.mark.parametrize("k", [1, 2, 7])
def test_k(k: int) -> None:
    result = groups([hit(f"w{number}", 1 - number / 10) for number in range(5)], k=k)
    assert [group.text for group in result] == [f"w{number}" for number in range(min(k, 5))]


@pytest.mark.parametrize("options", [{"k": 0}, {"k": -1}, {"contexts": -1}])
def test_senseless_numbers(options: dict[str, int]) -> None:
    group_searcher, index = searcher([hit("bank", 1)])
    for ask in (lambda: group_searcher.search(QUERY, **options), lambda: group_searcher.search_all([QUERY], **options)):
        with pytest.raises(InputError, match="expected k of 1 or more and contexts of 0 or more"):
            ask()
    assert index.searches == []


def test_one_query_is_not_a_list_of_queries() -> None:
    group_searcher, index = searcher([hit("bank", 1)])
    with pytest.raises(InputError, match="expected a list of queries; put one alone in brackets"):
        group_searcher.search_all(QUERY)
    with pytest.raises(InputError, match="expected a list of texts to leave out"):
        group_searcher.search_all([QUERY], without="a text")
    assert index.searches == []


def same(count: int, wordings: int = 1) -> list[Hit]:
    """``count`` hits of the first wordings, then one more wording."""
    hits = [hit(f"w{number % wordings}", 1 - number / 10_000, f" {number}") for number in range(count)]
    return [*hits, hit("other", 0.0)]


def test_more_is_fetched_while_wordings_lack() -> None:
    group_searcher, index = searcher(same(FETCH * 4 - 1))
    groups = group_searcher.search(QUERY, k=2).groups
    assert [fetched for _, fetched in index.searches] == [FETCH, FETCH * 4]
    assert [(group.text, group.count) for group in groups] == [("w0", FETCH * 4 - 1), ("other", 1)]


def test_enough_is_enough() -> None:
    group_searcher, index = searcher(same(1_000, wordings=3))
    assert group_searcher.search(QUERY, k=3).groups[0].count == -(-FETCH // 3)  # of the hits that were looked at
    assert [fetched for _, fetched in index.searches] == [FETCH]


def test_it_stops_at_the_end_of_the_index_and_at_the_most() -> None:
    group_searcher, index = searcher(same(50))
    assert len(group_searcher.search(QUERY).groups) == 2
    assert [fetched for _, fetched in index.searches] == [FETCH]  # there were no more to fetch
    group_searcher, index = searcher(same(2 * FETCH_MOST))
    assert [group.text for group in group_searcher.search(QUERY).groups] == ["w0"]
    fetched = [number for _, number in index.searches]
    assert fetched == [FETCH * 4**step for step in range(len(fetched))]
    assert fetched[-1] <= FETCH_MOST < fetched[-1] * 4


def test_a_large_k_fetches_twice_as_many() -> None:
    group_searcher, index = searcher(same(20_000))
    group_searcher.search(QUERY, k=5_000)
    assert [fetched for _, fetched in index.searches] == [10_000]


def test_only_queries_that_lack_are_asked_again() -> None:
    full = [hit(f"w{number}", 1 - number / 1_000) for number in range(200)]
    group_searcher, index = searcher(full, same(300), full, same(300))
    results = group_searcher.search_all([QUERY] * 4, k=2)
    assert index.searches == [([0, 1, 2, 3], FETCH), ([1, 3], FETCH * 4)]
    assert [[group.text for group in result.groups] for result in results] == [["w0", "w1"], ["w0", "other"]] * 2


def test_queries_are_encoded_together_and_answered_in_order() -> None:
    lists = [[hit(f"answer {number}", 0.5)] for number in range(4)]
    group_searcher, index = searcher(*lists)
    queries = ["[[a]] and [[b]]", "[[c]]", "no phrase", "Two words: [[d]]"]
    results = group_searcher.search_all(iter(queries))
    assert [(result.query, result.phrase.text) for result in results] == [
        (queries[0], "a"),
        (queries[0], "b"),
        (queries[1], "c"),
        (queries[3], "d"),
    ]
    assert [result.groups[0].text for result in results] == [f"answer {number}" for number in range(4)]
    assert [[phrase.text for phrase in batch] for batch in index.model.batches] == [["a", "b", "c", "d"]]


def test_without_marks_the_segmenter_proposes() -> None:
    group_searcher, _ = searcher([hit("one", 0.5)], [hit("two", 0.5)])
    results = group_searcher.search_all([r"die Bank \[[ im Park"])
    assert [(result.phrase.text, result.phrase.start) for result in results] == [("Bank", 4), ("Park", 15)]
    assert [result.phrase.context for result in results] == ["die Bank [[ im Park"] * 2
    assert group_searcher.search_all(["", " \n", "nichts"]) == group_searcher.search_all([]) == []


@pytest.mark.parametrize(("query", "count"), [("Bank", 0), ("[[a]] [[b]]", 2), ("", 0)])
def test_search_takes_one_phrase(query: str, count: int) -> None:
    with pytest.raises(QueryError, match=rf"{count} phrases are marked in .*, expected one; .*search_all"):
        searcher([])[0].search(query)


def test_filters_are_passed_on_to_every_search() -> None:
    group_searcher, index = searcher(same(500))
    group_searcher.search(QUERY, documents=["a.txt"], languages=["en", "fr"])
    assert len(index.filters) > 1
    assert all(filters == Filters(["a.txt"], ["en", "fr"]) for filters in index.filters)
    group_searcher.search(QUERY)
    assert index.filters[-1] == Filters()


def test_nothing_found() -> None:
    assert groups([]) == ()


def test_another_model_encodes_the_queries() -> None:
    index: Any = FakeIndex([hit("bank", 0.5)])
    other = FakeModel()
    Searcher(index, other).search(QUERY)
    assert (len(other.batches), len(index.model.batches)) == (1, 0)


def test_as_dict() -> None:
    hit = Hit(Phrase("a bank", 2, 6), float(np.float32(0.123456)), "d.txt", 7, "en", 3, {"id": 1})
    result = Result(QUERY, Phrase("die Bank", 4, 8), (Group("bank", hit.score, 2, (hit,), language="en"),))
    place = {"document": "d.txt", "line": 7, "language": "en", "metadata": {"id": 1}}
    hits = [{"context": "a bank", "start": 2, "end": 6, "score": 0.1235, **place}]
    assert result.as_dict() == {
        "phrase": "Bank",
        "start": 4,
        "end": 8,
        "confidence": None,
        "groups": [{"text": "bank", "language": "en", "score": 0.1235, "support": 0.1235, "count": 2, "hits": hits}],
    }


def test_the_confidence_is_of_the_wordings_whatever_is_asked_for() -> None:
    """It sees the best hit of each wording, not how many groups or contexts the caller wants."""
    index = FakeIndex([hit("bank", 0.9, " 1"), hit("Bank", 0.8, " 2"), hit("bench", 0.5), hit("seat", 0.4)])
    searcher = Searcher(index)  # type: ignore[arg-type]
    assert searcher.search(QUERY).confidence is None  # a model that was not calibrated
    index.model.confidence = Confidence(-1.0, (1.0, 2.0, 0.5))
    expected = 1 / (1 + exp(-(-1 + 0.9 + 2 * (0.9 - (0.5 + 0.4) / 2) + 0.5 * log(2))))
    for options in ({}, {"k": 1}, {"k": 60}, {"contexts": 0}):
        assert searcher.search(QUERY, **options).confidence == pytest.approx(expected)


def test_nothing_found_is_not_confidence() -> None:
    index = FakeIndex([])
    index.model.confidence = Confidence(5.0, (1.0, 1.0, 1.0))
    assert Searcher(index).search(QUERY).confidence == 0.0  # type: ignore[arg-type]


def test_a_search_without_a_text_is_as_if_it_were_not_there() -> None:
    banned = "He came late.  The BANK was closed."
    hits = [
        Hit(Phrase("The bank was closed.", 4, 8), 0.9, "d", 1),
        Hit(Phrase("He came late.", 3, 7), 0.8, "d", 1),
        Hit(Phrase("So: he came late. The bank was closed.", 22, 26), 0.7, "d", 1),
        Hit(Phrase("The bank", 4, 8), 0.6, "d", 1),  # no sentence of it
        Hit(Phrase("a bank was there", 2, 6), 0.5, "d", 1),
    ]
    group_searcher, _ = searcher(hits, hits)
    without, whole = group_searcher.search_all([QUERY] * 2, k=1, without=[banned, ""])
    assert whole.groups[0].hits == (hits[0], hits[2], hits[3], hits[4])
    assert without.groups == (Group("bank", 0.6, 2, (hits[3], hits[4])),)
    with pytest.raises(InputError, match="0 texts to be left out of 1 queries"):
        group_searcher.search_all([QUERY], without=[])


def test_more_is_fetched_where_all_that_was_found_must_not_be() -> None:
    hits = [Hit(Phrase("The bank.", 4, 8), 0.9 - number / 10_000, "d", number) for number in range(FETCH)]
    group_searcher, index = searcher([*hits, hit("bench", 0.1)])
    (result,) = group_searcher.search_all([QUERY], k=1, without=["The bank."])
    assert [fetched for _, fetched in index.searches] == [FETCH, FETCH * 4]
    assert [group.text for group in result.groups] == ["bench"]


def test_hits_behind_those_that_must_not_be_are_looked_at_though_the_index_has_no_more() -> None:
    values = [Hit(Phrase("The bank.", 4, 8), 0.9, "d", number) for number in range(FETCH)]
    others = [*(hit("bench", 0.8, f" {number}") for number in range(FETCH)), hit("seat", 0.1)]
    for hits in ([*values, *others], others):
        (result,) = searcher(hits)[0].search_all([QUERY], k=2, without=["The bank."])
        assert [group.text for group in result.groups] == ["bench", "seat"]


@pytest.mark.parametrize("banned", [FETCH - 1, FETCH, FETCH + 50])
def test_the_confidence_is_that_of_an_index_without_the_text(banned: int) -> None:
    values = [Hit(Phrase("The bank.", 4, 8), 0.9, "d", number) for number in range(banned)]
    others = [hit(f"w{number % 7}", 0.8 - number / 1_000, f" {number}") for number in range(2 * FETCH)]
    results = []
    for hits in ([*values, *others], others):
        group_searcher, index = searcher(hits)
        index.model.confidence = Confidence(-1.0, (1.0, 2.0, 0.5))
        results += group_searcher.search_all([QUERY], k=3, without=["The bank."])
    assert results[0] == results[1]


def test_a_sentence_is_of_a_text_however_it_was_split() -> None:
    predicate = is_of("Er kam am 5. Mai nach Hause. Sie wartete. Caf\u00e9 zu.")
    assert all(map(predicate, ["Er kam am 5. Mai nach Hause.", "Sie wartete. Cafe\u0301 zu.", "Mai nach Hause."]))
    assert not any(map(predicate, ["wartete.", "nach Hause.", "Mai", ""]))
    assert is_of("\u4ed6\u6765\u4e86\u3002\u5979\u7b49\u7740\u3002")("\u5979\u7b49\u7740\u3002")


def test_what_is_of_a_text() -> None:
    predicate = is_of("He came late. She waited.")
    assert all(map(predicate, ["HE came  late.", "She waited.", "X. He came late. She waited. Y."]))
    assert not any(map(predicate, ["he", "late", "He came late. She"]))
    assert not is_of(" ")("He")


def test_wordings_that_differ_in_what_is_not_seen_or_in_a_sign_are_one() -> None:
    texts = ["garten", "gar\u00adten", "garten\u200e", "today's", "today\u2019s", "today\u02bcs", "so-so", "so\u2011so"]
    hits = [hit(text, 0.9 - number / 100, f" {number}") for number, text in enumerate(texts)]
    assert [(group.text, group.count) for group in groups(hits)] == [("garten", 3), ("today's", 3), ("so-so", 2)]
