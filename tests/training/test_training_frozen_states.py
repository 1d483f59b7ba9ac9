"""Files of kept states: with a header of others and a checksum that holds, and on a disk that is full."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from zlib import crc32

import pytest

pytest.importorskip("torch")

from phrasemate.errors import InputError
from phrasemate.training.frozen_states import _header, _read, checked_file, checksum_holds

FORM = "{'descr': '<f2', 'fortran_order': False, 'shape': %s}"


@pytest.mark.parametrize("header", ["-" * 9_000 + "1", "(" * 100, "{[]: 1}", FORM % f"({10**30}, 2)", FORM % "(2, 3)"])
def test_a_header_of_others(tmp_path: Path, header: str) -> None:
    raw = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(12)
    (tmp_path / "x.npy").write_bytes(raw + crc32(raw).to_bytes(4, "little"))
    assert _read(tmp_path / "x.npy", (3, 2)) is None
    raw = _header((3, 2)) + bytes(12)
    (tmp_path / "x.npy").write_bytes(raw + crc32(raw).to_bytes(4, "little"))
    assert _read(tmp_path / "x.npy", (3, 2)).tolist() == [[0, 0]] * 3


@contextmanager
def full_disk() -> Iterator[None]:
    """No file becomes longer than 1,000 bytes, pytest's own files of output neither: enter it for the call alone."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("length", [1_001, 998])
def test_a_full_disk(tmp_path: Path, length: int) -> None:
    """The file is named, nothing of it fills the disk, and what was there stays."""
    path = tmp_path / "x.npy"
    path.write_bytes(b"before")
    message = r"x.npy: cannot be written \(File too large\); check free space"
    with pytest.raises(InputError, match=message), full_disk(), checked_file(path) as file:
        file.write(bytes(length))
    assert [item.name for item in tmp_path.iterdir()] == ["x.npy"]
    assert path.read_bytes() == b"before"


def test_who_stops_listening_is_no_fault_of_the_disk(tmp_path: Path) -> None:
    def closed() -> bytes:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError), checked_file(tmp_path / "x.npy") as file:
        file.write(closed())
    assert not any(tmp_path.iterdir())


def test_a_file_with_its_checksum(tmp_path: Path) -> None:
    with checked_file(tmp_path / "x.npy") as file:
        file.write(b"states")
    assert (tmp_path / "x.npy").read_bytes() == b"states" + crc32(b"states").to_bytes(4, "little")
    assert checksum_holds(tmp_path / "x.npy")
