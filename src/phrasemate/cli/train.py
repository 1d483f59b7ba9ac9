"""``phrasemate train``: train CCPR, XPR, BiCLA and re-ranker models; options, configuration and progress."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phrasemate.cli.options import CpuThreads, JsonAtEnd, Model, argument, option
from phrasemate.cli.shell import EXIT_INTERRUPTED, err
from phrasemate.errors import InputError, MissingExtra, needs_extra
from phrasemate.utils.machine import cores

if TYPE_CHECKING:
    from phrasemate.training.trainer import Event

Pairs = Annotated[
    Path, option("--data", "DIR", "Folder with PAIR/train.tsv and PAIR/dev.tsv; PAIR is, for example, de-en.")
]
States = Annotated[
    Path | None, option("--states", "DIR", "Folder of encoder states to share between runs (default: RUN/states).")
]
Run = Annotated[Path, option("--out", "-o", "RUN", "The folder of the run.")]
Changes = Annotated[list[str] | None, option("--set", "TABLE.KEY=VALUE", "Change one setting of CONFIG (repeatable).")]
Minutes = Annotated[
    float | None,
    option(
        "--minutes",
        "M",
        "Stop after M minutes, with a checkpoint. Evaluations count, but not the loading before the first step.",
        min=0,
    ),
]
Device = Annotated[str, option("--device", "auto|cpu|cuda", "Device to train on.")]
Workers = Annotated[
    int | None,
    option(
        "--workers",
        "N",
        "Processes that prepare batches (default: 0; with cuda, all cores but one, at most 16).",
        min=0,
    ),
]

MOST_WORKERS = 16  # enough to keep one GPU busy


def workers_of(workers: int | None, device: str) -> int:
    """Return how many processes prepare the batches of one training process.

    Raises InputError if some are asked for on a system without fork.
    """
    from phrasemate.training import processes

    if workers and not hasattr(os, "fork"):
        raise InputError(f"--workers {workers}: this system has no fork; leave it out")
    if workers is not None:
        return workers
    if device != "cuda" or not hasattr(os, "fork"):
        return 0
    return min(max(cores() // processes.group().size - 1, 0), MOST_WORKERS)


def config_argument(name: str) -> Any:
    """Declare the argument CONFIG, with the name of a bundled configuration as its example."""
    return argument("CONFIG", f"A TOML file, or the name of one that comes with phrasemate, such as {name}.")


@contextmanager
def enough_memory() -> Iterator[None]:
    """Raise InputError if memory runs out before the first step: for the weights or the cached encoder states."""
    from phrasemate.training.trainer import short_of_memory

    try:
        yield
    except (RuntimeError, MemoryError) as error:
        reason = short_of_memory(error)
        if not reason:
            raise
        raise InputError(
            f"not enough memory to begin ({reason}); "
            "free some, give another --device, a smaller model, or for ccpr and "
            "xpr a lower optimizer.chunk"
        ) from error


def tables_of(config: Path, changes: list[str] | None) -> dict[str, Any]:
    """Read the tables of a TOML configuration and apply the changes of ``--set``."""
    with needs_extra("train"):
        from phrasemate.training.config import file_of, overridden, read_toml
    return overridden(read_toml(file_of(config)), changes or [])


def train(  # trainer is a Trainer, whose module needs torch
    trainer: Any, run: Path, minutes: float | None, as_json: bool, then: str = "phrasemate model export"
) -> None:
    """Run a trainer with a progress bar, draw the curves, and print the outcome and the next command, ``then``.

    Only the first of several processes draws and prints.
    """
    from phrasemate.training import processes

    first = processes.group().rank == 0
    try:
        with _progress() as show:
            last = trainer.run(float("inf") if minutes is None else minutes, show)
        processes.leave()
    except KeyboardInterrupt:
        typer.echo(f"stopped after step {trainer.step}; the same command resumes from step {trainer.saved}", err=True)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    finally:
        if first:
            _draw(run)
    if not first:
        return
    if as_json:
        typer.echo(json.dumps({"run": str(run), "step": trainer.step, "finished": trainer.finished, "last": last}))
    elif trainer.finished:
        typer.echo(f"{run / 'model'}: trained for {trainer.step:,} steps; next: {then}")
    else:
        typer.echo(f"{run}: {trainer.step:,} of {trainer.settings.end:,} steps; the same command resumes")


@contextmanager
def counter() -> Iterator[Callable[[str, int, int], None]]:
    """Show the preparation before the first step on standard error: a bar on a terminal, else a line for each stage."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = err()
    columns = (TextColumn("{task.description}", markup=False), BarColumn(20), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", visible=False)

        def show(what: str, completed: int, total: int) -> None:
            if console.is_terminal:
                bar.update(task, description=what, completed=completed, total=total, visible=True)
            elif completed == 0:
                console.print(f"{what}: {total:,} sentences", markup=False)

        yield show


@contextmanager
def _progress() -> Iterator[Callable[[Event], None]]:
    """Show training events on standard error: a bar on a terminal, else a line for each event."""
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
    """Format loss, in-batch acc@1, tokens/s and remaining time."""
    hours, minutes = divmod(round(event.remaining / 60), 60)
    metrics = event.metrics
    return (
        f"loss {metrics.get('loss', 0):.3f}  acc@1 {metrics.get('acc@1', 0):.3f}  "
        f"{metrics.get('tokens/s', 0):,.0f} tokens/s  {hours}:{minutes:02d} h left"
    )


def _draw(run: Path) -> None:
    """Draw the training curves; without the plotting package, print why there are none."""
    from phrasemate.evaluate.report import draw_curves

    try:
        draw_curves(run / "metrics.jsonl", run / "curves.svg")
    except (MissingExtra, OSError) as error:  # of a full disk, which must not hide what the run itself has to say
        typer.echo(f"no curves: {error}", err=True)


app = typer.Typer(
    help="""Train models on your own text (needs the extra [train]).

Examples:
  phrasemate train ccpr ccpr-small -o run --data pairs/
  phrasemate train xpr xpr-small -o run --data xpr/""",
)


@app.command("ccpr")
def ccpr(
    config: Annotated[Path, config_argument("ccpr-small")],
    *,
    run: Run,
    data: Annotated[
        Path | None, option("--data", "DIR", "Folder of phrase-pair files (default: the folder of your CONFIG file).")
    ] = None,
    changes: Changes = None,
    minutes: Minutes = None,
    device: Device = "auto",
    threads: CpuThreads = None,
    workers: Workers = None,
    as_json: JsonAtEnd = False,
) -> None:
    """Train phrase vectors and a phrase segmenter on phrase pairs (CCPR).

    Reads the files of phrasemate pairs, one for each language. Writes metrics.jsonl, curves.svg, a checkpoint, and the
    best model so far as a Hugging Face folder. Convert it with phrasemate model export to search with it.

    Examples:
      phrasemate train ccpr ccpr-small -o run --data pairs/
      phrasemate train ccpr ccpr-small -o run --data pairs/ --minutes 9
      phrasemate train ccpr ccpr -o run --set model.base=xlm-roberta-base --set loop.steps=5000
      phrasemate model export run/model -o my-model

    To resume a stopped run, give the same command again.
    """
    with needs_extra("train"):
        from phrasemate.training import processes
        from phrasemate.training.ccpr import CCPRTask, Config
        from phrasemate.training.trainer import Trainer, chosen_device
    settings = Config.of(tables_of(config, changes))
    if data is None and not config.is_file():
        raise InputError(f"{config} comes with phrasemate: say with --data where the files of phrasemate pairs are")
    device = chosen_device(device, threads)
    processes.join(device)
    with enough_memory():
        task = CCPRTask(settings, data or config.parent, device)
    train(Trainer(task, settings.loop, run, task.facts(), workers_of(workers, device)), run, minutes, as_json)


@app.command("xpr")
def xpr(
    config: Annotated[Path, config_argument("xpr-small")],
    *,
    run: Run,
    data: Annotated[Path, option("--data", "DIR", "Folder written by phrasemate dataset xpr.")],
    states: States = None,
    changes: Changes = None,
    minutes: Minutes = None,
    device: Device = "auto",
    threads: CpuThreads = None,
    as_json: JsonAtEnd = False,
) -> None:
    """Train vectors of phrases without context, from example sentences (XPR).

    Reads phrase pairs with example sentences, of one or more language pairs. Writes the same files as phrasemate train
    ccpr.

    Examples:
      phrasemate train xpr xpr-small -o run --data xpr/
      phrasemate train xpr xpr-small -o run --data xpr/ --set 'data.pairs=["de-en"]' --states states/
      phrasemate train xpr xpr -o run --data xpr/ --set model.projection=tokens --set loss.targets=same
      phrasemate model export run/model -o my-model

    To resume a stopped run, give the same command again.
    """
    with needs_extra("train"):
        from phrasemate.training import processes
        from phrasemate.training.trainer import Trainer, chosen_device
        from phrasemate.training.xpr import Config, XPRTask
    settings = Config.of(tables_of(config, changes))
    device = chosen_device(device, threads)
    processes.join(device)
    with counter() as count, enough_memory():
        task = XPRTask(settings, data, states or run / "states", device, count)
    for remark in task.remarks:
        typer.echo(remark, err=True)
    train(Trainer(task, task.loop, run, task.facts()), run, minutes, as_json)


@app.command("bicla")
def bicla(
    config: Annotated[Path, config_argument("bicla")],
    *,
    run: Run,
    data: Pairs,
    vectors: Annotated[
        Path, option("--vectors", "DIR", "Folder with a folder of word vectors for each language, such as de.")
    ],
    changes: Changes = None,
    minutes: Minutes = None,
    device: Device = "auto",
    threads: CpuThreads = None,
    as_json: JsonAtEnd = False,
) -> None:
    """Train a cross-lingual sentence ranker with cross-attention (BiCLA).

    Reads sentence pairs, separated by a tab, and word vectors of both languages in one space. Writes metrics.jsonl,
    curves.svg, a checkpoint, and the best model so far by held-out loss.

    Examples:
      phrasemate train bicla bicla -o runs/bicla/de-en --data pairs/ --vectors vectors/
      phrasemate train bicla bicla -o runs/bicla/cs-hu --data pairs/ --vectors vectors/ --set data.pair=cs-hu
      phrasemate train bicla bicla -o runs/inatt/de-en --data pairs/ --vectors vectors/ --set model.cross=false
      phrasemate evaluate bicla --data corpora --vectors vectors/ --runs runs/

    To resume a stopped run, give the same command again.
    """
    with needs_extra("train"):
        from phrasemate.training.bicla import BiCLATask, Config
        from phrasemate.training.processes import expect_one
        from phrasemate.training.trainer import Trainer, chosen_device
    expect_one("bicla")
    settings = Config.of(tables_of(config, changes))
    with enough_memory():
        task = BiCLATask(settings, data, vectors, chosen_device(device, threads))
    train(Trainer(task, settings.loop, run, task.facts()), run, minutes, as_json, "phrasemate evaluate bicla")


@app.command("reranker")
def reranker(
    config: Annotated[Path, config_argument("reranker")],
    *,
    run: Run,
    data: Pairs,
    model: Model = None,
    states: States = None,
    changes: Changes = None,
    minutes: Minutes = None,
    device: Device = "auto",
    threads: CpuThreads = None,
    as_json: JsonAtEnd = False,
) -> None:
    """Train a re-ranker of sentence pairs with cross-attention over an encoder's token states.

    Reads sentence pairs, separated by a tab. The encoder is frozen, so its states are computed only once. Writes
    metrics.jsonl, curves.svg, a checkpoint, and the best model so far by held-out MAP.

    Examples:
      phrasemate train reranker reranker -o run --data pairs/
      phrasemate train reranker reranker -o run --data pairs/ --states states/ --minutes 9
      phrasemate train reranker reranker -o run --data pairs/ --set 'data.pairs=["de-en"]'
      phrasemate evaluate bicla --data corpora --vectors vectors/ --reranker run/model

    To resume a stopped run, give the same command again.
    """
    with needs_extra("train"):
        from phrasemate.training.processes import expect_one
        from phrasemate.training.reranker import Config, RerankerTask
        from phrasemate.training.trainer import Trainer, chosen_device
    from phrasemate.encode import load_model

    expect_one("reranker")
    settings = Config.of(tables_of(config, changes))
    device = chosen_device(device, threads)
    encoder = load_model(model, threads)
    with counter() as count, enough_memory():
        task = RerankerTask(settings, data, encoder, states or run / "states", device, count)
    train(Trainer(task, settings.loop, run, task.facts()), run, minutes, as_json, "phrasemate evaluate bicla")
