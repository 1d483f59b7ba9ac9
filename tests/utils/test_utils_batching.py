"""A sequence in parts."""

from __future__ import annotations

from phrasemate.utils.machine import parts


def test_parts_are_as_large_as_may_be() -> None:
    """1 + 2 is 3, one more were 6; what is larger is alone."""
    assert list(parts([1, 2, 3, 9, 1], int, 5)) == [[1, 2], [3], [9], [1]]
    assert list(parts([1, 1, 1, 1, 1], int, 5, 2)) == [[1, 1], [1, 1], [1]]
    assert list(parts([], int, 5)) == []
