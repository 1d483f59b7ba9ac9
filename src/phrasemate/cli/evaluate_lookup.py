"""``phrasemate evaluate lookup``: phrases in their sentences, looked up in text that is not their translation."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from phrasemate.cli.evaluate import print_result
from phrasemate.cli.options import Threads
from phrasemate.cli.progress import stages
from phrasemate.cli.validators import several

EXAMPLES = """Examples:

\b
  phrasemate evaluate lookup lookups --work indexes
  phrasemate evaluate lookup lookups --langs de,ja --systems search,quick --against quick
  phrasemate evaluate lookup lookups --size 20000,100000 --model untrained=base --work indexes -o figures
  phrasemate evaluate lookup lookups --idioms idioms.jsonl.gz --work indexes

lookups/XX.jsonl holds the queries of a language, lookups/english-20000.txt a collection of sentences, one a line."""


class Half(StrEnum):
    """The halves of the queries."""

    DEV = "dev"
    TEST = "test"


def lookup(
    folder: Annotated[Path, typer.Argument(metavar="SET", help="Folder of queries and collections.")],
    *,
    size: Annotated[
        str, typer.Option("--size", metavar="N,...", help="Collections: english-N.txt of the folder.")
    ] = "20000",
    half: Annotated[
        Half,
        typer.Option("--half", metavar="dev|test", help="Choose on dev; look at test once for a model that is done."),
    ] = Half.DEV,
    langs: Annotated[
        str, typer.Option("--langs", metavar="XX,...", help="Languages of the queries (default: all there are).")
    ] = "",
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            metavar="NAME=FOLDER",
            help="A row for a search with this model folder. May be given several times.",
        ),
    ] = None,
    systems: Annotated[
        str,
        typer.Option(
            "--systems",
            metavar="NAME,...",
            help="Rows: search, without lexicon, views, quick, sentences, dictionary, and names of --model (default: "
            "all).",
        ),
    ] = "",
    against: Annotated[
        str, typer.Option("--against", metavar="NAME", help="The row that p compares with (default: the first).")
    ] = "",
    idioms: Annotated[
        Path | None,
        typer.Option("--idioms", metavar="FILE", help="Ask 200 German idioms of this file, too (docs/lookup.md)."),
    ] = None,
    work: Annotated[
        Path | None,
        typer.Option("--work", metavar="DIR", help="Keep the indexes here for the next run (default: nowhere)."),
    ] = None,
    threads: Threads = None,
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Of intervals, tests and idioms.")] = 0,
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="DIR", help="Write lookup.json here.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the tables.")] = False,
) -> None:
    """Look phrases up in text that is not their translation: how often is the first answer right?

    Prints the share of phrases whose first answer is right, for each way to search, then by language, domain and kind
    of phrase. Only phrases count that have a right answer in the text. docs/lookup.md says how the set is made.
    """
    from phrasemate.evaluate.lookup_run import Settings, run

    sizes = several(size)
    if not sizes or not all(number.isascii() and number.isdigit() for number in sizes):
        raise typer.BadParameter(f"--size {size}: expected numbers of sentences, such as 20000,100000")
    settings = Settings(
        folder=folder,
        sizes=tuple(map(int, sizes)),
        half=half.value,
        langs=several(langs),
        models=tuple(model or ()),
        systems=several(systems),
        against=against,
        work=work,
        idioms=idioms,
        threads=threads,
        seed=seed,
        out=out,
    )
    with stages() as show:
        result = run(settings, show)
    print_result(result, as_json)
