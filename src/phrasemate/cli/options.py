"""Options, value checks and messages that several commands share."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from phrasemate.cli.shell import clean, out
from phrasemate.errors import InputError, ReadError
from phrasemate.utils.machine import cache_folder

if TYPE_CHECKING:
    from phrasemate.examples import ExampleIndex
    from phrasemate.lexicon import Dictionary
    from phrasemate.text import Corpus, SkippedInput


def option(*texts: str, **settings: Any) -> Any:
    """Declare an option with a value: its names, its metavar, its help. ``settings`` go to ``typer.Option``."""
    *names, metavar, description = texts
    return typer.Option(*names, metavar=metavar, help=description, **settings)


def flag(*texts: str, **settings: Any) -> Any:
    """Declare an option without a value: its names, its help."""
    *names, description = texts
    return typer.Option(*names, help=description, **settings)


def argument(metavar: str, description: str, **settings: Any) -> Any:
    """Declare a positional argument: its metavar, its help."""
    return typer.Argument(metavar=metavar, help=description, **settings)


def several(value: str) -> tuple[str, ...]:
    """Split the value of an option such as ``--only phrases,segmenter`` at commas; "" gives an empty tuple."""
    return tuple(part for part in map(str.strip, value.split(",")) if part)


def two(value: str, option: str, expected: str) -> tuple[str, str]:
    """Split the value of an option such as ``--langs de,en``. Raises BadParameter unless it has two parts."""
    parts = several(value)
    if len(parts) != 2 or value.count(",") != 1:
        raise typer.BadParameter(f"{option} {value}: expected {expected}")
    return parts[0], parts[1]


def two_columns(value: str) -> tuple[int, int]:
    """Parse ``--columns``, such as "1,2". Raises BadParameter unless it is two numbers."""
    requirement = "two numbers from 1, such as 1,2"
    source, target = two(value, "--columns", requirement)
    if not all(re.fullmatch("[0-9]{1,9}", number) for number in (source, target)):
        raise typer.BadParameter(f"--columns {value}: expected {requirement}")
    return int(source), int(target)


def check_outside(first: str, second: str, *written: Path) -> None:
    """Raise InputError if a file would be written into an input folder, where the next run would read it."""
    for folder in filter(Path.is_dir, map(Path, (first, second))):
        for path in written:
            if folder.resolve() in (path.parent.resolve() / path.name).parents:  # a link is replaced, not followed
                raise InputError(f"{path}: lies in {folder}, which is read; choose a place outside it")


def check_apart(written: Path, *read: str | Path) -> None:
    """Raise InputError if the output file is one of the input files, even by another name such as a link."""
    if written.exists() and any(Path(path).exists() and written.samefile(path) for path in read):
        raise InputError(f"{written}: would be read and written; give another output file")


SHOWN = 20  # number of skipped lines that are listed; the rest are only counted
_NO_OPTION = re.compile(r", give --columns or use --on-error skip| or use --on-error skip")


OnError = Literal["raise", "skip"]
Lines = Literal["paragraph", "sentence", "wrapped"]
SplitLines = Annotated[
    Lines,
    option("--lines", "paragraph|sentence|wrapped", "What a line of plain text holds; wrapped: a part of a paragraph."),
]
OrList = Annotated[OnError, option("--on-error", "raise|skip", "Stop at unreadable input, or skip and report it.")]
Column = Annotated[str | None, option("--column", "NAME|N", "Column of a table to read: its name, or number from 1.")]
TextField = Annotated[str, option("--text-field", "NAME", "Field of .jsonl files that holds the text.")]
Encoding = Annotated[str, option("--encoding", "NAME", "Encoding of the texts.")]


def opened_dictionaries(paths: Sequence[Path] | None, languages: Sequence[str] = ()) -> list[Dictionary]:
    """Open the dictionaries of ``--dictionary``, with a note on standard error when a large one is read.

    Large dictionaries are cached in the cache folder once they are read. Without ``paths``, nothing is imported.
    """
    if not paths:
        return []
    from phrasemate.lexicon import open_dictionaries

    cache = None
    with suppress(InputError):
        cache = cache_folder() / "dictionaries"

    def show(path: Path) -> None:
        typer.echo(clean(f"reading {path.name}, which takes a while the first time"), err=True)

    return open_dictionaries(paths, languages, cache, show)


Model = Annotated[Path | None, option("--model", "FOLDER", "Model folder (default: the bundled model).")]
Threads = Annotated[int | None, option("--threads", "N", "Threads for the encoder (default: all cores).", min=1)]
CpuThreads = Annotated[int | None, option("--threads", "N", "Threads on the CPU (default: all cores).", min=1)]
Quick = Annotated[bool, flag("--quick", "Faster but less accurate: rank by vector similarity alone.")]
Dictionaries = Annotated[
    list[Path] | None,
    option(
        "--dictionary",
        "FILE",
        "Your dictionary or term base: TSV, TBX, TMX, xlsx, StarDict, dictd, or a folder of them (repeatable).",
    ),
]
WithLexicon = Annotated[bool, flag("--lexicon/--no-lexicon", "Use the bundled lexicon.")]
Json = Annotated[bool, flag("--json", "Print one JSON object.")]
JsonTables = Annotated[bool, flag("--json", "Print one JSON object instead of the tables.")]
Layer = Annotated[int | None, option("--layer", "N", "Layer of the model (default: the last).", min=0)]
JsonAtEnd = Annotated[bool, flag("--json", "Print one JSON object at the end.")]


def read_texts(
    paths: Sequence[str],
    column: str | None,
    text_field: str,
    lines: Lines,
    on_error: OnError,
    encoding: str,
    lang: str = "",
) -> Corpus:
    """Read files and folders as the options above say."""
    from phrasemate.text import read

    return read(
        *paths, column=column, text_field=text_field, lines=lines, lang=lang, on_error=on_error, encoding=encoding
    )


def sentences_of(stack: ExitStack, index: Path, languages: Sequence[str] | None) -> ExampleIndex:
    """Open the sentences of an index; ``stack`` closes them."""
    from phrasemate.examples import ExampleIndex
    from phrasemate.index import Index

    text_index = stack.enter_context(Index.open(index, readonly=True))
    return stack.enter_context(ExampleIndex.from_index(text_index, languages))


def say_skipped(skipped: Sequence[SkippedInput], more: str = "") -> None:
    """Print the first `SHOWN` skipped lines to standard error; ``more`` says where the rest are listed."""
    for item in skipped[:SHOWN]:
        where = f"{item.file}, line {item.line}" if item.line else item.file
        rest = " and the rest of the file" if item.whole and item.line else ""
        typer.echo(clean(f"skipped: {where}{rest}: {item.reason}"), err=True)
    if len(skipped) > SHOWN:
        typer.echo(f"skipped: {len(skipped) - SHOWN:,} more{more}", err=True)


def print_json(facts: Any, err: bool = False) -> None:
    """Print one JSON object on a line."""
    typer.echo(json.dumps(facts, ensure_ascii=False), err=err)


def print_report(
    facts: dict[str, Any], skipped: Sequence[SkippedInput], text: str, as_json: bool, err: bool = False
) -> None:
    """Print the outcome of a command: ``text`` after the first skipped lines, or JSON with all skipped lines."""
    if as_json:
        print_json(facts | {"skipped": [item._asdict() for item in skipped]}, err)
    else:
        say_skipped(skipped, " (all are in --json)")
        typer.echo(text, err=err)


def print_facts(facts: Mapping[str, Any], as_json: bool) -> None:
    """Print one JSON object, or a line for each fact."""
    if as_json:
        print_json(facts)
        return
    from phrasemate.cli.render import facts as lines_of

    out().print(lines_of(facts))


def pairs_of(path: Path, source: str, target: str, options: str) -> Iterator[tuple[str, str]]:
    """Yield the sentence pairs of a parallel text, for a command without the options ``--langs`` and ``--columns``.

    If both languages are known, a translation memory gives its units in these, whatever their order in the file.
    Raises ReadError, which names ``options`` as those that choose the languages, and for a file without a pair.
    """
    from phrasemate.align import ParallelText
    from phrasemate.text.formats.bilingual import format_of

    primary_languages = [re.split("[-_]", language)[0] for language in (source, target)]  # de-AT matches any German
    languages = (primary_languages[0], primary_languages[1]) if all(primary_languages) and format_of(path) else ("", "")
    is_empty = True
    try:
        for pair in ParallelText(path, languages=languages):
            if all(pair):
                is_empty = False
                yield pair
        if is_empty:
            raise ReadError(str(path), 0, "no pair of sentences in it", "give a file with a pair in each line")
    except ReadError as error:
        remedy = _NO_OPTION.sub("", error.remedy).replace("--langs, source first", options).replace("--langs", options)
        raise ReadError(error.file, error.line, error.reason, remedy) from error


@contextmanager
def rename_options(**names: str) -> Iterator[None]:
    """Name options in errors as the command calls them: ``lang="--source-lang"``; "" if it has no such option."""
    try:
        yield
    except ReadError as error:
        remedy = error.remedy
        for name, option in names.items():
            text = rf"--{name}\b" if option else rf"choose one(?: of them)? with --{name}\b"
            remedy = re.sub(text, option or "give other text", remedy)
        raise ReadError(error.file, error.line, error.reason, remedy) from error


@contextmanager
def sided(*sides: str) -> Iterator[None]:
    """Name the options of a side in errors, such as --source-lang for --lang, of a command with two sides."""
    with rename_options(**{name: " or ".join(f"--{side}-{name}" for side in sides) for name in ("lang", "column")}):
        yield
