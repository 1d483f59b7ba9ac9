"""What the commands of ``phrasemate train`` share: their options, the configuration, the run and how it is shown."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phrasemate.cli.shell import EXIT_INTERRUPTED, err
from phrasemate.errors import InputError, MissingExtra

if TYPE_CHECKING:
    from phrasemate.training.trainer import Event

Pairs = Annotated[
    Path, typer.Option("--data", metavar="DIR", help="Folder of PAIR/train.tsv and PAIR/dev.tsv, such as de-en.")
]
States = Annotated[
    Path | None,
    typer.Option(
        "--states", metavar="DIR", help="Where the encoder's states are kept, for many runs (default: RUN/states)."
    ),
]
Run = Annotated[Path, typer.Option("--out", "-o", metavar="RUN", help="Folder of the run.")]
Changes = Annotated[
    list[str] | None, typer.Option("--set", metavar="TABLE.KEY=VALUE", help="Another setting than the file's.")
]
Minutes = Annotated[
    float | None, typer.Option("--minutes", metavar="M", min=0, help="Stop with a checkpoint after so long.")
]
Device = Annotated[str, typer.Option("--device", metavar="auto|cpu|cuda", help="Where to compute.")]
Threads = Annotated[
    int | None, typer.Option("--threads", metavar="N", min=1, help="Threads on the CPU (default: all cores).")
]


def config_argument(name: str) -> Any:
    """The argument CONFIG of a command whose own configuration has this name."""
    return typer.Argument(metavar="CONFIG", help=f"A TOML file, or one that comes with phrasemate, such as {name}.")


@contextmanager
def needs_training() -> Iterator[None]:
    """Raises MissingExtra where what is imported within is not installed."""
    try:
        yield
    except ImportError as error:
        raise MissingExtra(error.name or "torch", "train") from error


@contextmanager
def enough_memory() -> Iterator[None]:
    """Raises InputError where memory is short for what comes before the first step: weights, states that are kept."""
    from phrasemate.training.trainer import short_of_memory

    try:
        yield
    except (RuntimeError, MemoryError) as error:
        said = short_of_memory(error)
        if not said:
            raise
        raise InputError(
            f"not enough memory to begin ({said}); free some, give another --device, a smaller model, or for ccpr and "
            "xpr a lower optimizer.chunk"
        ) from error


def tables_of(config: Path, changes: list[str] | None) -> dict[str, Any]:
    with needs_training():
        from phrasemate.training.config import file_of, overridden, read_toml
    return overridden(read_toml(file_of(config)), changes or [])


def train(  # a Trainer: only there with torch
    trainer: Any, run: Path, minutes: float | None, as_json: bool, then: str = "phrasemate model export"
) -> None:
    """Run it, say how it ended and what comes ``then``, draw the curves."""
    try:
        with _progress() as show:
            last = trainer.run(float("inf") if minutes is None else minutes, show)
    except KeyboardInterrupt:
        typer.echo(f"stopped after step {trainer.step}; the same command goes on from step {trainer.saved}", err=True)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    finally:
        _draw(run)
    if as_json:
        typer.echo(json.dumps({"run": str(run), "step": trainer.step, "finished": trainer.finished, "last": last}))
    elif trainer.finished:
        typer.echo(f"{run / 'model'}: trained for {trainer.step:,} steps; next: {then}")
    else:
        typer.echo(f"{run}: {trainer.step:,} of {trainer.settings.end:,} steps; the same command goes on")


@contextmanager
def counter() -> Iterator[Callable[[str, int, int], None]]:
    """A bar for what comes before the first step, on standard error; off a terminal a line for each part of it."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = err()
    columns = (TextColumn("{task.description}", markup=False), BarColumn(20), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", visible=False)

        def show(what: str, done: int, total: int) -> None:
            if console.is_terminal:
                bar.update(task, description=what, completed=done, total=total, visible=True)
            elif done == 0:
                console.print(f"{what}: {total:,} sentences", markup=False)

        yield show


@contextmanager
def _progress() -> Iterator[Callable[[Event], None]]:
    """A bar on a terminal, else a line now and then; on standard error."""
    from rich.progress import BarColumn, Progress, TextColumn

    console = err()
    columns = (TextColumn("step {task.completed}/{task.total}"), BarColumn(20), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("")

        def show(event: Event) -> None:
            line = _described(event)
            if console.is_terminal:
                bar.update(task, completed=event.step, total=event.steps, description=line)
            else:
                console.print(f"step {event.step}/{event.steps}  {line}")

        yield show


def _described(event: Event) -> str:
    """Loss, in-batch acc@1, tokens/s, remaining time."""
    hours, minutes = divmod(round(event.remaining / 60), 60)
    metrics = event.metrics
    return (
        f"loss {metrics.get('loss', 0):.3f}  acc@1 {metrics.get('acc@1', 0):.3f}  "
        f"{metrics.get('tokens/s', 0):,.0f} tokens/s  {hours}:{minutes:02d} h left"
    )


def _draw(run: Path) -> None:
    """The curves, where there is something to draw them with."""
    from phrasemate.evaluate.curves import draw_curves

    try:
        draw_curves(run / "metrics.jsonl", run / "curves.svg")
    except (MissingExtra, OSError) as error:  # of a full disk, which must not hide what the run itself has to say
        typer.echo(f"no curves: {error}", err=True)
