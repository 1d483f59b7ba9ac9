"""Tables that were deleted and rebuilt while they were open, that lack a part, are empty, or lie at a long path."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path
from time import sleep

import numpy as np
import pytest

pytest.importorskip("lance", reason="Lance is not installed (pip install 'phrasemate[ray]')")

from cluster_fakes import SETTINGS, build_here, documents
from index_fakes import FakeModel, vector_of

from phrasemate.errors import IndexDamaged, IndexMissing, InputError, ModelMismatch
from phrasemate.index import Index
from phrasemate.index.lance.index import ClusterIndex
from phrasemate.index.lance.store import LOOK_SECONDS
from phrasemate.index.ray import build
from phrasemate.mt.hints import RelatedSentences
from phrasemate.rank import whole
from phrasemate.server.indexes import Library
from phrasemate.types import Document


@pytest.fixture
def model() -> FakeModel:
    return FakeModel()


def opened(place: Path, model: FakeModel) -> Index:
    return Index.open(place, model, settings=SETTINGS)


def search(index: Index, model: FakeModel, text: str) -> tuple[str, str]:
    run = index.search(model.encode([whole(text)]), 1)
    (hit,) = index.hits(run.ids, run.scores)
    return hit.document, hit.text


def test_an_index_rebuilt_with_the_same_counts_is_another(tmp_path: Path, model: FakeModel) -> None:
    """Its generation is that of the old one: what an open index remembers of that must not answer for the new one."""
    sentences = ["the old bank was closed", "she sat and read"]
    folder = tmp_path / "idx"
    build_here(folder, [Document.from_texts("old.txt", sentences)], model)
    index = opened(folder, model)
    assert [document.name for document in index.documents()] == ["old.txt"]
    assert index.texts.candidates("bank") == [0]
    assert search(index, model, "old bank") == ("old.txt", "old bank")
    generation = index.stats().generation
    shutil.rmtree(folder)
    build_here(folder, [Document.from_texts("new.txt", ["he opened his window", "an old bank by it"])], model)
    assert opened(folder, model).stats().generation == generation
    index.store.refresh()
    assert search(index, model, "old bank") == ("new.txt", "old bank")
    assert [document.name for document in index.documents()] == ["new.txt"]
    assert index.texts.candidates("bank") == [1]
    assert index.stats().generation > generation


def test_an_index_rebuilt_with_another_model_is_an_error(tmp_path: Path, model: FakeModel) -> None:
    folder = tmp_path / "idx"
    build_here(folder, documents(), model)
    index = opened(folder, model)
    shutil.rmtree(folder)
    build_here(folder, documents(), FakeModel(name="other"))
    index.store.refresh()
    with pytest.raises(ModelMismatch, match="rebuilt with another model, other"):
        index.documents()


def test_it_is_served_when_it_was_rebuilt(tmp_path: Path, model: FakeModel) -> None:
    folder = tmp_path / "idx"
    build_here(folder, [Document.from_texts("old.txt", ["the old bank"])], model)
    with closing(Library([folder], threads=1, model=model)) as library:
        shutil.rmtree(folder)
        build_here(folder, [Document.from_texts("new.txt", ["the old bank"])], model)
        sleep(LOOK_SECONDS)
        answer = library.ask("idx", lambda searcher: searcher.search("[[old bank]]", k=1))
        assert answer.groups[0].hits[0].document == "new.txt"


def test_it_is_served_when_it_was_rebuilt_with_another_model(
    tmp_path: Path, model: FakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file system may give the new folder the number of the old one."""
    place, other = tmp_path / "idx", FakeModel(name="other")
    models = {item.hash: item for item in (model, other)}
    monkeypatch.setattr("phrasemate.server.indexes._Models.of", lambda self, folder, result: models[result.model_hash])
    monkeypatch.setattr("phrasemate.server.indexes._Models.release", lambda self, hash: None)
    monkeypatch.setattr(FakeModel, "base", property(lambda self: self), raising=False)
    build_here(place, [Document.from_texts("old.txt", ["the old bank"])], model)
    with closing(Library([place], threads=1, model=model)) as library:
        for used in (other, model):
            shutil.rmtree(place)
            build_here(place, [Document.from_texts(f"{used.name}.txt", ["the old bank"])], used)
            sleep(LOOK_SECONDS)
            answer = library.ask("idx", lambda searcher: searcher.search("[[old bank]]", k=1))
            assert answer.groups[0].hits[0].document == f"{used.name}.txt"


def test_a_place_may_be_given_as_a_file_uri(tmp_path: Path, model: FakeModel) -> None:
    build_here(tmp_path / "idx", [Document.from_texts("old.txt", ["the old bank"])], model)
    with closing(Library([Path(f"file://{tmp_path}/idx")], threads=1, model=model)) as library:
        assert library.ask("idx", lambda searcher: searcher.index.stats().documents) == 1


@pytest.mark.parametrize("name", ["shards", "sentences", "phrases"])
def test_a_part_that_is_missing_is_damage(tmp_path: Path, model: FakeModel, name: str) -> None:
    folder = tmp_path / "idx"
    build_here(folder, documents(), model)
    shutil.rmtree(folder / f"{name}.lance")
    for attempt in (lambda: opened(folder, model), lambda: build_here(folder, documents(), model)):
        with pytest.raises(IndexDamaged, match=f"the table {name} .*is missing"):
            attempt()


def test_the_input_is_checked_as_on_one_machine(tmp_path: Path, model: FakeModel) -> None:
    with pytest.raises(InputError, match="expected a code such as de"):
        build(str(tmp_path / "idx"), [], "127.0.0.1:1", model=model, lang="*")
    with pytest.raises(InputError, match=r"holds the character U\+0000"):
        build_here(tmp_path / "idx", [Document.from_texts("a.txt", ["one", "t\0wo"])], model)


def test_an_empty_index_of_other_settings_may_be_deleted(tmp_path: Path, model: FakeModel) -> None:
    build_here(tmp_path / "idx", [], model)
    with pytest.raises(InputError, match="nothing is in it yet, so delete it"):
        build(str(tmp_path / "idx"), [], "127.0.0.1:1", segment={"max_words": 2})


def test_a_place_with_a_very_long_name(tmp_path: Path, model: FakeModel) -> None:
    folder = tmp_path.joinpath(*["x" * 60] * 5)  # the name alone is longer than what is quoted of an error
    with pytest.raises(IndexMissing, match="no index at"):
        ClusterIndex.open(folder)
    build_here(folder, documents(), model)
    assert len(opened(folder, model).documents()) == 5


class Sentences(FakeModel):
    """Whose sentences have vectors, too."""

    width = 16

    def encode_sentences(self, texts: list[str]) -> np.ndarray:
        return np.stack([vector_of(text, self.width) for text in texts])


def test_related_sentences_of_it(tmp_path: Path, model: FakeModel) -> None:
    """Its path is a text, which has no method of a `Path`."""
    build_here(tmp_path / "idx", [Document.from_texts("a.txt", ["the old bank", "he sat"])], model)
    encoder = Sentences()
    related_sentences = RelatedSentences(Index.open(tmp_path / "idx", encoder, settings=SETTINGS), tmp_path)
    ((text, score),) = related_sentences(["he sat"])
    assert (text, score) == ("he sat", pytest.approx(1, abs=0.01))
    assert len(list(tmp_path.glob("sentences-*.npz"))) == 1
    shutil.rmtree(tmp_path / "idx")
    build_here(tmp_path / "idx", [Document.from_texts("b.txt", ["she ran", "a red house"])], model)
    related_sentences.index.store.refresh()
    related_sentences.index.documents()  # which sees the new tables
    assert related_sentences(["a red house"])[0][0] == "a red house"
