"""The head of an index: who may change it, and the commits that do."""

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

_LOOSE = 100  # rows of ``shards`` in files of their own from which they are put together
_ALL = 1 << 62


def read(tables: Tables) -> tuple[Head, int]:
    """The head of an index and the version of ``state`` that it is. Raises IndexMissing, IndexDamaged."""
    table = tables.open(STATE)
    with translate_errors(tables.place):
        rows = table.to_table()["state"].to_pylist()
    if len(rows) != 1:
        raise IndexDamaged(f"{tables.place}: {len(rows)} rows in the table state, expected 1; build the index again")
    return Head.from_json(rows[0], tables.place), int(table.version)


def create(tables: Tables, model: IndexModel, segment: dict[str, Any]) -> None:
    """Make the tables of an empty index; a killed ``create`` starts again. Raises IndexExists."""
    with suppress(IndexMissing):
        read(tables)
        raise _made_there(tables)
    versions = {name: tables.create(name, model.dim) for name in (SHARDS, *DATA)}
    head = Head(**asdict(Manifest.of(model, segment)), versions=versions)
    with translate_errors(tables.place):
        try:
            lance().write_dataset(_row(head), tables.uri(STATE), mode="create", storage_options=tables.options)
        except OSError as error:
            if "already exists" in str(error):
                raise _made_there(tables) from error
            raise


def _made_there(tables: Tables) -> IndexExists:
    return IndexExists(f"{tables.place}: an index was made there meanwhile; give the same command again")


def staged(tables: Tables, first: int, version: int | None = None) -> list[Shard]:
    """The shards that workers have committed, from number ``first`` on."""
    table = tables.open(SHARDS, version)
    with translate_errors(tables.place):
        texts = table.to_table(columns=["shard"], filter=f"number >= {first}")["shard"].to_pylist()
    return sorted((Shard.from_json(text, tables.place) for text in texts), key=lambda shard: shard.number)


def in_force(tables: Tables, head: Head) -> list[Shard]:
    """The shards that are in the index. Of those with one number it is the first: the other was committed later."""
    shards: dict[int, Shard] = {}
    for shard in staged(tables, 0, head.versions[SHARDS]):
        if shard.number < head.shards:
            shards.setdefault(shard.number, shard)
    return list(shards.values())


class Writer:
    """Writer with fencing: it writes itself into the head, and every earlier writer gets IndexLocked.

    So nothing is left locked when a driver dies. All that this one changes becomes visible with `_commit`.
    """

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.head, self._version = read(tables)
        since = datetime.now().astimezone().isoformat(timespec="seconds")
        name = f"process {os.getpid()} on {socket.gethostname()} (since {since}, {uuid4().hex[:8]})"
        self._commit(replace(self.head, writer=name))
        versions = {name: tables.go_back(name, version) for name, version in self.head.versions.items() if name in DATA}
        self.head = replace(self.head, versions=self.head.versions | versions)
        self._kept = {shard.attempt for shard in in_force(tables, self.head)}
        # a table that was rebuilt, or whose rows an overtaken writer dropped
        if not self._kept <= {attempt for _, attempt in _attempts(tables.open(SHARDS))}:
            tables.go_back(SHARDS, self.head.versions[SHARDS])

    def publish(self, shards: Sequence[Shard], document_counts: dict[int, tuple[int, int]]) -> None:
        """Add the shards with the next numbers to the index, and remove the documents that they replace.

        ``document_counts``: sentences and phrases of each document that may be replaced.
        """
        self._may_go_on()
        head = self.head
        versions = dict(head.versions)
        for name in DATA:
            fragments = [fragment for shard in shards for fragment in shard.fragments[name]]
            versions[name] = self._changed(name, versions[name], partial(self.tables.append, name, fragments))
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
        attempts = self._kept | {shard.attempt for shard in shards}
        self._commit(replace(head, versions=head.versions | {SHARDS: self._settled(attempts, head.shards)}))
        self._kept = attempts

    def delete(self, documents: Iterable[tuple[int, int, int]]) -> None:
        """Remove documents, all or none; given as the id of each, its sentences and its phrases."""
        self._may_go_on()
        head = self.head
        for document in documents:
            head = self._without(head, *document)
        self._commit(head)

    def put(self, key: str, value: Any) -> None:
        """Keep a JSON value under a key."""
        self._commit(replace(self.head, extras=self.head.extras | {key: value}))

    def pin(self, versions: dict[str, int]) -> None:
        """Point the index at compacted, equivalent versions of its data tables.

        Shards that are not in the index are dropped, to be made again: what comes next may clean their files away.
        """
        self._commit(replace(self.head, versions=self.head.versions | versions | {SHARDS: self._settled(self._kept)}))

    def _without(self, head: Head, document: int, sentences: int, phrases: int) -> Head:
        versions = dict(head.versions)
        for name in DATA:
            deletion = partial(self.tables.delete, name, f"document = {document}")
            versions[name] = self._changed(name, versions[name], deletion)
        return replace(
            head,
            versions=versions,
            documents=head.documents - 1,
            sentences=head.sentences - sentences,
            phrases=head.phrases - phrases,
            deleted=(*head.deleted, document),
        )

    def _changed(self, name: str, version: int, change: Callable[[int], int]) -> int:
        """Apply ``change`` to a version of a table; again if a writer that was overtaken came between."""
        try:
            return change(version)
        except IndexLocked:
            self._may_go_on()
            return change(self.tables.go_back(name, version))

    def _settled(self, attempts: set[str], below: int = _ALL) -> int:
        """The version of ``shards`` that holds, of the numbers below one, these attempts and no others.

        Workers may commit at any time, those of a driver that was overtaken too: so a version is looked at, and taken
        only if it is right.
        """
        self._tidy()
        while True:
            table = self.tables.open(SHARDS)
            stored_attempts = _attempts(table)
            older_attempts = [
                attempt for number, attempt in stored_attempts if number < below and attempt not in attempts
            ]
            if not older_attempts:
                break
            self._may_go_on()
            with translate_errors(self.tables.place):
                table.delete("attempt IN (" + ", ".join(map(_quoted, older_attempts)) + ")")
        if not attempts <= {attempt for _, attempt in stored_attempts}:
            raise IndexLocked(f"{self.tables.place}: another process has dropped shards; give the same command again")
        return int(table.version)

    def _tidy(self) -> None:
        """Compact ``shards`` now and then: readers open each file of it."""
        table = self.tables.open(SHARDS)
        if len(table.get_fragments()) > _LOOSE:
            with translate_errors(self.tables.place):
                table.optimize.compact_files()

    def _may_go_on(self) -> None:
        """Raise IndexLocked if another writer has taken over, before tables are changed that now belong to it."""
        head, version = read(self.tables)
        if version != self._version:
            raise self._overtaken(head)

    def _overtaken(self, head: Head) -> IndexLocked:
        return IndexLocked(f"{self.tables.place}: {head.writer} has taken over; wait until it has finished")

    def _commit(self, head: Head) -> None:
        """Commit a head. Raises IndexLocked if another writer has come since."""
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
    """The number and the attempt of each row of ``shards``."""
    rows = table.to_table(columns=["number", "attempt"])
    return list(zip(rows["number"].to_pylist(), rows["attempt"].to_pylist(), strict=True))


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _row(head: Head) -> Any:
    import pyarrow as pa

    return pa.table({"state": [head.to_json()]}, schema=schema(STATE, head.dim))
