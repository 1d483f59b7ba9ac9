"""Read an index of Lance tables, with the same reading methods as `phrasemate.index.store.Store`.

`Layout` maps the shards to ids and documents. A sentence's id is its number in the input, and is stored in its row. A
phrase's id depends on the number of phrases in all earlier shards, which a worker cannot know. So the row of a phrase
stores the shard's number and the position in the shard, and `Layout` computes the id.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import RLock
from time import monotonic
from typing import Any, NamedTuple

import numpy as np
from cachetools import LRUCache
from numpy.typing import NDArray

from phrasemate.errors import IndexDamaged, IndexMissing, InputError
from phrasemate.index import row_codec
from phrasemate.index.exact import Runs, append_run
from phrasemate.index.lance.commit import indexed_shards, read
from phrasemate.index.lance.records import MOST, PLACES, Head, Shard, Stamp
from phrasemate.index.lance.tables import DATA, PHRASES, SENTENCES, WORDS, Tables, translate_errors
from phrasemate.index.store import SentenceRow, State, VectorRow, all_in_order, check_rebuilt
from phrasemate.index.types import DocumentInfo
from phrasemate.utils.arrays import Ids


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive sentences of one document in one shard, and their phrases.

    ``position`` is the number of the first sentence in its document. ``first_sentence`` and ``first_phrase`` are ids,
    ``sentences`` and ``phrases`` are counts.
    """

    document: int
    position: int
    first_sentence: int
    sentences: int
    first_phrase: int
    phrases: int


class Layout:
    """Ids and documents of all shards in the index.

    Raises IndexDamaged if the shards do not fit each other or the head.
    """

    def __init__(self, head: Head, shards: Sequence[Shard], place: str) -> None:
        if len(shards) != head.shards or [shard.number for shard in shards] != list(range(head.shards)):
            raise IndexDamaged(
                f"{place}: {len(shards)} shards found, expected {head.shards}, each once; build the index again"
            )
        self.head, self._place = head, place
        counts = np.array([[shard.sentences, shard.phrases] for shard in shards], np.int64).reshape(-1, 2)
        bases = np.concatenate([np.zeros((1, 2), np.int64), np.cumsum(counts, axis=0)])
        # (shards + 1,) numbers of sentences and of phrases before each shard, and in all
        self.sentences, self.phrases = bases[:, 0].copy(), bases[:, 1].copy()
        self.documents: dict[int, DocumentInfo] = {}  # by id, without deleted ones
        self.stretches: dict[int, list[Stretch]] = {}  # by document, deleted ones included
        self._stretches_by_id: list[Stretch] = []  # the stretches with sentences, by first sentence
        self._sentence_counts: dict[int, int] = {}  # document -> sentences in the shards read so far
        for shard, first, first_phrase in zip(shards, *(base.tolist() for base in bases.T), strict=False):
            if shard.first_sentence != first or not shard.adds_up:
                raise self._damaged(f"shard {shard.number} and its pieces do not fit the shards before it")
            self._add(shard, first_phrase)
        dead_ids = sorted(
            (stretch for document in head.deleted for stretch in self.stretches.get(document, ())),
            key=lambda stretch: stretch.first_sentence,
        )
        self.dead_sentences = _runs([(stretch.first_sentence, stretch.sentences) for stretch in dead_ids])
        self.dead_phrases = _runs([(stretch.first_phrase, stretch.phrases) for stretch in dead_ids])
        self._firsts = np.array([stretch.first_sentence for stretch in self._stretches_by_id], np.int64)
        self._check()

    @classmethod
    def read(cls, tables: Tables, head: Head) -> Layout:
        """Read the layout that belongs to a head. Raises IndexDamaged."""
        return cls(head, indexed_shards(tables, head), tables.place)

    def _add(self, shard: Shard, phrase: int) -> None:
        """Add the documents and stretches of the next shard, whose first phrase has the id ``phrase``."""
        sentence = shard.first_sentence
        for piece in shard.pieces:
            stretch = Stretch(piece.document, piece.position, sentence, piece.sentences, phrase, piece.phrases)
            self.stretches.setdefault(piece.document, []).append(stretch)
            if piece.sentences:
                if piece.position != (last_position := self._sentence_counts.get(piece.document, 0)):
                    raise self._damaged(
                        f"document {piece.document} continues at {piece.position}, expected {last_position}"
                    )
                self._sentence_counts[piece.document] = last_position + piece.sentences
                self._stretches_by_id.append(stretch)
            document = self.documents.get(piece.document)
            if document is not None and (document.name, document.language, document.digest) != piece[1:4]:
                raise self._damaged(f"document {piece.document} has two names or contents")
            if piece.document not in self.head.deleted:
                counts = (piece.sentences, piece.phrases)
                if document is not None:
                    counts = (document.sentences + piece.sentences, document.phrases + piece.phrases)
                self.documents[piece.document] = DocumentInfo(*piece[:4], piece.complete, *counts)
            sentence, phrase = sentence + piece.sentences, phrase + piece.phrases

    def _damaged(self, fault: str) -> IndexDamaged:
        return IndexDamaged(f"{self._place}: {fault}; build the index again")

    def _check(self) -> None:
        """Raise IndexDamaged unless the counts of the shards are those of the head."""
        state = self.head.state
        shard_counts = (
            len(self.documents),
            sum(document.sentences for document in self.documents.values()),
            sum(document.phrases for document in self.documents.values()),
            int(self.sentences[-1]),
            int(self.phrases[-1]),
        )
        head_counts = (state.documents, state.sentences, state.phrases, state.next_sentence, state.next_phrase)
        if shard_counts != head_counts:
            raise self._damaged(f"its shards hold {shard_counts}, its head says {head_counts}")
        if max(self.stretches, default=-1) >= state.next_document:
            raise self._damaged(f"its shards hold document {max(self.stretches)}, expected less than the head's next")

    def ids(self, keys: Ids) -> Ids:
        """Map keys of phrases to their ids. Raises IndexDamaged for an impossible key."""
        if keys.dtype != np.int64:  # null values make the array a float one
            raise self._damaged("a phrase without a key was found")
        shards = keys >> PLACES
        if len(keys) and (shards.min() < 0 or shards.max() >= self.head.shards):
            raise self._damaged(
                f"a phrase of shard {int(shards.max())} was found, expected less than {self.head.shards}"
            )
        ids = np.asarray(self.phrases[shards] + (keys & ((1 << PLACES) - 1)), np.int64)
        if (ids >= self.phrases[shards + 1]).any():
            raise self._damaged("a phrase beyond the last one of its shard was found")
        return ids

    def base(self, sentence: int) -> int:
        """Return the id of the first phrase of a sentence's shard."""
        return int(self.phrases[int(np.searchsorted(self.sentences, sentence, "right")) - 1])

    def holder(self, sentence: int) -> Stretch | None:
        """Find the stretch that contains a sentence; None for an id that is out of range."""
        at = int(np.searchsorted(self._firsts, sentence, "right")) - 1
        return self._stretches_by_id[at] if at >= 0 and sentence < self.head.next_sentence else None

    def shard_of(self, phrase: int) -> tuple[int, int]:
        """Return the number of a phrase's shard, and the phrase's position in it."""
        number = bisect_right(self.phrases, phrase) - 1
        return number, phrase - int(self.phrases[number])

    def place(self, sentence: int) -> int:
        """Return the row of a live sentence in its table, in which deleted rows do not count."""
        return sentence - self.dead_sentences.below(sentence)

    def sentence_at(self, document: int, position: int) -> int | None:
        """Return the id of the sentence at a position in a document; None if there is none."""
        for stretch in self.stretches.get(document, ()):
            if 0 <= position - stretch.position < stretch.sentences:
                return stretch.first_sentence + position - stretch.position
        return None


def _runs(pairs: list[tuple[int, int]]) -> Runs:
    """Convert (first id, count) pairs, ascending, to runs of ids; adjacent pairs are merged."""
    row_runs: list[list[int]] = []
    for first, count in pairs:
        append_run(row_runs, first, count)
    return Runs(np.array(row_runs, np.int64).reshape(-1, 2))


LOOK_SECONDS = 1.0  # minimum time between two checks for a newer state
_SHARDS = 256  # shards whose sentences' first phrases are cached: 200 kB each
_BATCH = 8192  # rows read together
_COLUMNS = ["id", "document", "position", "line", "first", "phrases", "text", "metadata", "spans", "crc"]


class Moment(NamedTuple):
    """Layout of one state of the index, with the versions of the tables that belong to it."""

    layout: Layout
    tables: dict[str, Any]


class LanceStore:
    """Reader of an open index. Its methods may be called from any thread; a lock lets one run at a time."""

    def __init__(self, tables: Tables) -> None:
        self.tables, self.path = tables, tables.place
        self.lock = RLock()
        self._depth = 0
        self._firsts: LRUCache[int, tuple[Ids, Ids]] = LRUCache(_SHARDS)
        self._looked = monotonic()
        self.moment = self._read()
        self._generation = self.moment.layout.head.generation
        self.dim = self.moment.layout.head.dim

    def damaged(self, what: str) -> IndexDamaged:
        """Make the error for a fault of the index."""
        return IndexDamaged(f"{self.path}: {what}; restore the tables from a copy or build the index again")

    # -- states

    def refresh(self) -> None:
        """Check for a newer state at the next snapshot, however recent the last check was."""
        self._looked = -LOOK_SECONDS

    @contextmanager
    def snapshot(self) -> Iterator[State]:
        """Give the reads in a ``with`` block one state of the index, regardless of commits. Can be nested."""
        with self.lock:
            if not self._depth and monotonic() - self._looked >= LOOK_SECONDS:
                self._look()
            self._depth += 1
            try:
                yield self.state()
            finally:
                self._depth -= 1

    @contextmanager
    def reading(self) -> Iterator[State]:
        """Open a snapshot that also converts Lance's errors; for blocks that contain no code of the caller."""
        with translate_errors(self.path), self.snapshot() as state:
            yield state

    def _look(self) -> None:
        """Switch to the latest state if there is a newer one."""
        head, _ = read(self.tables)
        if head != self.moment.layout.head:
            moment = self._read()
            check_rebuilt(self.path, moment.layout.head.manifest, self.dim, self.layout.head.model_hash)
            self._firsts.clear()
            self.moment = moment
            self._generation = max(self._generation + 1, self.moment.layout.head.generation)
        self._looked = monotonic()

    def _read(self) -> Moment:
        """Open the tables at the versions of the latest head. Raises IndexDamaged."""
        head, _ = read(self.tables)
        layout = Layout.read(self.tables, head)
        tables = {name: self.tables.open(name, head.versions[name]) for name in DATA}
        if (width := tables[PHRASES].schema.field("vector").type.list_size) != head.dim:
            raise self.damaged(f"vectors of {width} numbers, {head.dim} in the head")
        if (stamp := Stamp.of(head)) is not None:
            with suppress(IndexMissing):  # without the text index, sentences are scanned
                tables[WORDS] = self.tables.open(WORDS, stamp.version)
        return Moment(layout, tables)

    @property
    def layout(self) -> Layout:
        """Layout of the current state."""
        return self.moment.layout

    def table(self, name: str) -> Any:
        """Return a table at its version of the current state."""
        return self.moment.tables[name]

    def words(self) -> tuple[Any, int] | None:
        """Return the table of the text index and the first sentence id that it does not cover; None without one."""
        table, stamp = self.moment.tables.get(WORDS), Stamp.of(self.layout.head)
        return None if table is None or stamp is None else (table, stamp.sentences)

    def state(self) -> State:
        """Return the counts and the generation, which also increases if the index was deleted and built again."""
        return self.layout.head.state._replace(generation=self._generation)

    # -- documents

    def documents(self) -> Iterator[DocumentInfo]:
        """List the documents by id."""
        for identity in sorted(self.layout.documents):
            yield self.layout.documents[identity]

    def document(self, identity: int) -> DocumentInfo:
        """Return a document by id. Raises IndexDamaged if it is missing."""
        document = self.layout.documents.get(identity)
        if document is None:
            raise self.damaged(f"document {identity} is missing")
        return document

    # -- sentences

    def sentences_of(self, phrases: Sequence[int]) -> list[SentenceRow | None]:
        """Return the sentence of each phrase id, all read at once; None for a deleted phrase.

        Raises InputError for an id that was never used.
        """
        top = self.state().next_phrase
        for phrase in phrases:
            if not 0 <= phrase < top:
                raise InputError(f"no phrase {phrase}: ids start at 0, and this index has used {top} of them")
        dead = self.layout.dead_phrases.contains(np.array(phrases, np.int64))
        holders = [None if is_dead else self._holder(phrase) for phrase, is_dead in zip(phrases, dead, strict=True)]
        ids = sorted({identity for identity in holders if identity is not None})
        rows = {row.id: row for row in self.sentences(ids)}
        for phrase, identity in zip(phrases, holders, strict=True):
            if identity is not None:
                row = rows[identity]
                if not row.first_phrase <= phrase < row.first_phrase + row.phrases:
                    raise self.damaged(f"phrase {phrase} is in no sentence and was never deleted")
        return [None if identity is None else rows[identity] for identity in holders]

    def vectors_of(self, phrases: Sequence[int]) -> NDArray[np.int8]:
        """Read the codes of phrases by ascending id, all at once: (phrases, dim) int8.

        Raises InputError for the id of a deleted phrase or one that was never used.
        """
        if not len(phrases):
            return np.zeros((0, self.dim), np.int8)
        ids, dead, top = np.array(phrases, np.int64), self.layout.dead_phrases, self.state().next_phrase
        if ids[0] < 0 or ids[-1] >= top:
            raise InputError(
                f"no phrase {ids[0] if ids[0] < 0 else ids[-1]}: ids start at 0, and this index has used {top} of them"
            )
        if (dead_ids := ids[dead.contains(ids)]).size:
            raise InputError(f"phrase {dead_ids[0]} was deleted; search again")
        table = self._take(PHRASES, [phrase - dead.below(phrase) for phrase in phrases], ["key", "vector"])
        if not np.array_equal(self.layout.ids(table["key"].to_numpy()), ids):
            raise self.damaged("some phrases are not where they belong")
        return codes_of(table["vector"], self.dim)

    def _holder(self, phrase: int) -> int:
        """Return the id of the only sentence that can contain a phrase; the caller must check its row."""
        number, place = self.layout.shard_of(phrase)
        if number not in self._firsts:
            self._firsts[number] = self._first_phrases(number)
        ids, firsts = self._firsts[number]
        at = int(np.searchsorted(firsts, place, "right")) - 1
        if at < 0:
            raise self.damaged(f"phrase {phrase} is in no sentence and was never deleted")
        return int(ids[at])

    def _first_phrases(self, number: int) -> tuple[Ids, Ids]:
        """Return ids and first phrases (positions in the shard) of a shard's live sentences that have phrases."""
        low, high = self.layout.sentences[number : number + 2].tolist()
        table = self._take(
            SENTENCES, range(self.layout.place(low), self.layout.place(high)), ["id", "first", "phrases"]
        )
        nonempty = table["phrases"].to_numpy() > 0
        return table["id"].to_numpy()[nonempty], table["first"].to_numpy()[nonempty]

    def _take(self, name: str, places: Sequence[int], columns: list[str]) -> Any:
        """Read rows of a table by position."""
        with translate_errors(self.path):
            return self._without_nulls(name, self.table(name).take(list(places), columns=columns))

    def _without_nulls(self, name: str, values: Any) -> Any:
        """Return rows of a table unchanged. Raises IndexDamaged if a value is missing."""
        if any(column.null_count for column in values.columns):
            raise self.damaged(f"a row of the table {name} lacks a value")
        return values

    def sentences(self, ids: Iterable[int]) -> Iterator[SentenceRow]:
        """Read sentences by id, in the given order. Raises IndexDamaged for a missing one."""
        identities = [int(identity) for identity in ids]
        top, dead = self.state().next_sentence, self.layout.dead_sentences
        for identity in identities:
            if not 0 <= identity < top or dead.contains(np.array([identity]))[0]:
                raise self.damaged(f"sentence {identity} is missing")
        if not identities:
            return
        table = self._take(SENTENCES, [self.layout.place(identity) for identity in identities], _COLUMNS)
        for identity, row in zip(identities, self._rows(table), strict=True):
            if row.id != identity:
                raise self.damaged(f"sentence {identity} is missing")
            yield row

    def all_sentences(self, document: int | None = None) -> Iterator[SentenceRow]:
        """Read all sentences, or those of a document, ascending by id.

        Raises IndexDamaged for a sentence that is altered, missing or repeated.
        """
        count_due = (self.state() if document is None else self.document(document)).sentences
        yield from all_in_order(self._scan(document), document, count_due, self.damaged)

    def translated_sentences(self, fragment: str = "") -> Iterator[SentenceRow]:
        """Read the sentences that have a translation, ascending by id; ``fragment`` is ignored here."""
        return (row for row in self.all_sentences() if "translation" in row.metadata)

    def _scan(self, document: int | None) -> Iterator[SentenceRow]:
        """Read all sentences, or those of a document, in batches."""
        if document is None:
            for batch in self.batches(SENTENCES, _COLUMNS):
                yield from self._rows(batch)
            return
        for stretch in self.layout.stretches.get(document, ()):
            for first in range(0, stretch.sentences, _BATCH):
                last = min(first + _BATCH, stretch.sentences)
                yield from self.sentences(range(stretch.first_sentence + first, stretch.first_sentence + last))

    def batches(self, name: str, columns: list[str], where: str | None = None) -> Iterator[Any]:
        """Read a table in batches of rows, in order; ``where`` is a filter of Lance."""
        with translate_errors(self.path):
            batches = self.table(name).to_batches(columns=columns, filter=where, batch_size=_BATCH, scan_in_order=True)
            yield from (self._without_nulls(name, batch) for batch in batches)

    def near(self, sentence: SentenceRow, count: int) -> Iterator[SentenceRow]:
        """Read the sentences at most ``count`` positions from a sentence in its document, itself included, in order."""
        around = range(sentence.position - count, sentence.position + count + 1)
        neighbours = (self.layout.sentence_at(sentence.document, position) for position in around)
        yield from self.sentences(identity for identity in neighbours if identity is not None)

    def _rows(self, table: Any) -> Iterator[SentenceRow]:
        """Convert rows of the table ``sentences``. Raises IndexDamaged for an altered one."""
        for raw in zip(*(table[name].to_pylist() for name in _COLUMNS), strict=True):
            *numbers, text, metadata, spans, crc = raw
            if not row_codec.same(crc, b"sentence", tuple(numbers), text, metadata, spans):
                raise self.damaged(f"sentence {raw[0]} does not match its checksum")
            identity, document, position, line, first, phrases = numbers
            first += self._base(*numbers)
            try:
                content = row_codec.decode_text(text), row_codec.decode_metadata(metadata)
            except (ValueError, RecursionError) as error:
                raise self.damaged(f"text or metadata of sentence {identity} cannot be decoded") from error
            yield SentenceRow(identity, document, position, line, first, phrases, *content, spans)

    def _base(self, identity: int, document: int, position: int, line: int, first: int, phrases: int) -> int:
        """Return the id of the first phrase of a sentence's shard, given the numbers of the sentence's row.

        Raises IndexDamaged if the row is inconsistent with the shard.
        """
        stretch = self.layout.holder(identity)
        base = self.layout.base(identity)
        if (
            stretch is None
            or (document, position) != (stretch.document, stretch.position + identity - stretch.first_sentence)
            or not 0 <= line < MOST
            or phrases < 0
            or not stretch.first_phrase <= base + first <= stretch.first_phrase + stretch.phrases - phrases
        ):
            raise self.damaged(f"sentence {identity} is not where it belongs")
        return base

    # -- vectors

    def checked_vectors(self) -> Iterator[tuple[list[VectorRow], list[bool]]]:
        """Read all vectors in blocks: a row for each sentence with phrases, and whether its checksum is correct.

        Raises IndexDamaged if the numbers of sentences' phrases and of vectors differ.
        """
        buffer, at, end = np.zeros((0, self.dim), np.int8), 0, 0
        phrases = self.batches(PHRASES, ["vector"])
        for batch in self.batches(SENTENCES, ["id", "document", "first", "phrases", "codes_crc"]):
            block, right = [], []
            for identity, document, first, count, crc in zip(*(c.to_pylist() for c in batch.columns), strict=True):
                base = self.layout.base(identity)
                if count < 0 or not end <= base + first < MOST:
                    raise self.damaged(f"the vectors of sentence {identity} are out of order")
                end = base + first + count
                while len(buffer) - at < count and (more := next(phrases, None)) is not None:
                    buffer, at = np.concatenate([buffer[at:], codes_of(more["vector"], self.dim)]), 0
                codes, at = buffer[at : at + count].tobytes(), at + count
                if count:
                    block.append(VectorRow(identity, document, first + base, count, codes))
                    right.append(row_codec.same(crc, b"vectors", (identity, document, first, count), codes))
            yield block, right
        if at != len(buffer) or next(phrases, None) is not None:
            raise self.damaged("there are more vectors than the sentences have phrases")


def codes_of(column: Any, dim: int) -> NDArray[np.int8]:
    """Convert an Arrow column of vectors to (n, dim) int8. Raises IndexDamaged for a missing vector."""
    import pyarrow as pa

    flat = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if flat.null_count:
        raise IndexDamaged("a phrase without a vector was found; restore the tables from a copy or build them again")
    return np.asarray(flat.flatten().to_numpy(zero_copy_only=False), np.float16).reshape(-1, dim).astype(np.int8)
