"""Processors, memory and threads: what this process may use, heaps handed back, work in parts that fit into memory.

Threads are those of the libraries that compute: FAISS with its OpenMP, and BLAS. OpenVINO is given its own with each
model. The tokenizer has one for each core, and is asked for texts one by one where fewer may work. A call divides its
work among its own threads, so BLAS computes with one. BLAS's threads wait for the next product by spinning, which
costs more than they gain on small ones.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ContextDecorator, suppress
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

from phrasemate.errors import InputError

M_ARENA_MAX = -8  # of glibc's malloc.h
_ABSENT = (OSError, AttributeError, TypeError)  # TypeError: Windows, where None is not a name of a library


def cores() -> int:
    """Number of processors that this process may use; macOS and Windows only tell how many there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_threads(threads: int | None) -> None:
    """Raises InputError for a number of threads that is not 1 or more; None stands for all."""
    if threads is not None and not (isinstance(threads, int) and threads > 0):
        raise InputError(f"threads: {threads!r}; expected 1 or more")


def share_heaps() -> None:
    """Have all threads share two heaps: many threads with their own keep 80 MB that is free.

    To be called before there are threads. Nothing is done where the library has no such call.
    """
    with suppress(*_ABSENT):
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 2)


def trim_heap() -> None:
    """Return what is free to the system, which the library does by itself only at the end of a heap.

    To be called after work that took much memory and is seldom done. Nothing is done where the library has no such
    call.
    """
    with suppress(*_ABSENT):
        ctypes.CDLL(None).malloc_trim(0)


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


_WAITING = "OMP_WAIT_POLICY"
_FAISS = 240_000_000  # bytes of address space that FAISS and its libraries take


def cache_folder() -> Path:
    """Folder of what later runs use again. Raises InputError for a user without a home."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "phrasemate"
    except RuntimeError as error:
        raise InputError("no home for a cache; set XDG_CACHE_HOME, or give mt --cache FILE") from error


def load_faiss(threads: int | None = None) -> Any:
    """Import FAISS; with ``threads``, this thread's calls of it compute with so many from now on.

    Raises MemoryError. FAISS brings an OpenMP library of its own, whose threads sleep between calls, not spin.
    """
    if "faiss" not in sys.modules:
        check_memory(_FAISS)
        is_set = _WAITING in os.environ
        os.environ.setdefault(_WAITING, "passive")
        try:
            import faiss
        finally:
            if not is_set:
                del os.environ[_WAITING]
    import faiss

    if threads is not None:
        faiss.omp_set_num_threads(threads)
    return faiss


class _SingleBlas(ContextDecorator):
    """Within, BLAS computes with one thread; as before when the last one in the process has left."""

    def __init__(self) -> None:
        self._lock, self._inside = Lock(), 0
        self._before: list[tuple[Any, int]] = []

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._before = [(library, library.get_num_threads()) for library in _blas()]
                for library, _ in self._before:
                    _set_threads(library, 1)
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                for library, count in self._before:
                    _set_threads(library, count)


single_blas = _SingleBlas()


def _set_threads(library: Any, count: int) -> None:
    library.set_num_threads(count)
    if hasattr(library, "clear_controlling_thread"):  # another thread may leave last; by itself it could not set it
        library.clear_controlling_thread()


@cache  # looked for once: it takes a millisecond
def _blas() -> list[Any]:
    """The BLAS libraries with threads of their own; one on OpenMP follows `load_faiss`."""
    libraries = ThreadpoolController().select(user_api="blas").lib_controllers
    return [library for library in libraries if getattr(library, "threading_layer", "") != "openmp"]


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
