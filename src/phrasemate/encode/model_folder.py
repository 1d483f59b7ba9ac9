"""Model folder: its files, its manifest, and the check that finds missing, damaged or altered files.

::

    config.json             format, architecture, pooling, training signature
    tokenizer.json.gz       a Hugging Face tokenizer, gzip
    encoder.onnx            the transformer with int8 weights; or a traced graph (see `traced_graph`): encoder.xml and
                            encoder.bin for OpenVINO, or traced.onnx for ONNX Runtime (from version 3)
    embeddings.safetensors  token vectors in 4, 8 or 16 bits, and the position and token type vectors added to them
    sentence.safetensors    layers after the pooling of a sentence (from version 2, optional; see `encode.heads`)
    heads.safetensors       phrase projection and learned segmenter (optional; see `encode.heads`)
    MANIFEST.json           size and SHA-256 of each file above; its own SHA-256 is the model's hash
    confidence.json         optional, not in the manifest; see `encode.scoring`
    scorer.json             optional, not in the manifest; see `encode.scoring`
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
VERSION = 3  # 1: encoder.onnx only; 2 adds encoder.xml and sentence.safetensors; 3 adds traced.onnx
CONFIG, TOKENIZER, ENCODER = "config.json", "tokenizer.json.gz", "encoder.onnx"
CONFIDENCE, SCORER = "confidence.json", "scorer.json"  # not in the manifest: no vector depends on them
TRACED, TRACED_WEIGHTS, TRACED_ONNX = "encoder.xml", "encoder.bin", "traced.onnx"
GRAPHS = ({ENCODER}, {TRACED, TRACED_WEIGHTS}, {TRACED_ONNX})  # a folder has exactly one of these sets
EMBEDDINGS, HEADS, MANIFEST = "embeddings.safetensors", "heads.safetensors", "MANIFEST.json"
SENTENCE = "sentence.safetensors"
PRECISIONS = ("int8", "bf16", "fp16", "fp32")  # of the graph's weights; with fp32 the activations are float32, too
NESTING = 100  # greatest depth of nested JSON; an export writes four levels
REMEDY = "export the model again, or reinstall phrasemate if it is the bundled one"


def bundled_folder() -> Path:
    """Return the folder of the model bundled with the package."""
    return Path(__file__).parent.parent / "models" / "e5-small"


def write_manifest(folder: Path) -> str:
    """Write the manifest: size and SHA-256 of every file. Returns the model's hash (64 hex digits)."""
    files = {
        path.name: {"bytes": path.stat().st_size, "sha256": sha256_of(path)}
        for path in sorted(folder.iterdir())
        if path.is_file() and path.name not in (MANIFEST, CONFIDENCE, SCORER)
    }
    content = _manifest_bytes(files, folder_version(files))
    with atomic_file(folder / MANIFEST, "wb", ".new") as file:
        file.write(content)
    return hashlib.sha256(content).hexdigest()


def folder_version(files: Iterable[str]) -> int:
    """Return the lowest format version that allows these files."""
    names = set(files)
    return VERSION if TRACED_ONNX in names else 2 if {TRACED, SENTENCE} & names else 1


def _manifest_bytes(files: dict[str, Any], version: int) -> bytes:
    """Serialise a manifest in its canonical form, so that equal files give equal hashes."""
    text = json.dumps({"format": FORMAT, "version": version, "files": files}, indent=1, sort_keys=True) + "\n"
    return text.encode()


def check_folder(folder: Path) -> tuple[dict[str, Any], str]:
    """Verify every file of a model folder by size and SHA-256. Returns its configuration and its hash.

    Raises ModelError if the folder does not exist, and ModelUnsupported for a foreign or newer format. Raises
    ModelDamaged for a file that is missing, altered or not in the manifest, and for an invalid configuration.
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
    if wrong := _invalid_entry(config):
        raise ModelDamaged(f"{folder / CONFIG}: {wrong}; {REMEDY}")
    if (config.get("sentence") is None) != (SENTENCE not in manifest["files"]):
        raise ModelDamaged(f"{folder / CONFIG}: sentence and {SENTENCE} do not belong together; {REMEDY}")
    if config["pooling"] == "head" and HEADS not in manifest["files"]:
        raise ModelDamaged(f"{folder / CONFIG}: pooling is head, and there is no {HEADS}; {REMEDY}")
    return config, digest


def _invalid_entry(config: dict[str, Any]) -> str:
    """Describe the first invalid entry of a configuration; empty if there is none."""
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
    if content != _manifest_bytes(files, version):
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
    """Whether a manifest entry is a plain file name, and not a path that leaves the folder."""
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
        if _is_deep(value):  # json.dumps and repr may exceed the recursion limit on it
            raise ValueError(f"more than {NESTING} brackets within one another")
    except (OSError, ValueError, RecursionError) as error:
        raise ModelDamaged(f"{path}: not readable as JSON ({error}); {REMEDY}") from error
    if not isinstance(value, dict):
        raise ModelDamaged(f"{path}: expected a JSON object; {REMEDY}")
    return value


def output_name(layer: int) -> str:
    """Return the name of the graph's output for the states after a layer; layer 0: the input of the first layer."""
    return f"layer_{layer}"
