"""Files that a path stands for, the format of each, and temporary copies of standard input and pipes."""

from __future__ import annotations

import codecs
import gzip
import json
import os
import re
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from io import BufferedIOBase, BytesIO
from pathlib import Path
from typing import IO, NamedTuple

from phrasemate.errors import ReadError
from phrasemate.text.error_policy import Damage
from phrasemate.text.formats.bilingual import BILINGUAL
from phrasemate.text.formats.xml import kind_of
from phrasemate.text.text_file import LINE_LIMIT

SUFFIXES: Mapping[str, str] = {  # -> format
    **{".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".tbx": "tbx", ".tsv": "tsv", ".txt": "txt"},
    **{".htm": "html", ".html": "html", ".xhtml": "html"},
    **{".docm": "docx", ".docx": "docx", ".xlsm": "xlsx", ".xlsx": "xlsx"},
    **BILINGUAL,
}
_ZIPPED = ("docx", "xlsx")  # no use as gzip: it could not be read from the middle
_READABLE = ".txt, .tsv, .csv, .jsonl, .tmx, .tbx, .xliff, .html (each also with .gz), .docx and .xlsx"
_NO_BYTE = re.compile("[\ud800-\udc7f\udd00-\udfff]")  # halves of surrogate pairs that no file system has
_HEAD = 4096  # bytes of a file that may be an index's
_FOREIGN = re.compile(  # other formats, whose mark-up would be indexed as text
    r"\.(7z|bz2|doc[mx]?|epub|json|od[pst]|parquet|pdf|pptx?|rtf|tar|tgz|xls[mx]?|xml|xz|zip|zst"
    r"|po|pot|properties|resx|strings|stringsdict|xcstrings|arb|ftl|ts|qm|ya?ml|toml|ini|rc|json5|php"  # of programs
    r"|srt|vtt|sub|ass|ssa|sbv|ttml|dfxp|lrc"  # subtitles
    r"|docbook|dbk|dita|ditamap|idml|icml|mif|inx|md|markdown|mdx|rst|adoc|asciidoc|tex|bib|org|wiki|mediawiki|textile"
    r"|sgml?|mht(ml)?|shtml|svg|fodt|fods|eml|mbox|msg|ipynb|xdt|mtf|tmw|sdltm|sdltb)"
)


class Found(NamedTuple):
    """A file to read: where it is, what it is called, its format and whether it is gzip."""

    path: Path
    name: str
    format: str
    packed: bool


def kind(path: Path) -> str:
    """Return "file", "folder", "stream" (a pipe or device) or "nothing"; OSError if the system does not tell."""
    if path.is_dir():
        return "folder"
    if path.is_file():
        return "file"
    return "stream" if path.exists() else "nothing"


def find(given: str, has_column: bool, damage: Damage) -> Iterator[Found]:
    """The files that a path stands for: itself, or all in the folder and below, sorted, but hidden ones and indexes.

    A file that is named by the user is read as plain text (as a table if ``has_column``) when its suffix says nothing;
    in a folder such a file is damage, and so are links to a folder that was read before, broken links, folders without
    a file and, when it is named, an index.
    """
    path = Path(given)
    if path.is_dir() and _is_index(path):
        damage.file(shown(given), 0, "an index of phrasemate, not text", "name the texts it was made from")
    elif path.is_dir():
        yield from _find_below(path, given, damage)
    elif not path.exists():
        what = "a link to nothing" if path.is_symlink() else "no such file or folder"
        damage.file(shown(given), 0, what, "check the path")
    else:
        format_, packed = _format(path)
        if not format_ and _FOREIGN.fullmatch(_suffix(path)):
            return damage.file(shown(given), 0, *_unknown(path))
        yield Found(path, _name(path), format_ or ("tsv" if has_column else "txt"), packed)
    return None


def _find_below(folder: Path, given: str, damage: Damage) -> Iterator[Found]:
    empty = True
    for file in _walk(folder, damage):
        format_, packed = _format(file)
        name = _name(Path(given, file.relative_to(folder)))
        if format_:
            empty = False
            yield Found(file, name, format_, packed)
        else:
            damage.file(name, 0, *_unknown(file))
    if empty:
        damage.file(shown(given), 0, f"a folder without a file to read; expected {_READABLE}", "check the path")


def shown(name: str) -> str:
    """A path as text that can be stored and printed, whatever bytes the file system holds."""
    return os.fsencode(_NO_BYTE.sub("\ufffd", name)).decode("utf-8", "backslashreplace")


def _walk(folder: Path, damage: Damage) -> Iterator[Path]:
    """The files below a folder, sorted by name; a folder to which several ways lead is read once."""
    known: set[tuple[int, int]] = set()
    waiting = [folder]  # the next one last
    while waiting:
        entry = waiting.pop()
        try:
            if (what := kind(entry)) == "file":
                yield entry
            elif what == "folder":
                waiting += _inner(entry, known, damage)
            else:
                reason = "a link to nothing or in a circle" if what == "nothing" else "neither a file nor a folder"
                damage.file(_name(entry), 0, reason, "remove it or use --on-error skip")
        except OSError as error:
            reason = f"cannot be looked at ({error.strerror})"
            damage.file(_name(entry), 0, reason, "check the path and its permissions")


def _inner(folder: Path, known: set[tuple[int, int]], damage: Damage) -> list[Path]:
    """What lies in a folder that is not ``known``, in reverse; an index does not count as a folder."""
    here = _identity(folder)
    if here in known:
        damage.file(_name(folder), 0, "a folder that was read already, by another path", "remove the link")
    elif not known or not _is_index(folder):  # such as the one that is being filled with this folder
        known.add(here)
        try:
            return sorted((entry for entry in folder.iterdir() if not entry.name.startswith(".")), reverse=True)
        except OSError as error:
            damage.file(_name(folder), 0, f"cannot be listed ({error.strerror})", "check its permissions")
    return []


def _is_index(folder: Path) -> bool:
    """Whether it holds an index of phrasemate: no text, though it lies among some."""
    try:
        with (folder / "index.json").open("rb") as file:
            return b'"phrasemate-index"' in file.read(_HEAD)
    except OSError:
        return (folder / "state.lance").is_dir() and (folder / "phrases.lance").is_dir()


def _name(path: Path) -> str:
    return shown(path.as_posix())


def _identity(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


def _format(path: Path) -> tuple[str, bool]:
    """Format ("" if unknown) and whether it is gzip, by the name."""
    packed = path.suffix.lower() == ".gz"
    format_ = SUFFIXES.get(_suffix(path), "")
    return "" if packed and format_ in _ZIPPED else format_, packed


def _suffix(path: Path) -> str:
    """The suffix, without that of gzip."""
    inner = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    return inner.suffix.lower()


def _unknown(path: Path) -> tuple[str, str]:
    suffix = f"the suffix {path.suffix!r} is" if path.suffix else "a name without a suffix is"
    return f"{suffix} not one that is read; expected {_READABLE}", "convert, rename or move it, or use --on-error skip"


_READ = 1 << 20
_SNIFFED = 4096
_LINE = 4 * LINE_LIMIT  # bytes: a character has up to four


def spool(pipe: Path | None, name: str) -> Path:
    """Copies a pipe (None: standard input) to a temporary file, which the caller removes.

    Raises ReadError if the stream cannot be read or the disk is full.
    """
    handle, path = tempfile.mkstemp(prefix="phrasemate-")
    try:
        with os.fdopen(handle, "wb") as file, _stream(pipe) as stream:
            shutil.copyfileobj(stream, file, _READ)
    except BaseException as error:  # stopped by its user, too: it may be tens of gigabytes
        Path(path).unlink(missing_ok=True)
        if not isinstance(error, OSError):
            raise
        raise ReadError(name, 0, f"cannot be copied to {path} ({error.strerror})", "check the disk or TMPDIR") from None
    return Path(path)


def sniffed(path: Path, has_column: bool, encoding: str = "utf-8") -> tuple[str, bool]:
    """Format of nameless content, and whether it is gzip: a table if ``has_column``, else what it begins like."""
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    if has_column:
        return "tsv", packed
    try:
        with gzip.open(path) if packed else path.open("rb") as stream:
            begins = _beginning(stream, encoding).removeprefix(codecs.BOM_UTF8)
        if format_ := kind_of(begins.lstrip()):
            return format_, packed
        first = begins.partition(b"\n")[0].strip()
        return ("jsonl" if isinstance(json.loads(first), dict) else "txt"), packed
    except (OSError, EOFError, zlib.error, ValueError, RecursionError):
        return "txt", packed  # what is wrong with it, if anything, shows when it is read


def _beginning(stream: BufferedIOBase, encoding: str) -> bytes:
    """The first line and some bytes more; in UTF-8 if another encoding was named, else as they are."""
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    begins, whole = bytearray(), False
    while (not whole or len(begins) < _SNIFFED) and len(begins) < _LINE and (block := stream.read1(_READ)):
        piece = block if encoding == "utf-8" else decoder.decode(block).encode()
        begins += piece
        whole = whole or b"\n" in piece
    return bytes(begins)


def _stream(pipe: Path | None) -> AbstractContextManager[IO[bytes]]:
    if pipe is not None:
        return pipe.open("rb")
    if sys.stdin is None:
        return BytesIO()
    return nullcontext(sys.stdin.buffer)
