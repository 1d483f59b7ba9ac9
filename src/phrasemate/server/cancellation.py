"""Cooperative cancellation: worker threads stop between steps when nobody waits for the answer to their request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

from phrasemate.errors import PhrasemateError

if TYPE_CHECKING:
    from phrasemate.server.indexes import Library


class RequestAbandoned(PhrasemateError):
    """Raised in a worker thread whose request timed out, whose client has left, or whose server is stopping."""


class Effort:
    """The work of one request in worker threads, which call `go_on` between steps to see if it was given up."""

    def __init__(self) -> None:
        self._lock, self._running, self._given_up = Lock(), 0, False
        self._then: Callable[[], object] = lambda: None

    def begin(self) -> None:
        """Count a function that is handed to a thread; call `ended` when it has finished, failed or been cancelled."""
        with self._lock:
            self._running += 1

    def ended(self, _: object = None) -> None:
        """Count the end of a function; may be called in any thread, as the callback of a future."""
        with self._lock:
            self._running -= 1
            over = self._given_up and not self._running
        if over:
            self._then()

    def give_up(self, then: Callable[[], object] = lambda: None) -> None:
        """Give up the work, and call ``then`` in the event loop as soon as no function runs any more.

        Must be called in the event loop.
        """
        loop = asyncio.get_running_loop()
        with self._lock:
            self._given_up, running = True, self._running
            self._then = lambda: _soon(loop, then)
        if not running:
            then()

    def go_on(self) -> None:
        """Raise RequestAbandoned if the work was given up."""
        if self._given_up:
            raise RequestAbandoned("nobody waits for this any more")

    @contextmanager
    def here(self) -> Iterator[None]:
        """Make this the current effort of the thread or task within the block."""
        before = _current.set(self)
        try:
            yield
        finally:
            _current.reset(before)


_current: ContextVar[Effort | None] = ContextVar("effort", default=None)


def current() -> Effort:
    """Return the effort of the request that this thread or task works for, or a new one if there is no request."""
    return _current.get() or Effort()


def go_on(*_: Any) -> None:
    """Raise RequestAbandoned if nobody waits for the work of this thread. Any arguments: it is a progress callback."""
    if (effort := _current.get()) is not None:
        effort.go_on()


def _soon(loop: asyncio.AbstractEventLoop, then: Callable[[], object]) -> None:
    try:
        loop.call_soon_threadsafe(then)
    except RuntimeError:  # the loop is closed, so no other thread can call this at the same time
        then()


Answer = TypeVar("Answer")


async def work(library: Library, function: Callable[..., Answer], *arguments: Any) -> Answer:
    """Run ``function(*arguments)`` in a worker thread and return its result.

    If the task is cancelled before the function starts, it never runs. If it is running, it keeps its thread until it
    calls `go_on`, so there are never more than ``settings.threads`` at the same time.
    """
    effort = current()

    def run() -> Answer:
        with effort.here():
            effort.go_on()
            return function(*arguments)

    future = library.submit(run)
    effort.begin()
    future.add_done_callback(effort.ended)  # first callback, so that the work has ended when the answer arrives
    return await asyncio.wrap_future(future)
