"""Damaged and hostile files: each must give a documented error or the right answer, and never a crash or a hang.

Every kind of file that phrasemate reads (tests/hostile/damage_kinds.py) is damaged in many ways. It is truncated or
doubled, its bytes are flipped, its blocks are zeroed or swapped, and it is replaced by files of other formats. Hostile
files are newer versions, huge counts, decompression bombs, and nonsense with a valid checksum.

Each file is read in a forked process. Problems are errors outside phrasemate.errors, errors of several lines, an answer
that differs from that of the sound file, more than a minute, and more than 1 GB. Text without an end or a checksum
(``open``, and letters within ``closed`` text) may become another text.

    python bench/damage.py
    python bench/damage.py --only index --each 50
"""

from __future__ import annotations

import argparse
import gzip
import logging
import os
import random
import resource
import shutil
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}

from common import RAM_DISK, memory, plain_parser, report, use_test_modules
from crash import Child

import phrasemate.errors
from phrasemate.evaluate.report import signature

use_test_modules("hostile")

from damage_kinds import KINDS, Kind, digest, hostile_cases  # noqa: E402

PATIENCE = 60.0
MEMORY_MB = 1_000
ADDRESSES_GB = 8  # limit of the address space, so that a huge count cannot take all of the machine's memory
DOCUMENTED = frozenset(vars(phrasemate.errors))
HEADER = ["kind", "damaged", "errors", "right answers", "other texts", "problems", "most MB", "errors by class"]
PNG = b"\x89PNG\r\n\x1a\n" + zlib.compress(bytes(200))
FOREIGN = {
    "empty": b"",
    "png": PNG,
    "zip": b"PK\x05\x06" + bytes(18),
    "gzip of nothing": gzip.compress(b"", mtime=0),
    "sqlite": b"SQLite format 3\0" + bytes(4_080),
    "json": b'{"format": "other", "version": 9}\n',
    "utf-16": "Grüße, <tmx/>".encode("utf-16"),
    "pdf": b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n",
}
Case = tuple[str, bytes]


def damages(content: bytes, draw: random.Random, count: int) -> Iterator[Case]:
    """Yield names and contents of damaged versions of a file; ``count`` is the number of changes of each kind."""
    size = len(content)
    for cut in sorted({0, 1, size // 2, size - 1, *(draw.randrange(size) for _ in range(count))}):
        yield f"truncated to {cut}", content[:cut]
    for _ in range(count):
        at = draw.randrange(size)
        yield f"bit flipped at {at}", content[:at] + bytes([content[at] ^ (1 << draw.randrange(8))]) + content[at + 1 :]
    for _ in range(max(1, count // 2)):
        at, length = draw.randrange(size), draw.choice((1, 16, 512))
        yield f"zeroed at {at}", content[:at] + bytes(len(content[at : at + length])) + content[at + length :]
        one, other = sorted(draw.randrange(size) for _ in range(2))
        length = min(16, other - one, size - other)
        swapped = bytearray(content)
        swapped[one : one + length], swapped[other : other + length] = (
            content[other : other + length],
            content[one : one + length],
        )
        yield f"swapped at {one} and {other}", bytes(swapped)
    yield "doubled", content + content
    yield "all zero", bytes(size)
    yield from FOREIGN.items()


def cases(kind: Kind, place: Path, draw: random.Random, count: int) -> Iterator[tuple[str, Path, bytes]]:
    """Yield a name, the file, and its damaged content, if this differs from the sound one."""
    files = kind.targets(place)
    for file in files:
        content = file.read_bytes()
        for name, damaged in damages(content, draw, count):
            if damaged != content:
                yield f"{file.name} {name}", file, damaged
        for other in files:
            if other != file:
                yield f"{file.name} replaced by {other.name}", file, other.read_bytes()


def judged(kind: Kind, what: str, right: int, child: Child, megabytes: float) -> tuple[str, str]:
    """Return "error", "right", "other" or "problem", with the class of the error or a description of the problem."""
    error = child.error.partition(":")[0]
    if megabytes > MEMORY_MB:
        return "problem", f"{megabytes:.0f} MB"
    if child.lines > 1:
        return "problem", f"{child.lines} lines: {child.problem}"
    if error:
        return ("error", error) if error in DOCUMENTED else ("problem", child.problem)
    if child.problem:
        return "problem", child.problem
    if child.said == right:
        return "right", ""
    allowed = kind.guard == "open" or (kind.guard == "closed" and " truncated " not in f" {what} ")
    # Two gzip files one after the other are a gzip file.
    allowed |= kind.name.endswith(".gz") and what.endswith(" doubled")
    return ("other", "") if allowed else ("problem", "a wrong answer")


def main() -> None:
    args = _arguments()
    logging.getLogger("phrasemate").setLevel(logging.ERROR)  # hides the warning of each rebuilding
    kinds = [kind for kind in KINDS if not args.only or kind.name in args.only]
    rows: list[list[Any]] = []
    with tempfile.TemporaryDirectory(prefix="damage-", dir=args.work) as name:
        for kind in kinds:
            rows.append(_row(kind, Path(name) / kind.name.replace(" ", "-"), args))
        if not args.only:
            rows += [_hostile(cases, args) for cases in hostile_cases(Path(name) / "hostile")]
    sums = [sum(row[at] for row in rows) for at in range(1, 6)]
    rows.append(["all", *sums, max(row[6] for row in rows), ""])
    report("damage", HEADER, rows, signature(None, each=args.each, seed=args.seed))
    raise SystemExit(bool(sums[-1]))


def _row(kind: Kind, folder: Path, args: argparse.Namespace) -> list[Any]:
    """Damage one kind of file in every way and return its row of the table."""
    folder.mkdir(parents=True)
    place, draw = kind.make(folder), random.Random(f"{args.seed} {kind.name}")
    right = digest(kind.read(_copy(place)))  # in this process, which then has all imports before the first case
    judgements: list[tuple[str, str, str, float]] = []
    for what, file, damaged in cases(kind, place, draw, args.each):
        copy = _copy(place)
        target = copy / file.relative_to(place) if place.is_dir() else copy
        target.write_bytes(damaged)
        judgements.append((what, *_judgement(kind, what, copy, right)))
    return _summed(kind.name, judgements)


def _hostile(one: Any, args: argparse.Namespace) -> list[Any]:
    """Read hostile files of one kind and return their row; each must give an error, except harmless ones."""
    judgements = []
    for what, place, read in one.cases:
        guard, right = (one.guard, one.right) if what.startswith("harmless") else ("sealed", -1)
        judgements.append((what, *_judgement(Kind(one.name, guard, lambda folder: folder, read), what, place, right)))
    return _summed(one.name, judgements)


def _judgement(kind: Kind, what: str, place: Path, right: int) -> tuple[str, str, float]:
    """Read a file in a child process; return the judgement, its reason, and the memory in MB that the reading took."""

    def read(say: Callable[[int], None]) -> list[str]:
        before = memory("VmRSS") or 0.0
        try:
            say(digest(kind.read(place)))
        finally:
            used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1_024 / 1_000_000 - before
            (place.parent / "peak").write_text(str(used), "ascii")
        return []

    (place.parent / "peak").write_text("0", "ascii")
    child = Child(read, _limits)
    child.wait(PATIENCE)
    peak = float((place.parent / "peak").read_text("ascii") or 0)
    judgement, reason = judged(kind, what, right, child, peak)
    if judgement == "problem":
        print(f"{kind.name}, {what}: {reason}", file=sys.stderr, flush=True)
    return judgement, reason, max(0.0, peak)


def _summed(name: str, judgements: list[tuple[str, str, str, float]]) -> list[Any]:
    counts = Counter(judgement for _, judgement, _, _ in judgements)
    classes = Counter(reason for _, judgement, reason, _ in judgements if judgement == "error")
    class_counts = ", ".join(f"{kind} {count}" for kind, count in classes.most_common())
    numbers = [counts[judgement] for judgement in ("error", "right", "other", "problem")]
    return [name, len(judgements), *numbers, round(max(megabytes for *_, megabytes in judgements)), class_counts]


def _copy(place: Path) -> Path:
    """Copy the sound files into a folder beside them, for the next damage."""
    copy = place.parent / "copy" / place.name
    shutil.rmtree(copy.parent, ignore_errors=True)
    copy.parent.mkdir()
    return Path((shutil.copytree if place.is_dir() else shutil.copy)(place, copy))


def _limits() -> None:
    os.environ["TMPDIR"] = tempfile.gettempdir()
    most = ADDRESSES_GB << 30
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _arguments() -> argparse.Namespace:
    options = plain_parser(__doc__)
    options.add_argument("--each", type=int, default=4, help="changes of each sort in each file (default: %(default)s)")
    options.add_argument("--only", action="append", default=[], choices=[kind.name for kind in KINDS])
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--work", type=Path, default=RAM_DISK, help="where the files are written")
    return options.parse_args()


if __name__ == "__main__":
    main()
