"""The checksums of the files that a search reads: of the whole, and of parts that threads compare side by side."""

from __future__ import annotations

import json
import os
from hashlib import sha256
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from index_fakes import SMALL, FakeModel, sentences, vector_of

from phrasemate.errors import IndexDamaged
from phrasemate.index import Index, manifest
from phrasemate.index.faiss_search import Faiss
from phrasemate.index.manifest import Digest, VectorsManifest, differing
from phrasemate.types import Document


@pytest.fixture(autouse=True)
def _short_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "PART", 100)
    monkeypatch.setattr(manifest, "READ", 30)


def digested(content: bytes, piece: int) -> Digest:
    digest = Digest()
    for at in range(0, len(content), piece):
        digest.update(content[at : at + piece])
    return digest


@pytest.mark.parametrize("size", [0, 1, 99, 100, 101, 200, 777])
@pytest.mark.parametrize("piece", [1, 33, 100, 250, 1000])
def test_parts_are_those_of_the_content_cut_by_hand(size: int, piece: int) -> None:
    content = bytes(np.random.default_rng(size).integers(0, 256, size, np.uint8))
    digest = digested(content, piece)
    assert digest.whole == sha256(content).hexdigest()
    cut = [content[at : at + 100] for at in range(0, size, 100)] or [b""]
    assert digest.parts == [sha256(part).hexdigest() for part in cut]


@pytest.mark.parametrize("size", [0, 1, 100, 101, 777])
@pytest.mark.parametrize("in_parts", [True, False])
def test_a_file_is_itself_until_a_byte_is_another(tmp_path: Path, size: int, in_parts: bool) -> None:
    content = bytes(np.random.default_rng(1).integers(0, 256, size, np.uint8))
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_bytes(content)
    other.write_bytes(b"other")
    good, digest = digested(b"other", 5), digested(content, 64)
    parts = digest.parts if in_parts else []
    files = [(other, 5, good.whole, good.parts), (one, size, digest.whole, parts)]
    assert differing(files) is None
    for at in range(0, size, 50):
        one.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        assert differing(files, threads=2) == one
    one.write_bytes(content + b"x")
    assert differing(files) == one


def test_parts_that_are_too_few_or_too_many_are_not_proof(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(content := b"p" * 250)
    digest = digested(content, 250)
    for parts in (digest.parts[:-1], [*digest.parts, digest.parts[0]]):
        assert differing([(file, 250, digest.whole, parts)]) == file


def written(path: Path) -> Path:
    with Index.create(path, FakeModel(), settings=SMALL, threads=1) as index:
        index.add([Document.from_texts("d", sentences(200, 0, 3000))], lang="en")
        index.optimize()
    return path


def answer(path: Path) -> list[int]:
    with Index.open(path, FakeModel(), readonly=True, threads=2) as index:
        value: list[int] = index.search(np.eye(16, dtype=np.float32)[:1], 3).ids.tolist()[0]
        return value


def test_an_index_of_a_version_that_wrote_no_parts_is_opened_and_checked(tmp_path: Path) -> None:
    path = written(tmp_path / "idx")
    now, file = answer(path), path / "vectors.json"
    body = json.loads(file.read_text())
    assert len(body.pop("parts")) > 1
    assert len(body.pop("codes_parts")) > 1
    body["crc"] = crc32(json.dumps(body | {"crc": 0}, sort_keys=True).encode())
    file.write_text(json.dumps(body, sort_keys=True, indent=1) + "\n")
    assert VectorsManifest.read(file).parts == []
    assert answer(path) == now
    damage(path / body["codes"])
    with pytest.raises(IndexDamaged, match=r"\.codes: does not match its SHA-256"):
        loaded(path)


@pytest.mark.parametrize("suffix", [".faiss", ".codes"])
def test_a_byte_of_any_part_is_one_error(tmp_path: Path, suffix: str) -> None:
    path = written(tmp_path / "idx")
    loaded(path)
    damage(next(path.glob(f"*{suffix}")))
    with pytest.raises(IndexDamaged, match=rf"{suffix}: does not match its SHA-256"):
        loaded(path)


def loaded(path: Path) -> Faiss:
    return Faiss.load(path, VectorsManifest.read(path / "vectors.json"), 16, SMALL, 2)


def damage(file: Path) -> None:
    """The last byte but one."""
    content = bytearray(file.read_bytes())
    content[-2] ^= 16
    file.write_bytes(content)


def settled(folder: Path) -> list[str]:
    """Open an index and search, and name the files that were read whole, as if all had been written long ago."""
    names: list[str] = []
    hashed = manifest._hash_range

    def hash_it(path: Path, start: int, size: int) -> str:
        names.append(path.name)
        return hashed(path, start, size)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest, "_hash_range", hash_it)
        patch.setattr(manifest, "_SETTLED", 0)
        with Index.open(folder, FakeModel(), readonly=True, settings=SMALL, threads=1) as index:
            index.search(vector_of("word2", 16)[None], 1)
            assert index.has_wordings
    return sorted(set(names))


def test_a_file_is_read_whole_once(tmp_path: Path) -> None:
    folder = written(tmp_path / "idx")
    files = sorted([file.name for file in folder.iterdir() if file.suffix in {".faiss", ".codes", ".safetensors"}])
    assert len(files) == 3
    assert settled(folder) == files
    assert settled(folder) == []
    codes = next(folder.glob("*.codes"))
    os.utime(codes, (1, 1))
    assert settled(folder) == [codes.name]
    assert settled(folder) == []
    (folder / "copy").write_bytes(codes.read_bytes())
    (folder / "copy").replace(codes)
    os.utime(codes, (1, 1))
    assert settled(folder) == [codes.name]  # another file, of the same size and date


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    folder = written(tmp_path / "idx")
    settled(folder)
    codes = next(folder.glob("*.codes"))
    before = codes.stat()
    content = bytearray(codes.read_bytes())
    content[50] ^= 1
    codes.write_bytes(content)
    os.utime(codes, ns=(before.st_atime_ns, before.st_mtime_ns))
    description = VectorsManifest.read(folder / "vectors.json")
    with pytest.raises(IndexDamaged, match="SHA-256"):
        Faiss.load(folder, description, 16, SMALL, 1)


def test_verify_reads_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = written(tmp_path / "idx")
    for pattern in ("*.codes", "*.safetensors"):
        file = next(folder.glob(pattern))
        content = file.read_bytes()
        file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        monkeypatch.setattr(manifest.CheckedFiles, "has", lambda *_: True)  # as if the disk had lost it by itself
        with Index.open(folder, FakeModel(), readonly=True, settings=SMALL, threads=1) as index:
            assert not index.verify().ok
        file.write_bytes(content)


def test_a_file_of_this_moment_is_not_remembered(tmp_path: Path) -> None:
    folder = written(tmp_path / "idx")
    with Index.open(folder, FakeModel(), readonly=True, settings=SMALL, threads=1) as index:
        index.search(vector_of("word2", 16)[None], 1)
    assert not (folder / "checked.json").exists()


@pytest.mark.parametrize("content", ["", "[]", '{"files": 3}'])
def test_a_damaged_list_of_checked_files(tmp_path: Path, content: str) -> None:
    folder = written(tmp_path / "idx")
    files = settled(folder)
    (folder / "checked.json").write_text(content)
    assert settled(folder) == files
    assert settled(folder) == []
