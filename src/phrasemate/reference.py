"""Frequencies of words in general language, which tell what is peculiar to a document."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple

from phrasemate.encode import FrequentWords

FLOOR = -19.0  # logarithm of the probability of a word that is unknown: one in 180 million


class Reference(NamedTuple):
    """Natural logarithms of the probabilities of folded words; ``weight``: how much they count (bench/law_terms.py)."""

    log_probability: Callable[[str], float]
    weight: float


def reference_of_text(sentences: Iterable[str]) -> Reference:
    """The frequencies in a text; a word that it lacks counts as half an occurrence."""
    counted = FrequentWords()
    for sentence in sentences:
        counted.update(sentence)
    total = counted.counts.total() + 1
    return Reference(lambda word: math.log((counted.counts[word] or 0.5) / total), 0.34)


def tokenizer_reference(tokenizer: Any) -> Reference:
    """The scores of a Unigram tokenizer, a language model of single words; of a word of several pieces their sum."""
    scores = _scores(tokenizer)

    def log_probability(word: str) -> float:
        ids = tokenizer.encode(word.encode("utf-8", "replace").decode(), add_special_tokens=False).ids
        return max(FLOOR, sum(scores[number] for number in ids)) if ids else FLOOR

    return Reference(log_probability, 0.1)


@lru_cache(2)
def _scores(tokenizer: Any) -> list[float]:
    """The score of each piece; zeros for a tokenizer without scores."""
    vocabulary = json.loads(tokenizer.to_str())["model"]["vocab"]
    if isinstance(vocabulary, dict):
        return [0.0] * len(vocabulary)
    return [float(score) for _, score in vocabulary]
