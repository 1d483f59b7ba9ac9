"""``phrasemate search``: where queries come from, how answers go out."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cli_fakes import Library, bench

Invoke = Callable[..., Any]
QUERY = "Er sitzt auf der [[Bank]]."


def test_plain_answer_in_a_pipe(invoke: Invoke, library: Library) -> None:
    result = invoke("search", "idx", QUERY)
    assert result.stdout == (
        "Er sitzt auf der [[Bank]].\n"
        "  1. bench  0.912, 3 times\n"
        "      He sat on the [[bench]] all day.  (park.txt:7)\n"
        "\n"
    )
    assert "\t" not in result.stdout
    assert "\x1b" not in result.stdout


def test_options_are_handed_on(invoke: Invoke, library: Library) -> None:
    options = ["-k", "3", "--contexts", "1", "--document", "a", "--document", "b", "--language", "en"]
    assert invoke("search", "idx", *options, "--threads", "1", "--model", "m", QUERY).exit_code == 0
    assert library.searcher.requests == {"k": 3, "contexts": 1, "documents": ["a", "b"], "languages": ["en"]}
    assert library.models == [(Path("m"), 1)]
    assert library.index.calls[0] == ("open", "idx", "a model", True)


def test_a_quick_search_looks_at_nothing_again(invoke: Invoke, library: Library) -> None:
    for options in ([], ["--quick"]):
        assert invoke("search", "idx", *options, QUERY).exit_code == 0
    assert library.views == [True, False]


def test_dictionaries_are_opened_and_the_lexicon_can_be_left_out(
    invoke: Invoke, library: Library, tmp_path: Path
) -> None:
    (tmp_path / "mine.tsv").write_text("Bank\tbench\n", "utf-8")
    for options in (["--dictionary", str(tmp_path / "mine.tsv")], ["--no-lexicon"]):
        assert invoke("search", "idx", *options, QUERY).exit_code == 0
    assert library.lexicons == [(["mine.tsv"], True), ([], False)]


def test_explaining_says_what_speaks_for_a_group(
    invoke: Invoke, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    import cli_fakes

    group = replace(
        bench(),
        probability=0.5,
        source="mine",
        reasons={"meaning by itself": 0.7, "same wording": 0.01, "length and frequency": -0.9, "dictionary": 1.25},
    )
    monkeypatch.setattr(cli_fakes, "bench", lambda: group)
    lines = invoke("search", "idx", "--explain", QUERY).stdout.splitlines()
    expected = "for: dictionary +1.2, meaning by itself +0.7; against: length and frequency -0.9"
    assert lines[lines.index("  1. bench  50%, 3 times, mine") + 1].strip() == expected
    monkeypatch.setattr(cli_fakes, "bench", lambda: replace(group, reasons={}))  # without a scorer
    lines = invoke("search", "idx", "--explain", QUERY).stdout.splitlines()
    assert lines[2].strip() == "for: the similarity of its vectors alone"


def test_without_filters_none_is_handed_on(invoke: Invoke, library: Library) -> None:
    invoke("search", "idx", QUERY)
    assert library.index.calls[0] == ("open", "idx", None, True)  # an index knows its model
    assert library.searcher.requests == {"k": 10, "contexts": 5, "documents": None, "languages": None}


@pytest.mark.parametrize("arguments", [[], ["-"]])
def test_queries_from_standard_input(invoke: Invoke, library: Library, arguments: list[str]) -> None:
    stdin = "\ufeff[[Bank]] eins\n\n  [[Bänke]] zwei  \r\n"
    result = invoke("search", "idx", "--json", *arguments, stdin=stdin.encode())
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert [answer["query"] for answer in answers] == ["[[Bank]] eins", "[[Bänke]] zwei"]
    assert library.searcher.batches == [["[[Bank]] eins", "[[Bänke]] zwei"]]


def test_standard_input_goes_in_batches_and_each_query_once(
    invoke: Invoke, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("phrasemate.cli.search.BATCH", 2)
    result = invoke("search", "idx", "--json", stdin="[[a]]\n[[a]]\n[[b]]\n")
    assert library.searcher.batches == [["[[a]]"], ["[[b]]"]]
    assert [json.loads(line)["query"] for line in result.stdout.splitlines()] == ["[[a]]", "[[a]]", "[[b]]"]


def test_json_has_one_line_for_each_query(invoke: Invoke, library: Library) -> None:
    result = invoke("search", "idx", "--json", "zwei Wörter", QUERY)
    assert [json.loads(line) for line in result.stdout.splitlines()] == [
        {"query": "zwei Wörter", "results": [{"phrase": "zwei", "groups": []}, {"phrase": "Wörter", "groups": []}]},
        {"query": QUERY, "results": [{"phrase": "Bank", "groups": ["bench"]}]},
    ]
    assert "Wörter" in result.stdout  # not \u00f6


def test_without_marks_every_proposed_phrase_is_answered(invoke: Invoke, library: Library) -> None:
    lines = invoke("search", "idx", "zwei Wörter").stdout.splitlines()
    assert [line for line in lines if "[[" in line] == ["[[zwei]] Wörter", "zwei [[Wörter]]"]


def test_a_query_in_which_nothing_is_proposed(
    invoke: Invoke, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library.searcher, "answers", lambda query: iter(()))
    assert invoke("search", "idx", "[x] und").stdout == "no phrase proposed in: [x] und\n"
    assert invoke("search", "idx", stdin=":m: \x1b[2J").stdout == "no phrase proposed in: :m:  [2J\n"
    assert json.loads(invoke("search", "idx", "und", "--json").stdout) == {"query": "und", "results": []}


def test_bad_marks_and_bad_bytes_are_errors(invoke: Invoke, library: Library) -> None:
    result = invoke("search", "idx", "auf der [[Bank")
    assert (result.exit_code, result.stderr) == (1, "error: unbalanced marks in 'auf der [[Bank'\n")
    result = invoke("search", "idx", b"[[schl\xe4cht]]".decode("utf-8", "surrogateescape"))
    assert result.stderr.startswith("error: the query '[[schl\\udce4cht]]' is not UTF-8")
    result = invoke("search", "idx", stdin=b"[[gut]]\n[[schl\xe4cht]]\n")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: standard input, line 2: not UTF-8 ")


@pytest.mark.parametrize(("bad", "reason"), [(b"Die [[Bank", "unclosed [["), (b"[[schl\xe4cht]]", "not UTF-8")])
def test_queries_before_a_bad_one_are_answered_and_its_line_is_named(
    invoke: Invoke, library: Library, bad: bytes, reason: str
) -> None:
    result = invoke("search", "idx", "--json", stdin=b"[[a]]\n\n[[b]]\n" + bad + b"\n[[c]]\n")
    assert [json.loads(line)["query"] for line in result.stdout.splitlines()] == ["[[a]]", "[[b]]"]
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error: standard input, line 4: {reason}")


@pytest.mark.parametrize("query", ["", "  "])
def test_an_empty_query_is_an_error(invoke: Invoke, library: Library, query: str) -> None:
    result = invoke("search", "idx", query)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "error: an empty query; expected a sentence, with a phrase in [[ ]] or without\n"
