"""The Lance tables of an index: where they are, their columns, how they are opened and changed, and compaction.

Lance commits a table at a time, and a table whose rows are appended keeps every version. So a row of ``state`` names
the version of each other table that is in force: one commit of ``state`` changes all of them at once.

Compaction merges small files without moving rows, for a row's place in the table says which sentence or phrase it is.
Lance orders a table by the numbers of its files, and its own compaction gives new files new numbers. So rows would move
behind files that are left as they are (Lance issue 3465). Here everything behind the first rewritten file is rewritten
too, in order; mostly that is the few small files at the end.
"""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from phrasemate.errors import (
    IndexDamaged,
    IndexExists,
    IndexLocked,
    IndexMissing,
    InputError,
    PhraseIndexError,
    needs_extra,
)

STATE, SHARDS, SENTENCES, PHRASES, WORDS = "state", "shards", "sentences", "phrases", "words"
DATA = (SENTENCES, PHRASES)
MOST_ROWS = 1 << 22  # of a file: all phrases of a shard


def lance() -> Any:
    """The package. Raises MissingExtra."""
    os.environ.setdefault("LANCE_LOG", "error")  # it warns of every table that is made
    with needs_extra("ray", "pylance"):
        import lance as package
    # said whenever a program is started too, which has nothing of Lance in it
    warnings.filterwarnings("ignore", "lance is not fork-safe", UserWarning)
    return package


def schema(name: str, dim: int) -> Any:
    """The columns of a table.

    A row of ``phrases`` is one phrase. ``key`` is its shard's number and its place there (shard << 32 | place).
    ``vector`` has the numbers of its 8-bit code, which float16 holds exactly: Lance indexes floats only. ``words`` is
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
        message = " ".join(str(error).split(", /home/")[0].split())
        if "was not found" in message:
            raise IndexMissing(
                f"no index at {place}; make one with: phrasemate index --cluster ADDRESS TEXT -o {place}"
            ) from error
        raise PhraseIndexError(f"{place}: {message[:300]}; check the place, its credentials and free space") from error


class Tables:
    """The tables at one place. Every method raises PhraseIndexError where the place cannot be used."""

    def __init__(self, place: str, options: Mapping[str, str]) -> None:
        self.place, self.options = place, dict(options)
        self._lance = lance()

    def uri(self, name: str) -> str:
        return f"{self.place}/{name}.lance"

    def open(self, name: str, version: int | None = None) -> Any:
        """Open a table, at its latest or at a given version. Raises IndexMissing, and IndexDamaged for other columns.

        Of an index it is `STATE` that may be missing; where another is (but `WORDS`, which is derived), so is a part.
        """
        try:
            with translate_errors(self.place):
                dataset = self._lance.dataset(self.uri(name), version=version, storage_options=self.options)
                columns = {field.name: field.type for field in dataset.schema}
        except IndexMissing as error:
            if name in (STATE, WORDS):
                raise
            title = f"the table {name}" + ("" if version is None else f" of version {version}")
            raise IndexDamaged(
                f"{self.place}: {title} is missing; restore it from a copy or build the index again"
            ) from error
        columns_due = schema(name, getattr(columns.get("vector"), "list_size", 0))
        if columns != {field.name: field.type for field in columns_due}:
            raise IndexDamaged(
                f"{self.place}: the table {name} does not have the columns of an index; build the index again"
            )
        return dataset

    def create(self, name: str, dim: int) -> int:
        """Create an empty table, replacing an empty one if need be; returns its version. Raises IndexExists."""
        try:
            return self.create_empty(name, dim, "create")
        except PhraseIndexError as error:
            if "already exists" not in str(error):
                raise
        if self.open(name).count_rows():
            raise IndexExists(f"{self.place}: the table {name} holds rows of another index; choose another place")
        return self.create_empty(name, dim)

    def create_empty(self, name: str, dim: int, mode: str = "overwrite") -> int:
        """Replace a table by an empty one; returns its version."""
        empty = schema(name, dim).empty_table()
        with translate_errors(self.place):
            dataset = self._lance.write_dataset(empty, self.uri(name), mode=mode, storage_options=self.options)
        return int(dataset.version)

    def add(self, name: str, table: Any) -> None:
        """Append rows in one commit; any number of processes may do so at once."""
        with translate_errors(self.place):
            self._lance.write_dataset(table, self.uri(name), mode="append", storage_options=self.options)

    def write(self, name: str, table: Any, most: int = MOST_ROWS) -> list[str]:
        """Write rows that belong to the table once `append` or `replace` commits them: their fragments, as JSON.

        ``most``: rows of a file.
        """
        with translate_errors(self.place):
            fragments = self._lance.fragment.write_fragments(
                table,
                self.uri(name),
                schema=table.schema,
                mode="append",
                max_rows_per_file=most,
                storage_options=self.options,
            )
        return [json.dumps(fragment.to_json()) for fragment in fragments]

    def metadata_of(self, fragments: Sequence[str]) -> list[Any]:
        """Lance's records of what `write` wrote."""
        return [self._lance.fragment.FragmentMetadata.from_json(fragment) for fragment in fragments]

    def whole(self, name: str, fragments: Sequence[str]) -> bool:
        """Whether the files of what `write` wrote are there: Lance removes those that no version names after a week."""
        from lance.file import LanceFileSession

        with translate_errors(self.place):
            files = [file.path for fragment in self.metadata_of(fragments) for file in fragment.files]
            folder = LanceFileSession(f"{self.uri(name)}/data", storage_options=self.options)
            return all("/" not in file and folder.contains(file) for file in files)

    def append(self, name: str, fragments: Sequence[str], version: int) -> int:
        """Commit what `write` wrote behind what the table held at ``version``; the new version."""
        if not fragments:
            return version
        return self._commit(name, self._lance.LanceOperation.Append(self.metadata_of(fragments)), version)

    def replace(self, name: str, numbers: Sequence[int], fragments: Sequence[str], version: int) -> int:
        """Commit what `write` wrote instead of the files of these numbers, behind all others; the new version."""
        files = self.metadata_of(fragments)
        change = self._lance.LanceOperation.Update(removed_fragment_ids=list(numbers), new_fragments=files)
        return self._commit(name, change, version)

    def delete(self, name: str, where: str, version: int) -> int:
        """Delete rows of what the table held at ``version``; the new version."""
        table = self.open(name, version)
        with translate_errors(self.place):
            table.delete(where)
        return self._next(int(self.open(name).version), version)

    def _commit(self, name: str, change: Any, version: int) -> int:
        with translate_errors(self.place):
            dataset = self._lance.LanceDataset.commit(self.uri(name), change, version, storage_options=self.options)
        return self._next(int(dataset.version), version)

    def _next(self, version_made: int, version: int) -> int:
        """Check the version of a commit: Lance puts it behind those of others, which must not be of a writer that was
        overtaken.
        """
        if version_made != version + 1:
            raise IndexLocked(f"{self.place}: another process writes to this index; wait until it has finished")
        return version_made

    def go_back(self, name: str, version: int) -> int:
        """Make the table as it was at ``version``, if a writer that was killed has gone on since; its version now."""
        with translate_errors(self.place):
            if self.open(name).version != version:
                old = self.open(name, version)
                old.restore()
                return int(old.version)
        return version


COMPACT_ROWS = 1 << 20  # of a file that is made here
_SMALL_ROWS = COMPACT_ROWS // 2  # rows from which a file is left as it is
_LOOSE = 100  # small files before large ones that are put up with: all behind them would have to be rewritten


def first_rewritten(sizes: Sequence[int], small: int, loose: int) -> int | None:
    """Find the first file to be rewritten, with all behind it, from the rows of each; None: none is.

    The one behind the last file of ``small`` rows or more, if two or more follow; the first smaller one, if there are
    more than ``loose`` of them.
    """
    few = [at for at, size in enumerate(sizes) if size < small]
    if len(few) > loose:
        return few[0]
    last = max((at for at, size in enumerate(sizes) if size >= small), default=-1)
    return last + 1 if len(sizes) - last > 2 else None


def compact(tables: Tables, name: str) -> int:
    """Merge small files and drop their deleted rows; returns the table's new version.

    Lance's indexes know nothing of the rewritten rows until they are brought up to date. Raises PhraseIndexError.
    """
    table = tables.open(name)
    with translate_errors(tables.place):
        files = sorted(table.get_fragments(), key=lambda file: file.fragment_id)
        first = first_rewritten([file.count_rows() for file in files], _SMALL_ROWS, _LOOSE)
        if first is None:
            return int(table.version)
        new_files = files[first:]
        rows = table.scanner(fragments=new_files, scan_in_order=True, batch_size=8192).to_reader()
    return tables.replace(
        name, [file.fragment_id for file in new_files], tables.write(name, rows, COMPACT_ROWS), table.version
    )


SCHEMES = {"s3": ("AWS_",), "gs": ("GOOGLE_",), "az": ("AZURE_",), "abfss": ("AZURE_",)}  # and whose variables count
_URI = re.compile(r"^([a-z][a-z0-9+]+):/+(?=[^/])")
_SETTINGS = re.compile(r"^(AWS_(ACCESS_KEY_ID|SECRET_ACCESS_KEY|SESSION_TOKEN|REGION|DEFAULT_REGION|ENDPOINT|"
                       r"ENDPOINT_URL|ALLOW_HTTP|VIRTUAL_HOSTED_STYLE_REQUEST)|GOOGLE_\w+|AZURE_\w+)$")  # fmt: skip


def place_of(path: str | os.PathLike[str]) -> str:
    """A URI as it was meant (a ``Path`` has made ``s3:/bucket`` of ``s3://bucket``), or the absolute path of a folder.

    Raises InputError for a kind of place that is unknown.
    """
    text = os.fspath(path)
    match = _URI.match(text)
    if match is None:
        return str(Path(text).absolute())
    scheme, rest = match[1], text[match.end() :].rstrip("/")
    if scheme == "file":
        return f"/{rest}"
    if scheme not in SCHEMES:
        schemes = ", ".join(f"{name}://" for name in SCHEMES)
        raise InputError(f"{text}: no place for an index; expected a folder, or one of {schemes}")
    return f"{scheme}://{rest}"


def is_remote(place: str) -> bool:
    """Whether a place is object storage, not a folder."""
    return "://" in place


def is_tables(path: str | os.PathLike[str]) -> bool:
    """Whether an index of Lance tables stands there, or can only be one; asks no network."""
    match = _URI.match(os.fspath(path))
    if match is not None:
        return match[1] in SCHEMES or match[1] == "file"
    return (Path(path) / "state.lance").is_dir()


def options_for(place: str) -> dict[str, str]:
    """Lance's storage options from the usual environment variables (AWS_…, GOOGLE_…, AZURE_…); none for a folder.

    The driver hands them to its workers, whose own environment may lack them.
    """
    if not is_remote(place):
        return {}
    prefixes = SCHEMES[place.split(":")[0]]
    options = {
        name.lower(): value
        for name, value in os.environ.items()
        if value and name.startswith(prefixes) and _SETTINGS.match(name)
    }
    if options.get("aws_endpoint_url", options.get("aws_endpoint", "")).startswith("http://"):
        options.setdefault("aws_allow_http", "true")
    return options
