"""``heads.safetensors``: the projection of phrases and the learned segmenter, read and checked.

One of these projections (see `Head` and `MeanHead`)::

    start, end (width, dim), bias (dim,)                    of a span's two ends: H_i start + H_j end + bias
    pooled_inner (width, hidden), pooled_inner_bias (hidden,), pooled_outer (hidden, dim), pooled_outer_bias (dim,)
                                                            of a span's mean: ReLU(x inner + bias) outer + bias
    tokens_inner, tokens_inner_bias, tokens_outer, tokens_outer_bias   the same, of each state before the mean

and, if the model has learned to find phrases::

    segment_start, segment_end (width,), segment_bias (n,)  logit of a span of w words: H_i start + H_j end + bias_w,
                                                            of more than n words the last bias; n is 1 or more

All float32; the same in a folder of trained weights and in a model folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file

from phrasemate.encode.model_folder import CONFIG, REMEDY
from phrasemate.encode.pooling import PLACES, Head, MeanHead, PhraseHead
from phrasemate.encode.segmenter import LearnedSegmenter
from phrasemate.errors import InputError, ModelDamaged, ModelError

PROJECTION = ("start", "end", "bias")
SEGMENTER = ("segment_start", "segment_end", "segment_bias")
OF_MEANS = {place: tuple(f"{place}_{name}" for name in MeanHead._fields[1:]) for place in PLACES}

Arrays = dict[str, NDArray[np.float32]]


def load_heads(path: Path, width: int, error: type[ModelError], remedy: str) -> Arrays:
    """The arrays of a file of heads for states of ``width`` numbers.

    Raises ``error``, its message ending in ``remedy``, when the file is not readable, lacks an array or has one too
    many, or an array is not float32, not finite, or of a wrong shape.
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
    """What is wrong with the arrays and what was expected; nothing where all is well."""
    place = _place(arrays)
    names = {*OF_MEANS.get(place, PROJECTION), *(SEGMENTER if any(name in arrays for name in SEGMENTER) else ())}
    if names != set(arrays):
        return f"holds the arrays {', '.join(sorted(arrays)) or 'none'}, expected {', '.join(sorted(names))}"
    shapes: dict[str, tuple[int, ...]] = {"segment_start": (width,), "segment_end": (width,)}
    shapes["segment_bias"] = (max(1, arrays["segment_bias"].size if "segment_bias" in arrays else 1),)
    if place:
        hidden, dim = arrays[f"{place}_inner_bias"].size, arrays[f"{place}_outer_bias"].size
        shapes |= dict(zip(OF_MEANS[place], ((width, hidden), (hidden,), (hidden, dim), (dim,)), strict=True))
    else:
        hidden = dim = arrays["bias"].size
        shapes |= {"start": (width, dim), "end": (width, dim), "bias": (dim,)}
    for name, array in sorted(arrays.items()):
        if array.shape != shapes[name] or not dim * hidden:
            return f"{name} has the shape {array.shape}, expected {shapes[name]} for states of {width} numbers"
        if array.dtype != np.float32:
            return f"{name} is {array.dtype}, expected float32"
        if not np.isfinite(array).all():
            return f"{name} holds a value that is not finite, expected numbers"
    return ""


def _place(arrays: Arrays) -> str:
    """Where the arrays project means of states (see `MeanHead`); nothing if they project spans' ends."""
    return next((place for place in PLACES if any(name in arrays for name in OF_MEANS[place])), "")


def head_of(arrays: Arrays) -> PhraseHead | None:
    """The projection, if there is one."""
    if place := _place(arrays):
        return MeanHead(place, *(arrays[name] for name in OF_MEANS[place]))
    return Head(*(arrays[name] for name in PROJECTION)) if arrays else None


def segmenter_of(arrays: Arrays, config: Mapping[str, Any], folder: Path) -> LearnedSegmenter | None:
    """The learned segmenter, if there is one, with the options of the configuration's ``segmenter``.

    Raises ModelDamaged when these make no sense.
    """
    if SEGMENTER[0] not in arrays:
        return None
    start, end, bias = (arrays[name] for name in SEGMENTER)
    options = config.get("segmenter", {})
    try:
        return LearnedSegmenter(start, end, bias).using(**options)
    except (InputError, TypeError) as error:
        raise ModelDamaged(f"{folder / CONFIG}: segmenter {options!r}: {error}; {REMEDY}") from error
