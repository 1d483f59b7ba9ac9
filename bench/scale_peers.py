"""Other engines on the vectors of bench/scale.py: plain FAISS, HNSW by hnswlib and by usearch, Lance; and ours.

Each in a process of its own, on the first so many phrases: seconds of building, memory, one query, 1,000 at once,
recall against exact search. Where an engine has a number that trades time for recall, the smallest that reaches the
target is taken. Those that are missing are left out, with a word: pip install hnswlib usearch pylance
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scale_data import counts

from phrasemate.index import rows

__all__ = ["PEERS", "peer", "peers"]

K, DEPTH, SINGLES = 32, 10, 200
Search = Callable[[Any], tuple[Any, Any]]  # (queries, dim) -> (queries, 32) places, scores
Tried = Iterator[tuple[str, Search]]  # the same index, asked ever more thoroughly


def vectors_of(work: Path, count: int) -> NDArray[np.float32]:
    """(count, dim) the first phrases."""
    parts, number, total = [], 0, 0
    while total < count:
        with np.load(work / "encoded" / f"{number:05}.npz") as held:
            parts.append(held["codes"])
        total, number = total + len(parts[-1]), number + 1
    return rows.dequantise(np.concatenate(parts)[:count])


def flat(vectors: Any, threads: int | None) -> Tried:
    import faiss

    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    yield "float32", lambda asked: index.search(asked, K)[::-1]


def hnsw(vectors: Any, threads: int | None) -> Tried:
    import hnswlib

    index = hnswlib.Index(space="ip", dim=vectors.shape[1])
    index.init_index(len(vectors), M=16, ef_construction=100)
    index.set_num_threads(threads or -1)
    index.add_items(vectors)
    for depth in (32, 64, 128, 256, 512):
        index.set_ef(depth)
        yield f"M 16, ef {depth}", lambda asked: (lambda found: (found[0], 1 - found[1]))(index.knn_query(asked, K))


def usearch(vectors: Any, threads: int | None) -> Tried:
    from usearch.index import Index

    index = Index(ndim=vectors.shape[1], metric="ip", dtype="i8", connectivity=16, expansion_add=100)
    index.add(np.arange(len(vectors)), vectors, threads=threads or 0)
    for depth in (32, 64, 128, 256, 512):
        index.expansion_search = depth

        def ask(asked: Any) -> tuple[Any, Any]:
            found = index.search(asked, K, threads=threads or 0)
            return found.keys.reshape(len(asked), -1), found.distances.reshape(len(asked), -1)

        yield f"int8, M 16, ef {depth}", ask


def lance(vectors: Any, threads: int | None) -> Tried:
    import lance
    import pyarrow as pa

    with tempfile.TemporaryDirectory() as folder:
        column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
        table = lance.write_dataset(pa.table({"vector": column}), folder)
        lists = max(1, len(vectors) // 4096)
        table.create_index("vector", "IVF_RQ", metric="dot", num_partitions=lists, num_bits=1)
        for probes in (16, 32, 64):

            def ask(asked: Any, probes: int = probes) -> tuple[Any, Any]:
                found = np.zeros((len(asked), K), np.int64)
                for at, query in enumerate(asked):
                    near = {"column": "vector", "q": query, "k": K, "nprobes": probes, "refine_factor": 4}
                    got = table.to_table(nearest=near, columns=["_distance"], with_row_id=True)
                    found[at, : len(got)] = got["_rowid"].to_numpy()
                return found, None

            yield f"IVF_RQ, {lists} lists, {probes} read", ask


PEERS = {"faiss flat": flat, "hnswlib": hnsw, "usearch": usearch, "lance": lance}


def peer(args: argparse.Namespace) -> dict[str, Any]:
    """Build and ask one engine; runs in a process of its own."""
    import faiss
    from scale import memory

    vectors, asked = vectors_of(args.work, args.peers), np.load(args.work / "queries.npy")
    best, _ = faiss.knn(asked, vectors, DEPTH, metric=faiss.METRIC_INNER_PRODUCT)
    before, begun, used = memory()["RssAnon"], time.perf_counter(), time.process_time()
    facts: dict[str, Any] = {}
    for how, ask in PEERS[args.peer](vectors, args.threads):
        facts = facts or {
            "build s": time.perf_counter() - begun,
            "build cpu s": time.process_time() - used,
            "memory MB": memory()["RssAnon"] - before,
        }
        facts |= {"how": how, **_asked(ask, asked, vectors, best)}
        if facts["recall@1"] >= args.target_recall:
            break
    return facts


def _asked(ask: Search, asked: Any, vectors: Any, best: Any) -> dict[str, float]:
    def seconds(queries: Any, timer: Callable[[], float] = time.perf_counter) -> float:
        begun = timer()
        ask(queries)
        return 1000 * (timer() - begun)

    found = np.asarray(ask(asked)[0], np.int64)
    scores = np.sort(np.einsum("qd,qkd->qk", asked, vectors[found]), axis=1)[:, ::-1]
    return {
        "one ms": float(np.median([seconds(query[None]) for query in asked[:SINGLES]])),
        "1000 ms": min(seconds(asked) for _ in range(3)),
        "1000 cpu ms": seconds(asked, time.process_time),
        "recall@1": float((scores[:, 0] >= best[:, 0] - 1e-5).mean()),
        "recall@10": float((scores[:, :DEPTH] >= best[:, -1:] - 1e-5).mean()),
    }


def ours(args: argparse.Namespace, texts: list[str]) -> dict[str, Any]:
    """An index of the same phrases, tuned to the same recall."""
    from scale import measured
    from scale_data import Replay

    from phrasemate import Document, Index, load_model

    model, last = (
        load_model(args.model, args.threads),
        int(np.searchsorted(np.cumsum(counts(args.work)), args.peers)) + 1,
    )
    folder = args.work / "peer-index"
    shutil.rmtree(folder, ignore_errors=True)
    replay = Replay(model, texts, args.work, 0)
    with Index.create(folder, replay, threads=args.threads) as index:
        begun, used = time.perf_counter(), time.process_time()
        index.add([Document.from_texts("all", texts[:last])])
        told = index.optimize(target_recall=args.target_recall, seed=args.seed)
        assert told is not None
        spent = [time.perf_counter() - begun - replay.loading, time.process_time() - used - replay.loading_processor]
    how = f"{told.engine}, {told.probes} read, slack {told.slack:g}, {told.candidates} candidates"
    return {"how": how, "build s": spent[0], "build cpu s": spent[1], **measured(args, last, folder)}


def peers(args: argparse.Namespace, texts: list[str], results: dict[str, Any]) -> None:
    """All of them, into ``results["peers"]``; one that was measured before is not measured again."""
    found = results.setdefault("peers", {}).setdefault(str(args.peers), {})
    if "phrasemate" not in found:
        found["phrasemate"] = ours(args, texts)
        print("phrasemate", found["phrasemate"], flush=True)
    for name in PEERS:
        if name in found:
            continue
        command = [
            sys.executable,
            str(Path(__file__).with_name("scale.py")),
            *sys.argv[1:],
            "--part",
            "peer",
            "--peer",
            name,
        ]
        answer = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if answer.returncode:
            print(f"{name}: left out (code {answer.returncode}); is it installed? pip install hnswlib usearch pylance")
            continue
        found[name] = json.loads(answer.stdout.splitlines()[-1])
        print(name, found[name], flush=True)
