"""``phrasemate examples``: sentences that contain a phrase."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from phrasemate.cli.options import Column, Encoding, Lines, OnError, OrList, SplitLines, TextField, say_skipped
from phrasemate.cli.shell import err, out
from phrasemate.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from phrasemate.examples import Example, ExampleIndex
    from phrasemate.text import Corpus

EXAMPLES = """Examples:

\b
  phrasemate examples "open source" --index idx
  phrasemate examples printer "print job" --text manuals/ --lang en -n 5
  phrasemate examples --phrases terms.txt --text manuals/ --store manuals.examples --json > examples.jsonl
  phrasemate examples printer --store manuals.examples    made before; the texts are not read again
  cut -f1 terms.tsv | phrasemate examples --phrases - --index idx --language en"""

HELP = """Find sentences that contain a phrase.

Whole words only, upper and lower case alike, in every script: "art" is not in "party", 水 is not in 水曜日, 프린터
is in 프린터에서. The sentences are a sample of all there are, the same each time: from different documents and
places, none twice, near repetitions last. A phrase with fewer sentences than asked for gets those; with none, the
answer says so.

The sentences come from an index (--index), from text files (--text), or from a file that --store has made of them.

With --json, one JSON object a line is printed for each phrase; start and end are characters of the text:

\b
  {"phrase": "art", "count": 1, "examples": [
    {"text": "The art of war.", "start": 4, "end": 7, "document": "a.txt", "line": 3, "language": "en"}]}
"""


def examples(
    phrases: Annotated[list[str] | None, typer.Argument(metavar="PHRASE", help="Phrases to look for.")] = None,
    file: Annotated[
        str | None,
        typer.Option(
            "--phrases", metavar="FILE", help="More phrases, one a line (.txt, first column of .tsv, .gz); - is stdin."
        ),
    ] = None,
    index: Annotated[Path | None, typer.Option("--index", metavar="DIR", help="Sentences of this index.")] = None,
    text: Annotated[
        list[str] | None,
        typer.Option("--text", metavar="FILES", help="Sentences of this file or folder (may be given several times)."),
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(
            "--store", metavar="FILE", help="Keep the sentences of --text here; used again while they are unchanged."
        ),
    ] = None,
    n: Annotated[int, typer.Option("-n", metavar="N", min=1, help="Sentences for each phrase.")] = 32,
    extra: Annotated[
        int, typer.Option("--extra", metavar="N", min=0, help="Characters that a sentence has beyond the phrase.")
    ] = 10,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Another number draws other sentences.")] = 0,
    language: Annotated[
        list[str] | None,
        typer.Option("--language", metavar="LANG", help="With --index: only this language (may be repeated)."),
    ] = None,
    lang: Annotated[str, typer.Option("--lang", metavar="LANG", help="Language of --text, e.g. en or zh.")] = "",
    column: Column = None,
    text_field: TextField = "text",
    lines: SplitLines = Lines.PARAGRAPH,
    on_error: OrList = OnError.RAISE,
    encoding: Encoding = "utf-8",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object for each phrase.")] = False,
) -> None:
    from phrasemate.text import read

    if index is None and not text and store is None:
        raise typer.BadParameter("no sentences to look in; give --index DIR, --text FILES or --store FILE")
    if index is not None and (text or store is not None):
        raise typer.BadParameter("--index has its own sentences; leave out --text and --store")
    if language and index is None:
        raise typer.BadParameter("--language chooses within --index; for --text, give --lang")
    if lang and not text:
        raise typer.BadParameter("--lang is of --text; for --index, give --language")
    of_text = {
        "--column": column is not None,
        "--text-field": text_field != "text",
        "--lines": lines is not Lines.PARAGRAPH,
        "--on-error": on_error is not OnError.RAISE,
        "--encoding": encoding != "utf-8",
    }
    for option in (option for option, given in of_text.items() if given and not text):
        raise typer.BadParameter(f"{option} is of --text; leave it out")
    wanted = _phrases(phrases or [], file)
    corpus = None
    if text:
        corpus = read(
            *text,
            column=column,
            text_field=text_field,
            lines=lines.value,
            lang=lang,
            on_error=on_error.value,
            encoding=encoding,
        )
    with _source(index, language, corpus, store, lang) as source:
        say_skipped(corpus.skipped if corpus else ())
        found = ((phrase, source.examples(phrase, n, extra, seed)) for phrase in _counted(wanted))
        counts = _print(found, as_json)
    if len(wanted) > 1:
        _say_counts(counts, n)


examples.__doc__ = HELP


def _phrases(given: Sequence[str], file: str | None) -> list[str]:
    from phrasemate.text import read
    from phrasemate.text.error_policy import without_options

    for phrase in given:
        if not phrase.strip() or any("\udc80" <= character <= "\udcff" for character in phrase):
            raise InputError(f"the phrase {phrase!a} is empty or not UTF-8; expected text")
    more = read(file, lines="sentence") if file is not None else ()
    with without_options():  # --encoding and --on-error are those of the texts
        found = [*given, *(sentence.text for document in more for sentence in document.sentences())]
    if not found:
        raise typer.BadParameter("no phrase to look for; give PHRASE or --phrases FILE")
    return found


@contextmanager
def _source(
    index: Path | None, languages: Sequence[str] | None, corpus: Corpus | None, store: Path | None, lang: str
) -> Iterator[ExampleIndex]:
    """The sentences to look in, open."""
    from phrasemate.examples import ExampleIndex
    from phrasemate.index import Index

    if index is not None:
        with Index.open(index, readonly=True) as opened, ExampleIndex.from_index(opened, languages or None) as source:
            yield source
    elif corpus is not None:
        with _built(corpus, store, lang) as source:
            yield source
    elif store is not None:
        with ExampleIndex.open(store) as source:
            yield source


def _built(corpus: Corpus, store: Path | None, lang: str) -> ExampleIndex:
    from phrasemate.cli.progress import IndexingBar
    from phrasemate.cli.render import count
    from phrasemate.examples import ExampleIndex

    with IndexingBar() as bar:
        source = ExampleIndex.build(corpus, store, lang, bar.show)
    if store is not None:
        what = "unchanged" if source.reused else "made"
        typer.echo(f"{store}: {count(source.sentences, 'sentence')}, {what}", err=True)
    return source


def _counted(phrases: Sequence[str]) -> Iterator[str]:
    """The phrases, with a bar on standard error while their answers go into a file or pipe."""
    from rich.progress import track

    console = err()
    hidden = not console.is_terminal or out().is_terminal or len(phrases) == 1
    yield from track(phrases, "looking up", console=console, transient=True, disable=hidden)


def _print(found: Iterable[tuple[str, list[Example]]], as_json: bool) -> Counter[int]:
    """Print the answers as they come; how many phrases have how many examples."""
    console, counts = out(), Counter[int]()
    for phrase, examples in found:
        counts[len(examples)] += 1
        if as_json:
            line = {"phrase": phrase, "count": len(examples), "examples": [one.as_dict() for one in examples]}
            typer.echo(json.dumps(line, ensure_ascii=False))
        else:
            _print_phrase(console, phrase, examples)
    return counts


def _print_phrase(console: Console, phrase: str, examples: Sequence[Example]) -> None:
    from rich.text import Text

    from phrasemate.cli.render import count, marked
    from phrasemate.cli.shell import clean

    said = count(len(examples), "example") if examples else "no example found"
    console.print(Text.assemble((clean(phrase), "bold cyan"), (f"  {said}", "dim")))
    style = "bold green" if console.is_terminal else None
    for example in examples:
        place = f"  ({clean(example.document)}:{example.line})"
        console.print(Text("      ").append_text(marked(example.phrase, style)).append(place, "dim"))
    console.print()


def _say_counts(counts: Counter[int], asked: int) -> None:
    total, full, none = counts.total(), counts[asked], counts[0]
    typer.echo(
        f"{total:,} phrases: {full:,} with {asked}, {total - full - none:,} with fewer, {none:,} with none", err=True
    )
