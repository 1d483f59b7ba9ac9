"""``phrasemate evaluate``: the tables of the papers, each figure with how it was made."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phrasemate.cli.given import several
from phrasemate.cli.options import Threads
from phrasemate.cli.progress import stages
from phrasemate.cli.shell import clean, out

if TYPE_CHECKING:
    from rich.text import Text

    from phrasemate.evaluate.report import Table

WIDTH = 200  # cells

CCPR_EXAMPLES = """Examples:

\b
  phrasemate evaluate ccpr --data corpora
  phrasemate evaluate ccpr --data corpora --only polysemy,segmenter
  phrasemate evaluate ccpr --data corpora --only phrases --model untrained=base:ends --model CPR=run/cpr
  phrasemate evaluate ccpr --data corpora --only phrases --muse --distractors 5000000 -o figures"""


app = typer.Typer(help="Measure models on the protocols of the papers.", no_args_is_help=True, rich_markup_mode=None)


class Part(StrEnum):
    """The parts of the evaluation."""

    PHRASES = "phrases"
    ALIGNMENT = "alignment"
    SEGMENTER = "segmenter"
    POLYSEMY = "polysemy"


@app.callback(epilog="Examples:\n\n\b\n  phrasemate evaluate ccpr --data corpora")
def _group() -> None:
    """Measure models on the protocols of the papers."""


@app.command("ccpr", epilog=CCPR_EXAMPLES)
def ccpr(
    data: Annotated[Path, typer.Option("--data", metavar="DIR", help="Folder of the corpora.")] = Path("corpora"),
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            metavar="NAME=FOLDER[:POOLING]",
            help="A row of its own, before the bundled model's; FOLDER is a model folder or 'bundled', "
            "POOLING mean, ends, head or sentence (default: the model's own). May be given several times.",
        ),
    ] = None,
    bundled: Annotated[
        bool, typer.Option("--bundled/--no-bundled", help="With the bundled model, or with those of --model only.")
    ] = True,
    muse: Annotated[
        bool, typer.Option("--muse", help="A row for MUSE, the paper's baseline (an optional package).")
    ] = False,
    only: Annotated[
        str,
        typer.Option("--only", metavar="PART,...", help="Of phrases, alignment, segmenter, polysemy (default: all)."),
    ] = "",
    against: Annotated[
        str | None, typer.Option("--against", metavar="NAME", help="The row that p compares with (default: the last).")
    ] = None,
    distractors: Annotated[
        int,
        typer.Option("--distractors", metavar="N", min=0, help="Spans of other sentences to search; up to 10 million."),
    ] = 610_093,
    langs: Annotated[
        str, typer.Option("--langs", metavar="XX,...", help="Languages, of those that the corpora have sets for.")
    ] = "de,cs,ro,fr",
    cs: Annotated[
        int, typer.Option("--cs", metavar="N", min=1, help="Sentence pairs of the large Czech gold alignment to use.")
    ] = 500,
    threads: Threads = None,
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Of the bootstrap and the tests.")] = 0,
    folder: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="Write ccpr.json and the plots, as SVG, here.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the tables.")] = False,
) -> None:
    """Reproduce the evaluation of CCPR: phrase retrieval, word alignment, segmentation, ambiguous phrases.

    Prints tables and one line that says how they were made. The corpora are not part of phrasemate; docs/evaluate.md
    says which files are read, and how each figure is counted.
    """
    from phrasemate.evaluate.ccpr import Settings, run

    parts = parts_of(Part, only)
    if Part.PHRASES.value not in parts and (muse or against is not None):
        raise typer.BadParameter("--muse and --against are of the part phrases; leave them out")
    settings = Settings(
        data=data,
        parts=parts,
        models=tuple(model or ()),
        bundled=bundled,
        muse=muse,
        against=against,
        distractors=distractors,
        cs=cs,
        langs=several(langs),
        threads=threads,
        seed=seed,
        out=folder,
    )
    with stages() as show:
        result = run(settings, show)
    print_result(result, as_json)


def parts_of(parts: type[StrEnum], only: str) -> tuple[str, ...]:
    """The parts that ``--only`` names, in the order in which they are done; all, if it names none."""
    named = several(only)
    unknown = [name for name in named if name not in list(parts)]
    if unknown:
        raise typer.BadParameter(f"--only {only}: no part {', '.join(unknown)}; there are {', '.join(parts)}")
    return tuple(part.value for part in parts if not named or part.value in named)


def print_result(result: Any, as_json: bool) -> None:
    """The tables of an evaluation's ``Result``, its signature, and what was written; or one JSON object."""
    from phrasemate.evaluate.report import signature_line

    if as_json:
        typer.echo(json.dumps(result.as_dict(), ensure_ascii=False, default=float))
        return
    for table in result.tables:
        print_table(table)
    typer.echo(clean(signature_line(result.signature)))
    for path in result.written:
        typer.echo(f"wrote {path}", err=True)


def print_table(table: Table) -> None:
    """A table for people, as wide as it needs: a cut figure would mislead."""
    from rich import box
    from rich.table import Table as Drawn

    from phrasemate.evaluate.report import cell

    console = out()
    drawn = Drawn(box=box.SIMPLE_HEAD, title_justify="left", caption_justify="left")
    drawn.title, drawn.caption = _plain(table.title, "table.title"), _plain(table.note, "table.caption")
    for number, name in enumerate(table.header):
        side: Any = "right" if number and _numeric(table, number) else "left"
        drawn.add_column(_plain(name), justify=side, no_wrap=True)
    for row in table.rows:
        drawn.add_row(*(_plain(cell(value)) for value in row))
    console.width = max(console.width, WIDTH)
    console.print(drawn, end="")


def _plain(text: str, style: str = "") -> Text:
    """What rich reads no markup in: names come from folders and files."""
    from rich.text import Text

    return Text(clean(text), style)


def _numeric(table: Table, number: int) -> bool:
    return not any(isinstance(row[number], str) for row in table.rows)
