"""``phrasemate dataset xpr``: phrase pairs and text -> a data set of the WikiXPR form."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from phrasemate.cli.options import JsonAtEnd, Lines, OnError, SplitLines, TextField, say_skipped
from phrasemate.cli.progress import stages
from phrasemate.cli.validators import two, two_columns

if TYPE_CHECKING:
    from phrasemate.dataset import Report

XPR_EXAMPLES = """Examples:

\b
  phrasemate dataset xpr terms.tsv -o xpr --langs de,en --source-text german/ --target-text english.txt.gz
  phrasemate dataset xpr terms.tsv -o xpr --langs de,en --source-text both.tsv --source-column 1 \\
      --target-text both.tsv --target-column 2 --lines sentence --examples 8 --least 2 --most 5000
  phrasemate dataset xpr -o xpr --langs de,en --links dewiki-20260101-langlinks.sql.gz \\
      --source-text dewiki-20260101-pages-articles.xml.bz2 --target-text enwiki-20260101-pages-articles.xml.bz2

What was read is kept in OUT/.work: give the same command again after a stop, or another pair with the same text."""

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Make data sets to train and evaluate with.",
    epilog=XPR_EXAMPLES,
)

HELP = """Make a data set for cross-lingual phrase retrieval: phrase pairs with example sentences (WikiXPR's form).

Writes DIR/SRC-TGT/train.jsonl, dev.jsonl and test.jsonl (3:1:1), and DIR/stats.json. One line is one pair; start
and end are characters of the sentence:

\b
  {"source": "Speisekarte", "target": "menu",
   "source_examples": [{"text": "Die Speisekarte ist kurz.", "start": 4, "end": 15}],
   "target_examples": [{"text": "Could we have the menu, please?", "start": 18, "end": 22}]}

Left out: copies, time expressions, phrases with too few sentences, and all but the first pair of a phrase.
"""


class Unit(StrEnum):
    """What ROUGE-L counts."""

    WORDS = "words"
    CHARACTERS = "characters"


@app.callback()
def _dataset() -> None:
    """A group of one command so far: ``dataset xpr``, not ``dataset``."""


@app.command("xpr", help=HELP, epilog=XPR_EXAMPLES)
def xpr(
    pairs: Annotated[
        Path | None, typer.Argument(metavar="PAIRS", help="Phrase pairs, separated by tabs (.gz too); or --links.")
    ] = None,
    *,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="The folder of the data set.")],
    langs: Annotated[str, typer.Option("--langs", metavar="SRC,TGT", help="The two languages, e.g. de,en.")],
    source_text: Annotated[
        list[str],
        typer.Option("--source-text", metavar="FILES", help="Text, folder or dump (.xml, .xml.bz2); may be repeated."),
    ],
    target_text: Annotated[
        list[str], typer.Option("--target-text", metavar="FILES", help="The same in the other language.")
    ],
    links: Annotated[
        Path | None,
        typer.Option("--links", metavar="SQL", help="langlinks dump of the source wiki: its titles are the phrases."),
    ] = None,
    columns: Annotated[
        str, typer.Option("--columns", metavar="N,N", help="Source and target column of PAIRS, from 1.")
    ] = "1,2",
    source_column: Annotated[
        str | None, typer.Option("--source-column", metavar="NAME|N", help="Column of .tsv files of --source-text.")
    ] = None,
    target_column: Annotated[
        str | None, typer.Option("--target-column", metavar="NAME|N", help="Column of .tsv files of --target-text.")
    ] = None,
    text_field: TextField = "text",
    lines: SplitLines = Lines.PARAGRAPH,
    encoding: Annotated[
        str | None, typer.Option("--encoding", metavar="NAME", help="Encoding of the texts (default: UTF-8).")
    ] = None,
    on_error: Annotated[
        OnError, typer.Option("--on-error", metavar="raise|skip", help="What becomes of unreadable lines of texts.")
    ] = OnError.RAISE,
    examples: Annotated[
        int, typer.Option("--examples", metavar="N", min=1, help="Example sentences of a phrase, at most.")
    ] = 32,
    least: Annotated[
        int, typer.Option("--least", metavar="N", min=0, help="Example sentences that each side needs.")
    ] = 1,
    extra: Annotated[
        int,
        typer.Option("--extra", metavar="N", min=0, help="Characters that a sentence has beyond the phrase."),
    ] = 10,
    longest: Annotated[
        int, typer.Option("--longest", metavar="N", min=1, help="Characters of a sentence, at most.")
    ] = 500,
    copies: Annotated[
        float,
        typer.Option("--copies", metavar="SHARE", help="Leave out pairs with a higher ROUGE-L both ways; 1: none."),
    ] = 0.5,
    unit: Annotated[
        Unit, typer.Option("--copies-by", metavar="words|characters", help="What ROUGE-L counts.")
    ] = Unit.WORDS,
    times: Annotated[bool, typer.Option("--keep-times", help="Keep years, dates, months and weekdays.")] = False,
    max_words: Annotated[
        int, typer.Option("--max-words", metavar="N", min=0, help="Words of a phrase, at most; 0: any number.")
    ] = 0,
    most: Annotated[
        int, typer.Option("--most", metavar="N", min=0, help="Pairs in all three splits, at most; 0: all.")
    ] = 0,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Another number draws other splits.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Write over a data set that is there.")] = False,
    as_json: JsonAtEnd = False,
) -> None:
    from phrasemate.dataset import Reading, Settings, Side, build_files

    languages, numbers = two(langs, "--langs", "two language codes, such as de,en"), two_columns(columns)
    settings = Settings(examples, extra, least, longest, copies, unit.value, times, max_words, most, seed)
    sides = [
        Side(language, paths, Reading(column, text_field, lines.value, encoding, on_error.value))
        for language, paths, column in zip(
            languages, (source_text, target_text), (source_column, target_column), strict=True
        )
    ]
    left = f"{out}/.work keeps what was read; give the same command again to go on"
    with stages(lambda: left) as show:
        report = build_files(out, sides[0], sides[1], pairs, links, numbers, settings, force, show)
    say_skipped(report.skipped, " (all are in --json)")
    typer.echo(json.dumps(report.as_dict(), ensure_ascii=False) if as_json else statistics(report))


def statistics(report: Report) -> str:
    """The table of a report as text: what was removed, the splits, and both languages."""
    from phrasemate.dataset.split import REASONS
    from phrasemate.evaluate.report import text_table

    removed = [(REASONS[reason], report.removed[reason]) for reason in REASONS if report.removed.get(reason)]
    splits = " ".join(f"{split} {count:,}" for split, count in report.splits.items())
    rows = [
        [
            *(side.language, side.phrases, f"{side.phrase_words:.1f}", f"{side.phrase_characters:.1f}"),
            *(f"{side.examples_a_phrase:.1f}", f"{side.sentence_words:.1f}", f"{side.sentence_characters:.1f}"),
        ]
        for side in report.sides
    ]
    header = ["language", "phrases", "words", "characters", "examples", "words", "characters"]
    above = " " * 19 + "of a phrase" + " " * 19 + "of a sentence"
    lines = [f"{report.pair}: {sum(report.splits.values()):,} of {report.given:,} pairs ({splits})"]
    lines += [f"  left out {count:>9,}: {reason}" for reason, count in removed]
    return "\n".join([*lines, "", above, text_table(header, rows)])
