"""Saved and loaded; every damaged byte shows."""

from __future__ import annotations

import json
import resource
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from phrasemate.errors import InputError, ModelDamaged, ModelError, ModelUnsupported
from phrasemate.vectors import MappedVectors, Projection, WordVectors
from phrasemate.vectors.word_vectors import write_folder

FILES = ("MANIFEST.json", "vectors.safetensors", "words.json")


def test_there_and_back(few: WordVectors, tmp_path: Path) -> None:
    projection = Projection(np.ones((5, 3), np.float32), np.arange(3, dtype=np.float32))
    digest = replace(few, projection=projection).save(tmp_path / "de")
    record = WordVectors.load(tmp_path / "de")
    assert (record.words, record.language, record.facts) == (few.words, "de", {"method": "by hand", "hash": digest})
    np.testing.assert_array_equal(record.matrix, few.matrix)
    np.testing.assert_array_equal(record.counts, few.counts)
    assert record.projection is not None
    np.testing.assert_array_equal(record.projection.kernel, np.ones((5, 3)))
    np.testing.assert_array_equal(record.projection.bias, [0, 1, 2])
    assert sorted(path.name for path in (tmp_path / "de").iterdir()) == list(FILES)


def test_without_counts_and_projection(few: WordVectors, tmp_path: Path) -> None:
    replace(few, counts=None).save(tmp_path / "de")
    record = WordVectors.load(tmp_path / "de")
    assert (record.counts, record.projection) == (None, None)


def test_a_full_disk_is_an_error_of_the_system(few: WordVectors, tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50, before[1]))
    try:
        with pytest.raises(OSError, match=r"vectors\.safetensors: cannot be written .*File too large"):
            few.save(tmp_path / "de")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not (tmp_path / "de").exists()


def test_what_is_there_is_not_lost(few: WordVectors, tmp_path: Path) -> None:
    few.save(tmp_path / "de")
    with pytest.raises(InputError, match="already exists"):
        few.save(tmp_path / "de")
    few.first(2).save(tmp_path / "de", force=True)
    assert len(WordVectors.load(tmp_path / "de")) == 2
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="holds no word vectors"):
        few.save(tmp_path / "texts", force=True)
    with pytest.raises(InputError, match="no such folder; make it first"):
        few.save(tmp_path / "none" / "de")


def test_a_write_that_was_killed(few: WordVectors, tmp_path: Path) -> None:
    few.first(2).save(tmp_path / "de")
    (tmp_path / "de.new").mkdir()
    (tmp_path / "de.new" / "words.json").write_text("[")
    assert len(WordVectors.load(tmp_path / "de")) == 2
    few.save(tmp_path / "de", force=True)
    assert len(WordVectors.load(tmp_path / "de")) == 4
    assert [path.name for path in tmp_path.iterdir()] == ["de"]


def test_a_write_that_was_killed_among_the_numbers(few: WordVectors, tmp_path: Path) -> None:
    (tmp_path / "de.new").mkdir()
    for name in (".tmpjSo7xS", "vectors.safetensors.4711.part"):  # of the library, and of ours
        (tmp_path / "de.new" / name).write_bytes(bytes(100))
    few.save(tmp_path / "de")
    assert [path.name for path in tmp_path.iterdir()] == ["de"]


def test_words_with_half_a_character_are_kept(few: WordVectors, tmp_path: Path) -> None:
    words = ("one", "\ud800", "a\udcff", "four")
    replace(few, words=words).save(tmp_path / "de")
    assert WordVectors.load(tmp_path / "de").words == words


@pytest.mark.parametrize("name", FILES)
def test_every_flipped_byte_and_every_cut_shows(few: WordVectors, tmp_path: Path, name: str) -> None:
    few.save(tmp_path / "de")
    path = tmp_path / "de" / name
    whole = path.read_bytes()
    for at in range(0, len(whole), max(1, len(whole) // 40)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(ModelError):
            WordVectors.load(tmp_path / "de")
        path.write_bytes(whole[:at])
        with pytest.raises(ModelError):
            WordVectors.load(tmp_path / "de")
    path.write_bytes(whole)
    assert len(WordVectors.load(tmp_path / "de")) == 4


@pytest.mark.parametrize("name", ["vectors.safetensors", "words.json"])
def test_a_missing_file(few: WordVectors, tmp_path: Path, name: str) -> None:
    few.save(tmp_path / "de")
    (tmp_path / "de" / name).unlink()
    with pytest.raises(ModelDamaged, match=rf"{name}: cannot be read \(No such file"):
        WordVectors.load(tmp_path / "de")


def test_sealed_but_senseless(few: WordVectors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WordVectors, "__post_init__", lambda self: None)
    replace(few, words=("one",)).save(tmp_path / "de")
    monkeypatch.undo()
    with pytest.raises(ModelDamaged, match="1 words and vectors of shape"):
        WordVectors.load(tmp_path / "de")


@pytest.mark.parametrize("others", [{"kernel": (5, 3)}, {"kernel": (5, 7), "bias": (3,)}, {"kernel": (3,), "bias": ()}])
def test_sealed_with_a_projection_that_is_none(tmp_path: Path, others: dict[str, tuple[int, ...]]) -> None:
    arrays = {name: np.ones(shape, np.float32) for name, shape in (others | {"matrix": (1, 3)}).items()}
    write_folder(tmp_path / "de", ["one"], arrays, {})
    with pytest.raises(ModelDamaged, match="is invalid"):
        WordVectors.load(tmp_path / "de")


@pytest.mark.parametrize(("kind", "size"), [("BF16", 2), ("F8_E4M3", 1)])
def test_sealed_with_numbers_that_numpy_lacks(
    tmp_path: Path, kind: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def save(path: Path, _: object) -> None:
        head = json.dumps({"matrix": {"dtype": kind, "shape": [1, 3], "data_offsets": [0, 3 * size]}}).encode()
        path.write_bytes(len(head).to_bytes(8, "little") + head + bytes(3 * size))

    monkeypatch.setattr("phrasemate.vectors.word_vectors.save_arrays", save)
    write_folder(tmp_path / "de", ["one"], {}, {})
    with pytest.raises(ModelDamaged, match="not readable"):
        WordVectors.load(tmp_path / "de")


def test_foreign_and_newer(few: WordVectors, tmp_path: Path) -> None:
    few.save(tmp_path / "de")
    path = tmp_path / "de" / "MANIFEST.json"
    content = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps(content | {"version": 2}))
    with pytest.raises(ModelUnsupported, match="version 2, this phrasemate reads up to 1; upgrade"):
        WordVectors.load(tmp_path / "de")
    path.write_text(json.dumps(content | {"format": "phrasemate-model"}))
    with pytest.raises(ModelUnsupported, match="format 'phrasemate-model', expected 'phrasemate-vectors'"):
        WordVectors.load(tmp_path / "de")
    path.write_text("[1]")
    with pytest.raises(ModelUnsupported, match="format"):
        WordVectors.load(tmp_path / "de")


def test_nothing_there(few: WordVectors, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no word vectors here; make some with: phrasemate vectors distil"):
        WordVectors.load(tmp_path / "none")
    for side in ("source", "target"):
        few.save(tmp_path / side)
    with pytest.raises(ModelError, match="in its folders source and target"):
        WordVectors.load(tmp_path)


def test_folders_with_files_of_others_stay(few: WordVectors, tmp_path: Path) -> None:
    few.save(tmp_path / "de")
    (tmp_path / "de" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"also holds 'notes\.txt', so it is not overwritten"):
        few.save(tmp_path / "de", force=True)
    model = tmp_path / "model"  # has a MANIFEST.json as well
    model.mkdir()
    for name in ("MANIFEST.json", "encoder.onnx"):
        (model / name).write_text("{}")
    with pytest.raises(InputError, match=r"also holds 'encoder\.onnx'"):
        few.save(model, force=True)
    both = tmp_path / "both"
    MappedVectors(few, few).save(both)
    (both / "source" / "more.txt").write_text("mine")
    with pytest.raises(InputError, match=r"also holds 'source/more\.txt'"):
        MappedVectors(few, few).save(both, force=True)
    results = {path.name for folder in (tmp_path / "de", model, both / "source") for path in folder.iterdir()}
    assert {"notes.txt", "encoder.onnx", "more.txt"} <= results


@pytest.mark.parametrize("suffix", [".new", ".old"])
def test_a_neighbour_of_that_name_stays(few: WordVectors, tmp_path: Path, suffix: str) -> None:
    other = tmp_path / f"de{suffix}"
    other.mkdir()
    (other / "diary.txt").write_text("mine")
    with pytest.raises(InputError, match=rf"de\{suffix}: exists and is not a folder of word vectors; move it"):
        few.save(tmp_path / "de")
    assert (other / "diary.txt").read_text() == "mine"


def test_what_was_there_is_whole_until_the_new_is_in_its_place(
    few: WordVectors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed at each renaming and each deletion: always one of both is whole."""
    left = [0]

    def dying(place: Any) -> Any:
        def dying_method(*arguments: Any, **more: Any) -> Any:
            left[0] -= 1
            if not left[0]:
                raise KeyboardInterrupt
            return place(*arguments, **more)

        return dying_method

    few.first(2).save(tmp_path / "de")
    for kill in range(1, 6):
        left[0] = kill
        with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
            patch.setattr(Path, "rename", dying(Path.rename))
            patch.setattr("shutil.rmtree", dying(shutil.rmtree))
            few.save(tmp_path / "de", force=True)
        whole = [len(WordVectors.load(path)) for path in tmp_path.iterdir() if (path / "MANIFEST.json").exists()]
        assert set(whole) <= {2, 4}
        assert whole
    few.save(tmp_path / "de", force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["de"]


def test_a_link_to_a_folder_stays_one(few: WordVectors, tmp_path: Path) -> None:
    few.first(2).save(tmp_path / "real")
    (tmp_path / "de").symlink_to("real")
    few.save(tmp_path / "de", force=True)
    assert (tmp_path / "de").is_symlink()
    assert len(WordVectors.load(tmp_path / "real")) == 4


def test_the_root_of_all_folders_is_none_of_ours(few: WordVectors) -> None:
    with pytest.raises(InputError, match="/: has no name"):
        few.save(Path("/"), force=True)


def test_a_deep_manifest_is_refused_however_deep(few: WordVectors, tmp_path: Path) -> None:
    few.save(tmp_path / "de")
    manifest = tmp_path / "de" / "MANIFEST.json"
    sound = manifest.read_text("utf-8")
    for depth in (*range(900, 1010, 7), 100_000):
        nested = '{"a":' * depth + "1" + "}" * depth
        manifest.write_text(sound.replace('"by hand"', nested), "utf-8")
        with pytest.raises(ModelDamaged, match=r"altered|not readable as JSON"):
            WordVectors.load(tmp_path / "de")
