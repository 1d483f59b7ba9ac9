"""Processors, memory and threads: limits of this process, return of free memory, and work in parts of limited size.

The functions for threads concern the libraries that compute: FAISS with OpenMP, and BLAS. The threads of OpenVINO are
set with each model. The tokenizer uses one thread per core; where fewer are allowed it gets its texts one by one. A
call divides its work among its own threads, so BLAS computes with one (`single_blas`). The threads of BLAS spin while
they wait, which costs more than they gain for small products.
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
    """Return the number of processors that this process may use, or of all processors on macOS and Windows."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def share_heaps() -> None:
    """Make all threads share two heaps of glibc. With a heap per thread, 80 MB of free memory would stay reserved.

    Call this before the first thread starts. It does nothing with other C libraries.
    """
    with suppress(*_ABSENT):
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 2)


def trim_heap() -> None:
    """Return free memory to the system; glibc by itself only returns memory at the end of a heap.

    Call this after rare work that takes much memory. It does nothing with other C libraries.
    """
    with suppress(*_ABSENT):
        ctypes.CDLL(None).malloc_trim(0)


def check_memory(size: int) -> None:
    """Raise MemoryError if the address space of the process is limited and ``size`` more bytes do not fit into it.

    Call this before a native library needs memory: such libraries end the process if they get none.
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
_FAISS = 240_000_000  # bytes of address space that FAISS and its libraries need


def cache_folder() -> Path:
    """Return the folder of files that later runs use again. Raises InputError if the user has no home folder."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "phrasemate"
    except RuntimeError as error:
        raise InputError("no home for a cache; set XDG_CACHE_HOME, or give mt --cache FILE") from error


def load_faiss(threads: int | None = None) -> Any:
    """Import FAISS and return the module. Raises MemoryError.

    ``threads``: number of OpenMP threads for later calls from the present Python thread; None leaves it as it is.

    FAISS has its own OpenMP library. Its threads are made to sleep between calls instead of spinning.
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
    """Context manager and decorator within which BLAS computes with one thread.

    The former numbers of threads are restored when the last block in the process has ended.
    """

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
    """Set the number of threads of a BLAS library."""
    library.set_num_threads(count)
    if hasattr(library, "clear_controlling_thread"):  # otherwise only the present thread could set the number later
        library.clear_controlling_thread()


@cache  # the search takes a millisecond
def _blas() -> list[Any]:
    """Return the controllers of the loaded BLAS libraries, except those on OpenMP, which `load_faiss` controls."""
    libraries = ThreadpoolController().select(user_api="blas").lib_controllers
    return [library for library in libraries if getattr(library, "threading_layer", "") != "openmp"]


T = TypeVar("T")


def parts(items: Iterable[T], size: Callable[[T], int], most: int, count: int | None = None) -> Iterator[list[T]]:
    """Split items, in order, into parts with a total size of at most ``most``.

    Args:
        items: Items to split.
        size: Returns the size of an item. A larger item than ``most`` forms a part by itself.
        most: Greatest total size of a part.
        count: Greatest number of items of a part; None for any.
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
