"""A lock beside what one process at a time may write; the file goes when the lock is given back.

The system frees the lock of a process that dies. Its file then stays, and is taken by the next one.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from phrasemate.errors import InputError

if TYPE_CHECKING:
    from filelock import BaseFileLock


def take(path: Path, refusal: str, seconds: float = 0) -> BaseFileLock:
    """The lock at ``path``, at once or within some seconds.

    Raises InputError, which says ``refusal``, if another process has it until then.
    """
    from filelock import FileLock, Timeout  # it loads asyncio: only writers pay for that

    lock = FileLock(path)
    try:
        lock.acquire(timeout=seconds)
    except Timeout:
        raise InputError(refusal) from None
    return lock


def give_back(lock: BaseFileLock) -> None:
    """Let others have it.

    The file goes first: who has opened it, and gets the lock of a file that has no name, tries again (filelock does).
    The other way round it could be the file of the next holder that goes, and a third would hold the lock as well.
    """
    Path(lock.lock_file).unlink(missing_ok=True)
    lock.release()
