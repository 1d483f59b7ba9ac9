"""JSON files of an index, which are written atomically, and checksums of files.

A JSON file holds a checksum of its content, ``crc``. It is accepted only if it is, byte for byte, what phrasemate would
write for this content. So every altered byte is detected.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import MISSING, asdict, dataclass, field, fields
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from phrasemate.errors import IndexDamaged, IndexMissing, IndexUnsupported, InputError, PhraseIndexError
from phrasemate.index.types import IndexModel
from phrasemate.types import check_opened
from phrasemate.utils.machine import cores
from phrasemate.utils.storage import atomic_file

FORMAT = "phrasemate-index"
VERSION = 1
INDEX_JSON = "index.json"
VECTORS_JSON = "vectors.json"
SHARDS_JSON = "shards.json"  # list of the parts of an index on several machines
CHECKED_JSON = "checked.json"
PARTIAL = ".partial"  # suffix of a JSON file that is being written
PART = 1 << 26  # bytes of a part; each part of a file has a hash of its own
READ = 1 << 20  # bytes read at once
_SETTLED = 2_000_000_000  # nanoseconds without a change; some file systems store times in whole seconds
FACTORY = re.compile(r"(OPQ(?P<turned>\d{1,4}),)?(IVF(?P<lists>\d{1,9}),)?PQ(?P<parts>[1-9]\d{0,3})x4fs")  # of FAISS
_FILE = re.compile(r"vectors-[\w-]+\.(faiss|codes)")
_MOST = 1 << 62  # all counts and sizes are below this


@dataclass(frozen=True, slots=True)
class Manifest:
    """Content of ``index.json``: the model of the index, and a generation that the store must have reached.

    ``segment``: the segmentation settings that differ from those of the model; fixed when the index is created.
    """

    model_name: str
    model_hash: str
    model_path: str | None
    dim: int
    generation: int = 0
    segment: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, model: IndexModel, segment: Mapping[str, Any] | None = None, generation: int = 0) -> Manifest:
        """Return the manifest of an index that is built with ``model``.

        Raises InputError for anything but a model, and for invalid options of segmentation.
        """
        check_opened(model, "a model, such as load_model(path)")
        from phrasemate.encode.segmenter import SegmentOptions, check_options

        try:
            options = dict(segment or {})
            check_options(**options)
        except (TypeError, ValueError) as error:
            names = ", ".join(SegmentOptions.__annotations__)
            raise InputError(f"segment {repr(segment)[:80]}: expected options of {names}") from error
        options = {name: value.item() if isinstance(value, np.generic) else value for name, value in options.items()}
        where = None if model.path is None else str(model.path)
        return cls(model.name, model.hash, where, model.dim, generation, options)

    def write(self, path: Path) -> None:
        write_json(path, asdict(self))

    @classmethod
    def read(cls, path: Path) -> Manifest:
        """Read ``index.json``. Raises IndexMissing, IndexDamaged or IndexUnsupported."""
        if not path.is_file():
            if "[[" in path.parent.name:
                raise IndexMissing(f"no index at {str(path.parent)!r}; the index comes before the query")
            raise IndexMissing(f"no index at {path.parent}; make one with: phrasemate index TEXT -o DIR")
        manifest = cls(**_known_fields(cls, read_json(path), path))
        texts = isinstance(manifest.model_name, str) and isinstance(manifest.model_hash, str)
        numbers = [value for value in (manifest.dim, manifest.generation) if type(value) is int and value >= 0]
        where = manifest.model_path is None or isinstance(manifest.model_path, str)
        if not (texts and where and len(numbers) == 2 and manifest.dim and isinstance(manifest.segment, dict)):
            raise IndexDamaged(f"{path}: is corrupted; restore it from a backup or build it again")
        return manifest


@dataclass(frozen=True, slots=True)
class VectorsManifest:
    """Content of ``vectors.json``: the FAISS file, the generation it was built from, and the phrase ids of its rows.

    ``file`` holds the 4-bit codes, ``codes`` the (rows, dim) int8 vectors with which its hits are scored again.
    ``runs``: (first phrase id, count) in the order of the rows. ``covered``: phrases with this id or a higher one are
    not in the file. ``asking``: the search settings of FAISS. ``tuned``: the measurements behind these settings; empty
    if the index was never tuned.
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
    trained: int  # number of phrases when its codes were trained
    runs: list[list[int]]
    asking: dict[str, Any] = field(default_factory=dict)
    tuned: dict[str, Any] = field(default_factory=dict)
    parts: list[str] = field(default_factory=list)  # SHA-256 of each 64 MB of ``file``; empty in older indexes
    codes_parts: list[str] = field(default_factory=list)  # the same for ``codes``

    def write(self, path: Path) -> None:
        write_json(path, asdict(self))

    @classmethod
    def read(cls, path: Path) -> VectorsManifest:
        """Read ``vectors.json``. Raises IndexMissing, IndexDamaged or IndexUnsupported."""
        manifest = cls(**_known_fields(cls, read_json(path), path))
        if not manifest._is_plausible():
            raise IndexDamaged(f"{path}: is corrupted; the next search rebuilds it")
        return manifest

    def _is_plausible(self) -> bool:
        """Check types, file names and counts: a forged file can have a valid checksum."""
        numbers = (self.size, self.rows, self.generation, self.covered, self.trained)
        hashes = (self.sha256, self.codes_sha256, self.parts, self.codes_parts)
        return (
            all(_is(_FILE, name) for name in (self.file, self.codes))
            and all(type(number) is int and 0 <= number < _MOST for number in numbers)
            and all(isinstance(value, kind) for value, kind in zip(hashes, (str, str, list, list), strict=True))
            and all(isinstance(part, str) for part in (*self.parts, *self.codes_parts))
            and _is(FACTORY, self.factory)
            and isinstance(self.asking, dict)
            and self._has_plausible_tuning()
            and self._has_plausible_runs()
        )

    def _has_plausible_tuning(self) -> bool:
        """Check the types and values of ``tuned`` that are read later."""
        if not isinstance(self.tuned, dict):
            return False
        layout, phrases = self.tuned.get("layout", self.factory), self.tuned.get("phrases", 1)
        target = self.tuned.get("target", 1.0)
        return _is(FACTORY, layout) and type(phrases) is int and 0 < phrases < _MOST and isinstance(target, int | float)

    def _has_plausible_runs(self) -> bool:
        """Check that the runs of phrase ids ascend without overlap, and that their lengths add up to the rows."""
        if not isinstance(self.runs, list):
            return False
        end = count = 0
        for run in self.runs:
            if not (isinstance(run, list) and [type(number) for number in run] == [int, int]):
                return False
            if run[0] < end or run[1] <= 0:
                return False
            end, count = run[0] + run[1], count + run[1]
        return count == self.rows and end <= self.covered


def _is(pattern: re.Pattern[str], value: object) -> bool:
    """Tell whether a value is a text that the whole pattern matches."""
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def _known_fields(cls: type, content: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return the entries that are fields of the dataclass ``cls``. Raises IndexDamaged if a required one is missing."""
    fields_by_name = {f.name: f for f in fields(cls)}
    absent = sorted(
        name
        for name, f in fields_by_name.items()
        if name not in content and f.default is MISSING and f.default_factory is MISSING
    )
    if absent:
        raise IndexDamaged(f"{path}: has no {', '.join(absent)}; delete the index and build it again")
    return {name: content[name] for name in fields_by_name if name in content}


def _canonical(content: dict[str, Any]) -> bytes:
    """Return the bytes of a JSON file with this content, including format, version and ``crc``."""
    body = {"format": FORMAT, "version": VERSION} | content
    body["crc"] = crc32(json.dumps(body | {"crc": 0}, sort_keys=True).encode())
    return (json.dumps(body, sort_keys=True, indent=1) + "\n").encode()


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file atomically: a reader sees the old file or the new one. Raises PhraseIndexError.

    The content is written under a temporary name, flushed to the disk, and renamed.
    """
    try:
        with atomic_file(path, "wb", PARTIAL) as file:
            file.write(_canonical(content))
    except OSError as error:
        raise PhraseIndexError(
            f"{path}: cannot be written ({error.strerror or error}); check free space and permissions"
        ) from error


def sweep(folder: Path, patterns: Sequence[str], keep: Collection[str] = ()) -> None:
    """Remove the files of a folder with names that match one of the patterns, except the names in ``keep``.

    The caller holds the write lock.
    """
    for path in list(chain.from_iterable(map(folder.glob, patterns))):
        if path.name not in keep:
            with suppress(OSError):  # Windows refuses while a reader has the file open
                path.unlink()


def read_json(path: Path) -> dict[str, Any]:
    """Read a file that `write_json` wrote, without its ``crc``.

    Raises IndexMissing, IndexDamaged, IndexUnsupported for another version, or PhraseIndexError if the system refuses.
    """
    try:
        raw = path.read_bytes()
        content = json.loads(raw)
        body = {k: v for k, v in content.items() if k != "crc"}
        intact = raw == _canonical(body)
    except FileNotFoundError as error:
        raise IndexMissing(f"{path}: no longer exists") from error
    except OSError as error:
        raise PhraseIndexError(f"{path}: cannot be read ({error.strerror or error})") from error
    except (ValueError, AttributeError, RecursionError):
        intact = False
    if not intact:
        raise IndexDamaged(
            f"{path}: is truncated or altered (its checksum does not match); restore it or build the index again"
        )
    if body.get("format") != FORMAT or body.get("version") != VERSION:
        header = f"{body.get('format')} {body.get('version')}"
        raise IndexUnsupported(
            f"{path}: is of format {header}, expected {FORMAT} {VERSION}; use a matching version of phrasemate"
        )
    return body


class Digest:
    """SHA-256 of a file that is written piece by piece: of the whole, and of each part of `PART` bytes."""

    def __init__(self) -> None:
        self._whole, self._parts, self._room = sha256(), [sha256()], PART

    def update(self, content: bytes) -> None:
        """Add the next piece of the content."""
        self._whole.update(content)
        rest = memoryview(content)
        while rest:
            if not self._room:
                self._parts.append(sha256())
                self._room = PART
            head = rest[: self._room]
            self._parts[-1].update(head)
            self._room -= len(head)
            rest = rest[len(head) :]

    @property
    def whole(self) -> str:
        """Digest of the whole content, 64 hexadecimal digits."""
        return self._whole.hexdigest()

    @property
    def parts(self) -> list[str]:
        """Digest of each part, 64 hexadecimal digits; at least one part."""
        return [part.hexdigest() for part in self._parts]


class CheckedFiles:
    """Record of the files of an index folder that matched their SHA-256 when they were last read whole.

    The record, ``checked.json``, holds the size, times and inode of each file. While these are unchanged, nobody has
    written to the file, so opening the index need not read it again. Without write permission nothing is recorded.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / CHECKED_JSON
        try:
            files = read_json(self._path).get("files")
        except PhraseIndexError:  # absent or damaged: the files are read again
            files = None
        self._files: dict[str, Any] = files if isinstance(files, dict) else {}

    def has(self, file: Path, digest: str) -> bool:
        """Tell whether a file is recorded with this digest and unchanged since."""
        return bool(self._files.get(file.name) == [digest, *_file_stamp(file)])

    def add(self, files: Mapping[Path, tuple[str, list[int]]]) -> None:
        """Record files, each with its digest and the `_file_stamp` from before the digest was computed.

        A file that was written within the last two seconds is left out, since a further change could leave its times
        the same.
        """
        latest = time.time_ns() - _SETTLED
        additions = {
            path.name: [digest, *stamp]
            for path, (digest, stamp) in files.items()
            if stamp == _file_stamp(path) and max(stamp[1:3]) < latest
        }
        if not additions:
            return
        folder = self._path.parent
        entries = {name: entry for name, entry in (self._files | additions).items() if (folder / name).exists()}
        content = {"files": entries}
        with suppress(OSError), atomic_file(self._path, "wb", PARTIAL) as file:
            file.write(_canonical(content))


def _file_stamp(file: Path) -> list[int]:
    """Return size, time of modification, time of change of status (both in ns) and inode of a file."""
    status = file.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def differing(
    files: Sequence[tuple[Path, int, str, list[str]]], threads: int | None = None, whole: bool = False
) -> Path | None:
    """Return the first file that does not have its expected size and digests, or None if all do.

    Args:
        files: File, size, SHA-256 of the whole, and SHA-256 of each part, for each file. All lie in one folder. Without
            digests of parts, the file is hashed as a whole.
        threads: Number of threads that hash parts in parallel; None for one per processor.
        whole: Read all files. Otherwise files that have not changed since they were last hashed are not read.

    Raises OSError for a file that cannot be read.
    """
    for file, size, _, _ in files:
        if file.stat().st_size != size:
            return file
    history = CheckedFiles(files[0][0].parent)
    files = [entry for entry in files if whole or not history.has(entry[0], entry[2])]
    before = {file: (digest, _file_stamp(file)) for file, _, digest, _ in files}
    pieces: list[tuple[Path, int, int, str]] = []
    for file, size, digest_of_all, parts in files:
        cuts = range(0, max(size, 1), PART) if parts else range(1)
        digests = parts or [digest_of_all]
        if len(digests) != len(cuts):
            return file
        pieces += [(file, at, PART if parts else size, digest) for at, digest in zip(cuts, digests, strict=True)]
    with ThreadPoolExecutor(threads or cores()) as pool:
        matches = list(pool.map(lambda piece: _hash_range(*piece[:3]) == piece[3], pieces))
    wrong = next((file for (file, *_), good in zip(pieces, matches, strict=True) if not good), None)
    if files and wrong is None:
        history.add(before)
    return wrong


def _hash_range(path: Path, start: int, size: int) -> str:
    """Return the SHA-256 of ``size`` bytes of a file from ``start`` on."""
    digest = sha256()
    with path.open("rb") as file:
        file.seek(start)
        while size > 0 and (block := file.read(min(READ, size))):
            digest.update(block)
            size -= len(block)
    return digest.hexdigest()
