"""What a page shows, as its address has it: so that an answer can be shared, and "back" works."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import QueryParams

from phrasemate.concordance import ORDERS
from phrasemate.errors import QueryError
from phrasemate.query import parse_query
from phrasemate.server.errors import Refusal
from phrasemate.server.settings import Settings

GROUPS, LINES = 8, 5  # that are shown before more are asked for


@dataclass(frozen=True, slots=True)
class State:
    """``text`` has LF line ends and no marks; ``at`` is the phrase that is asked about, ``marked`` what was in marks.

    ``indexes`` are never none; ``together``: as one; ``speaks``: the language of the text, for downloads.
    """

    text: str
    indexes: tuple[str, ...]
    at: tuple[int, int] | None = None
    marked: tuple[tuple[int, int], ...] = field(default=(), compare=False)
    together: bool = False
    order: str = "score"
    documents: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    speaks: str = ""
    groups: int = GROUPS
    lines: int = LINES

    def fields(self, *without: str) -> Iterator[tuple[str, str]]:
        """Names and values as an address has them, those in ``without`` and all defaults left out."""
        if self.text:
            yield from self._kept("q", [self.text], without)
        if self.at is not None:
            yield from self._kept("at", [f"{self.at[0]}-{self.at[1]}"], without)
        yield from self._kept("in", self.indexes, without)
        yield from self._kept("view", ["one"] * self.together, without)
        yield from self._kept("sort", [self.order] * (self.order != "score"), without)
        yield from self._kept("doc", self.documents, without)
        yield from self._kept("lang", self.languages, without)
        yield from self._kept("from", [self.speaks] * bool(self.speaks), without)
        yield from self._kept("k", [str(self.groups)] * (self.groups != GROUPS), without)
        yield from self._kept("lines", [str(self.lines)] * (self.lines != LINES), without)

    def query(self, **changes: Any) -> str:
        """The part of an address after "?", with some fields of the state changed."""
        return urlencode(list(replace(self, **changes).fields()))

    @staticmethod
    def _kept(name: str, values: Sequence[str], without: Sequence[str]) -> Iterator[tuple[str, str]]:
        return ((name, value) for value in values if name not in without)


def parse(parameters: QueryParams, known: Sequence[str], settings: Settings) -> State:
    """The state that an address asks for. Raises Refusal: too long, or what no page of ours would ask."""
    text = "\n".join(parameters.get("q", "").replace("\r\n", "\n").split("\r"))
    if len(text) > settings.characters:
        raise Refusal(
            "too_long", f"the text has {len(text):,} characters; {settings.characters:,} are the most at a time"
        )
    at = _pair(parameters.get("at", ""))
    text, marked = (text, ()) if at else _unmarked(text)  # places of our addresses count in a text without marks
    at = at or (marked[0] if marked else None)
    if at is not None and at[1] > len(text):
        raise Refusal("invalid", f"at={at[0]}-{at[1]} is outside of the text, which has {len(text):,} characters")
    chosen = tuple(dict.fromkeys(parameters.getlist("in")))
    for name in chosen:
        if name not in known:
            raise Refusal("unknown_index", f"there is no index {name[:100]!r}; there are: {', '.join(known)}")
    order = parameters.get("sort") or "score"
    if order not in ORDERS:
        raise Refusal("invalid", f"sort={order[:40]!r}; expected one of {', '.join(ORDERS)}")
    return State(
        text,
        tuple(name for name in known if name in chosen) or tuple(known[:1]),
        at,
        marked,
        parameters.get("view") == "one",
        order,
        _several(parameters, "doc", settings.filters),
        _several(parameters, "lang", settings.filters),
        parameters.get("from", "").strip()[:35],
        _number(parameters, "k", GROUPS, settings.k),
        _number(parameters, "lines", LINES, settings.contexts),
    )


def _unmarked(text: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    """The text without ``[[ ]]``, and what was in them; as it is where the marks make no sense, or there are none."""
    if "[[" not in text:
        return text, ()
    try:
        parsed = parse_query(text)
    except QueryError:
        return text, ()
    return parsed.text, tuple((phrase.start, phrase.end) for phrase in parsed.phrases)


def _pair(value: str) -> tuple[int, int] | None:
    start, dash, end = value.partition("-")
    if not value:
        return None
    if not (dash and start.isascii() and start.isdigit() and end.isascii() and end.isdigit() and len(value) < 20):
        raise Refusal("invalid", f"at={value[:40]!r}; expected the first and the last character, as 12-31")
    if int(start) >= int(end):
        raise Refusal("invalid", f"at={value!r} marks nothing")
    return int(start), int(end)


def _several(parameters: QueryParams, name: str, most: int) -> tuple[str, ...]:
    values = tuple(dict.fromkeys(value for value in parameters.getlist(name) if value))
    if len(values) > most:
        raise Refusal("too_long", f"{len(values)} values of {name}; {most} are the most")
    return values


def _number(parameters: QueryParams, name: str, default: int, most: int) -> int:
    value = parameters.get(name, "")
    if not value:
        return default
    if not (value.isascii() and value.isdigit() and len(value) < 9 and 1 <= int(value) <= most):
        raise Refusal("invalid", f"{name}={value[:20]!r}; expected a number from 1 to {most}")
    return int(value)
