"""Tokenize phrases in their example sentences, and sample the input of a training step of XPR.

A long sentence is cut to a window around its phrase, as in the paper's code, which cuts at 80 tokens.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasemate.dataset.wikixpr import ExamplePair, read_dataset
from phrasemate.encode.pooling import token_rows
from phrasemate.encode.runtime import States
from phrasemate.errors import InputError
from phrasemate.training.hf_encoder import Batch, Tokenizer
from phrasemate.types import Phrase
from phrasemate.utils.arrays import Integers

BLOCK = 4_096  # sentences that are tokenized at once


class Contexts(NamedTuple):
    """Tokenized contexts (example sentences) of the n phrase pairs of one file.

    Phrases 0 to n - 1 are the sources, phrases n to 2n - 1 the targets.

    Args:
        name: Name of the file, for messages.
        ids: Token ids; context c has ``ids[bounds[c]:bounds[c + 1]]``.
        bounds: First token of each context, and the total, (contexts + 1,).
        owned: First context of each phrase, and the total, (2n + 1,); each phrase has one or more.
        first: First token of the phrase in each context, counted within the context, (contexts,).
        last: Last token of the phrase, included, (contexts,).
        wordings: Hash of each phrase, (2n,) int64, equal for phrases that differ in case only.
        bare: Number of phrases without an example sentence.
    """

    name: str
    ids: NDArray[np.int32]
    bounds: Integers
    owned: Integers
    first: Integers
    last: Integers
    wordings: Integers
    bare: int

    @property
    def pairs(self) -> int:
        """Return the number of phrase pairs."""
        return len(self.wordings) // 2


def read_contexts(
    folder: Path, pair: str, split: str, tokenizer: Tokenizer, most: int, limit: int = 0, bare: bool = False
) -> Contexts:
    """Read and tokenize one split of a data set (see `phrasemate.dataset.wikixpr`).

    ``limit`` is the maximum number of pairs (0: all); the other arguments are those of `contexts_of`. Raises the errors
    of `read_dataset`, and InputError for an empty file.
    """
    pairs = read_dataset(folder, pair, split)[: limit or None]
    if not pairs:
        raise InputError(f"{folder / pair / split}.jsonl: holds no phrase pair; expected one per line")
    return contexts_of(f"{pair} {split}", pairs, tokenizer, most, bare)


def contexts_of(
    name: str, pairs: Sequence[ExamplePair], tokenizer: Tokenizer, most: int, bare: bool = False
) -> Contexts:
    """Tokenize the first ``most`` example sentences of each phrase (0: all).

    A phrase without an example sentence is its own context; with ``bare``, every phrase is. Raises InputError for a
    blank phrase.
    """
    phrases: list[Phrase] = []
    row_ends = [0]
    lacking = 0
    for side in ("source", "target"):
        for pair in pairs:
            sentences = () if bare else getattr(pair, f"{side}_examples")[: most or None]
            text = getattr(pair, side).strip()
            if not text:
                raise InputError(f"{name}: {pair.source!r} and {pair.target!r}; expected two phrases, neither blank")
            lacking += not sentences
            phrases += sentences or [Phrase(text, 0, len(text))]
            row_ends.append(len(phrases))
    blocks = [_windows(phrases[at : at + BLOCK], tokenizer) for at in range(0, len(phrases), BLOCK)]
    ids, lengths, first, last = (np.concatenate(column) for column in zip(*blocks, strict=True))
    bounds = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    texts = [pair.source for pair in pairs] + [pair.target for pair in pairs]
    wordings = np.array([_hash(text) for text in texts], np.int64)
    return Contexts(name, ids, bounds, np.array(row_ends, np.int64), first, last, wordings, lacking)


def _hash(text: str) -> int:
    """Return a hash of the case-folded text, as a signed integer of 64 bits."""
    digest = blake2b(text.casefold().encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def _windows(phrases: Sequence[Phrase], tokenizer: Tokenizer) -> tuple[NDArray[np.int32], Integers, Integers, Integers]:
    """Tokenize contexts, and cut each to a window of at most ``tokenizer.max_tokens`` around its phrase.

    Returns the token ids of all contexts, the length of each, and the first and last token of its phrase.
    """
    whole = tokenizer.uncut([phrase.context for phrase in phrases])
    before, after = whole.edges
    opening, closing = whole.bounds[:-1], whole.bounds[1:] - after  # (contexts,) rows of the first special tokens
    inner = opening + before
    first, last = _phrase_rows(whole, phrases)
    first = np.minimum(first, np.maximum(closing - 1, opening))  # a special token only if there is no other token
    last = np.maximum(np.minimum(last, closing - 1), first)
    most = tokenizer.max_tokens - before - after
    room = np.maximum(most - (last + 1 - first), 0)
    left = np.minimum(first - inner, np.maximum(room - (closing - last - 1), (room + 1) // 2))
    start = first - left
    stop = np.minimum(np.minimum(closing, start + most), last + 1 + room - left)
    edges = np.bincount(start, minlength=len(whole.ids) + 1) - np.bincount(stop, minlength=len(whole.ids) + 1)
    inside = np.cumsum(edges[:-1]) > 0
    for row in (*(opening + at for at in range(before)), *(closing + at for at in range(after))):
        inside[row] = True
    last = np.minimum(last, np.maximum(stop - 1, first))
    shift = before - start
    return whole.ids[inside].astype(np.int32), stop + shift + after, first + shift, last + shift


def _phrase_rows(whole: Batch, phrases: Sequence[Phrase]) -> tuple[Integers, Integers]:
    """Return the first and last token of each phrase, found as in the encoder's runtime."""
    starts, ends = whole.starts.astype(np.int32), whole.ends.astype(np.int32)
    for at in range(1, whole.edges[1] + 1):
        starts[whole.bounds[1:] - at] = ends[whole.bounds[1:] - at] = [len(phrase.context) for phrase in phrases]
    states = States(np.zeros((0, 0), np.float32), whole.bounds, starts, ends)
    spans = np.array([(phrase.start, phrase.end) for phrase in phrases], np.int32)
    return token_rows(states, np.arange(len(phrases)), spans[:, 0], spans[:, 1])


class ContextBatch(NamedTuple):
    """Contexts of the N phrase pairs of a training step.

    Phrases 0 to N - 1 are the sources, phrases N to 2N - 1 the targets.

    Args:
        ids: Token ids; context i has ``ids[bounds[i]:bounds[i + 1]]``.
        bounds: First token of each context, and the total, (contexts + 1,).
        first: First token of the phrase in each context, counted within the context, (contexts,).
        last: Last token of the phrase, included, (contexts,).
        owner: Phrase of each context, (contexts,).
        wordings: Hash of each phrase, as in `Contexts`, (2N,).
        file: Number of the file of each context, (contexts,).
        number: Number of each context in its file, (contexts,).
    """

    ids: Integers
    bounds: Integers
    first: Integers
    last: Integers
    owner: Integers
    wordings: Integers
    file: Integers
    number: Integers


def sampled(
    files: Sequence[Contexts], rows: Sequence[Sequence[int]], count: int, draw: random.Random | None
) -> ContextBatch:
    """Collect the contexts of a step for the pairs ``rows``, given as (file, pair).

    Up to ``count`` contexts of each phrase are drawn without replacement. If ``draw`` is None, they are its first
    ``count`` contexts (0: all).
    """
    samples: list[tuple[int, int, int]] = []  # file, context, phrase
    wordings = []
    for side in (0, 1):
        for place, (file, row) in enumerate(rows):
            contexts = files[file]
            phrase = row + side * contexts.pairs
            low, high = int(contexts.owned[phrase]), int(contexts.owned[phrase + 1])
            numbers = range(low, high) if draw is None else draw.sample(range(low, high), min(count, high - low))
            samples += [(file, number, place + side * len(rows)) for number in numbers[: count or None]]
            wordings.append(contexts.wordings[phrase])
    file_, number, owner = np.array(samples, np.int64).T
    pieces = [files[f].ids[slice(*files[f].bounds[n : n + 2])] for f, n, _ in samples]
    bounds = np.concatenate([[0], np.cumsum([len(piece) for piece in pieces])]).astype(np.int64)
    first, last = (np.array([getattr(files[f], end)[n] for f, n, _ in samples], np.int64) for end in ("first", "last"))
    return ContextBatch(
        np.concatenate(pieces).astype(np.int64), bounds, first, last, owner, np.array(wordings, np.int64), file_, number
    )
