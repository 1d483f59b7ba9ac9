"""Every version of every format, from the first on, opens and says what it said; a newer one says what to do."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from format_folders import FORMATS, contents, versions

from phrasemate.errors import IndexUnsupported, ModelUnsupported
from phrasemate.index import manifest

KEPT = sorted(FORMATS.glob("*.zip"))


def unpacked(path: Path, folder: Path) -> Path:
    with zipfile.ZipFile(path) as file:
        file.extractall(folder)
    return next(folder.iterdir())


def test_the_present_version_of_each_format_is_kept() -> None:
    expected = {f"{kind.replace(' ', '-')}-{version}" for kind, version in versions().items()}
    assert expected <= {path.stem for path in KEPT}, "run tests/hostile/format_folders.py for the new version"


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_a_version_opens(path: Path, tmp_path: Path) -> None:
    kind = path.stem.rpartition("-")[0].replace("-", " ")
    place = unpacked(path, tmp_path)
    assert near(contents(kind, place), json.loads(path.with_suffix(".json").read_text("utf-8")))


ARITHMETIC = 0.03  # what a processor without bfloat16 makes of the tiny model's numbers
THRESHOLD = 0.7  # of its segmenter


def near(one: object, other: object) -> bool:
    """Equal, numbers as far as another processor's arithmetic lets them be."""
    if isinstance(one, list) and isinstance(other, list):
        if is_spans(one) and is_spans(other):
            return near_spans(one, other)
        return len(one) == len(other) and all(map(near, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) < ARITHMETIC
    return one == other


def is_spans(rows: list[Any]) -> bool:
    return all(isinstance(row, list) and [*map(type, row)] == [int, int, float] for row in rows)


def near_spans(one: list[Any], other: list[Any]) -> bool:
    """Spans that only one side has are just above the threshold."""
    scores, others = ({(start, end): score for start, end, score in rows} for rows in (one, other))
    return all(abs(scores.get(key, THRESHOLD) - others.get(key, THRESHOLD)) < ARITHMETIC for key in {*scores, *others})


def test_near() -> None:
    assert near([[0.5, 1]], [[0.51, 1]])
    assert not near([[0.5, 1]], [[0.54, 1]])
    assert not near([[0.5]], [[0.5], [0.5]])
    assert near([[0, 7, 0.71], [0, 9, 0.9]], [[0, 9, 0.91], [3, 9, 0.72]])
    assert not near([[0, 7, 0.75], [0, 9, 0.9]], [[0, 9, 0.91]])
    assert not near([[0, 9, 0.9]], [[0, 9, 0.8]])


def test_a_newer_version_says_what_to_do(tmp_path: Path) -> None:
    index = unpacked(FORMATS / "index-1.zip", tmp_path / "index")
    body = {k: v for k, v in json.loads((index / "index.json").read_text("utf-8")).items() if k != "crc"}
    (index / "index.json").write_bytes(manifest._canonical(body | {"version": 2}))
    with pytest.raises(IndexUnsupported, match="use a matching version of phrasemate"):
        contents("index", index)
    model = unpacked(FORMATS / "model-folder-1.zip", tmp_path / "model")
    content = json.loads((model / "MANIFEST.json").read_text("utf-8"))
    (model / "MANIFEST.json").write_text(json.dumps(content | {"version": 9}), "utf-8")
    with pytest.raises(ModelUnsupported, match="upgrade phrasemate"):
        contents("model folder", model)
