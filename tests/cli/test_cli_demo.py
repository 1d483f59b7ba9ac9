"""``phrasemate demo``: ticks, counts and JSON; and the arithmetic of the public functions behind it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cli_fakes import FakeResult, Library, bench

from phrasemate import demo
from phrasemate.types import Phrase

Invoke = Callable[..., Any]
QUESTIONS = [
    demo.Question("de", "auf der [[Bank]]", ("a bench", " Bench")),
    demo.Question("de", "bei der [[Bank]]", ("bank",), "money"),
    demo.Question("fr", "sur le [[banc]]", ("bench",)),
]


def answers() -> list[demo.Answer]:
    results = [FakeResult(q.query, Phrase("auf der Bank", 8, 12), (bench(),)) for q in QUESTIONS]
    return [demo.Answer(q, result) for q, result in zip(QUESTIONS, results, strict=True)]  # type: ignore[arg-type]


@pytest.fixture
def folders(library: Library, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The demo with three questions; lists where it built its index."""
    built: list[Path] = []

    def build(path: Path) -> Any:
        built.append(path)
        return library.index

    monkeypatch.setattr(demo, "build", build)
    monkeypatch.setattr(demo, "ask", lambda index: answers())
    return built


def test_rank_is_the_first_expected_wording_whatever_its_case() -> None:
    assert [answer.rank for answer in answers()] == [1, None, 1]
    assert (demo.first(answers()), demo.first(answers(), "de"), demo.first(answers(), "fr")) == (2, 1, 1)


def test_probabilities_are_percent(invoke: Invoke, folders: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    result = FakeResult("a [[b]]", Phrase("a b", 2, 3), (replace(bench(), probability=0.967),))
    monkeypatch.setattr(demo, "ask", lambda index: [demo.Answer(QUESTIONS[0], result)])  # type: ignore[arg-type]
    assert "bench (97%)" in invoke("demo", "--dir", "kept").stdout


def test_the_page(invoke: Invoke, folders: list[Path]) -> None:
    page = invoke("demo", "--dir", "kept").stdout
    assert folders == [Path("kept")]
    assert "German: 1 of 2 first" in page
    assert "French: 1 of 1 first" in page
    assert [line.strip()[0] for line in page.splitlines() if "[[" in line and line[0] == " "] == ["✓", "✗", "✓"]
    assert page.count("bench (0.91)") == 3
    assert "expected: bank\n" in page
    assert "2 of 3 answered" in page
    assert "phrasemate search kept " in page
    page = invoke("demo", "--dir", "it's [b] :dog:").stdout
    assert (
        page.splitlines()[-1]
        == """ask more: phrasemate search 'it'"'"'s [b] :dog:' "Er sitzt auf der [[Bank]]." """.strip()
    )


def test_without_a_folder_nothing_stays(invoke: Invoke, folders: list[Path]) -> None:
    assert "phrasemate search" not in invoke("demo").stdout
    assert not folders[0].parent.exists()


def test_json(invoke: Invoke, folders: list[Path]) -> None:
    document = json.loads(invoke("demo", "--json").stdout)
    assert document["first"] == {"de": 1, "fr": 1}
    assert (document["first_in_all"], document["asked"]) == (2, 3)
    assert document["answers"][1] == {
        "language": "de",
        "query": "bei der [[Bank]]",
        "expected": ["bank"],
        "note": "money",
        "rank": None,
        "groups": [{"text": "bench", "score": 0.912}],
    }


def test_the_bundled_questions_are_whole() -> None:
    questions = demo.questions()
    assert len(questions) == 40
    assert len({question.language for question in questions}) == 6
    assert len(demo.sample()) >= 300
    assert all(q.query.count("[[") == q.query.count("]]") == 1 and q.expected for q in questions)
