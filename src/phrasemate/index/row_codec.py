"""Binary encoding of the rows of a store: vectors as 8-bit codes, packed spans, text, metadata and checksums.

A unit vector v is stored as the int8 code ``q = round(v * 127 / max|v|)`` and decoded as ``q / |q|``. No scale is
stored, since all vectors have length 1.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import IndexDamaged
from phrasemate.utils.arrays import Floats, Int8s

NESTING = 100  # greatest nesting depth of metadata, so that every JSON parser can read it
_OFFSET = struct.Struct("<i")
_SPAN_BYTES = 10  # bytes of a span: int32 start, int32 end, float16 score


def quantise(vectors: Floats) -> Int8s:
    """Convert vectors (n, dim) float32 to codes (n, dim) int8, scaling the largest component of each row to 127.

    No row may be zero.
    """
    peaks = np.abs(vectors).max(axis=1, keepdims=True)  # (n, 1)
    return np.asarray(np.rint(vectors * (np.float32(127) / peaks)), np.int8)  # (n, dim)


def inverse_norms(wide: Floats) -> Floats:
    """Return the inverse length of each row of (n, dim) float32, as (n,) float32."""
    return np.asarray(1 / np.sqrt(np.einsum("nd,nd->n", wide, wide)), np.float32)


def dequantise(codes: Int8s) -> Floats:
    """Decode codes (n, dim) int8 to vectors (n, dim) float32 of unit length."""
    wide = codes.astype(np.float32)  # scaled in place: a second array of this size may not fit into memory
    wide *= inverse_norms(wide)[:, None]
    return wide


def spread(rows: NDArray[Any], count: int) -> NDArray[Any]:
    """Choose up to ``count`` evenly spaced rows of an array (n, ...), in their order."""
    return rows[np.linspace(0, len(rows) - 1, min(len(rows), count)).astype(int)] if len(rows) else rows


def pack_spans(starts: NDArray[np.int32], ends: NDArray[np.int32], scores: Floats) -> bytes:
    """Pack n spans: all starts as int32, all ends as int32, all scores as float16, little-endian."""
    return starts.astype("<i4").tobytes() + ends.astype("<i4").tobytes() + scores.astype("<f2").tobytes()


def unpack_spans(blob: bytes, count: int) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float16]]:
    """Unpack the starts, ends and scores of ``count`` spans, (count,) each: the inverse of `pack_spans`.

    Raises IndexDamaged if the number of bytes does not match.
    """
    _check_spans(blob, count)
    offsets = np.frombuffer(blob, "<i4", 2 * count)
    return offsets[:count], offsets[count:], np.frombuffer(blob, "<f2", count, 8 * count)


def unpack_span(blob: bytes, count: int, at: int) -> tuple[int, int]:
    """Return start and end of span number ``at`` of ``count`` spans. Raises IndexDamaged as `unpack_spans` does."""
    _check_spans(blob, count)
    (start,) = _OFFSET.unpack_from(blob, _OFFSET.size * at)
    (end,) = _OFFSET.unpack_from(blob, _OFFSET.size * (count + at))
    return start, end


def _check_spans(blob: bytes, count: int) -> None:
    """Raise IndexDamaged unless the bytes are as many as ``count`` spans take."""
    if len(blob) != count * _SPAN_BYTES:
        raise IndexDamaged(f"spans take {len(blob)} bytes, expected {count * _SPAN_BYTES} for {count} phrases")


def checksum(kind: bytes, numbers: tuple[int, ...], *blobs: bytes) -> int:
    """Compute the CRC-32 of a row: its kind, its numbers, and the lengths and contents of its blobs.

    Rows of different tables have different kinds, so a row of one table is not valid in another.
    """
    header = struct.pack(f"<{len(numbers) + len(blobs)}q", *numbers, *map(len, blobs))
    return crc32(b"".join([header, *blobs]), crc32(kind))


def same(crc: Any, kind: bytes, numbers: tuple[Any, ...], *blobs: Any) -> bool:
    """Return True if a row matches its checksum; False also for values of a wrong type."""
    try:
        return bool(crc == checksum(kind, numbers, *blobs))
    except (struct.error, TypeError):
        return False


def encode_text(text: str) -> bytes:
    """Encode text as UTF-8, including lone surrogates, which stand for bytes of file names that are not UTF-8."""
    return text.encode("utf-8", "surrogatepass")


def decode_text(blob: bytes) -> str:
    """Decode the bytes of `encode_text`."""
    return blob.decode("utf-8", "surrogatepass")


def encode_metadata(metadata: Mapping[str, Any]) -> bytes:
    """Encode metadata as compact JSON, or as no bytes if empty. Values that JSON lacks are converted by ``str``."""
    return json.dumps(dict(metadata), separators=(",", ":"), default=str).encode() if metadata else b""


def decode_metadata(blob: bytes) -> dict[str, Any]:
    """Decode the bytes of `encode_metadata`; infinity and NaN are returned as their names, such as "NaN".

    Raises ValueError or RecursionError for other bytes.
    """
    values = json.loads(blob, parse_constant=str) if blob else {}
    if not isinstance(values, dict):
        raise ValueError("not a JSON object")
    return values
