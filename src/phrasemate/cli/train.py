"""``phrasemate train``: CCPR, XPR, BiCLA and the re-ranker."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from phrasemate.cli.options import JsonAtEnd, Model
from phrasemate.cli.train_options import (
    Changes,
    Device,
    Minutes,
    Pairs,
    Run,
    States,
    Threads,
    config_argument,
    counter,
    enough_memory,
    needs_training,
    tables_of,
    train,
)
from phrasemate.errors import InputError

CCPR_EXAMPLES = """Examples:

\b
  phrasemate train ccpr ccpr-small -o run --data pairs/
  phrasemate train ccpr ccpr-small -o run --data pairs/ --minutes 9
  phrasemate train ccpr ccpr -o run --set model.base=xlm-roberta-base --set loop.steps=5000
  phrasemate model export run/model -o my-model

A run that was stopped goes on where it was: give the same command again."""

XPR_EXAMPLES = """Examples:

\b
  phrasemate train xpr xpr-small -o run --data xpr/
  phrasemate train xpr xpr-small -o run --data xpr/ --set 'data.pairs=["de-en"]' --states states/
  phrasemate train xpr xpr -o run --data xpr/ --set model.projection=tokens --set loss.targets=same
  phrasemate model export run/model -o my-model

A run that was stopped goes on where it was: give the same command again."""

app = typer.Typer(
    name="train",
    help="Train a retriever (needs the extra [train]).",
    no_args_is_help=True,
    rich_markup_mode=None,
    epilog="""Examples:

\b
  phrasemate train ccpr ccpr-small -o run --data pairs/
  phrasemate train xpr xpr-small -o run --data xpr/""",
)


@app.command("ccpr", epilog=CCPR_EXAMPLES)
def ccpr(
    config: Annotated[Path, config_argument("ccpr-small")],
    *,
    run: Run,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data", metavar="DIR", help="Folder of the files of phrase pairs (default: that of your own CONFIG)."
        ),
    ] = None,
    changes: Changes = None,
    minutes: Minutes = None,
    device: Device = "auto",
    threads: Threads = None,
    as_json: JsonAtEnd = False,
) -> None:
    """Train phrase vectors and a phrase segmenter on phrase pairs (CCPR).

    Takes files of ``phrasemate pairs``, one for each language. Writes metrics.jsonl, curves.svg, a checkpoint, and the
    best model so far as a Hugging Face folder, which ``phrasemate model export`` turns into one that searches.
    """
    with needs_training():
        from phrasemate.training.ccpr import CCPRTask, Config
        from phrasemate.training.trainer import Trainer, chosen_device
    settings = Config.of(tables_of(config, changes))
    if data is None and not config.is_file():
        raise InputError(f"{config} comes with phrasemate: say with --data where the files of phrasemate pairs are")
    with enough_memory():
        task = CCPRTask(settings, data or config.parent, chosen_device(device, threads))
    train(Trainer(task, settings.loop, run, task.facts()), run, minutes, as_json)


@app.command("xpr", epilog=XPR_EXAMPLES)
def xpr(
    config: Annotated[Path, config_argument("xpr-small")],
    *,
    run: Run,
    data: Annotated[Path, typer.Option("--data", metavar="DIR", help="Folder of ``phrasemate dataset xpr``.")],
    states: States = None,
    changes: Changes = None,
    minutes: Minutes = None,
    device: Device = "auto",
    threads: Threads = None,
    as_json: JsonAtEnd = False,
) -> None:
    """Train vectors of phrases that stand alone, through example sentences (XPR).

    Takes phrase pairs with example sentences, of one or several language pairs. Writes the same as ``train ccpr``.
    """
    with needs_training():
        from phrasemate.training.trainer import Trainer, chosen_device
        from phrasemate.training.xpr import Config, XPRTask
    settings = Config.of(tables_of(config, changes))
    with counter() as count, enough_memory():
        task = XPRTask(settings, data, states or run / "states", chosen_device(device, threads), count)
    for remark in task.remarks:
        typer.echo(remark, err=True)
    train(Trainer(task, task.loop, run, task.facts()), run, minutes, as_json)


BICLA_EXAMPLES = """Examples:

\b
  phrasemate train bicla bicla -o runs/bicla/de-en --data pairs/ --vectors vectors/
  phrasemate train bicla bicla -o runs/bicla/cs-hu --data pairs/ --vectors vectors/ --set data.pair=cs-hu
  phrasemate train bicla bicla -o runs/inatt/de-en --data pairs/ --vectors vectors/ --set model.cross=false
  phrasemate evaluate bicla --data corpora --vectors vectors/ --runs runs/

A run that was stopped goes on where it was: give the same command again."""


@app.command("bicla", epilog=BICLA_EXAMPLES)
def bicla(
    config: Annotated[Path, config_argument("bicla")],
    *,
    run: Run,
    data: Pairs,
    vectors: Annotated[
        Path,
        typer.Option("--vectors", metavar="DIR", help="Folder of word vectors, one for each language, such as de."),
    ],
    changes: Changes = None,
    minutes: Minutes = None,
    device: Device = "auto",
    threads: Threads = None,
    as_json: JsonAtEnd = False,
) -> None:
    """Train a ranker of sentences across languages by cross-attention (BiCLA).

    Takes sentence pairs, source and target language separated by a tab, and word vectors of one multilingual space.
    Writes metrics.jsonl, curves.svg, a checkpoint, and the best model so far by held-out loss.
    """
    with needs_training():
        from phrasemate.training.bicla import BiCLATask, Config
        from phrasemate.training.trainer import Trainer, chosen_device
    settings = Config.of(tables_of(config, changes))
    with enough_memory():
        task = BiCLATask(settings, data, vectors, chosen_device(device, threads))
    train(Trainer(task, settings.loop, run, task.facts()), run, minutes, as_json, "phrasemate evaluate bicla")


RERANKER_EXAMPLES = """Examples:

\b
  phrasemate train reranker reranker -o run --data pairs/
  phrasemate train reranker reranker -o run --data pairs/ --states states/ --minutes 9
  phrasemate train reranker reranker -o run --data pairs/ --set 'data.pairs=["de-en"]'
  phrasemate evaluate bicla --data corpora --vectors vectors/ --reranker run/model

A run that was stopped goes on where it was: give the same command again."""


@app.command("reranker", epilog=RERANKER_EXAMPLES)
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
    threads: Threads = None,
    as_json: JsonAtEnd = False,
) -> None:
    """Train a re-ranker of sentence pairs by cross-attention over an encoder's token states.

    Takes sentence pairs, the two languages separated by a tab. The encoder stays as it is; its states are computed
    once. Writes metrics.jsonl, curves.svg, a checkpoint, and the best model so far by held-out MAP.
    """
    with needs_training():
        from phrasemate.training.reranker import Config, RerankerTask
        from phrasemate.training.trainer import Trainer, chosen_device
    from phrasemate.encode import load_model

    settings = Config.of(tables_of(config, changes))
    device = chosen_device(device, threads)
    encoder = load_model(model, threads)
    with counter() as count, enough_memory():
        task = RerankerTask(settings, data, encoder, states or run / "states", device, count)
    train(Trainer(task, settings.loop, run, task.facts()), run, minutes, as_json, "phrasemate evaluate bicla")
