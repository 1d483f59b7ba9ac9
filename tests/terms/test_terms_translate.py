"""Candidate translations of terms: by which vector they are searched, and what comes with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from phrasemate.encode import Model
from phrasemate.encode.scoring import Views
from phrasemate.errors import InputError
from phrasemate.index import Index
from phrasemate.results import SearchRequest
from phrasemate.search import Searcher
from phrasemate.terms import DocumentTerm, Occurrence, TermSettings, document_terms, representative, translate_terms
from phrasemate.types import Document, Phrase

GERMAN = Document.from_texts(
    "de.txt",
    [
        "Die Netzwerkkarte braucht eine Firmware.",
        "Ohne Firmware startet die Netzwerkkarte nicht.",
        "Der Rechner startet von der Festplatte.",
    ],
)


def term(*marked: tuple[str, str, float]) -> DocumentTerm:
    """(sentence, phrase in it, belief) for each occurrence."""
    places = [
        Occurrence(Phrase(text, text.index(part), text.index(part) + len(part)), "d", line, score)
        for line, (text, part, score) in enumerate(marked, 1)
    ]
    return DocumentTerm(marked[0][1], 1.0, len(places), places=tuple(places))


def test_a_term_finds_its_equivalent_with_evidence(index: Index) -> None:
    records: list[str] = []
    terms = document_terms(GERMAN, Searcher(index), progress=lambda what, result, total: records.append(what))
    best = {entry.text: entry.groups[0] for entry in terms}
    assert best["Netzwerkkarte"].text == "network card"
    assert best["Firmware"].text == "firmware"
    assert best["Festplatte"].text in ("hard disk", "disk")
    assert {hit.document for hit in best["Netzwerkkarte"].hits} == {"one.txt", "two.txt"}
    for item in terms:
        assert 1 <= len(item.groups) <= 5
        assert all(len(group.hits) <= 3 for group in item.groups)
    assert list(dict.fromkeys(records)) == ["finding phrases", "encoding terms", "searching"]


def test_it_is_searched_by_the_mean_vector_of_its_occurrences(index: Index, model: Model) -> None:
    calls: list[np.ndarray] = []

    class Noting(Searcher):
        def search_vectors(self, vectors: Any, *rest: Any) -> Any:
            calls.append(vectors)
            return super().search_vectors(vectors, *rest)

    one = term(("Der Kernel startet.", "Kernel", 0.9), ("Ein neuer Kernel ist da.", "Kernel", 0.8))
    translate_terms([one], Noting(index), TermSettings(examples=2))
    states = [(model.encode([place.phrase])[0]) for place in one.places]
    mean = np.mean(states, axis=0)
    assert calls[0].shape == (1, model.dim)
    assert calls[0][0] @ (mean / np.linalg.norm(mean)) > 0.99  # here before, there after unit length
    assert calls[0][0] @ states[0] < 0.999
    translate_terms([one], Noting(index), TermSettings(examples=1))
    assert calls[1][0] @ states[0] == pytest.approx(1, abs=1e-3)


def test_vectors_are_answered_as_queries_are(index: Index, model: Model) -> None:
    query = "Die [[Netzwerkkarte]] braucht eine Firmware."
    one = term((query.replace("[", "").replace("]", ""), "Netzwerkkarte", 1.0))
    searcher = Searcher(index, views=False)
    (results,) = translate_terms([one], searcher, TermSettings(k=4, contexts=2))
    result = searcher.search(query, k=4, contexts=2)
    assert [group.text for group in results.groups] == [group.text for group in result.groups]
    assert [g.score for g in results.groups] == pytest.approx([g.score for g in result.groups], abs=1e-3)
    assert (results.confidence is None) == (result.confidence is None)


def test_hits_are_looked_at_again_as_those_of_a_search_are(index: Index) -> None:
    """With the phrase alone on both sides; a searcher without views does not."""
    query = "Die [[Netzwerkkarte]] braucht eine Firmware."
    one = term((query.replace("[", "").replace("]", ""), "Netzwerkkarte", 1.0))
    for views in (Views(query=0.2, hit=0.5), Views(query=2.0, hit=3.0)):
        searcher = Searcher(index, views=views)
        (results,) = translate_terms([one], searcher, TermSettings(k=4, contexts=2))
        result = searcher.search(query, k=4, contexts=2)
        assert [group.text for group in results.groups] == [group.text for group in result.groups]
        supports = [group.support for group in result.groups]
        assert [group.support for group in results.groups] == pytest.approx(supports, abs=1e-3)
        (plain,) = translate_terms([one], Searcher(index, views=False))
        assert plain.groups[0].score == pytest.approx(plain.groups[0].hits[0].score)


def test_the_most_believed_occurrences_of_different_sentences_stand_for_a_term() -> None:
    one = term(("a disk.", "disk", 0.2), ("the disk!", "disk", 0.9), ("the disk!", "disk", 0.1), ("disk", "disk", 0.5))
    assert [phrase.context for phrase in representative(one, 2)] == ["the disk!", "disk"]
    assert [phrase.context for phrase in representative(one, 9)] == ["the disk!", "disk", "a disk."]


def test_a_term_without_places_is_searched_by_its_wording(index: Index) -> None:
    (term,) = translate_terms([DocumentTerm("Netzwerkkarte", 1.0, 0)], Searcher(index))
    assert term.groups[0].text == "network card"


def test_only_some_of_the_index(index: Index) -> None:
    one = term(("Die Netzwerkkarte braucht eine Firmware.", "Netzwerkkarte", 1.0))
    for choice, name in (({"documents": ["two.txt"]}, "two.txt"), ({"languages": ["en-GB"]}, "two.txt")):
        (result,) = translate_terms([one], Searcher(index), **choice)  # type: ignore[arg-type]
        assert {hit.document for group in result.groups for hit in group.hits} == {name}
    with pytest.raises(InputError, match="no language 'fr'"):
        translate_terms([one], Searcher(index), languages=["fr"])


def test_no_terms(index: Index) -> None:
    assert translate_terms([], Searcher(index)) == []


def test_as_json(index: Index) -> None:
    one = term(("Die Netzwerkkarte ist da.", "Netzwerkkarte", 0.9), ("Netzwerkkarte", "Netzwerkkarte", 0.8))
    (result,) = translate_terms([one], Searcher(index), TermSettings(k=1, contexts=1))
    record = result.as_dict(contexts=1)
    (place,) = record["places"]
    assert place["context"][place["start"] : place["end"]] == "Netzwerkkarte"
    assert (place["document"], place["line"]) == ("d", 1)
    assert record["groups"][0]["text"] == "network card"
    assert len(result.as_dict(None)["places"]) == 2


def test_senseless_numbers(index: Index, model: Model) -> None:
    with pytest.raises(InputError, match="k 0 and contexts 1"):
        Searcher(index).search_vectors(np.ones((1, model.dim), np.float32), SearchRequest(k=0, contexts=1))


def test_what_progress_raises_stops_the_work(index: Index) -> None:
    class Enough(Exception):
        pass

    def stop(what: str, number: int, total: int) -> None:
        if what == "encoding terms":
            raise Enough

    with pytest.raises(Enough):
        document_terms(GERMAN, Searcher(index), progress=stop)
