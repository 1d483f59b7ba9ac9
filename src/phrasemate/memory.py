"""What the C library keeps of memory that is free. On systems whose library has no such call, nothing is done."""

from __future__ import annotations

import ctypes
from contextlib import suppress

__all__ = ["give_back", "share_heaps"]

M_ARENA_MAX = -8  # of glibc's malloc.h
_ABSENT = (OSError, AttributeError, TypeError)  # TypeError: Windows, where None is no name of a library


def share_heaps() -> None:
    """Have all threads share two heaps: many threads with their own keep 80 MB that is free.

    To be called before there are threads.
    """
    with suppress(*_ABSENT):
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 2)


def give_back() -> None:
    """Return what is free to the system, which the library does by itself only at the end of a heap.

    To be called after work that took much memory and is seldom done.
    """
    with suppress(*_ABSENT):
        ctypes.CDLL(None).malloc_trim(0)
