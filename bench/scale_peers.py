"""Other engines on the vectors of bench/scale.py: plain FAISS, HNSW by hnswlib and by usearch, Lance; and ours.

Each on the first so many phrases, built in one process and kept in the work folder, then asked in another, so that what
takes an hour to build survives a stop: seconds of building, memory, one query, 1,000 at once, recall against exact
search. Where an engine has a number that trades time for recall, the smallest that reaches the target is taken (of the
list below; the last of it where none does). Those that are missing are left out, with a word:
pip install hnswlib usearch pylance
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scale_data import counts, put_array
from scale_truth import DEPTH, best_scores

from phrasemate.index import row_codec

K, SINGLES = 32, 200
KINDS = ("write s", "write cpu s")
BLOCK = 1 << 18  # vectors that are decoded, or compared exactly, at once
TARGET = 0.95  # of the peers' recall@1
DEPTHS = (32, 40, 48, 56, 64, 80, 96, 112, 128, 192, 256, 384, 512)  # candidates of a graph's search; 32 are asked for
PROBES = (2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)  # lists that Lance reads
BATCH = 100  # queries that Lance is asked at once: a thousand at once take longer, and much memory
GRAPHS = ("usearch", "hnswlib")
INSTALL = "pip install hnswlib usearch pylance"
Search = Callable[[Any], tuple[Any, Any]]  # (queries, dim) -> (queries, 32) places, scores
Tried = Iterator[tuple[str, Search]]  # the same index, asked ever more thoroughly


class Effort(NamedTuple):
    """What a run grants an engine: threads (none: all), and the neighbours that a graph weighs for each vector."""

    threads: int | None
    construction: int

    def counted(self) -> int:
        return self.threads or len(os.sched_getaffinity(0))


class Engine(NamedTuple):
    """How an engine makes its file or folder, and how it answers from it."""

    build: Callable[[Any, Path, Effort], None]
    tried: Callable[[Path, int, Effort], Tried]


def codes_of(work: Path, count: int) -> NDArray[np.int8]:
    """(count, dim) the first phrases, as an index keeps them."""
    parts, number, total = [], 0, 0
    while total < count:
        with np.load(work / "encoded" / f"{number:05}.npz") as held:
            parts.append(held["codes"])
        total, number = total + len(parts[-1]), number + 1
    return np.concatenate(parts)[:count]


def decoded(codes: NDArray[np.int8]) -> NDArray[np.float32]:
    """(count, dim) their vectors, without a second copy of all."""
    found = np.empty(codes.shape, np.float32)
    for at in range(0, len(codes), BLOCK):
        found[at : at + BLOCK] = row_codec.dequantise(codes[at : at + BLOCK])
    return found


def exact(work: Path, codes: NDArray[np.int8], asked: Any) -> NDArray[np.float32]:
    """(queries, 10) the best scores there are, best first; kept."""
    path = work / "peers" / f"best-{len(codes)}.npy"
    if not path.exists():
        blocks = (row_codec.dequantise(codes[at : at + BLOCK]) for at in range(0, len(codes), BLOCK))
        put_array(path, best_scores(asked, blocks))
    made: NDArray[np.float32] = np.load(path)
    return made


def flat_build(vectors: Any, path: Path, effort: Effort) -> None:
    import faiss

    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    faiss.write_index(index, str(path))


def flat(path: Path, dim: int, effort: Effort) -> Tried:
    import faiss

    index = faiss.read_index(str(path))
    yield "float32", lambda asked: index.search(asked, K)[::-1]


def hnsw_build(vectors: Any, path: Path, effort: Effort) -> None:
    import hnswlib

    index = hnswlib.Index(space="ip", dim=vectors.shape[1])
    index.init_index(len(vectors), M=16, ef_construction=effort.construction)
    index.set_num_threads(effort.counted())  # its own default of -1 is one thread
    index.add_items(vectors)
    index.save_index(str(path))


def hnsw(path: Path, dim: int, effort: Effort) -> Tried:
    import hnswlib

    index = hnswlib.Index(space="ip", dim=dim)
    index.load_index(str(path))
    index.set_num_threads(effort.counted())  # its own default of -1 is one thread
    for depth in DEPTHS:
        index.set_ef(depth)
        how = f"M 16, construction {effort.construction}, ef {depth}"
        yield how, lambda asked: (lambda found: (found[0], 1 - found[1]))(index.knn_query(asked, K))


def usearch_build(vectors: Any, path: Path, effort: Effort) -> None:
    from usearch.index import Index

    width, construction = vectors.shape[1], effort.construction
    index = Index(ndim=width, metric="ip", dtype="i8", connectivity=16, expansion_add=construction)
    index.add(np.arange(len(vectors)), vectors, threads=effort.threads or 0)
    index.save(str(path))


def usearch(path: Path, dim: int, effort: Effort) -> Tried:
    from usearch.index import Index

    index = Index(ndim=dim, metric="ip", dtype="i8", connectivity=16)
    index.load(str(path))
    for depth in DEPTHS:
        index.expansion_search = depth

        def ask(asked: Any) -> tuple[Any, Any]:
            found = index.search(asked, K, threads=effort.threads or 0)
            return found.keys.reshape(len(asked), -1), found.distances.reshape(len(asked), -1)

        yield f"int8, M 16, construction {effort.construction}, ef {depth}", ask


def lance_build(vectors: Any, path: Path, effort: Effort) -> None:
    import lance
    import pyarrow as pa

    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
    table = lance.write_dataset(pa.table({"vector": column}), path)
    table.create_index("vector", "IVF_RQ", metric="dot", num_partitions=max(1, len(vectors) // 4096), num_bits=1)


def lance(path: Path, dim: int, effort: Effort) -> Tried:
    import lance

    table = lance.dataset(path)
    before = np.cumsum([0, *(fragment.count_rows() for fragment in table.get_fragments())])  # rows before each
    lists = max(1, table.count_rows() // 4096)
    for probes in PROBES:

        def ask(asked: Any, probes: int = probes) -> tuple[Any, Any]:
            if len(asked) > BATCH:
                parts = (asked[at : at + BATCH] for at in range(0, len(asked), BATCH))
                return np.concatenate([ask(part, probes)[0] for part in parts]), None
            found = np.zeros((len(asked), K), np.int64)
            query = asked if len(asked) > 1 else asked[0]  # several are a batch, which says whose each row is
            near = {"column": "vector", "q": query, "k": K, "nprobes": probes, "refine_factor": 4}
            got = table.to_table(nearest=near, columns=["_distance"], with_row_id=True)
            owners = got["query_index"].to_numpy() if len(asked) > 1 else np.zeros(len(got), np.int64)
            places = got["_rowid"].to_numpy()  # a fragment and a row of it
            for at in range(len(asked)):
                own = places[owners == at]
                found[at, : len(own)] = before[own >> 32] + (own & 0xFFFFFFFF)
            return found, None

        yield f"IVF_RQ, {lists} lists, {probes} read", ask


# the quickest to build first: what is there stays there
PEERS = {
    "faiss flat": Engine(flat_build, flat),
    "lance": Engine(lance_build, lance),
    "usearch": Engine(usearch_build, usearch),
    "hnswlib": Engine(hnsw_build, hnsw),
}


def peer(args: argparse.Namespace) -> dict[str, Any]:
    """Build one engine, or ask one that is built; runs in a process of its own."""
    from scale import memory

    if args.threads:  # FAISS and Lance take no number, but see how many processors there are
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.threads])
    effort = Effort(args.threads, args.construction)
    engine, path = PEERS[args.peer], _folder(args) / args.peer.replace(" ", "-")
    spent = path.with_name(f"{path.name}.json")
    if not spent.exists():
        _remove(path)  # a half of one, of a run that was stopped
        path.parent.mkdir(parents=True, exist_ok=True)
        vectors = decoded(codes_of(args.work, args.peers))
        begun, used = time.perf_counter(), time.process_time()
        engine.build(vectors, path, effort)
        facts = {"build s": time.perf_counter() - begun, "build cpu s": time.process_time() - used}
        spent.write_text(json.dumps(facts), encoding="utf-8")
        return {}
    asked, codes = np.load(args.work / "queries.npy"), codes_of(args.work, args.peers)
    best = exact(args.work, codes, asked)
    facts = json.loads(spent.read_text(encoding="utf-8"))
    before = memory()
    for how, ask in engine.tried(path, codes.shape[1], effort):
        facts |= {"how": how, **_recalls(ask, asked, codes, best)}
        if facts["recall@1"] >= TARGET:
            break
    facts |= _times(ask, asked)
    more = {name: value - before[name] for name, value in memory().items()}
    return facts | {"memory MB": more["RssAnon"], "mapped MB": more["RssFile"]}


def _folder(args: argparse.Namespace) -> Path:
    return Path(args.work) / "peers" / f"{args.peers}-{args.construction}"


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)


def _recalls(ask: Search, asked: Any, codes: Any, best: Any) -> dict[str, float]:
    found = np.asarray(ask(asked)[0], np.int64)
    vectors = row_codec.dequantise(codes[found.ravel()]).reshape(*found.shape, -1)
    scores = np.sort(np.einsum("qd,qkd->qk", asked, vectors), axis=1)[:, ::-1]
    return {
        "recall@1": float((scores[:, 0] >= best[:, 0] - 1e-5).mean()),
        "recall@10": float((scores[:, :DEPTH] >= best[:, -1:] - 1e-5).mean()),
    }


def _times(ask: Search, asked: Any) -> dict[str, float]:
    """As `scale.measure` takes them, after a first time: as many of each, and the best of as many."""

    def spent(queries: Any, timer: Callable[[], float] = time.perf_counter) -> float:
        begun = timer()
        ask(queries)
        return 1000 * (timer() - begun)

    return {
        "one ms": float(np.median([spent(query[None]) for query in asked[:SINGLES]])),
        "1000 ms": min(spent(asked) for _ in range(7)),
        "1000 cpu ms": min(spent(asked, time.process_time) for _ in range(3)),
    }


def ours(args: argparse.Namespace, texts: list[str], results: dict[str, Any]) -> dict[str, Any]:
    """An index of the same phrases, tuned to the same recall; the largest is there already, and only asked again."""
    from scale import measured
    from scale_data import Replay

    from phrasemate import Document, Index, load_model

    last = int(np.searchsorted(np.cumsum(counts(args.work)), args.peers)) + 1
    tuned = results.get("tuned", {})
    target = wanted(args, "phrasemate")["target"]
    if (tuned.get("sentences"), tuned.get("target")) == (last, target):
        written, used = (sum(results[size][kind] for size in results if size.isdigit()) for kind in KINDS)
        spent = {"build s": written + tuned["seconds"], "build cpu s": used + tuned["cpu s"]}
        return _how(tuned) | spent | measured(args, last)
    model, folder = load_model(args.model, args.threads), args.work / "peer-index"
    shutil.rmtree(folder, ignore_errors=True)
    replay = Replay(model, texts, args.work, 0)
    with Index.create(folder, replay, threads=args.threads) as index:
        begun, used = time.perf_counter(), time.process_time()
        index.add([Document.from_texts("all", texts[:last])])
        told = index.optimize(target_recall=target, seed=args.seed)
        assert told is not None
        taken = [time.perf_counter() - begun - replay.loading, time.process_time() - used - replay.loading_processor]
    facts = {name: getattr(told, name) for name in ("engine", "probes", "slack", "candidates")}
    return _how(facts) | {"build s": taken[0], "build cpu s": taken[1], **measured(args, last, folder)}


def wanted(args: argparse.Namespace, name: str) -> dict[str, Any]:
    """The settings of an engine that the command has: what was measured with others is measured again."""
    if name == "phrasemate":
        return {"target": args.target_recall or TARGET}
    return {"construction": args.construction} if name in GRAPHS else {}


def _how(facts: dict[str, Any]) -> dict[str, Any]:
    read = f"{facts['probes']} read, slack {facts['slack']:g}, {facts['candidates']} candidates"
    return {"how": f"{facts['engine']}, {read}"}


def peers(args: argparse.Namespace, texts: list[str], results: dict[str, Any]) -> None:
    """All of them, into ``results["peers"]``; one that was measured before, as is wanted now, is not measured again."""
    from scale import keep

    found = results.setdefault("peers", {}).setdefault(str(args.peers), {})

    def lacks(name: str) -> bool:
        return not (name in found and found[name].items() >= wanted(args, name).items())

    if lacks("phrasemate"):
        found["phrasemate"] = ours(args, texts, results) | wanted(args, "phrasemate")
        keep(args.work, results)
        print("phrasemate", found["phrasemate"], flush=True)
    for name in filter(lacks, PEERS):
        found.pop(name, None)
        for stage in ("build", "ask"):
            command = [sys.executable, str(Path(__file__).with_name("scale.py")), *sys.argv[1:]]
            command += ["--part", "peer", "--peer", name]
            answer = subprocess.run(command, stdout=subprocess.PIPE, text=True)
            if answer.returncode:
                print(f"{name}: {stage} failed (code {answer.returncode}); is it installed? {INSTALL}")
                break
            facts = json.loads(answer.stdout.splitlines()[-1])
            if facts:
                found[name] = facts | wanted(args, name)
                keep(args.work, results)
                print(name, facts, flush=True)
                made = _folder(args) / name.replace(" ", "-")
                for path in (made, made.with_name(f"{made.name}.json")):
                    _remove(path)
                break
