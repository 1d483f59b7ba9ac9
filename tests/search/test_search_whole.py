"""From text to answers with a real index and a tiny model: the same sentence again is its own best answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import encoders
import numpy as np
import pytest

from phrasemate.encode import Model, load_model
from phrasemate.encode.export.export import export_model
from phrasemate.encode.scoring import Views, alone
from phrasemate.errors import InputError
from phrasemate.index import Index
from phrasemate.search import Searcher
from phrasemate.types import Document


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    base = tmp_path_factory.mktemp("model")
    export_model(encoders.save_xlmr(base / "source"), base / "tiny", project=encoders.SENTENCES * 2, dim=16)
    return load_model(base / "tiny", threads=1)


@pytest.fixture(scope="module")
def index(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    with Index.create(tmp_path_factory.mktemp("search") / "idx", model) as result:
        result.add([Document.from_texts("one", encoders.SENTENCES[:4])], lang="en-GB")
        result.add([Document.from_texts("two", [*encoders.SENTENCES[:1], *encoders.SENTENCES[4:]])], lang="en")
        yield result


def marked(text: str, phrase: str) -> str:
    return text.replace(phrase, f"[[{phrase}]]")


@pytest.mark.parametrize(("number", "phrase"), [(0, "bank"), (1, "read a book"), (3, "old river"), (5, "Bank")])
def test_a_phrase_finds_itself(index: Index, number: int, phrase: str) -> None:
    result = Searcher(index, views=False).search(marked(encoders.SENTENCES[number], phrase), k=3)
    best = result.groups[0]
    assert best.text == phrase
    assert best.score == pytest.approx(1, abs=1e-3)
    assert best.hits[0].context == encoders.SENTENCES[number]
    assert best.hits[0].text == best.hits[0].context[best.hits[0].start : best.hits[0].end] == phrase
    scores = [group.score for group in result.groups]
    assert scores == sorted(scores, reverse=True)
    assert len({group.text.casefold() for group in result.groups}) == len(scores) == 3


@pytest.mark.parametrize(("number", "phrase"), [(0, "bank"), (1, "read a book"), (3, "old river"), (5, "Bank")])
def test_a_phrase_finds_itself_with_views(index: Index, number: int, phrase: str) -> None:
    """Less than 1, as query and hit are mixed in different shares; by the formula, from the stored vector."""
    searcher = Searcher(index)
    assert searcher.views == Views()
    best = searcher.search(marked(encoders.SENTENCES[number], phrase), k=3).groups[0]
    assert best.text == phrase
    hit = next(hit for hit in best.hits if hit.context == encoders.SENTENCES[number])
    in_sentence, by_itself = index.vectors([hit.phrase_id])[0], index.model.encode([alone(hit.phrase)])[0]
    query, result = in_sentence + Views().query * by_itself, in_sentence + Views().hit * by_itself
    cosine = query @ result / (np.linalg.norm(query) * np.linalg.norm(result))
    assert hit.score == pytest.approx(1, abs=1e-3)
    assert best.score == pytest.approx(cosine, abs=2e-3)
    assert 0.9 < cosine < 0.999


def test_the_sentence_in_both_documents_is_shown_once(index: Index) -> None:
    (best,) = Searcher(index).search(marked(encoders.SENTENCES[0], "bank"), k=1).groups
    assert best.count >= 2
    contexts = [hit.context for hit in best.hits]
    assert contexts.count(encoders.SENTENCES[0]) == 1


def test_filters(index: Index) -> None:
    searcher, query = Searcher(index), marked(encoders.SENTENCES[0], "bank")
    for options, document in (({"documents": ["two"]}, "two"), ({"languages": ["ENG-gb"]}, "one")):
        run = searcher.search(query, **options)
        assert {hit.document for group in run.groups for hit in group.hits} == {document}
    with pytest.raises(InputError, match="no document 'three'"):
        searcher.search(query, documents=["three"])
    with pytest.raises(InputError, match="no language 'fr'"):
        searcher.search(query, languages=["fr"])


def test_one_by_one_is_all_at_once(index: Index) -> None:
    searcher = Searcher(index)
    queries = [marked(encoders.SENTENCES[0], "bank"), marked(encoders.SENTENCES[4], "alte Haus")]
    together, alone = searcher.search_all(queries, k=4), [searcher.search(query, k=4) for query in queries]
    for one, other in zip(together, alone, strict=True):
        assert [group.text for group in one.groups] == [group.text for group in other.groups]
        assert [group.score for group in one.groups] == pytest.approx([g.score for g in other.groups], abs=3e-3)  # bf16


def test_without_marks(index: Index, model: Model) -> None:
    text = "The old river."
    results = Searcher(index).search_all([text])
    assert [result.phrase.text for result in results] == [text[s.start : s.end] for s in model.segment([text])[0]]
    assert all(result.groups for result in results)


def test_an_empty_index(model: Model, tmp_path: Path) -> None:
    with Index.create(tmp_path / "idx", model) as empty:
        assert Searcher(empty).search("the [[bank]]").groups == ()
        empty.add([Document.from_texts("a", ["The bank."])])
        assert Searcher(empty).search("the [[bank]]").groups[0].text == "bank"
        empty.delete("a")
        assert Searcher(empty).search("the [[bank]]").groups == ()


def test_parts_of_compounds_with_hyphens_are_not_asked(tmp_path: Path) -> None:
    text = "It began late. Every follow-up needs the co-operation of all. Parlez-vous de musiciens d'avant-garde ?"
    with Index.create(tmp_path / "idx", load_model()) as index:
        phrases = {phrase.text for phrase in Searcher(index).phrases(text)}
    assert phrases >= {"follow-up", "co-operation", "Parlez", "d'avant-garde"}
    assert not any(phrase.startswith(("up", "operation", "vous", "garde")) for phrase in phrases)
    assert not any(phrase.endswith(("follow", "co", "avant")) for phrase in phrases)


def test_a_plain_sentence_is_asked_for_its_phrases(tmp_path: Path) -> None:
    """The README's query without marks; a threshold that the bundled model hardly ever reaches would find none."""
    bundled = load_model(threads=1)
    with Index.create(tmp_path / "idx", bundled) as index:
        phrases = Searcher(index).phrases("Wir hielten eine Schweigeminute ab.")
    assert "Schweigeminute" in {phrase.text for phrase in phrases}


def test_no_phrase_of_a_plain_text_spans_two_sentences(tmp_path: Path) -> None:
    text = "Okay, bye. See you tomorrow. The meeting was long."
    with Index.create(tmp_path / "idx", load_model(threads=1)) as index:
        phrases = Searcher(index).phrases(text)
    assert {phrase.context for phrase in phrases} == {text}
    assert {"bye", "tomorrow", "meeting"} <= {phrase.text for phrase in phrases}
    assert not [phrase.text for phrase in phrases if ". " in phrase.text]
