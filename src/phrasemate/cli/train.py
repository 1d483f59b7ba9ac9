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

__all__ = ["CCPR_EXAMPLES", "app"]

CCPR_EXAMPLES = """Examples:

\b
  phrasemate train ccpr configs/ccpr-small.toml -o run --data pairs/
  phrasemate train ccpr configs/ccpr-small.toml -o run --data pairs/ --minutes 9
  phrasemate train ccpr configs/ccpr.toml -o run --set model.base=xlm-roberta-base --set loop.steps=5000
  phrasemate model export run/model -o my-model

A run that was stopped goes on where it was: give the same command again."""

app = typer.Typer(
    name="train",
    help="Train a retriever (needs the extra [train]).",
    no_args_is_help=True,
    rich_markup_mode=None,
    epilog="""Examples:

\b
  phrasemate train ccpr configs/ccpr-small.toml -o run --data pairs/""",
)


@app.command("ccpr", epilog=CCPR_EXAMPLES)
def ccpr(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="A TOML file such as configs/ccpr-small.toml.")],
    *,
    run: Annotated[Path, typer.Option("--out", "-o", metavar="RUN", help="Folder of the run.")],
    data: Annotated[
        Path | None,
        typer.Option(
            "--data", metavar="DIR", help="Folder of the files of phrase pairs (default: the configuration's)."
        ),
    ] = None,
    changes: Annotated[
        list[str] | None, typer.Option("--set", metavar="TABLE.KEY=VALUE", help="Another setting than the file's.")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option("--minutes", metavar="M", min=0, help="Stop with a checkpoint after so long.")
    ] = None,
    device: Annotated[str, typer.Option("--device", metavar="auto|cpu|cuda", help="Where to compute.")] = "auto",
    threads: Annotated[
        int | None, typer.Option("--threads", metavar="N", min=1, help="Threads on the CPU (default: all cores).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object at the end.")] = False,
) -> None:
    """Train phrase vectors and a phrase segmenter on phrase pairs (CCPR).

    Takes files of ``phrasemate pairs``, one for each language. Writes metrics.jsonl, curves.svg, a checkpoint, and the
    best model so far as a Hugging Face folder, which ``phrasemate model export`` turns into one that searches.
    """
    trainer = _ccpr(config, data or config.parent, changes or [], device, threads)(run)
    try:
        with _progress() as show:
            last = trainer.run(float("inf") if minutes is None else minutes, show)
    except KeyboardInterrupt:
        err().print(f"stopped after step {trainer.step}; the same command goes on from there")
        raise typer.Exit(EXIT_INTERRUPTED) from None
    finally:
        _draw(run)
    finished = trainer.step >= trainer.settings.end
    if as_json:
        typer.echo(json.dumps({"run": str(run), "step": trainer.step, "finished": finished, "last": last}))
    elif finished:
        out().print(f"{run / 'model'}: trained for {trainer.step:,} steps; next: phrasemate model export")
    else:
        out().print(f"{run}: {trainer.step:,} of {trainer.settings.end:,} steps; the same command goes on")


def _ccpr(
    config: Path, data: Path, changes: list[str], device: str, threads: int | None
) -> Callable[[Path], Any]:  # a Trainer, whose module is only there with the extra
    try:
        from phrasemate.methods.ccpr_task import CCPRTask, Config
        from phrasemate.methods.config import overridden, read_toml
        from phrasemate.train import Trainer, chosen_device
    except ImportError as error:
        raise MissingExtra(error.name or "torch", "train") from error
    settings = Config.of(overridden(read_toml(config), changes))
    task = CCPRTask(settings, data, chosen_device(device, threads))
    return lambda run: Trainer(task, settings.loop, run, settings.facts())


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
