"""What of a phrase table stays in a lexicon."""

from __future__ import annotations

from math import log

import pytest

from phrasemate.lexicon.induced import Pruning, attested_pairs, is_wording, likelihood_ratio, select_pairs

TOTAL = 1000


def chosen(counts: dict[tuple[str, str], int], attested: set[tuple[str, str]] = frozenset()) -> set[tuple[str, str]]:  # type: ignore[assignment]
    return {(one.pair.wording, one.pair.english) for one in select_pairs(counts, TOTAL, "de", attested)}


def test_likelihood_ratio() -> None:
    both, left, right, neither = 10, 2, 5, 983
    cells = ((both, 12 * 15), (left, 12 * 985), (right, 988 * 15), (neither, 988 * 985))
    expected = 2 * sum(count * log(count * TOTAL / product) for count, product in cells)
    assert likelihood_ratio(10, 12, 15, TOTAL) == pytest.approx(expected)
    assert likelihood_ratio(1, 100, 100, TOTAL) == 0.0  # as often as by chance: 100 * 100 / 1000 = 10


def test_probabilities_are_discounted() -> None:
    [pair] = select_pairs({("haus", "house"): 8, ("haus", "x1"): 2}, TOTAL, "de")
    assert pair.pair == ("haus", "house", 8 / (10 + 1), 8 / (8 + 1))
    [pair] = select_pairs({("haus", "house"): 8, ("haus", "x1"): 2}, TOTAL, "de", {("haus", "house")})
    assert pair.pair == ("haus", "house", (8 + 1) / (10 + 2), (8 + 1) / (8 + 2))


def test_pairs_counted_once_need_a_dictionary() -> None:
    counts = {("haus", "house"): 1, ("maus", "mouse"): 1}
    assert chosen(counts) == set()
    assert chosen(counts, {("maus", "mouse")}) == {("maus", "mouse")}


def test_dictionaries_attest_inflected_pairs() -> None:
    counts = {("häuser", "houses"): 1, ("häuser", "mice"): 1}
    assert attested_pairs(counts, {("haus", "house")}, "de") == {("häuser", "houses")}


def test_function_words_around_a_pair_go() -> None:
    counts = {("haus", "house"): 30, ("haus", "the house"): 20, ("das haus", "the house"): 20, ("das", "the"): 60}
    assert chosen(counts) == {("haus", "house"), ("das", "the")}  # 60 of 60 links


def test_function_words_stay_with_the_usual_ones() -> None:
    counts = {("auf", "on"): 40, ("auf", "at"): 9, ("auf", "in"): 1, ("auf", "open"): 5, ("buch", "on"): 3}
    assert chosen(counts) == {("auf", "on"), ("auf", "at")}  # "in" has 1 of 55 links, less than one in twenty


def test_particles_are_not_function_words() -> None:
    counts = {("aufgeben", "give"): 10, ("aufgeben", "give up"): 9}
    assert chosen(counts) == {("aufgeben", "give up")}


def test_parts_of_better_pairs_go() -> None:
    counts = {
        ("flaschenöffner", "opener"): 3,
        ("flaschenöffner", "bottle opener"): 3,
        ("tür", "door"): 9,
        ("tür auf", "door"): 2,
    }
    assert chosen(counts) == {("flaschenöffner", "bottle opener"), ("tür", "door")}


def test_several_words_stay_if_they_mean_more_than_their_parts() -> None:
    words = {("zeit", "time"): 50, ("zu", "to"): 50, ("neue", "new"): 20, ("maus", "mouse"): 20}
    idiom = {("zu gegebener zeit", "in due course"): 5}
    composed = {("neue maus", "new mouse"): 30, ("zu zeit", "to time"): 8}
    rare = {("auf gut glück", "at random"): 2}
    assert chosen(words | idiom | composed | rare) == {*words, *idiom, ("neue maus", "new mouse")}


def test_rare_equivalents_and_the_wording_itself_go() -> None:
    counts = {("bank", "bank"): 60, ("bank", "bench"): 38, ("bank", "seat"): 2, ("text", "text"): 50}
    assert chosen(counts) == {("bank", "bank"), ("bank", "bench")}
    many = {("ding", f"thing{'abcdefgh'[n]}"): 20 for n in range(8)}
    assert len(chosen(many)) == Pruning().most


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *(("zu hause", True), ("it's", True), ("e-mail", True), ("हिन्दी", True), ("می\u200cروم", True)),
        *(("src/emacs", False), ("45acp", False), ("a, b", False), ("a_b", False), ("a - b", False), ("'a", False)),
    ],
)
def test_wordings(text: str, expected: bool) -> None:
    assert is_wording(text) == expected


def test_hapaxes_of_small_languages() -> None:
    counts = {("trauerfeier", "funeral"): 1, ("haus", "house"): 4, ("haus", "shed"): 1, ("ab", "off"): 1}
    pairs = select_pairs(counts, TOTAL, "de", pruning=Pruning(hapaxes=True))
    assert {one.pair.english for one in pairs} == {"funeral", "house"}
    assert chosen(counts) == {("haus", "house")}


def test_pairs_counted_twice_need_to_be_probable() -> None:
    counts = {("haus", "house"): 20, ("haus", "den"): 2, ("laube", "den"): 2, ("laube", "arbour"): 5}
    assert ("haus", "den") not in chosen(counts)  # 2 / (22 + 1) < Pruning.rare
    assert ("laube", "den") in chosen(counts)  # 2 / (7 + 1)
