"""The progress bar: drawn on a terminal, silent elsewhere, and it counts what is stored."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from phrasemate.cli import progress
from phrasemate.cli.progress import IndexingBar
from phrasemate.index.types import ProgressEvent

EVENT = ProgressEvent(1500, 9000, 50, 200, "corpus/[draft].txt")


def drawn(terminal: bool, event: ProgressEvent) -> tuple[str, int]:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=terminal, width=120, _environ={})
    with IndexingBar(console) as bar:
        bar.show(event)
    return screen.getvalue(), bar.sentences


def test_a_terminal_sees_share_sentences_and_rate() -> None:
    text, sentences = drawn(True, EVENT)
    assert sentences == 1500
    assert " 25%" in text  # 50 of 200 bytes
    assert "1,500 sentences, " in text
    assert "/s" in text
    assert "corpus/(draft).txt" in text


def test_unknown_size_is_not_error() -> None:
    text, _ = drawn(True, ProgressEvent(7, 9, 50, 0, "stdin"))
    assert "7 sentences" in text


def test_a_pipe_sees_nothing() -> None:
    assert drawn(False, EVENT) == ("", 1500)


def test_a_pipe_sees_a_line_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 59.0, 60.0, 60.0, 90.0, 121.0, 121.0])
    monkeypatch.setattr(progress, "monotonic", lambda: next(clock))
    screen = io.StringIO()
    with IndexingBar(Console(file=screen, force_terminal=False, width=40, _environ={})) as bar:
        for _ in range(3):
            bar.show(EVENT)
        bar.show(ProgressEvent(1500, 9000, 0, 0, "", "building the search file", 0.25))
    first, second = screen.getvalue().splitlines()
    assert first.startswith("corpus/[draft].txt: 1,500 sentences, ")
    assert first.endswith("/s (25 %)")
    assert second == "building the search file (25 %)"


def test_the_search_file_has_its_own_progress() -> None:
    text, sentences = drawn(True, ProgressEvent(1500, 9000, 0, 0, "", "building the search file"))
    assert "building the search file" in text
    assert sentences == 0
