"""vectors.json and rows by a forger, their checksums sound: what phrasemate does not write is not believed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from index_fakes import SMALL, FakeModel, sentences

from phrasemate.errors import IndexDamaged, InputError
from phrasemate.index import Index, row_codec
from phrasemate.index.faiss_search import Layout
from phrasemate.index.manifest import VectorsManifest, write_json
from phrasemate.types import Document

SOUND = VectorsManifest(
    file="vectors-0123456789abcdef.faiss",
    size=10,
    sha256="0" * 64,
    codes="vectors-0123456789abcdef.codes",
    codes_sha256="1" * 64,
    rows=7,
    generation=3,
    covered=12,
    factory="OPQ4,IVF16,PQ4x4fs",
    trained=7,
    runs=[[0, 4], [6, 3]],
    tuned={"target": 0.9, "phrases": 7, "layout": "PQ8x4fs"},
)
ANYTHING: tuple[Any, ...] = (
    None,
    True,
    1.5,
    float("nan"),
    -1,
    10**400,
    "",
    "../x",
    "\ud800",
    [1],
    [["a", 1]],
    {"target": "x"},
)
FORGED: dict[str, tuple[Any, ...]] = {
    "file": ("/etc/passwd", "vectors-a/../../b.faiss", "index.json", "vectors-\0.faiss"),
    "codes": ("..", "store.sqlite"),
    "runs": ([[0, 7], [6, 3]], [[0, 4]], [[6, 3], [0, 4]], [[0, 4], [10, 3]], [[-1, 7]], [[0, 7], [8, 0]], [[0.0, 7]]),
    "rows": (6, 8),
    "covered": (8,),
    "factory": ("Flat", "PQ0x4fs", "IVF16,PQ4x4fs,Refine(SQ8)", "OPQ4,IVF99999999999,PQ4x4fs"),
    "tuned": ({"layout": "Flat"}, {"phrases": 0}, {"phrases": "7"}),
    "parts": ([None],),
}


@pytest.mark.parametrize("name", [key for key in asdict(SOUND) if key != "asking"])
def test_what_no_build_writes_is_damage(tmp_path: Path, name: str) -> None:
    path = tmp_path / "vectors.json"
    SOUND.write(path)
    assert VectorsManifest.read(path) == SOUND
    for value in (*ANYTHING, *FORGED.get(name, ())):
        if name.endswith("sha256") and isinstance(value, str):
            continue  # harmless: no file has such a hash
        write_json(path, asdict(SOUND) | {name: value})
        with pytest.raises(IndexDamaged, match=r"vectors\.json: "):
            VectorsManifest.read(path)


@pytest.mark.parametrize(
    "change", [{"rows": "7"}, {"tuned": {"layout": "PQ7x4fs", "phrases": 900}}, {"tuned": 3}, {"file": "../x.faiss"}]
)
def test_it_is_rebuilt_from_the_store(tmp_path: Path, change: dict[str, Any]) -> None:
    """Seven parts are none of sixteen dimensions."""
    queries = np.eye(16, dtype=np.float32)[:4]
    with Index.create(tmp_path / "idx", FakeModel(), settings=SMALL, threads=1) as index:
        index.add([Document.from_texts("a", sentences(300))])
        values = index.search(queries, 5).ids.tolist()
        vectors_manifest = VectorsManifest.read(index.path / "vectors.json")
    (tmp_path / "x.faiss").write_text("of others")
    write_json(tmp_path / "idx" / "vectors.json", asdict(vectors_manifest) | change)
    with Index.open(tmp_path / "idx", FakeModel(), settings=SMALL, threads=1) as index:
        assert index.search(queries, 5).ids.tolist() == values
        index.add([Document.from_texts("b", sentences(300, seed=1))])
        index.optimize()
        assert index.verify().ok
    assert (tmp_path / "x.faiss").read_text() == "of others"


@pytest.mark.parametrize("factory", ["", "Flat", "OPQ4,PQ4x8", "IVF16", "PQ0x4fs"])
def test_a_layout_that_is_none(factory: str) -> None:
    with pytest.raises(ValueError, match="no layout of ours"):
        Layout.parse(factory)


COLUMNS = {  # what a row's checksum is made of: its numbers, then its texts
    "state": (
        ("generation", "documents", "sentences", "phrases", "next_document", "next_sentence", "next_phrase"),
        (),
    ),
    "documents": (("id", "complete", "sentences", "phrases"), ("name", "language", "digest")),
    "sentences": (("id", "document", "position", "line", "first_phrase", "phrases"), ("text", "metadata", "spans")),
    "extras": ((), ("key", "value")),
}
KINDS = {"state": b"state", "documents": b"document", "sentences": b"sentence", "extras": b"extra"}


def forge(folder: Path, table: str, column: str, value: object) -> None:
    """One value of the first row, and the checksum that the row then has."""
    numbers, texts = COLUMNS[table]
    with closing(sqlite3.connect(folder / "store.sqlite")) as store, store:
        read = ", ".join((*numbers, *(f"CAST({name} AS BLOB)" for name in texts)))
        row = dict(zip((*numbers, *texts), store.execute(f"SELECT {read} FROM {table}").fetchone(), strict=True))
        row[column] = value
        crc = row_codec.checksum(KINDS[table], tuple(row[name] for name in numbers), *(row[name] for name in texts))
        to = "CAST(? AS TEXT)" if column in texts and column != "spans" else "?"
        store.execute(
            f"UPDATE {table} SET {column} = {to}, crc = ? WHERE rowid = (SELECT min(rowid) FROM {table})", (value, crc)
        )


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("state", "generation", (1 << 63) - 1),
        ("state", "next_document", (1 << 63) - 1),
        ("state", "next_phrase", -1),
        ("documents", "id", 7),
        ("sentences", "document", 7),
        ("sentences", "metadata", b"x"),
        ("sentences", "metadata", b"[]"),
        ("sentences", "metadata", b"[" * 100_000),
        ("sentences", "position", -1),
        ("extras", "value", b"["),
        ("extras", "value", b"[]"),
        ("extras", "value", b'{"sentences": 1, "words": [[]]}'),
        ("extras", "value", b'{"generation": 1, "crc": "x"}'),
    ],
)
def test_a_row_of_others_is_one_error(tmp_path: Path, table: str, column: str, value: object) -> None:
    with Index.create(tmp_path / "idx", FakeModel(), settings=SMALL, threads=1) as index:
        index.add([Document.from_texts("a", sentences(30))])
    forge(tmp_path / "idx", table, column, value)
    with pytest.raises(IndexDamaged):
        _used(tmp_path / "idx")


def _used(folder: Path) -> None:
    with Index.open(folder, FakeModel(), settings=SMALL, threads=1) as index:
        run = index.search(np.eye(16, dtype=np.float32), 100)
        index.hits(run.ids, run.scores)
        index.containing("w1")
        index.add([Document.from_texts("b", sentences(30, seed=1))])


def test_a_sample_of_what_stands_far_apart(tmp_path: Path) -> None:
    """Of 300 sentences and of one that came after a billion others."""
    with Index.create(tmp_path / "idx", FakeModel(), settings=SMALL, threads=1) as index:
        index.add([Document.from_texts("a", sentences(300))])
    forge(tmp_path / "idx", "state", "next_sentence", 10**9)
    with Index.open(tmp_path / "idx", FakeModel(), settings=SMALL, threads=1) as index:
        index.add([Document.from_texts("b", sentences(1, seed=1))])
        drawn = index.store.sampled_rows(900, pieces=256)
        assert 900 <= sum(row.phrases for row in drawn) < 1000
        assert len({row.id for row in drawn}) == len(drawn)
        assert drawn[-1].id == 10**9


def test_more_than_can_be_held(index: Index) -> None:
    with pytest.raises(InputError, match=r"1 queries with 134,217,729 results each .* ask for fewer"):
        index.search(np.eye(16, dtype=np.float32)[:1], (1 << 27) + 1)
    with pytest.raises(InputError, match="ask for fewer"):
        index.search(np.eye(16, dtype=np.float32)[:1], 10**20)


@pytest.mark.parametrize("vectors", ["x", [[1.0, 2.0], [3.0]], [None], object()])
def test_what_are_not_vectors(index: Index, vectors: Any) -> None:
    with pytest.raises(InputError, match=r"cannot search.*expected"):
        index.search(vectors, 3)
