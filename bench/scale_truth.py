"""Exact answers for bench/scale.py: the best scores of each query among the first sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scale_data import CHUNK, put_array

from phrasemate.index import row_codec

DEPTH = 10


def truth(work: Path, last: int, asked: Any) -> NDArray[np.float32]:
    """(queries, 10) best scores of the first ``last`` sentences, best first; kept, and continued from fewer."""
    path = work / f"truth-{last}.npy"
    if not path.exists():
        known = sorted(int(each.stem.split("-")[1]) for each in work.glob("truth-*.npy"))
        first = max((count for count in known if count < last), default=0)
        before = np.load(work / f"truth-{first}.npy") if first else None
        put_array(path, best_scores(asked, _encoded(work, first, last), before))
    made: NDArray[np.float32] = np.load(path)
    return made


def best_scores(asked: Any, blocks: Iterable[Any], best: Any = None) -> Any:
    """(queries, 10) the best scores over blocks of vectors, best first; ``best``: those of blocks before."""
    import faiss

    if best is None:
        best = np.full((len(asked), DEPTH), -np.inf, np.float32)
    for vectors in blocks:
        scores, _ = faiss.knn(asked, vectors, min(DEPTH, len(vectors)), metric=faiss.METRIC_INNER_PRODUCT)
        best = np.sort(np.concatenate([best, scores], axis=1), axis=1)[:, ::-1][:, :DEPTH]
    return best


def _encoded(work: Path, first: int, last: int) -> Iterator[Any]:
    """The vectors of sentences ``first`` to ``last``."""
    for number in range(first // CHUNK, -(-last // CHUNK)):
        with np.load(work / "encoded" / f"{number:05}.npz") as held:
            low, high = (int(held["bounds"][min(max(at - number * CHUNK, 0), CHUNK)]) for at in (first, last))
            yield row_codec.dequantise(held["codes"][low:high])
