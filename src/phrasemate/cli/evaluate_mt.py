"""``phrasemate evaluate mt``: translations of several systems, with intervals and paired tests."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from phrasemate.cli.evaluate import print_result
from phrasemate.cli.given import several
from phrasemate.cli.progress import stages

EXAMPLES = """Examples:

\b
  phrasemate evaluate mt runs
  phrasemate evaluate mt runs/de-en --against plain --only plain,phrases
  phrasemate evaluate mt runs --bertscore bundled -o figures
  phrasemate evaluate mt runs --scores COMET:de-en:plain=plain.comet \\
      --scores COMET:de-en:phrases=phrases.comet

runs/de-en/reference.txt holds the references, runs/de-en/NAME.jsonl (as phrasemate mt --jsonl writes it) or NAME.txt
the translations of a system."""


def mt(
    runs: Annotated[Path, typer.Argument(metavar="RUNS", help="Folder of directions, or of one direction.")],
    *,
    against: Annotated[
        str, typer.Option("--against", metavar="NAME", help="The system that p compares with (default: plain).")
    ] = "",
    only: Annotated[str, typer.Option("--only", metavar="NAME,...", help="These systems only.")] = "",
    bertscore: Annotated[
        Path | None,
        typer.Option("--bertscore", metavar="FOLDER", help="BERTScore with this model folder, or 'bundled'."),
    ] = None,
    layer: Annotated[
        int | None, typer.Option("--layer", metavar="N", help="Layer of BERTScore's states (default: the last).")
    ] = None,
    scores: Annotated[
        list[str] | None,
        typer.Option(
            "--scores",
            metavar="SCORE:DIRECTION:SYSTEM=FILE",
            help="Scores that were made elsewhere, one a line (COMET). May be given several times.",
        ),
    ] = None,
    comet: Annotated[
        str,
        typer.Option("--comet", metavar="COMMAND", help="Run this: COMMAND -s SRC -t OUTPUT -r REFERENCE, for COMET."),
    ] = "",
    samples: Annotated[int, typer.Option("--samples", metavar="N", min=100, help="Of the bootstrap.")] = 1_000,
    folder: Annotated[Path | None, typer.Option("--out", "-o", metavar="DIR", help="Write mt.json here.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the tables.")] = False,
) -> None:
    """Compare translations: BLEU, chrF, TER (sacrebleu), BERTScore, COMET's files, and what became of the hints.

    Prints a table for each score, all directions side by side and the mean of those into one language, with 95 %
    intervals and p of the paired bootstrap against one system; and one line that says how they were made.
    """
    from phrasemate.evaluate.mt import Settings, run

    if layer is not None and bertscore is None:
        raise typer.BadParameter("--layer is a layer of --bertscore; leave it out")
    files: dict[str, Path] = {}
    for given in scores or ():
        key, equals, path = given.partition("=")
        if not equals:
            raise typer.BadParameter(f"--scores {given}: expected SCORE:DIRECTION:SYSTEM=FILE")
        if key in files:
            raise typer.BadParameter(f"--scores {given}: {key} is given twice")
        files[key] = Path(path)
    settings = Settings(runs, against, several(only), bertscore, layer, files, comet, samples, folder)
    with stages() as show:
        result = run(settings, show)
    print_result(result, as_json)
