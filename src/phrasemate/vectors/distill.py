"""Distil static word vectors from an encoder: average the vectors of a word in several sentences.

The vector of a word in a sentence is the mean of its tokens' states, scaled to unit length. It is averaged over several
sentences, projected to fewer dimensions, and scaled to unit length. The encoder has one space for all its languages. If
all languages share one projection, so do their word vectors, and no mapping is needed.

A word without a sentence (a name, a rare inflection, a compound) is encoded by itself. States of isolated words differ
from states of words in sentences by a common offset. So the mean of the isolated words is subtracted from each of them.
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
from phrasemate.types import Phrase, Progress, check_fields, check_progress, to_settings, to_whole
from phrasemate.utils.arrays import Floats
from phrasemate.utils.storage import ResumableSum
from phrasemate.vectors.vocabulary import Contexts, count_words, sample_contexts
from phrasemate.vectors.word_vectors import Projection, WordVectors

BATCH = 20_000  # characters of the sentences that are encoded at once
_SPACE = ("model", "pooling", "layer")  # facts that are equal for vectors of one space

Batch = list[tuple[str, Contexts]]


@dataclass(frozen=True, slots=True)
class DistilSettings:
    """Settings of the distillation.

    Args:
        words: Number of most frequent words that get a vector.
        contexts: Maximum number of sentences per word.
        least: Number of sentences that are chosen for a word itself. The others are sentences that were chosen for
            another word, which saves much encoding (`sample_contexts`).
        pooling: Pooling as in `Model.encode`: "mean", "ends", or "head", the projection trained with the model.
        layer: Layer as in `Model.encode`; None for the last.
        seed: Seed of the choice of sentences.

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
        check_fields(self)
        if self.words < 1 or not 1 <= self.least <= self.contexts or self.seed < 0:
            raise InputError(f"{self}: expected numbers of 1 or more, a seed from 0, and least <= contexts")


def distil(
    model: Model,
    texts: Iterable[str],
    settings: DistilSettings | None = None,
    dim: int = 300,
    space: WordVectors | None = None,
    language: str = "",
    partial: str | Path | None = None,
    progress: Progress = lambda *_: None,
) -> WordVectors:
    """Distil a unit vector for each of the most frequent words of a text.

    Args:
        model: Model that encodes the sentences.
        texts: Sentences, as an iterable that can be read several times, such as a list or `Sentences`.
        settings: Settings of the distillation; None for the defaults.
        dim: Dimension of the vectors, if ``space`` is None.
        space: Vectors of an earlier run, in any language, to share their projection; None to learn a projection.
        language: Language of the texts.
        partial: File that keeps intermediate results, so that a stopped run can resume. Delete it once the vectors are
            saved.
        progress: Called with the name of the stage, the amount that is done, and the total (0 if unknown).

    Raises InputError for a ``dim`` above the encoder's width or the number of words, and for a ``space`` of another
    model, pooling or layer. Texts without words, or that can be read only once, raise it too.
    """
    settings = to_settings(settings, DistilSettings)
    _check_dim(dim if space is None else 1, _width(model, settings.pooling), "the width before the projection")
    projection = None if space is None else shared_projection(space, model, settings.pooling, settings.layer)
    states = mean_states(model, texts, settings, language, partial, progress)
    return project(states, projection or learn_projection([states], dim))


def mean_states(
    model: Model,
    texts: Iterable[str],
    settings: DistilSettings,
    language: str = "",
    partial: str | Path | None = None,
    progress: Progress = lambda *_: None,
) -> WordVectors:
    """Compute the mean state of each word, (words, width), without a projection.

    With the mean states of several languages, `learn_projection` learns one projection for all. The texts are read
    three times: to count the words, to choose sentences, and to encode these. The arguments are those of `distil`.
    """
    check_progress(progress)
    width = _width(model, settings.pooling)
    vocabulary = count_words(texts, settings.words, progress=progress)
    index = {word: row for row, word in enumerate(vocabulary.words)}
    facts = {**asdict(settings), "words": len(index), "method": "distilled", "model": model.hash}
    facts |= {"sentences": vocabulary.sentences, "text": vocabulary.digest}
    samples = sample_contexts(
        texts, index, settings.contexts, settings.least, settings.seed, vocabulary.sentences, progress
    )
    sums = np.zeros((len(index), width), np.float32)
    with ResumableSum(None if partial is None else Path(partial), facts, sums) as partial_sum:
        for number, batch in _batches(texts, samples, partial_sum.done):
            partial_sum.add(number, *_vectors(model, batch, settings))
            progress("encoding", number, vocabulary.sentences)
    sums /= np.bincount(samples.word, minlength=len(index))[:, None]
    return WordVectors(vocabulary.words, sums, language, np.array(vocabulary.counts, np.int64), facts)


def learn_projection(states: Sequence[WordVectors], dim: int = 300) -> Projection:
    """Learn a projection onto the ``dim`` leading principal components of mean states (`principal_axes`).

    ``states`` are the results of `mean_states`, one for each language; all languages have the same weight. Raises
    InputError for a ``dim`` above the number of words or the width of the states.
    """
    _check_dim(dim, states[0].dim, "the width before the projection")
    _check_dim(dim, sum(map(len, states)), "the number of words")
    mean = np.mean([side.matrix.mean(0, dtype=np.float64) for side in states], axis=0)
    moment = np.mean([side.matrix.T.astype(np.float64) @ side.matrix / len(side) for side in states], axis=0)
    return Projection(*principal_axes(mean, moment, dim))


def project(states: WordVectors, projection: Projection) -> WordVectors:
    """Project the mean states of words; return vectors of unit length that carry the projection."""
    return WordVectors(
        states.words, projection(states.matrix), states.language, states.counts, states.facts, projection
    )


def _batches(texts: Iterable[str], samples: Contexts, first: int) -> Iterator[tuple[int, Batch]]:
    """Yield batches of sampled sentences with their occurrences, from sentence number ``first`` on.

    Each batch comes after the number of sentences of the text that have been read with it.
    """
    starts = np.searchsorted(samples.sentence, np.arange(first, int(samples.sentence.max(initial=-1)) + 2))
    batch: Batch = []
    size, number = 0, first
    for number, text in enumerate(islice(texts, first, first + len(starts) - 1), first + 1):
        low, high = starts[number - first - 1], starts[number - first]
        if low < high:
            batch.append((text, Contexts(*(column[low:high] for column in samples))))
            size += len(text)
        if size >= BATCH:
            yield number, batch
            batch, size = [], 0
    if batch:
        yield number, batch


def _vectors(model: Model, batch: Batch, settings: DistilSettings) -> tuple[NDArray[np.int64], Floats]:
    """Encode the occurrences of a batch: return the rows of their words (n,) and their vectors (n, width)."""
    phrases = [
        Phrase(text, start, end)
        for text, places in batch
        for start, end in zip(places.start.tolist(), places.end.tolist(), strict=True)
    ]
    rows = np.concatenate([places.word for _, places in batch])
    return rows, model.encode(phrases, settings.pooling, settings.layer)


def _width(model: Model, pooling: str) -> int:
    """Return the dimension of the vector of a word in a sentence. Raises InputError for an unknown pooling."""
    widths = {"mean": model.width, "ends": 2 * model.width}
    if model.head is not None:
        widths["head"] = model.head.dim
    if pooling not in widths:
        raise InputError(f"pooling {pooling!r}; expected {', '.join(widths)} for this model")
    return widths[pooling]


def _check_dim(dim: int, limit: int, limit_name: str) -> None:
    """Raise InputError unless ``dim`` is from 1 to a limit, which the message names."""
    if to_whole("dim", dim) > limit:
        raise InputError(f"dim {dim}; expected 1 to {limit:,}, {limit_name}")


def shared_projection(space: WordVectors, model: Model, pooling: str, layer: int | None) -> Projection:
    """Return the projection of word vectors that were distilled with this model, pooling and layer.

    Raises InputError if they have no projection, or were distilled with others.
    """
    if space.projection is None:
        raise InputError(
            "the vectors that give the space have no projection; give vectors from distil, not mapped ones"
        )
    for key, value in zip(_SPACE, (model.hash, pooling, layer), strict=True):
        if (space_value := space.facts.get(key)) != value:
            raise InputError(
                f"the vectors that give the space are of {key} {space_value}, not {value}; use the same for both"
            )
    return space.projection


SAMPLE = 1_000  # minimum number of isolated words for the mean that is subtracted
WORDS_AT_ONCE = 4_096  # isolated words that are encoded at once


def cover(
    vectors: WordVectors, model: Model, words: Iterable[str], progress: Progress = lambda *_: None
) -> WordVectors:
    """Return ``vectors`` extended by a vector for each of ``words`` that they lack::

        v(w) = unit(P(x_w) - mean over u of P(x_u))

    x_w is the state of the word when it is encoded by itself, without a sentence. P is the projection of ``vectors``,
    and u runs over all new words. If there are fewer than 1,000, u also runs over the most frequent words of
    ``vectors``. The new words come last, spelled as in ``words``, with a count of 0.

    Args:
        vectors: Vectors that were distilled from ``model``.
        model: Model that encodes the new words.
        words: Words that need a vector.
        progress: Called with the name of the stage, the number of words that are done, and the total.

    Raises InputError for vectors that were not distilled from this ``model``.
    """
    check_progress(progress)
    pooling, layer = vectors.facts.get("pooling", "mean"), vectors.facts.get("layer")
    projection = shared_projection(vectors, model, pooling, layer)
    new_words = [word for word in dict.fromkeys(words) if word.strip() and word not in vectors]
    if not new_words:
        return vectors
    reference_words = vectors.words[: max(0, SAMPLE - len(new_words))]
    states = _isolated_states(model, [*new_words, *reference_words], projection, pooling, layer, progress)
    matrix = np.concatenate([vectors.matrix, unit(states[: len(new_words)] - states.mean(0, dtype=np.float64))])
    counts = None if vectors.counts is None else np.append(vectors.counts, np.zeros(len(new_words), np.int64))
    facts = {key: value for key, value in vectors.facts.items() if key != "hash"}
    facts["covered"] = int(facts.get("covered", 0)) + len(new_words)
    return WordVectors([*vectors.words, *new_words], matrix, vectors.language, counts, facts, projection)


def _isolated_states(
    model: Model, words: list[str], projection: Projection, pooling: str, layer: int | None, progress: Progress
) -> Floats:
    """Encode each word by itself, without a sentence, and return the projected states (words, dim)."""
    states = np.empty((len(words), projection.bias.size), np.float32)
    for at in range(0, len(words), WORDS_AT_ONCE):
        progress("words without a sentence", at, len(words))
        phrases = [Phrase(word, 0, len(word)) for word in words[at : at + WORDS_AT_ONCE]]
        states[at : at + WORDS_AT_ONCE] = projection(model.encode(phrases, pooling, layer))
    progress("words without a sentence", len(words), len(words))
    return states
