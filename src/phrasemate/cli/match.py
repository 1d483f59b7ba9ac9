"""``phrasemate match``: two term lists and text in each language -> which terms mean the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phrasemate.cli.options import (
    Encoding,
    Lines,
    Model,
    OnError,
    OrList,
    SplitLines,
    TextField,
    Threads,
    say_skipped,
    sided,
)
from phrasemate.cli.progress import stages
from phrasemate.cli.validators import check_apart
from phrasemate.errors import InputError, ReadError

if TYPE_CHECKING:
    from phrasemate.examples import ExampleIndex
    from phrasemate.match import Side
    from phrasemate.text import Corpus
    from phrasemate.text.formats.units import Term

WRITTEN = (".tsv", ".csv", ".jsonl", ".xlsx", ".tbx")

EXAMPLES = """Examples:

\b
  phrasemate match de.txt en.txt --source-text german/ --target-text english/
  phrasemate match de.tbx en.xlsx --source-lang de --target-lang en --source-index idx --target-index idx -o out.tbx
  phrasemate match de.csv en.csv --source-column Benennung --target-column 2 \\
      --source-text de.txt --target-text en.txt --one-to-one -o matches.xlsx --unmatched rest.tsv
  phrasemate match de.txt en.txt --source-text de.gz --target-text en.gz --candidates 3 --threshold 0 --json"""

HELP = """Match the terms of two lists, one in each language.

A term is compared through the sentences that contain it, so give text of both languages; it need not be parallel.
The lists are .txt (a term a line), .tsv, .csv, .xlsx or .tbx. Without -o the matches are printed; with it they are
written in the format that the name of the file says.

score is the cosine of two terms, margin how far it stands out: csls is 2 cos(x, y) minus the mean cosines of x and of
y with their nearest terms of the other list, ratio is cos(x, y) divided by their mean. A match is mutual if each is
the other's best by margin.

With --json, one JSON object a line is printed for each match (or none, with -o), and one at the end; start and end of a
sentence's term are characters:

\b
  {"source": "Speisekarte", "target": "menu", "score": 0.81, "margin": 0.34, "mutual": true, "rank": 1,
   "source_examples": 8, "target_examples": 5,
   "source_evidence": [{"text": "Die Speisekarte ist lang.", "start": 4, "end": 15}], "target_evidence": [...]}
  {"matches": 1, "source_unmatched": ["Bank"], "target_unmatched": [], ...}
"""


class Margin(StrEnum):
    """How a cosine is set against those of the neighbours."""

    CSLS = "csls"
    RATIO = "ratio"


def _text(side: str) -> Any:
    return typer.Option(f"--{side}-text", metavar="FILES", help=f"Text of the {side} language (may be repeated).")


def _index(side: str) -> Any:
    what = "The sentences of this index, or of a file by phrasemate examples --store, instead of text."
    return typer.Option(f"--{side}-index", metavar="DIR", help=what)


def _lang(side: str) -> Any:
    return typer.Option(f"--{side}-lang", metavar="LANG", help=f"Language of the {side} list and text, e.g. de.")


def _column(side: str) -> Any:
    return typer.Option(f"--{side}-column", metavar="NAME|N", help="Column of the terms: name, or number from 1.")


def match(
    source: Annotated[Path, typer.Argument(metavar="SRC", help="The term list of the source language.")],
    target: Annotated[Path, typer.Argument(metavar="TGT", help="The term list of the target language.")],
    source_text: Annotated[list[str] | None, _text("source")] = None,
    target_text: Annotated[list[str] | None, _text("target")] = None,
    source_index: Annotated[Path | None, _index("source")] = None,
    target_index: Annotated[Path | None, _index("target")] = None,
    source_lang: Annotated[str, _lang("source")] = "",
    target_lang: Annotated[str, _lang("target")] = "",
    source_column: Annotated[str | None, _column("source")] = None,
    target_column: Annotated[str | None, _column("target")] = None,
    text_field: TextField = "text",
    lines: SplitLines = Lines.PARAGRAPH,
    on_error: OrList = OnError.RAISE,
    encoding: Encoding = "utf-8",
    to: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="The matches, as .tsv, .csv, .jsonl, .xlsx or .tbx."),
    ] = None,
    unmatched: Annotated[
        Path | None,
        typer.Option(
            "--unmatched", metavar="FILE", help="Terms without a match, as a table with tabs: side, term, id."
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option("--threshold", metavar="X", help="The least margin of a match (default: csls 0.2, ratio 1.15)."),
    ] = None,
    least_score: Annotated[
        float, typer.Option("--least-score", metavar="X", min=-1, max=1, help="The least cosine of a match.")
    ] = -1.0,
    mutual: Annotated[bool, typer.Option("--mutual", help="Only matches that are mutual.")] = False,
    one_to_one: Annotated[
        bool,
        typer.Option("--one-to-one", help="No term twice; of all such sets, that with the greatest sum of margins."),
    ] = False,
    candidates: Annotated[
        int, typer.Option("--candidates", metavar="N", min=1, help="Matches of a source term at most.")
    ] = 1,
    margin: Annotated[Margin, typer.Option("--margin", metavar="csls|ratio", help="See above.")] = Margin.CSLS,
    neighbours: Annotated[
        int, typer.Option("--neighbours", metavar="N", min=1, help="Nearest terms that a margin is taken from.")
    ] = 10,
    examples: Annotated[
        int, typer.Option("--examples", metavar="N", min=0, help="Sentences that a term is compared by, at most.")
    ] = 8,
    bare: Annotated[
        float,
        typer.Option(
            "--bare",
            metavar="X",
            min=0,
            help="Weight of the term by itself against the mean of n sentences: X / sqrt(n).",
        ),
    ] = 1.5,
    evidence: Annotated[
        int, typer.Option("--evidence", metavar="N", min=0, help="Sentences shown of each side of a match.")
    ] = 1,
    pooling: Annotated[
        str,
        typer.Option(
            "--pooling", metavar="NAME", help="mean, head, ends or several as in mean+head (default: by the model)."
        ),
    ] = "",
    layer: Annotated[
        int | None, typer.Option("--layer", metavar="N", min=0, help="Layer of the model (default: the last).")
    ] = None,
    model: Model = None,
    threads: Threads = None,
    force: Annotated[bool, typer.Option("--force", help="Write over files that are there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines.")] = False,
) -> None:
    from phrasemate.cli.match_report import say_matches, write_matches, write_unmatched
    from phrasemate.encode import load_model
    from phrasemate.match import MatchSettings, match_terms
    from phrasemate.text import read

    given = (source, target, *(source_text or ()), *(target_text or ()), source_index, target_index)
    _check_files(to, unmatched, force, [path for path in given if path is not None])
    settings = MatchSettings(
        examples=examples,
        bare=bare,
        pooling=pooling,
        layer=layer,
        margin=margin.value,
        neighbours=neighbours,
        threshold=threshold,
        least_score=least_score,
        candidates=candidates,
        mutual=mutual,
        one_to_one=one_to_one,
        evidence=evidence,
    )
    reading = partial(read, text_field=text_field, lines=lines.value, on_error=on_error.value, encoding=encoding)
    for name, texts, index in (("source", source_text, source_index), ("target", target_text, target_index)):
        if texts and index is not None:
            raise typer.BadParameter(f"--{name}-index has its own sentences; leave out --{name}-text")
    lists = (
        _terms(source, "source", source_column, source_lang),
        _terms(target, "target", target_column, target_lang),
    )
    _check_languages(to, lists)
    with ExitStack() as stack:
        sides = (
            _side(stack, "source", lists[0], source_lang, source_text, source_index, reading),
            _side(stack, "target", lists[1], target_lang, target_text, target_index, reading),
        )
        loaded = load_model(model, threads=threads)
        with stages() as show:
            found = match_terms(sides[0], sides[1], loaded, settings, show)
    if to is not None:
        write_matches(to, found)
    if unmatched is not None:
        write_unmatched(unmatched, found)
    say_matches(found, to, as_json)


match.__doc__ = HELP


def _check_files(to: Path | None, unmatched: Path | None, force: bool, read: Sequence[str | Path]) -> None:
    """What would be lost, or fail after minutes of work, fails at once."""
    from phrasemate.utils.storage import check_new

    if to is not None and to.suffix.lower() not in WRITTEN:
        raise InputError(f"{to}: no format by its name; expected {', '.join(WRITTEN)}")
    if to is not None and unmatched is not None and to.resolve() == unmatched.resolve():
        raise InputError(f"{to}: given for the matches and for the terms without one; expected two files")
    for path in (to, unmatched):
        if path is not None:
            check_apart(path, *read)
            check_new(path, force)


def _check_languages(to: Path | None, lists: Sequence[Sequence[Term]]) -> None:
    """A term base says the language of each term."""
    if to is None or to.suffix.lower() != ".tbx":
        return
    for name, terms in zip(("source", "target"), lists, strict=True):
        if not all(term.language for term in terms):
            raise InputError(f"{to}: a term base needs to know the language of the {name} terms; give --{name}-lang")


def _side(
    stack: ExitStack,
    name: str,
    terms: Sequence[Term],
    lang: str,
    texts: Sequence[str] | None,
    index: Path | None,
    reading: Callable[..., Corpus],
) -> Side:
    """A list and its sentences, which ``stack`` closes."""
    from phrasemate.match import Side

    if not texts and index is None:
        if not any(term.contexts for term in terms):
            remark = f"no --{name}-text: {name} terms are compared by their wording alone, which is much less accurate"
            typer.echo(f"note: {remark}", err=True)
        return Side(terms)
    return Side(terms, _finder(stack, name, texts or (), index, lang, reading))


def _terms(file: Path, name: str, column: str | None, lang: str) -> list[Term]:
    """A term list; errors name the options of this command."""
    from phrasemate.text.term_lists import read_terms

    number = int(column) if column is not None and re.fullmatch("[0-9]{1,9}", column) else column
    with sided(name):
        return list(read_terms(file, lang, number))


def _finder(
    stack: ExitStack, name: str, texts: Sequence[str], index: Path | None, lang: str, reading: Callable[..., Corpus]
) -> ExampleIndex:
    from phrasemate.cli.progress import IndexingBar
    from phrasemate.examples import ExampleIndex
    from phrasemate.index import Index

    if index is not None and index.is_file():
        return stack.enter_context(ExampleIndex.open(index))
    if index is not None:
        opened = stack.enter_context(Index.open(index, readonly=True))
        return stack.enter_context(ExampleIndex.from_index(opened, [lang] if lang else None))
    corpus = reading(*texts, lang=lang)
    try:
        with sided(name), IndexingBar() as bar:
            made = stack.enter_context(ExampleIndex.build(corpus, None, lang, bar.show))
    except ReadError as error:
        if "-column" not in error.remedy:
            raise
        remedy = f"put the column into a store (phrasemate examples --column ... --store FILE), --{name}-index FILE"
        raise ReadError(error.file, error.line, error.reason, remedy) from error
    say_skipped(corpus.skipped)
    return made
