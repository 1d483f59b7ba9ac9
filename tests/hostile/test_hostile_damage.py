"""A quick part of bench/damage.py: damaged files of each kind are a documented error, or the right answer."""

from __future__ import annotations

import random
import shutil
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench")]

import damage_kinds  # noqa: E402
from damage import cases  # noqa: E402
from damage_kinds import KINDS, Kind  # noqa: E402

from phrasemate.errors import PhrasemateError  # noqa: E402

QUICK = [kind for kind in KINDS if not kind.training and kind.name != "index"]  # tests/index has its own


@pytest.mark.parametrize("kind", QUICK, ids=lambda kind: kind.name)
def test_damaged_files(kind: Kind, tmp_path: Path) -> None:
    place = kind.make(tmp_path)
    work = tmp_path / "copies" / place.name
    right, records = answer(kind, place, work), Counter[str]()
    for what, file, damaged in cases(kind, place, random.Random(3), 1):
        copied(place, work)
        (work / file.relative_to(place) if place.is_dir() else work).write_bytes(damaged)
        try:
            documents = kind.read(work)
        except PhrasemateError as error:
            records["error" if "\n" not in str(error) else "lines"] += 1
        else:
            same = repr(documents) == right
            records["right" if same else "other"] += 1
            if kind.guard == "sealed" and not what.endswith(".gz doubled"):
                assert same, what
            if kind.guard == "closed":
                assert same or "truncated" not in what, what
    # what is kept of a long run is simply made again where it is damaged; all else has damage that is an error
    assert not records["lines"]
    assert records["error"] >= 6 * (kind.name != "kept states")


def answer(kind: Kind, place: Path, work: Path) -> str:
    """From a copy: reading an index may fix what is derived."""
    copied(place, work)
    return repr(kind.read(work))


def copied(place: Path, work: Path) -> None:
    shutil.rmtree(work.parent, ignore_errors=True)
    work.parent.mkdir()
    (shutil.copytree if place.is_dir() else shutil.copy)(place, work)


def test_files_that_are_made_to_do_harm(tmp_path: Path) -> None:
    makers = [damage_kinds._word_vectors, damage_kinds._xml, damage_kinds._numbers]
    readers = {kind.name: kind for kind in KINDS}
    count = 0
    for make in makers:
        folder = tmp_path / make.__name__
        folder.mkdir()
        for what, place, read in make(folder, readers).cases:
            if not what.startswith("harmless"):
                with pytest.raises(PhrasemateError) as caught:
                    read(place)
                assert "\n" not in str(caught.value), what
                count += 1
    assert count >= 35
