"""Options that several commands have, checks of their values, and messages that all commands share."""

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
    """An option with a value: its names, what stands for the value, its help; ``settings`` are typer's, such as min."""
    *names, metavar, description = texts
    return typer.Option(*names, metavar=metavar, help=description, **settings)


def flag(*texts: str, **settings: Any) -> Any:
    """An option without a value: its names, its help."""
    *names, description = texts
    return typer.Option(*names, help=description, **settings)


def argument(metavar: str, description: str, **settings: Any) -> Any:
    """An argument: what stands for it, its help."""
    return typer.Argument(metavar=metavar, help=description, **settings)


def several(value: str) -> tuple[str, ...]:
    """The values of an option such as ``--only phrases,segmenter``; there may be none."""
    return tuple(part for part in map(str.strip, value.split(",")) if part)


def two(value: str, option: str, expected: str) -> tuple[str, str]:
    """The two values of an option such as ``--langs de,en``. Raises BadParameter for anything else."""
    parts = several(value)
    if len(parts) != 2 or value.count(",") != 1:
        raise typer.BadParameter(f"{option} {value}: expected {expected}")
    return parts[0], parts[1]


def two_columns(value: str) -> tuple[int, int]:
    """The numbers of ``--columns``. Raises BadParameter for anything else."""
    requirement = "two numbers from 1, such as 1,2"
    source, target = two(value, "--columns", requirement)
    if not all(re.fullmatch("[0-9]{1,9}", number) for number in (source, target)):
        raise typer.BadParameter(f"--columns {value}: expected {requirement}")
    return int(source), int(target)


def check_outside(first: str, second: str, *written: Path) -> None:
    """Raises InputError for what would be written into a folder that is read: the next run would read it, too."""
    for folder in filter(Path.is_dir, map(Path, (first, second))):
        for path in written:
            if folder.resolve() in (path.parent.resolve() / path.name).parents:  # a link is replaced, not followed
                raise InputError(f"{path}: lies in {folder}, which is read; choose a place outside of it")


def check_apart(written: Path, *read: str | Path) -> None:
    """Raises InputError where what is read would be lost, by whatever name it is given."""
    if written.exists() and any(Path(path).exists() and written.samefile(path) for path in read):
        raise InputError(f"{written}: would be read and written; give another output file")


SHOWN = 20  # skipped lines that are listed; the rest are counted
_NO_OPTION = re.compile(r", give --columns or use --on-error skip| or use --on-error skip")


OnError = Literal["raise", "skip"]
Lines = Literal["paragraph", "sentence", "wrapped"]
SplitLines = Annotated[Lines, option("--lines", "paragraph|sentence|wrapped", "What a line of plain text is.")]
OrList = Annotated[OnError, option("--on-error", "raise|skip", "Stop at what cannot be read, or list it.")]
Column = Annotated[str | None, option("--column", "NAME|N", "Column of tables: name, or number from 1.")]
TextField = Annotated[str, option("--text-field", "NAME", "Field of .jsonl files that holds the text.")]
Encoding = Annotated[str, option("--encoding", "NAME", "Encoding of the texts.")]


def opened_dictionaries(paths: Sequence[Path] | None, languages: Sequence[str] = ()) -> list[Dictionary]:
    """Open the dictionaries of ``--dictionary``; what was read of large ones is kept in the cache folder.

    Standard error says when a large one is read. Without any, the readers of their formats are not even imported.
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


Model = Annotated[Path | None, option("--model", "FOLDER", "Model folder (default: the bundled one).")]
Threads = Annotated[int | None, option("--threads", "N", "Threads for the encoder (default: all cores).", min=1)]
CpuThreads = Annotated[int | None, option("--threads", "N", "Threads on the CPU (default: all cores).", min=1)]
Quick = Annotated[bool, flag("--quick", "Faster, with fewer right answers: go by the vectors alone.")]
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
    """The texts of these files and folders, by the values of the options above."""
    from phrasemate.text import read

    return read(
        *paths, column=column, text_field=text_field, lines=lines, lang=lang, on_error=on_error, encoding=encoding
    )


def sentences_of(stack: ExitStack, index: Path, languages: Sequence[str] | None) -> ExampleIndex:
    """The sentences of an index, which ``stack`` closes."""
    from phrasemate.examples import ExampleIndex
    from phrasemate.index import Index

    text_index = stack.enter_context(Index.open(index, readonly=True))
    return stack.enter_context(ExampleIndex.from_index(text_index, languages))


def say_skipped(skipped: Sequence[SkippedInput], more: str = "") -> None:
    """The first lines that were passed over, on standard error; ``more``: where the others are listed."""
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
    """Print how a command ended: one JSON object with all that was skipped, or the first of it and ``text``."""
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
    """The sentence pairs of a parallel text, for a command that has no options for it.

    Of a translation memory those in the two languages, where both are known, in whatever order its units have them.
    Raises ReadError; ``options`` say the languages.
    """
    from phrasemate.align import ParallelText
    from phrasemate.text.formats.bilingual import format_of

    primary_languages = [re.split("[-_]", language)[0] for language in (source, target)]  # de-AT: any German
    languages = (primary_languages[0], primary_languages[1]) if all(primary_languages) and format_of(path) else ("", "")
    try:
        yield from (pair for pair in ParallelText(path, languages=languages) if all(pair))
    except ReadError as error:
        remedy = _NO_OPTION.sub("", error.remedy).replace("--langs, source first", options).replace("--langs", options)
        raise ReadError(error.file, error.line, error.reason, remedy) from error


@contextmanager
def rename_options(**names: str) -> Iterator[None]:
    """Errors within name options as the command calls them: ``lang="--source-lang"``; "" if it has no such option."""
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
    """Errors within name the options of a side, --source-lang for --lang, of a command that has two."""
    with rename_options(**{name: " or ".join(f"--{side}-{name}" for side in sides) for name in ("lang", "column")}):
        yield
