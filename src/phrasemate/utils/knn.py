"""The k greatest numbers of each row, by falling number and then by column, without sorting what cannot be among them.

Of each group of columns only the greatest is looked at first. At least k columns reach the k-th of these, so what is
less is left out in one quick pass. Numbers may be infinite; there must be no NaN, which would hide its group, so that
fewer than k are found.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Columns = NDArray[np.int64]
GROUP = 16  # columns whose greatest is looked at first


def greatest(values: Floats, k: int) -> tuple[Columns, Floats]:
    """(rows, n) -> columns and values of the k greatest of each row, (rows, k) each; k is at most n."""
    if values.shape[1] // GROUP <= k or not len(values):  # every group may hold one of them
        columns = falling(values)[:, :k]
        return columns, np.take_along_axis(values, columns, 1)
    columns, numbers = promising(values, k)
    order = falling(numbers)[:, :k]
    return np.take_along_axis(columns, order, 1), np.take_along_axis(numbers, order, 1)


def falling(values: Floats) -> Columns:
    """(rows, n) columns by falling value, of equal values the first one first.

    A stable argsort in a quarter of its time: value and column are sorted as one number.
    """
    numbers = np.fmax(values, np.float32(-np.inf), dtype=np.float32) + np.float32(0)  # no -0.0
    bits = numbers.view(np.int32).astype(np.int64)
    keys = np.where(bits < 0, bits ^ 0x7FFFFFFF, bits)  # as numbers in the order of the values
    last = values.shape[1] - 1
    keys = (keys << 32) | (last - np.arange(values.shape[1]))
    keys.sort(axis=1)
    columns: Columns = last - (keys[:, ::-1] & 0xFFFFFFFF)
    return columns


def promising(values: Floats, k: int, least: Floats | None = None) -> tuple[Columns, Floats]:
    """Columns of (rows, n) that may be among the k greatest, and their values, as `side_by_side` puts them.

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
    which, member = np.nonzero(groups[rows, :, group] >= least[rows, None])
    rest = np.nonzero(values[:, count * GROUP :] >= least[:, None])
    columns = np.concatenate([member * count + group[which], rest[1] + count * GROUP])
    return side_by_side(np.concatenate([rows[which], rest[0]]), columns, values)


def side_by_side(rows: Columns, columns: Columns, values: Floats) -> tuple[Columns, Floats]:
    """Places of (rows, n) -> the columns and values of each row's own, ascending; filled up with -1 and -inf."""
    order = np.argsort(rows * max(1, values.shape[1]) + columns)
    rows, columns = rows[order], columns[order]
    counts = np.bincount(rows, minlength=len(values))
    within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    shape = (len(values), int(counts.max(initial=0)))
    padded, numbers = np.full(shape, -1, np.int64), np.full(shape, -np.inf, np.float32)
    padded[rows, within], numbers[rows, within] = columns, values[rows, columns]
    return padded, numbers
