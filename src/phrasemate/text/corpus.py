"""Documents from paths: files, folders and standard input as one collection that can be read repeatedly.

Finds the files of each path and their formats, and copies standard input and pipes to temporary files.
"""

from __future__ import annotations

import codecs
import errno
import gzip
import hashlib
import json
import os
import re
import shutil
import stat
import sys
import tempfile
import weakref
import zlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from io import BufferedIOBase, BytesIO
from pathlib import Path
from typing import IO, NamedTuple

from phrasemate.errors import InputError, ReadError
from phrasemate.text.formats.bilingual import BILINGUAL
from phrasemate.text.formats.registry import Options, sentences
from phrasemate.text.formats.xml import kind_of
from phrasemate.text.names import display_name, name_of
from phrasemate.text.text_file import LINE_LIMIT, Damage, SkippedInput, TextFile, keeps_line_ends, suffix_of
from phrasemate.types import Document, Sentence, check_language, check_text, to_column

SUFFIXES: Mapping[str, str] = {  # suffix -> format
    **{".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".tbx": "tbx", ".tsv": "tsv", ".txt": "txt"},
    **{".htm": "html", ".html": "html", ".xhtml": "html"},
    **{".eml": "eml", ".docm": "docx", ".docx": "docx", ".xlsm": "xlsx", ".xlsx": "xlsx"},
    **{".odt": "odf", ".odp": "odf", ".ods": "ods", ".pptm": "pptx", ".pptx": "pptx", ".rtf": "rtf", ".pdf": "pdf"},
    **{".epub": "epub", ".idml": "idml", ".md": "md", ".markdown": "md", ".dbk": "docbook", ".docbook": "docbook"},
    **{".json": "json", ".yaml": "yaml", ".yml": "yaml", ".properties": "properties"},
    **dict.fromkeys((".srt", ".vtt", ".ass", ".ssa"), "subtitles"),
    **BILINGUAL,
}
_ZIPPED = (
    "docx",
    "epub",
    "idml",
    "odf",
    "ods",
    "pdf",
    "pptx",
    "xlsx",
)  # not read from gzip, which allows no random access
_READABLE = (
    ".txt, .tsv, .csv, .jsonl, .tmx, .tbx, .xliff, .po, .html, .md, .rtf, .docbook, .json, .yaml, .properties, "
    ".srt, .vtt, .eml (each also with .gz), .docx, .xlsx, .pptx, .odt, .ods, .odp, .epub, .idml and .pdf"
)
_HEAD = 4096  # bytes of a file that are enough to recognise its kind
_FOREIGN = re.compile(  # other formats, whose markup would be indexed as text
    r"\.(7z|bz2|doc[mx]?|epub|mobi|json|od[pst]|parquet|pdf|pptx?|rtf|tar|tgz|xls[mx]?|xml|xz|zip|zst"
    r"|po|pot|properties|resx|strings|stringsdict|xcstrings|arb|ftl|ts|qm|ya?ml|toml|ini|rc|json5|php"  # of programs
    r"|srt|vtt|sub|ass|ssa|sbv|ttml|dfxp|lrc"  # subtitles
    r"|docbook|dbk|dita|ditamap|idml|icml|mif|inx|md|markdown|mdx|rst|adoc|asciidoc|tex|bib|org|wiki|mediawiki|textile"
    r"|sgml?|mht(ml)?|shtml|svg|fodt|fods|mbox|msg|ipynb|xdt|mtf|tmw|sdltm|sdltb|txml|wsxz|mqxlz|sdlppx|fb2|rmd|qmd"
    r"|css|scss|less|jsx?|tsx|vue|svelte|cjs|mjs|c|cc|cpp|h|hpp|cs|java|kt|swift|go|rb|rs|lua|sh|bat|ps1|sql|jsp|aspx?"
    r"|eps|ps|djvu|chm|hlp|wpd|pages|key|numbers|odg|vsdx?|accdb|mdb|sqlite3?|db|csl|opml|rss|atom|plist|xsd|xslt?|dtd)"
)

_MARKED_UP = re.compile(rb"<(?:\?xml\s|!doctype\s|html[\s>]|svg[\s>]|[\w:]+\s[^<>]*xmlns)", re.IGNORECASE)


class SourceFile(NamedTuple):
    """A file to read: its path, its name in answers, its format, and whether it is gzip."""

    path: Path
    name: str
    format: str
    packed: bool


def kind(path: Path) -> str:
    """Return "file", "folder", "stream" (a pipe or device) or "nothing". Raises OSError if the system refuses."""
    try:
        mode = path.stat().st_mode
    except (ValueError, FileNotFoundError, NotADirectoryError):  # ValueError: the path has a NUL
        return "nothing"
    except OSError as error:
        if error.errno == errno.ELOOP:
            return "nothing"
        raise
    if stat.S_ISDIR(mode):
        return "folder"
    return "file" if stat.S_ISREG(mode) else "stream"


def find(argument: str, has_column: bool, damage: Damage) -> Iterator[SourceFile]:
    """Find the files of a path: itself, or all files below a folder, sorted, without hidden files and indexes.

    A file with an unknown suffix is read as plain text (as a table if ``has_column``) if the user named it; in a folder
    it is listed as skipped. Damage is reported for broken links, links to a folder that was already read, folders
    without readable files, and an index that the user named.
    """
    path = Path(argument)
    path_kind = kind(path)
    if path_kind == "folder" and _is_index(path):
        damage.file(display_name(argument), 0, "an index of phrasemate, not text", "name the texts it was made from")
    elif path_kind == "folder":
        yield from _find_below(path, argument, damage)
    elif path_kind == "nothing":
        reason = "a link to nothing" if path.is_symlink() else "no such file or folder"
        damage.file(display_name(argument), 0, reason, "check the path")
    else:
        format_, is_gzip = _format(path)
        if not format_ and (_FOREIGN.fullmatch(suffix_of(path)[0]) or _is_marked_up(path, is_gzip)):
            return damage.file(display_name(argument), 0, *_unknown(path))
        yield SourceFile(path, name_of(path), format_ or ("tsv" if has_column else "txt"), is_gzip)
    return None


def _is_marked_up(path: Path, packed: bool) -> bool:
    """Tell whether a file of unknown suffix begins like XML or a web page, whose markup must not be read as text."""
    try:
        with gzip.open(path) if packed else path.open("rb") as stream:
            head = stream.read(_HEAD)
    except (OSError, EOFError, zlib.error):
        return False  # reading the file will report the error
    return _MARKED_UP.match(head.replace(b"\0", b"").lstrip(b"\xef\xbb\xbf\xfe\xff \t\r\n")) is not None


def _find_below(folder: Path, path: str, damage: Damage) -> Iterator[SourceFile]:
    empty = True
    for file in _walk(folder, damage):
        format_, is_gzip = _format(file)
        name = name_of(Path(path, file.relative_to(folder)))
        if format_:
            empty = False
            yield SourceFile(file, name, format_, is_gzip)
        else:
            damage.of_another_kind(name, _unknown(file)[0])
    if empty:
        damage.file(display_name(path), 0, f"a folder without a file to read; expected {_READABLE}", "check the path")


def _walk(folder: Path, damage: Damage) -> Iterator[Path]:
    """Yield the files below a folder, sorted by name; a folder with several paths is read once."""
    identities: set[tuple[int, int]] = set()
    waiting = [folder]  # stack: the next entry is the last
    while waiting:
        entry = waiting.pop()
        try:
            if (entry_kind := kind(entry)) == "file":
                yield entry
            elif entry_kind == "folder":
                waiting += _inner(entry, identities, damage)
            else:
                is_link = entry_kind == "nothing"
                reason = "a link to nothing or in a circle" if is_link else "neither a file nor a folder"
                damage.file(name_of(entry), 0, reason, "remove it or use --on-error skip")
        except OSError as error:
            reason = f"cannot be looked at ({error.strerror})"
            damage.file(name_of(entry), 0, reason, "check the path and its permissions")


def _inner(folder: Path, identities: set[tuple[int, int]], damage: Damage) -> list[Path]:
    """List the entries of a folder in reverse order, unless it was already read (``identities``) or is an index."""
    status = folder.stat()
    if (status.st_dev, status.st_ino) in identities:
        damage.file(name_of(folder), 0, "a folder that was read already, by another path", "remove the link")
    elif not identities or not _is_index(folder):  # skips indexes below, such as the one being built
        identities.add((status.st_dev, status.st_ino))
        try:
            return sorted((entry for entry in folder.iterdir() if not entry.name.startswith(".")), reverse=True)
        except OSError as error:
            damage.file(name_of(folder), 0, f"cannot be listed ({error.strerror})", "check its permissions")
    return []


def _is_index(folder: Path) -> bool:
    """Tell whether a folder is an index of phrasemate."""
    try:
        with (folder / "index.json").open("rb") as file:
            return b'"phrasemate-index"' in file.read(_HEAD)
    except OSError:
        return (folder / "state.lance").is_dir() and (folder / "phrases.lance").is_dir()


def _format(path: Path) -> tuple[str, bool]:
    """Return the format of a file by its name ("" if unknown), and whether it is gzip."""
    suffix, is_gzip = suffix_of(path)
    format_ = SUFFIXES.get(suffix, "")
    return "" if is_gzip and format_ in _ZIPPED else format_, is_gzip


def _unknown(path: Path) -> tuple[str, str]:
    suffix, is_gzip = suffix_of(path)
    subject = f"the suffix {suffix + '.gz' * is_gzip!r} is" if suffix or is_gzip else "a name without a suffix is"
    return f"{subject} not one that is read; expected {_READABLE}", "convert, rename or move it, or use --on-error skip"


_READ = 1 << 20
_LINE = 4 * LINE_LIMIT  # bytes: a character has up to four


def spool(pipe: Path | None, name: str) -> Path:
    """Copy a pipe (None: standard input) to a temporary file, which the caller removes.

    Raises ReadError if the stream cannot be read or the disk is full.
    """
    handle, path = tempfile.mkstemp(prefix="phrasemate-")
    try:
        with os.fdopen(handle, "wb") as file, _stream(pipe) as stream:
            shutil.copyfileobj(stream, file, _READ)
    except BaseException as error:  # also for Ctrl-C: the copy may have tens of gigabytes
        Path(path).unlink(missing_ok=True)
        if not isinstance(error, OSError):
            raise
        raise ReadError(name, 0, f"cannot be copied to {path} ({error.strerror})", "check the disk or TMPDIR") from None
    return Path(path)


def sniffed(path: Path, has_column: bool, encoding: str = "utf-8") -> tuple[str, bool]:
    """Guess the format of unnamed content, a table if ``has_column``, else by its start, and whether it is gzip."""
    with path.open("rb") as file:
        is_gzip = file.read(2) == b"\x1f\x8b"
    if has_column:
        return "tsv", is_gzip
    try:
        with gzip.open(path) if is_gzip else path.open("rb") as stream:
            begins = _beginning(stream, encoding).removeprefix(codecs.BOM_UTF8)
        if format_ := kind_of(begins.lstrip()):
            return format_, is_gzip
        first = begins.partition(b"\n")[0].strip()
        return ("jsonl" if isinstance(json.loads(first), dict) else "txt"), is_gzip
    except (OSError, EOFError, zlib.error, ValueError, RecursionError):
        return "txt", is_gzip  # reading the file will report any error


def _beginning(stream: BufferedIOBase, encoding: str) -> bytes:
    """Read the first line and at least `_HEAD` bytes; converts them to UTF-8 if another encoding was given."""
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    begins, whole = bytearray(), False
    while (not whole or len(begins) < _HEAD) and len(begins) < _LINE and (block := stream.read1(_READ)):
        piece = block if encoding == "utf-8" else decoder.decode(block).encode()
        begins += piece
        whole = whole or b"\n" in piece
    return bytes(begins)


def _stream(pipe: Path | None) -> AbstractContextManager[IO[bytes]]:
    if pipe is not None:
        return pipe.open("rb")
    return nullcontext(sys.stdin.buffer if sys.stdin is not None else BytesIO())


# Version of the readers, part of the digest of a document: increase it when the same file gives other sentences.
_HOW_READ = "5"
_HOW_CONVERTED = "6"  # the same for files that are converted to UTF-8 first, such as UTF-16


def read(
    *paths: str | os.PathLike[str],
    column: str | int | None = None,
    text_field: str = "text",
    lines: str = "paragraph",
    lang: str = "",
    on_error: str = "raise",
    encoding: str = "utf-8",
) -> Corpus:
    """Read files, folders with subfolders, and standard input ("-") lazily.

    Args:
        paths: Files and folders; "-" for standard input.
        column: Column of tables: a name in one of the first 20 rows, or a number from 1. The default is the column
            called "text", "source", "sentence" or "segment", else the first one that does not consist of numbers or
            identifiers.
        text_field: Field of JSON lines that holds the text.
        lines: "paragraph" splits each line into sentences, "sentence" takes each line as one. "wrapped" joins the lines
            of plain text into paragraphs first, as "paragraph" does where they are wrapped at one width.
        lang: Language of the texts, for splitting sentences; in files of several languages, the one to read.
        on_error: "raise", or "skip" to list in ``Corpus.skipped`` what would raise ReadError.
        encoding: Encoding of text files.

    Raises InputError for invalid arguments; nothing is opened yet.
    """
    if not paths:
        raise InputError("no path given; expected files, folders or - for standard input")
    for path in paths:
        if not isinstance(path, str | os.PathLike):
            raise InputError(f"{repr(path)[:40]}: expected a path; give several one by one: read(first, second)")
        if not os.fspath(path):
            raise InputError("an empty path; expected a file, a folder or - for standard input")
    if lines not in ("paragraph", "sentence", "wrapped"):
        raise InputError(f"lines={lines!r}; expected 'paragraph', 'sentence' or 'wrapped'")
    if on_error not in ("raise", "skip"):
        raise InputError(f"on_error={on_error!r}; expected 'raise' or 'skip'")
    check_text(text_field)
    if lang != "*":  # "*" reads all languages of a file
        check_language(lang)
    options = Options(_column(column), text_field, lines, lang, _encoding(encoding))
    return Corpus(tuple(os.fspath(path) for path in paths), options, on_error == "skip")


class Corpus:
    """Documents of files, read one by one. A corpus can be iterated repeatedly and keeps no text in memory.

    The paths are resolved at the first use. With ``on_error="skip"``, ``skipped`` lists what could not be read so far.

    >>> from pathlib import Path
    >>> _ = Path("story.txt").write_text("It rained. It snowed.")
    >>> [sentence.text for document in read("story.txt", lang="en") for sentence in document.sentences()]
    ['It rained.', 'It snowed.']
    """

    def __init__(self, paths: tuple[str, ...], options: Options, skip: bool) -> None:
        self._paths, self._options = paths, options
        self._damage = Damage(skip)
        self._spooled: dict[str, SourceFile] = {}

    def __repr__(self) -> str:
        paths = [repr(path) for path in self._paths[:3]] + ["..."] * (len(self._paths) > 3)
        return f"Corpus({', '.join(paths)})"

    def __iter__(self) -> Iterator[Document]:
        """Yield the documents in order. Raises ReadError at the first file that cannot be read."""
        yield from filter(None, map(self._document, self._files))

    @property
    def documents(self) -> int:
        """Number of files to read. Raises ReadError for a missing path."""
        return len(self._files)

    @property
    def size(self) -> int:
        """Total bytes of the stored files. Raises ReadError for a missing path."""
        return sum(file.path.stat().st_size for file in self._files if file.path.exists())

    @property
    def skips(self) -> bool:
        """Whether unreadable input is skipped."""
        return self._damage.skip

    @property
    def skipped(self) -> list[SkippedInput]:
        """Places skipped so far, each once; empty with ``on_error="raise"``."""
        return self._damage.skipped()

    @cached_property
    def _files(self) -> list[SourceFile]:
        """Files to read, each once, even if it has several paths."""
        files: dict[Path, SourceFile] = {}
        for path in self._paths:
            for file in self._find(path):
                files.setdefault(file.path.absolute(), file)
        return list(files.values())

    def _find(self, path: str) -> Iterator[SourceFile]:
        try:
            if path == "-" or kind(Path(path)) == "stream":
                yield self._from_stream(path)
            else:
                yield from find(path, self._options.column is not None, self._damage)
        except OSError as error:
            self._damage.file(display_name(path), 0, f"cannot be looked up ({error.strerror})", "check the path")

    def _from_stream(self, argument: str) -> SourceFile:
        """Copy standard input or a pipe to a temporary file, which is deleted with the corpus."""
        if argument not in self._spooled:
            name = "stdin" if argument == "-" else display_name(argument)
            path = spool(None if argument == "-" else Path(argument), name)
            weakref.finalize(self, path.unlink, missing_ok=True)
            file = sniffed(path, self._options.column is not None, self._options.encoding)
            self._spooled[argument] = SourceFile(path, name, *file)
        return self._spooled[argument]

    def _document(self, file: SourceFile) -> Document | None:
        """Make the document of a file, or None if the file is skipped."""
        trouble = "an empty file; expected text"
        try:
            if size := file.path.stat().st_size:
                return self._described(file, self._digest(file), size)
        except OSError as error:
            trouble = f"cannot be read ({error.strerror})"
        self._damage.file(file.name, 0, trouble, "fix or remove it, or use --on-error skip")
        return None

    def _described(self, source: SourceFile, digest: str, size: int) -> Document:
        latest: list[TextFile] = []

        def one_pass() -> Iterator[Sentence]:
            file = TextFile(source.path, source.name, source.packed, self._options.encoding, self._damage)
            latest[:] = [file]  # progress is that of the latest pass
            return sentences(file, source.format, self._options)

        def consumed() -> int:
            return min(size, latest[0].bytes_read) if latest else 0

        return Document(source.name, digest, one_pass, size, consumed, needs_text=True)

    def _digest(self, file: SourceFile) -> str:
        """Compute the SHA-256 of the reading options and the stored bytes."""
        version = _HOW_READ if keeps_line_ends(self._options.encoding) else _HOW_CONVERTED
        how = [version, *self._options.that_matter(file.format), str(file.packed)]
        state = hashlib.sha256("\0".join([*how, ""]).encode("utf-8", "surrogatepass"))
        with file.path.open("rb") as stream:
            return hashlib.file_digest(stream, lambda: state).hexdigest()


def _column(column: str | int | None) -> str | int | None:
    """Convert digits to the number of a column. Raises InputError unless it is a name, None or 1 and above."""
    if isinstance(column, str) and column.strip().isdecimal() and len(column.strip()) < 10:
        column = int(column)
    return to_column(column)


def _encoding(name: str) -> str:
    """Return Python's name of a text encoding; "utf-8-sig" becomes "utf-8". Raises InputError if it is unknown."""
    try:
        usual = codecs.lookup(name).name
        keeps_line_ends(usual)  # refuses what is not an encoding of text, such as base64
    except (LookupError, ValueError, TypeError):
        raise InputError(f"encoding={name!r} is unknown; expected one such as utf-8, utf-16 or cp1252") from None
    return {"utf-8-sig": "utf-8"}.get(usual, usual)
