"""The long stages, block by block: sentences -> vectors -> neighbours; pairs -> scores."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import InputError
from phrasemate.mine.collection import Collection
from phrasemate.mine.select import Candidates
from phrasemate.mine.types import SentenceEncoder
from phrasemate.mine.work_folder import Blocks, checked, seal
from phrasemate.rank import whole
from phrasemate.types import PhrasePair, Run, Scorer
from phrasemate.utils.knn import RECALL_SAMPLE, ApproximateSearch, ExactSearch, NeighbourSearch

ENCODED = 2048  # sentences between two writes of vectors
ASKED = 8192  # queries between two writes of neighbours
SCORED = 1024  # pairs handed to a scorer together, and written
Halves = NDArray[np.float16]
Told = Callable[[int, int], None]


def encode(folder: Path, side: str, texts: Collection, model: SentenceEncoder, progress: Told) -> Halves:
    """(sentences, width) float16 vectors on disk; what is there of the same sentences and model is kept.

    Raises InputError for a model that gives no unit vectors.
    """
    parts = [slice(at, min(at + ENCODED, len(texts))) for at in range(0, len(texts), ENCODED)]
    keys = [_key(model.hash, *texts.texts(part)) for part in parts]
    blocks = Blocks(folder, f"{side}.vectors", (len(texts), model.width), np.float16, ENCODED, keys)
    progress(_done(blocks), len(texts))
    for number in blocks.missing:
        vectors = model.encode_sentences(texts.texts(parts[number]))
        lengths = np.linalg.norm(vectors, axis=1) if vectors.ndim == 2 else np.zeros(1)
        if not (np.abs(lengths - 1) < 0.01).all():
            raise InputError(f"the model gave vectors of length {lengths.min():.3g}; expected unit vectors")
        blocks.write(number, vectors)
        progress(_done(blocks), len(texts))
    return blocks.array


def neighbours(
    folder: Path,
    name: str,
    queries: Halves,
    database: Halves,
    k: int,
    engine: str,
    key: str,
    progress: Callable[[str, int, int], None],
) -> tuple[Run, float]:
    """The k nearest rows of the database for each query, and the recall of the search on a sample of them.

    ``engine`` is `exact` or `approximate`; ``key`` names both sets of vectors.
    """
    k = min(k, len(database))
    key, note = _key(key, str(k), engine), folder / f"{name}.json"
    blocks = Blocks(folder, name, (len(queries), 2 * k), np.int32, ASKED, [key] * -(-len(queries) // ASKED))
    known = checked(note, key=str, recall=float)
    if known is None or known["key"] != key:
        known, blocks.done = {"key": key, "recall": 1.0}, set()
    if blocks.missing:
        searching = _searching(queries, database, k, engine, progress)
        known["recall"] = searching.recall
        seal(note, known, [])
        progress("searching", _done(blocks), len(queries))
        for number in blocks.missing:
            ids, cosines = searching.search(queries[blocks.rows(number)].astype(np.float32), k)
            blocks.write(number, np.hstack([ids, cosines.astype(np.float32).view(np.int32)]))
            progress("searching", _done(blocks), len(queries))
    found = blocks.array
    cosines = np.ascontiguousarray(found[:, k:]).view(np.float32)
    return Run(found[:, :k].astype(np.int64), cosines), float(known["recall"])


def scores(
    folder: Path, scorer: Scorer, pairs: Candidates, sides: Sequence[Collection], progress: Told
) -> NDArray[np.float32]:
    """(pairs,) the scorer's scores; what a scorer with a ``signature`` gave before is kept.

    Raises InputError for a scorer that does not give a finite number for each pair.
    """
    parts = [slice(at, at + SCORED) for at in range(0, len(pairs.score), SCORED)]
    name = str(getattr(scorer, "signature", "")) or str(time.time_ns())
    known = [name, *(side.key for side in sides)]
    keys = [_key(*known, pairs.source[part].tobytes().hex(), pairs.target[part].tobytes().hex()) for part in parts]
    blocks = Blocks(folder, "scores", (len(pairs.score), 1), np.float32, SCORED, keys)
    for number in blocks.missing:
        texts = zip(pairs.source[parts[number]].tolist(), pairs.target[parts[number]].tolist(), strict=True)
        some = [PhrasePair(whole(sides[0].text(one)), whole(sides[1].text(other))) for one, other in texts]
        given = np.asarray(scorer.score(some), np.float32)
        if given.shape != (len(some),) or not np.isfinite(given).all():
            raise InputError(
                f"scores of shape {given.shape} from the scorer for {len(some)} pairs; expected finite numbers"
            )
        blocks.write(number, given[:, None])
        progress(_done(blocks), len(pairs.score))
    return np.array(blocks.array[:, 0])


def _searching(queries: Halves, database: Halves, k: int, engine: str, progress: Any) -> NeighbourSearch:
    if engine == "exact":
        return ExactSearch(database)
    some = np.linspace(0, len(queries) - 1, min(RECALL_SAMPLE, len(queries))).astype(np.int64)
    total = len(database)
    return ApproximateSearch(
        database, queries[some].astype(np.float32), k, lambda done: progress("indexing", done, total)
    )


def _done(blocks: Blocks) -> int:
    rows = (blocks.rows(number) for number in blocks.done)
    return sum(each.stop - each.start for each in rows)


def _key(*parts: str) -> str:
    return sha256("\n".join(parts).encode("utf-8", "replace")).hexdigest()[:32]
