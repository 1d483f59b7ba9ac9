"""``phrasemate dataset``: data sets in the form of WikiXPR, from phrase pairs and text or from the released files."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from phrasemate.cli import options
from phrasemate.cli.options import argument, flag, option
from phrasemate.cli.progress import stages

if TYPE_CHECKING:
    from phrasemate.dataset import DatasetReport

XPR_EXAMPLES = """Examples:

\b
  phrasemate dataset xpr terms.tsv -o xpr --langs de,en --source-text german/ --target-text english.txt.gz
  phrasemate dataset xpr terms.tsv -o xpr --langs de,en --source-text both.tsv --source-column 1 \\
      --target-text both.tsv --target-column 2 --lines sentence --examples 8 --min-examples 2 --limit 5000
  phrasemate dataset xpr -o xpr --langs de,en --links dewiki-20260101-langlinks.sql.gz \\
      --source-text dewiki-20260101-pages-articles.xml.bz2 --target-text enwiki-20260101-pages-articles.xml.bz2

DIR/.work keeps what was read. To resume a stopped run, give the same command again."""

app = typer.Typer(help="Make data sets for training and evaluation.", epilog=XPR_EXAMPLES)


Unit = Literal["words", "characters"]


@app.command("xpr", epilog=XPR_EXAMPLES)
def xpr(
    pairs: Annotated[
        Path | None, argument("PAIRS", "Phrase pairs, one per line, tab between (also .gz); or --links.")
    ] = None,
    *,
    out: Annotated[Path, option("--out", "-o", "DIR", "The folder of the data set.")],
    langs: Annotated[str, option("--langs", "SRC,TGT", "The two languages, e.g. de,en.")],
    source_text: Annotated[
        list[str], option("--source-text", "FILES", "Text file, folder or wiki dump (.xml, .xml.bz2); repeatable.")
    ],
    target_text: Annotated[list[str], option("--target-text", "FILES", "The same in the other language.")],
    links: Annotated[
        Path | None, option("--links", "SQL", "langlinks dump of the source wiki, whose titles are the phrases.")
    ] = None,
    columns: Annotated[str, option("--columns", "N,N", "Source and target column of PAIRS, from 1.")] = "1,2",
    source_column: Annotated[
        str | None, option("--source-column", "NAME|N", "Column of .tsv files of --source-text.")
    ] = None,
    target_column: Annotated[
        str | None, option("--target-column", "NAME|N", "Column of .tsv files of --target-text.")
    ] = None,
    text_field: options.TextField = "text",
    lines: options.SplitLines = "paragraph",
    encoding: Annotated[str | None, option("--encoding", "NAME", "Encoding of the texts (default: UTF-8).")] = None,
    on_error: Annotated[
        options.OnError, option("--on-error", "raise|skip", "Stop at what cannot be read, or list it.")
    ] = "raise",
    examples: Annotated[
        int, option("--examples", "N", "Maximum number of example sentences for each phrase.", min=1)
    ] = 32,
    least: Annotated[
        int, option("--min-examples", "N", "Minimum number of example sentences on each side.", min=0)
    ] = 1,
    extra: Annotated[
        int, option("--extra", "N", "Minimum number of characters of a sentence beyond the phrase.", min=0)
    ] = 10,
    longest: Annotated[
        int, option("--max-characters", "N", "Maximum number of characters of a sentence.", min=1)
    ] = 500,
    copies: Annotated[
        float, option("--copies", "SHARE", "Leave out pairs with a higher ROUGE-L in both directions; 1: keep all.")
    ] = 0.5,
    unit: Annotated[Unit, option("--copies-by", "words|characters", "Units that ROUGE-L compares.")] = "words",
    times: Annotated[bool, flag("--keep-times", "Keep years, dates, months and weekdays.")] = False,
    max_words: Annotated[
        int, option("--max-words", "N", "Maximum number of words of a phrase; 0: any number.", min=0)
    ] = 0,
    most: Annotated[int, option("--limit", "N", "Maximum number of pairs in all three splits; 0: all.", min=0)] = 0,
    seed: Annotated[int, option("--seed", "N", "Seed of the splits: another number gives other splits.")] = 0,
    force: Annotated[bool, flag("--force", "Overwrite a data set that exists.")] = False,
    as_json: options.JsonAtEnd = False,
) -> None:
    """Make a data set for cross-lingual phrase retrieval: phrase pairs with example sentences, as in WikiXPR.

    Writes DIR/SRC-TGT/train.jsonl, dev.jsonl and test.jsonl (3:1:1), and DIR/stats.json. Each line is one pair; start
    and end count characters of the sentence:

      {"source": "Speisekarte", "target": "menu",
       "source_examples": [{"text": "Die Speisekarte ist kurz.", "start": 4, "end": 15}],
       "target_examples": [{"text": "Could we have the menu, please?", "start": 18, "end": 22}]}

    Pairs are left out if they are copies or time expressions, if they have too few sentences, or if an earlier pair has
    the same phrase.
    """
    from phrasemate.dataset import DatasetSettings, Reading, Side, build_files

    languages = options.two(langs, "--langs", "two language codes, such as de,en")
    numbers = options.two_columns(columns)
    settings = DatasetSettings(examples, extra, least, longest, copies, unit, times, max_words, most, seed)
    sides = [
        Side(language, paths, Reading(column, text_field, lines, encoding, on_error))
        for language, paths, column in zip(
            languages, (source_text, target_text), (source_column, target_column), strict=True
        )
    ]
    advice = f"{out}/.work keeps what was read; run the same command again to resume"
    names = {"lang": "--langs", "column": "--source-column or --target-column"}
    with options.rename_options(**names), stages(lambda: advice) as show:
        report = build_files(out, sides[0], sides[1], pairs, links, numbers, settings, force, show)
    options.say_skipped(report.skipped, " (all are in --json)")
    typer.echo(json.dumps(report.as_dict(), ensure_ascii=False) if as_json else statistics(report))


@app.command("wikixpr")
def wikixpr(
    folder: Annotated[Path, argument("FOLDER", "The released WikiXPR: train/, dev/, test/ and sentences/.")],
    *,
    out: Annotated[Path, option("--out", "-o", "DIR", "The folder of the data set.")],
    lang: Annotated[str | None, option("--lang", "LANG", "One language, such as de (default: all).")] = None,
    force: Annotated[bool, flag("--force", "Overwrite a data set that exists.")] = False,
    as_json: options.JsonAtEnd = False,
) -> None:
    """Convert WikiXPR, the data set that the authors of XPR released.

    Writes DIR/LANG-en/train.jsonl, dev.jsonl and test.jsonl, as phrasemate dataset xpr does. Leaves out sentences that
    do not contain their phrase, and pairs without a sentence on one side.

    Examples:
      phrasemate dataset wikixpr WikiXPR/ -o xpr
      phrasemate dataset wikixpr WikiXPR/ -o xpr --lang de
    """
    from phrasemate.dataset import import_wikixpr, languages_in
    from phrasemate.errors import InputError

    languages = [lang] if lang else languages_in(folder)
    if not languages:
        raise InputError(f"{folder}: no train/train-en-LANG-32-phrase.txt; expected the folder of the released WikiXPR")
    imports = [import_wikixpr(folder, out, language, force) for language in languages]
    if as_json:
        options.print_json([asdict(item) for item in imports])
        return
    for item in imports:
        splits = " ".join(f"{split} {count:,}" for split, count in item.pairs.items())
        typer.echo(f"{item.pair}: {splits}; {item.sentences:,} sentences, {item.absent:,} without their phrase")
        if item.without:
            typer.echo(f"  left out {item.without:,} pairs: no sentence on one side")


def statistics(report: DatasetReport) -> str:
    """Format a report as text: the splits, the pairs left out by reason, and a table of both languages."""
    from phrasemate.dataset.split import REASONS
    from phrasemate.evaluate.report import text_table

    removals = [(REASONS[reason], report.removed[reason]) for reason in REASONS if report.removed.get(reason)]
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
    lines += [f"  left out {count:>9,}: {reason}" for reason, count in removals]
    return "\n".join([*lines, "", above, text_table(header, rows)])
