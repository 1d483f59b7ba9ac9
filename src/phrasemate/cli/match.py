"""``phrasemate match``: find the terms of two lists that mean the same, by their sentences in each language."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from phrasemate.cli import options
from phrasemate.cli.options import argument, flag, option
from phrasemate.cli.progress import stages
from phrasemate.cli.shell import clean, count, out
from phrasemate.errors import InputError, ReadError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from phrasemate.match import Match, Matching, MatchSide
    from phrasemate.text import Corpus
    from phrasemate.text.formats.units import Term
    from phrasemate.types import Phrase

INDENT = "    "
SHOWN = 20  # number of terms without a match that are listed; the rest are only counted


def print_matches(console: Console, matches: Sequence[Match]) -> None:
    """Print every match with its example sentences: a table on a terminal, plain lines elsewhere."""
    if console.is_terminal:
        if matches:
            console.print(_table(matches))
        return
    for match in matches:
        for line in _plain(match):
            console.print(line, markup=False)


def _table(matches: Iterable[Match]) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 1, 0), expand=True)
    for name in ("source", "target"):
        table.add_column(name, ratio=1, overflow="fold")
    for name in ("score", "margin"):
        table.add_column(name, justify="right")
    table.add_column("")
    for match in matches:
        table.add_row(
            _cell(match.source.text, match.source_evidence),
            _cell(match.target.text, match.target_evidence),
            f"{match.score:.3f}",
            f"{match.margin:.3f}",
            _place(match),
        )
    return table


def _cell(term: str, evidence: Iterable[Phrase]) -> Text:
    from rich.text import Text

    from phrasemate.cli.render import marked

    cell = Text().append(clean(term), "bold cyan")
    for phrase in evidence:
        cell.append("\n").append_text(marked(phrase, "green"))
    return cell


def _place(match: Match) -> str:
    return "mutual" if match.mutual else f"rank {match.rank}"


def _plain(match: Match) -> Iterator[str]:
    from phrasemate.cli.render import marked

    figures = f"{match.score:.3f}, margin {match.margin:.3f}, {_place(match)}"
    yield f"{clean(match.source.text)} = {clean(match.target.text)}  {figures}"
    for phrase in (*match.source_evidence, *match.target_evidence):
        yield f"{INDENT}{marked(phrase).plain}"


def write_unmatched(path: Path, matching: Matching) -> None:
    """Write the terms without a match as a table with tabs: side, term, id."""
    from phrasemate.utils.storage import NewFile

    with NewFile(path) as file:
        file.write("side\tterm\tid\n")
        for side, terms in (("source", matching.source_unmatched), ("target", matching.target_unmatched)):
            for term in terms:
                file.write(f"{side}\t{term.text}\t{' '.join(term.id.split())}\n")


def say_matches(matching: Matching, to: Path | None, as_json: bool) -> None:
    """Print the matches, unless they were written to the file ``to``, and a summary."""
    if as_json:
        for item in matching.matches if to is None else ():
            options.print_json(item.as_dict())
        options.print_json(matching.as_dict() | ({"out": str(to)} if to else {}))
        return
    if to is None:
        print_matches(out(), matching.matches)
    mutual, number = sum(element.mutual for element in matching.matches), len(matching.matches)
    typer.echo(f"{to or 'found'}: {number:,} match{'' if number == 1 else 'es'}, {mutual:,} mutual", err=to is None)
    for side, place in (("source", 0), ("target", 1)):
        if terms := (matching.source_unmatched, matching.target_unmatched)[place]:
            names = ", ".join(clean(term.text) for term in terms[:SHOWN]) + (", ..." if len(terms) > SHOWN else "")
            typer.echo(f"without a match: {count(len(terms), f'{side} term')}: {names}", err=True)
        if alone := matching.alone[place]:
            typer.echo(f"in no sentence: {count(alone, f'{side} term')}, compared by wording alone", err=True)
        if repeats := matching.repeated[place]:
            typer.echo(f"repeated: {count(repeats, f'{side} term')}, compared once", err=True)


WRITTEN = (".tsv", ".csv", ".jsonl", ".xlsx", ".tbx")


Margin = Literal["auto", "csls", "ratio", "probability"]


def _text(side: str) -> Any:
    return option(f"--{side}-text", "FILES", f"Text of the {side} language (repeatable).")


def _index(side: str) -> Any:
    help_text = f"Index, or file of phrasemate examples --store, to take sentences from, instead of --{side}-text."
    return option(f"--{side}-index", "DIR", help_text)


def _lang(side: str) -> Any:
    return option(
        f"--{side}-lang", "LANG", f"Language of the {side} list and text, e.g. {'de' if side == 'source' else 'en'}."
    )


def _column(side: str) -> Any:
    return option(f"--{side}-column", "NAME|N", "Column of the terms: name, or number from 1.")


def match(
    source: Annotated[Path, argument("SRC", "The term list of the source language.")],
    target: Annotated[Path, argument("TGT", "The term list of the target language.")],
    source_text: Annotated[list[str] | None, _text("source")] = None,
    target_text: Annotated[list[str] | None, _text("target")] = None,
    source_index: Annotated[Path | None, _index("source")] = None,
    target_index: Annotated[Path | None, _index("target")] = None,
    source_lang: Annotated[str, _lang("source")] = "",
    target_lang: Annotated[str, _lang("target")] = "",
    source_column: Annotated[str | None, _column("source")] = None,
    target_column: Annotated[str | None, _column("target")] = None,
    text_field: options.TextField = "text",
    lines: options.SplitLines = "paragraph",
    on_error: options.OrList = "raise",
    encoding: options.Encoding = "utf-8",
    to: Annotated[
        Path | None, option("--out", "-o", "FILE", "The matches, as .tsv, .csv, .jsonl, .xlsx or .tbx.")
    ] = None,
    unmatched: Annotated[
        Path | None, option("--unmatched", "FILE", "Terms without a match, as a table with tabs: side, term, id.")
    ] = None,
    threshold: Annotated[
        float | None,
        option("--min-margin", "X", "Minimum margin of a match (default: csls 0.2, ratio 1.15, probability 0.4)."),
    ] = None,
    least_score: Annotated[
        float, option("--min-score", "X", "Minimum similarity (cosine) of a match.", min=-1, max=1)
    ] = -1.0,
    mutual: Annotated[bool, flag("--mutual", "Keep only mutual matches.")] = False,
    one_to_one: Annotated[
        bool, flag("--one-to-one", "Use no term twice, and find the best assignment of all terms.")
    ] = False,
    candidates: Annotated[int, option("--limit", "-k", "N", "Matches for each source term.", min=1)] = 1,
    margin: Annotated[
        Margin,
        option(
            "--margin",
            "auto|csls|ratio|probability",
            "How the margin is computed: see above. auto: probability if the lexicon has both languages, else csls.",
        ),
    ] = "auto",
    neighbours: Annotated[int, option("--neighbours", "N", "Number of nearest terms for csls and ratio.", min=1)] = 10,
    examples: Annotated[int, option("--examples", "N", "Maximum number of sentences to compare a term by.", min=0)] = 8,
    bare: Annotated[
        float,
        option(
            "--bare",
            "X",
            "Weight of the term without context, relative to the mean of its n sentences: X / sqrt(n).",
            min=0,
        ),
    ] = 1.5,
    evidence: Annotated[int, option("--evidence", "N", "Example sentences for each side of a match.", min=0)] = 1,
    pooling: Annotated[
        str, option("--pooling", "NAME", "mean, head, ends or several as in mean+head (default: that of the model).")
    ] = "",
    layer: options.Layer = None,
    dictionary: options.Dictionaries = None,
    model: options.Model = None,
    threads: options.Threads = None,
    force: Annotated[bool, flag("--force", "Overwrite files that exist.")] = False,
    as_json: Annotated[bool, flag("--json", "Print JSON lines.")] = False,
) -> None:
    r"""Match the terms of two lists, one in each language.

    Terms are compared by the sentences that contain them, so give text in both languages; it need not be parallel. The
    lists are .txt (one term per line), .tsv, .csv, .xlsx or .tbx. Without -o, the matches are printed. With -o, they
    are written; the ending of FILE chooses the format.

    score is the cosine of two terms x and y; margin says how far it exceeds that of other candidates. The margin csls
    is 2 cos(x, y) minus the mean cosines of x and of y with their nearest terms of the other list. The margin ratio is
    cos(x, y) divided by the average of these two means. The margin probability is the probability that x and y are
    equivalents, by the scorer of searches, the lexicon and the other pairs of x and of y. In a mutual match, each term
    is the other's best by margin.

    With --json, each match gives one line with a JSON object (none with -o), and a last line sums up; start and end
    count characters of the sentence:

      {"source": "Speisekarte", "target": "menu", "score": 0.81, "margin": 0.34, "mutual": true, "rank": 1,
       "source_examples": 8, "target_examples": 5,
       "source_evidence": [{"text": "Die Speisekarte ist lang.", "start": 4, "end": 15}], "target_evidence": [...]}
      {"matches": 1, "source_unmatched": ["Bank"], "target_unmatched": [], ...}

    Examples:
      phrasemate match de.txt en.txt --source-text german/ --target-text english/
      phrasemate match de.tbx en.xlsx --source-lang de --target-lang en --source-index idx --target-index idx -o out.tbx
      phrasemate match de.csv en.csv --source-column Benennung --target-column 2 \
          --source-text de.txt --target-text en.txt --one-to-one -o matches.xlsx --unmatched rest.tsv
      phrasemate match de.txt en.txt --source-text de.gz --target-text en.gz --limit 3 --min-margin 0 --json
    """
    from phrasemate.encode import load_model
    from phrasemate.match import MatchSettings, match_terms, term_pairs
    from phrasemate.text import read, write_pairs

    paths = (source, target, *(source_text or ()), *(target_text or ()), source_index, target_index)
    _check_files(to, unmatched, force, [path for path in paths if path is not None])
    settings = MatchSettings(
        examples=examples,
        bare=bare,
        pooling=pooling,
        layer=layer,
        margin=margin,
        neighbours=neighbours,
        threshold=threshold,
        least_score=least_score,
        candidates=candidates,
        mutual=mutual,
        one_to_one=one_to_one,
        evidence=evidence,
    )
    reading = partial(read, text_field=text_field, lines=lines, on_error=on_error, encoding=encoding)
    for name, texts, index in (("source", source_text, source_index), ("target", target_text, target_index)):
        if texts and index is not None:
            raise typer.BadParameter(f"--{name}-index has its own sentences; leave out --{name}-text")
    lists = (_terms(source, "source", source_column, source_lang), _terms(target, "target", target_column, target_lang))
    _check_languages(to, lists)
    with ExitStack() as stack:
        sides = (
            _side(stack, "source", lists[0], source_lang, source_text, source_index, reading),
            _side(stack, "target", lists[1], target_lang, target_text, target_index, reading),
        )
        encoder = load_model(model, threads=threads)
        with stages() as show:
            matching = match_terms(sides[0], sides[1], encoder, settings, show, options.opened_dictionaries(dictionary))
    if to is not None:
        write_pairs(to, term_pairs(matching, contexts=to.suffix.lower() == ".tbx"))
    if unmatched is not None:
        write_unmatched(unmatched, matching)
    say_matches(matching, to, as_json)


def _check_files(to: Path | None, unmatched: Path | None, force: bool, read: Sequence[str | Path]) -> None:
    """Raise InputError before the work for output files that would fail, or replace an input or an existing file."""
    from phrasemate.utils.storage import check_new

    if to is not None and to.suffix.lower() not in WRITTEN:
        raise InputError(f"{to}: the name of the file must end in {', '.join(WRITTEN)}")
    if to is not None and unmatched is not None and to.resolve() == unmatched.resolve():
        raise InputError(f"{to}: given for the matches and for the terms without one; give two different files")
    for path in (to, unmatched):
        if path is not None:
            options.check_apart(path, *read)
            check_new(path, force)


def _check_languages(to: Path | None, lists: Sequence[Sequence[Term]]) -> None:
    """Raise InputError if a term base (.tbx) is to be written and a term has no language."""
    if to is None or to.suffix.lower() != ".tbx":
        return
    for name, terms in zip(("source", "target"), lists, strict=True):
        if not all(term.language for term in terms):
            raise InputError(f"{to}: a term base needs the language of the {name} terms; give --{name}-lang")


def _side(
    stack: ExitStack,
    name: str,
    terms: Sequence[Term],
    lang: str,
    texts: Sequence[str] | None,
    index: Path | None,
    reading: Callable[..., Corpus],
) -> MatchSide:
    """Combine a term list with the source of its sentences, which ``stack`` closes."""
    from phrasemate.cli.progress import IndexingBar
    from phrasemate.examples import ExampleIndex
    from phrasemate.match import MatchSide

    if not texts and index is None:
        if not any(term.contexts for term in terms):
            remark = f"no --{name}-text: {name} terms are compared by their wording alone, which is much less accurate"
            typer.echo(f"note: {remark}", err=True)
        return MatchSide(terms)
    if index is not None and index.is_file():
        return MatchSide(terms, stack.enter_context(ExampleIndex.open(index)))
    if index is not None:
        return MatchSide(terms, options.sentences_of(stack, index, [lang] if lang else None))
    corpus = reading(*(texts or ()), lang=lang)
    try:
        with options.sided(name), IndexingBar() as bar:
            sentences = stack.enter_context(ExampleIndex.build(corpus, None, lang, bar.show))
    except ReadError as error:
        if "-column" not in error.remedy:
            raise
        remedy = f"put the column into a store (phrasemate examples --column ... --store FILE), --{name}-index FILE"
        raise ReadError(error.file, error.line, error.reason, remedy) from error
    options.say_skipped(corpus.skipped)
    return MatchSide(terms, sentences)


def _terms(file: Path, name: str, column: str | None, lang: str) -> list[Term]:
    """Read a term list; errors name the options of this command."""
    from phrasemate.text.term_lists import read_terms

    number = int(column) if column is not None and re.fullmatch("[0-9]{1,9}", column) else column
    with options.sided(name):
        return list(read_terms(file, lang, number))
