"""``phrasemate mt prepare`` and ``tune``: examples of a prompt's form, and a model that is taught by them."""

from __future__ import annotations

import json
import re
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from phrasemate.cli.hinting import (
    Budget,
    Confidence,
    Contexts,
    Equivalents,
    FormName,
    HintIndex,
    IndexModel,
    Segmenter,
    SegmenterName,
    Template,
    Threshold,
    chosen_form,
    opened_retrieval,
)
from phrasemate.cli.options import JsonAtEnd, Threads, pairs_of
from phrasemate.cli.progress import stages
from phrasemate.errors import InputError, MissingExtra

_HUGGING_FACE = re.compile(r"(\w[\w.-]*/)?\w[\w.-]*")  # NAME or OWNER/NAME

PREPARE_EXAMPLES = """Examples:

\b
  phrasemate mt prepare pairs.tsv --index idx --from de --to en -o lessons
  phrasemate mt prepare memory.tmx --index idx --from de --to en -o lessons --count 500 --contexts 0
  phrasemate mt tune lessons.chat.jsonl --base my-model -o adapter"""

TUNE_EXAMPLES = """Examples:

\b
  phrasemate mt tune lessons.plain.jsonl --base my-model -o adapter
  phrasemate mt tune lessons.chat.jsonl --base my-chat-model -o adapter --steps 200 --rank 16 --device cuda"""


def prepare(
    pairs: Annotated[Path, typer.Argument(metavar="PAIRS", help="Parallel text (.tsv, .tsv.gz, .tmx, .xlf).")],
    *,
    source: Annotated[str, typer.Option("--from", metavar="LANG", help="Language of the first side, e.g. de.")],
    target: Annotated[str, typer.Option("--to", metavar="LANG", help="Language of the second side.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="NAME", help="Write NAME.chat.jsonl and NAME.plain.jsonl.")
    ],
    index: HintIndex = None,
    form: Annotated[
        FormName, typer.Option("--form", metavar="FORM", help="plain, sentence or phrases.")
    ] = FormName.PHRASES,
    template: Template = None,
    swap: Annotated[bool, typer.Option("--swap", help="PAIRS has the target language first.")] = False,
    count: Annotated[int, typer.Option("--count", metavar="N", min=1, help="Examples.")] = 1_800,
    threshold: Threshold = 0.7,
    segmenter: SegmenterName = Segmenter.LEARNED,
    k: Equivalents = 2,
    contexts: Contexts = 1,
    confidence: Confidence = 0.9,
    floor: Annotated[
        float | None, typer.Option("--floor", metavar="X", help="Least cosine of a word's nearest phrase.")
    ] = None,
    budget: Budget = 400,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Of the choice of examples.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Write over files that are there.")] = False,
    model: IndexModel = None,
    threads: Threads = None,
    as_json: JsonAtEnd = False,
) -> None:
    """Write fine-tuning examples: the prompt of each sentence, as phrasemate mt would ask, with its reference.

    A sentence's own translation is never among its hints, even if the parallel text was indexed.
    """
    from phrasemate.mt import Hints, Prompter
    from phrasemate.mt.prepare import lessons, sampled, write_lessons
    from phrasemate.utils.storage import check_new

    if not out.name:
        raise InputError(f"{out}: names a folder; expected the beginning of two files' names")
    chat, plain = (out.with_name(f"{out.name}.{kind}.jsonl") for kind in ("chat", "plain"))
    for path in (chat, plain):
        check_new(path, force)
    chosen = chosen_form(form, template, index)
    settings = Hints(
        threshold, segmenter.value, k=k, contexts=contexts, floor=floor, confidence=confidence, budget=budget
    )
    languages = "--from and --to"
    text = pairs_of(pairs, source, target, languages)
    if swap:
        text = ((first, second) for second, first in pairs_of(pairs, target, source, languages))
    some = sampled(text, count, seed)
    with ExitStack() as stack:
        show = stack.enter_context(stages())
        prompter = Prompter(chosen, source, target)
        retrieval = opened_retrieval(index, model, threads, form, settings, prompter, stack, show)
        written = write_lessons(lessons(some, prompter, retrieval, show), chat, plain)
    if as_json:
        typer.echo(json.dumps({"examples": written, "chat": str(chat), "plain": str(plain)}))
    else:
        typer.echo(f"{chat}, {plain}: {written:,} examples")


def tune(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="A file of phrasemate mt prepare, chat or plain.")],
    *,
    base: Annotated[str, typer.Option("--base", metavar="FOLDER", help="Causal Hugging Face model to adapt.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Folder of the adapter.")],
    steps: Annotated[int, typer.Option("--steps", metavar="N", min=1, help="Of the optimiser.")] = 100,
    batch: Annotated[int, typer.Option("--batch", metavar="N", min=1, help="Examples of a step.")] = 16,
    rate: Annotated[float, typer.Option("--rate", metavar="X", help="Highest learning rate.")] = 2e-4,
    rank: Annotated[int, typer.Option("--rank", metavar="N", min=1, help="Of the added matrices.")] = 8,
    max_tokens: Annotated[
        int, typer.Option("--max-tokens", metavar="N", min=8, help="Longer examples are left out.")
    ] = 1_024,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Of matrices and order.")] = 0,
    device: Annotated[str, typer.Option("--device", metavar="auto|cpu|cuda", help="Where to compute.")] = "auto",
    threads: Annotated[
        int | None, typer.Option("--threads", metavar="N", min=1, help="Threads on the CPU (default: all cores).")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a folder that is there.")] = False,
    as_json: JsonAtEnd = False,
) -> None:
    """Adapt a causal language model to the form of the prompts by LoRA (needs the extra [train])."""
    from phrasemate.utils.storage import check_new

    if not data.is_file():
        raise InputError(f"{data}: no such file; expected one that phrasemate mt prepare wrote")
    check_new(out, force, folder=True)
    _check_base(base)
    try:
        from phrasemate.training.lora import LoraSettings, read_lessons, train_lora
        from phrasemate.training.trainer import chosen_device
    except ImportError as error:
        raise MissingExtra(error.name or "torch", "train") from error
    settings = LoraSettings(steps=steps, batch=batch, rate=rate, rank=rank, max_tokens=max_tokens, seed=seed)
    read_lessons(data)  # what is wrong with them is told before a model is loaded, perhaps from afar
    with stages() as show:
        losses = train_lora(
            data,
            base,
            out,
            settings,
            str(chosen_device(device, threads)),
            lambda step, total, loss: show("training", step, total),
        )
    if as_json:
        typer.echo(json.dumps({"out": str(out), "steps": len(losses), "first": losses[0], "last": losses[-1]}))
    else:
        typer.echo(f"{out}: {len(losses):,} steps, loss {losses[0]:.3f} to {losses[-1]:.3f}")


def _check_base(base: str) -> None:
    """What is neither a folder of a model nor a name at Hugging Face is told before anyone looks for it there."""
    if Path(base).exists():
        if not (Path(base) / "config.json").is_file():
            raise InputError(f"{base}: no config.json; expected the folder of a causal Hugging Face model")
    elif not _HUGGING_FACE.fullmatch(base):
        raise InputError(f"{base}: no such folder; expected that of a causal Hugging Face model")
