"""The two JSON files of an index, written whole or not at all, and checksums of files.

A file is accepted only if it is byte for byte what we would write for its content, its own ``crc`` included: every
altered byte shows.
"""

from __future__ import annotations

import json
import os
from dataclasses import MISSING, asdict, dataclass, field, fields
from hashlib import sha256
from pathlib import Path
from typing import Any
from zlib import crc32

from phrasemate.errors import IndexDamaged, IndexError_, IndexMissing, IndexUnsupported

__all__ = ["FORMAT", "VERSION", "Manifest", "VectorsManifest", "file_sha256", "install", "read_json", "write_json"]

FORMAT = "phrasemate-index"
VERSION = 1


@dataclass(frozen=True, slots=True)
class Manifest:
    """``index.json``: the model, and the generation that the store has reached at least.

    ``segment``: how the model was told to segment, where that is not its own way; fixed when the index is made.
    """

    model_name: str
    model_hash: str
    model_path: str | None
    dim: int
    generation: int = 0
    segment: dict[str, Any] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        write_json(path, asdict(self))

    @classmethod
    def read(cls, path: Path) -> Manifest:
        """Raises IndexMissing, IndexDamaged or IndexUnsupported."""
        if not path.is_file():
            raise IndexMissing(
                f"no index at {path.parent} (it has no {path.name}); make one with: phrasemate index TEXT -o DIR"
            )
        made = cls(**_only(cls, read_json(path), path))
        texts = isinstance(made.model_name, str) and isinstance(made.model_hash, str)
        numbers = [value for value in (made.dim, made.generation) if type(value) is int and value >= 0]
        where = made.model_path is None or isinstance(made.model_path, str)
        if not (texts and where and len(numbers) == 2 and made.dim and isinstance(made.segment, dict)):
            raise IndexDamaged(f"{path}: holds what no index does; restore it or build the index again")
        return made


@dataclass(frozen=True, slots=True)
class VectorsManifest:
    """``vectors.json``: the FAISS file, the generation it was made from, and which phrase ids its rows are.

    ``file`` holds the 4-bit codes, ``codes`` the (rows, dim) int8 vectors that re-score what it finds.
    ``runs``: (first phrase id, count) in the order of the rows; ``covered``: phrases from this id on are newer.
    ``asking``: how it is asked (`approximate.Asking`), and ``tuned``: what was measured then; empty if never tuned.
    """

    file: str
    size: int
    sha256: str
    codes: str
    codes_sha256: str
    rows: int
    generation: int
    covered: int
    factory: str
    trained: int  # how many phrases there were when its codes were trained
    runs: list[list[int]]
    asking: dict[str, Any] = field(default_factory=dict)
    tuned: dict[str, Any] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        write_json(path, asdict(self))

    @classmethod
    def read(cls, path: Path) -> VectorsManifest:
        """Raises IndexDamaged or IndexUnsupported."""
        return cls(**_only(cls, read_json(path), path))


def _only(cls: type, content: dict[str, Any], path: Path) -> dict[str, Any]:
    wanted = {f.name: f for f in fields(cls)}
    absent = sorted(
        name
        for name, f in wanted.items()
        if name not in content and f.default is MISSING and f.default_factory is MISSING
    )
    if absent:
        raise IndexDamaged(f"{path}: has no {', '.join(absent)}; delete the index and build it again")
    return {name: content[name] for name in wanted if name in content}


def _canonical(content: dict[str, Any]) -> bytes:
    body = {"format": FORMAT, "version": VERSION} | content
    body["crc"] = crc32(json.dumps(body | {"crc": 0}, sort_keys=True).encode())
    return (json.dumps(body, sort_keys=True, indent=1) + "\n").encode()


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write to a temporary name, flush to the disk, rename: a reader sees the old file or the new one."""
    partial = path.with_name(path.name + ".partial")
    try:
        with partial.open("wb") as file:
            file.write(_canonical(content))
            file.flush()
            os.fsync(file.fileno())
        install(partial, path)
    except OSError as error:
        raise IndexError_(
            f"{path}: cannot be written ({error.strerror or error}); check free space and permissions"
        ) from error


def install(partial: Path, path: Path) -> None:
    """Give a finished file its name and make the renaming itself durable."""
    partial.replace(path)
    if os.name == "posix":
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def read_json(path: Path) -> dict[str, Any]:
    """The content of a file of write_json. Raises IndexDamaged, or IndexUnsupported for a newer version."""
    try:
        raw = path.read_bytes()
        content = json.loads(raw)
        body = {k: v for k, v in content.items() if k != "crc"}
        intact = raw == _canonical(body)
    except OSError as error:
        raise IndexError_(f"{path}: cannot be read ({error.strerror or error})") from error
    except (ValueError, AttributeError, RecursionError):
        intact = False
    if not intact:
        raise IndexDamaged(
            f"{path}: is truncated or altered (its checksum does not hold); restore it or build the index again"
        )
    if body.get("format") != FORMAT or body.get("version") != VERSION:
        seen = f"{body.get('format')} {body.get('version')}"
        raise IndexUnsupported(
            f"{path}: is of format {seen}, expected {FORMAT} {VERSION}; use a matching version of phrasemate"
        )
    return body


def file_sha256(path: Path) -> str:
    digest = sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
