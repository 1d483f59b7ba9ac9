"""A mapping of two spaces onto each other without a lexicon: self-learning with an unsupervised beginning.

After Artetxe, Labaka and Agirre 2018, "A robust self-learning method for fully unsupervised cross-lingual mappings of
word embeddings"; sections and equations are theirs. The vectors are prepared (section 3.1: unit length, centred, unit
length) before they come here. x (n, dim) and z (m, dim) are the two languages, most frequent words first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from phrasemate.encode.pooling import unit
from phrasemate.errors import InputError
from phrasemate.utils.knn import blocks, csls_penalties, nearest, neighbour_means
from phrasemate.vectors.procrustes import orthogonal_maps

HELD = 400_000_000  # similarities that are kept during an iteration (1.6 GB) instead of being computed three times

Floats = NDArray[np.float32]
Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SelfLearning:
    """The settings, each with the paper's value."""

    vocabulary: int = 20_000  # most frequent words of each side that are learnt from (3.3, frequency-based cut-off)
    initial: int = 4_000  # those that the beginning compares (4.2)
    neighbours: int = 10  # k of CSLS (3.3)
    keep: float = 0.1  # p, the share of similarities that a dictionary may choose from at first (3.3)
    growth: float = 2.0  # p grows by it when there is no progress (3.3)
    patience: int = 50  # iterations without progress before that, and before the end (3.3)
    progress: float = 1e-6  # of the objective that counts as progress (3.3)
    most: int = 5_000  # iterations at most; not the paper's, it only bounds the time
    seed: int = 0

    def __post_init__(self) -> None:
        whole = (self.vocabulary, self.initial, self.neighbours, self.patience, self.most)
        if min(whole) < 1 or not 0 < self.keep <= 1 or self.growth <= 1 or self.seed < 0:
            raise InputError(
                f"{self}: expected counts from 1, a seed from 0, a keep above 0 up to 1 and a growth above 1"
            )


@dataclass(frozen=True, slots=True)
class Learnt:
    """A dictionary as pairs of rows, (pairs,) each (twice where both directions chose it); the objective, the mean
    similarity of a word and its best counterpart under the last mapping; the iterations it took.
    """

    source: Rows
    target: Rows
    objective: float
    iterations: int


def initial_pairs(x: Floats, z: Floats, settings: SelfLearning) -> tuple[Rows, Rows]:
    """A first dictionary (section 3.2): words whose similarities with their own language are distributed alike.

    Of the most frequent words, sqrt(x x') = U S U' with each row sorted is a signature that no rotation and no order of
    the words changes; rows are prepared (3.1) and compared across languages by CSLS, in both directions.
    """
    size = min(len(x), len(z), settings.initial, settings.vocabulary)
    if size < 2:
        raise InputError(f"{len(x)} and {len(z)} words; expected at least two of each language")
    signatures = [_signature(side[:size]) for side in (x, z)]
    return _both_ways(signatures[0], signatures[1], settings.neighbours)


def _signature(x: Floats) -> Floats:
    """(size, size): each word's similarities to all words, sorted."""
    u, values, _ = np.linalg.svd(x, full_matrices=False)
    similar = np.sort((u * values) @ u.T, axis=1)
    similar = unit(similar)
    return unit(similar - similar.mean(0))


def _both_ways(x: Floats, z: Floats, k: int) -> tuple[Rows, Rows]:
    """Pairs of each x with its nearest z and of each z with its nearest x, by CSLS."""
    there = nearest(x, z, penalties=csls_penalties(x, z, k))[0][:, 0]
    back = nearest(z, x, penalties=csls_penalties(z, x, k))[0][:, 0]
    return np.concatenate([np.arange(len(x)), back]), np.concatenate([there, np.arange(len(z))])


def self_learn(
    x: Floats,
    z: Floats,
    pairs: tuple[Rows, Rows],
    settings: SelfLearning,
    progress: Callable[[int, float, float], None] = lambda *_: None,
) -> Learnt:
    """Mapping and dictionary in turn, each from the other, until neither gets better (section 3.3).

    ``progress``: called with the iteration, p and the objective. Raises InputError for pairs beyond the vocabulary.
    """
    x, z = x[: settings.vocabulary], z[: settings.vocabulary]
    if max(pairs[0].max(initial=0) - len(x), pairs[1].max(initial=0) - len(z)) >= 0:
        raise InputError(f"pairs of rows beyond the {settings.vocabulary:,} words that are learnt from; leave them out")
    draw = np.random.default_rng(settings.seed)
    keep, best, stuck = settings.keep, -np.inf, 0
    source, target = pairs
    for iteration in range(1, settings.most + 1):
        left, right = orthogonal_maps(x[source], z[target])
        source, target, objective = _dictionary(x @ left, z @ right, keep, settings.neighbours, draw)
        progress(iteration, keep, objective)
        stuck = 0 if objective >= best + settings.progress else stuck + 1
        best = max(best, objective)
        if stuck >= settings.patience:
            if keep >= 1:
                break
            keep, stuck = min(1.0, settings.growth * keep), 0
    return Learnt(source, target, objective, iteration)


def _dictionary(x: Floats, z: Floats, keep: float, k: int, draw: np.random.Generator) -> tuple[Rows, Rows, float]:
    """Each word with its best counterpart by CSLS, in both directions, of the similarities that chance leaves.

    The others count as 0 (section 3.3, stochastic dictionary induction). Also the mean of the best similarities,
    before chance and CSLS.
    """
    held = x @ z.T if len(x) * len(z) <= HELD else None
    half_x = neighbour_means(x, z, k, held) * np.float32(0.5)
    half_z = neighbour_means(z, x, k, None if held is None else held.T) * np.float32(0.5)
    there, best_there = np.empty(len(x), np.int64), np.empty(len(x), np.float32)
    back, best_back = np.zeros(len(z), np.int64), np.full(len(z), -np.inf, np.float32)
    top = np.full(len(z), -np.inf, np.float32)
    for part, similar in blocks(x, z, held):
        best_there[part] = similar.max(1)
        np.maximum(best_back, similar.max(0), out=best_back)
        kept = _kept(similar.shape, keep, draw)
        chosen = _times(similar - half_z, kept)
        there[part] = chosen.argmax(1)
        similar -= half_x[part, None]
        _times(similar, kept)
        rows = _best_rows(similar)
        values = similar[rows, np.arange(len(z))]
        better = values > top
        top[better], back[better] = values[better], rows[better] + part.start
    objective = (best_there.mean(dtype=np.float64) + best_back.mean(dtype=np.float64)) / 2
    return np.concatenate([np.arange(len(x)), back]), np.concatenate([there, np.arange(len(z))]), float(objective)


def _kept(shape: tuple[int, ...], keep: float, draw: np.random.Generator) -> NDArray[np.bool_] | None:
    """Which similarities are kept, each with the probability ``keep`` in steps of 1/256; None: all."""
    if keep >= 1:
        return None
    count = shape[0] * shape[1]
    return (np.frombuffer(draw.bytes(count), np.uint8) < max(1, round(256 * keep))).reshape(shape)


def _times(values: Floats, kept: NDArray[np.bool_] | None) -> Floats:
    return values if kept is None else np.multiply(values, kept, out=values)


def _best_rows(values: Floats) -> Rows:
    """The row of the greatest value of each column; in groups of rows, which is far quicker than argmax(0)."""
    group = max(1, round(len(values) ** 0.5))
    whole = len(values) // group * group
    maxima = values[:whole].reshape(-1, group, values.shape[1]).max(1)  # (groups, columns)
    first = maxima.argmax(0) * group
    columns = np.arange(values.shape[1])
    inside = values[first + np.arange(group)[:, None], columns].argmax(0)  # (columns,)
    rows = first + inside
    if whole < len(values):
        rest = values[whole:].argmax(0) + whole
        rows = np.where(values[rest, columns] > values[rows, columns], rest, rows)
    best: Rows = rows.astype(np.int64)
    return best
