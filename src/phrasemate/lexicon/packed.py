"""The files of StarDict and dictd dictionaries: read whole, unpacked where they are gzip, of bounded size."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable
from pathlib import Path

from phrasemate.errors import ReadError

SIZE = 400_000_000  # bytes of one file, unpacked
TEXT = 800_000_000  # bytes of all definitions: entries may share one
ENTRIES = 3_000_000  # headwords of a dictionary
DEFINITION = 20_000  # bytes of a definition that are looked at


def read_whole(path: Path) -> bytes:
    """The bytes of a file, unpacked if they are gzip (dictzip is). Raises ReadError."""
    try:
        with path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            if packed:
                with gzip.GzipFile(fileobj=file) as stream:
                    content = stream.read(SIZE + 1)
            else:
                content = file.read(SIZE + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ReadError(str(path), 0, f"damaged gzip data ({error})", "copy or download the file again") from None
    except OSError as error:
        reason = f"cannot be read ({error.strerror or error})"
        raise ReadError(str(path), 0, reason, "check the path and its permissions") from None
    if len(content) > SIZE:
        raise ReadError(str(path), 0, f"more than {SIZE:,} bytes; expected a dictionary", "split it")
    return content


def beside(path: Path, suffixes: Iterable[str]) -> Path:
    """The file of the same name that ends in one of the suffixes. Raises ReadError if there is none."""
    names = [path.with_name(path.stem + suffix) for suffix in suffixes]
    for name in names:
        if name.is_file():
            return name
    wanted = " or ".join(name.name for name in names)
    raise ReadError(str(path), 0, f"no file {wanted} beside it", "copy all files of the dictionary into one folder")


def defined(path: Path, content: bytes, start: int, size: int, read: int) -> bytes:
    """The first `DEFINITION` bytes of an entry; ``read`` bytes of definitions were read before it. Raises ReadError."""
    if start + size > len(content):
        reason = f"an entry ends at byte {start + size:,} of {len(content):,} bytes of definitions"
        raise ReadError(str(path), 0, reason, "copy or download the files again")
    if read > TEXT:
        raise ReadError(str(path), 0, f"definitions of more than {TEXT:,} bytes", "split the dictionary")
    return content[start : start + min(size, DEFINITION)]
