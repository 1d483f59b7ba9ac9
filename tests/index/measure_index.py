"""Print the figures of results/log/index.md.

``python tests/index/measure_index.py WHAT``, WHAT one of store, layout, words, search.

Vectors are made up (clustered, as those of a model are), so that what is measured is the index alone.
"""

from __future__ import annotations

import os
import resource
import sqlite3
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np
from index_fakes import Found

from phrasemate.index import Index, IndexSettings, faiss_build, row_codec, schema
from phrasemate.types import Document

DIM, PHRASES, WORDS = 128, int(os.environ.get("PHRASES", 30)), 18  # dimensions; phrases and words of a sentence
PAGES = (4096, 8192, 16384, 32768)
draw = np.random.default_rng(0)
VOCABULARY = np.array(["".join(draw.choice(list("abcdefghilmnoprstuv"), n)) for n in draw.integers(2, 10, 30_000)])
CENTRES = draw.standard_normal((2000, DIM)).astype(np.float32)


class Model:
    """Vectors near one of 2,000 centres, without an encoder's time."""

    name, hash, path, dim = "made up", "0" * 64, None, DIM

    def extract(self, texts, frequent=frozenset()):  # type: ignore[no-untyped-def]
        vectors = CENTRES[draw.integers(0, 2000, len(texts) * PHRASES)]
        vectors = vectors + 0.7 * draw.standard_normal(vectors.shape, np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        starts = np.arange(PHRASES, dtype=np.int32)
        scores = np.ones(PHRASES, np.float32)
        return [Found(starts, starts + 9, scores, part) for part in np.split(vectors, len(texts))]


def texts(count: int) -> list[str]:
    picks = np.minimum(draw.zipf(1.2, (count, WORDS)), 30_000) - 1
    return [" ".join(VOCABULARY[line]) for line in picks]


def fill(path: Path, count: int, settings: IndexSettings) -> Index:
    index = Index.create(path, Model(), settings=settings, threads=1)
    start = perf_counter()
    report = index.add([Document.from_texts(f"d{at}", texts(5000)) for at in range(count // 5000)], lang="en")
    seconds = perf_counter() - start - report.encoder_seconds
    print(
        f"{count:,} sentences, {report.phrases:,} phrases: {seconds:.1f} s without the model, "
        f"{1e6 * seconds / count:.0f} us a sentence"
    )
    return index


def sizes(index: Index) -> None:
    stats = index.stats()
    for name, size in stats.files.items():
        print(f"  {name}: {size / 1e6:.1f} MB, {size / max(1, stats.phrases):.1f} bytes a phrase")


def store(path: Path) -> None:
    """Adding without a FAISS file, by page size."""
    for page in PAGES:
        schema.PAGE_BYTES = page
        print("pages of", page)
        sizes(fill(path / str(page), 20_000, IndexSettings(exact_below=10**9)))


def layout(path: Path) -> None:
    """A row for each sentence against a row for each phrase: writing and reading all vectors, bytes."""
    model, count = Model(), 20_000
    chunks = [model.extract([""] * 1000) for _ in range(count // 1000)]
    for name in ("sentence", "phrase"):
        connection = sqlite3.connect(path / name, isolation_level=None)
        connection.execute(f"PRAGMA page_size = {schema.PAGE_BYTES}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE v (id INTEGER PRIMARY KEY, sentence, spans, codes, crc)")
        start, at = perf_counter(), 0
        for chunk in chunks:
            connection.execute("BEGIN")
            for result in chunk:
                codes = row_codec.quantise(result.vectors)
                parts = range(1) if name == "sentence" else range(PHRASES)
                for part in parts:
                    cut = slice(None) if name == "sentence" else slice(part, part + 1)
                    spans, blob = (
                        row_codec.pack_spans(result.starts[cut], result.ends[cut], result.scores[cut]),
                        codes[cut].tobytes(),
                    )
                    row = (at, at, spans, blob, row_codec.checksum(b"v", (at, at), spans, blob))
                    connection.execute("INSERT INTO v VALUES (?, ?, ?, ?, ?)", row)
                    at += 1
            connection.execute("COMMIT")
        wrote = perf_counter() - start
        start = perf_counter()
        for row in connection.execute("SELECT * FROM v"):
            assert row_codec.same(row[4], b"v", row[:2], row[2], row[3])
        read = perf_counter() - start
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        size = (path / name).stat().st_size
        print(
            f"row per {name}: {count / wrote:,.0f} sentences/s written, {count / read:,.0f} read, "
            f"{size / count / PHRASES:.0f} bytes a phrase"
        )


def words(path: Path) -> None:
    """The text index: time to fill, bytes, time to check, to find and to read."""
    with fill(path / "with", 50_000, IndexSettings(exact_below=10**9)) as index:
        connection = index.store.connection
        size = connection.execute("SELECT sum(length(block)) FROM words_data").fetchone()[0]
        text = connection.execute("SELECT sum(length(text)) FROM sentences").fetchone()[0]
        print(f"text {text / 1e6:.1f} MB, text index {size / 1e6:.1f} MB")
        for name, call in (
            ("checksum", lambda: schema.words_checksum(index.store.connection)),
            ("integrity-check", lambda: schema.words_match(index.store.connection)),
            ("a rare phrase", lambda: index.containing(index.store.sentences_of([5])[0].text[:25])),
            ("again", lambda: index.containing(index.store.sentences_of([905])[0].text[:25])),
            ("two characters", lambda: index.containing("qz")),
            ("rebuild", lambda: connection.execute("INSERT INTO words (words) VALUES ('rebuild')")),
        ):
            start = perf_counter()
            call()
            print(f"  {name}: {1000 * (perf_counter() - start):.1f} ms")


def search(path: Path, counts: tuple[int, ...] = (5_000, 60_000, 70_000)) -> None:
    """Build time, first and warm search, recall, for exact, PQ and IVF."""
    for count in counts:
        index = fill(path / str(count), count, IndexSettings(exact_below=10**9))
        index.close()
        with Index.open(path / str(count), Model(), threads=1) as index:
            start = perf_counter()
            result = faiss_build.build(index.store, IndexSettings(), 1)
            print(
                f"  build {perf_counter() - start:.1f} s: {result and result.factory}; peak "
                f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:.0f} MB"
            )
            sizes(index)
        with Index.open(path / str(count), Model(), threads=1) as index:
            queries = Model().extract([""] * 40)
            many = np.concatenate([query.vectors for query in queries])[:1000]
            times = []
            for batch in (many[:1], many[:1], many[1:2], many):
                start = perf_counter()
                run = index.search(batch, 32)
                times.append(1000 * (perf_counter() - start))
            start = perf_counter()
            index.hits(run.ids[0], run.scores[0])
            hits = 1000 * (perf_counter() - start)
            print(f"  first {times[0]:.0f} ms, one {times[2]:.1f} ms, 1,000 {times[3]:.0f} ms; 32 hits {hits:.1f} ms")
            start = perf_counter()
            print("  verify", index.verify().checked, f"{perf_counter() - start:.1f} s")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        {"store": store, "layout": layout, "words": words, "search": search}[sys.argv[1]](Path(folder))
