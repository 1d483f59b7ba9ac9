"""An index that is a list of hits, and a model that gives each phrase a number: both tell what they were asked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from phrasemate.index.types import Filters
from phrasemate.types import Hit, Phrase, Run, Span


class FakeModel:
    """A phrase's vector is its number in the order of asking, as the first of two values."""

    dim = 2
    confidence: Any = None

    def __init__(self) -> None:
        self.batches: list[list[Phrase]] = []

    def encode(self, phrases: Sequence[Phrase]) -> np.ndarray:
        self.batches.append(list(phrases))
        return np.array([[number, 0] for number in range(len(phrases))], np.float32)

    def segment(self, texts: Sequence[str]) -> list[list[Span]]:
        return [[Span(*match.span()) for match in re.finditer(r"[A-Z]\w+", text)] for text in texts]


class FakeIndex:
    """Query number q is answered from ``lists[q]``, hits by score, highest first."""

    dictionaries: tuple[Any, ...] = ()

    def __init__(self, *lists: Sequence[Hit], model: FakeModel | None = None) -> None:
        self.lists, self.model = lists, model or FakeModel()
        self.all = [hit for hits in lists for hit in hits]
        self.searches: list[tuple[list[int], int]] = []
        self.filters: list[Any] = []
        self.inside = False

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        self.inside = True
        yield
        self.inside = False

    def languages(self, filters: Filters) -> list[str]:
        return ["en"]

    def nearest(self, vectors: np.ndarray, k: int, filters: Filters) -> Run:
        assert self.inside  # or a hit may be deleted before it is looked up
        queries = [int(vector[0]) for vector in vectors]
        self.searches.append((queries, k))
        self.filters.append(filters)
        ids = np.full((len(queries), k), -1, np.int64)
        scores = np.zeros((len(queries), k), np.float32)
        for row, number in enumerate(queries):
            first = sum(map(len, self.lists[:number]))
            for column, hit in enumerate(self.lists[number][:k]):
                ids[row, column], scores[row, column] = first + column, hit.score
        return Run(ids, scores)

    def hits(self, ids: np.ndarray, scores: np.ndarray) -> list[Hit]:
        assert self.inside
        assert (ids >= 0).all()
        return [self.all[i] for i in ids]


def hit(text: str, score: float, context: str = "", document: str = "d", line: int = 1) -> Hit:
    """A hit whose sentence is its wording and a rest."""
    return Hit(Phrase(f"{text}{context}", 0, len(text)), score, document, line, "en")
