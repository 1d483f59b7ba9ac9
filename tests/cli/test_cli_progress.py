"""The progress bar: drawn on a terminal, silent elsewhere, and it counts what is stored."""

from __future__ import annotations

import io

from rich.console import Console

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


def test_unknown_size_is_no_error() -> None:
    text, _ = drawn(True, ProgressEvent(7, 9, 50, 0, "stdin"))
    assert "7 sentences" in text


def test_a_pipe_sees_nothing() -> None:
    assert drawn(False, EVENT) == ("", 1500)
