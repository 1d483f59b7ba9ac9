"""Work folder of a mining run: the run's settings, and large arrays that are written block by block.

Every finished block has a checksum. A block with a wrong checksum (incomplete, altered, or from another run) counts as
missing and is computed again. So a run can be killed at any moment and resumed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import DTypeLike, NDArray

from phrasemate.errors import InputError
from phrasemate.utils.storage import acquire_lock, flush, is_entry, release_lock, sha256_of, sync, write_text

FORMAT, VERSION = "phrasemate-mine", 1
SETTINGS = "work.json"
_LOCK = "lock"
_WRITTEN_FILES = re.compile(  # names of the files that a run writes
    r"(work\.json|(source|target)\.(json|txt|(starts|lengths|places|first)\.npy|vectors\.(bin|log))"
    r"|(forward|backward)\.(json|bin|log)|(offset|source\.shifted|scores)\.(bin|log))(\.part)?"
)


class WorkFolder:
    """Folder with the intermediate results of a run, locked while it is open; also a context manager.

    Args:
        path: Folder, created if missing.
        settings: Settings that the run depends on, as plain data.
        force: Whether to empty a folder that has other settings, and start again.
        scratch: Whether to delete the folder when it is closed.

    Raises InputError for a folder with other settings (without ``force``), for a folder with other files, and while
    another process works in it.
    """

    def __init__(
        self, path: str | Path, settings: Mapping[str, Any], force: bool = False, scratch: bool = False
    ) -> None:
        self.path, self._scratch = Path(path), scratch
        entries = self._foreign_entries()
        if entries:
            raise InputError(f"{self.path}: holds {entries[0]!r} but no {SETTINGS}; expected an empty folder or none")
        try:
            self.path.mkdir(exist_ok=True)
            sync(self.path.parent)
        except OSError as error:
            raise InputError(f"{self.path}: cannot be made ({error.strerror}); check the path") from error
        self._lock = acquire_lock(
            self.path / _LOCK, f"{self.path}: another process is working there; wait for it to end"
        )
        try:
            self._start(json.loads(json.dumps(dict(settings))), force)
        except BaseException:
            release_lock(self._lock)
            raise

    def _foreign_entries(self) -> list[str]:
        """List the entries of a folder that is not a work folder. Raises InputError if the path is a file."""
        if not self.path.exists() or (self.path / SETTINGS).exists():
            return []
        if not self.path.is_dir():
            raise InputError(f"{self.path}: is a file; expected a folder to work in")
        return sorted(entry.name for entry in self.path.iterdir() if entry.name not in (_LOCK, f"{SETTINGS}.part"))

    def _start(self, settings: dict[str, Any], force: bool) -> None:
        """Resume if the stored settings are equal; else empty the folder and store the new settings."""
        file = self.path / SETTINGS
        self.resumed = file.exists()
        if self.resumed:
            try:
                return self._compare(self._stored_settings(file), settings)
            except InputError:
                if not force:
                    raise
                self.resumed = False
        self.remove(keep_folder=True)
        write_text(file, json.dumps({"format": FORMAT, "version": VERSION, "settings": settings}, indent=1) + "\n")
        return None

    def _stored_settings(self, file: Path) -> dict[str, Any]:
        """Read the settings of the run in the folder. Raises InputError if they are damaged or of another format."""
        try:
            content = json.loads(file.read_text("utf-8"))
            old_settings: dict[str, Any] = content["settings"]
            is_readable = (content["format"], content["version"], type(old_settings)) == (FORMAT, VERSION, dict)
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise InputError(f"{file}: damaged; --force discards the run and starts again") from error
        if not is_readable:
            raise InputError(f"{file}: of another version of phrasemate; use that one, or --force to start again")
        return old_settings

    def _compare(self, stored: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
        """Raise InputError if the settings differ from the stored ones."""
        keys = sorted(key for key in stored.keys() | settings.keys() if stored.get(key) != settings.get(key))
        if keys:
            changes = ", ".join(f"{key} {_short(stored.get(key))}, now {_short(settings.get(key))}" for key in keys)
            raise InputError(
                f"{self.path}: was started with {changes}; give the same, another --work, or --force to start again"
            )

    def remove(self, keep_folder: bool = False) -> None:
        """Delete the files of the run, and, unless ``keep_folder``, release the lock and delete the empty folder."""
        for entry in list(self.path.iterdir()) if self.path.exists() else ():
            if _WRITTEN_FILES.fullmatch(entry.name) and entry.is_file():
                entry.unlink()
        if not keep_folder:
            release_lock(self._lock)
            with suppress(OSError):
                self.path.rmdir()

    def __enter__(self) -> WorkFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the lock; a scratch folder is deleted."""
        if self._scratch:
            self.remove()
        else:
            release_lock(self._lock)


class Blocks:
    """Array on disk that is written in blocks of rows and read as a memory map.

    ``NAME.bin`` has the values, and ``NAME.log`` a line for each finished block, with number, key and checksum.

    Args:
        folder: Folder of the files.
        name: Name of the array.
        shape: (rows, width).
        dtype: Type of the values.
        block: Rows of a block.
        keys: Hash of the input of each block; a stored block with another key counts as missing.

    Raises InputError unless there is one key for each block.
    """

    def __init__(
        self, folder: Path, name: str, shape: tuple[int, int], dtype: DTypeLike, block: int, keys: Sequence[str]
    ) -> None:
        self.shape, self.dtype, self.block, self.keys = shape, np.dtype(dtype), block, keys
        self._bin, self._log = folder / f"{name}.bin", folder / f"{name}.log"
        if len(keys) != self.count:
            raise InputError(f"{len(keys)} keys for {self.count} blocks of {name}; expected one for each")
        with self._bin.open("ab") as file:  # a new length leaves unchanged blocks valid
            file.truncate(shape[0] * shape[1] * self.dtype.itemsize)
        self._log.touch()
        sync(folder)  # the names of both files; their contents are flushed block by block
        self.done = self._verified()

    @property
    def count(self) -> int:
        """Total number of blocks."""
        return -(-self.shape[0] // self.block)

    @property
    def missing(self) -> list[int]:
        """Numbers of the blocks that are not finished, ascending."""
        return [number for number in range(self.count) if number not in self.done]

    def rows(self, number: int) -> slice:
        """Return the rows of a block."""
        return slice(number * self.block, min((number + 1) * self.block, self.shape[0]))

    @property
    def array(self) -> NDArray[Any]:
        """Read-only memory map, (rows, width); the values of unfinished blocks are arbitrary."""
        if not self.shape[0] * self.shape[1]:  # an empty file cannot be mapped
            return np.zeros(self.shape, self.dtype)
        return np.memmap(self._bin, self.dtype, "r", shape=self.shape)

    def write(self, number: int, values: NDArray[Any]) -> None:
        """Write a block and flush it to disk; only then is it logged as finished.

        Raises InputError for values of another shape.
        """
        rows = self.rows(number)
        raw = np.ascontiguousarray(values, self.dtype)
        if raw.shape != (rows.stop - rows.start, self.shape[1]):
            raise InputError(f"block {number} of {self._bin} has shape {raw.shape}; expected {rows}, {self.shape[1]}")
        with self._bin.open("rb+") as file:
            file.seek(rows.start * self.shape[1] * self.dtype.itemsize)
            file.write(raw.tobytes())
            flush(file)
        with self._log.open("a", encoding="ascii") as log:
            log.write(f"\n{self._line(number, raw)}\n")  # the first line end closes a line that was cut off
            flush(log)
        self.done.add(number)

    def _line(self, number: int, raw: NDArray[Any]) -> str:
        """Return the line of the log for a finished block."""
        return f"{number} {self.keys[number]} {self.dtype.str} {raw.shape[1]} {crc32(raw.tobytes()):08x}"

    def _verified(self) -> set[int]:
        """Return the numbers of the blocks whose key and checksum are in the log."""
        try:
            log_lines = set(self._log.read_text("ascii", "replace").splitlines())
        except OSError:
            return set()
        names = {line.split(" ")[0] for line in log_lines}
        array, numbers = self.array, (number for number in range(self.count) if str(number) in names)
        return {number for number in numbers if self._line(number, array[self.rows(number)]) in log_lines}


def seal(path: Path, content: Mapping[str, Any], files: Iterable[Path]) -> None:
    """Write a JSON file with ``content`` and the checksums of ``files`` in the same folder."""
    sums = {file.name: sha256_of(file) for file in files}
    text = json.dumps({"content": dict(content), "files": sums})  # in ASCII: file names may not be valid UTF-8
    write_text(path, f"{crc32(text.encode()):08x} {text}\n")


def checked(path: Path, **kinds: type) -> dict[str, Any] | None:
    """Read the content of a file that `seal` wrote; None if it or a file that it lists is missing or altered.

    ``kinds``: required entries of the content, with their types; the result is None if one is missing.
    """
    try:
        crc, _, text = path.read_text("utf-8").rstrip("\n").partition(" ")
        if crc != f"{crc32(text.encode()):08x}":
            return None
        record = json.loads(text)
        content: dict[str, Any] = record["content"]
        whole = all(sha256_of(path.with_name(name)) == sha for name, sha in record["files"].items())
        return content if whole and is_entry(content, kinds) else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _short(value: Any) -> str:
    """Format a setting for an error message, in at most 80 characters."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "..."
