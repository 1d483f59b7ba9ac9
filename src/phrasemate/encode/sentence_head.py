"""Token states -> sentence vectors, as sentence-transformers describes them: prompt, pooling, and the layers after it.

A model folder that comes of a sentence-transformers folder says in ``config.json`` under ``sentence``::

    pooling         one or more of MODES; the vectors of several are joined in this order
    include_prompt  whether the tokens of the prompt are pooled
    prompts         {name: text}; the text is put before a sentence
    default_prompt  the name of the prompt that is used unless a call names another, or null
    layers          [{"kind": "dense", "activation": "Tanh"} | {"kind": "layer_norm"} | {"kind": "normalize"}]

The weights of layer i are ``i.weight`` (out, in) and ``i.bias`` (out,) in ``sentence.safetensors``. Models without the
entry take the mean of all token states.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file

from phrasemate.encode.model_folder import SENTENCE
from phrasemate.encode.pooling import pool_mean
from phrasemate.encode.runtime import States
from phrasemate.errors import InputError, ModelDamaged
from phrasemate.utils.storage import save_arrays

MODES = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
KINDS = ("dense", "layer_norm", "normalize")
NORM_EPSILON = 1e-5  # of torch's LayerNorm

Floats = NDArray[np.float32]


def _gelu(x: Floats) -> Floats:
    curve = np.vectorize(math.erf, otypes=[np.float32])
    values: Floats = (x * (1 + curve(x / np.sqrt(2))) / 2).astype(np.float32) if x.size else x
    return values


def _sigmoid(x: Floats) -> Floats:
    return ((1 + np.tanh(x / 2)) / 2).astype(np.float32)


ACTIVATIONS: dict[str, Callable[[Floats], Floats]] = {
    "Identity": lambda x: x,
    "Tanh": np.tanh,
    "ReLU": lambda x: np.maximum(x, 0),
    "Sigmoid": _sigmoid,
    "SiLU": lambda x: x * _sigmoid(x),
    "GELU": _gelu,
}


@dataclass(frozen=True)
class Layer:
    """A step after pooling; ``weight`` and ``bias`` are empty where the kind or the layer has none."""

    kind: str
    activation: str = "Identity"
    weight: Floats = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    bias: Floats = field(default_factory=lambda: np.zeros(0, np.float32))

    def __call__(self, vectors: Floats) -> Floats:
        """(texts, in) -> (texts, out)."""
        if self.kind == "normalize":
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
            return np.asarray(vectors / np.maximum(lengths, np.float32(1e-12)), np.float32)
        if self.kind == "layer_norm":
            centred = vectors - vectors.mean(1, keepdims=True)
            scaled = centred / np.sqrt((centred**2).mean(1, keepdims=True) + NORM_EPSILON)
            normed: Floats = scaled * self.weight + self.bias
            return normed
        products = vectors @ self.weight.T
        return ACTIVATIONS[self.activation](products + self.bias if self.bias.size else products)


@dataclass(frozen=True)
class SentenceHead:
    """Pooling and layers of a sentence vector.

    Example: ``SentenceHead(pooling=("cls",), layers=(Layer("dense", "Tanh", weight, bias), Layer("normalize")))`` is
    LaBSE's.
    """

    pooling: tuple[str, ...] = ("mean",)
    include_prompt: bool = True
    prompts: Mapping[str, str] | None = None
    default_prompt: str | None = None
    layers: tuple[Layer, ...] = ()

    def __post_init__(self) -> None:
        unknown = [mode for mode in self.pooling if mode not in MODES]
        if unknown or not self.pooling:
            raise InputError(f"pooling {', '.join(unknown) or 'missing'}; expected some of {', '.join(MODES)}")
        if self.default_prompt is not None:
            self.prompt(self.default_prompt)

    def prompt(self, name: str | None = None) -> str:
        """The text before a sentence; ``name`` None is the default. Raises InputError for an unknown name."""
        name = self.default_prompt if name is None else name
        if name is None:
            return ""
        if name not in (self.prompts or {}):
            names = ", ".join(self.prompts or ()) or "none"
            raise InputError(f"prompt {name!r}: the model has {names}")
        return (self.prompts or {})[name]

    def __call__(self, states: States, skipped: int = 0) -> Floats:
        """(texts, dim) vectors of the texts of a block; the first ``skipped`` tokens of each are not pooled."""
        vectors = np.concatenate([_pooled(states, mode, skipped) for mode in self.pooling], axis=1)
        for layer in self.layers:
            vectors = layer(vectors)
        return np.asarray(vectors, np.float32)

    def dim(self, width: int) -> int:
        """Length of a sentence vector over token states of ``width`` numbers."""
        sizes = [len(layer.weight) for layer in self.layers if layer.kind == "dense"]
        return sizes[-1] if sizes else width * len(self.pooling)

    def entry(self) -> dict[str, Any]:
        """The object that ``config.json`` keeps."""
        layers = [
            {"kind": layer.kind} | ({"activation": layer.activation} if layer.kind == "dense" else {})
            for layer in self.layers
        ]
        return {
            "pooling": list(self.pooling),
            "include_prompt": self.include_prompt,
            "prompts": dict(self.prompts or {}),
            "default_prompt": self.default_prompt,
            "layers": layers,
        }

    def save(self, folder: Path) -> None:
        """Write the weights of the layers into a folder."""
        arrays = {}
        for number, layer in enumerate(self.layers):
            for name, array in (("weight", layer.weight), ("bias", layer.bias)):
                if array.size:
                    arrays[f"{number}.{name}"] = np.ascontiguousarray(array, np.float32)
        save_arrays(folder / SENTENCE, arrays)


def _pooled(states: States, mode: str, skipped: int) -> Floats:
    """(texts, width): one mode's vectors; a text of at most ``skipped`` tokens keeps its last one."""
    after = states.bounds[1:]
    first = np.minimum(states.bounds[:-1] + skipped, after - 1)
    if mode == "cls":
        return states.values[first]
    if mode == "lasttoken":
        return states.values[after - 1]
    if mode == "max":
        return np.stack([states.values[a:b].max(0) for a, b in zip(first.tolist(), after.tolist(), strict=True)])
    if mode == "weightedmean":
        places = np.arange(1, len(states.values) + 1) - np.repeat(states.bounds[:-1], np.diff(states.bounds))
        weighted = pool_mean(states.values * places[:, None].astype(np.float32), first, after - 1)
        means = (places[first] + places[after - 1]) / 2  # of consecutive numbers
        return (weighted / means[:, None]).astype(np.float32)
    vectors = pool_mean(states.values, first, after - 1)
    if mode == "mean_sqrt_len_tokens":
        vectors = (vectors * np.sqrt(after - first)[:, None]).astype(np.float32)
    return vectors


def load_sentence_head(folder: Path, config: Mapping[str, Any], remedy: str) -> SentenceHead | None:
    """The sentence head of a model folder; None where the model takes the mean of all token states.

    Raises ModelDamaged for an entry or weights that do not fit each other or the encoder's width.
    """
    entry = config.get("sentence")
    if entry is None:
        return None
    try:
        arrays = load_file(folder / SENTENCE)
        layers = []
        for number, described in enumerate(entry["layers"]):
            if described["kind"] not in KINDS or described.get("activation", "Identity") not in ACTIVATIONS:
                raise ValueError(f"layer {described}")
            stored = {name: arrays[f"{number}.{name}"] for name in ("weight", "bias") if f"{number}.{name}" in arrays}
            layers.append(Layer(described["kind"], described.get("activation", "Identity"), **stored))
        head = SentenceHead(
            tuple(entry["pooling"]),
            bool(entry["include_prompt"]),
            {str(name): str(text) for name, text in entry["prompts"].items()},
            entry["default_prompt"],
            tuple(layers),
        )
        width = int(config["width"])
        states = States(np.ones((1, width), np.float32), np.array([0, 1]), np.zeros(1, np.int32), np.zeros(1, np.int32))
        if not np.isfinite(head(states)).all():
            raise ValueError("weights that are not finite")
    except (OSError, SafetensorError, ValueError, KeyError, TypeError, AttributeError, InputError) as error:
        raise ModelDamaged(f"{folder / SENTENCE}: does not fit the configuration ({error}); {remedy}") from error
    return head
