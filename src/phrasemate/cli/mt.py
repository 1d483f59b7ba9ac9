"""``phrasemate mt``: translation with hints from an index, and tuning of a model for it."""

from __future__ import annotations

import json
import os
import re
import sys
from contextlib import ExitStack
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phrasemate.cli.mt_options import (
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
    cache_folder,
    chosen_form,
    opened_retrieval,
)
from phrasemate.cli.options import JsonAtEnd, Threads, pairs_of
from phrasemate.cli.progress import stages
from phrasemate.cli.shell import DefaultGroup, clean
from phrasemate.errors import EndpointError, InputError, MissingExtra

if TYPE_CHECKING:
    from phrasemate.mt import Translation, Translator

EXAMPLES = """Examples:

\b
  phrasemate mt news.de --index idx --llm http://127.0.0.1:8080/v1 --from de --to en -o news.en
  phrasemate mt news.de --index idx --from de --to en --dry-run --show-prompt
  phrasemate mt news.de --llm URL --llm-model NAME --from de --to en --form plain > news.en
  phrasemate mt news.de --index idx --llm URL --from de --to en --jsonl why.jsonl \\
      --api completions --examples known.tsv --shots 4

A run that was stopped goes on where it was: give the same command again. Keys come from the environment variable
PHRASEMATE_LLM_KEY (--key-env names another)."""


class _MtGroup(DefaultGroup):
    default = "translate"


class Api(StrEnum):
    """How the server is asked."""

    CHAT = "chat"
    COMPLETIONS = "completions"


app = typer.Typer(
    cls=_MtGroup,
    help="Translate with a language model that is given retrieved phrases; prepare data to train one.",
    no_args_is_help=True,
    rich_markup_mode=None,
    epilog=EXAMPLES,
)


@app.command("translate", epilog=EXAMPLES)
def translate(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A sentence on each line, UTF-8; - for standard input.")],
    *,
    source: Annotated[str, typer.Option("--from", metavar="LANG", help="Language of FILE, e.g. de or zh-Hant.")],
    target: Annotated[str, typer.Option("--to", metavar="LANG", help="Language to translate into.")],
    index: HintIndex = None,
    llm: Annotated[str, typer.Option("--llm", metavar="URL", help="OpenAI-compatible server, up to /v1.")] = "",
    form: Annotated[
        FormName, typer.Option("--form", metavar="FORM", help="plain, sentence, phrases or cot.")
    ] = FormName.PHRASES,
    template: Template = None,
    examples: Annotated[
        Path | None,
        typer.Option("--examples", metavar="FILE", help="Known translations (.tsv, .tmx, ...) for few-shot prompts."),
    ] = None,
    shots: Annotated[int, typer.Option("--shots", metavar="N", min=0, help="The first N of --examples.")] = 4,
    threshold: Threshold = 0.7,
    segmenter: SegmenterName = Segmenter.LEARNED,
    overlapping: Annotated[
        bool, typer.Option("--overlapping", help="All phrases, not only the longest that share no word.")
    ] = False,
    k: Equivalents = 2,
    contexts: Contexts = 1,
    confidence: Confidence = 0.9,
    floor: Annotated[
        float | None,
        typer.Option(
            "--floor",
            metavar="X",
            help="Least cosine of a word's nearest phrase (default: 0.7; 0.8 if the model tells no confidence).",
        ),
    ] = None,
    per_word: Annotated[
        float | None,
        typer.Option(
            "--per-word",
            metavar="X",
            help="What each further word of a phrase adds to --floor (default: 0; 0.05 if it tells no confidence).",
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="No second look at what was found.")] = False,
    budget: Budget = 400,
    llm_model: Annotated[str, typer.Option("--llm-model", metavar="NAME", help="The model's name at the server.")] = "",
    api: Annotated[
        Api, typer.Option("--api", metavar="chat|completions", help="completions: for models that continue text.")
    ] = Api.CHAT,
    key_env: Annotated[
        str, typer.Option("--key-env", metavar="NAME", help="Environment variable that holds the server's key.")
    ] = "PHRASEMATE_LLM_KEY",
    max_tokens: Annotated[int, typer.Option("--max-tokens", metavar="N", min=1, help="Of an answer.")] = 512,
    temperature: Annotated[
        float, typer.Option("--temperature", metavar="X", min=0, help="Above 0: sampled instead of greedy.")
    ] = 0.0,
    concurrency: Annotated[int, typer.Option("--concurrency", metavar="N", min=1, help="Requests at once.")] = 4,
    timeout: Annotated[float, typer.Option("--timeout", metavar="S", help="Seconds that a request may take.")] = 120.0,
    tries: Annotated[int, typer.Option("--tries", metavar="N", min=1, help="Of a request, at failures that pass.")] = 6,
    cache: Annotated[
        Path | None,
        typer.Option("--cache", metavar="FILE", help="Answers (default: in the user's cache folder)."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="The translations (default: standard output).")
    ] = None,
    jsonl: Annotated[
        Path | None,
        typer.Option("--jsonl", metavar="FILE", help="Per line: prompt, hints, their sources, answer, failure."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the lines of --jsonl instead of translations.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Write over files that are there.")] = False,
    show_prompt: Annotated[bool, typer.Option("--show-prompt", help="Print each prompt to standard error.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Make the prompts and send nothing.")] = False,
    model: IndexModel = None,
    threads: Threads = None,
) -> None:
    """Translate each line of FILE by a language model that is given retrieved phrases of the target language.

    Text in the target language is all that the index needs. One translation a line, in the order of FILE; a line that
    the model did not translate stays empty and is counted; where it translated none, nothing is written.
    """
    from phrasemate.mt import Hints, Prompter, Translator

    _check_files(file, examples, out, jsonl, force)
    if not llm and not dry_run:
        raise typer.BadParameter("give --llm URL, or --dry-run to see the prompts alone")
    if dry_run and out:
        raise typer.BadParameter(
            "--dry-run makes no translations for -o; leave it out (--jsonl FILE takes the prompts)"
        )
    chosen = chosen_form(form, template, index)
    settings = Hints(
        threshold=threshold,
        segmenter=segmenter.value,
        overlapping=overlapping,
        k=k,
        contexts=contexts,
        floor=floor,
        per_word=per_word,
        confidence=confidence,
        quick=quick,
        budget=budget,
    )
    with ExitStack() as stack:
        lines = _lines(file)
        show = stack.enter_context(stages(lambda: "the answers so far are kept: give the same command again to go on"))
        bare = Prompter(chosen, source, target)
        retrieval = opened_retrieval(index, model, threads, form, settings, bare, stack, show)
        known = retrieval.examples(_pairs(examples, source, target, shots)) if examples else ()
        made = Translator(Prompter(chosen, source, target, known), retrieval)
        sinks = _Sinks(out, jsonl, as_json, show_prompt, stack)
        if dry_run:
            for number, asked in enumerate(made.asked(lines), 1):
                sinks.prompt(asked.as_dict())
                show("prompts", number, len(lines))
            return
        from phrasemate.mt import Endpoint

        endpoint = Endpoint(llm, llm_model, api.value, key_env, max_tokens, temperature, 0, concurrency, timeout, tries)
        _translate(made, lines, endpoint, cache, sinks, show, stack)


def _translate(
    made: Translator, lines: list[str], endpoint: Any, cache: Path | None, sinks: _Sinks, show: Any, stack: ExitStack
) -> None:
    from phrasemate.mt import Cache, Client

    answers = stack.enter_context(Cache(cache or cache_folder() / "answers.sqlite"))
    client = stack.enter_context(Client(endpoint, answers))
    failed, known, cut, first = 0, 0, 0, ""
    for number, each in enumerate(made.translate(lines, client), 1):
        sinks.translation(each)
        failed, known, cut = failed + bool(each.failure), known + each.answer.cached, cut + each.answer.cut
        first = first or (f"line {each.asked.number}: {each.failure}" if each.failure else "")
        show("translating", number, len(lines))
    said = f"{len(lines):,} lines, {failed:,} not translated, {known:,} answers known before, {client.requests:,} asked"
    said += f" ({client.repeats:,} again)" if client.repeats else ""
    said += f", {cut:,} cut at --max-tokens" if cut else ""
    if failed and failed == sum(1 for line in lines if line.strip()):
        raise EndpointError(f"none of {failed:,} lines was translated, first {first}; give the same command again")
    sinks.finish()
    typer.echo(said, err=True)
    if failed:
        again = "the same command with --force" if sinks.files else "the same command"
        typer.echo(clean(f"not translated (empty lines; {again} tries once more), first {first}"), err=True)


def _check_files(file: str, examples: Path | None, out: Path | None, jsonl: Path | None, force: bool) -> None:
    """What would be lost, or fail after the work, fails at once."""
    from phrasemate.utils.storage import check_new

    known: list[tuple[str, str | Path]] = [("the text", file)] if file != "-" else []
    known += [("the known translations", examples)] if examples else []
    for option, path in (("-o", out), ("--jsonl", jsonl)):
        if path is None:
            continue
        for what, other in known:
            if os.path.realpath(path) == os.path.realpath(other):
                raise InputError(f"{path}: given for {option} and as {what}; expected another file")
        check_new(path, force)
        known.append((f"the file of {option}", path))


class _Sinks:
    """Where translations and prompts go."""

    def __init__(
        self, out: Path | None, jsonl: Path | None, as_json: bool, show_prompt: bool, stack: ExitStack
    ) -> None:
        from phrasemate.utils.storage import NewFile

        self._as_json, self._show_prompt, self.files = as_json, show_prompt, bool(out or jsonl)
        self._prompts = as_json or not (jsonl or show_prompt)  # where translations would be
        self._out = stack.enter_context(NewFile(out)) if out else sys.stdout
        self._jsonl = stack.enter_context(NewFile(jsonl)) if jsonl else None
        self._on_screen = out is None and sys.stdout.isatty()
        self._held: list[str] | None = []  # lines without a translation, before the first that has one

    def translation(self, each: Translation) -> None:
        """Write it; where none comes that was translated, nothing is written, to standard output neither."""
        facts = each.as_dict()
        self._show(facts)
        line = json.dumps(facts, ensure_ascii=False)
        if self._jsonl:
            self._jsonl.write(line + "\n")
        line = (line if self._as_json else self._screened(each.text)) + "\n"
        if self._held is not None and not each.text:
            self._held.append(line)
            return
        self.finish()
        self._out.write(line)
        sys.stdout.flush()

    def finish(self) -> None:
        """Write what is held back."""
        held, self._held = self._held, None
        for line in held or ():
            self._out.write(line)
        sys.stdout.flush()

    def prompt(self, facts: dict[str, Any]) -> None:
        """What would be asked."""
        line = json.dumps(facts, ensure_ascii=False)
        self._show(facts)
        if self._prompts:
            self._out.write((line if self._as_json else self._screened(facts["prompt"]) + "\n") + "\n")
        if self._jsonl:
            self._jsonl.write(line + "\n")

    def _show(self, facts: dict[str, Any]) -> None:
        if self._show_prompt:
            typer.echo(f"--- line {facts['number']}\n{_lines_clean(facts['prompt'])}\n", err=True)

    def _screened(self, text: str) -> str:
        """As a terminal gets it, which neither a corpus nor a server may steer."""
        return _lines_clean(text) if self._on_screen else text


def _lines_clean(text: str) -> str:
    return "\n".join(map(clean, text.split("\n")))


def _pairs(path: Path, source: str, target: str, shots: int) -> list[tuple[str, str]]:
    return list(islice(pairs_of(path, source, target, "--from and --to"), shots))


def _lines(file: str) -> list[str]:
    """The lines of a file or of standard input, without their ends."""
    from phrasemate.errors import ReadError

    raw = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise ReadError(file, line, f"not UTF-8 ({error.reason})", "convert it, e.g. with iconv -t utf-8") from None
    lines = text.split("\n")
    return [line.rstrip("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]


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


@app.command("prepare", epilog=PREPARE_EXAMPLES)
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


@app.command("tune", epilog=TUNE_EXAMPLES)
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
