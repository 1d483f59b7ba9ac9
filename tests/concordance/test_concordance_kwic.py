from __future__ import annotations

from dataclasses import replace

import pytest
from kwic_fakes import group, hit, result

from phrasemate.concordance import Line, arranged, clip, column, merged
from phrasemate.errors import InputError


def test_a_line_is_the_sentence_in_three_parts() -> None:
    line = Line("news", hit("He sat on the [[bench]] all day."))
    assert (line.left, line.match, line.right) == ("He sat on the ", "bench", " all day.")
    assert line.left + line.match + line.right == line.hit.context


def test_a_column_keeps_groups_and_confidence() -> None:
    results = column(
        "news", result(group(hit("a [[bench]]", 0.9)), group(hit("a [[seat]]", 0.4), count=7), confidence=0.8)
    )
    assert [(c.text, c.score, c.count, c.lines[0].index) for c in results.candidates] == [
        ("bench", 0.9, 1, "news"),
        ("seat", 0.4, 7, "news"),
    ]
    assert (results.name, results.confidence) == ("news", 0.8)


def test_order_by_score_and_by_count() -> None:
    groups = [group(hit("[[b]]", 0.5), count=3), group(hit("[[a]]", 0.9), count=3), group(hit("[[c]]", 0.1), count=8)]
    results = column("x", result(*groups))
    assert [c.text for c in arranged(results).candidates] == ["a", "b", "c"]
    assert [c.text for c in arranged(results, "count").candidates] == ["c", "a", "b"]  # equal counts by score


def test_what_several_hits_support_comes_first() -> None:
    close, supported = group(hit("[[a]]", 0.9)), replace(group(hit("[[b]]", 0.8)), support=0.95)
    results = column("x", result(supported, close))
    assert [(c.text, c.score, c.support) for c in arranged(results).candidates] == [("b", 0.8, 0.95), ("a", 0.9, 0.9)]
    both = merged([column("x", result(close)), column("y", result(replace(supported, support=0.7), supported))])
    assert [(c.text, c.support) for c in both.candidates] == [("b", 0.95), ("a", 0.9)]


def test_the_left_context_is_compared_from_the_match_outwards() -> None:
    lines = ["on a big [[bank]]", "near the old [[bank]]", "by an old [[bank]]", "[[bank]] first"]
    rows = arranged(column("x", result(group(*map(hit, lines)))), "left")
    # reversed: (), (big a on), (old an by), (old the near)
    assert [line.hit.context for line in rows.candidates[0].lines] == [
        "bank first",
        "on a big bank",
        "by an old bank",
        "near the old bank",
    ]


def test_the_right_context_is_compared_as_it_is_read_and_then_the_left() -> None:
    lines = ["z [[bank]] opens", "[[bank]], Opens", "a [[bank]] opens", "[[bank]] closes"]
    rows = arranged(column("x", result(group(*map(hit, lines)))), "right")
    assert [line.hit.context for line in rows.candidates[0].lines] == [
        "bank closes",
        "a bank opens",
        "z bank opens",
        "bank, Opens",  # capitals after small letters where the words are the same
    ]


def test_contexts_are_in_the_order_of_the_lines_language() -> None:
    def order(language: str) -> list[str]:
        lines = [hit(f"[[x]] {word}", language=language) for word in ("zebra", "ähnlich", "ofen", "öl", "Apfel")]
        rows = arranged(column("i", result(group(*lines))), "right")
        return [line.right.strip() for line in rows.candidates[0].lines]

    assert order("de") == ["ähnlich", "Apfel", "ofen", "öl", "zebra"]
    assert order("sv") == ["Apfel", "ofen", "zebra", "ähnlich", "öl"]


def test_words_of_unspaced_scripts_are_found_for_the_order() -> None:
    lines = [hit("他在北京[[银行]]工作", language="zh"), hit("他在阿里[[银行]]工作", language="zh")]
    rows = arranged(column("i", result(group(*lines))), "left")
    assert [line.left for line in rows.candidates[0].lines] == ["他在阿里", "他在北京"]  # pinyin: a before b


def test_an_unknown_order_is_refused() -> None:
    with pytest.raises(InputError, match="'sideways'; expected one of score, count, left, right"):
        arranged(column("x", result()), "sideways")


def test_indexes_as_one() -> None:
    one = column("one", result(group(hit("[[Bank]]", 0.7), count=2), group(hit("[[seat]]", 0.6)), confidence=0.3))
    two = column("two", result(group(hit("the  [[bank]]", 0.9), count=3), confidence=0.6))
    results = merged([one, two])
    assert [(c.text, c.score, c.count) for c in results.candidates] == [("bank", 0.9, 2 + 3), ("seat", 0.6, 1)]
    assert [line.index for line in results.candidates[0].lines] == ["two", "one"]  # the closest first
    assert (results.name, results.confidence) == ("one + two", max(0.3, 0.6))
    assert merged([column("a", result())]).confidence is None


@pytest.mark.parametrize(
    ("text", "most", "keep", "expected"),
    [
        ("short", 5, "end", "short"),
        ("one two three", 8, "end", "…three"),
        ("one two three", 9, "end", "…two three"),
        ("one two three", 7, "start", "one two…"),
        ("one two three", 9, "start", "one two…"),
        ("unbroken" * 3, 4, "start", "unbr…"),
        ("unbroken" * 3, 4, "end", "…oken"),
    ],
)
def test_contexts_are_cut_between_words(text: str, most: int, keep: str, expected: str) -> None:
    assert clip(text, most, keep) == expected
