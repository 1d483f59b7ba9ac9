"""Cut the power: kill jobs at an event and let the disk lose everything that was not flushed, then check what is left.

Each trial runs a job of bench/crash_jobs.py in a process in which `lost_writes.c` intercepts calls of the C library. It
kills the process before a random write, flush, renaming or removal, and stores what was flushed until then. After that,
the folder is rebuilt as a disk may have it. A folder has the names of its last flush or the present ones. A file has
its last flushed content, the present one, or a mixture of pages, some of them zeros. The remains are opened and
verified as in bench/crash.py. Then the job continues and is cut again. At the end its rows are compared with those of
an undisturbed run. Everything that was reported as done must be there.

`--forget NAME` ignores flushes of files and folders with this in their path: a fault that the campaign must find.

    python bench/lost_writes.py --cuts 1000
    python bench/lost_writes.py --cuts 100 --only appender --forget store.sqlite-wal
"""

from __future__ import annotations

import argparse
import ctypes
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from common import RAM_DISK, plain_parser, report
from crash import Campaign, Child, copied, difference
from crash_jobs import JOBS, Job, Say, jobs

from phrasemate.evaluate.report import signature

LIBRARY, PAGE = "LOST_WRITES", 4_096
HEADER = ["job", "trials", "cuts", "ran to the end", "events undisturbed", "problems"]


def with_library(folder: Path) -> None:
    """Start this script again with the C library intercepted; exit if there is no compiler."""
    if LIBRARY in os.environ:
        return
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or sys.platform != "linux":
        raise SystemExit("lost_writes.py needs Linux and a C compiler; install cc or gcc")
    library = folder / "lost_writes.so"
    source = Path(__file__).with_suffix(".c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    watched = os.environ | {"LD_PRELOAD": str(library), LIBRARY: "1"}
    raise SystemExit(subprocess.run([sys.executable, *sys.argv], env=watched).returncode)


# -- the disk after a cut


class Disk:
    """Folder that loses what was not flushed; ``copies`` holds what was flushed, by the numbers of the inodes."""

    def __init__(self, folder: Path, copies: Path) -> None:
        self.folder, self.copies = folder, copies

    def settle(self) -> None:
        """Count everything that is present as flushed."""
        shutil.rmtree(self.copies, ignore_errors=True)
        self.copies.mkdir()
        for path in (self.folder, *self.folder.rglob("*")):
            if path.is_dir():
                names = "".join(f"{entry.inode()} {entry.name}\n" for entry in os.scandir(path))
                (self.copies / f"d{path.stat().st_ino}").write_text(names, "utf-8")
            else:
                shutil.copyfile(path, self.copies / f"f{path.stat().st_ino}")

    def cut(self, draw: random.Random) -> None:
        """Rebuild the folder as a disk may have it after a power cut; one cut in three loses everything unflushed."""
        harshness = draw.choice((0.0, 0.5, 1.0))
        present = {path.stat().st_ino: path for path in self.folder.rglob("*")}
        present[self.folder.stat().st_ino] = self.folder
        after = self.folder.with_name("after")
        self._folder(self.folder.stat().st_ino, after, present, draw, harshness)
        shutil.rmtree(self.folder)
        after.rename(self.folder)
        self.settle()

    def _folder(
        self, number: int, target: Path, present: dict[int, Path], draw: random.Random, harshness: float
    ) -> None:
        target.mkdir()
        here = present.get(number)
        now = {entry.name: entry.inode() for entry in os.scandir(here)} if here else {}
        flushed: dict[str, int] = {}
        if (listing := self.copies / f"d{number}").exists():
            lines = (line.split(" ", 1) for line in listing.read_text("utf-8").splitlines())
            flushed = {name: int(inode) for inode, name in lines}
        for name, inode in (flushed if here is None or draw.random() < harshness else now).items():
            path = present.get(inode)
            if (self.copies / f"d{inode}").exists() or (path is not None and path.is_dir()):
                self._folder(inode, target / name, present, draw, harshness)
            else:
                (target / name).write_bytes(self._content(inode, path, draw, harshness))

    def _content(self, inode: int, path: Path | None, draw: random.Random, harshness: float) -> bytes:
        flushed = self.copies / f"f{inode}"
        sure = flushed.read_bytes() if flushed.exists() else b""
        content = sure if path is None else path.read_bytes()
        if content == sure or draw.random() < harshness:
            return sure
        if draw.random() < 0.5:
            return content
        pages = []
        shorter, longer = sorted((len(sure), len(content)))
        for at in range(0, draw.choice((shorter, longer, draw.randint(shorter, longer))), PAGE):
            page = slice(at, at + PAGE)
            new, old = content[page], sure[page]
            pages.append(new if new == old else draw.choice((new, old or bytes(len(new)))))
        return b"".join(pages)


# -- the campaign


class Cuts(Campaign):
    """Trials of one job; ``kills`` counts the power cuts."""

    def __init__(self, job: Job, folder: Path, args: argparse.Namespace) -> None:
        super().__init__(job, folder, random.Random(f"{args.seed} {job.name}"))
        self.disk, self._forgotten, self._most = Disk(folder / "disk", folder / "copies"), args.forget, args.most
        self._watch = ctypes.CDLL(None)
        self._fresh()
        self._run(0, 0)
        self.events = [int(text) for text in (folder / "events").read_text().split()]

    def trial(self, most: int) -> None:
        """Run the job, cut the power, check and continue, several times; compare the rows at the end."""
        self.trials += 1
        work, promised = self._fresh(), 0
        for _ in range(min(most, self._most)):
            renames = self.draw.random() < 0.5  # half the cuts are at flushes and new names, which are few
            event = self.draw.randint(1, self.events[renames])
            child = self._run(0 if renames else event, event if renames else 0)
            promised = max(promised, child.said)
            if child.problem != f"ended with code {-signal.SIGKILL}":
                self.early += 1
                self._note("running", child.problem)
                break
            self.kills += 1
            self.disk.cut(self.draw)
            place = copied(work, self.folder / "copy") if self.draw.random() < 0.5 else work
            self._ask("after a cut", lambda _, place=place, after=promised: self.job.check(place, after))
            self.disk.settle()
        else:
            self._finish(work)
        self._ask("at the end", lambda _: self.job.check(work, promised))
        self._note("comparing", difference(self._contents(work), self.expected))

    def _fresh(self) -> Path:
        """Write the initial files of the job to the disk, all of them flushed."""
        shutil.rmtree(self.disk.folder, ignore_errors=True)
        self.disk.folder.mkdir()
        work = copied(self.base, self.disk.folder / "work")
        self.disk.settle()
        return work

    def _run(self, event: int, named: int) -> Child:
        """Run the job up to an event; 0 for both numbers runs it to its end.

        ``event`` is the number among all events, ``named`` the number among flushes and new names.
        """

        def work(say: Say) -> None:
            place = [os.fsencode(path) for path in (self.disk.folder, self.disk.copies, self._forgotten)]
            self._watch.lost_begin(*place, ctypes.c_long(event), ctypes.c_long(named))
            self.job.run(self.disk.folder / "work", say)
            (self.folder / "events").write_text(f"{self._watch.lost_count(0)} {self._watch.lost_count(1)}")

        child = Child(work)
        child.wait()
        return child


def main() -> None:
    """Run the campaign and print its table."""
    options = plain_parser(__doc__)
    options.add_argument("--cuts", type=int, default=60)
    options.add_argument("--most", type=int, default=4, help="cuts of one trial (default: %(default)s)")
    options.add_argument("--only", action="append", default=[], choices=JOBS, help="this job (may be repeated)")
    options.add_argument("--forget", default="", metavar="NAME", help="ignore flushes of paths with this in them")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--work", type=Path, default=RAM_DISK, help="where files are written (default: %(default)s)")
    args = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="lost-", dir=args.work) as name:
        folder = Path(name)
        with_library(folder)
        logging.getLogger("phrasemate").setLevel(logging.ERROR)  # hides the warning of each rebuilding after a cut
        campaigns = [Cuts(job, folder / job.name, args) for job in jobs(folder / "shared", args.only)]
        while sum(campaign.kills for campaign in campaigns) < args.cuts:
            min(campaigns, key=lambda campaign: campaign.kills).trial(args.most)
        rows = [[c.job.name, c.trials, c.kills, c.early, c.events[0], len(c.problems)] for c in campaigns]
        rows.append(["all", *(sum(row[at] for row in rows) for at in (1, 2, 3)), "", sum(row[-1] for row in rows)])
        facts = {"cuts": args.cuts, "seed": args.seed, "folder": str(args.work), "forget": args.forget or "nothing"}
        report("lost_writes", HEADER, rows, signature(None, **facts))
        raise SystemExit(bool(rows[-1][-1]))


if __name__ == "__main__":
    main()
