"""Matched terms for people: a table on a terminal, plain lines in a pipe."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from phrasemate.cli.render import count, marked
from phrasemate.cli.shell import clean, out

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from phrasemate.match import Match, Matching
    from phrasemate.text.formats.units import Term
    from phrasemate.types import Phrase

INDENT = "    "
SHOWN = 20  # terms without a match that are named; the rest are counted


def print_matches(console: Console, matches: Sequence[Match]) -> None:
    """Every match with its evidence below each of its terms."""
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

    cell = Text().append(clean(term), "bold cyan")
    for phrase in evidence:
        cell.append("\n").append_text(marked(phrase, "green"))
    return cell


def _place(match: Match) -> str:
    return "mutual" if match.mutual else f"rank {match.rank}"


def _plain(match: Match) -> Iterator[str]:
    figures = f"{match.score:.3f}, margin {match.margin:.3f}, {_place(match)}"
    yield f"{clean(match.source.text)} = {clean(match.target.text)}  {figures}"
    for phrase in (*match.source_evidence, *match.target_evidence):
        yield f"{INDENT}{marked(phrase).plain}"


def write_matches(to: Path, found: Matching) -> None:
    """In the format of the name; a term base gets the evidence as contexts."""
    from phrasemate.match import term_pairs
    from phrasemate.text.term_lists import write_pairs

    write_pairs(to, term_pairs(found, contexts=to.suffix.lower() == ".tbx"))


def write_unmatched(path: Path, found: Matching) -> None:
    """A table of the terms without a match."""
    from phrasemate.utils.storage import NewFile

    with NewFile(path) as file:
        file.write("side\tterm\tid\n")
        for side, terms in (("source", found.source_unmatched), ("target", found.target_unmatched)):
            for term in terms:
                file.write(f"{side}\t{term.text}\t{' '.join(term.id.split())}\n")


def say_matches(found: Matching, to: Path | None, as_json: bool) -> None:
    """The matches, unless they are in a file, and what there is to say of the whole."""
    if as_json:
        for each in found.matches if to is None else ():
            typer.echo(json.dumps(each.as_dict(), ensure_ascii=False))
        typer.echo(json.dumps({**found.as_dict(), **({"out": str(to)} if to else {})}, ensure_ascii=False))
        return
    if to is None:
        print_matches(out(), found.matches)
    mutual, number = sum(each.mutual for each in found.matches), len(found.matches)
    typer.echo(f"{to or 'found'}: {number:,} match{'' if number == 1 else 'es'}, {mutual:,} mutual", err=to is None)
    for side, place in (("source", 0), ("target", 1)):
        for line in _remarks(found, side, place):
            typer.echo(line, err=True)


def _remarks(found: Matching, side: str, place: int) -> Iterator[str]:
    if terms := (found.source_unmatched, found.target_unmatched)[place]:
        yield f"without a match: {count(len(terms), f'{side} term')}: {_named(terms)}"
    if alone := found.alone[place]:
        yield f"in no sentence: {count(alone, f'{side} term')}, compared by wording alone"
    if repeated := found.repeated[place]:
        yield f"passed over: {count(repeated, f'{side} term')} that stand in the list before"


def _named(terms: Sequence[Term]) -> str:
    more = ", ..." if len(terms) > SHOWN else ""
    return ", ".join(clean(term.text) for term in terms[:SHOWN]) + more
