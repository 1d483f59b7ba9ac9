"""Many wordings in two arrays: a third of what they take as Python strings, and readable from a file as they are."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phrasemate.lexicon.inflection import leading, stemmed, stemmed_all, without_function_words
from phrasemate.text.normalize import folded

_BEGINNING = 4  # characters that wordings with the same stem share
_COMPARED = 5000  # wordings with one beginning


def encoded(text: str) -> bytes:
    """UTF-8; half a surrogate pair, which a query may hold, is encoded too."""
    return text.encode("utf-8", "surrogatepass")


class Wordings:
    """A list of wordings as UTF-8 in one array; looked up by binary search if they are sorted by their bytes.

    ``blob`` (bytes,) uint8; ``ends`` (wordings + 1,), where each begins and the last one ends.
    """

    def __init__(self, blob: NDArray[np.uint8], ends: NDArray[Any]) -> None:
        self._blob, self._ends = memoryview(blob), memoryview(ends)  # type: ignore[arg-type]
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
        return self.find_encoded(encoded(text))

    def find_encoded(self, wanted: bytes) -> int:
        """The row of a wording in UTF-8, or -1."""
        blob, ends = self._blob, self._ends
        low, high = 0, len(ends) - 1
        while low < high:
            middle = (low + high) // 2
            if bytes(blob[ends[middle] : ends[middle + 1]]) < wanted:
                low = middle + 1
            else:
                high = middle
        return low if low < len(self) and self.bytes_of(low) == wanted else -1

    def beginning_with(self, text: str) -> range:
        """The rows of the wordings that begin so."""
        start = encoded(text)
        return range(bisect_left(self._rows, start), bisect_left(self._rows, start + b"\xff"))

    def bytes_of(self, row: int) -> bytes:
        """The wording of a row as UTF-8."""
        return self._blob[self._ends[row] : self._ends[row + 1]].tobytes()


class _Rows(Sequence[bytes]):
    """The wordings as bytes, for bisect."""

    def __init__(self, wordings: Wordings) -> None:
        self._wordings = wordings

    def __len__(self) -> int:
        return len(self._wordings)

    def __getitem__(self, row: Any) -> Any:
        return self._wordings.bytes_of(row)


class Keys:
    """Folded, sorted wordings of one language, looked up as they are, without leading function words, or by stems."""

    def __init__(self, wordings: Wordings) -> None:
        self.wordings = wordings

    def exact(self, wording: str, lang: str) -> list[int]:
        """The row of a wording, without regard to case and white space."""
        row = self.wordings.find(folded(wording))
        return [row] if row >= 0 else []

    def stripped(self, wording: str, lang: str) -> list[int]:
        """The row of a wording without its leading function words."""
        row = self.wordings.find(without_function_words(wording, lang))
        return [row] if row >= 0 else []

    def stemmed(self, wording: str, lang: str) -> list[int]:
        """The rows of the wordings with the same stems.

        Compared are those that begin as the wording does, or its stem; a change of vowel after that does no harm.
        """
        form, bare = stemmed(wording, lang), without_function_words(wording, lang)
        length = max(2, min(len(form) - 1, _BEGINNING))
        rows = {
            row
            for beginning in (form[:length], bare[:length])
            for before in leading(lang)
            for row in self.wordings.beginning_with(before + beginning)[:_COMPARED]
        }
        candidates = sorted(rows)
        forms = stemmed_all((self.wordings[row] for row in candidates), lang)
        return [row for row, other in zip(candidates, forms, strict=True) if other == form]


LOOKUPS = (Keys.exact, Keys.stripped, Keys.stemmed)
"""The ways to look a wording up, in the order in which they are tried: the first one that answers counts."""
