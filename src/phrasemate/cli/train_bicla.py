"""``phrasemate train bicla``: sentence pairs and word vectors -> a run folder that holds a BiCLA."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from phrasemate.cli.options import JsonAtEnd
from phrasemate.cli.training import (
    Changes,
    Device,
    Minutes,
    Pairs,
    Run,
    Threads,
    config_argument,
    enough_memory,
    needs_training,
    tables_of,
    train,
)

EXAMPLES = """Examples:

\b
  phrasemate train bicla bicla -o runs/bicla/de-en --data pairs/ --vectors vectors/
  phrasemate train bicla bicla -o runs/bicla/cs-hu --data pairs/ --vectors vectors/ --set data.pair=cs-hu
  phrasemate train bicla bicla -o runs/inatt/de-en --data pairs/ --vectors vectors/ --set model.cross=false
  phrasemate evaluate bicla --data corpora --vectors vectors/ --runs runs/

A run that was stopped goes on where it was: give the same command again."""


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
