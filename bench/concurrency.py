"""One writer and many readers on one index for minutes, and the server: is every answer of one committed state?

A writer adds, replaces and deletes documents, several commits each, and optimises, now and then with a target recall.
So many readers, half of them with write permission, compare each answer with the log of committed states: documents,
hits with their places and scores, sentences that contain a text. `phrasemate serve` is asked for its page and over
REST: all hits must be of a state that was in force while it was asked. The memory (anonymous, in MB) of every process
is sampled, the writer's after each change; it is flat if the median of the last quarter is at most a twentieth and 8 MB
above that of the second. The peak is of all the time, of work as well.

Everything is paced, so that it needs about one core.

    python bench/concurrency.py --minutes 10
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import tempfile
import threading
import time
from collections import defaultdict
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import Request, urlopen

os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}

import numpy as np
from common import anonymous, parser, report
from concurrency_parts import SETTINGS, Log, Pool, Recorded, State, fits, read, write
from scale_data import sentences
from serve import asked, server

from phrasemate import Index, load_model
from phrasemate.evaluate.report import signature
from phrasemate.text import words

DOCUMENTS, VERSIONS, LINES = 40, 4, 40
MARGIN, MARGIN_MB = 1.05, 8.0
HEADER = ["process", "answers", "states seen", "best found", "MB in each quarter", "flat", "peak MB", "problems"]


class Asker(threading.Thread):
    """Asks the server for its page and over REST, and compares."""

    def __init__(self, port: int, folder: Path, pool: Pool, seconds: float, pause: float, seed: int) -> None:
        super().__init__()
        self._base, self._log, self._pool = f"http://127.0.0.1:{port}", Log(folder), pool
        self._seconds, self._pause, self._draw = seconds, pause, random.Random(seed)
        self.pages = self.answers = self.hits = 0
        self.problems: list[str] = []

    def run(self) -> None:
        deadline = time.monotonic() + self._seconds
        texts = [text for text in self._pool.found if words(text) and not set(text) & set("[]\\")]
        while time.monotonic() < deadline:
            text = self._draw.choice(texts)
            try:
                self._page(text) if self._draw.random() < 0.3 else self._rest(text)
            except Exception as error:
                self.problems.append(f"{type(error).__name__}: {error}")
            time.sleep(self._pause)

    def _page(self, text: str) -> None:
        with urlopen(f"{self._base}/?q={quote(text)}", timeout=60) as answer:
            self.problems += [] if b"</html>" in answer.read() else ["a page is not whole"]
        self.pages += 1

    def _rest(self, text: str) -> None:
        before = len(self._log.read())
        body = json.dumps({"query": asked(text), "k": 5}).encode()
        request = Request(f"{self._base}/api/v1/search", body, {"Content-Type": "application/json"})
        with urlopen(request, timeout=60) as answer:
            results = json.load(answer)["results"]
        hits = [hit for result in results for group in result["groups"] for hit in group["hits"]]
        self.answers, self.hits = self.answers + 1, self.hits + len(hits)
        deadline = time.monotonic() + 30
        while not any(self._holds(state, hits) for state in self._log.read()[max(0, before - 1) :]):
            if time.monotonic() > deadline:  # what is committed is in the log after a moment
                self.problems.append(f"{len(hits)} hits for {text!r} are of no state that was in force")
                return
            time.sleep(0.05)

    def _holds(self, state: State, hits: list[dict[str, Any]]) -> bool:
        """A state with phrases has some hit for any query."""
        fitting = all(fits(state, self._pool, hit["document"], hit["line"], hit["context"]) for hit in hits)
        return fitting and (bool(hits) or not state.phrases(self._pool))


def pool_of(data: Path, work: Path, model: Any, seed: int) -> Pool:
    """Documents of real sentences, in several versions, and their phrases; kept for the same model, seed and data."""
    drawn = {"seed": seed, "data": str(data.absolute())}
    if (work / "pool.json").exists() and (pool := Pool.load(work)).facts == Pool.facts_of(model) | drawn:
        return pool
    texts = iter(sentences(data, work / "text", seed))
    made = [[[next(texts) for _ in range(LINES)] for _ in range(VERSIONS)] for _ in range(DOCUMENTS)]
    Pool.make(model, made, drawn).save(work)
    return Pool.load(work)


def watch(processes: dict[str, int], seconds: float) -> dict[str, list[float]]:
    """Anonymous MB of each process, about 200 times."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for name, process in processes.items():
            memory = anonymous(process)
            if memory is not None:
                found[name].append(memory)
        time.sleep(seconds / 200)
    return found


def quarters(samples: list[float]) -> tuple[str, bool]:
    """The medians of the quarters of the time, and whether the last is no more than the second."""
    middles = [float(np.median(part)) for part in np.array_split(samples, 4)]
    flat = middles[3] <= MARGIN * middles[1] + MARGIN_MB
    return " ".join(f"{each:.0f}" for each in middles), flat


def main() -> None:
    args = _arguments()
    seconds = 60 * args.minutes
    with tempfile.TemporaryDirectory() as name:
        folder = (args.work or Path(name)) / "concurrent"
        model = load_model(args.model, args.threads)
        pool = pool_of(args.data, folder, model, args.seed)
        shutil.rmtree(folder / "index", ignore_errors=True)
        for left in (*folder.glob("reader-*.json"), folder / "writer.json"):  # of a run before
            left.unlink(missing_ok=True)
        (folder / "log.jsonl").write_text("")
        with Index.create(folder / "index", Recorded(pool), threads=1, settings=SETTINGS) as index:
            index.add([pool.document(0, 0)], lang="en")  # replaced or deleted like any other
            index.delete("doc0")
        del model
        rows = _together(args, folder, pool, seconds)
        written = folder / "writer.json"  # not there if the writer failed, which its row says
        told = json.loads(written.read_text())["done"] if written.exists() else {}
    facts = {"minutes": args.minutes, "readers": args.readers, "seed": args.seed, **told}
    report("concurrency", HEADER, rows, signature(load_model(args.model, 1), **facts))
    raise SystemExit(any(row[-1] for row in rows) or not all(row[HEADER.index("flat")] for row in rows))


def _together(args: argparse.Namespace, folder: Path, pool: Pool, seconds: float) -> list[list[Any]]:
    spawn = get_context("spawn")
    with server(folder / "index", 1) as at:
        asker = Asker(at.port, folder, pool, seconds, args.pause * 4, args.seed)
        made = {"writer": spawn.Process(target=write, args=(folder, seconds, 4 * args.pause, args.seed))}
        for number in range(1, args.readers + 1):
            made[f"reader-{number}"] = spawn.Process(target=read, args=(folder, seconds, args.pause, number))
        for process in made.values():
            process.start()
        asker.start()
        memory = watch({"server": at.process} | {n: p.pid for n, p in made.items() if p.pid}, seconds)
        asker.join()
        for process in made.values():
            process.join(120)
    rows = []
    for name, process in made.items():
        if process.is_alive():
            process.kill()
            process.join()
        facts = json.loads((folder / f"{name}.json").read_text()) if process.exitcode == 0 else {}
        problems = facts.get("problems", [f"ended with code {process.exitcode}"])
        problems += ["no answer"] if facts.get("answers") == 0 else []
        best = f"{facts['best'] / max(1, facts['answers']):.3f}" if "best" in facts else ""
        seen = [name, facts.get("answers", ""), facts.get("states", ""), best]
        rows.append([*seen, *quarters(facts.get("memory") or memory[name]), _peak(memory[name]), problems])
    shown = f"{asker.pages} pages, {asker.answers} REST ({asker.hits} hits)"
    asker.problems += [] if asker.pages and asker.hits else ["no page or no hit"]
    rows.append(["server", shown, "", "", *quarters(memory["server"]), _peak(memory["server"]), asker.problems])
    for row in rows:
        for problem in row[-1][:5]:
            print(f"{row[0]}: {problem}")
        row[-1] = len(row[-1])
    return rows


def _peak(samples: list[float]) -> str:
    return f"{max(samples, default=0):.0f}"


def _arguments() -> argparse.Namespace:
    made = parser(__doc__)
    made.add_argument("--minutes", type=float, default=10.0)
    made.add_argument("--readers", type=int, default=4)
    made.add_argument("--pause", type=float, default=0.1, help="seconds between two answers of a reader")
    made.add_argument("--work", type=Path, help="keep the folder `concurrent` here (default: a temporary one)")
    return made.parse_args()


if __name__ == "__main__":
    main()
