"""What bytes probably are when they are not the text that was expected: reason and remedy for the error."""

from __future__ import annotations

import codecs

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
_MARKS = {  # the longer ones first: UTF-32 begins like UTF-16
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_CONTROLS = bytes([*range(0, 9), *range(14, 27), *range(28, 32)])  # white space and escape may stand in text
_MAKE_TEXT = "convert it to plain text or use --on-error skip"


def binary_kind(head: bytes) -> tuple[str, str] | None:
    """Reason and remedy if a file that begins like this is no text in an encoding that keeps ASCII, else None."""
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
        return (
            f"binary data ({controls:,} control characters in the first {len(head):,} bytes); expected text",
            _MAKE_TEXT,
        )
    return None


def other_encoding(raw: bytes, error: UnicodeDecodeError, offset: int) -> tuple[str, str]:
    """Reason and remedy for a line that does not decode; ``offset`` is that of the line in the (unpacked) file."""
    at = offset + error.start
    if error.encoding != "utf-8":
        what = f"byte 0x{raw[error.start]:02X} at offset {at:,} is not {error.encoding}"
        return what, "give the right --encoding or convert the file with iconv"
    if error.reason == "unexpected end of data":
        return f"the text ends within a UTF-8 character at offset {at:,}", "the file may be cut short: copy it again"
    what = f"byte 0x{raw[error.start]:02X} at offset {at:,} is not UTF-8"
    high = sum(byte > 0x7F for byte in raw)
    if high * 3 > len(raw.strip()) and high > 3:
        return f"{what} (a Cyrillic, Greek or East Asian encoding?)", "give its --encoding or convert it with iconv"
    windows = any(0x80 <= byte <= 0x9F for byte in raw)
    return f"{what} ({'Windows-1252' if windows else 'Latin-1'}?)", _say("cp1252" if windows else "latin-1")


def _utf16_without_mark(head: bytes) -> str:
    """Name "utf-16-le", "utf-16-be" or nothing: European text has a zero in every other byte."""
    pairs = len(head) // 2
    first, second = head[::2].count(0), head[1::2].count(0)
    if pairs < 8 or max(first, second) * 2 < pairs or min(first, second) * 20 > pairs:
        return ""
    return "utf-16-be" if first > second else "utf-16-le"


def _say(encoding: str) -> str:
    return f"give --encoding {encoding} or convert it: iconv -f {encoding.upper()} -t UTF-8"
