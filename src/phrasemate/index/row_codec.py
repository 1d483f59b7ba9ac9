"""The bytes of a row: vectors in 8 bits, spans packed, and a checksum over everything.

A unit vector is kept as int8 along its own direction: ``q = round(v * 127 / max|v|)``. Its length carries no
information, so it comes back as ``q / |q|`` and no scale is stored.
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
from phrasemate.utils.arrays import Floats

Int8s = NDArray[np.int8]
NESTING = 100  # brackets of metadata within one another: what is kept must be read again, wherever that is
_OFFSET = struct.Struct("<i")
_SPAN_BYTES = 10  # int32 start, int32 end, float16 score


def quantise(vectors: Floats) -> Int8s:
    """(n, dim) float32 without zero rows -> (n, dim) int8, each row scaled so that its largest part is 127."""
    peaks = np.abs(vectors).max(axis=1, keepdims=True)  # (n, 1)
    return np.asarray(np.rint(vectors * (np.float32(127) / peaks)), np.int8)  # (n, dim)


def inverse_norms(wide: Floats) -> Floats:
    """(n, dim) float32 -> (n,) float32: what makes each row a unit vector."""
    return np.asarray(1 / np.sqrt(np.einsum("nd,nd->n", wide, wide)), np.float32)


def dequantise(codes: Int8s) -> Floats:
    """(n, dim) int8 -> (n, dim) float32, unit length."""
    wide = codes.astype(np.float32)  # there may be much of it: no other array of its size is made
    wide *= inverse_norms(wide)[:, None]
    return wide


def spread(rows: NDArray[Any], count: int) -> NDArray[Any]:
    """Choose at most ``count`` of (n, ...) rows, from all over them, in their order."""
    return rows[np.linspace(0, len(rows) - 1, min(len(rows), count)).astype(int)] if len(rows) else rows


def pack_spans(starts: NDArray[np.int32], ends: NDArray[np.int32], scores: Floats) -> bytes:
    """(n,) starts and ends as int32, then (n,) scores as float16, all little-endian."""
    return starts.astype("<i4").tobytes() + ends.astype("<i4").tobytes() + scores.astype("<f2").tobytes()


def unpack_spans(blob: bytes, count: int) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float16]]:
    """The inverse of pack_spans. Raises IndexDamaged if the bytes are not those of ``count`` spans."""
    _check_spans(blob, count)
    offsets = np.frombuffer(blob, "<i4", 2 * count)
    return offsets[:count], offsets[count:], np.frombuffer(blob, "<f2", count, 8 * count)


def unpack_span(blob: bytes, count: int, at: int) -> tuple[int, int]:
    """The start and the end of one of ``count`` spans. Raises IndexDamaged as `unpack_spans` does."""
    _check_spans(blob, count)
    (start,), (end,) = (_OFFSET.unpack_from(blob, _OFFSET.size * place) for place in (at, count + at))
    return start, end


def _check_spans(blob: bytes, count: int) -> None:
    if len(blob) != count * _SPAN_BYTES:
        raise IndexDamaged(f"spans take {len(blob)} bytes, expected {count * _SPAN_BYTES} for {count} phrases")


def checksum(kind: bytes, numbers: tuple[int, ...], *blobs: bytes) -> int:
    """CRC-32 over a row: its kind, its numbers, the lengths and the bytes of its blobs.

    The kind keeps a row of one table from passing as a row of another.
    """
    value = crc32(struct.pack(f"<{len(numbers) + len(blobs)}q", *numbers, *map(len, blobs)), crc32(kind))
    for blob in blobs:
        value = crc32(blob, value)
    return value


def same(crc: Any, kind: bytes, numbers: tuple[Any, ...], *blobs: Any) -> bool:
    """Whether a row that was read is the row that was written; values of a wrong type are damage too."""
    try:
        return bool(crc == checksum(kind, numbers, *blobs))
    except (struct.error, TypeError):
        return False


def encode_text(text: str) -> bytes:
    """UTF-8; lone surrogates (file names that are not UTF-8) survive the round trip."""
    return text.encode("utf-8", "surrogatepass")


def decode_text(blob: bytes) -> str:
    return blob.decode("utf-8", "surrogatepass")


def encode_metadata(metadata: Mapping[str, Any]) -> bytes:
    """Compact JSON; nothing for no metadata. Values that JSON lacks become their ``str``."""
    return json.dumps(dict(metadata), separators=(",", ":"), default=str).encode() if metadata else b""


def decode_metadata(blob: bytes) -> dict[str, Any]:
    """Decode metadata. Infinity and NaN come back as their names.

    Raises ValueError, RecursionError for what `encode_metadata` does not write.
    """
    values = json.loads(blob, parse_constant=str) if blob else {}
    if not isinstance(values, dict):
        raise ValueError("no JSON object")
    return values
