"""An open SQLite file: its connection, and what is read from it as of one moment."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock

from phrasemate.errors import IndexDamaged, IndexError_, IndexLocked
from phrasemate.index import database


class Session:
    """All methods may be called from any thread; one works at a time.

    A file that had to be opened as immutable has no log that SQLite would look at, so we look for a writer ourselves.
    """

    def __init__(self, path: Path, readonly: bool = False) -> None:
        self.path = path
        self.lock = RLock()
        with database.mapped(path):
            self._take(database.connect(path, readonly))

    def _take(self, opened: database.Opened) -> None:
        self.connection, self.readonly, self._immutable = opened
        self.file = database.mark(self.path).file

    def close(self) -> None:
        with self.lock:  # SQLite ends the process where a connection is closed that another thread reads
            self.connection.close()

    def same(self) -> None:
        """Raises IndexError_ if the file is no more the one that was opened."""
        if database.mark(self.path).file != self.file:
            raise IndexError_(f"{self.path}: was made anew, or taken away, since it was opened; open it again")

    def checkpoint(self) -> None:
        """Merge the log into the file, as far as readers allow at once: what is left is merged another time."""
        with self.lock, database.mapped(self.path):
            self.connection.execute("PRAGMA busy_timeout = 0")
            try:
                self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            finally:
                self.connection.execute(f"PRAGMA busy_timeout = {int(1000 * database.BUSY_SECONDS)}")

    @contextmanager
    def moment(self) -> Iterator[None]:
        """Everything read inside is of one moment, whatever a writer commits meanwhile. Can be nested."""
        with self.lock:
            with database.mapped(self.path):
                outermost = not self.connection.in_transaction
            if not outermost:
                yield
                return
            self._renew()
            with self._unchanged():
                try:
                    with database.mapped(self.path):
                        self.connection.execute("BEGIN")
                    yield
                finally:
                    if self.connection.in_transaction:
                        self.connection.execute("ROLLBACK")

    # -- a file that was opened as immutable

    def _renew(self) -> None:
        """Open it again if a writer came since.

        Raises IndexLocked where a writer's log cannot be read, IndexError_ as `same` does: what is known of another
        file is not of this one.
        """
        if not self._has_writer():
            return
        self.same()
        try:
            with database.mapped(self.path):
                opened = database.connect(self.path, readonly=True)
        except IndexError_ as error:
            raise self._written() from error
        self.connection.close()
        self._take(opened)

    @contextmanager
    def _unchanged(self) -> Iterator[None]:
        """What was read while the file changed is of two moments, or looks damaged. Raises IndexLocked for it."""
        try:
            yield
        except (IndexDamaged, UnicodeDecodeError, sqlite3.Error) as error:
            if self._has_writer():
                raise self._written() from error
            raise
        if self._immutable is not None and database.mark(self.path) != self._immutable:
            raise self._written()

    def _has_writer(self) -> bool:
        """Whether the file is not as it was opened, or a log has what it lacks."""
        if self._immutable is None:
            return False
        return database.mark(self.path) != self._immutable or database.has_log(self.path)

    def _written(self) -> IndexLocked:
        return IndexLocked(f"{self.path}: is being written by another process; try again when it has finished")
