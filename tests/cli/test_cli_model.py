"""``phrasemate model``: facts of a folder, its damage, and the options of the export."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from phrasemate.encode.export.export import export_model
from phrasemate.encode.model_folder import write_manifest
from phrasemate.encode.scoring import FEATURES, CandidateScorer, Confidence

Invoke = Callable[..., Any]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A sealed folder; its weights are not weights, which nobody here looks at."""
    path = tmp_path / "tiny"
    path.mkdir()
    config = {"format": "phrasemate-model", "version": 1, "name": "tiny", "width": 8, "pooling": "ends"}
    config |= {"layers": [2], "max_tokens": 16}
    (path / "config.json").write_text(json.dumps(config), "utf-8")
    for name in ("tokenizer.json.gz", "encoder.onnx", "embeddings.safetensors"):
        (path / name).write_bytes(name.encode() * 10)
    write_manifest(path)
    return path


def test_info(invoke: Invoke, folder: Path) -> None:
    facts = json.loads(invoke("model", "info", str(folder), "--json").stdout)
    assert (facts["name"], facts["width"], len(facts["hash"])) == ("tiny", 8, 64)
    page = invoke("model", "info", str(folder)).stdout
    assert facts["hash"] in page
    assert "tiny" in page


def test_info_says_whether_searches_tell_how_sure_they_are(invoke: Invoke, folder: Path) -> None:
    digest = json.loads(invoke("model", "info", str(folder), "--json").stdout)["hash"]
    none = "none (bench/candidate_scorer.py fits a scorer)"
    for model, message in ((digest, "calibrated"), ("0" * 64, none)):  # of another model
        Confidence(-1.0, (1.0, 2.0, 3.0)).save(folder, model, {})
        assert json.loads(invoke("model", "info", str(folder), "--json").stdout)["confidence"] == message
    CandidateScorer(0.0, (0.0,) * len(FEATURES)).save(folder, digest, {})
    assert json.loads(invoke("model", "info", str(folder), "--json").stdout)["confidence"] == "calibrated"


def test_info_of_heads(invoke: Invoke, folder: Path) -> None:
    assert json.loads(invoke("model", "info", str(folder), "--json").stdout)["segmenter"] == {"kind": "n-gram"}
    draw = np.random.default_rng(0)
    shapes = {"start": (8, 3), "end": (8, 3), "bias": 3, "segment_start": 8, "segment_end": 8, "segment_bias": 1}
    arrays = {name: draw.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    save_file(arrays, folder / "heads.safetensors")
    config = json.loads((folder / "config.json").read_text("utf-8"))
    config["segmenter"] = {"threshold": 0.8, "max_words": None}
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    write_manifest(folder)
    facts = json.loads(invoke("model", "info", str(folder), "--json").stdout)
    assert (facts["pooling"], facts["dim"]) == ("head", 3)
    assert facts["segmenter"] == {"kind": "learned", "threshold": 0.8, "max_words": None}
    assert "kind learned, threshold 0.8" in invoke("model", "info", str(folder)).stdout
    save_file({**arrays, "end": arrays["end"][:4]}, folder / "heads.safetensors")
    write_manifest(folder)
    result = invoke("model", "verify", str(folder))
    assert result.exit_code == 1
    assert "heads.safetensors: end has the shape (4, 3), expected (8, 3)" in result.stderr


def test_verify(invoke: Invoke, folder: Path) -> None:
    result = invoke("model", "verify", str(folder))
    assert result.exit_code == 0
    assert result.stdout.startswith(f"{folder}: every file is as it was made (")
    assert json.loads(invoke("model", "verify", str(folder), "--json").stdout)["ok"] is True


def test_one_flipped_bit_is_found(invoke: Invoke, folder: Path) -> None:
    weights = bytearray((folder / "encoder.onnx").read_bytes())
    weights[5] ^= 1
    (folder / "encoder.onnx").write_bytes(weights)
    result = invoke("model", "verify", str(folder))
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error: {folder / 'encoder.onnx'}: altered ")


def usual(option: str) -> Any:
    return inspect.signature(export_model).parameters[option].default


def test_export_hands_its_options_on(invoke: Invoke, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls: list[Any] = []

    def export_model(*arguments: Any, **options: Any) -> str:
        calls.append((arguments, options))
        return "ab" * 32

    monkeypatch.setitem(sys.modules, "phrasemate.encode.export.export", SimpleNamespace(export_model=export_model))
    assert invoke("model", "export", "hf", "-o", "out").stdout == "out: model abababababab\n"
    text = tmp_path / "text.txt"
    text.write_text("One. Two.\n", "utf-8")
    options = ["--pooling", "mean", "--layer", "8", "--layer", "3", "--embedding-bits", "8", "--force", "--no-smooth"]
    options += ["--project", str(text), "--dim", "64", "--sentence-prefix", "query: ", "--name", "n", "--licence", "L"]
    options += [
        "--min-belief",
        "0.8",
        "--max-words",
        "0",
        "--base",
        "B",
        "--share",
        "0.8",
        "--context-weight",
        "0.4",
    ]
    invoke("model", "export", "hf", "--out", "out", *options)
    plain, full = [options for _, options in calls]
    assert [arguments for arguments, _ in calls] == [(Path("hf"), Path("out"))] * 2
    assert plain == {
        "base": None,
        "share": 1.0,
        "layers": (),
        "pooling": None,
        "context_weight": None,
        "sentence_prefix": "",
        "embedding_bits": None,
        "prompt": None,
        "graph": "auto",
        "precision": "int8",
        "smooth": True,
        "project": None,
        **{name: usual(name) for name in ("dim", "segment_threshold", "max_words")},
        "name": "",
        "licence": None,
        "force": False,
    }
    assert list(full.pop("project")) == ["One.", "Two."]
    assert full == {
        "base": Path("B"),
        "share": 0.8,
        "layers": [8, 3],
        "pooling": "mean",
        "context_weight": 0.4,
        "sentence_prefix": "query: ",
        "prompt": None,
        "graph": "auto",
        "precision": "int8",
        "embedding_bits": 8,
        "smooth": False,
        "dim": 64,
        "segment_threshold": 0.8,
        "max_words": None,
        "name": "n",
        "licence": Path("L"),
        "force": True,
    }


def test_numbers_of_no_projection(invoke: Invoke, tmp_path: Path) -> None:
    result = invoke("model", "export", "folder", "-o", str(tmp_path / "out"), "--dim", "64")
    assert result.exit_code == 2
    assert "--dim applies to a projection; give --project" in result.stderr
