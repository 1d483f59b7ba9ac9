"""How quick the server is, alone and with many users, and whether it does what its OpenAPI description says.

Starts ``phrasemate serve`` on an index, in a process of its own. Then, over loopback:

- alone: one user after another, each with a sentence that nobody has asked about: opens the page with it, clicks a
  phrase, and asks /api/v1/search for a marked phrase of yet another sentence. Median and 99th percentile of each.
- together: ``--users`` users, each on its own connection, do the same for ``--seconds``, and finish their last round;
  what goes wrong is counted apart and not timed, and the server's memory (anonymous, in MB) is read before and in each
  quarter. They ask without a pause, or think for ``--pause`` seconds before each request, on average.

``processor_ms``: of the server for each answer, which a busy machine inflates least. ``mapped_mb``: of its files, which
all servers on an index share.

Sentences are the German side of Europarl and Tatoeba, each used once; the users run on the server's cores, too.

    python bench/serve.py INDEX --users 50 --seconds 60
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import numpy as np
from common import anonymous, parallel, parser, report
from common import memory as memory_of

from phrasemate import Index
from phrasemate.evaluate.report import Named, signature
from phrasemate.query import marked
from phrasemate.text import words

HEADER = ["users", "request", "answers", "errors", "per s", "median ms", "p90 ms", "p99 ms", "worst ms"]
LEAST, MOST = 20, 400  # characters of a sentence
AT = re.compile(rb'name="at" value="(\d+-\d+)"')
PASSES = re.compile(r"^phrasemate_encoder_(calls|passes)_total (\S+)$", re.MULTILINE)


class Place(NamedTuple):
    """Where a server is."""

    port: int
    process: int


@dataclass
class Times:
    """Seconds of each kind of request, and what went wrong."""

    seconds: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    errors: Counter[str] = field(default_factory=Counter)

    def rows(self, users: int, wall: float) -> list[list[Any]]:
        wrongly = [name.split(":")[0] for name in self.errors]
        times = {kind: self.seconds.get(kind, []) for kind in dict.fromkeys([*self.seconds, *wrongly])}
        times["all"] = [x for values in self.seconds.values() for x in values]
        rows = []
        for kind in times:
            wrong = sum(n for name, n in self.errors.items() if kind in ("all", name.split(":")[0]))
            percentiles = [f"{ms:.0f}" for ms in 1000 * np.percentile(times[kind] or [np.nan], [50, 90, 99, 100])]
            rows.append([users, kind, len(times[kind]), wrong, f"{len(times[kind]) / wall:.1f}", *percentiles])
        return rows


class Connection:
    """One user's connection to the server, kept alive."""

    def __init__(self, port: int, times: Times) -> None:
        self._port, self._times = port, times
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, kind: str, target: str, body: bytes | None = None) -> bytes:
        """The body of the answer, which is timed; empty if something went wrong, which is counted."""
        method = "GET" if body is None else "POST"
        head = f"{method} {target} HTTP/1.1\r\nHost: localhost\r\n"
        if body is not None:
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        started = time.perf_counter()
        try:
            status, answer = await asyncio.wait_for(self._exchange(head.encode() + b"\r\n" + (body or b"")), 30)
        except (OSError, asyncio.IncompleteReadError, TimeoutError, ValueError) as error:
            self._times.errors[f"{kind}: {type(error).__name__}"] += 1
            self.close()
            return b""
        if status != 200:
            self._times.errors[f"{kind}: {status}"] += 1
            return b""
        self._times.seconds[kind].append(time.perf_counter() - started)
        return answer

    async def _exchange(self, sent: bytes) -> tuple[int, bytes]:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 20)
        reader, writer = self._streams
        writer.write(sent)
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        assert length is not None, head
        return int(head.split()[1]), await reader.readexactly(int(length[1]))

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def one_user(
    port: int, sentences: Iterator[str], times: Times, until: float, rounds: int, pause: float = 0.0
) -> None:
    """Page, click, search, again and again."""
    connection = Connection(port, times)

    async def think() -> None:
        if pause:
            await asyncio.sleep(random.expovariate(1 / pause))

    while rounds and time.perf_counter() < until:
        rounds -= 1
        text = quote(next(sentences))
        await think()
        places = AT.findall(await connection.ask("page", f"/?q={text}"))
        await think()
        if places:
            await connection.ask("click", f"/?q={text}&at={random.choice(places).decode()}")
            await think()
        body = json.dumps({"query": with_marks(next(sentences))}).encode()
        await connection.ask("search", "/api/v1/search", body)
    connection.close()


def with_marks(sentence: str) -> str:
    """The longest word in [[ ]]."""
    start, end = max(words(sentence), key=lambda word: word[1] - word[0])
    return marked(sentence, start, end)


async def metric(at: Place) -> dict[str, float]:
    """The server's memory in MB, and how often its encoder was asked."""
    connection = Connection(at.port, Times())
    text = (await connection.ask("metrics", "/metrics")).decode()
    connection.close()
    memory = anonymous(at.process)
    assert memory is not None
    return {"memory": memory, **{name: float(value) for name, value in PASSES.findall(text)}}


async def together(
    at: Place, users: int, seconds: float, sentences: Iterator[str], pause: float = 0.0
) -> tuple[Times, float, dict[str, Any]]:
    """What users found, the seconds that they took, and what the server tells of itself."""
    times, facts = Times(), {}
    before = await metric(at)
    memory, used = [before["memory"]], processor_time(at.process)
    started = time.perf_counter()
    until = started + seconds
    tasks = [asyncio.create_task(one_user(at.port, sentences, times, until, -1, pause)) for _ in range(users)]
    for _ in range(4):
        await asyncio.sleep(seconds / 4)
        memory.append((await metric(at))["memory"])
    await asyncio.gather(*tasks)
    wall = time.perf_counter() - started  # the last rounds, too, whose answers count
    answers = max(1, sum(map(len, times.seconds.values())))
    facts["processor_ms"] = round(1000 * (processor_time(at.process) - used) / answers, 1)
    after = await metric(at)
    facts["mapped_mb"] = round(memory_of("RssFile", at.process) or 0)
    facts["memory_mb"] = " ".join(f"{sample:.0f}" for sample in memory)
    passes = after["passes"] - before["passes"]
    facts["calls_per_pass"] = round((after["calls"] - before["calls"]) / passes, 2) if passes else 0.0
    return times, wall, facts


def processor_time(process: int) -> float:
    """Seconds that a process has computed, all its threads together."""
    fields = Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def german(data: Path, seed: int) -> Iterator[str]:
    """Sentences in random order, each once."""
    texts = {pair.other for pair in parallel(data, "de")}
    fit = sorted(text for text in texts if LEAST <= len(text) <= MOST and not set(text) & set("[]\\") and words(text))
    random.Random(seed).shuffle(fit)
    return iter(fit)


@contextmanager
def server(index: Path, threads: int | None, quick: bool = False) -> Iterator[Place]:
    """A server of its own."""
    program = "from phrasemate.cli import main; main()"
    command = [sys.executable, "-c", program, "serve", str(index), "--port", "0", "--json"]
    command += ["--quick"] if quick else []
    if threads:
        command += ["--threads", str(threads)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        url = urlsplit(json.loads(process.stdout.readline())["url"])
        assert url.port is not None
        yield Place(url.port, process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        finally:
            process.kill()  # nothing, where it has ended


def main() -> None:
    options = parser(__doc__)
    options.add_argument("index", type=Path)
    options.add_argument("--users", type=int, default=50)
    options.add_argument("--seconds", type=float, default=60.0)
    options.add_argument("--warm", type=float, default=20.0, help="seconds of them before that, which do not count")
    options.add_argument("--pause", type=float, default=0.0, help="seconds of thought before a request, on average")
    options.add_argument("--alone", type=int, default=200, help="rounds of one user (default: %(default)s)")
    options.add_argument("--quick", action="store_true", help="searches do not look at their hits again")
    args = options.parse_args()
    random.seed(args.seed)
    sentences = german(args.data, args.seed)
    rows: list[list[Any]] = []
    facts: dict[str, Any] = {"index": args.index.name, "threads": args.threads or "all"}
    facts |= {name: getattr(args, name) for name in ("users", "seconds", "warm", "quick", "pause", "seed")}
    with Index.open(args.index, readonly=True) as index:
        model = {"": Named(index.manifest.model_name, index.manifest.model_hash)}
    with server(args.index, args.threads, args.quick) as at:
        asyncio.run(one_user(at.port, sentences, Times(), float("inf"), 20))  # warms up
        if args.alone:
            times, started = Times(), time.perf_counter()
            asyncio.run(one_user(at.port, sentences, times, float("inf"), args.alone))
            rows += times.rows(1, time.perf_counter() - started)
        if args.users:
            if args.warm:
                asyncio.run(together(at, args.users, args.warm, sentences, args.pause))
            times, wall, more = asyncio.run(together(at, args.users, args.seconds, sentences, args.pause))
            rows += times.rows(args.users, wall)
            facts |= {**more, "errors": dict(times.errors)}
    report("serve", HEADER, rows, signature(model, **facts))


if __name__ == "__main__":
    main()
