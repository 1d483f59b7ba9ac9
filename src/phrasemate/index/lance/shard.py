"""One shard: its sentences through the model, and the rows that come of it, as the one-machine index has them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from time import perf_counter
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from phrasemate.index import row_codec
from phrasemate.index.ingest import extracted
from phrasemate.index.lance.records import Order, Recipe, Row, Shard
from phrasemate.index.lance.tables import DATA, PHRASES, SENTENCES, SHARDS, Tables, schema
from phrasemate.index.transactions import validated
from phrasemate.index.types import IndexModel, PhraseSet

PLACES = 32  # bits of a phrase's key that say its place in the shard


class Made(NamedTuple):
    """The rows of a shard, as Arrow tables by the name of their table."""

    tables: dict[str, Any]
    phrases: dict[int, int]  # of each document
    seconds: float  # in the encoder


def make(order: Order, model: IndexModel, recipe: Recipe) -> Made:
    """Encode the chunks of a shard, each in one call of the model, as `phrasemate.index.ingest` does."""
    sentences: list[tuple[Any, ...]] = []
    codes: list[NDArray[np.int8]] = []
    owners: Counter[int] = Counter()
    seconds, first = 0.0, 0
    for chunk in order.chunks:
        begun = perf_counter()
        found = extracted(model, [row.text for row in chunk], recipe.frequent, recipe.segment)
        seconds += perf_counter() - begun
        for row, phrases in zip(chunk, found, strict=True):
            own = _codes(phrases, row.text, recipe.dim)
            sentences.append(_sentence(order.first_sentence + len(sentences), row, first, phrases, own))
            codes.append(own)
            owners[row.document] += len(own)
            first += len(own)
    return Made(_tables(order, sentences, codes, recipe.dim), dict(owners), seconds)


def _codes(phrases: PhraseSet, text: str, dim: int) -> NDArray[np.int8]:
    found = validated(phrases, text, dim)
    return row_codec.quantise(found.vectors) if len(found.starts) else np.zeros((0, dim), np.int8)


def _sentence(identity: int, row: Row, first: int, phrases: PhraseSet, codes: NDArray[np.int8]) -> tuple[Any, ...]:
    """In the order of the columns."""
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
    documents = np.repeat(np.array(columns[1], np.int64), [len(own) for own in codes])
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(together.astype(np.float16).ravel()), dim)
    return {
        SENTENCES: pa.table(list(map(pa.array, columns, texts.types)), schema=texts),
        PHRASES: pa.table([pa.array(keys), pa.array(documents), vectors], schema=schema(PHRASES, dim)),
    }


def write(tables: Tables, order: Order, made: Made) -> Shard:
    """Write the rows of a shard to where nobody sees them yet."""
    fragments = {name: tables.write(name, made.tables[name]) if made.tables[name].num_rows else [] for name in DATA}
    counted = tuple(piece._replace(phrases=made.phrases.get(piece.document, 0)) for piece in order.pieces)
    phrases = sum(made.phrases.values())
    attempt = uuid4().hex
    return Shard(
        order.number,
        order.key,
        attempt,
        order.first_sentence,
        order.sentences,
        phrases,
        counted,
        fragments,
        made.seconds,
    )


def commit(tables: Tables, shard: Shard) -> None:
    """Commit a shard that is written: from here on it is there, whole, whatever becomes of the worker."""
    import pyarrow as pa

    columns = {"number": shard.number, "key": shard.key, "attempt": shard.attempt, "shard": shard.to_json()}
    tables.add(SHARDS, pa.table({name: [value] for name, value in columns.items()}, schema=schema(SHARDS, 0)))
