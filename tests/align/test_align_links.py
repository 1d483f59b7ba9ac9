"""Pharaoh format and symmetrisation: worked examples by hand, and what must always hold."""

from __future__ import annotations

import gzip
import time
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phrasemate.align import SYMMETRISATIONS, format_links, parse_links, read_links, symmetrise
from phrasemate.align.symmetrise import _NEIGHBOURS
from phrasemate.errors import InputError, ReadError

LINKS = st.sets(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12)


def test_pharaoh_in_and_out() -> None:
    assert parse_links("1-2 0-0  1-2\n") == [(0, 0), (1, 2)]
    assert parse_links(" \n") == []
    assert format_links([(0, 0), (1, 2)]) == "0-0 1-2"


@given(LINKS)
def test_round_trip(links: set[tuple[int, int]]) -> None:
    assert parse_links(format_links(sorted(links))) == sorted(links)


@pytest.mark.parametrize("bad", ["0", "0-", "-1-2", "0-0-0", "a-b", "0–0", "1:2", "²-1", "0-0,1-1"])
def test_what_is_not_link_is_named_with_file_and_line(bad: str, tmp_path: Path) -> None:
    path = tmp_path / "links.txt"
    path.write_text(f"0-0\n1-1 {bad}\n", "utf-8")
    with pytest.raises(ReadError) as caught:
        list(read_links(path))
    assert (caught.value.file, caught.value.line) == (str(path), 2)
    assert repr(bad) in str(caught.value)


def test_links_from_gzip(tmp_path: Path) -> None:
    path = tmp_path / "links.gz"
    path.write_bytes(gzip.compress(b"0-0\n\n1-1 0-1"))
    assert list(read_links(path)) == [[(0, 0)], [], [(0, 1), (1, 1)]]


FORWARD = [(0, 0), (1, 1), (2, 1), (4, 4), (5, 3)]
REVERSE = [(0, 0), (1, 1), (1, 2), (4, 4), (6, 6)]


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("intersection", [(0, 0), (1, 1), (4, 4)]),
        ("union", [(0, 0), (1, 1), (1, 2), (2, 1), (4, 4), (5, 3), (6, 6)]),
        # beside 1-1: 2-1 and 1-2 (source 2 and target 2 are free); beside 4-4: 5-3, by a diagonal; 6-6 is none
        ("grow-diag", [(0, 0), (1, 1), (1, 2), (2, 1), (4, 4), (5, 3)]),
        # and 6-6, both of whose words are still free
        ("grow-diag-final-and", [(0, 0), (1, 1), (1, 2), (2, 1), (4, 4), (5, 3), (6, 6)]),
    ],
)
def test_symmetrisation_by_hand(how: str, expected: list[tuple[int, int]]) -> None:
    assert symmetrise(FORWARD, REVERSE, how) == expected


def test_growing_stops_where_both_words_have_links() -> None:
    # 0-1 is a neighbour of 0-0 and of 1-1, but both of its words are linked already
    assert symmetrise([(0, 0), (1, 1), (0, 1)], [(0, 0), (1, 1)], "grow-diag") == [(0, 0), (1, 1)]


def test_growing_continues_from_what_was_added() -> None:
    # 0-0 -> 1-1 -> 2-2 -> 3-3, each by a diagonal from the one before; also when it must go backwards
    assert symmetrise([(0, 0), (1, 1), (2, 2), (3, 3)], [(0, 0)], "grow-diag") == [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert symmetrise([(0, 0), (1, 1), (2, 2), (3, 3)], [(3, 3)], "grow-diag") == [(0, 0), (1, 1), (2, 2), (3, 3)]


def test_final_and_takes_the_forward_direction_first() -> None:
    # 5-5 (forward) and 5-6 (reverse) want the same word: forward comes first, then 5 is no longer free
    assert symmetrise([(0, 0), (5, 5)], [(0, 0), (5, 6)], "grow-diag-final-and") == [(0, 0), (5, 5)]
    assert symmetrise([(0, 0), (5, 6)], [(0, 0), (5, 5)], "grow-diag-final-and") == [(0, 0), (5, 6)]


@given(LINKS, LINKS)
def test_each_is_between_intersection_and_union(forward: set[tuple[int, int]], reverse: set[tuple[int, int]]) -> None:
    order = ("intersection", "grow-diag", "grow-diag-final-and", "union")
    results = [set(symmetrise(forward, reverse, how)) for how in order]
    assert all(less <= more for less, more in pairwise(results))


def test_unknown_symmetrisation() -> None:
    with pytest.raises(InputError, match="grow-diagonal.*" + SYMMETRISATIONS[-1]):
        symmetrise([], [], "grow-diagonal")


def test_growing_backwards_takes_no_longer_than_forwards() -> None:
    """A chain of which each link is added behind the one that adds it: a pass for each would take a minute."""
    chain = [(at, at) for at in range(6_000)]
    start = time.process_time()
    assert symmetrise(chain, chain[-1:], "grow-diag") == chain
    assert time.process_time() - start < 10


def passes(links: set[tuple[int, int]], union: list[tuple[int, int]]) -> set[tuple[int, int]]:
    """Growing as it is defined: pass by pass over the whole union."""
    grown = True
    while grown:
        grown = False
        for source, target in union:
            if (source, target) in links:
                for down, right in _NEIGHBOURS:
                    new = source + down, target + right
                    free = new[0] not in {s for s, _ in links} or new[1] not in {t for _, t in links}
                    if new in union and new not in links and free:
                        links.add(new)
                        grown = True
    return links


@given(LINKS, LINKS)
def test_growing_as_it_is_defined(forward: set[tuple[int, int]], reverse: set[tuple[int, int]]) -> None:
    expected = passes(forward & reverse, sorted(forward | reverse))
    assert symmetrise(forward, reverse, "grow-diag") == sorted(expected)
