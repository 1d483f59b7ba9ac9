"""Nearest neighbours by inner product, and CSLS, in blocks: no matrix of all similarities is ever held.

CSLS (Conneau et al. 2018, section 2.3): csls(x, z) = 2 cos(x, z) - r(x) - r(z), r being the mean cosine with the k
nearest of the other side. A word that is near to everything (a hub) is pushed back by its own r.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import InputError
from phrasemate.utils.knn import greatest

BLOCK = 20_000_000  # similarities held at once: 80 MB

Floats = NDArray[np.float32]
Rows = NDArray[np.int64]


def blocks(x: Floats, z: Floats, held: Floats | None = None) -> Iterator[tuple[slice, Floats]]:
    """Rows of x, and their inner products with all of z: (slice, (rows, len(z)) float32, to be written over).

    ``held`` (len(x), len(z)): all of them, where they have been computed already.
    """
    if x.shape[1] != z.shape[1]:
        raise InputError(f"vectors of {x.shape[1]} and of {z.shape[1]} dimensions; expected as many")
    size = max(1, BLOCK // max(1, len(z)))
    for at in range(0, len(x), size):
        part = slice(at, min(at + size, len(x)))
        yield part, x[part] @ z.T if held is None else np.array(held[part], order="C")


def nearest(x: Floats, z: Floats, k: int = 1, penalties: Floats | None = None) -> tuple[Rows, Floats]:
    """Of each row of x the k rows of z with the greatest inner product, best first: rows and values, (len(x), k) each.

    ``penalties`` (len(z),) are taken off first; with those of `csls_penalties` the order is that of CSLS, and the
    value lacks only what is the same for all z. k is at most len(z); equal values go by row. Raises InputError for k
    below 1.
    """
    _check(k)
    k = min(k, len(z))
    rows, values = np.empty((len(x), k), np.int64), np.empty((len(x), k), np.float32)
    for part, found in blocks(x, z):
        if penalties is not None:
            found -= penalties
        rows[part], values[part] = greatest(found, k)
    return rows, values


def neighbour_means(x: Floats, z: Floats, k: int = 10, held: Floats | None = None) -> Floats:
    """(len(x),) r(x): the mean inner product of each row of x with its k nearest of z; ``held`` as in `blocks`.

    Raises InputError for k below 1.
    """
    _check(k)
    means = np.empty(len(x), np.float32)
    for part, found in blocks(x, z, held):
        means[part] = greatest(found, min(k, len(z)))[1].mean(1)
    return means


def csls_penalties(x: Floats, z: Floats, k: int = 10) -> Floats:
    """(len(z),) r(z) / 2, for `nearest` of x among z: cos(x, z) - r(z) / 2 has the order of CSLS.

    Raises InputError for k below 1.
    """
    return neighbour_means(z, x, k) * np.float32(0.5)


def _check(k: int) -> None:
    if k < 1:
        raise InputError(f"k {k}; expected 1 or more neighbours")
