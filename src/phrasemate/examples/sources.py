"""Sources of example sentences: an SQLite file with a full-text table, and the text of an index.

The file is written from documents in one run and never changed. Sentences are looked up by their words
(`matching.tokens`). This needs less space and time than trigrams do, and it finds words of one and two characters. Each
row has a checksum, and so has the full-text table. The latter is verified when the file is opened, so that no sentence
can be missing unnoticed.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sqlite3
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from pathlib import Path
from secrets import token_hex
from threading import RLock
from typing import Any, NamedTuple
from zlib import crc32

from phrasemate.errors import IndexDamaged, IndexExists, IndexMissing, IndexUnsupported, InputError
from phrasemate.examples.matching import characters, lookup, tokens
from phrasemate.examples.sampling import Row
from phrasemate.index import BaseIndex, DocumentInfo, ProgressEvent, row_codec, schema
from phrasemate.index.types import IdRange
from phrasemate.text.languages import speaks
from phrasemate.types import Document, Sentence
from phrasemate.utils.storage import install, locked

_MAGIC = 0x70_6D_65_78  # "pmex", the application id in the header of the file
_FORMAT = 2  # version of the format; increased with each change of the file or of the look-up
_BATCH = 2_000  # sentences that are inserted together
_HASH_BYTES = 16 << 20  # bytes of the full-text table that are collected in memory before they are written
_MERGE_PAGES = 500  # pages that are merged in one step
_CACHE_KIB = 65_536  # size of SQLite's page cache
_SCHEMA = (
    f"PRAGMA application_id = {_MAGIC}",
    f"PRAGMA user_version = {_FORMAT}",
    "CREATE TABLE facts (id INTEGER PRIMARY KEY, facts BLOB NOT NULL, crc INTEGER NOT NULL)",
    "CREATE TABLE sentences (id INTEGER PRIMARY KEY, line INTEGER NOT NULL, text BLOB NOT NULL, crc INTEGER NOT NULL)",
    # results of `tokens` and `characters`, joined by spaces; "ascii" splits at spaces and ASCII marks only
    "CREATE VIRTUAL TABLE words USING fts5(tokens, characters, content='''', columnsize=0, tokenize='ascii')",
    f"INSERT INTO words (words, rank) VALUES ('hashsize', {_HASH_BYTES})",
)

_PATIENCE = 10.0  # seconds to wait for the lock of another run, which holds it only briefly
_PART = r"\.[0-9]+-[0-9a-f]{8}\.part"  # suffix of an unfinished store, after its name
_SHADOW = "CREATE TABLE 'words_"  # beginning of the tables that SQLite creates for the full-text table
_MOST = 2**53  # maximum number of sentences

Progress = Callable[[ProgressEvent], None]
log = logging.getLogger("phrasemate.examples")


class Part(NamedTuple):
    """Document of a store; the ids of its sentences begin at ``first`` and end before that of the next document."""

    name: str
    digest: str
    first: int


class Facts(NamedTuple):
    """Description of a store that is kept in its file."""

    language: str
    sentences: int
    parts: list[Part]
    words: object  # the checksum of the full-text table


class TextStore:
    """Open file of example sentences. Threads may share it, and work with it one at a time."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection, self._path, self._lock = connection, path, RLock()
        with schema.translate_errors(path):
            self._check_schema()
            facts = self._facts()
            self.language, self._size, self.parts = facts.language, facts.sentences, facts.parts
            if schema.words_checksum(connection) != facts.words:
                raise self._damaged("the full-text table does not match its checksum")
        self._firsts = [part.first for part in self.parts]

    @classmethod
    def open(cls, path: Path) -> TextStore:
        """Open a file that ``build`` wrote. Raises IndexMissing, IndexUnsupported or IndexDamaged."""
        with schema.translate_errors(path):
            _check_head(path)
            connection = _connect(path.absolute().as_uri() + "?mode=ro")
            try:
                return cls(connection, path)
            except BaseException:
                connection.close()
                raise

    @classmethod
    def build(cls, documents: Iterable[Document], path: Path | None, language: str, progress: Progress) -> TextStore:
        """Store the sentences of all documents in a file, or in a temporary one if ``path`` is None.

        The file gets its name when it is complete; until then its name ends in .part. Files of killed runs are deleted.
        Raises IndexExists if another kind of file is there, and PhraseIndexError if it cannot be written. Raises
        InputError if another run keeps its lock, and every error of reading the documents.
        """
        if path is None:
            temporary = Path("temporary store of examples")
            with schema.translate_errors(temporary):
                connection = _connect("")  # a temporary file of SQLite, which disappears with the process
                try:
                    _fill(connection, documents, language, progress)
                    return cls(connection, temporary)
                except BaseException:
                    connection.close()
                    raise
        with schema.translate_errors(path):
            _write(path, documents, language, progress)
        return cls.open(path)

    def same(self, documents: Sequence[Document], language: str) -> bool:
        """Return whether the store was built from these documents, unchanged, with this language."""
        parts = [(part.name, part.digest) for part in self.parts]
        return language == self.language and parts == [(d.name, d.digest) for d in documents]

    def close(self) -> None:
        """Close the file, after other threads have finished reading."""
        with self._lock:
            self._connection.close()

    # -- look-up

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Keep other threads out during the block; the store itself never changes."""
        with self._lock, schema.translate_errors(self._path):
            yield

    def size(self) -> int:
        """Return the number of sentences, which is above all ids."""
        return self._size

    count = size

    def candidates(self, phrase: str, ids: IdRange) -> list[int]:
        """Return the ids of sentences that have the tokens of the phrase in sequence, ascending.

        A phrase without a letter or digit has no candidates.
        """
        query = match_query(phrase)
        if not query:
            return []
        statement = "SELECT rowid FROM words WHERE words MATCH CAST(? AS TEXT) AND rowid >= ? AND rowid < ? "
        with self.snapshot():
            values = (row_codec.encode_text(query), *ids)
            return [row[0] for row in self._connection.execute(statement + "ORDER BY rowid LIMIT ?", values)]

    likely = candidates  # whole words are compared, so the precision is high

    def rows(self, ids: Sequence[int]) -> list[Row]:
        """Return the sentences of these ids, in order. Raises IndexDamaged for one that does not match its checksum."""
        with self.snapshot():
            return [self._row(identity) for identity in ids]

    def _row(self, identity: int) -> Row:
        """Read one sentence, and verify its checksum."""
        record = self._connection.execute("SELECT line, text, crc FROM sentences WHERE id = ?", (identity,)).fetchone()
        if record is None or not row_codec.same(record[2], b"example", (identity, record[0]), record[1]):
            raise self._damaged(f"sentence {identity} does not match its checksum")
        part = self.parts[bisect_right(self._firsts, identity) - 1]
        return Row(row_codec.decode_text(record[1]), part.name, record[0], self.language)

    def _check_schema(self) -> None:
        """Raise IndexDamaged unless the file has exactly the tables of a store.

        A view or a trigger in a foreign file would execute SQL of its author.
        """
        statements = [str(sql) for (sql,) in self._connection.execute("SELECT sql FROM sqlite_master")]
        store_statements = sorted(sql for sql in statements if not sql.startswith(_SHADOW))
        if store_statements != sorted(statement for statement in _SCHEMA if statement.startswith("CREATE")):
            raise self._damaged("its tables are not those of a store")

    def _facts(self) -> Facts:
        """Read the description of the store. Raises IndexDamaged if it is altered or invalid."""
        record = self._connection.execute("SELECT facts, crc FROM facts WHERE id = 1").fetchone()
        if record is None or not isinstance(record[0], bytes) or crc32(record[0]) != record[1]:
            raise self._damaged("its description does not match its checksum")
        try:
            return _sensible(json.loads(record[0]))
        except (ValueError, TypeError, KeyError, RecursionError):
            raise self._damaged("its description is invalid") from None

    def _damaged(self, damage: str) -> IndexDamaged:
        """Return the error for a damaged file."""
        return IndexDamaged(f"{self._path}: {damage}; remove the file and make it again")


def _sensible(content: dict[str, Any]) -> Facts:
    """Validate the description read from a file. Raises ValueError, TypeError or KeyError if it is invalid."""
    parts = [Part(*part) for part in content["parts"]]
    facts = Facts(content["language"], content["sentences"], parts, content["words"])
    firsts = [part.first for part in parts]
    if not all(type(number) is int and 0 <= number <= _MOST for number in (facts.sentences, *firsts)):
        raise ValueError("numbers")
    first, last = (firsts[0], firsts[-1]) if parts else (facts.sentences, 0)
    if firsts != sorted(firsts) or first != 0 or last > facts.sentences:
        raise ValueError("numbers")
    if not all(isinstance(text, str) for text in (facts.language, *(text for part in parts for text in part[:2]))):
        raise TypeError("texts")
    return facts


def _check_head(path: Path) -> None:
    """Check the header of a file before SQLite reads it."""
    if not path.exists():
        raise IndexMissing(f"{path}: no such file; give a file that was made from text")
    head, size = _head(path), path.stat().st_size
    if not _is_store(head):
        raise IndexUnsupported(f"{path}: is not a store of example sentences; choose another file")
    if (version := int.from_bytes(head[60:64], "big")) != _FORMAT:
        raise IndexUnsupported(f"{path}: is of format {version}, expected {_FORMAT}; remove the file and make it again")
    if size != int.from_bytes(head[16:18], "big") * int.from_bytes(head[28:32], "big"):
        raise IndexDamaged(f"{path}: has {size} bytes, not the size in its header; remove the file and make it again")


def match_query(phrase: str) -> str:
    """Return the query of the full-text table for a phrase; "" for a phrase without a letter or digit."""
    phrase_tokens, is_prefix = lookup(phrase)
    if not phrase_tokens or not is_prefix:
        return f'"{" ".join(phrase_tokens)}"' if phrase_tokens else ""
    return f'characters : "{phrase_tokens[0]}"' if len(phrase_tokens) == 1 else f'"{" ".join(phrase_tokens)}" *'


def _head(path: Path) -> bytes:
    """Read the header of an SQLite file."""
    with path.open("rb") as file:
        return file.read(100)


def _is_store(head: bytes) -> bool:
    """Return whether a header is that of a store of example sentences."""
    return head[:16] == b"SQLite format 3\0" and head[68:72] == _MAGIC.to_bytes(4, "big")


def _connect(uri: str) -> sqlite3.Connection:
    """Open a database with the settings of a store."""
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=0)
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    return connection


def _write(path: Path, documents: Iterable[Document], language: str, progress: Progress) -> None:
    """Write the store under another name, flush it to the disk, and rename it."""
    if path.exists() and not _is_store(_head(path)):
        raise IndexExists(f"{path}: exists and is not a store of sentences; choose another file")
    path.parent.stat()  # raises an error if the folder does not exist, which the lock would create
    with _locked(path):
        _clear(path)
        part = path.with_name(f"{path.name}.{os.getpid()}-{token_hex(4)}.part")
        part.touch()  # raises an error with the reason if it cannot be written, unlike SQLite
        connection = _connect(part.absolute().as_uri())
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")  # keep the lock after each transaction
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("COMMIT")
    try:
        _fill(connection, documents, language, progress)
        with part.open("rb") as file:
            os.fsync(file.fileno())
            with _locked(path):
                connection.close()  # releases its lock; before, another run could not delete the file
                install(part, path)
    except BaseException:
        connection.close()
        part.unlink(missing_ok=True)
        raise


def _locked(path: Path) -> AbstractContextManager[None]:
    """Hold the lock under which a run deletes files of killed runs, and creates or renames its own file."""
    refusal = f"{path}: another process is making it; try again"
    return locked(path.with_name(f"{path.name}.lock"), refusal, _PATIENCE)


def _clear(path: Path) -> None:
    """Delete the unfinished files of killed runs; files of running ones are locked."""
    pattern = re.compile(re.escape(path.name) + _PART)
    for part in [entry for entry in path.parent.iterdir() if pattern.fullmatch(entry.name) and entry.is_file()]:
        connection = sqlite3.connect(part, isolation_level=None, timeout=0)
        try:
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
                continue
        finally:
            connection.close()
        part.unlink(missing_ok=True)


def _fill(connection: sqlite3.Connection, documents: Iterable[Document], language: str, progress: Progress) -> None:
    """Create the tables, and write the sentences of all documents and the description of the store."""
    documents = list(documents)
    total, before = sum(document.size for document in documents), 0
    for statement in _SCHEMA:
        connection.execute(statement)
    connection.execute("BEGIN EXCLUSIVE")
    parts: list[Part] = []
    size = 0
    for document in documents:
        parts.append(Part(document.name, document.digest, size))
        stream = document.sentences()
        while batch := list(islice(stream, _BATCH)):
            _insert(connection, size, batch)
            size += len(batch)
            progress(ProgressEvent(size, 0, before + document.consumed(), total, document.name))
        before += document.size
    connection.execute("COMMIT")  # also writes the part of the full-text table that is still in memory
    _merge(connection)
    facts = {"language": language, "sentences": size, "parts": parts, "words": schema.words_checksum(connection)}
    content = json.dumps(facts).encode()
    connection.execute("INSERT INTO facts VALUES (1, ?, ?)", (content, crc32(content)))


def _insert(connection: sqlite3.Connection, first: int, batch: Sequence[Sentence]) -> None:
    """Insert sentences with ids from ``first`` on, and their tokens."""
    sentences, words = [], []
    for identity, sentence in enumerate(batch, first):
        text = row_codec.encode_text(sentence.text)
        sentences.append(
            (identity, sentence.line, text, row_codec.checksum(b"example", (identity, sentence.line), text))
        )
        words.append((identity, _encoded(tokens(sentence.text)), _encoded(characters(sentence.text))))
    connection.executemany("INSERT INTO sentences VALUES (?, ?, ?, ?)", sentences)
    insert = "INSERT INTO words (rowid, tokens, characters) VALUES (?, CAST(? AS TEXT), CAST(? AS TEXT))"
    connection.executemany(insert, words)


def _encoded(entries: list[str]) -> bytes:
    """Join tokens with spaces, as bytes for SQLite."""
    return row_codec.encode_text(" ".join(entries))


def _merge(connection: sqlite3.Connection) -> None:
    """Merge the full-text table into one segment, in steps, so that Ctrl-C can interrupt."""
    pages = -_MERGE_PAGES  # a negative number starts a merge of all segments
    while True:
        before = connection.total_changes
        connection.execute("INSERT INTO words (words, rank) VALUES ('merge', ?)", (pages,))
        if connection.total_changes - before < 2:
            return
        pages = _MERGE_PAGES


class IndexSource:
    """Source of the sentences of an index, which finds candidates by trigrams; closing it leaves the index open."""

    def __init__(self, index: BaseIndex, languages: Collection[str] | None = None) -> None:
        self._store, self._search = index.store, index.texts
        self._documents: tuple[int, dict[int, DocumentInfo]] = (-1, {})
        self._languages = languages
        index_languages = {document.language for document in index.documents()}
        if unknown := [
            tag for tag in languages or () if not any(speaks(language, tag) for language in index_languages)
        ]:
            language_list = ", ".join(sorted(index_languages - {""})) or "no text with a known language"
            raise InputError(f"{index.path}: has no text in {', '.join(unknown)}; it has {language_list}")

    def snapshot(self) -> AbstractContextManager[object]:
        """Return a context in which all calls see the same state of the index."""
        return self._store.snapshot()

    def size(self) -> int:
        """Return a number above all ids of sentences."""
        return self._store.state().next_sentence

    def count(self) -> int:
        """Return the number of sentences of the whole index, in all languages."""
        with self._store.reading() as state:
            return state.sentences

    def candidates(self, phrase: str, ids: IdRange) -> list[int]:
        """Return the ids of sentences that may contain the phrase, as it is written or with single spaces.

        A phrase without a letter or digit has no candidates.
        """
        if not any(map(str.isalnum, phrase)):
            return []
        wordings = dict.fromkeys((" ".join(phrase.split()), phrase.strip()))
        candidates = {identity for form in wordings for identity in self._search.candidates(form, ids)}
        return sorted(candidates)[: ids.limit]

    def likely(self, phrase: str, ids: IdRange) -> list[int]:
        """Return candidates with the phrase between spaces, if its script has spaces.

        This raises the precision: most sentences with the letters "art" do not have the word.
        """
        space = "" if characters(phrase) else " "
        return self._search.candidates(space + " ".join(phrase.split()) + space, ids)

    def rows(self, ids: Sequence[int]) -> list[Row]:
        """Return the sentences of these ids that are in one of the requested languages, in order."""
        with self._store.reading() as state:
            if self._documents[0] != state.generation:
                self._documents = (state.generation, {d.id: d for d in self._store.documents()})
            documents, rows = self._documents[1], []
            for row in self._store.sentences(ids):
                if (document := documents.get(row.document)) is None:
                    raise self._store.damaged(f"document {row.document} of sentence {row.id} is missing")
                if self._languages is None or any(speaks(document.language, tag) for tag in self._languages):
                    rows.append(Row(row.text, document.name, row.line, document.language))
        return rows

    def close(self) -> None:
        """Do nothing: the owner of the index closes it."""
