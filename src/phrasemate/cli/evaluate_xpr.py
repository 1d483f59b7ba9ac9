"""``phrasemate evaluate xpr``: phrases through their example sentences, by setting and method."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from phrasemate.cli.evaluate import print_result
from phrasemate.cli.given import several
from phrasemate.cli.options import Threads
from phrasemate.cli.progress import stages

EXAMPLES = """Examples:

\b
  phrasemate evaluate xpr rows.toml --data my-set
  phrasemate evaluate xpr rows.toml --data my-set --only unsupervised --most 300
  phrasemate evaluate xpr rows.toml --data my-set --split dev --json
  phrasemate evaluate xpr rows.toml --data my-set --without training/terms-de.jsonl
  phrasemate evaluate xpr rows.toml --data my-set -o figures"""


def xpr(
    rows: Annotated[Path, typer.Argument(metavar="ROWS", help="A TOML file of rows; docs/evaluate.md describes it.")],
    *,
    data: Annotated[Path, typer.Option("--data", metavar="DIR", help="A data set of phrasemate dataset xpr.")],
    split: Annotated[
        str, typer.Option("--split", metavar="PART", help="test, dev, or dev+test: what to measure on.")
    ] = "test",
    most: Annotated[
        int, typer.Option("--most", metavar="N", min=0, help="The first N phrase pairs of each part (0: all).")
    ] = 0,
    only: Annotated[str, typer.Option("--only", metavar="TABLE,...", help="These tables only.")] = "",
    without: Annotated[
        list[Path] | None,
        typer.Option(
            "--without",
            metavar="FILE",
            help="Phrase pairs that are not asked because a model was trained on them: JSON lines with source and "
            "target. They stay candidates. May be given several times.",
        ),
    ] = None,
    threads: Threads = None,
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Of the intervals.")] = 0,
    folder: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="Write xpr.json and the plots, as SVG, here.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the tables.")] = False,
) -> None:
    """Reproduce the tables of XPR: acc@1 of phrase retrieval in both directions, by setting.

    ROWS names the models and word vectors to compare, table by table. p compares with a table's first row.
    """
    from phrasemate.evaluate.xpr import Settings, run

    settings = Settings(rows, data, split, most, several(only), threads, seed, folder, tuple(without or ()))
    with stages() as show:
        result = run(settings, show)
    print_result(result, as_json)
