"""Streams that can be read only once (standard input, pipes), kept in a temporary file."""

from __future__ import annotations

import codecs
import gzip
import json
import os
import shutil
import sys
import tempfile
import zlib
from contextlib import AbstractContextManager, nullcontext
from io import BufferedIOBase, BytesIO
from pathlib import Path
from typing import IO

from phrasemate.errors import ReadError
from phrasemate.text.formats.xml import kind_of
from phrasemate.text.lines import LINE_LIMIT

_READ = 1 << 20
_HEAD = 4096
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
    while (not whole or len(begins) < _HEAD) and len(begins) < _LINE and (block := stream.read1(_READ)):
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
