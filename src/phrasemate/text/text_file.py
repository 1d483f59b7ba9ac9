"""Lines of one file as text: streamed, decoded and of bounded length; recognition of files that are not text.

Damage, such as invalid UTF-8, is raised at once, or listed and skipped (`Damage`).
"""

from __future__ import annotations

import codecs
import errno
import gzip
import io
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, cast

from phrasemate.errors import ReadError

_MAGIC = {
    b"%PDF-": "a PDF file",
    b"PK\x03\x04": "a ZIP archive or an Office document",
    b"\xd0\xcf\x11\xe0": "an old Office document",
    b"{\\rtf": "an RTF document",
    b"\x1f\x8b": "gzip data in a file whose name does not end in .gz",
    b"\xfd7zXZ\0": "xz data",
    b"\x28\xb5\x2f\xfd": "Zstandard data",
    b"SQLite format 3\0": "an SQLite database",
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"GIF89a": "a GIF image",
    b"\x7fELF": "a program",
}
_MARKS = {  # UTF-32 first: its mark begins like that of UTF-16
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_CONTROLS = bytes([*range(0, 9), *range(14, 27), *range(28, 32)])  # all but white space and escape
_MAKE_TEXT = "convert it to plain text or use --on-error skip"
# mentions of command-line options in reasons and remedies, for `without_options`
_ENCODING = re.compile(r"give (?:it with|the right|its)? ?--encoding(?: [\w-]+)?,? or |, perhaps --encoding [\w-]+")
_OTHERS = re.compile(r",? or (?:use )?--on-error skip| \(choose one with --[a-z-]+\)|,? or choose another --column")


class SkippedInput(NamedTuple):
    """A skipped line; with ``whole``, also the rest of the file from there. Line 0 means the whole file.

    >>> from pathlib import Path
    >>> from phrasemate import read
    >>> _ = Path("lines.jsonl").write_text("{broken")
    >>> corpus = read("lines.jsonl", on_error="skip")
    >>> sentences = [sentence for document in corpus for sentence in document.sentences()]
    >>> [(skip.file, skip.line) for skip in corpus.skipped]
    [('lines.jsonl', 1)]
    """

    file: str
    line: int
    reason: str
    whole: bool = False


Skipped = SkippedInput  # the former name


class Damage:
    """Policy for unreadable input: raise ReadError, or list it if ``skip``.

    Each place is listed once, even if a text is read several times.
    """

    def __init__(self, skip: bool) -> None:
        self.skip = skip
        self._listed: dict[tuple[str, int, bool], SkippedInput] = {}

    def line(self, file: str, line: int, reason: str, remedy: str) -> None:
        """Report an unusable line. Raises ReadError unless ``skip``."""
        self._note(SkippedInput(file, line, reason), remedy)

    def file(self, file: str, line: int, reason: str, remedy: str) -> None:
        """Report that a file is unusable from this line on (0: from the start). Raises ReadError unless ``skip``."""
        self._note(SkippedInput(file, line, reason, whole=True), remedy)

    def of_another_kind(self, file: str, reason: str) -> None:
        """List a file of a folder whose format is not read; this is never an error."""
        self._listed.setdefault((file, 0, True), SkippedInput(file, 0, reason, whole=True))

    def skipped(self) -> list[SkippedInput]:
        """Return what was skipped so far, in order."""
        return list(self._listed.values())

    def _note(self, skip: SkippedInput, remedy: str) -> None:
        if not self.skip:
            raise ReadError(skip.file, skip.line, skip.reason, remedy)
        self._listed.setdefault((skip.file, skip.line, skip.whole), skip)


@contextmanager
def without_options(*, encoding_only: bool = False) -> Iterator[None]:
    """Remove mentions of command-line options from each ReadError of the block, for input without these options.

    ``encoding_only``: remove only mentions of --encoding.
    """
    try:
        yield
    except ReadError as error:
        notes = []
        for text in (error.reason, error.remedy):
            text = _ENCODING.sub("", text)
            notes.append(text if encoding_only else _OTHERS.sub("", text))
        if notes == [error.reason, error.remedy]:
            raise
        raise ReadError(error.file, error.line, *notes) from error


def binary_kind(head: bytes) -> tuple[str, str] | None:
    """Return reason and remedy if the first bytes of a file are not text in an ASCII-compatible encoding, else None."""
    for magic, kind in _MAGIC.items():
        if head.startswith(magic):
            return f"{kind}; expected text", _MAKE_TEXT
    for mark, encoding in _MARKS.items():
        if head.startswith(mark):
            return f"begins with the byte-order mark of {encoding.upper()}", _say(encoding)
    if encoding := _utf16_without_mark(head):
        return f"every other byte is zero, as in {encoding.upper()}", _say(encoding)
    controls = len(head) - len(head.translate(None, _CONTROLS))
    if controls >= 8 and controls * 10 > len(head):
        reason = f"binary data ({controls:,} control characters in the first {len(head):,} bytes)"
        return f"{reason}; expected text", _MAKE_TEXT
    return None


def other_encoding(raw: bytes, error: UnicodeDecodeError, offset: int) -> tuple[str, str]:
    """Return reason and remedy for a line that cannot be decoded; ``offset`` is its offset in the unpacked file."""
    at = offset + error.start
    if error.encoding != "utf-8":
        problem = f"byte 0x{raw[error.start]:02X} at offset {at:,} is not {error.encoding}"
        return problem, "give the right --encoding or convert the file with iconv"
    if error.reason == "unexpected end of data":
        return f"the text ends within a UTF-8 character at offset {at:,}", "the file may be cut short: copy it again"
    problem = f"byte 0x{raw[error.start]:02X} at offset {at:,} is not UTF-8"
    high = sum(byte > 0x7F for byte in raw)
    if high * 3 > len(raw.strip()) and high > 3:
        return f"{problem} (a Cyrillic, Greek or East Asian encoding?)", "give its --encoding or convert it with iconv"
    windows = any(0x80 <= byte <= 0x9F for byte in raw)
    return f"{problem} ({'Windows-1252' if windows else 'Latin-1'}?)", _say("cp1252" if windows else "latin-1")


def _utf16_without_mark(head: bytes) -> str:
    """Guess "utf-16-le" or "utf-16-be", in which every other byte of European text is zero; else ""."""
    pairs = len(head) // 2
    first, second = head[::2].count(0), head[1::2].count(0)
    if pairs < 8 or max(first, second) * 2 < pairs or min(first, second) * 20 > pairs:
        return ""
    return "utf-16-be" if first > second else "utf-16-le"


def _say(encoding: str) -> str:
    return f"give --encoding {encoding} or convert it: iconv -f {encoding.upper()} -t UTF-8"


LINE_LIMIT = 1_000_000  # maximum characters of a line; a longer line is damage
WHOLE = 64_000_000  # maximum bytes of a file in a format that is read at once
_READ = 4 * LINE_LIMIT + 2  # bytes of the longest line: up to four for a character, two for the line end
_BUFFER = 1 << 17
_BLOCK = 1 << 16
_HEAD = 8192
_BAD_LINES = 1000
_MOST_BAD = 100_000  # maximum number of damaged places that are listed for a file
_GZIP = b"\x1f\x8b"
_NO_GZIP = "no gzip"
NO_CHARSETS = {"idna", "punycode", "raw-unicode-escape", "unicode-escape", "utf-7"}  # may decode to lone surrogates
_HALF, _HALVES = "\udfff", "phrasemate.halves"  # replacement for undecodable bytes; name of the error handler
_SKIP = "fix it or use --on-error skip"
_CHECK = "check its format and encoding"


def suffix_of(path: str | os.PathLike[str]) -> tuple[str, bool]:
    """Return the suffix of a file in lower case without ".gz", and whether the name ends in ".gz"."""
    path = Path(path)
    is_gzip = path.suffix.lower() == ".gz"
    return (path.with_suffix("") if is_gzip else path).suffix.lower(), is_gzip


def numbered_lines(path: Path, name: str = "") -> Iterator[tuple[int, str]]:
    """Yield number (from 1) and text of each line of a UTF-8 file, which is gzip if its name ends in .gz.

    Raises ReadError with file and line; ``name`` is that of the file in errors, by default its path.
    """
    with without_options():
        yield from TextFile(path, name or str(path), path.suffix == ".gz", "utf-8", Damage(skip=False)).lines()


class TextFile:
    """File on disk that can be read as lines, blocks or a whole, with its progress.

    ``name`` is its name in errors and hits; ``packed`` says that it is gzip. ``bytes_read`` counts the stored
    (compressed) bytes that the latest pass has read.
    """

    def __init__(self, path: Path, name: str, packed: bool, encoding: str, damage: Damage) -> None:
        self.path, self.name, self.packed, self.encoding, self.damage = path, name, packed, encoding, damage
        self.bytes_read = self._bad = self._line = 0
        self.ended = False  # whether the latest pass has reached a place from which the file is unusable

    def bad(self, line: int, reason: str, remedy: str = _SKIP) -> None:
        """Report a damaged line. Raises ReadError unless damage is skipped."""
        self._bad += 1
        self.damage.line(self.name, line, reason, remedy)

    def broken(self, line: int, reason: str, remedy: str) -> None:
        """Report that the file is unusable from this line on (0: from the start). Raises ReadError unless skipped."""
        self._bad += 1
        self.ended = True
        self.damage.file(self.name, line, reason, remedy)

    def given_up(self, line: int) -> bool:
        """Tell whether there is too much damage to continue; this is reported, too."""
        if self._bad < _MOST_BAD:
            return False
        if not self.ended:
            self.broken(line + 1, f"{self._bad:,} damaged lines; the rest was not read", _CHECK)
        return True

    @property
    def unharmed(self) -> bool:
        """Whether the latest pass has met no damage so far."""
        return not self._bad

    def lines(self) -> Iterator[tuple[int, str]]:
        """Start a new pass: yield number (from 1) and text of each line, without its line end, in bounded memory.

        Raises ReadError for damage, or lists it, as ``damage`` decides.
        """
        with self._noted(), self._opened() as stream:
            yield from self._decoded(stream)

    def blocks(self) -> Iterator[bytes]:
        """Start a new pass: yield the unpacked bytes, converted to UTF-8 if another encoding was given.

        This is for formats that declare their encoding. The blocks end at the first bytes that are invalid in the given
        encoding. Raises ReadError for damage, or lists it, as `lines` does.
        """
        with self._noted(), self._opened(whole=True) as stream:
            while block := stream.read1(_BLOCK):
                yield block

    def limited(self, most: int, kind: str, remedy: str) -> Iterator[bytes]:
        """Yield `blocks`, but raise ReadError after ``most`` bytes; ``kind`` is what was expected."""
        size = 0
        for block in self.blocks():
            size += len(block)
            if size > most:
                raise ReadError(self.name, 0, f"more than {most:,} bytes; expected {kind}", remedy)
            yield block

    def whole(self, otherwise: str = "", declaration: re.Pattern[bytes] | None = None) -> str:
        """Read the whole text: UTF-8, UTF-16 with a byte-order mark, or the given encoding.

        ``otherwise`` is the encoding of a file that is not valid UTF-8, or ``declaration`` the pattern of a place that
        names it (its first group). Raises ReadError, also for more than 64 MB.
        """
        raw = b"".join(self.limited(WHOLE, "less in this format", "split it"))
        has_mark = raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        if not has_mark and (kind := binary_kind(raw[:_HEAD])):
            raise ReadError(self.name, 0, *kind)
        try:
            text = raw.decode("utf-16" if has_mark else "utf-8-sig")
        except UnicodeDecodeError as error:
            otherwise = otherwise or _declared(raw, declaration)
            if not otherwise:
                line = raw.count(b"\n", 0, error.start) + 1
                near = UnicodeDecodeError("utf-8", raw[error.start : error.start + 200], 0, 1, error.reason)
                raise ReadError(self.name, line, *other_encoding(near.object, near, error.start)) from None
            text = raw.decode(otherwise)
        return text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")

    @contextmanager
    def stored(self) -> Iterator[io.BufferedReader]:
        """Open the stored bytes for random access. Raises OSError."""
        self.bytes_read = self._bad = self._line = 0
        self.ended = False
        with _CountingFile(self) as raw, io.BufferedReader(raw, _BUFFER) as stream:
            yield cast(io.BufferedReader, stream)

    @contextmanager
    def _opened(self, whole: bool = False) -> Iterator[io.BufferedReader]:
        """Open the unpacked bytes, converted to UTF-8 if the line ends of the encoding are not those of ASCII.

        If all lines end in a carriage return, as in files of the classic Mac OS, they get line feeds.

        ``whole``: convert any other encoding to UTF-8, end at the first invalid bytes, and leave line ends as they are.
        """
        with self.stored() as stream:
            if self.packed:
                if stream.peek(2)[:2] not in (_GZIP, b""):
                    raise gzip.BadGzipFile(_NO_GZIP)
                stream = io.BufferedReader(_GzipStream(stream), _BUFFER)
            if not keeps_line_ends(self.encoding) or (whole and self.encoding != "utf-8"):
                stream = io.BufferedReader(_Utf8Stream(stream, self.encoding, whole), _BUFFER)
            beginning = b"" if whole else stream.peek(_HEAD)
            if b"\r" in beginning and b"\n" not in beginning:
                stream = io.BufferedReader(_LineFeedStream(stream), _BUFFER)
            yield stream

    @contextmanager
    def _noted(self) -> Iterator[None]:
        """Report errors of the block as damage; it must include the opening of the file."""
        try:
            yield
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            reason, remedy = _gzip_trouble(error)
        except UnicodeError as error:
            reason, remedy = f"not {self.encoding} ({getattr(error, 'reason', error)})", "give the right --encoding"
        except OSError as error:
            reason, remedy = f"cannot be read ({error.strerror or error})", "check the path and its permissions"
        else:
            return
        self.broken(self._line + 1 if self._line else 0, reason, remedy)

    def _decoded(self, stream: io.BufferedReader) -> Iterator[tuple[int, str]]:
        head = stream.peek(_HEAD)[:_HEAD]
        if kind := binary_kind(head):
            return self.broken(0, *kind)
        if head.startswith(codecs.BOM_UTF8):
            stream.read(len(codecs.BOM_UTF8))
        while raw := stream.readline(_READ):
            self._line += 1
            text = self._text(raw, stream)
            if text is not None:
                yield self._line, text
            if self.given_up(self._line):
                return None
            if self._bad >= _BAD_LINES and 2 * self._bad > self._line:
                reason = f"{self._bad:,} of the first {self._line:,} lines are damaged; the rest was not read"
                return self.broken(self._line + 1, reason, _CHECK)
        return None

    def _text(self, raw: bytes, stream: io.BufferedReader) -> str | None:
        """Decode a line without its end; None if it is damaged."""
        codec = self.encoding if keeps_line_ends(self.encoding) else "utf-8"
        if len(raw) == _READ and not raw.endswith(b"\n"):
            self._too_long(_length(raw, codec, stream))
            return None
        try:
            text = raw.decode(codec).rstrip("\r\n")
            if self._line == 1:
                text = text.lstrip("\ufeff")  # byte-order mark in other encodings such as gb18030, or a second one
        except UnicodeDecodeError as error:
            self.bad(self._line, *self._undecoded(raw, error, stream))
            return None
        if len(text) > LINE_LIMIT:
            self._too_long(len(text))
        elif "\0" in text:
            self.bad(self._line, f"a NUL character at column {text.index(chr(0)) + 1:,}; expected text")
        else:
            return text
        return None

    def _undecoded(self, raw: bytes, error: UnicodeDecodeError, stream: io.BufferedReader) -> tuple[str, str]:
        if keeps_line_ends(self.encoding):
            return other_encoding(raw, error, stream.tell() - len(raw))
        column = len(raw[: error.start].decode()) + 1
        return f"what stands at column {column:,} is not {self.encoding}", f"give the right --encoding or {_SKIP}"

    def _too_long(self, length: int) -> None:
        reason = f"a line of {length:,} characters; expected at most {LINE_LIMIT:,}"
        self.bad(self._line, reason, "split it into lines or use --on-error skip")


@cache
def _declared(raw: bytes, declaration: re.Pattern[bytes] | None) -> str:
    """Return the name of the encoding that a file declares and that it can be read in, else ""."""
    match = declaration and declaration.search(raw[:_HEAD])
    if not match:
        return ""
    name = match[1].decode()
    try:
        keeps_line_ends(name)  # refuses what is not an encoding of text
        raw.decode(name)
    except (LookupError, ValueError):
        return ""
    return name


def keeps_line_ends(encoding: str) -> bool:
    """Tell whether text in this encoding can be split at the byte of a line feed, unlike UTF-16 and UTF-32.

    Raises LookupError or ValueError for anything but a text encoding.
    """
    usual = codecs.lookup(encoding).name
    if usual in NO_CHARSETS:
        raise UnicodeError("no encoding of text")
    return (
        "a\n".encode(usual) == b"a\n" and usual != "iso2022_kr"
    )  # its escape sequence at the start applies to all lines


def _length(raw: bytes, codec: str, stream: io.BufferedReader) -> int:
    """Count the characters of a line that begins with ``raw``; reads and discards the rest of the line."""
    decoder = codecs.getincrementaldecoder(codec)("replace")
    length = len(decoder.decode(raw))
    while raw := stream.readline(_BUFFER):
        length += len(decoder.decode(raw).rstrip("\r\n"))
        if raw.endswith(b"\n"):
            break
    return length


def _gzip_trouble(error: Exception) -> tuple[str, str]:
    if isinstance(error, EOFError):
        return "the gzip data end too early", "copy or download the file again"
    if str(error) == _NO_GZIP:
        return "not gzip data, though the name ends in .gz", "rename or compress it"
    if "Not a gzipped file" in str(error):
        return "something else follows the gzip data", "cut it off, or copy or download the file again"
    return f"the gzip data are damaged ({error})", "copy or download the file again"


class _CountingFile(io.FileIO):
    """File that counts the bytes read in its `TextFile`."""

    def __init__(self, owner: TextFile) -> None:
        try:
            super().__init__(owner.path)
        except ValueError as error:  # the path has a NUL or a lone surrogate
            raise OSError(errno.EINVAL, str(error)) from None
        self._owner = owner

    def readinto(self, buffer: Any, /) -> int | None:
        count = super().readinto(buffer)
        self._owner.bytes_read += count or 0
        return count


class _GzipStream(io.RawIOBase):
    """Unpacked gzip data; an error is raised only after all bytes before it were read."""

    def __init__(self, stored: io.BufferedReader) -> None:
        self._stream = gzip.GzipFile(fileobj=stored)
        self._error: Exception | None = None

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._stream.tell()

    def readinto(self, buffer: Any, /) -> int:
        count = 0
        try:
            while self._error is None and count < len(buffer) and (block := self._stream.read1(len(buffer) - count)):
                buffer[count : count + len(block)] = block
                count += len(block)
        except (EOFError, OSError, zlib.error) as error:
            self._error = error
        if self._error is not None and not count:
            raise self._error
        return count


class _LineFeedStream(io.RawIOBase):
    """Stream with line feeds for carriage returns."""

    def __init__(self, stream: io.BufferedReader) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._stream.tell()

    def readinto(self, buffer: Any, /) -> int:
        block = self._stream.read1(len(buffer))
        buffer[: len(block)] = block.replace(b"\r", b"\n")
        return len(block)


class _Utf8Stream(io.RawIOBase):
    """Stream converted from any encoding to UTF-8.

    Invalid bytes become a lone surrogate, which is invalid in UTF-8, too; a ``whole`` stream ends before them with
    UnicodeError.
    """

    def __init__(self, stream: io.BufferedReader, encoding: str, whole: bool) -> None:
        self._stream, self._whole, self._ready = stream, whole, b""
        self._decoder = codecs.getincrementaldecoder(encoding)(_HALVES)
        self._ended = self._damaged = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        while not self._ready and not self._ended:
            raw = self._stream.read1(_BUFFER)
            text = self._decoder.decode(raw, final=not raw)
            if self._whole and _HALF in text:
                text, self._damaged = text[: text.index(_HALF)], True
            self._ended = not raw or self._damaged
            self._ready = text.encode("utf-8", "surrogatepass")
        if self._damaged and not self._ready:
            raise UnicodeError("bytes that stand for no character")
        count = min(len(buffer), len(self._ready))
        buffer[:count], self._ready = self._ready[:count], self._ready[count:]
        return count


def _half(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return _HALF, error.end


codecs.register_error(_HALVES, _half)
