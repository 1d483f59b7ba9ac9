"""Collocates: English words that occur in the same sentences more often than by chance.

They disambiguate senses. *Bank* is a bench in a sentence with *sitzen*, because "bench" and "sit" are collocates. The
file has the arrays::

    text      (bytes,) uint8      stems, sorted by their bytes, concatenated
    lengths   (stems,) uint8      bytes of each stem
    degrees   (stems,) uint16     number of its collocates that come later in the list
    partners  (pairs,) uint16     rows of these collocates, in ascending order
    weights   (pairs,) uint8      association of each pair, in steps of 1 / `STEPS`

The association is the pointwise mutual information of two stems in a sentence. Context counts are smoothed by the power
3/4 (Levy, Goldberg & Dagan 2015, "Improving distributional similarity with lessons learned"). ``bench/collocates.py``
computes the file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from phrasemate.errors import ModelDamaged, ModelUnsupported
from phrasemate.lexicon.wordings import encoded
from phrasemate.utils.arrays import Floats, Rows
from phrasemate.utils.storage import save_arrays

FORMAT = "phrasemate collocates 1"
STEPS = 25  # an association of 1, as stored
MOST_STEMS = 1 << 16
_TENSORS = ("text", "lengths", "degrees", "partners", "weights")


class Collocates:
    """Associations of pairs of English stems, from a file that `write_collocates` wrote.

    Raises ModelDamaged for a file that is missing or damaged, ModelUnsupported for one of another format. Example::

        bundled_collocates().associations([["bench"], ["bank"]], {"sit": 1.0})  # that of "bench" is higher
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        try:
            with cast(Any, safe_open(Path(path), "numpy")) as file:
                facts = file.metadata() or {}
                if facts.get("format") != FORMAT:
                    raise ModelUnsupported(f"{path}: format {facts.get('format')!r}; expected {FORMAT!r}")
                text, lengths, degrees, partners, weights = (file.get_tensor(name) for name in _TENSORS)
        except (OSError, SafetensorError) as error:
            raise ModelDamaged(f"{path}: no collocates can be read ({error}); install phrasemate again") from None
        ends = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        if ends[-1] != len(text) or len(degrees) != len(lengths) or not degrees.sum() == len(partners) == len(weights):
            raise ModelDamaged(f"{path}: its parts do not fit together; install phrasemate again")
        blob = text.tobytes()
        spans = enumerate(pairwise(ends.tolist()))
        self._rows = {blob[start:end].decode(): row for row, (start, end) in spans}
        self._pairs = _pair(np.repeat(np.arange(len(degrees)), degrees), partners)
        self._weights = weights.astype(np.float32) / STEPS

    def associations(self, wordings: Sequence[Sequence[str]], context: Mapping[str, float]) -> Floats:
        """Score how strongly each wording is associated with the words of a context.

        ``wordings``: the stems of each. ``context``: stem -> weight, for words in the same sentence. A wording's score
        is a sum over the context of weight times association (the mean over the wording's stems), divided by the square
        root of the sum of the weights. Returns (wordings,); 0 for wordings without collocates.
        """
        row_of = self._rows
        around = sorted([(row_of[stem], weight) for stem, weight in context.items() if stem in row_of])
        stem_rows = [(place, row_of[stem]) for place, stems in enumerate(wordings) for stem in stems if stem in row_of]
        if not around or not stem_rows:
            return np.zeros(len(wordings), np.float32)
        rows_around = np.array([row for row, _ in around])
        shares = np.array([weight for _, weight in around], np.float32)
        owners = np.array([place for place, _ in stem_rows])
        rows, places_of = np.unique([row for _, row in stem_rows], return_inverse=True)
        # all are in ascending order, so that searchsorted takes half the time
        pairs = _pair(np.minimum(rows[:, None], rows_around), np.maximum(rows[:, None], rows_around))
        places = np.minimum(self._pairs.searchsorted(pairs.ravel()), len(self._pairs) - 1).reshape(pairs.shape)
        weights = np.where(self._pairs[places] == pairs, self._weights[places], np.float32(0))
        sums = np.bincount(owners, (weights * shares).sum(axis=1)[places_of], len(wordings))
        counts = np.bincount(owners, minlength=len(wordings))
        return cast(Floats, (sums / np.maximum(counts, 1) / np.sqrt(shares.sum())).astype(np.float32))


def _pair(first: Rows, second: Rows) -> NDArray[np.uint32]:
    """Combine two rows into one number, which sorts by the first, then by the second."""
    return first.astype(np.uint32) << np.uint32(16) | second.astype(np.uint32)


def write_collocates(
    path: str | os.PathLike[str], stems: Sequence[str], pairs: Mapping[tuple[int, int], float], facts: Mapping[str, str]
) -> None:
    """Write associations of pairs of stems to one file.

    ``stems``: at most `MOST_STEMS`, sorted by their bytes. ``pairs``: (lower row, higher row) -> association; values
    below half a step are omitted, values above 255 steps clipped. ``facts`` (sources, licence, ...) go into the
    metadata.
    """
    assert len(stems) <= MOST_STEMS
    rows = np.array(sorted(pairs), np.int64).reshape(-1, 2)
    steps = np.rint(np.array([pairs[low, high] for low, high in rows.tolist()]) * STEPS).clip(0, 255).astype(np.uint8)
    rows, steps = rows[steps > 0], steps[steps > 0]
    parts = [encoded(stem) for stem in stems]
    tensors: dict[str, NDArray[Any]] = {
        "text": np.frombuffer(b"".join(parts), np.uint8),
        "lengths": np.array([len(part) for part in parts], np.uint8),
        "degrees": np.bincount(rows[:, 0], minlength=len(stems)).astype(np.uint16),
        "partners": rows[:, 1].astype(np.uint16),
        "weights": steps,
    }
    save_arrays(Path(path), tensors, {**facts, "format": FORMAT})


PATH = Path(__file__).parent.parent / "models" / "lexicon" / "collocates.safetensors"


@cache
def bundled_collocates() -> Collocates | None:
    """Return the collocates of the package, read once; None if they are not installed."""
    return Collocates(PATH) if PATH.exists() else None
