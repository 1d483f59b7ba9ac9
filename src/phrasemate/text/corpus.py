"""Paths -> documents: files, folders and standard input as one collection that can be read again and again.

Finds the files that a path stands for, tells the format of each, and copies standard input and pipes to temporary
files.
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
from phrasemate.text.text_file import LINE_LIMIT, Damage, SkippedInput, TextFile, keeps_line_ends, suffix_of
from phrasemate.types import Document, Sentence, check_language

SUFFIXES: Mapping[str, str] = {  # -> format
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
)  # no use as gzip: it could not be read from the middle
_READABLE = (
    ".txt, .tsv, .csv, .jsonl, .tmx, .tbx, .xliff, .po, .html, .md, .rtf, .docbook, .json, .yaml, .properties, "
    ".srt, .vtt, .eml (each also with .gz), .docx, .xlsx, .pptx, .odt, .ods, .odp, .epub, .idml and .pdf"
)
_NO_BYTE = re.compile("[\ud800-\udc7f\udd00-\udfff]")  # halves of surrogate pairs that no file system has
_HEAD = 4096  # bytes of a file that tell what it is
_FOREIGN = re.compile(  # other formats, whose mark-up would be indexed as text
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
    """A file to read: where it is, what it is called, its format and whether it is gzip."""

    path: Path
    name: str
    format: str
    packed: bool


def kind(path: Path) -> str:
    """Return "file", "folder", "stream" (a pipe or device) or "nothing"; OSError if the system does not tell."""
    try:
        mode = path.stat().st_mode
    except (ValueError, FileNotFoundError, NotADirectoryError):  # ValueError: a zero byte in it
        return "nothing"
    except OSError as error:
        if error.errno == errno.ELOOP:
            return "nothing"
        raise
    if stat.S_ISDIR(mode):
        return "folder"
    return "file" if stat.S_ISREG(mode) else "stream"


def find(argument: str, has_column: bool, damage: Damage) -> Iterator[SourceFile]:
    """The files that a path stands for: itself, or all in the folder and below, sorted, but hidden ones and indexes.

    A file that is named by the user is read as plain text (as a table if ``has_column``) when its suffix says nothing.
    In a folder such a file is listed as skipped. Damage are links to a folder that was read before, broken links,
    folders without a file that is read and, when it is named, an index.
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
        yield SourceFile(path, _name(path), format_ or ("tsv" if has_column else "txt"), is_gzip)
    return None


def _is_marked_up(path: Path, packed: bool) -> bool:
    """Whether a file whose name says nothing begins like XML or a web page: its mark-up would be text."""
    try:
        with gzip.open(path) if packed else path.open("rb") as stream:
            head = stream.read(_HEAD)
    except (OSError, EOFError, zlib.error):
        return False  # what is wrong with it shows when it is read
    return _MARKED_UP.match(head.replace(b"\0", b"").lstrip(b"\xef\xbb\xbf\xfe\xff \t\r\n")) is not None


def _find_below(folder: Path, path: str, damage: Damage) -> Iterator[SourceFile]:
    empty = True
    for file in _walk(folder, damage):
        format_, is_gzip = _format(file)
        name = _name(Path(path, file.relative_to(folder)))
        if format_:
            empty = False
            yield SourceFile(file, name, format_, is_gzip)
        else:
            damage.of_another_kind(name, _unknown(file)[0])
    if empty:
        damage.file(display_name(path), 0, f"a folder without a file to read; expected {_READABLE}", "check the path")


def display_name(name: str) -> str:
    """A path as text that can be stored and printed, whatever bytes the file system holds."""
    return os.fsencode(_NO_BYTE.sub("\ufffd", name)).decode("utf-8", "backslashreplace")


def _walk(folder: Path, damage: Damage) -> Iterator[Path]:
    """The files below a folder, sorted by name; a folder to which several ways lead is read once."""
    identities: set[tuple[int, int]] = set()
    waiting = [folder]  # the next one last
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
                damage.file(_name(entry), 0, reason, "remove it or use --on-error skip")
        except OSError as error:
            reason = f"cannot be looked at ({error.strerror})"
            damage.file(_name(entry), 0, reason, "check the path and its permissions")


def _inner(folder: Path, identities: set[tuple[int, int]], damage: Damage) -> list[Path]:
    """What lies in a folder that is not ``known``, in reverse; an index does not count as a folder."""
    status = folder.stat()
    if (status.st_dev, status.st_ino) in identities:
        damage.file(_name(folder), 0, "a folder that was read already, by another path", "remove the link")
    elif not identities or not _is_index(folder):  # such as the one that is being filled with this folder
        identities.add((status.st_dev, status.st_ino))
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
    return display_name(path.as_posix())


def _format(path: Path) -> tuple[str, bool]:
    """Format ("" if unknown) and whether it is gzip, by the name."""
    suffix, is_gzip = suffix_of(path)
    format_ = SUFFIXES.get(suffix, "")
    return "" if is_gzip and format_ in _ZIPPED else format_, is_gzip


def _unknown(path: Path) -> tuple[str, str]:
    suffix = f"the suffix {path.suffix!r} is" if path.suffix else "a name without a suffix is"
    return f"{suffix} not one that is read; expected {_READABLE}", "convert, rename or move it, or use --on-error skip"


_READ = 1 << 20
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
        return "txt", is_gzip  # what is wrong with it, if anything, shows when it is read


def _beginning(stream: BufferedIOBase, encoding: str) -> bytes:
    """The first line and some bytes more; in UTF-8 if another encoding was named, else as they are."""
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


# Counts up when the same file and options come to give other sentences. It did not when letters were first composed:
# decomposed ones in an index are found all the same.
_HOW_READ = "5"
_HOW_CONVERTED = "6"  # the same, of files in UTF-16 and the like


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
        column: Of tables: a name in the first row, or a number from 1; default: the first column.
        text_field: Field of JSON lines that holds the text.
        lines: "paragraph" splits each line into sentences, "sentence" takes each line as one. "wrapped" joins the lines
            of plain text into paragraphs first, as "paragraph" does where they are wrapped at one width.
        lang: Language of the texts, whose rules split sentences.
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
    if lang != "*":  # of a file in several languages, all
        check_language(lang)
    options = Options(_column(column), text_field, lines, lang, _encoding(encoding))
    return Corpus(tuple(os.fspath(path) for path in paths), options, on_error == "skip")


class Corpus:
    """Documents of files, read one by one. You may iterate repeatedly; nothing is held in memory.

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

    def __iter__(self) -> Iterator[Document]:
        """The documents in order; raises ReadError where the first file that cannot be read is reached."""
        yield from filter(None, map(self._document, self._files))

    @property
    def documents(self) -> int:
        """Count the files to read; raises ReadError for a path that leads nowhere."""
        return len(self._files)

    @property
    def size(self) -> int:
        """The bytes of all files together, as they are stored; raises ReadError as ``documents`` does."""
        return sum(file.path.stat().st_size for file in self._files if file.path.exists())

    @property
    def skips(self) -> bool:
        """Whether it passes over what cannot be read."""
        return self._damage.skip

    @property
    def skipped(self) -> list[SkippedInput]:
        """List what was passed over so far, each place once; empty under ``on_error="raise"``."""
        return self._damage.skipped()

    @cached_property
    def _files(self) -> list[SourceFile]:
        """The files, each once however often and by whatever path it is given."""
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
        """Standard input or a pipe, as a temporary file that goes when the corpus goes."""
        if argument not in self._spooled:
            name = "stdin" if argument == "-" else display_name(argument)
            path = spool(None if argument == "-" else Path(argument), name)
            weakref.finalize(self, path.unlink, missing_ok=True)
            file = sniffed(path, self._options.column is not None, self._options.encoding)
            self._spooled[argument] = SourceFile(path, name, *file)
        return self._spooled[argument]

    def _document(self, file: SourceFile) -> Document | None:
        """The document of a file, or None if the file was skipped."""
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
            latest[:] = [file]  # each pass counts for itself
            return sentences(file, source.format, self._options)

        return Document(source.name, digest, one_pass, size, lambda: min(size, latest[0].bytes_read) if latest else 0)

    def _digest(self, file: SourceFile) -> str:
        """SHA-256 over how the file is read and its bytes as they are stored."""
        version = _HOW_READ if keeps_line_ends(self._options.encoding) else _HOW_CONVERTED
        how = [version, *self._options.that_matter(file.format), str(file.packed)]
        state = hashlib.sha256("\0".join([*how, ""]).encode("utf-8", "surrogatepass"))
        with file.path.open("rb") as stream:
            return hashlib.file_digest(stream, lambda: state).hexdigest()


def _column(column: str | int | None) -> str | int | None:
    """A number from 1 (of at most nine digits), a name or nothing."""
    if isinstance(column, str) and column.strip().isdecimal() and len(column.strip()) < 10:
        column = int(column)
    if column == "" or (isinstance(column, int) and column < 1):
        raise InputError(f"column={column!r}; expected a name, or a number from 1")
    return column


def _encoding(name: str) -> str:
    """The usual name of an encoding, without a byte-order mark of its own."""
    try:
        usual = codecs.lookup(name).name
        keeps_line_ends(usual)  # refuses what is not an encoding of text, such as base64
    except (LookupError, ValueError):
        raise InputError(f"encoding={name!r} is unknown; expected one such as utf-8, utf-16 or cp1252") from None
    return {"utf-8-sig": "utf-8"}.get(usual, usual)
