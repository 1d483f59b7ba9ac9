from __future__ import annotations

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing may be fetched, whoever starts the tests

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "encode"))

import encoders

from phrasemate.encode import Model, load_model
from phrasemate.encode.export.export import export_model
from phrasemate.vectors import WordVectors


@pytest.fixture(scope="session")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """A tiny random encoder with its two layers and a projection to five numbers."""
    base = tmp_path_factory.mktemp("vectors")
    folder = encoders.save_trained(encoders.save_xlmr(base / "xlmr"))
    export_model(folder, base / "model", layers=[1, 2])
    return load_model(base / "model", threads=1)


@pytest.fixture
def few() -> WordVectors:
    """Four words of three numbers."""
    matrix = np.array([[3, 4, 0], [0, 2, 0], [0, 0, -1], [1, 1, 1]], np.float32)
    return WordVectors(("das", "haus", "größe", "東京"), matrix, "de", np.array([9, 5, 5, 1]), {"method": "by hand"})
