"""Search results as text: keyword-in-context lines on a terminal, whole sentences in a pipe."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.text import Text

from phrasemate.cli.shell import clean, count

if TYPE_CHECKING:
    from rich.console import Console

    from phrasemate.results import Group, Result
    from phrasemate.types import Hit, Phrase

INDENT = 6
LEAST_REASON = 0.05  # minimum absolute weight of a reason that is shown
PLACE_CELLS = 32  # maximum cells for document:line, which also takes at most a quarter of the line
MOST = 12  # maximum number of members shown of a list of facts
LEFT_SHARE = 0.4  # share of the left context in a keyword-in-context line; the rest is the match and what follows


def facts(named: Mapping[str, Any]) -> Text:
    """Format one line for each fact: name and value. Values are never cut, so that a hash can be copied."""
    width = max(map(len, named), default=0) + 2
    lines = [
        Text.assemble((f"{key.replace('_', ' '):{width}}", "bold"), _format_value(value) or "-")
        for key, value in named.items()
    ]
    return Text("\n").join(lines)


def _format_value(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key or '(none)'} {_format_value(amount)}" for key, amount in value.items())
    if isinstance(value, list | tuple):
        more = f" ... ({len(value):,} in all)" if len(value) > MOST else ""
        return ", ".join(_format_value(amount) for amount in value[:MOST]) + more
    if isinstance(value, str):
        return clean(value)
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else json.dumps(value)


def marked(phrase: Phrase, style: str | None = None) -> Text:
    """Format a context with its phrase in ``[[ ]]``, or in ``style`` if one is given."""
    before, match, after = _parts(phrase)
    if style is None:
        return Text(f"{before}[[{match}]]{after}")
    return Text.assemble(before, (match, style), after)


def kwic(hit: Hit, width: int) -> Text:
    """Format a keyword-in-context line of ``width`` cells: left context, match, right context, document:line.

    Parts that do not fit are cut: the left context and the document at their start, the others at their end.
    """
    before, match, after = _parts(hit.phrase)
    place = _fit(f"{clean(hit.document)}:{hit.line}", min(PLACE_CELLS, width // 4), at_end=True)
    room = max(width - cell_len(place) - 2, 24)
    left = _fit(before.lstrip(), int(room * LEFT_SHARE), at_end=True)
    match = _fit(match, room - int(room * LEFT_SHARE))
    right = _fit(after.rstrip(), room - int(room * LEFT_SHARE) - cell_len(match))
    line = Text(" " * (int(room * LEFT_SHARE) - cell_len(left))).append(left)
    line.append(match, "bold green").append(right)
    line.append(" " * (room - line.cell_len + 2)).append(place, "dim")
    return line


def print_results(console: Console, results: Iterable[Result], explain: bool = False) -> None:
    """Print every result with its groups: coloured on a terminal, plain lines without tabs in a pipe.

    ``explain`` adds a line to each group with the reasons for and against it.
    """
    for result in results:
        for line in _lines(result, console.width if console.is_terminal else 0, explain):
            console.print(line)
        console.print()


def _lines(result: Result, width: int, explain: bool) -> Iterator[Text]:
    """Yield the lines of one result; ``width`` is that of the terminal in cells, 0 for a pipe."""
    indent = Text(" " * INDENT)
    yield marked(result.phrase, "bold yellow" if width else None)
    if result.doubtful:
        yield Text(f"     probably no equivalent here (confidence {result.confidence:.0%})", "yellow")
    languages = {group.language for group in result.groups}
    for rank, group in enumerate(result.groups, 1):
        number = (f"{rank:3}  ", "dim") if width else f"{rank:3}. "
        yield Text.assemble(number, (clean(group.text), "bold cyan"), (_figures(group, len(languages) > 1), "dim"))
        if explain:
            yield Text.assemble(indent, (_reasons(group), "dim"))
        for hit in group.hits:
            place = f"  ({clean(hit.document)}:{hit.line})"
            yield Text.assemble(indent, kwic(hit, width - INDENT) if width else marked(hit.phrase).append(place))
    if not result.groups:
        yield Text("     nothing found", "dim")


def _figures(group: Group, with_language: bool) -> str:
    worth = f"{group.score:.3f}" if group.probability is None else f"{group.probability:.0%}"
    facts = [worth, count(group.count, "time"), clean(group.source), group.language if with_language else ""]
    return "  " + ", ".join(filter(None, facts))


def _reasons(group: Group) -> str:
    """Format the reasons for and against a group in one line, the strongest first."""
    if not group.reasons:
        return "for: the similarity of its vectors alone"
    reasons = sorted(group.reasons.items(), key=lambda reason: -abs(reason[1]))
    pros = [f"{kind} {value:+.1f}" for kind, value in reasons if value >= LEAST_REASON]
    cons = [f"{kind} {value:+.1f}" for kind, value in reasons if value <= -LEAST_REASON]
    return "; ".join(
        f"{side}: {', '.join(words_of_side)}"
        for side, words_of_side in (("for", pros), ("against", cons))
        if words_of_side
    )


def _parts(phrase: Phrase) -> tuple[str, str, str]:
    text = clean(phrase.context)
    return text[: phrase.start], text[phrase.start : phrase.end], text[phrase.end :]


def _fit(text: str, cells: int, at_end: bool = False) -> str:
    """Cut ``text`` to at most ``cells`` terminal cells, with "…" for the rest; ``at_end`` keeps its end."""
    if cells < 1:
        return ""
    if len(text) <= cells and cell_len(text) <= cells:
        return text
    part = text[max(len(text) - cells + 1, 0) :] if at_end else text[: cells - 1]
    while cell_len(part) > cells - 1:
        part = part[1:] if at_end else part[:-1]
    return "…" + part if at_end else part + "…"
