"""Fixtures: a server on loopback that misbehaves as told, the bundled model and a small index."""

from __future__ import annotations

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing may be fetched, whoever starts the tests

from collections.abc import Iterator
from pathlib import Path

import pytest
from bundled_once import bundled_once  # noqa: F401
from llm_double import ENGLISH, Double

from phrasemate import Document, Index, Model, load_model
from phrasemate.encode import bundled_folder


@pytest.fixture
def server() -> Iterator[Double]:
    """A server that translates by capitals; see `Double` for its moods."""
    with Double() as double:
        yield double


@pytest.fixture(scope="session")
def model() -> Model:
    """The model that comes with the package, with one thread."""
    if not bundled_folder().exists():
        pytest.skip(f"no bundled model in {bundled_folder()}; phrasemate model export makes it")
    return load_model(threads=1)


@pytest.fixture(scope="session")
def folder(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an index of `ENGLISH`."""
    path = tmp_path_factory.mktemp("mt") / "idx"
    with Index.create(path, model, threads=1) as index:
        index.add([Document.from_texts("english", ENGLISH)], lang="en")
    return path


@pytest.fixture
def index(folder: Path, model: Model) -> Iterator[Index]:
    with Index.open(folder, model, readonly=True, threads=1) as opened:
        yield opened
