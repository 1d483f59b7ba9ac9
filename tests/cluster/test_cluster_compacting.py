"""Which files of a table are put together."""

from __future__ import annotations

import pytest

from phrasemate.index.lance.tables import first_rewritten


@pytest.mark.parametrize(
    ("sizes", "first"),
    [
        ([], None),
        ([5], None),
        ([20], None),
        ([20, 5], None),  # one small file alone gains nothing
        ([5, 5], 0),
        ([20, 5, 5], 1),
        ([5, 20, 5, 5], 2),  # the first one stays: the large one would have to be rewritten
        ([5, 5, 20], None),
        ([5, 5, 20, 5], None),
        ([5, 20, 5, 20, 5, 20, 5], 0),  # too many
        ([20, 5, 20, 5, 20, 5, 20, 5], 1),
    ],
)
def test_the_end_is_put_together_and_all_when_too_much_is_loose(sizes: list[int], first: int | None) -> None:
    assert first_rewritten(sizes, small=10, loose=3) == first
