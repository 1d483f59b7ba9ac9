"""``phrasemate model``: facts of a folder, its damage, and the options of the export."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from phrasemate.encode import export
from phrasemate.encode.folder import write_manifest

Invoke = Callable[..., Any]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A sealed folder; its weights are not weights, which nobody here looks at."""
    made = tmp_path / "tiny"
    made.mkdir()
    config = {"format": "phrasemate-model", "version": 1, "name": "tiny", "width": 8, "pooling": "ends"}
    (made / "config.json").write_text(json.dumps(config), "utf-8")
    for name in ("tokenizer.json.gz", "encoder.onnx", "embeddings.safetensors"):
        (made / name).write_bytes(name.encode() * 10)
    write_manifest(made)
    return made


def test_info(invoke: Invoke, folder: Path) -> None:
    facts = json.loads(invoke("model", "info", str(folder), "--json").stdout)
    assert (facts["name"], facts["width"], len(facts["hash"])) == ("tiny", 8, 64)
    page = invoke("model", "info", str(folder)).stdout
    assert facts["hash"] in page
    assert "tiny" in page


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


def test_export_hands_its_options_on(invoke: Invoke, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[Any] = []

    def export_model(*arguments: Any, **options: Any) -> str:
        asked.append((arguments, options))
        return "ab" * 32

    monkeypatch.setitem(sys.modules, "phrasemate.encode.export", SimpleNamespace(export_model=export_model))
    assert invoke("model", "export", "hf", "-o", "out").stdout == "out: model abababababab\n"
    text = tmp_path / "text.txt"
    text.write_text("One. Two.\n", "utf-8")
    options = ["--pooling", "mean", "--layer", "8", "--layer", "3", "--embedding-bits", "8", "--force"]
    options += ["--project", str(text), "--dim", "64", "--sentence-prefix", "query: ", "--name", "n", "--licence", "L"]
    invoke("model", "export", "hf", "--out", "out", *options)
    plain, full = [options for _, options in asked]
    assert [arguments for arguments, _ in asked] == [(Path("hf"), Path("out"))] * 2
    assert plain == {
        "layers": (),
        "pooling": "ends",
        "sentence_prefix": "",
        "embedding_bits": 4,
        "project": None,
        "dim": inspect.signature(export.export_model).parameters["dim"].default,
        "name": "",
        "licence": None,
        "force": False,
    }
    assert list(full.pop("project")) == ["One.", "Two."]
    assert full == {
        "layers": [8, 3],
        "pooling": "mean",
        "sentence_prefix": "query: ",
        "embedding_bits": 8,
        "dim": 64,
        "name": "n",
        "licence": Path("L"),
        "force": True,
    }
