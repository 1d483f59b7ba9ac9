"""A forked process that says how far it is and what went wrong, and that can be killed: no start-up, one run each."""

from __future__ import annotations

import os
import select
import signal
import time
import traceback
from collections.abc import Callable

Say = Callable[[int], None]


class Child:
    """Runs ``work(say)`` in a fork of this process; what it returns (a list of problems) or raises is ``problem``.

    ``said``: the last number that it gave to ``say``, which is written through a pipe before `say` returns, so a number
    was said for good even if the process is killed at the next instruction. ``lines``: how many the error's text has.
    ``limits`` is called in the child first.
    """

    def __init__(self, work: Callable[[Say], list[str] | None], limits: Callable[[], None] = lambda: None) -> None:
        self.said, self.lines, self.problem, self.error = 0, 0, "", ""
        self._text = b""
        self._read, write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._read)
            _work(write, work, limits)
        os.close(write)

    def kill_after(self, seconds: float) -> bool:
        """Kill it with SIGKILL; False if it had ended by itself, which is a problem if it crashed."""
        ended = self._ended(seconds)
        if not ended:
            os.kill(self.pid, signal.SIGKILL)
        code = self._collect()
        killed = not ended and code == -signal.SIGKILL
        if code and not killed:
            self.problem = self.problem or f"ended with code {code}"
        return killed

    def wait(self, seconds: float) -> None:
        """Wait for its end; after so many seconds it is a hang, which is a problem."""
        if self._ended(seconds):
            code = self._collect()
            if code:
                self.problem = self.problem or f"ended with code {code}"
        else:
            os.kill(self.pid, signal.SIGKILL)
            self._collect()
            self.problem = f"still running after {seconds:.0f} s"

    def _ended(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if select.select([self._read], [], [], left)[0]:
                block = os.read(self._read, 1 << 16)
                if not block:
                    return True
                self._text += block
        return False

    def _collect(self) -> int:
        while block := os.read(self._read, 1 << 16):
            self._text += block
        os.close(self._read)
        for line in self._text.decode("utf-8", "replace").splitlines():
            kind, _, rest = line.partition(" ")
            if kind == "said":
                self.said = int(rest)
            elif kind == "lines":
                self.lines = int(rest)
            elif kind == "problem":
                self.problem = rest
            elif kind == "error":
                self.error = rest
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def _work(write: int, work: Callable[[Say], list[str] | None], limits: Callable[[], None]) -> None:
    code = 1
    try:
        limits()
        found = work(lambda number: _tell(write, f"said {number}"))
        if found:
            _tell(write, "problem " + " ".join(" | ".join(found).split()))
        code = 0
    except BaseException as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {error}"
        _tell(write, f"lines {len(text.splitlines())}")
        text = " ".join(text.split())
        _tell(write, f"error {text}")
        _tell(write, f"problem {text} ({last.filename.rpartition('/')[2]}:{last.lineno})")
    finally:
        os._exit(code)  # nothing of the parent's is cleaned up here


def _tell(write: int, text: str) -> None:
    os.write(write, f"{text[:2000]}\n".encode("utf-8", "backslashreplace"))
