"""The folder of a trained BiCLA, sealed.

The word vectors are not in it: they are those of the languages that it is used with. What it was trained with stands in
the facts of the configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError
from safetensors.torch import load, save

from phrasemate.errors import InputError
from phrasemate.methods.bicla import BiCLA, Settings
from phrasemate.methods.config import built
from phrasemate.utils.storage import CONFIG, Seal

SEAL = Seal("phrasemate-bicla", 1, "phrasemate train bicla", "train it again, or copy it again")


class Trained(NamedTuple):
    """A model, the ``facts`` of its training, and the ``hash`` (64 hex digits) of its folder."""

    model: BiCLA
    facts: dict[str, Any]
    hash: str


def save_bicla(model: BiCLA, folder: Path, facts: Mapping[str, Any]) -> None:
    """Write it into a folder that is there; ``facts`` (plain data) say what it was trained on."""
    tensors = {name: value.detach().float().cpu().contiguous() for name, value in model.state_dict().items()}
    content = {"dim": model.dim, "settings": asdict(model.settings), "facts": dict(facts)}
    SEAL.write(folder, save(tensors), content)


def folders_in(folder: Path) -> list[Path]:
    """The trained folders in a folder, itself and however deep, sorted. Raises InputError where it is not there."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; expected one with runs of 'phrasemate train bicla' in it")
    mark = f'"format": "{SEAL.format}"'
    configs = (path for path in folder.rglob(CONFIG) if not path.parent.name.endswith(".part"))
    return sorted(path.parent for path in configs if mark in path.read_text(encoding="utf-8", errors="replace"))


def load_bicla(folder: Path, device: str = "cpu") -> Trained:
    """Read one, every byte verified, ready to score with.

    Raises ModelError where there is none, ModelUnsupported for a foreign or newer format, ModelDamaged where something
    is missing or altered.
    """
    content, digest = SEAL.read(folder)
    try:
        weights = SEAL.weights(folder, content)
        model = BiCLA(int(content["dim"]), built(Settings, content["settings"], "settings"))
        model.load_state_dict(load(weights))
        return Trained(model.to(device).eval(), dict(content["facts"]), digest)
    except (KeyError, TypeError, ValueError, RuntimeError, SafetensorError, InputError) as error:
        raise SEAL.misfit(folder, error) from error
