from __future__ import annotations

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing may be fetched, whoever starts the tests

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "encode"))

import encoders
from pair_files import write_pairs


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random encoder as a Hugging Face folder; not to be changed."""
    return encoders.save_xlmr(tmp_path_factory.mktemp("base") / "xlmr")


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """A folder with the phrase pairs of two languages."""
    folder = tmp_path / "pairs"
    folder.mkdir()
    write_pairs(folder / "en-xx.jsonl", 40, 1)
    write_pairs(folder / "en-yy.jsonl", 30, 2)
    return folder


@pytest.fixture
def tables(base: Path) -> dict[str, Any]:
    """A configuration for them."""
    return {
        "data": {"files": ["en-*.jsonl"], "batch": 4, "phrases": 4, "dev": 4, "neighbours": 2},
        "model": {"base": str(base), "dropout": 0.1, "head": "random"},
        "loss": {
            "dim": 8,
            "normalise": True,
            "temperature": 0.1,
            "negatives": "spans",
            "same_wording": "ignored",
            "sentence": 0.2,
            "mean": 0.1,
        },
        "optimizer": {"encoder": 1e-3, "heads": 1e-2, "chunk": 32},
        "loop": {"steps": 6, "warmup": 2, "log": 1, "evaluate": 4, "checkpoint": 3, "precision": "fp32"},
    }
