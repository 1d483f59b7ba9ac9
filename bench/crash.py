"""A crash campaign: indexer, appender, deleter, optimiser and trainer are killed at random, and nothing is lost.

Each trial copies what a job begins with, starts it in a forked process and kills it with SIGKILL at a random moment of
its usual time. What is left is opened and verified: every row is one of the old or of the new state, what was said to
be done is there, searches answer rightly. Then the job is started again, and killed again, up to six times; at the end
all rows are compared with those of an undisturbed run. `--faults` tries a full disk, folders that are read-only or
vanish, and too little memory instead (see crash_faults.py).

    python bench/crash.py --kills 1000
    python bench/crash.py --faults
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import random
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}  # forks and threads: no

from common import report
from crash_child import Child
from crash_jobs import Job, jobs

from phrasemate.evaluate.report import signature

NAMES = ("indexer", "appender", "deleter", "optimiser", "trainer")
MOST = 6  # kills of one trial
LATE = 1.0  # kills come until so many times an undisturbed run's time
# A killed process loses nothing that it gave to the system: no disk is needed, and waiting for one is most of the time.
MEMORY = Path("/dev/shm") if Path("/dev/shm").is_dir() else Path(tempfile.gettempdir())
PATIENCE = 120.0  # seconds that a run or a check may take: more is a hang


class Campaign:
    """All trials of one job; ``problems`` says what was wrong, a line each."""

    def __init__(self, job: Job, folder: Path, draw: random.Random) -> None:
        self.job, self.folder, self.draw = job, folder, draw
        self.kills = self.trials = self.early = 0
        self.problems: list[str] = []
        self.base = folder / "base"
        job.prepare(self.base)
        self.seconds = PATIENCE
        for _ in range(2):  # the first also warms what the second, and every trial, finds warm
            calm = self._begin("calm")
            begun = time.perf_counter()
            self._finish(calm)
            self.seconds = min(self.seconds, time.perf_counter() - begun)
        self.expected = self._made(calm)
        if hasattr(job, "allow"):
            job.allow(calm)
        gc.freeze()  # what is here is not looked at again by the collectors of the children
        if self.problems:
            raise SystemExit(f"{job.name}: the undisturbed run fails: {self.problems[0]}")

    def trial(self, most: int) -> None:
        """One run with up to ``most`` kills, each followed by a check, and the comparison at its end."""
        self.trials += 1
        work, said = self._begin("shaken"), 0
        for number in range(min(most, MOST)):
            begun = time.perf_counter()
            child = Child(lambda say: self.job.run(work, say))
            killed = child.kill_after(self.draw.uniform(0, LATE * self.seconds))
            said = max(said, child.said)
            self._note("running", child.problem)  # before the kill, if it was killed
            if not killed:
                self.early += 1
                if number == 0:  # the machine has become quicker since the undisturbed run
                    self.seconds = min(self.seconds, time.perf_counter() - begun)
                break
            self.kills += 1
            place = self._copied(work) if number % 2 else work  # opening mends: a run must do so by itself, too
            self._ask("after a kill", lambda _, place=place, after=said: self.job.check(place, after))
        else:
            self._finish(work)
        self._ask("at the end", lambda _: self.job.check(work, said))
        found = self._made(work)
        unlike = [name for name in sorted({*found, *self.expected}) if found.get(name) != self.expected.get(name)]
        self._note("comparing", f"{', '.join(unlike)} differ from the undisturbed run" if unlike else "")

    def _begin(self, name: str) -> Path:
        work = self.folder / name
        shutil.rmtree(work, ignore_errors=True)
        if self.base.exists():
            shutil.copytree(self.base, work)
        return work

    def _copied(self, work: Path) -> Path:
        copy = self.folder / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        if work.exists():
            shutil.copytree(work, copy)
        return copy

    def _made(self, work: Path) -> dict[str, Any]:
        """The job's rows, and the names of all files: none may be left over."""
        files = (path.relative_to(work).as_posix() for path in work.rglob("*") if path.is_file())
        return self.job.rows(work) | {"files": sorted(re.sub(r"[0-9a-f]{8,}", "#", file) for file in files)}

    def _finish(self, work: Path) -> None:
        self._ask("running", lambda say: self.job.run(work, say))

    def _ask(self, when: str, what: Callable[[Callable[[int], None]], list[str] | None]) -> None:
        child = Child(what)
        child.wait(PATIENCE)
        self._note(when, child.problem)

    def _note(self, when: str, problem: str) -> None:
        if problem:
            self.problems.append(f"{self.job.name}, trial {self.trials}, {when}: {problem}")
            print(self.problems[-1], file=sys.stderr, flush=True)


def main() -> None:
    args = _arguments()
    with tempfile.TemporaryDirectory(prefix="crash-", dir=args.work) as name:
        folder = Path(name)
        logging.getLogger("phrasemate").setLevel(logging.ERROR)  # each rebuilding after a kill is a warning
        made = jobs(folder / "shared", args.only)
        if args.faults:
            from crash_faults import HEADER, faults

            rows = faults(made, folder)
            report("crash_faults", HEADER, rows, signature(None, folder=str(args.work)))  # nothing is drawn
            raise SystemExit(any(row[-1] for row in rows))
        campaigns = [Campaign(job, folder / job.name, random.Random(f"{args.seed} {job.name}")) for job in made]
        _shake(campaigns, args)
        rows = [[c.job.name, c.trials, c.kills, c.early, round(c.seconds, 3), len(c.problems)] for c in campaigns]
        rows.append(["all", *(sum(row[at] for row in rows) for at in (1, 2, 3)), "", sum(row[-1] for row in rows)])
        header = ["job", "trials", "kills", "ran to the end", "undisturbed s", "problems"]
        facts = {"kills": args.kills, "seed": args.seed, "folder": str(args.work)}
        report("crash", header, rows, signature(None, **facts, processor_s=round(_processor(), 1)))
        raise SystemExit(bool(rows[-1][-1]))


def _shake(campaigns: list[Campaign], args: argparse.Namespace) -> None:
    """Always the job that was killed least, until there were enough kills or the time is up."""
    deadline, done = time.monotonic() + args.seconds, 0
    while done < args.kills and time.monotonic() < deadline:
        min(campaigns, key=lambda campaign: campaign.kills).trial(args.kills - done)
        done = sum(campaign.kills for campaign in campaigns)
        if sys.stderr.isatty():
            print(f"\r{done} of {args.kills} kills", end="", file=sys.stderr, flush=True)


def _processor() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _arguments() -> argparse.Namespace:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--kills", type=int, default=60)
    made.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long, whatever is left")
    made.add_argument("--only", action="append", default=[], choices=NAMES, help="this job (may be repeated)")
    made.add_argument("--faults", action="store_true", help="full disk, read-only and vanished folders, little memory")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--work", type=Path, default=MEMORY, help="where the files are written (default: %(default)s)")
    return made.parse_args()


if __name__ == "__main__":
    main()
