"""The folder of a trained re-ranker, sealed.

The encoder is not in it; whose states it was trained on stands in the configuration, by the hash of its folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from phrasemate.errors import InputError
from phrasemate.reranker.network import Network
from phrasemate.utils.storage import Seal

SEAL = Seal(
    "phrasemate-reranker",
    1,
    "phrasemate train reranker",
    "train it again, or reinstall phrasemate if it is the bundled one",
)


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
    SEAL.write(folder, weights, {"encoder": encoder, "facts": dict(facts)})


def load_reranker(folder: Path | None = None) -> Trained:
    """Read one (default: the bundled one), every byte verified.

    Raises ModelError where there is none, ModelUnsupported for a foreign or newer format, ModelDamaged where something
    is missing or altered.
    """
    folder = bundled_reranker() if folder is None else folder
    content, digest = SEAL.read(folder)
    try:
        weights = SEAL.weights(folder, content)
        arrays = {name: array.astype(np.float32) for name, array in load(weights).items()}
        return Trained(Network(arrays), str(content["encoder"]), dict(content["facts"]), digest)
    except (KeyError, TypeError, ValueError, SafetensorError, InputError) as error:
        raise SEAL.misfit(folder, error) from error
