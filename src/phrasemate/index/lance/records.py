"""Records that the driver, the workers and the readers of an index exchange, and the functions that make a shard.

A shard holds the sentences and phrases of a part of the input, with the same rows as the index of one machine.
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
PLACES = 32  # low bits of a phrase key: the phrase's position in its shard; the high bits are the shard's number
MOST = 1 << 53  # upper limit of ids and counts, so that a float holds each exactly
WORDS_KEY = "words"  # key of the text index in `Head.extras`
LOWERING = 4  # version of the lower-casing; a text index of another version is built again
_WIDEST = 1 << 16  # maximum dimension of a vector


class Piece(NamedTuple):
    """Part of a document in one shard: ``sentences`` sentences from the ``position``-th on, with their ``phrases``.

    ``complete``: whether the document was read to its end. ``replaces``: id of the older document that this one
    replaces.
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
        """Numbers of sentences and phrases of the piece."""
        return self.sentences, self.phrases


class Row(NamedTuple):
    """Sentence that a worker gets to encode."""

    document: int
    position: int
    line: int
    text: str
    metadata: Mapping[str, Any]


class Order(NamedTuple):
    """Order to make a shard: its chunks of sentences, each for one call of the model.

    ``key`` is a hash of everything that the shard depends on, so two shards with equal keys are equal.
    """

    number: int
    key: str
    first_sentence: int
    pieces: tuple[Piece, ...]
    chunks: tuple[tuple[Row, ...], ...]
    bytes_done: int  # bytes of the input up to the end of the shard, for the progress bar

    @property
    def sentences(self) -> int:
        """Number of sentences of the shard."""
        return sum(len(chunk) for chunk in self.chunks)

    @staticmethod
    def key_of(recipe: str, number: int, first_sentence: int, pieces: tuple[Piece, ...], sizes: list[int]) -> str:
        """Hash the recipe's digest, the shard's number, first sentence and pieces, and the sizes of its chunks."""
        content = json.dumps([recipe, number, first_sentence, pieces, sizes])
        return sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Recipe:
    """Settings of all shards of one run.

    ``place`` and ``options`` are the address and the storage options of the tables. ``frequent`` are the words that no
    phrase begins or ends with.
    """

    place: str
    options: dict[str, str]
    model_path: str | None
    model_hash: str
    dim: int
    segment: dict[str, Any]
    frequent: frozenset[str]
    version: str  # version of phrasemate

    @property
    def digest(self) -> str:
        """Hash of the settings that a shard's rows depend on."""
        content = json.dumps([self.model_hash, self.dim, self.segment, sorted(self.frequent)], sort_keys=True)
        return sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Shard:
    """Shard that a worker has committed: a row of the table ``shards``.

    ``fragments`` are the files with its rows, for the tables of sentences and of phrases. ``attempt`` is a random id.
    It distinguishes shards with equal keys, of which the index uses one.
    """

    number: int
    key: str
    attempt: str
    first_sentence: int
    sentences: int
    phrases: int
    pieces: tuple[Piece, ...]
    fragments: dict[str, list[str]]
    seconds: float = 0.0  # time spent in the encoder

    def to_json(self) -> str:
        """Write the shard as JSON with a checksum."""
        return _seal(asdict(self))

    @classmethod
    def from_json(cls, text: str, place: str) -> Shard:
        """Read a shard from its JSON; ``place`` names the index in errors.

        Raises IndexDamaged for a wrong checksum or impossible values, IndexUnsupported for another format.
        """
        content = _unseal(text, place, "a row of shards")
        with translate_damage(place, "a row of shards"):
            content["pieces"] = tuple(Piece(*piece) for piece in content["pieces"])
            shard = cls(**content)
            if not shard._is_valid():
                raise ValueError
            return shard

    @property
    def adds_up(self) -> bool:
        """Whether the counts of the pieces add up to those of the shard."""
        counts = [sum(column) for column in zip((0, 0), *(piece.counts for piece in self.pieces), strict=True)]
        return counts == [self.sentences, self.phrases]

    def is_of(self, order: Order) -> bool:
        """Whether the shard is the one ordered; all fields are compared, since a key alone can be forged."""
        pieces = tuple(piece._replace(phrases=0) for piece in self.pieces)
        order_key = order.key, order.number, order.first_sentence, order.sentences, order.pieces
        return (self.key, self.number, self.first_sentence, self.sentences, pieces) == order_key and self.adds_up

    def _is_valid(self) -> bool:
        """Whether all types and counts are valid; a correct checksum does not prove it, since it can be forged."""
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
    """State of the index, the only row of the table ``state``: model, counts, and the versions of the other tables.

    The index has the shards with numbers below ``shards``. ``versions`` are the versions of the other tables that
    belong to this state. ``deleted`` are ids of deleted documents. ``writer`` names the process that may change the
    index; another process takes over by committing its own name.
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
        """Counts of the index, as the index of one machine has them."""
        return State._make(getattr(self, name) for name in State._fields)

    @property
    def manifest(self) -> Manifest:
        """Model, dimension and segmentation, as the index of one machine has them."""
        return Manifest(
            self.model_name, self.model_hash, self.model_path, self.dim, self.generation, dict(self.segment)
        )

    def to_json(self) -> str:
        """Write the head as JSON with a checksum."""
        return _seal(asdict(self))

    @classmethod
    def from_json(cls, text: str, place: str) -> Head:
        """Read a head from its JSON; ``place`` names the index in errors.

        Raises IndexDamaged for a wrong checksum or impossible values, IndexUnsupported for another format.
        """
        content = _unseal(text, place, "the table state")
        with translate_damage(place, "the table state"):
            content["deleted"] = tuple(content["deleted"])
            head = cls(**content)
            if not head._is_valid():
                raise ValueError
            return head

    def _is_valid(self) -> bool:
        """Whether all types and counts are valid."""
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
        """Whether an entry of ``extras`` is valid: None, or a mapping with the fields of its kind."""
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
    """Description of the text index: the ``version`` of its table, and the first sentence id that it does not cover."""

    version: int
    sentences: int
    lowering: int = LOWERING

    @classmethod
    def of(cls, head: Head) -> Stamp | None:
        """Read the stamp in a head; None without a text index, or with one of another lower-casing."""
        entry = head.extras.get(WORDS_KEY)
        if entry is None or entry.get("lowering") != LOWERING:
            return None
        return cls(entry["version"], entry["sentences"])


def _seal(content: dict[str, Any]) -> str:
    """Write a mapping as JSON, with format, version and a checksum."""
    body = {"format": FORMAT, "version": VERSION} | content
    return json.dumps(body | {"crc": crc32(json.dumps(body, sort_keys=True).encode())}, sort_keys=True)


def _are_counts(*numbers: Any) -> bool:
    """Whether all are ints (not bools) from 0 to `MOST` - 1."""
    return all(type(number) is int and 0 <= number < MOST for number in numbers)


@contextmanager
def translate_damage(place: str, record: str) -> Iterator[None]:
    """Raise IndexDamaged for the errors of a ``record`` with missing fields or values of wrong types."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise IndexDamaged(f"{place}: {record} is corrupted; restore it from a backup or build it again") from error


def _unseal(text: str, place: str, record: str) -> dict[str, Any]:
    """Read JSON that `_seal` wrote. Raises IndexDamaged for a wrong checksum, IndexUnsupported for another format."""
    try:
        body: dict[str, Any] = json.loads(text)
        crc = body.pop("crc")
        intact = crc == crc32(json.dumps(body, sort_keys=True).encode())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        intact = False
    if not intact:
        raise IndexDamaged(f"{place}: {record} does not match its checksum; restore it or build the index again")
    if (header := (body.pop("format", None), body.pop("version", None))) != (FORMAT, VERSION):
        raise IndexUnsupported(
            f"{place}: is of format {header[0]} {header[1]}, expected {FORMAT} {VERSION}; use a matching version of "
            f"phrasemate"
        )
    return body


class ShardRows(NamedTuple):
    """Rows of a shard that are not written yet: an Arrow table for each table name."""

    tables: dict[str, Any]
    phrases: dict[int, int]  # document id -> its phrases in the shard
    seconds: float  # time spent in the encoder


def make_shard(order: Order, model: IndexModel, recipe: Recipe) -> ShardRows:
    """Encode the chunks of a shard as `phrasemate.index.ingest` does, each in one call of the model."""
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
    """Return the values of a row of the table ``sentences``, in the order of its columns.

    ``first``: position of the sentence's first phrase in the shard. ``codes``: vectors of its phrases, (phrases, dim).
    """
    text, metadata = row_codec.encode_text(row.text), row_codec.encode_metadata(row.metadata)
    spans = row_codec.pack_spans(phrases.starts, phrases.ends, phrases.scores)
    numbers = (identity, row.document, row.position, row.line, first, len(codes))
    crc = row_codec.checksum(b"sentence", numbers, text, metadata, spans)
    codes_crc = row_codec.checksum(b"vectors", (identity, row.document, first, len(codes)), codes.tobytes())
    return (*numbers, text, metadata, spans, crc, codes_crc)


def _tables(
    order: Order, sentences: Sequence[tuple[Any, ...]], codes: Sequence[NDArray[np.int8]], dim: int
) -> dict[str, Any]:
    """Build the Arrow tables of a shard from its rows of sentences, and from the codes of each sentence's phrases."""
    import pyarrow as pa

    texts = schema(SENTENCES, dim)
    columns = list(zip(*sentences, strict=True)) or [()] * len(texts)
    all_codes = np.concatenate([np.zeros((0, dim), np.int8), *codes])
    keys = (order.number << PLACES) + np.arange(len(all_codes))
    documents = np.repeat(np.array(columns[1], np.int64), [len(codes_of_sentence) for codes_of_sentence in codes])
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(all_codes.astype(np.float16).ravel()), dim)
    return {
        SENTENCES: pa.table(list(map(pa.array, columns, texts.types)), schema=texts),
        PHRASES: pa.table([pa.array(keys), pa.array(documents), vectors], schema=schema(PHRASES, dim)),
    }


def write_shard(tables: Tables, order: Order, shard_rows: ShardRows) -> Shard:
    """Write the rows of a shard to files; readers do not see them before the index is committed."""
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
    """Add a written shard to the table ``shards``. From then on it survives the death of its worker."""
    import pyarrow as pa

    columns = {"number": shard.number, "key": shard.key, "attempt": shard.attempt, "shard": shard.to_json()}
    tables.add(SHARDS, pa.table({name: [value] for name, value in columns.items()}, schema=schema(SHARDS, 0)))
