"""What an index of Lance tables costs a unit: encoding, writing, bytes, the vector index, a query. For bench/plan.py.

Processor seconds of this process are counted, which a busy machine inflates least. ``encode`` reads, cuts, encodes and
commits English sentences of the parallel corpora as a worker does; ``tables`` writes all phrases of an index of one
machine (``--index``) to tables, without the encoder; ``search`` builds Lance's index on these tables with several
numbers of lists, and asks for vectors of the index with a little noise.

    python bench/cluster.py encode --sentences 4096
    python bench/cluster.py tables --index IDX --work DIR
    python bench/cluster.py search --work DIR --lists 64 256 1024
    python bench/cluster.py ray --sentences 3072

``ray`` makes the same index twice, by this process with one thread and by two workers of a Ray cluster that it starts,
and compares all rows.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import OUT, parser, report
from index import english

from phrasemate import Index, load_model, read
from phrasemate.encode import Extracted
from phrasemate.evaluate.report import signature
from phrasemate.index import Settings
from phrasemate.index.exact import scan
from phrasemate.index.lance import shard as making
from phrasemate.index.lance.commit import Writer, create
from phrasemate.index.lance.index import ClusterIndex
from phrasemate.index.lance.optimize import KIND
from phrasemate.index.lance.records import Order, Recipe, Shard
from phrasemate.index.lance.tables import DATA, PHRASES, Tables
from phrasemate.index.ray.driver import CHUNKS, Driver
from phrasemate.index.row_codec import dequantise, unpack_spans
from phrasemate.types import Document, Sentence

QUERIES, DEPTH = 200, 10
LONG = 100_000  # sentences that are read and cut only
NOISE = 0.3  # length of the noise added to a unit vector: the nearest phrase is seldom the one it was made of


class Here:
    """Makes shards in this process, one after another."""

    def __init__(self, recipe: Recipe, model: Any, tables: Tables, spent: dict[str, float]) -> None:
        self.recipe, self.model, self.tables, self.spent = recipe, model, tables, spent
        self._held: list[Order] = []

    @property
    def full(self) -> bool:
        return bool(self._held)

    @property
    def idle(self) -> bool:
        return not self._held

    def give(self, order: Order) -> None:
        self._held.append(order)

    def take(self) -> tuple[Order, Shard]:
        order = self._held.pop()
        made = clocked(self.spent, "make", lambda: making.make(order, self.model, self.recipe))
        shard = clocked(self.spent, "write", lambda: making.write(self.tables, order, made))
        clocked(self.spent, "commit", lambda: making.commit(self.tables, shard))
        return order, shard

    def close(self) -> None: ...


def clocked(spent: dict[str, float], what: str, work: Callable[[], Any]) -> Any:
    begun = time.process_time()
    done = work()
    spent[what] = spent.get(what, 0.0) + time.process_time() - begun
    return done


def built(place: Path, documents: Any, model: Any, settings: Settings, chunks: int) -> tuple[Tables, dict[str, float]]:
    tables, spent = Tables(str(place.absolute()), {}), {}
    create(tables, model, {})
    driver = Driver(tables, settings, chunks, "en", None)
    clocked(spent, "all", lambda: driver.run(documents, lambda recipe: Here(recipe, model, tables, spent)))
    return tables, spent


def bytes_of(place: Path, name: str, what: str = "data") -> int:
    return sum(file.stat().st_size for file in (place / f"{name}.lance" / what).rglob("*") if file.is_file())


def encode(options: Any) -> dict[str, float]:
    """Sentences from a file through the bundled model into committed shards."""
    model = load_model(options.model, threads=1)
    texts = english(options.data, LONG, options.seed)
    with tempfile.TemporaryDirectory() as folder:
        long, short, spent = Path(folder, "long.txt"), Path(folder, "short.txt"), {}
        long.write_text("\n".join(texts) + "\n", encoding="utf-8")
        short.write_text("\n".join(texts[: options.sentences]) + "\n", encoding="utf-8")
        _, used = built(Path(folder, "idx"), read(short, lang="en"), model, Settings(), 1)
        with ClusterIndex.open(folder + "/idx") as index:
            stats = index.stats()
        count = stats.sentences
        driver = Driver(Tables(folder + "/idx", {}), Settings(), CHUNKS, "en", None)
        cut = clocked(spent, "read", partial(handed_out, driver, read(long, lang="en")))
        place = Path(folder, "idx")
        return {
            "sentences": count,
            "bytes of text a sentence": short.stat().st_size / count,
            "phrases a sentence": stats.phrases / stats.sentences,
            "encode: core-s a sentence": used["make"] / count,
            "read and cut: core-s a sentence": spent["read"] / cut,
            "bytes a sentence": bytes_of(place, "sentences") / stats.sentences,
            "bytes a phrase": bytes_of(place, "phrases") / stats.phrases,
        }


def ray(options: Any) -> dict[str, float]:
    """One machine and two workers: the same rows, and how long each took."""
    from phrasemate.index.ray import build

    model, spent = load_model(options.model, threads=1), {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "text.txt")
        file.write_text("\n".join(english(options.data, options.sentences, options.seed)) + "\n", encoding="utf-8")
        with Index.create(folder + "/one", model, threads=1) as one:
            report_one = clocked(spent, "one", lambda: one.add(read(file, lang="en"), "en"))
            rows = list(one.store.all_sentences()), [row for block in one.store.vectors() for row in block]
        begun = time.monotonic()
        there = build(folder + "/two", read(file, lang="en"), "local", model=model, lang="en", workers=2, chunks=1)
        with ClusterIndex.open(folder + "/two") as two:
            same = rows == (list(two.store.all_sentences()), [r for block in two.store.vectors() for r in block])
        return {
            "sentences": report_one.sentences,
            "phrases": report_one.phrases,
            "rows are the same": float(same),
            "one machine: s": report_one.seconds,
            "one machine: encoder s": report_one.encoder_seconds,
            "two workers: s": there.seconds,
            "two workers: encoder s, both": there.encoder_seconds,
            "with starting Ray: s": time.monotonic() - begun,
        }


def handed_out(driver: Driver, corpus: Any) -> int:
    """Sentences of all the orders that a driver makes of a corpus, which nobody executes."""
    recipe, stream = driver._recipe(corpus)
    return sum(order.sentences for order in driver._orders(stream, recipe))


class Replay:
    """A model that gives what an index of one machine holds."""

    def __init__(self, index: Index) -> None:
        self.name, self.hash, self.dim = "replay", index.manifest.model_hash, index.manifest.dim
        self.path, self._index = None, index
        self._codes = {row.id: row.codes for block in index.store.vectors() for row in block}
        self._held: dict[str, tuple[Any, ...]] = {}

    def documents(self) -> Iterator[Document]:
        for document in self._index.documents():
            yield Document(document.name, document.digest, lambda held=document: self._sentences(held.id))

    def _sentences(self, document: int) -> Iterator[Sentence]:
        for row in self._index.store.all_sentences(document):
            starts, ends, scores = unpack_spans(row.spans, row.phrases)
            codes = np.frombuffer(self._codes.get(row.id, b""), np.int8).reshape(-1, self.dim)
            self._held[row.text] = starts, ends, scores.astype(np.float32), codes
            yield Sentence(row.text, row.line, row.metadata)

    def extract(self, texts: Any, *_: Any, **__: Any) -> list[Extracted]:
        found = [self._held[text] for text in texts]
        return [Extracted(*spans, dequantise(codes).reshape(-1, self.dim)) for *spans, codes in found]


def tables(options: Any) -> dict[str, float]:
    """An index of one machine as tables."""
    with Index.open(options.index, readonly=True) as index:
        replay = Replay(index)
        _, spent = built(options.work, replay.documents(), replay, Settings(learn=0), CHUNKS)
    with ClusterIndex.open(options.work) as made:
        stats = made.stats()
        spent["verify"] = 0.0
        problems = clocked(spent, "verify", made.verify).problems
    assert not problems, problems
    return {
        "phrases": stats.phrases,
        "write: core-s a million phrases": 1e6 * (spent["write"] + spent["commit"]) / stats.phrases,
        "driver: core-s a million phrases": 1e6
        * (spent["all"] - spent["make"] - spent["write"] - spent["commit"])
        / stats.phrases,
        "bytes a sentence": bytes_of(options.work, "sentences") / stats.sentences,
        "bytes a phrase": bytes_of(options.work, "phrases") / stats.phrases,
        "verify: core-s a million phrases": 1e6 * spent["verify"] / stats.phrases,
    }


def search(options: Any) -> list[dict[str, float]]:
    """Lance's index with each number of lists, and what it finds."""
    held = Tables(str(options.work.absolute()), {})
    with ClusterIndex.open(options.work) as index:
        state, view = index.store.state(), index._view
        queries = noisy(index, options.seed)
        exact = scan(queries, DEPTH, blocks(index))
    found, writer = [], Writer(held)
    for lists in options.lists:
        spent: dict[str, float] = {}
        recipe = {"metric": "cosine", "num_partitions": lists, "num_bits": 1, "replace": True, "name": "vector_idx"}
        begun = time.monotonic()
        clocked(spent, "build", partial(held.open(PHRASES).create_index, "vector", KIND, **recipe))
        wall = time.monotonic() - begun
        writer.pin({name: int(held.open(name).version) for name in DATA})
        with ClusterIndex.open(options.work) as index:
            view, size = index._view, index.stats().files["vector index"]
            view.search(state, queries[:8], DEPTH, None, state.phrases)  # Lance reads its index in
            times, ids = [], []
            for query in queries:
                begun = time.perf_counter()
                ids.append(view.search(state, query[None], DEPTH, None, state.phrases)[0][0])
                times.append(time.perf_counter() - begun)
            begun = time.process_time()
            view.search(state, queries, DEPTH, None, state.phrases)
            core = (time.process_time() - begun) / len(queries)
        got = np.array(ids)
        found.append(
            {
                "lists": lists,
                "build core-s": spent["build"],
                "build s": wall,
                "bytes a phrase": size / state.phrases,
                "recall@1": float((got[:, 0] == exact[0][:, 0]).mean()),
                f"recall@{DEPTH}": float(np.mean([len(set(a) & set(b)) / DEPTH for a, b in zip(got, exact[0])])),  # noqa: B905
                "query ms, median": 1e3 * float(np.median(times)),
                "query core-ms": 1e3 * core,
            }
        )
    return found


def noisy(index: Index, seed: int) -> Any:
    """(queries, dim) unit vectors near some of the index."""
    from phrasemate.index.lance.store import codes_of

    draw = np.random.default_rng(seed)
    places = np.sort(draw.integers(0, index.store.state().phrases, QUERIES))
    sample = index.store.table(PHRASES).take(places.tolist(), columns=["vector"])
    vectors = dequantise(codes_of(sample["vector"], index.manifest.dim))
    noise = draw.standard_normal(vectors.shape).astype(np.float32)
    vectors = vectors + NOISE * noise / np.linalg.norm(noise, axis=1, keepdims=True)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def blocks(index: Index) -> Iterator[tuple[Any, Any]]:
    from phrasemate.index.lance.store import codes_of

    store = index.store
    for batch in store.batches(PHRASES, ["key", "vector"]):
        yield dequantise(codes_of(batch["vector"], store.dim)), store.layout.ids(batch["key"].to_numpy())


def main() -> None:
    made = parser(__doc__)
    made.add_argument("part", choices=["encode", "tables", "search", "ray"])
    made.add_argument("--sentences", type=int, default=4096)
    made.add_argument("--index", type=Path, help="an index of one machine")
    made.add_argument("--work", type=Path, help="where the tables are made, and looked for")
    made.add_argument("--lists", type=int, nargs="+", default=[256])
    options = made.parse_args()
    for name in {"tables": ("index", "work"), "search": ("work",)}.get(options.part, ()):
        if getattr(options, name) is None:
            made.error(f"{options.part} needs --{name}")
    found = {"encode": encode, "tables": tables, "search": search, "ray": ray}[options.part](options)
    rows = found if isinstance(found, list) else [found]
    facts = signature(None, part=options.part, seed=options.seed, cores=os.cpu_count())
    if isinstance(found, dict):
        report(f"cluster_{options.part}", ["what", "value"], [[k, round(v, 6)] for k, v in found.items()], facts)
    else:
        report(f"cluster_{options.part}", list(rows[0]), [[round(v, 5) for v in row.values()] for row in rows], facts)
    (OUT / f"cluster_{options.part}.units.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    if rows[0].get("rows are the same") == 0:
        raise SystemExit("the rows differ")


if __name__ == "__main__":
    main()
