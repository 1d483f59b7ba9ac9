"""Made-up word vectors of two languages, of which the right mapping is known."""

from __future__ import annotations

import numpy as np

from phrasemate.vectors import WordVectors

Lexicon = list[tuple[str, str]]


def rotation(dim: int, seed: int) -> np.ndarray:
    """A random orthogonal matrix (dim, dim)."""
    result, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((dim, dim)))
    return result.astype(np.float32)


def clustered(count: int, dim: int, clusters: int, seed: int = 0) -> np.ndarray:
    """(count, dim) points around centres of different weight, as the words of a language lie around its topics."""
    draw = np.random.default_rng(seed)
    shares = 1 / np.arange(1, clusters + 1)
    numbers = draw.choice(clusters, count, p=shares / shares.sum())
    centres = draw.standard_normal((clusters, dim))
    scales = np.geomspace(1, 0.2, dim)  # the axes are not alike, or any rotation would do
    return ((centres[numbers] + 0.7 * draw.standard_normal((count, dim))) * scales).astype(np.float32)


def two_languages(
    count: int, dim: int, noise: float, clusters: int = 30, seed: int = 0
) -> tuple[WordVectors, WordVectors, Lexicon]:
    """A language, the same rotated, shuffled and with noise, and which word is which."""
    draw = np.random.default_rng(seed + 100)
    x = clustered(count, dim, clusters, seed)
    order = np.argsort(np.arange(count) + draw.uniform(0, count / 10, count))  # frequency ranks differ a little
    z = x[order] @ rotation(dim, seed + 1) + noise * draw.standard_normal((count, dim)).astype(np.float32)
    source = WordVectors([f"s{i}" for i in range(count)], x, "xx")
    target = WordVectors([f"t{i}" for i in order], z, "yy")
    return source, target, [(f"s{i}", f"t{i}") for i in range(count)]
