"""Many wordings in two arrays: a third of what they take as Python strings, and readable from a file as they are."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray


def encoded(text: str) -> bytes:
    """UTF-8; half a surrogate pair, which a query may hold, is encoded too."""
    return text.encode("utf-8", "surrogatepass")


class Wordings:
    """A list of wordings as UTF-8 in one array; looked up by binary search if they are sorted by their bytes.

    ``blob`` (bytes,) uint8; ``ends`` (wordings + 1,), where each begins and the last one ends.
    """

    def __init__(self, blob: NDArray[np.uint8], ends: NDArray[Any]) -> None:
        self._blob, self._ends = memoryview(blob), ends  # type: ignore[arg-type]
        self._rows = _Rows(self)

    @classmethod
    def of(cls, texts: Iterable[str]) -> Wordings:
        """The wordings in the order in which they come."""
        parts = [encoded(text) for text in texts]
        ends = np.fromiter(accumulate(map(len, parts), initial=0), np.int64, len(parts) + 1)
        return cls(np.frombuffer(b"".join(parts), np.uint8), ends)

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, row: int) -> str:
        return self.bytes_of(row).decode("utf-8", "surrogatepass")

    def find(self, text: str) -> int:
        """The row of a wording, or -1."""
        wanted = encoded(text)
        row = bisect_left(self._rows, wanted)
        return row if row < len(self) and self.bytes_of(row) == wanted else -1

    def range_of(self, text: str) -> tuple[int, int]:
        """The first row of a wording that is there several times, and the row after the last."""
        wanted = encoded(text)
        start = end = bisect_left(self._rows, wanted)
        while end < len(self) and self.bytes_of(end) == wanted:
            end += 1
        return start, end

    def bytes_of(self, row: int) -> bytes:
        """The wording of a row as UTF-8."""
        return self._blob[int(self._ends[row]) : int(self._ends[row + 1])].tobytes()


class _Rows(Sequence[bytes]):
    """The wordings as bytes, for bisect."""

    def __init__(self, wordings: Wordings) -> None:
        self._wordings = wordings

    def __len__(self) -> int:
        return len(self._wordings)

    def __getitem__(self, row: Any) -> Any:
        return self._wordings.bytes_of(row)
