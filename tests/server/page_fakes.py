"""A model of a few words in several languages: words of one meaning have one vector, every other word its own."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from phrasemate.types import Phrase

MEANINGS = ("bank bank", "schweigeminute silence", "hund dog", "abend evening")
MEANS = {word: line.split()[1] for line in MEANINGS for word in line.split()}


class Sure:
    """A calibrated confidence by the best cosine alone: 1 / (1 + exp(6 - 8 cosine))."""

    def of(self, value: object) -> np.ndarray:
        return 1 / (1 + np.exp(6 - 8 * np.asarray(value, np.float64)[:, 0]))


class WordModel:
    """A phrase is a word of four letters or more, or two such neighbours; its vector is the mean of its words'."""

    def __init__(self, name: str = "words", confidence: object = None) -> None:
        self.name, self.dim, self.path = name, 16, None
        self.hash = sha256(name.encode()).hexdigest()
        self.confidence = confidence
        self.calls: list[list[str]] = []

    def extract(self, texts: Sequence[str], frequent: Collection[str] = (), **options: object) -> list[SimpleNamespace]:
        self.calls.append(list(texts))
        return [self._one(text) for text in texts]

    def encode(self, phrases: Sequence[Phrase]) -> np.ndarray:
        return np.stack([self.vector(phrase.text) for phrase in phrases])

    def vector(self, text: str) -> np.ndarray:
        words = [word for word in re.findall(r"\w+", text.lower()) if len(word) > 3 or word in MEANS] or [text]
        total = sum(self._word(MEANS.get(word, word)) for word in words)
        return (total / np.linalg.norm(total)).astype(np.float32)

    def _word(self, word: str) -> np.ndarray:
        seed = int.from_bytes(sha256(word.encode("utf-8", "surrogatepass")).digest()[:8], "little")
        return np.random.default_rng(seed).standard_normal(self.dim)

    def _one(self, text: str) -> SimpleNamespace:
        long = [m.span() for m in re.finditer(r"\w{4,}", text)]
        spans = sorted([*long, *((a[0], b[1]) for a, b in pairwise(long))])
        starts, ends = np.array(spans, np.int32).reshape(-1, 2).T
        scores = np.array([0.9 if re.fullmatch(r"\w+", text[s:e]) else 0.6 for s, e in spans], np.float32)
        vectors = [self.vector(text[s:e]) for s, e in spans]
        return SimpleNamespace(starts=starts, ends=ends, scores=scores, vectors=np.array(vectors).reshape(-1, self.dim))


NEWS = [
    "The old bank was closed.",
    "A dog barked all evening.",
    "They kept a minute of silence.",
    "Nobody trusts the bank.",
]
HOSTILE = [
    "The <script>alert(1)</script> bank.",
    'A "bank" & <img src=x onerror=alert(2)>.',
    "half \ud800 a bank \1 here",
]


def make(folder: Path, sentences: dict[str, list[str]], model: WordModel, lang: str = "en") -> Path:
    """An index of documents in ``folder``."""
    from phrasemate.index import Index
    from phrasemate.types import Document

    with Index.create(folder, model) as index:
        index.add([Document.from_texts(name, texts) for name, texts in sentences.items()], lang=lang)
    return folder
