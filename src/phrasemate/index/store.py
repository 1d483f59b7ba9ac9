"""The store: one SQLite file that is the truth about an index, its connection, and the checks when it is opened.

This file reads it; ``transactions.py`` changes it. Every row carries a checksum that is compared whenever the row is
read, and every scan compares its rows with the counts. A phrase id that is neither live nor known as deleted is damage:
nothing is ever silently missing.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import (
    IndexDamaged,
    IndexExists,
    IndexLocked,
    IndexMissing,
    InputError,
    ModelMismatch,
    PhraseIndexError,
)
from phrasemate.index import row_codec, schema
from phrasemate.index.manifest import INDEX_JSON, PARTIAL, VECTORS_JSON, Manifest, VectorsManifest
from phrasemate.index.schema import LOCK_FILE, NOTE_FILE
from phrasemate.index.types import DocumentInfo, IndexModel
from phrasemate.utils.storage import durable_folder, is_entry

_BATCH = 256
_OTHER = re.compile("[^A-Za-z0-9]+")  # what JSON may write otherwise, LIKE takes for a sign, or has another capital
_MOST = 1 << 53  # ids and counts are less, and so are exact as floats
_SENTENCE = (
    "id, document, position, line, first_phrase, phrases, CAST(text AS BLOB), CAST(metadata AS BLOB), spans, crc"
)
_VECTORS = "id, document, first_phrase, phrases, codes, crc"
_DOCUMENT = "id, CAST(name AS BLOB), CAST(language AS BLOB), CAST(digest AS BLOB), complete, sentences, phrases, crc"


class State(NamedTuple):
    """Counts of a store. Ids are given in ascending order and never again, so next - live = deleted."""

    generation: int
    documents: int
    sentences: int
    phrases: int
    next_document: int
    next_sentence: int
    next_phrase: int


class SentenceRow(NamedTuple):
    id: int
    document: int
    position: int
    line: int
    first_phrase: int
    phrases: int
    text: str
    metadata: dict[str, Any]
    spans: bytes


class VectorRow(NamedTuple):
    id: int
    document: int
    first_phrase: int
    phrases: int
    codes: bytes


def all_in_order(
    rows: Iterable[SentenceRow], document: int | None, count_due: int, damaged: Callable[[str], IndexDamaged]
) -> Iterator[SentenceRow]:
    """Yield sentences as they come; raises ``damaged`` unless they are so many, by id, and of the document, if any."""
    count, last = 0, -1
    for row in rows:
        if row.id <= last or document not in (None, row.document):
            raise damaged(f"sentence {row.id} is out of order")
        count, last = count + 1, row.id
        yield row
    if count != count_due:
        raise damaged(f"{count} sentences found, expected {count_due}")


class Store:
    """An open store, safe to share between threads: one works at a time.

    ``dim`` and ``model_hash``: of the model that it was opened for (None: any). A file that had to be opened as
    immutable has no log that SQLite would look at, so we look for a writer ourselves.
    """

    def __init__(self, path: Path, dim: int, readonly: bool = False, model_hash: str | None = None) -> None:
        self.path, self.dim, self.model_hash = path, dim, model_hash
        self.lock = RLock()
        self._frozen: State | None = None  # of the snapshot that is being read
        with schema.translate_errors(path):
            self._take(schema.connect(path, readonly))

    def _take(self, opened: schema.OpenConnection) -> None:
        self.connection, self.readonly, self._immutable = opened
        self.file = schema.mark(self.path).file

    def close(self) -> None:
        with self.lock:  # SQLite ends the process where a connection is closed that another thread reads
            self.connection.close()

    def same(self) -> None:
        """Raise PhraseIndexError unless the file at the path is the one that was opened."""
        if schema.mark(self.path).file != self.file:
            raise PhraseIndexError(f"{self.path}: was rebuilt or removed since it was opened; open it again")

    def checkpoint(self) -> None:
        """Merge the log into the file, as far as readers allow at once; the rest is merged later."""
        with self.lock, schema.translate_errors(self.path):
            self.connection.execute("PRAGMA busy_timeout = 0")
            try:
                self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            finally:
                self.connection.execute(f"PRAGMA busy_timeout = {int(1000 * schema.BUSY_SECONDS)}")

    @contextmanager
    def moment(self) -> Iterator[None]:
        """Freeze one state of the store for all reads inside, whatever a writer commits meanwhile. Can be nested."""
        with self.lock:
            with schema.translate_errors(self.path):
                outermost = not self.connection.in_transaction
            if not outermost:
                yield
                return
            self._renew()
            with self._unchanged():
                try:
                    with schema.translate_errors(self.path):
                        self.connection.execute("BEGIN")
                    yield
                finally:
                    if self.connection.in_transaction:
                        self.connection.execute("ROLLBACK")

    @contextmanager
    def snapshot(self) -> Iterator[State]:
        """Everything read inside is of one moment, whatever a writer commits meanwhile. Can be nested.

        Raises IndexLocked where a file without write permission is changed meanwhile.
        """
        with self.lock:
            if self._frozen is not None:
                yield self._frozen
                return
            with self.moment():
                with schema.translate_errors(self.path):
                    self._frozen = state = self.state()
                try:
                    yield state
                finally:
                    self._frozen = None

    @contextmanager
    def reading(self) -> Iterator[State]:
        """Snapshot that also turns SQLite's errors into errors of phrasemate."""
        with schema.translate_errors(self.path), self.snapshot() as state:
            yield state

    def damaged(self, what: str) -> IndexDamaged:
        return IndexDamaged(f"{self.path}: {what}; restore the store from a copy or build the index again")

    def state(self) -> State:
        """The row of counts: that of the snapshot that is being read, else the latest. Raises IndexDamaged."""
        if self._frozen is not None:
            return self._frozen
        row = self.connection.execute(f"SELECT {', '.join(State._fields)}, crc FROM state WHERE id = 1").fetchone()
        if row is None or not row_codec.same(row[-1], b"state", row[:-1]):
            raise self.damaged("the row of counts does not match its checksum")
        self._counted("the row of counts", *row[:-1])
        return State(*row[:-1])

    def extra(self, key: str, **kinds: type) -> dict[str, Any] | None:
        """Stored JSON object with entries of these kinds (``int``, or ``list``, of texts), or None."""
        for name, value, crc in self.connection.execute(
            "SELECT CAST(key AS BLOB), CAST(value AS BLOB), crc FROM extras"
        ):
            if not row_codec.same(crc, b"extra", (), name, value):
                raise self.damaged("an entry of the table extras does not match its checksum")
            if name == row_codec.encode_text(key):
                with suppress(ValueError, RecursionError):
                    content = json.loads(value)
                    if is_entry(content, kinds):
                        return dict(content)
                raise self.damaged(f"the entry {key!r} of the table extras is none of phrasemate's")
        return None

    def _counted(self, what: str, *numbers: int) -> None:
        """Raise IndexDamaged for ids and counts that no store reaches: a forged row can have a valid checksum."""
        if min(numbers) < 0 or max(numbers) >= _MOST:
            raise self.damaged(f"{what} has numbers that phrasemate never writes ({', '.join(map(str, numbers))})")

    # -- documents

    def documents(self) -> Iterator[DocumentInfo]:
        """Read the documents in the order of their ids. Raises IndexDamaged if one is altered or missing."""
        count, last = 0, -1
        for row in self.connection.execute(f"SELECT {_DOCUMENT} FROM documents ORDER BY id"):
            document = self._document(row)
            if document.id <= last:
                raise self.damaged(f"document {document.id} is out of order")
            count, last = count + 1, document.id
            yield document
        if count != (document_count := self.state().documents):
            raise self.damaged(f"{count} documents found, expected {document_count}")

    def document(self, identity: int) -> DocumentInfo:
        row = self.connection.execute(f"SELECT {_DOCUMENT} FROM documents WHERE id = ?", (identity,)).fetchone()
        if row is None:
            raise self.damaged(f"document {identity} is missing")
        return self._document(row)

    def _document(self, row: tuple[Any, ...]) -> DocumentInfo:
        identity, name, language, digest, complete, sentences, phrases, crc = row
        if not row_codec.same(crc, b"document", (identity, complete, sentences, phrases), name, language, digest):
            raise self.damaged(f"document {identity} does not match its checksum")
        self._counted("a document", identity, sentences, phrases)
        return DocumentInfo(
            identity,
            row_codec.decode_text(name),
            row_codec.decode_text(language),
            row_codec.decode_text(digest),
            bool(complete),
            sentences,
            phrases,
        )

    # -- sentences

    def sentences_of(self, phrases: Sequence[int]) -> list[SentenceRow | None]:
        """The sentence of each phrase id, each read once, by one statement; None for phrases that were deleted."""
        query = (
            f"WITH places(place) AS (SELECT value FROM json_each(?)) SELECT place, {_SENTENCE} FROM places "
            f"JOIN sentences ON id = (SELECT id FROM sentences WHERE phrases > 0 AND first_phrase <= place "
            f"ORDER BY first_phrase DESC LIMIT 1)"
        )
        rows: dict[int, SentenceRow] = {}  # by sentence
        place_of: dict[int, int] = {}
        for place, *raw in self.connection.execute(query, (json.dumps(phrases),)):
            if raw[0] not in rows:
                rows[raw[0]] = self._sentence(tuple(raw))
            place_of[place] = raw[0]
        sentences = []
        for phrase in phrases:
            row = rows.get(place_of.get(phrase, -1))
            if row is None or not row.first_phrase <= phrase < row.first_phrase + row.phrases:
                self._check_deleted(phrase)
                row = None
            sentences.append(row)
        return sentences

    def _check_deleted(self, phrase: int) -> None:
        if not 0 <= phrase < self.state().next_phrase:
            raise InputError(f"no phrase {phrase}: ids of this index are below {self.state().next_phrase}")
        if not self._is_tombstone(phrase):
            raise self.damaged(f"phrase {phrase} is in no sentence and was never deleted")

    def sentences(self, ids: Iterable[int]) -> Iterator[SentenceRow]:
        """Read sentences by id, in the order of the ids. Raises IndexDamaged for one that is missing."""
        for identity in ids:
            raw = self.connection.execute(
                f"SELECT {_SENTENCE} FROM sentences WHERE id = ?", (int(identity),)
            ).fetchone()
            if raw is None:
                raise self.damaged(f"sentence {identity} is missing")
            yield self._sentence(raw)

    def all_sentences(self, document: int | None = None) -> Iterator[SentenceRow]:
        """Read the sentences, or those of a document, by id. Raises IndexDamaged: altered, absent or doubled ones."""
        count_due = (self.state() if document is None else self.document(document)).sentences
        where, order, parameters = (
            ("", "id", ()) if document is None else ("WHERE document = ?", "position", (document,))
        )
        cursor = self.connection.execute(f"SELECT {_SENTENCE} FROM sentences {where} ORDER BY {order}", parameters)
        yield from all_in_order(map(self._sentence, cursor), document, count_due, self.damaged)

    def sentences_after(self, sentence: int, count: int, document: int | None = None) -> list[SentenceRow]:
        """The next ``count`` sentences after an id, or those of a document, by id."""
        where, parameters = ("", ()) if document is None else ("AND document = ?", (document,))
        query = f"SELECT {_SENTENCE} FROM sentences WHERE id > ? {where} ORDER BY id LIMIT ?"
        return [self._sentence(raw) for raw in self.connection.execute(query, (sentence, *parameters, count))]

    def translated_sentences(self, fragment: str = "", after: int = -1) -> Iterator[SentenceRow]:
        """The sentences with a translation that may hold ``fragment``, by id; the caller compares the texts.

        ``after``: only those with a higher id.
        """
        query = f"SELECT {_SENTENCE} FROM sentences WHERE id > ? AND metadata LIKE ? ORDER BY id"
        pattern = '%"translation":%' + _OTHER.sub("%", fragment) + "%"
        rows = map(self._sentence, self.connection.execute(query, (after, pattern)))
        return (row for row in rows if "translation" in row.metadata)

    def sentences_of_phrases(self, low: int, high: int) -> Iterator[SentenceRow]:
        """The sentences whose phrases have ids of ``low`` to below ``high``, by id."""
        first, last = self._from(low), self._from(high)
        query = f"SELECT {_SENTENCE} FROM sentences WHERE phrases > 0 AND id >= ? AND id < ? ORDER BY id"
        yield from map(self._sentence, self.connection.execute(query, (first, last)))

    def next_sentence_start(self, phrase: int) -> int:
        """The id of the first phrase of the first sentence that begins at this phrase id or after it."""
        query = "SELECT min(first_phrase) FROM sentences WHERE phrases > 0 AND first_phrase >= ?"
        start = self.connection.execute(query, (phrase,)).fetchone()[0]
        return self.state().next_phrase if start is None else int(start)

    def near(self, sentence: SentenceRow, count: int) -> Iterator[SentenceRow]:
        """The sentences of the same document that stand at most ``count`` places from one, itself too, in order."""
        query = f"SELECT {_SENTENCE} FROM sentences WHERE document = ? AND position BETWEEN ? AND ? ORDER BY position"
        place = (sentence.document, sentence.position - count, sentence.position + count)
        yield from map(self._sentence, self.connection.execute(query, place))

    def _sentence(self, raw: tuple[Any, ...]) -> SentenceRow:
        *numbers, text, metadata, spans, crc = raw
        if not row_codec.same(crc, b"sentence", tuple(numbers), text, metadata, spans):
            raise self.damaged(f"sentence {raw[0]} does not match its checksum")
        self._counted("a sentence", *numbers)
        try:
            content = row_codec.decode_metadata(metadata)
        except (ValueError, RecursionError) as error:
            raise self.damaged(f"the metadata of sentence {raw[0]} are none of phrasemate's") from error
        return SentenceRow._make([*numbers, row_codec.decode_text(text), content, spans])

    # -- vectors

    def vectors(self, first_phrase: int = 0, document: int | None = None) -> Iterator[list[VectorRow]]:
        """Blocks of rows with a phrase id of ``first_phrase`` or above, or those of one document, by sentence id.

        The caller compares the number of phrases with the count that it expects.
        """
        if document is not None:
            where = "WHERE id IN (SELECT id FROM sentences WHERE document = ?)"
            cursor = self.connection.execute(f"SELECT {_VECTORS} FROM vectors {where} ORDER BY id", (document,))
        else:
            cursor = self.connection.execute(
                f"SELECT {_VECTORS} FROM vectors WHERE id >= ? ORDER BY id", (self._from(first_phrase),)
            )
        last = (-1, 0)  # the last sentence id, and where its phrases end
        while batch := cursor.fetchmany(_BATCH):
            block = [self._vector(raw) for raw in batch]
            for row in block:
                if row.id <= last[0] or row.first_phrase < last[1] or document not in (None, row.document):
                    raise self.damaged(f"the vectors of sentence {row.id} are out of order")
                last = (row.id, row.first_phrase + row.phrases)
            yield block

    def vectors_of(self, phrases: Sequence[int]) -> NDArray[np.int8]:
        """(phrases, dim) int8 of ascending phrase ids, each sentence read once. Raises InputError for a deleted one."""
        codes = np.empty((len(phrases), self.dim), np.int8)
        row: VectorRow | None = None
        for place, (phrase, sentence) in enumerate(zip(phrases, self.sentences_of(phrases), strict=True)):
            if sentence is None:
                raise InputError(f"phrase {phrase} was deleted; search again")
            if row is None or row.id != sentence.id:
                raw = self.connection.execute(f"SELECT {_VECTORS} FROM vectors WHERE id = ?", (sentence.id,)).fetchone()
                row = None if raw is None else self._vector(raw)
                if row is None or row[2:4] != (sentence.first_phrase, sentence.phrases):
                    raise self.damaged(f"the vectors of sentence {sentence.id} are missing or of other phrases")
            codes[place] = np.frombuffer(row.codes, np.int8).reshape(-1, self.dim)[phrase - row.first_phrase]
        return codes

    def sampled_vectors(self, count: int, pieces: int = 256) -> NDArray[np.int8]:
        """About ``count`` (n, dim) int8 vectors in up to ``pieces`` runs spread evenly over the store."""
        codes = b"".join(row.codes for row in self.sampled_rows(count, pieces))
        return np.frombuffer(codes, np.int8).reshape(-1, self.dim)

    def sampled_rows(self, count: int, pieces: int) -> list[VectorRow]:
        """Sample rows as `sampled_vectors` does, by sentence id; a range with too few phrases is made up for by the
        others.
        """
        first, last = self.connection.execute("SELECT min(id), max(id) FROM sentences").fetchone()
        if first is None:
            return []
        bounds = np.linspace(first, last + 1, min(pieces, last + 1 - first) + 1).astype(int).tolist()
        places = list(pairwise(bounds))
        rows: list[VectorRow] = []
        draw_count = 0
        while places and draw_count < count:
            more, places = self._drawn(places, count - draw_count)
            rows += more
            draw_count += sum(row.phrases for row in more)
        return sorted(rows)

    def _drawn(self, places: Sequence[tuple[int, int]], count: int) -> tuple[list[VectorRow], list[tuple[int, int]]]:
        """Rows of about ``count`` phrases from ranges of sentence ids, one at least of each, and what is left of them.

        A range makes up for what those before it had too little of.
        """
        rows: list[VectorRow] = []
        rest = []
        in_all = 0
        for number, (start, end) in enumerate(places):
            size = min(0, in_all - number * count // len(places))
            in_all -= size
            query = f"SELECT {_VECTORS} FROM vectors WHERE id >= ? AND id < ? ORDER BY id"
            for raw in self.connection.execute(query, (start, end)):
                row = self._vector(raw)
                rows.append(row)
                size += row.phrases
                if size * len(places) >= count:
                    rest.append((row.id + 1, end))
                    break
            in_all += size
        return rows, rest

    def _from(self, first_phrase: int) -> int:
        """The first sentence whose phrases begin at ``first_phrase`` or above: ids and phrases ascend together."""
        if first_phrase <= 0:
            return 0
        query = "SELECT id FROM sentences WHERE phrases > 0 AND first_phrase >= ? ORDER BY first_phrase LIMIT 1"
        row = self.connection.execute(query, (first_phrase,)).fetchone()
        return self.state().next_sentence if row is None else int(row[0])

    def _vector(self, raw: tuple[Any, ...]) -> VectorRow:
        *numbers, codes, crc = raw
        if not row_codec.same(crc, b"vectors", tuple(numbers), codes) or len(codes) != numbers[3] * self.dim:
            raise self.damaged(f"the vectors of sentence {raw[0]} do not match their checksum")
        return VectorRow._make([*numbers, codes])

    # -- deleted phrases

    def tombstones(self) -> NDArray[np.int64]:
        """(runs, 2) int64: first id and count of each run of deleted phrases, ascending."""
        cursor = self.connection.execute(
            "SELECT first_phrase, phrases, crc FROM tombstones ORDER BY first_phrase"
        ).fetchall()
        if not all(row_codec.same(crc, b"tombstone", (first, count)) for first, count, crc in cursor):
            raise self.damaged("the list of deleted phrases does not match its checksums")
        runs = np.array([row[:2] for row in cursor], np.int64).reshape(-1, 2)
        state = self.state()
        if runs[:, 1].sum() != state.next_phrase - state.phrases or (runs[1:, 0] < runs[:-1].sum(axis=1)).any():
            raise self.damaged("the list of deleted phrases does not match the counts")
        return runs

    def _is_tombstone(self, phrase: int) -> bool:
        query = (
            "SELECT first_phrase, phrases, crc FROM tombstones WHERE first_phrase <= ? ORDER BY "
            "first_phrase DESC LIMIT 1"
        )
        row = self.connection.execute(query, (phrase,)).fetchone()
        return row is not None and row_codec.same(row[2], b"tombstone", row[:2]) and row[0] <= phrase < row[0] + row[1]

    # -- a file that was opened as immutable

    def _renew(self) -> None:
        """Reopen an immutable file if a writer has changed it.

        Raises IndexLocked where a writer's log cannot be read, PhraseIndexError as `same` does: what is known of
        another file is not of this one.
        """
        if not self._has_writer():
            return
        self.same()
        try:
            with schema.translate_errors(self.path):
                connection = schema.connect(self.path, readonly=True)
        except PhraseIndexError as error:
            raise self._written() from error
        self.connection.close()
        self._take(connection)

    @contextmanager
    def _unchanged(self) -> Iterator[None]:
        """Raise IndexLocked if the file changed during the read, so that it is of two states or looks damaged."""
        try:
            yield
        except (IndexDamaged, UnicodeDecodeError, sqlite3.Error) as error:
            if self._has_writer():
                raise self._written() from error
            raise
        if self._immutable is not None and schema.mark(self.path) != self._immutable:
            raise self._written()

    def _has_writer(self) -> bool:
        """Whether the file has changed since it was opened, or a log has newer rows."""
        if self._immutable is None:
            return False
        return schema.mark(self.path) != self._immutable or schema.has_log(self.path)

    def _written(self) -> IndexLocked:
        return IndexLocked(f"{self.path}: is being written by another process; try again when it has finished")


_LEFT_BY_CREATE = {LOCK_FILE, NOTE_FILE, INDEX_JSON + PARTIAL}  # all that a killed create leaves before index.json


def make_folder(folder: Path) -> None:
    """Make the folder of a new index. Raises IndexExists if it holds anything but what a killed ``create`` left."""
    with schema.translate_errors(folder):
        if folder.exists() and not folder.is_dir():
            raise IndexExists(f"{folder}: is a file; choose another place for the index")
        durable_folder(folder)
        names = {file.name for file in folder.iterdir()}
    if names - _LEFT_BY_CREATE:
        if INDEX_JSON in names:
            raise IndexExists(f"{folder}: already holds an index; open it with Index.open, or choose another folder")
        raise IndexExists(f"{folder}: is neither empty nor an index; choose a new or an empty folder")


def check_model(folder: Path | str, manifest: Manifest, model: IndexModel) -> None:
    if model.hash != manifest.model_hash or model.dim != manifest.dim:
        raise ModelMismatch(
            f"{folder}: was built with the model {manifest.model_name} ({manifest.model_hash[:12]}), "
            f"not with {model.name} ({model.hash[:12]}); open it with that model, or run: "
            f"phrasemate index upgrade {folder}"
        )


def unfinished(folder: Path) -> IndexMissing:
    """Error for an index whose creation was interrupted: there is an index.json, but an empty store."""
    return IndexMissing(
        f"{folder}: the index is being made, or its making was stopped; try again, or continue with: "
        f"phrasemate index TEXT -o {folder}"
    )


def vectors_generation(folder: Path) -> int:
    """The generation of vectors.json, 0 if it is absent or must be repaired."""
    try:
        return VectorsManifest.read(folder / VECTORS_JSON).generation
    except PhraseIndexError:
        return 0


def check_store(store: Store, manifest: Manifest, newest: int) -> None:
    """Finish an interrupted ``create``, or check that the store is of this format and has all that was committed.

    Raises IndexMissing for what only a writer can finish, IndexDamaged, IndexLocked where a file without write
    permission is changed meanwhile.
    """
    with schema.translate_errors(store.path), store.lock:
        if manifest.generation == 0 and schema.is_empty(store.connection):
            if store.readonly:
                raise unfinished(store.path)
            schema.initialise(store.connection, store.path)
    with store.moment():
        with schema.translate_errors(store.path):
            schema.verify_schema(store.connection, store.path)
        with store.reading() as state:
            if state.generation < newest:
                raise IndexDamaged(
                    f"{store.path}: the store is at generation {state.generation}, expected {newest} or above: "
                    "its newest part (store.sqlite-wal) was lost; restore it or build the index again"
                )


def current_manifest(store: Store) -> Manifest:
    """Read ``index.json``, checked against the open store.

    Raises PhraseIndexError if the file is no longer the one that was opened, to which new rows and derived files would
    not belong. Raises ModelMismatch if the index was created again with another model, IndexMissing, IndexDamaged.
    """
    store.same()
    manifest = Manifest.read(store.path / INDEX_JSON)
    check_rebuilt(store.path, manifest, store.dim, store.model_hash)
    return manifest


def check_rebuilt(path: Path | str, manifest: Manifest, dim: int, model_hash: str | None) -> None:
    """Raise ModelMismatch if an index was made again with another model than that which it was opened for."""
    if manifest.dim != dim or model_hash not in (None, manifest.model_hash):
        raise ModelMismatch(
            f"{path}: has been rebuilt with another model, {manifest.model_name} "
            f"({manifest.model_hash[:12]}), since it was opened; open it again"
        )
