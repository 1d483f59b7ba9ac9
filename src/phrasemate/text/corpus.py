"""Paths -> documents: files, folders and standard input as one collection that can be read again and again."""

from __future__ import annotations

import codecs
import hashlib
import os
import weakref
from collections.abc import Iterator
from pathlib import Path

from phrasemate.errors import InputError
from phrasemate.text.discover import Found, find, kind, shown, sniffed, spool
from phrasemate.text.error_policy import Damage, Skipped
from phrasemate.text.formats.registry import Options, sentences
from phrasemate.text.text_file import TextFile, keeps_line_ends
from phrasemate.types import Document, Sentence, check_language

_HOW_READ = "3"  # counts up when the same file and options come to give other sentences
_HOW_CONVERTED = "4"  # the same, of files in UTF-16 and the like


def read(
    *paths: str | os.PathLike[str],
    column: str | int | None = None,
    text_field: str = "text",
    lines: str = "paragraph",
    lang: str = "",
    on_error: str = "raise",
    encoding: str = "utf-8",
) -> Corpus:
    """The texts of files, of folders and all below them, and of standard input ("-"), to be read lazily.

    ``column`` (name in the first row, or number from 1; default: the first) is that of tables, ``text_field`` that of
    JSON lines. ``lines="paragraph"`` splits each line into sentences by the rules of ``lang``, ``"sentence"`` takes
    each line as one. ``on_error="skip"`` lists in ``Corpus.skipped`` what would raise ReadError. Raises InputError for
    arguments that make no sense; nothing is opened yet.
    """
    if not paths:
        raise InputError("no path given; expected files, folders or - for standard input")
    if lines not in ("paragraph", "sentence"):
        raise InputError(f"lines={lines!r}; expected 'paragraph' or 'sentence'")
    if on_error not in ("raise", "skip"):
        raise InputError(f"on_error={on_error!r}; expected 'raise' or 'skip'")
    if lang != "*":  # of a file in several languages, all
        check_language(lang)
    options = Options(_column(column), text_field, lines, lang, _encoding(encoding))
    return Corpus(tuple(os.fspath(path) for path in paths), options, on_error == "skip")


class Corpus:
    """Documents to be read, file by file: iterate as often as needed, nothing is held in memory.

    The paths are looked up at the first use. What was passed over under ``on_error="skip"`` is in ``skipped``,
    as far as the documents have been read.
    """

    def __init__(self, paths: tuple[str, ...], options: Options, skip: bool) -> None:
        self._paths, self._options = paths, options
        self._damage = Damage(skip)
        self._found: list[Found] | None = None
        self._spooled: dict[str, Found] = {}

    def __iter__(self) -> Iterator[Document]:
        """The documents in order; raises ReadError where the first file that cannot be read is reached."""
        for found in self._files():
            document = self._document(found)
            if document is not None:
                yield document

    @property
    def documents(self) -> int:
        """How many files there are to read; raises ReadError for a path that leads nowhere."""
        return len(self._files())

    @property
    def size(self) -> int:
        """The bytes of all files together, as they are stored; raises ReadError as ``documents`` does."""
        return sum(found.path.stat().st_size for found in self._files() if found.path.exists())

    @property
    def skips(self) -> bool:
        """Whether it passes over what cannot be read."""
        return self._damage.skip

    @property
    def skipped(self) -> list[Skipped]:
        """What was passed over so far, each place once; empty under ``on_error="raise"``."""
        return self._damage.skipped()

    def _files(self) -> list[Found]:
        if self._found is None:
            self._found = [found for path in self._paths for found in self._find(path)]
        return self._found

    def _find(self, given: str) -> Iterator[Found]:
        try:
            if given == "-" or kind(Path(given)) == "stream":
                yield self._from_stream(given)
            else:
                yield from find(given, self._options.column is not None, self._damage)
        except OSError as error:
            self._damage.file(shown(given), 0, f"cannot be looked up ({error.strerror})", "check the path")

    def _from_stream(self, given: str) -> Found:
        """Standard input or a pipe, as a temporary file that goes when the corpus goes."""
        if given not in self._spooled:
            name = "stdin" if given == "-" else shown(given)
            path = spool(None if given == "-" else Path(given), name)
            weakref.finalize(self, path.unlink, missing_ok=True)
            found = sniffed(path, self._options.column is not None, self._options.encoding)
            self._spooled[given] = Found(path, name, *found)
        return self._spooled[given]

    def _document(self, found: Found) -> Document | None:
        """The document of a file, or None if the file was skipped."""
        trouble = "an empty file; expected text"
        try:
            if size := found.path.stat().st_size:
                return self._described(found, self._digest(found), size)
        except OSError as error:
            trouble = f"cannot be read ({error.strerror})"
        self._damage.file(found.name, 0, trouble, "mend or remove it, or use --on-error skip")
        return None

    def _described(self, found: Found, digest: str, size: int) -> Document:
        latest: list[TextFile] = []

        def one_pass() -> Iterator[Sentence]:
            file = TextFile(found.path, found.name, found.packed, self._options.encoding, self._damage)
            latest[:] = [file]  # each pass counts for itself
            return sentences(file, found.format, self._options)

        return Document(found.name, digest, one_pass, size, lambda: min(size, latest[0].bytes_read) if latest else 0)

    def _digest(self, found: Found) -> str:
        """SHA-256 over how the file is read and its bytes as they are stored."""
        version = _HOW_READ if keeps_line_ends(self._options.encoding) else _HOW_CONVERTED
        how = [version, *self._options.that_matter(found.format), str(found.packed)]
        state = hashlib.sha256("\0".join([*how, ""]).encode("utf-8", "surrogatepass"))
        with found.path.open("rb") as stream:
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
        keeps_line_ends(usual)  # refuses what is no encoding of text, such as base64
    except (LookupError, ValueError):
        raise InputError(f"encoding={name!r} is unknown; expected one such as utf-8, utf-16 or cp1252") from None
    return {"utf-8-sig": "utf-8"}.get(usual, usual)
