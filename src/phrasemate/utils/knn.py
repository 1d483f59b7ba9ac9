"""Nearest neighbours: the k greatest values of each row, exact k-NN in blocks, and the neighbour means of CSLS.

`topk` avoids sorting whole rows. It splits the columns into groups and finds the k-th greatest of the group maxima.
At least k values reach this bound, so one pass drops all smaller values, and only the rest is sorted. Values may be
infinite, but not NaN, which would hide its group.

`nearest` works in blocks, so the matrix of all similarities is never held in memory.

CSLS (Conneau et al. 2018, section 2.3) is csls(x, z) = 2 cos(x, z) - r(x) - r(z). Here r is the mean cosine with the
k nearest neighbours of the other side. It lowers the scores of hubs, which are near to many vectors.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from phrasemate.errors import InputError
from phrasemate.types import to_whole
from phrasemate.utils.arrays import Floats, Integers

GROUP = 16  # columns of a group


def topk(values: Floats, k: int) -> tuple[Integers, Floats]:
    """Return columns and values of the k greatest values of each row, both (rows, k), greatest first.

    Equal values are ordered by column. ``values`` is (rows, n), and k is at most n.
    """
    if values.shape[1] // GROUP <= k or not len(values):  # every group may hold one of the k greatest
        columns = argsort_desc(values)[:, :k]
        return columns, np.take_along_axis(values, columns, 1)
    columns, numbers = topk_candidates(values, k)
    order = argsort_desc(numbers)[:, :k]
    return np.take_along_axis(columns, order, 1), np.take_along_axis(numbers, order, 1)


def argsort_desc(values: Floats) -> Integers:
    """Sort the columns of each row of (rows, n) by value, greatest first; equal values are ordered by column.

    It takes a quarter of the time of a stable argsort, since value and column are sorted as one integer. NaN is
    sorted as -inf.
    """
    numbers = np.fmax(values, np.float32(-np.inf), dtype=np.float32) + np.float32(0)  # turns -0.0 into 0.0
    bits = numbers.view(np.int32).astype(np.int64)
    keys = np.where(bits < 0, bits ^ 0x7FFFFFFF, bits)  # integers in the order of the values
    last = values.shape[1] - 1
    keys = (keys << 32) | (last - np.arange(values.shape[1]))
    keys.sort(axis=1)
    columns: Integers = last - (keys[:, ::-1] & 0xFFFFFFFF)
    return columns


def topk_candidates(values: Floats, k: int, least: Floats | None = None) -> tuple[Integers, Floats]:
    """Return columns and values that may be among the k greatest of each row of (rows, n), in `pad_ragged`'s form.

    ``least`` (rows,): lower bound of the values to return; None for no bound.
    """
    count = values.shape[1] // GROUP
    groups = values[:, : count * GROUP].reshape(len(values), GROUP, count)  # column c is in group c % count
    maxima = groups.max(axis=1)
    if least is None:
        least = np.full(len(values), -np.inf, np.float32)
    if count > k:
        least = np.maximum(least, np.partition(maxima, -k, axis=1)[:, -k])
    rows, group = np.nonzero(maxima >= least[:, None])
    row_of, member = np.nonzero(groups[rows, :, group] >= least[rows, None])
    rest = np.nonzero(values[:, count * GROUP :] >= least[:, None])
    columns = np.concatenate([member * count + group[row_of], rest[1] + count * GROUP])
    return pad_ragged(np.concatenate([rows[row_of], rest[0]]), columns, values)


def pad_ragged(rows: Integers, columns: Integers, values: Floats) -> tuple[Integers, Floats]:
    """Arrange entries of ``values`` (rows, n) by row: return columns and values, (rows, longest) each.

    The columns of a row are ascending. Shorter rows are padded with -1 and -inf.

    Args:
        rows: Row of each entry, (entries,).
        columns: Column of each entry, (entries,).
        values: Array of which they are entries, (rows, n).
    """
    order = np.argsort(rows * max(1, values.shape[1]) + columns)
    rows, columns = rows[order], columns[order]
    counts = np.bincount(rows, minlength=len(values))
    within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    shape = (len(values), int(counts.max(initial=0)))
    padded_ids, numbers = np.full(shape, -1, np.int64), np.full(shape, -np.inf, np.float32)
    padded_ids[rows, within], numbers[rows, within] = columns, values[rows, columns]
    return padded_ids, numbers


BLOCK = 20_000_000  # similarities in memory at once: 80 MB


def blocks(x: Floats, z: Floats, similarities: Floats | None = None) -> Iterator[tuple[slice, Floats]]:
    """Yield blocks of rows of x, as slices, with their inner products with all rows of z, (rows, len(z)) float32.

    The caller may overwrite the products. ``similarities`` (len(x), len(z)): the products, if already computed. Raises
    InputError for unequal dimensions.
    """
    if x.shape[1] != z.shape[1]:
        raise InputError(f"vectors of {x.shape[1]} and of {z.shape[1]} dimensions; the numbers must be equal")
    size = max(1, BLOCK // max(1, len(z)))
    for at in range(0, len(x), size):
        part = slice(at, min(at + size, len(x)))
        yield part, x[part] @ z.T if similarities is None else np.array(similarities[part], order="C")


def nearest(x: Floats, z: Floats, k: int = 1, penalties: Floats | None = None) -> tuple[Integers, Floats]:
    """Return for each row of x the k rows of z with the greatest inner products, and these, (len(x), k) each.

    Equal values are ordered by row. If k exceeds len(z), all rows of z are returned.

    ``penalties`` (len(z),) are subtracted from the products first. With those of `csls_penalties` the order is that
    of CSLS. Raises InputError unless k is a whole number from 1.
    """
    k = min(to_whole("k", k), len(z))
    rows, values = np.empty((len(x), k), np.int64), np.empty((len(x), k), np.float32)
    for part, products in blocks(x, z):
        if penalties is not None:
            products -= penalties
        rows[part], values[part] = topk(products, k)
    return rows, values


def neighbour_means(x: Floats, z: Floats, k: int = 10, similarities: Floats | None = None) -> Floats:
    """Return r(x), (len(x),): the mean inner product of each row of x with its k nearest rows of z.

    ``similarities`` are those of `blocks`. Raises InputError unless k is a whole number from 1.
    """
    k = min(to_whole("k", k), len(z))
    means = np.empty(len(x), np.float32)
    for part, products in blocks(x, z, similarities):
        means[part] = topk(products, k)[1].mean(1)
    return means
