"""One writer at a time: a lock that the system frees when its holder dies, and a note that says who holds it."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from phrasemate.errors import IndexError_, IndexLocked

LOCK_FILE = "write.lock"
NOTE_FILE = "writer.json"


@contextmanager
def write_lock(folder: Path) -> Iterator[None]:
    """Hold the right to write to the index in ``folder``.

    Raises IndexLocked, naming the holder, if another process or another open Index of this one has it.
    """
    from filelock import FileLock, Timeout  # it loads asyncio: only writers pay for that

    lock = FileLock(folder / LOCK_FILE, timeout=0, is_singleton=False)
    try:
        lock.acquire()
    except Timeout:
        raise IndexLocked(f"{folder}: {_holder(folder)} is writing to this index; wait until it has finished") from None
    except (OSError, NotImplementedError) as error:
        raise IndexError_(f"{folder}: cannot be written ({error}); check the permissions of the folder") from error
    try:
        _leave_note(folder)
        yield
    finally:
        with suppress(OSError):
            (folder / NOTE_FILE).unlink(missing_ok=True)
        lock.release()


def _leave_note(folder: Path) -> None:
    note = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "since": datetime.now().astimezone().isoformat(timespec="seconds"),
        "command": " ".join(sys.argv)[:200],
    }
    with suppress(OSError):  # the note informs, the lock protects
        (folder / NOTE_FILE).write_text(json.dumps(note), "utf-8")


def _holder(folder: Path) -> str:
    """Who left the note; it is only a courtesy, so an unreadable one is no error."""
    try:
        note = json.loads((folder / NOTE_FILE).read_text("utf-8"))
        return f"process {note['pid']} on {note['host']} (since {note['since']}: {note['command']})"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
