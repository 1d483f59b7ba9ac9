"""The SQLite file of an index: its schema, how it is opened, its errors in our words, and the lock of its one writer.

The system frees the lock when its holder dies. A note beside it says who holds it.
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
VALUE_BYTES = 1 << 28  # of one value: the vectors of a sentence of a million characters have less than half of it
BUSY_SECONDS = 10.0
_LOOK_SECONDS = 0.05  # between two looks whether another process has laid the store out

# Text and names are written as bytes CAST to TEXT, so that what cannot be encoded strictly survives too.
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


# Of the log's files, on a full disk or in a folder that is gone: they cannot grow, be made, be cut or be removed.
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
    """Turn what SQLite and the system raise into errors of phrasemate that name the index in ``path``."""
    try:
        yield
    except sqlite3.Error as error:
        raise _translate(error, path) from error
    except UnicodeDecodeError as error:  # SQLite quotes an altered definition in its message
        raise _translate(sqlite3.DatabaseError("its definitions are not readable"), path) from error
    except OSError as error:
        raise PhraseIndexError(f"{path}: {error.strerror or error}; check free space and permissions") from error


def _translate(error: sqlite3.Error, path: Path) -> PhraseIndexError:
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
    """Identity of a state of the store's file: its inode and the time of its last change. 0: no file."""

    device: int
    inode: int
    size: int
    changed: int

    @property
    def file(self) -> tuple[int, int]:
        """Numbers that no change of the file changes: it is in use, so no other can be given these numbers."""
        return self.device, self.inode


def mark(path: Path) -> Mark:
    """Mark of the store in the folder ``path``."""
    try:
        status = (path / STORE).stat()
    except FileNotFoundError:
        return Mark(0, 0, 0, 0)
    return Mark(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def has_log(path: Path) -> bool:
    """Whether the log of the store in the folder ``path`` holds anything."""
    try:
        return (path / f"{STORE}-wal").stat().st_size > 0
    except FileNotFoundError:
        return False


class OpenConnection(NamedTuple):
    """A connection, whether it is read-only after all, and of which state of the file it is if that is immutable."""

    connection: sqlite3.Connection
    readonly: bool
    immutable: Mark | None = None


def connect(path: Path, readonly: bool) -> OpenConnection:
    """Open the store in the folder ``path``.

    A folder that we may not write to is opened for reading: with the log of SQLite where it exists, else as immutable.
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
                f"{path}: an interrupted writer left {STORE}-wal, which a read-only folder cannot take in; "
                f"open the index once with write permission"
            ) from error
        before = mark(path)  # before it is opened, lest a change in between goes unnoticed
        return OpenConnection(_configured(uri + "?immutable=1", readonly=True), readonly=True, immutable=before)


def _configured(uri: str, readonly: bool) -> sqlite3.Connection:
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
    """CRC-32 over all that the full-text table ``words`` holds."""
    value = 0
    for identity, block in connection.execute("SELECT id, block FROM words_data ORDER BY id"):
        content = block if isinstance(block, bytes) else repr(block).encode()  # damage may be of any kind
        value = crc32(content, crc32(b"%d" % identity, value))
    for row in connection.execute("SELECT segid, term, pgno FROM words_idx ORDER BY segid, term"):
        value = crc32(repr(row).encode(), value)
    return value


def is_empty(connection: sqlite3.Connection) -> bool:
    return not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]


def words_match(connection: sqlite3.Connection) -> bool:
    """Whether the text index is sound and says what the sentences say; takes SQLite's lock for writing."""
    try:
        connection.execute("INSERT INTO words (words, rank) VALUES ('integrity-check', 1)")
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_CORRUPT:
            raise
        return False
    return True


def initialise(connection: sqlite3.Connection, folder: Path) -> None:
    """Lay out an empty store in its folder, or wait until another process has. Raises IndexLocked."""
    patience = monotonic() + BUSY_SECONDS
    while is_empty(connection):
        try:
            with write_lock(folder):
                if is_empty(connection):
                    _lay_out(connection)
        except IndexLocked:
            if monotonic() > patience:
                raise
            sleep(_LOOK_SECONDS)


def _lay_out(connection: sqlite3.Connection) -> None:
    """Create the tables in one transaction."""
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
    """Raise IndexDamaged unless the store's own definitions are the ones we write."""
    definitions = {
        name: sql for name, sql in connection.execute("SELECT name, sql FROM sqlite_master") if name in SCHEMA
    }
    active = "SELECT name FROM sqlite_master WHERE type IN ('trigger', 'view')"  # they would run when we write or read
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
    """Hold the right to write to the index in ``folder``.

    Raises IndexLocked, naming the holder, if another process or another open Index of this one has it.
    """
    from filelock import FileLock, Timeout  # it loads asyncio: only writers pay for that

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
    import socket  # only writers pay for it

    note = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "since": datetime.now().astimezone().isoformat(timespec="seconds"),
        "command": " ".join(sys.argv)[:200],
    }
    with suppress(OSError):  # the note informs, the lock protects
        (folder / NOTE_FILE).write_text(json.dumps(note), "utf-8")


def _holder(folder: Path) -> str:
    """Read who left the note; it is only a courtesy, so an unreadable one is not an error."""
    try:
        note = json.loads((folder / NOTE_FILE).read_text("utf-8"))
        return f"process {note['pid']} on {note['host']} (since {note['since']}: {note['command']})"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
