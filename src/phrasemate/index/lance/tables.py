"""The Lance tables of an index: their columns, and the few things that are done to them.

Lance commits a table at a time, and a table whose rows are appended keeps every version. So a row of ``state`` names
the version of each other table that is in force: one commit of ``state`` changes all of them at once.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from phrasemate.errors import IndexDamaged, IndexError_, IndexExists, IndexLocked, IndexMissing, MissingExtra

STATE, SHARDS, SENTENCES, PHRASES, WORDS = "state", "shards", "sentences", "phrases", "words"
DATA = (SENTENCES, PHRASES)
MOST_ROWS = 1 << 22  # of a file: all phrases of a shard


def lance() -> Any:
    """The package. Raises MissingExtra."""
    os.environ.setdefault("LANCE_LOG", "error")  # it warns of every table that is made
    try:
        import lance as package
    except ImportError as error:
        raise MissingExtra("pylance", "ray") from error
    # said whenever a program is started too, which has nothing of Lance in it
    warnings.filterwarnings("ignore", "lance is not fork-safe", UserWarning)
    return package


def schema(name: str, dim: int) -> Any:
    """The columns of a table.

    A row of ``phrases`` is one phrase: ``key`` is its shard's number and its place there (shard << 32 | place), and
    ``vector`` the numbers of its 8-bit code, which float16 holds exactly: Lance indexes floats only. ``words`` is
    derived from ``sentences``: texts in lower case, for Lance's index of trigrams.
    """
    import pyarrow as pa

    columns = {
        STATE: {"state": pa.string()},
        SHARDS: {"number": pa.int64(), "key": pa.string(), "attempt": pa.string(), "shard": pa.string()},
        SENTENCES: {
            "id": pa.int64(),
            "document": pa.int64(),
            "position": pa.int64(),
            "line": pa.int64(),
            "first": pa.int64(),
            "phrases": pa.int64(),
            "text": pa.binary(),
            "metadata": pa.binary(),
            "spans": pa.binary(),
            "crc": pa.int64(),
            "codes_crc": pa.int64(),
        },
        WORDS: {"id": pa.int64(), "document": pa.int64(), "text": pa.string()},
        PHRASES: {"key": pa.int64(), "document": pa.int64(), "vector": pa.list_(pa.float16(), dim)},
    }
    return pa.schema(list(columns[name].items()))


@contextmanager
def translate_errors(place: str) -> Iterator[None]:
    """Turn what Lance raises into errors of phrasemate that name the place."""
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:
        said = " ".join(str(error).split(", /home/")[0].split())
        if "was not found" in said:
            raise IndexMissing(
                f"no index at {place}; make one with: phrasemate index --cluster ADDRESS TEXT -o {place}"
            ) from error
        raise IndexError_(f"{place}: {said[:300]}; check the place, its credentials and free space") from error


class Tables:
    """The tables at one place. Every method raises IndexError_ where the place cannot be used."""

    def __init__(self, place: str, options: Mapping[str, str]) -> None:
        self.place, self.options = place, dict(options)
        self._lance = lance()

    def uri(self, name: str) -> str:
        return f"{self.place}/{name}.lance"

    def open(self, name: str, version: int | None = None) -> Any:
        """A table as it is, or as it was at a version. Raises IndexMissing, and IndexDamaged for other columns.

        Of an index it is `STATE` that may be missing; where another is (but `WORDS`, which is derived), so is a part.
        """
        try:
            with translate_errors(self.place):
                found = self._lance.dataset(self.uri(name), version=version, storage_options=self.options)
                columns = {field.name: field.type for field in found.schema}
        except IndexMissing as error:
            if name in (STATE, WORDS):
                raise
            what = f"the table {name}" + ("" if version is None else f" of version {version}")
            raise IndexDamaged(
                f"{self.place}: {what} is missing; restore it from a copy or build the index again"
            ) from error
        expected = schema(name, getattr(columns.get("vector"), "list_size", 0))
        if columns != {field.name: field.type for field in expected}:
            raise IndexDamaged(f"{self.place}: the table {name} has other columns than ours; build the index again")
        return found

    def create(self, name: str, dim: int) -> int:
        """An empty table, in the place of an empty one if need be; its version. Raises IndexExists."""
        try:
            return self.anew(name, dim, "create")
        except IndexError_ as error:
            if "already exists" not in str(error):
                raise
        if self.open(name).count_rows():
            raise IndexExists(f"{self.place}: the table {name} holds rows of another index; choose another place")
        return self.anew(name, dim)

    def anew(self, name: str, dim: int, mode: str = "overwrite") -> int:
        """An empty table in the place of what is there; its version."""
        empty = schema(name, dim).empty_table()
        with translate_errors(self.place):
            made = self._lance.write_dataset(empty, self.uri(name), mode=mode, storage_options=self.options)
        return int(made.version)

    def add(self, name: str, table: Any) -> None:
        """Append rows in one commit; any number of processes may do so at once."""
        with translate_errors(self.place):
            self._lance.write_dataset(table, self.uri(name), mode="append", storage_options=self.options)

    def write(self, name: str, table: Any, most: int = MOST_ROWS) -> list[str]:
        """Write rows that belong to the table once `append` or `replace` commits them: their fragments, as JSON.

        ``most``: rows of a file.
        """
        with translate_errors(self.place):
            made = self._lance.fragment.write_fragments(
                table,
                self.uri(name),
                schema=table.schema,
                mode="append",
                max_rows_per_file=most,
                storage_options=self.options,
            )
        return [json.dumps(fragment.to_json()) for fragment in made]

    def whole(self, name: str, fragments: Sequence[str]) -> bool:
        """Whether the files of what `write` wrote are there: Lance removes those that no version names after a week."""
        from lance.file import LanceFileSession

        with translate_errors(self.place):
            held = [self._lance.fragment.FragmentMetadata.from_json(fragment) for fragment in fragments]
            files = [file.path for fragment in held for file in fragment.files]
            folder = LanceFileSession(f"{self.uri(name)}/data", storage_options=self.options)
            return all("/" not in file and folder.contains(file) for file in files)

    def append(self, name: str, fragments: Sequence[str], version: int) -> int:
        """Commit what `write` wrote behind what the table held at ``version``; the new version."""
        if not fragments:
            return version
        held = [self._lance.fragment.FragmentMetadata.from_json(fragment) for fragment in fragments]
        with translate_errors(self.place):
            made = self._lance.LanceDataset.commit(
                self.uri(name), self._lance.LanceOperation.Append(held), version, storage_options=self.options
            )
        return self._next(int(made.version), version)

    def replace(self, name: str, numbers: Sequence[int], fragments: Sequence[str], version: int) -> int:
        """Commit what `write` wrote in place of the files of these numbers, behind all others; the new version."""
        held = [self._lance.fragment.FragmentMetadata.from_json(fragment) for fragment in fragments]
        change = self._lance.LanceOperation.Update(removed_fragment_ids=list(numbers), new_fragments=held)
        with translate_errors(self.place):
            made = self._lance.LanceDataset.commit(self.uri(name), change, version, storage_options=self.options)
        return self._next(int(made.version), version)

    def delete(self, name: str, where: str, version: int) -> int:
        """Delete rows of what the table held at ``version``; the new version."""
        table = self.open(name, version)
        with translate_errors(self.place):
            table.delete(where)
        return self._next(int(self.open(name).version), version)

    def _next(self, made: int, version: int) -> int:
        """Lance puts a commit behind those of others; behind those of a writer that we follow it must not be."""
        if made != version + 1:
            raise IndexLocked(f"{self.place}: another process writes to this index; wait until it has finished")
        return made

    def go_back(self, name: str, version: int) -> int:
        """Make the table as it was at ``version``, if a writer that was killed has gone on since; its version now."""
        with translate_errors(self.place):
            if self.open(name).version != version:
                old = self.open(name, version)
                old.restore()
                return int(old.version)
        return version
