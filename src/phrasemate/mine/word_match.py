"""A second look at a pair of sentences: has every word its match on the other side?

Sentence vectors hardly tell "Dutch language package" from "Estonian language package"; word vectors do.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from phrasemate.align import Worded
from phrasemate.align.neural import word_vectors
from phrasemate.encode import Model
from phrasemate.encode.pooling import unit
from phrasemate.types import PhrasePair

Floats = NDArray[np.float32]
_CHUNK = 512  # sentences whose words are encoded together


class WordMatch:
    """Scores a pair of sentences by those of their words that match worst.

    A word's vector is what the model makes of it as a phrase (its projection; without one, the mean of its tokens),
    its match the highest cosine with a word of the other sentence; the score is the mean match of the worst quarter of
    the words, averaged over both sides. 0 where a side has no word.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self.signature = f"words {model.hash}"

    def score(self, pairs: Sequence[PhrasePair]) -> Floats:
        """(pairs,) float32."""
        sources, targets = ([getattr(pair, side).text for pair in pairs] for side in ("source", "target"))
        one, other = self._vectors(sources), self._vectors(targets)
        return np.array([low_quarter(one[a] @ other[b].T) for a, b in zip(sources, targets, strict=True)], np.float32)

    def _vectors(self, texts: Sequence[str]) -> dict[str, Floats]:
        """(words, dim) unit vectors of each different text."""
        found: dict[str, Floats] = {}
        different = sorted(set(texts), key=len)
        for at in range(0, len(different), _CHUNK):
            some = different[at : at + _CHUNK]
            vectors = word_vectors(self._model, [Worded.of(text) for text in some], None, "head")
            found |= zip(some, map(unit, vectors), strict=True)
        return found


def low_quarter(cosines: Floats) -> float:
    """(words, words) -> the mean of the lowest quarter of the best matches, averaged over both sides."""
    if not cosines.size:
        return 0.0
    sides = (np.sort(cosines.max(axis)) for axis in (0, 1))
    return float(np.mean([best[: max(1, len(best) // 4)].mean() for best in sides]))
