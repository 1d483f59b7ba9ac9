"""What a search considers: the occurrences in the chosen documents, and the lists of related languages."""

from __future__ import annotations

from pathlib import Path

from phrasemate import load_model
from phrasemate.candidates import Dictionaries
from phrasemate.index import Index
from phrasemate.lexicon import InducedLexicon
from phrasemate.lexicon.induced import Pair, write_lexicon
from phrasemate.search import Searcher
from phrasemate.types import Document


def test_a_filtered_search_answers_as_an_index_of_these_documents(tmp_path: Path) -> None:
    """A word stands once in the document, and hundreds of times elsewhere: before it and after it."""
    model = load_model()
    filler = [f"The nurse left room {number}." for number in range(100)]
    story = ["He left the house.", "They released the news.", "The nurse came late."]
    names = {"a": filler, "b": story, "c": filler}
    queries = ["Er [[verließ]] das Haus.", "Die [[Krankenschwester]] kam."]
    results = []
    for path, documents in (("all", names), ("one", {"b": story})):
        with Index.create(tmp_path / path, model) as index:
            index.add([Document.from_texts(name, texts) for name, texts in documents.items()], lang="en")
            answers = Searcher(index).search_all(queries, k=1, documents=["b"])
            results.append([(one.groups[0].text, one.groups[0].count) for one in answers])
    assert results[0] == results[1] == [("left", 1), ("nurse", 1)]


def test_a_wording_that_its_language_lacks_is_looked_up_in_related_ones(tmp_path: Path) -> None:
    """Spanish is related to Italian, but not to Polish. Every language has loans from English."""
    lists = {
        "es": [Pair("casa", "house", 0.9, 0.9)],
        "it": [Pair("inquilino", "tenant", 0.8, 0.9)],
        "pl": [Pair("affitto", "three", 0.8, 0.9), Pair("invoice", "three", 0.5, 0.9)],
        "de": [Pair("rechnung", "invoice", 0.8, 0.9), Pair("besprechung", "meeting", 0.8, 0.9)],
    }
    write_lexicon(tmp_path / "lexicon", lists)
    lexicon = InducedLexicon(tmp_path / "lexicon")

    def translations(wording: str, language: str, target: str) -> list[str]:
        return [row.text for row in Dictionaries([lexicon], [target]).equivalents(wording, language)]

    assert translations("inquilino", "es", "en") == ["tenant"]
    assert translations("affitto", "es", "en") == []
    assert translations("meeting", "es", "de") == ["besprechung"]
    assert translations("invoice", "en", "de") == ["rechnung"]
    assert translations("three", "en", "es") == translations("tenant", "en", "es") == []
