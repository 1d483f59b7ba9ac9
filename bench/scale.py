"""Measure building, storing and searching an index from ten thousand to ten million phrases of real text.

Unique English sentences of all corpora, shuffled, are encoded with the bundled model in chunks of 1,024, as an index
does it. An index of each size is made in one run. The table has, for each size, the processor seconds of the encoder
(tokenisation and forward pass) and of the whole run, and the bytes on disk. A separate process measures the time to
open the index, and to answer the first, one, and 1,000 queries (phrases of held-out sentences, 32 results). It also
measures memory, and recall against exact search. At the largest size `optimize(target_recall=...)` is run and measured
too.

Everything is stored in --work, and the next run continues there: repeat the command until it says that it is done.
Results of other settings, another model or another machine are not continued; they need another folder. A chunk is a
file with spans, vectors in 8 bits as an index stores them, and the seconds that it took. `Replay` replaces the model,
so that every sentence is encoded once, and the index has the same bytes.

    python bench/scale.py --work FOLDER --phrases 10000000 --threads 1
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import memory, milliseconds, parser, report, rerun, table_rows
from index import Clock
from numpy.typing import NDArray

from phrasemate import Document, Index, Model, load_model
from phrasemate.encode import TextPhrases
from phrasemate.evaluate.report import signature
from phrasemate.index import IndexSettings, row_codec
from phrasemate.utils.storage import atomic_file, write_text

CHUNK = IndexSettings().chunk  # sentences of a chunk
SENTENCES = 1_000_000  # sentences that are used: more than 10 million phrases need
HELD_OUT = 4_000  # the last of these sentences, which are never indexed
LEAST, MOST = 12, 600  # characters of a sentence
QUERIES, K, SINGLES, DEPTH = 1_000, 32, 200, 10
SIZES = [10_000, 31_623, 100_000, 316_228, 1_000_000, 3_162_278, 10_000_000]
HEADER = [
    *("phrases", "sentences", "encoder s", "build s", "ratio", "bytes/phrase", "open ms", "first ms", "one ms"),
    *("1000 ms", "1000 cpu ms", "recall@1", "recall@10", "memory MB", "mapped MB"),
]
# Facts that must not change while a work folder is used.
SETTLED = ("threads", "seed", "model", "phrasemate", "openvino", "faiss-cpu", "numpy", "machine")
TARGETS = {
    "open + first s": 2.0,
    "one ms": 1.0,
    "1000 ms": 55.0,
    "memory MB": 2_000.0,
    "recall@1": 0.95,
    "slope": 1.05,
    "ratio": 1.15,
}

# -- text and vectors


class Chunk(NamedTuple):
    """Encoded chunk ``number``; the phrases of text i are ``bounds[i]:bounds[i + 1]``.

    ``seconds`` are those of the clock, of the processors, and of the processors in the encoder.
    """

    number: int
    texts: list[str]
    bounds: NDArray[np.int64]
    starts: NDArray[np.int32]
    ends: NDArray[np.int32]
    scores: NDArray[np.float16]
    codes: NDArray[np.int8]  # (phrases, dim)
    seconds: NDArray[np.float64]  # (3,)


def english(data: Path) -> Iterator[str]:
    """Yield the English sentences of all corpora."""
    tables = sorted([*data.glob("parallel/en-*.tsv.gz"), *data.glob("parallel_general/en-*.tsv.gz")])
    if not tables:
        raise SystemExit(f"{data / 'parallel'}: no en-*.tsv.gz; name the folder of the corpora with --data")
    for path in [*tables, *sorted(data.glob("collections/en_*.txt.gz"))]:
        yield from (cells[0] for cells in table_rows(path))


def sentences(data: Path, work: Path, seed: int) -> list[str]:
    """Return all sentences in their order; the file is made at the first call."""
    path = work / "sentences.txt"
    if not path.exists():
        unique = {" ".join(text.split()) for text in english(data)}
        texts = sorted(text for text in unique if LEAST <= len(text) <= MOST)
        random.Random(seed).shuffle(texts)
        work.mkdir(parents=True, exist_ok=True)
        write_text(path, "".join(f"{text}\n" for text in texts[:SENTENCES]))
    return path.read_text("utf-8").split("\n")[:-1]


def encode(model: Model, texts: Sequence[str], work: Path, phrases: int, seconds: float) -> int:
    """Encode chunk after chunk until there are enough phrases or the time is up; return the number of phrases."""
    folder = work / "encoded"
    folder.mkdir(exist_ok=True)
    deadline, total, clock = time.monotonic() + seconds, 0, Clock(model)
    for number in range((len(texts) - HELD_OUT) // CHUNK):
        path = folder / f"{number:05}.npz"
        if not path.exists():
            if total >= phrases or time.monotonic() > deadline:
                break
            _encode_chunk(model, clock, texts[number * CHUNK : (number + 1) * CHUNK], path)
        with np.load(path) as saved:
            total += int(saved["bounds"][-1])
    return total


def _encode_chunk(model: Model, clock: Clock, texts: Sequence[str], path: Path) -> None:
    before, start, used = clock.used, time.perf_counter(), time.process_time()
    extracted = model.extract(texts, indexed=bool(model.longest))
    spent = [time.perf_counter() - start, time.process_time() - used, clock.used - before]
    with atomic_file(path, "wb") as file:
        np.savez(
            file,
            bounds=np.cumsum([0, *(len(item.starts) for item in extracted)]),
            starts=np.concatenate([item.starts for item in extracted]),
            ends=np.concatenate([item.ends for item in extracted]),
            scores=np.concatenate([item.scores for item in extracted]).astype(np.float16),
            codes=row_codec.quantise(np.concatenate([item.vectors for item in extracted])),
            taken=spent,
        )


def chunks(texts: Sequence[str], work: Path) -> Iterator[Chunk]:
    """Yield the chunks that have been encoded."""
    number = 0
    while (path := work / "encoded" / f"{number:05}.npz").exists():
        part = list(texts[number * CHUNK : (number + 1) * CHUNK])
        with np.load(path) as saved:
            yield Chunk(
                number, part, *(saved[name] for name in ("bounds", "starts", "ends", "scores", "codes", "taken"))
            )
        number += 1


def counts(work: Path) -> NDArray[np.int64]:
    """Return (sentences,) the number of phrases of each encoded sentence."""
    parts: list[Any] = []
    while (path := work / "encoded" / f"{len(parts):05}.npz").exists():
        with np.load(path) as saved:
            parts.append(np.diff(saved["bounds"]))
    return np.concatenate(parts)


class Replay:
    """Substitute for the model that returns the phrases of the encoded chunks.

    ``seconds``: what encoding the requested sentences took, as in `Chunk`. ``loading``: what reading them takes here,
    by the clock and by processors, which does not count as making an index.
    """

    def __init__(self, model: Model, texts: Sequence[str], work: Path) -> None:
        self.name, self.hash, self.path, self.dim = model.name, model.hash, model.path, model.dim
        self.seconds, self.loading = np.zeros(3), np.zeros(2)
        self._stream = chunks(texts, work)

    def extract(self, texts: Sequence[str], frequent: Collection[str] = (), **options: Any) -> list[TextPhrases]:
        """Return the phrases of the next sentences, which must be these texts.

        They are a whole chunk, or the beginning of the last one.
        """
        start = np.array([time.perf_counter(), time.process_time()])
        chunk = next(self._stream)
        if chunk.texts[: len(texts)] != texts:
            raise SystemExit(f"chunk {chunk.number} was encoded from other texts; delete the work folder")
        bounds = chunk.bounds[: len(texts) + 1]
        vectors = row_codec.dequantise(chunk.codes[: bounds[-1]])
        scores = chunk.scores.astype(np.float32)
        spans = [slice(*pair) for pair in pairwise(bounds.tolist())]
        extracted = [TextPhrases(chunk.starts[part], chunk.ends[part], scores[part], vectors[part]) for part in spans]
        self.seconds += chunk.seconds * (bounds[-1] / chunk.bounds[-1])
        self.loading += np.array([time.perf_counter(), time.process_time()]) - start
        return extracted


def queries(model: Model, texts: Sequence[str], work: Path, seed: int) -> NDArray[np.float32]:
    """Return (1000, dim) vectors of phrases that the model proposes, each of another held-out sentence."""
    path = work / "queries.npy"
    if not path.exists():
        draw = random.Random(seed)
        extracted = (item for item in model.extract(texts[-HELD_OUT:]) if len(item.starts))
        drawn = [item.vectors[draw.randrange(len(item.starts))] for item in islice(extracted, QUERIES)]
        with atomic_file(path, "wb") as file:
            np.save(file, np.stack(drawn))
    vectors: NDArray[np.float32] = np.load(path)
    return vectors


# -- exact answers


def truth(work: Path, last: int, queries: Any) -> NDArray[np.float32]:
    """Return (queries, 10) the best scores over the first ``last`` sentences, best first.

    They are stored, and computed from those of fewer sentences.
    """
    path = work / f"truth-{last}.npy"
    if not path.exists():
        sizes = sorted(int(file.stem.split("-")[1]) for file in work.glob("truth-*.npy"))
        first = max((count for count in sizes if count < last), default=0)
        before = np.load(work / f"truth-{first}.npy") if first else None
        with atomic_file(path, "wb") as file:
            np.save(file, best_scores(queries, _encoded(work, first, last), before))
    scores: NDArray[np.float32] = np.load(path)
    return scores


def best_scores(queries: Any, blocks: Iterable[Any], best: Any = None) -> Any:
    """Return (queries, 10) the best scores over blocks of vectors, best first; ``best`` are those of earlier blocks."""
    import faiss

    if best is None:
        best = np.full((len(queries), DEPTH), -np.inf, np.float32)
    for vectors in blocks:
        scores, _ = faiss.knn(queries, vectors, min(DEPTH, len(vectors)), metric=faiss.METRIC_INNER_PRODUCT)
        best = np.sort(np.concatenate([best, scores], axis=1), axis=1)[:, ::-1][:, :DEPTH]
    return best


def _encoded(work: Path, first: int, last: int) -> Iterator[Any]:
    """Yield the vectors of sentences ``first`` to ``last``."""
    for number in range(first // CHUNK, -(-last // CHUNK)):
        with np.load(work / "encoded" / f"{number:05}.npz") as saved:
            low, high = (int(saved["bounds"][min(max(at - number * CHUNK, 0), CHUNK)]) for at in (first, last))
            yield row_codec.dequantise(saved["codes"][low:high])


# -- growing and measuring


def grow(args: argparse.Namespace, texts: list[str], sizes: list[int], results: dict[str, Any]) -> None:
    """Make an index of each size that has not been measured, and measure it."""
    model, folder = load_model(args.model, args.threads), args.work / "index"
    ends = np.cumsum(counts(args.work))
    for size in sizes:
        if str(size) in results:
            continue
        results.pop("tuned", None)  # belongs to a smaller index
        shutil.rmtree(folder, ignore_errors=True)
        last, replay = int(np.searchsorted(ends, size)) + 1, Replay(model, texts, args.work)
        with Index.create(folder, replay, threads=args.threads, settings=IndexSettings(chunk=CHUNK)) as index:
            start = np.array([time.perf_counter(), time.process_time()])
            index.add([Document.from_texts("text", texts[:last])], lang="en")
            rest = np.array([time.perf_counter(), time.process_time()]) - start - replay.loading
            stats = index.stats()
        clock, processor, encoder = replay.seconds.tolist()
        results[str(size)] = {
            "phrases": stats.phrases,
            "sentences": stats.sentences,
            "encoder s": encoder,
            "build s": processor + rest[1],
            "build s, clock": clock + rest[0],
            "without the model s": rest[1],
            "ratio": (processor + rest[1]) / encoder,
            "bytes/phrase": sum(stats.files.values()) / stats.phrases,
            "engine": stats.engine,
            **measured(args, last),
        }
        keep(args.work, results)
        print(f"{size:,}: {results[str(size)]}", flush=True)


def tuned(args: argparse.Namespace, results: dict[str, Any]) -> None:
    """Tune the largest index to a target recall and measure it."""
    if results.get("tuned", {}).get("target") == args.target_recall:
        return
    results.pop("tuned", None)
    with Index.open(args.work / "index", threads=args.threads) as index:
        used = time.process_time()
        tuning = index.optimize(target_recall=args.target_recall, seed=args.seed)
        used = time.process_time() - used
        assert tuning is not None
        count, files = index.stats().sentences, index.stats().files
    names = ("target", "engine", "probes", "slack", "candidates", "seconds", "trials")
    facts = {name: getattr(tuning, name) for name in names} | {"cpu s": used}
    recalls = {"said recall@1": tuning.recall_at_1, "said recall@10": tuning.recall_at_10}
    sizes = {"phrases": tuning.phrases, "sentences": count, "bytes/phrase": sum(files.values()) / tuning.phrases}
    results["tuned"] = {**facts, **recalls, **sizes, **measured(args, count)}
    keep(args.work, results)
    print(f"tuned: {results['tuned']}", flush=True)


def measured(args: argparse.Namespace, last: int) -> dict[str, Any]:
    """Measure an index of the first ``last`` sentences in a separate process."""
    return rerun("--part", "measure", "--last", str(last), "--index", str(args.work / "index"))


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Open the index, ask it and compare its answers with exact search, in this process."""
    queries: Any = np.load(args.work / "queries.npy")
    before = resident()
    start = time.perf_counter()
    with Index.open(args.index, readonly=True, threads=args.threads) as index:
        opened = 1000 * (time.perf_counter() - start)
        first = milliseconds(lambda: index.search(queries[:1], K))
        for query in queries[:20]:
            index.search(query[None], K)
        alone = [milliseconds(lambda q=query: index.search(q[None], K)) for query in queries[:SINGLES]]
        index.search(queries, K)
        together = [milliseconds(lambda: index.search(queries, K)) for _ in range(7)]
        used = min(milliseconds(lambda: index.search(queries, K), time.process_time) for _ in range(3))
        scores = index.search(queries, K).scores
        after = resident()
    best = truth(args.work, args.last, queries)
    return {
        "open ms": opened,
        "first ms": first,
        "one ms": float(np.median(alone)),
        "one ms, 95th percentile": float(np.percentile(alone, 95)),
        "1000 ms": min(together),
        "1000 ms, median": float(np.median(together)),
        "1000 cpu ms": used,
        "recall@1": float((scores[:, 0] >= best[:, 0] - 1e-5).mean()),
        f"recall@{DEPTH}": float((scores[:, :DEPTH] >= best[:, -1:] - 1e-5).mean()),
        "memory MB": after["RssAnon"] - before["RssAnon"],
        "mapped MB": after["RssFile"] - before["RssFile"],
    }


def resident() -> dict[str, float]:
    """Return the resident MB of this process: its own memory, and pages of files."""
    return {name: memory(name) or 0.0 for name in ("RssAnon", "RssFile")}


def slope(results: dict[str, Any], sizes: list[int], name: str) -> float:
    """Return the slope of log(seconds) against log(phrases); NaN for a single size."""
    rows = [results[str(size)] for size in sizes]
    logs = np.log([[row["phrases"], row[name]] for row in rows])
    return float(np.polyfit(*logs.T, 1)[0]) if len(rows) > 1 else float("nan")


def table(results: dict[str, Any], sizes: list[int]) -> list[list[Any]]:
    """Return a row for each size; that of the tuned index includes the seconds of tuning."""
    rows = [results[str(size)] for size in sizes]
    if "tuned" in results:
        total = rows[-1]["build s"] + results["tuned"]["cpu s"]
        rows.append(rows[-1] | results["tuned"] | {"build s": total, "ratio": total / rows[-1]["encoder s"]})
    return [["tuned" if "target" in row else row["phrases"], *(_short(row[key]) for key in HEADER[1:])] for row in rows]


def _short(value: float) -> Any:
    return value if isinstance(value, int) else round(value, 3 if value < 10 else 1)


def keep(work: Path, results: dict[str, Any]) -> None:
    """Write the results so far, so that a stop loses at most the current measurement."""
    write_text(work / "results.json", json.dumps(results, indent=1))


def settle(args: argparse.Namespace, model: Model) -> None:
    """Refuse a work folder that was started with other settings, as its content would be taken for this run's."""
    facts = signature(model, threads=args.threads or "all", seed=args.seed)
    now, path = {name: facts[name] for name in SETTLED}, args.work / "settings.json"
    before = json.loads(path.read_text("utf-8")) if path.exists() else now
    if differing := [f"{name} {before[name]}, now {now[name]}" for name in SETTLED if before[name] != now[name]]:
        raise SystemExit(f"{args.work}: was started with {'; '.join(differing)}; choose another --work")
    args.work.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(now, indent=1))


def main() -> None:
    args = _arguments()
    if args.part == "measure":
        print(json.dumps(measure(args)))
        return
    model = load_model(args.model, args.threads)
    settle(args, model)
    texts = sentences(args.data, args.work, args.seed)
    count = encode(model, texts, args.work, args.phrases, args.seconds)
    queries(model, texts, args.work, args.seed)
    if count < args.phrases:
        print(f"{count:,} of {args.phrases:,} phrases are encoded; run it again to continue")
        raise SystemExit(3)
    if args.part == "encode":
        return
    path = args.work / "results.json"
    results = json.loads(path.read_text("utf-8")) if path.exists() else {}
    sizes = [size for size in SIZES if size <= args.phrases or str(size) in results]
    grow(args, texts, sizes, results)
    if args.target_recall:
        tuned(args, results)
    slopes = {"slope": slope(results, sizes, "build s"), "slope, clock": slope(results, sizes, "build s, clock")}
    facts = signature(model, threads=args.threads or "all", seed=args.seed, **slopes)
    tuned_for = {"target recall": results["tuned"]["target"]} if "tuned" in results else {}
    report("scale", HEADER, table(results, sizes), facts | tuned_for | {"wanted": TARGETS})


def _arguments() -> argparse.Namespace:
    options = parser(__doc__)
    options.add_argument("--work", type=Path, required=True, help="folder for vectors, index and results; kept")
    options.add_argument("--phrases", type=int, default=SIZES[-1])
    options.add_argument(
        "--seconds", type=float, default=float("inf"), help="seconds of encoding, after which the run stops"
    )
    options.add_argument("--target-recall", type=float, default=0.95, help="target of the tuned row (0: no such row)")
    options.add_argument("--part", choices=["encode", "measure"], help="run this part only")
    for name, kind in (("--last", int), ("--index", Path)):
        options.add_argument(name, type=kind, help=argparse.SUPPRESS)
    args = options.parse_args()
    if not SIZES[0] <= args.phrases <= SIZES[-1]:
        options.error(f"--phrases {args.phrases}: expected {SIZES[0]:,} to {SIZES[-1]:,}")
    return args


if __name__ == "__main__":
    main()
