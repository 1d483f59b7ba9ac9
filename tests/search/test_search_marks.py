"""The [[ ]] marks of a query, taken out and put in."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phrasemate.errors import QueryError
from phrasemate.query import marked, parse_query


@pytest.mark.parametrize(
    ("query", "text", "phrases"),
    [
        ("Er sitzt auf der [[Bank]].", "Er sitzt auf der Bank.", ["Bank"]),
        ("[[all of it]]", "all of it", ["all of it"]),
        ("[[a]] b [[c]]", "a b c", ["a", "c"]),
        ("[[a]][[b]]", "ab", ["a", "b"]),
        ("on the [[ old bank\t]] there", "on the  old bank\t there", ["old bank"]),
        ("[[\u3000银行\u00a0]]", "\u3000银行\u00a0", ["银行"]),
        ("[[“bank”]]", "“bank”", ["“bank”"]),
        ("half[[way]]s", "halfways", ["way"]),
        ("😀 [[Bank 🏦]] 😀", "😀 Bank 🏦 😀", ["Bank 🏦"]),
        ("[[𝔅𝔞𝔫𝔨]]", "𝔅𝔞𝔫𝔨", ["𝔅𝔞𝔫𝔨"]),
        ("two\n[[lines\nhere]]", "two\nlines\nhere", ["lines\nhere"]),
        ("Das [[Erd-\nbeben]] war [[stark]].", "Das Erdbeben war stark.", ["Erdbeben", "stark"]),
        ("ge-\r\n  kauft von [[der Erd-\nbeben-\nhilfe]]", "gekauft von der Erdbebenhilfe", ["der Erdbebenhilfe"]),
        ("[[माता-\nपिता]] आए।", "माता-पिता आए।", ["माता-पिता"]),
        ("[[pre-\nand]] post-war", "pre-\nand post-war", ["pre-\nand"]),
        ("[[E-\nmail]], not e-mail", "E-mail, not e-mail", ["E-mail"]),
        ("[[10-\njährig]] -\nso", "10-\njährig -\nso", ["10-\njährig"]),
        (r"\[[not]] [[this]]".replace("]] [[", r"\]] [["), "[[not]] this", ["this"]),
        (r"[[a \[[ b]]", "a [[ b", ["a [[ b"]),
        (r"[[a\]] b]]", "a]] b", ["a]] b"]),
        (r"\ [[a\b]] \n", r"\ a\b \n", [r"a\b"]),
        ("a[0] = [1] [[x]]", "a[0] = [1] x", ["x"]),
        ("[[[x]]]", "[x]", ["x"]),
        (r"C:\\[[Programme]]\Bank", r"C:\Programme\Bank", ["Programme"]),
        (r"\\\\server\\[[Bank]]", r"\\\\server\Bank", ["Bank"]),
        (r"\\\[[ [[a\\]]", "\\[[ a\\", ["a\\"]),
        (r"\[[[[x]]\]]", "[[x]]", ["x"]),
        ("nothing marked", "nothing marked", []),
        ("", "", []),
    ],
)
def test_marks(query: str, text: str, phrases: list[str]) -> None:
    parsed = parse_query(query)
    assert parsed.text == text
    assert [phrase.text for phrase in parsed.phrases] == phrases
    assert {phrase.context for phrase in parsed.phrases} <= {text}


def test_offsets_count_in_the_text_without_marks() -> None:
    (first, second) = parse_query("😀 [[ab]] \\[[ [[ cd ]]!").phrases  # "😀 ab [[  cd !"
    assert (first.start, first.end) == (2, 4)
    assert (second.start, second.end) == (9, 11)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("auf der [[Bank", "unclosed [["),
        ("auf der Bank]]", "]] without [["),
        ("]]Bank[[", "]] without [["),
        ("[[a]] b]]", "]] without [["),
        ("[[auf [[der]] Bank]]", "[[ inside [[ ]]"),
        ("[[", "unclosed [["),
        (r"[[a\]]", "unclosed [["),
        (r"\[[a]]", "]] without [["),
        ("[[[[a]]]]", "[[ inside [[ ]]"),
        ("[[a]]]]", "]] without [["),
        ("[[]] Bank", "'' has no letter or digit"),
        ("[[ \n ]] Bank", r"' \n ' has no letter or digit"),
        ("Bank[[...]]", "'...' has no letter or digit"),
        ("[[Bank]] [[👍\u0301]]", "has no letter or digit"),
    ],
)
def test_marks_that_make_no_sense(query: str, expected: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse_query(query)
    message = str(caught.value)
    assert expected in message
    assert repr(query) in message
    assert message.endswith(r"mark one phrase or several as [[phrase]]; write \[[ or \]] for literal brackets")
    assert "\n" not in message


@given(parts=st.lists(st.text(st.sampled_from("ab 😀é\n.")), min_size=3, max_size=9))
def test_marks_come_out_and_nothing_else(parts: list[str]) -> None:
    """Every second part is marked, with a letter in it; the text is the parts side by side."""
    parts = [f"{part}x" if number % 2 else part for number, part in enumerate(parts)]
    query = "".join(f"[[{part}]]" if number % 2 else part for number, part in enumerate(parts))
    parsed = parse_query(query)
    assert parsed.text == "".join(parts)
    for number, phrase in enumerate(parsed.phrases):
        before = sum(map(len, parts[: 2 * number + 1]))
        assert phrase.text == parts[2 * number + 1].strip()
        assert phrase.start - before == len(parts[2 * number + 1]) - len(parts[2 * number + 1].lstrip())
    assert len(parsed.phrases) == len(parts) // 2


@given(text=st.text(st.sampled_from("a\\[] ")))
def test_any_query_is_parsed_or_refused(text: str) -> None:
    try:
        parsed = parse_query(text)
    except QueryError:
        return
    assert len(parsed.text) <= len(text)
    assert all(phrase.text == phrase.text.strip() != "" for phrase in parsed.phrases)


@pytest.mark.parametrize(
    ("text", "phrase", "query"),
    [
        ("Er saß auf der Bank.", "Bank", "Er saß auf der [[Bank]]."),
        ("[Bank] und [[Bank]]", "Bank", r"[Bank] und \[[[[Bank]]\]]"),
        ("a [[x]] Bank [[y]]", "Bank", r"a \[[x\]] [[Bank]] \[[y\]]"),
        (r"C:\Bank", "Bank", r"C:\\[[Bank]]"),
        (r"\\server\x", "x", r"\\server\\[[x]]"),
        (r"\[x\]", "x", r"\\[[[x]]\]"),
        ("[[[x]]]", "x", r"\[[[[[x]]\]]]"),
        ("x[0]", "x", "[[x]][0]"),
        ("a [x] b", "[x]", "a [[ [x] ]] b"),
    ],
)
def test_a_phrase_is_marked(text: str, phrase: str, query: str) -> None:
    start = text.rindex(phrase)
    assert marked(text, start, start + len(phrase)) == query
    (result,) = parse_query(query).phrases
    assert result.text == phrase
    assert result.context.replace(" ", "") == text.replace(" ", "")


SIGNS = "a[]\\ "


@given(st.text(SIGNS, max_size=12), st.text("ab[]\\", max_size=8), st.text(SIGNS, max_size=12))
def test_marking_and_parsing_undo_each_other(before: str, phrase: str, after: str) -> None:
    if not any(map(str.isalnum, phrase)):
        return
    text, start, end = before + phrase + after, len(before), len(before) + len(phrase)
    (result,) = parse_query(marked(text, start, end)).phrases
    assert result.text == phrase
    if phrase.startswith("[") or phrase.endswith("]"):
        assert result.context.replace(" ", "") == text.replace(" ", "")
    else:
        assert (result.context, result.start, result.end) == (text, start, end)


@pytest.mark.parametrize("sign", ["\\", "[ ", "\\[", "] ", "[a"])
def test_long_runs_take_no_longer_than_other_text(sign: str) -> None:
    """Quadratic time would be minutes."""
    text = sign * 100_000
    start = time.process_time()
    assert parse_query(text).text == text
    query = marked(text + "x" + text, len(text), len(text) + 1)
    assert parse_query(query).text == text + "x" + text
    assert time.process_time() - start < 5
