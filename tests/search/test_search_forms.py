"""Which wordings are forms of the same words, and so one answer."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from phrasemate import load_model
from phrasemate.answers import group_forms
from phrasemate.candidates import UNLISTED, Candidate, Dictionaries, equivalents
from phrasemate.index import Index
from phrasemate.lexicon import bundled_lexicon, stemmed
from phrasemate.search import Searcher
from phrasemate.types import Document


def are_one_answer(one: str, other: str, language: str) -> bool:
    both = [Candidate(wording, UNLISTED, np.arange(1), 1) for wording in (one, other)]
    groups = group_forms(both, [0, 1], language, 9)
    return groups == [[0, 1]]


@pytest.mark.parametrize(
    ("language", "one", "other"),
    [
        ("fi", "kirja", "kirje"),  # book, letter
        ("it", "soldi", "soldati"),  # money, soldiers
        ("pt", "mãe", "mãos"),  # mother, hands
        ("ru", "друг", "другие"),  # friend, others
        ("sv", "far", "farliga"),  # father, dangerous
        ("tr", "soru", "sorun"),  # question, problem
        ("pl", "kupić", "kupę"),  # buy, heap
        ("uk", "біля", "білі"),  # near, white
        ("bg", "част", "час"),  # part, hour
        ("ar", "ملك", "الملكة"),  # king, the queen
        ("ar", "كتابة", "كتاب"),  # writing, book
        ("ja", "前", "お前"),  # before, you
        ("zh", "我", "我们"),  # I, we
        ("zh", "手", "把手"),  # hand, handle
        ("ko", "파", "파인"),  # leek, fine
        ("fr", "essai clinique", "essais critiques"),  # clinical trial, critical essays
        ("it", "vecchia miniera", "vecchia signora"),  # old mine, old lady
    ],
)
def test_other_words_of_one_stem_or_base_are_two_answers(language: str, one: str, other: str) -> None:
    assert not are_one_answer(one, other, language)


@pytest.mark.parametrize(
    ("language", "one", "other"),
    [
        ("pl", "kraj", "krajów"),  # country
        ("fr", "essai clinique", "essais cliniques"),  # clinical trial; both words change
        ("it", "vecchia miniera", "vecchie miniere"),  # old mine
        ("nl", "wapens", "wapen"),  # weapon
        ("ro", "cartea", "cărți"),  # book
        ("fi", "puuta", "puu"),  # tree
        ("uk", "міста", "місто"),  # city; less reliable endings suffice without a stemmer
        ("uk", "картина", "картину"),  # picture; the lexicon has no common equivalent
        ("bg", "работа", "работи"),  # work
        ("ja", "部屋", "お部屋"),  # room
        ("ja", "医者", "お医者さん"),  # doctor
        ("zh", "孩子", "孩子们"),  # child
        ("zh", "孩子們", "孩子"),
        ("zh", "城市", "座城市"),  # city
        ("zh", "房子", "棟房子"),  # house
        ("zh", "古老", "古老的"),  # old
        ("zh", "死了", "死"),  # die
        ("ko", "변호사는", "변호사인"),  # lawyer
    ],
)
def test_words_with_known_endings_or_affixes_are_one_answer(language: str, one: str, other: str) -> None:
    assert are_one_answer(one, other, language)


def test_words_with_known_endings_without_a_common_meaning_are_two_answers() -> None:
    assert not are_one_answer("armee", "arme", "de")  # army, arms
    assert not are_one_answer("vesi", "vessa", "fi")  # water, toilet


def test_words_with_very_reliable_endings_are_one_answer() -> None:
    assert are_one_answer("фраза", "фразу", "ru")  # phrase; the lexicon has the second as passphrase only


def test_long_words_without_a_common_meaning_need_less_reliable_endings() -> None:
    """Few different words of one stem have many common letters."""
    assert are_one_answer("отделение", "отделения", "ru")  # department; the lexicon has the first as branch and ward
    assert not are_one_answer("bereit", "bereits", "de")  # ready, already: six common letters
    assert not are_one_answer("muchacho", "muchacha", "es")  # boy, girl


def test_accents_that_change_in_the_stem_do_not_separate_forms() -> None:
    assert are_one_answer("pokój", "pokoju", "pl")  # room
    assert are_one_answer("kéz", "kezét", "hu")  # hand
    assert are_one_answer("parle", "parlé", "fr")  # speaks, spoken: the accent is the ending
    assert not are_one_answer("ház", "haza", "hu")  # house, home country


def test_irregular_english_forms_are_one_meaning() -> None:
    assert are_one_answer("kupić", "kupiłem", "pl")  # buy, I bought
    assert are_one_answer("kinder", "kind", "de")  # children, child


def test_unlisted_words_of_one_stem_are_one_answer() -> None:
    assert are_one_answer("quarkbällchen", "quarkbällchens", "de")


def test_an_equivalent_does_not_stand_for_other_words_with_its_stem() -> None:
    forms = ["casa", "casas", "caso", "casos"]  # house, case
    assert {stemmed(form, "es") for form in forms} == {stemmed("casa", "es")}
    table: Any = SimpleNamespace(of_stems=lambda stems: [forms if stem == "cas" else [] for stem in stems])
    lexicon = bundled_lexicon()
    assert lexicon is not None
    listed = equivalents(table, "house", Dictionaries([lexicon], ["es"]), "en")
    assert set(forms).intersection(listed) == {"casa", "casas"}


def test_a_word_with_and_without_an_arabic_proclitic_is_one_answer() -> None:
    assert stemmed("الوزير", "ar") == stemmed("للوزير", "ar")  # the minister, for the minister
    assert are_one_answer("الوزير", "للوزير", "ar")


def test_a_book_and_a_letter_are_two_answers_in_finnish(tmp_path: Path) -> None:
    texts = ["Hän luki kirjan illalla.", "Hän kirjoitti kirjeen äidille.", "Kirja on pöydällä.", "Kirje tuli tänään."]
    with Index.create(tmp_path / "idx", load_model()) as index:
        index.add([Document.from_texts("finnish", texts)], lang="fi")
        results = Searcher(index).search_all(["She read the [[book]].", "He wrote a long [[letter]]."], k=1)
    contexts = [{hit.context for hit in result.groups[0].hits} for result in results]
    assert contexts == [{texts[0], texts[2]}, {texts[1], texts[3]}]
