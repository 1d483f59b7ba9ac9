"""Words with known meanings, and an encoder that knows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from phrasemate.types import Phrase

MEANINGS = ("dog", "cat", "house", "river", "bridge", "winter")
WORDS = {
    **{word: number for number, word in enumerate(MEANINGS)},
    **{word: number for number, word in enumerate(("Hund", "Katze", "Haus", "Fluss", "Brücke", "Winter"))},
    "Kätzchen": 1,
    "Löffel": 9,
    "cloud": 8,
}
GERMAN = "Der Hund bellte laut im Garten.\nDie Katze sah den Hund an.\nUnser Haus steht an einem breiten Fluss.\n"
ENGLISH = "The dog barked all night.\nA cat sat on the wall.\nWe built a house near the river last year.\n"


def by_examples(
    model: Any, phrases: Sequence[str], examples: Sequence[Sequence[Phrase]], *options: Any
) -> tuple[np.ndarray, np.ndarray]:
    """A unit vector for each meaning, turned a little by the word: the closer the fewer letters it has."""
    model.calls.append((list(phrases), [list(example) for example in examples], options[:3]))
    options[-1](len(phrases), len(phrases))
    vectors = np.zeros((len(phrases), 16), np.float32)
    for row, word in enumerate(phrases):
        vectors[row, WORDS[word]] = 1
        vectors[row, 10 + len(word) % 6] = 0.1 * len(word)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors, np.array([len(result) for result in examples])
