"""Codes of 4 bits a part that keep the order of high scores: what inverted lists hold of a vector.

A code is compared with queries by inner product, and only those queries matter that score high, which point nearly
where the vector does. So an error along the vector itself is weighted against the rest of it: the score-aware loss of
Guo et al., "Accelerating Large-Scale Inference with Anisotropic Vector Quantization" (2020), section 3. For a unit
vector x of d dimensions that is kept as x~, with the threshold T on the scores,

    |x - x~|^2 + (eta - 1) <x - x~, x>^2,    eta = (d - 1) T^2 / (1 - T^2)

Before, vectors are turned to their principal components, which are dealt out so that all parts hold the same product of
variances: Ge et al., "Optimized Product Quantization" (2014), section 3.2, the parametric solution. FAISS keeps and
compares the codes; it can read a file of them without this module.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from phrasemate.index import row_codec
from phrasemate.index.exact import Floats

Codes = NDArray[np.uint8]
SAMPLE = 20_000  # vectors that codewords are fitted to
WORDS = 16  # of a part: 4 bits
_THRESHOLD = 0.17  # T: eta is 5.7 for 192 dimensions; from 4 to 6 recall is the same, at 1 and 10 lower
_PASSES = 2  # over the parts of a code, each chosen with the others held; a third changes nothing
_ROUNDS = 2  # of encoding a sample and fitting the codewords to it
_STEPS = 20  # of conjugate gradients
_AT_ONCE = 4_096  # vectors: with fewer, threads spend their time on waiting for each other
_NUMBERS = np.arange(WORDS, dtype=np.uint8)[:, None]


class Coder(NamedTuple):
    """``rotation`` (dim, dim): vectors @ rotation.T are coded; ``words`` (parts, 16, dim / parts): the codewords."""

    rotation: Floats
    words: Floats

    @classmethod
    def train(cls, vectors: Floats, parts: int, rotation: Floats | None = None) -> Self:
        """For (n, dim) unit vectors, codes of ``parts`` parts, of which dim is a multiple.

        ``rotation``: one that is to be used, if there is any.
        """
        import faiss

        rotation = rotation_of(vectors.T @ vectors, parts) if rotation is None else rotation
        sample = np.ascontiguousarray(row_codec.spread(vectors, SAMPLE) @ rotation.T)
        plain: Any = faiss.ProductQuantizer(sample.shape[1], parts, 4)
        plain.cp.min_points_per_centroid = 1  # it warns otherwise
        plain.train(sample)
        words = faiss.vector_to_array(plain.centroids).reshape(parts, WORDS, -1).copy()
        made = cls(rotation, words)
        for _ in range(_ROUNDS):
            made = cls(rotation, _fitted(sample, made.encode(sample), made.words))
        return made

    @property
    def parts(self) -> int:
        return len(self.words)

    def rotate(self, vectors: Floats) -> Floats:
        """(n, dim) as they are coded."""
        return np.asarray(vectors @ self.rotation.T, np.float32)

    def encode(self, rotated: Floats, workers: int = 1) -> Codes:
        """(n, dim) rotated unit vectors -> (n, parts) numbers below 16."""
        pieces = [rotated[at : at + _AT_ONCE] for at in range(0, len(rotated), _AT_ONCE)]
        if workers > 1 and len(pieces) > 1:
            with ThreadPoolExecutor(workers) as pool:
                made = list(pool.map(self._encoded, pieces))
        else:
            made = [self._encoded(piece) for piece in pieces]
        return np.concatenate([np.zeros((0, self.parts), np.uint8), *made])

    def _encoded(self, rotated: Floats) -> Codes:
        """The loss is lowered part by part; beginning with the nearest codewords, it ends below theirs."""
        weight = np.float32(eta(rotated.shape[1]) - 1)
        by_part = np.ascontiguousarray(rotated.T).reshape(self.parts, -1, len(rotated))
        inner = np.matmul(self.words, by_part)  # (parts, 16, n): <word, x>
        far = np.square(self.words).sum(axis=2)[:, :, None] - 2 * inner  # |x - word|^2 less |x|^2
        codes = np.stack([_least(each) for each in far])  # (parts, n)
        chosen = np.take_along_axis(inner, codes[:, None], 1)[:, 0]
        total = chosen.sum(axis=0)  # (n,) <x, x~>
        # With r = 1 - <x, x~> of the other parts, a word's cost is far + weight (r - inner)^2; what has r^2 is left out
        far += weight * np.square(inner)
        cost, places = np.empty_like(far[0]), np.arange(len(rotated))
        for _ in range(_PASSES):
            for part in range(self.parts):
                total -= chosen[part]
                np.multiply(inner[part], (total - 1) * (2 * weight), out=cost)
                cost += far[part]
                codes[part] = _least(cost)
                chosen[part] = inner[part][codes[part], places]
                total += chosen[part]
        return np.asarray(codes.T, np.uint8)

    def decode(self, codes: Codes) -> Floats:
        """(n, parts) -> (n, dim) rotated: x~, which FAISS encodes as these very codes."""
        return np.concatenate([words[codes[:, part]] for part, words in enumerate(self.words)], axis=1)


def _least(costs: Floats) -> Codes:
    """(16, n) -> (n,) which one is the least, the last of several: argmin in a fraction of its time."""
    found: Codes = ((costs <= costs.min(axis=0)) * _NUMBERS).max(axis=0)
    return found


def eta(dim: int) -> float:
    """How often an error along the vector counts; never less than one across it."""
    return max(1.0, (dim - 1) * _THRESHOLD**2 / (1 - _THRESHOLD**2))


def packed(codes: Codes) -> Codes:
    """(n, parts) -> (n, ceil(parts / 2)), two parts a byte, the first one in its lower half: as FAISS has them."""
    even = np.pad(codes, ((0, 0), (0, codes.shape[1] % 2)))
    return np.asarray(even[:, ::2] | even[:, 1::2] << 4, np.uint8)


def rotation_of(products: NDArray[Any], parts: int) -> Floats:
    """(dim, dim) principal components in rows, those of a part side by side; ``products``: vectors.T @ vectors."""
    variances, components = np.linalg.eigh(np.asarray(products, np.float64))
    dim = len(variances)
    sizes = np.log(np.maximum(variances, variances[-1] * 1e-9))
    sizes -= sizes.min()
    dealt: list[list[int]] = [[] for _ in range(parts)]
    held = np.zeros(parts)
    for component in range(dim - 1, -1, -1):  # eigh gives the smallest first
        part = int(held.argmin())
        dealt[part].append(component)
        held[part] = held[part] + sizes[component] if len(dealt[part]) < dim // parts else np.inf
    return np.ascontiguousarray(components[:, [each for part in dealt for each in part]].T, np.float32)


def _fitted(sample: Floats, codes: Codes, words: Floats) -> Floats:
    """The codewords of least loss for (n, dim) rotated vectors with (n, parts) codes.

    With y a vector's numbers, each at the place of its part's codeword, and w the codewords there, the loss is the sum
    of |y - w|^2 + (eta - 1) (1 - <y, w>)^2: least squares in all codewords together, solved by conjugate gradients.
    """
    weight = eta(sample.shape[1]) - 1
    parts, _, width = words.shape
    first = (np.arange(parts) * WORDS + codes) * width  # (n, parts)
    places = (first[:, :, None] + np.arange(width)).reshape(len(sample), -1)  # (n, dim): where each number belongs

    def gathered(numbers: Any) -> Any:
        return np.bincount(places.ravel(), numbers.ravel(), words.size)

    counts = np.bincount(places.ravel(), minlength=words.size) + 1e-3  # codewords of nothing stay where they are

    def product(at: Any) -> Any:
        along = np.einsum("nd,nd->n", sample, at[places])
        return counts * at + weight * gathered(sample * along[:, None])

    wanted = (1 + weight) * gathered(sample) + 1e-3 * words.ravel()
    scale = counts + weight * gathered(np.square(sample))
    found = words.ravel().astype(np.float64)
    rest = wanted - product(found)
    step = rest / scale
    size = rest @ step
    for _ in range(_STEPS):
        if size <= 0:
            break
        through = product(step)
        length = size / (step @ through)
        found += length * step
        rest -= length * through
        before, size = size, rest @ (rest / scale)
        step = rest / scale + size / before * step
    return np.asarray(found.reshape(words.shape), np.float32)
