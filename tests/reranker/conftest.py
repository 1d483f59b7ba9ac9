from __future__ import annotations

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing may be fetched, whoever starts the tests

import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

sys.path.insert(0, str(Path(__file__).parents[1] / "encode"))

import encoders
from plain_reranker import shaken

from phrasemate.encode import Model, load_model
from phrasemate.encode.export.export import export_model
from phrasemate.encode.model_folder import HEADS, write_manifest
from phrasemate.reranker import Network


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """A tiny random encoder with a projection to 16 numbers."""
    base = tmp_path_factory.mktemp("reranked")
    export_model(encoders.save_xlmr(base / "huggingface"), base / "model")
    draw = np.random.default_rng(1)
    shapes = {"start": (encoders.HIDDEN, 16), "end": (encoders.HIDDEN, 16), "bias": (16,)}
    save_file(
        {name: draw.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}, base / "model" / HEADS
    )
    write_manifest(base / "model")
    return load_model(base / "model", threads=1)


@pytest.fixture
def network() -> Network:
    """Random weights everywhere: states of 6 numbers, projected to 4."""
    return shaken(6, 4)
