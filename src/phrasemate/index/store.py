"""The store of an index: one SQLite file with its documents, sentences and vectors, and the checks at opening.

All other files of an index are derived from the store. This module reads it, and ``transactions.py`` changes it. Every
row has a checksum that is compared whenever the row is read, and every scan compares the number of rows with the stored
counts. A phrase id that is neither live nor recorded as deleted is damage. So no row can be missing unnoticed.
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

_BATCH = 256  # rows of vectors per block
# Characters that JSON may escape, that LIKE takes for wildcards, or that have case variants LIKE does not know.
_OTHER = re.compile("[^A-Za-z0-9]+")
_MOST = 1 << 53  # all ids and counts are below this, so they are exact as floats
_SENTENCE = (
    "id, document, position, line, first_phrase, phrases, CAST(text AS BLOB), CAST(metadata AS BLOB), spans, crc"
)
_VECTORS = "id, document, first_phrase, phrases, codes, crc"
_DOCUMENT = "id, CAST(name AS BLOB), CAST(language AS BLOB), CAST(digest AS BLOB), complete, sentences, phrases, crc"


class State(NamedTuple):
    """Row of counts of a store.

    ``documents``, ``sentences`` and ``phrases`` count the live ones; ``next_…`` is the id that the next new one gets.
    Ids ascend and are never used again, so ``next_phrase - phrases`` is the number of deleted phrases.
    """

    generation: int
    documents: int
    sentences: int
    phrases: int
    next_document: int
    next_sentence: int
    next_phrase: int


class SentenceRow(NamedTuple):
    """Sentence of the store. Its phrases have the ids from ``first_phrase`` on; ``spans`` are packed (`row_codec`)."""

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
    """Vectors of the phrases of a sentence. ``codes``: (phrases, dim) int8 as bytes. ``id``: id of the sentence."""

    id: int
    document: int
    first_phrase: int
    phrases: int
    codes: bytes


def all_in_order(
    rows: Iterable[SentenceRow], document: int | None, count_due: int, damaged: Callable[[str], IndexDamaged]
) -> Iterator[SentenceRow]:
    """Yield the rows unchanged, and check them.

    Args:
        rows: Sentences.
        document: Document that all of them must belong to; None for any.
        count_due: Expected number of rows.
        damaged: Makes the error for a message.

    Raises IndexDamaged unless the ids ascend and the number of rows is as expected.
    """
    count, last = 0, -1
    for row in rows:
        if row.id <= last or document not in (None, row.document):
            raise damaged(f"sentence {row.id} is out of order")
        count, last = count + 1, row.id
        yield row
    if count != count_due:
        raise damaged(f"{count} sentences found, expected {count_due}")


class Store:
    """Open store. Threads may share it; they take turns.

    ``dim`` and ``model_hash`` are those of the model that the store was opened for; without ``model_hash`` any model of
    the same ``dim`` is accepted. If the file had to be opened as immutable, SQLite does not notice writers, so this
    class checks for them.
    """

    def __init__(self, path: Path, dim: int, readonly: bool = False, model_hash: str | None = None) -> None:
        self.path, self.dim, self.model_hash = path, dim, model_hash
        self.lock = RLock()
        self._frozen: State | None = None  # state of the snapshot that is open
        with schema.translate_errors(path):
            self._use(schema.connect(path, readonly))

    def _use(self, opened: schema.OpenConnection) -> None:
        """Use a connection from now on."""
        self.connection, self.readonly, self._immutable = opened
        self.file = schema.mark(self.path).file

    def close(self) -> None:
        """Close the connection, after the reads of other threads have ended."""
        with self.lock:  # SQLite crashes if a connection is closed while another thread reads from it
            self.connection.close()

    def same(self) -> None:
        """Raise PhraseIndexError unless the file at the path is the one that was opened."""
        if schema.mark(self.path).file != self.file:
            raise PhraseIndexError(f"{self.path}: was rebuilt or removed since it was opened; open it again")

    def checkpoint(self) -> None:
        """Merge the write-ahead log into the file, as far as readers permit; the rest is merged later."""
        with self.lock, schema.translate_errors(self.path):
            self.connection.execute("PRAGMA busy_timeout = 0")
            try:
                self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            finally:
                self.connection.execute(f"PRAGMA busy_timeout = {int(1000 * schema.BUSY_SECONDS)}")

    @contextmanager
    def moment(self) -> Iterator[None]:
        """Hold a read transaction: all reads inside see the same state of the store. Calls can be nested."""
        with self.lock:
            with schema.translate_errors(self.path):
                outermost = not self.connection.in_transaction
            if not outermost:
                yield
                return
            self._reopen_if_changed()
            with self._check_unchanged():
                try:
                    with schema.translate_errors(self.path):
                        self.connection.execute("BEGIN")
                    yield
                finally:
                    if self.connection.in_transaction:
                        self.connection.execute("ROLLBACK")

    @contextmanager
    def snapshot(self) -> Iterator[State]:
        """Hold a snapshot and yield its state: all reads inside see it, whatever a writer commits. Can be nested.

        Raises IndexLocked if a file that was opened as immutable is changed meanwhile.
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
        """Hold a `snapshot`, and translate errors of SQLite into errors of phrasemate."""
        with schema.translate_errors(self.path), self.snapshot() as state:
            yield state

    def damaged(self, what: str) -> IndexDamaged:
        """Return the error for damage of the store. ``what``: description of the damage."""
        return IndexDamaged(f"{self.path}: {what}; restore the store from a copy or build the index again")

    def state(self) -> State:
        """Return the row of counts of the open snapshot, or the latest one without a snapshot. Raises IndexDamaged."""
        if self._frozen is not None:
            return self._frozen
        row = self.connection.execute(f"SELECT {', '.join(State._fields)}, crc FROM state WHERE id = 1").fetchone()
        if row is None or not row_codec.same(row[-1], b"state", row[:-1]):
            raise self.damaged("the row of counts does not match its checksum")
        self._check_numbers("the row of counts", *row[:-1])
        return State(*row[:-1])

    def extra(self, key: str, **kinds: type) -> dict[str, Any] | None:
        """Return the JSON object that is stored under a key, or None.

        ``kinds``: types of its entries by name; ``int``, or ``list`` for a list of texts. Raises IndexDamaged if an
        entry has another type or a checksum does not match.
        """
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
                raise self.damaged(f"the entry {key!r} of the table extras is not as phrasemate writes it")
        return None

    def _check_numbers(self, what: str, *numbers: int) -> None:
        """Raise IndexDamaged for ids and counts that no store reaches: a forged row can have a valid checksum."""
        if min(numbers) < 0 or max(numbers) >= _MOST:
            raise self.damaged(f"{what} has numbers that phrasemate never writes ({', '.join(map(str, numbers))})")

    # -- documents

    def documents(self) -> Iterator[DocumentInfo]:
        """Yield the documents in the order of their ids. Raises IndexDamaged if one is altered or missing."""
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
        """Return a document by id. Raises IndexDamaged if it is altered or missing."""
        row = self.connection.execute(f"SELECT {_DOCUMENT} FROM documents WHERE id = ?", (identity,)).fetchone()
        if row is None:
            raise self.damaged(f"document {identity} is missing")
        return self._document(row)

    def _document(self, row: tuple[Any, ...]) -> DocumentInfo:
        """Check and decode a row of the table of documents."""
        identity, name, language, digest, complete, sentences, phrases, crc = row
        if not row_codec.same(crc, b"document", (identity, complete, sentences, phrases), name, language, digest):
            raise self.damaged(f"document {identity} does not match its checksum")
        self._check_numbers("a document", identity, sentences, phrases)
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
        """Return the sentence of each phrase id, or None for a deleted phrase.

        A sentence with several of the phrases is checked and decoded once. Raises InputError for an id that was never
        given, and IndexDamaged.
        """
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
        """Check that a phrase that is in no sentence was deleted. Raises InputError or IndexDamaged."""
        if not 0 <= phrase < self.state().next_phrase:
            top = self.state().next_phrase
            raise InputError(f"no phrase {phrase}: ids start at 0, and this index has used {top} of them")
        if not self._is_tombstone(phrase):
            raise self.damaged(f"phrase {phrase} is in no sentence and was never deleted")

    def sentences(self, ids: Iterable[int]) -> Iterator[SentenceRow]:
        """Yield sentences by id, in the order of the ids. Raises IndexDamaged if one is missing."""
        for identity in ids:
            raw = self.connection.execute(
                f"SELECT {_SENTENCE} FROM sentences WHERE id = ?", (int(identity),)
            ).fetchone()
            if raw is None:
                raise self.damaged(f"sentence {identity} is missing")
            yield self._sentence(raw)

    def all_sentences(self, document: int | None = None) -> Iterator[SentenceRow]:
        """Yield all sentences, or those of a document, in the order of their ids.

        Raises IndexDamaged if one is altered, missing or doubled.
        """
        count_due = (self.state() if document is None else self.document(document)).sentences
        where, order, parameters = (
            ("", "id", ()) if document is None else ("WHERE document = ?", "position", (document,))
        )
        cursor = self.connection.execute(f"SELECT {_SENTENCE} FROM sentences {where} ORDER BY {order}", parameters)
        yield from all_in_order(map(self._sentence, cursor), document, count_due, self.damaged)

    def sentences_after(self, sentence: int, count: int, document: int | None = None) -> list[SentenceRow]:
        """Return up to ``count`` sentences with ids above ``sentence``, ascending; of ``document`` only, if given."""
        where, parameters = ("", ()) if document is None else ("AND document = ?", (document,))
        query = f"SELECT {_SENTENCE} FROM sentences WHERE id > ? {where} ORDER BY id LIMIT ?"
        return [self._sentence(raw) for raw in self.connection.execute(query, (sentence, *parameters, count))]

    def translated_sentences(self, fragment: str = "", after: int = -1) -> Iterator[SentenceRow]:
        """Yield the sentences with a translation that may contain ``fragment``, in the order of their ids.

        The caller compares the texts. ``after``: yield only sentences with a higher id.
        """
        query = f"SELECT {_SENTENCE} FROM sentences WHERE id > ? AND metadata LIKE ? ORDER BY id"
        pattern = '%"translation":%' + _OTHER.sub("%", fragment) + "%"
        rows = map(self._sentence, self.connection.execute(query, (after, pattern)))
        return (row for row in rows if "translation" in row.metadata)

    def sentences_of_phrases(self, low: int, high: int) -> Iterator[SentenceRow]:
        """Yield the sentences with phrase ids from ``low`` to below ``high``, in the order of their ids."""
        first, last = self._from(low), self._from(high)
        query = f"SELECT {_SENTENCE} FROM sentences WHERE phrases > 0 AND id >= ? AND id < ? ORDER BY id"
        yield from map(self._sentence, self.connection.execute(query, (first, last)))

    def next_sentence_start(self, phrase: int) -> int:
        """Return the lowest phrase id of at least ``phrase`` that begins a sentence, or the next unused phrase id."""
        query = "SELECT min(first_phrase) FROM sentences WHERE phrases > 0 AND first_phrase >= ?"
        start = self.connection.execute(query, (phrase,)).fetchone()[0]
        return self.state().next_phrase if start is None else int(start)

    def near(self, sentence: SentenceRow, count: int) -> Iterator[SentenceRow]:
        """Yield a sentence and up to ``count`` sentences before and after it in its document, in text order."""
        query = f"SELECT {_SENTENCE} FROM sentences WHERE document = ? AND position BETWEEN ? AND ? ORDER BY position"
        place = (sentence.document, sentence.position - count, sentence.position + count)
        yield from map(self._sentence, self.connection.execute(query, place))

    def _sentence(self, raw: tuple[Any, ...]) -> SentenceRow:
        """Check and decode a row of the table of sentences."""
        *numbers, text, metadata, spans, crc = raw
        if not row_codec.same(crc, b"sentence", tuple(numbers), text, metadata, spans):
            raise self.damaged(f"sentence {raw[0]} does not match its checksum")
        self._check_numbers("a sentence", *numbers)
        try:
            content = row_codec.decode_metadata(metadata)
        except (ValueError, RecursionError) as error:
            raise self.damaged(f"the metadata of sentence {raw[0]} are not as phrasemate writes them") from error
        return SentenceRow._make([*numbers, row_codec.decode_text(text), content, spans])

    # -- vectors

    def vectors(self, first_phrase: int = 0, document: int | None = None) -> Iterator[list[VectorRow]]:
        """Yield the rows of vectors in blocks, in the order of sentence ids.

        Args:
            first_phrase: Yield only sentences with phrase ids of at least this number.
            document: Yield only the sentences of this document, and ignore ``first_phrase``.

        Raises IndexDamaged for rows that are altered or out of order. The caller must compare the number of phrases
        with the count that it expects, since missing rows are not noticed here.
        """
        if document is not None:
            where = "WHERE id IN (SELECT id FROM sentences WHERE document = ?)"
            cursor = self.connection.execute(f"SELECT {_VECTORS} FROM vectors {where} ORDER BY id", (document,))
        else:
            cursor = self.connection.execute(
                f"SELECT {_VECTORS} FROM vectors WHERE id >= ? ORDER BY id", (self._from(first_phrase),)
            )
        last = (-1, 0)  # id of the last sentence, and the end of its phrase ids
        while batch := cursor.fetchmany(_BATCH):
            block = [self._vector(raw) for raw in batch]
            for row in block:
                if row.id <= last[0] or row.first_phrase < last[1] or document not in (None, row.document):
                    raise self.damaged(f"the vectors of sentence {row.id} are out of order")
                last = (row.id, row.first_phrase + row.phrases)
            yield block

    def vectors_of(self, phrases: Sequence[int]) -> NDArray[np.int8]:
        """Return the vectors of ascending phrase ids, (phrases, dim) int8. Raises InputError for a deleted phrase."""
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
        """Return about ``count`` vectors, (n, dim) int8, from up to ``pieces`` runs that are spread over the store."""
        codes = b"".join(row.codes for row in self.sampled_rows(count, pieces))
        return np.frombuffer(codes, np.int8).reshape(-1, self.dim)

    def sampled_rows(self, count: int, pieces: int) -> list[VectorRow]:
        """Return the rows that `sampled_vectors` samples, in the order of sentence ids.

        The sentence ids are divided into ``pieces`` equal ranges. If a range has too few phrases, more are taken from
        the others.
        """
        first, last = self.connection.execute("SELECT min(id), max(id) FROM sentences").fetchone()
        if first is None:
            return []
        bounds = np.linspace(first, last + 1, min(pieces, last + 1 - first) + 1).astype(int).tolist()
        places = list(pairwise(bounds))
        rows: list[VectorRow] = []
        draw_count = 0
        while places and draw_count < count:
            more, places = self._draw_rows(places, count - draw_count)
            rows += more
            draw_count += sum(row.phrases for row in more)
        return sorted(rows)

    def _draw_rows(
        self, places: Sequence[tuple[int, int]], count: int
    ) -> tuple[list[VectorRow], list[tuple[int, int]]]:
        """Draw rows of about ``count`` phrases from ranges of sentence ids, at least one from each range.

        Where ranges have too few phrases, more are drawn from the next one. Returns the rows, and the rest of each
        range that has one.
        """
        rows: list[VectorRow] = []
        rest = []
        total = 0
        for number, (start, end) in enumerate(places):
            size = min(0, total - number * count // len(places))  # negative by the phrases that earlier ranges lacked
            total -= size
            query = f"SELECT {_VECTORS} FROM vectors WHERE id >= ? AND id < ? ORDER BY id"
            for raw in self.connection.execute(query, (start, end)):
                row = self._vector(raw)
                rows.append(row)
                size += row.phrases
                if size * len(places) >= count:
                    rest.append((row.id + 1, end))
                    break
            total += size
        return rows, rest

    def _from(self, first_phrase: int) -> int:
        """Return the id of the first sentence with phrases from ``first_phrase`` on, or the next unused sentence id.

        Sentence ids and phrase ids ascend together.
        """
        if first_phrase <= 0:
            return 0
        query = "SELECT id FROM sentences WHERE phrases > 0 AND first_phrase >= ? ORDER BY first_phrase LIMIT 1"
        row = self.connection.execute(query, (first_phrase,)).fetchone()
        return self.state().next_sentence if row is None else int(row[0])

    def _vector(self, raw: tuple[Any, ...]) -> VectorRow:
        """Check a row of the table of vectors."""
        *numbers, codes, crc = raw
        if not row_codec.same(crc, b"vectors", tuple(numbers), codes) or len(codes) != numbers[3] * self.dim:
            raise self.damaged(f"the vectors of sentence {raw[0]} do not match their checksum")
        return VectorRow._make([*numbers, codes])

    # -- deleted phrases

    def tombstones(self) -> NDArray[np.int64]:
        """Return first id and length of each run of deleted phrases, (runs, 2), ascending. Raises IndexDamaged."""
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
        """Tell whether a phrase is recorded as deleted."""
        query = (
            "SELECT first_phrase, phrases, crc FROM tombstones WHERE first_phrase <= ? ORDER BY "
            "first_phrase DESC LIMIT 1"
        )
        row = self.connection.execute(query, (phrase,)).fetchone()
        return row is not None and row_codec.same(row[2], b"tombstone", row[:2]) and row[0] <= phrase < row[0] + row[1]

    # -- a file that was opened as immutable

    def _reopen_if_changed(self) -> None:
        """Reopen an immutable file if a writer has changed it.

        Raises IndexLocked if the log of a writer cannot be read, and PhraseIndexError if the path now has another file.
        """
        if not self._has_writer():
            return
        self.same()
        try:
            with schema.translate_errors(self.path):
                connection = schema.connect(self.path, readonly=True)
        except PhraseIndexError as error:
            raise self._locked_error() from error
        self.connection.close()
        self._use(connection)

    @contextmanager
    def _check_unchanged(self) -> Iterator[None]:
        """Raise IndexLocked if an immutable file changes during the reads inside, which then mix two states."""
        try:
            yield
        except (IndexDamaged, UnicodeDecodeError, sqlite3.Error) as error:
            if self._has_writer():
                raise self._locked_error() from error
            raise
        if self._immutable is not None and schema.mark(self.path) != self._immutable:
            raise self._locked_error()

    def _has_writer(self) -> bool:
        """Tell whether an immutable file has changed since it was opened, or has a log with newer rows."""
        if self._immutable is None:
            return False
        return schema.mark(self.path) != self._immutable or schema.has_log(self.path)

    def _locked_error(self) -> IndexLocked:
        return IndexLocked(f"{self.path}: is being written by another process; try again when it has finished")


_LEFT_BY_CREATE = {LOCK_FILE, NOTE_FILE, INDEX_JSON + PARTIAL}  # files that `create` may leave if it is killed


def make_folder(folder: Path) -> None:
    """Create the folder of a new index.

    Raises IndexExists if the folder holds any file, except those that an interrupted ``create`` leaves.
    """
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
    """Raise ModelMismatch if an index was not built with this model."""
    if model.hash != manifest.model_hash or model.dim != manifest.dim:
        raise ModelMismatch(
            f"{folder}: was built with the model {manifest.model_name} ({manifest.model_hash[:12]}), "
            f"not with {model.name} ({model.hash[:12]}); open it with that model, or run: "
            f"phrasemate index upgrade {folder}"
        )


def unfinished(folder: Path) -> IndexMissing:
    """Return the error for an index with an index.json and an empty store: its creation has not finished."""
    return IndexMissing(
        f"{folder}: the index is being created, or its creation was interrupted; try again, or continue with: "
        f"phrasemate index TEXT -o {folder}"
    )


def vectors_generation(folder: Path) -> int:
    """Return the generation of vectors.json; 0 if the file is absent or damaged."""
    try:
        return VectorsManifest.read(folder / VECTORS_JSON).generation
    except PhraseIndexError:
        return 0


def check_store(store: Store, manifest: Manifest, newest: int) -> None:
    """Create the tables of a new store, or check the format and the generation of an existing one.

    ``newest``: the highest generation that the files of the index name. An older store has lost commits.

    Raises IndexMissing for a store without tables that is open for reading only, IndexDamaged, and IndexLocked if a
    file that was opened as immutable is changed meanwhile.
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
    """Read ``index.json``, and check that it belongs to the open store.

    Raises PhraseIndexError if the file of the store was replaced or removed since it was opened, ModelMismatch if the
    index was rebuilt with another model, IndexMissing, and IndexDamaged.
    """
    store.same()
    manifest = Manifest.read(store.path / INDEX_JSON)
    check_rebuilt(store.path, manifest, store.dim, store.model_hash)
    return manifest


def check_rebuilt(path: Path | str, manifest: Manifest, dim: int, model_hash: str | None) -> None:
    """Raise ModelMismatch if an index was rebuilt with another model since it was opened."""
    if manifest.dim != dim or model_hash not in (None, manifest.model_hash):
        raise ModelMismatch(
            f"{path}: has been rebuilt with another model, {manifest.model_name} "
            f"({manifest.model_hash[:12]}), since it was opened; open it again"
        )
