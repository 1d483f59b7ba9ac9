"""The sentence of an index that is nearest to a source sentence (CCPR, table 6: what phrases are compared with)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phrasemate.index import Index

__all__ = ["RelatedSentences"]

BLOCK = 4_096  # sentences that are encoded together
ROWS = 65_536  # vectors that are compared at once: 100 MB as 32-bit numbers

Progress = Callable[[str, int, int], None]


class RelatedSentences:
    """Vectors of all sentences of an index, in a file of ``folder``; made once for each state of the index."""

    def __init__(self, index: Index, folder: Path, progress: Progress = lambda what, done, total: None) -> None:
        self.index = index
        self.model: Any = index.model
        with index.snapshot():
            generation = index.store.state().generation
            self._path = folder / f"sentences-{index.manifest.model_hash[:12]}-{generation}.npz"
            if not self._path.exists():
                self._make(progress)
        with np.load(self._path) as stored:
            self._ids: NDArray[np.int64] = stored["ids"]  # (sentences,)
            self._vectors: NDArray[np.float16] = stored["vectors"]  # (sentences, width)

    def __call__(self, sentences: Sequence[str]) -> list[tuple[str, float]]:
        """The nearest sentence of each, with its cosine; ("", 0) from an empty index."""
        if not len(self._ids) or not sentences:
            return [("", 0.0)] * len(sentences)
        queries = self.model.encode_sentences(list(sentences))  # (sentences, width)
        best = np.full(len(queries), -np.inf, np.float32)
        row = np.zeros(len(queries), np.int64)
        for low in range(0, len(self._ids), ROWS):
            scores = queries @ self._vectors[low : low + ROWS].astype(np.float32).T  # (sentences, rows)
            found = scores.argmax(1)
            score = scores[np.arange(len(queries)), found]
            row, best = np.where(score > best, found + low, row), np.maximum(score, best)
        texts = [next(iter(self.index.store.sentences([int(self._ids[at])]))).text for at in row]
        return list(zip(texts, map(float, best), strict=True))

    def _make(self, progress: Progress) -> None:
        store, total = self.index.store, self.index.stats().sentences
        ids: list[int] = []
        parts: list[NDArray[Any]] = [np.zeros((0, self.model.width), np.float16)]
        sentences = store.all_sentences()
        while rows := list(islice(sentences, BLOCK)):
            ids += [row.id for row in rows]
            parts.append(self.model.encode_sentences([row.text for row in rows]).astype(np.float16))
            progress("sentence vectors", len(ids), total)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._path.with_suffix(".new")
        with temporary.open("wb") as file:
            np.savez(file, ids=np.array(ids, np.int64), vectors=np.concatenate(parts))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._path)
