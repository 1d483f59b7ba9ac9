"""Symmetrise word links: combine the links of two alignment directions into one alignment."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush

from phrasemate.errors import InputError

Links = list[tuple[int, int]]
"""Word links as (source word, target word), counted from 0, sorted, without duplicates."""

SYMMETRISATIONS = ("intersection", "union", "grow-diag", "grow-diag-final-and")

_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def symmetrise(forward: Iterable[tuple[int, int]], reverse: Iterable[tuple[int, int]], how: str) -> Links:
    """Combine the links of two directions, both given as (source word, target word), into one alignment.

    ``grow-diag`` starts from the intersection and adds neighbouring links of the union, diagonal neighbours included,
    if their source word or their target word has no link yet. ``grow-diag-final-and`` then adds forward links, then
    reverse links, if neither of their words has a link. Links are visited by source word, then target word.

    Sources: Och and Ney 2003, "A Systematic Comparison of Various Statistical Alignment Models"; Koehn et al. 2005,
    "Edinburgh System Description for the 2005 IWSLT Speech Translation Evaluation".

    Args:
        forward: Links that were found from source to target.
        reverse: Links that were found from target to source.
        how: One of `SYMMETRISATIONS`: intersection, union, grow-diag or grow-diag-final-and.

    Raises InputError for any other ``how``.

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
    """Add to ``links`` neighbouring links of the union, pass by pass, until a pass adds none.

    Words never lose a link, so one visit of each link is enough: a second visit could add nothing. A new link is
    visited in the same pass if it comes after the current one in order, else in the next pass.
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
    """Add to ``links`` each candidate, in order, if neither of its words has a link yet."""
    sources, targets = {s for s, _ in links}, {t for _, t in links}
    for source, target in candidates:
        if source not in sources and target not in targets:
            links.add((source, target))
            sources.add(source)
            targets.add(target)
