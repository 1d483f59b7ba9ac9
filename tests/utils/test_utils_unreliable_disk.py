"""A power cut at any moment: what was not flushed is gone, what was reported as done is there, nothing is mixed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from unreliable_disk import UnreliableDisk

from phrasemate.errors import InputError, ModelError
from phrasemate.mine.work_folder import Blocks, WorkFolder, checked, seal
from phrasemate.utils import storage
from phrasemate.utils.storage import (
    NewFile,
    ResumableFile,
    ResumableSum,
    Seal,
    durable_folder,
    swap_folder,
    write_text,
)

SEAL = Seal("phrasemate-spam", 1, "phrasemate train spam", "copy it again")
A, B = {"text": "a"}, {"text": "b"}
Disk = Callable[[Path], UnreliableDisk]


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[UnreliableDisk, Path, Path]:
    """The disk, its folder, and where what a cut leaves is written."""
    folder = tmp_path / "disk"
    folder.mkdir()
    return UnreliableDisk(folder, monkeypatch), folder, tmp_path / "cut"


def versions(count: int = 3) -> list[str]:
    return [f"version {number} " + "x" * 40 * number for number in range(1, count + 1)]


def test_the_disk_itself_loses_what_was_not_flushed(disk: tuple[UnreliableDisk, Path, Path]) -> None:
    recorder, folder, cut = disk
    (folder / "a").write_text("old")
    (folder / "a").rename(folder / "b")
    recorder.promise(1)
    left = {
        tuple(sorted((path.name, path.read_bytes()) for path in at.iterdir())) for at, _ in recorder.power_cuts(cut)
    }
    assert left == {(), *(((name, data),) for name in "ab" for data in (b"", b"o", b"old", b"\0ld", b"\0\0\0"))}


@pytest.mark.parametrize("way", ["write_text", "NewFile"])
def test_an_atomic_file_is_the_old_one_or_the_new_one(disk: tuple[UnreliableDisk, Path, Path], way: str) -> None:
    recorder, folder, cut = disk
    for number, text in enumerate(versions(), 1):
        if way == "write_text":
            write_text(folder / "a", text)
        else:
            with NewFile(folder / "a") as file:
                file.write(text)
        recorder.promise(number)
    states = 0
    for place, promised in recorder.power_cuts(cut):
        result = (place / "a").read_text() if (place / "a").exists() else None
        assert result in [None, *versions()][promised:][:2], (promised, result)
        states += 1
    assert states > 15


@pytest.mark.parametrize("exchange", [True, False])
def test_a_swapped_folder_is_whole(
    disk: tuple[UnreliableDisk, Path, Path], monkeypatch: pytest.MonkeyPatch, exchange: bool
) -> None:
    recorder, folder, cut = disk
    if not exchange:
        monkeypatch.setattr(storage, "_exchange", lambda one, other: False)
    for number, text in enumerate(versions(), 1):
        finished = folder / "part"
        finished.mkdir()
        for name in ("one", "two"):
            (finished / name).write_text(text)
        swap_folder(finished, folder / "set", folder / "set.old")
        recorder.promise(number)
    for place, promised in recorder.power_cuts(cut):
        valid = place / "set" if (place / "set").exists() else place / "set.old"
        result = [(valid / name).read_text() for name in ("one", "two")] if valid.exists() else [None, None]
        assert result in [[text, text] for text in [None, *versions()][promised:][:2]], (promised, result)


def test_a_folder_is_there_whenever_another_takes_its_place(disk: tuple[UnreliableDisk, Path, Path]) -> None:
    recorder, folder, cut = disk
    if not exchanges(folder):
        pytest.skip("two folders exchange their names on Linux only")
    for number, text in enumerate(versions(), 1):
        finished = folder / "set.part"
        durable_folder(finished)
        (finished / "one").write_text(text)
        swap_folder(finished, folder / "set", folder / "set.old")
        recorder.promise(number)
    places = [(place / "set").exists() for place, promised in recorder.power_cuts(cut) if promised]
    assert places
    assert all(places)


def exchanges(folder: Path) -> bool:
    """Whether the system exchanges two names in one step."""
    for name in ("one", "other"):
        (folder / name).mkdir()
    (folder / "one" / "first").touch()
    success = storage._exchange(folder / "one", folder / "other")
    assert (folder / ("other" if success else "one") / "first").exists()
    for name in ("one", "other"):
        shutil.rmtree(folder / name)
    return success


def test_a_folder_and_those_above_it_stay(disk: tuple[UnreliableDisk, Path, Path]) -> None:
    recorder, folder, cut = disk
    durable_folder(folder / "a" / "b" / "c")
    recorder.promise(1)
    durable_folder(folder / "a" / "b" / "c")
    for place, promised in recorder.power_cuts(cut):
        assert not promised or (place / "a" / "b" / "c").is_dir()


def test_a_sealed_folder_is_one_version_or_damaged_and_what_was_written_stays(
    disk: tuple[UnreliableDisk, Path, Path],
) -> None:
    recorder, folder, cut = disk
    for number, text in enumerate(versions(), 1):
        SEAL.write(folder, text.encode(), {"name": text})
        recorder.promise(number)
    damaged = 0
    for place, promised in recorder.power_cuts(cut):
        try:
            content, _ = SEAL.read(place)
            weights = SEAL.weights(place, content).decode()
        except ModelError:
            damaged += 1  # between the two files of the next version
            assert promised < len(versions())
        else:
            assert weights == content["name"]
            assert weights in versions()[max(0, promised - 1) :][:2]
    assert damaged


def lines(kind: str, count: int = 6) -> list[str]:
    return [f"{kind}{number} " + kind * 15 for number in range(count)]


def reopened(place: Path, settings: dict[str, str]) -> list[str] | None:
    """The lines that a run with these settings continues from; None if it is refused."""
    try:
        with ResumableFile(place / "out", settings) as file:
            return list(file.written())
    except InputError:
        return None


@pytest.mark.parametrize("first", [(), A])
def test_a_resumed_file_holds_no_line_of_other_settings(
    disk: tuple[UnreliableDisk, Path, Path], first: dict[str, str]
) -> None:
    recorder, folder, cut = disk
    if first:
        with ResumableFile(folder / "out", A) as file:
            file.write(lines("a"))
    with ResumableFile(folder / "out", B, force=True) as file:
        file.write(lines("b", 3))
    with ResumableFile(folder / "out", B) as file:
        assert file.done == 3
        file.write(lines("b")[3:])
        file.finish()
    recorder.promise(1)
    for place, promised in recorder.power_cuts(cut):
        if promised:
            assert (place / "out").read_text().splitlines() == lines("b")
        if (place / "out").exists():
            continue
        for settings, kind in ((A, "a"), (B, "b")):
            copy = place.with_name("copy")
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(place, copy)
            entries = reopened(copy, settings)
            assert entries is None or entries == lines(kind)[: len(entries)], (settings, entries)


def test_a_resumed_sum_is_that_of_the_sentences_it_names(disk: tuple[UnreliableDisk, Path, Path]) -> None:
    recorder, folder, cut = disk
    for number in (1, 2, 3):
        sums = np.zeros((3, 2), np.float32)
        with ResumableSum(folder / "sums", A, sums) as state:
            state.add(number, np.arange(3), np.ones((3, 2), np.float32))
        recorder.promise(number)
    for place, promised in recorder.power_cuts(cut):
        sums = np.zeros((3, 2), np.float32)
        result = ResumableSum(place / "sums", A, sums).done
        assert promised <= result <= promised + 1
        np.testing.assert_array_equal(sums, np.full((3, 2), result))


def test_a_resumed_work_folder_holds_right_blocks(disk: tuple[UnreliableDisk, Path, Path]) -> None:
    recorder, folder, cut = disk
    keys = ["x", "y", "z"]
    with WorkFolder(folder / "work", {"margin": 1}) as work:
        blocks = Blocks(work.path, "source", (6, 2), np.float32, 2, keys)
        for number in range(3):
            blocks.write(number, np.full((2, 2), number + 1))
            recorder.promise(number + 1)
        seal(work.path / "source.json", {"rows": 6}, [work.path / "source.bin"])
        recorder.promise(4)
    for place, promised in recorder.power_cuts(cut):
        with WorkFolder(place / "work", {"margin": 1}, force=True) as work:
            blocks = Blocks(work.path, "source", (6, 2), np.float32, 2, keys)
            assert blocks.done >= set(range(min(3, promised)))
            for number in blocks.done:
                assert (blocks.array[blocks.rows(number)] == number + 1).all()
            assert checked(work.path / "source.json") in ([{"rows": 6}] if promised == 4 else [None, {"rows": 6}])
