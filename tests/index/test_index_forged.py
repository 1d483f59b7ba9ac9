"""vectors.json and rows by a forger, their checksums sound: what phrasemate does not write is not believed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import asdict, replace
from hashlib import sha256
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
    with pytest.raises(ValueError, match="not a layout of phrasemate"):
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


def _filled(folder: Path, count: int = 30) -> Path:
    """An index of one document and some sentences; with thirty of them it has no FAISS file."""
    with Index.create(folder, FakeModel(), settings=SMALL, threads=1) as index:
        index.add([Document.from_texts("a", sentences(count))])
        return Path(index.path)


def _opened(folder: Path) -> Index:
    return Index.open(folder, FakeModel(), settings=SMALL, threads=1)


def _counts(folder: Path) -> tuple[int, int]:
    """Sentences and phrases."""
    with _opened(folder) as index:
        return index.store.state()[2:4]


def _run(folder: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(folder / "store.sqlite")) as store, store:
        store.execute(statement, values)


def _problems(folder: Path) -> list[str]:
    with _opened(folder) as index:
        return index.verify().problems


@pytest.mark.parametrize("name", ["sentences", "phrases"])
def test_a_document_that_counts_more_than_it_has_is_reported(tmp_path: Path, name: str) -> None:
    folder = _filled(tmp_path / "idx")
    count = dict(zip(("sentences", "phrases"), _counts(folder), strict=True))[name]
    forge(folder, "documents", name, count + 1)
    problems = _problems(folder)
    assert f"documents: hold {count + 1} {name}, expected {count}" in problems
    assert "document 0: its counts do not match its sentences" in problems


def test_a_state_that_counts_more_phrases_than_the_sentences_have_is_reported(tmp_path: Path) -> None:
    folder = _filled(tmp_path / "idx")
    _, phrases = _counts(folder)
    forge(folder, "state", "phrases", phrases + 1)
    problems = _problems(folder)
    assert f"sentences: hold {phrases} phrases, expected {phrases + 1}" in problems
    assert f"documents: hold {phrases} phrases, expected {phrases + 1}" in problems
    assert f"vectors: {phrases} found, expected {phrases + 1}" in problems


@pytest.mark.parametrize("span", [(-1, 2), (2, 2), (0, 10**6)])
def test_a_phrase_outside_its_sentence_is_reported(tmp_path: Path, span: tuple[int, int]) -> None:
    folder = tmp_path / "idx"
    with Index.create(folder, FakeModel(), settings=SMALL, threads=1) as index:
        index.add([Document.from_texts("a", ["word"])])
    start, end = (np.array([number], np.int32) for number in span)
    forge(folder, "sentences", "spans", row_codec.pack_spans(start, end, np.ones(1, np.float32)))
    assert _problems(folder)[0] == "sentence 0: a phrase is outside its text"


def test_a_vector_of_zeros_is_reported(tmp_path: Path) -> None:
    folder = _filled(tmp_path / "idx")
    with closing(sqlite3.connect(folder / "store.sqlite")) as store, store:
        read = "SELECT id, document, first_phrase, phrases FROM vectors WHERE id = 3"
        numbers = store.execute(read).fetchone()
        codes = bytes(16 * numbers[3])
        crc = row_codec.checksum(b"vectors", numbers, codes)
        store.execute("UPDATE vectors SET codes = ?, crc = ? WHERE id = 3", (codes, crc))
    assert _problems(folder) == ["vectors: a vector of the sentences 0 to 29 is zero"]


def test_vectors_of_phrases_before_those_of_the_last_sentence_are_one_error(tmp_path: Path) -> None:
    folder = _filled(tmp_path / "idx")
    with closing(sqlite3.connect(folder / "store.sqlite")) as store, store:
        read = "SELECT id, document, 0, phrases, codes FROM vectors WHERE id = 3"
        *numbers, codes = store.execute(read).fetchone()
        crc = row_codec.checksum(b"vectors", tuple(numbers), codes)
        store.execute("UPDATE vectors SET first_phrase = 0, crc = ? WHERE id = 3", (crc,))
    with _opened(folder) as index, pytest.raises(IndexDamaged, match="the vectors of sentence 3 are out of order"):
        index.search(np.eye(16, dtype=np.float32)[:1], 3)


def test_a_sentence_at_a_later_place_than_those_that_follow_is_one_error(tmp_path: Path) -> None:
    folder = _filled(tmp_path / "idx")
    forge(folder, "sentences", "position", 1000)
    with _opened(folder) as index, pytest.raises(IndexDamaged, match="sentence 0 is out of order; restore the store"):
        list(index.store.all_sentences(0))


def test_rows_that_are_missing_are_named(tmp_path: Path) -> None:
    folder = _filled(tmp_path / "idx")
    with _opened(folder) as index:
        lost_row = next(row for row in index.store.all_sentences() if row.id > 3 and row.phrases)
    _run(folder, "DELETE FROM sentences WHERE id = ?", lost_row.id)
    with _opened(folder) as index:
        with pytest.raises(
            IndexDamaged, match=f"phrase {lost_row.first_phrase} is in no sentence and was never deleted"
        ):
            index.around(lost_row.first_phrase)
        with pytest.raises(IndexDamaged, match=f"sentence {lost_row.id} is missing"):
            list(index.store.sentences([0, lost_row.id]))
        with pytest.raises(IndexDamaged, match="document 7 is missing"):
            list(index.store.all_sentences(7))
        with pytest.raises(IndexDamaged, match="29 sentences found, expected 30"):
            list(index.store.all_sentences())
    _run(folder, "DELETE FROM documents")
    with _opened(folder) as index, pytest.raises(IndexDamaged, match="0 documents found, expected 1"):
        index.documents()


def test_a_document_with_other_phrases_than_it_counts_is_not_deleted(tmp_path: Path) -> None:
    folder = _filled(tmp_path / "idx")
    _, phrases = _counts(folder)
    forge(folder, "documents", "phrases", phrases + 1)
    message = f"document a has {phrases} phrases, expected {phrases + 1}"
    with _opened(folder) as index, pytest.raises(IndexDamaged, match=message):
        index.delete("a")
    assert _counts(folder) == (30, phrases)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE extras SET crc = crc + 1", "an entry of the table extras does not match its checksum"),
        ("UPDATE tombstones SET crc = crc + 1", "the list of deleted phrases does not match its checksums"),
        ("UPDATE state SET crc = crc + 1", "the row of counts does not match its checksum"),
    ],
)
def test_a_row_whose_checksum_was_altered_is_reported(tmp_path: Path, statement: str, message: str) -> None:
    folder = _filled(tmp_path / "idx")
    with _opened(folder) as index:
        index.add([Document.from_texts("b", ["one two"])])
        index.delete("b")
        _run(folder, statement)
        assert any(
            problem.endswith(f"{message}; restore the store from a copy or build the index again")
            for problem in index.verify().problems
        )


def test_an_index_json_of_other_vectors_is_reported(tmp_path: Path) -> None:
    folder = _filled(tmp_path / "idx")
    with _opened(folder) as index:
        replace(index.manifest, dim=8).write(folder / "index.json")
        assert "index.json: says 8 dimensions, expected 16" in index.verify().problems


def test_a_faiss_file_that_lacks_a_phrase_is_reported(tmp_path: Path) -> None:
    """Its rows stand for the phrases from the second on."""
    folder = _filled(tmp_path / "idx", 300)
    manifest = VectorsManifest.read(folder / "vectors.json")
    with _opened(folder) as index:
        index.add([Document.from_texts("b", ["one"])])
    assert VectorsManifest.read(folder / "vectors.json").runs == [[0, manifest.rows]]
    replace(manifest, runs=[[1, manifest.rows]], covered=manifest.rows + 1).write(folder / "vectors.json")
    assert "FAISS: lacks 1 phrases" in _problems(folder)


def test_a_faiss_file_of_fewer_vectors_than_it_says_is_rebuilt(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = _filled(tmp_path / "idx", 300)
    manifest = VectorsManifest.read(folder / "vectors.json")
    queries = np.eye(16, dtype=np.float32)[:4]
    with _opened(folder) as index:
        expected = index.search(queries, 5).ids.tolist()
    codes = (folder / manifest.codes).read_bytes()[:-16]
    digest = sha256(codes).hexdigest()
    (folder / manifest.codes).write_bytes(codes)
    fewer = replace(manifest, rows=manifest.rows - 1, runs=[[0, manifest.rows - 1]], covered=manifest.rows - 1)
    replace(fewer, codes_sha256=digest, codes_parts=[]).write(folder / "vectors.json")
    with _opened(folder) as index:
        assert index.search(queries, 5).ids.tolist() == expected
    assert f"holds {manifest.rows} vectors, expected {manifest.rows - 1}; rebuilding" in caplog.text


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
