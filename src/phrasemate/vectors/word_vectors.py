"""Static vectors of words: the record, its preparation for a mapping, its sealed folder, and fastText files.

::

    words.json           the words, most frequent first
    vectors.safetensors  matrix (words, dim) float32; counts (words,) int64 and the projection where there are any
    MANIFEST.json        language, how they were made, size and SHA-256 of the others; its own SHA-256 is their hash

A folder is written complete under another name and then renamed; the previous folder is renamed first and deleted last.
A manifest is accepted only if it is byte for byte what would be written for its content, its own checksum included.
Nothing is deleted but what is ours: a folder that holds other files is refused.

fastText text vectors (.vec, .vec.gz): a line with the number of words and of dimensions, then a word a line.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from phrasemate.encode.pooling import unit
from phrasemate.errors import InputError, ModelDamaged, ModelError, ModelUnsupported, ReadError
from phrasemate.text.text_file import Damage, SkippedInput, TextFile
from phrasemate.utils.arrays import Floats
from phrasemate.utils.storage import NewFile, check_new, save_arrays, sha256_of, swap_folder

FORMAT = "phrasemate-vectors"
VERSION = 1
WORDS, VECTORS, MANIFEST = "words.json", "vectors.safetensors", "MANIFEST.json"
SIDES = ("source", "target")  # folders within the one of a mapping
PARTIAL = re.compile(rf"\.tmp\w+|{re.escape(VECTORS)}\.\d+\.part")  # left by a run that was killed while it wrote them
REMEDY = "make the vectors again"

Arrays = Mapping[str, NDArray[Any]]


def write_folder(
    folder: Path, words: Sequence[str], arrays: Arrays, facts: Mapping[str, Any], force: bool = False
) -> str:
    """Write and seal; returns the hash (64 hex digits).

    Raises InputError as `check_free` does.
    """
    check_free(folder, force)
    partial = new_folder(folder)
    text = json.dumps(list(words), ensure_ascii=False, indent=0) + "\n"
    (partial / WORDS).write_bytes(text.encode("utf-8", "surrogatepass"))
    save_arrays(partial / VECTORS, arrays)
    content = _sealed(dict(facts), {name: _entry(partial / name) for name in (VECTORS, WORDS)})
    (partial / MANIFEST).write_bytes(content)
    put(partial, folder)
    return sha256(content).hexdigest()


def new_folder(folder: Path) -> Path:
    """An empty folder beside it, in which it is made."""
    partial = _beside(folder, ".new")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    return partial


def put(partial: Path, folder: Path) -> None:
    """Swap the finished folder in; delete the old one last."""
    swap_folder(partial, folder.resolve(), _beside(folder, ".old"))


def _beside(folder: Path, suffix: str) -> Path:
    """A folder beside it that a killed run may have left. Raises InputError for one that is somebody else's."""
    whole = folder.resolve()  # "." has no name; a link stays one
    if not whole.name:
        raise InputError(f"{folder}: has no name; expected a folder within another")
    path = whole.with_name(whole.name + suffix)
    if path.is_symlink() or (path.exists() and (not path.is_dir() or any(_strangers(path)))):
        raise InputError(f"{path}: exists and is not a folder of word vectors; move it, or choose another name")
    return path


def _strangers(folder: Path) -> Iterator[str]:
    """The names of what no word vectors have in their folder."""
    for entry in sorted(folder.iterdir()):
        side = entry.name.removesuffix(".new").removesuffix(".old") in SIDES
        if side and entry.is_dir() and not entry.is_symlink():
            yield from (f"{entry.name}/{name}" for name in _strangers(entry))
        elif not entry.is_file() or not (entry.name in (WORDS, VECTORS, MANIFEST) or PARTIAL.fullmatch(entry.name)):
            yield entry.name


def read_folder(folder: Path) -> tuple[list[str], dict[str, NDArray[Any]], dict[str, Any], str]:
    """Words, arrays, facts and hash of a folder, every byte verified.

    Raises ModelError when there are no word vectors, ModelUnsupported for a foreign or newer format, ModelDamaged when
    a file is missing or altered.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    manifest, digest = _manifest(folder)
    for name in (VECTORS, WORDS):
        _check(folder / name, manifest["files"].get(name))
    try:
        words = json.loads((folder / WORDS).read_bytes())  # takes half a character, too
        arrays = load_file(folder / VECTORS)
    except (OSError, ValueError, RecursionError, SafetensorError, TypeError, AttributeError) as error:  # other floats
        raise ModelDamaged(f"{folder}: not readable ({error}); {REMEDY}") from error
    for name, array in arrays.items():
        if array.dtype.kind not in "fiu":  # numpy has bfloat16 where another library has brought it along
            raise ModelDamaged(f"{folder}: not readable ({name} is of {array.dtype}); {REMEDY}")
    return words, arrays, manifest["facts"], digest


def check_free(folder: Path, force: bool = False) -> None:
    """Raises InputError unless word vectors may be written to ``folder``; to be asked before long work, too."""
    check_new(folder, force, folder=True)
    for suffix in (".new", ".old"):
        _beside(folder, suffix)
    if folder.exists() and not any((folder / place / MANIFEST).is_file() for place in ("", *SIDES)):
        raise InputError(f"{folder}: holds no word vectors, so it is not overwritten; choose another name")
    if folder.exists() and (stranger := next(_strangers(folder), None)):
        raise InputError(
            f"{folder}: holds {stranger!r}, too, so it is not overwritten; move that, or choose another name"
        )


def _entry(path: Path) -> dict[str, Any]:
    return {"bytes": path.stat().st_size, "sha256": sha256_of(path)}


def _sealed(facts: Any, files: Any) -> bytes:
    """The one form of a manifest; ``seal`` is the checksum of the rest of it."""
    content = {"format": FORMAT, "version": VERSION, "facts": facts, "files": files}
    seal = sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    text = json.dumps(content | {"seal": seal}, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    return text.encode("utf-8", "surrogatepass")  # half a character is not UTF-8: it equals no file


def _manifest(folder: Path) -> tuple[dict[str, Any], str]:
    path = folder / MANIFEST
    if not path.is_file():
        inside = [child.name for child in sorted(folder.iterdir())] if folder.is_dir() else []
        hint = " (there are some in its folders source and target)" if {"source", "target"} <= set(inside) else ""
        raise ModelError(f"{folder}: no word vectors here{hint}; make some with: phrasemate vectors distil TEXT -o DIR")
    raw = path.read_bytes()
    try:
        content = json.loads(raw)
        is_sealed = isinstance(content, dict) and raw == _sealed(content.get("facts"), content.get("files"))
    except (ValueError, RecursionError) as error:
        raise ModelDamaged(f"{path}: not readable as JSON ({error}); {REMEDY}") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        format_name = content.get("format") if isinstance(content, dict) else content
        raise ModelUnsupported(f"{path}: of format {format_name!r}, expected {FORMAT!r}; give a folder of word vectors")
    version, facts, files = (content.get(name) for name in ("version", "facts", "files"))
    if isinstance(version, int) and version > VERSION:
        raise ModelUnsupported(f"{path}: version {version}, this phrasemate reads up to {VERSION}; upgrade phrasemate")
    if not isinstance(facts, dict) or not isinstance(files, dict) or not is_sealed:
        raise ModelDamaged(f"{path}: altered (not as phrasemate writes it); {REMEDY}")
    return content, sha256(raw).hexdigest()


def _check(path: Path, entry: Any) -> None:
    try:
        embedding = _entry(path)
    except OSError as error:
        raise ModelDamaged(f"{path}: cannot be read ({error.strerror}); {REMEDY}") from error
    if embedding != entry:
        raise ModelDamaged(f"{path}: truncated or altered (not what {MANIFEST} says); {REMEDY}")


@dataclass(frozen=True, eq=False)
class Projection:
    """Projection of encoder states to word vectors: x kernel + bias at unit length; (width, dim) and (dim,) float32."""

    kernel: Floats
    bias: Floats

    def __call__(self, states: Floats) -> Floats:
        """(n, width) -> (n, dim) float32, unit length."""
        return unit(states @ self.kernel + self.bias)


@dataclass(frozen=True, eq=False)
class WordVectors:
    """Words, most frequent first, and their vectors: ``matrix`` (words, dim) float32.

    ``counts`` (words,): how often each occurred, where that is known; ``facts``: how they were made; ``projection``:
    what turned an encoder's states into them, for other languages to share.
    Raises InputError if the shapes differ, a word is empty or occurs twice, or a number is not finite.

    >>> vectors = WordVectors(("bank", "bench"), np.eye(2, dtype=np.float32), "en")
    >>> vectors.index["bench"], vectors.dim
    (1, 2)
    """

    words: Sequence[str]
    matrix: Floats
    language: str = ""
    counts: NDArray[np.int64] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    projection: Projection | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", tuple(self.words))
        object.__setattr__(self, "matrix", np.ascontiguousarray(self.matrix, np.float32))
        if self.matrix.ndim != 2 or len(self.matrix) != len(self.words) or not self.matrix.size:
            raise InputError(
                f"{len(self.words)} words and vectors of shape {self.matrix.shape}; expected (words, dim), not empty"
            )
        if self.counts is not None and self.counts.shape != (len(self.words),):
            raise InputError(f"{len(self.words)} words and counts of shape {self.counts.shape}; expected one per word")
        if len(self.index) < len(self.words) or "" in self.index:
            raise InputError("a word is empty or occurs twice; expected each word once")
        if not np.isfinite(self.matrix).all():
            raise InputError("a vector holds a value that is not finite; expected numbers")

    def __repr__(self) -> str:
        return f"<WordVectors {self.language or '?'} {len(self):,} x {self.dim}>"

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self.index

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return int(self.matrix.shape[1])

    @cached_property
    def index(self) -> dict[str, int]:
        """The row of each word."""
        return {word: row for row, word in enumerate(self.words)}

    def get(self, word: str) -> Floats | None:
        """(dim,) the vector of a word as it is written here; None if there is none."""
        row = self.index.get(word)
        return None if row is None else self.matrix[row]

    def rows(self, words: Iterable[str]) -> NDArray[np.int64]:
        """Rows of the words that have a vector, in their order; the others are passed over."""
        return np.array([self.index[word] for word in words if word in self.index], np.int64)

    def first(self, count: int) -> WordVectors:
        """The most frequent ``count`` of them."""
        counts = None if self.counts is None else self.counts[:count]
        return replace(self, words=self.words[:count], matrix=self.matrix[:count], counts=counts)

    def normalised(self) -> WordVectors:
        """Bring each vector to unit length (one of zeros stays as it is)."""
        return self.using(unit(self.matrix))

    def centred(self) -> WordVectors:
        """Subtract the mean from each vector."""
        return self.using(self.matrix - self.matrix.mean(0, dtype=np.float64).astype(np.float32))

    def prepared(self) -> WordVectors:
        """Unit length, centred, unit length again: as a mapping wants them (Artetxe et al. 2018, section 3.1)."""
        return self.normalised().centred().normalised()

    def using(self, matrix: Floats, **facts: Any) -> WordVectors:
        """Give the words other vectors, and more facts; the projection no longer belongs to them."""
        origin = {name: value for name, value in self.facts.items() if name != "hash"}  # of the folder they are from
        return replace(self, matrix=matrix, facts={**origin, **facts}, projection=None)

    def save(self, folder: str | Path, force: bool = False) -> str:
        """Write a sealed folder; returns its hash. Raises InputError if it already exists, unless ``force``."""
        arrays: dict[str, NDArray[Any]] = {"matrix": self.matrix}
        if self.counts is not None:
            arrays["counts"] = self.counts
        if self.projection is not None:
            arrays |= {"kernel": self.projection.kernel, "bias": self.projection.bias}
        return write_folder(Path(folder), self.words, arrays, {**self.facts, "language": self.language}, force)

    @classmethod
    def load(cls, folder: str | Path) -> WordVectors:
        """Read a folder of `save`, every byte verified.

        Raises ModelError when there is none, ModelDamaged or ModelUnsupported when it cannot be used.
        """
        words, arrays, facts, digest = read_folder(Path(folder))
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise ModelDamaged(f"{folder}: the words are not a list of texts; {REMEDY}")
        language = str(facts.pop("language", ""))
        facts["hash"] = digest
        try:
            projection = Projection(arrays["kernel"], arrays["bias"]) if "kernel" in arrays else None
            if projection and (projection.kernel.ndim != 2 or projection.bias.shape != projection.kernel.shape[1:]):
                raise InputError(f"a projection of {projection.kernel.shape} and {projection.bias.shape}")
            return cls(words, arrays["matrix"], language, arrays.get("counts"), facts, projection)
        except (InputError, KeyError) as error:
            raise ModelDamaged(f"{folder}: is invalid ({error}); {REMEDY}") from error


_DIGITS = 19  # of a count that means something
_UNWRITABLE = re.compile("[ \0\n\r\ud800-\udfff]")
_EVERY = 1000  # rows between two calls of progress
_FIX = "fix or delete the line, or use --on-error skip"
_COUNT = "copy it again, fix line 1 or use --on-error skip"


def read_fasttext(
    path: str | Path,
    limit: int | None = None,
    language: str = "",
    skipped: list[SkippedInput] | None = None,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> WordVectors:
    """Read fastText text vectors; the file is read as a stream, the numbers go into one matrix.

    Args:
        path: File, .vec or .vec.gz.
        limit: Words to read; None for all.
        language: Language of the words.
        skipped: List that takes what cannot be used; None raises for it.
        progress: Called with the words read, and of how many.

    A word that occurs again is passed over: the first is the more frequent. Raises ReadError, naming file and line, for
    a bad header, a row of another length or a bad number. It is raised, too, for another number of rows than the header
    says, text that is not UTF-8, and damaged gzip data.
    """
    if limit is not None and limit < 1:
        raise InputError(f"limit {limit}; expected 1 or more")
    path, damage = Path(path), Damage(skipped is not None)
    file = TextFile(path, str(path), path.suffix == ".gz", "utf-8", damage)
    lines = file.lines()
    count, dim = _header(file, lines)
    matrix = _room(file, min(count, limit or count), dim)
    words: dict[str, None] = {}
    rows = 0
    for number, text in lines:
        if rows == count:
            file.broken(number, f"a row more than the {count:,} that line 1 says", _COUNT)
            break
        rows += 1
        row = _row(file, number, text, dim)
        if row is not None and row[0] not in words:
            matrix[len(words)] = row[1]
            words[row[0]] = None
            if len(words) % _EVERY == 0:
                progress(len(words), len(matrix))
            if len(words) == limit:
                break
    if rows < count and len(words) != limit:
        file.broken(0, f"ends after {rows:,} rows, but line 1 says {count:,}", _COUNT)
    if skipped is not None:
        skipped += damage.skipped()
    if not words:
        raise ReadError(str(path), 0, "no word with a vector in it", "give another file")
    progress(len(words), len(words))
    return WordVectors(tuple(words), matrix[: len(words)], language, facts={"method": "fastText", "file": path.name})


def write_fasttext(vectors: WordVectors, path: str | Path, force: bool = False) -> None:
    """Write fastText text vectors with seven significant digits per number. The file appears when it is complete.

    Args:
        vectors: Vectors to write.
        path: File to write, packed where the name ends in .gz.
        force: Whether a file that exists is replaced.

    Raises InputError if the file exists or cannot be written. A word with white space that would split it, with U+0000
    or with half of a surrogate pair raises it too.
    """
    path = Path(path)
    check_new(path, force)
    if bad := next(filter(_UNWRITABLE.search, vectors.words), None):
        raise InputError(f"the word {bad!r} holds a space, a line break, NUL or a lone surrogate; take it out")
    with NewFile(path, binary=True) as new:
        raw = cast("IO[bytes]", new.stream)
        with gzip.GzipFile(path.name, "wb", fileobj=raw) if path.suffix == ".gz" else nullcontext(raw) as file:
            file.writelines(_lines(vectors))


def _lines(vectors: WordVectors) -> Iterable[bytes]:
    yield f"{len(vectors)} {vectors.dim}\n".encode()
    for word, row in zip(vectors.words, vectors.matrix, strict=True):
        yield f"{word} {' '.join(format(value, '.7g') for value in row.tolist())}\n".encode()


def _header(file: TextFile, lines: Iterator[tuple[int, str]]) -> tuple[int, int]:
    """The number of words and of dimensions; a file without them cannot be read at all."""
    number, text = next(lines, (0, ""))
    cells = text.split()
    numbers = len(cells) == 2 and all(cell.isascii() and cell.isdigit() and len(cell) < _DIGITS for cell in cells)
    if numbers and int(cells[0]) * int(cells[1]):
        return int(cells[0]), int(cells[1])
    if not number:
        for item in file.damage.skipped():
            raise ReadError(item.file, item.line, item.reason, "give another file")
        raise ReadError(file.name, 0, "an empty file", "expected fastText text vectors (.vec)")
    excerpt = text if len(text) < 40 else text[:39] + "…"
    raise ReadError(
        file.name,
        number,
        f"begins with {excerpt!r}",
        "expected the number of words and of dimensions, such as '200000 300' (GloVe files lack that line: add it)",
    )


def _room(file: TextFile, rows: int, dim: int) -> Floats:
    try:
        return np.empty((rows, dim), np.float32)
    except (MemoryError, ValueError) as error:
        reason = f"announces {rows:,} words of {dim:,} dimensions, more than the memory holds"
        raise ReadError(file.name, 1, reason, "fix the line or give a limit") from error


def _row(file: TextFile, number: int, text: str, dim: int) -> tuple[str, Floats] | None:
    """The word and its vector; None if the row is damaged and that is allowed."""
    cells = text.rstrip(" ").split(" ")
    if len(cells) != dim + 1:
        file.bad(number, f"{len(cells) - 1:,} numbers, expected {dim:,}", _FIX)
    elif not cells[0]:
        file.bad(number, "no word before the numbers", _FIX)
    else:
        try:
            with np.errstate(over="ignore"):  # what is too great becomes infinite, and shows below
                vector = np.array(cells[1:], np.float32)
            if np.isfinite(vector).all():
                return cells[0], vector
            file.bad(number, "a number that is not finite", _FIX)
        except ValueError:
            file.bad(number, "something that is not a number among the numbers", _FIX)
    return None
