"""Processors that may be used, and memory that the C library keeps though it is free."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress

M_ARENA_MAX = -8  # of glibc's malloc.h
_ABSENT = (OSError, AttributeError, TypeError)  # TypeError: Windows, where None is no name of a library


def cores() -> int:
    """How many processors this process may use; macOS and Windows only tell how many there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def share_heaps() -> None:
    """Have all threads share two heaps: many threads with their own keep 80 MB that is free.

    To be called before there are threads. Nothing is done where the library has no such call.
    """
    with suppress(*_ABSENT):
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 2)


def give_back() -> None:
    """Return what is free to the system, which the library does by itself only at the end of a heap.

    To be called after work that took much memory and is seldom done. Nothing is done where the library has no such
    call.
    """
    with suppress(*_ABSENT):
        ctypes.CDLL(None).malloc_trim(0)
