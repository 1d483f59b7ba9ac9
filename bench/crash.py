"""Kill seven jobs of indexing, copying and training at random, again and again, and check that nothing is lost.

Each trial copies the initial files of a job, starts the job in a forked process and kills it with SIGKILL after a
random part of its usual processor time. So a busy machine makes trials slower, but not different. The remains are
opened and verified: every row is of the old or the new state, everything that was reported as done is there, and
searches give right answers. Then the job is started and killed again, up to six times. At the end all rows are compared
with those of an undisturbed run.

`--faults` tries other faults instead: a full disk, a read-only disk, vanishing folders, and too little memory. Each
must end with a clear error of one line, or with the right rows. The old state must be complete, and without the fault
the same job must give the rows of an undisturbed run. Only root can mount such disks.

    python bench/crash.py --kills 1000
    python bench/crash.py --faults
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import logging
import os
import random
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

# A process with threads cannot be forked safely.
os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}

from common import RAM_DISK, limit_memory, plain_parser, report
from crash_jobs import JOBS, Job, Say, jobs

import phrasemate.errors
from phrasemate.evaluate.report import signature

UNTRIED = ("upgrader", "copier")  # jobs that are not tried with faults
MOST = 6  # most kills of one trial
PATIENCE = 100.0  # processor seconds that a run or a check may use; more is a hang
ASLEEP = 60.0  # seconds that a process may sleep without any work; more is a hang
KILL_HEADER = ["job", "trials", "kills", "ran to the end", "processor s undisturbed", "problems"]
FAULT_HEADER = ["job", "fault", "tries", "errors", "went well", "first error", "problems"]
FREE_KB = (0, 8, 40, 100, 250, 700, 1_500)  # free space on the full disk
MEMORY_KB = (0, 256, 512, 1_000, 2_000, 4_000, 16_000)  # memory that the warm process may add
DISK_MB = 24
DOCUMENTED = {*vars(phrasemate.errors), "MemoryError"}
Work = Callable[[Say], list[str] | None]

# -- a forked process


class Child:
    """Forked process that runs ``work(say)``; ``problem`` is what it returns (a list of problems) or raises.

    ``said`` is the last number that it gave to ``say``. This is written to a pipe before `say` returns, so it counts
    even if the process is killed at the next instruction. ``lines`` is the number of lines of the error's text,
    ``seconds`` is processor time. ``limits`` is called in the child first.
    """

    def __init__(self, work: Work, limits: Callable[[], None] = lambda: None) -> None:
        self.said, self.lines, self.seconds, self.problem, self.error = 0, 0, 0.0, "", ""
        self._text = b""
        self._read, write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._read)
            _work(write, work, limits)
        os.close(write)

    def kill_after(self, seconds: float) -> bool:
        """Kill the process after so much processor time; return False if it ended by itself, which may be a problem."""
        kill = not self._ended(seconds)
        if kill:
            os.kill(self.pid, signal.SIGKILL)
        code = self._collect()
        killed = kill and code == -signal.SIGKILL
        if code and not killed:
            self.problem = self.problem or f"ended with code {code}"
        return killed

    def wait(self, seconds: float = PATIENCE) -> None:
        """Wait for the end of the process; more processor time than ``seconds`` is a hang, which is a problem."""
        if self.kill_after(seconds):
            self.problem = self.problem or f"still running after {seconds:.0f} s of processor time"

    def _ended(self, seconds: float) -> bool:
        """Return whether the process ends before it has used so much processor time.

        A busy machine does not change this. If the process sleeps for ASLEEP seconds without any work, this is noted as
        a problem, and the result is False.
        """
        used, asleep = 0.0, 0.0
        while (remaining := seconds - _processor_seconds(self.pid)) > 0:
            pause = min(max(remaining, 0.0005), 0.5)
            if select.select([self._read], [], [], pause)[0]:
                block = os.read(self._read, 1 << 16)
                if not block:
                    return True
                self._text += block
            before, used = used, _processor_seconds(self.pid)
            asleep = asleep + pause if used == before and _sleeps(self.pid) else 0.0
            if asleep > ASLEEP:
                self.problem = f"sleeps without end after {used:.2f} s of processor time"
                break
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
        _, status, usage = os.wait4(self.pid, 0)
        self.seconds = usage.ru_utime + usage.ru_stime
        return os.waitstatus_to_exitcode(status)


def _processor_seconds(pid: int) -> float:
    """Return the processor time that a process has used, by its own clock."""
    return time.clock_gettime(~pid << 3 | 2)  # the clock of clock_getcpuclockid(3)


def _sleeps(pid: int) -> bool:
    """Return whether a process waits for something other than a processor or a disk."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


def _work(write: int, work: Work, limits: Callable[[], None]) -> None:
    code = 1
    try:
        limits()
        problems = work(lambda number: _tell(write, f"said {number}"))
        if problems:
            _tell(write, "problem " + " ".join(" | ".join(problems).split()))
        code = 0
    except BaseException as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {error}"
        _tell(write, f"lines {len(text.splitlines())}")
        text = " ".join(text.split())
        _tell(write, f"error {text}")
        _tell(write, f"problem {text} ({last.filename.rpartition('/')[2]}:{last.lineno})")
    finally:
        os._exit(code)  # without the clean-up of the parent process


def _tell(write: int, text: str) -> None:
    os.write(write, f"{text[:2000]}\n".encode("utf-8", "backslashreplace"))


# -- kills


class Campaign:
    """Trials of one job; ``problems`` has one line for each problem."""

    def __init__(self, job: Job, folder: Path, draw: random.Random) -> None:
        self.job, self.folder, self.draw = job, folder, draw
        self.kills = self.trials = self.early = 0
        self.problems: list[str] = []
        self.base = folder / "base"
        job.prepare(self.base)
        self.seconds = PATIENCE
        for _ in range(2):  # the first run warms the caches for the second one and for all trials
            calm = copied(self.base, self.folder / "calm")
            self.seconds = min(self.seconds, self._finish(calm).seconds)
        self.expected = self._contents(calm)
        if hasattr(job, "allow"):
            job.allow(calm)
        gc.freeze()  # the garbage collectors of the children skip these objects
        if self.problems:
            raise SystemExit(f"{job.name}: the undisturbed run fails: {self.problems[0]}")

    def trial(self, most: int) -> None:
        """Run the job with up to ``most`` kills, check it after each, and compare the rows at the end."""
        self.trials += 1
        work, promised = copied(self.base, self.folder / "shaken"), 0
        for number in range(min(most, MOST)):
            child = Child(lambda say: self.job.run(work, say))
            killed = child.kill_after(self.draw.uniform(0, self.seconds))
            promised = max(promised, child.said)
            self._note("running", child.problem)
            if not killed:
                self.early += 1
                if number == 0:  # the machine has become faster since the undisturbed run
                    self.seconds = min(self.seconds, child.seconds)
                break
            self.kills += 1
            # Opening repairs what is left, but a run must also do so by itself: so every second check is on a copy.
            place = copied(work, self.folder / "copy") if number % 2 else work
            self._ask("after a kill", lambda _, place=place, after=promised: self.job.check(place, after))
        else:
            self._finish(work)
        self._ask("at the end", lambda _: self.job.check(work, promised))
        self._note("comparing", difference(self._contents(work), self.expected))

    def _contents(self, work: Path) -> dict[str, Any]:
        """Return the job's rows and the names of all files except readers' notes, since no file may be left over."""
        paths = (path for path in work.rglob("*") if path.is_file() and path.name != "checked.json")
        files = (path.relative_to(work).as_posix() for path in paths)
        return self.job.rows(work) | {"files": sorted(re.sub(r"[0-9a-f]{8,}", "#", file) for file in files)}

    def _finish(self, work: Path) -> Child:
        return self._ask("running", lambda say: self.job.run(work, say))

    def _ask(self, when: str, what: Work) -> Child:
        child = Child(what)
        child.wait()
        self._note(when, child.problem)
        return child

    def _note(self, when: str, problem: str) -> None:
        if problem:
            self.problems.append(f"{self.job.name}, trial {self.trials}, {when}: {problem}")
            print(self.problems[-1], file=sys.stderr, flush=True)


def copied(source: Path, target: Path) -> Path:
    """Replace a folder by a copy of another, or remove it if there is no other; return it."""
    shutil.rmtree(target, ignore_errors=True)
    if source.exists():
        shutil.copytree(source, target)
    return target


def difference(rows: dict[str, Any], expected: dict[str, Any]) -> str:
    """Describe the rows that differ from those of the undisturbed run; "" if none does."""
    unlike = [name for name in sorted({*rows, *expected}) if rows.get(name) != expected.get(name)]
    files, expected_files = (Counter(some.get("files", ())) for some in (rows, expected))
    changes = [*(f"+{file}" for file in files - expected_files), *(f"-{file}" for file in expected_files - files)]
    names = f" ({', '.join(sorted(changes))})" if "files" in unlike else ""
    return f"{', '.join(unlike)} differ from the undisturbed run{names}" if unlike else ""


# -- faults


def faults(jobs: list[Job], folder: Path) -> list[list[object]]:
    """Return the rows of the table: each fault in each job."""
    rows = []
    for job in jobs:
        place = folder / job.name
        job.prepare(place / "base")
        place.mkdir(exist_ok=True)
        # This run also imports all modules, so that a fault cannot hit an import.
        job.run(copied(place / "base", place / "calm"), lambda _: None)
        if hasattr(job, "allow"):
            job.allow(place / "calm")
        trial = _Trials(job, place)
        for name, tries in (
            ("disk full", trial.full),
            ("file system read-only", trial.readonly),
            ("folder vanished", trial.vanished),
            ("memory limit", trial.memory),
        ):
            rows.append(trial.table(name, tries))
    return rows


def _problem_of(what: Work) -> str:
    child = Child(what)
    child.wait()
    return child.problem


class _Trials:
    """Faults in one job; each method yields the runs with one fault."""

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
        first_error = re.sub(r"/\S*/", "…/", errors[0])[:90] if errors else ""
        return [self.job.name, name, count, len(errors), count - len(errors), first_error, len(wrong)]

    def _undocumented(self, child: Child) -> list[str]:
        if child.lines > 1:
            return [f"an error of {child.lines} lines: {child.problem}"]
        kind = child.error.partition(":")[0]
        return [] if kind in DOCUMENTED else [child.problem]

    def _unlike(self) -> str:
        """Describe the rows that differ from those of the undisturbed run; "" if none does."""
        rows = self.job.rows(self.place / "work") if (self.place / "work").exists() else {}
        return difference(rows, self.expected)

    def _afterwards(self, promised: int) -> list[str]:
        """Check, without the fault, that the old state is complete and that the job gives the expected rows."""
        work = self.place / "work"
        problem = _problem_of(lambda _: self.job.check(work, promised))
        problem = problem or _problem_of(lambda say: self.job.run(work, say)) or self._unlike()
        return [problem] if problem else []

    def _run(self, limits: Callable[[], None] = lambda: None, work: Path | None = None) -> Child:
        where = work or self.place / "work"
        child = Child(lambda say: self.job.run(where, say), limits)
        child.wait()
        return child

    def full(self) -> Iterator[Child]:
        """Run the job on small disks with little free space."""
        for free in FREE_KB:
            with self._disk() as disk:
                room = shutil.disk_usage(disk).free - free * 1024
                (disk / "filler").write_bytes(bytes(max(0, room)))
                child = self._run(work=disk / "work")
                (disk / "filler").unlink()
            yield child

    def readonly(self) -> Iterator[Child]:
        """Run the job on a read-only file system."""
        with self._disk() as disk:
            subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
            child = self._run(work=disk / "work")
        yield child

    @contextmanager
    def _disk(self) -> Iterator[Path]:
        """Yield a small file system in memory with the initial files of the job, and copy its files back at the end."""
        disk = self.place / "disk"
        disk.mkdir(exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "none", str(disk)], check=True)
        try:
            copied(self.place / "base", disk / "work")
            yield disk
            copied(disk / "work", self.place / "work")
        finally:
            subprocess.run(["umount", "-l", str(disk)], check=True)

    def vanished(self) -> Iterator[Child]:
        """Run the job and move its folder away before the start, or at its first, second or third report."""
        for at in range(4):
            work = copied(self.place / "base", self.place / "work")
            away = self.place / "away"
            shutil.rmtree(away, ignore_errors=True)
            child = Child(lambda say, work=work, away=away, at=at: self._taken_away(say, work, away, at))
            child.wait()
            if not away.exists():
                assert at == 0, f"{self.job.name} says less than {at} things"
                continue
            shutil.rmtree(work, ignore_errors=True)
            away.rename(work)
            yield child

    def _taken_away(self, say: Say, work: Path, away: Path, at: int) -> None:
        """Run the job and move its folder away at report ``at`` of its progress (0: before the start)."""
        count = 0

        def say_and_move(number: int) -> None:
            nonlocal count
            say(number)
            count += 1
            if count == at:
                work.rename(away)

        if at == 0 and work.exists():
            work.rename(away)
        self.job.run(work, say_and_move)

    def memory(self) -> Iterator[Child]:
        """Run the job with little memory."""
        for kilobytes in MEMORY_KB:
            copied(self.place / "base", self.place / "work")
            yield self._run(lambda kilobytes=kilobytes: _little_memory(kilobytes))


def _little_memory(kilobytes: int) -> None:
    with suppress(OSError, AttributeError):
        json.loads("[" * 900 + "]" * 900)  # grows the stack now: the system kills a process whose stack cannot grow
        ctypes.CDLL(None).malloc_trim(0)  # frees unused memory, which would otherwise hide the limit
        limit_memory(kilobytes * 1_000)


def main() -> None:
    args = _arguments()
    with tempfile.TemporaryDirectory(prefix="crash-", dir=args.work) as name:
        folder = Path(name)
        logging.getLogger("phrasemate").setLevel(logging.ERROR)  # hides the warning of each rebuilding after a kill
        chosen = jobs(folder / "shared", args.only)
        if args.faults:
            rows = faults([job for job in chosen if job.name not in UNTRIED], folder)
            report("crash_faults", FAULT_HEADER, rows, signature(None, folder=str(args.work)))
            raise SystemExit(any(row[-1] for row in rows))
        campaigns = [Campaign(job, folder / job.name, random.Random(f"{args.seed} {job.name}")) for job in chosen]
        with suppress(KeyboardInterrupt):  # a stopped campaign still reports its trials
            _shake(campaigns, args)
        rows = [[c.job.name, c.trials, c.kills, c.early, round(c.seconds, 3), len(c.problems)] for c in campaigns]
        rows.append(["all", *(sum(row[at] for row in rows) for at in (1, 2, 3)), "", sum(row[-1] for row in rows)])
        facts = {"kills": args.kills, "seed": args.seed, "folder": str(args.work)}
        report("crash", KILL_HEADER, rows, signature(None, **facts, processor_s=round(sum(os.times()[:4]), 1)))
        raise SystemExit(bool(rows[-1][-1]))


def _shake(campaigns: list[Campaign], args: argparse.Namespace) -> None:
    """Run trials, always of the job with the fewest kills, until there are enough kills or the time is up."""
    deadline, count = time.monotonic() + args.seconds, 0
    while count < args.kills and time.monotonic() < deadline:
        min(campaigns, key=lambda campaign: campaign.kills).trial(args.kills - count)
        count = sum(campaign.kills for campaign in campaigns)
        if sys.stderr.isatty():
            print(f"\r{count} of {args.kills} kills", end="", file=sys.stderr, flush=True)


def _arguments() -> argparse.Namespace:
    options = plain_parser(__doc__)
    options.add_argument("--kills", type=int, default=60)
    options.add_argument("--seconds", type=float, default=float("inf"), help="stop after this time (default: no limit)")
    options.add_argument("--only", action="append", default=[], choices=JOBS, help="this job (may be repeated)")
    options.add_argument("--faults", action="store_true", help="full disk, lost folders, little memory")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--work", type=Path, default=RAM_DISK, help="where files are written (default: %(default)s)")
    return options.parse_args()


if __name__ == "__main__":
    main()
