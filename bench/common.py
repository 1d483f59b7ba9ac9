"""Harness of benchmarks and campaigns: options, corpora, clocks, memory, and the report with its signature."""

from __future__ import annotations

import argparse
import gzip
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from phrasemate.evaluate.report import signature_line, text_table

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "bench" / "out"
DATA = ROOT.parent / "shared" / "data"
# The languages of the general corpora, those with the most text first.
LANGS = """
    de fr ja es ru zh tr hu cs it pt nl pl ko fi ro sv da bg el ar fa uk id vi hi he
""".split()  # noqa: SIM905
T = TypeVar("T")
STEPS, RIDGE = 10, 1.0  # steps of Newton's method, and the penalty of standardised weights
RAM_DISK = Path("/dev/shm") if Path("/dev/shm").is_dir() else Path(tempfile.gettempdir())


def plain_parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser without options; its help shows the script's docstring as it is written."""
    return argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)


def parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options that all benchmarks take."""
    options = plain_parser(description)
    options.add_argument("--data", type=Path, default=DATA, help="folder of the corpora (default: %(default)s)")
    options.add_argument("--model", type=Path, help="model folder (default: the bundled one)")
    options.add_argument("--threads", type=int, default=None, help="threads (default: all)")
    options.add_argument("--seed", type=int, default=0)
    return options


def use_test_modules(*folders: str) -> None:
    """Make the helper modules in these folders of ``tests/`` importable: fakes, hostile files, tiny models."""
    sys.path[:0] = [str(ROOT / "tests" / folder) for folder in folders]


class Pair(NamedTuple):
    """Line of a parallel corpus."""

    english: str
    other: str
    source: str


def parallel(data: Path, lang: str) -> Iterator[Pair]:
    """Yield the lines of the parallel corpus of English and ``lang``."""
    for cells in table_rows(data / "parallel" / f"en-{lang}.tsv.gz"):
        yield Pair(*cells[:3])


def corpora(data: Path) -> list[str]:
    """Return the languages that have a parallel corpus."""
    return sorted(path.name[3:5] for path in (data / "parallel").glob("en-*.tsv.gz"))


def table_rows(path: Path) -> Iterator[list[str]]:
    """Yield the cells of each line of a gzipped table."""
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
        for line in file:
            yield line.rstrip("\n").split("\t")


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines to a file; its folder is created if it does not exist."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def dictionary_rows(data: Path, lang: str) -> Iterator[tuple[str, str]]:
    """Yield (English, other) wordings of the term lists and dictionaries of a language."""
    for name in ("terms", "dictionaries"):
        path = data / name / f"en-{lang}.tsv.gz"
        yield from ((row[0], row[1]) for row in table_rows(path)) if path.exists() else ()


def seconds(call: Callable[[], Any], clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the seconds of a call; ``clock`` may be ``time.process_time``, which a busy machine affects least."""
    start = clock()
    call()
    return clock() - start


def milliseconds(call: Callable[[], Any], clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the milliseconds of a call."""
    return 1000 * seconds(call, clock)


def cosines(first: NDArray[np.float32], second: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return (rows,) the cosines of the rows of two matrices (rows, width)."""
    cosine: NDArray[np.float32] = (first * second).sum(1) / np.linalg.norm(first, axis=1)
    return cosine / np.linalg.norm(second, axis=1)


def interleaved(
    calls: dict[T, Callable[[], Any]], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> dict[T, list[float]]:
    """Return the seconds of several calls, name -> seconds of each round.

    The calls take turns, so that a change of the machine's speed affects all of them.
    """
    times: dict[T, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            times[name].append(seconds(call, clock))
    return times


def memory(field: str, process: int | str = "self") -> float | None:
    """Return the MB of a field of a process's status, such as RssAnon, RssFile or VmHWM; None if it has ended."""
    lines = Path(f"/proc/{process}/status").read_text("utf-8").splitlines()
    return next((int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith(f"{field}:")), None)


def limit_memory(more: int) -> None:
    """Limit this process to ``more`` bytes of addresses beyond what it has; an allocation above raises MemoryError."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
    limit = pages * resource.getpagesize() + more
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def anonymous(process: int | str = "self") -> float | None:
    """Return the MB of a process's memory that belong to no file; None if it has ended."""
    return memory("RssAnon", process)


def logistic(table: NDArray[np.floating], right: NDArray[np.bool_]) -> tuple[NDArray[np.float64], float]:
    """Fit a logistic regression over a table (rows, features) by Newton's method.

    Returns the weights (features,) and the constant.
    """
    mean, spread = table.mean(0), table.std(0)
    spread[spread == 0] = 1
    inputs = np.column_stack([(table - mean) / spread, np.ones(len(table))])
    penalty = RIDGE * np.eye(inputs.shape[1])
    penalty[-1, -1] = 0
    weights = np.zeros(inputs.shape[1])
    for _ in range(STEPS):
        likely = 1 / (1 + np.exp(-inputs @ weights))
        hessian = (inputs * (likely * (1 - likely))[:, None]).T @ inputs + penalty
        weights -= np.linalg.solve(hessian, inputs.T @ (likely - right) + penalty @ weights)
    raw = weights[:-1] / spread
    return raw, float(weights[-1] - raw @ mean)


def rerun(*arguments: str) -> dict[str, Any]:
    """Run this script again in a new process with further arguments, and return the JSON that it prints."""
    command = [sys.executable, *sys.argv, *arguments]
    answer: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return answer


def report(name: str, header: Sequence[str], rows: Sequence[Sequence[Any]], facts: dict[str, Any]) -> None:
    """Print the table and its signature, and write both as JSON to bench/out/NAME.json."""
    print(text_table(header, rows))
    print(signature_line(facts))
    OUT.mkdir(exist_ok=True)
    table = [dict(zip(header, row, strict=True)) for row in rows]
    text = json.dumps({"rows": table, "signature": facts}, indent=1, default=float)
    (OUT / f"{name}.json").write_text(text + "\n", encoding="utf-8")
