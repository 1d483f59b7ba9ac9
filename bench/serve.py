"""How quick the server is, alone and with many users, and whether it does what its OpenAPI description says.

Starts ``phrasemate serve`` on an index, in a process of its own. Then, over loopback:

- alone: one user after another, each with a sentence that nobody has asked about: opens the page with it, clicks a
  phrase, and asks /api/v1/search for a marked phrase of yet another sentence. Median and 99th percentile of each.
- together: ``--users`` users, each on its own connection, do the same for ``--seconds``, and finish their last round;
  what goes wrong is counted apart and not timed, and the server's memory (anonymous, in MB) is read before and in each
  quarter. They ask without a pause, or think for ``--pause`` seconds before each request, on average.

``processor_ms``: of the servers for each answer, which a busy machine inflates least. ``memory_mb``: anonymous memory
of all. ``pss_mb`` and ``rss_mb`` of each server (/proc/PID/smaps_rollup): a page that n of them share counts n times in
the second, and once in the sum of the first.

``--workers N`` starts as many servers, and users take turns between them. ``--limit MS`` looks for the number of users
with whom the 99th percentile of all requests stays below. ``--kill`` is for an index in parts: kills the actor of one
after a third of the time; ``silent_s`` is the longest time without an answer since.

Sentences are the German side of Europarl and Tatoeba, each used once; the users run on the server's cores, too.

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
    """Where a server is."""

    port: int
    process: int

    def pages(self, name: str) -> float:
        """MB of a kind of its pages, such as Pss."""
        lines = Path(f"/proc/{self.process}/smaps_rollup").read_text("utf-8").splitlines()
        return next(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith(f"{name}:"))


@dataclass
class Times:
    """Seconds of each kind of request, and what went wrong."""

    seconds: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    errors: Counter[str] = field(default_factory=Counter)
    ends: list[float] = field(default_factory=list)

    def p99(self) -> float:
        return 1000 * float(np.percentile([x for values in self.seconds.values() for x in values] or [np.inf], 99))

    def silence(self, since: float) -> float:
        """The longest time without an answer."""
        return float(np.diff([since, *(end for end in self.ends if end > since)]).max(initial=0))

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
        self._times.ends.append(time.perf_counter())
        self._times.seconds[kind].append(self._times.ends[-1] - started)
        return answer

    async def _exchange(self, sent: bytes) -> tuple[int, bytes]:
        if self._streams is not None and self._streams[0].at_eof():  # the server closes a connection that is idle
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


async def metric(servers: Sequence[Place]) -> Counter[str]:
    """The servers' memory in MB, and how often their encoders were asked."""
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
    """What users found, the seconds that they took, and what the servers tell of themselves."""
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
    wall = time.perf_counter() - started  # the last rounds, too, whose answers count
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
    """Seconds that a process has computed, all its threads together."""
    return sum(map(int, stat_of(process)[11:13])) / os.sysconf("SC_CLK_TCK")


def stat_of(process: int) -> list[str]:
    """The fields of a process from its state on."""
    return Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(")")[2].split()


def actors(server: int) -> list[int]:
    """The actors that a server has started through Ray."""
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
    """Rows of the runs with ever more users, until the 99th percentile is above the limit, and then between the two."""
    rows: list[list[Any]] = []
    low, high, users = 0, 0, 1
    while not high or high - low > max(1, low // 10):
        times, wall, _ = asyncio.run(together(servers, users, seconds, sentences, pause))
        rows += [row for row in times.rows(users, wall) if row[1] == "all"]
        low, high = (users, high) if times.p99() <= limit and not times.errors else (low, users)
        users = (low + high) // 2 if high else 2 * users
    return rows


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
    options.add_argument("--workers", type=int, default=1, help="servers (default: %(default)s)")
    options.add_argument("--limit", type=float, help="milliseconds of the 99th percentile to look for")
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
