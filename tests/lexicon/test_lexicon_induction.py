"""What of a phrase table stays in a lexicon."""

from __future__ import annotations

from math import log

import pytest

from phrasemate.lexicon.pruning import (
    Expression,
    Pruning,
    RatedPair,
    attested_pairs,
    is_wording,
    likelihood_ratio,
    select_pairs,
)

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
    assert pair.pair == ("haus", "house", 8 / (10 + 1), 8 / (8 + 1), False)
    [pair] = select_pairs({("haus", "house"): 8, ("haus", "x1"): 2}, TOTAL, "de", {("haus", "house")})
    assert pair.pair == ("haus", "house", (8 + 1) / (10 + 2), (8 + 1) / (8 + 2), False)


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
    }
    assert chosen(counts) == {("flaschenöffner", "bottle opener"), ("tür", "door")}


def test_several_words_stay_if_they_were_counted_twice() -> None:
    words = {("zeit", "time"): 50, ("zu", "to"): 50, ("neue", "new"): 20, ("maus", "mouse"): 20}
    several = {("zu gegebener zeit", "in due course"): 5, ("neue maus", "new mouse"): 2, ("zu zeit", "time"): 2}
    once = {("auf gut glück", "at random"): 1}
    seldom = {("neue maus", "new mice"): 1, ("neue zeit", "new time"): 20, ("neue zeit", "time"): 2}
    assert chosen(words | several | once | seldom) == {*words, *several, ("neue zeit", "new time")}


def test_of_several_words_a_share_of_the_ratio_counts() -> None:
    [pair] = select_pairs({("neue maus", "new mouse"): 6}, TOTAL, "de")
    assert pair.worth == pytest.approx(likelihood_ratio(6, 6, 6, TOTAL) / Pruning().share)


def test_units_mean_more_than_their_words_or_are_frequent() -> None:
    words = {("zeit", "time"): 50, ("zu", "to"): 50, ("neue", "new"): 20, ("maus", "mouse"): 20, ("rote", "red"): 20}
    several = {
        ("zu gegebener zeit", "in due course"): 5,
        ("auf gut glück", "at random"): 2,  # too seldom
        ("neue maus", "new mouse"): 30,  # composed, and frequent
        ("rote maus", "red mouse"): 3,  # composed
    }
    units = {one.pair.wording: one.pair.unit for one in select_pairs(words | several, TOTAL, "de")}
    assert {wording for wording, unit in units.items() if unit} == {"zu gegebener zeit", "neue maus"}
    assert units.keys() >= {"auf gut glück", "rote maus"}


def test_several_words_without_content_go() -> None:
    words = {("auf", "on"): 40, ("der", "the"): 40}
    assert chosen(words | {("auf der", "on the"): 30}) == set(words)


def test_a_negation_stays_one() -> None:
    words = {("nicht", "not"): 40, ("gehen", "go"): 40}
    phrases = {("nicht gehen", "not go"): 5, ("nicht gehen", "to go"): 4, ("nach hause gehen", "don't stay"): 3}
    assert chosen(words | phrases) == {*words, ("nicht gehen", "not go"), ("nach hause gehen", "don't stay")}


def test_an_article_before_a_word_goes() -> None:
    words = {("das", "the"): 40, ("haus", "house"): 40, ("in", "in"): 40}
    phrases = {("das haus", "the house"): 20, ("das haus", "house"): 4, ("in das haus", "into the house"): 5}
    assert chosen(words | phrases) == {*words, ("in das haus", "into the house")}


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


def fixed(*rows: Expression, counts: dict[tuple[str, str], int] | None = None) -> dict[tuple[str, str], RatedPair]:
    """The fixed expressions that stay beside a phrase table."""
    table = {("in", "in"): 60, ("nicht", "not"): 60, ("wie", "how"): 60, **(counts or {})}
    pairs = select_pairs(table, TOTAL, "de", expressions=rows)
    return {(one.pair.wording, one.pair.english): one for one in pairs if " " in one.pair.wording}


def test_expressions_have_the_probabilities_of_sentences() -> None:
    expected = fixed(Expression("nach wie vor", "still", 8, 10, 20))["nach wie vor", "still"]
    assert expected.pair == ("nach wie vor", "still", 8 / (10 + 1), 8 / (20 + 1), True)
    assert expected.worth == pytest.approx(likelihood_ratio(8, 10, 20, TOTAL))  # none of it is taken off


def test_expressions_by_chance_or_too_rare_go() -> None:
    assert fixed(Expression("nach wie vor", "house", 8, 80, 100)) == {}  # 80 * 100 / 1000 = 8 by chance
    assert fixed(Expression("nach wie vor", "still", 8, 100, 20)) == {}  # 8 of 101 is less than a tenth


def test_expressions_need_content_without_hanging_words() -> None:
    for english in ("as", "the still", "still the", "still of", "x1"):
        assert fixed(Expression("nach wie vor", english, 8, 10, 20)) == {}
    assert list(fixed(Expression("nach wie", "still of", 8, 10, 20)))  # "wie" is a function word, too


def test_a_negation_of_an_expression_stays_one() -> None:
    assert fixed(Expression("nicht einmal", "even", 8, 10, 20)) == {}
    assert list(fixed(Expression("nicht einmal", "not even", 8, 10, 20))) == [("nicht einmal", "not even")]


def test_composed_wordings_are_no_expressions() -> None:
    counts = {("altes", "old"): 20, ("haus", "house"): 20}
    assert fixed(Expression("altes haus", "old house", 8, 10, 20), counts=counts) == {}


def test_parts_of_the_english_expression_go_and_what_only_adds_words() -> None:
    rows = [
        Expression("am ende", "end", 9, 12, 30),
        Expression("am ende", "in the end", 8, 12, 10),  # nearly as often as its part
        Expression("am ende", "in the end we", 3, 12, 3),
        Expression("am ende", "finally", 3, 12, 9),
    ]
    assert set(fixed(*rows)) == {("am ende", "in the end"), ("am ende", "finally")}


def test_a_more_frequent_expression_stands_for_the_same_with_words_around_it() -> None:
    rows = [Expression("nach wie vor", "still", 16, 20, 30), Expression("ist nach wie vor", "still", 8, 10, 30)]
    assert set(fixed(*rows)) == {("nach wie vor", "still")}
    rows[0] = Expression("nach wie vor", "still", 8, 11, 30)  # hardly without "ist"
    assert len(fixed(*rows)) == 2


def test_the_table_goes_before_an_expression() -> None:
    counts = {("nach wie vor", "still"): 8}
    pair = fixed(Expression("nach wie vor", "still", 6, 20, 30), counts=counts)["nach wie vor", "still"].pair
    assert pair.forward == 8 / (8 + 1)
