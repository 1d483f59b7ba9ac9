"""The folder of a trained re-ranker: ``weights.safetensors``, and ``config.json`` that seals it.

The encoder is not in it; whose states it was trained on stands in the configuration, by the hash of its folder. A
configuration is accepted only if it is byte for byte what would be written for its content, weights only if they have
the SHA-256 that it names.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from phrasemate.errors import InputError, ModelDamaged, ModelError, ModelUnsupported
from phrasemate.reranker.network import Network

__all__ = ["FORMAT", "VERSION", "Trained", "bundled_reranker", "load_reranker", "save_reranker"]

FORMAT = "phrasemate-reranker"
VERSION = 1
CONFIG, WEIGHTS = "config.json", "weights.safetensors"
REMEDY = "train it again, or reinstall phrasemate if it is the bundled one"


class Trained(NamedTuple):
    """A network, the hash of the ``encoder`` it goes with, the ``facts`` of its training, its folder's own ``hash``."""

    network: Network
    encoder: str
    facts: dict[str, Any]
    hash: str


def bundled_reranker() -> Path:
    """The one that comes with the package, for the bundled encoder."""
    return Path(__file__).parent.parent / "models" / "e5-small-reranker"


def save_reranker(network: Network, folder: Path, encoder: str, facts: Mapping[str, Any]) -> None:
    """Write it, in float16, into a folder that is there; ``facts`` (plain data) say what it was trained on."""
    weights = save({name: array.astype(np.float16) for name, array in network.arrays.items()})
    (folder / WEIGHTS).write_bytes(weights)
    content = {
        "format": FORMAT,
        "version": VERSION,
        "encoder": encoder,
        "facts": dict(facts),
        "sha256": hashlib.sha256(weights).hexdigest(),
    }
    (folder / CONFIG).write_bytes(_written(content))


def load_reranker(folder: Path | None = None) -> Trained:
    """Read one (default: the bundled one), every byte verified.

    Raises ModelError where there is none, ModelUnsupported for a foreign or newer format, ModelDamaged where something
    is missing or altered.
    """
    folder = bundled_reranker() if folder is None else folder
    if not (folder / CONFIG).is_file():
        raise ModelError(f"{folder}: no {CONFIG}; expected a folder that 'phrasemate train reranker' made (RUN/model)")
    content, digest = _config(folder / CONFIG)
    try:
        weights = (folder / WEIGHTS).read_bytes()
        if hashlib.sha256(weights).hexdigest() != content["sha256"]:
            raise ModelDamaged(f"{folder / WEIGHTS}: altered (another SHA-256 than in {CONFIG}); {REMEDY}")
        arrays = {name: array.astype(np.float32) for name, array in load(weights).items()}
        return Trained(Network(arrays), str(content["encoder"]), dict(content["facts"]), digest)
    except OSError as error:
        raise ModelDamaged(f"{folder / WEIGHTS}: cannot be read ({error.strerror}); {REMEDY}") from error
    except (KeyError, TypeError, ValueError, SafetensorError, InputError) as error:
        reason = " ".join(str(error).split())
        raise ModelDamaged(f"{folder}: {CONFIG} and {WEIGHTS} do not fit ({reason}); {REMEDY}") from error


def _written(content: Mapping[str, Any]) -> bytes:
    """The one form of a configuration."""
    return (json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def _config(path: Path) -> tuple[dict[str, Any], str]:
    """The content of a configuration, and the hash."""
    raw = path.read_bytes()
    try:
        content = json.loads(raw)
    except ValueError as error:
        raise ModelDamaged(f"{path}: not readable as JSON ({error}); {REMEDY}") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ModelUnsupported(f"{path}: not of the format {FORMAT!r}; expected one of 'phrasemate train reranker'")
    if isinstance(content.get("version"), int) and content["version"] > VERSION:
        raise ModelUnsupported(f"{path}: version {content['version']}, expected {VERSION}; upgrade phrasemate")
    if content.get("version") != VERSION or raw != _written(content):
        raise ModelDamaged(f"{path}: altered (not as phrasemate writes it); {REMEDY}")
    return content, hashlib.sha256(raw).hexdigest()
