"""A disk that loses what was not flushed: records what is done in a folder, and makes what a power cut may leave of it.

The model is that of a file system with a journal. Changes of names (files made, renamed, deleted) reach the disk in
their order; a cut keeps some of those since the last flush of a folder, always the first ones. The content of a file is
sure only as of its last flush: what was written later is lost, torn in the middle, zeros, with a hole, or all there.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import pytest

CHANGES = ("replace", "rename", "unlink", "remove", "mkdir", "rmdir")
DAMAGES = ("lost", "torn", "zeros", "hole", "whole")
Names = dict[str, int]  # path within the folder -> number of the file or folder


class Moment(NamedTuple):
    """A moment of the power cut: versions of the names that may be on the disk, contents, and what was promised."""

    names: list[Names]
    flushed: dict[int, bytes]
    written: dict[int, bytes]
    promised: int


class UnreliableDisk:
    """Records changes, writes and flushes below a folder, as Python's ``os`` makes them, while a test runs."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.moments = folder, list[Moment]()
        self._promised, self._count, self._sure = 0, 0, 0
        self._numbers: dict[int, int] = {}  # inode -> number, of what is there now
        self._journal: list[Names] = [{}]
        self._folders: set[int] = set()
        self._flushed: dict[int, bytes] = {}
        self._written: dict[int, bytes] = {}
        self._record()
        self._sure = len(self._journal) - 1  # what was there before is on the disk
        self._flushed = dict(self._written)
        for name in CHANGES:
            monkeypatch.setattr(os, name, self._watched(getattr(os, name)))
        self._fsync = os.fsync
        monkeypatch.setattr(os, "fsync", self._flush)

    def promise(self, number: int) -> None:
        """Say that work up to ``number`` was reported as done: it must survive from now on."""
        self._promised = number
        self._record()

    def power_cuts(self, place: Path) -> Iterator[tuple[Path, int]]:
        """Each different state that a cut may leave, written to a folder, and the number promised by then."""
        self._record()
        states = set()
        for moment in list(self.moments):  # writing the states is recorded, too
            for names in moment.names:
                for damage in DAMAGES:
                    files = {path: self._content(moment, names[path], damage) for path in names}
                    key = (moment.promised, tuple(sorted(files.items(), key=lambda item: item[0])))
                    if key not in states:
                        states.add(key)
                        yield _rebuilt(place, files), moment.promised

    def _content(self, moment: Moment, number: int, damage: str) -> bytes | None:
        """The bytes of a file after a cut; None for a folder."""
        if number in self._folders:
            return None
        sure, written = moment.flushed.get(number, b""), moment.written.get(number, b"")
        if damage == "whole" or sure == written:
            return written
        if damage == "lost":
            return sure
        same = (one == other for one, other in zip(sure, written, strict=False))
        start = sum(takewhile(bool, same))
        middle = (start + len(written)) // 2
        left = {
            "torn": written[:middle],
            "zeros": written[:start] + bytes(len(written) - start),
            "hole": written[:start] + bytes(middle - start) + written[middle:],
        }
        return left[damage]

    def _watched(self, change: Any) -> Any:
        def watched(*arguments: Any, **options: Any) -> Any:
            self._record()
            answer = change(*arguments, **options)
            self._record()
            return answer

        return watched

    def _flush(self, file: int) -> None:
        self._record()
        self._fsync(file)
        number = self._numbers.get(os.fstat(file).st_ino)
        if number in self._folders or os.fstat(file).st_ino == self.folder.stat().st_ino:
            path = next((path for path, identity in self._journal[-1].items() if identity == number), "")
            listings = [_listing(names, path) for names in self._journal]
            last = max((at for at in range(1, len(listings)) if listings[at] != listings[at - 1]), default=0)
            self._sure = max(self._sure, last)
        elif number is not None:
            self._flushed[number] = self._written[number]
        self._record()

    def _record(self) -> None:
        """Look at the folder; what is new is a version of the names, and a moment for the cut."""
        names: Names = {}
        numbers: dict[int, int] = {}
        for root, folders, files in os.walk(self.folder):
            for name in sorted([*folders, *files]):
                path = Path(root, name)
                inode = path.stat().st_ino
                if inode not in self._numbers:
                    self._count += 1
                numbers[inode] = names[str(path.relative_to(self.folder))] = self._numbers.get(inode, self._count)
                if name in files:
                    content = path.read_bytes()
                    if self._written.get(numbers[inode]) != content:
                        self._written[numbers[inode]] = content
                else:
                    self._folders.add(numbers[inode])
        self._numbers = numbers
        if names != self._journal[-1]:
            self._journal.append(names)
        self.moments.append(
            Moment(self._journal[self._sure :], dict(self._flushed), dict(self._written), self._promised)
        )


def _listing(names: Names, folder: str) -> Names:
    """The names directly in a folder."""
    return {path: number for path, number in names.items() if os.path.dirname(path) == folder}  # noqa: PTH120


def _rebuilt(place: Path, files: dict[str, bytes | None]) -> Path:
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for path, content in sorted(files.items()):
        if content is None:
            (place / path).mkdir(exist_ok=True)
        else:
            (place / path).write_bytes(content)
    return place
