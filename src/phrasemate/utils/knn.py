"""Nearest neighbours: the k greatest numbers of each row, exact k-NN in blocks, and CSLS.

`topk` orders by number, highest first, and then by column, without sorting what cannot be among the greatest. Of each
group of columns only the greatest is looked at first. At least k columns reach the k-th of these, so what is less is
left out in one quick pass. Numbers may be infinite; a NaN would hide its group and is not allowed.

`nearest` works in blocks: no matrix of all similarities is ever held. CSLS (Conneau et al. 2018, section 2.3):
csls(x, z) = 2 cos(x, z) - r(x) - r(z), r being the mean cosine with the k nearest of the other side. A word that is
near to everything (a hub) is pushed back by its own r.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from phrasemate.errors import InputError
from phrasemate.utils.arrays import Floats, Integers

GROUP = 16  # columns whose greatest is looked at first


def topk(values: Floats, k: int) -> tuple[Integers, Floats]:
    """(rows, n) -> columns and values of the k greatest of each row, (rows, k) each; k is at most n."""
    if values.shape[1] // GROUP <= k or not len(values):  # every group may hold one of them
        columns = argsort_desc(values)[:, :k]
        return columns, np.take_along_axis(values, columns, 1)
    columns, numbers = topk_candidates(values, k)
    order = argsort_desc(numbers)[:, :k]
    return np.take_along_axis(columns, order, 1), np.take_along_axis(numbers, order, 1)


def argsort_desc(values: Floats) -> Integers:
    """(rows, n) columns by value, highest first; of equal values the first one first.

    A stable argsort in a quarter of its time: value and column are sorted as one number.
    """
    numbers = np.fmax(values, np.float32(-np.inf), dtype=np.float32) + np.float32(0)  # no -0.0
    bits = numbers.view(np.int32).astype(np.int64)
    keys = np.where(bits < 0, bits ^ 0x7FFFFFFF, bits)  # as numbers in the order of the values
    last = values.shape[1] - 1
    keys = (keys << 32) | (last - np.arange(values.shape[1]))
    keys.sort(axis=1)
    columns: Integers = last - (keys[:, ::-1] & 0xFFFFFFFF)
    return columns


def topk_candidates(values: Floats, k: int, least: Floats | None = None) -> tuple[Integers, Floats]:
    """Columns of (rows, n) that may be among the k greatest, and their values, as `pad_ragged` puts them.

    ``least`` (rows,): what they must reach besides.
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
    """Places of (rows, n) -> the columns and values of each row's own, ascending; filled up with -1 and -inf."""
    order = np.argsort(rows * max(1, values.shape[1]) + columns)
    rows, columns = rows[order], columns[order]
    counts = np.bincount(rows, minlength=len(values))
    within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    shape = (len(values), int(counts.max(initial=0)))
    padded_ids, numbers = np.full(shape, -1, np.int64), np.full(shape, -np.inf, np.float32)
    padded_ids[rows, within], numbers[rows, within] = columns, values[rows, columns]
    return padded_ids, numbers


BLOCK = 20_000_000  # similarities held at once: 80 MB


def blocks(x: Floats, z: Floats, similarities: Floats | None = None) -> Iterator[tuple[slice, Floats]]:
    """Rows of x with their inner products with all of z: (slice, (rows, len(z)) float32, free to overwrite).

    ``similarities`` (len(x), len(z)): all of them, where they have been computed already.
    """
    if x.shape[1] != z.shape[1]:
        raise InputError(f"vectors of {x.shape[1]} and of {z.shape[1]} dimensions; the numbers must be equal")
    size = max(1, BLOCK // max(1, len(z)))
    for at in range(0, len(x), size):
        part = slice(at, min(at + size, len(x)))
        yield part, x[part] @ z.T if similarities is None else np.array(similarities[part], order="C")


def nearest(x: Floats, z: Floats, k: int = 1, penalties: Floats | None = None) -> tuple[Integers, Floats]:
    """Find for each row of x the k rows of z with the greatest inner product: rows and values, (len(x), k) each.

    ``penalties`` (len(z),) are taken off first; with those of `csls_penalties` the order is that of CSLS, and the
    value lacks only what is the same for all z. k is at most len(z); equal values go by row. Raises InputError for k
    below 1.
    """
    _check_k(k)
    k = min(k, len(z))
    rows, values = np.empty((len(x), k), np.int64), np.empty((len(x), k), np.float32)
    for part, products in blocks(x, z):
        if penalties is not None:
            products -= penalties
        rows[part], values[part] = topk(products, k)
    return rows, values


def neighbour_means(x: Floats, z: Floats, k: int = 10, similarities: Floats | None = None) -> Floats:
    """(len(x),) r(x): the mean inner product of each row of x with its k nearest of z; ``similarities`` as in `blocks`.

    Raises InputError for k below 1.
    """
    _check_k(k)
    means = np.empty(len(x), np.float32)
    for part, products in blocks(x, z, similarities):
        means[part] = topk(products, min(k, len(z)))[1].mean(1)
    return means


def _check_k(k: int) -> None:
    if k < 1:
        raise InputError(f"k {k}; expected 1 or more neighbours")
