"""Tables by a forger, their checksums sound: what phrasemate does not write is one error, and nothing is taken in."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("lance", reason="Lance is not installed (pip install 'phrasemate[ray]')")

import lance
import pyarrow as pa
from cluster_fakes import SETTINGS, build_here, documents
from index_fakes import FakeModel

from phrasemate.errors import IndexDamaged, IndexUnsupported
from phrasemate.index import BaseIndex, Index, row_codec
from phrasemate.index.lance.records import Piece, _seal
from phrasemate.index.lance.tables import DATA, PHRASES, SENTENCES, SHARDS, STATE, schema
from phrasemate.types import Document

ANYTHING: tuple[Any, ...] = (None, True, -1, 1.5, 1 << 53, 10**400, float("nan"), "x", "\ud800", [1], [[1]], {"a": 1})
MODEL = FakeModel()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Not to be changed."""
    place = tmp_path_factory.mktemp("forged") / "tables"
    build_here(place, documents(3), MODEL)
    with Index.open(place, MODEL, settings=SETTINGS) as index:
        index.optimize()
        index.delete("0-1.txt")
    return place


@pytest.fixture
def place(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "tables"))


def used(place: Path) -> None:
    """All that reads."""
    with Index.open(place, MODEL, settings=SETTINGS) as index:
        run = index.search(np.eye(MODEL.dim, dtype=np.float32), 1000)
        index.hits(run.ids, run.scores)
        index.containing("old bank")
        list(index.store.all_sentences())
        index.vectors(run.ids[0, :9])


def state(place: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(lance.dataset(str(place / "state.lance")).to_table()["state"][0].as_py())
    return {key: value for key, value in content.items() if key != "crc"}


def write(place: Path, name: str, rows: list[dict[str, Any]], dim: int = MODEL.dim) -> int:
    table = pa.Table.from_pylist(rows, schema=schema(name, dim))
    return int(lance.write_dataset(table, str(place / f"{name}.lance"), mode="overwrite").version)


def write_state(place: Path, content: dict[str, Any]) -> None:
    write(place, STATE, [{"state": _seal(content)}])


def change(place: Path, name: str, edit: Callable[[list[dict[str, Any]]], object]) -> None:
    """Change the rows of a table, and have the state name its new version."""
    content = state(place)
    dataset = lance.dataset(str(place / f"{name}.lance"), version=content["versions"][name])
    rows = dataset.scanner(scan_in_order=True).to_table().to_pylist()
    edit(rows)
    content["versions"][name] = write(place, name, rows)
    write_state(place, content)


HEAD = {
    "dim": (0, 1 << 40, MODEL.dim + 1),
    "shards": (0, 10**15),
    "next_document": (0,),
    "deleted": ([7, 7], [1, 1], [10**6]),
    "versions": ({}, {SHARDS: 1}, {SHARDS: 1, SENTENCES: -1, PHRASES: 1}, {SHARDS: 1, SENTENCES: 1 << 70, PHRASES: 1}),
    "extras": ({"words": 1}, {"words": {}}, {"words": {"version": "2", "sentences": 3}}, {"frequent en": {"words": 3}},
               {"words": {"version": 2, "sentences": 10**6}}, {"frequent en": {"sentences": 1, "words": [1]}}),
}  # fmt: skip
FREE = ("model_name", "model_hash", "model_path", "writer", "generation", "segment")  # of which some values do no harm


@pytest.mark.parametrize("name", [*HEAD, *FREE, "documents", "sentences", "phrases", "next_sentence", "next_phrase"])
def test_a_head_that_is_never_written(place: Path, name: str) -> None:
    content = state(place)
    sound = {"deleted": [[1]], "extras": [{"a": 1}], "segment": [{"a": 1}], "model_path": [None, "x", "\ud800"]}
    harmless: list[Any] = sound.get(name, [])
    harmless += ["x", "\ud800"] if name in FREE[:4] else []
    for value in (*ANYTHING, *HEAD.get(name, ())):
        if value in harmless:
            continue
        write_state(place, content | {name: value})
        with pytest.raises(IndexDamaged, match=r"tables: "):
            Index.open(place, settings=SETTINGS)
    write_state(place, {key: value for key, value in content.items() if key != name} | {"other": 1})
    with pytest.raises(IndexDamaged, match="is corrupted"):
        Index.open(place)


@pytest.mark.parametrize("name", ["number", "key", "attempt", "first_sentence", "sentences", "phrases", "pieces",
                                  "fragments", "seconds"])  # fmt: skip
def test_a_shard_that_is_never_written(place: Path, name: str) -> None:
    content = json.loads(lance.dataset(str(place / "shards.lance")).to_table()["shard"][0].as_py())
    content.pop("crc")
    for value in ANYTHING:
        if (name in ("key", "attempt") and isinstance(value, str)) or (name == "seconds" and isinstance(value, float)):
            continue
        if name == "seconds" and isinstance(value, int):
            continue
        change(place, SHARDS, lambda result, value=value: result[0].update(shard=_seal(content | {name: value})))
        with pytest.raises(IndexDamaged):
            Index.open(place)


@pytest.mark.parametrize("at", range(9))
def test_a_piece_that_is_never_written(place: Path, at: int) -> None:
    content = json.loads(lance.dataset(str(place / "shards.lance")).to_table()["shard"][0].as_py())
    content.pop("crc")
    piece = content["pieces"][0]
    for value in ANYTHING:
        if (1 <= at <= 3 and isinstance(value, str)) or (at == 6 and value is True) or (at == 7 and value is None):
            continue
        content["pieces"][0] = [*piece[:at], value, *piece[at + 1 :]]
        change(place, SHARDS, lambda result: result[0].update(shard=_seal(content)))
        with pytest.raises(IndexDamaged):
            Index.open(place)


NUMBERS = ("id", "document", "position", "line", "first", "phrases")
TEXTS = ("text", "metadata", "spans")


@pytest.mark.parametrize("at", [0, -1])
@pytest.mark.parametrize("column", [*NUMBERS, *TEXTS])
def test_a_sentence_that_is_never_written(place: Path, column: str, at: int) -> None:
    texts = {"text": (b"\xff",), "metadata": (b"x", b"[]", b"[" * 100_000), "spans": (b"", b"x")}
    for value in texts.get(column, (-1, (1 << 63) - 1, 10**6, None)):
        if column == "line" and value == 10**6:
            continue

        def edit(result: list[dict[str, Any]], value: Any = value) -> None:
            row = result[at]
            row[column] = value
            if value is not None:
                row["crc"] = row_codec.checksum(
                    b"sentence", *[tuple(row[name] for name in NUMBERS)], *map(row.get, TEXTS)
                )

        change(place, SENTENCES, edit)
        with pytest.raises(IndexDamaged):
            used(place)


@pytest.mark.parametrize("change_", [{"key": None}, {"key": -1}, {"key": 1 << 31}, {"key": 1 << 60}, {"vector": None}])
def test_a_phrase_that_is_never_written(place: Path, change_: dict[str, Any]) -> None:
    change(place, PHRASES, lambda result: result[0].update(change_))
    with Index.open(place, MODEL, settings=SETTINGS) as index:
        assert index.verify().problems
        first = next(iter(index.store.all_sentences())).first_phrase
        with pytest.raises(IndexDamaged):
            index.vectors([first])


@pytest.mark.parametrize("name", [STATE, SHARDS, *DATA])
def test_other_columns(place: Path, name: str) -> None:
    content = state(place)
    version = content["versions"].get(name)
    table = lance.dataset(str(place / f"{name}.lance"), version=version).to_table()
    dataset = lance.write_dataset(table.append_column("x", table[0]), str(place / f"{name}.lance"), mode="overwrite")
    if name != STATE:
        content["versions"][name] = dataset.version
        write_state(place, content)
    with pytest.raises(IndexDamaged, match=f"the table {name} does not have the columns of an index"):
        Index.open(place)


def test_a_staged_shard_with_the_right_key(whole: Path, tmp_path: Path) -> None:
    """It says that it begins elsewhere: taken in, it would make the index unreadable."""
    more = [Document.from_texts("new.txt", ["Quite other zebras.", "Nothing of the kind."])]
    place = Path(shutil.copytree(whole, tmp_path / "one"))
    build_here(place, more, MODEL)
    rows = lance.dataset(str(place / "shards.lance")).to_table().to_pylist()
    newest = max(rows, key=lambda row: row["number"])
    shard = {key: value for key, value in json.loads(newest["shard"]).items() if key != "crc"}
    other = Path(shutil.copytree(whole, tmp_path / "other"))
    forged = newest | {"attempt": "it's", "shard": _seal(shard | {"first_sentence": 3, "attempt": "it's"})}
    table = pa.Table.from_pylist([forged], schema=schema(SHARDS, 0))
    lance.write_dataset(table, str(other / "shards.lance"), mode="append")
    assert build_here(other, more, MODEL).made == [newest["number"]]
    used(other)
    with Index.open(other, MODEL, settings=SETTINGS) as index:
        assert index.verify().problems == []


@pytest.fixture(scope="module")
def plain_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three documents, in three shards: the second document is in all of them. Not to be changed."""
    place = tmp_path_factory.mktemp("plain") / "tables"
    build_here(place, documents(3), MODEL)
    return place


@pytest.fixture
def plain(plain_tables: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(plain_tables, tmp_path / "tables"))


def sealed_rows(place: Path, name: str) -> list[dict[str, Any]]:
    return list(lance.dataset(str(place / f"{name}.lance")).scanner(scan_in_order=True).to_table().to_pylist())


def change_shard(place: Path, number: int, edit: Callable[[dict[str, Any]], object]) -> None:
    def edit_row(rows: list[dict[str, Any]]) -> None:
        (row,) = [row for row in rows if row["number"] == number]
        content = json.loads(row["shard"])
        del content["crc"]
        edit(content)
        row["shard"] = _seal(content)

    change(place, SHARDS, edit_row)


def edit_piece(name: str, value: object) -> Callable[[dict[str, Any]], object]:
    """Change the first piece of a shard."""

    def edit(shard: dict[str, Any]) -> None:
        shard["pieces"][0][Piece._fields.index(name)] = value

    return edit


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda shard: shard.update(first_sentence=33), "shard 1 and its pieces do not fit the shards before it"),
        (lambda shard: shard.update(phrases=shard["phrases"] + 1), "shard 1 and its pieces do not fit the shards"),
        (edit_piece("position", 3), "document 1 continues at 3, expected 2; build the index again"),
        (edit_piece("name", "other.txt"), "document 1 has two names or contents; build the index again"),
        (edit_piece("digest", "other"), "document 1 has two names or contents; build the index again"),
    ],
)
def test_shards_that_do_not_fit_each_other(plain: Path, edit: Callable[[Any], object], message: str) -> None:
    change_shard(plain, 1, edit)
    with pytest.raises(IndexDamaged, match=message):
        Index.open(plain)


def test_a_head_that_does_not_know_its_last_document(plain: Path) -> None:
    write_state(plain, state(plain) | {"next_document": 2})
    with pytest.raises(IndexDamaged, match="its shards hold document 2, expected less than the head's next"):
        Index.open(plain)


@pytest.mark.parametrize("count", [0, 2])
def test_a_table_of_state_has_one_row(plain: Path, count: int) -> None:
    write(plain, STATE, count * [{"state": _seal(state(plain))}])
    with pytest.raises(IndexDamaged, match=f"{count} rows in the table state, expected 1; build the index again"):
        Index.open(plain)


@pytest.mark.parametrize("text", ["", "[]", "[" * 100_000, '{"crc": 1}', "{}", "\x00"])
def test_a_head_without_its_checksum(plain: Path, text: str) -> None:
    write(plain, STATE, [{"state": text}])
    with pytest.raises(IndexDamaged, match="the table state does not match its checksum; restore it or build"):
        Index.open(plain)


def test_tables_of_a_later_version(plain: Path) -> None:
    write_state(plain, state(plain) | {"version": 2})
    message = r"is of format phrasemate-lance 2, expected phrasemate-lance 1; use a matching version of phrasemate$"
    with pytest.raises(IndexUnsupported, match=message):
        Index.open(plain)


# -- rows that are not where they belong, each of them sound


def swap(first: int, second: int) -> Callable[[list[dict[str, Any]]], object]:
    def edit(rows: list[dict[str, Any]]) -> None:
        rows[first], rows[second] = rows[second], rows[first]

    return edit


def opened(place: Path, exact_below: int = SETTINGS.exact_below) -> BaseIndex:
    return Index.open(place, MODEL, settings=replace(SETTINGS, exact_below=exact_below))


def test_phrases_in_another_order(plain: Path) -> None:
    change(plain, PHRASES, swap(0, 1))
    index = opened(plain)
    with pytest.raises(IndexDamaged, match=r"tables: some phrases are not where they belong; restore the tables"):
        index.vectors([0, 1])
    with pytest.raises(IndexDamaged, match="the phrases of document 0 are not where they belong"):
        index.search(np.eye(1, MODEL.dim, dtype=np.float32), 3, documents=["0-0.txt"])
    (problem, *_) = [line for line in index.verify().problems if line.startswith("phrases: ")]
    assert problem == "phrases: 1 to 901 are out of order or doubled"


def test_sentences_in_another_order(plain: Path) -> None:
    change(plain, SENTENCES, swap(0, 1))
    index = opened(plain)
    with pytest.raises(IndexDamaged, match="tables: sentence 0 is missing; restore the tables from a copy"):
        list(index.store.sentences([0]))
    with pytest.raises(IndexDamaged, match="tables: the vectors of sentence 0 are out of order"):
        list(index.store.checked_vectors())
    assert any("sentence 0 is out of order" in line for line in index.verify().problems)


def test_a_text_that_was_altered(plain: Path) -> None:
    change(plain, SENTENCES, lambda rows: rows[40].update(text=b"the other bank."))
    index = opened(plain)
    assert next(iter(index.store.sentences([39]))).id == 39
    with pytest.raises(IndexDamaged, match="sentence 40 does not match its checksum"):
        list(index.store.sentences([40]))


def test_vectors_that_are_lost_with_their_sentence(plain: Path) -> None:
    """What is left is sound, row for row: only the counts say that something is missing."""
    (*_, last) = sealed_rows(plain, SENTENCES)
    change(plain, SENTENCES, lambda rows: rows.pop())
    count = 902 - last["phrases"]
    change(plain, PHRASES, lambda rows: [rows.pop() for _ in range(last["phrases"])])
    index = opened(plain, exact_below=10**6)
    with pytest.raises(IndexDamaged, match=f"tables: {count} phrases found, expected 902"):
        index.search(np.eye(1, MODEL.dim, dtype=np.float32), 3)
    problems = index.verify().problems
    assert f"vectors: {count} found, expected 902" in problems
    assert f"phrases: {count} found, expected 902" in problems
    assert any("93 sentences found, expected 94" in line for line in problems)


@pytest.mark.parametrize(
    ("change_", "message"),
    [
        ({"vector": None}, "a phrase without a vector was found; restore the tables from a copy or build them again"),
        ({"key": None}, "a phrase without a key was found; build the index again"),
    ],
)
def test_a_phrase_that_lacks_a_value_is_no_answer(plain: Path, change_: dict[str, Any], message: str) -> None:
    change(plain, PHRASES, lambda rows: rows[3].update(change_))
    with pytest.raises(IndexDamaged, match=message):
        opened(plain).search(np.eye(1, MODEL.dim, dtype=np.float32), 3, documents=["0-0.txt"])


def test_a_phrase_of_a_deleted_document_is_reported(place: Path) -> None:
    """The second document is deleted; its first phrase is put over the last one of the first document."""
    deleted = opened(place).store.layout.dead_phrases
    first = int(deleted.ids(np.array([0]))[0])
    change(place, PHRASES, lambda rows: rows[first - 1].update(key=first))
    assert "phrases: 1 deleted ones between 0 and 901" in opened(place).verify().problems


def test_tables_that_go_while_they_are_open(plain: Path) -> None:
    index = opened(plain)
    shutil.rmtree(plain / "state.lance")
    (problem,) = index.verify().problems
    assert problem.startswith(f"no index at {plain}; make one with: phrasemate index --cluster ADDRESS")
