"""Measure the server: its speed with one and with many users, and its errors.

The script starts ``phrasemate serve`` on an index, in a separate process. Then, over loopback:

- alone: one user after another, each with a new sentence. The user opens the page with it, clicks a phrase, and asks
  /api/v1/search for a marked phrase of another new sentence.
- together: ``--users`` users, each on its own connection, do the same for ``--seconds``, and finish their last round.
  Errors are counted separately and not timed. The anonymous memory (MB) of the servers is read before the run and in
  each quarter. Users ask without a pause, or wait for ``--pause`` seconds on average before each request.

``processor_ms`` is the processor time of the servers for each answer, which a busy machine affects least. ``memory_mb``
is the anonymous memory of all servers. ``pss_mb`` and ``rss_mb`` are those of each server (/proc/PID/smaps_rollup). A
page that n servers share counts n times in the sum of ``rss_mb``, and once in that of ``pss_mb``.

``--workers N`` starts N servers, which the users are divided among. ``--limit MS`` finds the number of users for which
the 99th percentile of all requests stays below the limit. ``--kill`` is for an index in parts: it kills the actor of
one part after a third of the time; ``silent_s`` is the longest time without an answer since then.

The sentences are the German side of the parallel corpus, each used once. The users run on the server's cores, too.

    python bench/serve.py INDEX --users 50 --seconds 60
    python bench/serve.py INDEX --workers 2 --threads 1 --limit 300 --seconds 20
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
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import numpy as np
from common import anonymous, parallel, parser, report

from phrasemate import Index
from phrasemate.evaluate.report import ModelDescription, signature
from phrasemate.index.manifest import SHARDS_JSON
from phrasemate.index.shards import ShardsFile
from phrasemate.query import marked
from phrasemate.text import words

HEADER = ["users", "request", "answers", "errors", "per s", "median ms", "p90 ms", "p99 ms", "worst ms"]
LEAST, MOST = 20, 400  # characters of a sentence
AT = re.compile(rb'name="at" value="(\d+-\d+)"')
PASSES = re.compile(r"^phrasemate_encoder_(calls|passes)_total (\S+)$", re.MULTILINE)


class Place(NamedTuple):
    """Port and process of a server."""

    port: int
    process: int

    def pages(self, name: str) -> float:
        """Return the MB of a kind of pages of the process, such as Pss."""
        lines = Path(f"/proc/{self.process}/smaps_rollup").read_text("utf-8").splitlines()
        return next(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith(f"{name}:"))


@dataclass
class Times:
    """Seconds of each kind of request, and counts of errors."""

    seconds: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    errors: Counter[str] = field(default_factory=Counter)
    ends: list[float] = field(default_factory=list)

    def p99(self) -> float:
        """Return the 99th percentile of all requests, in milliseconds."""
        return 1000 * float(np.percentile([x for values in self.seconds.values() for x in values] or [np.inf], 99))

    def silence(self, since: float) -> float:
        """Return the longest time without an answer, in seconds."""
        return float(np.diff([since, *(end for end in self.ends if end > since)]).max(initial=0))

    def rows(self, users: int, wall: float) -> list[list[Any]]:
        """Return a row of the table for each kind of request, and one for all."""
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
    """Connection of one user to the server, kept alive."""

    def __init__(self, port: int, times: Times) -> None:
        self._port, self._times = port, times
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, kind: str, target: str, body: bytes | None = None) -> bytes:
        """Send a request and return the body of the answer, whose time is recorded.

        An error is counted instead and gives an empty body.
        """
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
        self._times.ends.append(time.perf_counter())
        self._times.seconds[kind].append(self._times.ends[-1] - started)
        return answer

    async def _exchange(self, sent: bytes) -> tuple[int, bytes]:
        if self._streams is not None and self._streams[0].at_eof():  # the server closes idle connections
            self.close()
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
    """Open the page, click and search, ``rounds`` times or until the time is up; negative ``rounds`` have no limit."""
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
    """Mark the longest word of a sentence."""
    start, end = max(words(sentence), key=lambda word: word[1] - word[0])
    return marked(sentence, start, end)


async def metric(servers: Sequence[Place]) -> Counter[str]:
    """Return the servers' memory in MB, and the counts of their encoders' calls and passes."""
    metrics: Counter[Any] = Counter()
    for at in servers:
        connection = Connection(at.port, Times())
        text = (await connection.ask("metrics", "/metrics")).decode()
        connection.close()
        metrics.update({"memory": anonymous(at.process) or 0.0})
        metrics.update({name: float(value) for name, value in PASSES.findall(text)})
    return metrics


async def together(
    servers: Sequence[Place],
    users: int,
    seconds: float,
    sentences: Iterator[str],
    pause: float = 0.0,
    kill: bool = False,
) -> tuple[Times, float, dict[str, Any]]:
    """Run many users; return their times, the seconds that they took, and facts about the servers."""
    times, facts = Times(), {}
    before = await metric(servers)
    memory, used = [before["memory"]], sum(processor_time(at.process) for at in servers)
    started = time.perf_counter()
    until = started + seconds
    tasks = [
        asyncio.create_task(one_user(at.port, sentences, times, until, -1, pause))
        for at in islice(cycle(servers), users)
    ]
    kill_time = 0.0
    if kill:
        await asyncio.sleep(seconds / 3)
        os.kill(actors(servers[0].process)[0], signal.SIGKILL)
        kill_time, seconds = time.perf_counter(), seconds * 2 / 3
    for _ in range(4):
        await asyncio.sleep(seconds / 4)
        memory.append((await metric(servers))["memory"])
    await asyncio.gather(*tasks)
    wall = time.perf_counter() - started  # includes the last rounds, since their answers count
    answers = max(1, sum(map(len, times.seconds.values())))
    if kill:
        facts["silent_s"] = round(times.silence(kill_time), 2)
    facts["processor_ms"] = round(1000 * (sum(processor_time(at.process) for at in servers) - used) / answers, 1)
    after = await metric(servers)
    for name in ("Pss", "Rss"):
        facts[f"{name.lower()}_mb"] = " ".join(f"{at.pages(name):.0f}" for at in servers)
    facts["memory_mb"] = " ".join(f"{sample:.0f}" for sample in memory)
    passes = after["passes"] - before["passes"]
    facts["calls_per_pass"] = round((after["calls"] - before["calls"]) / passes, 2) if passes else 0.0
    return times, wall, facts


def processor_time(process: int) -> float:
    """Return the processor seconds of a process with all its threads."""
    return sum(map(int, stat_of(process)[11:13])) / os.sysconf("SC_CLK_TCK")


def stat_of(process: int) -> list[str]:
    """Return the fields of a process's stat file from its state on."""
    return Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(")")[2].split()


def actors(server: int) -> list[int]:
    """Return the process ids of the actors that a server has started through Ray."""
    family, processes = {server}, sorted(int(path.name) for path in Path("/proc").glob("[0-9]*"))
    pids = []
    for process in processes:
        with suppress(OSError):
            if int(stat_of(process)[1]) in family:
                family.add(process)
                if Path(f"/proc/{process}/cmdline").read_bytes().startswith(b"ray::Shard"):
                    pids.append(process)
    return pids


def most_users(
    servers: Sequence[Place], limit: float, seconds: float, sentences: Iterator[str], pause: float
) -> list[list[Any]]:
    """Find by bisection how many users keep the 99th percentile below the limit; return the rows of all runs."""
    rows: list[list[Any]] = []
    low, high, users = 0, 0, 1
    while not high or high - low > max(1, low // 10):
        times, wall, _ = asyncio.run(together(servers, users, seconds, sentences, pause))
        rows += [row for row in times.rows(users, wall) if row[1] == "all"]
        low, high = (users, high) if times.p99() <= limit and not times.errors else (low, users)
        users = (low + high) // 2 if high else 2 * users
    return rows


def german(data: Path, seed: int) -> Iterator[str]:
    """Yield sentences in random order, each once."""
    texts = {pair.other for pair in parallel(data, "de")}
    fit = sorted(text for text in texts if LEAST <= len(text) <= MOST and not set(text) & set("[]\\") and words(text))
    random.Random(seed).shuffle(fit)
    return iter(fit)


@contextmanager
def server(index: Path, threads: int | None, quick: bool = False) -> Iterator[Place]:
    """Start a server in a separate process and yield its place; stop it at the end."""
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
            process.kill()  # has no effect if the process has ended


def main() -> None:
    options = parser(__doc__)
    options.add_argument("index", type=Path)
    options.add_argument("--users", type=int, default=50)
    options.add_argument("--seconds", type=float, default=60.0)
    options.add_argument("--warm", type=float, default=20.0, help="seconds of warm-up with these users")
    options.add_argument("--pause", type=float, default=0.0, help="mean seconds of a pause before a request")
    options.add_argument("--alone", type=int, default=200, help="rounds of one user (default: %(default)s)")
    options.add_argument("--quick", action="store_true", help="skip the second look at the hits")
    options.add_argument("--workers", type=int, default=1, help="servers (default: %(default)s)")
    options.add_argument("--limit", type=float, help="limit of the 99th percentile in milliseconds")
    options.add_argument("--kill", action="store_true", help="kill the actor of a part")
    args = options.parse_args()
    random.seed(args.seed)
    sentences = german(args.data, args.seed)
    rows: list[list[Any]] = []
    facts: dict[str, Any] = {"index": args.index.name, "threads": args.threads or "all"}
    facts |= {name: getattr(args, name) for name in ("users", "seconds", "warm", "quick", "pause", "workers", "seed")}
    first = ShardsFile.read(args.index).places[0].folder if (args.index / SHARDS_JSON).exists() else args.index
    with Index.open(first, readonly=True) as index:
        model = {"": ModelDescription(index.manifest.model_name, index.manifest.model_hash)}
    with ExitStack() as stack:
        places = (server(args.index, args.threads, args.quick) for _ in range(args.workers))
        servers = [stack.enter_context(place) for place in places]
        at = servers[0]
        for place in servers:
            asyncio.run(one_user(place.port, sentences, Times(), float("inf"), 20))  # warms up
        if args.alone:
            times, started = Times(), time.perf_counter()
            asyncio.run(one_user(at.port, sentences, times, float("inf"), args.alone))
            rows += times.rows(1, time.perf_counter() - started)
        if args.limit:
            rows += most_users(servers, args.limit, args.seconds, sentences, args.pause)
        if args.users:
            if args.warm:
                asyncio.run(together(servers, args.users, args.warm, sentences, args.pause))
            times, wall, more = asyncio.run(
                together(servers, args.users, args.seconds, sentences, args.pause, args.kill)
            )
            rows += times.rows(args.users, wall)
            facts |= {**more, "errors": dict(times.errors)}
    report("serve", HEADER, rows, signature(model, **facts))


if __name__ == "__main__":
    main()
