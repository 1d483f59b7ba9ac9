"""Kept states with a header of others and a checksum that holds: computed anew, and nothing is made of the header."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import pytest

pytest.importorskip("torch")

from phrasemate.methods.kept import _header, _read

FORM = "{'descr': '<f2', 'fortran_order': False, 'shape': %s}"


@pytest.mark.parametrize("header", ["-" * 9_000 + "1", "(" * 100, "{[]: 1}", FORM % f"({10**30}, 2)", FORM % "(2, 3)"])
def test_a_header_of_others(tmp_path: Path, header: str) -> None:
    raw = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(12)
    (tmp_path / "x.npy").write_bytes(raw + crc32(raw).to_bytes(4, "little"))
    assert _read(tmp_path / "x.npy", (3, 2)) is None
    raw = _header((3, 2)) + bytes(12)
    (tmp_path / "x.npy").write_bytes(raw + crc32(raw).to_bytes(4, "little"))
    assert _read(tmp_path / "x.npy", (3, 2)).tolist() == [[0, 0]] * 3
