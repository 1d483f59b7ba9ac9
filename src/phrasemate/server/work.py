"""Work that would hold up the event loop, done by the library's threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from phrasemate.server.effort import Effort, current
from phrasemate.server.indexes import Library

Answer = TypeVar("Answer")


async def work(library: Library, function: Callable[..., Answer], *arguments: Any) -> Answer:
    """``function(*arguments)`` in a worker's thread; if we are cancelled before it begins, it never does.

    What has begun keeps its worker busy until it asks `effort.go_on`: so there are never more than
    ``settings.threads``.
    """
    effort = current()
    future = library.submit(_done_for, effort, function, *arguments)
    effort.begin()
    future.add_done_callback(effort.ended)  # before that of the event loop: who has the answer is done
    return await asyncio.wrap_future(future)


def _done_for(effort: Effort, function: Callable[..., Answer], *arguments: Any) -> Answer:
    with effort.here():
        effort.go_on()
        return function(*arguments)
