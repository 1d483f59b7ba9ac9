"""Order of the candidates: a whole such as "heart attack" and its part, a word and its possessive."""

from __future__ import annotations

import numpy as np
import pytest

from phrasemate import candidates
from phrasemate.answers import WORD_BY_WORD, with_base_first, with_whole_first
from phrasemate.candidates import UNLISTED, Listing
from phrasemate.encode.scoring import FEATURES
from phrasemate.features import CandidateSet


@pytest.mark.parametrize(
    ("wordings", "likely", "order"),
    [
        ("effects, side effects*", [0.8, 0.7], [1, 0]),
        ("effects*, side effects*", [0.8, 0.7], [0, 1]),  # the part is listed, too
        ("effects, side effects", [0.8, 0.7], [0, 1]),  # the whole is not
        ("effects, side effects+", [0.8, 0.7], [1, 0]),  # it translates the query word by word
        ("effects+, side effects+", [0.8, 0.7], [0, 1]),  # so does its part
        ("effects*, side effects+", [0.8, 0.7], [0, 1]),
        ("effects, size+", [0.8, 0.7], [0, 1]),
        ("effects, effectsize*", [0.8, 0.7], [0, 1]),  # other words
        ("effects, side effects*, no effects*", [0.8, 0.6, 0.7], [2, 0, 1]),
        ("other, effects, side effects*", [0.9, 0.8, 0.7], [0, 1, 2]),  # the likeliest is not a part
        ("", [], []),
    ],
)
def test_a_whole_goes_before_its_part(wordings: str, likely: list[float], order: list[int]) -> None:
    """Listed wordings end in *, word-by-word translations in +."""
    listings = {True: Listing(0.5, "mine"), False: UNLISTED}
    texts = [text for text in wordings.split(", ") if text]
    some = [candidates.Candidate(text.strip("*+"), listings[text.endswith("*")], np.array([1]), 1) for text in texts]
    features = np.zeros((len(some), len(FEATURES)), np.float32)
    features[:, WORD_BY_WORD] = [text.endswith("+") for text in texts]
    empty = np.zeros(0, np.int64)
    query = CandidateSet(some, features, empty, np.zeros(0, np.float32), empty)
    values = with_whole_first(query, np.array(likely))
    assert np.argsort(-values, kind="stable").tolist() == order
    assert sorted(values.round(9), reverse=True)[:1] == sorted(likely, reverse=True)[:1]


@pytest.mark.parametrize(
    ("part", "whole", "count", "nearer", "wins"),
    [
        ("heart", "heart attack", 2, (0.0, 0.06, 0.05), True),
        ("heart", "heart attack", 2, (0.0, 0.05, 0.04), False),  # 0.09 in all
        ("heart", "heart attack", 2, (-0.01, 0.06, 0.05), False),  # not in its sentence
        ("heart", "heart attack", 2, (0.1, 0.2, -0.01), False),  # not alone
        ("heart", "heart attack", 1, (0.0, 0.06, 0.05), False),  # a single occurrence
        ("heart", "attack", 2, (0.0, 0.06, 0.05), False),
        ("heart attack", "heart attack unit", 2, (0.0, 0.06, 0.05), False),  # a part of two words
        ("united", "united states", 5, (-0.1, 0.01, -0.01), True),  # 5 of 9 occurrences, as near by the sum
        ("united", "united states", 4, (-0.1, 0.01, -0.01), False),  # 4 of 9
        ("united", "united states", 5, (0.1, 0.01, -0.02), False),  # the sum is below 0
        ("up", "get up", 1, (-0.1, 0.01, -0.01), True),  # a phrasal verb, as near by the sum
        ("up", "get up", 1, (0.1, 0.01, -0.02), False),
        ("get", "get up", 1, (0.0, 0.01, -0.01), False),  # the verb stands with other particles
        ("up", "hands up", 1, (0.0, 0.01, -0.01), False),
    ],
)
def test_a_nearer_whole_goes_before_a_listed_word(
    part: str, whole: str, count: int, nearer: tuple[float, float, float], wins: bool
) -> None:
    features = np.full((2, len(FEATURES)), 0.5)
    features[1, [FEATURES.index(name) for name in ("context", "type", "alone")]] += nearer
    features[:, [FEATURES.index(name) for name in ("words", "fewer words")]] = 0
    some = [
        candidates.Candidate(part, Listing(0.5, "mine"), np.array([1]), 9),
        candidates.Candidate(whole, UNLISTED, np.array([2]), count),
    ]
    empty = np.zeros(0, np.int64)

    def order(features: np.ndarray) -> list[int]:
        query = CandidateSet(some, features.astype(np.float32), empty, np.zeros(0, np.float32), empty)
        return np.argsort(-with_whole_first(query, np.array([0.6, 0.4])), kind="stable").tolist()

    assert order(features) == ([1, 0] if wins else [0, 1])
    features[0, FEATURES.index("fewer words")] = 1  # the query has two words
    assert order(features) == [0, 1]


@pytest.mark.parametrize(("listed", "wins"), [(0.6, True), (0.5, False)])
def test_a_likelier_listed_whole_goes_before_its_part(listed: float, wins: bool) -> None:
    some = [
        candidates.Candidate("turned", Listing(0.5, "mine"), np.array([1]), 9),
        candidates.Candidate("turned off", Listing(listed, "mine"), np.array([2]), 1),
    ]
    empty = np.zeros(0, np.int64)
    query = CandidateSet(some, np.zeros((2, len(FEATURES)), np.float32), empty, np.zeros(0, np.float32), empty)
    values = with_whole_first(query, np.array([0.9, 0.2]))
    assert values.tolist() == ([0.9, np.nextafter(0.9, 1)] if wins else [0.9, 0.2])


@pytest.mark.parametrize(
    ("wordings", "likely", "values"),
    [
        ("judge's, court, judge", [0.9, 0.5, 0.3], [0.3, 0.5, 0.9]),
        ("judge, court, judge's", [0.9, 0.5, 0.3], [0.9, 0.5, 0.3]),
        ("judge's, court", [0.9, 0.5], [0.9, 0.5]),  # the base does not occur
        ("the court's judge, the court, s, 's", [0.9, 0.5, 0.1, 0.2], [0.9, 0.5, 0.1, 0.2]),
        ("", [], []),
    ],
)
def test_a_word_goes_before_its_possessive(wordings: str, likely: list[float], values: list[float]) -> None:
    some = [candidates.Candidate(text, UNLISTED, np.array([1]), 1) for text in wordings.split(", ") if text]
    features, empty = np.zeros((len(some), len(FEATURES)), np.float32), np.zeros(0, np.int64)
    query = CandidateSet(some, features, empty, np.zeros(0, np.float32), empty)
    assert with_base_first(query, np.array(likely)).tolist() == values
