"""Static vectors of words from an encoder: what the states of a word have in common over several sentences.

A word's vector is the mean, over several sentences, of the mean of its tokens' states (at unit length, so that each
sentence counts alike), reduced to fewer numbers by a linear projection and scaled to unit length. The encoder's space
is the same for all its languages; with one projection for all so is that of the words, and no mapping is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from phrasemate.encode import Model
from phrasemate.encode.pca_projection import principal_axes
from phrasemate.errors import InputError
from phrasemate.types import Phrase
from phrasemate.utils.storage import ResumableSum
from phrasemate.vectors.sample_sentences import Contexts, sample_contexts
from phrasemate.vectors.vocabulary import Progress, count_words
from phrasemate.vectors.word_vectors import Projection, WordVectors

BATCH = 20_000  # characters of sentences that are encoded at once
_SPACE = ("model", "pooling", "layer")  # facts that vectors of one space share

Floats = NDArray[np.float32]
Batch = list[tuple[str, Contexts]]


@dataclass(frozen=True, slots=True)
class DistilSettings:
    """Which words, and from what.

    ``contexts`` is the most sentences of a word; ``least`` of them are encoded for its sake, the others are there for
    other words, so that rare words cost little. ``pooling`` and ``layer`` as in `Model.encode`: `mean`, `ends`, or
    `head`, which is the projection that the model was trained with.
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
    """A vector for each of the most frequent words of ``texts``, unit length; the projection comes along.

    ``space``: vectors of an earlier run, of any language, whose projection is used; without it one to ``dim`` numbers
    is learnt from these words. ``partial``: a file for what is done, so that a run that was stopped goes on there; it
    is not needed any more when the vectors are saved.
    Raises InputError for a ``dim`` above the encoder's width or above the number of words, a ``space`` of another
    model, pooling or layer, and texts without words or that can be read only once.
    """
    settings = settings or DistilSettings()
    _check_dim(dim if space is None else 1, _width(model, settings.pooling), "the width of what is reduced")
    known = None if space is None else shared_projection(space, model, settings.pooling, settings.layer)
    states = mean_states(model, texts, settings, language, partial, progress)
    return project(states, known or learn_projection([states], dim))


def mean_states(
    model: Model,
    texts: Iterable[str],
    settings: DistilSettings,
    language: str = "",
    partial: Path | None = None,
    progress: Progress = lambda *_: None,
) -> WordVectors:
    """The same before the projection: (words, width) mean states, to learn one projection from several languages.

    Three passes over the texts: count the words, choose the sentences, encode these.
    """
    width = _width(model, settings.pooling)
    vocabulary = count_words(texts, settings.words, progress=progress)
    index = {word: row for row, word in enumerate(vocabulary.words)}
    facts = {**asdict(settings), "words": len(index), "method": "distilled", "model": model.hash}
    facts |= {"sentences": vocabulary.sentences, "text": vocabulary.digest}
    chosen = sample_contexts(
        texts, index, settings.contexts, settings.least, settings.seed, vocabulary.sentences, progress
    )
    sums = np.zeros((len(index), width), np.float32)
    with ResumableSum(partial, facts, sums) as unfinished:
        for done, batch in _batches(texts, chosen, unfinished.done):
            unfinished.add(done, *_vectors(model, batch, settings))
            progress("encoding", done, vocabulary.sentences)
    sums /= np.bincount(chosen.word, minlength=len(index))[:, None]
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
    size, done = 0, first
    for done, text in enumerate(islice(texts, first, first + len(starts) - 1), first + 1):
        low, high = starts[done - first - 1], starts[done - first]
        if low < high:
            batch.append((text, Contexts(*(column[low:high] for column in chosen))))
            size += len(text)
        if size >= BATCH:
            yield done, batch
            batch, size = [], 0
    if batch:
        yield done, batch


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
    """That of word vectors of the same making; InputError where they are of another one."""
    if space.projection is None:
        raise InputError(
            "the vectors that give the space have no projection; give some that distil made, not mapped ones"
        )
    for key, now in zip(_SPACE, (model.hash, pooling, layer), strict=True):
        if (was := space.facts.get(key)) != now:
            raise InputError(f"the vectors that give the space are of {key} {was}, not {now}; use the same for both")
    return space.projection
