from __future__ import annotations

from pathlib import Path

import pytest
from index_fakes import SMALL, FakeModel

from phrasemate.index import Index


@pytest.fixture
def model() -> FakeModel:
    return FakeModel()


@pytest.fixture
def index(tmp_path: Path, model: FakeModel):
    """An empty index that turns to FAISS from 300 phrases on."""
    with Index.create(tmp_path / "idx", model, settings=SMALL, threads=1) as result:
        yield result
