"""Alignment of the word vectors of two languages: linear maps learnt from pairs of rows, and self-learning.

After Artetxe, Labaka and Agirre 2018, "A robust self-learning method for fully unsupervised cross-lingual mappings of
word embeddings"; sections and equations are theirs. Vectors are prepared first (section 3.1: unit length, centred, unit
length). x (n, dim) and z (m, dim) are the two languages, most frequent words first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from phrasemate.encode.pooling import unit
from phrasemate.errors import InputError
from phrasemate.utils.arrays import Doubles, Floats, Rows
from phrasemate.utils.knn import blocks, nearest, neighbour_means
from phrasemate.utils.margin import csls_penalties
from phrasemate.vectors.bilingual_lexicon import Lexicon, pair_rows
from phrasemate.vectors.word_vectors import WordVectors, check_free, new_folder, put

FLOOR = 1e-6  # of the greatest variance: what a smaller one is taken for, so that whitening stays finite


def procrustes(x: Floats, z: Floats, source: Rows | None = None, target: Rows | None = None) -> Floats:
    """The orthogonal W (dim, dim) with the least ||x W - z||, over pairs of rows.

    With unit vectors it maximises the sum of cosines (Smith et al. 2017, section 2.2): U S V' = SVD(x' z), W = U V'.

    Args:
        x: Vectors (n, dim) of the source.
        z: Vectors (m, dim) of the target.
        source: Rows of x that have a pair, (pairs,); None pairs row i with row i.
        target: Rows of z that they go with, (pairs,).

    Raises InputError if the pairs or the dimensions do not correspond.
    """
    rotation_x, right = orthogonal_maps(*_paired(x, z, source, target))
    return rotation_x @ right.T


def orthogonal_maps(x: Floats, z: Floats) -> tuple[Floats, Floats]:
    """U and V (dim, dim) of SVD(x' z): x U and z V are the paired rows in one space (Artetxe et al. 2018, 3.3)."""
    u, _, vt = np.linalg.svd(_product(x, z))
    return u.astype(np.float32), vt.T.astype(np.float32)


def symmetric_maps(x: Floats, z: Floats) -> tuple[Floats, Floats]:
    """Maps (dim, dim) of paired rows into one space, by symmetric re-weighting (Artetxe et al. 2018, section 3.4).

    Whitening x (x'x)^-1/2, the rotations U and V of the whitened rows, the factor S^1/2 on both sides, and de-whitening
    of each by its own U' (x'x)^1/2 U. Raises InputError where all rows of a side are zeros.
    """
    white_x, coloured_x = _whitening(x)
    white_z, coloured_z = _whitening(z)
    u, values, vt = np.linalg.svd(white_x.T @ _product(x, z) @ white_z)
    root = np.sqrt(values)
    map_x = white_x @ (u * root) @ (u.T @ coloured_x @ u)
    right = white_z @ (vt.T * root) @ (vt @ coloured_z @ vt.T)
    return map_x.astype(np.float32), right.astype(np.float32)


def _whitening(x: Floats) -> tuple[Doubles, Doubles]:
    """(x'x)^-1/2 and (x'x)^1/2."""
    values, axes = np.linalg.eigh(_product(x, x))
    if not values[-1] > 0:
        raise InputError("the paired vectors of one side are all zeros, so nothing can be learnt; give others")
    deviations = np.sqrt(np.maximum(values, FLOOR * values[-1]))
    return (axes / deviations) @ axes.T, (axes * deviations) @ axes.T


def _product(x: Floats, z: Floats) -> Doubles:
    """The product x' z (dim, dim), summed in double precision block by block."""
    total = np.zeros((x.shape[1], z.shape[1]), np.float64)
    for at in range(0, len(x), 4096):
        total += x[at : at + 4096].astype(np.float64).T @ z[at : at + 4096].astype(np.float64)
    return total


def _paired(x: Floats, z: Floats, source: Rows | None, target: Rows | None) -> tuple[Floats, Floats]:
    x, z = x if source is None else x[source], z if target is None else z[target]
    if x.ndim != 2 or x.shape != z.shape or not x.size:
        raise InputError(
            f"paired vectors of shapes {x.shape} and {z.shape}; expected one shape (pairs, dim), not empty"
        )
    return x, z


HELD = 400_000_000  # similarities that are kept during an iteration (1.6 GB) instead of being computed three times


@dataclass(frozen=True, slots=True)
class SelfLearning:
    """Settings of the self-learning (Artetxe et al. 2018), with the paper's values.

    >>> SelfLearning(vocabulary=5_000).neighbours
    10
    """

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
class LearnedDictionary:
    """Learned dictionary as pairs of rows, (pairs,) each, twice where both directions chose a pair. ``objective`` is
    the mean similarity of a word and its best counterpart under the last mapping; ``iterations`` counts the rounds.
    """

    source: Rows
    target: Rows
    objective: float
    iterations: int


def initial_pairs(x: Floats, z: Floats, settings: SelfLearning) -> tuple[Rows, Rows]:
    """A first dictionary (section 3.2): words whose similarities with their own language are distributed alike.

    Of the most frequent words, sqrt(x x') = U S U' with each row sorted is a signature that no rotation and no order of
    the words changes. Rows are prepared (3.1) and compared across languages by CSLS, in both directions.
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
    forward = nearest(x, z, penalties=csls_penalties(x, z, k))[0][:, 0]
    back = nearest(z, x, penalties=csls_penalties(z, x, k))[0][:, 0]
    return np.concatenate([np.arange(len(x)), back]), np.concatenate([forward, np.arange(len(z))])


def self_learn(
    x: Floats,
    z: Floats,
    pairs: tuple[Rows, Rows],
    settings: SelfLearning,
    progress: Callable[[int, float, float], None] = lambda *_: None,
) -> LearnedDictionary:
    """Mapping and dictionary in turn, each from the other, until neither gets better (section 3.3).

    ``progress``: called with the iteration, p and the objective. Raises InputError for pairs beyond the vocabulary.
    """
    x, z = x[: settings.vocabulary], z[: settings.vocabulary]
    if max(pairs[0].max(initial=0) - len(x), pairs[1].max(initial=0) - len(z)) >= 0:
        raise InputError(f"pairs of rows beyond the {settings.vocabulary:,} words that are learnt from; leave them out")
    draw = np.random.default_rng(settings.seed)
    keep, best, stalls = settings.keep, -np.inf, 0
    source, target = pairs
    for iteration in range(1, settings.most + 1):
        rotation_x, right = orthogonal_maps(x[source], z[target])
        source, target, objective = _dictionary(x @ rotation_x, z @ right, keep, settings.neighbours, draw)
        progress(iteration, keep, objective)
        stalls = 0 if objective >= best + settings.progress else stalls + 1
        best = max(best, objective)
        if stalls >= settings.patience:
            if keep >= 1:
                break
            keep, stalls = min(1.0, settings.growth * keep), 0
    return LearnedDictionary(source, target, objective, iteration)


def _dictionary(x: Floats, z: Floats, keep: float, k: int, draw: np.random.Generator) -> tuple[Rows, Rows, float]:
    """Each word with its best counterpart by CSLS, in both directions, of the similarities that chance leaves.

    The others count as 0 (section 3.3, stochastic dictionary induction). Also the mean of the best similarities,
    before chance and CSLS.
    """
    similarities = x @ z.T if len(x) * len(z) <= HELD else None
    half_x = neighbour_means(x, z, k, similarities) * np.float32(0.5)
    half_z = neighbour_means(z, x, k, None if similarities is None else similarities.T) * np.float32(0.5)
    forward, best_there = np.empty(len(x), np.int64), np.empty(len(x), np.float32)
    back, best_back = np.zeros(len(z), np.int64), np.full(len(z), -np.inf, np.float32)
    top = np.full(len(z), -np.inf, np.float32)
    for part, similar in blocks(x, z, similarities):
        best_there[part] = similar.max(1)
        np.maximum(best_back, similar.max(0), out=best_back)
        mask = _random_mask(similar.shape, keep, draw)
        masked_values = _times(similar - half_z, mask)
        forward[part] = masked_values.argmax(1)
        similar -= half_x[part, None]
        _times(similar, mask)
        rows = _best_rows(similar)
        values = similar[rows, np.arange(len(z))]
        better = values > top
        top[better], back[better] = values[better], rows[better] + part.start
    objective = (best_there.mean(dtype=np.float64) + best_back.mean(dtype=np.float64)) / 2
    return np.concatenate([np.arange(len(x)), back]), np.concatenate([forward, np.arange(len(z))]), float(objective)


def _random_mask(shape: tuple[int, ...], keep: float, draw: np.random.Generator) -> NDArray[np.bool_] | None:
    """Which similarities are kept, each with the probability ``keep`` in steps of 1/256; None: all."""
    if keep >= 1:
        return None
    count = shape[0] * shape[1]
    return (np.frombuffer(draw.bytes(count), np.uint8) < max(1, round(256 * keep))).reshape(shape)


def _times(values: Floats, mask: NDArray[np.bool_] | None) -> Floats:
    return values if mask is None else np.multiply(values, mask, out=values)


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


METHODS = ("procrustes", "symmetric")

Progress = Callable[[int, float, float], None]
"""Called with the iteration, the share of similarities that is kept, and the objective."""


@dataclass(frozen=True, slots=True)
class MappedVectors:
    """Vectors of two languages in one space, unit length; ``learnt`` where there was self-learning."""

    source: WordVectors
    target: WordVectors
    learnt: LearnedDictionary | None = None

    def save(self, folder: str | Path, force: bool = False) -> None:
        """Write ``folder/source`` and ``folder/target``; raises InputError if it is there, unless ``force``."""
        folder = Path(folder)
        check_free(folder, force)
        partial = new_folder(folder)
        self.source.save(partial / "source")
        self.target.save(partial / "target")
        put(partial, folder)


def map_supervised(
    source: WordVectors, target: WordVectors, lexicon: Lexicon, method: str = "procrustes"
) -> MappedVectors:
    """Map the vectors of two languages into one space, by a lexicon.

    Args:
        source: Vectors of the source language.
        target: Vectors of the target language, of the same length.
        lexicon: Pairs of a source word and a translation.
        method: "procrustes" rotates the source onto the target, which is only prepared (Smith et al. 2017, on vectors
            that are centred too). "symmetric" maps both, with re-weighting (Artetxe et al. 2018, section 3.4).

    Raises InputError for another method, vectors of different length, or a lexicon without a usable pair. "symmetric"
    also raises it where all paired vectors of a side are zeros, as they are of a single word once they are centred.
    """
    source, target = _prepared(source, target, method)
    rows = pair_rows(source, target, lexicon)
    return _mapped(source, target, rows, method, None, {"mapping": method, "pairs": len(rows[0])})


def map_unsupervised(
    source: WordVectors,
    target: WordVectors,
    settings: SelfLearning | None = None,
    lexicon: Lexicon | None = None,
    method: str = "symmetric",
    progress: Progress = lambda *_: None,
) -> MappedVectors:
    """Map the vectors of two languages into one space by self-learning (Artetxe et al. 2018).

    Both spaces must be similar, as those of comparable texts are; otherwise the result is random. Check the objective.

    Args:
        source: Vectors of the source language.
        target: Vectors of the target language, of the same length.
        settings: Numbers of the self-learning.
        lexicon: A few pairs to begin with; None begins with none.
        method: As in `map_supervised`.
        progress: Called with what is being done, how much of it is done, and of how much.

    Raises InputError as `map_supervised` does.
    """
    settings = settings or SelfLearning()
    source, target = _prepared(source, target, method)
    x, z = source.matrix, target.matrix
    if lexicon is None:
        pairs = initial_pairs(x, z, settings)
    else:  # among the words that are learnt from
        pairs = pair_rows(source.first(settings.vocabulary), target.first(settings.vocabulary), lexicon)
    maps = self_learn(x, z, pairs, settings, progress)
    facts = {"mapping": f"self-learning, {method}", "settings": asdict(settings), "lexicon": lexicon is not None}
    facts |= {"objective": maps.objective, "iterations": maps.iterations}
    return _mapped(source, target, (maps.source, maps.target), method, maps, facts)


def _prepared(source: WordVectors, target: WordVectors, method: str) -> tuple[WordVectors, WordVectors]:
    if method not in METHODS:
        raise InputError(f"method {method!r}; expected {' or '.join(METHODS)}")
    if source.dim != target.dim:
        raise InputError(f"vectors of {source.dim} and of {target.dim} dimensions; the numbers must be equal")
    return source.prepared(), target.prepared()


def _mapped(
    source: WordVectors,
    target: WordVectors,
    rows: tuple[Rows, Rows],
    method: str,
    learnt: LearnedDictionary | None,
    facts: dict[str, object],
) -> MappedVectors:
    x, z = source.matrix, target.matrix
    if method == "procrustes":
        return MappedVectors(source.using(unit(x @ procrustes(x, z, *rows)), **facts), target.using(z, **facts), learnt)
    map_x, right = symmetric_maps(x[rows[0]], z[rows[1]])
    return MappedVectors(source.using(unit(x @ map_x), **facts), target.using(unit(z @ right), **facts), learnt)
