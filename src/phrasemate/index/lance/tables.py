"""Lance tables of an index: addresses, columns, opening, changes, and compaction.

Lance commits one table at a time, and keeps old versions. The row of the table ``state`` names the version of each
other table that belongs to the index. So one commit of ``state`` changes all tables at once.

Compaction merges small files and keeps the order of rows, since a row's position identifies its sentence or phrase.
Lance orders rows by file number, and its own compaction gives new numbers to new files. That would move their rows
behind the files that stay (Lance issue 3465). So `compact` rewrites every file after the first rewritten one, in order.
Usually these are the few small files at the end.
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
MOST_ROWS = 1 << 22  # maximum rows of a file; more than the phrases of a shard


def lance() -> Any:
    """Import the package Lance. Raises MissingExtra."""
    os.environ.setdefault("LANCE_LOG", "error")  # no warning for every new table
    with needs_extra("ray", "pylance"):
        import lance as package
    # Lance warns of every subprocess, although a new program does not inherit its threads
    warnings.filterwarnings("ignore", "lance is not fork-safe", UserWarning)
    return package


def schema(name: str, dim: int) -> Any:
    """Return the Arrow schema of a table; ``dim`` is the length of the vectors.

    Each row of ``phrases`` is one phrase. Its ``key`` is (shard number << 32 | position in the shard). Its ``vector``
    has the values of the 8-bit code as float16, which holds them exactly: Lance indexes floats only. The table
    ``words`` is derived from ``sentences``: texts in lower case, for Lance's trigram index.
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
    """Convert errors of Lance inside a ``with`` block into errors of phrasemate that name the index.

    Raises IndexMissing for a table that does not exist, PhraseIndexError for all other errors.
    """
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
    """Tables of one index. Every method raises PhraseIndexError if the folder or storage cannot be used.

    Args:
        place: Folder or URI of object storage (`place_of`).
        options: Storage options of Lance (`options_for`).
    """

    def __init__(self, place: str, options: Mapping[str, str]) -> None:
        self.place, self.options = place, dict(options)
        self._lance = lance()

    def uri(self, name: str) -> str:
        """Return the path or URI of a table."""
        return f"{self.place}/{name}.lance"

    def open(self, name: str, version: int | None = None) -> Any:
        """Open a table at its latest or at a given version.

        Raises IndexMissing for a missing `STATE` (no index) or `WORDS` (derived, so it can be built again). Raises
        IndexDamaged for another missing table and for wrong columns.
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
        expected_columns = schema(name, getattr(columns.get("vector"), "list_size", 0))
        if columns != {field.name: field.type for field in expected_columns}:
            raise IndexDamaged(
                f"{self.place}: the table {name} does not have the columns of an index; build the index again"
            )
        return dataset

    def create(self, name: str, dim: int) -> int:
        """Create an empty table, or replace an empty one, and return its version.

        Raises IndexExists if the table has rows.
        """
        try:
            return self.create_empty(name, dim, "create")
        except PhraseIndexError as error:
            if "already exists" not in str(error):
                raise
        if self.open(name).count_rows():
            raise IndexExists(f"{self.place}: the table {name} holds rows of another index; choose another place")
        return self.create_empty(name, dim)

    def create_empty(self, name: str, dim: int, mode: str = "overwrite") -> int:
        """Write an empty table and return its version; the mode "overwrite" replaces an existing one."""
        empty = schema(name, dim).empty_table()
        with translate_errors(self.place):
            dataset = self._lance.write_dataset(empty, self.uri(name), mode=mode, storage_options=self.options)
        return int(dataset.version)

    def add(self, name: str, table: Any) -> None:
        """Append rows in one commit. Several processes may do so at the same time."""
        with translate_errors(self.place):
            self._lance.write_dataset(table, self.uri(name), mode="append", storage_options=self.options)

    def write(self, name: str, table: Any, most: int = MOST_ROWS) -> list[str]:
        """Write rows to new files, and return Lance's records of the files (fragments) as JSON.

        The rows join the table when `append` or `replace` commits the fragments. ``most``: maximum rows of a file.
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
        """Parse the fragments that `write` returned."""
        return [self._lance.fragment.FragmentMetadata.from_json(fragment) for fragment in fragments]

    def whole(self, name: str, fragments: Sequence[str]) -> bool:
        """Whether all files of fragments exist. Lance deletes files that no version uses after a week."""
        from lance.file import LanceFileSession

        with translate_errors(self.place):
            files = [file.path for fragment in self.metadata_of(fragments) for file in fragment.files]
            folder = LanceFileSession(f"{self.uri(name)}/data", storage_options=self.options)
            return all("/" not in file and folder.contains(file) for file in files)

    def append(self, name: str, fragments: Sequence[str], version: int) -> int:
        """Append the fragments that `write` returned to the given version of a table; return the new version.

        Raises IndexLocked if another process has changed the table since.
        """
        if not fragments:
            return version
        return self._commit(name, self._lance.LanceOperation.Append(self.metadata_of(fragments)), version)

    def replace(self, name: str, numbers: Sequence[int], fragments: Sequence[str], version: int) -> int:
        """Remove files by number and append the fragments that `write` returned, in one commit; return the new version.

        Raises IndexLocked if another process has changed the table since ``version``.
        """
        files = self.metadata_of(fragments)
        change = self._lance.LanceOperation.Update(removed_fragment_ids=list(numbers), new_fragments=files)
        return self._commit(name, change, version)

    def delete(self, name: str, where: str, version: int) -> int:
        """Delete the rows of a version of a table that match the filter ``where``; return the new version.

        Raises IndexLocked if another process has changed the table since.
        """
        table = self.open(name, version)
        with translate_errors(self.place):
            table.delete(where)
        return self._check_version(int(self.open(name).version), version)

    def _commit(self, name: str, change: Any, version: int) -> int:
        with translate_errors(self.place):
            dataset = self._lance.LanceDataset.commit(self.uri(name), change, version, storage_options=self.options)
        return self._check_version(int(dataset.version), version)

    def _check_version(self, new_version: int, version: int) -> int:
        """Return the new version if it directly follows ``version``; raise IndexLocked otherwise.

        Lance merges a commit with concurrent ones, which must not come from an earlier writer.
        """
        if new_version != version + 1:
            raise IndexLocked(f"{self.place}: another process writes to this index; wait until it has finished")
        return new_version

    def go_back(self, name: str, version: int) -> int:
        """Restore a version of a table if there are later ones, which a killed writer left; return the version now."""
        with translate_errors(self.place):
            if self.open(name).version != version:
                old = self.open(name, version)
                old.restore()
                return int(old.version)
        return version


COMPACT_ROWS = 1 << 20  # maximum rows of a file that compaction writes
_SMALL_ROWS = COMPACT_ROWS // 2  # files with fewer rows are small
_MAX_SMALL_FILES = 100  # small files before large ones that stay: merging them means rewriting all later files


def first_rewritten(sizes: Sequence[int], small: int, loose: int) -> int | None:
    """Return the number of the first file to rewrite (all later files are rewritten, too); None if none is.

    If more than ``loose`` files are small, the result is the first small file. Otherwise it is the file after the last
    large one, if at least two small files follow that.

    Args:
        sizes: Rows of each file, in order.
        small: Files with fewer rows are small.
        loose: Maximum number of small files before large ones.
    """
    small_files = [at for at, size in enumerate(sizes) if size < small]
    if len(small_files) > loose:
        return small_files[0]
    last = max((at for at, size in enumerate(sizes) if size >= small), default=-1)
    return last + 1 if len(sizes) - last > 2 else None


def compact(tables: Tables, name: str) -> int:
    """Merge the small files of a table and drop their deleted rows; return the table's new version.

    Lance's indexes do not cover the rewritten rows until they are updated. Raises IndexLocked if another process has
    changed the table meanwhile.
    """
    table = tables.open(name)
    with translate_errors(tables.place):
        files = sorted(table.get_fragments(), key=lambda file: file.fragment_id)
        first = first_rewritten([file.count_rows() for file in files], _SMALL_ROWS, _MAX_SMALL_FILES)
        if first is None:
            return int(table.version)
        new_files = files[first:]
        rows = table.scanner(fragments=new_files, scan_in_order=True, batch_size=8192).to_reader()
    return tables.replace(
        name, [file.fragment_id for file in new_files], tables.write(name, rows, COMPACT_ROWS), table.version
    )


SCHEMES = {"s3": ("AWS_",), "gs": ("GOOGLE_",), "az": ("AZURE_",), "abfss": ("AZURE_",)}
"""Schemes of object storage, and the prefixes of the environment variables with their settings."""
_URI = re.compile(r"^([a-z][a-z0-9+]+):/+(?=[^/])")
_SETTINGS = re.compile(r"^(AWS_(ACCESS_KEY_ID|SECRET_ACCESS_KEY|SESSION_TOKEN|REGION|DEFAULT_REGION|ENDPOINT|"
                       r"ENDPOINT_URL|ALLOW_HTTP|VIRTUAL_HOSTED_STYLE_REQUEST)|GOOGLE_\w+|AZURE_\w+)$")  # fmt: skip


def place_of(path: str | os.PathLike[str]) -> str:
    """Return a URI in its normal form, or the absolute path of a folder.

    A URI that went through ``Path``, such as ``s3:/bucket``, becomes ``s3://bucket`` again. Raises InputError for an
    unknown scheme.
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
        raise InputError(f"{text}: an index cannot be stored there; expected a folder, or one of {schemes}")
    return f"{scheme}://{rest}"


def is_remote(place: str) -> bool:
    """Whether the address of an index is object storage, not a folder."""
    return "://" in place


def is_tables(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a folder with an index of Lance tables, or a URI. Does not use the network."""
    match = _URI.match(os.fspath(path))
    if match is not None:
        return match[1] in SCHEMES or match[1] == "file"
    return (Path(path) / "state.lance").is_dir()


def options_for(place: str) -> dict[str, str]:
    """Return Lance's storage options from the environment variables AWS_…, GOOGLE_… and AZURE_…; none for a folder.

    The driver passes them to the workers, whose environment may lack them.
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
