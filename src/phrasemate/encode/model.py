"""The model: phrases, sentences and segments from one encoder."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file

from phrasemate.encode.folder import HEADS, bundled_folder, check_folder
from phrasemate.encode.pool import POOLINGS, Head, pool_cls, pool_ends, pool_mean, token_rows, unit
from phrasemate.encode.runtime import Runtime, States
from phrasemate.encode.segment import NgramSegmenter, Segmenter
from phrasemate.errors import InputError, ModelDamaged
from phrasemate.types import Phrase, Span

__all__ = ["POOLINGS", "Extracted", "Model", "load_model"]

Floats = NDArray[np.float32]


class Extracted(NamedTuple):
    """A text's phrases: ``starts``, ``ends`` (n,) int32, ``scores`` (n,) float32, ``vectors`` (n, dim) float32."""

    starts: NDArray[np.int32]
    ends: NDArray[np.int32]
    scores: Floats
    vectors: Floats


def load_model(path: str | Path | None = None, threads: int | None = None) -> Model:
    """Load a model folder; the bundled one when no path is given.

    ``threads``: how many to compute with (default: all that the process may use). Every byte is checked on the way.
    Raises ModelError and its kinds (see `phrasemate.errors`).
    """
    return Model(bundled_folder() if path is None else Path(path), threads, bundled=path is None)


class Model:
    """An encoder with what it takes to turn phrases and sentences into vectors; made by `load_model`."""

    def __init__(self, folder: Path, threads: int | None = None, bundled: bool = False) -> None:
        self.config, self.hash = check_folder(folder)
        self.folder, self.path = folder, None if bundled else folder.resolve()
        self.name = str(self.config["name"])
        self.width = int(self.config["width"])
        self.head = _load_head(folder / HEADS, self.width)
        self.pooling = "head" if self.head else str(self.config["pooling"])
        self.runtime = Runtime(folder, self.config, threads)

    def __repr__(self) -> str:
        return f"<Model {self.name} {self.hash[:12]} pooling={self.pooling} dim={self.dim}>"

    @property
    def dim(self) -> int:
        """Length of a phrase vector."""
        return self._dim(self.pooling)

    def encode(self, phrases: Sequence[Phrase], pooling: str | None = None, layer: int | None = None) -> Floats:
        """Vectors of phrases in their contexts: (phrases, dim) float32, unit length.

        ``pooling``: `head` (the model's projection), `ends`, `mean` or `cls` (the whole context's opening token);
        default: the model's own. ``layer``: default the last. A context that occurs more than once is encoded once.
        Raises InputError for a pooling or layer that the model lacks.
        """
        pooling = self._pooling(pooling)
        contexts = list(dict.fromkeys(phrase.context for phrase in phrases))
        users: dict[str, list[int]] = {context: [] for context in contexts}
        for number, phrase in enumerate(phrases):
            users[phrase.context].append(number)
        vectors = np.zeros((len(phrases), self._dim(pooling)), np.float32)
        for part, states in self.runtime.blocks(contexts, layer):
            owners = [users[context] for context in contexts[part]]
            starts = [np.array([phrases[i].start for i in group], np.int32) for group in owners]
            ends = [np.array([phrases[i].end for i in group], np.int32) for group in owners]
            vectors[np.concatenate(owners)] = self._pool(states, starts, ends, pooling)
        return vectors

    def encode_sentences(self, texts: Sequence[str], layer: int | None = None) -> Floats:
        """Vectors of whole sentences: (texts, width) float32, unit length; the mean of all token states."""
        prefix = str(self.config.get("sentence_prefix", ""))
        vectors = np.zeros((len(texts), self.width), np.float32)
        for part, states in self.runtime.blocks([prefix + text for text in texts], layer):
            vectors[part] = unit(pool_mean(states.values, states.bounds[:-1], states.bounds[1:] - 1))
        return vectors

    def segment(self, texts: Sequence[str], frequent: Collection[str] = ()) -> list[list[Span]]:
        """The phrases of each text, by start, then end; ``frequent`` as in `Segmenter`."""
        return [self.segmenter(text, frequent) for text in texts]

    def extract(self, texts: Sequence[str], frequent: Collection[str] = ()) -> list[Extracted]:
        """Segment and encode in one pass: what an index takes in.

        The same texts in the same call give the same bits.
        """
        results: list[Extracted] = []
        for part, states in self.runtime.blocks(texts):
            starts, ends, scores = zip(*self._spans(texts[part], frequent), strict=True)
            vectors = self._pool(states, starts, ends, self.pooling)
            cuts = np.cumsum([len(each) for each in starts])[:-1]
            results += map(Extracted, starts, ends, scores, np.split(vectors, cuts))
        return results

    def token_states(self, texts: Sequence[str], layer: int | None = None) -> Iterator[States]:
        """Token states with character offsets, in blocks of texts (see `States`)."""
        for _, states in self.runtime.blocks(texts, layer):
            yield states

    def ends(self, texts: Sequence[str]) -> Iterator[Floats]:
        """(phrases, 2 x width) states of the ends of the segmented phrases, block by block, to learn a projection."""
        for part, states in self.runtime.blocks(texts):
            pairs = [token_rows(states, text, *spans[:2]) for text, spans in enumerate(self._spans(texts[part]))]
            yield pool_ends(states.values, *(np.concatenate(rows) for rows in zip(*pairs, strict=True)))

    @cached_property
    def segmenter(self) -> Segmenter:
        """The model's segmenter."""
        return NgramSegmenter(self.config.get("common_words", ()))

    def _spans(
        self, texts: Sequence[str], frequent: Collection[str] = ()
    ) -> list[tuple[NDArray[np.int32], NDArray[np.int32], Floats]]:
        """Starts, ends and scores of the phrases of each text."""
        tables = [np.array(found, np.float64).reshape(-1, 3).T for found in self.segment(texts, frequent)]
        return [(t[0].astype(np.int32), t[1].astype(np.int32), t[2].astype(np.float32)) for t in tables]

    def _pool(
        self, states: States, starts: Sequence[NDArray[np.int32]], ends: Sequence[NDArray[np.int32]], pooling: str
    ) -> Floats:
        """Unit vectors of the spans of each text of a block, one text after another."""
        if pooling == "cls":
            return unit(np.repeat(pool_cls(states), [len(each) for each in starts], axis=0))
        pairs = [token_rows(states, text, *span) for text, span in enumerate(zip(starts, ends, strict=True))]
        first = np.concatenate([pair[0] for pair in pairs])
        last = np.concatenate([pair[1] for pair in pairs])
        pool = {"ends": pool_ends, "mean": pool_mean, "head": self.head}[pooling]
        assert pool is not None
        return unit(pool(states.values, first, last))

    def _pooling(self, pooling: str | None) -> str:
        pooling = pooling or self.pooling
        if pooling not in POOLINGS or (pooling == "head" and self.head is None):
            having = [name for name in POOLINGS if name != "head" or self.head is not None]
            raise InputError(f"pooling {pooling!r}: this model has {', '.join(having)}")
        return pooling

    def _dim(self, pooling: str) -> int:
        if pooling == "head" and self.head is not None:
            return int(self.head.start.shape[1])
        return 2 * self.width if pooling == "ends" else self.width


def _load_head(path: Path, width: int) -> Head | None:
    if not path.exists():
        return None
    try:
        arrays = load_file(path)
        head = Head(arrays["start"], arrays["end"], arrays["bias"])
    except (OSError, KeyError, SafetensorError) as error:
        raise ModelDamaged(f"{path}: not a readable projection ({error}); export the model again") from error
    if not (head.start.shape == head.end.shape == (width, len(head.bias))):
        raise ModelDamaged(f"{path}: shapes {head.start.shape}, {head.end.shape}; expected ({width}, dim) twice")
    return head
