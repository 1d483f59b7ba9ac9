"""Storage that survives a crash: atomic files and folders, sealed folders of weights, resumable files and sums, locks.

A file or folder is written beside its place, flushed to the disk, and renamed; the renaming is flushed, too. A reader
sees the old content or the new one.

A sealed folder has ``weights.safetensors``, and ``config.json`` that seals it. A configuration is accepted only if it
is byte for byte what would be written for its content, weights only if they have the SHA-256 that it names.

A lock stands beside what one process at a time may write. The system frees the lock of a process that dies; its file
stays, and the next holder takes it.
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
    """The lock at ``path``, at once or within some seconds.

    Raises InputError, which says ``refusal``, if another process has it until then.
    """
    from filelock import FileLock, Timeout  # it loads asyncio: only writers pay for that

    lock = FileLock(path)
    try:
        lock.acquire(timeout=seconds)
    except Timeout:
        raise InputError(refusal) from None
    return lock


def release_lock(lock: BaseFileLock) -> None:
    """Let others have it.

    The file goes first: who has opened it, and gets the lock of a file that has no name, tries again (filelock does).
    The other way round it could be the file of the next holder that goes, and a third would hold the lock as well.
    """
    Path(lock.lock_file).unlink(missing_ok=True)
    lock.release()


@contextmanager
def locked(path: Path, refusal: str, seconds: float = 0) -> Iterator[None]:
    """Hold the lock of `acquire_lock` for as long as this lasts."""
    lock = acquire_lock(path, refusal, seconds)
    try:
        yield
    finally:
        release_lock(lock)


CONFIG, WEIGHTS = "config.json", "weights.safetensors"


def flush(file: IO[Any]) -> None:
    """Bring what was written to an open file to the disk."""
    file.flush()
    os.fsync(file.fileno())


def sync(path: Path) -> None:
    """Bring a closed file to the disk, or the names in a folder (where the system can open folders)."""
    if os.name != "posix" and path.is_dir():
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def install(partial: Path, path: Path) -> None:
    """Give a finished and flushed file its name, and make the renaming itself durable."""
    partial.replace(path)
    sync(path.parent)


def durable_folder(folder: Path) -> None:
    """Make a folder, and those above it that are absent, and make their names durable. Raises OSError."""
    if not folder.parent.is_dir():
        durable_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    with suppress(PermissionError):  # the folder above may be closed to us
        sync(folder.parent)


def swap_folder(finished: Path, folder: Path, old: Path) -> None:
    """Put a finished folder in the place of ``folder``, whose content is deleted last.

    Linux exchanges the two names in one step. Elsewhere ``folder`` is called ``old`` for a moment.
    """
    for path in (*sorted(finished.rglob("*")), finished):
        sync(path)
    if folder.exists():  # else the old one is all there is, until the finished one has its name
        shutil.rmtree(old, ignore_errors=True)
        if _exchanged(finished, folder):
            sync(folder.parent)
            shutil.rmtree(finished, ignore_errors=True)
            return
        folder.rename(old)
    finished.rename(folder)
    sync(folder.parent)
    shutil.rmtree(old, ignore_errors=True)


_HERE, _EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux


def _exchanged(one: Path, other: Path) -> bool:
    """Whether two folders have taken each other's name; False where the system cannot do that in one step."""
    try:
        exchange = ctypes.CDLL(None).renameat2
    except (OSError, AttributeError, TypeError):  # TypeError: Windows
        return False
    return bool(exchange(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0)


@contextmanager
def atomic_file(path: Path, mode: str = "w", suffix: str = ".part", **options: Any) -> Iterator[IO[Any]]:
    """A file that is written beside its place, as ``path`` and ``suffix``, and takes its name when the block ends.

    After an error nothing has changed. ``options`` are those of ``open``. Raises OSError.
    """
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
    """Write a small file in UTF-8: a reader sees the old one or the new one. Raises OSError."""
    with atomic_file(path, encoding="utf-8") as file:
        file.write(text)


class Seal(NamedTuple):
    """A kind of folder: its ``format`` and ``version``, the command that ``maker`` names, what to do about damage."""

    format: str
    version: int
    maker: str
    remedy: str

    def write(self, folder: Path, weights: bytes, content: Mapping[str, Any]) -> None:
        """Write weights and configuration into a folder that is there, and flush both; ``content`` is plain data."""
        with atomic_file(folder / WEIGHTS, "wb") as file:
            file.write(weights)
        seal = {"format": self.format, "version": self.version, "sha256": hashlib.sha256(weights).hexdigest()}
        with atomic_file(folder / CONFIG, "wb") as file:
            file.write(_written({**content, **seal}))

    def read(self, folder: Path) -> tuple[dict[str, Any], str]:
        """The content of the configuration, and its hash (64 hex digits), which stands for the folder.

        Raises ModelError where there is none, ModelUnsupported for a foreign or newer format, ModelDamaged where it is
        altered.
        """
        path = folder / CONFIG
        if not path.is_file():
            raise ModelError(f"{folder}: no {CONFIG}; expected a folder that '{self.maker}' made (RUN/model)")
        raw = path.read_bytes()
        try:
            content = json.loads(raw)
            intact = raw == _written(content)
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
        """The weights that ``content`` seals. Raises ModelDamaged, and KeyError where it names no SHA-256."""
        try:
            weights = (folder / WEIGHTS).read_bytes()
        except OSError as error:
            raise ModelDamaged(f"{folder / WEIGHTS}: cannot be read ({error.strerror}); {self.remedy}") from error
        if hashlib.sha256(weights).hexdigest() != content["sha256"]:
            raise ModelDamaged(f"{folder / WEIGHTS}: altered (another SHA-256 than in {CONFIG}); {self.remedy}")
        return weights

    def misfit(self, folder: Path, error: Exception) -> ModelDamaged:
        """Weights and configuration are whole, and do not belong together."""
        reason = " ".join(str(error).split())
        return ModelDamaged(f"{folder}: {CONFIG} and {WEIGHTS} do not fit ({reason}); {self.remedy}")


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, 64 hex digits. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_entry(value: Any, kinds: Mapping[str, type]) -> bool:
    """Whether a stored value is an object with entries of these kinds (``int``, or ``list``, of texts)."""
    if not isinstance(value, dict) or not all(type(value.get(name)) is kind for name, kind in kinds.items()):
        return False
    return all(isinstance(text, str) for name, kind in kinds.items() if kind is list for text in value[name])


def _written(content: Mapping[str, Any]) -> bytes:
    """The one form of a configuration."""
    text = json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    return text.encode("utf-8", "surrogatepass")  # half a character is not UTF-8: it equals no file


_DTYPES = {"bool": "BOOL", "uint8": "U8", "int8": "I8", "int16": "I16", "uint16": "U16", "float16": "F16"}
_DTYPES |= {"int32": "I32", "uint32": "U32", "float32": "F32", "float64": "F64", "int64": "I64", "uint64": "U64"}
_ORDER = list(_DTYPES)  # of the library, in which the largest come first: so all are aligned


def save_arrays(path: Path, arrays: Mapping[str, NDArray[Any]], about: Mapping[str, str] | None = None) -> None:
    """Write a safetensors file to ``path``. Raises OSError if it cannot be written.

    The library writes a private file of a random name first, which a kill leaves behind.
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
    """The arrays of a safetensors file, mapped into memory and read-only; the library's own reader copies them.

    Raises OSError, and ValueError for a file of another kind.
    """
    dtypes = {code: name for name, code in _DTYPES.items()}
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if 8 + length > path.stat().st_size:
            raise ValueError(f"a header of {length} bytes, which is longer than the file")
        text = file.read(length)
    data = np.memmap(path, np.uint8, "r", offset=8 + length).view(np.ndarray)  # a map's own indexing is slower
    try:
        return {
            name: data[slice(*entry["data_offsets"])].view(dtypes[entry["dtype"]]).reshape(entry["shape"])
            for name, entry in json.loads(text).items()
            if name != "__metadata__"
        }
    except (KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise ValueError(f"a header that is of another kind ({error})") from error


def unlock(path: Path) -> None:
    """Give a file of weights the permissions of other files: safetensors leaves it private.

    They are those of a file made beside it: the umask itself cannot be asked for without setting it, for all threads.
    """
    beside = path.with_name(f"{path.name}.{os.getpid()}.part")
    beside.touch()
    try:
        path.chmod(stat.S_IMODE(beside.stat().st_mode))
    finally:
        beside.unlink()


_HALVES = re.compile("[\ud800-\udfff]")


def check_new(path: Path, force: bool = False, folder: bool = False) -> None:
    """Raises InputError unless a file, or ``folder``, may be made at ``path``: to be asked before long work.

    The folder around it must be there, and itself not, unless ``force`` allows overwriting it; a folder is not
    replaced by a file.
    """
    if not folder and (not path.name or path.is_dir()):
        raise InputError(f"{path}: is a folder; expected the name of a file")
    if not path.absolute().parent.is_dir():
        raise InputError(f"{path.parent}: no such folder; make it first")
    if path.exists() and not force:
        raise InputError(f"{path}: already exists; choose another name, or add --force to overwrite it")


class NewFile:
    """A file that is written beside its place and put there at the end; after an error nothing has changed.

    A context manager. Raises InputError if it cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str], binary: bool = False) -> None:
        self.path = Path(path)
        self._part = self.path.with_name(f"{self.path.name}.{os.getpid()}.part")
        try:
            self.stream: IO[bytes] | IO[str]
            if binary:
                self.stream = self._part.open("wb")
            else:
                self.stream = self._part.open("w", encoding="utf-8", newline="\n")
        except (OSError, ValueError) as error:  # ValueError: of a path with a NUL or half a character
            raise self._trouble(error) from None

    def __enter__(self) -> NewFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        try:
            if kind is None:
                flush(self.stream)
            self.stream.close()
            if kind is None:
                install(self._part, self.path)
        except OSError as trouble:
            error = trouble
        finally:
            self._part.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise self._trouble(error) from None

    def write(self, text: str) -> None:
        """Writes text, with U+FFFD for halves of surrogate pairs."""
        self.stream.write(_HALVES.sub("\ufffd", text))  # type: ignore[call-overload]

    def _trouble(self, error: OSError | ValueError) -> InputError:
        reason = getattr(error, "strerror", None) or error
        return InputError(f"{self.path}: cannot be written ({reason}); check the folder, its permissions and the disk")


_BLOCK = 1 << 20


class ResumableFile:
    """Lines go to ``PATH.part``; `finish` gives it its name. ``done`` is the number of lines that already exist.

    A stopped run resumes at its last whole line. Its ``settings`` must be those of the first run (they lie beside it,
    in ``PATH.part.json``), and it must have no more than ``most`` lines. ``force`` overwrites a finished file, and
    starts again where what was started does not fit. A context manager; one process at a time. Raises InputError for a
    name that no plain file can have, if the finished file is there, the settings differ, too many lines are there, or
    another process is writing.
    """

    def __init__(
        self, path: str | Path, settings: Mapping[str, str], force: bool = False, most: int | None = None
    ) -> None:
        self.path, self._most = Path(path), most
        if self.path.suffix == ".gz":
            reason = "lines are not written packed; take a name without .gz, and pack the file afterwards"
            raise InputError(f"{self.path}: {reason}")
        check_new(self.path, force)
        self.part = self.path.with_name(self.path.name + ".part")
        self._facts = self.path.with_name(self.path.name + ".part.json")
        refusal = f"{self.path}: another process is writing it; wait for it to end"
        self._lock = acquire_lock(self.path.with_name(self.path.name + ".part.lock"), refusal)
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
        """The lines that already exist; what is not UTF-8 in them is U+FFFD."""
        with self.part.open(encoding="utf-8", errors="replace", newline="\n") as file:
            for _, line in zip(range(self.done), file, strict=False):
                yield line.rstrip("\n")

    def write(self, lines: Iterable[str]) -> None:
        """Append lines (without line ends) and hand them to the system."""
        self._file.writelines(line + "\n" for line in lines)
        self._file.flush()

    def finish(self) -> None:
        """Give the whole file its name."""
        flush(self._file)
        self._file.close()
        install(self.part, self.path)
        self._facts.unlink(missing_ok=True)

    def _begin(self, settings: dict[str, str]) -> None:
        """Start with no lines; none ever stand beside settings that they were not made with, even after a power cut."""
        self.part.unlink(missing_ok=True)
        sync(self.part.parent)
        write_text(self._facts, json.dumps(settings, indent=1) + "\n")  # in ASCII: names may be of any bytes
        self.part.touch()

    def _continue(self, settings: dict[str, str]) -> int:
        """Cut what is not a whole line, and count the lines; raises InputError where the settings differ."""
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
                block, hole, _ = block.partition(b"\0")  # zeros are what a power cut leaves of lines that it took
                lines += block.count(b"\n")
                whole = at + block.rindex(b"\n") + 1 if b"\n" in block else whole
                at += len(block)
                if hole:
                    break
            file.truncate(whole)
        if self._most is not None and lines > self._most:
            raise InputError(
                f"{self.part}: {lines:,} lines; expected at most {self._most:,}, as the text has: --force starts again"
            )
        return lines

    def __enter__(self) -> ResumableFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            with suppress(OSError) if kind else nullcontext():  # of a full disk: what ended the run is reported
                self._file.close()
        finally:
            release_lock(self._lock)


SAVE_SECONDS = 30.0  # between two saves
_MOST_SENTENCES = 1 << 53  # sentences are fewer


class ResumableSum:
    """A context manager around the sum: ``sums`` gets what is in the file, ``done`` says how far that is.

    ``path`` None keeps nothing. ``facts`` tell what is being summed: raises InputError if the file was started with
    others. The state is saved when the block is left, with an exception (Ctrl-C, too) or without. The caller deletes
    the file once the result is stored.
    """

    def __init__(self, path: Path | None, facts: Mapping[str, Any], sums: NDArray[np.float32]) -> None:
        self._path, self._sums = path, sums
        self._facts = json.dumps(dict(facts), sort_keys=True)
        self._saved, self._whole = time.monotonic(), True
        self._kept = self.done = self._load() if path is not None and path.exists() else 0

    def add(self, count: int, rows: NDArray[np.int64], vectors: NDArray[np.float32]) -> None:
        """Add vectors to their rows, after which the sums are of the first ``done`` sentences; now and then saved."""
        self._whole = False  # Ctrl-C may come between the two
        np.add.at(self._sums, rows, vectors)
        self.done = count
        self._whole = True
        if time.monotonic() - self._saved >= SAVE_SECONDS:
            self._save()

    def _save(self) -> None:
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
        from safetensors import SafetensorError, safe_open

        assert self._path is not None
        try:
            with safe_open(self._path, "numpy") as file:
                about, sums = file.metadata() or {}, file.get_tensor("sums")
            count = int(about["done"])
            intact = about["crc"] == self._checksum(count, sums, about["facts"])
        except (OSError, SafetensorError, KeyError, ValueError, TypeError, AttributeError) as error:  # of other floats
            raise InputError(f"{self._path}: not a readable state ({error}); delete it to start again") from error
        if not intact:
            raise InputError(f"{self._path}: altered, its checksum does not hold; delete it to start again")
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
