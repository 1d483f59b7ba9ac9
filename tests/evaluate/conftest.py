from __future__ import annotations

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing may be fetched, whoever starts the tests

import sys
from pathlib import Path

import numpy as np
import pytest
from bundled_once import bundled_once  # noqa: F401
from safetensors.numpy import save_file

sys.path.insert(0, str(Path(__file__).parents[1] / "encode"))

import corpora
import encoders

from phrasemate.encode import Model, load_model
from phrasemate.encode.export.export import export_model
from phrasemate.encode.model_folder import HEADS, write_manifest


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder of its own for each test, which may damage it."""
    return corpora.make(tmp_path / "corpora")


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random model with a projection and a segmenter."""
    base = tmp_path_factory.mktemp("evaluated")
    export_model(encoders.save_xlmr(base / "huggingface"), base / "model")
    draw = np.random.default_rng(1)
    shapes = {"start": (encoders.HIDDEN, 16), "end": (encoders.HIDDEN, 16), "bias": (16,)}
    shapes |= {"segment_start": (encoders.HIDDEN,), "segment_end": (encoders.HIDDEN,), "segment_bias": (1,)}
    heads = {name: draw.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    save_file(heads, base / "model" / HEADS)
    write_manifest(base / "model")
    return base / "model"


@pytest.fixture(scope="session")
def model(folder: Path) -> Model:
    return load_model(folder, threads=1)
