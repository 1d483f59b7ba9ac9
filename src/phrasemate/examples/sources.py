"""Sources of example sentences: a file of sentences with a full-text table, and the text of an index.

The file is SQLite, made from documents in one go and never changed. Sentences are looked up by their words
(`matching.tokens`), which is smaller and faster than by trigrams and finds words of one and two characters
(`results/log`). Every row has a checksum, and so has the full-text table, compared when the file is opened: nothing
is silently missing.
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

_MAGIC = 0x70_6D_65_78  # "pmex", the application id in the head of the file
_FORMAT = 2  # counts up when files are written, or sentences looked up, differently
_BATCH = 2_000  # sentences that are stored together
_HASH_BYTES = 16 << 20  # of the full-text table, held in memory before they are written
_MERGE_PAGES = 500
_CACHE_KIB = 65_536
_SCHEMA = (
    f"PRAGMA application_id = {_MAGIC}",
    f"PRAGMA user_version = {_FORMAT}",
    "CREATE TABLE facts (id INTEGER PRIMARY KEY, facts BLOB NOT NULL, crc INTEGER NOT NULL)",
    "CREATE TABLE sentences (id INTEGER PRIMARY KEY, line INTEGER NOT NULL, text BLOB NOT NULL, crc INTEGER NOT NULL)",
    # what the two functions give, joined by spaces: ASCII has no rules of its own about other letters
    "CREATE VIRTUAL TABLE words USING fts5(tokens, characters, content='''', columnsize=0, tokenize='ascii')",
    f"INSERT INTO words (words, rank) VALUES ('hashsize', {_HASH_BYTES})",
)

_PATIENCE = 10.0  # seconds, in which another run has looked or renamed
_PART = r"\.[0-9]+-[0-9a-f]{8}\.part"  # after the name of a store: of a run that makes it
_SHADOW = "CREATE TABLE 'words_"  # of the full-text table, which makes them itself
_MOST = 2**53  # sentences

Progress = Callable[[ProgressEvent], None]
log = logging.getLogger("phrasemate.examples")


class Part(NamedTuple):
    """A document of the store: its sentences have ids from ``first`` up to the next document's."""

    name: str
    digest: str
    first: int


class Facts(NamedTuple):
    """Description of a store in itself."""

    language: str
    sentences: int
    parts: list[Part]
    words: object  # the checksum of the full-text table


class TextStore:
    """An open store. May be shared between threads: one works at a time."""

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
        """Open a store that ``build`` has made. Raises IndexMissing, IndexUnsupported or IndexDamaged."""
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
        """Store the sentences of all documents, in a file or, without a path, in a temporary one.

        A file appears under its name when it is whole; until then its name ends in .part, and what a killed run has
        left goes with the next. Raises IndexExists for a file that is not ours, PhraseIndexError if it cannot be
        written, InputError if another run holds its lock for seconds, and what the documents raise.
        """
        if path is None:
            temporary = Path("temporary store of examples")
            with schema.translate_errors(temporary):
                connection = _connect("")  # SQLite's own temporary file: it goes with the process, however that ends
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
        """Whether the store was made from these documents, unchanged."""
        parts = [(part.name, part.digest) for part in self.parts]
        return language == self.language and parts == [(d.name, d.digest) for d in documents]

    def close(self) -> None:
        with self._lock:  # no other thread may be reading
            self._connection.close()

    # -- what is looked up

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Lock out other threads: a store itself never changes."""
        with self._lock, schema.translate_errors(self._path):
            yield

    def size(self) -> int:
        return self._size

    count = size

    def candidates(self, phrase: str, ids: IdRange) -> list[int]:
        """Those ids of sentences with the tokens of the phrase in sequence, ascending.

        None for a phrase without letter or digit.
        """
        query = match_query(phrase)
        if not query:
            return []
        statement = "SELECT rowid FROM words WHERE words MATCH CAST(? AS TEXT) AND rowid >= ? AND rowid < ? "
        with self.snapshot():
            values = (row_codec.encode_text(query), *ids)
            return [row[0] for row in self._connection.execute(statement + "ORDER BY rowid LIMIT ?", values)]

    likely = candidates  # they hold the phrase's very words

    def rows(self, ids: Sequence[int]) -> list[Row]:
        """The sentences of these ids, in their order. Raises IndexDamaged."""
        with self.snapshot():
            return [self._row(identity) for identity in ids]

    def _row(self, identity: int) -> Row:
        record = self._connection.execute("SELECT line, text, crc FROM sentences WHERE id = ?", (identity,)).fetchone()
        if record is None or not row_codec.same(record[2], b"example", (identity, record[0]), record[1]):
            raise self._damaged(f"sentence {identity} does not match its checksum")
        part = self.parts[bisect_right(self._firsts, identity) - 1]
        return Row(row_codec.decode_text(record[1]), part.name, record[0], self.language)

    def _check_schema(self) -> None:
        """Only our tables are there: a view or a trigger would run what its maker wrote."""
        statements = [str(sql) for (sql,) in self._connection.execute("SELECT sql FROM sqlite_master")]
        statements_of_ours = sorted(sql for sql in statements if not sql.startswith(_SHADOW))
        if statements_of_ours != sorted(statement for statement in _SCHEMA if statement.startswith("CREATE")):
            raise self._damaged("its tables are not those of a store")

    def _facts(self) -> Facts:
        record = self._connection.execute("SELECT facts, crc FROM facts WHERE id = 1").fetchone()
        if record is None or not isinstance(record[0], bytes) or crc32(record[0]) != record[1]:
            raise self._damaged("its description does not match its checksum")
        try:
            return _sensible(json.loads(record[0]))
        except (ValueError, TypeError, KeyError, RecursionError):
            raise self._damaged("its description makes no sense") from None

    def _damaged(self, what: str) -> IndexDamaged:
        return IndexDamaged(f"{self._path}: {what}; remove the file and make it again")


def _sensible(content: dict[str, Any]) -> Facts:
    """Validate facts read from a file. Raises ValueError, TypeError or KeyError if they make no sense."""
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
        raise IndexMissing(f"{path}: no such file; name one that was made from text before")
    head, size = _head(path), path.stat().st_size
    if not _is_ours(head):
        raise IndexUnsupported(f"{path}: is not a store of example sentences; choose another file")
    if (version := int.from_bytes(head[60:64], "big")) != _FORMAT:
        raise IndexUnsupported(f"{path}: is of format {version}, expected {_FORMAT}; remove the file and make it again")
    if size != int.from_bytes(head[16:18], "big") * int.from_bytes(head[28:32], "big"):
        raise IndexDamaged(f"{path}: has {size} bytes, which is not its length; remove the file and make it again")


def match_query(phrase: str) -> str:
    """A query of the full-text table; nothing for a phrase without letter or digit."""
    expression, beginning = lookup(phrase)
    if not expression or not beginning:
        return f'"{" ".join(expression)}"' if expression else ""
    return f'characters : "{expression[0]}"' if len(expression) == 1 else f'"{" ".join(expression)}" *'


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(100)


def _is_ours(head: bytes) -> bool:
    return head[:16] == b"SQLite format 3\0" and head[68:72] == _MAGIC.to_bytes(4, "big")


def _connect(uri: str) -> sqlite3.Connection:
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=0)
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    return connection


def _write(path: Path, documents: Iterable[Document], language: str, progress: Progress) -> None:
    """Write the file under another name, flush it, and rename it."""
    if path.exists() and not _is_ours(_head(path)):
        raise IndexExists(f"{path}: exists and is not a store of sentences; choose another file")
    path.parent.stat()  # a folder that is not there would be made for the lock
    with _alone(path):
        _clear(path)
        part = path.with_name(f"{path.name}.{os.getpid()}-{token_hex(4)}.part")
        part.touch()  # the system says why it cannot be written, SQLite would not
        connection = _connect(part.absolute().as_uri())
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")  # a lock that is taken stays
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("COMMIT")
    try:
        _fill(connection, documents, language, progress)
        with part.open("rb") as file:
            os.fsync(file.fileno())
            with _alone(path):
                connection.close()  # only now does its lock go, or another run would take the file for a dead one's
                install(part, path)
    except BaseException:
        connection.close()
        part.unlink(missing_ok=True)
        raise


def _alone(path: Path) -> AbstractContextManager[None]:
    """Hold the lock under which runs remove files of dead runs, until this run's file has its SQLite lock."""
    refusal = f"{path}: another process is making it; try again"
    return locked(path.with_name(f"{path.name}.lock"), refusal, _PATIENCE)


def _clear(path: Path) -> None:
    """Remove the files of killed runs; those of living runs are locked."""
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
    connection.execute("COMMIT")  # what the full-text table still holds in memory is written
    _merge(connection)
    facts = {"language": language, "sentences": size, "parts": parts, "words": schema.words_checksum(connection)}
    content = json.dumps(facts).encode()
    connection.execute("INSERT INTO facts VALUES (1, ?, ?)", (content, crc32(content)))


def _insert(connection: sqlite3.Connection, first: int, batch: Sequence[Sentence]) -> None:
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
    return row_codec.encode_text(" ".join(entries))


def _merge(connection: sqlite3.Connection) -> None:
    """Merge the full-text table into one segment, in steps between which Ctrl-C is noticed."""
    pages = -_MERGE_PAGES  # negative: begin to merge everything
    while True:
        before = connection.total_changes
        connection.execute("INSERT INTO words (words, rank) VALUES ('merge', ?)", (pages,))
        if connection.total_changes - before < 2:
            return
        pages = _MERGE_PAGES


class IndexSource:
    """The text store of an index, whose trigrams find the candidates; the index stays its owner's to close."""

    def __init__(self, index: BaseIndex, languages: Collection[str] | None = None) -> None:
        self._store, self._search = index.store, index.texts
        self._documents: tuple[int, dict[int, DocumentInfo]] = (-1, {})
        self._languages = languages
        languages_known = {document.language for document in index.documents()}
        if unknown := [
            tag for tag in languages or () if not any(speaks(language, tag) for language in languages_known)
        ]:
            language_list = ", ".join(sorted(languages_known - {""})) or "no text whose language is known"
            raise InputError(f"{index.path}: has no text in {', '.join(unknown)}; it has {language_list}")

    def snapshot(self) -> AbstractContextManager[object]:
        return self._store.snapshot()

    def size(self) -> int:
        return self._store.state().next_sentence

    def count(self) -> int:
        with self._store.reading() as state:
            return state.sentences

    def candidates(self, phrase: str, ids: IdRange) -> list[int]:
        """Look up candidates in the text index, with single spaces and as written; none for a phrase without letter or
        digit.
        """
        if not any(map(str.isalnum, phrase)):
            return []
        wordings = dict.fromkeys((" ".join(phrase.split()), phrase.strip()))
        candidates = {identity for form in wordings for identity in self._search.candidates(form, ids)}
        return sorted(candidates)[: ids.limit]

    def likely(self, phrase: str, ids: IdRange) -> list[int]:
        """Candidates with the phrase between spaces, if its script has them: not all that contain "art" are of art."""
        space = "" if characters(phrase) else " "
        return self._search.candidates(space + " ".join(phrase.split()) + space, ids)

    def rows(self, ids: Sequence[int]) -> list[Row]:
        """The sentences of these ids that are in one of the languages asked for, in their order."""
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
        """Do nothing: the index is closed by its owner."""
