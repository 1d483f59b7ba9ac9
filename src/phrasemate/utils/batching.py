"""Split a sequence into parts that fit into memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def parts(items: Iterable[T], size: Callable[[T], int], most: int, count: int | None = None) -> Iterator[list[T]]:
    """Split the items, in order, into parts of a total ``size`` of up to ``most`` and of up to ``count`` items.

    An item that is larger is a part by itself; without ``count`` the number of items is free.
    """
    part: list[T] = []
    total = 0
    for item in items:
        weight = size(item)
        if part and (total + weight > most or len(part) == count):
            yield part
            part, total = [], 0
        part.append(item)
        total += weight
    if part:
        yield part
