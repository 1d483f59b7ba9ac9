"""What bench/crash.py --faults tries: full disk, read-only and vanished folders, too little memory, in every job.

Each must end with a clear error of one line, or with the right rows; the old state must be whole, and once the fault is
gone the same job must come to the rows of an undisturbed run.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from crash_child import Child
from crash_jobs import Job

import phrasemate.errors

HEADER = ["job", "fault", "tries", "errors", "went well", "first error", "problems"]
PATIENCE = 120.0
FREE_KB = (0, 8, 40, 100, 250, 700, 1_500)  # left on the full disk
MEMORY_KB = (0, 256, 512, 1_000, 2_000, 4_000, 16_000)  # that may be taken beyond what the warm process has
NOBODY = 65_534
DISK_MB = 24
DOCUMENTED = {*vars(phrasemate.errors), "MemoryError"}  # Python's own says all there is to say

Fault = Callable[[Job, Path], Iterator[tuple[str, str]]]


def faults(jobs: list[Job], folder: Path) -> list[list[object]]:
    """Rows of the table: each fault in each job."""
    rows = []
    for job in jobs:
        place = folder / job.name
        job.prepare(place / "base")
        place.mkdir(exist_ok=True)
        job.run(_copy(place, "calm"), lambda _: None)  # here: what it imports is then not at the mercy of a fault
        if hasattr(job, "allow"):
            job.allow(place / "calm")
        trial = _Trials(job, place)
        for name, tries in (
            ("disk full", trial.full),
            ("folder read-only", trial.readonly),
            ("file system read-only", trial.mounted_readonly),
            ("folder vanished", trial.vanished),
            ("memory limit", trial.memory),
        ):
            rows.append(trial.table(name, tries))
    return rows


def _copy(place: Path, name: str) -> Path:
    """A fresh copy of what a job begins with."""
    work = place / name
    shutil.rmtree(work, ignore_errors=True)
    if (place / "base").exists():
        shutil.copytree(place / "base", work)
    return work


def _asked(what: Callable[[Callable[[int], None]], list[str] | None]) -> str:
    child = Child(what)
    child.wait(PATIENCE)
    return child.problem


class _Trials:
    """The faults in one job: each yields the error of the run, "" if it went well, and what is wrong with that."""

    def __init__(self, job: Job, place: Path) -> None:
        self.job, self.place = job, place
        self.expected = job.rows(place / "calm")

    def table(self, name: str, tries: Callable[[], Iterator[Child]]) -> list[object]:
        errors: list[str] = []
        wrong: list[str] = []
        count = 0
        for child in tries():
            count += 1
            if child.problem:
                errors.append(child.error)
                wrong += self._undocumented(child)
            elif unlike := self._unlike():
                wrong.append(f"went well, but {unlike}")
            wrong += [f"afterwards: {problem}" for problem in self._afterwards(child.said)]
        for problem in wrong:
            print(f"{self.job.name}, {name}: {problem}", flush=True)
        shown = re.sub(r"/\S*/", "…/", errors[0])[:90] if errors else ""
        return [self.job.name, name, count, len(errors), count - len(errors), shown, len(wrong)]

    def _undocumented(self, child: Child) -> list[str]:
        if child.lines > 1:
            return [f"an error of {child.lines} lines: {child.problem}"]
        kind = child.error.partition(":")[0]
        return [] if kind in DOCUMENTED else [child.problem]

    def _unlike(self) -> str:
        """Which rows are not those of the undisturbed run."""
        rows = self.job.rows(self.place / "work") if (self.place / "work").exists() else {}
        unlike = [name for name in sorted({*rows, *self.expected}) if rows.get(name) != self.expected.get(name)]
        return f"{', '.join(unlike)} differ from the undisturbed run" if unlike else ""

    def _afterwards(self, said: int) -> list[str]:
        """Without the fault: the old state is whole, and the job comes to the expected rows."""
        work = self.place / "work"
        found = _asked(lambda _: self.job.check(work, said)) or _asked(lambda say: self.job.run(work, say))
        found = found or self._unlike()
        return [found] if found else []

    def _run(self, limits: Callable[[], None] = lambda: None, work: Path | None = None) -> Child:
        where = work or self.place / "work"
        child = Child(lambda say: self.job.run(where, say), limits)
        child.wait(PATIENCE)
        return child

    def full(self) -> Iterator[Child]:
        """A small disk that is full but for so much; where none can be mounted, files that may not grow further."""
        for free in FREE_KB:
            _copy(self.place, "work")
            with _disk(self.place / "disk") as disk:
                if disk is None:
                    yield self._run(lambda free=free: _short_files(self.place / "work", free))
                    continue
                inside = disk / "work"
                if (self.place / "work").exists():
                    shutil.copytree(self.place / "work", inside)
                room = shutil.disk_usage(disk).free - free * 1024
                (disk / "filler").write_bytes(bytes(max(0, room)))
                child = self._run(work=inside)
                (disk / "filler").unlink()
                shutil.rmtree(self.place / "work", ignore_errors=True)
                if inside.exists():
                    shutil.copytree(inside, self.place / "work")
            yield child

    def readonly(self) -> Iterator[Child]:
        """A folder without write permission, for somebody who is not root."""
        work = _copy(self.place, "work")
        work.mkdir(exist_ok=True)
        for path in [work, *work.rglob("*")]:
            path.chmod(0o555 if path.is_dir() else 0o444)
        for parent in (self.place, self.place.parent):  # the campaign's own
            parent.chmod(parent.stat().st_mode | 0o055)
        child = self._run(lambda: _nobody(work))
        for path in [work, *work.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)
        if not any(work.iterdir()):
            work.rmdir()
        yield child

    def mounted_readonly(self) -> Iterator[Child]:
        """A file system that may not be written to, where one can be mounted."""
        work = _copy(self.place, "work")
        with _disk(self.place / "disk") as disk:
            if disk is None:
                return
            if work.exists():
                shutil.copytree(work, disk / "work")
            subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
            child = self._run(work=disk / "work")
            shutil.rmtree(work, ignore_errors=True)
            if (disk / "work").exists():
                shutil.copytree(disk / "work", work)
        yield child

    def vanished(self) -> Iterator[Child]:
        """The folder is taken away at the first, second and third thing that is said, and before any if it is there."""
        for at in range(4):
            work = _copy(self.place, "work")
            away = self.place / "away"
            shutil.rmtree(away, ignore_errors=True)
            child = Child(_Taking(self.job, work, away, at))
            child.wait(PATIENCE)
            if not away.exists():
                assert at == 0, f"{self.job.name} says less than {at} things"
                continue
            shutil.rmtree(work, ignore_errors=True)
            away.rename(work)
            yield child

    def memory(self) -> Iterator[Child]:
        for kilobytes in MEMORY_KB:
            _copy(self.place, "work")
            yield self._run(lambda kilobytes=kilobytes: _little_memory(kilobytes))


class _Taking:
    """Runs a job and takes its folder away when it has said so many things; 0: before it begins."""

    def __init__(self, job: Job, work: Path, away: Path, at: int) -> None:
        self.job, self.work, self.away, self.left = job, work, away, at

    def __call__(self, say: Callable[[int], None]) -> None:
        def told(number: int) -> None:
            say(number)
            self.left -= 1
            if self.left == 0:
                self.work.rename(self.away)

        if self.left == 0 and self.work.exists():
            self.work.rename(self.away)
        self.job.run(self.work, told)


@contextmanager
def _disk(folder: Path) -> Iterator[Path | None]:
    """A small file system in memory; None where this process may not mount one."""
    folder.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "none", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True).returncode == 0
    except OSError:
        mounted = False
    try:
        yield folder if mounted else None
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)


def _nobody(work: Path) -> None:
    """Be somebody who may read this folder, but not write."""
    if os.getuid() == 0:
        os.setuid(NOBODY)
    assert os.access(work, os.R_OK | os.X_OK), f"{work} cannot be reached by user {NOBODY}: choose another --work"


def _short_files(work: Path, free: int) -> None:
    """No file grows beyond the largest that is there and ``free`` kB; Python ignores the signal and raises."""
    sizes = [path.stat().st_size for path in work.rglob("*") if path.is_file()] if work.exists() else []
    limit = max([0, *sizes]) + free * 1024
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))


def _little_memory(kilobytes: int) -> None:
    with suppress(OSError, AttributeError):
        json.loads("[" * 900 + "]" * 900)  # the stack as deep as it gets: the system ends a process whose cannot grow
        ctypes.CDLL(None).malloc_trim(0)  # what is free already is given back, or no limit would be felt
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + kilobytes * 1_000
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
