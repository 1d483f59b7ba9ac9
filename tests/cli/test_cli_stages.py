"""The bar of each stage, of a training too: what it shows, and what is said when the work is stopped."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
from rich.console import Console

from phrasemate.cli import progress, train
from phrasemate.cli.progress import stages
from phrasemate.cli.shell import out
from phrasemate.errors import MissingExtra


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """A terminal 120 cells wide, in the place of standard error."""
    drawn = io.StringIO()
    console = Console(file=drawn, force_terminal=True, width=120, _environ={})
    monkeypatch.setattr(progress, "err", lambda: console)
    return drawn


def test_stages_come_one_after_the_other(screen: io.StringIO) -> None:
    with stages() as show:
        show("reading", 10, 0)
        show("encoding [en]", 250, 1000)
        show("encoding [en]", 1000, 1000)
    drawn = screen.getvalue()
    assert "reading" in drawn
    assert "encoding [en]" in drawn  # not read as markup
    assert "1,000 of 1,000" in drawn


def test_nothing_is_drawn_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = io.StringIO()
    monkeypatch.setattr(progress, "err", lambda: Console(file=pipe, _environ={}))
    with stages() as show:
        show("encoding", 1, 2)
    assert pipe.getvalue().strip() == ""


def test_what_was_done_before_is_not_speed_of_ours(screen: io.StringIO) -> None:
    with stages() as show:
        show("linking", 5000, 9000)
    assert "/s" not in screen.getvalue()


def test_a_stopped_run_says_what_it_left(screen: io.StringIO, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as left:  # noqa: SIM117
        with stages(lambda: "x.part keeps it"):
            raise KeyboardInterrupt
    assert left.value.exit_code == 130
    assert capsys.readouterr().err == "stopped; x.part keeps it\n"
    with pytest.raises(KeyboardInterrupt), stages():
        raise KeyboardInterrupt


def test_names_are_not_markup(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise MissingExtra("matplotlib", "plots")

    monkeypatch.setattr("phrasemate.evaluate.report.draw_curves", missing)
    run = Path("[/run] :m:")
    for finished in (True, False):
        trainer = SimpleNamespace(step=7, finished=finished, settings=SimpleNamespace(end=9), run=lambda *_: None)
        train.train(trainer, run, None, as_json=False)
    message = capsys.readouterr()
    assert message.out == (
        "[/run] :m:/model: trained for 7 steps; next: phrasemate model export\n"
        "[/run] :m:: 7 of 9 steps; the same command resumes\n"
    )
    assert message.err.endswith("pip install 'phrasemate[plots]'\n")
    out().print("at 10:o:12", markup=False)
    assert capsys.readouterr().out == "at 10:o:12\n"


@pytest.mark.parametrize("terminal", [True, False])
def test_the_parts_of_a_training_are_not_markup(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = io.StringIO()
    console = Console(file=drawn, force_terminal=terminal, width=120, _environ={})
    monkeypatch.setattr(train, "err", lambda: console)
    with train.counter() as count:
        count("states of [/de]", 0, 10)
    assert "states of [/de]" in drawn.getvalue()
