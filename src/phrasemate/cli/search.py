"""``phrasemate search``, ``concordance`` and ``watch``: look up phrases, words of the texts, copied text."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlencode

import typer

from phrasemate.cli.options import (
    Dictionaries,
    Json,
    Quick,
    Threads,
    WithLexicon,
    argument,
    flag,
    opened_dictionaries,
    option,
    print_json,
)
from phrasemate.cli.shell import clean, count, is_unicode, out
from phrasemate.errors import InputError, QueryError, needs_extra
from phrasemate.utils.hyphens import without_line_hyphens

if TYPE_CHECKING:
    from phrasemate.lookup import Lookup
    from phrasemate.results import Result

BATCH = 1000  # number of queries from a pipe that are answered together


def search(
    index: Annotated[Path, argument("DIR", "The index.")],
    queries: Annotated[
        list[str] | None, argument("QUERY", "Sentences with a phrase in [[ ]]; - or none: read standard input.")
    ] = None,
    k: Annotated[int, option("--limit", "-k", "N", "Answers for each phrase.", min=1)] = 10,
    contexts: Annotated[int, option("--contexts", "N", "Example sentences for each answer.", min=0)] = 5,
    document: Annotated[
        list[str] | None,
        option("--document", "NAME", "Only this document or folder; * stands for any characters (repeatable)."),
    ] = None,
    language: Annotated[
        list[str] | None,
        option("--language", "LANG", "Only in this language (repeatable). Default: all but the query's own."),
    ] = None,
    quick: Quick = False,
    dictionary: Dictionaries = None,
    lexicon: WithLexicon = True,
    explain: Annotated[bool, flag("--explain", "Show the reasons for and against each answer.")] = False,
    as_json: Annotated[bool, flag("--json", "Print one JSON object for each query.")] = False,
    threads: Threads = None,
    model: Annotated[
        Path | None, option("--model", "FOLDER", "Model folder (default: the one that the index was built with).")
    ] = None,
) -> None:
    r"""Find phrases that mean the same as a marked phrase.

    Mark the phrase in its sentence with [[ ]]; several phrases may be marked. \[[ and \]] are literal brackets. In a
    query without marks, the model chooses the phrases. Without QUERY, or with -, queries are read from standard input,
    one per line.

    With --json, each query gives one line with a JSON object, in the order of the queries:

      {"query": "auf der [[Bank]]", "results": [
        {"phrase": "Bank", "start": 8, "end": 12, "confidence": 0.92, "groups": [
          {"text": "bench", "language": "en", "score": 0.71, "support": 0.92, "count": 3, "probability": 0.92,
           "source": "lexicon", "hits": [
            {"context": "He sat on the bench.", "start": 14, "end": 19, "score": 0.71,
             "document": "park.txt", "line": 7, "language": "en", "metadata": {}}]}]}]}

    start and end count characters: in the query without its marks, and in the context.

    Examples:
      phrasemate search idx "Er sitzt auf der [[Bank]]."
      phrasemate search idx -k 3 --contexts 1 "Die [[Rechnung]] ist bezahlt."
      phrasemate search idx --document news.txt --language en "Nous avons [[pris un congé]]."
      phrasemate search idx "Er sitzt auf der Bank."        no marks: the model chooses the phrases
      phrasemate search idx --dictionary my.tbx "Der [[Vertrag]] gilt."    with your own term base
      phrasemate search idx --quick < queries.txt           faster but less accurate
      phrasemate search idx --json < queries.txt > answers.jsonl
    """
    from phrasemate.encode import load_model
    from phrasemate.index import Index
    from phrasemate.search import Searcher

    encoder = load_model(model, threads=threads) if model else None
    with Index.open(index, encoder, readonly=True, threads=threads) as text_index:
        searcher = Searcher(text_index, views=not quick, lexicons=opened_dictionaries(dictionary), lexicon=lexicon)
        for batch in _batches(_queries(queries)):
            results = searcher.search_all(
                list(dict.fromkeys(batch)), k=k, contexts=contexts, documents=document, languages=language
            )
            _print(batch, results, as_json, explain)


def _queries(phrases: Sequence[str] | None) -> Iterator[str]:
    """Yield the queries of the command line; ``-`` stands for the lines of standard input."""
    for query in phrases or ["-"]:
        if not query.strip():
            raise InputError("an empty query; expected a sentence, with a phrase in [[ ]] or without")
        if query == "-":
            yield from _standard_input()
        elif is_unicode(query):
            yield query
        else:
            raise InputError(f"the query {query!a} is not UTF-8; use a terminal or a script in UTF-8")


def _standard_input() -> Iterator[str]:
    from phrasemate.query import parse_query

    if sys.stdin.isatty():
        typer.echo("one query per line, a phrase in [[ ]]; Ctrl-D ends", err=True)
    for number, line in enumerate(sys.stdin.buffer, 1):
        try:
            query = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
            parse_query(query)
        except UnicodeDecodeError as error:
            raise InputError(
                f"standard input, line {number}: not UTF-8 ({error.reason}); convert it, e.g. with iconv -t utf-8"
            ) from None
        except QueryError as error:
            raise QueryError(f"standard input, line {number}: {error}") from None
        if query:
            yield query


def _batches(queries: Iterator[str]) -> Iterator[list[str]]:
    """Group queries from a pipe into batches of `BATCH`; queries typed on a terminal come one at a time.

    If a query cannot be read, the queries before it are yielded before its InputError is raised.
    """
    size = 1 if sys.stdin.isatty() else BATCH
    batch: list[str] = []
    try:
        for query in queries:
            batch.append(query)
            if len(batch) == size:
                yield batch
                batch = []
    except InputError:
        if batch:
            yield batch
        raise
    if batch:
        yield batch


def _print(batch: Sequence[str], results: Iterable[Result], as_json: bool, explain: bool) -> None:
    answers: dict[str, list[Result]] = {query: [] for query in batch}
    for result in results:
        answers[result.query].append(result)
    if as_json:
        for query in batch:
            print_json({"query": query, "results": [result.as_dict(explain) for result in answers[query]]})
        return
    from phrasemate.cli.render import print_results

    console = out()
    for query in batch:
        print_results(console, answers[query], explain)
        if not answers[query]:
            console.print(f"no phrase proposed in: {clean(query)}", markup=False)


How = Literal["words", "forms", "regex"]
Sort = Literal["text", "left", "right"]
Side = Literal["text", "translation"]


def concordance(
    index: Annotated[Path, argument("DIR", "The index.")],
    query: Annotated[str, argument("TEXT", "Words, in the language of the index.")],
    how: Annotated[
        How,
        option(
            "--how",
            "words|forms|regex",
            "forms: find inflected forms of the words, too; regex: TEXT is a regular expression.",
        ),
    ] = "words",
    sort: Annotated[
        Sort, option("--sort", "text|left|right", "Order of the lines: as in the text, or by the words on one side.")
    ] = "text",
    most: Annotated[int, option("--limit", "-n", "N", "Lines to print.", min=1, max=1_000)] = 20,
    document: Annotated[
        list[str] | None,
        option("--document", "NAME", "Only this document or folder; * stands for any characters (repeatable)."),
    ] = None,
    language: Annotated[list[str] | None, option("--language", "LANG", "Only in this language (repeatable).")] = None,
    side: Annotated[
        Side | None,
        option(
            "--side",
            "text|translation",
            "Look only in the text, or only in the translations of aligned text (default: in the translations if the "
            "text has no match).",
        ),
    ] = None,
    near: Annotated[str, option("--near", "WORD", "Only places with this word at most four words away.")] = "",
    as_json: Json = False,
) -> None:
    r"""Look up words in the texts of an index: their frequency, their neighbours and the lines that contain them.

    In a word, * stands for any letters and ? for one letter. Case is ignored. No model is loaded.

    Examples:
      phrasemate concordance idx collateral
      phrasemate concordance idx "secur* interest" --sort right
      phrasemate concordance idx grant --how forms -n 50      granted, grants, granting
      phrasemate concordance idx "\b(take|took) effect" --how regex --document contracts/
      phrasemate concordance idx collateral --near pledge
      phrasemate concordance memory Sicherheit --side translation     the other side of a translation memory
      phrasemate concordance idx collateral --json
    """
    from phrasemate.index import Index
    from phrasemate.lookup import SIDES, lookup

    with Index.open(index, readonly=True, threads=1) as text_index:
        arguments = (text_index, query, how, sort, most, document, language)
        answer, place = _first_match(lambda side: lookup(*arguments, side=side, near=near), [side] if side else SIDES)
    if as_json:
        print_json({**answer.as_dict(), "side": place})
    else:
        _print_lookup(answer, "translation" if place == "translation" else "sentence")


def _first_match(look_up: Callable[[str], Lookup], sides: Sequence[str]) -> tuple[Lookup, str]:
    """Look in each side until one has matches; return the result and the side, those of the first if none has any."""
    answers = []
    for side in sides:
        answers.append(look_up(side))
        if answers[-1].count:
            return answers[-1], side
    return replace(answers[0], whole=all(answer.whole for answer in answers)), sides[0]


def _print_lookup(answer: Lookup, unit: str) -> None:
    """Print a look-up. ``unit``: name of what was searched, "sentence" or "translation"."""
    from rich.text import Text

    from phrasemate.cli.render import kwic, marked

    console = out()
    so_far = "" if answer.whole else " so far (time ran out)"
    console.print(Text(f"{count(answer.count, 'place')} in {count(answer.sentences, unit)}{so_far}", "bold"))
    for name in ("wordings", "before", "after"):
        pairs = ", ".join(f"{clean(word)} {number:,}" for word, number in getattr(answer, name)[:10])
        if pairs:
            console.print(Text(f"{name:10}{pairs}"))
    for line in answer.lines:
        place = f"  ({clean(line.hit.document)}:{line.hit.line})"
        console.print(kwic(line.hit, console.width) if console.is_terminal else marked(line.hit.phrase).append(place))
        if translation := line.hit.metadata.get("translation"):
            console.print(Text(f"    {clean(str(translation))}", "dim"))


LONGEST = 500  # characters of a copied text; longer texts are ignored


def watch(
    index: Annotated[Path | None, argument("DIR", "The index; or give --page.")] = None,
    page: Annotated[
        str | None, option("--page", "URL", "Show answers in the browser, on this page of phrasemate serve.")
    ] = None,
    k: Annotated[int, option("--limit", "-k", "N", "Candidates for each phrase.", min=1)] = 5,
    seconds: Annotated[
        float, option("--every", "SECONDS", "Time between two checks of the clipboard.", min=0.1, max=60)
    ] = 0.5,
    dictionary: Dictionaries = None,
) -> None:
    """Watch the clipboard, and look up each text that you copy in any program.

    A text of up to four words is looked up as one phrase. In a longer text, each phrase is looked up. Text of more than
    500 characters is ignored. Nothing leaves this machine, unless --page is on another one. Ctrl-C stops.

    Examples:
      phrasemate watch idx                                   prints candidates for what you copy
      phrasemate watch idx -k 3 --dictionary clients.tbx
      phrasemate watch --page http://127.0.0.1:8000/         shows them on the page of a running server
    """
    with needs_extra("watch"):
        import pyperclip
    if (index is None) == (page is None):
        raise InputError("expected an index, or --page with the address of a running server")
    try:
        clip_text = _copied(pyperclip.paste, seconds)
        if page is not None:
            _browse(clip_text, page)
        else:
            _answer(clip_text, index, k, dictionary)
    except pyperclip.PyperclipException as error:
        raise InputError(f"the clipboard cannot be read: {' '.join(str(error).split())}") from None


def _copied(paste: Callable[[], str], seconds: float) -> Iterator[str]:
    """Yield each text that is copied from now on, with runs of white space as one space."""
    last = paste()
    typer.echo("copy a text to look it up; Ctrl-C stops", err=True)
    while True:
        time.sleep(seconds)
        text = paste()
        if text != last:
            last = text
            if text.strip() and len(text) <= LONGEST:
                yield " ".join(without_line_hyphens(text).split())


def _browse(copied: Iterator[str], page: str) -> None:
    import webbrowser

    for text in copied:
        webbrowser.open(f"{page.rstrip('/')}/?{urlencode({'q': text})}", new=0)
        typer.echo(clean(text), err=True)


def _answer(copied: Iterator[str], folder: Any, k: int, dictionary: list[Path] | None) -> None:
    from phrasemate.cli.render import print_results
    from phrasemate.concordance import phrases_of
    from phrasemate.index import Index
    from phrasemate.results import Result, SearchRequest
    from phrasemate.search import Searcher

    console = out()
    with Index.open(folder, readonly=True) as text_index:
        searcher = Searcher(text_index, lexicons=opened_dictionaries(dictionary))
        for text in copied:
            try:
                phrases = [place.phrase for place in phrases_of(text, searcher.model)]
            except QueryError as error:
                typer.echo(clean(f"ignored: {error}"), err=True)
                continue
            answers = searcher.search_phrases(phrases, SearchRequest(k, contexts=1))
            results = [Result(text, phrase, *answer) for phrase, answer in zip(phrases, answers, strict=True)]
            print_results(console, results)
