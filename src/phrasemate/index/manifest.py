"""The JSON files of an index, written whole or not at all, and checksums of files.

A file is accepted only if it is byte for byte what we would write for its content, its own ``crc`` included: every
altered byte shows.
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

from phrasemate.errors import IndexDamaged, IndexMissing, IndexUnsupported, PhraseIndexError
from phrasemate.index.types import IndexModel
from phrasemate.types import check_opened
from phrasemate.utils.machine import cores
from phrasemate.utils.storage import atomic_file

FORMAT = "phrasemate-index"
VERSION = 1
INDEX_JSON = "index.json"
VECTORS_JSON = "vectors.json"
SHARDS_JSON = "shards.json"  # names the parts of an index on several machines
CHECKED_JSON = "checked.json"
PARTIAL = ".partial"  # after the name of a JSON file that is being written
PART = 1 << 26  # bytes of a file that are hashed by themselves
READ = 1 << 20  # bytes read at once
_SETTLED = 2_000_000_000  # nanoseconds; a file system may tell times by the second
FACTORY = re.compile(r"(OPQ(?P<turned>\d{1,4}),)?(IVF(?P<lists>\d{1,9}),)?PQ(?P<parts>[1-9]\d{0,3})x4fs")  # of FAISS
_FILE = re.compile(r"vectors-[\w-]+\.(faiss|codes)")
_MOST = 1 << 62  # what is counted or sized is less


@dataclass(frozen=True, slots=True)
class Manifest:
    """``index.json``: the model, and the generation that the store has reached at least.

    ``segment``: the segmentation settings, if they differ from the model's; fixed when the index is made.
    """

    model_name: str
    model_hash: str
    model_path: str | None
    dim: int
    generation: int = 0
    segment: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, model: IndexModel, segment: Mapping[str, Any] | None = None, generation: int = 0) -> Manifest:
        check_opened(model, "a model, such as load_model(path)")
        where = None if model.path is None else str(model.path)
        return cls(model.name, model.hash, where, model.dim, generation, dict(segment or {}))

    def write(self, path: Path) -> None:
        write_json(path, asdict(self))

    @classmethod
    def read(cls, path: Path) -> Manifest:
        """Raises IndexMissing, IndexDamaged or IndexUnsupported."""
        if not path.is_file():
            if "[[" in path.parent.name:
                raise IndexMissing(f"no index at {str(path.parent)!r}; the index comes before the query")
            raise IndexMissing(f"no index at {path.parent}; make one with: phrasemate index TEXT -o DIR")
        manifest = cls(**_only(cls, read_json(path), path))
        texts = isinstance(manifest.model_name, str) and isinstance(manifest.model_hash, str)
        numbers = [value for value in (manifest.dim, manifest.generation) if type(value) is int and value >= 0]
        where = manifest.model_path is None or isinstance(manifest.model_path, str)
        if not (texts and where and len(numbers) == 2 and manifest.dim and isinstance(manifest.segment, dict)):
            raise IndexDamaged(f"{path}: is corrupted; restore it from a backup or build it again")
        return manifest


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
    parts: list[str] = field(default_factory=list)  # SHA-256 of each 64 MB of ``file``; older indexes have none
    codes_parts: list[str] = field(default_factory=list)  # and of ``codes``

    def write(self, path: Path) -> None:
        write_json(path, asdict(self))

    @classmethod
    def read(cls, path: Path) -> VectorsManifest:
        """Raises IndexMissing, IndexDamaged or IndexUnsupported."""
        manifest = cls(**_only(cls, read_json(path), path))
        if not manifest._possible():
            raise IndexDamaged(f"{path}: is corrupted; the next search rebuilds it")
        return manifest

    def _possible(self) -> bool:
        """Whether types, names and counts are such as are written: a forger can make checksums, too."""
        numbers = (self.size, self.rows, self.generation, self.covered, self.trained)
        hashes = (self.sha256, self.codes_sha256, self.parts, self.codes_parts)
        return (
            all(_is(_FILE, name) for name in (self.file, self.codes))
            and all(type(number) is int and 0 <= number < _MOST for number in numbers)
            and all(isinstance(value, kind) for value, kind in zip(hashes, (str, str, list, list), strict=True))
            and all(isinstance(part, str) for part in (*self.parts, *self.codes_parts))
            and _is(FACTORY, self.factory)
            and isinstance(self.asking, dict)
            and self._tuned_possibly()
            and self._runs_possible()
        )

    def _tuned_possibly(self) -> bool:
        if not isinstance(self.tuned, dict):
            return False
        layout, phrases = self.tuned.get("layout", self.factory), self.tuned.get("phrases", 1)
        target = self.tuned.get("target", 1.0)
        return _is(FACTORY, layout) and type(phrases) is int and 0 < phrases < _MOST and isinstance(target, int | float)

    def _runs_possible(self) -> bool:
        """Whether runs of phrases follow one another, and are together as many as there are rows."""
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
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def _only(cls: type, content: dict[str, Any], path: Path) -> dict[str, Any]:
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
    body = {"format": FORMAT, "version": VERSION} | content
    body["crc"] = crc32(json.dumps(body | {"crc": 0}, sort_keys=True).encode())
    return (json.dumps(body, sort_keys=True, indent=1) + "\n").encode()


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write to a temporary name, flush to the disk, rename: a reader sees the old file or the new one."""
    try:
        with atomic_file(path, "wb", PARTIAL) as file:
            file.write(_canonical(content))
    except OSError as error:
        raise PhraseIndexError(
            f"{path}: cannot be written ({error.strerror or error}); check free space and permissions"
        ) from error


def sweep(folder: Path, patterns: Sequence[str], keep: Collection[str] = ()) -> None:
    """Remove the files whose names match one of the patterns, but those to keep; for who has the writer's lock."""
    for path in list(chain.from_iterable(map(folder.glob, patterns))):
        if path.name not in keep:
            with suppress(OSError):  # another system may refuse while a reader has it open
                path.unlink()


def read_json(path: Path) -> dict[str, Any]:
    """The content of a file of write_json.

    Raises IndexMissing, IndexDamaged, or IndexUnsupported for a newer version.
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
            f"{path}: is truncated or altered (its checksum does not hold); restore it or build the index again"
        )
    if body.get("format") != FORMAT or body.get("version") != VERSION:
        header = f"{body.get('format')} {body.get('version')}"
        raise IndexUnsupported(
            f"{path}: is of format {header}, expected {FORMAT} {VERSION}; use a matching version of phrasemate"
        )
    return body


class Digest:
    """SHA-256 of a content that is given bit by bit: of all of it, and of each `PART` by itself."""

    def __init__(self) -> None:
        self._whole, self._parts, self._room = sha256(), [sha256()], PART

    def update(self, content: bytes) -> None:
        """More of the content."""
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
        """Digest of the whole in hexadecimal digits, as `parts`."""
        return self._whole.hexdigest()

    @property
    def parts(self) -> list[str]:
        """Digests of the parts, one at least."""
        return [part.hexdigest() for part in self._parts]


class CheckedFiles:
    """Files of an index folder that had their SHA-256 when they were last read whole, with their size, times and inode.

    While a file has the same size, times and inode as then, nobody has written to it, and it need not be read again to
    open the index. ``checked.json`` says which; it is written where the folder can be written to.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / CHECKED_JSON
        try:
            files = read_json(self._path).get("files")
        except PhraseIndexError:  # none, or a damaged one: it says nothing that cannot be found out again
            files = None
        self._files: dict[str, Any] = files if isinstance(files, dict) else {}

    def has(self, file: Path, digest: str) -> bool:
        """Whether a file is as it was when it had this digest."""
        return bool(self._files.get(file.name) == [digest, *_facts(file)])

    def add(self, files: Mapping[Path, tuple[str, list[int]]]) -> None:
        """Remember files with their digest and their facts of before it was computed.

        A file that was written within the last seconds is left out: its times might not tell of the next change.
        """
        latest = time.time_ns() - _SETTLED
        additions = {
            path.name: [digest, *facts]
            for path, (digest, facts) in files.items()
            if facts == _facts(path) and max(facts[1:3]) < latest
        }
        if not additions:
            return
        folder = self._path.parent
        entries = {name: entry for name, entry in (self._files | additions).items() if (folder / name).exists()}
        content = {"files": entries}
        with suppress(OSError), atomic_file(self._path, "wb", PARTIAL) as file:
            file.write(_canonical(content))


def _facts(file: Path) -> list[int]:
    status = file.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def differing(
    files: Sequence[tuple[Path, int, str, list[str]]], threads: int | None = None, whole: bool = False
) -> Path | None:
    """The first of some (file, size, SHA-256 of all, SHA-256 of its parts) that is not what it should be, or None.

    All lie in one folder. Parts are hashed side by side; a file without parts is hashed as a whole. A file that has not
    changed since it was last hashed is not read, but for ``whole``. Raises OSError for a file that cannot be read.
    """
    for file, size, _, _ in files:
        if file.stat().st_size != size:
            return file
    history = CheckedFiles(files[0][0].parent)
    files = [entry for entry in files if whole or not history.has(entry[0], entry[2])]
    before = {file: (digest, _facts(file)) for file, _, digest, _ in files}
    pieces: list[tuple[Path, int, int, str]] = []
    for file, size, digest_of_all, parts in files:
        cuts = range(0, max(size, 1), PART) if parts else range(1)
        digests = parts or [digest_of_all]
        if len(digests) != len(cuts):
            return file
        pieces += [(file, at, PART if parts else size, digest) for at, digest in zip(cuts, digests, strict=True)]
    with ThreadPoolExecutor(threads or cores()) as pool:
        matches = list(pool.map(lambda piece: _hashed(*piece[:3]) == piece[3], pieces))
    wrong = next((file for (file, *_), good in zip(pieces, matches, strict=True) if not good), None)
    if files and wrong is None:
        history.add(before)
    return wrong


def _hashed(path: Path, start: int, size: int) -> str:
    digest = sha256()
    with path.open("rb") as file:
        file.seek(start)
        while size > 0 and (block := file.read(min(READ, size))):
            digest.update(block)
            size -= len(block)
    return digest.hexdigest()
