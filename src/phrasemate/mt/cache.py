"""Answers on disk: one SQLite file, keyed by the SHA-256 of the whole request. No key or header is ever in it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any

from phrasemate.errors import InputError

SCHEMA = "CREATE TABLE answers (key TEXT PRIMARY KEY, answer TEXT NOT NULL) WITHOUT ROWID"
WAIT = 60.0  # seconds for another process that writes


def request_key(url: str, body: dict[str, Any]) -> str:
    """SHA-256 of the address and the body, whatever the order of the body's fields."""
    return sha256(json.dumps([url, body], sort_keys=True, ensure_ascii=True).encode()).hexdigest()


class Cache:
    """A file of answers; several threads and processes may share it.

    Raises InputError for a file that is another, which is left as it is, and for one that cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._lock = path, Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path, timeout=WAIT, check_same_thread=False, isolation_level=None)
        except (sqlite3.DatabaseError, OSError) as error:
            raise InputError(f"{path}: cannot be opened ({error}); name another file") from None
        try:
            self._begin()
        except sqlite3.DatabaseError as error:
            self._connection.close()
            raise InputError(f"{path}: no file of answers ({error}); name another file or remove it") from None

    def _begin(self) -> None:
        """Nothing is written to a file that holds anything else, triggers among them."""
        self._connection.execute("PRAGMA trusted_schema = OFF")
        there = self._connection.execute("SELECT type, sql FROM sqlite_master").fetchall()
        if there not in ([], [("table", SCHEMA)]):
            raise sqlite3.DatabaseError("it holds other tables")
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = NORMAL")
        self._connection.execute(SCHEMA.replace("TABLE", "TABLE IF NOT EXISTS", 1))

    def get(self, key: str) -> dict[str, Any] | None:
        """The response that was put, None for a key that is new or whose response cannot be read any more."""
        with self._working():
            row = self._connection.execute("SELECT answer FROM answers WHERE key = ?", (key,)).fetchone()
        try:
            found = None if row is None else json.loads(row[0])
        except (ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) else None

    def put(self, key: str, answer: dict[str, Any]) -> None:
        """Keep a response, for good as soon as this returns."""
        text = json.dumps(answer, ensure_ascii=True)
        with self._working():
            self._connection.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", (key, text))

    @contextmanager
    def _working(self) -> Iterator[None]:
        try:
            with self._lock:
                yield
        except sqlite3.Error as error:
            advice = "free some space, or name another file; the same command goes on"
            raise InputError(f"{self.path}: cannot be used ({error}); {advice}") from None

    def __len__(self) -> int:
        with self._working():
            return int(self._connection.execute("SELECT count(*) FROM answers").fetchone()[0])

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Cache:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
