"""``phrasemate mt``: translate with hints from an index, and fine-tune a language model for such prompts."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from phrasemate.cli.options import (
    CpuThreads,
    Dictionaries,
    JsonAtEnd,
    Threads,
    argument,
    flag,
    opened_dictionaries,
    option,
    pairs_of,
)
from phrasemate.cli.progress import stages
from phrasemate.cli.shell import DefaultGroup, clean, count
from phrasemate.errors import EndpointError, InputError, needs_extra
from phrasemate.utils.machine import cache_folder

if TYPE_CHECKING:
    from phrasemate.mt import Client, Form, Prompter, Retrieval, Translation, Translator


FormName = Literal["plain", "sentence", "phrases", "cot"]
Segmenter = Literal["learned", "ngram"]
HintIndex = Annotated[Path | None, option("--index", "DIR", "Index of text in the target language.")]
Template = Annotated[Path | None, option("--template", "FILE", "TOML file with texts that replace those of the form.")]
Threshold = Annotated[
    float, option("--min-belief", "P", "Minimum probability that words are a phrase, 0 to 1.", min=0, max=1)
]
SegmenterName = Annotated[
    Segmenter, option("--segmenter", "learned|ngram", "Find phrases by the trained segmenter, or take all n-grams.")
]
Equivalents = Annotated[int, option("--limit", "-k", "N", "Maximum number of equivalents for a phrase.", min=1)]
Contexts = Annotated[int, option("--contexts", "N", "Example sentences for an equivalent.", min=0)]
Confidence = Annotated[
    float | None,
    option(
        "--min-confidence",
        "X",
        "Minimum confidence of a hint, if the model gives one (default: 0.7; 0.9 without a scorer).",
        min=0,
        max=1,
    ),
]
Budget = Annotated[int, option("--budget", "N", "Maximum number of tokens for the hints of a sentence.", min=0)]
IndexModel = Annotated[Path | None, option("--model", "FOLDER", "Model folder (default: the model of the index).")]


def chosen_form(form: FormName, template: Path | None, index: Path | None) -> Form:
    """Return the form with the texts of the template. Raises BadParameter if it needs an index and has none."""
    from phrasemate.mt import FORMS, read_form

    if form != "plain" and index is None:
        raise typer.BadParameter(f"--form {form} needs --index DIR")
    return read_form(template, FORMS[form]) if template else FORMS[form]


def opened_retrieval(
    index: Path | None,
    model: Path | None,
    threads: int | None,
    form: FormName,
    settings: Any,
    bare: Prompter,
    stack: ExitStack,
    show: Callable[[str, int, int], None],
    dictionaries: Sequence[Path] = (),
    languages: tuple[str, str] = ("", ""),
) -> Retrieval:
    """Open the index and the dictionaries that the form needs; ``stack`` closes them. "plain" needs none."""
    from phrasemate.mt import Hinter, RelatedSentences, Retrieval

    if form == "plain" or index is None:
        return Retrieval()
    from phrasemate.encode import load_model
    from phrasemate.index import Index

    encoder = load_model(model, threads=threads) if model else None
    text_index = stack.enter_context(Index.open(index, encoder, readonly=True, threads=threads))
    if form == "sentence":
        return Retrieval(related=RelatedSentences(text_index, cache_folder(), show, languages[1]))
    term_bases = opened_dictionaries(dictionaries, languages)
    hinter = Hinter(text_index, settings, apart=bool(bare.form.first), dictionaries=term_bases, languages=languages)
    tokenizer = hinter.model.runtime.tokenizer
    return Retrieval(hinter, cost=lambda hint: len(tokenizer.encode(bare.hint(hint)).ids))


EXAMPLES = """Examples:

\b
  phrasemate mt news.de --index idx --llm http://127.0.0.1:8080/v1 --source-lang de --target-lang en -o news.en
  phrasemate mt news.de --index idx --source-lang de --target-lang en --dry-run --show-prompt
  phrasemate mt news.de --llm URL --llm-model NAME --source-lang de --target-lang en --form plain > news.en
  phrasemate mt news.de --index idx --llm URL --source-lang de --target-lang en --jsonl why.jsonl \\
      --api completions --examples known.tsv --shots 4

To resume a stopped run, give the same command again. Keys come from the environment variable
PHRASEMATE_LLM_KEY (--key-env names another)."""


class _MtGroup(DefaultGroup):
    default = "translate"


Api = Literal["chat", "completions"]
app = typer.Typer(
    cls=_MtGroup,
    help="Translate with a language model that gets retrieved phrases as hints; fine-tune one for it.",
    epilog=EXAMPLES,
)


@app.command("translate", epilog=EXAMPLES)
def translate(
    file: Annotated[str, argument("FILE", "A sentence on each line, UTF-8 (.txt, .gz); - for standard input.")],
    *,
    source: Annotated[str, option("--source-lang", "LANG", "Language of FILE, e.g. de or zh-Hant.")],
    target: Annotated[str, option("--target-lang", "LANG", "Language to translate into.")],
    index: HintIndex = None,
    llm: Annotated[str, option("--llm", "URL", "OpenAI-compatible server: its address up to /v1.")] = "",
    form: Annotated[
        FormName,
        option(
            "--form",
            "FORM",
            "Hints in the prompt: plain (none), sentence (a related sentence), phrases, "
            "or cot (chain of thought: phrases in a first request).",
        ),
    ] = "phrases",
    template: Template = None,
    examples: Annotated[
        Path | None, option("--examples", "FILE", "Known translations (.tsv, .tmx, ...) for few-shot prompts.")
    ] = None,
    shots: Annotated[int, option("--shots", "N", "How many of --examples to show the model.", min=0)] = 4,
    threshold: Threshold = 0.7,
    segmenter: SegmenterName = "learned",
    dictionary: Dictionaries = None,
    overlapping: Annotated[
        bool, flag("--overlapping", "Look up all phrases, not only the best ones that share no word.")
    ] = False,
    k: Equivalents = 2,
    contexts: Contexts = 1,
    confidence: Confidence = None,
    floor: Annotated[
        float | None,
        option(
            "--min-score",
            "X",
            "Minimum similarity of the equivalent of a single word (default: 0; 0.7 without a scorer; "
            "0.8 without confidence).",
        ),
    ] = None,
    per_word: Annotated[
        float | None,
        option(
            "--per-word",
            "X",
            "Added to --min-score for each further word of a phrase (default: 0; 0.05 without confidence).",
        ),
    ] = None,
    quick: Annotated[bool, flag("--quick", "Faster but less accurate: rank by vector similarity alone.")] = False,
    budget: Budget = 400,
    llm_model: Annotated[str, option("--llm-model", "NAME", "The model's name at the server.")] = "",
    api: Annotated[Api, option("--api", "chat|completions", "completions: for models that continue text.")] = "chat",
    key_env: Annotated[
        str, option("--key-env", "NAME", "Environment variable with the API key of the server.")
    ] = "PHRASEMATE_LLM_KEY",
    max_tokens: Annotated[int, option("--max-tokens", "N", "Longest answer, in tokens.", min=1)] = 512,
    temperature: Annotated[
        float, option("--temperature", "X", "Sampling temperature; 0: always the most likely word.", min=0)
    ] = 0.0,
    concurrency: Annotated[int, option("--concurrency", "N", "Requests at the same time.", min=1)] = 4,
    timeout: Annotated[float, option("--timeout", "S", "Seconds that a request may take.")] = 120.0,
    tries: Annotated[
        int, option("--tries", "N", "Attempts per request while the server is busy or unreachable.", min=1)
    ] = 6,
    cache: Annotated[
        Path | None, option("--cache", "FILE", "Cache of answers (default: in the user's cache folder).")
    ] = None,
    out: Annotated[Path | None, option("--out", "-o", "FILE", "The translations (default: standard output).")] = None,
    jsonl: Annotated[
        Path | None, option("--jsonl", "FILE", "Write JSON lines: prompt, hints, their sources, answer, failure.")
    ] = None,
    as_json: Annotated[bool, flag("--json", "Print the lines of --jsonl instead of translations.")] = False,
    force: Annotated[bool, flag("--force", "Overwrite files that exist.")] = False,
    show_prompt: Annotated[bool, flag("--show-prompt", "Print each prompt to standard error.")] = False,
    dry_run: Annotated[bool, flag("--dry-run", "Make the prompts and send nothing.")] = False,
    model: IndexModel = None,
    threads: Threads = None,
) -> None:
    """Translate each line of FILE with a language model that gets retrieved phrases of the target language as hints.

    The index only needs text in the target language. The output has one translation per line, in the order of FILE. A
    line that the model did not translate stays empty and is counted. If it translated none, nothing is written.
    """
    from phrasemate.mt import Cache, Client, Endpoint, Hints, Prompter, Translator

    _check_files(file, examples, out, jsonl, force)
    if not llm and not dry_run:
        raise typer.BadParameter("give --llm URL, or --dry-run to see the prompts alone")
    if dry_run and out:
        raise typer.BadParameter(
            "--dry-run makes no translations for -o; leave it out (--jsonl FILE takes the prompts)"
        )
    form_name = chosen_form(form, template, index)
    settings = Hints(
        threshold=threshold,
        segmenter=segmenter,
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
        show = stack.enter_context(stages(lambda: "the answers so far are kept: run the same command again to resume"))
        bare = Prompter(form_name, source, target)
        retrieval = opened_retrieval(
            index, model, threads, form, settings, bare, stack, show, dictionary or (), (source, target)
        )
        translations = pairs_of(examples, source, target, "--source-lang and --target-lang") if examples else ()
        shown_examples = retrieval.examples(list(islice(translations, shots))) if examples else ()
        translator = Translator(Prompter(form_name, source, target, shown_examples), retrieval)
        sinks = _Sinks(out, jsonl, as_json, show_prompt, stack)
        if dry_run:
            for number, request in enumerate(translator.requests(lines), 1):
                sinks.prompt(request.as_dict())
                show("prompts", number, len(lines))
            return
        endpoint = Endpoint(llm, llm_model, api, key_env, max_tokens, temperature, 0, concurrency, timeout, tries)
        answers = stack.enter_context(Cache(cache or cache_folder() / "answers.sqlite"))
        _translate(translator, lines, stack.enter_context(Client(endpoint, answers)), sinks, show)


def _translate(translator: Translator, lines: list[str], client: Client, sinks: _Sinks, show: Any) -> None:
    errors, repeats, cut, first = 0, 0, 0, ""
    for number, item in enumerate(translator.translate(lines, client), 1):
        sinks.translation(item)
        errors, repeats, cut = errors + bool(item.failure), repeats + item.answer.cached, cut + item.answer.cut
        first = first or (f"line {item.request.number}: {item.failure}" if item.failure else "")
        show("translating", number, len(lines))
    summary = f"{count(len(lines), 'line')}, {errors:,} not translated, "
    summary += f"{repeats:,} answers known before, {client.requests:,} asked"
    summary += f" ({client.repeats:,} again)" if client.repeats else ""
    summary += f", {cut:,} cut at --max-tokens" if cut else ""
    if errors and errors == sum(1 for line in lines if line.strip()):
        raise EndpointError(f"no line was translated, first {first}; give the same command again")
    sinks.finish()
    typer.echo(summary, err=True)
    if errors:
        again = "the same command with --force" if sinks.files else "the same command"
        typer.echo(clean(f"not translated (empty lines; {again} tries once more), first {first}"), err=True)


def _check_files(file: str, examples: Path | None, out: Path | None, jsonl: Path | None, force: bool) -> None:
    """Raise InputError before the work for an output file that exists or is an input, or is given twice."""
    from phrasemate.utils.storage import check_new

    paths: list[tuple[str, str | Path]] = [("the text", file)] if file != "-" else []
    paths += [("the known translations", examples)] if examples else []
    for name, path in (("-o", out), ("--jsonl", jsonl)):
        if path is None:
            continue
        for label, other_path in paths:
            if os.path.realpath(path) == os.path.realpath(other_path):
                raise InputError(f"{path}: given for {name} and as {label}; expected another file")
        check_new(path, force)
        paths.append((f"the file of {name}", path))


class _Sinks:
    """Write translations and prompts to standard output, ``-o`` and ``--jsonl``.

    Lines without a translation are held back until the first translation comes, so that a run without any translation
    writes nothing.
    """

    def __init__(
        self, out: Path | None, jsonl: Path | None, as_json: bool, show_prompt: bool, stack: ExitStack
    ) -> None:
        from phrasemate.utils.storage import NewFile

        self._as_json, self._show_prompt, self.files = as_json, show_prompt, bool(out or jsonl)
        self._prompts = as_json or not (jsonl or show_prompt)  # --dry-run prints prompts instead of translations
        self._out = stack.enter_context(NewFile(out)) if out else sys.stdout
        self._jsonl = stack.enter_context(NewFile(jsonl)) if jsonl else None
        self._on_screen = out is None and sys.stdout.isatty()
        self._held: list[str] | None = []  # lines without a translation; None once a translation has come

    def translation(self, translation: Translation) -> None:
        """Write the line of a translation, or hold it back if it is empty and no translation has come yet."""
        line = self._record(translation.as_dict())
        line = (line if self._as_json else self._screened(translation.text)) + "\n"
        if self._held is not None and not translation.text:
            self._held.append(line)
            return
        self.finish()
        self._out.write(line)
        sys.stdout.flush()

    def finish(self) -> None:
        """Write the lines held back."""
        sink, self._held = self._held, None
        for line in sink or ():
            self._out.write(line)
        sys.stdout.flush()

    def prompt(self, facts: dict[str, Any]) -> None:
        """Write a prompt that --dry-run does not send."""
        line = self._record(facts)
        if self._prompts:
            self._out.write((line if self._as_json else self._screened(facts["prompt"]) + "\n") + "\n")

    def _record(self, facts: dict[str, Any]) -> str:
        """Show the prompt and write the JSON line, if they are asked for. Returns the JSON line."""
        if self._show_prompt:
            typer.echo(f"--- line {facts['number']}\n{_lines_clean(facts['prompt'])}\n", err=True)
        line = json.dumps(facts, ensure_ascii=False)
        if self._jsonl:
            self._jsonl.write(line + "\n")
        return line

    def _screened(self, text: str) -> str:
        """Remove control characters on a terminal: neither a corpus nor a server may control it."""
        return _lines_clean(text) if self._on_screen else text


def _lines_clean(text: str) -> str:
    return "\n".join(map(clean, text.split("\n")))


def _lines(file: str) -> list[str]:
    """Read the lines of a file or of standard input, without line ends. Raises ReadError."""
    from phrasemate.text.corpus import spool
    from phrasemate.text.text_file import numbered_lines

    if file != "-":
        return [line for _, line in numbered_lines(Path(file))]
    path = spool(None, "standard input")
    try:
        return [line for _, line in numbered_lines(path, "standard input")]
    finally:
        path.unlink()


_HUGGING_FACE = re.compile(r"(\w[\w.-]*/)?\w[\w.-]*")  # NAME or OWNER/NAME


@app.command("prepare")
def prepare(
    pairs: Annotated[Path, argument("PAIRS", "Parallel text (.tsv, .tsv.gz, .tmx, .xlf).")],
    *,
    source: Annotated[str, option("--source-lang", "LANG", "Language of the first side, e.g. de.")],
    target: Annotated[str, option("--target-lang", "LANG", "Language of the second side.")],
    out: Annotated[Path, option("--out", "-o", "NAME", "Write NAME.chat.jsonl and NAME.plain.jsonl.")],
    index: HintIndex = None,
    form: Annotated[
        FormName,
        option("--form", "FORM", "Hints in the prompt: plain (none), sentence (a related sentence) or phrases."),
    ] = "phrases",
    template: Template = None,
    swap: Annotated[bool, flag("--swap", "PAIRS has the target language first.")] = False,
    count: Annotated[int, option("--count", "N", "Number of examples.", min=1)] = 1_800,
    threshold: Threshold = 0.7,
    segmenter: SegmenterName = "learned",
    dictionary: Dictionaries = None,
    k: Equivalents = 2,
    contexts: Contexts = 1,
    confidence: Confidence = None,
    floor: Annotated[
        float | None, option("--min-score", "X", "Minimum similarity of the equivalent of a single word.")
    ] = None,
    budget: Budget = 400,
    seed: Annotated[int, option("--seed", "N", "Seed for choosing the examples.")] = 0,
    force: Annotated[bool, flag("--force", "Overwrite files that exist.")] = False,
    model: IndexModel = None,
    threads: Threads = None,
    as_json: JsonAtEnd = False,
) -> None:
    """Write fine-tuning examples: the prompts of phrasemate mt for parallel sentences, with their translations.

    Hints never come from the translation of the same sentence, even if the parallel text is in the index.

    Examples:
      phrasemate mt prepare pairs.tsv --index idx --source-lang de --target-lang en -o lessons
      phrasemate mt prepare memory.tmx --index idx --source-lang de --target-lang en -o lessons --count 500 --contexts 0
      phrasemate mt tune lessons.chat.jsonl --base my-model -o adapter
    """
    from phrasemate.mt import Hints, Prompter
    from phrasemate.mt.translate import lessons, sampled, write_lessons
    from phrasemate.utils.storage import check_new

    if not out.name:
        raise InputError(f"{out}: names a folder; expected the beginning of two files' names")
    chat, plain = (out.with_name(f"{out.name}.{kind}.jsonl") for kind in ("chat", "plain"))
    for path in (chat, plain):
        check_new(path, force)
    form_name = chosen_form(form, template, index)
    settings = Hints(threshold, segmenter, k=k, contexts=contexts, floor=floor, confidence=confidence, budget=budget)
    languages = "--source-lang and --target-lang"
    text = pairs_of(pairs, source, target, languages)
    if swap:
        text = ((first, second) for second, first in pairs_of(pairs, target, source, languages))
    sample = sampled(text, count, seed)
    with ExitStack() as stack:
        show = stack.enter_context(stages())
        prompter = Prompter(form_name, source, target)
        retrieval = opened_retrieval(
            index, model, threads, form, settings, prompter, stack, show, dictionary or (), (source, target)
        )
        lesson_counts = write_lessons(lessons(sample, prompter, retrieval, show), chat, plain)
    if as_json:
        typer.echo(json.dumps({"examples": lesson_counts, "chat": str(chat), "plain": str(plain)}))
    else:
        typer.echo(f"{chat}, {plain}: {lesson_counts:,} examples")


@app.command("tune")
def tune(
    data: Annotated[Path, argument("DATA", "NAME.chat.jsonl or NAME.plain.jsonl, written by phrasemate mt prepare.")],
    *,
    base: Annotated[str, option("--base", "MODEL", "Folder or name of the causal Hugging Face model to fine-tune.")],
    out: Annotated[Path, option("--out", "-o", "DIR", "The folder of the adapter to write.")],
    steps: Annotated[int, option("--steps", "N", "Number of training steps.", min=1)] = 100,
    batch: Annotated[int, option("--batch", "N", "Examples per step.", min=1)] = 16,
    rate: Annotated[float, option("--rate", "X", "Peak learning rate.")] = 2e-4,
    rank: Annotated[int, option("--rank", "N", "Rank of the LoRA matrices.", min=1)] = 8,
    max_tokens: Annotated[
        int, option("--max-tokens", "N", "Maximum length of an example; longer ones are left out.", min=8)
    ] = 1_024,
    seed: Annotated[int, option("--seed", "N", "Seed of the initial LoRA matrices and the order of examples.")] = 0,
    bf16: Annotated[bool, flag("--bf16", "Keep the frozen weights in bfloat16: half the memory.")] = False,
    device: Annotated[str, option("--device", "auto|cpu|cuda", "Device to train on.")] = "auto",
    threads: CpuThreads = None,
    force: Annotated[bool, flag("--force", "Overwrite a folder that exists.")] = False,
    as_json: JsonAtEnd = False,
) -> None:
    """Fine-tune a causal language model for the prompts of phrasemate mt by LoRA (needs the extra [train]).

    Examples:
      phrasemate mt tune lessons.plain.jsonl --base my-model -o adapter
      phrasemate mt tune lessons.chat.jsonl --base my-chat-model -o adapter --steps 200 --rank 16 --device cuda
    """
    from phrasemate.utils.storage import check_new

    if not data.is_file():
        raise InputError(f"{data}: no such file; expected one that phrasemate mt prepare wrote")
    check_new(out, force, folder=True)
    _check_base(base)
    with needs_extra("train"):
        from phrasemate.training.lora import LoraSettings, read_lessons, train_lora
        from phrasemate.training.trainer import chosen_device
    precision = "bf16" if bf16 else "fp32"
    settings = LoraSettings(
        steps=steps, batch=batch, rate=rate, rank=rank, max_tokens=max_tokens, seed=seed, precision=precision
    )
    read_lessons(data)  # reports faults in the file before a model is loaded or downloaded
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
    """Raise InputError, before any download, for what is neither a model folder nor a possible Hugging Face name."""
    if Path(base).exists():
        if not (Path(base) / "config.json").is_file():
            raise InputError(f"{base}: no config.json; expected the folder of a causal Hugging Face model")
    elif not _HUGGING_FACE.fullmatch(base):
        raise InputError(f"{base}: no such folder; expected that of a causal Hugging Face model")
