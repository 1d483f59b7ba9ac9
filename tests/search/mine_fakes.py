"""An encoder that knows what sentences mean: the number in them. And collections with planted mates."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

import numpy as np

from phrasemate.types import Document

WIDTH = 32


class NumberEncoder:
    """The vector of a sentence is that of its number, and a little of its own wording."""

    width = WIDTH

    def __init__(self, hash: str = "a" * 64, stop_after: int = -1) -> None:
        self.hash, self.stop_after = hash, stop_after
        self.encoded: list[str] = []

    def encode_sentences(self, texts: Sequence[str]) -> np.ndarray:
        if self.stop_after == 0:
            raise KeyboardInterrupt
        self.stop_after -= 1
        self.encoded += texts
        vectors = np.stack(
            [noise(matches[0] if (matches := re.findall(r"\d+", t)) else t) + noise(t) / 5 for t in texts]
        )
        return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def noise(text: str) -> np.ndarray:
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    return np.random.default_rng(seed).standard_normal(WIDTH)


def german(number: int) -> str:
    return f"Dies ist der Satz Nummer {number}, auf Deutsch."


def english(number: int) -> str:
    return f"Sentence {number} is written in English."


def document(name: str, texts: Sequence[str]) -> list[Document]:
    return [Document.from_texts(name, texts)]
