from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from bundled_once import bundled_once  # noqa: F401

sys.path.append(str(Path(__file__).parents[1] / "index"))  # for `index_fakes`, the model without a model

from fastapi.testclient import TestClient
from server_fakes import FakeModel, make_index

from phrasemate.server.app import create_app
from phrasemate.server.indexes import Library

HERE = "http://localhost:8000"


@pytest.fixture
def model() -> FakeModel:
    return FakeModel()


@pytest.fixture
def folder(tmp_path: Path, model: FakeModel) -> Path:
    """An index of three sentences, made with the fake model."""
    return make_index(tmp_path / "idx", model)


@pytest.fixture
def library(folder: Path, model: FakeModel) -> Iterator[Library]:
    result = Library([folder], threads=1, model=model)
    yield result
    result.close()


@pytest.fixture
def client(library: Library) -> Iterator[TestClient]:
    """Asks an application on the library, without a socket."""
    with TestClient(create_app(library), base_url=HERE, raise_server_exceptions=False) as test_client:
        yield test_client
