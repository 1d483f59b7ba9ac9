"""SQLite file of an index: its schema, its opening, the translation of its errors, and the write lock of the folder.

The operating system frees the write lock when its holder dies. The file ``writer.json`` beside it names the holder.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from time import monotonic, sleep
from typing import NamedTuple
from zlib import crc32

from phrasemate.errors import IndexDamaged, IndexLocked, PhraseIndexError
from phrasemate.index import row_codec

STORE = "store.sqlite"
PAGE_BYTES = 16_384  # on pages of 4 kB, rows of 2 to 4 kB lose up to 40 % (results/log/index.md)
CACHE_KIB = 32_768
VALUE_BYTES = 1 << 28  # limit of a value; the vectors of a sentence of a million characters take less than half of it
BUSY_SECONDS = 10.0  # waiting time for SQLite's lock
_POLL_SECONDS = 0.05  # between two checks for tables created by another process

# Texts are written as bytes that are CAST to TEXT. So halves of surrogate pairs, which are not valid UTF-8, are kept.
SCHEMA = {
    "state": "CREATE TABLE state (id INTEGER PRIMARY KEY CHECK (id = 1), generation INTEGER NOT NULL, "
    "documents INTEGER NOT NULL, sentences INTEGER NOT NULL, phrases INTEGER NOT NULL, next_document INTEGER NOT NULL, "
    "next_sentence INTEGER NOT NULL, next_phrase INTEGER NOT NULL, crc INTEGER NOT NULL)",
    "extras": "CREATE TABLE extras (key TEXT PRIMARY KEY, value TEXT NOT NULL, crc INTEGER NOT NULL)",
    "documents": "CREATE TABLE documents (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, language TEXT NOT NULL, "
    "digest TEXT NOT NULL, complete INTEGER NOT NULL, sentences INTEGER NOT NULL, phrases INTEGER NOT NULL, "
    "crc INTEGER NOT NULL)",
    "sentences": "CREATE TABLE sentences (id INTEGER PRIMARY KEY, document INTEGER NOT NULL, position INTEGER NOT "
    "NULL, line INTEGER NOT NULL, first_phrase INTEGER NOT NULL, phrases INTEGER NOT NULL, text TEXT NOT NULL, "
    "metadata TEXT NOT NULL, spans BLOB NOT NULL, crc INTEGER NOT NULL)",
    "sentences_document": "CREATE UNIQUE INDEX sentences_document ON sentences (document, position)",
    "sentences_phrase": "CREATE UNIQUE INDEX sentences_phrase ON sentences (first_phrase) WHERE phrases > 0",
    "vectors": "CREATE TABLE vectors (id INTEGER PRIMARY KEY, document INTEGER NOT NULL, first_phrase INTEGER "
    "NOT NULL, phrases INTEGER NOT NULL, codes BLOB NOT NULL, crc INTEGER NOT NULL)",
    "tombstones": "CREATE TABLE tombstones (first_phrase INTEGER PRIMARY KEY, phrases INTEGER NOT NULL, crc INTEGER "
    "NOT NULL)",
    "words": "CREATE VIRTUAL TABLE words USING fts5(text, content='sentences', content_rowid='id', "
    "tokenize='trigram', columnsize=0)",
}
_STATE_COLUMNS = 7


# Errors of the files of the log on a full disk or in a removed folder: they cannot be created, resized or removed.
_UNWRITTEN = {
    sqlite3.SQLITE_IOERR_FSYNC,
    sqlite3.SQLITE_IOERR_TRUNCATE,
    sqlite3.SQLITE_IOERR_SHMOPEN,
    sqlite3.SQLITE_IOERR_SHMSIZE,
    sqlite3.SQLITE_IOERR_SHMMAP,
    sqlite3.SQLITE_IOERR_DELETE,
}


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Translate errors of SQLite and of the system into errors of phrasemate that name the index in ``path``."""
    try:
        yield
    except sqlite3.Error as error:
        raise _translate(error, path) from error
    except UnicodeDecodeError as error:  # SQLite quotes an altered definition in its message
        raise _translate(sqlite3.DatabaseError("its definitions are not readable"), path) from error
    except OSError as error:
        raise PhraseIndexError(f"{path}: {error.strerror or error}; check free space and permissions") from error


def _translate(error: sqlite3.Error, path: Path) -> PhraseIndexError:
    """Return the error of phrasemate for an error of SQLite; IndexDamaged if its code is not a known one."""
    code = getattr(error, "sqlite_errorcode", 0) or 0
    primary = code & 0xFF
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return IndexLocked(f"{path}: another process keeps the store busy ({error}); wait until it has finished")
    if primary == sqlite3.SQLITE_FULL or code == sqlite3.SQLITE_IOERR_WRITE:
        return PhraseIndexError(
            f"{path}: no space is left to write ({error}); free some and run the command again, it resumes"
        )
    if code in _UNWRITTEN:
        return PhraseIndexError(
            f"{path}: the system refuses to write ({error}); check free space, memory and that the folder is there, "
            f"then run the command again, it resumes"
        )
    if primary in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        return PhraseIndexError(f"{path}: the store cannot be written ({error}); check the permissions of the folder")
    if primary == sqlite3.SQLITE_CANTOPEN:
        return PhraseIndexError(
            f"{path}: the store cannot be opened ({error}); check that store.sqlite exists and its permissions"
        )
    if "closed database" in str(error):
        return PhraseIndexError(f"{path}: this index has been closed; open it again")
    return IndexDamaged(f"{path}: the store is damaged ({error}); restore it from a copy or build the index again")


class Mark(NamedTuple):
    """Identity of the file of a store and of its present content; all numbers are 0 if there is no file."""

    device: int
    inode: int
    size: int
    changed: int

    @property
    def file(self) -> tuple[int, int]:
        """Device and inode, which stay the same when the content changes.

        While the file is open, the system gives its inode to no other file.
        """
        return self.device, self.inode


def mark(path: Path) -> Mark:
    """Return the mark of the store in the folder ``path``."""
    try:
        status = (path / STORE).stat()
    except FileNotFoundError:
        return Mark(0, 0, 0, 0)
    return Mark(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def has_log(path: Path) -> bool:
    """Tell whether the store in the folder ``path`` has a write-ahead log that is not empty."""
    try:
        return (path / f"{STORE}-wal").stat().st_size > 0
    except FileNotFoundError:
        return False


class OpenConnection(NamedTuple):
    """Connection to a store. ``immutable``: mark of the file at its opening if SQLite takes it for immutable."""

    connection: sqlite3.Connection
    readonly: bool
    immutable: Mark | None = None


def connect(path: Path, readonly: bool) -> OpenConnection:
    """Open the store in the folder ``path``.

    A folder without write permission is opened for reading only: with the write-ahead log if SQLite can read it,
    otherwise as immutable. Raises PhraseIndexError if an interrupted writer left a log in such a folder, and
    sqlite3.Error.
    """
    file = path / STORE
    readonly = readonly or not (os.access(path, os.W_OK) and (not file.exists() or os.access(file, os.W_OK)))
    uri = file.absolute().as_uri()
    if not readonly:
        return OpenConnection(_configured(uri + "?mode=rwc", readonly=False), readonly=False)
    try:
        return OpenConnection(_configured(uri + "?mode=ro", readonly=True), readonly=True)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY) or not file.exists():
            raise
        if has_log(path):
            raise PhraseIndexError(
                f"{path}: an interrupted writer left {STORE}-wal, which cannot be read in a read-only folder; "
                f"open the index once with write permission"
            ) from error
        before = mark(path)  # before opening, so that a change in between is noticed
        return OpenConnection(_configured(uri + "?immutable=1", readonly=True), readonly=True, immutable=before)


def _configured(uri: str, readonly: bool) -> sqlite3.Connection:
    """Return a connection with the settings of phrasemate. Raises sqlite3.Error if the file cannot be read."""
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=BUSY_SECONDS)
    try:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, VALUE_BYTES)
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        # index.json never runs ahead of the store, even if the power fails
        connection.execute("PRAGMA synchronous = FULL")
        if readonly:
            connection.execute("PRAGMA query_only = ON")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()  # opens the file
    except BaseException:
        connection.close()
        raise
    return connection


def words_checksum(connection: sqlite3.Connection) -> int:
    """Compute the CRC-32 of the whole content of the text index, the FTS5 table ``words``."""
    value = 0
    for identity, block in connection.execute("SELECT id, block FROM words_data ORDER BY id"):
        content = block if isinstance(block, bytes) else repr(block).encode()  # a damaged block may have any type
        value = crc32(content, crc32(b"%d" % identity, value))
    for row in connection.execute("SELECT segid, term, pgno FROM words_idx ORDER BY segid, term"):
        value = crc32(repr(row).encode(), value)
    return value


def is_empty(connection: sqlite3.Connection) -> bool:
    """Tell whether a database has no tables."""
    return not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]


def words_match(connection: sqlite3.Connection) -> bool:
    """Tell whether the text index is intact and matches the sentences. This takes SQLite's lock for writing."""
    try:
        connection.execute("INSERT INTO words (words, rank) VALUES ('integrity-check', 1)")
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_CORRUPT:
            raise
        return False
    return True


def initialise(connection: sqlite3.Connection, folder: Path) -> None:
    """Create the tables of an empty store, or wait until another process has created them.

    Raises IndexLocked after `BUSY_SECONDS`.
    """
    deadline = monotonic() + BUSY_SECONDS
    while is_empty(connection):
        try:
            with write_lock(folder):
                if is_empty(connection):
                    _create_tables(connection)
        except IndexLocked:
            if monotonic() > deadline:
                raise
            sleep(_POLL_SECONDS)


def _create_tables(connection: sqlite3.Connection) -> None:
    """Create the tables, and the row of counts with zeros, in one transaction."""
    connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("BEGIN IMMEDIATE")
    for statement in SCHEMA.values():
        connection.execute(statement)
    state = (0,) * _STATE_COLUMNS
    connection.execute(
        "INSERT INTO state VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?)", (*state, row_codec.checksum(b"state", state))
    )
    connection.execute("COMMIT")


def verify_schema(connection: sqlite3.Connection, path: Path) -> None:
    """Raise IndexDamaged unless the definitions in the file are exactly those of `SCHEMA`."""
    definitions = {
        name: sql for name, sql in connection.execute("SELECT name, sql FROM sqlite_master") if name in SCHEMA
    }
    # triggers and views of a forged file would run their statements when it is written or read
    active = "SELECT name FROM sqlite_master WHERE type IN ('trigger', 'view')"
    if strange := [str(name) for (name,) in connection.execute(active)]:
        raise IndexDamaged(
            f"{path}: the store holds {strange[0][:60]!a}, which no index has; restore it or build the index again"
        )
    encoding = connection.execute("PRAGMA encoding").fetchone()[0]
    if definitions != SCHEMA or encoding != "UTF-8":
        wrong = sorted(name for name in SCHEMA if definitions.get(name) != SCHEMA[name]) or ["encoding"]
        raise IndexDamaged(
            f"{path}: the store's definition of {', '.join(wrong)} is not an index's; "
            "restore it or build the index again"
        )


LOCK_FILE = "write.lock"
NOTE_FILE = "writer.json"


@contextmanager
def write_lock(folder: Path) -> Iterator[None]:
    """Hold the write lock of the index in ``folder``.

    Raises IndexLocked, which names the holder, if another process or another `Index` of this process holds it. Raises
    PhraseIndexError if the folder cannot be written.
    """
    from filelock import FileLock, Timeout  # slow to import, and only needed by writers

    lock = FileLock(folder / LOCK_FILE, timeout=0, is_singleton=False)
    try:
        lock.acquire()
    except Timeout:
        raise IndexLocked(f"{folder}: {_holder(folder)} is writing to this index; wait until it has finished") from None
    except (OSError, NotImplementedError) as error:
        raise PhraseIndexError(f"{folder}: cannot be written ({error}); check the permissions of the folder") from error
    try:
        _leave_note(folder)
        yield
    finally:
        with suppress(OSError):
            (folder / NOTE_FILE).unlink(missing_ok=True)
        lock.release()


def _leave_note(folder: Path) -> None:
    """Write the note that names this process as the holder of the write lock."""
    import socket  # only needed by writers

    note = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "since": datetime.now().astimezone().isoformat(timespec="seconds"),
        "command": " ".join(sys.argv)[:200],
    }
    with suppress(OSError):  # the note is for information only
        (folder / NOTE_FILE).write_text(json.dumps(note), "utf-8")


def _holder(folder: Path) -> str:
    """Describe the holder of the write lock by its note, or as "another process" if the note cannot be read."""
    try:
        note = json.loads((folder / NOTE_FILE).read_text("utf-8"))
        return f"process {note['pid']} on {note['host']} (since {note['since']}: {note['command']})"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
