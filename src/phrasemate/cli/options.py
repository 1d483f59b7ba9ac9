"""Options that several commands have, and what they all say in the same way."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from phrasemate.cli.shell import clean
from phrasemate.errors import ReadError

if TYPE_CHECKING:
    from phrasemate.text import Skipped

SHOWN = 20  # skipped lines that are listed; the rest are counted
_NO_OPTION = re.compile(r", give --columns or use --on-error skip| or use --on-error skip")


class OnError(StrEnum):
    """What becomes of a line that cannot be read."""

    RAISE = "raise"
    SKIP = "skip"


class Lines(StrEnum):
    """What a line of a text is."""

    PARAGRAPH = "paragraph"
    SENTENCE = "sentence"


SplitLines = Annotated[
    Lines, typer.Option("--lines", metavar="paragraph|sentence", help="Whether a line is split into sentences.")
]
OrList = Annotated[
    OnError, typer.Option("--on-error", metavar="raise|skip", help="Stop at what cannot be read, or list it.")
]
Column = Annotated[
    str | None, typer.Option("--column", metavar="NAME|N", help="Column of tables: name, or number from 1.")
]
TextField = Annotated[
    str, typer.Option("--text-field", metavar="NAME", help="Field of .jsonl files that holds the text.")
]
Encoding = Annotated[str, typer.Option("--encoding", metavar="NAME", help="Encoding of the texts.")]
Model = Annotated[
    Path | None, typer.Option("--model", metavar="FOLDER", help="Model folder (default: the bundled one).")
]
Threads = Annotated[
    int | None, typer.Option("--threads", metavar="N", min=1, help="Threads for the encoder (default: all cores).")
]
Quick = Annotated[
    bool, typer.Option("--quick", help="Compare phrases in their sentences only: quicker, and fewer right answers.")
]
Dictionaries = Annotated[
    list[Path] | None,
    typer.Option(
        "--dictionary",
        metavar="FILE",
        help="A dictionary or term base whose equivalents are proposed: TSV, TBX, TMX, xlsx, StarDict, dictd, or a "
        "folder of them (may be given several times).",
    ),
]
WithLexicon = Annotated[
    bool,
    typer.Option("--lexicon/--no-lexicon", help="Propose what the bundled lexicon gives."),
]
JsonAtEnd = Annotated[bool, typer.Option("--json", help="Print one JSON object at the end.")]


def say_skipped(skipped: Sequence[Skipped], more: str = "") -> None:
    """The first lines that were passed over, on standard error; ``more``: where the others are told."""
    for item in skipped[:SHOWN]:
        where = f"{item.file}, line {item.line}" if item.line else item.file
        rest = " and the rest of the file" if item.whole and item.line else ""
        typer.echo(clean(f"skipped: {where}{rest}: {item.reason}"), err=True)
    if len(skipped) > SHOWN:
        typer.echo(f"skipped: {len(skipped) - SHOWN:,} more{more}", err=True)


def pairs_of(path: Path, source: str, target: str, options: str) -> Iterator[tuple[str, str]]:
    """The sentence pairs of a parallel text, for a command that has no options for it.

    Of a translation memory those in the two languages, where both are known, in whatever order its units have them.
    Raises ReadError; ``options`` say the languages.
    """
    from phrasemate.align import ParallelText
    from phrasemate.text.formats.bilingual import format_of

    spoken = [re.split("[-_]", language)[0] for language in (source, target)]  # de-AT: any German
    languages = (spoken[0], spoken[1]) if all(spoken) and format_of(path) else ("", "")
    try:
        yield from (pair for pair in ParallelText(path, languages=languages) if all(pair))
    except ReadError as error:
        remedy = _NO_OPTION.sub("", error.remedy).replace("--langs, source first", options).replace("--langs", options)
        raise ReadError(error.file, error.line, error.reason, remedy) from error


@contextmanager
def sided(*sides: str) -> Iterator[None]:
    """Errors within name the options of a side, --source-lang for --lang, of a command that has two."""
    try:
        yield
    except ReadError as error:
        remedy = error.remedy
        for option in ("lang", "column"):
            remedy = remedy.replace(f"--{option}", " or ".join(f"--{side}-{option}" for side in sides))
        raise ReadError(error.file, error.line, error.reason, remedy) from error
