"""A file of lines that is written in pieces and goes on where it was stopped."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from phrasemate.errors import InputError
from phrasemate.utils.locks import give_back, take
from phrasemate.utils.storage import check_new

_BLOCK = 1 << 20


class ResumableFile:
    """Lines go to ``PATH.part``; `finish` gives it its name. ``done`` is the number of lines that are there already.

    A stopped run is continued at its last whole line, if ``settings`` are those it was begun with (they lie beside it,
    in ``PATH.part.json``) and there are no more than ``most``. ``force`` writes over a finished file, and starts anew
    where what was begun does not fit. A context manager; one process at a time.
    Raises InputError for a name that no plain file can have, if the finished file is there, the settings differ, too
    many lines are there, or another process is writing.
    """

    def __init__(
        self, path: str | Path, settings: Mapping[str, str], force: bool = False, most: int | None = None
    ) -> None:
        self.path, self._most = Path(path), most
        if self.path.suffix == ".gz":
            reason = "lines are not written packed; take a name without .gz, and pack the file afterwards"
            raise InputError(f"{self.path}: {reason}")
        check_new(self.path, force)
        self.part = self.path.with_name(self.path.name + ".part")
        self._facts = self.path.with_name(self.path.name + ".part.json")
        refusal = f"{self.path}: another process is writing it; wait for it to end"
        self._lock = take(self.path.with_name(self.path.name + ".part.lock"), refusal)
        try:
            begun = self.part.exists() and self.part.stat().st_size > 0
            self.done = self._done(dict(settings), force) if begun else 0
            if not self.done:
                self._begin(dict(settings))
            self._file = self.part.open("a", encoding="utf-8", newline="\n")
        except BaseException:
            give_back(self._lock)
            raise

    def written(self) -> Iterator[str]:
        """The lines that are there already; what is not UTF-8 in them is U+FFFD."""
        with self.part.open(encoding="utf-8", errors="replace", newline="\n") as file:
            for _, line in zip(range(self.done), file, strict=False):
                yield line.rstrip("\n")

    def write(self, lines: Iterable[str]) -> None:
        """Append lines (without line ends) and hand them to the system."""
        self._file.writelines(line + "\n" for line in lines)
        self._file.flush()

    def finish(self) -> None:
        """All is written: the file gets its name."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self.part.replace(self.path)
        self._facts.unlink(missing_ok=True)

    def _begin(self, settings: dict[str, str]) -> None:
        """No lines stand beside settings that they were not made with, whenever it is killed."""
        self.part.unlink(missing_ok=True)
        self._facts.write_text(json.dumps(settings, indent=1) + "\n", "ascii")  # names may be of any bytes
        self.part.touch()

    def _done(self, settings: dict[str, str], force: bool) -> int:
        try:
            return self._continue(settings)
        except InputError:
            if not force:
                raise
            return 0

    def _continue(self, settings: dict[str, str]) -> int:
        """Cut the last line if it is not whole, and count; raises InputError where the settings differ."""
        try:
            before = json.loads(self._facts.read_text("utf-8"))
        except (OSError, ValueError, RecursionError):
            before = None
        if not isinstance(before, dict):
            raise InputError(f"{self.part}: cannot tell how it was begun; --force starts anew")
        keys = sorted(key for key in before.keys() | settings.keys() if before.get(key) != settings.get(key))
        if keys:
            changes = ", ".join(f"{key} {before.get(key)}, now {settings.get(key)}" for key in keys)
            raise InputError(f"{self.part} was begun with {changes}; give the same again, or --force to start anew")
        lines = whole = at = 0
        with self.part.open("rb+") as file:
            while block := file.read(_BLOCK):
                lines += block.count(b"\n")
                whole = at + block.rindex(b"\n") + 1 if b"\n" in block else whole
                at += len(block)
            file.truncate(whole)
        if self._most is not None and lines > self._most:
            raise InputError(
                f"{self.part}: {lines:,} lines; expected at most {self._most:,}, as the text has: --force starts anew"
            )
        return lines

    def __enter__(self) -> ResumableFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._file.close()
            else:
                with suppress(OSError):  # of a full disk: what ended the run is told
                    self._file.close()
        finally:
            give_back(self._lock)
