"""``phrasemate watch``: look up what is copied in any program."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

import typer

from phrasemate.cli.options import Dictionaries
from phrasemate.cli.shell import clean, out
from phrasemate.errors import InputError, MissingExtra, QueryError

LONGEST = 500  # characters of a copied text; a longer one is passed over

EXAMPLES = """Examples:

\b
  phrasemate watch idx                                   prints candidates for what you copy
  phrasemate watch idx -k 3 --dictionary clients.tbx
  phrasemate watch --page http://127.0.0.1:8000/         shows them on the page of a running server"""


def watch(
    index: Annotated[Path | None, typer.Argument(metavar="[DIR]", help="The index; or give --page.")] = None,
    page: Annotated[
        str | None,
        typer.Option("--page", metavar="URL", help="Open this page of phrasemate serve in the browser instead."),
    ] = None,
    k: Annotated[int, typer.Option("--limit", "-k", metavar="N", min=1, help="Candidates for each phrase.")] = 5,
    seconds: Annotated[
        float, typer.Option("--every", metavar="SECONDS", min=0.1, max=60, help="Time between two looks.")
    ] = 0.5,
    dictionary: Dictionaries = None,
) -> None:
    """Watch the clipboard, and look up each text that is copied, in any program.

    Up to four words are looked up as one phrase, a sentence by its phrases. What is longer than 500 characters is
    passed over. Nothing leaves this machine, unless the page is on another. Ctrl-C stops.
    """
    try:
        import pyperclip
    except ImportError:
        raise MissingExtra("pyperclip", "watch") from None
    if (index is None) == (page is None):
        raise InputError("expected an index, or --page with the address of a running server")
    try:
        copied = _copied(pyperclip.paste, seconds)
        if page is not None:
            _browse(copied, page)
        else:
            _answer(copied, index, k, dictionary)
    except pyperclip.PyperclipException as error:
        raise InputError(f"the clipboard cannot be read: {' '.join(str(error).split())}") from None


def _copied(paste: Callable[[], str], seconds: float) -> Iterator[str]:
    """Each text that comes into the clipboard from now on."""
    last = paste()
    typer.echo("copy a text to look it up; Ctrl-C stops", err=True)
    while True:
        time.sleep(seconds)
        text = paste()
        if text != last:
            last = text
            if text.strip() and len(text) <= LONGEST:
                yield " ".join(text.split())


def _browse(copied: Iterator[str], page: str) -> None:
    import webbrowser

    for text in copied:
        webbrowser.open(f"{page.rstrip('/')}/?{urlencode({'q': text})}", new=0)
        typer.echo(clean(text), err=True)


def _answer(copied: Iterator[str], folder: Any, k: int, dictionary: list[Path] | None) -> None:
    from phrasemate.cli.render import print_results
    from phrasemate.concordance import phrases_of
    from phrasemate.index import Index
    from phrasemate.lexicon import open_dictionaries
    from phrasemate.query import marked
    from phrasemate.search import Searcher

    console = out()
    with Index.open(folder, readonly=True) as opened:
        searcher = Searcher(opened, lexicons=open_dictionaries(dictionary or ()))
        for text in copied:
            try:
                phrases = phrases_of(text, searcher.model)
            except QueryError as error:
                typer.echo(clean(f"passed over: {error}"), err=True)
                continue
            queries = [marked(phrase.context, phrase.start, phrase.end) for phrase in phrases]
            print_results(console, searcher.search_all(queries, k, 1))
