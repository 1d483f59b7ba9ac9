"""Measure building and searching an index: speed, share of the encoder, memory, disk, and cost of the approximation.

English sentences of the parallel corpora are indexed by a separate process, so that its peak memory can be measured.
Then German sentences with a marked phrase are searched: from new processes ("cold"), and in a running one, one by one
and 1,000 at once ("warm"). Processor time is the figure that a busy machine affects least. "quick" searches skip the
second look at their hits.

"times the script" compares a search with the least program that finds anything: it encodes each phrase, searches the
FAISS file and reads the sentences of its hits. Both ask the same queries in turns; the figure is processor time.

    python bench/index.py --sentences 50000
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from compileall import compile_dir
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from common import corpora, memory, milliseconds, parallel, parser, report, rerun, seconds, write_lines

import phrasemate
from phrasemate import Index, Model, Searcher, load_model, read
from phrasemate.evaluate.report import signature
from phrasemate.index.faiss_search import read_faiss
from phrasemate.index.manifest import VECTORS_JSON, VectorsManifest
from phrasemate.query import marked, parse_query
from phrasemate.utils.machine import load_faiss

LEAST = 20  # least characters of a sentence; shorter texts are headings
SINGLE, BATCH, DEPTH = 200, 1_000, 10  # warm queries one by one and in a batch, hits compared with exact search
ROUNDS, ROUND, HITS = 12, 25, 32  # turns of search and script, queries of a turn, hits of the script


def english(data: Path, count: int, seed: int) -> list[str]:
    """Return unique English sentences of all corpora, shuffled."""
    pairs = (pair for lang in corpora(data) for pair in parallel(data, lang))
    texts = sorted({pair.english for pair in pairs if len(pair.english) >= LEAST})
    random.Random(seed).shuffle(texts)
    return texts[:count]


def german(data: Path, model: Model, count: int, seed: int) -> list[str]:
    """Return German sentences, each with one of the phrases marked that the model proposes."""
    draw = random.Random(seed)
    texts = sorted({pair.other for pair in parallel(data, "de") if len(pair.other) >= LEAST})
    draw.shuffle(texts)
    marked_texts: list[str] = []
    for text in texts:
        if spans := model.segment([text])[0]:
            start, end, _ = draw.choice(spans)
            marked_texts.append(marked(text, start, end))
        if len(marked_texts) == count:
            break
    return marked_texts


def build(args: argparse.Namespace) -> dict[str, Any]:
    """Index the sentences in this process and return the figures."""
    model = load_model(args.model, args.threads)
    clock = Clock(model)
    used = time.process_time()
    with Index.create(args.work / "index", model, threads=args.threads) as index:
        added = index.add([*read(args.work / "sentences.txt", lines="sentence")], lang="en")
        used = time.process_time() - used
        sizes = index.stats().files
    store = sum(size for name, size in sizes.items() if name.startswith("store"))
    derived = sum(size for name, size in sizes.items() if name.startswith("vectors-"))
    return {
        "sentences": added.sentences,
        "phrases": added.phrases,
        "seconds": added.seconds,
        "sentences/s": added.sentences / added.seconds,
        "phrases/s": added.phrases / added.seconds,
        "processor time, s": used,
        "  in the encoder, s": clock.used,
        "  times that of the encoder": used / clock.used,
        "share in the encoder": clock.seconds / added.seconds,
        "share in the model (and segmentation, pooling)": added.encoder_seconds / added.seconds,
        "peak memory MB": memory("VmHWM"),
        "store bytes/phrase": store / added.phrases,
        "FAISS bytes/phrase": derived / added.phrases,
    }


class Clock:
    """Clock of a model's runtime (tokenisation and forward pass); ``used`` is processor time of all threads."""

    def __init__(self, model: Model) -> None:
        self.seconds = self.used = 0.0
        self._blocks = model.runtime.blocks
        model.runtime.blocks = self._timed  # type: ignore[method-assign]

    def _timed(self, *args: Any) -> Iterator[Any]:
        blocks = self._blocks(*args)
        while True:
            begin, used = time.perf_counter(), time.process_time()
            block = next(blocks, None)
            self.seconds += time.perf_counter() - begin
            self.used += time.process_time() - used
            if block is None:
                return
            yield block


def cold(args: argparse.Namespace) -> dict[str, Any]:
    """Measure whole processes that answer one query, as a user would run them: with bytecode, as pip installs it."""
    compile_dir(Path(phrasemate.__file__).parent, quiet=1)
    query = "Die [[Bildschirmauflösung]] lässt sich in den Einstellungen ändern."
    run = "import sys; from phrasemate.cli import main; sys.argv[0] = 'phrasemate'; main()"
    command = [sys.executable, "-c", run, "search", str(args.work / "index"), query]
    command += ["--threads", str(args.threads)] if args.threads else []
    before = os.times()
    walls = sorted(seconds(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL)) for _ in range(5))
    used = sum(os.times()[2:4]) - sum(before[2:4])  # user and system time of the children
    return {
        "cold search s, best": walls[0],
        "cold search s, median": walls[2],
        "cold search s, processor time, mean": used / 5,
    }


class Script:
    """Least program that finds anything: it proposes no candidates, groups no hits and gives no confidence."""

    def __init__(self, folder: Path, model: Model, threads: int) -> None:
        vectors = VectorsManifest.read(folder / VECTORS_JSON)
        self._index, self._model, self._threads = read_faiss(folder / vectors.file), model, threads
        self._firsts = np.array([first for first, _ in vectors.runs])
        self._before = np.array([0, *accumulate(count for _, count in vectors.runs)])
        self._store = sqlite3.connect(f"file:{folder / 'store.sqlite'}?mode=ro", uri=True)

    def __call__(self, queries: Sequence[str]) -> list[list[str]]:
        load_faiss(self._threads)
        rows = self._index.search(self._model.encode([parse_query(query).phrases[0] for query in queries]), HITS)[1]
        runs = np.searchsorted(self._before, rows, "right") - 1
        return [list(map(self._sentence, line)) for line in (self._firsts[runs] + rows - self._before[runs]).tolist()]

    def _sentence(self, phrase: int) -> str:
        query = "SELECT text FROM sentences WHERE first_phrase <= ? AND phrases > 0 ORDER BY first_phrase DESC LIMIT 1"
        return str(self._store.execute(query, (phrase,)).fetchone()[0])


def beside(script: Script, search: Callable[[Sequence[str]], Any], queries: Sequence[str]) -> dict[str, float]:
    """Compare a search with the script, in processor time, one by one and all at once.

    Returns the median milliseconds per query of both, and their ratios.
    """
    systems, times = {"script": script, "search": search}, defaultdict(list)
    for turn in range(ROUNDS + 1):
        part = queries[turn * ROUND : (turn + 1) * ROUND]  # each turn has its own queries, so that no cache helps
        for name in sorted(systems, reverse=bool(turn % 2)):
            call = systems[name]
            single = sum(milliseconds(lambda q=query, ask=call: ask([q]), time.process_time) for query in part)
            batch = milliseconds(lambda ask=call, lines=part: ask(lines), time.process_time)
            if turn:  # the first turn is a warm-up
                times[name].append((single / ROUND, batch / ROUND))
    least, most = (np.median(times[name], 0) for name in ("script", "search"))
    kinds = enumerate(("one by one", f"{ROUND} at once"))
    return {
        f"{kind}: {label}": float(value[at])
        for at, kind in kinds
        for label, value in (
            ("script, ms of processor time", least),
            ("search, ms of processor time", most),
            ("times the script", most / least),
        )
    }


def warm(args: argparse.Namespace) -> dict[str, Any]:
    """Measure queries in a process that has the model and the index in memory."""
    model = load_model(args.model, args.threads)
    queries = german(args.data, model, BATCH + (ROUNDS + 1) * ROUND, args.seed)
    queries, others = queries[:BATCH], queries[BATCH:]
    vectors = model.encode([parse_query(query).phrases[0] for query in queries])
    with Index.open(args.work / "index", model, readonly=True, threads=args.threads) as index:
        full, again = Searcher(index, views=False), Searcher(index)
        for query in queries[-20:]:
            full.search(query)
            again.search(query)
        alone = each_milliseconds(full.search, queries[:SINGLE])
        viewed = each_milliseconds(again.search, queries[:SINGLE])
        batch = seconds(lambda: full.search_all(queries))
        batch_seen = seconds(lambda: again.search_all(queries))
        first, all_ten = recall(index, vectors)
        ratios = beside(Script(args.work / "index", model, args.threads or 1), again.search_all, others)
    return {
        "warm query ms, median": float(np.median(viewed)),
        "warm query ms, 95th percentile": float(np.percentile(viewed, 95)),
        "  quick, median": float(np.median(alone)),
        "  quick, 95th percentile": float(np.percentile(alone, 95)),
        f"{BATCH} queries at once, queries/s": len(queries) / batch_seen,
        "  quick, queries/s": len(queries) / batch,
        **ratios,
        "recall@1 against exact search": first,
        f"recall@{DEPTH} against exact search": all_ten,
    }


def recall(index: Index, vectors: Any) -> tuple[float, float]:
    """Return recall of the best hit and of the best ten against exact search; equal scores count as equally good."""
    from phrasemate.index.exact import scan, unpack
    from phrasemate.index.row_codec import dequantise

    def blocks() -> Iterable[tuple[Any, Any]]:
        for block in index.store.vectors():
            codes, ids, _ = unpack(block, index.store.dim)
            yield dequantise(codes), ids

    _, exact = scan(vectors, DEPTH, blocks())
    scores = index.search(vectors, DEPTH).scores
    good = scores >= exact[:, -1:] - 1e-5
    return float((scores[:, 0] >= exact[:, 0] - 1e-5).mean()), float(good.mean())


def each_milliseconds(call: Callable[[str], Any], queries: Sequence[str]) -> list[float]:
    """Return the milliseconds of each query."""
    return [milliseconds(lambda q=query: call(q)) for query in queries]


def main() -> None:
    """Print the table."""
    options = parser(__doc__)
    options.add_argument("--sentences", type=int, default=50_000)
    options.add_argument("--work", type=Path, help="keep the index here (default: a temporary folder)")
    options.add_argument("--build-only", action="store_true", help="do not search")
    options.add_argument("--part", choices=["build", "warm"], help=argparse.SUPPRESS)
    args = options.parse_args()
    if args.part:
        print(json.dumps({"build": build, "warm": warm}[args.part](args)))
        return
    with tempfile.TemporaryDirectory() as folder:
        args.work = args.work or Path(folder)
        if (args.work / "index").exists():
            options.error(f"--work {args.work}: already holds an index; choose another folder")
        write_lines(args.work / "sentences.txt", english(args.data, args.sentences, args.seed))
        work = ("--work", str(args.work))
        figures = rerun("--part", "build", *work)
        if not args.build_only:
            figures |= {**cold(args), **rerun("--part", "warm", *work)}
    facts = signature(load_model(args.model), threads=args.threads or "all", seed=args.seed)
    report("index", ["measure", "value"], list(figures.items()), facts)


if __name__ == "__main__":
    main()
