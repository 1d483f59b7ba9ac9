"""A projection for a model that has none: principal components of the ends of phrases in plain text.

The two end states side by side are long (2 x width) and share a large common part, which tells no phrase from another.
Centring removes that part, the leading components keep the rest, and each is divided by the square root of its standard
deviation, half way to whitening. It needs no parallel text. Measured in docs/decisions.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phrasemate.encode.model import Model, load_model
from phrasemate.encode.model_folder import CONFIG, HEADS, write_manifest
from phrasemate.encode.pooling import MeanHead
from phrasemate.errors import InputError
from phrasemate.utils.storage import save_arrays

SENTENCES = 5_000  # read at most: some 100,000 phrases, far more than the covariance needs
WHITENING = 0.5  # 0: plain components, 1: whitened; 0.5 is half way


def principal_axes(
    mean: NDArray[np.float64], moment: NDArray[np.float64], dim: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """W (width, dim) and b (dim,) such that x W + b are the leading centred components, partly whitened.

    ``mean`` is E[x] and ``moment`` E[x x'], of vectors of length ``width``.
    """
    values, axes = np.linalg.eigh(moment - np.outer(mean, mean))  # ascending
    values, axes = values[::-1][:dim], axes[:, ::-1][:, :dim]
    kernel = axes * np.maximum(values, 1e-12) ** (-WHITENING / 2)
    return kernel.astype(np.float32), (-mean @ kernel).astype(np.float32)


def add_projection(folder: Path, texts: Iterable[str], dim: int, signature: Mapping[str, Any] | None = None) -> str:
    """Learn a projection to ``dim`` from sentences and seal it into a model folder; returns the new hash.

    Raises InputError when ``dim`` is more than twice the model's width, the texts hold fewer than 2 x dim phrases, or
    the model has a trained segmenter, whose projection was trained with it.
    """
    model = load_model(folder)
    if model.learned is not None or isinstance(model.head, MeanHead):
        raise InputError(f"{folder}: has a trained projection; export the untrained encoder to learn another")
    if not 0 < dim <= 2 * model.width:
        raise InputError(f"dim {dim}: expected 1 to {2 * model.width}, twice the model's width")
    mean, moment, count = _moments(model, islice(texts, SENTENCES))
    if count < 2 * dim:
        raise InputError(
            f"{count} phrases in the text, expected {2 * dim} or more for {dim} dimensions; give more text"
        )
    kernel, bias = principal_axes(mean, moment, dim)
    halves = {"start": kernel[: model.width], "end": kernel[model.width :], "bias": bias}
    save_arrays(folder / HEADS, halves)
    config = dict(model.config)
    made = {"projection": "principal components of phrase ends", "phrases": count, "dim": dim, **(signature or {})}
    config["signature"] = {**config["signature"], **made}
    (folder / CONFIG).write_text(json.dumps(config, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return write_manifest(folder)


def _moments(model: Model, texts: Iterable[str]) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
    """E[x], E[x x'] and the number of phrase end vectors x, scaled as states are (a head takes them unscaled)."""
    iterator = iter(texts)
    total, square, count = np.zeros(2 * model.width), np.zeros((2 * model.width,) * 2), 0
    while chunk := list(islice(iterator, 512)):
        for found in model.ends(chunk):
            wide = found.astype(np.float64)
            total, square, count = total + wide.sum(0), square + wide.T @ wide, count + len(wide)
    return total / max(count, 1), square / max(count, 1), count
