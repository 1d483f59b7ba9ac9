"""Processors that may be used; free memory goes back to the system."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

import pytest

from phrasemate.utils.machine import cores, share_heaps, trim_heap


def resident() -> float:
    """MB."""
    run = re.search(r"RssAnon:\s+(\d+)", Path("/proc/self/status").read_text("ascii"))
    assert run is not None
    return int(run[1]) * 1024 / 1e6


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library has no malloc_trim")
def test_what_is_free_between_what_is_not() -> None:
    blocks = [bytes(3_000) for _ in range(40_000)]  # 120 MB in blocks too large for Python's own heap
    blocks = blocks[::400]  # what is left keeps the heap from shrinking by itself
    before = resident()
    trim_heap()
    assert before - resident() > 60
    assert len(blocks) == 100


def raising(_: None) -> None:
    raise TypeError("as on Windows")


@pytest.mark.parametrize("library", [lambda _: object(), raising], ids=["without it", "none"])
def test_a_library_without_it(library: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", library)
    trim_heap()
    share_heaps()


def test_a_system_that_does_not_say_which_processors_may_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cores() == len(os.sched_getaffinity(0))
    monkeypatch.delattr(os, "sched_getaffinity")
    assert cores() == os.cpu_count()
