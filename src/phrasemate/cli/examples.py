"""``phrasemate examples``: sentences that contain a phrase."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from phrasemate.cli import options
from phrasemate.cli.options import argument, flag, option
from phrasemate.cli.shell import clean, count, err, is_unicode, out
from phrasemate.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from phrasemate.examples import Example, ExampleIndex
    from phrasemate.text import Corpus


def examples(
    phrases: Annotated[list[str] | None, argument("PHRASE", "Phrases to look for.")] = None,
    file: Annotated[
        str | None,
        option("--phrases", "FILE", "File of phrases, one per line (.txt, first column of .tsv, .gz); - is stdin."),
    ] = None,
    index: Annotated[Path | None, option("--index", "DIR", "Sentences of this index.")] = None,
    text: Annotated[
        list[str] | None, option("--text", "FILES", "Sentences of this file or folder (repeatable).")
    ] = None,
    store: Annotated[
        Path | None,
        option("--store", "FILE", "Store the sentences of --text here, for later runs while the texts are unchanged."),
    ] = None,
    n: Annotated[int, option("--limit", "-n", "N", "Sentences for each phrase.", min=1)] = 32,
    extra: Annotated[
        int, option("--extra", "N", "Minimum number of characters of a sentence beyond the phrase.", min=0)
    ] = 10,
    seed: Annotated[int, option("--seed", "N", "Seed of the sample: another number gives other sentences.")] = 0,
    language: Annotated[
        list[str] | None, option("--language", "LANG", "With --index: only this language (repeatable).")
    ] = None,
    lang: Annotated[str, option("--lang", "LANG", "Language of --text, e.g. en or zh.")] = "",
    column: options.Column = None,
    text_field: options.TextField = "text",
    lines: options.SplitLines = "paragraph",
    on_error: options.OrList = "raise",
    encoding: options.Encoding = "utf-8",
    as_json: Annotated[bool, flag("--json", "Print one JSON object for each phrase.")] = False,
) -> None:
    """Find sentences that contain a phrase.

    Finds whole words in every script and ignores case: "art" is not found in "party", 水 is not found in 水曜日, but
    프린터 is found in 프린터에서. The result is a sample, the same each time: from different documents and places,
    without repeated sentences, near repetitions last. If a phrase has fewer sentences than --limit, all are given.

    The sentences come from an index (--index), from text files (--text), or from a file that an earlier run stored
    (--store).

    With --json, each phrase gives one line with a JSON object; start and end count characters of the text:

      {"phrase": "art", "count": 1, "examples": [
        {"text": "The art of war.", "start": 4, "end": 7, "document": "a.txt", "line": 3, "language": "en"}]}

    Examples:
      phrasemate examples "open source" --index idx
      phrasemate examples printer "print job" --text manuals/ --lang en -n 5
      phrasemate examples --phrases terms.txt --text manuals/ --store manuals.examples --json > examples.jsonl
      phrasemate examples printer --store manuals.examples    from the stored sentences of the run above
      cut -f1 terms.tsv | phrasemate examples --phrases - --index idx --language en
    """
    if index is None and not text and store is None:
        raise typer.BadParameter("no sentences to look in; give --index DIR, --text FILES or --store FILE")
    if index is not None and (text or store is not None):
        raise typer.BadParameter("--index has its own sentences; leave out --text and --store")
    if language and index is None:
        raise typer.BadParameter("--language applies to --index; for --text, give --lang")
    if lang and not text:
        raise typer.BadParameter("--lang applies to --text; for --index, give --language")
    of_text = {
        "--column": column is not None,
        "--text-field": text_field != "text",
        "--lines": lines != "paragraph",
        "--on-error": on_error != "raise",
        "--encoding": encoding != "utf-8",
    }
    for name in (name for name, value in of_text.items() if value and not text):
        raise typer.BadParameter(f"{name} applies to --text; leave it out")
    wordings = _phrases(phrases or [], file)
    corpus = None
    if text:
        corpus = options.read_texts(text, column, text_field, lines, on_error, encoding, lang)
    with ExitStack() as stack:
        source = _source(stack, index, language, corpus, store, lang)
        options.say_skipped(corpus.skipped if corpus else ())
        results = ((phrase, source.examples(phrase, n, extra, seed)) for phrase in _counted(wordings))
        counts = _print(results, as_json)
    if len(wordings) > 1:
        total, full, missing = counts.total(), counts[n], counts[0]
        fewer = total - full - missing
        typer.echo(f"{total:,} phrases: {full:,} with {n}, {fewer:,} with fewer, {missing:,} with none", err=True)


def _phrases(wordings: Sequence[str], file: str | None) -> list[str]:
    from phrasemate.text.text_file import without_options

    for phrase in wordings:
        if not phrase.strip() or not is_unicode(phrase):
            raise InputError(f"the phrase {phrase!a} is empty or not UTF-8; expected text")
    with options.rename_options(lang=""), without_options():  # --lang and so on are those of the texts
        texts = [*wordings, *(_phrases_of(file) if file is not None else ())]
    if not texts:
        raise typer.BadParameter("no phrase to look for; give PHRASE or --phrases FILE")
    return texts


def _phrases_of(file: str) -> Iterator[str]:
    """Yield the phrases of a file: the terms of a glossary, or the lines of any other text file."""
    from phrasemate.text import read
    from phrasemate.text.term_lists import is_glossary, read_terms

    if is_glossary(file):
        return (term.text for term in read_terms(file, "*"))
    return (sentence.text for document in read(file, lines="sentence") for sentence in document.sentences())


def _source(
    stack: ExitStack,
    index: Path | None,
    languages: Sequence[str] | None,
    corpus: Corpus | None,
    store: Path | None,
    lang: str,
) -> ExampleIndex:
    """Open the sentences to look in; ``stack`` closes them."""
    from phrasemate.cli.progress import IndexingBar
    from phrasemate.examples import ExampleIndex

    if index is not None:
        return options.sentences_of(stack, index, languages or None)
    if corpus is None:
        assert store is not None
        return stack.enter_context(ExampleIndex.open(store))
    with IndexingBar() as bar:
        source = stack.enter_context(ExampleIndex.build(corpus, store, lang, bar.show))
    if store is not None:
        outcome = "unchanged" if source.reused else "made"
        typer.echo(f"{store}: {count(source.sentences, 'sentence')}, {outcome}", err=True)
    return source


def _counted(phrases: Sequence[str]) -> Iterator[str]:
    """Yield the phrases, with a progress bar on standard error if the answers go into a file or pipe."""
    from rich.progress import track

    console = err()
    is_quiet = not console.is_terminal or out().is_terminal or len(phrases) == 1
    yield from track(phrases, "looking up", console=console, transient=True, disable=is_quiet)


def _print(results: Iterable[tuple[str, list[Example]]], as_json: bool) -> Counter[int]:
    """Print the answers as they come. Returns how many phrases have each number of examples."""
    console, counts = out(), Counter[int]()
    for phrase, examples in results:
        counts[len(examples)] += 1
        if as_json:
            rows = [example.as_dict() for example in examples]
            options.print_json({"phrase": phrase, "count": len(examples), "examples": rows})
        else:
            _print_phrase(console, phrase, examples)
    return counts


def _print_phrase(console: Console, phrase: str, examples: Sequence[Example]) -> None:
    from rich.text import Text

    from phrasemate.cli.render import marked

    summary = count(len(examples), "example") if examples else "no example found"
    console.print(Text.assemble((clean(phrase), "bold cyan"), (f"  {summary}", "dim")))
    style = "bold green" if console.is_terminal else None
    for example in examples:
        place = f"  ({clean(example.document)}:{example.line})"
        console.print(Text("      ").append_text(marked(example.phrase, style)).append(place, "dim"))
    console.print()
