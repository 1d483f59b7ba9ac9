"""Map the word vectors of two languages into one space, by a lexicon or by self-learning.

The method is that of Artetxe, Labaka and Agirre 2018, "A robust self-learning method for fully unsupervised
cross-lingual mappings of word embeddings"; section numbers refer to this paper. Vectors are first scaled to unit
length, centred, and scaled again (section 3.1). x (n, dim) and z (m, dim) are the vectors of the two languages, most
frequent words first. x' is the transpose of x.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from phrasemate.encode.pooling import unit
from phrasemate.errors import InputError
from phrasemate.types import check_fields, check_progress, to_settings
from phrasemate.utils.arrays import Doubles, Floats, Rows
from phrasemate.utils.knn import blocks, nearest, neighbour_means
from phrasemate.utils.margin import csls_penalties
from phrasemate.vectors.bilingual_lexicon import Lexicon, pair_rows
from phrasemate.vectors.word_vectors import WordVectors, check_free, new_folder, put

FLOOR = 1e-6  # least variance in whitening, relative to the greatest variance, so that the result is finite


def procrustes(x: Floats, z: Floats, source: Rows | None = None, target: Rows | None = None) -> Floats:
    """Return the orthogonal matrix W (dim, dim) that minimises ||x W - z|| over pairs of rows.

    With unit vectors it maximises the sum of cosines (Smith et al. 2017, section 2.2): U S V' = SVD(x' z), W = U V'.

    Args:
        x: Source vectors (n, dim).
        z: Target vectors (m, dim).
        source: Rows of x, (pairs,); None for all rows in order.
        target: Rows of z that are paired with them, (pairs,); None for all rows in order.

    Raises InputError if the numbers of rows or the dimensions differ.

    >>> procrustes(np.float32([[1, 0], [0, 1]]), np.float32([[0, 1], [1, 0]])).round().tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    rotation_x, rotation_z = orthogonal_maps(*_paired(x, z, source, target))
    return rotation_x @ rotation_z.T


def orthogonal_maps(x: Floats, z: Floats) -> tuple[Floats, Floats]:
    """Return rotations U and V (dim, dim) that map paired rows into one space as x U and z V (section 3.3).

    They are the singular vectors of x' z. Row i of x is paired with row i of z.
    """
    u, _, vt = np.linalg.svd(_product(x, z))
    return u.astype(np.float32), vt.T.astype(np.float32)


def symmetric_maps(x: Floats, z: Floats) -> tuple[Floats, Floats]:
    """Return maps (dim, dim) of both sides into one space by symmetric re-weighting (section 3.4).

    Row i of x is paired with row i of z. The map of x has four steps, and that of z is analogous:

    1. whitening by (x'x)^-1/2;
    2. the rotation U of SVD(whitened x' whitened z) = U S V';
    3. re-weighting by S^1/2;
    4. de-whitening by U' (x'x)^1/2 U.

    Raises InputError if all rows of one side are zeros.
    """
    white_x, dewhite_x = _whitening(x)
    white_z, dewhite_z = _whitening(z)
    u, values, vt = np.linalg.svd(white_x.T @ _product(x, z) @ white_z)
    root = np.sqrt(values)
    map_x = white_x @ (u * root) @ (u.T @ dewhite_x @ u)
    map_z = white_z @ (vt.T * root) @ (vt @ dewhite_z @ vt.T)
    return map_x.astype(np.float32), map_z.astype(np.float32)


def _whitening(x: Floats) -> tuple[Doubles, Doubles]:
    """Return the matrices (dim, dim) of whitening, (x'x)^-1/2, and de-whitening, (x'x)^1/2."""
    values, axes = np.linalg.eigh(_product(x, x))
    if not values[-1] > 0:
        raise InputError("the paired vectors of one side are all zeros, so nothing can be learnt; give other pairs")
    deviations = np.sqrt(np.maximum(values, FLOOR * values[-1]))
    return (axes / deviations) @ axes.T, (axes * deviations) @ axes.T


def _product(x: Floats, z: Floats) -> Doubles:
    """Return the product x' z (dim, dim), summed in double precision, block by block."""
    total = np.zeros((x.shape[1], z.shape[1]), np.float64)
    for at in range(0, len(x), 4096):
        total += x[at : at + 4096].astype(np.float64).T @ z[at : at + 4096].astype(np.float64)
    return total


def _paired(x: Floats, z: Floats, source: Rows | None, target: Rows | None) -> tuple[Floats, Floats]:
    """Select the paired rows of both sides. Raises InputError if they differ in shape, or are empty."""
    x, z = x if source is None else x[source], z if target is None else z[target]
    if x.ndim != 2 or x.shape != z.shape or not x.size:
        raise InputError(
            f"paired vectors of shapes {x.shape} and {z.shape}; expected one shape (pairs, dim), not empty"
        )
    return x, z


HELD = 400_000_000  # similarities up to which all are kept in memory (1.6 GB) instead of being computed three times


@dataclass(frozen=True, slots=True)
class SelfLearning:
    """Settings of the self-learning (Artetxe et al. 2018, sections 3.3 and 4.2), by default with the paper's values.

    Args:
        vocabulary: Number of most frequent words of each language from which the mapping is learned.
        initial: Number of most frequent words that give the initial dictionary.
        neighbours: k of CSLS.
        keep: Initial probability p with which a similarity may be chosen for the dictionary.
        growth: Factor by which p grows when the objective has stopped improving.
        patience: Iterations without improvement before p grows, and before the end once p is 1.
        progress: Least increase of the objective that is an improvement.
        most: Maximum number of iterations, which bounds the time; not in the paper.
        seed: Seed of the random choice of similarities.

    >>> SelfLearning(vocabulary=5_000).neighbours
    10
    """

    vocabulary: int = 20_000
    initial: int = 4_000
    neighbours: int = 10
    keep: float = 0.1
    growth: float = 2.0
    patience: int = 50
    progress: float = 1e-6
    most: int = 5_000
    seed: int = 0

    def __post_init__(self) -> None:
        check_fields(self)
        whole = (self.vocabulary, self.initial, self.neighbours, self.patience, self.most)
        if min(whole) < 1 or not 0 < self.keep <= 1 or self.growth <= 1 or self.seed < 0:
            raise InputError(f"{self}: expected counts of 1 or more, a seed from 0, 0 < keep <= 1 and growth > 1")


@dataclass(frozen=True, slots=True)
class LearnedDictionary:
    """Dictionary that self-learning has found.

    Args:
        source: Rows of the source words, (pairs,).
        target: Rows of their translations, (pairs,). A pair that both directions chose comes twice.
        objective: Mean similarity of a word and its most similar counterpart, under the last mapping.
        iterations: Number of iterations.
    """

    source: Rows
    target: Rows
    objective: float
    iterations: int


def initial_pairs(x: Floats, z: Floats, settings: SelfLearning) -> tuple[Rows, Rows]:
    """Return an initial dictionary as rows of both sides (section 3.2), without a lexicon.

    It pairs words with similar distributions of their similarities to words of their own language. The signature of a
    word is its sorted row in sqrt(x x') = U S U', which depends neither on a rotation nor on the order of the words.
    Signatures are normalised (section 3.1) and compared by CSLS, in both directions.

    Raises InputError for fewer than two words in a language.
    """
    size = min(len(x), len(z), settings.initial, settings.vocabulary)
    if size < 2:
        raise InputError(f"{len(x)} and {len(z)} words; expected at least two of each language")
    signatures = [_signature(side[:size]) for side in (x, z)]
    return _both_ways(signatures[0], signatures[1], settings.neighbours)


def _signature(x: Floats) -> Floats:
    """Return the normalised signature of each word, (size, size): its sorted row in sqrt(x x')."""
    u, values, _ = np.linalg.svd(x, full_matrices=False)
    similar = np.sort((u * values) @ u.T, axis=1)
    similar = unit(similar)
    return unit(similar - similar.mean(0))


def _both_ways(x: Floats, z: Floats, k: int) -> tuple[Rows, Rows]:
    """Pair each row of x with its nearest row of z, then each row of z with its nearest row of x, by CSLS."""
    forward = nearest(x, z, penalties=csls_penalties(x, z, k))[0][:, 0]
    backward = nearest(z, x, penalties=csls_penalties(z, x, k))[0][:, 0]
    return np.concatenate([np.arange(len(x)), backward]), np.concatenate([forward, np.arange(len(z))])


def self_learn(
    x: Floats,
    z: Floats,
    pairs: tuple[Rows, Rows],
    settings: SelfLearning,
    progress: Callable[[int, float, float], None] = lambda *_: None,
) -> LearnedDictionary:
    """Learn a dictionary: derive mapping and dictionary from each other until the objective stops improving (3.3).

    Args:
        x: Prepared source vectors (n, dim), most frequent words first.
        z: Prepared target vectors (m, dim).
        pairs: Initial dictionary as rows of x and rows of z, (pairs,) each.
        settings: Settings of the self-learning.
        progress: Called with the iteration, the probability p and the objective.

    Raises InputError for a pair beyond the first ``settings.vocabulary`` rows.
    """
    x, z = x[: settings.vocabulary], z[: settings.vocabulary]
    if max(pairs[0].max(initial=0) - len(x), pairs[1].max(initial=0) - len(z)) >= 0:
        raise InputError(f"pairs of rows beyond the first {settings.vocabulary:,} words, the vocabulary; remove them")
    draw = np.random.default_rng(settings.seed)
    keep, best, stalls = settings.keep, -np.inf, 0
    source, target = pairs
    for iteration in range(1, settings.most + 1):
        rotation_x, rotation_z = orthogonal_maps(x[source], z[target])
        source, target, objective = _dictionary(x @ rotation_x, z @ rotation_z, keep, settings.neighbours, draw)
        progress(iteration, keep, objective)
        stalls = 0 if objective >= best + settings.progress else stalls + 1
        best = max(best, objective)
        if stalls >= settings.patience:
            if keep >= 1:
                break
            keep, stalls = min(1.0, settings.growth * keep), 0
    return LearnedDictionary(source, target, objective, iteration)


def _dictionary(x: Floats, z: Floats, keep: float, k: int, draw: np.random.Generator) -> tuple[Rows, Rows, float]:
    """Pair each word with its best counterpart by CSLS, in both directions (stochastic dictionary induction, 3.3).

    A similarity is kept with the probability ``keep`` and is otherwise set to 0. Returns the rows of x, those of z, and
    the objective: the mean of the greatest cosine of each word, over both languages.
    """
    similarities = x @ z.T if len(x) * len(z) <= HELD else None
    half_x = neighbour_means(x, z, k, similarities) * np.float32(0.5)
    half_z = neighbour_means(z, x, k, None if similarities is None else similarities.T) * np.float32(0.5)
    forward, greatest_x = np.empty(len(x), np.int64), np.empty(len(x), np.float32)
    backward, greatest_z = np.zeros(len(z), np.int64), np.full(len(z), -np.inf, np.float32)
    best_scores = np.full(len(z), -np.inf, np.float32)  # of each z, by CSLS, with the rows of x so far
    for part, scores in blocks(x, z, similarities):
        greatest_x[part] = scores.max(1)
        np.maximum(greatest_z, scores.max(0), out=greatest_z)
        mask = _random_mask(scores.shape, keep, draw)
        forward[part] = _apply_mask(scores - half_z, mask).argmax(1)
        scores -= half_x[part, None]
        _apply_mask(scores, mask)
        rows = _best_rows(scores)
        values = scores[rows, np.arange(len(z))]
        better = values > best_scores
        best_scores[better], backward[better] = values[better], rows[better] + part.start
    objective = (greatest_x.mean(dtype=np.float64) + greatest_z.mean(dtype=np.float64)) / 2
    source = np.concatenate([np.arange(len(x)), backward])
    target = np.concatenate([forward, np.arange(len(z))])
    return source, target, float(objective)


def _random_mask(shape: tuple[int, ...], keep: float, draw: np.random.Generator) -> NDArray[np.bool_] | None:
    """Draw a mask of the similarities that are kept, each with probability ``keep`` in steps of 1/256; None for all."""
    if keep >= 1:
        return None
    count = shape[0] * shape[1]
    return (np.frombuffer(draw.bytes(count), np.uint8) < max(1, round(256 * keep))).reshape(shape)


def _apply_mask(values: Floats, mask: NDArray[np.bool_] | None) -> Floats:
    """Set the values outside the mask to 0, in the array itself, and return it."""
    return values if mask is None else np.multiply(values, mask, out=values)


def _best_rows(values: Floats) -> Rows:
    """Return the row of the greatest value of each column.

    It first finds the best group of rows, then the row, which is much faster than ``values.argmax(0)``.
    """
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
"""Callback that receives the iteration, the probability p with which similarities are kept, and the objective."""


@dataclass(frozen=True, slots=True)
class MappedVectors:
    """Unit vectors of two languages in one space; ``learnt`` is the dictionary of the self-learning, if it was used."""

    source: WordVectors
    target: WordVectors
    learnt: LearnedDictionary | None = None

    def save(self, folder: str | Path, force: bool = False) -> None:
        """Write ``folder/source`` and ``folder/target``. Raises InputError if ``folder`` exists, unless ``force``."""
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

    Both sides are first scaled to unit length, centred and scaled again.

    Args:
        source: Vectors of the source language.
        target: Vectors of the target language, of the same dimension.
        lexicon: Pairs of a source word and a translation.
        method: "procrustes" rotates the source onto the target (Smith et al. 2017). "symmetric" maps both sides, with
            symmetric re-weighting (Artetxe et al. 2018, section 3.4).

    Raises InputError for another method, vectors of different dimension, or a lexicon without a usable pair.
    "symmetric" raises it, too, if all paired vectors of one side are zeros.

    >>> german = WordVectors(["hund", "haus", "und"], np.float32([[1, 0], [0, 1], [1, 1]]))
    >>> english = WordVectors(["dog", "house", "and"], np.float32([[0, 1], [1, 0], [1, 1]]))
    >>> mapped = map_supervised(german, english, [("hund", "dog"), ("haus", "house")])
    >>> bool(np.allclose(mapped.source.get("und"), mapped.target.get("and"), atol=1e-5))
    True
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

    The two spaces must be similar, as those of comparable texts are. Otherwise the result is random; a low objective
    shows this.

    Args:
        source: Vectors of the source language.
        target: Vectors of the target language, of the same dimension.
        settings: Settings of the self-learning; None for the paper's.
        lexicon: Pairs that start the self-learning; None to start without a lexicon.
        method: Method of the final mapping, as in `map_supervised`.
        progress: Called with the iteration, the share of similarities that are kept, and the objective.

    Raises InputError as `map_supervised` does.
    """
    settings = to_settings(settings, SelfLearning)
    check_progress(progress)
    source, target = _prepared(source, target, method)
    x, z = source.matrix, target.matrix
    if lexicon is None:
        pairs = initial_pairs(x, z, settings)
    else:
        pairs = pair_rows(source.first(settings.vocabulary), target.first(settings.vocabulary), lexicon)
    dictionary = self_learn(x, z, pairs, settings, progress)
    facts = {"mapping": f"self-learning, {method}", "settings": asdict(settings), "lexicon": lexicon is not None}
    facts |= {"objective": dictionary.objective, "iterations": dictionary.iterations}
    return _mapped(source, target, (dictionary.source, dictionary.target), method, dictionary, facts)


def _prepared(source: WordVectors, target: WordVectors, method: str) -> tuple[WordVectors, WordVectors]:
    """Prepare both sides for a mapping. Raises InputError for an unknown method or different dimensions."""
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
    """Map prepared vectors by pairs of ``rows``, and record the ``facts`` of the mapping with them."""
    x, z = source.matrix, target.matrix
    if method == "procrustes":
        return MappedVectors(source.using(unit(x @ procrustes(x, z, *rows)), **facts), target.using(z, **facts), learnt)
    map_x, map_z = symmetric_maps(x[rows[0]], z[rows[1]])
    return MappedVectors(source.using(unit(x @ map_x), **facts), target.using(unit(z @ map_z), **facts), learnt)
