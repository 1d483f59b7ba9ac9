"""``phrasemate train``: a method and a configuration -> a run folder that holds a model."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phrasemate.cli.shell import EXIT_INTERRUPTED, err, out
from phrasemate.errors import MissingExtra

if TYPE_CHECKING:
    from phrasemate.train import Event

__all__ = ["CCPR_EXAMPLES", "XPR_EXAMPLES", "app"]

CCPR_EXAMPLES = """Examples:

\b
  phrasemate train ccpr configs/ccpr-small.toml -o run --data pairs/
  phrasemate train ccpr configs/ccpr-small.toml -o run --data pairs/ --minutes 9
  phrasemate train ccpr configs/ccpr.toml -o run --set model.base=xlm-roberta-base --set loop.steps=5000
  phrasemate model export run/model -o my-model

A run that was stopped goes on where it was: give the same command again."""

XPR_EXAMPLES = """Examples:

\b
  phrasemate train xpr configs/xpr-small.toml -o run --data xpr/
  phrasemate train xpr configs/xpr-small.toml -o run --data xpr/ --set 'data.pairs=["de-en"]' --states states/
  phrasemate train xpr configs/xpr.toml -o run --data xpr/ --set model.projection=tokens --set loss.targets=same
  phrasemate model export run/model -o my-model

A run that was stopped goes on where it was: give the same command again."""

app = typer.Typer(
    name="train",
    help="Train a retriever (needs the extra [train]).",
    no_args_is_help=True,
    rich_markup_mode=None,
    epilog="""Examples:

\b
  phrasemate train ccpr configs/ccpr-small.toml -o run --data pairs/
  phrasemate train xpr configs/xpr-small.toml -o run --data xpr/""",
)

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
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object at the end.")]


@app.command("ccpr", epilog=CCPR_EXAMPLES)
def ccpr(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="A TOML file such as configs/ccpr-small.toml.")],
    *,
    run: Run,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data", metavar="DIR", help="Folder of the files of phrase pairs (default: the configuration's)."
        ),
    ] = None,
    changes: Changes = None,
    minutes: Minutes = None,
    device: Device = "auto",
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Train phrase vectors and a phrase segmenter on phrase pairs (CCPR).

    Takes files of ``phrasemate pairs``, one for each language. Writes metrics.jsonl, curves.svg, a checkpoint, and the
    best model so far as a Hugging Face folder, which ``phrasemate model export`` turns into one that searches.
    """
    with _training():
        from phrasemate.methods.ccpr_task import CCPRTask, Config
        from phrasemate.train import Trainer, chosen_device
    settings = Config.of(_tables(config, changes))
    task = CCPRTask(settings, data or config.parent, chosen_device(device, threads))
    _train(Trainer(task, settings.loop, run, settings.facts()), run, minutes, as_json)


@app.command("xpr", epilog=XPR_EXAMPLES)
def xpr(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="A TOML file such as configs/xpr-small.toml.")],
    *,
    run: Run,
    data: Annotated[Path, typer.Option("--data", metavar="DIR", help="Folder of ``phrasemate dataset xpr``.")],
    states: Annotated[
        Path | None,
        typer.Option(
            "--states", metavar="DIR", help="Where frozen layers' states are kept, for many runs (default: RUN/states)."
        ),
    ] = None,
    changes: Changes = None,
    minutes: Minutes = None,
    device: Device = "auto",
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Train vectors of phrases that stand alone, through example sentences (XPR).

    Takes phrase pairs with example sentences, of one or several language pairs. Writes the same as ``train ccpr``.
    """
    with _training():
        from phrasemate.methods.xpr_task import Config, XPRTask
        from phrasemate.train import Trainer, chosen_device
    settings = Config.of(_tables(config, changes))
    with _counter() as count:
        task = XPRTask(settings, data, states or run / "states", chosen_device(device, threads), count)
    for remark in task.remarks:
        err().print(remark)
    _train(Trainer(task, task.loop, run, task.facts()), run, minutes, as_json)


@contextmanager
def _training() -> Iterator[None]:
    """Raises MissingExtra where what is imported within is not installed."""
    try:
        yield
    except ImportError as error:
        raise MissingExtra(error.name or "torch", "train") from error


def _tables(config: Path, changes: list[str] | None) -> dict[str, Any]:
    with _training():
        from phrasemate.methods.config import overridden, read_toml
    return overridden(read_toml(config), changes or [])


def _train(  # a Trainer: only there with torch
    trainer: Any, run: Path, minutes: float | None, as_json: bool, then: str = "phrasemate model export"
) -> None:
    """Run it, say how it ended and what comes ``then``, draw the curves."""
    try:
        with _progress() as show:
            last = trainer.run(float("inf") if minutes is None else minutes, show)
    except KeyboardInterrupt:
        err().print(f"stopped after step {trainer.step}; the same command goes on from there")
        raise typer.Exit(EXIT_INTERRUPTED) from None
    finally:
        _draw(run)
    if as_json:
        typer.echo(json.dumps({"run": str(run), "step": trainer.step, "finished": trainer.finished, "last": last}))
    elif trainer.finished:
        out().print(f"{run / 'model'}: trained for {trainer.step:,} steps; next: {then}")
    else:
        out().print(f"{run}: {trainer.step:,} of {trainer.settings.end:,} steps; the same command goes on")


@contextmanager
def _counter() -> Iterator[Callable[[str, int, int], None]]:
    """A bar for what comes before the first step, on standard error; off a terminal a line for each part of it."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = err()
    columns = (TextColumn("{task.description}"), BarColumn(20), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", visible=False)

        def show(what: str, done: int, total: int) -> None:
            if console.is_terminal:
                bar.update(task, description=what, completed=done, total=total, visible=True)
            elif done == 0:
                console.print(f"{what}: {total:,} sentences")

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
            line = describe(event)
            if console.is_terminal:
                bar.update(task, completed=event.step, total=event.steps, description=line)
            else:
                console.print(f"step {event.step}/{event.steps}  {line}")

        yield show


def describe(event: Event) -> str:
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
    except MissingExtra as error:
        err().print(f"no curves: {error}")
