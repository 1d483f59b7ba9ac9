from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import corpora
import numpy as np
import pytest

from phrasemate.errors import ReadError
from phrasemate.evaluate.polysemy import (
    VIEWS,
    AmbiguousPhrase,
    choose_by_shift,
    evaluate_senses,
    polysemy_tables,
    read_polysemy,
    score_senses,
)
from phrasemate.types import Phrase


@pytest.fixture
def phrases(data: Path) -> list[AmbiguousPhrase]:
    """Bank: a bench (two contexts, one mate) and a bank (one context, two mates)."""
    return read_polysemy(data / "polysemy.jsonl")


def test_a_set_is_read_with_its_marks(phrases: list[AmbiguousPhrase]) -> None:
    (bank,) = phrases
    assert (bank.lang, bank.phrase) == ("de", "Bank")
    assert [sense.english for sense in bank.senses] == ["bench", "bank"]
    assert bank.senses[0].contexts[1] == Phrase("Die Bank ist rot.", 4, 8)
    assert [mate.text for mate in bank.senses[1].mates] == ["bank", "bank"]


def test_the_best_mate_of_each_sense_decides(phrases: list[AmbiguousPhrase]) -> None:
    similar = np.array([[0.9, 0.1, 0.8], [0.5, 0.1, 0.6], [0.5, 0.1, 0.6]], np.float32)
    scores = score_senses(phrases, similar)
    assert scores.sense.tolist() == [1, 0, 1]
    assert scores.first.tolist() == [1, 0, 1]


def test_ties_are_shared(phrases: list[AmbiguousPhrase]) -> None:
    similar = np.array([[0.5, 0.5, 0.5], [0.2, 0.5, 0.5], [0.5, 0.5, 0.5]], np.float32)
    scores = score_senses(phrases, similar)
    assert scores.sense.tolist() == [1 / 2, 0, 1 / 2]  # two senses tie; the other one alone; two senses tie
    assert scores.first.tolist() == [1 / 3, 0, 2 / 3]  # of three mates


def test_mates_of_other_phrases_count_for_the_first_rank_only(phrases: list[AmbiguousPhrase]) -> None:
    both = [phrases[0], phrases[0]._replace(phrase="Ufer")]
    row = [0.4, 0.3, 0.2, 0.9, 0.1, 0.1]
    scores = score_senses(both, np.array([row] * 6, np.float32))
    assert scores.sense.tolist() == [1, 1, 0, 1, 1, 0]
    assert scores.first.tolist() == [0, 0, 0, 1, 1, 0]


class Reader:
    """Knows a bench by the park or the river; without a sentence it knows a word only."""

    dim = 2

    def encode(self, phrases: Sequence[Phrase]) -> np.ndarray:
        hints = ("Fluss", "rot", "old", "bench")
        return np.array([[1.0, 0.0] if any(h in p.context for h in hints) else [0.0, 1.0] for p in phrases], np.float32)


def test_context_tells_senses_apart_and_its_lack_does_not(phrases: list[AmbiguousPhrase]) -> None:
    scores = evaluate_senses(Reader(), phrases)
    assert list(scores) == [*VIEWS, "two steps"]
    assert scores["in context"].sense.tolist() == [1, 1, 1]
    assert scores["source alone"].sense.tolist() == [0, 0, 1]  # always the bank
    assert scores["both alone"].sense.tolist() == [0, 0, 1]


def test_what_the_sentence_adds_outweighs_the_usual_sense(phrases: list[AmbiguousPhrase]) -> None:
    """The word is near to "bank" in any sentence: only less the word alone is the bench first."""
    vectors = {"Er": [0.6, 0.5], "bench": [0.0, 1.0], "bank": [1.0, 0.0], "Bank": [0.7, 0.1]}

    class Biased:
        dim = 2

        def encode(self, mentions: Sequence[Phrase]) -> np.ndarray:
            names = [p.text if p.context == p.text or p.text in ("bench", "bank") else "Er" for p in mentions]
            return np.array([vectors.get(name, [0.0, 0.0]) for name in names], np.float32)  # sentences as a whole: 0

    scores = evaluate_senses(Biased(), phrases)
    assert scores["in context"].sense.tolist() == [0, 0, 1]  # 0.6 to the bank, 0.5 to the bench
    assert scores["less alone"].sense.tolist() == [1, 1, 0]  # 0.6 - 0.8 x 0.7 = 0.04, 0.5 - 0.8 x 0.1 = 0.42
    assert scores["source alone"].sense.tolist() == [0, 0, 1]


def test_two_steps_choose_among_the_mates_near_the_context_only() -> None:
    """Ten nearest contexts are both of them here: r is the mean of a column, and rows compare cos - r / 2."""
    similar = np.array([[0.90, 0.90, 0.20], [0.10, 0.09, 0.80]], np.float32)
    alone = np.array([[0.90, 0.10, 0.00], [0.10, 0.10, 0.10]], np.float32)
    ranked = choose_by_shift(similar, alone)
    # r is 0.5, 0.495, 0.5; the first two mates are within 0.01 of each other: 2 x 0.9 - 0.5 and 2 x 0.9 - 0.495.
    # Less 0.8 times alone the first has 0.18, the second 0.82, the third 0.2: above the first, yet not proposed.
    assert ranked[0].argsort().tolist() == [2, 0, 1]
    assert ranked[1].argmax() == 2


def test_tables_say_what_is_lost_without_context(phrases: list[AmbiguousPhrase]) -> None:
    tables = polysemy_tables({"reader": Reader()}, phrases * 3)
    rows = {row[1]: row for row in tables[0].rows}
    assert rows["in context"][2].value == 1
    assert rows["both alone"][2].value == pytest.approx(1 / 3)
    assert rows["both alone"][4].value == pytest.approx(100 * (1 - 1 / 3))
    assert tables[0].rows[-1][2].value == pytest.approx(1 / 2)  # chance, two senses
    assert tables[1].header == ("model", "vectors", "de")
    assert tables[1].rows[3][2] == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"senses": []}, "expected two senses"),
        ({"senses": [{"english": "x", "contexts": ["no mark"], "mates": ["[[x]]"]}] * 2}, "0 marks"),
        ({"senses": [{"english": "x", "contexts": ["[[a]] [[b]]"], "mates": ["[[x]]"]}] * 2}, "2 marks"),
        ({"senses": [{"english": "x", "contexts": ["[[a"], "mates": ["[[x]]"]}] * 2}, "line 2"),
        ({"senses": [{"english": "x", "mates": ["[[x]]"]}] * 2}, "contexts"),
    ],
)
def test_a_senseless_line_is_named(tmp_path: Path, change: dict, reason: str) -> None:
    corpora.lines(tmp_path / "set.jsonl", [corpora.POLYSEMY, corpora.POLYSEMY | change])
    with pytest.raises(ReadError, match=reason) as caught:
        read_polysemy(tmp_path / "set.jsonl")
    assert caught.value.line == 2


def test_our_own_set_is_readable_and_balanced() -> None:
    items = read_polysemy()
    langs = Counter(phrase.lang for phrase in items)
    assert len(langs) >= 2
    assert len({(phrase.lang, phrase.phrase) for phrase in items}) == len(items)
    for phrase in items:
        contexts = [context.context for sense in phrase.senses for context in sense.contexts]
        assert len(set(contexts)) == len(contexts)
