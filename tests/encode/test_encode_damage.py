"""Model folders that are damaged, foreign or newer: one clear line, never a crash, never a wrong model."""

from __future__ import annotations

import gzip
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.numpy import load_file, save_file

from phrasemate.encode import Model, load_model
from phrasemate.encode.export.export import export_model
from phrasemate.encode.model_folder import CONFIG, EMBEDDINGS, ENCODER, HEADS, MANIFEST, TOKENIZER, write_manifest
from phrasemate.errors import InputError, ModelDamaged, ModelError, ModelUnsupported
from phrasemate.types import Phrase

FILES = (CONFIG, TOKENIZER, ENCODER, EMBEDDINGS, HEADS, MANIFEST)


@pytest.fixture(scope="session")
def whole(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every kind of file, a projection among them; not to be changed."""
    out = tmp_path_factory.mktemp("damage") / "whole"
    export_model(folders["xlmr"], out, project=["A red house stands near the old river."] * 4, dim=4)
    return out


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "model"))


def refusal(folder: Path, kind: type[ModelError] = ModelError) -> str:
    """The message of the refusal, which is one line that names the place and says what to do."""
    with pytest.raises(kind) as caught:
        load_model(folder, threads=1)
    message = str(caught.value)
    assert "\n" not in message
    assert str(folder) in message
    return message


def reseal(folder: Path, file: str, change: Callable[[dict], object]) -> None:
    """Change a JSON file and make the manifest fit it again, as another writer would have."""
    value = json.loads((folder / file).read_text())
    change(value)
    (folder / file).write_text(json.dumps(value, indent=1, sort_keys=True) + "\n")
    if file != MANIFEST:
        write_manifest(folder)


def test_the_whole_one(whole: Path) -> None:
    model = load_model(whole, threads=1)
    assert {path.name for path in whole.iterdir()} == set(FILES)
    assert (model.dim, model.pooling, model.path) == (4, "head", whole.resolve())
    assert len(bytes.fromhex(model.hash)) == 32


@pytest.mark.parametrize("file", FILES)
def test_truncated(folder: Path, file: str) -> None:
    path = folder / file
    content = path.read_bytes()
    drawn = random.Random(file)
    for length in (0, 1, len(content) - 1, *(drawn.randrange(len(content)) for _ in range(5))):
        path.write_bytes(content[:length])
        assert file in refusal(folder, ModelDamaged)


@pytest.mark.parametrize("file", FILES)
def test_one_bit_flipped(folder: Path, file: str) -> None:
    path = folder / file
    content = path.read_bytes()
    drawn = random.Random(file)
    every = range(len(content)) if file == MANIFEST else ()  # what guards the others is tried at each byte
    for at in (0, len(content) - 1, *(drawn.randrange(len(content)) for _ in range(20)), *every):
        flipped = bytearray(content)
        flipped[at] ^= 1 << drawn.randrange(8)
        path.write_bytes(flipped)
        refusal(folder)


@pytest.mark.parametrize("file", FILES)
def test_appended_missing_or_a_folder(folder: Path, file: str) -> None:
    path = folder / file
    content = path.read_bytes()
    path.write_bytes(content + b"x")
    assert file in refusal(folder, ModelDamaged)
    path.unlink()
    assert file in refusal(folder, ModelDamaged)
    path.mkdir()
    assert file in refusal(folder, ModelDamaged)


def test_a_projection_that_was_not_sealed(folder: Path) -> None:
    """As when a run was killed between writing the projection and the manifest."""
    projection = (folder / HEADS).read_bytes()
    (folder / HEADS).unlink()
    write_manifest(folder)
    assert load_model(folder, threads=1).pooling == "ends"
    (folder / HEADS).write_bytes(projection)
    assert f"{HEADS}: is not in {MANIFEST}" in refusal(folder, ModelDamaged)


def test_newer(folder: Path) -> None:
    reseal(folder, MANIFEST, lambda value: value.update(version=4))
    message = refusal(folder, ModelUnsupported)
    assert "version 4, this phrasemate reads up to 3; upgrade phrasemate, or export again" in message


@pytest.mark.parametrize("value", [{}, {"format": "other"}, {"format": None, "version": 1}, {"files": []}])
def test_foreign(folder: Path, value: dict) -> None:
    (folder / MANIFEST).write_text(json.dumps(value))
    assert "expected 'phrasemate-model'" in refusal(folder, ModelUnsupported)


@pytest.mark.parametrize(
    "change",
    [
        lambda value: value.update(version=0),
        lambda value: value.update(version="1"),
        lambda value: value.update(version=None),
        lambda value: value.pop("version"),
        lambda value: value.update(files=None),
        lambda value: value["files"].pop(ENCODER),
        lambda value: value["files"].update({ENCODER: None}),
        lambda value: value["files"].update({ENCODER: {}}),
        lambda value: value["files"].update({"..": {"bytes": 1, "sha256": "0"}}),
        lambda value: value["files"].update({"a\0b": {"bytes": 1, "sha256": "0"}}),
        lambda value: value["files"].update({"sub/../../x": {"bytes": 1, "sha256": "0"}}),
    ],
)
def test_a_senseless_manifest(folder: Path, change: Callable[[dict], object]) -> None:
    reseal(folder, MANIFEST, change)
    refusal(folder, ModelDamaged)


def test_a_model_has_one_hash(folder: Path) -> None:
    """The same content in another form would have another hash, and its indexes would refuse it."""
    value = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps(value))
    assert f"{MANIFEST}: altered" in refusal(folder, ModelDamaged)


@pytest.mark.parametrize("content", ["", "[]", "null", "{", '"x"', "\ufeff{}"])
def test_a_manifest_that_is_not_object(folder: Path, content: str) -> None:
    (folder / MANIFEST).write_text(content)
    assert MANIFEST in refusal(folder, ModelDamaged)


def test_a_configuration_of_another_model(folder: Path) -> None:
    for change in ({"format": "x"}, {"version": 7}):
        reseal(folder, CONFIG, lambda value, change=change: value.update(change))
        assert "does not belong to its manifest" in refusal(folder, ModelDamaged)


@pytest.mark.parametrize("file", [TOKENIZER, ENCODER, EMBEDDINGS, HEADS])
@pytest.mark.parametrize("content", [b"", b"not what it should be", bytes(1000)])
def test_sealed_nonsense(folder: Path, file: str, content: bytes) -> None:
    """A manifest that fits does not make a file readable."""
    (folder / file).write_bytes(content)
    write_manifest(folder)
    assert file in refusal(folder, ModelDamaged)


def test_a_hugging_face_folder(folders: dict[str, Path], tmp_path: Path) -> None:
    message = refusal(folders["bert"], ModelUnsupported)
    assert f"convert it with: phrasemate model export {folders['bert']} -o OUT" in message
    for name in ("pytorch_model.bin", "model-00001-of-00002.safetensors"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / name).touch()
        assert "phrasemate model export" in refusal(folder, ModelUnsupported)


def test_nothing_there(tmp_path: Path) -> None:
    assert "no such folder; expected a model folder made by 'phrasemate model export'" in refusal(tmp_path / "none")
    assert f"no {MANIFEST}" in refusal(tmp_path, ModelDamaged)
    (tmp_path / "file").touch()
    assert "no such folder" in refusal(tmp_path / "file")


def test_a_moved_folder_keeps_its_hash(whole: Path, folder: Path) -> None:
    one, other = load_model(whole, threads=1), load_model(folder, threads=1)
    assert isinstance(one, Model)
    assert one.hash == other.hash
    assert one.path != other.path
    with pytest.raises(InputError, match="threads"):
        load_model(folder, threads=0)


@pytest.mark.parametrize(
    "change",
    [
        lambda value: value.pop("name"),
        lambda value: value.pop("layers"),
        lambda value: value.update(layers=[]),
        lambda value: value.update(layers=["2"]),
        lambda value: value.update(layers=[99]),
        lambda value: value.update(width=None),
        lambda value: value.update(max_tokens=-5),
        lambda value: value.update(max_tokens=True),
        lambda value: value.update(max_tokens=10**15),
        lambda value: value.update(pooling="best"),
        lambda value: value.update(common_words=None),
        lambda value: value.update(segmenter=[]),
    ],
)
def test_a_sealed_but_senseless_configuration(folder: Path, change: Callable[[dict], object]) -> None:
    reseal(folder, CONFIG, change)
    refusal(folder, ModelDamaged)


@pytest.mark.parametrize("name", ["codes", "scales", "additive"])
def test_a_sealed_table_that_does_not_fit(folder: Path, name: str) -> None:
    arrays = load_file(folder / EMBEDDINGS)
    save_file({**arrays, name: arrays[name][:1].copy()}, folder / EMBEDDINGS)
    write_manifest(folder)
    assert EMBEDDINGS in refusal(folder, ModelDamaged)


def test_a_tokenizer_with_more_tokens_than_the_table(folder: Path) -> None:
    content = json.loads(gzip.decompress((folder / TOKENIZER).read_bytes()))
    content["model"]["vocab"] += [*([f"extra{n}", -20.0] for n in range(300)), ["▁zeppelin", 0.0]]
    (folder / TOKENIZER).write_bytes(gzip.compress(json.dumps(content).encode()))
    write_manifest(folder)
    model = load_model(folder, threads=1)
    assert model.encode([Phrase("a zeppelin", 0, 1)][:0]).shape == (0, 4)
    with pytest.raises(ModelDamaged, match="tokens, but the tokenizer has number"):
        model.encode([Phrase("a zeppelin", 2, 10)])


def test_a_tokenizer_that_unpacks_without_end(folder: Path) -> None:
    (folder / TOKENIZER).write_bytes(gzip.compress(bytes(150_000_001), 1))
    write_manifest(folder)
    assert "more than 150,000,000 bytes" in refusal(folder, ModelDamaged)
