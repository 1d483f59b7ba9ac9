"""Linear maps between two spaces of vectors, learnt from pairs of rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import InputError

FLOOR = 1e-6  # of the greatest variance: what a smaller one is taken for, so that whitening stays finite

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Rows = NDArray[np.int64]


def procrustes(x: Floats, z: Floats, source: Rows | None = None, target: Rows | None = None) -> Floats:
    """The orthogonal W (dim, dim) with the least ||x W - z||, over pairs of rows.

    ``source``/``target`` (pairs,): which row of x goes with which of z; without them row i goes with row i. With unit
    vectors it maximises the sum of cosines (Smith et al. 2017, section 2.2): U S V' = SVD(x' z), W = U V'.
    Raises InputError if the pairs or the dimensions do not correspond.
    """
    left, right = orthogonal_maps(*_paired(x, z, source, target))
    return left @ right.T


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
    left = white_x @ (u * root) @ (u.T @ coloured_x @ u)
    right = white_z @ (vt.T * root) @ (vt @ coloured_z @ vt.T)
    return left.astype(np.float32), right.astype(np.float32)


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
