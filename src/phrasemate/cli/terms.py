"""``phrasemate terms``: a document -> its terms, with candidate translations from an index."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phrasemate.cli.options import (
    Column,
    Encoding,
    Lines,
    OnError,
    OrList,
    Quick,
    SplitLines,
    TextField,
    Threads,
    say_skipped,
)
from phrasemate.cli.progress import stages
from phrasemate.cli.shell import out
from phrasemate.cli.validators import check_apart
from phrasemate.errors import InputError

if TYPE_CHECKING:
    from phrasemate.search import Searcher
    from phrasemate.terms import DocumentTerm

INDENT = " " * 6

EXAMPLES = """Examples:

\b
  phrasemate terms manual.docx --lang de                              the terms alone
  phrasemate terms manual.docx --lang de --index idx -o terms.tbx     with candidate translations
  phrasemate terms memory.tmx --lang de --index idx --most 200 --least 3 -o terms.xlsx
  phrasemate terms report.txt --index idx -k 3 --contexts 1 --json > terms.jsonl"""

HELP = """Find the terms of a document, best first, and look up candidate translations in an index.

DOC is a file (txt, docx, html, xliff, tmx, tbx, jsonl, tables), a folder, or - for standard input; of a file in several
languages, --lang says which side. Without -o the terms are printed, each with its candidate translations; with it they
are written, with the sentences they were found in, in the format that the name of the file says.

Every phrase that the model proposes is ranked by p ln(1 + f) / n: p is the mean probability that it is a phrase where
it stands, f how often it comes, n its words. A term is searched by the mean vector of some of its occurrences.

With --json, one JSON object a line is printed for each term:

\b
  {"text": "Kernel", "score": 3.2, "count": 41, "belief": 0.84, "variants": [{"text": "Kernel", "count": 41}],
   "places": [{"context": "Der Kernel startet.", "start": 4, "end": 10, "document": "a.txt", "line": 3}],
   "confidence": 0.93, "groups": [{"text": "kernel", "score": 0.88, "count": 60, "hits": [...]}]}

start and end are characters of the context; groups are as phrasemate search prints them.
"""


class Rank(StrEnum):
    """By what the phrases are ranked."""

    TERMHOOD = "termhood"
    EXPECTED = "expected"
    FREQUENCY = "frequency"
    CVALUE = "cvalue"


def terms(
    document: Annotated[list[str], typer.Argument(metavar="DOC", help="Files or folders, or - for standard input.")],
    index: Annotated[
        Path | None, typer.Option("--index", metavar="DIR", help="Where candidate translations are looked up.")
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="The terms, as .tbx, .tsv, .csv, .xlsx or .jsonl."),
    ] = None,
    lang: Annotated[str, typer.Option("--lang", metavar="LANG", help="Language of the document, e.g. de.")] = "",
    language: Annotated[
        list[str] | None,
        typer.Option("--language", metavar="LANG", help="Translations in this language only (may be repeated)."),
    ] = None,
    in_document: Annotated[
        list[str] | None,
        typer.Option("--document", metavar="NAME", help="Translations from this document of the index only."),
    ] = None,
    most: Annotated[
        int, typer.Option("--most", metavar="N", min=0, help="How many terms, the best ones (0: all).")
    ] = 500,
    least: Annotated[int, typer.Option("--least", metavar="N", min=1, help="The least frequency of a term.")] = 1,
    rank: Annotated[
        Rank, typer.Option("--rank", metavar="termhood|expected|frequency|cvalue", help="By what they are ranked.")
    ] = Rank.TERMHOOD,
    max_words: Annotated[int, typer.Option("--max-words", metavar="N", min=1, help="The longest term.")] = 6,
    belief: Annotated[
        float,
        typer.Option("--belief", metavar="P", min=0, max=1, help="The least probability of a phrase, at one place."),
    ] = 0.5,
    k: Annotated[
        int | None,
        typer.Option("-k", "--k", metavar="N", min=1, help="Candidate translations of a term (default: 5)."),
    ] = None,
    contexts: Annotated[
        int,
        typer.Option(
            "--contexts", metavar="N", min=0, help="Sentences of a term, and of a translation, in files and JSON."
        ),
    ] = 3,
    examples: Annotated[
        int | None,
        typer.Option(
            "--examples", metavar="N", min=1, help="Occurrences that a term is searched by, at most (default: 4)."
        ),
    ] = None,
    column: Column = None,
    text_field: TextField = "text",
    lines: SplitLines = Lines.PARAGRAPH,
    on_error: OrList = OnError.RAISE,
    encoding: Encoding = "utf-8",
    quick: Quick = False,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object for each term.")] = False,
    threads: Threads = None,
    model: Annotated[
        Path | None, typer.Option("--model", metavar="FOLDER", help="Model folder (default: the index's, or bundled).")
    ] = None,
) -> None:
    from phrasemate.encode import load_model
    from phrasemate.terms import TermSettings, document_terms
    from phrasemate.text import read

    _check(to, document, lang, force)
    if index is None and (language or in_document):
        raise typer.BadParameter("--language and --document choose within an index; give --index")
    if index is None and (useless := [o for o, v in (("--quick", quick), ("-k", k), ("--examples", examples)) if v]):
        raise typer.BadParameter(f"{useless[0]} needs --index; leave it out")
    fetched = max(contexts, 1)  # a hit tells its language
    chosen = {name: value for name, value in (("k", k), ("examples", examples)) if value}
    settings = TermSettings(rank.value, max_words, belief, least, most or None, contexts=fetched, **chosen)
    corpus = read(
        *document,
        column=column,
        text_field=text_field,
        lines=lines.value,
        lang=lang,
        on_error=on_error.value,
        encoding=encoding,
    )
    with ExitStack() as stack:
        given = load_model(model, threads=threads) if model or index is None else None
        searcher = None if index is None else _searcher(stack, index, given, threads, quick)
        with stages() as show:
            found = document_terms(
                corpus,
                searcher,
                settings,
                model=given,
                documents=in_document,
                languages=language,
                progress=show,
            )
    say_skipped(corpus.skipped)
    _give(found, to, lang, contexts, as_json)


terms.__doc__ = HELP


def _check(to: Path | None, documents: Sequence[str], lang: str, force: bool) -> None:
    """What would fail after the work fails at once."""
    from phrasemate.terms.output import WRITTEN
    from phrasemate.utils.storage import check_new

    if to is None:
        return
    if to.suffix.lower() not in WRITTEN:
        raise InputError(f"{to}: no format by its name; expected {', '.join(WRITTEN)}")
    if to.suffix.lower() == ".tbx" and not lang:
        raise InputError(f"{to}: a term base needs to know the language of the document; give --lang")
    check_apart(to, *documents)
    check_new(to, force)


def _searcher(stack: ExitStack, index: Path, model: Any, threads: int | None, quick: bool) -> Searcher:
    """Of an index that ``stack`` closes."""
    from phrasemate.index import Index
    from phrasemate.search import Searcher

    return Searcher(stack.enter_context(Index.open(index, model, readonly=True, threads=threads)), views=not quick)


def _give(found: Sequence[DocumentTerm], to: Path | None, lang: str, contexts: int, as_json: bool) -> None:
    from phrasemate.cli.render import count
    from phrasemate.terms import write_document_terms

    translated = sum(bool(term.groups) for term in found)
    if to is not None:
        write_document_terms(to, found, lang, contexts=contexts)
    if as_json:
        for term in found if to is None else ():
            typer.echo(json.dumps(term.as_dict(contexts), ensure_ascii=False))
        if to is not None:
            typer.echo(json.dumps({"out": str(to), "terms": len(found), "translated": translated}))
        return
    if to is None:
        for rank, term in enumerate(found, 1):
            out().print(_line(rank, term), markup=False)
    with_them = f", {translated:,} with candidate translations" if translated else ""
    typer.echo(f"{to or 'found'}: {count(len(found), 'term')}{with_them}", err=to is None)


def _line(rank: int, term: DocumentTerm) -> str:
    """A term, and its candidate translations below it."""
    from phrasemate.cli.render import count
    from phrasemate.cli.shell import clean

    sure = "" if term.confidence is None else f", confidence {term.confidence:.2f}"
    line = f"{rank:>4}. {clean(term.text)}  {term.score:.3f}, {count(term.count, 'time')}{sure}"
    groups = " | ".join(f"{clean(group.text)} {group.score:.3f}" for group in term.groups)
    return f"{line}\n{INDENT}{groups}" if groups else line
