"""Keyword in context: hits as lines, candidates with their lines, the indexes side by side or as one, in some order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from phrasemate.concordance.collation import collation
from phrasemate.errors import InputError
from phrasemate.search import Result
from phrasemate.text import folded, words
from phrasemate.types import Hit

ORDERS = ("score", "count", "left", "right")
REACH = 8  # words of a context that its place in the order depends on
NEAR = 240  # characters of it that are looked at for them


@dataclass(frozen=True, slots=True)
class Line:
    """One occurrence; ``left + match + right`` is the whole sentence. ``index`` is the name of the index it is in."""

    index: str
    hit: Hit

    @property
    def left(self) -> str:
        return self.hit.context[: self.hit.start]

    @property
    def match(self) -> str:
        return self.hit.text

    @property
    def right(self) -> str:
        return self.hit.context[self.hit.end :]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A wording that may translate the phrase: its best cosine, how often it was among the hits, and its lines.

    ``support`` is what candidates are ordered by (`phrasemate.search.Group`).
    """

    text: str
    score: float
    count: int
    lines: tuple[Line, ...]
    support: float


@dataclass(frozen=True, slots=True)
class Column:
    """What one index, or several taken as one, answer.

    ``confidence``: the probability that there is an equivalent at all; None where nothing is known of that.
    """

    name: str
    candidates: tuple[Candidate, ...]
    confidence: float | None = None

    @property
    def language(self) -> str:
        """The language that most lines are in."""
        spoken = Counter(line.hit.language for candidate in self.candidates for line in candidate.lines)
        return max(spoken, key=lambda language: spoken[language], default="")


def column(name: str, result: Result) -> Column:
    """The answer of the index ``name``."""
    candidates = tuple(
        Candidate(group.text, group.score, group.count, tuple(Line(name, hit) for hit in group.hits), group.weight)
        for group in result.groups
    )
    return Column(name, candidates, getattr(result, "confidence", None))


def merged(columns: Sequence[Column], name: str = "") -> Column:
    """Several columns as one: equal wordings are one candidate with the counts added up and the best score.

    Scores compare only if all indexes were built with one model. The confidence is the highest one: it is at least as
    probable that one of them has an equivalent.
    """
    together: dict[str, list[Candidate]] = {}
    for candidate in (candidate for each in columns for candidate in each.candidates):
        together.setdefault(folded(candidate.text), []).append(candidate)
    known = [each.confidence for each in columns if each.confidence is not None]
    found = tuple(sorted(map(_one, together.values()), key=lambda candidate: -candidate.support))
    return Column(name or " + ".join(each.name for each in columns), found, max(known, default=None))


def _one(same: Sequence[Candidate]) -> Candidate:
    best = max(same, key=lambda candidate: candidate.score)
    lines = sorted((line for candidate in same for line in candidate.lines), key=lambda line: -line.hit.score)
    count, support = sum(candidate.count for candidate in same), max(candidate.support for candidate in same)
    return Candidate(best.text, best.score, count, tuple(lines), support)


def arranged(found: Column, order: str = "score") -> Column:
    """The column in an order: candidates by "score" or by "count", or the lines of each by their "left" or "right"
    context, as a dictionary of their language has it.

    The left context is compared word by word from the match outwards. Raises InputError for another order.
    """
    if order not in ORDERS:
        raise InputError(f"order {order[:40]!r}; expected one of {', '.join(ORDERS)}")
    candidates: Iterable[Candidate] = found.candidates
    if order == "score":
        candidates = sorted(candidates, key=lambda candidate: -candidate.support)
    elif order == "count":
        candidates = sorted(candidates, key=lambda candidate: (-candidate.count, -candidate.support))
    else:
        key = _context_key(order, collation(found.language))
        candidates = [replace(each, lines=tuple(sorted(each.lines, key=key))) for each in candidates]
    return replace(found, candidates=tuple(candidates))


def _context_key(side: str, collated: Callable[[str], bytes]) -> Callable[[Line], Any]:
    def key(line: Line) -> tuple[list[bytes], list[bytes]]:
        before, after = line.left[-NEAR:], line.right[:NEAR]
        left = [collated(before[start:end]) for start, end in reversed(words(before)[-REACH:])]
        right = [collated(after[start:end]) for start, end in words(after)[:REACH]]
        return (left, right) if side == "left" else (right, left)

    return key


def clip(text: str, most: int, keep: str) -> str:
    """At most ``most`` characters of a context, whole words, with "…" for what was cut; ``keep`` "start" or "end"."""
    if len(text) <= most:
        return text
    if keep == "start":
        ends = [end for _, end in words(text[: most + 1]) if end <= most]
        return text[: ends[-1] if ends else most] + "…"
    skipped = len(text) - most
    starts = [start for start, _ in words(text[skipped - 1 :]) if start > 0]
    return "…" + text[skipped - 1 + starts[0] if starts else skipped :]
