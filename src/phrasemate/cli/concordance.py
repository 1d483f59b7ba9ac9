"""``phrasemate concordance``: look up text itself in an index."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from phrasemate.cli.shell import out

if TYPE_CHECKING:
    from phrasemate.lookup import Lookup

EXAMPLES = """Examples:

\b
  phrasemate concordance idx collateral
  phrasemate concordance idx "secur* interest" --sort right
  phrasemate concordance idx grant --how forms -n 50      granted, grants, granting
  phrasemate concordance idx "\\b(take|took) effect" --how regex --document contracts/
  phrasemate concordance idx collateral --json"""


class How(StrEnum):
    """What the text is."""

    WORDS = "words"
    FORMS = "forms"
    REGEX = "regex"


class Sort(StrEnum):
    """The order of the lines."""

    TEXT = "text"
    LEFT = "left"
    RIGHT = "right"


def concordance(
    index: Annotated[Path, typer.Argument(metavar="DIR", help="The index.")],
    query: Annotated[str, typer.Argument(metavar="TEXT", help="Words, in the language of the index.")],
    how: Annotated[
        How, typer.Option("--how", metavar="words|forms|regex", help="forms: inflected forms of the words, too.")
    ] = How.WORDS,
    sort: Annotated[
        Sort, typer.Option("--sort", metavar="text|left|right", help="Order of the lines: by what stands on a side.")
    ] = Sort.TEXT,
    most: Annotated[
        int, typer.Option("--limit", "-n", metavar="N", min=1, max=1_000, help="Lines that are printed.")
    ] = 20,
    document: Annotated[
        list[str] | None,
        typer.Option("--document", metavar="NAME", help="Only in this document or folder, or those that fit *."),
    ] = None,
    language: Annotated[
        list[str] | None, typer.Option("--language", metavar="LANG", help="Only in this language (repeatable).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Look up words in the texts of an index: how often they occur, what stands beside them, and every line.

    In words, * stands for any letters and ? for one. Case does not matter. No model is loaded.
    """
    from phrasemate.index import Index
    from phrasemate.lookup import lookup

    with Index.open(index, readonly=True, threads=1) as opened:
        answer = lookup(opened, query, how, sort, most, document, language)
    if as_json:
        typer.echo(json.dumps(answer.as_dict(), ensure_ascii=False))
    else:
        _print(answer)


def _print(answer: Lookup) -> None:
    from rich.text import Text

    from phrasemate.cli.render import count, kwic, marked
    from phrasemate.cli.shell import clean

    console = out()
    so_far = "" if answer.whole else " so far (time ran out)"
    console.print(Text(f"{count(answer.count, 'place')} in {count(answer.sentences, 'sentence')}{so_far}", "bold"))
    for name in ("wordings", "before", "after"):
        pairs = ", ".join(f"{clean(word)} {number:,}" for word, number in getattr(answer, name)[:10])
        if pairs:
            console.print(Text(f"{name:10}{pairs}"))
    for line in answer.lines:
        place = f"  ({clean(line.hit.document)}:{line.hit.line})"
        console.print(kwic(line.hit, console.width) if console.is_terminal else marked(line.hit.phrase).append(place))
