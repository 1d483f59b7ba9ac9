"""Word links: the Pharaoh format in and out, and the union of two directions into one alignment (symmetrisation)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from pathlib import Path

from phrasemate.errors import InputError, ReadError
from phrasemate.text.text_file import numbered_lines

Links = list[tuple[int, int]]
"""(source word, target word), counted from 0, sorted, each once."""

SYMMETRISATIONS = ("intersection", "union", "grow-diag", "grow-diag-final-and")

_LINK = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")
_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def parse_links(line: str, file: str = "links", number: int = 0) -> Links:
    """The links of one line in the Pharaoh format, ``0-0 1-2``: source word, target word, counted from 0.

    ``file`` and ``number`` are named in the ReadError that anything else raises.
    """
    found = set()
    for item in line.split():
        match = _LINK.fullmatch(item)
        if match is None:
            raise ReadError(file, number, f"{item[:40]!r} is not a word link", "expected links such as 0-0 1-2")
        found.add((int(match[1]), int(match[2])))
    return sorted(found)


def format_links(links: Iterable[tuple[int, int]]) -> str:
    """Links as one line in the Pharaoh format, without its line end."""
    return " ".join(f"{source}-{target}" for source, target in links)


def read_links(path: str | Path) -> Iterator[Links]:
    """The links of each line of a file (gzip where its name ends in .gz); raises ReadError with file and line."""
    path = Path(path)
    for number, line in numbered_lines(path):
        yield parse_links(line, str(path), number)


def symmetrise(forward: Iterable[tuple[int, int]], reverse: Iterable[tuple[int, int]], how: str) -> Links:
    """One alignment from two directions; both are given as (source word, target word).

    ``how``: ``intersection``; ``union``; ``grow-diag``: the intersection, grown by links of the union that neighbour
    it (diagonals too) and whose source word or target word has no link yet; ``grow-diag-final-and``: then also links
    of the forward, then of the reverse direction whose words both have none. Och and Ney (2003), "A Systematic
    Comparison of Various Statistical Alignment Models"; Koehn et al. (2005), "Edinburgh System Description for the
    2005 IWSLT Speech Translation Evaluation". Links are visited by source word, then target word.
    Raises InputError for another ``how``.
    """
    first, second = set(forward), set(reverse)
    if how == "intersection":
        return sorted(first & second)
    if how == "union":
        return sorted(first | second)
    if how not in SYMMETRISATIONS:
        raise InputError(f"symmetrisation {how!r}; expected one of {', '.join(SYMMETRISATIONS)}")
    links = first & second
    _grow(links, sorted(first | second))
    if how == "grow-diag-final-and":
        _finish(links, [*sorted(first), *sorted(second)])
    return sorted(links)


def _grow(links: set[tuple[int, int]], union: Links) -> None:
    """Add neighbours from the union, pass by pass, until nothing is added; a link counts as soon as it is added.

    Words never lose their links, so a link that was visited adds nothing later: each is visited once, what is added
    behind the one that added it in the next pass.
    """
    sources, targets = {s for s, _ in links}, {t for _, t in links}
    candidates = set(union)
    now, later = sorted(links), []
    while now:
        source, target = heappop(now)
        for down, right in _NEIGHBOURS:
            new = (source + down, target + right)
            if new in candidates and new not in links and (new[0] not in sources or new[1] not in targets):
                links.add(new)
                sources.add(new[0])
                targets.add(new[1])
                if new > (source, target):
                    heappush(now, new)
                else:
                    later.append(new)
        if not now:
            now, later = sorted(later), []


def _finish(links: set[tuple[int, int]], candidates: Links) -> None:
    sources, targets = {s for s, _ in links}, {t for _, t in links}
    for source, target in candidates:
        if source not in sources and target not in targets:
            links.add((source, target))
            sources.add(source)
            targets.add(target)
