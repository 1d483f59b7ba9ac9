"""Join the word links of two directions into one alignment."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush

from phrasemate.errors import InputError

Links = list[tuple[int, int]]
"""(source word, target word), counted from 0, sorted, each once."""

SYMMETRISATIONS = ("intersection", "union", "grow-diag", "grow-diag-final-and")

_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def symmetrise(forward: Iterable[tuple[int, int]], reverse: Iterable[tuple[int, int]], how: str) -> Links:
    """Join the links of two directions, both given as (source word, target word), into one alignment.

    ``grow-diag`` starts from the intersection and adds links of the union that are neighbours of a link (diagonals too)
    and whose source word or target word has no link yet. ``grow-diag-final-and`` then adds links of the forward, then
    of the reverse direction, both of whose words have none. Och and Ney (2003), "A Systematic Comparison of Various
    Statistical Alignment Models"; Koehn et al. (2005), "Edinburgh System Description for the 2005 IWSLT Speech
    Translation Evaluation". Links are visited by source word, then target word.

    Args:
        forward: Links from source to target.
        reverse: Links from target to source.
        how: One of `SYMMETRISATIONS`: intersection, union, grow-diag or grow-diag-final-and.

    Raises InputError for another ``how``.

    >>> symmetrise([(0, 0), (1, 1)], [(0, 0), (2, 1)], "intersection")
    [(0, 0)]
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

    Words never lose their links, so a link that was visited adds nothing later. Each link is visited once, and a link
    that it adds is visited in the next pass.
    """
    sources, targets = {s for s, _ in links}, {t for _, t in links}
    candidates = set(union)
    ordered_links, later = sorted(links), []
    while ordered_links:
        source, target = heappop(ordered_links)
        for down, right in _NEIGHBOURS:
            new = (source + down, target + right)
            if new in candidates and new not in links and (new[0] not in sources or new[1] not in targets):
                links.add(new)
                sources.add(new[0])
                targets.add(new[1])
                if new > (source, target):
                    heappush(ordered_links, new)
                else:
                    later.append(new)
        if not ordered_links:
            ordered_links, later = sorted(later), []


def _finish(links: set[tuple[int, int]], candidates: Links) -> None:
    sources, targets = {s for s, _ in links}, {t for _, t in links}
    for source, target in candidates:
        if source not in sources and target not in targets:
            links.add((source, target))
            sources.add(source)
            targets.add(target)
