from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from itertools import pairwise
from random import Random

import pytest

from phrasemate.examples import sampling
from phrasemate.examples.sampling import Row, sample
from phrasemate.index.types import IdRange

NAMES = ["ant", "bee", "cat", "dog", "elk", "fox", "gnu", "hen", "jay", "kite", "lynx", "mole", "newt", "owl", "pig"]


class Listed:
    """A source in memory: every sentence is a candidate for every phrase."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.held, self.looked_at = list(rows), 0

    def snapshot(self) -> nullcontext[None]:
        return nullcontext()

    def size(self) -> int:
        return len(self.held)

    count = size

    def candidates(self, phrase: str, ids: IdRange) -> list[int]:
        return list(range(ids.first, ids.before))[: ids.limit]

    likely = candidates

    def rows(self, ids: Sequence[int]) -> list[Row]:
        self.looked_at += len(ids)
        return [self.held[identity] for identity in ids]

    def close(self) -> None: ...


def different(count: int, document: str = "a.txt", word: str = "art") -> list[Row]:
    """Sentences that share little but the word."""
    pick = [(NAMES[i % 15], NAMES[(i // 15 + 7 * i) % 15], NAMES[(4 * i + i // 7) % 15]) for i in range(count)]
    return [Row(f"{x}{i} {y}{i} {word} {z}{i}", document, i) for i, (x, y, z) in enumerate(pick, 1)]


def texts(source: Listed, limit: int, phrase: str = "art", extra: int = 0, seed: int = 0) -> list[str]:
    return [sentence.phrase.context for sentence in sample(source, phrase, limit, extra, seed)]


def test_documents_take_turns() -> None:
    source = Listed([*different(100, "big"), Row("fine art", "b", 1), Row("no art", "c", 1)])
    assert {sentence.document for sentence in sample(source, "art", 3, 0, 0)} == {"big", "b", "c"}


def test_the_same_each_time_and_less_is_the_beginning_of_more() -> None:
    source = Listed([row._replace(document=f"{row.line % 7}") for row in different(300)])
    most = texts(source, 40)
    assert len(most) == 40
    assert [texts(source, n) == most[:n] for n in (1, 7, 32, 40)] == [True] * 4
    assert set(texts(source, 40, seed=1)) != set(most)


def test_a_text_comes_once_and_near_repetitions_last() -> None:
    same = [Row(f"Open  the ART of page {n}, please", "a", n) for n in (1, 1, 2, 3)]
    other = Row("Something quite different about art", "b", 9)
    result = texts(Listed([*same, other]), 9)
    assert set(result[:2]) > {other.text}
    assert sorted(result) == sorted({row.text for row in same} | {other.text})  # 1 of 2 equal ones, pages 2 and 3
    assert len(result) == 4


def test_near_is_a_share_of_the_tokens() -> None:
    base = "one two three four five six art"
    near, far = base + " seven eight", base + " seven eight nine"  # 7 of 9 and 7 of 10 tokens are common
    assert 7 / 9 > sampling.NEAR > 7 / 10
    listings = Listed([Row(base, "a", 1), Row(near, "b", 2)]), Listed([Row(base, "a", 1), Row(far, "b", 2)])
    choices = [sampling._Choice() for _ in listings]
    proposals = [
        [choice.take(sentence) for sentence in sample(sentences, "art", 2, 0, 0)]
        for choice, sentences in zip(choices, listings, strict=True)
    ]
    assert [sum(item) for item in proposals] == [1, 2]


def test_near_is_reported_as_by_comparing_with_all(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = Random(1)
    sentences = [" ".join(["art", *(draw.choice(NAMES[:9]) for _ in range(draw.randrange(9)))]) for _ in range(300)]
    rows = [Row(text, "a.txt", line) for line, text in enumerate(sentences)]
    result = texts(Listed(rows), 300)
    monkeypatch.setattr(sampling, "_prefix", sorted)
    assert result == texts(Listed(rows), 300)


def test_many_sentences_are_not_compared_with_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []

    class Tokens(frozenset[str]):
        def __and__(self, other: object) -> frozenset[str]:
            compared.append(1)
            return super().__and__(other)

    monkeypatch.setattr(sampling, "frozenset", Tokens, raising=False)
    draw = Random(2)
    names = [first + last for first in NAMES for last in NAMES]
    rows = [Row(f"art {' '.join(draw.choices(names, k=9))}", "a.txt", line) for line in range(400)]
    assert len(texts(Listed(rows), 400)) == 400
    assert len(compared) < 400 * 399 / 2 / 5


def test_sentences_of_numbers_are_not_repetitions() -> None:
    assert len(texts(Listed([Row("7 8 9", "a", 1), Row("7 10 11", "a", 2)]), 2, "7")) == 2


def test_extra_characters() -> None:
    source = Listed([Row("art" + 9 * "!", "a", 1), Row("art" + 10 * "?", "a", 2)])
    assert texts(source, 5, extra=10) == ["art" + 10 * "?"]
    assert len(texts(source, 5, extra=9)) == 2


def test_extra_is_counted_from_the_words_that_were_found() -> None:
    assert texts(Listed([Row("Maße" + 10 * ".", "a", 1)]), 1, "masse", extra=10) == ["Maße.........."]


def test_the_first_occurrence_is_marked() -> None:
    (result,) = sample(Listed([Row("party, art and Art", "a", 1)]), "art", 5, 0, 0)
    assert (result.phrase.start, result.phrase.end) == (7, 10)


def test_many_candidates_come_from_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "WHOLE", 100)
    source = Listed(different(6400))
    parts = {(sentence.line - 1) // 100 for sentence in sample(source, "art", 64, 0, 0)}
    assert len(parts) == sampling.STRATA  # one from each 64th of the collection
    assert source.looked_at == sampling.CHUNK


def test_all_candidates_are_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    for whole in (10, 10_000):
        monkeypatch.setattr(sampling, "WHOLE", whole)
        source = Listed(different(900))
        assert set(texts(source, 10_000)) == {row.text for row in source.held}


def test_looking_ends_at_the_budget_if_something_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "WHOLE", 100)
    monkeypatch.setattr(sampling, "BUDGET", 1_000)
    vain = [row._replace(document="v") for row in different(5_000, word="party")]
    none = Listed([*vain, Row("the very last art", "a", 1)])
    assert texts(none, 5) == ["the very last art"]
    some = Listed([row for at, row in enumerate([*different(10), *vain]) if at != 17])
    assert len(texts(some, 5_000)) > 0
    assert some.looked_at < 1_000 + sampling.CHUNK


def test_steps_of_the_golden_section_meet_every_id_once() -> None:
    for count in (0, 1, 2, 3, 10, 97, 2048):
        order = list(sampling._scattered(range(count), Random(0)))
        assert sorted(order) == list(range(count))
    first = sorted(order[:64])
    assert max(b - a for a, b in pairwise(first)) <= 3 * 2048 / 64  # spread over the whole
