"""``phrasemate train reranker``: sentence pairs and an encoder -> a run folder that holds a re-ranker for it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from phrasemate.cli.options import JsonAtEnd, Model
from phrasemate.cli.training import (
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

EXAMPLES = """Examples:

\b
  phrasemate train reranker reranker -o run --data pairs/
  phrasemate train reranker reranker -o run --data pairs/ --states states/ --minutes 9
  phrasemate train reranker reranker -o run --data pairs/ --set 'data.pairs=["de-en"]'
  phrasemate evaluate bicla --data corpora --vectors vectors/ --reranker run/model

A run that was stopped goes on where it was: give the same command again."""


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
