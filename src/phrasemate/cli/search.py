"""``phrasemate search``: ask an index."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from phrasemate.cli.options import Dictionaries, Quick, Threads, WithLexicon, argument, flag, option
from phrasemate.cli.shell import clean, out
from phrasemate.errors import InputError

if TYPE_CHECKING:
    from phrasemate.lexicon import Lexicon
    from phrasemate.search import Result

BATCH = 1000  # queries from a pipe that are answered together

EXAMPLES = """Examples:

\b
  phrasemate search idx "Er sitzt auf der [[Bank]]."
  phrasemate search idx -k 3 --contexts 1 "Wir hielten [[eine Schweigeminute]] ab."
  phrasemate search idx --document news.txt --language en "Nous avons [[pris un congé]]."
  phrasemate search idx "Er sitzt auf der Bank."        no marks: every proposed phrase
  phrasemate search idx --dictionary my.tbx "Der [[Vertrag]] gilt."    with your own term base
  phrasemate search idx --quick < queries.txt           by vectors alone, fewer of the answers right
  phrasemate search idx --json < queries.txt > answers.jsonl"""

HELP = """Find what means the same as a marked phrase.

[[ ]] marks the phrase in its sentence (several may be marked); \\[[ and \\]] are literal brackets. A query without
marks is answered for every phrase that the model proposes in it. Without QUERY (or with -), queries are read from
standard input, one a line.

With --json, one JSON object a line is printed for each query, in the order of the queries:

\b
  {"query": "auf der [[Bank]]", "results": [
    {"phrase": "Bank", "start": 8, "end": 12, "confidence": 0.92, "groups": [
      {"text": "bench", "score": 0.71, "support": 0.92, "count": 3, "probability": 0.92, "source": "lexicon",
       "hits": [
        {"context": "He sat on the bench.", "start": 14, "end": 19, "score": 0.71,
         "document": "park.txt", "line": 7, "language": "en", "metadata": {}}]}]}]}

start and end are characters: of the query without its marks, and of the context.
"""


def search(
    index: Annotated[Path, argument("DIR", "The index.")],
    queries: Annotated[
        list[str] | None, argument("QUERY", "Sentences with a phrase in [[ ]]; - or none: standard input.")
    ] = None,
    k: Annotated[int, option("--limit", "-k", "N", "Groups of equal wording for each phrase.", min=1)] = 10,
    contexts: Annotated[int, option("--contexts", "N", "Example sentences for each group.", min=0)] = 5,
    document: Annotated[
        list[str] | None,
        option("--document", "NAME", "Only in this document, or those whose names begin so or fit *; several times."),
    ] = None,
    language: Annotated[
        list[str] | None, option("--language", "LANG", "Only in this language (may be given several times).")
    ] = None,
    quick: Quick = False,
    dictionary: Dictionaries = None,
    lexicon: WithLexicon = True,
    explain: Annotated[bool, flag("--explain", "Say of each group what speaks for it.")] = False,
    as_json: Annotated[bool, flag("--json", "Print one JSON object for each query.")] = False,
    threads: Threads = None,
    model: Annotated[
        Path | None, option("--model", "FOLDER", "Model folder (default: the one that the index was built with).")
    ] = None,
) -> None:
    from phrasemate.encode import load_model
    from phrasemate.index import Index
    from phrasemate.search import Searcher

    encoder = load_model(model, threads=threads) if model else None
    with Index.open(index, encoder, readonly=True, threads=threads) as opened:
        searcher = Searcher(opened, views=not quick, lexicons=_dictionaries(dictionary), lexicon=lexicon)
        for batch in _batches(_queries(queries)):
            results = searcher.search_all(
                list(dict.fromkeys(batch)), k=k, contexts=contexts, documents=document, languages=language
            )
            _print(batch, results, as_json, explain)


search.__doc__ = HELP


def _dictionaries(paths: Sequence[Path] | None) -> Sequence[Lexicon]:
    """Open the dictionaries; without any, the readers of their formats are not even imported."""
    if not paths:
        return ()
    from phrasemate.lexicon import open_dictionaries

    return open_dictionaries(paths)


def _queries(phrases: Sequence[str] | None) -> Iterator[str]:
    """The queries of the command line, with standard input in the place of ``-``."""
    for query in phrases or ["-"]:
        if not query.strip():
            raise InputError("an empty query; expected a sentence, with a phrase in [[ ]] or without")
        if query == "-":
            yield from _standard_input()
        elif query.isascii() or _is_unicode(query):
            yield query
        else:
            raise InputError(f"the query {query!a} is not UTF-8; use a terminal or a script in UTF-8")


def _is_unicode(text: str) -> bool:
    """False where bytes of another encoding came in with the arguments (as lone surrogates)."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _standard_input() -> Iterator[str]:
    if sys.stdin.isatty():
        typer.echo("one query a line, a phrase in [[ ]]; Ctrl-D ends", err=True)
    for number, line in enumerate(sys.stdin.buffer, 1):
        try:
            query = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
        except UnicodeDecodeError as error:
            raise InputError(
                f"standard input, line {number}: not UTF-8 ({error.reason}); convert it, e.g. with iconv -t utf-8"
            ) from None
        if query:
            yield query


def _batches(queries: Iterator[str]) -> Iterator[list[str]]:
    """Many at a time from a pipe; one at a time from a person, who waits for each answer."""
    size = 1 if sys.stdin.isatty() else BATCH
    while batch := list(islice(queries, size)):
        yield batch


def _print(batch: Sequence[str], results: Iterable[Result], as_json: bool, explain: bool) -> None:
    answers: dict[str, list[Result]] = {query: [] for query in batch}
    for result in results:
        answers[result.query].append(result)
    if as_json:
        for query in batch:
            line = {"query": query, "results": [result.as_dict(explain) for result in answers[query]]}
            typer.echo(json.dumps(line, ensure_ascii=False))
        return
    from phrasemate.cli.render import print_results

    console = out()
    for query in batch:
        print_results(console, answers[query], explain)
        if not answers[query]:
            console.print(f"no phrase proposed in: {clean(query)}", markup=False)
