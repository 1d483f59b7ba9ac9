"""Storage that survives a crash: atomic files and folders, sealed folders of weights, resumable files and sums, locks.

A new file or folder is written under a temporary name next to its destination, flushed to the disk, and renamed. The
renaming is flushed too. So a reader sees either the old content or the new one.

A sealed folder holds ``weights.safetensors`` and a configuration, ``config.json``, with the SHA-256 of the weights. The
configuration is accepted only if it is, byte for byte, what phrasemate would write for its content. The weights are
accepted only if their SHA-256 matches.

A lock file lies next to a file that only one process at a time may write. The operating system frees the lock of a
process that dies; the lock file stays, and the next holder uses it.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import re
import shutil
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import InputError, ModelDamaged, ModelError, ModelUnsupported

if TYPE_CHECKING:
    from filelock import BaseFileLock


def acquire_lock(path: Path, refusal: str, seconds: float = 0) -> BaseFileLock:
    """Acquire the lock at ``path`` and return it.

    ``seconds``: how long to wait for it. Raises InputError with the message ``refusal`` if another process still holds
    the lock after that.
    """
    from filelock import FileLock, Timeout  # slow to import, and only needed by writers

    lock = FileLock(path)
    try:
        lock.acquire(timeout=seconds)
    except Timeout:
        raise InputError(refusal) from None
    return lock


def release_lock(lock: BaseFileLock) -> None:
    """Release a lock and remove its file.

    The file is removed before the lock is released. A process that then gets the lock of the removed file notices this
    and tries again (filelock does so). In the reverse order the file of the next holder could be removed, and a third
    process could acquire the lock at the same time.
    """
    Path(lock.lock_file).unlink(missing_ok=True)
    lock.release()


@contextmanager
def locked(path: Path, refusal: str, seconds: float = 0) -> Iterator[None]:
    """Hold a lock while the block runs. The arguments and errors are those of `acquire_lock`."""
    lock = acquire_lock(path, refusal, seconds)
    try:
        yield
    finally:
        release_lock(lock)


CONFIG, WEIGHTS = "config.json", "weights.safetensors"


def flush(file: IO[Any]) -> None:
    """Flush the content of an open file to the disk."""
    file.flush()
    os.fsync(file.fileno())


def sync(path: Path) -> None:
    """Flush a closed file to the disk, or the file names in a folder (nothing for folders on Windows)."""
    if os.name != "posix" and path.is_dir():
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def link_target(path: Path) -> Path:
    """Return the path that a symbolic link leads to, or ``path`` itself. A renaming would replace the link."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def install(partial: Path, path: Path) -> None:
    """Rename a finished and flushed file to its final name, and flush the renaming to the disk."""
    partial.replace(path)
    sync(path.parent)


def durable_folder(folder: Path) -> None:
    """Create a folder and its missing parents, and flush their names to the disk. Raises OSError."""
    if not folder.parent.is_dir():
        durable_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    with suppress(PermissionError):  # the parent may not be readable
        sync(folder.parent)


def swap_folder(finished: Path, folder: Path, old: Path) -> None:
    """Replace ``folder`` by a finished folder. The old content is deleted last.

    ``folder`` is not a symbolic link (see `link_target`), and all three folders are on one file system.
    Linux exchanges the two names in one step. On other systems ``folder`` is renamed to ``old`` first, so there is a
    moment without ``folder``.
    """
    for path in (*sorted(finished.rglob("*")), finished):
        sync(path)
    if folder.exists():  # otherwise an interrupted call may have left the content in ``old``: keep it for now
        shutil.rmtree(old, ignore_errors=True)
        if _exchange(finished, folder):
            sync(folder.parent)
            shutil.rmtree(finished, ignore_errors=True)
            return
        folder.rename(old)
    finished.rename(folder)
    sync(folder.parent)
    shutil.rmtree(old, ignore_errors=True)


_HERE, _EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux


def _exchange(one: Path, other: Path) -> bool:
    """Exchange the names of two folders in one step. Return False, and do nothing, if the system cannot do this."""
    try:
        exchange = ctypes.CDLL(None).renameat2
    except (OSError, AttributeError, TypeError):  # TypeError: Windows
        return False
    return bool(exchange(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0)


@contextmanager
def atomic_file(path: Path, mode: str = "w", suffix: str = ".part", **options: Any) -> Iterator[IO[Any]]:
    """Open a file that replaces ``path`` when the block ends; after an error ``path`` is unchanged.

    If ``path`` is a symbolic link, the file it leads to is replaced.

    Args:
        path: Name of the finished file.
        mode: Mode of ``open``.
        suffix: Added to the name while the file is being written.
        options: Further arguments of ``open``.

    Raises OSError.
    """
    path = link_target(path)
    partial = path.with_name(path.name + suffix)
    try:
        with partial.open(mode, **options) as file:
            yield file
            flush(file)
        install(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """Write a text file in UTF-8 atomically: a reader sees the old file or the new one. Raises OSError."""
    with atomic_file(path, encoding="utf-8") as file:
        file.write(text)


class Seal(NamedTuple):
    """Kind of sealed folder.

    ``format`` and ``version`` are written to its configuration. ``maker`` is the command that writes such folders, and
    ``remedy`` says what to do about damage; both appear in error messages.
    """

    format: str
    version: int
    maker: str
    remedy: str

    def write(self, folder: Path, weights: bytes, content: Mapping[str, Any]) -> None:
        """Write weights and configuration into an existing folder, and flush both to the disk.

        ``content``: entries of the configuration, as JSON values. Raises OSError.
        """
        with atomic_file(folder / WEIGHTS, "wb") as file:
            file.write(weights)
        seal = {"format": self.format, "version": self.version, "sha256": hashlib.sha256(weights).hexdigest()}
        with atomic_file(folder / CONFIG, "wb") as file:
            file.write(_canonical({**content, **seal}))

    def read(self, folder: Path) -> tuple[dict[str, Any], str]:
        """Read the configuration: return its content and its SHA-256 (64 hex digits), which identifies the folder.

        Raises ModelError if there is no configuration, ModelUnsupported for another format or a newer version, and
        ModelDamaged for an altered file.
        """
        path = folder / CONFIG
        if not path.is_file():
            raise ModelError(f"{folder}: no {CONFIG}; expected a folder that '{self.maker}' made (RUN/model)")
        raw = path.read_bytes()
        try:
            content = json.loads(raw)
            intact = raw == _canonical(content)
        except (ValueError, RecursionError) as error:
            raise ModelDamaged(f"{path}: not readable as JSON ({error}); {self.remedy}") from error
        if not isinstance(content, dict) or content.get("format") != self.format:
            raise ModelUnsupported(f"{path}: not of the format {self.format!r}; expected one of '{self.maker}'")
        if isinstance(content.get("version"), int) and content["version"] > self.version:
            raise ModelUnsupported(f"{path}: version {content['version']}, expected {self.version}; upgrade phrasemate")
        if content.get("version") != self.version or not intact:
            raise ModelDamaged(f"{path}: altered (not as phrasemate writes it); {self.remedy}")
        return content, hashlib.sha256(raw).hexdigest()

    def weights(self, folder: Path, content: Mapping[str, Any]) -> bytes:
        """Read the weights, and compare them with the SHA-256 in the configuration ``content``.

        Raises ModelDamaged, and KeyError if the configuration has no SHA-256.
        """
        try:
            weights = (folder / WEIGHTS).read_bytes()
        except OSError as error:
            raise ModelDamaged(f"{folder / WEIGHTS}: cannot be read ({error.strerror}); {self.remedy}") from error
        if hashlib.sha256(weights).hexdigest() != content["sha256"]:
            raise ModelDamaged(f"{folder / WEIGHTS}: altered (another SHA-256 than in {CONFIG}); {self.remedy}")
        return weights

    def misfit(self, folder: Path, error: Exception) -> ModelDamaged:
        """Return the error for weights and a configuration that are intact but do not belong together."""
        reason = " ".join(str(error).split())
        return ModelDamaged(f"{folder}: {CONFIG} and {WEIGHTS} do not fit ({reason}); {self.remedy}")


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, 64 hex digits. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_entry(value: Any, kinds: Mapping[str, type]) -> bool:
    """Tell whether a JSON value is an object with entries of these types (``int``, or ``list`` for a list of texts)."""
    if not isinstance(value, dict) or not all(type(value.get(name)) is kind for name, kind in kinds.items()):
        return False
    return all(isinstance(text, str) for name, kind in kinds.items() if kind is list for text in value[name])


def _canonical(content: Mapping[str, Any]) -> bytes:
    """Return the bytes that are written for a configuration."""
    text = json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    return text.encode("utf-8", "surrogatepass")  # with half of a surrogate pair the bytes equal those of no file


_DTYPES = {"bool": "BOOL", "uint8": "U8", "int8": "I8", "int16": "I16", "uint16": "U16", "float16": "F16"}
_DTYPES |= {"int32": "I32", "uint32": "U32", "float32": "F32", "float64": "F64", "int64": "I64", "uint64": "U64"}
_ORDER = list(_DTYPES)  # arrays are written from the last type to the first, as safetensors does, which aligns them


def save_arrays(path: Path, arrays: Mapping[str, NDArray[Any]], about: Mapping[str, str] | None = None) -> None:
    """Write arrays by name to a safetensors file. Raises OSError.

    ``about``: texts to store with the arrays. The safetensors library is not used because it first writes a file with a
    random name and private permissions, which stays behind if the process is killed.
    """
    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    names = sorted(whole, key=lambda name: (-_ORDER.index(whole[name].dtype.name), name))
    header: dict[str, Any] = {"__metadata__": dict(sorted(about.items()))} if about else {}
    end = 0
    for name in names:
        start, end = end, end + whole[name].nbytes
        dtype, shape = _DTYPES[whole[name].dtype.name], list(whole[name].shape)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    try:
        with path.open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for name in names:
                file.write(whole[name].data)
    except OSError as error:
        raise OSError(f"{path}: cannot be written ({error.strerror or error})") from error


def map_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Map the arrays of a safetensors file into memory, read-only. The reader of the library would copy them.

    Raises OSError, and ValueError for another kind of file.
    """
    dtypes = {code: name for name, code in _DTYPES.items()}
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if 8 + length > path.stat().st_size:
            raise ValueError(f"a header of {length} bytes, which is longer than the file")
        text = file.read(length)
    data = np.memmap(path, np.uint8, "r", offset=8 + length).view(np.ndarray)  # indexing a memmap is slower
    try:
        return {
            name: data[slice(*entry["data_offsets"])].view(dtypes[entry["dtype"]]).reshape(entry["shape"])
            for name, entry in json.loads(text).items()
            if name != "__metadata__"
        }
    except (KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise ValueError(f"a header that is of another kind ({error})") from error


def unlock(path: Path) -> None:
    """Give a file the default permissions of new files; the safetensors library leaves its files private.

    The permissions are copied from a temporary file in the same folder. The umask cannot be read without setting it,
    which would affect all threads.
    """
    beside = path.with_name(f"{path.name}.{os.getpid()}.part")
    beside.touch()
    try:
        path.chmod(stat.S_IMODE(beside.stat().st_mode))
    finally:
        beside.unlink()


_HALVES = re.compile("[\ud800-\udfff]")  # of surrogate pairs


def check_new(path: Path, force: bool = False, folder: bool = False) -> None:
    """Raise InputError unless a file, or a folder, may be created at ``path``. Call this before long work.

    The parent folder must exist. ``path`` must not exist, unless ``force`` is set. A file never replaces a folder.

    Args:
        path: Path of the new file or folder.
        force: Allow overwriting.
        folder: The new thing is a folder.
    """
    if not folder and (not path.name or path.is_dir()):
        raise InputError(f"{path}: is a folder; expected the name of a file")
    if not path.absolute().parent.is_dir():
        raise InputError(f"{path.parent}: no such folder; make it first")
    if path.exists() and not force:
        raise InputError(f"{path}: already exists; choose another name, or add --force to overwrite it")


class NewFile:
    """Context manager for a file that replaces ``path`` at the end; after an error ``path`` is unchanged.

    Unlike `atomic_file`, it raises InputError if the file cannot be written. ``binary``: write bytes to ``stream``.
    """

    def __init__(self, path: str | os.PathLike[str], binary: bool = False) -> None:
        self.path = Path(path)
        self._target = link_target(self.path)
        self._part = self._target.with_name(f"{self._target.name}.{os.getpid()}.part")
        try:
            self.stream: IO[bytes] | IO[str]
            if binary:
                self.stream = self._part.open("wb")
            else:
                self.stream = self._part.open("w", encoding="utf-8", newline="\n")
        except (OSError, ValueError) as error:  # ValueError: a path with a NUL or half of a surrogate pair
            raise self._input_error(error) from None

    def __enter__(self) -> NewFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        try:
            if kind is None:
                flush(self.stream)
            self.stream.close()
            if kind is None:
                install(self._part, self._target)
        except OSError as write_error:
            error = write_error
        finally:
            self._part.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise self._input_error(error) from None

    def write(self, text: str) -> None:
        """Write text, with U+FFFD for halves of surrogate pairs."""
        self.stream.write(_HALVES.sub("\ufffd", text))  # type: ignore[call-overload]

    def _input_error(self, error: OSError | ValueError) -> InputError:
        reason = getattr(error, "strerror", None) or error
        return InputError(f"{self.path}: cannot be written ({reason}); check the folder, its permissions and the disk")


_BLOCK = 1 << 20  # bytes read at once


class ResumableFile:
    """Text file that an interrupted run can continue; a context manager.

    Lines are written to ``PATH.part``, which `finish` renames to ``PATH``. The settings of the run are stored in
    ``PATH.part.json``. A later run with the same settings continues after the last whole line. ``done`` is the number
    of lines that already exist.

    Args:
        path: Name of the finished file; not a ``.gz`` file.
        settings: Settings of the run by name.
        force: Overwrite a finished file, and start again if an unfinished one cannot be continued.
        most: Greatest number of lines that an unfinished file may have; None for any.

    Raises InputError for a name that cannot be used, if the finished file exists, or if another process is writing it.
    It also raises InputError if an unfinished file has other settings or too many lines.
    """

    def __init__(
        self, path: str | Path, settings: Mapping[str, str], force: bool = False, most: int | None = None
    ) -> None:
        self.path, self._most = Path(path), most
        if self.path.suffix == ".gz":
            reason = "lines are not written compressed; choose a name without .gz, and compress the file afterwards"
            raise InputError(f"{self.path}: {reason}")
        check_new(self.path, force)
        self._target = link_target(self.path)
        self.part = self._target.with_name(self._target.name + ".part")
        self._facts = self._target.with_name(self._target.name + ".part.json")
        refusal = f"{self.path}: another process is writing it; wait for it to end"
        self._lock = acquire_lock(self._target.with_name(self._target.name + ".part.lock"), refusal)
        try:
            self.done = 0
            if self.part.exists() and self.part.stat().st_size > 0:
                with suppress(InputError) if force else nullcontext():
                    self.done = self._continue(dict(settings))
            if not self.done:
                self._begin(dict(settings))
            self._file = self.part.open("a", encoding="utf-8", newline="\n")
        except BaseException:
            release_lock(self._lock)
            raise

    def written(self) -> Iterator[str]:
        """Yield the lines that already exist, without line ends; U+FFFD replaces bytes that are not UTF-8."""
        with self.part.open(encoding="utf-8", errors="replace", newline="\n") as file:
            for _, line in zip(range(self.done), file, strict=False):
                yield line.rstrip("\n")

    def write(self, lines: Iterable[str]) -> None:
        """Append lines, given without line ends, and pass them to the operating system."""
        self._file.writelines(line + "\n" for line in lines)
        self._file.flush()

    def finish(self) -> None:
        """Close the complete file, and rename it to its final name."""
        flush(self._file)
        self._file.close()
        install(self.part, self._target)
        self._facts.unlink(missing_ok=True)

    def _begin(self, settings: dict[str, str]) -> None:
        """Start with an empty file and store the settings.

        Old lines are removed first, so lines never lie next to the settings of another run, even after a power cut.
        """
        self.part.unlink(missing_ok=True)
        sync(self.part.parent)
        write_text(self._facts, json.dumps(settings, indent=1) + "\n")  # ASCII, as file names may not be valid UTF-8
        self.part.touch()

    def _continue(self, settings: dict[str, str]) -> int:
        """Remove an incomplete last line, and return the number of lines.

        Raises InputError if the settings differ or there are too many lines.
        """
        try:
            before = json.loads(self._facts.read_text("utf-8"))
        except (OSError, ValueError, RecursionError):
            before = None
        if not isinstance(before, dict):
            raise InputError(f"{self.part}: an unfinished run without its settings; --force discards it")
        keys = sorted(key for key in before.keys() | settings.keys() if before.get(key) != settings.get(key))
        if keys:
            changes = ", ".join(f"{key} {before.get(key)}, now {settings.get(key)}" for key in keys)
            raise InputError(f"{self.part} was started with {changes}; give the same again, or --force to start again")
        lines = whole = at = 0
        with self.part.open("rb+") as file:
            while block := file.read(_BLOCK):
                block, hole, _ = block.partition(b"\0")  # a power cut may leave zeros instead of lines
                lines += block.count(b"\n")
                whole = at + block.rindex(b"\n") + 1 if b"\n" in block else whole
                at += len(block)
                if hole:
                    break
            file.truncate(whole)
        if self._most is not None and lines > self._most:
            raise InputError(
                f"{self.part}: {lines:,} lines; expected at most {self._most:,}, those of the text; "
                "--force starts again"
            )
        return lines

    def __enter__(self) -> ResumableFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            with suppress(OSError) if kind else nullcontext():  # the error that ended the run is the one to report
                self._file.close()
        finally:
            release_lock(self._lock)


SAVE_SECONDS = 30.0  # between two saves
_MOST_SENTENCES = 1 << 53  # all numbers of sentences are below this


class ResumableSum:
    """Sum of vectors over sentences that an interrupted run can continue; a context manager.

    The sum is loaded from a file, and saved to it every `SAVE_SECONDS` and at the end of the block, also after an
    exception such as Ctrl-C. ``done`` is the number of sentences summed so far. The caller deletes the file once the
    result is stored.

    Args:
        path: File of the sum; None saves nothing.
        facts: Texts and settings that the sum depends on.
        sums: Array of the sums, which the saved state overwrites.

    Raises InputError if the file is damaged or was started with other ``facts``.
    """

    def __init__(self, path: Path | None, facts: Mapping[str, Any], sums: NDArray[np.float32]) -> None:
        self._path, self._sums = path, sums
        self._facts = json.dumps(dict(facts), sort_keys=True)
        self._saved, self._whole = time.monotonic(), True
        self._kept = self.done = self._load() if path is not None and path.exists() else 0

    def add(self, count: int, rows: NDArray[np.int64], vectors: NDArray[np.float32]) -> None:
        """Add vectors to the rows of the sum; ``count`` is the number of sentences summed then. Save if it is time."""
        self._whole = False  # Ctrl-C may interrupt the next two statements; the sum is then not saved
        np.add.at(self._sums, rows, vectors)
        self.done = count
        self._whole = True
        if time.monotonic() - self._saved >= SAVE_SECONDS:
            self._save()

    def _save(self) -> None:
        """Save the sum atomically, if it has changed."""
        self._saved = time.monotonic()
        if self._path is None or self.done == self._kept:
            return
        temporary = self._path.with_name(self._path.name + ".new")
        about = {
            "facts": self._facts,
            "done": str(self.done),
            "crc": self._checksum(self.done, self._sums, self._facts),
        }
        save_arrays(temporary, {"sums": self._sums}, about)
        sync(temporary)
        install(temporary, self._path)
        self._kept = self.done

    def _load(self) -> int:
        """Load the sum, and return the number of sentences in it. Raises InputError."""
        from safetensors import SafetensorError, safe_open

        assert self._path is not None
        try:
            with safe_open(self._path, "numpy") as file:
                about, sums = file.metadata() or {}, file.get_tensor("sums")
            count = int(about["done"])
            intact = about["crc"] == self._checksum(count, sums, about["facts"])
        except (OSError, SafetensorError, KeyError, ValueError, TypeError, AttributeError) as error:
            raise InputError(f"{self._path}: not a readable state ({error}); delete it to start again") from error
        if not intact:
            raise InputError(f"{self._path}: altered, its checksum does not match; delete it to start again")
        if not 0 <= count < _MOST_SENTENCES or sums.dtype != self._sums.dtype or not np.isfinite(sums).all():
            raise InputError(f"{self._path}: is corrupted; delete it to start again")
        if about.get("facts") != self._facts or sums.shape != self._sums.shape:
            raise InputError(f"{self._path}: was started with other texts or settings; delete it to start again")
        self._sums[:] = sums
        return count

    @staticmethod
    def _checksum(count: int, sums: NDArray[np.float32], facts: str) -> str:
        return f"{crc32(sums.tobytes(), crc32(f'{count} {facts}'.encode())):08x}"

    def __enter__(self) -> ResumableSum:
        return self

    def __exit__(self, *_: object) -> None:
        if self._whole:
            self._save()
