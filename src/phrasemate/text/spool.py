"""Streams that can be read only once (standard input, pipes), kept in a temporary file."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import sys
import tempfile
import zlib
from contextlib import AbstractContextManager, nullcontext
from io import BytesIO
from pathlib import Path
from typing import IO

from phrasemate.errors import ReadError
from phrasemate.text.formats.xml import kind_of

__all__ = ["sniffed", "spool"]

_READ = 1 << 20
_HEAD = 4096


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


def sniffed(path: Path, has_column: bool) -> tuple[str, bool]:
    """Format of nameless content, and whether it is gzip: a table if ``has_column``, else what it begins like."""
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    if has_column:
        return "tsv", packed
    try:
        with gzip.open(path) if packed else path.open("rb") as stream:
            first = stream.readline(_READ).removeprefix(b"\xef\xbb\xbf").strip()
            if format_ := kind_of(first + b"\n" + stream.read(_HEAD)):
                return format_, packed
        return ("jsonl" if isinstance(json.loads(first), dict) else "txt"), packed
    except (OSError, EOFError, zlib.error, ValueError, RecursionError):
        return "txt", packed  # what is wrong with it, if anything, shows when it is read


def _stream(pipe: Path | None) -> AbstractContextManager[IO[bytes]]:
    if pipe is not None:
        return pipe.open("rb")
    if sys.stdin is None:
        return BytesIO()
    return nullcontext(sys.stdin.buffer)
