"""The indexes that are served: names, one model, and a folder that changes."""

from __future__ import annotations

import shutil
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from server_fakes import FakeModel, make_index

from phrasemate.encode import load_model
from phrasemate.encode.scoring import VOTES, Views
from phrasemate.errors import IndexDamaged, IndexMissing, InputError, ModelMismatch
from phrasemate.index import Index
from phrasemate.index.manifest import Manifest
from phrasemate.lexicon.dictionary import Dictionary, DictionaryFolder
from phrasemate.lexicon.separable_verbs import _infinitives
from phrasemate.server import indexes as module
from phrasemate.server.errors import Refusal
from phrasemate.server.indexes import Library
from phrasemate.types import Document, Phrase


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every request looks whether the folder has changed."""
    monkeypatch.setattr(module, "CHECK_SECONDS", 0.0)


def best(library: Library, query: str, name: str = "") -> list[str]:
    return [group.text for group in library.ask(name, lambda searcher: searcher.search(query, k=1)).groups]


def test_names_are_those_of_the_folders(tmp_path: Path, model: FakeModel) -> None:
    folders = [make_index(tmp_path / place / "idx", model) for place in "abc"]
    library = Library(folders, threads=1, model=model)
    assert library.names == ("idx", "idx-2", "idx-3")
    with library.use("idx") as one, library.use("idx-2") as other:
        assert one.index is not other.index
        assert one.model is other.model
    library.close()


def test_the_first_query_loads_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Index.create(tmp_path / "idx", load_model(threads=1), threads=1) as index:
        index.add([Document.from_texts("a", ["She sat on the bench."])], lang="en")
    _infinitives.cache_clear()
    library = Library([tmp_path / "idx"], threads=1)
    assert _infinitives.cache_info().currsize == 1
    with library.use() as searcher, monkeypatch.context() as patch:
        patch.setattr("phrasemate.index.snapshot_search.load_segment", None)  # nor does it read the wordings
        assert searcher.search("Er sitzt auf der [[Bank]].", k=1).groups[0].text == "bench"
    library.close()


def test_hits_are_looked_at_again_unless_it_is_to_be_quick(tmp_path: Path, model: FakeModel) -> None:
    folder = make_index(tmp_path / "idx", model)
    model.pooling = "head"
    for views in (True, False):
        library = Library([folder], threads=1, model=model, views=views)
        with library.use() as searcher:
            assert searcher.views == (Views() if views else VOTES)
        (group,) = library.ask("", lambda searcher: searcher.search("[[bank]]", k=1)).groups
        assert group.text == "bank"
        library.close()


def test_an_unknown_name_is_refused(library: Library) -> None:
    with pytest.raises(Refusal, match=r"no index '\.\./idx'; there are: idx") as caught:
        best(library, "[[bank]]", "../idx")
    assert (caught.value.code, caught.value.status) == ("unknown_index", 404)


def test_what_is_not_index_is_said_at_once(tmp_path: Path, model: FakeModel) -> None:
    with pytest.raises(IndexMissing, match="no index at"):
        Library([tmp_path], model=model)
    with pytest.raises(InputError, match="no index was given"):
        Library([], model=model)


def test_what_is_added_is_found_by_the_next_search(library: Library, folder: Path, model: FakeModel) -> None:
    assert best(library, "[[zebra]]") != ["zebra"]
    with library.use() as before, Index.open(folder, model, threads=1) as index:
        index.add([Document.from_texts("zoo.txt", ["A zebra grazes."])], lang="en")
    assert best(library, "[[zebra]]") == ["zebra"]
    with library.use() as after:
        assert after.index is before.index


def test_a_folder_rebuilt_is_opened_again(library: Library, folder: Path, model: FakeModel) -> None:
    with library.use() as old:
        shutil.rmtree(folder)
        make_index(folder, model, ["A zebra grazes."])
        assert best(library, "[[zebra]]") == ["zebra"]  # another request, meanwhile
        assert old.search("[[bank]]", k=1).groups[0].text == "bank"  # ours continues with what it has
    with pytest.raises(sqlite3.ProgrammingError):  # the last one has left it
        old.index.store.connection.execute("SELECT 1")
    assert best(library, "[[zebra]]") == ["zebra"]


def test_a_dictionary_of_the_index_counts_from_the_next_search(library: Library, folder: Path) -> None:
    assert [lexicon.name for lexicon in library.ask("", lambda searcher: searcher.index.dictionaries)] == []
    DictionaryFolder(folder).add(Dictionary("mine.tsv", [[("de", "Zebra"), ("en", "zebra")]]))
    assert [lexicon.name for lexicon in library.ask("", lambda searcher: searcher.index.dictionaries)] == ["mine.tsv"]
    with library.use() as before:
        DictionaryFolder(folder).remove("mine.tsv")
        assert library.ask("", lambda searcher: searcher.index.dictionaries) == ()
        assert len(before.index.dictionaries) == 1  # requests that run keep what they began with


def test_an_index_that_is_gone_may_come_back(
    library: Library, folder: Path, model: FakeModel, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.rmtree(folder)
    with pytest.raises(IndexMissing):
        best(library, "[[bank]]")
    assert "index idx: no index at" in caplog.text  # clients are told that the log says why
    make_index(folder, model)
    assert best(library, "[[bank]]") == ["bank"]


def test_an_index_of_another_model_costs_nothing_at_each_request(
    library: Library, folder: Path, model: FakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = FakeModel()
    other.hash = "f" * 64
    shutil.rmtree(folder)
    make_index(folder, other)
    loaded = []
    monkeypatch.setattr(
        library._models,
        "of",
        lambda *arguments: loaded.append(arguments) or type(library._models).of(library._models, *arguments),
    )
    before = threading.active_count()
    for _ in range(3):
        with pytest.raises(ModelMismatch, match="was built with the model"):
            best(library, "[[bank]]")
    assert len(loaded) == 1
    assert threading.active_count() == before
    shutil.rmtree(folder)
    make_index(folder, model)  # another folder is tried at once
    assert best(library, "[[bank]]") == ["bank"]


def test_an_index_that_cannot_be_searched_is_closed_with_its_model(
    folder: Path, model: FakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was opened for it is given back: the next one finds nothing in its way."""

    def broken(*arguments: object) -> None:
        raise IndexDamaged(f"{folder}: a checksum does not match")

    closed: list[str] = []
    close = Index.close
    with monkeypatch.context() as patch:
        patch.setattr("phrasemate.server.indexes._warm_up", broken)
        patch.setattr(Index, "close", lambda index: closed.append(index.path.name) or close(index))
        before = threading.active_count()
        with pytest.raises(IndexDamaged, match="a checksum does not match"):
            Library([folder], threads=1, model=model)
        assert closed == ["idx"]
        end = time.monotonic() + 10
        while threading.active_count() > before:  # the thread of the model ends by itself
            assert time.monotonic() < end
            time.sleep(0.01)
    with closing(Library([folder], threads=1, model=model)) as library:
        assert best(library, "[[bank]]") == ["bank"]


def test_a_model_that_no_index_uses_any_more_is_let_go(
    library: Library, folder: Path, model: FakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index that is rebuilt with another model each night would keep them all."""
    monkeypatch.setattr(library._models, "_given", None)
    table = {f"{number:064x}": FakeModel() for number in range(3)}
    for name, item in table.items():
        item.hash = name
    monkeypatch.setattr(
        "phrasemate.encode.load_model", lambda *_, **__: table[Manifest.read(folder / "index.json").model_hash]
    )
    best(library, "[[bank]]")
    before, requests = threading.active_count(), library.passes[0]
    for name, item in table.items():
        with library.use() as old:
            shutil.rmtree(folder)
            make_index(folder, item)
            assert best(library, "[[bank]]") == ["bank"]
            assert old.model.encode([Phrase("bank", 0, 4)]).shape == (1, 16)  # for those who are in the old one
        assert set(library._models._loaded) == {name}
    until = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < until:
        time.sleep(0.01)
    assert threading.active_count() <= before
    assert library.passes[0] >= requests + 3  # what is counted never falls


class Meanwhile:
    """A lock; when it is let go for the first time, something else gets it."""

    def __init__(self, then: Callable[[], object]) -> None:
        self._lock, self._then = threading.Lock(), [then]

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        while self._then:
            self._then.pop()()


def test_a_model_that_is_taken_while_its_last_index_goes_is_open(library: Library, folder: Path) -> None:
    models, manifest = library._models, Manifest.read(folder / "index.json")
    models._lock = Meanwhile(lambda: models.release(manifest.model_hash))  # type: ignore[assignment]
    model_of_index = models.of(folder, manifest)
    assert model_of_index.encode([Phrase("bank", 0, 4)]).shape == (1, 16)
    assert models._loaded == {manifest.model_hash: model_of_index}


def test_the_folder_is_looked_at_once_in_a_while(
    library: Library, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHECK_SECONDS", 60.0)
    best(library, "[[bank]]")
    shutil.rmtree(folder)
    assert best(library, "[[bank]]") == ["bank"]  # of the files that are still open


def test_errors_do_not_say_where_an_index_is(library: Library, folder: Path) -> None:
    with pytest.raises(InputError, match="has no document 'x'") as caught:
        library.ask("", lambda searcher: searcher.search("[[bank]]", documents=["x"]))
    assert str(folder) not in str(caught.value)


def test_close_waits_for_what_is_worked_on(library: Library, model: FakeModel) -> None:
    model.gate.clear()
    future = library.submit(best, library, "[[bank]]")
    assert model.entered.wait(10)
    library.submit(lambda: time.sleep(0.1) or model.gate.set())
    library.close()
    assert future.result(0) == ["bank"]
