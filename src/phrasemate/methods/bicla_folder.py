"""The folder of a trained BiCLA: ``weights.safetensors``, and ``config.json`` that seals it.

The word vectors are not in it: they are those of the languages that it is used with. What it was trained with stands in
the facts of the configuration. A configuration is accepted only if it is byte for byte what would be written for its
content, weights only if they have the SHA-256 that it names.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError
from safetensors.torch import load, save

from phrasemate.errors import InputError, ModelDamaged, ModelError, ModelUnsupported
from phrasemate.methods.bicla import BiCLA, Settings
from phrasemate.methods.config import built

__all__ = ["FORMAT", "VERSION", "Trained", "folders_in", "load_bicla", "save_bicla"]

FORMAT = "phrasemate-bicla"
VERSION = 1
CONFIG, WEIGHTS = "config.json", "weights.safetensors"
REMEDY = "train it again, or copy it again"


class Trained(NamedTuple):
    """A model, the ``facts`` of its training, and the ``hash`` (64 hex digits) of its folder."""

    model: BiCLA
    facts: dict[str, Any]
    hash: str


def save_bicla(model: BiCLA, folder: Path, facts: Mapping[str, Any]) -> None:
    """Write it into a folder that is there; ``facts`` (plain data) say what it was trained on."""
    tensors = {name: value.detach().float().cpu().contiguous() for name, value in model.state_dict().items()}
    weights = save(tensors)
    (folder / WEIGHTS).write_bytes(weights)
    content = {
        "format": FORMAT,
        "version": VERSION,
        "dim": model.dim,
        "settings": asdict(model.settings),
        "facts": dict(facts),
        "sha256": hashlib.sha256(weights).hexdigest(),
    }
    (folder / CONFIG).write_bytes(_written(content))


def folders_in(folder: Path) -> list[Path]:
    """The trained folders in a folder, itself and however deep, sorted. Raises InputError where it is not there."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; expected one with runs of 'phrasemate train bicla' in it")
    mark = f'"format": "{FORMAT}"'
    configs = (path for path in folder.rglob(CONFIG) if not path.parent.name.endswith(".part"))
    return sorted(path.parent for path in configs if mark in path.read_text(encoding="utf-8", errors="replace"))


def load_bicla(folder: Path, device: str = "cpu") -> Trained:
    """Read one, every byte verified, ready to score with.

    Raises ModelError where there is none, ModelUnsupported for a foreign or newer format, ModelDamaged where something
    is missing or altered.
    """
    if not (folder / CONFIG).is_file():
        raise ModelError(f"{folder}: no {CONFIG}; expected a folder that 'phrasemate train bicla' made (RUN/model)")
    content, digest = _config(folder / CONFIG)
    try:
        weights = (folder / WEIGHTS).read_bytes()
        if hashlib.sha256(weights).hexdigest() != content["sha256"]:
            raise ModelDamaged(f"{folder / WEIGHTS}: altered (another SHA-256 than in {CONFIG}); {REMEDY}")
        model = BiCLA(int(content["dim"]), built(Settings, content["settings"], "settings"))
        model.load_state_dict(load(weights))
        return Trained(model.to(device).eval(), dict(content["facts"]), digest)
    except OSError as error:
        raise ModelDamaged(f"{folder / WEIGHTS}: cannot be read ({error.strerror}); {REMEDY}") from error
    except (KeyError, TypeError, ValueError, RuntimeError, SafetensorError, InputError) as error:
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
        raise ModelUnsupported(f"{path}: not of the format {FORMAT!r}; expected one of 'phrasemate train bicla'")
    if isinstance(content.get("version"), int) and content["version"] > VERSION:
        raise ModelUnsupported(f"{path}: version {content['version']}, expected {VERSION}; upgrade phrasemate")
    if content.get("version") != VERSION or raw != _written(content):
        raise ModelDamaged(f"{path}: altered (not as phrasemate writes it); {REMEDY}")
    return content, hashlib.sha256(raw).hexdigest()
