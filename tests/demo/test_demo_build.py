"""``demo.build``: the sample is indexed once, and a run that was stopped is gone on with."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from phrasemate import demo
from phrasemate.errors import IndexExists
from phrasemate.index import Index
from phrasemate.types import Document


class Encoder:
    """Finds no phrases."""

    dim, hash, path, name = 2, "0" * 64, None, "none"

    def extract(self, texts: Any, *_: Any, **__: Any) -> Any:
        none = np.zeros(0, np.int32)
        simple_namespace = SimpleNamespace(
            starts=none, ends=none, scores=np.zeros(0, np.float32), vectors=np.zeros((0, 2))
        )
        return [simple_namespace for _ in texts]


class Stopped(Encoder):
    """The user gives Ctrl-C."""

    def extract(self, *_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt


def encoder(kind: type[Encoder] = Encoder) -> Any:
    return kind()


def test_a_stopped_run_is_gone_on_with(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        demo.build(tmp_path / "idx", encoder(Stopped))
    with demo.build(tmp_path / "idx", encoder()) as index:
        (document,) = index.documents()
        assert (document.name, document.complete, document.sentences) == ("english.txt", True, len(demo.sample()))


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").write_bytes(b"precious")
    with pytest.raises(IndexExists):
        demo.build(tmp_path, encoder())
    assert [path.name for path in tmp_path.iterdir()] == ["photo.jpg"]


def test_what_holds_something_is_left_alone(tmp_path: Path) -> None:
    demo.build(tmp_path / "whole", encoder()).close()
    with Index.create(tmp_path / "other", encoder()) as index:
        index.add([Document.from_texts("a.txt", ["A sentence."])])
    for name in ("whole", "other"):
        with pytest.raises(IndexExists):
            demo.build(tmp_path / name, encoder())
        with Index.open(tmp_path / name) as index:  # and it is not locked
            assert len(index.documents()) == 1
