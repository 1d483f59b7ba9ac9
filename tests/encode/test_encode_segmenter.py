"""The n-gram segmenter: worked examples in several scripts, and where its frequent words come from."""

from __future__ import annotations

import re
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phrasemate.encode import FrequentWords, NgramSegmenter
from phrasemate.encode.segmenter import JOINT, common_pieces
from phrasemate.errors import InputError
from phrasemate.types import Span


def phrases(text: str, frequent: str = "", max_words: int = 5) -> list[str]:
    return [text[s:e] for s, e, _ in NgramSegmenter(max_words=max_words)(text, frozenset(frequent.split()))]


def test_english() -> None:
    expected = ["old", "old bank", "old bank on the river", "bank", "bank on the river", "river"]
    assert phrases("The old bank on the river.", "the on") == expected
    assert phrases("The old bank on the river.", "the on", max_words=4) == [p for p in expected if len(p.split()) < 5]


def test_german() -> None:
    assert phrases("Er sitzt auf der Bank.", "er auf der") == ["sitzt", "sitzt auf der Bank", "Bank"]


def test_chinese() -> None:
    assert phrases("我坐在银行里。", "里") == ["我", "我坐在", "我坐在银行", "坐在", "坐在银行", "银行"]


def test_japanese() -> None:
    result = phrases("銀行の前で会った。", "の で た", max_words=3)
    assert {"銀行", "銀行の前", "前"} <= set(result)
    assert not {"の", "銀行の", "の前", "で"} & set(result)


def test_spans_are_sorted_and_have_a_score_of_one() -> None:
    spans = NgramSegmenter()("one two three")
    assert spans == sorted(spans)
    assert spans == [Span(*pair, 1.0) for pair in ((0, 3), (0, 7), (0, 13), (4, 7), (4, 13), (8, 13))]


@pytest.mark.parametrize("most", [1, 2, 3, 9])
def test_max_words(most: int) -> None:
    words = 6
    result = phrases("a1 b2 c3 d4 e5 f6", max_words=most)
    assert len(result) == sum(max(0, words - n + 1) for n in range(1, most + 1))
    assert max(len(phrase.split()) for phrase in result) == min(most, words)
    with pytest.raises(InputError, match="max_words: 0; expected 1 or more"):
        NgramSegmenter(max_words=0)


@pytest.mark.parametrize(
    ("text", "joined"),
    [
        ("red house", True),
        ("red  \u00a0 house", True),
        ("red-house", True),
        ("red – house", True),
        ("red & house", True),
        ("red/house", True),
        ("red, house", False),
        ("red. House", False),
        ("red (house", False),
        ("red: house", False),
        ("red -- house", False),
        ("red“ house", False),
        ("紅。家", False),
    ],
)
def test_punctuation_between_words(text: str, joined: bool) -> None:
    assert (text in phrases(text)) == joined


@given(text=st.text(" \u00a0\t\u3000\u200b-‐–'’/&+·a", max_size=8))
def test_joints(text: str) -> None:
    written_out = re.fullmatch(r"[\s\u00a0]*[-‐‑–'’/&+·]?[\s\u00a0]*", text)
    assert (JOINT.fullmatch(text) is None) == (written_out is None)


def test_a_gap_costs_its_length() -> None:
    start = process_time()
    assert phrases("one" + " " * 20_000 + "(two") == ["one", "two"]
    assert process_time() - start < 0.5


def test_numbers() -> None:
    assert phrases("12 34 and 5") == ["12 34 and", "12 34 and 5", "34 and", "34 and 5", "and", "and 5"]
    assert phrases("12 34") == []
    assert phrases("2nd room") == ["2nd", "2nd room", "room"]


@pytest.mark.parametrize("text", ["", " \n", "…", "?!", "👍", "\u0301", "the", "The THE"])
def test_nothing_to_find(text: str) -> None:
    assert phrases(text, "the") == []


def test_frequent_words_are_case_folded_and_at_the_ends_only() -> None:
    assert phrases("STRASSE der Straße", "der") == ["STRASSE", "STRASSE der Straße", "Straße"]
    assert phrases("Straße der STRASSE", "strasse") == ["der"]  # ß folds to ss
    common = NgramSegmenter({"der"})("Haus der Kunst")
    assert common == NgramSegmenter()("Haus der Kunst", {"der"})


@given(text=st.text("ab1 .,的銀-'", max_size=20), frequent=st.sets(st.sampled_from(["a", "b", "的"])))
@settings(max_examples=80, deadline=None)
def test_what_holds_for_any_text(text: str, frequent: set[str]) -> None:
    for start, end, score in NgramSegmenter()(text, frequent):
        phrase = text[start:end]
        assert phrase[0].isalnum()
        assert phrase[-1].isalnum()
        assert any(map(str.isalpha, phrase))
        assert phrase.casefold() not in frequent
        assert score == 1


def test_frequent_words_arithmetic() -> None:
    counter = FrequentWords()
    counter.update("The the THE. " * 100)  # 300
    counter.update("one " * 600)
    assert counter.words() == []  # 900 words: too few to tell
    counter.update("rare " * 4 + "rarer " * 3 + "x" * 5 + " y" * 92)  # 1,000 in all
    assert counter.counts.total() == 300 + 600 + 4 + 3 + 1 + 92
    assert counter.words() == ["one", "the", "y", "rare"]  # 4 of 1,000 is the rate
    assert counter.words(rate=0.003) == ["one", "the", "y", "rare", "rarer"]
    assert counter.words(rate=0.3) == ["one", "the"]
    assert counter.words(most=1) == ["one"]


def test_common_pieces() -> None:
    vocabulary = [
        ("<s>", 0.0),
        ("▁Eine", -9.4),  # -9.6 is where words of content begin
        ("▁time", -10.0),
        ("ing", -5.0),  # inside a word
        ("の", -7.8),
        ("時", -9.5),  # -9 in unspaced scripts
        ("▁在", -9.2),
    ]
    assert common_pieces(vocabulary) == common_pieces(dict(vocabulary)) == {"eine", "の", "在"}
