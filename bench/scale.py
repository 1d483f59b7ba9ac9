"""From ten thousand to ten million phrases of real text: what building, keeping and searching an index costs.

Sentences of all languages of the parallel corpora are encoded with the bundled model, every span of up to six words is
kept, and one index is grown to each size. At each size: seconds of encoding and of writing (all that `Index.add` does
without the model), bytes on disk, and in a process of its own the time to open, to answer the first, one, and 1,000
queries (phrases of held-out sentences, 32 results), the memory, and recall against exact search. At the largest size
`optimize(target_recall=...)` is run and measured too, and peers search the same vectors (`--peers N` of them).

Everything is kept in --work and continued there: run it again until it says that it is done. What was measured with
other settings, another model or on another machine is not continued: that takes a folder of its own.

    python bench/scale.py --work FOLDER --phrases 10000000
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from common import parser, report
from scale_data import Replay, counts, encode, put, queries, sentences
from scale_peers import peer, peers, wanted
from scale_plot import draw
from scale_truth import DEPTH, truth

from phrasemate import Document, Index, Model, load_model
from phrasemate.evaluate.report import signature
from phrasemate.index.manifest import VECTORS_JSON, VectorsManifest

SIZES = [10_000, 31_623, 100_000, 316_228, 1_000_000, 3_162_278, 10_000_000]
K, SINGLES = 32, 200
HEADER = [
    *("phrases", "sentences", "encode s", "write s", "build s", "bytes/phrase", "open ms", "first ms", "one ms"),
    *("1000 ms", "1000 cpu ms", "recall@1", "recall@10", "memory MB", "mapped MB"),
]
PEER_HEADER = [
    *("engine", "how", "build s", "build cpu s", "memory MB", "mapped MB", "one ms", "1000 ms", "1000 cpu ms"),
    *("recall@1", "recall@10"),
]
SETTLED = ("threads", "seed", "model", "phrasemate", "openvino", "faiss-cpu", "numpy", "machine")  # of a work folder
TARGETS = {"open + first s": 2.0, "one ms": 1.0, "1000 ms": 55.0, "memory MB": 2_000.0, "recall@1": 0.95, "slope": 1.05}


def grow(args: argparse.Namespace, texts: list[str], sizes: list[int], results: dict[str, Any]) -> None:
    """Bring the index to each size that has not been measured, and measure it."""
    model, folder = load_model(args.model, args.threads), args.work / "index"
    ends = np.cumsum(counts(args.work))
    for size in sizes:
        if str(size) in results:
            continue
        made = VectorsManifest.found(folder / VECTORS_JSON)
        if made is not None and made.tuned:
            raise SystemExit(f"{folder}: was tuned, so {size:,} phrases would be, too; choose another --work")
        results.pop("tuned", None)  # of an index so small that it was searched exactly
        with _opened(folder, model, args.threads) as index:
            first = index.stats().sentences
            last = int(np.searchsorted(ends, size)) + 1
            replay = Replay(model, texts, args.work, first)
            index._model = replay  # it is the bundled model's own work, read instead of done
            spent = _Spent(results, size, replay, args.work)
            index.add([Document.from_texts(f"{first}-{last}", texts[first:last])], progress=spent.keep)
            spent.keep(None)  # with what came after the last chunk
            stats = index.stats()
        seconds = results["unfinished"]["spent"]
        results[str(size)] = {
            "phrases": stats.phrases,
            "sentences": stats.sentences,
            **seconds,
            "bytes/phrase": sum(stats.files.values()) / stats.phrases,
            "engine": stats.engine,
            **measured(args, last),
        }
        del results["unfinished"]
        keep(args.work, results)
        print(f"{size:,}: {results[str(size)]}", flush=True)


class _Spent:
    """Seconds of growing to a size, kept after every chunk: an interrupted run goes on from there."""

    def __init__(self, results: dict[str, Any], size: int, replay: Replay, work: Path) -> None:
        self._results, self._size, self._replay, self._work = results, size, replay, work
        before = results.get("unfinished", {})
        self._before: dict[str, float] = before["spent"] if before.get("size") == size else {}
        self._begun, self._used = time.perf_counter(), time.process_time()

    def now(self) -> dict[str, float]:
        replay = self._replay
        spent = {
            "encode s": replay.seconds,
            "encode cpu s": replay.processor,
            "write s": time.perf_counter() - self._begun - replay.loading,
            "write cpu s": time.process_time() - self._used - replay.loading_processor,
        }
        return {name: value + self._before.get(name, 0.0) for name, value in spent.items()}

    def keep(self, _: Any) -> None:
        self._results["unfinished"] = {"size": self._size, "spent": self.now()}
        keep(self._work, self._results)


def _opened(folder: Path, model: Any, threads: int | None) -> Index:
    if (folder / "index.json").exists():
        return Index.open(folder, model, threads=threads)
    return Index.create(folder, model, threads=threads)


def tuned(args: argparse.Namespace, results: dict[str, Any]) -> None:
    """The largest size once more, with a target recall."""
    if results.get("tuned", {}).get("target") == args.target_recall:
        return
    results.pop("tuned", None)
    with Index.open(args.work / "index", threads=args.threads) as index:
        used = time.process_time()
        told = index.optimize(target_recall=args.target_recall, seed=args.seed)
        used = time.process_time() - used
        assert told is not None
        count, files = index.stats().sentences, index.stats().files
    names = ("target", "engine", "probes", "slack", "candidates", "seconds", "trials")
    facts = {name: getattr(told, name) for name in names} | {"cpu s": used}
    said = {"said recall@1": told.recall_at_1, "said recall@10": told.recall_at_10}
    sizes = {"phrases": told.phrases, "sentences": count, "bytes/phrase": sum(files.values()) / told.phrases}
    results["tuned"] = {**facts, **said, **sizes, **measured(args, count)}
    keep(args.work, results)
    print(f"tuned: {results['tuned']}", flush=True)


def measured(args: argparse.Namespace, last: int, folder: Path | None = None) -> dict[str, Any]:
    """What a process of its own finds in an index of the first ``last`` sentences."""
    where = ["--index", str(folder or args.work / "index")]
    command = [sys.executable, __file__, *sys.argv[1:], "--part", "measure", "--last", str(last), *where]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    facts: dict[str, Any] = json.loads(answer)
    return facts


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Open, ask, compare; runs in a process of its own."""
    asked: Any = np.load(args.work / "queries.npy")
    before = memory()
    opening = clock()
    with Index.open(args.index, readonly=True, threads=args.threads) as index:
        opened = opening()
        first = _milliseconds(lambda: index.search(asked[:1], K))
        for query in asked[:20]:
            index.search(query[None], K)
        alone = [_milliseconds(lambda q=query: index.search(q[None], K)) for query in asked[:SINGLES]]
        index.search(asked, K)
        together = [_milliseconds(lambda: index.search(asked, K)) for _ in range(7)]
        used = min(_milliseconds(lambda: index.search(asked, K), time.process_time) for _ in range(3))
        found = index.search(asked, K).scores
        after = memory()
    best = truth(args.work, args.last, asked)
    return {
        "open ms": opened,
        "first ms": first,
        "one ms": float(np.median(alone)),
        "one ms, 95th percentile": float(np.percentile(alone, 95)),
        "1000 ms": min(together),
        "1000 ms, median": float(np.median(together)),
        "1000 cpu ms": used,
        "recall@1": float((found[:, 0] >= best[:, 0] - 1e-5).mean()),
        f"recall@{DEPTH}": float((found[:, :DEPTH] >= best[:, -1:] - 1e-5).mean()),
        "memory MB": after["RssAnon"] - before["RssAnon"],
        "mapped MB": after["RssFile"] - before["RssFile"],
    }


def memory() -> dict[str, float]:
    """Resident MB of this process: what is its own, and what are pages of files."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return {line.split(":")[0]: int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("Rss")}


def clock() -> Callable[[], float]:
    begun = time.perf_counter()
    return lambda: 1000 * (time.perf_counter() - begun)


def _milliseconds(call: Callable[[], Any], timer: Callable[[], float] = time.perf_counter) -> float:
    begun = timer()
    call()
    return 1000 * (timer() - begun)


def slope(results: dict[str, Any], sizes: list[int], names: tuple[str, str]) -> float:
    """Of log(seconds until N) against log(N); not a number for a single N."""
    if len(sizes) < 2:
        return float("nan")
    rows = [results[str(size)] for size in sizes]
    seconds = np.cumsum([row[names[0]] + row[names[1]] for row in rows])
    return float(np.polyfit(np.log([row["phrases"] for row in rows]), np.log(seconds), 1)[0])


def table(results: dict[str, Any], sizes: list[int]) -> list[list[Any]]:
    """A row for each size; seconds of building add up."""
    rows, done = [], {"encode s": 0.0, "write s": 0.0}
    for name in [*map(str, sizes), *(["tuned"] if "tuned" in results else [])]:
        facts = dict(results[name])
        for kind in done:
            done[kind] += facts.get(kind, facts["seconds"] if kind == "write s" and name == "tuned" else 0.0)
            facts[kind] = done[kind]
        facts["build s"] = sum(done.values())
        rows.append([name if name == "tuned" else facts["phrases"], *(_short(facts[key]) for key in HEADER[1:])])
    return rows


def _short(value: float) -> Any:
    return value if isinstance(value, int) else round(value, 3 if value < 10 else 1)


def keep(work: Path, results: dict[str, Any]) -> None:
    """Write what was measured until now; a stop loses at most what was being measured."""
    put(work / "results.json", json.dumps(results, indent=1).encode())


def settle(args: argparse.Namespace, model: Model) -> None:
    """Refuse a work folder that was begun with other settings: what it holds would be taken for this run's."""
    facts = signature(model, threads=args.threads or "all", seed=args.seed)
    now, path = {name: facts[name] for name in SETTLED}, args.work / "settings.json"
    before = json.loads(path.read_text("utf-8")) if path.exists() else now
    if differing := [f"{name} {before[name]}, now {now[name]}" for name in SETTLED if before[name] != now[name]]:
        raise SystemExit(f"{args.work}: was begun with {'; '.join(differing)}; choose another --work")
    args.work.mkdir(parents=True, exist_ok=True)
    put(path, json.dumps(now, indent=1).encode())


def main() -> None:
    args = _arguments()
    if args.part in ("measure", "peer"):
        print(json.dumps(measure(args) if args.part == "measure" else peer(args)))
        return
    model = load_model(args.model, args.threads)
    settle(args, model)
    texts = sentences(args.data, args.work, args.seed)
    done = encode(model, texts, args.work, args.phrases, args.seconds)
    queries(model, texts, args.work, args.seed)
    if done < args.phrases:
        print(f"{done:,} of {args.phrases:,} phrases are encoded; run it again to go on")
        raise SystemExit(3)
    if args.part == "encode":
        return
    path = args.work / "results.json"
    results = json.loads(path.read_text("utf-8")) if path.exists() else {}
    sizes = [size for size in SIZES if size <= args.phrases or str(size) in results]
    grow(args, texts, sizes, results)
    if args.target_recall:
        tuned(args, results)
    if args.peers:
        peers(args, texts, results)
    slopes = {
        "slope": slope(results, sizes, ("encode s", "write s")),
        "slope, processor": slope(results, sizes, ("encode cpu s", "write cpu s")),
    }
    facts = signature(model, threads=args.threads or "all", seed=args.seed, **slopes)
    if args.peers:
        found = results["peers"][str(args.peers)]
        each = [[name, *(one.get(key, "") for key in PEER_HEADER[1:])] for name, one in found.items()]
        asked = {"phrases": args.peers, **wanted(args, "phrasemate")}
        report(f"scale_peers_{args.peers}", PEER_HEADER, each, facts | asked)
    tuned_for = {"target recall": results["tuned"]["target"]} if "tuned" in results else {}
    report("scale", HEADER, table(results, sizes), facts | tuned_for | {"wanted": TARGETS})
    if args.plot:
        draw(results, sizes, slopes["slope"], args.plot)


def _arguments() -> argparse.Namespace:
    made = parser(__doc__)
    made.add_argument("--work", type=Path, required=True, help="folder for vectors, index and results; kept")
    made.add_argument("--phrases", type=int, default=SIZES[-1])
    made.add_argument("--seconds", type=float, default=float("inf"), help="of encoding; then stop, to be continued")
    made.add_argument("--target-recall", type=float, default=0.95, help="of the tuned row (0: none)")
    made.add_argument("--peers", type=int, default=0, help="phrases that the peers search (default: no peers)")
    made.add_argument("--construction", type=int, default=100, help="breadth with which graphs of peers are built")
    made.add_argument("--plot", type=Path, help="write this SVG")
    made.add_argument("--part", choices=["encode", "measure", "peer"], help="only this")
    for name, kind in (("--last", int), ("--index", Path), ("--peer", str)):
        made.add_argument(name, type=kind, help=argparse.SUPPRESS)
    args = made.parse_args()
    if not SIZES[0] <= args.phrases <= SIZES[-1]:
        made.error(f"--phrases {args.phrases}: expected {SIZES[0]:,} to {SIZES[-1]:,}")
    if not 0 <= args.peers <= args.phrases:
        made.error(f"--peers {args.peers}: expected no more than --phrases, {args.phrases:,}")
    return args


if __name__ == "__main__":
    main()
