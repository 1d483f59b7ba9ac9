"""Consistent phrase pairs against a plain loop over all boxes; the filters; words at the borders."""

from __future__ import annotations

import math
import tracemalloc
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phrasemate.align import TokenizedSentence
from phrasemate.align import pairs as module
from phrasemate.align.pairs import BorderWords, Box, PhraseFinder, consistent_boxes
from phrasemate.align.symmetrise import Links
from phrasemate.errors import InputError


def brute(links: Links, sources: int, targets: int, longest: int, loose: bool) -> list[Box]:
    """Every box, held against the definition."""
    results = []
    for s, e, s2, e2 in product(range(sources), range(1, sources + 1), range(targets), range(1, targets + 1)):
        if not (0 < e - s <= longest and 0 < e2 - s2 <= longest):
            continue
        inside = [(s <= a < e, s2 <= b < e2) for a, b in links]
        if any(one != other for one, other in inside) or (True, True) not in inside:
            continue
        borders = {a for a, _ in links} >= {s, e - 1} and {b for _, b in links} >= {s2, e2 - 1}
        if loose or borders:
            results.append(Box(s, e, s2, e2))
    return sorted(results)


@st.composite
def alignments(draw: st.DrawFn) -> tuple[Links, int, int]:
    sources, targets = draw(st.integers(1, 7)), draw(st.integers(1, 7))
    link = st.tuples(st.integers(0, sources - 1), st.integers(0, targets - 1))
    return sorted(draw(st.sets(link, max_size=9))), sources, targets


@settings(max_examples=150, deadline=None)
@given(alignments(), st.integers(1, 8), st.booleans())
def test_as_the_definition_has_it(case: tuple[Links, int, int], longest: int, loose: bool) -> None:
    assert consistent_boxes(*case, longest, loose) == brute(*case, longest, loose)


def test_the_textbook_example() -> None:
    # michael geht davon aus / michael assumes: 0-0 1-1 2-1 3-1
    links = [(0, 0), (1, 1), (2, 1), (3, 1)]
    assert consistent_boxes(links, 4, 2) == [Box(0, 1, 0, 1), Box(0, 4, 0, 2), Box(1, 4, 1, 2)]
    assert consistent_boxes(links, 4, 2, max_words=2) == [Box(0, 1, 0, 1)]


def test_a_link_to_a_word_that_is_not_there() -> None:
    with pytest.raises(InputError, match="word 4-1 in a pair of 4 and 2 words"):
        consistent_boxes([(4, 1)], 4, 2)


def test_phrases_of_no_word_are_refused() -> None:
    with pytest.raises(InputError, match="max_words: 0; expected 1 or more"):
        consistent_boxes([(0, 0)], 1, 1, max_words=0)


def test_a_long_sentence_is_not_trouble() -> None:
    links = [(i, i) for i in range(5000)]
    # a run of w words may start at 5000 - w + 1 places
    assert len(consistent_boxes(links, 5000, 5000, 6)) == sum(5000 - w + 1 for w in range(1, 7))


def test_phrases_are_characters_of_the_sentences() -> None:
    source, target = TokenizedSentence.of("Er sagte: „Guten Morgen“!"), TokenizedSentence.of('He said "good morning".')
    links = [(0, 0), (1, 1), (2, 2), (3, 3)]
    results = {(p.source.text, p.target.text) for p in PhraseFinder()(source, target, links)}
    assert ("Guten Morgen", "good morning") in results
    assert ("sagte: „Guten", 'said "good') in results
    assert len(results) == 4 + 3 + 2 + 1


def test_frequent_words_and_numbers_are_not_borders_and_no_phrases() -> None:
    source, target = TokenizedSentence.of("Die Bank 24 war zu"), TokenizedSentence.of("The bank 24 was closed")
    links = [(i, i) for i in range(5)]
    results = {
        p.source.text for p in PhraseFinder((frozenset({"die", "war"}), frozenset({"closed"})))(source, target, links)
    }
    assert results == {"Bank", "Bank 24"}  # 24 has no letter; what ends in zu ends in "closed" on the other side


def test_unspaced_scripts() -> None:
    source, target = TokenizedSentence.of("我喜欢苹果。"), TokenizedSentence.of("I like apples.")
    assert source.words() == ["我", "喜欢", "苹果"]
    results = {(p.source.text, p.target.text) for p in PhraseFinder()(source, target, [(0, 0), (1, 1), (2, 2)])}
    assert ("喜欢苹果", "like apples") in results


def counted(sentences: list[str], rate: float, least: int) -> frozenset[str]:
    counter = BorderWords(rate, least)
    for sentence in sentences:
        counter.update(TokenizedSentence.of(sentence))
    return counter.frequent()


def test_the_rate_is_of_occurrences_per_sentence() -> None:
    sentences = ["The cat"] * 6 + ["the dog"] * 5 + ["a dog"] * 89
    assert counted(sentences, 0.11, 0) == {"dog", "a"}  # the: 11 of 100, not more than 0.11 x 100
    assert counted(sentences, 0.10, 0) == {"the", "dog", "a"}
    assert counted(sentences, 0.001, 90) == {"dog"}  # least holds where the text is small


def test_every_sentence_counts_once() -> None:
    border = BorderWords(rate=1, least=0)
    for text in ("the the cat", "the dog dog"):
        border.update(TokenizedSentence.of(text))
    assert border.sentences == 2
    assert border.frequent() == {"the"}  # 3 in 2 sentences; "dog" has as many as there are sentences


def test_tokens_are_joined_with_spaces() -> None:
    sentence = TokenizedSentence.of_tokens(["Der", "Hund", "!"])
    assert (sentence.text, sentence.spans) == ("Der Hund !", [(0, 3), (4, 8), (9, 10)])
    assert sentence.words() == ["Der", "Hund", "!"]
    assert TokenizedSentence.of_tokens([]).spans == []


def test_counting_forgets_rare_words_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TABLE", 50)
    counter = BorderWords(0.1, 0)
    for i in range(1000):
        counter.update(TokenizedSentence.of(f"the rare{i} {'odd' if i % 5 == 0 else 'even'}"))
        assert len(counter.counts) <= 100 * (1 + math.log(10))  # 1/e log(e N), e being a tenth of the rate
    assert counter.frequent() == {"the", "odd", "even"}


def test_counting_misses_a_tenth_of_the_rate_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """A word that comes late must not have to catch up with all that was read before it between two clearings."""
    monkeypatch.setattr(module, "TABLE", 50)
    counter = BorderWords(0.1, 0)
    for i in range(5_000):
        counter.update(TokenizedSentence.of(f"rare{i}"))
    for i in range(5_000, 10_000):
        counter.update(TokenizedSentence.of(f"late rare{i}"))
    assert 5_000 - 0.01 * 10_000 <= counter.counts["late"] <= 5_000
    assert counter.frequent() == {"late"}


@pytest.mark.parametrize("arguments", [(0.0, 1), (-1.0, 1), (math.nan, 1), (0.1, -1)])
def test_senseless_rates(arguments: tuple[float, int]) -> None:
    with pytest.raises(InputError, match="expected a rate above 0"):
        BorderWords(*arguments)


def test_no_limit_of_words_costs_no_more_than_the_sentence() -> None:
    tracemalloc.start()
    boxes = consistent_boxes([(0, 0), (1, 1)], 2, 3, max_words=2_000_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert boxes == [Box(0, 1, 0, 1), Box(0, 2, 0, 2), Box(1, 2, 1, 2)]
    assert consistent_boxes([(0, 0)], 1, 9, max_words=99, loose=True) == [Box(0, 1, 0, end) for end in range(1, 10)]
    assert peak < 100_000


def test_words_that_must_be_known_are_not_counted_again_for_each_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TABLE", 100)
    calls: list[int] = []
    counter = module.Counter

    class Told(counter):  # type: ignore[type-arg, valid-type, misc]
        def __init__(self, value: object = ()) -> None:
            calls.append(1)
            super().__init__(value)  # type: ignore[call-overload]

    monkeypatch.setattr(module, "Counter", Told)
    counts = BorderWords(rate=1e-9, least=1)
    for number in range(2_000):
        counts.update(TokenizedSentence.of_tokens([f"w{number // 2}"]))  # each word twice: none may be forgotten
    assert len(counts.frequent()) > 900
    assert len(calls) < 12  # when there are twice as many, not at each sentence from the hundredth word on
