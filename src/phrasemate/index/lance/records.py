"""What the driver, its workers and the readers of an index tell each other: plain records and their JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import Any, NamedTuple
from zlib import crc32

from phrasemate.errors import IndexDamaged, IndexUnsupported
from phrasemate.index.lance.tables import DATA, SHARDS
from phrasemate.index.manifest import Manifest
from phrasemate.index.store import State

FORMAT = "phrasemate-lance"
VERSION = 1
MOST = 1 << 53  # ids and counts are less, and so are exact as floats
WORDS_KEY = "words"
LOWERING = 4  # of the table of texts: one that was made by another lowering is made again
_WIDEST = 1 << 16  # a vector


class Piece(NamedTuple):
    """The part of a document that is in a shard: ``sentences`` from ``position`` on; ``complete``: nothing follows.

    ``replaces``: the id of the document whose place this one takes.
    """

    document: int
    name: str
    language: str
    digest: str
    position: int
    sentences: int
    complete: bool
    replaces: int | None = None
    phrases: int = 0

    @property
    def counts(self) -> tuple[int, int]:
        """How many sentences and phrases."""
        return self.sentences, self.phrases


class Row(NamedTuple):
    """A sentence on its way to a worker."""

    document: int
    position: int
    line: int
    text: str
    metadata: Mapping[str, Any]


class Order(NamedTuple):
    """A shard that is to be made: chunks of sentences, each for one call of the model.

    ``key`` says all that the shard depends on, so a shard with this key is this shard, whoever made it.
    """

    number: int
    key: str
    first_sentence: int
    pieces: tuple[Piece, ...]
    chunks: tuple[tuple[Row, ...], ...]
    bytes_done: int  # of the input, for the progress bar

    @property
    def sentences(self) -> int:
        return sum(len(chunk) for chunk in self.chunks)

    @staticmethod
    def key_of(recipe: str, number: int, first_sentence: int, pieces: tuple[Piece, ...], sizes: list[int]) -> str:
        said = json.dumps([recipe, number, first_sentence, pieces, sizes])
        return sha256(said.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Recipe:
    """How every shard of one run is made. ``frequent``: words that no phrase begins or ends with."""

    place: str
    options: dict[str, str]
    model_path: str | None
    model_hash: str
    dim: int
    segment: dict[str, Any]
    frequent: frozenset[str]
    version: str  # of phrasemate

    @property
    def digest(self) -> str:
        """Over all that a shard's rows depend on."""
        said = json.dumps([self.model_hash, self.dim, self.segment, sorted(self.frequent)], sort_keys=True)
        return sha256(said.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Shard:
    """A shard that a worker has committed: a row of the table ``shards``.

    ``fragments``: the files in the tables of sentences and phrases that hold its rows. ``attempt`` tells two shards
    of one key apart, of which one is taken.
    """

    number: int
    key: str
    attempt: str
    first_sentence: int
    sentences: int
    phrases: int
    pieces: tuple[Piece, ...]
    fragments: dict[str, list[str]]
    seconds: float = 0.0  # in the encoder

    def to_json(self) -> str:
        return _sealed(asdict(self))

    @classmethod
    def from_json(cls, text: str, place: str) -> Shard:
        """Raises IndexDamaged or IndexUnsupported."""
        content = _opened(text, place, "a row of shards")
        with _possible(place, "a row of shards"):
            content["pieces"] = tuple(Piece(*piece) for piece in content["pieces"])
            made = cls(**content)
            _expect(made._is_possible())
            return made

    @property
    def adds_up(self) -> bool:
        """Whether its pieces are all of it."""
        counts = [sum(each) for each in zip((0, 0), *(piece.counts for piece in self.pieces), strict=True)]
        return counts == [self.sentences, self.phrases]

    def is_of(self, order: Order) -> bool:
        """Whether it is what was asked for: a key alone can be made up."""
        pieces = tuple(piece._replace(phrases=0) for piece in self.pieces)
        asked = order.key, order.number, order.first_sentence, order.sentences, order.pieces
        return (self.key, self.number, self.first_sentence, self.sentences, pieces) == asked and self.adds_up

    def _is_possible(self) -> bool:
        """Whether types and counts are such as are written: a forger can make checksums, too."""
        texts = (self.key, self.attempt, *(text for piece in self.pieces for text in piece[1:4]))
        numbers = [self.number, self.first_sentence, self.sentences, self.phrases]
        numbers += [number for piece in self.pieces for number in (piece.document, piece.position, *piece.counts)]
        lists = list(self.fragments.values())
        return (
            all(isinstance(text, str) for text in texts)
            and _are_counts(*numbers, *(piece.replaces or 0 for piece in self.pieces))
            and all(isinstance(piece.complete, bool) for piece in self.pieces)
            and set(self.fragments) == set(DATA)
            and all(isinstance(each, list) and all(isinstance(text, str) for text in each) for each in lists)
            and isinstance(self.seconds, int | float)
        )


@dataclass(frozen=True, slots=True)
class Head:
    """The row of ``state``: the model, which shards are in the index, and the versions of the tables that hold them.

    The shards with numbers below ``shards`` are in force. ``deleted``: ids of documents; ``writer``: the driver that
    may change the index, another one takes its place by writing itself in.
    """

    model_name: str
    model_hash: str
    model_path: str | None
    dim: int
    segment: dict[str, Any] = field(default_factory=dict)
    generation: int = 0
    shards: int = 0
    versions: dict[str, int] = field(default_factory=dict)
    documents: int = 0
    sentences: int = 0
    phrases: int = 0
    next_document: int = 0
    next_sentence: int = 0
    next_phrase: int = 0
    deleted: tuple[int, ...] = ()
    extras: dict[str, Any] = field(default_factory=dict)
    writer: str = ""

    @property
    def state(self) -> State:
        return State(
            self.generation,
            self.documents,
            self.sentences,
            self.phrases,
            self.next_document,
            self.next_sentence,
            self.next_phrase,
        )

    @property
    def manifest(self) -> Manifest:
        return Manifest(
            self.model_name, self.model_hash, self.model_path, self.dim, self.generation, dict(self.segment)
        )

    def to_json(self) -> str:
        return _sealed(asdict(self))

    @classmethod
    def from_json(cls, text: str, place: str) -> Head:
        """Raises IndexDamaged or IndexUnsupported."""
        content = _opened(text, place, "the table state")
        with _possible(place, "the table state"):
            content["deleted"] = tuple(content["deleted"])
            made = cls(**content)
            _expect(made._is_possible())
            return made

    def _is_possible(self) -> bool:
        """As that of a shard."""
        texts = (self.model_name, self.model_hash, self.writer, *([] if self.model_path is None else [self.model_path]))
        return (
            all(isinstance(text, str) for text in texts)
            and _are_counts(*self.state, self.shards, self.dim, *self.versions.values(), *self.deleted)
            and 0 < self.dim <= _WIDEST
            and set(self.versions) == {SHARDS, *DATA}
            and isinstance(self.segment, dict)
            and len(set(self.deleted)) == len(self.deleted)
            and max(self.deleted, default=-1) < self.next_document
            and all(self._is_extra(key, value) for key, value in self.extras.items())
        )

    def _is_extra(self, key: str, value: Any) -> bool:
        if value is None or not isinstance(value, dict):
            return value is None
        if key == WORDS_KEY:  # see `Stamp`
            version, sentences = value.get("version"), value.get("sentences", -1)
            return _are_counts(version, sentences) and sentences <= self.next_sentence
        if key.startswith("frequent "):
            words = value.get("words")
            texts = isinstance(words, list) and all(isinstance(word, str) for word in words)
            return texts and _are_counts(value.get("sentences"))
        return True


class Stamp(NamedTuple):
    """The version of the table that is in force, and the id that the next sentence had when it was made."""

    version: int
    sentences: int
    lowering: int = LOWERING

    @classmethod
    def of(cls, head: Head) -> Stamp | None:
        """None: there is no text index."""
        kept = head.extras.get(WORDS_KEY)
        if kept is None or kept.get("lowering") != LOWERING:
            return None
        return cls(kept["version"], kept["sentences"])


def _sealed(content: dict[str, Any]) -> str:
    body = {"format": FORMAT, "version": VERSION} | content
    return json.dumps(body | {"crc": crc32(json.dumps(body, sort_keys=True).encode())}, sort_keys=True)


def _are_counts(*numbers: Any) -> bool:
    return all(type(number) is int and 0 <= number < MOST for number in numbers)


def _expect(possible: bool) -> None:
    if not possible:
        raise ValueError("a value that is never written")


@contextmanager
def _possible(place: str, what: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise IndexDamaged(f"{place}: {what} holds what no index does; restore it or build the index again") from error


def _opened(text: str, place: str, what: str) -> dict[str, Any]:
    try:
        body: dict[str, Any] = json.loads(text)
        crc = body.pop("crc")
        intact = crc == crc32(json.dumps(body, sort_keys=True).encode())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        intact = False
    if not intact:
        raise IndexDamaged(f"{place}: {what} does not match its checksum; restore it or build the index again")
    if (seen := (body.pop("format", None), body.pop("version", None))) != (FORMAT, VERSION):
        raise IndexUnsupported(
            f"{place}: is of format {seen[0]} {seen[1]}, expected {FORMAT} {VERSION}; use a matching version of "
            f"phrasemate"
        )
    return body
