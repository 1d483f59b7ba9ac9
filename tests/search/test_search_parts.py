"""Many queries are encoded in parts, each while the one before is searched."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from phrasemate import Document, Index, Searcher, load_model, search
from phrasemate.encode.scoring import Views
from phrasemate.types import Phrase

QUERIES = [
    "Er sitzt auf der [[Bank]].",
    "Sie liest ein [[Buch]].",
    "Das [[Haus]] ist alt.",
    "Der [[Fluss]] ist tief.",
    "Ein [[Fenster]] steht offen.",
]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    path = tmp_path_factory.mktemp("parts") / "idx"
    texts = ["She sat on the bench.", "He reads a book.", "An old house by the river.", "Open the window."]
    with Index.create(path, load_model()) as index:
        index.add([Document.from_texts("text", texts)], lang="en")
    return Index.open(path, load_model(), readonly=True)


class Watch:
    """Records the thread and the number of queries of each encoding."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, index: Index, threads: int) -> None:
        self.calls: list[tuple[bool, int]] = []
        encode, main = Searcher._encode, threading.get_ident()

        def watched(searcher: Searcher, phrases: Sequence[Phrase]) -> object:
            self.calls.append((threading.get_ident() == main, len(phrases)))
            return encode(searcher, phrases)

        monkeypatch.setattr(Searcher, "_encode", watched)
        monkeypatch.setattr(index.model.runtime, "threads", threads)


@pytest.mark.parametrize("views", [True, False, Views()])
@pytest.mark.parametrize(("threads", "in_main"), [(1, True), (2, False)])
def test_parts_have_the_answers_of_the_whole(
    index: Index, monkeypatch: pytest.MonkeyPatch, views: Views | bool, threads: int, in_main: bool
) -> None:
    searcher = Searcher(index, views=views)
    whole = searcher.search_all(QUERIES, k=3)
    monkeypatch.setattr(search, "ENCODED", 2)
    watch = Watch(monkeypatch, index, threads)
    parts = searcher.search_all(QUERIES, k=3)
    assert [result.phrase for result in parts] == [result.phrase for result in whole]
    for one, other in zip(parts, whole, strict=True):
        assert [group.text for group in one.groups] == [group.text for group in other.groups]
        assert one.confidence == pytest.approx(other.confidence, abs=0.02)  # int8 rounds a batch differently
    assert watch.calls == [(in_main, 2), (in_main, 2), (in_main, 1)]


def test_one_part_needs_no_thread(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch(monkeypatch, index, 2)
    Searcher(index).search_all(QUERIES)
    assert watch.calls == [(True, len(QUERIES))]


def test_the_texts_to_leave_out_go_with_their_queries(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "ENCODED", 2)
    without = ["", "", "An old house by the river.", "", "Open the window."]
    searcher = Searcher(index)
    results = searcher.search_all(QUERIES, without=without), searcher.search_all(QUERIES)
    for result, whole, text in zip(*results, without, strict=True):
        rest, contexts = ({hit.context for group in one.groups for hit in group.hits} for one in (result, whole))
        assert rest == contexts - {text}
        assert not text or text in contexts


def test_an_error_ends_all_parts(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "ENCODED", 2)
    searcher, steps = Searcher(index), []

    def progress() -> None:
        steps.append(len(steps))
        if len(steps) == 2:
            raise KeyboardInterrupt

    phrases = [phrase for query in QUERIES for phrase in searcher.phrases(query)]
    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        searcher.search_phrases(phrases, search.SearchRequest(), progress=progress)
    assert steps == [0, 1]
    assert threading.active_count() == before
