from __future__ import annotations

from pathlib import Path

import pytest

from phrasemate.index import Index, Settings

from .fake import FakeModel

SMALL = Settings(chunk=32, learn=100, exact_below=300, forced_rebuild=1200, exact_filtered=400, train=1000, block=500)


@pytest.fixture
def model() -> FakeModel:
    return FakeModel()


@pytest.fixture
def index(tmp_path: Path, model: FakeModel):
    """An empty index that turns to FAISS from 300 phrases on."""
    with Index.create(tmp_path / "idx", model, settings=SMALL) as made:
        yield made
