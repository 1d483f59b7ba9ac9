"""Heads on token states: phrase projection, learned segmenter (both in ``heads.safetensors``) and sentence head.

``heads.safetensors`` holds at most one of these projections (see `Head` and `MeanHead`)::

    start, end (width, dim), bias (dim,)                    of a span's two ends: H_i start + H_j end + bias
    pooled_inner (width, hidden), pooled_inner_bias (hidden,), pooled_outer (hidden, dim), pooled_outer_bias (dim,)
                                                            of a span's mean: ReLU(x inner + bias) outer + bias
    tokens_inner, tokens_inner_bias, tokens_outer, tokens_outer_bias   the same, of each state before the mean

and, if the model has a learned segmenter::

    segment_start, segment_end (width,), segment_bias (n,)  logit of a span of w words: H_i start + H_j end + bias_w;
                                                            n >= 1, and spans of more than n words use the last bias

All arrays are float32. A folder of trained weights and a model folder use the same file.

For a model without a trained projection, the export fits one on plain text by principal components
(`add_projection`). The concatenated end states have 2 x width numbers and share a large common part, which does not
distinguish phrases. Centring removes it. The leading components are kept, and each is divided by the square root of
its standard deviation, half way to whitening. Measurements: docs/decisions.

`SentenceHead` computes sentence vectors as sentence-transformers does: a prompt before the text, pooling of the token
states, and further layers. A model exported from a sentence-transformers folder describes them in ``config.json``
under ``sentence``::

    pooling         one or more of MODES; the vectors of several are joined in this order
    include_prompt  whether the tokens of the prompt are pooled
    prompts         {name: text}; the text is put before a sentence
    default_prompt  the name of the prompt used when a call names none, or null
    layers          [{"kind": "dense", "activation": "Tanh"} | {"kind": "layer_norm"} | {"kind": "normalize"}]

The weights of layer i are ``i.weight`` (out, in) and ``i.bias`` (out,) in ``sentence.safetensors``. Without this entry,
a sentence vector is the mean of all token states.
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

from phrasemate.encode.model_folder import CONFIG, REMEDY, SENTENCE
from phrasemate.encode.pooling import PLACES, Head, MeanHead, PhraseHead, pool_mean
from phrasemate.encode.runtime import States
from phrasemate.encode.segmenter import LearnedSegmenter
from phrasemate.errors import InputError, ModelDamaged, ModelError
from phrasemate.utils.arrays import Floats
from phrasemate.utils.storage import save_arrays

PROJECTION = ("start", "end", "bias")
SEGMENTER = ("segment_start", "segment_end", "segment_bias")
OF_MEANS = {place: tuple(f"{place}_{name}" for name in MeanHead._fields[1:]) for place in PLACES}

Arrays = dict[str, NDArray[np.float32]]


def load_heads(path: Path, width: int, error: type[ModelError], remedy: str) -> Arrays:
    """Load and check a heads file for token states of ``width`` numbers.

    Raises ``error``, with a message that ends in ``remedy``, for an unreadable file and for missing or unexpected
    arrays. An array that is not float32, not finite, or of the wrong shape is an error, too.
    """
    try:
        arrays: Arrays = load_file(path)
    except (OSError, SafetensorError, ValueError, TypeError, KeyError, AttributeError) as reason:  # of float8
        raise error(f"{path}: not a readable projection ({reason}); {remedy}") from reason
    wrong = _wrong(arrays, width)
    if wrong:
        raise error(f"{path}: {wrong}; {remedy}")
    return arrays


def _wrong(arrays: Arrays, width: int) -> str:
    """Describe the first fault of the arrays and what was expected; empty if there is none."""
    place = _place(arrays)
    names = {*OF_MEANS.get(place, PROJECTION), *(SEGMENTER if any(name in arrays for name in SEGMENTER) else ())}
    if names != set(arrays):
        return f"holds the arrays {', '.join(sorted(arrays)) or 'none'}, expected {', '.join(sorted(names))}"
    shapes: dict[str, tuple[int, ...]] = {"segment_start": (width,), "segment_end": (width,)}
    shapes["segment_bias"] = (max(1, arrays["segment_bias"].size if "segment_bias" in arrays else 1),)
    if place:
        hidden_size, dim = arrays[f"{place}_inner_bias"].size, arrays[f"{place}_outer_bias"].size
        shapes |= dict(
            zip(OF_MEANS[place], ((width, hidden_size), (hidden_size,), (hidden_size, dim), (dim,)), strict=True)
        )
    else:
        hidden_size = dim = arrays["bias"].size
        shapes |= {"start": (width, dim), "end": (width, dim), "bias": (dim,)}
    for name, array in sorted(arrays.items()):
        if array.shape != shapes[name] or not dim * hidden_size:
            return f"{name} has the shape {array.shape}, expected {shapes[name]} for states of {width} numbers"
        if array.dtype != np.float32:
            return f"{name} is {array.dtype}, expected float32"
        if not np.isfinite(array).all():
            return f"{name} holds a value that is not finite, expected numbers"
    return ""


def _place(arrays: Arrays) -> str:
    """Return the ``place`` of a `MeanHead` that the arrays describe; empty for a `Head`."""
    return next((place for place in PLACES if any(name in arrays for name in OF_MEANS[place])), "")


def head_of(arrays: Arrays) -> PhraseHead | None:
    """Build the phrase projection from the arrays of a heads file; None if they are empty."""
    if place := _place(arrays):
        return MeanHead(place, *(arrays[name] for name in OF_MEANS[place]))
    return Head(*(arrays[name] for name in PROJECTION)) if arrays else None


def segmenter_of(arrays: Arrays, config: Mapping[str, Any], folder: Path) -> LearnedSegmenter | None:
    """Build the learned segmenter with the options under ``segmenter`` in the configuration; None if there is none.

    Raises ModelDamaged for invalid options.
    """
    if SEGMENTER[0] not in arrays:
        return None
    start, end, bias = (arrays[name] for name in SEGMENTER)
    options = config.get("segmenter", {})
    try:
        return LearnedSegmenter(start, end, bias).using(**options)
    except (InputError, TypeError) as error:
        raise ModelDamaged(f"{folder / CONFIG}: segmenter {options!r}: {error}; {REMEDY}") from error


WHITENING = 0.5  # 0: plain components, 1: whitened; 0.5 is half way


def principal_axes(
    mean: NDArray[np.float64], moment: NDArray[np.float64], dim: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Compute W (width, dim) and b (dim,) such that x W + b are the leading principal components, partly whitened.

    ``mean`` (width,) is E[x] and ``moment`` (width, width) is E[x x'].
    """
    values, axes = np.linalg.eigh(moment - np.outer(mean, mean))  # ascending
    values, axes = values[::-1][:dim], axes[:, ::-1][:, :dim]
    kernel = axes * np.maximum(values, 1e-12) ** (-WHITENING / 2)
    return kernel.astype(np.float32), (-mean @ kernel).astype(np.float32)


MODES = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
KINDS = ("dense", "layer_norm", "normalize")
NORM_EPSILON = 1e-5  # of torch's LayerNorm


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
    """Layer after pooling: ``kind`` is one of `KINDS`; ``weight`` and ``bias`` are empty if the layer has none."""

    kind: str
    activation: str = "Identity"
    weight: Floats = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    bias: Floats = field(default_factory=lambda: np.zeros(0, np.float32))

    def __call__(self, vectors: Floats) -> Floats:
        """Apply the layer: (texts, in) -> (texts, out)."""
        if self.kind == "normalize":
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
            return np.asarray(vectors / np.maximum(lengths, np.float32(1e-12)), np.float32)
        if self.kind == "layer_norm":
            deviations = vectors - vectors.mean(1, keepdims=True)
            unit_variance = deviations / np.sqrt((deviations**2).mean(1, keepdims=True) + NORM_EPSILON)
            normal_values: Floats = unit_variance * self.weight + self.bias
            return normal_values
        products = vectors @ self.weight.T
        return ACTIVATIONS[self.activation](products + self.bias if self.bias.size else products)


@dataclass(frozen=True)
class SentenceHead:
    """Prompt, pooling and layers that turn token states into a sentence vector (fields: see the module).

    LaBSE, for example, has ``SentenceHead(("cls",), layers=(Layer("dense", "Tanh", weight, bias),
    Layer("normalize")))``.
    """

    pooling: tuple[str, ...] = ("mean",)
    include_prompt: bool = True
    prompts: Mapping[str, str] = field(default_factory=dict)
    default_prompt: str | None = None
    layers: tuple[Layer, ...] = ()

    def __post_init__(self) -> None:
        unknown = [mode for mode in self.pooling if mode not in MODES]
        if unknown or not self.pooling:
            raise InputError(f"pooling {', '.join(unknown) or 'missing'}; expected some of {', '.join(MODES)}")
        self.prompt()

    def prompt(self, name: str | None = None) -> str:
        """Return a prompt's text; ``name`` None: the default prompt. Raises InputError for an unknown name."""
        name = self.default_prompt if name is None else name
        if name is None:
            return ""
        if name not in self.prompts:
            raise InputError(f"prompt {name!r}: the model has {', '.join(self.prompts) or 'none'}")
        return self.prompts[name]

    def __call__(self, states: States, skipped: int = 0) -> Floats:
        """Compute (texts, dim) sentence vectors; the first ``skipped`` tokens of each text are not pooled."""
        vectors = np.concatenate([_pooled(states, mode, skipped) for mode in self.pooling], axis=1)
        for layer in self.layers:
            vectors = layer(vectors)
        return np.asarray(vectors, np.float32)

    def dim(self, width: int) -> int:
        """Return the length of a sentence vector for token states of ``width`` numbers."""
        sizes = [len(layer.weight) for layer in self.layers if layer.kind == "dense"]
        return sizes[-1] if sizes else width * len(self.pooling)

    def entry(self) -> dict[str, Any]:
        """Return the ``sentence`` entry of ``config.json``."""
        layers = [
            {"kind": layer.kind} | ({"activation": layer.activation} if layer.kind == "dense" else {})
            for layer in self.layers
        ]
        return {
            "pooling": list(self.pooling),
            "include_prompt": self.include_prompt,
            "prompts": dict(self.prompts),
            "default_prompt": self.default_prompt,
            "layers": layers,
        }

    def save(self, folder: Path) -> None:
        """Write the weights of the layers to ``sentence.safetensors`` in a folder."""
        arrays = {}
        for number, layer in enumerate(self.layers):
            for name, array in (("weight", layer.weight), ("bias", layer.bias)):
                if array.size:
                    arrays[f"{number}.{name}"] = np.ascontiguousarray(array, np.float32)
        save_arrays(folder / SENTENCE, arrays)


def _pooled(states: States, mode: str, skipped: int) -> Floats:
    """Pool by one of `MODES`: (texts, width). At least the last token of a text is pooled, whatever ``skipped``."""
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
        sums = pool_mean(states.values * places[:, None].astype(np.float32), first, after - 1)
        means = (places[first] + places[after - 1]) / 2  # of consecutive numbers
        return (sums / means[:, None]).astype(np.float32)
    vectors = pool_mean(states.values, first, after - 1)
    if mode == "mean_sqrt_len_tokens":
        vectors = (vectors * np.sqrt(after - first)[:, None]).astype(np.float32)
    return vectors


def load_sentence_head(folder: Path, config: Mapping[str, Any]) -> SentenceHead | None:
    """Load the sentence head of a model folder; None if sentence vectors are means of all token states.

    Raises ModelDamaged if the entry, the weights and the encoder's width do not fit each other.
    """
    entry = config.get("sentence")
    if entry is None:
        return None
    try:
        arrays = load_file(folder / SENTENCE)
        layers = []
        for number, layer_entry in enumerate(entry["layers"]):
            if layer_entry["kind"] not in KINDS or layer_entry.get("activation", "Identity") not in ACTIVATIONS:
                raise ValueError(f"layer {layer_entry}")
            layer_arrays = {
                name: arrays[f"{number}.{name}"] for name in ("weight", "bias") if f"{number}.{name}" in arrays
            }
            layers.append(Layer(layer_entry["kind"], layer_entry.get("activation", "Identity"), **layer_arrays))
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
        raise ModelDamaged(f"{folder / SENTENCE}: does not fit the configuration ({error}); {REMEDY}") from error
    return head
