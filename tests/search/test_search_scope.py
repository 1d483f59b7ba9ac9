"""What a search considers: the occurrences in the chosen documents, and the lists of related languages."""

from __future__ import annotations

from pathlib import Path

import pytest

from phrasemate import load_model
from phrasemate.candidates import Dictionaries
from phrasemate.concordance import column
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


TEXTS = {
    "en": ["She sat on the bench in the park.", "The bank lends money.", "He went to the river."],
    "de": ["Sie saß auf der Bank im Park.", "Die Rechnung ist bezahlt.", "Er ging zum Fluss."],
    "fr": ["Elle est assise sur le banc du parc.", "La facture est payée.", "Il est allé à la rivière."],
}
QUERIES = ["Er sitzt auf der [[Bank]] im Park.", "Elle est allée à la [[rivière]].", "He sits on the [[bench]]."]


def test_an_index_of_several_languages_answers_as_one_of_each_without_the_query_s_own(tmp_path: Path) -> None:
    model = load_model()
    answers_of = {}
    for name, languages in {"all": [*TEXTS], **{language: [language] for language in TEXTS}}.items():
        with Index.create(tmp_path / name, model) as index:
            for language in languages:
                index.add([Document.from_texts(language, TEXTS[language])], lang=language)
            results = Searcher(index).search_all(QUERIES, k=4)
            answers_of[name] = [
                [(group.text, group.hits[0].language, round(group.probability or 0, 3)) for group in result.groups]
                for result in results
            ]
            if name == "all":
                confidences = [result.confidence for result in results]
                by_votes = Searcher(index, views=False).search_all(QUERIES)
                with_german = Searcher(index).search_all(QUERIES[:1], k=1, languages=["de", "en"])
                in_document = Searcher(index).search_all(QUERIES[:1], k=1, documents=["fr"])
    for number, others in enumerate([("en", "fr"), ("en", "de"), ("de", "fr")]):
        expected = sorted((row for name in others for row in answers_of[name][number]), key=lambda row: -row[2])[:4]
        assert answers_of["all"][number] == expected
        assert round(confidences[number] or 0, 3) == expected[0][2]
    assert [answers[0][0] for answers in answers_of["all"]] == ["bench", "river", "banc"]
    languages_of = [{group.hits[0].language for group in result.groups} for result in by_votes]
    assert languages_of == [{"en", "fr"}, {"en", "de"}, {"de", "fr"}]
    assert with_german[0].groups[0].text == "Bank"
    assert in_document[0].groups[0].text == "banc"


@pytest.mark.parametrize("views", [True, False])
def test_answers_without_sentences_have_a_language(views: bool, tmp_path: Path) -> None:
    with Index.create(tmp_path / "idx", load_model()) as index:
        for language, text in (("en", "She sat on the bench."), ("fr-CA", "Elle était assise sur le banc.")):
            index.add([Document.from_texts(language, [text])], lang=language)
        result = Searcher(index, views=views).search("Er sitzt auf der [[Bank]].", k=2, contexts=0)
    expected = [("banc", "fr-CA"), ("bench", "en")]
    assert sorted((group["text"], group["language"]) for group in result.as_dict()["groups"]) == expected
    candidates = column("idx", result).candidates
    assert sorted((candidate.text, candidate.language) for candidate in candidates) == expected


def test_an_abbreviation_keeps_its_last_full_stop(tmp_path: Path) -> None:
    with Index.create(tmp_path / "index", load_model()) as index:
        index.add([Document.from_texts("a", ["He lives in the U.S. with his wife.", "She sold her farm."])], lang="en")
        group = Searcher(index).search("Er lebt in den [[USA]].", k=1).groups[0]
    assert (group.text, group.hits[0].context[group.hits[0].end :]) == ("U.S.", " with his wife.")


def test_an_elided_word_is_not_part_of_an_answer(tmp_path: Path) -> None:
    """Of "accord", the text has only forms with an elided word. "D'accord" is listed for "okay", but not "accord"."""
    texts = ["Le feu et l'eau.", "Elle boit de l’eau.", "On manque d'eau.", "D'accord, je viens.", "Pas d'accord."]
    texts += ["L'élève lit un livre."]
    with Index.create(tmp_path / "french", load_model()) as index:
        index.add([Document.from_texts("french", texts)], lang="fr")
        queries = ["The [[water]] is cold.", "[[Okay]], let us go.", "The [[pupil]] reads."]
        water, okay, pupil = (answer.groups for answer in Searcher(index).search_all(queries, k=20))
    assert (water[0].text, water[0].count) == ("eau", 3)
    assert sorted(hit.phrase.context[hit.start - 2 : hit.end] for hit in water[0].hits) == ["d'eau", "l'eau", "l’eau"]
    assert (okay[0].text, okay[0].count) == ("d'accord", 2)
    assert (pupil[0].text, pupil[0].count) == ("élève", 1)
    assert "accord" not in [group.text for group in okay]


def test_each_form_of_an_answer_is_marked_and_counted_once(tmp_path: Path) -> None:
    """For "data", "des informations" is listed. Its article is marked before "informations" there alone."""
    texts = ["Il demande des informations sur le prix.", "Les informations sont fausses."]
    texts.append("Nos informations viennent de Paris.")
    with Index.create(tmp_path / "french", load_model()) as index:
        index.add([Document.from_texts("french", texts)], lang="fr")
        group = Searcher(index).search("Please give me your [[data]].").groups[0]
    assert [hit.text for hit in group.hits] == ["des informations", "informations", "informations"]
    assert group.count == len(texts)
