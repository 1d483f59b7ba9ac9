"""Vectors for words that have none: names, rare inflections, compounds; read by the encoder without a sentence.

What sub-words are to fastText the encoder's tokens are here, so no word needs to stay without a vector. But the states
of a word that stands alone are unlike those of words in sentences, all in the same way: that is the mean of such words,
and it is taken off. Without that, sums of vectors tell first of all how many of a sentence's words were read alone.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from phrasemate.encode import Model
from phrasemate.encode.pooling import unit
from phrasemate.types import Phrase
from phrasemate.vectors.distill import shared_projection
from phrasemate.vectors.vocabulary import Progress
from phrasemate.vectors.word_vectors import Projection, WordVectors

SAMPLE = 1_000  # words read alone whose mean is taken off, at least
BATCH = 4_096  # words encoded at once

Floats = NDArray[np.float32]


def cover(
    vectors: WordVectors, model: Model, words: Iterable[str], progress: Progress = lambda *_: None
) -> WordVectors:
    """``vectors`` and, after them, one for each of the ``words`` that they lack, as the words are written here::

        v(w) = unit(P(x_w) - mean over u of P(x_u))

    x_w is the mean of the word's token states when it is encoded by itself, P the projection of ``vectors``, and u goes
    over the new words; where these are fewer than 1,000, over the first words of ``vectors`` too, read in the same way.
    Counts of new words are 0. Raises InputError for vectors that were not distilled from this ``model``.
    """
    pooling, layer = vectors.facts.get("pooling", "mean"), vectors.facts.get("layer")
    projection = shared_projection(vectors, model, pooling, layer)
    added = [word for word in dict.fromkeys(words) if word.strip() and word not in vectors]
    if not added:
        return vectors
    alike = vectors.words[: max(0, SAMPLE - len(added))]
    found = _alone(model, [*added, *alike], projection, pooling, layer, progress)
    matrix = np.concatenate([vectors.matrix, unit(found[: len(added)] - found.mean(0, dtype=np.float64))])
    counts = None if vectors.counts is None else np.append(vectors.counts, np.zeros(len(added), np.int64))
    facts = {key: value for key, value in vectors.facts.items() if key != "hash"}
    facts["covered"] = int(facts.get("covered", 0)) + len(added)
    return WordVectors([*vectors.words, *added], matrix, vectors.language, counts, facts, projection)


def _alone(
    model: Model, words: list[str], projection: Projection, pooling: str, layer: int | None, progress: Progress
) -> Floats:
    """(words, dim): the projected states of each word without a sentence."""
    found = np.empty((len(words), projection.bias.size), np.float32)
    for at in range(0, len(words), BATCH):
        progress("words without a sentence", at, len(words))
        some = [Phrase(word, 0, len(word)) for word in words[at : at + BATCH]]
        found[at : at + BATCH] = projection(model.encode(some, pooling, layer))
    progress("words without a sentence", len(words), len(words))
    return found
