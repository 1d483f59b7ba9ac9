"""Read, create and commit the head of an index of Lance tables, with one writer at a time."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import datetime
from functools import partial
from typing import Any
from uuid import uuid4

from phrasemate.errors import IndexDamaged, IndexExists, IndexLocked, IndexMissing
from phrasemate.index.lance.records import Head, Shard
from phrasemate.index.lance.tables import DATA, SHARDS, STATE, Tables, lance, schema, translate_errors
from phrasemate.index.manifest import Manifest
from phrasemate.index.types import IndexModel

_MANY_FILES = 100  # files of ``shards`` above which the table is compacted
_NO_LIMIT = 1 << 62  # more than any shard's number


def read(tables: Tables) -> tuple[Head, int]:
    """Read the head of an index, and return it with its version of the table ``state``.

    Raises IndexMissing, IndexDamaged, IndexUnsupported.
    """
    table = tables.open(STATE)
    with translate_errors(tables.place):
        rows = table.to_table()["state"].to_pylist()
    if len(rows) != 1:
        raise IndexDamaged(f"{tables.place}: {len(rows)} rows in the table state, expected 1; build the index again")
    return Head.from_json(rows[0], tables.place), int(table.version)


def create(tables: Tables, model: IndexModel, segment: dict[str, Any]) -> None:
    """Create the tables of an empty index; the tables of a ``create`` that was killed are replaced.

    Raises IndexExists.
    """
    with suppress(IndexMissing):
        read(tables)
        raise _exists_now(tables)
    versions = {name: tables.create(name, model.dim) for name in (SHARDS, *DATA)}
    head = Head(**asdict(Manifest.of(model, segment)), versions=versions)
    with translate_errors(tables.place):
        try:
            lance().write_dataset(_row(head), tables.uri(STATE), mode="create", storage_options=tables.options)
        except OSError as error:
            if "already exists" in str(error):
                raise _exists_now(tables) from error
            raise


def _exists_now(tables: Tables) -> IndexExists:
    return IndexExists(f"{tables.place}: another process has created an index there; give the same command again")


def staged(tables: Tables, first: int, version: int | None = None) -> list[Shard]:
    """List the shards in the table ``shards`` with numbers from ``first`` on, by number; some may not be in the index.

    ``version``: version of the table; None for the latest.
    """
    table = tables.open(SHARDS, version)
    with translate_errors(tables.place):
        texts = table.to_table(columns=["shard"], filter=f"number >= {first}")["shard"].to_pylist()
    return sorted((Shard.from_json(text, tables.place) for text in texts), key=lambda shard: shard.number)


def indexed_shards(tables: Tables, head: Head) -> list[Shard]:
    """List the shards of the index. If several have one number, the index has the one committed first."""
    shards: dict[int, Shard] = {}
    for shard in staged(tables, 0, head.versions[SHARDS]):
        if shard.number < head.shards:
            shards.setdefault(shard.number, shard)
    return list(shards.values())


class Writer:
    """Writer of an index, with fencing instead of locks: a dead writer leaves nothing locked.

    A new writer commits its name to the head. From then on every earlier writer gets IndexLocked. Readers see changes
    once `_commit` has written a new head.
    """

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.head, self._version = read(tables)
        since = datetime.now().astimezone().isoformat(timespec="seconds")
        name = f"process {os.getpid()} on {socket.gethostname()} (since {since}, {uuid4().hex[:8]})"
        self._commit(replace(self.head, writer=name))
        versions = {name: tables.go_back(name, version) for name, version in self.head.versions.items() if name in DATA}
        self.head = replace(self.head, versions=self.head.versions | versions)
        self._attempts_in_index = {shard.attempt for shard in indexed_shards(tables, self.head)}
        # the table may have been rebuilt, or an earlier writer may have dropped rows after it was fenced off
        if not self._attempts_in_index <= {attempt for _, attempt in _attempts(tables.open(SHARDS))}:
            tables.go_back(SHARDS, self.head.versions[SHARDS])

    def publish(self, shards: Sequence[Shard], document_counts: dict[int, tuple[int, int]]) -> None:
        """Add the shards with the next numbers to the index, and remove the documents that they replace.

        Args:
            shards: Shards by number, from the head's next number on.
            document_counts: Numbers of sentences and phrases of each document that may be replaced, by id.

        Raises IndexLocked if another writer has taken over.
        """
        self._check_writer()
        head = self.head
        versions = dict(head.versions)
        for name in DATA:
            fragments = [fragment for shard in shards for fragment in shard.fragments[name]]
            versions[name] = self._apply(name, versions[name], partial(self.tables.append, name, fragments))
        pieces = [piece for shard in shards for piece in shard.pieces]
        head = replace(
            head,
            shards=head.shards + len(shards),
            versions=versions,
            documents=head.documents + len({p.document for p in pieces if p.document >= head.next_document}),
            sentences=head.sentences + sum(shard.sentences for shard in shards),
            phrases=head.phrases + sum(shard.phrases for shard in shards),
            next_document=max([head.next_document, *(piece.document + 1 for piece in pieces)]),
            next_sentence=head.next_sentence + sum(shard.sentences for shard in shards),
            next_phrase=head.next_phrase + sum(shard.phrases for shard in shards),
        )
        for old in dict.fromkeys(piece.replaces for piece in pieces if piece.replaces is not None):
            if old not in head.deleted:
                head = self._without(head, old, *document_counts[old])
        attempts = self._attempts_in_index | {shard.attempt for shard in shards}
        self._commit(replace(head, versions=head.versions | {SHARDS: self._clean_shards(attempts, head.shards)}))
        self._attempts_in_index = attempts

    def delete(self, documents: Iterable[tuple[int, int, int]]) -> None:
        """Remove documents, all or none, given as (id, number of sentences, number of phrases).

        Raises IndexLocked if another writer has taken over.
        """
        self._check_writer()
        head = self.head
        for document in documents:
            head = self._without(head, *document)
        self._commit(head)

    def put(self, key: str, value: Any) -> None:
        """Store a JSON value in the ``extras`` of the head."""
        self._commit(replace(self.head, extras=self.head.extras | {key: value}))

    def pin(self, versions: dict[str, int]) -> None:
        """Switch the index to compacted versions of its data tables, which hold the same rows.

        Shards that are not yet in the index are dropped, since the clean-up that follows may delete their files.
        """
        shards = {SHARDS: self._clean_shards(self._attempts_in_index)}
        self._commit(replace(self.head, versions=self.head.versions | versions | shards))

    def _without(self, head: Head, document: int, sentences: int, phrases: int) -> Head:
        """Delete a document's rows, and return a head without the document that is still to be committed."""
        versions = dict(head.versions)
        for name in DATA:
            deletion = partial(self.tables.delete, name, f"document = {document}")
            versions[name] = self._apply(name, versions[name], deletion)
        return replace(
            head,
            versions=versions,
            documents=head.documents - 1,
            sentences=head.sentences - sentences,
            phrases=head.phrases - phrases,
            deleted=(*head.deleted, document),
        )

    def _apply(self, name: str, version: int, change: Callable[[int], int]) -> int:
        """Apply ``change`` to a version of a table; return the new version.

        If an earlier writer has changed the table meanwhile, undo its change and apply this one again.
        """
        try:
            return change(version)
        except IndexLocked:
            self._check_writer()
            return change(self.tables.go_back(name, version))

    def _clean_shards(self, attempts: set[str], below: int = _NO_LIMIT) -> int:
        """Drop all other attempts with numbers below ``below`` from ``shards``, and return the new version.

        Workers may commit at any time, also those of a driver that has lost the index. So each version is read again
        until it has no other attempts. Raises IndexLocked if one of ``attempts`` is missing.
        """
        self._compact_shards()
        while True:
            table = self.tables.open(SHARDS)
            stored_attempts = _attempts(table)
            stray_attempts = [
                attempt for number, attempt in stored_attempts if number < below and attempt not in attempts
            ]
            if not stray_attempts:
                break
            self._check_writer()
            with translate_errors(self.tables.place):
                table.delete("attempt IN (" + ", ".join(map(_quoted, stray_attempts)) + ")")
        if not attempts <= {attempt for _, attempt in stored_attempts}:
            raise IndexLocked(f"{self.tables.place}: another process has dropped shards; give the same command again")
        return int(table.version)

    def _compact_shards(self) -> None:
        """Compact ``shards`` if it has many files: readers open each of them."""
        table = self.tables.open(SHARDS)
        if len(table.get_fragments()) > _MANY_FILES:
            with translate_errors(self.tables.place):
                table.optimize.compact_files()

    def _check_writer(self) -> None:
        """Raise IndexLocked if another writer has taken over. Called before the tables are changed."""
        head, version = read(self.tables)
        if version != self._version:
            raise self._overtaken(head)

    def _overtaken(self, head: Head) -> IndexLocked:
        return IndexLocked(f"{self.tables.place}: {head.writer} has taken over; wait until it has finished")

    def _commit(self, head: Head) -> None:
        """Commit a head with the next generation. Raises IndexLocked if another writer has taken over."""
        package = lance()
        head = replace(head, generation=head.generation + 1)
        fragments = self.tables.metadata_of(self.tables.write(STATE, _row(head)))
        with translate_errors(self.tables.place):
            try:
                dataset = package.LanceDataset.commit(
                    self.tables.uri(STATE),
                    package.LanceOperation.Overwrite(schema(STATE, head.dim), fragments),
                    read_version=self._version,
                    storage_options=self.tables.options,
                )
            except package.commit.CommitConflictError as error:
                raise self._overtaken(read(self.tables)[0]) from error
        self.head, self._version = head, int(dataset.version)


def _attempts(table: Any) -> list[tuple[int, str]]:
    """Read the number and the attempt of each row of ``shards``."""
    rows = table.to_table(columns=["number", "attempt"])
    return list(zip(rows["number"].to_pylist(), rows["attempt"].to_pylist(), strict=True))


def _quoted(text: str) -> str:
    """Quote a text for a filter of Lance."""
    return "'" + text.replace("'", "''") + "'"


def _row(head: Head) -> Any:
    import pyarrow as pa

    return pa.table({"state": [head.to_json()]}, schema=schema(STATE, head.dim))
