"""Word vectors: the data class, and reading and writing of folders of vectors and of fastText files.

A folder of vectors has three files::

    words.json           the words, most frequent first
    vectors.safetensors  matrix (words, dim) float32; if known, counts (words,) int64; if any, kernel and bias of the
                         projection
    MANIFEST.json        facts (language, method, settings), size and SHA-256 of the other files, and a checksum of
                         itself; the SHA-256 of this file is the hash of the vectors

A folder is written completely under another name, then swapped with the previous one, which is deleted last. A manifest
is accepted only if its bytes are exactly those that would be written for its content. A folder that contains any other
file is never overwritten.

fastText text files (.vec, .vec.gz) have a first line with the numbers of words and of dimensions, then a line per word.
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
from phrasemate.types import check_progress, to_whole
from phrasemate.utils.arrays import Floats
from phrasemate.utils.storage import NewFile, check_new, save_arrays, sha256_of, swap_folder

FORMAT = "phrasemate-vectors"
VERSION = 1
WORDS, VECTORS, MANIFEST = "words.json", "vectors.safetensors", "MANIFEST.json"
SIDES = ("source", "target")  # subfolders of a folder of mapped vectors
PARTIAL = re.compile(rf"\.tmp\w+|{re.escape(VECTORS)}\.\d+\.part")  # temporary files of a run that was killed
REMEDY = "make the vectors again"

Arrays = Mapping[str, NDArray[Any]]


def write_folder(
    folder: Path, words: Sequence[str], arrays: Arrays, facts: Mapping[str, Any], force: bool = False
) -> str:
    """Write a folder of vectors, and return its hash (64 hex digits). Raises InputError as `check_free` does."""
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
    """Create an empty folder beside ``folder``, to be filled and then swapped in by `put`."""
    partial = _beside(folder, ".new")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    return partial


def put(partial: Path, folder: Path) -> None:
    """Replace ``folder`` by the finished folder ``partial``; the old one is deleted last."""
    swap_folder(partial, folder.resolve(), _beside(folder, ".old"))


def _beside(folder: Path, suffix: str) -> Path:
    """Return the path of ``folder`` with a suffix, where a killed run may have left a folder.

    Raises InputError if something else is there.
    """
    resolved = folder.resolve()  # gives a name to "."; of a link, the target is replaced and the link stays
    if not resolved.name:
        raise InputError(f"{folder}: has no name; expected a folder within another")
    path = resolved.with_name(resolved.name + suffix)
    if path.is_symlink() or (path.exists() and (not path.is_dir() or any(_strangers(path)))):
        raise InputError(f"{path}: exists and is not a folder of word vectors; move it, or choose another name")
    return path


def _strangers(folder: Path) -> Iterator[str]:
    """Yield the names of entries that do not belong to a folder of vectors, or to one of mapped vectors."""
    for entry in sorted(folder.iterdir()):
        side = entry.name.removesuffix(".new").removesuffix(".old") in SIDES
        if side and entry.is_dir() and not entry.is_symlink():
            yield from (f"{entry.name}/{name}" for name in _strangers(entry))
        elif not entry.is_file() or not (entry.name in (WORDS, VECTORS, MANIFEST) or PARTIAL.fullmatch(entry.name)):
            yield entry.name


def read_folder(folder: Path) -> tuple[list[str], dict[str, NDArray[Any]], dict[str, Any], str]:
    """Read a folder of vectors, verify its checksums, and return words, arrays, facts and hash.

    Raises ModelError if the folder has no word vectors, ModelUnsupported for another or newer format, and ModelDamaged
    if a file is missing or altered.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    manifest, digest = _manifest(folder)
    for name in (VECTORS, WORDS):
        _check(folder / name, manifest["files"].get(name))
    try:
        words = json.loads((folder / WORDS).read_bytes())  # from bytes, because lone surrogates are not valid UTF-8
        arrays = load_file(folder / VECTORS)
    # TypeError and AttributeError: a type of numbers that numpy does not have
    except (OSError, ValueError, RecursionError, SafetensorError, TypeError, AttributeError) as error:
        raise ModelDamaged(f"{folder}: not readable ({error}); {REMEDY}") from error
    for name, array in arrays.items():
        if array.dtype.kind not in "fiu":  # such as bfloat16, if another library has added it to numpy
            raise ModelDamaged(f"{folder}: not readable ({name} has the type {array.dtype}); {REMEDY}")
    return words, arrays, manifest["facts"], digest


def check_free(folder: Path, force: bool = False) -> None:
    """Check that word vectors may be written to ``folder``; call this before long work, too.

    Raises InputError if ``folder`` exists, unless ``force`` is set and it holds nothing but word vectors.
    """
    check_new(folder, force, folder=True)
    for suffix in (".new", ".old"):
        _beside(folder, suffix)
    if folder.exists() and not any((folder / place / MANIFEST).is_file() for place in ("", *SIDES)):
        raise InputError(f"{folder}: holds no word vectors, so it is not overwritten; choose another name")
    if folder.exists() and (stranger := next(_strangers(folder), None)):
        raise InputError(
            f"{folder}: also holds {stranger!r}, so it is not overwritten; move that, or choose another name"
        )


def _entry(path: Path) -> dict[str, Any]:
    """Return the entry of a file in the manifest: its size and checksum."""
    return {"bytes": path.stat().st_size, "sha256": sha256_of(path)}


def _sealed(facts: Any, files: Any) -> bytes:
    """Return the bytes of a manifest. Its last entry, ``seal``, is the checksum of all others."""
    content = {"format": FORMAT, "version": VERSION, "facts": facts, "files": files}
    seal = sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    text = json.dumps(content | {"seal": seal}, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    return text.encode("utf-8", "surrogatepass")  # a lone surrogate in an altered manifest must not raise here


def _manifest(folder: Path) -> tuple[dict[str, Any], str]:
    """Read and verify the manifest of a folder; return its content and its SHA-256. Raises as `read_folder` does."""
    path = folder / MANIFEST
    if not path.is_file():
        names = {child.name for child in folder.iterdir()} if folder.is_dir() else set()
        hint = " (there are some in its folders source and target)" if set(SIDES) <= names else ""
        raise ModelError(f"{folder}: no word vectors here{hint}; make some with: phrasemate vectors distil TEXT -o DIR")
    raw = path.read_bytes()
    try:
        content = json.loads(raw)
        is_sealed = isinstance(content, dict) and raw == _sealed(content.get("facts"), content.get("files"))
    except (ValueError, RecursionError) as error:
        raise ModelDamaged(f"{path}: not readable as JSON ({error}); {REMEDY}") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        format_name = content.get("format") if isinstance(content, dict) else content
        raise ModelUnsupported(f"{path}: format {format_name!r}, expected {FORMAT!r}; give a folder of word vectors")
    version, facts, files = (content.get(name) for name in ("version", "facts", "files"))
    if isinstance(version, int) and version > VERSION:
        raise ModelUnsupported(f"{path}: version {version}, this phrasemate reads up to {VERSION}; upgrade phrasemate")
    if not isinstance(facts, dict) or not isinstance(files, dict) or not is_sealed:
        raise ModelDamaged(f"{path}: altered since phrasemate wrote it; {REMEDY}")
    return content, sha256(raw).hexdigest()


def _check(path: Path, entry: Any) -> None:
    """Raise ModelDamaged unless a file has the size and checksum of its entry in the manifest."""
    try:
        actual = _entry(path)
    except OSError as error:
        raise ModelDamaged(f"{path}: cannot be read ({error.strerror}); {REMEDY}") from error
    if actual != entry:
        raise ModelDamaged(f"{path}: truncated or altered (size or checksum differs from {MANIFEST}); {REMEDY}")


@dataclass(frozen=True, eq=False)
class Projection:
    """Projection of encoder states x to word vectors: x kernel + bias, scaled to unit length.

    ``kernel`` (width, dim) and ``bias`` (dim,) are float32.
    """

    kernel: Floats
    bias: Floats

    def __call__(self, states: Floats) -> Floats:
        """Project states (n, width) to unit vectors (n, dim) float32."""
        return unit(states @ self.kernel + self.bias)


@dataclass(frozen=True, eq=False)
class WordVectors:
    """Word vectors of one language.

    Args:
        words: Words, most frequent first.
        matrix: Their vectors, (words, dim), converted to float32.
        language: Language of the words.
        counts: Number of occurrences of each word, (words,), if known.
        facts: Information on the origin of the vectors: method, settings, text.
        projection: Projection from encoder states to these vectors, for other languages to share.

    Raises InputError if the shapes do not match, a word is empty or occurs twice, or a number is not finite.

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
            raise InputError("a vector holds a value that is not finite; expected finite numbers")

    def __repr__(self) -> str:
        return f"<WordVectors {self.language or '?'} {len(self):,} x {self.dim}>"

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self.index

    @property
    def dim(self) -> int:
        """Return the dimension of the vectors."""
        return int(self.matrix.shape[1])

    @cached_property
    def index(self) -> dict[str, int]:
        """Return the row of each word in ``matrix``."""
        return {word: row for row, word in enumerate(self.words)}

    def get(self, word: str) -> Floats | None:
        """Return the vector (dim,) of a word in this exact spelling, or None."""
        row = self.index.get(word)
        return None if row is None else self.matrix[row]

    def rows(self, words: Iterable[str]) -> NDArray[np.int64]:
        """Return the rows of those ``words`` that have a vector, in order."""
        return np.array([self.index[word] for word in words if word in self.index], np.int64)

    def first(self, count: int) -> WordVectors:
        """Return the vectors of the ``count`` most frequent words."""
        counts = None if self.counts is None else self.counts[:count]
        return replace(self, words=self.words[:count], matrix=self.matrix[:count], counts=counts)

    def normalised(self) -> WordVectors:
        """Return the vectors scaled to unit length; a zero vector is unchanged."""
        return self.using(unit(self.matrix))

    def centred(self) -> WordVectors:
        """Return the vectors with their mean subtracted."""
        return self.using(self.matrix - self.matrix.mean(0, dtype=np.float64).astype(np.float32))

    def prepared(self) -> WordVectors:
        """Return the vectors prepared for a mapping: unit length, centred, unit length (Artetxe et al. 2018, 3.1)."""
        return self.normalised().centred().normalised()

    def using(self, matrix: Floats, **facts: Any) -> WordVectors:
        """Return the same words with other vectors and additional facts, without a projection."""
        own_facts = {name: value for name, value in self.facts.items() if name != "hash"}  # hash of the old vectors
        return replace(self, matrix=matrix, facts={**own_facts, **facts}, projection=None)

    def save(self, folder: str | Path, force: bool = False) -> str:
        """Write a folder of vectors, and return its hash. Raises InputError if it exists, unless ``force``."""
        arrays: dict[str, NDArray[Any]] = {"matrix": self.matrix}
        if self.counts is not None:
            arrays["counts"] = self.counts
        if self.projection is not None:
            arrays |= {"kernel": self.projection.kernel, "bias": self.projection.bias}
        return write_folder(Path(folder), self.words, arrays, {**self.facts, "language": self.language}, force)

    @classmethod
    def load(cls, folder: str | Path) -> WordVectors:
        """Read a folder that `save` wrote, and verify its checksums; ``facts["hash"]`` is its hash.

        Raises ModelError if the folder has no word vectors, ModelUnsupported for another or newer format, and
        ModelDamaged if a file is missing or altered.
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


_DIGITS = 19  # limit of the digits of a count in a header
_UNWRITABLE = re.compile("[ \0\n\r\ud800-\udfff]")  # characters that a word in a fastText file cannot contain
_EVERY = 1000  # words between two calls of ``progress``
_FIX = "fix or delete the line, or use --on-error skip"
_COUNT = "copy it again, fix line 1 or use --on-error skip"


def read_fasttext(
    path: str | Path,
    limit: int | None = None,
    language: str = "",
    skipped: list[SkippedInput] | None = None,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> WordVectors:
    """Read word vectors in the text format of fastText. Of a word with several vectors, the first is kept.

    Args:
        path: File, .vec or .vec.gz.
        limit: Maximum number of words; None for all.
        language: Language of the words.
        skipped: List to which unusable lines are added instead of raising ReadError.
        progress: Called with the number of words that are read, and the total.

    Raises ReadError, with file and line, for a bad header, a row of another length or a bad number. It is also raised
    for a number of rows that differs from the header, text that is not UTF-8, and damaged gzip data.
    """
    check_progress(progress)
    limit = None if limit is None else to_whole("limit", limit)
    path, damage = Path(path), Damage(skipped is not None)
    file = TextFile(path, str(path), path.suffix == ".gz", "utf-8", damage)
    lines = file.lines()
    count, dim = _header(file, lines)
    matrix = _new_matrix(file, min(count, limit or count), dim)
    words: dict[str, None] = {}
    rows = 0
    for number, text in lines:
        if rows == count:
            file.broken(number, f"more rows than the {count:,} that line 1 announces", _COUNT)
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
        file.broken(0, f"ends after {rows:,} rows, but line 1 announces {count:,}", _COUNT)
    if skipped is not None:
        skipped += damage.skipped()
    if not words:
        raise ReadError(str(path), 0, "no word with a vector in it", "give another file")
    progress(len(words), len(words))
    return WordVectors(tuple(words), matrix[: len(words)], language, facts={"method": "fastText", "file": path.name})


def write_fasttext(vectors: WordVectors, path: str | Path, force: bool = False) -> None:
    """Write word vectors in the text format of fastText, with seven significant digits per number.

    The file gets its name when it is complete.

    Args:
        vectors: Vectors to write.
        path: File to write, compressed if its name ends in .gz.
        force: Whether to overwrite an existing file.

    Raises InputError if the file exists or cannot be written. A word with a space, a line break, U+0000 or a lone
    surrogate raises it too.
    """
    path = Path(path)
    check_new(path, force)
    if bad := next(filter(_UNWRITABLE.search, vectors.words), None):
        raise InputError(f"the word {bad!r} holds a space, a line break, NUL or a lone surrogate; remove the word")
    with NewFile(path, binary=True) as new:
        raw = cast("IO[bytes]", new.stream)
        with gzip.GzipFile(path.name, "wb", fileobj=raw) if path.suffix == ".gz" else nullcontext(raw) as file:
            file.writelines(_lines(vectors))


def _lines(vectors: WordVectors) -> Iterable[bytes]:
    """Yield the header and the rows of a fastText file."""
    yield f"{len(vectors)} {vectors.dim}\n".encode()
    for word, row in zip(vectors.words, vectors.matrix, strict=True):
        yield f"{word} {' '.join(format(value, '.7g') for value in row.tolist())}\n".encode()


def _header(file: TextFile, lines: Iterator[tuple[int, str]]) -> tuple[int, int]:
    """Read the number of words and the dimension from the first line. Raises ReadError for any other first line."""
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
        "expected the number of words and the dimension, such as '200000 300' (GloVe files lack this line: add it)",
    )


def _new_matrix(file: TextFile, rows: int, dim: int) -> Floats:
    """Allocate the matrix. Raises ReadError if it does not fit into memory."""
    try:
        return np.empty((rows, dim), np.float32)
    except (MemoryError, ValueError) as error:
        reason = f"announces {rows:,} words of {dim:,} dimensions, more than the memory holds"
        raise ReadError(file.name, 1, reason, "fix the line or give a limit") from error


def _row(file: TextFile, number: int, text: str, dim: int) -> tuple[str, Floats] | None:
    """Parse a row: return the word and its vector, or None for a damaged row that is skipped."""
    cells = text.rstrip(" ").split(" ")
    if len(cells) != dim + 1:
        file.bad(number, f"{len(cells) - 1:,} numbers, expected {dim:,}", _FIX)
    elif not cells[0]:
        file.bad(number, "no word before the numbers", _FIX)
    else:
        try:
            with np.errstate(over="ignore"):  # a number that is too large becomes infinite, which is found below
                vector = np.array(cells[1:], np.float32)
            if np.isfinite(vector).all():
                return cells[0], vector
            file.bad(number, "a number that is not finite", _FIX)
        except ValueError:
            file.bad(number, "a value that is not a number", _FIX)
    return None
