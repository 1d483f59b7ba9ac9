"""Records that the driver, its workers and the readers of an index exchange, and how a worker makes a shard.

A shard has the rows that the index of one machine has for its sentences.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from time import perf_counter
from typing import Any, NamedTuple
from uuid import uuid4
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import IndexDamaged, IndexUnsupported
from phrasemate.index import row_codec
from phrasemate.index.ingest import extracted
from phrasemate.index.lance.tables import DATA, PHRASES, SENTENCES, SHARDS, Tables, schema
from phrasemate.index.manifest import Manifest
from phrasemate.index.store import State
from phrasemate.index.transactions import validated
from phrasemate.index.types import IndexModel, PhraseSet

FORMAT = "phrasemate-lance"
VERSION = 1
PLACES = 32  # bits of the key of a phrase that say its place in the shard
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
        """Numbers of sentences and phrases."""
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
        content = json.dumps([recipe, number, first_sentence, pieces, sizes])
        return sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Recipe:
    """Settings of all shards of one run. ``frequent``: words that no phrase begins or ends with."""

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
        content = json.dumps([self.model_hash, self.dim, self.segment, sorted(self.frequent)], sort_keys=True)
        return sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


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
            shard = cls(**content)
            if not shard._is_possible():
                raise ValueError
            return shard

    @property
    def adds_up(self) -> bool:
        """Whether its pieces are all of it."""
        counts = [sum(column) for column in zip((0, 0), *(piece.counts for piece in self.pieces), strict=True)]
        return counts == [self.sentences, self.phrases]

    def is_of(self, order: Order) -> bool:
        """Whether it is what was asked for: a key alone can be made up."""
        pieces = tuple(piece._replace(phrases=0) for piece in self.pieces)
        order_key = order.key, order.number, order.first_sentence, order.sentences, order.pieces
        return (self.key, self.number, self.first_sentence, self.sentences, pieces) == order_key and self.adds_up

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
            and all(isinstance(values, list) and all(isinstance(text, str) for text in values) for values in lists)
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
        return State._make(getattr(self, name) for name in State._fields)

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
            head = cls(**content)
            if not head._is_possible():
                raise ValueError
            return head

    def _is_possible(self) -> bool:
        """Whether types and counts are such as are written."""
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
        """Stamp of a head; None where there is no text index."""
        entry = head.extras.get(WORDS_KEY)
        if entry is None or entry.get("lowering") != LOWERING:
            return None
        return cls(entry["version"], entry["sentences"])


def _sealed(content: dict[str, Any]) -> str:
    body = {"format": FORMAT, "version": VERSION} | content
    return json.dumps(body | {"crc": crc32(json.dumps(body, sort_keys=True).encode())}, sort_keys=True)


def _are_counts(*numbers: Any) -> bool:
    return all(type(number) is int and 0 <= number < MOST for number in numbers)


@contextmanager
def _possible(place: str, what: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise IndexDamaged(f"{place}: {what} is corrupted; restore it from a backup or build it again") from error


def _opened(text: str, place: str, what: str) -> dict[str, Any]:
    try:
        body: dict[str, Any] = json.loads(text)
        crc = body.pop("crc")
        intact = crc == crc32(json.dumps(body, sort_keys=True).encode())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        intact = False
    if not intact:
        raise IndexDamaged(f"{place}: {what} does not match its checksum; restore it or build the index again")
    if (header := (body.pop("format", None), body.pop("version", None))) != (FORMAT, VERSION):
        raise IndexUnsupported(
            f"{place}: is of format {header[0]} {header[1]}, expected {FORMAT} {VERSION}; use a matching version of "
            f"phrasemate"
        )
    return body


class ShardRows(NamedTuple):
    """The rows of a shard, as Arrow tables by the name of their table."""

    tables: dict[str, Any]
    phrases: dict[int, int]  # of each document
    seconds: float  # in the encoder


def make_shard(order: Order, model: IndexModel, recipe: Recipe) -> ShardRows:
    """Encode the chunks of a shard, each in one call of the model, as `phrasemate.index.ingest` does."""
    sentences: list[tuple[Any, ...]] = []
    codes: list[NDArray[np.int8]] = []
    owners: Counter[int] = Counter()
    seconds, first = 0.0, 0
    for chunk in order.chunks:
        start = perf_counter()
        phrase_sets = extracted(model, [row.text for row in chunk], recipe.frequent, recipe.segment)
        seconds += perf_counter() - start
        for row, phrases in zip(chunk, phrase_sets, strict=True):
            has_phrases = len(validated(phrases, row.text, recipe.dim).starts) > 0
            sentence_codes = row_codec.quantise(phrases.vectors) if has_phrases else np.zeros((0, recipe.dim), np.int8)
            sentences.append(_sentence(order.first_sentence + len(sentences), row, first, phrases, sentence_codes))
            codes.append(sentence_codes)
            owners[row.document] += len(sentence_codes)
            first += len(sentence_codes)
    return ShardRows(_tables(order, sentences, codes, recipe.dim), dict(owners), seconds)


def _sentence(identity: int, row: Row, first: int, phrases: PhraseSet, codes: NDArray[np.int8]) -> tuple[Any, ...]:
    """The values of a sentence in the order of the columns."""
    text, metadata = row_codec.encode_text(row.text), row_codec.encode_metadata(row.metadata)
    spans = row_codec.pack_spans(phrases.starts, phrases.ends, phrases.scores)
    numbers = (identity, row.document, row.position, row.line, first, len(codes))
    crc = row_codec.checksum(b"sentence", numbers, text, metadata, spans)
    codes_crc = row_codec.checksum(b"vectors", (identity, row.document, first, len(codes)), codes.tobytes())
    return (*numbers, text, metadata, spans, crc, codes_crc)


def _tables(
    order: Order, sentences: Sequence[tuple[Any, ...]], codes: Sequence[NDArray[np.int8]], dim: int
) -> dict[str, Any]:
    import pyarrow as pa

    texts = schema(SENTENCES, dim)
    columns = list(zip(*sentences, strict=True)) or [()] * len(texts)
    together = np.concatenate([np.zeros((0, dim), np.int8), *codes])
    keys = (order.number << PLACES) + np.arange(len(together))
    documents = np.repeat(np.array(columns[1], np.int64), [len(codes_of_sentence) for codes_of_sentence in codes])
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(together.astype(np.float16).ravel()), dim)
    return {
        SENTENCES: pa.table(list(map(pa.array, columns, texts.types)), schema=texts),
        PHRASES: pa.table([pa.array(keys), pa.array(documents), vectors], schema=schema(PHRASES, dim)),
    }


def write_shard(tables: Tables, order: Order, shard_rows: ShardRows) -> Shard:
    """Write the rows of a shard to where nobody sees them yet."""
    fragments = {
        name: tables.write(name, shard_rows.tables[name]) if shard_rows.tables[name].num_rows else [] for name in DATA
    }
    document_pieces = tuple(piece._replace(phrases=shard_rows.phrases.get(piece.document, 0)) for piece in order.pieces)
    phrases = sum(shard_rows.phrases.values())
    attempt = uuid4().hex
    return Shard(
        order.number,
        order.key,
        attempt,
        order.first_sentence,
        order.sentences,
        phrases,
        document_pieces,
        fragments,
        shard_rows.seconds,
    )


def commit_shard(tables: Tables, shard: Shard) -> None:
    """Commit a shard that is written: from here on it is there, whole, whatever becomes of the worker."""
    import pyarrow as pa

    columns = {"number": shard.number, "key": shard.key, "attempt": shard.attempt, "shard": shard.to_json()}
    tables.add(SHARDS, pa.table({name: [value] for name, value in columns.items()}, schema=schema(SHARDS, 0)))
