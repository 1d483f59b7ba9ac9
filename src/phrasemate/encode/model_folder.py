"""The model folder: what is in it, how it is written, and how its damage is found before it can mislead.

::

    config.json             format, architecture, pooling, training signature
    tokenizer.json.gz       a Hugging Face tokenizer, gzip
    encoder.onnx            the transformer, weight-only int8; or encoder.xml and encoder.bin, OpenVINO's own form, or
                            traced.onnx, for ONNX Runtime (version 3 only): see `traced_graph`
    embeddings.safetensors  the token table in 4 or 8 bit, positions, biases of the sum
    sentence.safetensors    what follows the pooling of a sentence (from version 2; see `sentence_head`)
    heads.safetensors       the projection of phrases, the learned segmenter (only when the model has them)
    MANIFEST.json           size and SHA-256 of each of the others; its own SHA-256 is the model's hash
    confidence.json         not sealed, may be missing: see `phrasemate.encode.scoring`
    scorer.json             the same: see `phrasemate.encode.scoring`
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

from phrasemate.errors import ModelDamaged, ModelError, ModelUnsupported
from phrasemate.utils.storage import atomic_file, sha256_of

FORMAT = "phrasemate-model"
VERSION = 3  # 1: the graph of `onnx_graph`, sentences as means of their tokens; 2: no traced graph in ONNX
CONFIG, TOKENIZER, ENCODER = "config.json", "tokenizer.json.gz", "encoder.onnx"
CONFIDENCE, SCORER = "confidence.json", "scorer.json"  # not sealed: no vector depends on them
TRACED, TRACED_WEIGHTS, TRACED_ONNX = "encoder.xml", "encoder.bin", "traced.onnx"
GRAPHS = ({ENCODER}, {TRACED, TRACED_WEIGHTS}, {TRACED_ONNX})  # files of the transformer, in one form or another
EMBEDDINGS, HEADS, MANIFEST = "embeddings.safetensors", "heads.safetensors", "MANIFEST.json"
SENTENCE = "sentence.safetensors"
PRECISIONS = ("int8", "bf16", "fp16", "fp32")  # of the graph's weights; with fp32 the runtime computes in it, too
NESTING = 100  # brackets of JSON within one another; an export writes four
REMEDY = "export the model again, or reinstall phrasemate if it is the bundled one"


def bundled_folder() -> Path:
    """Folder of the model that comes with the package."""
    return Path(__file__).parent.parent / "models" / "e5-small"


def write_manifest(folder: Path) -> str:
    """Seal a folder: record size and SHA-256 of every file; returns the model's hash (64 hex digits)."""
    files = {
        path.name: {"bytes": path.stat().st_size, "sha256": sha256_of(path)}
        for path in sorted(folder.iterdir())
        if path.is_file() and path.name not in (MANIFEST, CONFIDENCE, SCORER)
    }
    content = _sealed(files, folder_version(files))
    with atomic_file(folder / MANIFEST, "wb", ".new") as file:
        file.write(content)
    return hashlib.sha256(content).hexdigest()


def folder_version(files: Iterable[str]) -> int:
    """The lowest version that can read a folder with these files."""
    names = set(files)
    return VERSION if TRACED_ONNX in names else 2 if {TRACED, SENTENCE} & names else 1


def _sealed(files: dict[str, Any], version: int) -> bytes:
    """The one form of a manifest, so that a model has one hash."""
    text = json.dumps({"format": FORMAT, "version": version, "files": files}, indent=1, sort_keys=True) + "\n"
    return text.encode()


def check_folder(folder: Path) -> tuple[dict[str, Any], str]:
    """Verify every byte of a model folder; returns its configuration and its hash.

    Raises ModelError when there is no model, ModelUnsupported for a foreign or newer format, and ModelDamaged when
    a file is missing, has another size or another SHA-256.
    """
    if not folder.is_dir():
        raise ModelError(f"{folder}: no such folder; expected a model folder made by 'phrasemate model export'")
    manifest, digest = _read_manifest(folder)
    for name, entry in manifest["files"].items():
        _check_file(folder, name, entry)
    for name in (HEADS, SENTENCE, *set().union(*GRAPHS)):
        if name not in manifest["files"] and (folder / name).exists():
            raise ModelDamaged(f"{folder / name}: is not in {MANIFEST}; remove it, or {REMEDY}")
    config = _load_json(folder / CONFIG)
    if config.get("format") != FORMAT or config.get("version") != manifest["version"]:
        raise ModelDamaged(f"{folder / CONFIG}: does not belong to its manifest; {REMEDY}")
    if wrong := _senseless(config):
        raise ModelDamaged(f"{folder / CONFIG}: {wrong}; {REMEDY}")
    if (config.get("sentence") is None) != (SENTENCE not in manifest["files"]):
        raise ModelDamaged(f"{folder / CONFIG}: sentence and {SENTENCE} do not belong together; {REMEDY}")
    if config["pooling"] == "head" and HEADS not in manifest["files"]:
        raise ModelDamaged(f"{folder / CONFIG}: pooling is head, and there is no {HEADS}; {REMEDY}")
    return config, digest


def _senseless(config: dict[str, Any]) -> str:
    """The first entry that no export writes so; a checksum only says that a file is as somebody wrote it."""
    texts = config.get("common_words", [])
    layers = config.get("layers")
    requirements = {
        "name": (isinstance(config.get("name"), str), "a name"),
        "width": (_is_count(config.get("width"), 1), "a number from 1"),
        "max_tokens": (_is_count(config.get("max_tokens"), 3), "a number from 3"),
        "layers": (isinstance(layers, list) and bool(layers) and all(_is_count(x, 0) for x in layers), "numbers"),
        "context_weight": (_is_number(config.get("context_weight", 0.0)), "a number from 0"),
        "longest": (_is_number(config.get("longest", 0.0)), "a number from 0"),
        "pooling": (config.get("pooling") in ("cls", "ends", "head", "mean"), "cls, ends, head or mean"),
        "common_words": (isinstance(texts, list) and all(isinstance(x, str) for x in texts), "a list of words"),
        "segmenter": (isinstance(config.get("segmenter", {}), dict), "an object"),
        "precision": (config.get("precision", "int8") in PRECISIONS, ", ".join(PRECISIONS)),
        "sentence": (isinstance(config.get("sentence", {}), dict), "an object"),
    }
    for key, (sound, requirement) in requirements.items():
        if not sound:
            return f"{key} is {str(config.get(key))[:60]}, expected {requirement}"
    return ""


def _is_count(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


def _read_manifest(folder: Path) -> tuple[dict[str, Any], str]:
    path = folder / MANIFEST
    if not path.is_file():
        if any(folder.glob("model*.safetensors")) or any(folder.glob("pytorch_model*.bin")):
            raise ModelUnsupported(
                f"{folder}: a Hugging Face folder, not a model folder; convert it with: "
                f"phrasemate model export {folder} -o OUT"
            )
        raise ModelDamaged(f"{folder}: no {MANIFEST}; {REMEDY}")
    manifest = _load_json(path)
    if manifest.get("format") != FORMAT:
        raise ModelUnsupported(f"{path}: format {manifest.get('format')!r}, expected {FORMAT!r}; {REMEDY}")
    version, files = manifest.get("version"), manifest.get("files")
    if isinstance(version, int) and version > VERSION:
        raise ModelUnsupported(
            f"{path}: version {version}, this phrasemate reads up to {VERSION}; upgrade phrasemate, or export again"
        )
    if not isinstance(version, int) or version < 1 or not isinstance(files, dict) or not _complete(set(files)):
        raise ModelDamaged(f"{path}: lacks required entries; {REMEDY}")
    content = path.read_bytes()
    if content != _sealed(files, version):
        raise ModelDamaged(f"{path}: altered (not as phrasemate writes it); {REMEDY}")
    return manifest, hashlib.sha256(content).hexdigest()


def _complete(files: set[str]) -> bool:
    return {CONFIG, TOKENIZER, EMBEDDINGS} <= files and sum(graph <= files for graph in GRAPHS) == 1


def _check_file(folder: Path, name: str, entry: Any) -> None:
    path = folder / name
    if not isinstance(entry, dict) or not isinstance(entry.get("sha256"), str) or not _is_name(name):
        raise ModelDamaged(f"{folder / MANIFEST}: a senseless entry for {name!r}; {REMEDY}")
    try:
        size = path.stat().st_size
    except OSError as error:
        raise ModelDamaged(f"{path}: cannot be read ({error.strerror}); {REMEDY}") from error
    if size != entry.get("bytes"):
        raise ModelDamaged(f"{path}: {size} bytes, expected {entry.get('bytes')}; {REMEDY}")
    if sha256_of(path) != entry["sha256"]:
        raise ModelDamaged(f"{path}: altered (its SHA-256 is not the one in {MANIFEST}); {REMEDY}")


def _is_name(name: str) -> bool:
    """Whether it is the name of a file in the folder, not a way out of it."""
    return name.isprintable() and Path(name).name == name not in ("", "..")


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(NESTING + 1):
        inner = (
            value.values() if isinstance(value, dict) else value for value in level if isinstance(value, dict | list)
        )
        level = list(chain.from_iterable(inner))
    return bool(level)


def _load_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        if _is_deep(value):  # what can just be read cannot be written or shown
            raise ValueError(f"more than {NESTING} brackets within one another")
    except (OSError, ValueError, RecursionError) as error:
        raise ModelDamaged(f"{path}: not readable as JSON ({error}); {REMEDY}") from error
    if not isinstance(value, dict):
        raise ModelDamaged(f"{path}: expected a JSON object; {REMEDY}")
    return value


def output_name(layer: int) -> str:
    """The graph's output for the states after a layer (0: what goes into the first one)."""
    return f"layer_{layer}"
