"""Keyword-in-context lines: width, alignment, wide characters, hostile text."""

from __future__ import annotations

import io

import pytest
from cli_fakes import FakeResult, bench
from rich.cells import cell_len
from rich.console import Console

from phrasemate.cli.render import facts, kwic, marked, print_results
from phrasemate.cli.shell import clean, count
from phrasemate.results import Group, Result
from phrasemate.types import Hit, Phrase


def hit(context: str, phrase: str, document: str = "a.txt", line: int = 1) -> Hit:
    start = context.index(phrase)
    return Hit(Phrase(context, start, start + len(phrase)), 0.9, document, line)


LONG = "word " * 60
HITS = [
    hit("short match here", "match"),
    hit(f"{LONG}match {LONG}", "match"),
    hit(f"match {LONG}", "match"),
    hit("他坐在公园的长椅上" * 20 + "match" + "读报纸" * 40, "match"),
    hit(LONG, LONG.strip()),
    hit(f"then {LONG}came", LONG.strip()),  # no room for what stands to its right
    hit("match", "match", document="folder/" * 20 + "name.txt", line=123456),
]


@pytest.mark.parametrize("width", [-5, 0, 3, 20])
@pytest.mark.parametrize("hit", HITS, ids=range(len(HITS)))
def test_a_line_of_the_narrowest_terminal(hit: Hit, width: int) -> None:
    assert 24 <= cell_len(kwic(hit, width).plain) <= 24 + 2 + max(width // 4, 0)


@pytest.mark.parametrize("width", [60, 80, 133])
@pytest.mark.parametrize("hit", HITS, ids=range(len(HITS)))
def test_a_line_fills_the_width_exactly(hit: Hit, width: int) -> None:
    line = kwic(hit, width)
    assert cell_len(line.plain) == width
    assert line.plain.endswith(f":{hit.line}")


def test_matches_stand_below_each_other() -> None:
    columns = {cell_len(kwic(hit, 100).plain.split("match")[0]) for hit in HITS[:3]}
    assert columns == {int((100 - len("a.txt:1") - 2) * 0.4)}


def test_the_match_is_what_is_highlighted() -> None:
    line = kwic(HITS[1], 80)
    (span,) = [span for span in line.spans if span.style == "bold green"]
    assert line.plain[span.start : span.end] == "match"


def test_marks_and_controls() -> None:
    phrase = Phrase("a\tb\x1b[31mc\nd", 2, 3)
    assert marked(phrase).plain == "a [[b]] [31mc d"
    assert marked(phrase, "bold").plain == "a b [31mc d"
    assert len(clean(phrase.context)) == len(phrase.context)


def test_colours_on_a_terminal_only() -> None:
    result = FakeResult("q", Phrase("auf der Bank", 8, 12), (bench(),))
    screen, pipe = io.StringIO(), io.StringIO()
    print_results(Console(file=screen, force_terminal=True, width=80, color_system="standard", _environ={}), [result])
    print_results(Console(file=pipe, width=80, _environ={}), [result])
    assert "\x1b[1;36mbench\x1b[0m" in screen.getvalue()
    assert "\x1b" not in pipe.getvalue()
    assert "He sat on the [[bench]] all day.  (park.txt:7)" in pipe.getvalue()


def test_text_that_looks_like_markup_stays() -> None:
    result = FakeResult("q", Phrase("[bold]x[/bold]", 6, 7), ())
    pipe = io.StringIO()
    print_results(Console(file=pipe, width=80, _environ={}), [result])
    assert pipe.getvalue() == "[bold][[x]][/bold]\n     nothing found\n\n"


def test_counts() -> None:
    assert [count(n, "hit") for n in (0, 1, 1200)] == ["0 hits", "1 hit", "1,200 hits"]


def test_facts_are_never_cut() -> None:
    lines = facts({"model_hash": "ab" * 99, "none": (), "files": {"a": 1000, "": 2}, "rate": 0.5, "ok": True})
    assert [line.split() for line in lines.plain.splitlines()] == [
        ["model", "hash", "ab" * 99],
        ["none", "-"],
        ["files", "a", "1,000,", "(none)", "2"],
        ["rate", "0.5"],
        ["ok", "true"],
    ]


def test_long_lists_are_counted() -> None:
    assert facts({"words": ["w"] * 500}).plain == "words  " + ", ".join("w" * 12) + " ... (500 in all)"


@pytest.mark.parametrize(("sure", "message"), [(None, False), (0.0, True), (0.199, True), (0.2, False), (1.0, False)])
def test_a_doubtful_answer_says_so(sure: float | None, message: bool) -> None:
    groups = (Group("bank", 0.9, 1, (hit("a bank", "bank"),)),)
    pipe = io.StringIO()
    print_results(Console(file=pipe, width=80, _environ={}), [Result("q", Phrase("auf der Bank", 8, 12), groups, sure)])
    assert ("probably no equivalent" in pipe.getvalue()) == message
    assert "bank  0.900" in pipe.getvalue()


def test_answers_in_several_languages_name_theirs() -> None:
    english, french = (
        Group(text, 0.9, 1, (), source="lexicon", language=language)
        for text, language in (("bench", "en"), ("banc", "fr"))
    )
    lines = []
    for groups in ((english, french), (english,)):
        pipe = io.StringIO()
        print_results(Console(file=pipe, width=80, _environ={}), [Result("q", Phrase("Bank", 0, 4), groups)])
        lines.append([line for line in pipe.getvalue().splitlines() if "0.900" in line])
    assert lines[0] == ["  1. bench  0.900, 1 time, lexicon, en", "  2. banc  0.900, 1 time, lexicon, fr"]
    assert lines[1] == ["  1. bench  0.900, 1 time, lexicon"]
