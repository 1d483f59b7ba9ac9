"""The spelling in which a search shows a wording that the index has with and without a capital."""

from __future__ import annotations

from pathlib import Path

import pytest

from phrasemate import Document, Index, load_model
from phrasemate.answers import SPELLINGS, whole_verb, whole_words
from phrasemate.results import usual_spelling
from phrasemate.search import Searcher
from phrasemate.types import Hit, Phrase

TEXTS = [
    "Tenant pays the rent.",
    "Tenant: he pays the rent on time.",
    "TENANT",
    "The rent that the tenant pays is high.",
    "Every tenant has a key to the house.",
]


def hits_of(word: str, contexts: list[str], language: str) -> list[Hit]:
    starts = [context.casefold().index(word) for context in contexts]
    phrases = [Phrase(context, at, at + len(word)) for context, at in zip(contexts, starts, strict=True)]
    return [Hit(phrase, 0.5, "a.txt", 1, language) for phrase in phrases]


@pytest.mark.parametrize(
    ("word", "contexts", "expected"),
    [
        ("tenant", ["Tenant pays.", "Tenant left.", "The tenant paid."], "tenant"),
        ("monday", ["on Monday", "on a monday", "since Monday"], "Monday"),
        ("köln", ["KÖLN", "KÖLN", "In Köln."], "Köln"),
        ("rent", ["HOW MUCH RENT", "THE RENT", "The rent rose."], "rent"),
        ("court", ["Court is adjourned.", "COURT", "Court sat."], "Court"),
        ("essen", ["Das Essen kam.", "Das Essen war gut.", "Wir essen."], "Essen"),
        ("essen", ["Essen Sie?", "Essen Sie!", "Wir essen."], "essen"),
        ("東京", ["東京へ", "東京で"], "東京"),
    ],
)
def test_the_spelling_is_that_within_sentences(word: str, contexts: list[str], expected: str) -> None:
    assert usual_spelling([(hit.phrase, hit.score) for hit in hits_of(word, contexts, "")]) == expected


def test_hits_near_the_query_count_more() -> None:
    """Two occurrences of the verb (1.26 together) outweigh three of the month (0.49)."""
    phrases = [hit.phrase for hit in hits_of("may", ["You may go.", "It may rain.", *["in May"] * 3], "en")]
    assert usual_spelling(list(zip(phrases, [0.8, 0.46, 0.19, 0.18, 0.12], strict=True))) == "may"


def test_a_rare_small_letter_does_not_decide(tmp_path: Path) -> None:
    texts = [*(f"The shop {verb} on Monday." for verb in ("opens", "closes", "moves")), "He wrote it on a monday."]
    with Index.create(tmp_path / "idx", load_model()) as index:
        index.add([Document.from_texts("shop", texts)], lang="en")
        results = [Searcher(index, views=views).search("Er kommt am [[Montag]].", k=1) for views in (True, False)]
    assert [result.groups[0].text for result in results] == ["Monday", "Monday"]


@pytest.mark.parametrize("views", [True, False])
def test_the_nearest_hit_does_not_decide_at_the_beginning_of_a_sentence(views: bool, tmp_path: Path) -> None:
    texts = ["Tenant pays the rent.", "We saw the dog of a tenant in the garden."]
    with Index.create(tmp_path / "idx", load_model()) as index:
        index.add([Document.from_texts("lease", texts)], lang="en")
        group = Searcher(index, views=views).search("[[Mieter]] zahlt die Miete.", k=1).groups[0]
    assert (group.text, group.hits[0].text) == ("tenant", "Tenant")


@pytest.mark.parametrize(
    ("word", "contexts", "expected"),
    [
        ("profit", ["A non-profit firm."], ["non-profit"]),
        ("profit", ["A non-profit firm.", "The profit fell."], ["profit", "profit"]),  # the free-standing one first
        ("passers", ["The passers-by stopped.", "Some passers\u2011by."], ["passers-by", "passers\u2011by"]),
        ("profit", ["A non-profit firm.", "NON-PROFIT"], ["non-profit", "NON-PROFIT"]),
        ("date", ["An out-of-date list."], ["out-of-date"]),
        ("ray", ["An X-ray-like picture."], ["X-ray-like"]),
        ("bank", ["the bank - a big one", "bank -", "- bank"], ["bank", "bank", "bank"]),
        ("covid", ["Covid-19 spread."], ["Covid"]),
        ("विषाणु", ["वह विषाणु-विज्ञान पढ़ती है।"], ["विषाणु-विज्ञान"]),
        ("पिता", ["माता-पिता आए।"], ["माता-पिता"]),
    ],
)
def test_a_part_of_a_hyphenated_word_is_shown_as_the_whole(word: str, contexts: list[str], expected: list[str]) -> None:
    hits = whole_words(hits_of(word, contexts, "en"))
    assert [hit.text for hit in hits] == expected
    assert sorted(hit.context for hit in hits) == sorted(contexts)
    if len(contexts) == 2 and expected[0] == word:
        assert hits[0].context == contexts[1]


def test_a_part_of_different_hyphenated_words_is_shown_by_itself() -> None:
    hits = hits_of("sud", ["Vers le sud-est.", "Le Sud-Ouest.", "Au Kordofan-Sud."], "fr")
    assert whole_words(hits) == hits


def test_the_parts_of_a_hyphenated_word_are_one_answer(tmp_path: Path) -> None:
    """The index has the phrases "ci-dessous" and "dessous"."""
    texts = ["Voir la liste ci-dessous.", "Le tableau ci-dessous montre les prix."]
    with Index.create(tmp_path / "idx", load_model()) as index:
        index.add([Document.from_texts("french", texts)], lang="fr")
        result = Searcher(index).search("See the list [[below]].", k=20)
    answers = [group.text for group in result.groups]
    assert (answers[0], answers.count("ci-dessous")) == ("ci-dessous", 1)
    assert result.confidence == result.groups[0].probability


def test_inflected_forms_do_not_decide_the_spelling(tmp_path: Path) -> None:
    texts = ["The tenant pays the rent.", "All TENANTS pay.", "Both TENANTS pay.", "Some TENANTS pay the rent."]
    with Index.create(tmp_path / "idx", load_model()) as index:
        index.add([Document.from_texts("lease", texts)], lang="en")
        group = Searcher(index).search("Der [[Mieter]] zahlt die Miete.", k=1).groups[0]
    assert (group.text, group.count) == ("tenant", 4)


def test_the_spelling_does_not_depend_on_the_contexts(tmp_path: Path) -> None:
    with Index.create(tmp_path / "idx", load_model()) as index:
        index.add([Document.from_texts("lease", TEXTS)], lang="en")
        searcher = Searcher(index)
        results = {count: searcher.search("Der [[Mieter]] zahlt.", contexts=count) for count in (0, 1, 5, 9)}
    assert len(TEXTS) == SPELLINGS
    for count, result in results.items():
        group = next(group for group in result.groups if group.text.casefold() == "tenant")
        assert group.text == "tenant"
        assert len(group.hits) == min(count, len(TEXTS))


@pytest.mark.parametrize(
    ("word", "contexts", "equivalents", "expected"),
    [
        ("lehnte", ["Er lehnte es ab.", "Sie lehnte gestern ab.", "Sie lehnte an der Wand."], (), ("ablehnen", [0, 1])),
        ("lehnte", ["Er lehnte es ab.", "Sie lehnte an der Wand."], (), ("", [0, 1])),  # not more than half
        ("trat", ["Er trat ein.", "Er trat ein.", "Er trat zurück."], ("zurücktreten",), ("zurücktreten", [2])),
        ("trat", ["Er trat an die Tür.", "Er trat zurück."], ("zurücktreten",), ("", [0, 1])),  # the nearest is another
        ("trat", ["Er trat ein.", "Er trat vor.", "Er trat zurück."], (), ("", [0, 1, 2])),
        ("bank", ["Er nahm die Bank an.", "Die Bank."], ("annehmen",), ("", [0, 1])),
    ],
)
def test_a_finite_form_of_a_separable_verb_is_shown_as_the_infinitive(
    word: str, contexts: list[str], equivalents: tuple[str, ...], expected: tuple[str, list[int]]
) -> None:
    verb, hits = whole_verb(hits_of(word, contexts, "de"), equivalents.__contains__)
    assert (verb, [hit.context for hit in hits]) == (expected[0], [contexts[number] for number in expected[1]])


def test_an_answer_is_the_separable_verb_that_translates_the_query(tmp_path: Path) -> None:
    texts = ["Der Minister trat gestern zurück.", "Der Minister trat in das Zimmer ein.", "Der Hund schläft im Garten."]
    with Index.create(tmp_path / "idx", load_model()) as index:
        index.add([Document.from_texts("german", texts)], lang="de")
        group = Searcher(index).search("The minister [[resigned]].", k=1).groups[0]
    assert (group.text, [hit.context for hit in group.hits]) == ("zurücktreten", texts[:1])


def test_a_verb_without_its_particle_stays_an_answer(tmp_path: Path) -> None:
    texts = ["Wir können Kaffee anbieten.", "Das Hotel bietet Kaffee an.", "Das Hotel bietet einen Blick auf das Meer."]
    with Index.create(tmp_path / "idx", load_model()) as index:
        index.add([Document.from_texts("german", texts)], lang="de")
        results = Searcher(index).search_all(["The hotel [[offers]] a view of the sea.", "We can [[offer]] coffee."])
    views, coffee = ({group.text: [hit.context for hit in group.hits] for group in one.groups} for one in results)
    assert views["bietet"] == [texts[2], texts[1]]  # the nearest is not "anbieten"
    assert (coffee["anbieten"], coffee["bietet"]) == ([texts[0]], [texts[2]])
