"""Reading an index of Lance tables, by the methods that `phrasemate.index.store.Store` has for readers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import RLock
from time import monotonic
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import IndexDamaged, IndexMissing, InputError, ModelMismatch
from phrasemate.index import row_codec
from phrasemate.index.lance.commit import read
from phrasemate.index.lance.ids import Layout
from phrasemate.index.lance.records import MOST, Stamp
from phrasemate.index.lance.tables import DATA, PHRASES, SENTENCES, WORDS, Tables, translate_errors
from phrasemate.index.manifest import Manifest
from phrasemate.index.store import SentenceRow, State, VectorRow, all_in_order
from phrasemate.index.types import DocumentInfo
from phrasemate.utils.storage import is_entry

LOOK_SECONDS = 1.0  # between two looks for a newer state
_SHARDS = 256  # of which it is held in memory where each sentence's phrases begin: 200 kB each
_BATCH = 8192
_COLUMNS = ["id", "document", "position", "line", "first", "phrases", "text", "metadata", "spans", "crc"]

Ids = NDArray[np.int64]


class Moment(NamedTuple):
    """One state of the index: where everything is, and the tables at the versions that belong to it."""

    layout: Layout
    tables: dict[str, Any]


class LanceStore:
    """An open index. All methods may be called from any thread; one works at a time."""

    def __init__(self, tables: Tables) -> None:
        self.tables, self.path = tables, tables.place
        self.lock = RLock()
        self.readonly = False
        self._depth = 0
        self._firsts: OrderedDict[int, tuple[Ids, Ids]] = OrderedDict()
        self._looked = monotonic()
        self.moment = self._read()
        self._generation = self.moment.layout.head.generation
        self.dim = self.moment.layout.head.dim

    def close(self) -> None:
        """Nothing is held open: Lance reads what it is asked for."""

    def damaged(self, what: str) -> IndexDamaged:
        return IndexDamaged(f"{self.path}: {what}; restore the tables from a copy or build the index again")

    # -- states

    def refresh(self) -> None:
        """Look for a newer state at the next snapshot, however short ago the last look was."""
        self._looked = -LOOK_SECONDS

    @contextmanager
    def snapshot(self) -> Iterator[State]:
        """Everything read inside is of one moment, whatever a writer commits meanwhile. Can be nested."""
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
        """A snapshot whose body is ours alone, so that its errors are mapped too."""
        with translate_errors(self.path), self.snapshot() as state:
            yield state

    def _look(self) -> None:
        head, _ = read(self.tables)
        if head != self.moment.layout.head:
            moment = self._read()
            self._same_model(moment.layout.head.manifest)
            self._firsts.clear()
            self.moment = moment
            self._generation = max(self._generation + 1, self.moment.layout.head.generation)
        self._looked = monotonic()

    def _same_model(self, found: Manifest) -> None:
        if (found.model_hash, found.dim) != (self.moment.layout.head.model_hash, self.dim):
            raise ModelMismatch(
                f"{self.path}: has been made anew with another model, {found.model_name} ({found.model_hash[:12]}), "
                f"since it was opened; open it again"
            )

    def _read(self) -> Moment:
        head, _ = read(self.tables)
        layout = Layout.read(self.tables, head)
        tables = {name: self.tables.open(name, head.versions[name]) for name in DATA}
        if (found := tables[PHRASES].schema.field("vector").type.list_size) != head.dim:
            raise self.damaged(f"vectors of {found} numbers, {head.dim} in the head")
        if (stamp := Stamp.of(head)) is not None:
            with suppress(IndexMissing):  # derived from the sentences, which are read instead
                tables[WORDS] = self.tables.open(WORDS, stamp.version)
        return Moment(layout, tables)

    @property
    def layout(self) -> Layout:
        return self.moment.layout

    def table(self, name: str) -> Any:
        """A table at the version of this moment."""
        return self.moment.tables[name]

    def words(self) -> tuple[Any, int] | None:
        """The text index, and the id of the first sentence that it does not know; None if there is none."""
        table, stamp = self.moment.tables.get(WORDS), Stamp.of(self.layout.head)
        return None if table is None or stamp is None else (table, stamp.sentences)

    def state(self) -> State:
        """The counts. The generation grows even where the index was deleted and made anew: no two moments share it."""
        return self.layout.head.state._replace(generation=self._generation)

    def extra(self, key: str, **kinds: type) -> dict[str, Any] | None:
        """A stored JSON object with entries of these kinds (see `Head.from_json`), or None."""
        found: dict[str, Any] | None = self.layout.head.extras.get(key)
        if found is not None and not is_entry(found, kinds):
            raise self.damaged(f"the entry {key!r} of the table state is none of phrasemate's")
        return found

    # -- documents

    def documents(self) -> Iterator[DocumentInfo]:
        """All documents in the order of their ids."""
        for identity in sorted(self.layout.documents):
            yield self.layout.documents[identity]

    def document(self, identity: int) -> DocumentInfo:
        found = self.layout.documents.get(identity)
        if found is None:
            raise self.damaged(f"document {identity} is missing")
        return found

    # -- sentences

    def sentence_of(self, phrase: int) -> SentenceRow | None:
        """The sentence that holds a phrase id; None if that phrase was deleted."""
        return self.sentences_of([phrase])[0]

    def sentences_of(self, phrases: Sequence[int]) -> list[SentenceRow | None]:
        """The sentence of each phrase id, all read at once; None for those that were deleted."""
        top = self.state().next_phrase
        for phrase in phrases:
            if not 0 <= phrase < top:
                raise InputError(f"no phrase {phrase}: ids of this index are below {top}")
        dead = self.layout.dead_phrases.contains(np.array(phrases, np.int64))
        wanted = [None if gone else self._holder(phrase) for phrase, gone in zip(phrases, dead, strict=True)]
        ids = sorted({identity for identity in wanted if identity is not None})
        found = {row.id: row for row in self.sentences(ids)}
        for phrase, identity in zip(phrases, wanted, strict=True):
            if identity is not None:
                row = found[identity]
                if not row.first_phrase <= phrase < row.first_phrase + row.phrases:
                    raise self.damaged(f"phrase {phrase} is in no sentence and was never deleted")
        return [None if identity is None else found[identity] for identity in wanted]

    def vectors_of(self, phrases: Sequence[int]) -> NDArray[np.int8]:
        """(phrases, dim) int8 of ascending phrase ids, all read at once. Raises InputError for a deleted one."""
        if not len(phrases):
            return np.zeros((0, self.dim), np.int8)
        ids, dead, top = np.array(phrases, np.int64), self.layout.dead_phrases, self.state().next_phrase
        if ids[0] < 0 or ids[-1] >= top:
            raise InputError(f"no phrase {ids[0] if ids[0] < 0 else ids[-1]}: ids of this index are below {top}")
        if (gone := ids[dead.contains(ids)]).size:
            raise InputError(f"phrase {gone[0]} was deleted; search again")
        table = self._take(PHRASES, [phrase - dead.below(phrase) for phrase in phrases], ["key", "vector"])
        if not np.array_equal(self.layout.ids(table["key"].to_numpy()), ids):
            raise self.damaged("some phrases are not where they belong")
        return codes_of(table["vector"], self.dim)

    def _holder(self, phrase: int) -> int:
        """The id of the sentence that a phrase must be in."""
        number, place = self.layout.shard_of(phrase)
        if number not in self._firsts:
            self._firsts[number] = self._first_phrases(number)
            if len(self._firsts) > _SHARDS:
                self._firsts.popitem(last=False)
        self._firsts.move_to_end(number)
        ids, firsts = self._firsts[number]
        at = int(np.searchsorted(firsts, place, "right")) - 1
        if at < 0:
            raise self.damaged(f"phrase {phrase} is in no sentence and was never deleted")
        return int(ids[at])

    def _first_phrases(self, number: int) -> tuple[Ids, Ids]:
        """The live sentences of a shard that hold phrases: their ids, and the place of their first phrase there."""
        low, high = self.layout.sentences[number : number + 2].tolist()
        table = self._take(
            SENTENCES, range(self.layout.place(low), self.layout.place(high)), ["id", "first", "phrases"]
        )
        held = table["phrases"].to_numpy() > 0
        return table["id"].to_numpy()[held], table["first"].to_numpy()[held]

    def _take(self, name: str, places: Sequence[int], columns: list[str]) -> Any:
        with translate_errors(self.path):
            return self._full(name, self.table(name).take(list(places), columns=columns))

    def _full(self, name: str, found: Any) -> Any:
        """Some rows of a table. Raises IndexDamaged where one lacks a value."""
        if any(column.null_count for column in found.columns):
            raise self.damaged(f"a row of the table {name} lacks a value")
        return found

    def sentences(self, ids: Iterable[int]) -> Iterator[SentenceRow]:
        """Sentences by id, in the order of the ids. Raises IndexDamaged for one that is missing."""
        wanted = [int(identity) for identity in ids]
        top, dead = self.state().next_sentence, self.layout.dead_sentences
        for identity in wanted:
            if not 0 <= identity < top or dead.contains(np.array([identity]))[0]:
                raise self.damaged(f"sentence {identity} is missing")
        if not wanted:
            return
        table = self._take(SENTENCES, [self.layout.place(identity) for identity in wanted], _COLUMNS)
        for identity, row in zip(wanted, self._rows(table), strict=True):
            if row.id != identity:
                raise self.damaged(f"sentence {identity} is missing")
            yield row

    def all_sentences(self, document: int | None = None) -> Iterator[SentenceRow]:
        """All sentences, or those of a document, by id. Raises IndexDamaged if one is altered, missing or doubled."""
        yield from all_in_order(self._scanned(document), self, document)

    def _scanned(self, document: int | None) -> Iterator[SentenceRow]:
        if document is None:
            for batch in self.batches(SENTENCES, _COLUMNS):
                yield from self._rows(batch)
            return
        for stretch in self.layout.stretches.get(document, ()):
            for first in range(0, stretch.sentences, _BATCH):
                last = min(first + _BATCH, stretch.sentences)
                yield from self.sentences(range(stretch.first_sentence + first, stretch.first_sentence + last))

    def batches(self, name: str, columns: list[str], where: str | None = None) -> Iterator[Any]:
        """A table from its first row to its last, or the rows of a condition, some thousand rows at a time."""
        with translate_errors(self.path):
            found = self.table(name).to_batches(columns=columns, filter=where, batch_size=_BATCH, scan_in_order=True)
            yield from (self._full(name, batch) for batch in found)

    def near(self, sentence: SentenceRow, count: int) -> Iterator[SentenceRow]:
        """The sentences of the same document that stand at most ``count`` places from one, itself too, in order."""
        around = range(sentence.position - count, sentence.position + count + 1)
        found = (self.layout.sentence_at(sentence.document, position) for position in around)
        yield from self.sentences(identity for identity in found if identity is not None)

    def _rows(self, table: Any) -> Iterator[SentenceRow]:
        for raw in zip(*(table[name].to_pylist() for name in _COLUMNS), strict=True):
            *numbers, text, metadata, spans, crc = raw
            if not row_codec.same(crc, b"sentence", tuple(numbers), text, metadata, spans):
                raise self.damaged(f"sentence {raw[0]} does not match its checksum")
            identity, document, position, line, first, phrases = numbers
            first += self._base(*numbers)
            try:
                known = row_codec.decode_text(text), row_codec.decode_metadata(metadata)
            except (ValueError, RecursionError) as error:
                raise self.damaged(f"text or metadata of sentence {identity} are none of phrasemate's") from error
            yield SentenceRow(identity, document, position, line, first, phrases, *known, spans)

    def _base(self, identity: int, document: int, position: int, line: int, first: int, phrases: int) -> int:
        """The first phrase of a sentence's shard. Raises IndexDamaged for a row that its shard cannot hold."""
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

    def vectors(self, first_phrase: int = 0, document: int | None = None) -> Iterator[list[VectorRow]]:
        """Blocks of rows with a phrase id of ``first_phrase`` or above, or those of one document, by sentence id."""
        for block, _ in self.checked_vectors():
            kept = [row for row in block if row.first_phrase >= first_phrase and document in (None, row.document)]
            if kept:
                yield kept

    def checked_vectors(self) -> Iterator[tuple[list[VectorRow], list[bool]]]:
        """All vectors, a row for each sentence that has some, and whether each is as it was written."""
        held, at, end = np.zeros((0, self.dim), np.int8), 0, 0
        phrases = self.batches(PHRASES, ["vector"])
        for batch in self.batches(SENTENCES, ["id", "document", "first", "phrases", "codes_crc"]):
            block, right = [], []
            for identity, document, first, count, crc in zip(*(c.to_pylist() for c in batch.columns), strict=True):
                base = self.layout.base(identity)
                if count < 0 or not end <= base + first < MOST:
                    raise self.damaged(f"the vectors of sentence {identity} are out of order")
                end = base + first + count
                while len(held) - at < count and (more := next(phrases, None)) is not None:
                    held, at = np.concatenate([held[at:], codes_of(more["vector"], self.dim)]), 0
                codes, at = held[at : at + count].tobytes(), at + count
                if count:
                    block.append(VectorRow(identity, document, first + base, count, codes))
                    right.append(row_codec.same(crc, b"vectors", (identity, document, first, count), codes))
            yield block, right
        if at != len(held) or next(phrases, None) is not None:
            raise self.damaged("there are more vectors than the sentences have phrases")

    # -- deleted phrases

    def tombstones(self) -> Ids:
        """(runs, 2) int64: first id and count of each run of deleted phrases, ascending."""
        dead = self.layout.dead_phrases
        return np.stack([dead.first, dead.count], axis=1)


def codes_of(column: Any, dim: int) -> NDArray[np.int8]:
    """A column of vectors -> (n, dim) int8."""
    import pyarrow as pa

    flat = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(flat, pa.ChunkedArray):  # of no chunk
        return np.zeros((0, dim), np.int8)
    if flat.null_count:
        raise IndexDamaged("a phrase without a vector was found; restore the tables from a copy or build them again")
    return np.asarray(flat.flatten().to_numpy(zero_copy_only=False), np.float16).reshape(-1, dim).astype(np.int8)
