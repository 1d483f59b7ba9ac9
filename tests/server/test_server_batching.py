"""One model and one searcher for many threads: the same answers, fewer passes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
from index_fakes import vector_of
from server_fakes import FakeModel

from phrasemate import Document, Index, Searcher
from phrasemate.errors import InputError, PhrasemateError
from phrasemate.results import Answer, SearchRequest
from phrasemate.server.batching import PHRASES_TOGETHER, SharedModel, SharedSearcher
from phrasemate.types import Phrase

TEXT = "Er sitzt auf der Bank"


@pytest.fixture
def shared(model: FakeModel) -> SharedModel:
    return SharedModel(model)


def phrase(text: str, word: str) -> Phrase:
    return Phrase(text, text.index(word), text.index(word) + len(word))


def test_vectors_are_those_of_the_model(shared: SharedModel, model: FakeModel) -> None:
    phrases = [phrase(TEXT, "Bank"), phrase(TEXT, "sitzt"), phrase("eine Bank", "eine"), phrase(TEXT, "Bank")]
    expected = np.stack([vector_of(item.text, 16) for item in phrases])
    assert np.array_equal(shared.encode(phrases), expected)
    assert np.array_equal(shared.encode_sentences(["a", "b"]), np.stack([vector_of("a", 16), vector_of("b", 16)]))
    assert shared.encode([]).shape == (0, 16)
    assert shared.encode_sentences([]).shape == (0, 16)
    assert shared.name == model.name


def test_what_was_encoded_is_kept(shared: SharedModel, model: FakeModel) -> None:
    shared.encode([phrase(TEXT, "Bank")])
    again = shared.encode([phrase(TEXT, "Bank"), phrase(TEXT, "der")])
    assert model.passes == [1, 1]  # the second time for "der" only
    assert np.array_equal(again[0], vector_of("Bank", 16))


def test_what_segment_finds_needs_no_encoder(shared: SharedModel, model: FakeModel) -> None:
    spans = shared.segment([TEXT])[0]
    vectors = shared.encode([Phrase(TEXT, span.start, span.end) for span in spans])
    assert shared.segment([TEXT]) == [spans]
    assert model.passes == [1]
    assert np.array_equal(vectors, np.stack([vector_of(TEXT[span.start : span.end], 16) for span in spans]))


def test_a_threshold_keeps_nothing(shared: SharedModel, model: FakeModel) -> None:
    shared.segment([TEXT], threshold=0.0)
    shared.encode([phrase(TEXT, "Bank")])
    assert model.passes == [1, 1]


def test_another_pooling_is_another_vector(shared: SharedModel, model: FakeModel) -> None:
    shared.encode([phrase(TEXT, "Bank")])
    shared.encode([phrase(TEXT, "Bank")], "ends")
    shared.encode([phrase(TEXT, "Bank")], "mean")  # the model's own
    assert model.passes == [1, 1]


def test_what_comes_together_is_encoded_together(shared: SharedModel, model: FakeModel) -> None:
    model.gate.clear()
    texts = [f"Satz {number}" for number in range(6)]
    with ThreadPoolExecutor(6) as pool:
        first = pool.submit(shared.encode, [phrase(texts[0], "Satz")])
        assert model.entered.wait(10)  # one is in the encoder; the others wait
        others = [pool.submit(shared.encode, [phrase(text, "Satz")]) for text in texts[1:]]
        while shared.batches.calls < 6:
            pass
        model.gate.set()
        results = [future.result(10) for future in (first, *others)]
    assert model.passes == [1, 5]
    assert (shared.batches.calls, shared.batches.passes) == (6, 2)
    assert all(np.array_equal(vectors, [vector_of("Satz", 16)]) for vectors in results)


def test_one_that_fails_does_not_take_others_with_it(shared: SharedModel, model: FakeModel) -> None:
    model.gate.clear()
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(shared.encode, [phrase("a", "a")])
        assert model.entered.wait(10)
        bad = pool.submit(shared.encode, [phrase("boom", "boom")])
        good = pool.submit(shared.encode, [phrase("good", "good")])
        while shared.batches.calls < 3:
            pass
        model.gate.set()
        first.result(10)
        assert np.array_equal(good.result(10), [vector_of("good", 16)])
        with pytest.raises(ValueError, match="boom"):
            bad.result(10)


def test_much_text_is_done_in_slices(shared: SharedModel, model: FakeModel) -> None:
    texts = [chr(97 + number) * 900 for number in range(8)]  # 900 characters each: three reach 2,000
    shared.encode_sentences(texts)
    assert model.passes == [3, 3, 2]


def test_a_query_goes_before_the_rest_of_a_document(shared: SharedModel, model: FakeModel) -> None:
    model.gate.clear()
    events: list[str] = []

    def expect(name: str, later: bool) -> None:
        shared.batches.do(name, lambda items: events.extend(items) or items, [name], 1, later)

    with ThreadPoolExecutor(4) as pool:
        pool.submit(shared.encode, [phrase("a", "a")])
        assert model.entered.wait(10)
        for number, (name, later) in enumerate([("chapter 1", True), ("chapter 2", True), ("query", False)], 2):
            pool.submit(expect, name, later)
            while shared.batches.calls < number:
                pass
        model.gate.set()
    assert events == ["chapter 1", "query", "chapter 2"]  # once the oldest, once the query


def test_token_states_come_in_slices_too(shared: SharedModel) -> None:
    texts = [chr(97 + number) * 900 for number in range(8)]
    items = list(shared.runtime.blocks(texts))
    assert [(part.start, part.stop) for part, _ in items] == [(0, 3), (3, 6), (6, 8)]
    vectors = np.concatenate([states.values for _, states in items])
    assert np.array_equal(vectors, [vector_of(text, 16) for text in texts])


def test_the_oldest_is_forgotten(model: FakeModel) -> None:
    shared = SharedModel(model, vectors=6)  # a text with one vector counts 2: three fit
    for text in ("a", "b", "c", "a", "d"):  # "b" has been asked about longest ago
        shared.encode([phrase(text, text)])
    before = len(model.passes)
    shared.encode([phrase("a", "a")])
    assert len(model.passes) == before
    shared.encode([phrase("b", "b")])
    assert len(model.passes) == before + 1


def test_after_close_there_is_an_error(shared: SharedModel) -> None:
    shared.close()
    with pytest.raises(PhrasemateError, match="stopping"):
        shared.encode([phrase("a", "a")])


def texts_of(answers: list[Answer]) -> list[list[str]]:
    return [[group.text for group in groups] for groups, _ in answers]


def test_searches_that_wait_are_done_together(tmp_path: Path, model: FakeModel) -> None:
    texts = [f"Satz {number} auf der Bank" for number in range(6)]
    phrases = [phrase(text, "Bank") for text in texts]
    with Index.create(tmp_path / "idx", model) as index:
        index.add([Document.from_texts("story", ["the bank", "a bench"])])
        alone = Searcher(index, model, views=False)
        shared = SharedSearcher(index, SharedModel(model), views=False)
        sizes: list[int] = []
        gate = Event()

        def nearest(vectors: Any, *arguments: Any) -> Any:
            sizes.append(len(vectors))
            assert gate.wait(10)
            return plain(vectors, *arguments)

        plain, index.nearest = index.nearest, nearest  # type: ignore[method-assign]
        with ThreadPoolExecutor(6) as pool:
            answers = [pool.submit(shared.search_phrases, [one], SearchRequest(2)) for one in phrases[:1]]
            while not sizes:
                pass
            answers += [pool.submit(shared.search_phrases, [one], SearchRequest(2)) for one in phrases[1:5]]
            while shared.batches.calls < 5:
                pass
            answers.append(pool.submit(shared.search_phrases, phrases[5:], SearchRequest(1)))
            while shared.batches.calls < 6:
                pass
            gate.set()
            results = [answer.result(10) for answer in answers]
        assert sizes == [1, 4, 1]
        expected = [alone.search_phrases([one], SearchRequest(2)) for one in phrases[:5]]
        expected.append(alone.search_phrases(phrases[5:], SearchRequest(1)))
        assert list(map(texts_of, results)) == list(map(texts_of, expected))
        many = phrases * PHRASES_TOGETHER
        assert shared.search_phrases(many, SearchRequest(2)) == alone.search_phrases(many, SearchRequest(2))
        with pytest.raises(InputError, match="absent"):
            shared.search_phrases(phrases, SearchRequest(2, documents=["absent"]))
        shared.close()


def test_a_separable_verb_is_encoded_once(tmp_path: Path, model: FakeModel) -> None:
    with Index.create(tmp_path / "idx", model) as index:
        index.add([Document.from_texts("story", ["He took part."])])
        shared = SharedSearcher(index, SharedModel(model), views=False)
        before = len(model.passes)
        shared.search_phrases([phrase("Er nahm gestern teil.", "nahm")], SearchRequest(1))
        assert model.passes[before:] == [1]
        shared.close()
