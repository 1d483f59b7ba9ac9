"""``phrasemate concordance`` and ``phrasemate watch``."""

from __future__ import annotations

import json
import webbrowser
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from phrasemate import Document, Index, load_model
from phrasemate.text import read

Invoke = Callable[..., Any]
TEXTS = [
    "The bank took collateral for the loan.",
    "Good collateral is rare.",
    "He sat on a bench.",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("concordance") / "idx"
    with Index.create(place, load_model()) as index:
        index.add([Document.from_texts("law.txt", TEXTS)], lang="en")
    return place


def test_lines_with_counts_and_neighbours(invoke: Invoke, folder: Path) -> None:
    result = invoke("concordance", str(folder), "Collateral", "--sort", "right")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines() == [
        "2 places in 2 sentences",
        "wordings  collateral 2",
        "before    took 1, bank 1, Good 1",
        "after     for 1, loan 1, is 1, rare 1",
        "The bank took [[collateral]] for the loan.  (law.txt:1)",
        "Good [[collateral]] is rare.  (law.txt:2)",
    ]


def test_json_is_what_the_library_gives(invoke: Invoke, folder: Path) -> None:
    answer = json.loads(invoke("concordance", str(folder), r"\bb\w+", "--how", "regex", "-n", "1", "--json").stdout)
    assert (answer["count"], answer["wordings"]) == (2, [["bank", 1], ["bench", 1]])
    assert [line["match"] for line in answer["lines"]] == ["bank"]


def test_places_near_a_word(invoke: Invoke, folder: Path) -> None:
    result = invoke("concordance", str(folder), "collateral", "--near", "rare")
    assert result.stdout.splitlines()[-1] == "Good [[collateral]] is rare.  (law.txt:2)"
    assert result.stdout.startswith("1 place in 1 sentence")


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("memory")
    units = [("The notice period is long.", "Die Kündigungsfrist ist lang."), ("The Frist song.", "Das Lied.")]
    sides = [f"<tuv xml:lang='en'><seg>{en}</seg></tuv><tuv xml:lang='de'><seg>{de}</seg></tuv>" for en, de in units]
    body = "".join(f"<tu>{pair}</tu>" for pair in sides)
    (home / "memory.tmx").write_text(f"<tmx version='1.4'><header/><body>{body}</body></tmx>", "utf-8")
    with Index.create(home / "idx", load_model()) as index:
        index.add(read(home / "memory.tmx", lang="en"), lang="en")
    return home / "idx"


@pytest.mark.parametrize(
    ("query", "options", "head", "side"),
    [
        ("Kündigungsfrist", [], "1 place in 1 translation", "translation"),  # the text has no match
        ("*frist", ["--how", "words"], "1 place in 1 sentence", "text"),
        ("*frist", ["--side", "translation"], "1 place in 1 translation", "translation"),
        ("Kündigungsfrist", ["--side", "text"], "0 places in 0 sentences", "text"),
        ("Kündigungsfrist", ["--near", "Lied"], "0 places in 0 sentences", "text"),
        ("Nothing", [], "0 places in 0 sentences", "text"),
        ("Nothing", ["--side", "translation"], "0 places in 0 translations", "translation"),
    ],
)
def test_the_translations_are_searched_if_the_text_has_no_match(
    invoke: Invoke, memory: Path, query: str, options: list[str], head: str, side: str
) -> None:
    result = invoke("concordance", str(memory), query, *options)
    assert (result.exit_code, result.stdout.splitlines()[0]) == (0, head)
    answer = json.loads(invoke("concordance", str(memory), query, *options, "--json").stdout)
    assert (answer["side"], answer["count"]) == (side, int(head[0]))


def test_what_cannot_be_looked_up_is_an_error(invoke: Invoke, folder: Path) -> None:
    result = invoke("concordance", str(folder), "(", "--how", "regex")
    assert (result.exit_code, "not a regular expression" in result.stderr) == (1, True)


def clipboard(monkeypatch: pytest.MonkeyPatch, *texts: str) -> None:
    """A clipboard that holds these texts one after the other, until the user stops."""
    pyperclip = pytest.importorskip("pyperclip")
    expected: Iterator[str] = iter(texts)

    def paste() -> str:
        try:
            return next(expected)
        except StopIteration:
            raise KeyboardInterrupt from None

    monkeypatch.setattr(pyperclip, "paste", paste)
    monkeypatch.setattr("phrasemate.cli.search.time.sleep", lambda seconds: None)


def test_what_is_copied_is_looked_up(invoke: Invoke, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clipboard(monkeypatch, "before", "before", "die  Bank\n", "die  Bank\n", "x" * 501, "auf [[der", "Sicher-\nheit")
    result = invoke("watch", str(folder), "-k", "2")
    assert result.exit_code == 130
    lines = [line for line in result.stdout.splitlines() if line.startswith("[[")]
    assert lines == ["[[die Bank]]", "[[Sicherheit]]"]
    assert "ignored: unclosed [[" in result.stderr


def test_what_is_copied_is_shown_on_the_page(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    clipboard(monkeypatch, "", "Bank & Co.")
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url, new: opened.append(url))
    assert invoke("watch", "--page", "http://127.0.0.1:8000/").exit_code == 130
    assert opened == ["http://127.0.0.1:8000/?q=Bank+%26+Co."]


def test_an_index_or_a_page_is_needed(invoke: Invoke) -> None:
    assert invoke("watch").exit_code == 1
