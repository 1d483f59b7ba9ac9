"""The learned segmenter against a plain double loop, and its choice of disjoint spans against trying all choices."""

from __future__ import annotations

import math
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from phrasemate.encode import LearnedSegmenter
from phrasemate.encode import segmenter as learned
from phrasemate.encode.pooling import token_rows
from phrasemate.encode.runtime import States
from phrasemate.encode.segmenter import ALWAYS, LETTER, NgramSegmenter, Spans, disjoint, sigmoid
from phrasemate.errors import InputError
from phrasemate.text import words
from phrasemate.text.japanese import stem_length
from phrasemate.types import Span

WIDTH = 3
PARTS = [*"ab1½ .,的銀行我知っている食べ高い-'\u0301\n", " give up", "gave up ", " up", "took  off"]
TEXTS = st.lists(st.lists(st.sampled_from(PARTS), max_size=14).map("".join), max_size=5)
PHRASAL = {"give up", "gave up"}  # of the texts; two spaces separate the parts of another verb


def whole(values: list[int]) -> np.ndarray:
    """Small whole numbers: every sum of products is exact, in whatever order."""
    return np.array(values, np.float32)


def states_of(texts: list[str], seed: int) -> States:
    """Random states, and tokens of 1 to 4 characters at random; white space is not of any, nor is every sixth."""
    draw = np.random.default_rng(seed)
    bounds, offsets = [0], []
    for text in texts:
        cuts = sorted({0, len(text), *np.cumsum(draw.integers(1, 5, len(text))).clip(max=len(text)).tolist()})
        pieces = [(a, b) for a, b in pairwise(cuts) if text[a:b].strip() and draw.random() > 1 / 6]
        trimmed = [(b - len(text[a:b].lstrip()), a + len(text[a:b].rstrip())) for a, b in pieces]
        offsets += [(0, 0), *trimmed, (len(text), len(text))]
        bounds.append(len(offsets))
    table = np.array(offsets, np.int32).reshape(-1, 2)
    values = draw.integers(-2, 3, (len(offsets), WIDTH)).astype(np.float32)
    return States(values, np.array(bounds), table[:, 0], table[:, 1])


def tokens_of(states: States, text: int, start: int, end: int) -> tuple[int, int]:
    """First and last token that overlap a span, looked for one by one."""
    rows = range(int(states.bounds[text]), int(states.bounds[text + 1]))
    first = next((row for row in rows if states.ends[row] > start), rows[-1])
    last = max((row for row in rows if states.starts[row] < end), default=first)
    return first, max(first, last)


def by_hand(segmenter: LearnedSegmenter, texts: list[str], states: States) -> list[list[Span]]:
    results: list[list[Span]] = []
    for number, text in enumerate(texts):
        spans, word_spans = [], words(text)
        tokens = [tokens_of(states, number, *word) for word in word_spans]
        for i, (start, _) in enumerate(word_spans):
            for j in range(i, len(word_spans)):
                end = word_spans[j][1]
                first, last = tokens[i][0], tokens[j][1]
                stem_end = word_spans[j][0] + stem_length(text[slice(*word_spans[j])])
                last_of_stem = tokens_of(states, number, word_spans[j][0], stem_end)[1]
                value = max(float(states.values[row] @ segmenter.end) for row in (last, last_of_stem))
                logit = float(states.values[first] @ segmenter.start) + value
                logit += segmenter.bias[min(j - i, len(segmenter.bias) - 1)]
                if (i == j and stem_end < end) or (j == i + 1 and text[start:end] in PHRASAL):
                    logit = max(logit, ALWAYS)
                score = 1 / (1 + math.exp(-logit))
                short = segmenter.max_words is None or j - i < segmenter.max_words
                if (
                    short
                    and score >= segmenter.threshold
                    and any(LETTER.search(text, *word) for word in word_spans[i : j + 1])
                ):
                    spans.append(Span(start, end, score))
        results.append(spans)
    return results


def same(result: Spans, expected: list[list[Span]]) -> None:
    lists = result.lists()
    assert [[span[:2] for span in spans] for spans in lists] == [[span[:2] for span in spans] for spans in expected]
    scores = [span.score for spans in expected for span in spans]
    np.testing.assert_allclose(result.scores, scores, rtol=1e-6)
    assert lists == [sorted(spans) for spans in lists]


@given(
    texts=TEXTS,
    seed=st.integers(0, 1_000),
    weights=st.lists(st.integers(-2, 2), min_size=2 * WIDTH, max_size=2 * WIDTH),
    bias=st.lists(st.integers(-3, 3), min_size=1, max_size=4),
    threshold=st.sampled_from([0, 0.3, 0.7, 0.9]),
    most=st.sampled_from([None, 1, 2, 6]),
)
@example(texts=["我は知っている", "食べる高い"], seed=0, weights=[1, -1, 0, 2, 0, -2], bias=[-3], threshold=0.7, most=6)
@example(texts=[], seed=0, weights=[1] * 6, bias=[0], threshold=0, most=None)
@example(texts=["", "...", "b"], seed=0, weights=[1] * 6, bias=[0], threshold=0, most=None)
@settings(max_examples=150, deadline=None)
def test_any_text(
    texts: list[str], seed: int, weights: list[int], bias: list[int], threshold: float, most: int
) -> None:
    segmenter = LearnedSegmenter(whole(weights[:WIDTH]), whole(weights[WIDTH:]), whole(bias), threshold, most)
    states = states_of(texts, seed)
    same(segmenter.find(texts, states), by_hand(segmenter, texts, states))


@given(texts=TEXTS, seed=st.integers(0, 1_000), data=st.data())
@settings(max_examples=80, deadline=None)
def test_token_rows_of_a_block(texts: list[str], seed: int, data: st.DataObject) -> None:
    states = states_of(texts, seed)
    spans = [
        (number, *sorted(data.draw(st.lists(st.integers(0, len(text)), min_size=2, max_size=2, unique=True))))
        for number, text in enumerate(texts)
        if text
    ]
    table = np.array(spans, np.int64).reshape(-1, 3).T
    first, last = token_rows(states, table[0], table[1].astype(np.int32), table[2].astype(np.int32))
    assert list(zip(first, last, strict=True)) == [tokens_of(states, *span) for span in spans]
    for span, *rows in zip(spans, first, last, strict=True):
        assert [int(row[0]) for row in token_rows(states, span[0], *np.array([span[1:]], np.int32).T)] == rows


def worked(**options: float | bool | None) -> list[tuple[str, float]]:
    """Word 1, 2, 3, ... as a start has 1, 2, 3 ..., as an end -2, -4, -6 ...; the bias is 3."""
    text = "one two, three 4"
    result = words(text)
    offsets = np.array([(0, 0), *result, (len(text), len(text))], np.int32)
    values = np.arange(len(offsets), dtype=np.float32)[:, None]
    states = States(values, np.array([0, len(offsets)]), offsets[:, 0], offsets[:, 1])
    segmenter = LearnedSegmenter(whole([1]), whole([-2]), whole([3])).using(**options)  # type: ignore[arg-type]
    ((*spans,),) = segmenter.find([text], states).lists()
    return [(text[s:e], round(score, 6)) for s, e, score in spans]


def probability(logit: float) -> float:
    return round(1 / (1 + math.exp(-logit)), 6)


def test_worked_example() -> None:
    expected = [
        ("one", probability(1 - 2 + 3)),
        ("one two", probability(1 - 4 + 3)),
        ("one two, three", probability(1 - 6 + 3)),
        ("one two, three 4", probability(1 - 8 + 3)),
        ("two", probability(2 - 4 + 3)),
        ("two, three", probability(2 - 6 + 3)),
        ("two, three 4", probability(2 - 8 + 3)),
        ("three", probability(3 - 6 + 3)),
        ("three 4", probability(3 - 8 + 3)),
    ]  # and "4", which has no letter
    assert worked(threshold=0) == expected
    assert worked() == [expected[0], expected[4]]  # logits 2 and 1: .88 and .73; the next is 0: .5
    assert worked(threshold=0.5) == [expected[i] for i in (0, 1, 4, 7)]
    assert worked(threshold=0, max_words=2) == [expected[i] for i in (0, 1, 4, 5, 7, 8)]
    assert worked(threshold=1) == []


def test_disjoint_worked_example() -> None:
    """Of the spans "one" (.88), "one two" (.5), "two" (.73), "three" (.5) and so on those of the best total."""
    result = worked(threshold=0.4, overlapping=False)
    assert [text for text, _ in result] == ["one", "two", "three"]  # .48 + .33 + .1 against 2 x .1 for "one two"


def best_total(spans: list[tuple[int, int, float]], threshold: float) -> tuple[float, int, int]:
    """By trying every choice: best total, then most words, then fewest spans (negative)."""
    best = (0.0, 0, 0)
    for size in range(1, len(spans) + 1):
        for chosen in combinations(spans, size):
            covered = [word for first, last, _ in chosen for word in range(first, last + 1)]
            if len(covered) == len(set(covered)):
                total = sum((last - first + 1) * (score - threshold) for first, last, score in chosen)
                best = max(best, (total, len(covered), -size))
    return best


SCORES = st.integers(4, 8).map(lambda eighths: eighths / 8)  # exact in binary, and with many ties


@given(st.dictionaries(st.tuples(st.integers(0, 6), st.integers(0, 3)), SCORES, max_size=9))
@settings(max_examples=200, deadline=None)
def test_disjoint_is_the_best_of_all_choices(drawn: dict[tuple[int, int], float]) -> None:
    spans = sorted((first, first + more, score) for (first, more), score in drawn.items())
    first, last = np.array([span[:2] for span in spans], np.int64).reshape(-1, 2).T
    mask = disjoint(first, last, np.array([span[2] for span in spans], np.float32), 0.5)
    assert mask.tolist() == sorted(mask.tolist())
    chosen = [spans[i] for i in mask]
    assert all(one[1] < other[0] for one, other in pairwise(chosen))
    sizes = [last - first + 1 for first, last, _ in chosen]
    total = sum(size * (score - 0.5) for size, (*_, score) in zip(sizes, chosen, strict=True))
    assert (total, sum(sizes), -len(chosen)) == best_total(spans, 0.5)


@pytest.mark.parametrize(
    ("long", "expected"),
    [
        (0.94, [0, 2]),  # 2 x .44 = .88 < .40 + .49: the words are better alone
        (0.96, [1]),  # 2 x .46 = .92 > .89
    ],
)
def test_a_long_span_must_be_worth_it(long: float, expected: list[int]) -> None:
    first, last = np.array([0, 0, 1]), np.array([0, 1, 1])
    assert disjoint(first, last, whole([0.90, long, 0.99]), 0.5).tolist() == expected  # type: ignore[list-item]


def test_equal_spans_give_the_long_one_and_the_threshold_itself_counts() -> None:
    first, last = np.array([0, 0, 1, 2]), np.array([0, 1, 1, 2])
    assert disjoint(first, last, np.full(4, 0.7, np.float32), 0.7).tolist() == [1, 3]
    assert disjoint(first, last, np.ones(4, np.float32), 0.0).tolist() == [1, 3]
    assert disjoint(first[:0], last[:0], np.ones(0, np.float32), 0.7).tolist() == []


@given(texts=TEXTS, seed=st.integers(0, 1_000))
@settings(max_examples=60, deadline=None)
def test_no_two_share_a_word(texts: list[str], seed: int) -> None:
    segmenter = LearnedSegmenter(whole([1, -1, 2]), whole([2, 1, -1]), whole([1]), 0.6, None)
    states = states_of(texts, seed)
    every = segmenter.find(texts, states).lists()
    disjoint_ones = segmenter.using(overlapping=False).find(texts, states).lists()
    for spans, chosen in zip(every, disjoint_ones, strict=True):
        assert set(chosen) <= set(spans)
        assert all(one.end <= other.start for one, other in pairwise(chosen))
        assert bool(chosen) == bool(spans)


def test_a_small_table_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a limit the table of a long text would be its length squared; it is made in parts."""
    texts = ["a b c", "", " ".join("word" for _ in range(90)), "的銀行"]
    segmenter = LearnedSegmenter(whole([1, 0, 1]), whole([0, 2, 1]), whole([0, 1, -1]), 0.5, None)
    states = states_of(texts, 3)
    at_once = segmenter.find(texts, states)
    assert len(at_once.starts) > 1_000
    for cells in (1, 7, 200, 4_000):
        monkeypatch.setattr(learned, "CELLS", cells)
        for one, other in zip(at_once, segmenter.find(texts, states), strict=True):
            np.testing.assert_array_equal(one, other)


def test_frequent_words_are_ignored() -> None:
    states = states_of(["the bank"], 0)
    segmenter = LearnedSegmenter(whole([0] * 3), whole([0] * 3), whole([9]))
    assert segmenter.find(["the bank"], states, {"the", "bank"}).lists() == segmenter.find(["the bank"], states).lists()


def test_extreme_logits() -> None:
    with np.errstate(all="raise"):
        values = sigmoid(np.array([-200, -88, 0, 88, 200], np.float32))
    assert values.dtype == np.float32
    np.testing.assert_allclose(values, [0, math.exp(-88), 0.5, 1, 1], rtol=1e-5, atol=1e-44)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"threshold": -0.1}, "threshold: -0.1; expected 0 to 1"),
        ({"threshold": 1.1}, "threshold: 1.1; expected 0 to 1"),
        ({"threshold": float("nan")}, "threshold: nan; expected 0 to 1"),
        ({"max_words": 0}, "max_words: 0; expected 1 or more"),
        ({"max_words": 2.5}, "max_words: 2.5; expected 1 or more"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, float], expected: str) -> None:
    segmenters = (LearnedSegmenter(whole([1]), whole([1]), whole([0])), NgramSegmenter())
    for segmenter in segmenters:
        with pytest.raises(InputError, match=expected):
            segmenter.using(**options)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="unexpected keyword"):
            segmenter.using(treshold=0.5)  # type: ignore[call-arg]


def test_the_n_gram_segmenter_takes_the_same_options() -> None:
    segmenter, text = NgramSegmenter({"the"}), "the old bank on the wide river is shut"
    plain = segmenter.find([text, ""]).lists()
    assert plain == [segmenter(text), []]
    assert segmenter.using(threshold=1).find([text, ""]).lists() == plain
    assert segmenter.using(max_words=1).find([text]).lists()[0] == [s for s in plain[0] if " " not in text[s[0] : s[1]]]
    assert len(segmenter.using(max_words=None)(text)) == 7 * 8 // 2  # 7 words that may begin or end one
    with pytest.raises(InputError, match="the n-gram segmenter has no scores to choose by"):
        segmenter.using(overlapping=False)
