"""Basic data types, such as documents, phrases and hits, and the protocols of models.

All offsets are characters (Unicode code points) of the original text, end exclusive.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from os import PathLike
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import InputError
from phrasemate.utils.arrays import Floats

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and of how much (0: not known)."""
_LANGUAGE = re.compile("(?:[A-Za-z]{2,3}|[xi](?=[-_]))(?:[-_][A-Za-z0-9]{1,8})*")  # BCP 47, as far as its form goes


def check_language(code: str) -> None:
    """Raises InputError for what is not a language code such as de, zh-Hant or pt_BR; "" is for an unknown language."""
    if code and not _LANGUAGE.fullmatch(code):
        raise InputError(f"language {code!r}; expected a code such as de or zh-Hant")


def check_list(values: object, items: str) -> None:
    """Raises InputError for one text, path or document where a list of them is meant."""
    if isinstance(values, str | PathLike | Document):
        raise InputError(f"{repr(values)[:40]}: expected a list of {items}; put one alone in brackets: [...]")


def text_tuple(values: Iterable[str], items: str) -> tuple[str, ...]:
    """The texts of an iterable, which is read once. Raises InputError for anything else."""
    check_list(values, items)
    texts = tuple(values) if isinstance(values, Iterable) else None
    if texts is None or not all(isinstance(text, str) for text in texts):
        raise InputError(f"{repr(values)[:40]}: expected a list of {items}, each a text")
    return texts


def check_opened(value: object, opening: str) -> None:
    """Raises InputError for a name or path, or None, where the opened object is meant; ``opening`` says how."""
    if value is None or isinstance(value, str | PathLike):
        raise InputError(f"{value!r}: expected {opening}")


class Span(NamedTuple):
    """Part of a text: ``text[start:end]``. ``score`` is the segmenter's probability that it is a phrase.

    >>> span = Span(17, 21)
    >>> "Er sitzt auf der Bank."[span.start : span.end]
    'Bank'
    """

    start: int
    end: int
    score: float = 1.0


@dataclass(frozen=True, slots=True)
class Sentence:
    """Sentence of a document; ``line`` is the 1-based line of the file that it came from.

    >>> Sentence("It rained.", line=3, metadata={"author": "me"}).line
    3
    """

    text: str
    line: int = 0
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Document:
    """A named text. ``sentences()`` reads it from the start, so nothing is held in memory.

    ``digest`` changes when the content, or the way to read it, changes. ``size`` is in bytes, 0 if unknown, and
    ``consumed()`` is how many of these the latest pass has read.

    >>> [sentence.text for sentence in Document.from_texts("story", ["It rained.", "It snowed."]).sentences()]
    ['It rained.', 'It snowed.']
    """

    name: str
    digest: str
    sentences: Callable[[], Iterator[Sentence]]
    size: int = 0
    consumed: Callable[[], int] = lambda: 0

    @classmethod
    def from_texts(cls, name: str, texts: Iterable[str]) -> Document:
        """A document from sentences that are in memory already.

        Raises InputError for one text where a list of them is meant.
        """
        if not isinstance(name, str):
            raise InputError(f"{name!r}: expected the name of a document, as text")
        sentences = [Sentence(text, line) for line, text in enumerate(text_tuple(texts, "sentences"), 1)]
        digest = sha256(json.dumps([sentence.text for sentence in sentences]).encode()).hexdigest()
        return cls(name, digest, lambda: iter(sentences))


@dataclass(frozen=True, slots=True)
class Phrase:
    """A phrase in its context: ``context[start:end]``.

    Raises InputError if the offsets do not mark at least one character of the context.

    >>> Phrase("Er sitzt auf der Bank.", 17, 21).text
    'Bank'
    """

    context: str
    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.end <= len(self.context):
            raise InputError(
                f"offsets {self.start}:{self.end} mark nothing in a text of {len(self.context)} characters; "
                "expected 0 <= start < end <= length"
            )

    @property
    def text(self) -> str:
        return self.context[self.start : self.end]


@dataclass(frozen=True, slots=True)
class PhrasePair:
    """A phrase and its equivalent in another language.

    >>> pair = PhrasePair(Phrase("Er sitzt auf der Bank.", 17, 21), Phrase("He sits on the bench.", 15, 20))
    >>> pair.source.text, pair.target.text
    ('Bank', 'bench')
    """

    source: Phrase
    target: Phrase
    score: float = 1.0


@dataclass(frozen=True, slots=True)
class Hit:
    """A phrase of the index that a search returned, with its place and its similarity (cosine).

    >>> hit = Hit(Phrase("She sat on the bench.", 15, 20), 0.81, "story.txt", 7)
    >>> hit.text, hit.document, hit.line
    ('bench', 'story.txt', 7)
    """

    phrase: Phrase
    score: float
    document: str
    line: int
    language: str = ""
    phrase_id: int = -1
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return self.phrase.text

    @property
    def context(self) -> str:
        return self.phrase.context

    @property
    def start(self) -> int:
        return self.phrase.start

    @property
    def end(self) -> int:
        return self.phrase.end


@dataclass(frozen=True, slots=True)
class Run:
    """A ranking for each query, best first: what every ranker gives and every measure takes.

    ``ids`` (queries, k) int64, -1 where a query has fewer than k results; ``scores`` (queries, k) float32.

    >>> run = Run(np.array([[4, 7]]), np.array([[0.9, 0.2]], np.float32), "vectors")
    >>> int(run.ids[0, 0])
    4
    """

    ids: NDArray[np.int64]
    scores: Floats
    name: str = ""

    def __post_init__(self) -> None:
        if self.ids.shape != self.scores.shape or self.ids.ndim != 2:
            raise InputError(f"ids {self.ids.shape} and scores {self.scores.shape}; expected one shape (queries, k)")


class Encoder(Protocol):
    """Protocol of an encoder: phrases to vectors.

    >>> from phrasemate import load_model
    >>> encoder: Encoder = load_model()
    >>> encoder.encode([Phrase("Er sitzt auf der Bank.", 17, 21)]).shape == (1, encoder.dim)
    True
    """

    @property
    def dim(self) -> int: ...

    def encode(self, phrases: Sequence[Phrase]) -> Floats:
        """(phrases, dim) float32, unit length."""


class Scorer(Protocol):
    """Pair -> number: what can only re-rank.

    >>> class Lengths:
    ...     def score(self, pairs: Sequence[PhrasePair]) -> Floats:
    ...         return np.array([-abs(len(p.source.text) - len(p.target.text)) for p in pairs], np.float32)
    >>> scorer: Scorer = Lengths()
    """

    def score(self, pairs: Sequence[PhrasePair]) -> Floats:
        """(pairs,) float32."""
