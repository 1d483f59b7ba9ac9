"""Static vectors of words: the record, its preparation for a mapping, and its folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phrasemate.encode.pooling import unit
from phrasemate.errors import InputError, ModelDamaged
from phrasemate.vectors.folder import REMEDY, read_folder, write_folder

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Projection:
    """From an encoder's states to word vectors: x kernel + bias at unit length; (width, dim) and (dim,) float32."""

    kernel: Floats
    bias: Floats

    def __call__(self, states: Floats) -> Floats:
        """(n, width) -> (n, dim) float32, unit length."""
        return unit(states @ self.kernel + self.bias)


@dataclass(frozen=True, eq=False)
class WordVectors:
    """Words, most frequent first, and their vectors: ``matrix`` (words, dim) float32.

    ``counts`` (words,): how often each occurred, where that is known; ``facts``: how they were made; ``projection``:
    what turned an encoder's states into them, for other languages to share.
    Raises InputError if the shapes differ, a word is empty or occurs twice, or a number is not finite.
    """

    words: Sequence[str]
    matrix: Floats
    language: str = ""
    counts: NDArray[np.int64] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    projection: Projection | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", tuple(self.words))
        object.__setattr__(self, "matrix", np.ascontiguousarray(self.matrix, np.float32))
        if self.matrix.ndim != 2 or len(self.matrix) != len(self.words) or not self.matrix.size:
            raise InputError(
                f"{len(self.words)} words and vectors of shape {self.matrix.shape}; expected (words, dim), not empty"
            )
        if self.counts is not None and self.counts.shape != (len(self.words),):
            raise InputError(f"{len(self.words)} words and counts of shape {self.counts.shape}; expected one a word")
        if len(self.index) < len(self.words) or "" in self.index:
            raise InputError("a word is empty or occurs twice; expected each word once")
        if not np.isfinite(self.matrix).all():
            raise InputError("a vector holds a value that is not finite; expected numbers")

    def __repr__(self) -> str:
        return f"<WordVectors {self.language or '?'} {len(self):,} x {self.dim}>"

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self.index

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return int(self.matrix.shape[1])

    @cached_property
    def index(self) -> dict[str, int]:
        """The row of each word."""
        return {word: row for row, word in enumerate(self.words)}

    def get(self, word: str) -> Floats | None:
        """(dim,) the vector of a word as it is written here; None if there is none."""
        row = self.index.get(word)
        return None if row is None else self.matrix[row]

    def rows(self, words: Iterable[str]) -> NDArray[np.int64]:
        """Rows of the words that have a vector, in their order; the others are passed over."""
        return np.array([self.index[word] for word in words if word in self.index], np.int64)

    def first(self, count: int) -> WordVectors:
        """The most frequent ``count`` of them."""
        counts = None if self.counts is None else self.counts[:count]
        return replace(self, words=self.words[:count], matrix=self.matrix[:count], counts=counts)

    def normalised(self) -> WordVectors:
        """Each vector at unit length (one of zeros stays as it is)."""
        return self.using(unit(self.matrix))

    def centred(self) -> WordVectors:
        """Their mean taken off each."""
        return self.using(self.matrix - self.matrix.mean(0, dtype=np.float64).astype(np.float32))

    def prepared(self) -> WordVectors:
        """Unit length, centred, unit length again: as a mapping wants them (Artetxe et al. 2018, section 3.1)."""
        return self.normalised().centred().normalised()

    def using(self, matrix: Floats, **facts: Any) -> WordVectors:
        """The same words with other vectors, and more facts; the projection no longer belongs to them."""
        own = {name: value for name, value in self.facts.items() if name != "hash"}  # that of the folder they are from
        return replace(self, matrix=matrix, facts={**own, **facts}, projection=None)

    def save(self, folder: str | Path, force: bool = False) -> str:
        """Write a sealed folder; returns its hash. Raises InputError if it is there already, unless ``force``."""
        arrays: dict[str, NDArray[Any]] = {"matrix": self.matrix}
        if self.counts is not None:
            arrays["counts"] = self.counts
        if self.projection is not None:
            arrays |= {"kernel": self.projection.kernel, "bias": self.projection.bias}
        return write_folder(Path(folder), self.words, arrays, {**self.facts, "language": self.language}, force)

    @classmethod
    def load(cls, folder: str | Path) -> WordVectors:
        """Read a folder of `save`, every byte verified.

        Raises ModelError when there is none, ModelDamaged or ModelUnsupported when it cannot be used.
        """
        words, arrays, facts, digest = read_folder(Path(folder))
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise ModelDamaged(f"{folder}: the words are no list of texts; {REMEDY}")
        language = str(facts.pop("language", ""))
        facts["hash"] = digest
        try:
            projection = Projection(arrays["kernel"], arrays["bias"]) if "kernel" in arrays else None
            if projection and (projection.kernel.ndim != 2 or projection.bias.shape != projection.kernel.shape[1:]):
                raise InputError(f"a projection of {projection.kernel.shape} and {projection.bias.shape}")
            return cls(words, arrays["matrix"], language, arrays.get("counts"), facts, projection)
        except (InputError, KeyError) as error:
            raise ModelDamaged(f"{folder}: makes no sense ({error}); {REMEDY}") from error
