"""Tables by a forger, their checksums sound: what phrasemate does not write is one error, and nothing is taken in."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("lance", reason="Lance is not installed (pip install 'phrasemate[ray]')")

import lance
import pyarrow as pa
from cluster_fakes import SETTINGS, build_here, documents
from index_fakes import FakeModel

from phrasemate.errors import IndexDamaged
from phrasemate.index import Index, row_codec
from phrasemate.index.lance.records import _sealed
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
    write(place, STATE, [{"state": _sealed(content)}])


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
        change(place, SHARDS, lambda result, value=value: result[0].update(shard=_sealed(content | {name: value})))
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
        change(place, SHARDS, lambda result: result[0].update(shard=_sealed(content)))
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
    forged = newest | {"attempt": "it's", "shard": _sealed(shard | {"first_sentence": 3, "attempt": "it's"})}
    table = pa.Table.from_pylist([forged], schema=schema(SHARDS, 0))
    lance.write_dataset(table, str(other / "shards.lance"), mode="append")
    assert build_here(other, more, MODEL).made == [newest["number"]]
    used(other)
    with Index.open(other, MODEL, settings=SETTINGS) as index:
        assert index.verify().problems == []
