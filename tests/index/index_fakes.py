"""A model without a model: a phrase's vector is drawn from the hash of its words, so equal words are equal vectors."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from time import sleep

import numpy as np

from phrasemate.index import IndexSettings
from phrasemate.types import Phrase

# an index that turns to FAISS from 300 phrases on
SMALL = IndexSettings(
    chunk=32, learn=100, exact_below=300, forced_rebuild=1200, exact_filtered=400, train=1000, block=500
)


@dataclass
class Found:
    starts: np.ndarray
    ends: np.ndarray
    scores: np.ndarray
    vectors: np.ndarray


def vector_of(text: str, dim: int) -> np.ndarray:
    seed = int.from_bytes(sha256(text.lower().encode("utf-8", "surrogatepass")).digest()[:8], "little")
    drawn = np.random.default_rng(seed).standard_normal(dim).astype(np.float32)
    return drawn / np.linalg.norm(drawn)


class FakeModel:
    """Phrases are single words and pairs of neighbours, none of them with a frequent word at an end."""

    def __init__(self, dim: int = 16, name: str = "fake", delay: float = 0.0) -> None:
        self.dim, self.name, self.delay = dim, name, delay
        self.hash = sha256(f"{name} {dim}".encode()).hexdigest()
        self.path: Path | None = None
        self.calls: list[list[str]] = []

    def extract(self, texts: Sequence[str], frequent: Collection[str] = frozenset(), **options: object) -> list[Found]:
        self.calls.append(list(texts))
        sleep(self.delay)
        return [self._one(text, frequent) for text in texts]

    def encode(self, phrases: Sequence[Phrase]) -> np.ndarray:
        return np.stack([vector_of(phrase.text, self.dim) for phrase in phrases])

    def _one(self, text: str, frequent: Collection[str]) -> Found:
        words = [match.span() for match in re.finditer(r"\w+", text)]
        spans = words + [(a[0], b[1]) for a, b in pairwise(words)]
        spans = [
            (s, e)
            for s, e in spans
            if not {text[s:e].split()[0].lower(), text[s:e].split()[-1].lower()} & set(frequent)
        ]
        starts, ends = np.array(spans, np.int32).reshape(-1, 2).T
        vectors = [vector_of(text[s:e], self.dim) for s, e in spans]
        scores = np.linspace(1, 0.5, len(spans), dtype=np.float32)
        return Found(starts, ends, scores, np.array(vectors, np.float32).reshape(-1, self.dim))


def sentences(count: int, seed: int = 0, words: int = 400) -> list[str]:
    """Made-up sentences of 2 to 7 words, now and then without any word at all."""
    drawn = np.random.default_rng(seed)
    lengths = drawn.integers(2, 8, count)
    return [" ".join(f"w{x}" for x in drawn.zipf(1.3, n) % words) + "." if n != 2 else "…" for n in lengths]
