"""``phrasemate terms``: a document -> its terms, with candidate translations from an index."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from phrasemate.cli import options
from phrasemate.cli.options import argument, flag, option
from phrasemate.cli.progress import stages
from phrasemate.cli.shell import clean, count, out
from phrasemate.errors import InputError

if TYPE_CHECKING:
    from phrasemate.terms import DocumentTerm

INDENT = " " * 6


Rank = Literal["termhood", "expected", "frequency", "cvalue"]


def terms(
    document: Annotated[list[str], argument("DOC", "Files or folders, or - for standard input.")],
    index: Annotated[Path | None, option("--index", "DIR", "Index to look up candidate translations in.")] = None,
    to: Annotated[
        Path | None, option("--out", "-o", "FILE", "The terms, as .tbx, .tsv, .csv, .xlsx or .jsonl.")
    ] = None,
    lang: Annotated[str, option("--source-lang", "LANG", "Language of the document, e.g. de.")] = "",
    language: Annotated[
        list[str] | None, option("--target-lang", "LANG", "Translations in this language only (repeatable).")
    ] = None,
    in_document: Annotated[
        list[str] | None,
        option("--document", "NAME", "Translations from this document of the index only (repeatable)."),
    ] = None,
    most: Annotated[int, option("--limit", "N", "Maximum number of terms, best first (0: all).", min=0)] = 500,
    least: Annotated[int, option("--min-count", "N", "Minimum number of occurrences of a term.", min=1)] = 1,
    rank: Annotated[Rank, option("--rank", "termhood|expected|frequency|cvalue", "How terms are ranked.")] = "termhood",
    max_words: Annotated[int, option("--max-words", "N", "Maximum number of words of a term.", min=1)] = 6,
    belief: Annotated[
        float,
        option(
            "--min-belief",
            "P",
            "Minimum probability, at one place at least, that the words are a phrase (0 to 1).",
            min=0,
            max=1,
        ),
    ] = 0.5,
    k: Annotated[
        int | None, option("--translations", "-k", "N", "Candidate translations of a term (default: 5).", min=1)
    ] = None,
    contexts: Annotated[
        int, option("--contexts", "N", "Example sentences of a term or translation, in files and JSON.", min=0)
    ] = 3,
    examples: Annotated[
        int | None,
        option("--examples", "N", "Maximum number of occurrences to average for the search (default: 16).", min=1),
    ] = None,
    glossaries: Annotated[
        list[Path] | None, option("--known", "FILE", "Glossary whose terms are marked as known (repeatable).")
    ] = None,
    reference: Annotated[
        Path | None,
        option("--reference", "TEXT", "General text, in which terms are rare (default: built-in word frequencies)."),
    ] = None,
    column: options.Column = None,
    text_field: options.TextField = "text",
    lines: options.SplitLines = "paragraph",
    on_error: options.OrList = "raise",
    encoding: options.Encoding = "utf-8",
    dictionary: options.Dictionaries = None,
    quick: options.Quick = False,
    force: Annotated[bool, flag("--force", "Overwrite a file that exists.")] = False,
    as_json: Annotated[bool, flag("--json", "Print one JSON object for each term.")] = False,
    threads: options.Threads = None,
    model: Annotated[
        Path | None, option("--model", "FOLDER", "Model folder (default: the model of the index, or the bundled one).")
    ] = None,
) -> None:
    """Find the terms of a document, best first, and look up candidate translations in an index.

    DOC is a file (txt, docx, html, xliff, tmx, tbx, jsonl, tables), a folder, or - for standard input. If a file is in
    several languages, --source-lang chooses the one to read. Without -o, the terms are printed with their candidate
    translations. With -o, they are written with the sentences that contain them; the ending of FILE chooses the format.

    Terms are ranked by the probability that they are terms. It depends on how often and where they occur, whether the
    document defines them, and how rare their words are in general language or in --reference. Inflected forms count
    as one term. A term is looked up by the mean vector of its occurrences.

    With --json, each term gives one line with a JSON object:

      {"text": "Kernel", "score": 0.72, "count": 41, "belief": 0.84, "variants": [{"text": "Kernel", "count": 41}],
       "places": [{"context": "Der Kernel startet.", "start": 4, "end": 10, "document": "a.txt", "line": 3}],
       "confidence": 0.93, "groups": [{"text": "kernel", "language": "en", "score": 0.88, "count": 60, "hits": [...]}]}

    start and end count characters of the context; groups are those of phrasemate search.

    Examples:
      phrasemate terms manual.docx --source-lang de                              the terms alone
      phrasemate terms manual.docx --source-lang de --index idx -o terms.tbx     with candidate translations
      phrasemate terms memory.tmx --source-lang de --index idx --limit 200 --min-count 3 -o terms.xlsx
      phrasemate terms manual.docx --source-lang de --known glossary.tbx         marks what the glossary has
      phrasemate terms report.txt --index idx -k 3 --contexts 1 --json > terms.jsonl
    """
    from phrasemate.encode import load_model
    from phrasemate.index import Index
    from phrasemate.search import Searcher
    from phrasemate.termhood import reference_of_text
    from phrasemate.terms import TermSettings, document_terms
    from phrasemate.text import read, read_terms
    from phrasemate.vectors import Sentences

    _check(to, document, lang, force)
    if index is None and (language or in_document):
        raise typer.BadParameter("--target-lang and --document choose within an index; give --index")
    search_options = (("--quick", quick), ("--translations", k), ("--examples", examples), ("--dictionary", dictionary))
    if index is None and (useless := [name for name, value in search_options if value]):
        raise typer.BadParameter(f"{useless[0]} needs --index; leave it out")
    fetch_count = max(contexts, 1)  # the first hit gives the language of a translation
    limits = {name: value for name, value in (("k", k), ("examples", examples)) if value}
    settings = TermSettings(rank, max_words, belief, least, most or None, contexts=fetch_count, language=lang, **limits)
    glossary = [term for path in glossaries or () for term in read_terms(path, lang or "*")]
    corpus = options.read_texts(document, column, text_field, lines, on_error, encoding, lang)
    with options.rename_options(lang="--source-lang"), ExitStack() as stack:
        general = None if reference is None else reference_of_text(Sentences(read(str(reference), lang=lang)))
        encoder = load_model(model, threads=threads) if model or index is None else None
        searcher = None
        if index is not None:
            text_index = stack.enter_context(Index.open(index, encoder, readonly=True, threads=threads))
            searcher = Searcher(text_index, views=not quick, lexicons=options.opened_dictionaries(dictionary))
        with stages() as show:
            rows = document_terms(
                corpus,
                searcher,
                settings,
                model=encoder,
                documents=in_document,
                languages=language,
                progress=show,
                reference=general,
                glossary=glossary,
            )
    options.say_skipped(corpus.skipped)
    _give(rows, to, lang, contexts, as_json)


def _check(to: Path | None, documents: Sequence[str], lang: str, force: bool) -> None:
    """Raise InputError at once for an output file that could not be written after the work."""
    from phrasemate.terms import WRITTEN
    from phrasemate.utils.storage import check_new

    if to is None:
        return
    if to.suffix.lower() not in WRITTEN:
        raise InputError(f"{to}: the name of the file must end in {', '.join(WRITTEN)}")
    if to.suffix.lower() == ".tbx" and not lang:
        raise InputError(f"{to}: a term base needs the language of the document; give --source-lang")
    options.check_apart(to, *documents)
    check_new(to, force)


def _give(document_terms: Sequence[DocumentTerm], to: Path | None, lang: str, contexts: int, as_json: bool) -> None:
    from phrasemate.terms import write_document_terms

    translation_count = sum(bool(term.groups) for term in document_terms)
    if to is not None:
        write_document_terms(to, document_terms, lang, contexts=contexts)
    if as_json:
        for term in document_terms if to is None else ():
            options.print_json(term.as_dict(contexts))
        if to is not None:
            typer.echo(json.dumps({"out": str(to), "terms": len(document_terms), "translated": translation_count}))
        return
    if to is None:
        for rank, term in enumerate(document_terms, 1):
            out().print(_line(rank, term), markup=False)
    with_them = f", {translation_count:,} with candidate translations" if translation_count else ""
    typer.echo(f"{to or 'found'}: {count(len(document_terms), 'term')}{with_them}", err=to is None)


def _line(rank: int, term: DocumentTerm) -> str:
    """A term, and its candidate translations below it."""
    sure = "" if term.confidence is None else f", confidence {term.confidence:.0%}"
    mark = ", known" if term.in_glossary else ""
    line = f"{rank:>4}. {clean(term.text)}  {term.score:.3f}, {count(term.count, 'time')}{mark}{sure}"
    groups = " | ".join(f"{clean(group.text)} {group.score:.3f}" for group in term.groups)
    return f"{line}\n{INDENT}{groups}" if groups else line
