"""What comes late: shards of workers thought dead, drivers that were overtaken, a second ``create``, old files."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from time import time
from typing import Any

import pytest

pytest.importorskip("lance", reason="Lance is not installed (pip install 'phrasemate[ray]')")

from cluster_fakes import CHUNKS, SETTINGS, InProcess, build_here, documents, rows_of
from index_fakes import FakeModel

from phrasemate.errors import IndexExists, IndexLocked
from phrasemate.index import Index
from phrasemate.index.lance import index as lance_index
from phrasemate.index.lance.commit import Writer, create, staged
from phrasemate.index.lance.records import Order, commit_shard
from phrasemate.index.lance.tables import DATA, SENTENCES, SHARDS, Tables
from phrasemate.index.ray import Driver

WEEK_AND_MORE = 9 * 86400
MORE = documents(4, seed=7)


@pytest.fixture
def model() -> FakeModel:
    return FakeModel()


@pytest.fixture
def place(tmp_path: Path, model: FakeModel) -> Path:
    build_here(tmp_path / "tables", documents(), model)
    return tmp_path / "tables"


@pytest.fixture
def tables(place: Path) -> Tables:
    return Tables(str(place), {})


@pytest.fixture
def expected(tmp_path: Path, model: FakeModel) -> tuple[Any, ...]:
    """All that is in the index of one machine that has the same documents and `MORE`."""
    with Index.create(tmp_path / "one", model, settings=SETTINGS, threads=1) as one:
        one.add(documents(), lang="en")
        one.add(MORE, lang="en")
        return rows_of(one)


def opened(place: Path, model: FakeModel) -> Index:
    return Index.open(place, model, settings=SETTINGS)


def sound(place: Path, model: FakeModel) -> tuple[Any, ...]:
    index = opened(place, model)
    assert index.verify().problems == []
    return rows_of(index)


def driver(tables: Tables) -> Driver:
    return Driver(tables, SETTINGS, CHUNKS, "en", None)


def append_some(tables: Tables) -> None:
    """As a driver does that does not know yet that it was overtaken."""
    for name in DATA:
        rows = tables.open(name).to_table().slice(0, 3)
        tables.append(name, tables.write(name, rows), tables.open(name).version)


# -- shards


@pytest.mark.parametrize("change", [{}, {"key": "of another text", "sentences": 1}])
@pytest.mark.parametrize("first", ["build", "optimize"])
def test_a_shard_that_is_committed_again_is_taken_once(
    place: Path, model: FakeModel, tables: Tables, expected: tuple[Any, ...], change: dict[str, Any], first: str
) -> None:
    commit_shard(tables, replace(staged(tables, 0)[1], attempt="f" * 32, **change))
    if first == "optimize":
        opened(place, model).optimize()
    build_here(place, MORE, model)
    assert sound(place, model) == expected
    assert [shard.number for shard in staged(tables, 0)] == list(range(opened(place, model).store.layout.head.shards))


@pytest.mark.parametrize("change", [{}, {"key": "of another text", "sentences": 1}])
def test_an_index_that_took_one_twice_can_be_read_and_is_fixed(
    place: Path, model: FakeModel, tables: Tables, expected: tuple[Any, ...], change: dict[str, Any]
) -> None:
    commit_shard(tables, replace(staged(tables, 0)[1], attempt="f" * 32, **change))
    writer = Writer(tables)
    writer._commit(replace(writer.head, versions=writer.head.versions | {SHARDS: tables.open(SHARDS).version}))
    before = sound(place, model)
    opened(place, model).optimize()
    assert len(staged(tables, 0)) == writer.head.shards
    assert sound(place, model)[:4] == before[:4]
    build_here(place, MORE, model)
    assert sound(place, model) == expected


@pytest.mark.parametrize("loose", [1, 100])
def test_a_row_of_shards_that_was_dropped_is_not_missed_in_silence(
    place: Path,
    model: FakeModel,
    tables: Tables,
    expected: tuple[Any, ...],
    monkeypatch: pytest.MonkeyPatch,
    loose: int,
) -> None:
    """An overtaken driver may do that, which has not seen yet that it is none."""
    monkeypatch.setattr("phrasemate.index.lance.commit._MANY_FILES", loose)
    second = driver(tables)
    tables.open(SHARDS).delete("number = 1")
    with pytest.raises(IndexLocked, match="another process has dropped shards"):
        second.run(MORE, lambda recipe: InProcess(recipe, model, tables))
    build_here(place, MORE, model)
    assert sound(place, model) == expected
    files = len(tables.open(SHARDS).get_fragments())
    assert (files == 1) == (loose == 1)


def test_the_version_in_force_outlives_what_a_worker_commits_meanwhile(
    place: Path, model: FakeModel, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(place, model).optimize()  # the next time there is nothing to put together, and no new version
    before = sound(place, model)

    def late(*arguments: object) -> None:
        commit_shard(tables, replace(staged(tables, 0)[1], attempt="f" * 32))

    monkeypatch.setattr("phrasemate.index.lance.index.update", late)
    monkeypatch.setattr("phrasemate.index.lance.index.KEPT", timedelta(microseconds=1))
    opened(place, model).optimize()
    assert sound(place, model) == before


def age(place: Path) -> None:
    old = time() - WEEK_AND_MORE
    for file in place.rglob("*"):
        os.utime(file, (old, old))


def test_what_cleaning_may_remove_is_made_again(
    place: Path, model: FakeModel, tables: Tables, expected: tuple[Any, ...]
) -> None:
    """Lance takes files that no version of a table names, and that are older than a week, for rubbish."""
    with pytest.raises(KeyboardInterrupt):
        build_here(place, MORE, model, stop_after=3)
    shards = opened(place, model).store.layout.head.shards
    assert len(staged(tables, shards)) == 3
    age(place)
    opened(place, model).optimize()
    assert staged(tables, shards) == []
    build_here(place, MORE, model)
    assert sound(place, model) == expected


def test_a_kept_shard_without_its_files_is_made_again(
    place: Path, model: FakeModel, tables: Tables, expected: tuple[Any, ...]
) -> None:
    with pytest.raises(KeyboardInterrupt):
        build_here(place, MORE, model, stop_after=3)
    lost, *remaining = staged(tables, opened(place, model).store.layout.head.shards)
    for file in (place / "sentences.lance" / "data").iterdir():
        if file.name in "".join(lost.fragments[SENTENCES]):
            file.unlink()
    result = build_here(place, MORE, model).made
    assert lost.number in result
    assert not {shard.number for shard in remaining} & set(result)
    assert sound(place, model) == expected


# -- writers


def test_a_driver_that_took_over_continues(
    place: Path, model: FakeModel, tables: Tables, expected: tuple[Any, ...]
) -> None:
    first, second = driver(tables), driver(tables)
    versions = {name: tables.open(name).version for name in DATA}
    with pytest.raises(IndexLocked, match=r"process \d+ on .* has taken over"):
        first._writer.publish(staged(tables, 0)[:1], {})
    with pytest.raises(IndexLocked, match=r"process \d+ on .* has taken over"):
        first._writer.delete([(0, 1, 1)])
    assert {name: tables.open(name).version for name in DATA} == versions
    append_some(tables)  # it had asked just before
    second.run(MORE, lambda recipe: InProcess(recipe, model, tables))
    assert sound(place, model) == expected


def test_a_document_is_deleted_beside_an_overtaken_driver(
    place: Path, model: FakeModel, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    def between(writer: Writer, *arguments: Any) -> None:
        append_some(tables)
        delete(writer, *arguments)

    delete = Writer.delete
    monkeypatch.setattr(Writer, "delete", between)
    opened(place, model).delete("0-1.txt")
    sound(place, model)
    assert [document.name for document in opened(place, model).documents()] == [
        f"0-{number}.txt" for number in (0, 2, 3, 4)
    ]


@pytest.mark.parametrize("step", ["compact", "_build_here"])
def test_rows_of_an_overtaken_driver_are_not_optimised_into_the_index(
    place: Path, model: FakeModel, tables: Tables, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    before = sound(place, model)
    real: Callable[..., Any] = getattr(lance_index, step)

    def between(*arguments: Any) -> Any:
        monkeypatch.undo()
        append_some(tables)
        return real(*arguments)

    monkeypatch.setattr(lance_index, step, between)
    with pytest.raises(IndexLocked, match="another process"):
        opened(place, model).optimize()
    assert sound(place, model)[:4] == before[:4]
    opened(place, model).optimize()
    assert sound(place, model)[:4] == before[:4]


class InOrder(InProcess):
    """Gives the shards back in the order of the input."""

    def give(self, order: Order) -> None:
        self._held.insert(0, order)


@pytest.mark.parametrize(("seconds", "count"), [(0.0, 3), (3600.0, 0)])
def test_what_is_in_the_index_when_a_driver_is_stopped(
    tmp_path: Path, model: FakeModel, monkeypatch: pytest.MonkeyPatch, seconds: float, count: int
) -> None:
    """Shards that came in are taken into the index every half minute, not only at the end."""
    monkeypatch.setattr("phrasemate.index.ray.PUBLISH_SECONDS", seconds)
    place = tmp_path / "idx"
    tables = Tables(str(place), {})
    create(tables, model, {})
    with pytest.raises(KeyboardInterrupt):
        driver(tables).run(documents(), lambda recipe: InOrder(recipe, model, tables, stop_after=3))
    index = opened(place, model)
    assert index.store.layout.head.shards == count
    assert index.stats().sentences == count * CHUNKS * SETTINGS.chunk
    assert len(staged(tables, 0)) == 3


# -- creating


def test_an_index_that_another_process_makes_meanwhile_is_left_alone(
    tmp_path: Path, model: FakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = Tables(str(tmp_path / "idx"), {})
    real = tables.create

    def late(name: str, dim: int) -> int:
        if name == DATA[-1]:
            monkeypatch.undo()
            create(Tables(tables.place, {}), FakeModel(name="first"), {})
        return real(name, dim)

    monkeypatch.setattr(tables, "create", late)
    with pytest.raises(IndexExists, match="another process has created an index there; give the same command again"):
        create(tables, model, {})
    assert Index.open(tmp_path / "idx").manifest.model_name == "first"


def test_a_second_create_leaves_the_index_alone(
    place: Path, model: FakeModel, tables: Tables, expected: tuple[Any, ...]
) -> None:
    versions = {name: tables.open(name).version for name in (SHARDS, *DATA)}
    with pytest.raises(IndexExists, match="another process has created an index there"):
        create(tables, model, {})
    (place / "state.lance").rename(place / "aside")  # the other one is not that far when this one looks
    with pytest.raises(IndexExists, match="the table shards holds rows"):
        create(tables, model, {})
    (place / "aside").rename(place / "state.lance")
    assert {name: tables.open(name).version for name in (SHARDS, *DATA)} == versions
    build_here(place, MORE, model)
    assert sound(place, model) == expected


def test_tables_that_were_rebuilt_are_taken_back(
    place: Path, model: FakeModel, tables: Tables, expected: tuple[Any, ...]
) -> None:
    for name in (SHARDS, *DATA):
        tables.create_empty(name, model.dim)
    build_here(place, MORE, model)
    assert sound(place, model) == expected


def test_a_killed_create_is_begun_again_with_another_model(tmp_path: Path) -> None:
    tables, model = Tables(str(tmp_path / "tables"), {}), FakeModel(dim=24)
    for name in (SHARDS, *DATA):
        tables.create(name, FakeModel().dim)
    build_here(tmp_path / "tables", documents(), model)
    assert sound(tmp_path / "tables", model)[-1].documents == 5
