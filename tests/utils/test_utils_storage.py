"""A folder of weights that is sealed: what hostile configurations come to."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file

from phrasemate.errors import ModelDamaged, ModelError
from phrasemate.utils.storage import CONFIG, NewFile, ResumableFile, Seal, save_arrays, write_text

SEAL = Seal("phrasemate-spam", 1, "phrasemate train spam", "copy it again")


def test_what_is_written_is_read(tmp_path: Path) -> None:
    SEAL.write(tmp_path, b"weights", {"name": "Öl"})
    content, digest = SEAL.read(tmp_path)
    assert (content["name"], len(digest)) == ("Öl", 64)
    assert SEAL.weights(tmp_path, content) == b"weights"


@pytest.mark.parametrize(("opening", "closing"), [('{"a":', "}"), ("[", "]")])
def test_a_deep_configuration_is_refused_however_deep(tmp_path: Path, opening: str, closing: str) -> None:
    for depth in (10, *range(900, 1010, 7), 100_000):
        nested = f"{opening * depth}1{closing * depth}"
        (tmp_path / CONFIG).write_text(f'{{"format": "phrasemate-spam", "version": 1, "x": {nested}}}')
        with pytest.raises(ModelDamaged, match=r"altered|not readable as JSON"):
            SEAL.read(tmp_path)


def test_a_folder_without_a_configuration(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no config\.json; expected a folder that 'phrasemate train spam' made"):
        SEAL.read(tmp_path)


def test_arrays_are_written_as_the_library_does_and_no_other_file_is(tmp_path: Path) -> None:
    kinds = [
        "bool",
        "uint8",
        "int8",
        "int16",
        "uint16",
        "float16",
        "int32",
        "uint32",
        "float32",
        "float64",
        "int64",
        "uint64",
    ]
    arrays: dict[str, NDArray[Any]] = {f"{kind} ü": np.arange(6).reshape(3, 2).astype(kind) for kind in kinds}
    arrays |= {"turned": np.arange(6.0).reshape(3, 2).T, "empty": np.zeros((0, 3), np.int8), "scalar": np.array(1.5)}
    save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, tmp_path / "library", {"a": "ä"})
    (tmp_path / "folder").mkdir()
    path = tmp_path / "folder" / "ours"
    path.touch()
    (tmp_path / "folder").chmod(0o500)  # the file may be written to, and no other be made
    save_arrays(path, arrays, {"a": "ä"})
    assert path.read_bytes() == (tmp_path / "library").read_bytes()
    assert [file.name for file in path.parent.iterdir()] == ["ours"]


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0o077, 0o600)])
def test_weights_have_the_permissions_of_other_files(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        save_arrays(tmp_path / "a.safetensors", {"a": np.ones(3)})
    finally:
        os.umask(before)
    (file,) = tmp_path.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == mode


@pytest.mark.parametrize("way", ["write_text", "NewFile", "ResumableFile"])
def test_the_file_behind_a_link_is_replaced(tmp_path: Path, way: str) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "file").write_text("old")
    link = tmp_path / "link"
    link.symlink_to("disk/file")
    if way == "write_text":
        write_text(link, "new\n")
    elif way == "NewFile":
        with NewFile(link) as file:
            file.write("new\n")
    else:
        with ResumableFile(link, {}, force=True) as lines:
            lines.write(["new"])
            lines.finish()
    assert link.readlink() == Path("disk/file")
    assert (tmp_path / "disk" / "file").read_text() == "new\n"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["disk", "file", "link"]
