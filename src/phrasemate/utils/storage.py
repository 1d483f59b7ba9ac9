"""Storage that survives a crash: files that are written beside their place, and sealed folders of weights.

A sealed folder has ``weights.safetensors``, and ``config.json`` that seals it. A configuration is accepted only if it
is byte for byte what would be written for its content, weights only if they have the SHA-256 that it names.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import InputError, ModelDamaged, ModelError, ModelUnsupported

CONFIG, WEIGHTS = "config.json", "weights.safetensors"


class Seal(NamedTuple):
    """A kind of folder: its ``format`` and ``version``, the command that ``maker`` names, what to do about damage."""

    format: str
    version: int
    maker: str
    remedy: str

    def write(self, folder: Path, weights: bytes, content: Mapping[str, Any]) -> None:
        """Weights and configuration into a folder that is there; ``content`` is plain data."""
        (folder / WEIGHTS).write_bytes(weights)
        seal = {"format": self.format, "version": self.version, "sha256": hashlib.sha256(weights).hexdigest()}
        (folder / CONFIG).write_bytes(_written({**content, **seal}))

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
    return text.encode("utf-8", "surrogatepass")  # half a character is no UTF-8: it equals no file


def save_arrays(path: Path, arrays: Mapping[str, NDArray[Any]], about: Mapping[str, str] | None = None) -> None:
    """A safetensors file, with the permissions of other files. Raises OSError if it cannot be written."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    try:
        save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, path, metadata=about)
    except SafetensorError as error:  # of a full disk, too
        raise OSError(f"{path}: cannot be written ({error})") from error
    unlock(path)


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

    The folder around it must be there, and itself not, unless ``force`` allows to write over it; a folder is not
    written over by a file.
    """
    if not folder and (not path.name or path.is_dir()):
        raise InputError(f"{path}: is a folder; expected the name of a file")
    if not path.absolute().parent.is_dir():
        raise InputError(f"{path.parent}: no such folder; make it first")
    if path.exists() and not force:
        raise InputError(f"{path}: is there already; take another name, or --force to write it anew")


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
            self.stream.close()
            if kind is None:
                self._part.replace(self.path)
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
