"""Runs that were stopped, killed or damaged: what is done is kept, what does not hold is made again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mine_fakes import NumberEncoder, document, english, german

from phrasemate.errors import InputError
from phrasemate.mine import Mining, mine
from phrasemate.mine.work_folder import Blocks, WorkFolder, checked, seal

PLAIN = Mining(threshold=0.5)
GERMAN = [german(n) for n in range(60)]
ENGLISH = [english(n) for n in range(40, 100)]
MATES = [(german(n), english(n)) for n in range(40, 60)]


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phrasemate.mine.mining.ENCODED", 16)
    monkeypatch.setattr("phrasemate.mine.mining.ASKED", 25)


def run(work: Path, encoder: NumberEncoder, settings: Mining = PLAIN, **more: Any) -> list[Any]:
    sides = {"source": GERMAN, "target": ENGLISH} | {key: more.pop(key) for key in ("source", "target") if key in more}
    with mine(
        document("de", sides["source"]), document("en", sides["target"]), encoder, work, settings, **more
    ) as mined:
        return list(mined)


def texts(mates: list[Any]) -> list[tuple[str, str]]:
    return sorted((mate.source, mate.target) for mate in mates)


def test_a_stopped_run_continues(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "work", NumberEncoder(stop_after=3))
    encoder = NumberEncoder()
    mates = run(tmp_path / "work", encoder)
    assert len(encoder.encoded) == 60 + 60 - 3 * 16  # three blocks were there
    assert texts(mates) == MATES
    again = NumberEncoder()
    assert run(tmp_path / "work", again) == mates  # also to the last bit
    assert again.encoded == []


def test_another_threshold_and_margin_need_no_encoder(tmp_path: Path) -> None:
    run(tmp_path / "work", NumberEncoder())
    encoder = NumberEncoder(stop_after=0)
    assert texts(run(tmp_path / "work", encoder, Mining(margin="ratio", threshold=1.6))) == MATES
    assert run(tmp_path / "work", encoder, Mining(margin="quarter", threshold=0.99)) == []
    assert len(run(tmp_path / "work", encoder, Mining(k=2, threshold=0.5))) == 20  # is searched again


@pytest.mark.parametrize("margin", ["regression", "quarter", "ratio", "distance", "csls", "absolute"])
def test_published_margins_take_the_vectors_as_they_are(tmp_path: Path, margin: str) -> None:
    run(tmp_path / "work", NumberEncoder(), Mining(margin=margin, threshold=0.5))
    assert (tmp_path / "work" / "source.shifted.bin").exists() == (margin in ("regression", "quarter"))


def test_known_pairs_are_added_to_what_is_there(tmp_path: Path) -> None:
    run(tmp_path / "work", NumberEncoder())
    encoder = NumberEncoder()
    known_pairs = [(german(n), english(n)) for n in range(200, 230)]
    assert texts(run(tmp_path / "work", encoder, Mining(), known=known_pairs)) == MATES
    assert len(encoder.encoded) == 2 * (12 + 30)  # the last block, which grew, and new ones
    assert texts(run(tmp_path / "work", NumberEncoder(stop_after=2))) == MATES  # and they go again


def test_other_texts_or_another_model_are_refused(tmp_path: Path) -> None:
    run(tmp_path / "work", NumberEncoder())
    with pytest.raises(InputError, match=r"work: was started with source 1 document of checksum .*, now .*--force"):
        run(tmp_path / "work", NumberEncoder(), source=[*GERMAN, "Neu."])
    with pytest.raises(InputError, match="was started with model aaaaaaaaaaaa, now bbbbbbbbbbbb"):
        run(tmp_path / "work", NumberEncoder("b" * 64))
    with pytest.raises(InputError, match="was started with languages ,, now de,en"):
        run(tmp_path / "work", NumberEncoder(), Mining(threshold=0.5, languages=("de", "en")))
    encoder = NumberEncoder("b" * 64)
    assert texts(run(tmp_path / "work", encoder, force=True)) == MATES
    assert len(encoder.encoded) == 120
    again = NumberEncoder("b" * 64)
    assert texts(run(tmp_path / "work", again, force=True)) == MATES  # for the output's sake; what is there fits
    assert len(again.encoded) == 0


DAMAGES = {
    "flipped": lambda raw: raw[: len(raw) // 2] + bytes([raw[len(raw) // 2] ^ 4]) + raw[len(raw) // 2 + 1 :],
    "truncated": lambda raw: raw[: len(raw) // 2],
    "emptied": lambda raw: b"",
    "grown": lambda raw: raw + b"x",
}
FILES = [
    *(f"source.{kind}" for kind in ("txt", "json", "starts.npy", "lengths.npy", "places.npy", "first.npy")),
    *(
        f"{name}.{kind}"
        for name in ("source.vectors", "source.shifted", "forward", "backward")
        for kind in ("bin", "log")
    ),
    "forward.json",
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, bytes], list[Any]]:
    """The files of a finished run with small blocks, and what it found."""
    folder = tmp_path_factory.mktemp("whole") / "work"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("phrasemate.mine.mining.ENCODED", 16)
        patch.setattr("phrasemate.mine.mining.ASKED", 25)
        mates = run(folder, NumberEncoder())
    return {path.name: path.read_bytes() for path in folder.iterdir()}, mates


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", FILES)
def test_damaged_work_is_done_again(tmp_path: Path, name: str, damage: str, whole: Any) -> None:
    files, mates = whole
    (tmp_path / "work").mkdir()
    for item, raw in files.items():
        (tmp_path / "work" / item).write_bytes(DAMAGES[damage](raw) if item == name else raw)
    encoder = NumberEncoder()
    assert run(tmp_path / "work", encoder) == mates
    if name == "source.vectors.bin" and damage == "flipped":
        assert len(encoder.encoded) == 16
    if name.startswith(("forward", "offset", "source.shifted")):
        assert encoder.encoded == []


def test_a_missing_file_is_made_again(tmp_path: Path) -> None:
    mates = run(tmp_path / "work", NumberEncoder())
    for name in FILES:
        (tmp_path / "work" / name).unlink()
        assert run(tmp_path / "work", NumberEncoder()) == mates


def test_a_damaged_note_of_how_it_began(tmp_path: Path) -> None:
    run(tmp_path / "work", NumberEncoder())
    note = tmp_path / "work" / "work.json"
    note.write_text(note.read_text()[:30])
    with pytest.raises(InputError, match=r"work\.json: damaged; --force discards the run"):
        run(tmp_path / "work", NumberEncoder())
    note.write_text('{"format": "phrasemate-mine", "version": 99, "settings": {}}')
    with pytest.raises(InputError, match="of another version"):
        run(tmp_path / "work", NumberEncoder())
    assert texts(run(tmp_path / "work", NumberEncoder(), force=True)) == MATES


def test_folders_of_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").write_bytes(b"precious")
    with pytest.raises(InputError, match=r"holds 'photo\.jpg' but no work\.json"):
        run(tmp_path, NumberEncoder(), force=True)
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="is a file; expected a folder"):
        run(tmp_path / "file", NumberEncoder())
    with pytest.raises(InputError, match="cannot be made"):
        run(tmp_path / "nowhere" / "work", NumberEncoder())
    work = WorkFolder(tmp_path / "work", {})
    for name in ("mine.txt", "scores.csv", "source.de.txt", "work.notes.md"):
        (tmp_path / "work" / name).write_text("precious")
    (tmp_path / "work" / "target.json").mkdir()
    work.remove()
    left = sorted(path.name for path in (tmp_path / "work").iterdir())
    assert left == ["mine.txt", "scores.csv", "source.de.txt", "target.json", "work.notes.md"]


def test_all_that_a_run_writes_goes_with_it(tmp_path: Path) -> None:
    run(tmp_path / "work", NumberEncoder())
    assert len(list((tmp_path / "work").iterdir())) > 10
    WorkFolder(tmp_path / "work", {}, force=True).remove()
    assert not (tmp_path / "work").exists()


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with WorkFolder(tmp_path / "work", {}), pytest.raises(InputError, match="another process is working there"):
        WorkFolder(tmp_path / "work", {})
    with WorkFolder(tmp_path / "work", {}) as work:
        assert work.resumed


CHILD = """
import sys, time
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from mine_fakes import NumberEncoder, document, english, german
import phrasemate.mine.mining as stages
from phrasemate.mine import Mining, mine
stages.ENCODED = 16
class Slow(NumberEncoder):
    def encode_sentences(self, texts):
        time.sleep(0.05)
        return super().encode_sentences(texts)
sides = [german(n) for n in range(60)], [english(n) for n in range(40, 100)]
mine(document("de", sides[0]), document("en", sides[1]), Slow(), sys.argv[2], Mining(threshold=0.5))
"""


def test_a_killed_run_continues(tmp_path: Path) -> None:
    work = tmp_path / "work"
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(Path(__file__).parent), str(work)])
    log = work / "source.vectors.log"
    deadline = time.monotonic() + 60
    while not (log.exists() and log.read_text().count("\n") >= 4) and time.monotonic() < deadline:  # two blocks
        time.sleep(0.005)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    encoder = NumberEncoder()
    assert texts(run(work, encoder)) == MATES
    assert len(encoder.encoded) <= 60 + 60 - 2 * 16


def test_blocks(tmp_path: Path) -> None:
    values = np.arange(14, dtype=np.float32).reshape(7, 2)
    keys = ["a", "b", "c"]
    blocks = Blocks(tmp_path, "source.x", (7, 2), np.float32, 3, keys)
    assert blocks.missing == [0, 1, 2]
    blocks.write(2, values[6:7])
    blocks.write(0, values[0:3])
    with pytest.raises(InputError, match="expected"):
        blocks.write(1, values[0:2])
    again = Blocks(tmp_path, "source.x", (7, 2), np.float32, 3, keys)
    assert again.missing == [1]
    assert (again.array[:3] == values[:3]).all()
    assert Blocks(tmp_path, "source.x", (7, 2), np.float32, 3, ["a", "b", "d"]).missing == [1, 2]  # of another content
    assert Blocks(tmp_path, "source.x", (5, 2), np.float32, 3, ["a", "e"]).missing == [1]  # fewer rows
    assert Blocks(tmp_path, "source.x", (7, 2), np.int32, 3, keys).missing == [0, 1, 2]  # other numbers
    assert Blocks(tmp_path, "source.empty", (0, 2), np.float32, 3, []).array.shape == (0, 2)


def test_seals(tmp_path: Path) -> None:
    file, note = tmp_path / "a.npy", tmp_path / "a.json"
    file.write_bytes(b"abc")
    assert checked(note) is None
    seal(note, {"n": 1}, [file])
    assert checked(note) == {"n": 1}
    raw = note.read_bytes()
    for at in range(len(raw) - 1):
        note.write_bytes(raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :])
        assert checked(note) is None
    note.write_bytes(raw)
    file.write_bytes(b"abd")
    assert checked(note) is None


def test_documents_whose_names_are_of_any_bytes(tmp_path: Path) -> None:
    note, file = tmp_path / "note.json", tmp_path / "file"
    file.write_bytes(b"content")
    seal(note, {"documents": ["a\udcff.txt"]}, [file])
    assert checked(note) == {"documents": ["a\udcff.txt"]}


@pytest.mark.parametrize("name", ["source.json", "forward.json"])
def test_what_is_sealed_and_makes_no_sense_is_made_again(tmp_path: Path, name: str) -> None:
    mates = run(tmp_path / "work", NumberEncoder())
    note = tmp_path / "work" / name
    sound = checked(note)
    assert sound is not None
    files = [note.with_name(load) for load in json.loads(note.read_text("utf-8").partition(" ")[2])["files"]]
    for entry in sound:
        for value in (None, "x", -1, 1.5, [1], {}, {"read": 1}):
            seal(note, sound | {entry: value}, files)
            assert run(tmp_path / "work", NumberEncoder()) == mates, (entry, value)
        seal(note, {key: value for key, value in sound.items() if key != entry}, files)
        assert run(tmp_path / "work", NumberEncoder()) == mates, entry
