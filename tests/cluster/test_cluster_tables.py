"""The tables without Ray: the same rows as the one-machine index, whatever is interrupted, deleted or replaced."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from time import sleep

import numpy as np
import pytest

pytest.importorskip("lance", reason="Lance is not installed (pip install 'phrasemate[ray]')")

from cluster_fakes import SETTINGS, WORDS, build_here, documents, rows_of
from index_fakes import FakeModel, vector_of

from phrasemate.errors import IndexDamaged, IndexLocked, IndexMissing, InputError, ModelMismatch, PhraseIndexError
from phrasemate.index import Index
from phrasemate.index.exact import unpack
from phrasemate.index.lance.commit import Writer
from phrasemate.index.lance.index import ClusterIndex
from phrasemate.index.lance.store import LOOK_SECONDS
from phrasemate.index.lance.tables import PHRASES, SENTENCES, Tables
from phrasemate.index.ray import build
from phrasemate.index.row_codec import dequantise
from phrasemate.server.indexes import Library
from phrasemate.types import Document, Sentence


@pytest.fixture
def model() -> FakeModel:
    return FakeModel()


@pytest.fixture
def one(tmp_path: Path, model: FakeModel):
    """The one-machine index of the same documents, searched exactly."""
    with Index.create(tmp_path / "one", model, settings=replace(SETTINGS, exact_below=10**9), threads=1) as index:
        index.add(documents(), lang="en")
        yield index


@pytest.fixture
def place(tmp_path: Path, model: FakeModel) -> Path:
    build_here(tmp_path / "tables", documents(), model)
    return tmp_path / "tables"


def opened(place: Path, model: FakeModel) -> Index:
    return Index.open(place, model, settings=SETTINGS)


def test_rows_are_those_of_one_machine(one: Index, place: Path, model: FakeModel) -> None:
    index = opened(place, model)
    assert isinstance(index, ClusterIndex)
    assert rows_of(index) == rows_of(one)
    assert index.verify().problems == []


def test_stopped_anywhere_and_given_again(one: Index, tmp_path: Path, model: FakeModel) -> None:
    total = len(build_here(tmp_path / "whole", documents(), model).made)
    for stop in range(total):
        place = tmp_path / f"stopped{stop}"
        with pytest.raises(KeyboardInterrupt):
            build_here(place, documents(), model, stop_after=stop)
        pool = build_here(place, documents(), model)
        assert len(pool.made) == total - stop  # what was committed is not made again
        assert rows_of(opened(place, model)) == rows_of(one)


def test_what_is_there_is_left_alone(place: Path, model: FakeModel) -> None:
    before = rows_of(opened(place, model))
    assert build_here(place, documents(), model).made == []
    assert rows_of(opened(place, model)) == before


def test_appended_replaced_and_deleted(one: Index, place: Path, model: FakeModel) -> None:
    more = [*documents(2, seed=7), Document.from_texts("0-1.txt", ["The river was closed.", "It was hot."])]
    one.add(more, lang="en")
    build_here(place, more, model)
    assert rows_of(opened(place, model)) == rows_of(one)
    with pytest.raises(InputError, match="has no document 'none'"):
        opened(place, model).delete("0-3.txt", "none")
    one.delete("0-3.txt", "0-2.txt")
    opened(place, model).delete("0-3.txt", "0-2.txt")
    result = opened(place, model)
    assert rows_of(result) == rows_of(one)
    assert result.verify().problems == []
    with pytest.raises(InputError, match="has no document"):
        result.delete("0-3.txt")
    assert result.vectors([]).shape == (0, model.dim)
    ids = [phrase for row in one.store.all_sentences() for phrase in range(row.first_phrase, row.first_phrase + 1)]
    np.testing.assert_array_equal(result.vectors(ids[::-1]), one.vectors(ids[::-1]))  # behind the deleted ones, too
    lacking = one.store.sentences_of(list(range(ids[-1]))).index(None)
    for index, phrase, why in (
        (i, p, w) for i in (result, one) for p, w in ((lacking, "was deleted"), (10**6, "no phrase"))
    ):
        with pytest.raises(InputError, match=why):
            index.vectors([phrase])


def test_search_and_what_comes_with_it(one: Index, place: Path, model: FakeModel) -> None:
    index = opened(place, model)
    queries = np.stack([vector_of(text, model.dim) for text in ("bank", "old bank", "river was", "window")])
    for chosen in (None, ["0-1.txt", "0-4.txt"]):
        result, expected = index.search(queries, 7, documents=chosen), one.search(queries, 7, documents=chosen)
        np.testing.assert_allclose(result.scores, expected.scores, atol=1e-6)
        hits = index.hits(result.ids, result.scores)
        assert [model_text(hit) for hit in hits] == [model_text(hit) for hit in one.hits(result.ids, result.scores)]
        np.testing.assert_array_equal(index.vectors(result.ids), one.vectors(result.ids))
    phrase = int(result.ids[0, 0])
    assert index.around(phrase, 2) == one.around(phrase, 2)
    assert index.containing("OLD bank", 20) == one.containing("OLD bank", 20) != []
    assert index.texts.candidates("on river") == one.texts.candidates("on river") != []
    assert index.stats().phrases == one.stats().phrases


def model_text(hit: object) -> tuple[object, ...]:
    return hit.phrase, hit.document, hit.line, hit.language, hit.phrase_id, hit.metadata


def test_sentences_of_a_document_with_and_without_translations(tmp_path: Path, model: FakeModel) -> None:
    aligned = [Sentence("the old bank", 1, {"translation": "die alte Bank"}), Sentence("she sat", 2)]
    texts = [*documents(), Document("aligned.txt", "0", lambda: iter(aligned))]
    build_here(tmp_path / "idx", texts, model)
    store = opened(tmp_path / "idx", model).store
    for number, text in enumerate(texts):
        rows = list(store.all_sentences(number))
        assert [(row.document, row.text) for row in rows] == [(number, sentence.text) for sentence in text.sentences()]
    assert [row.text for row in store.translated_sentences()] == ["the old bank"]
    assert list(store.sentences([])) == []
    with pytest.raises(IndexDamaged, match="document 99 is missing"):
        list(store.all_sentences(99))
    top = store.state().next_phrase
    for phrase in (-1, top):
        with pytest.raises(
            InputError, match=f"no phrase {phrase}: ids start at 0, and this index has used {top} of them"
        ):
            store.sentences_of([0, phrase])


def test_tables_have_no_table_of_wordings(place: Path, model: FakeModel) -> None:
    index = opened(place, model)
    assert not index.has_wordings
    with pytest.raises(InputError, match="tables: has no table of wordings"):
        index.wordings()


def test_nothing_is_deleted_where_nothing_is_named(place: Path, model: FakeModel) -> None:
    index = opened(place, model)
    before = index.stats()
    index.delete()
    assert opened(place, model).stats() == before
    assert index.generation == before.generation
    index.delete("0-1.txt")
    assert index.generation > before.generation
    assert opened(place, model).stats().documents == before.documents - 1


def test_a_vector_index_and_rows_newer_than_it(place: Path, model: FakeModel) -> None:
    opened(place, model).optimize()
    index = opened(place, model)
    assert (index.stats().engine, index.stats().exact) == ("Lance IVF_RQ", 0)
    assert index.verify().checked["recall@1"] == 1.0
    build_here(place, [Document.from_texts("new.txt", ["Quite other zebras.", "Nothing of the kind."])], model)
    index = opened(place, model)
    assert index.stats().exact == (3 + 2) + (4 + 3)  # words and pairs of words
    (hit, *_) = index.hits(*[row[0] for row in search(index, "other zebras", 1)])
    assert (hit.text, hit.document, round(hit.score, 2)) == ("other zebras", "new.txt", 1.0)


def search(index: Index, text: str, k: int) -> tuple[np.ndarray, np.ndarray]:
    run = index.search(vector_of(text, index.manifest.dim)[None], k)
    return run.ids, run.scores


def test_recall_against_exact_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen lists, of which each query reads twelve: the scores of ten places against those of all phrases."""
    place, model = tmp_path / "idx", FakeModel(dim=64)
    build_here(place, documents(), model)
    monkeypatch.setattr("phrasemate.index.lance.index.lists_for", lambda phrases: 16)
    monkeypatch.setattr("phrasemate.index.lance.search._PROBES", 12)
    opened(place, model).optimize()
    index = opened(place, model)
    drawn = np.random.default_rng(0).standard_normal((50, model.dim)).astype(np.float32)
    queries = np.stack([vector_of(f"{a} {b}", model.dim) for a in WORDS[:10] for b in WORDS[5:10]]) + 0.1 * drawn
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    codes = np.concatenate([unpack(block, model.dim)[0] for block, _ in index.store.checked_vectors()])
    exact = -np.sort(-(queries @ dequantise(codes).T), axis=1)[:, :10]
    right = np.abs(index.search(queries, 10).scores - exact) < 1e-5
    assert right[:, 0].mean() >= 0.9
    assert right.mean() >= 0.9


def test_more_lists_are_read_where_a_filter_leaves_too_few(
    tmp_path: Path, model: FakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_here(tmp_path / "idx", documents(12), model)
    monkeypatch.setattr("phrasemate.index.lance.index.lists_for", lambda phrases: 32)
    monkeypatch.setattr("phrasemate.index.lance.search._PROBES", 1)
    opened(tmp_path / "idx", model).optimize()
    index = opened(tmp_path / "idx", model)
    chosen = ["0-3.txt", "0-4.txt"]
    k = sum(document.phrases for document in index.documents() if document.name in chosen)
    assert k > SETTINGS.exact_filtered
    run = index.search(vector_of("old bank", model.dim)[None], k, documents=chosen)
    assert len(set(run.ids[0].tolist()) - {-1}) == k


def test_no_queries(place: Path, model: FakeModel) -> None:
    opened(place, model).optimize()
    index = opened(place, model)
    assert index.stats().phrases > SETTINGS.exact_below
    for chosen in (None, ["0-1.txt"]):
        run = index.search(np.zeros((0, model.dim), np.float32), 3, documents=chosen)
        assert (run.ids.shape, run.scores.shape) == ((0, 3), (0, 3))


def test_a_writer_takes_the_place_of_another(place: Path, model: FakeModel) -> None:
    tables = Tables(str(place), {})
    first = Writer(tables)
    second = Writer(tables)
    with pytest.raises(IndexLocked, match=r"process \d+ on .* has taken over"):
        first.put("key", {"a": 1})
    second.put("key", {"a": 2})
    assert opened(place, model).store.layout.head.extras["key"] == {"a": 2}


def test_what_a_killed_writer_has_half_done_is_taken_back(one: Index, place: Path, model: FakeModel) -> None:
    tables = Tables(str(place), {})
    rows = tables.open(SENTENCES).to_table().slice(0, 3)
    tables.append(SENTENCES, tables.write(SENTENCES, rows), tables.open(SENTENCES).version)  # and not the head
    assert rows_of(opened(place, model)) == rows_of(one)  # readers never see it
    build_here(place, documents(1, seed=3), model)
    one.add(documents(1, seed=3), lang="en")
    assert rows_of(opened(place, model)) == rows_of(one)


def test_damage_is_found(place: Path, model: FakeModel) -> None:
    tables = Tables(str(place), {})
    writer = Writer(tables)
    version = tables.delete(PHRASES, f"key = {(1 << 32) + 5}", writer.head.versions[PHRASES])
    writer.pin({PHRASES: version})
    report = opened(place, model).verify()
    assert not report.ok
    assert "phrases: " in "\n".join(report.problems)
    with pytest.raises(IndexDamaged):
        rows_of(opened(place, model))


def test_refusals(tmp_path: Path, place: Path, model: FakeModel) -> None:
    with pytest.raises(ModelMismatch, match="not with other"):
        Index.open(place, FakeModel(name="other"))
    with pytest.raises(ModelMismatch, match="not with other"):
        build(str(place), [], "127.0.0.1:1", model=FakeModel(name="other"))
    with pytest.raises(InputError, match="was made with the settings of its model"):
        build(str(place), [], "127.0.0.1:1", segment={"max_words": 2})
    with pytest.raises(IndexMissing, match="no index at"):
        ClusterIndex.open(tmp_path / "nowhere")
    with pytest.raises(InputError, match="an index cannot be stored there; expected a folder, or one of s3://"):
        ClusterIndex.open("ftp://host/idx")
    with pytest.raises(PhraseIndexError, match="--cluster ADDRESS"):
        opened(place, model).add(documents())
    with pytest.raises(PhraseIndexError, match="--cluster ADDRESS"):
        opened(place, model).begin(model)
    with pytest.raises(InputError, match="is searched by Lance"):
        opened(place, model).optimize(target_recall=0.9)
    with pytest.raises(PhraseIndexError, match="reading only"):
        Index.open(place, readonly=True).delete("0-1.txt")


def test_it_is_served(place: Path, model: FakeModel) -> None:
    with closing(Library([place], threads=1, model=model)) as library:
        (answer,) = library.ask("tables", lambda searcher: searcher.search_all(["on the [[old bank]]"], k=1))
        assert answer.groups[0].text == "old bank"
        build_here(place, [Document.from_texts("new.txt", ["Quite other zebras."])], model)
        sleep(LOOK_SECONDS)
        (answer,) = library.ask("tables", lambda searcher: searcher.search_all(["[[other zebras]]"], k=1))
        assert answer.groups[0].hits[0].document == "new.txt"


@pytest.mark.parametrize("rows", [150, 600])
def test_rows_keep_their_places_when_files_are_put_together(
    tmp_path: Path, model: FakeModel, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    """Lance puts what it rewrites behind files that it leaves as they are: small files between large ones do not move,
    nor what was deleted from a file that the vector index knows and another does not.
    """
    monkeypatch.setattr("phrasemate.index.lance.tables._SMALL_ROWS", rows)
    monkeypatch.setattr("phrasemate.index.lance.tables.COMPACT_ROWS", 2 * rows)
    place, one = tmp_path / "tables", Index.create(tmp_path / "one", model, settings=SETTINGS, threads=1)
    with one:
        for turn in range(4):
            more = [*documents(2, seed=turn), *documents(1, seed=10, sentences=20 + turn)]  # the last replaces itself
            one.add(more, lang="en")
            build_here(place, more, model)
            if turn:
                one.delete(f"{turn - 1}-0.txt")
                opened(place, model).delete(f"{turn - 1}-0.txt")
            opened(place, model).optimize()
            index = opened(place, model)
            assert index.verify().problems == []
            assert rows_of(index) == rows_of(one)
        sizes = [file.count_rows() for file in index.store.table(PHRASES).get_fragments()]
        assert sum(sizes) == index.stats().phrases
        assert len(sizes) < index.store.layout.head.shards
