"""Work that would hold up the event loop, done by the library's threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from phrasemate.server.indexes import Library

__all__ = ["work"]

Answer = TypeVar("Answer")


async def work(library: Library, function: Callable[..., Answer], *arguments: Any) -> Answer:
    """``function(*arguments)`` in a worker's thread; if we are cancelled before it begins, it never does.

    What has begun goes on to its end and keeps its worker busy: so there are never more than ``settings.threads``.
    """
    return await asyncio.wrap_future(library.submit(function, *arguments))
