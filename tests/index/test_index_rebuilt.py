"""An index that was rebuilt in its place while another had it open; and one that two open first."""

from __future__ import annotations

import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from index_fakes import SMALL, FakeModel, sentences

from phrasemate.errors import ModelMismatch, PhraseIndexError
from phrasemate.index import Index, schema
from phrasemate.index.manifest import Manifest
from phrasemate.types import Document

LATE = Document.from_texts("late", sentences(20, 3))


def opened(path: Path, model: FakeModel | None = None) -> Index:
    return Index.open(path, model, settings=SMALL, threads=1)


@pytest.mark.parametrize("dim", [16, 24])
def test_the_vectors_of_the_model_before_are_not_mixed_in(tmp_path: Path, dim: int) -> None:
    path, before, after = tmp_path / "idx", FakeModel(16, "before"), FakeModel(dim, "after")
    Index.create(path, before).close()
    with opened(path, before) as writer, opened(path, before) as reader:
        assert reader.search(np.ones((1, 16)), 1).ids.tolist() == [[-1]]
        with opened(path) as other:
            other.begin(after)
            other.add([Document.from_texts("a", sentences(20))])
        for _ in range(2):
            with pytest.raises(ModelMismatch, match=r"rebuilt with another model, after \(.*open it again"):
                writer.add([LATE])
            with pytest.raises(ModelMismatch, match="rebuilt"):
                reader.search(np.ones((1, 16)), 1)
    with opened(path, after) as index:
        assert [document.name for document in index.documents()] == ["a"]
        assert index.verify().ok
        assert index.search(np.ones((1, dim)), 1).ids.min() >= 0


def test_what_was_opened_before_the_folder_was_rebuilt_writes_nothing_there(tmp_path: Path) -> None:
    path, model = tmp_path / "idx", FakeModel()
    with Index.create(path, model, settings=SMALL, threads=1) as old:
        old.add([Document.from_texts("old", sentences(300))])
        with opened(path, model) as reader:
            shutil.rmtree(path)
            with pytest.raises(PhraseIndexError, match="was rebuilt or removed"):
                old.add([LATE])
            assert not path.exists()
            with Index.create(path, model, settings=SMALL, threads=1) as new:
                new.add([Document.from_texts("new", sentences(40, 2))])
            for change in (lambda: old.add([LATE]), lambda: old.delete("old"), old.optimize):
                with pytest.raises(PhraseIndexError, match=r"was rebuilt.*open it again"):
                    change()
            with pytest.raises(PhraseIndexError, match=r"was rebuilt.*open it again"):
                reader.search(np.ones((1, 16)), 1)
    with opened(path, model) as index:
        assert [document.name for document in index.documents()] == ["new"]
        index.add([LATE])
        assert index.verify().ok


def test_two_that_open_a_just_made_index_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, both, looked = FakeModel(), threading.Barrier(2), schema.is_empty
    first = threading.local()

    def at_once(connection: object) -> bool:
        """Both find it empty before either lays it out."""
        empty = looked(connection)  # type: ignore[arg-type]
        if not getattr(first, "done", False):
            first.done = True
            both.wait(5)
        return empty

    monkeypatch.setattr(schema, "is_empty", at_once)
    Manifest.of(model).write(tmp_path / "index.json")
    with ThreadPoolExecutor(2) as pool:
        for index in list(pool.map(lambda _: opened(tmp_path, model), range(2))):
            assert index.stats().generation == 0
            index.close()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a name that is not UTF-8")
def test_an_index_in_a_folder_whose_name_is_not_utf_8_is_laid_out(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/idx\xff"))
    with Index.create(folder, FakeModel()) as index:
        assert index.add([LATE]).sentences == 20
