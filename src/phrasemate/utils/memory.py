"""Whether there is memory for what is to come, asked while there still is an answer."""

from __future__ import annotations

import mmap


def check_memory(size: int) -> None:
    """Raises MemoryError where the process has a limit of its address space, and not so many bytes left.

    Libraries that are not Python's end the process when they get no memory; so the memory is asked for before.
    """
    try:
        import resource
    except ImportError:  # there are no such limits on Windows
        return
    if resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY:
        return
    try:
        mmap.mmap(-1, size).close()
    except OSError:
        raise MemoryError(f"{size:,} bytes") from None
