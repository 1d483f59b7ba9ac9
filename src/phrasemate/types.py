"""Basic data types, such as documents, phrases and hits, and the protocols of models.

All offsets are characters (Unicode code points) of the original text, end exclusive.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from numbers import Integral, Real
from os import PathLike
from types import NoneType, UnionType
from typing import Any, NamedTuple, Protocol, TypeVar, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import InputError
from phrasemate.utils.arrays import Floats

Progress = Callable[[str, int, int], None]
"""Called with the name of the current step, the number of items done, and their total (0: unknown)."""
_LANGUAGE = re.compile("(?:[A-Za-z]{2,3}|[xi](?=[-_]))(?:[-_][A-Za-z0-9]{1,8})*")  # the form of BCP 47


def check_language(code: object) -> None:
    """Raise InputError unless a language code has a valid form, such as de, zh-Hant or pt_BR; "" means unknown."""
    if not isinstance(code, str):
        raise InputError(f'language {code!r}; expected a code such as de or zh-Hant, as text, or "" for unknown')
    if code and not _LANGUAGE.fullmatch(code):
        raise InputError(f"language {code!r}; expected a code such as de or zh-Hant")


def check_list(values: object, items: str) -> None:
    """Raise InputError for one text, path, document or phrase, or None, instead of a list of ``items``."""
    if isinstance(values, str | PathLike | Document | Phrase):
        raise InputError(f"{repr(values)[:40]}: expected a list of {items}; put one alone in brackets: [...]")
    if not isinstance(values, Iterable):
        raise InputError(f"{repr(values)[:40]}: expected a list of {items}")


def text_tuple(values: Iterable[str], items: str) -> tuple[str, ...]:
    """Convert an iterable of texts to a tuple. Raises InputError unless all items are texts; ``items`` names them."""
    check_list(values, items)
    texts = tuple(values)
    if not all(isinstance(text, str) for text in texts):
        raise InputError(f"{repr(values)[:40]}: expected a list of {items}, each a text")
    return texts


def check_text(value: object, expected: str = "a text") -> None:
    """Raise InputError for anything but a text; ``expected`` says what the text is."""
    if not isinstance(value, str):
        raise InputError(f"{repr(value)[:40]}: expected {expected}")


def check_path(value: object) -> None:
    """Raise InputError for anything but a path, as a text or an object such as Path."""
    if not isinstance(value, str | PathLike):
        raise InputError(f"{repr(value)[:40]}: expected a path")


def check_opened(value: object, opening: str) -> None:
    """Raise InputError for a name, path or None instead of an open object; ``opening`` says what is expected."""
    if value is None or isinstance(value, str | PathLike):
        raise InputError(f"{value!r}: expected {opening}")


def check_progress(progress: object) -> None:
    """Raise InputError for anything but a function, or another object that can be called."""
    if not callable(progress):
        raise InputError(f"progress={repr(progress)[:40]}; expected a function that is called with the progress")


def to_whole(name: str, value: object, least: int = 1) -> int:
    """Convert a whole number of any type, such as NumPy's, to an int.

    Raises InputError, with the ``name`` of the value, for anything else, such as True and 2.0, and for a number below
    ``least``.
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise InputError(f"{name}: {repr(value)[:40]}; expected {least} or more, a whole number")
    return int(value)


def thread_count(threads: int | None) -> int | None:
    """Convert a number of threads to an int; None, which stands for one per processor, is kept.

    Raises InputError as `to_whole` does.
    """
    return None if threads is None else to_whole("threads", threads)


def to_column(column: object) -> str | int | None:
    """Convert the column of a table: a name, a number from 1 of any type, or None.

    Raises InputError for anything else, such as 0 and "".
    """
    if column is None or (isinstance(column, str) and column):
        return column
    if isinstance(column, bool) or not isinstance(column, Integral) or column < 1:
        raise InputError(f"column={repr(column)[:40]}; expected a name, or a number from 1")
    return int(column)


def check_columns(columns: object) -> None:
    """Raise InputError unless the columns of a table are two different numbers from 1."""
    numbers = columns if isinstance(columns, Sequence) else [columns]
    is_pair = len(numbers) == 2 and all(isinstance(number, Integral) for number in numbers)
    if not is_pair or numbers[0] == numbers[1] or min(numbers) < 1:
        text = ",".join(map(str, numbers))[:40]
        raise InputError(f"columns {text}; expected two different numbers from 1, such as 1,2")


def check_language_pair(languages: object) -> None:
    """Raise InputError unless languages are two codes, each of a valid form or "" for unknown."""
    if isinstance(languages, str) or not isinstance(languages, Sequence) or len(languages) != 2:
        raise InputError(f"languages {repr(languages)[:40]}; expected two codes, such as ('de', 'en')")
    for code in languages:
        check_language(code)


_KINDS: dict[type, tuple[type | tuple[type, ...], str]] = {  # type of a value -> types to convert, their name
    bool: ((bool, np.bool_), "True or False"),
    int: (Integral, "a whole number"),
    float: (Real, "a number"),
    str: (str, "a text"),
}


def to_plain(name: str, value: object, kind: type) -> Any:
    """Convert a value to a bool, int, float or str, which is its expected ``kind``; an int may stand for a float.

    NumPy's numbers become Python's, since JSON and SQLite cannot hold the former. Raises InputError, with the ``name``
    of the value, for another type and for NaN.
    """
    types, expected = _KINDS[kind]
    if not isinstance(value, types) or (isinstance(value, bool) and kind is not bool) or value != value:
        raise InputError(f"{name}: {repr(value)[:40]}; expected {expected}")
    return value if isinstance(value, int | float | str) else kind(value)


@cache
def _plain_fields(kind: Hashable) -> dict[str, tuple[type, bool]]:
    """Return the type of each field of a dataclass that `to_plain` converts, and whether the field may be None."""
    fields: dict[str, tuple[type, bool]] = {}
    for name, hint in get_type_hints(kind).items():
        choices = {*get_args(hint)} if isinstance(hint, UnionType) else {hint}
        plain = choices - {NoneType}
        if len(plain) == 1 and plain <= {*_KINDS}:
            fields[name] = plain.pop(), NoneType in choices
    return fields


def check_fields(settings: Any) -> None:
    """Convert the fields of a frozen dataclass that are numbers, texts or True or False, or None, as `to_plain` does.

    Raises InputError for a value of another type.
    """
    settings_type: Any = type(settings)
    for name, (kind, is_optional) in _plain_fields(settings_type).items():
        value = getattr(settings, name)
        if not (value is None and is_optional):
            object.__setattr__(settings, name, to_plain(name, value, kind))


_Settings = TypeVar("_Settings")


def to_settings(settings: _Settings | None, kind: type[_Settings]) -> _Settings:
    """Return settings, or the default ones for None. Raises InputError for anything else, such as a dict."""
    if settings is None:
        return kind()
    if not isinstance(settings, kind):
        raise InputError(f"settings {repr(settings)[:40]}; expected {kind.__name__}(...)")
    return settings


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
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Document:
    """A named text that is read sentence by sentence.

    Attributes:
        name: Name of the document.
        digest: Hash that changes if the content, or the way to read it, changes.
        sentences: Returns an iterator over the sentences. Each call reads the text again from the start, so that
            memory does not hold the whole text.
        size: Size in bytes; 0 if unknown.
        consumed: Returns the number of bytes that the latest iterator has read.
        needs_text: Whether an index leaves the document out if it has no sentences, as a file that is skipped.

    >>> [sentence.text for sentence in Document.from_texts("story", ["It rained.", "It snowed."]).sentences()]
    ['It rained.', 'It snowed.']
    """

    name: str
    digest: str
    sentences: Callable[[], Iterator[Sentence]]
    size: int = 0
    consumed: Callable[[], int] = lambda: 0
    needs_text: bool = False

    @classmethod
    def from_texts(cls, name: str, texts: Iterable[str]) -> Document:
        """Make a document of sentences in memory.

        Raises InputError for a name that is not a text, and for a single text instead of a list of sentences.
        """
        if not isinstance(name, str):
            raise InputError(f"{name!r}: expected the name of a document, as text")
        sentences = [Sentence(text, line) for line, text in enumerate(text_tuple(texts, "sentences"), 1)]
        digest = sha256(json.dumps([sentence.text for sentence in sentences]).encode()).hexdigest()
        return cls(name, digest, lambda: iter(sentences))


def check_document(value: object) -> Document:
    """Return a document unchanged. Raises InputError for anything else, such as a text or a path."""
    if not isinstance(value, Document):
        raise InputError(f"{repr(value)[:40]}: expected documents, as read() and Document.from_texts() return them")
    return value


def iterate_documents(documents: Iterable[Document]) -> Iterator[Document]:
    """Iterate over documents, each checked when it is reached.

    Raises InputError at once for a single document, and for a text or a path, and later for an item of another type.
    """
    if isinstance(documents, str | PathLike):
        check_document(documents)
    check_list(documents, "documents")
    return map(check_document, documents)


@dataclass(frozen=True, slots=True)
class Phrase:
    """A phrase in its context: ``context[start:end]``.

    Raises InputError if the context is not a text, if the offsets are not whole numbers, or if they do not mark at
    least one character of the context.

    >>> Phrase("Er sitzt auf der Bank.", 17, 21).text
    'Bank'
    """

    context: str
    start: int
    end: int

    def __post_init__(self) -> None:
        check_text(self.context)
        if not type(self.start) is type(self.end) is int:
            for name, offset in (("start", self.start), ("end", self.end)):
                if not isinstance(offset, Integral):
                    raise InputError(f"{name} {offset!r}: expected a whole number")
                object.__setattr__(self, name, int(offset))  # JSON cannot hold the numbers of NumPy
        if not 0 <= self.start < self.end <= len(self.context):
            raise InputError(
                f"offsets {self.start}:{self.end} mark nothing in a text of {len(self.context)} characters; "
                "expected 0 <= start < end <= length"
            )

    @property
    def text(self) -> str:
        """The phrase without its context."""
        return self.context[self.start : self.end]


def phrase_list(values: Iterable[Phrase]) -> list[Phrase]:
    """Convert an iterable of phrases to a list. Raises InputError for anything else, such as texts."""
    check_list(values, "phrases")
    phrases = list(values)
    odd = [value for value in phrases if not isinstance(value, Phrase)]
    if odd:
        raise InputError(
            f"{repr(odd[0])[:40]}: expected phrases, such as Phrase(text, 0, 4); encode_sentences takes texts"
        )
    return phrases


@dataclass(frozen=True, slots=True)
class PhrasePair:
    """A phrase and its possible equivalent in another language.

    >>> pair = PhrasePair(Phrase("Er sitzt auf der Bank.", 17, 21), Phrase("He sits on the bench.", 15, 20))
    >>> pair.source.text, pair.target.text
    ('Bank', 'bench')
    """

    source: Phrase
    target: Phrase
    score: float = 1.0


@dataclass(frozen=True, slots=True)
class Hit:
    """A phrase of the index that a search returned.

    Attributes:
        phrase: The phrase in its sentence.
        score: Similarity to the query (cosine).
        document: Name of the document.
        line: Line of the sentence in the document, from 1.
        language: Language of the document, or "".
        phrase_id: Id of the phrase in the index; -1 for none.
        metadata: Metadata of the sentence.

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
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def text(self) -> str:
        """The phrase without its sentence."""
        return self.phrase.text

    @property
    def context(self) -> str:
        """Sentence of the phrase."""
        return self.phrase.context

    @property
    def start(self) -> int:
        """First character of the phrase in its sentence."""
        return self.phrase.start

    @property
    def end(self) -> int:
        """End of the phrase in its sentence, exclusive."""
        return self.phrase.end


@dataclass(frozen=True, slots=True)
class Run:
    """A ranking of documents for each query, best first: the result of rankers, and the input of measures.

    Attributes:
        ids: Ids of documents, (queries, k) int64; -1 after the last result of a query.
        scores: Their scores, (queries, k) float32.
        name: Name of the run, for reports.

    Raises InputError unless both arrays have one shape of two dimensions.

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
    """Protocol of a model that encodes phrases as vectors.

    >>> from phrasemate import load_model
    >>> encoder: Encoder = load_model()
    >>> encoder.encode([Phrase("Er sitzt auf der Bank.", 17, 21)]).shape == (1, encoder.dim)
    True
    """

    @property
    def dim(self) -> int:
        """Number of dimensions of a vector."""

    def encode(self, phrases: Sequence[Phrase]) -> Floats:
        """Encode phrases in their contexts, (phrases, dim) float32, of unit length."""


class Scorer(Protocol):
    """Protocol of a model that scores pairs of phrases, for re-ranking.

    >>> class Lengths:
    ...     def score(self, pairs: Sequence[PhrasePair]) -> Floats:
    ...         return np.array([-abs(len(p.source.text) - len(p.target.text)) for p in pairs], np.float32)
    >>> scorer: Scorer = Lengths()
    """

    def score(self, pairs: Sequence[PhrasePair]) -> Floats:
        """Score pairs, (pairs,) float32; the higher, the better a pair."""
