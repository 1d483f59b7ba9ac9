"""A worker without Ray, in this process: the shards that it commits, and the errors that it hands to the driver."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

pytest.importorskip("lance", reason="Lance is not installed (pip install 'phrasemate[ray]')")

from cluster_fakes import CHUNKS, SETTINGS, InProcess, documents, rows_of

from phrasemate import __version__
from phrasemate.encode import Model, load_model
from phrasemate.errors import ClusterError, ModelMismatch, ReadError
from phrasemate.index import Index
from phrasemate.index.lance.commit import create, staged
from phrasemate.index.lance.records import Order, Recipe, Shard
from phrasemate.index.lance.tables import Tables
from phrasemate.index.ray import Driver, Failure, Worker


@pytest.fixture(scope="module")
def model(folder: Path) -> Model:
    return load_model(folder, threads=1)


class Work(NamedTuple):
    """An index in which nothing is yet, and the shards that its driver wants."""

    tables: Tables
    recipe: Recipe
    orders: list[Order]


@pytest.fixture
def work(tmp_path: Path, model: Model) -> Work:
    tables = Tables(str(tmp_path / "tables"), {})
    create(tables, model, {})
    driver = Driver(tables, SETTINGS, CHUNKS, "en", None)
    recipe, stream = driver._recipe(documents())
    return Work(tables, recipe, list(driver._orders(stream, recipe)))


def test_its_shards_are_the_index_of_one_machine(tmp_path: Path, work: Work, model: Model) -> None:
    worker = Worker(work.recipe)
    assert worker.pid() == os.getpid()
    shards = [worker.run(order) for order in work.orders]
    assert staged(work.tables, 0) == shards
    assert all(
        isinstance(shard, Shard) and shard.is_of(order) for shard, order in zip(shards, work.orders, strict=True)
    )
    assert worker.model() is worker.model()  # loaded once
    pool = InProcess(work.recipe, model, work.tables)
    Driver(work.tables, SETTINGS, CHUNKS, "en", None).run(documents(), lambda recipe: pool)
    assert pool.made == []  # a driver takes all that the worker has committed
    with Index.create(tmp_path / "one", model, settings=SETTINGS, threads=1) as one:
        one.add(documents(), lang="en")
        assert rows_of(Index.open(work.tables.place, model, settings=SETTINGS)) == rows_of(one)


@pytest.mark.parametrize("change", [{"model_hash": "0" * 64}, {"version": "0.0.1"}])
def test_a_machine_with_another_model_or_version_commits_nothing(
    work: Work, model: Model, change: dict[str, str]
) -> None:
    recipe = replace(work.recipe, **change)
    failure = Worker(recipe).run(work.orders[0])
    assert failure == Failure(
        "ModelMismatch",
        f"a worker has phrasemate {__version__} and the model {model.hash[:12]}, the driver {recipe.version} and "
        f"{recipe.model_hash[:12]}; install the same on all machines",
    )
    assert type(failure.error()) is ModelMismatch
    assert staged(work.tables, 0) == []


def test_a_machine_without_the_model_says_where_it_was_expected(work: Work, tmp_path: Path) -> None:
    failure = Worker(replace(work.recipe, model_path=str(tmp_path / "nowhere"))).run(work.orders[0])
    assert isinstance(failure, Failure)
    assert failure.kind == "ModelError"
    assert str(tmp_path / "nowhere") in failure.message
    assert staged(work.tables, 0) == []


def test_an_error_that_takes_more_than_a_message_is_one_of_the_cluster() -> None:
    error = ReadError("a.txt", 3, "is not UTF-8", "expected text")
    assert repr(Failure.of(error).error()) == repr(ClusterError(str(error)))
    assert repr(Failure("KeyError", "x").error()) == repr(ClusterError("x"))
