"""What OpenVINO made of a graph is kept for the next process, and is never trusted further than its checksum."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from phrasemate.encode import Model, load_model, runtime

pytestmark = pytest.mark.slow

TEXTS = ["The old bank on the river.", "a red house"]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "phrasemate" / "graphs"


@pytest.fixture
def folder(models: dict[str, Model]) -> Path:
    path = models["bert"].path
    assert path is not None
    return path


def vectors(folder: Path) -> Any:
    return load_model(folder, threads=1).encode_sentences(TEXTS)


def refuse(*_: Any) -> None:
    raise AssertionError("compiled again")


def test_a_second_process_reads_it(cache: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = vectors(folder)
    assert len(list(cache.iterdir())) == 1
    monkeypatch.setattr(runtime, "_keep_texts_apart", refuse)  # a step of each compilation
    np.testing.assert_array_equal(vectors(folder), first)
    np.testing.assert_array_equal(load_model(folder, threads=2).encode_sentences(TEXTS), first)


def altered(content: bytes) -> bytes:
    return content[:-9] + bytes([content[-9] ^ 1]) + content[-8:]


@pytest.mark.parametrize("damage", [altered, lambda content: content[:1000], lambda content: b""])
def test_a_damaged_one_is_written_again(cache: Path, folder: Path, damage: Callable[[bytes], bytes]) -> None:
    first = vectors(folder)
    (file,) = cache.iterdir()
    file.write_bytes(damage(file.read_bytes()))
    np.testing.assert_array_equal(vectors(folder), first)
    content = file.read_bytes()
    assert sha256(content[32:]).digest() == content[:32]


def test_one_that_openvino_refuses(cache: Path, folder: Path) -> None:
    first = vectors(folder)
    (file,) = cache.iterdir()
    content = b"\0nothing that it wrote"
    file.write_bytes(sha256(content).digest() + content)
    np.testing.assert_array_equal(vectors(folder), first)
    assert len(file.read_bytes()) > 1000


@pytest.mark.parametrize(("most", "counts"), [(1, (1, 1, 1)), (2, (1, 2, 2))])
def test_each_model_has_its_own(
    cache: Path, models: dict[str, Model], monkeypatch: pytest.MonkeyPatch, most: int, counts: tuple[int, ...]
) -> None:
    monkeypatch.setattr(runtime, "_GRAPHS", most)
    for count, name in zip(counts, ("bert", "xlmr", "bert"), strict=True):
        path = models[name].path
        assert path is not None
        np.testing.assert_allclose(vectors(path), models[name].encode_sentences(TEXTS), atol=1e-6)
        assert len(list(cache.iterdir())) == count


def test_a_folder_that_cannot_be_written(cache: Path, folder: Path) -> None:
    cache.parent.mkdir(parents=True)
    cache.write_text("a file")
    assert vectors(folder).shape[0] == len(TEXTS)


def test_a_user_without_a_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    assert vectors(folder).shape[0] == len(TEXTS)
