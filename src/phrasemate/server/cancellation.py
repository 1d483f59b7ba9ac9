"""Cooperative cancellation of a request's work: worker threads stop between pieces when nobody waits for the answer."""

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
    """Nobody waits for this: its request was too slow, its client has left, or the server stops."""


class Effort:
    """The work of one request. No thread is stopped from outside: what runs in one asks `go_on` between its pieces."""

    def __init__(self) -> None:
        self._lock, self._running, self._given_up = Lock(), 0, False
        self._then: Callable[[], object] = lambda: None

    def begin(self) -> None:
        """A piece of work is on its way to a thread; `ended` says that it is over, done or not."""
        with self._lock:
            self._running += 1

    def ended(self, _: object = None) -> None:
        """For any thread, as the callback of a future."""
        with self._lock:
            self._running -= 1
            over = self._given_up and not self._running
        if over:
            self._then()

    def give_up(self, then: Callable[[], object] = lambda: None) -> None:
        """Nothing more is wanted: ``then`` is called when nothing runs any more, at once if that is so.

        To be called in the event loop, where ``then`` is called, too.
        """
        loop = asyncio.get_running_loop()
        with self._lock:
            self._given_up, running = True, self._running
            self._then = lambda: _soon(loop, then)
        if not running:
            then()

    def go_on(self) -> None:
        """Raises RequestAbandoned if it is."""
        if self._given_up:
            raise RequestAbandoned("nobody waits for this any more")

    @contextmanager
    def here(self) -> Iterator[None]:
        """What this thread, or task, does meanwhile is part of it."""
        before = _current.set(self)
        try:
            yield
        finally:
            _current.reset(before)


_current: ContextVar[Effort | None] = ContextVar("effort", default=None)


def current() -> Effort:
    """Effort of the request that this thread or task works for; else one that nobody gives up."""
    return _current.get() or Effort()


def go_on(*_: Any) -> None:
    """Raises RequestAbandoned if nobody waits for what this thread does. Also for callbacks that tell of progress."""
    if (effort := _current.get()) is not None:
        effort.go_on()


def _soon(loop: asyncio.AbstractEventLoop, then: Callable[[], object]) -> None:
    try:
        loop.call_soon_threadsafe(then)
    except RuntimeError:  # it is closed: nobody else counts any more
        then()


Answer = TypeVar("Answer")


async def work(library: Library, function: Callable[..., Answer], *arguments: Any) -> Answer:
    """``function(*arguments)`` in a worker's thread; if we are cancelled before it begins, it never does.

    A running piece keeps its worker busy until it asks `effort.go_on`: so there are never more than
    ``settings.threads``.
    """
    effort = current()

    def run() -> Answer:
        with effort.here():
            effort.go_on()
            return function(*arguments)

    future = library.submit(run)
    effort.begin()
    future.add_done_callback(effort.ended)  # before that of the event loop: who has the answer is done
    return await asyncio.wrap_future(future)
