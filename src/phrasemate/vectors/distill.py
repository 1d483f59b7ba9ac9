"""Static word vectors distilled from an encoder: what the states of a word share over several sentences.

A word's vector is the mean, over several sentences, of the mean of its tokens' states. Each sentence's mean has unit
length, so that all count alike. A linear projection makes the vector shorter, and it is scaled to unit length. The
encoder's space is the same for all its languages; with one projection for all, so is that of the words, and no mapping
is needed.

A word without a sentence (a name, a rare inflection, a compound) is encoded by itself. The states of words that stand
alone all differ from those of words in sentences in the same way, so the mean of such words is subtracted. Without
that, a sum of vectors tells first of all how many words were encoded alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from phrasemate.encode import Model
from phrasemate.encode.heads import principal_axes
from phrasemate.encode.pooling import unit
from phrasemate.errors import InputError
from phrasemate.types import Phrase, Progress
from phrasemate.utils.arrays import Floats
from phrasemate.utils.storage import ResumableSum
from phrasemate.vectors.vocabulary import Contexts, count_words, sample_contexts
from phrasemate.vectors.word_vectors import Projection, WordVectors

BATCH = 20_000  # characters of sentences that are encoded at once
_SPACE = ("model", "pooling", "layer")  # facts that vectors of one space share

Batch = list[tuple[str, Contexts]]


@dataclass(frozen=True, slots=True)
class DistilSettings:
    """Words and source of the vectors.

    ``contexts`` is the most sentences of a word. ``least`` of them are chosen for the word itself, the others for other
    words, so that rare words cost little. ``pooling`` and ``layer`` as in `Model.encode`: `mean`, `ends`, or `head`,
    which is the projection that the model was trained with.

    >>> DistilSettings(words=10_000, contexts=4).least
    2
    """

    words: int = 50_000
    contexts: int = 8
    least: int = 2
    pooling: str = "mean"
    layer: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.words < 1 or not 1 <= self.least <= self.contexts or self.seed < 0:
            raise InputError(
                f"{self}: expected numbers from 1, a seed from 0 and no more contexts at least than at most"
            )


def distil(
    model: Model,
    texts: Iterable[str],
    settings: DistilSettings | None = None,
    dim: int = 300,
    space: WordVectors | None = None,
    language: str = "",
    partial: Path | None = None,
    progress: Progress = lambda *_: None,
) -> WordVectors:
    """Make a unit vector for each of the most frequent words of some texts, with the projection that made it.

    Args:
        model: Model that encodes the sentences.
        texts: Sentences, that can be read several times.
        settings: How many words and sentences, and which states.
        dim: Numbers of a vector.
        space: Vectors of an earlier run, of any language, whose projection is used; None learns one from these words.
        language: Language of the texts.
        partial: File for what is done, so that a stopped run resumes there. Delete it when the vectors are saved.
        progress: Called with what is being done, how much of it is done, and of how much.

    Raises InputError for a ``dim`` above the encoder's width or above the number of words, and for a ``space`` of
    another model, pooling or layer. Texts without words, or that can be read only once, raise it too.
    """
    settings = settings or DistilSettings()
    _check_dim(dim if space is None else 1, _width(model, settings.pooling), "the width of what is reduced")
    projection = None if space is None else shared_projection(space, model, settings.pooling, settings.layer)
    states = mean_states(model, texts, settings, language, partial, progress)
    return project(states, projection or learn_projection([states], dim))


def mean_states(
    model: Model,
    texts: Iterable[str],
    settings: DistilSettings,
    language: str = "",
    partial: Path | None = None,
    progress: Progress = lambda *_: None,
) -> WordVectors:
    """Mean states of words, (words, width), before the projection, to learn one projection from several languages.

    Three passes over the texts: count the words, choose the sentences, encode these.
    """
    width = _width(model, settings.pooling)
    vocabulary = count_words(texts, settings.words, progress=progress)
    index = {word: row for row, word in enumerate(vocabulary.words)}
    facts = {**asdict(settings), "words": len(index), "method": "distilled", "model": model.hash}
    facts |= {"sentences": vocabulary.sentences, "text": vocabulary.digest}
    samples = sample_contexts(
        texts, index, settings.contexts, settings.least, settings.seed, vocabulary.sentences, progress
    )
    sums = np.zeros((len(index), width), np.float32)
    with ResumableSum(partial, facts, sums) as partial_sum:
        for number, batch in _batches(texts, samples, partial_sum.done):
            partial_sum.add(number, *_vectors(model, batch, settings))
            progress("encoding", number, vocabulary.sentences)
    sums /= np.bincount(samples.word, minlength=len(index))[:, None]
    return WordVectors(vocabulary.words, sums, language, np.array(vocabulary.counts, np.int64), facts)


def learn_projection(states: Sequence[WordVectors], dim: int = 300) -> Projection:
    """The ``dim`` leading components of mean states, each language having the same weight (`principal_axes`).

    Raises InputError if there are fewer words than ``dim``.
    """
    _check_dim(dim, states[0].dim, "the width of what is reduced")
    _check_dim(dim, sum(map(len, states)), "the number of words")
    mean = np.mean([side.matrix.mean(0, dtype=np.float64) for side in states], axis=0)
    moment = np.mean([side.matrix.T.astype(np.float64) @ side.matrix / len(side) for side in states], axis=0)
    return Projection(*principal_axes(mean, moment, dim))


def project(states: WordVectors, projection: Projection) -> WordVectors:
    """Mean states -> vectors of unit length in the space of a projection."""
    return WordVectors(
        states.words, projection(states.matrix), states.language, states.counts, states.facts, projection
    )


def _batches(texts: Iterable[str], chosen: Contexts, first: int) -> Iterator[tuple[int, Batch]]:
    """The chosen sentences from number ``first`` on, each with its occurrences, and how many of all are done then."""
    starts = np.searchsorted(chosen.sentence, np.arange(first, int(chosen.sentence.max(initial=-1)) + 2))
    batch: Batch = []
    size, number = 0, first
    for number, text in enumerate(islice(texts, first, first + len(starts) - 1), first + 1):
        low, high = starts[number - first - 1], starts[number - first]
        if low < high:
            batch.append((text, Contexts(*(column[low:high] for column in chosen))))
            size += len(text)
        if size >= BATCH:
            yield number, batch
            batch, size = [], 0
    if batch:
        yield number, batch


def _vectors(model: Model, batch: Batch, settings: DistilSettings) -> tuple[NDArray[np.int64], Floats]:
    """The row of each occurrence's word, and its vector."""
    phrases = [
        Phrase(text, start, end)
        for text, places in batch
        for start, end in zip(places.start.tolist(), places.end.tolist(), strict=True)
    ]
    rows = np.concatenate([places.word for _, places in batch])
    return rows, model.encode(phrases, settings.pooling, settings.layer)


def _width(model: Model, pooling: str) -> int:
    """Numbers of a word's vector in its context."""
    widths = {"mean": model.width, "ends": 2 * model.width}
    if model.head is not None:
        widths["head"] = model.head.dim
    if pooling not in widths:
        raise InputError(f"pooling {pooling!r}; expected {', '.join(widths)} for this model")
    return widths[pooling]


def _check_dim(dim: int, most: int, what: str) -> None:
    if not 0 < dim <= most:
        raise InputError(f"dim {dim}; expected 1 to {most:,}, {what}")


def shared_projection(space: WordVectors, model: Model, pooling: str, layer: int | None) -> Projection:
    """Projection of word vectors of the same making; InputError where they are of another one."""
    if space.projection is None:
        raise InputError(
            "the vectors that give the space have no projection; give some that distil made, not mapped ones"
        )
    for key, value in zip(_SPACE, (model.hash, pooling, layer), strict=True):
        if (was := space.facts.get(key)) != value:
            raise InputError(f"the vectors that give the space are of {key} {was}, not {value}; use the same for both")
    return space.projection


SAMPLE = 1_000  # words read alone whose mean is taken off, at least
WORDS_AT_ONCE = 4_096  # words encoded at once


def cover(
    vectors: WordVectors, model: Model, words: Iterable[str], progress: Progress = lambda *_: None
) -> WordVectors:
    """``vectors`` and, after them, one for each of the ``words`` that they lack, as the words are written here::

        v(w) = unit(P(x_w) - mean over u of P(x_u))

    x_w is the mean of the word's token states when it is encoded by itself, P the projection of ``vectors``, and u goes
    over the new words. Where these are fewer than 1,000, it also goes over the first words of ``vectors``, read in the
    same way. Counts of new words are 0.

    Args:
        vectors: Vectors that were distilled from ``model``.
        model: Model that encodes the new words.
        words: Words that must have a vector.
        progress: Called with what is being done, how much of it is done, and of how much.

    Raises InputError for vectors that were not distilled from this ``model``.
    """
    pooling, layer = vectors.facts.get("pooling", "mean"), vectors.facts.get("layer")
    projection = shared_projection(vectors, model, pooling, layer)
    new_words = [word for word in dict.fromkeys(words) if word.strip() and word not in vectors]
    if not new_words:
        return vectors
    alike = vectors.words[: max(0, SAMPLE - len(new_words))]
    states = _alone(model, [*new_words, *alike], projection, pooling, layer, progress)
    matrix = np.concatenate([vectors.matrix, unit(states[: len(new_words)] - states.mean(0, dtype=np.float64))])
    counts = None if vectors.counts is None else np.append(vectors.counts, np.zeros(len(new_words), np.int64))
    facts = {key: value for key, value in vectors.facts.items() if key != "hash"}
    facts["covered"] = int(facts.get("covered", 0)) + len(new_words)
    return WordVectors([*vectors.words, *new_words], matrix, vectors.language, counts, facts, projection)


def _alone(
    model: Model, words: list[str], projection: Projection, pooling: str, layer: int | None, progress: Progress
) -> Floats:
    """(words, dim): the projected states of each word without a sentence."""
    states = np.empty((len(words), projection.bias.size), np.float32)
    for at in range(0, len(words), WORDS_AT_ONCE):
        progress("words without a sentence", at, len(words))
        phrases = [Phrase(word, 0, len(word)) for word in words[at : at + WORDS_AT_ONCE]]
        states[at : at + WORDS_AT_ONCE] = projection(model.encode(phrases, pooling, layer))
    progress("words without a sentence", len(words), len(words))
    return states
