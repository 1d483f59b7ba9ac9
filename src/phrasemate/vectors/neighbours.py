"""Nearest neighbours by inner product, and CSLS, in blocks: no matrix of all similarities is ever held.

CSLS (Conneau et al. 2018, section 2.3): csls(x, z) = 2 cos(x, z) - r(x) - r(z), r being the mean cosine with the k
nearest of the other side. A word that is near to everything (a hub) is pushed back by its own r.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import InputError

__all__ = ["blocks", "csls_penalties", "nearest", "neighbour_means"]

BLOCK = 20_000_000  # similarities held at once: 80 MB
GROUP = 64  # columns whose greatest is looked at first

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
    if k < 1:
        raise InputError(f"k {k}; expected 1 or more neighbours")
    k = min(k, len(z))
    rows, values = np.empty((len(x), k), np.int64), np.empty((len(x), k), np.float32)
    for part, found in blocks(x, z):
        if penalties is not None:
            found -= penalties
        rows[part], values[part] = _greatest(found, k)
    return rows, values


def neighbour_means(x: Floats, z: Floats, k: int = 10, held: Floats | None = None) -> Floats:
    """(len(x),) r(x): the mean inner product of each row of x with its k nearest of z; ``held`` as in `blocks`."""
    means = np.empty(len(x), np.float32)
    for part, found in blocks(x, z, held):
        means[part] = _greatest(found, min(k, len(z)))[1].mean(1)
    return means


def csls_penalties(x: Floats, z: Floats, k: int = 10) -> Floats:
    """(len(z),) r(z) / 2, for `nearest` of x among z: cos(x, z) - r(z) / 2 has the order of CSLS."""
    return neighbour_means(z, x, k) * np.float32(0.5)


def _greatest(values: Floats, k: int) -> tuple[Rows, Floats]:
    """Columns and values of the k greatest of each row, best first.

    Only k groups of columns can hold them: those with the greatest maxima. Finding these is one quick pass.
    """
    columns = values.shape[1] // GROUP * GROUP
    count = columns // GROUP
    if count <= 2 * k:
        return _sorted(values, np.broadcast_to(np.arange(values.shape[1]), values.shape), k)
    maxima = values[:, :columns].reshape(len(values), count, GROUP).max(2)
    groups = _first_greatest(maxima, k)
    held = (groups[:, :, None] * GROUP + np.arange(GROUP)).reshape(len(values), k * GROUP)
    rest = np.broadcast_to(np.arange(columns, values.shape[1]), (len(values), values.shape[1] - columns))
    held = np.concatenate([held, rest], axis=1)
    return _sorted(np.take_along_axis(values, held, axis=1), held, k)


def _first_greatest(values: Floats, k: int) -> Rows:
    """(rows, k) columns of the k greatest, ascending; of equal values the first ones."""
    width = values.shape[1]
    best = np.argpartition(values, width - k, axis=1)[:, width - k :]
    least = np.take_along_axis(values, best[:, :1], axis=1)  # argpartition puts the k-th there
    for row in np.flatnonzero((values >= least).sum(1) > k):  # it leaves open which of equal ones it takes
        best[row] = np.argsort(-values[row], kind="stable")[:k]
    return np.sort(best, axis=1)


def _sorted(values: Floats, columns: Rows, k: int) -> tuple[Rows, Floats]:
    best = _first_greatest(values, k)
    found = np.take_along_axis(values, best, axis=1)
    order = np.argsort(-found, axis=1, kind="stable")
    best = np.take_along_axis(best, order, axis=1)
    return np.take_along_axis(columns, best, axis=1), np.take_along_axis(found, order, axis=1)
