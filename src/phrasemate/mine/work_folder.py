"""The work folder of a run: what it was started with, and large arrays that are written block by block.

Every finished part carries a checksum. A part that fails it (torn, altered, of another run) counts as missing and is
computed again. So a run may be killed at any moment and resumes where it was.
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
_OURS = re.compile(  # what a run writes there
    r"(work\.json|(source|target)\.(json|txt|(starts|lengths|places|first)\.npy|vectors\.(bin|log))"
    r"|(forward|backward)\.(json|bin|log)|(offset|source\.shifted|scores)\.(bin|log))(\.part)?"
)


class WorkFolder:
    """A folder with what a run has done so far; made where it is missing. A context manager; one process at a time.

    ``settings`` say what the run is; a folder that was started with others is refused, unless ``force`` empties it. One
    for ``scratch`` goes when it is closed.
    Raises InputError for that, for a folder of something else, and while another process works in it.
    """

    def __init__(
        self, path: str | Path, settings: Mapping[str, Any], force: bool = False, scratch: bool = False
    ) -> None:
        self.path, self._scratch = Path(path), scratch
        strangers = self._strangers()
        if strangers:
            raise InputError(f"{self.path}: holds {strangers[0]!r} but no {SETTINGS}; expected an empty folder or none")
        try:
            self.path.mkdir(exist_ok=True)
            sync(self.path.parent)
        except OSError as error:
            raise InputError(f"{self.path}: cannot be made ({error.strerror}); check the path") from error
        self._lock = acquire_lock(
            self.path / _LOCK, f"{self.path}: another process is working there; wait for it to end"
        )
        try:
            self._begin(json.loads(json.dumps(dict(settings))), force)
        except BaseException:
            release_lock(self._lock)
            raise

    def _strangers(self) -> list[str]:
        """List what lies there, if it is not a work folder."""
        if not self.path.exists() or (self.path / SETTINGS).exists():
            return []
        if not self.path.is_dir():
            raise InputError(f"{self.path}: is a file; expected a folder to work in")
        return sorted(entry.name for entry in self.path.iterdir() if entry.name not in (_LOCK, f"{SETTINGS}.part"))

    def _begin(self, settings: dict[str, Any], force: bool) -> None:
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
        try:
            content = json.loads(file.read_text("utf-8"))
            old_settings: dict[str, Any] = content["settings"]
            header = (content["format"], content["version"], type(old_settings)) == (FORMAT, VERSION, dict)
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise InputError(f"{file}: damaged; --force discards the run and starts again") from error
        if not header:
            raise InputError(f"{file}: of another version of phrasemate; use that one, or --force to start again")
        return old_settings

    def _compare(self, stored: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
        keys = sorted(key for key in stored.keys() | settings.keys() if stored.get(key) != settings.get(key))
        if keys:
            changes = ", ".join(f"{key} {_short(stored.get(key))}, now {_short(settings.get(key))}" for key in keys)
            raise InputError(
                f"{self.path}: was started with {changes}; give the same, another --work, or --force to start again"
            )

    def remove(self, keep_folder: bool = False) -> None:
        """Delete what phrasemate wrote there, and the folder if nothing else is in it."""
        for entry in list(self.path.iterdir()) if self.path.exists() else ():
            if _OURS.fullmatch(entry.name) and entry.is_file():
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
        """Let others use it."""
        if self._scratch:
            self.remove()
        else:
            release_lock(self._lock)


class Blocks:
    """An array (rows, width) on disk, written in blocks of ``block`` rows, read as a memory map.

    ``NAME.bin`` holds the numbers and ``NAME.log`` a line for each finished block: its number, its key and a checksum.
    ``keys`` name what each block depends on; one that was built from something else is to be made again.
    """

    def __init__(
        self, folder: Path, name: str, shape: tuple[int, int], dtype: DTypeLike, block: int, keys: Sequence[str]
    ) -> None:
        self.shape, self.dtype, self.block, self.keys = shape, np.dtype(dtype), block, keys
        self._bin, self._log = folder / f"{name}.bin", folder / f"{name}.log"
        if len(keys) != self.count:
            raise InputError(f"{len(keys)} keys for {self.count} blocks of {name}; expected one for each")
        with self._bin.open("ab") as file:  # longer or shorter than before: the blocks that stay as they are stay valid
            file.truncate(shape[0] * shape[1] * self.dtype.itemsize)
        self._log.touch()
        sync(folder)  # the names of both; their contents are flushed block by block
        self.done = self._verified()

    @property
    def count(self) -> int:
        """Number of blocks in all."""
        return -(-self.shape[0] // self.block)

    @property
    def missing(self) -> list[int]:
        """The blocks that are not done, in order."""
        return [number for number in range(self.count) if number not in self.done]

    def rows(self, number: int) -> slice:
        return slice(number * self.block, min((number + 1) * self.block, self.shape[0]))

    @property
    def array(self) -> NDArray[Any]:
        """(rows, width), read-only; rows of blocks that are not done hold anything."""
        if not self.shape[0] * self.shape[1]:  # an empty file cannot be mapped
            return np.zeros(self.shape, self.dtype)
        return np.memmap(self._bin, self.dtype, "r", shape=self.shape)

    def write(self, number: int, values: NDArray[Any]) -> None:
        """Keep a block; it counts as done when its numbers are on the disk."""
        rows = self.rows(number)
        raw = np.ascontiguousarray(values, self.dtype)
        if raw.shape != (rows.stop - rows.start, self.shape[1]):
            raise InputError(f"block {number} of {self._bin} has shape {raw.shape}; expected {rows}, {self.shape[1]}")
        with self._bin.open("rb+") as file:
            file.seek(rows.start * self.shape[1] * self.dtype.itemsize)
            file.write(raw.tobytes())
            flush(file)
        with self._log.open("a", encoding="ascii") as log:
            log.write(f"\n{self._line(number, raw)}\n")  # a torn line before it stays one of its own
            flush(log)
        self.done.add(number)

    def _line(self, number: int, raw: NDArray[Any]) -> str:
        return f"{number} {self.keys[number]} {self.dtype.str} {raw.shape[1]} {crc32(raw.tobytes()):08x}"

    def _verified(self) -> set[int]:
        """The blocks whose numbers and keys are what the log says."""
        try:
            log_lines = set(self._log.read_text("ascii", "replace").splitlines())
        except OSError:
            return set()
        names = {line.split(" ")[0] for line in log_lines}
        array, numbers = self.array, (number for number in range(self.count) if str(number) in names)
        return {number for number in numbers if self._line(number, array[self.rows(number)]) in log_lines}


def seal(path: Path, content: Mapping[str, Any], files: Iterable[Path]) -> None:
    """Write a JSON file with ``content`` and the checksums of finished files beside it."""
    sums = {file.name: sha256_of(file) for file in files}
    text = json.dumps({"content": dict(content), "files": sums})  # in ASCII: names of documents may be of any bytes
    write_text(path, f"{crc32(text.encode()):08x} {text}\n")


def checked(path: Path, **kinds: type) -> dict[str, Any] | None:
    """The content of a file of `seal`, or None unless it and all files that it names are as they were written and it
    has the entries that ``kinds`` names.
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
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "..."
