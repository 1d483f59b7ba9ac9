"""Wordings that differ in inflection or leading function words have the same stemmed form."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from phrasemate.lexicon import stemmed, stemmed_all, without_function_words
from phrasemate.lexicon.forms import are_inflections
from phrasemate.lexicon.inflection import compound, same_words
from phrasemate.text import folded
from phrasemate.text.languages import language_code, languages_in


@pytest.mark.parametrize(
    ("lang", "one", "other"),
    [
        ("en", "bench", "The  benches"),
        ("en", "to build", "building"),
        ("de", "Bank", "die Bänke"),
        ("de", "sich erinnern", "erinnere"),
        ("de-AT", "Haus", "Häuser"),
        ("fr", "eau", "L’eau"),
        ("fr", "maison", "les maisons"),
        ("it", "amico", "l'amico"),
        ("cs", "dům", "DŮM"),
        ("ru", "книга", "книги"),
        ("pl", "uczyć się", "uczyć się"),
        ("ja", "追って", "追って"),
        ("xx", "Tree", "tree"),
    ],
)
def test_equal_forms(lang: str, one: str, other: str) -> None:
    assert stemmed(one, lang) == stemmed(other, lang)


@pytest.mark.parametrize(("lang", "one", "other"), [("en", "bench", "bank"), ("de", "Haus", "Maus"), ("", "a", "b")])
def test_different_forms(lang: str, one: str, other: str) -> None:
    assert stemmed(one, lang) != stemmed(other, lang)


def test_function_words_alone_stay() -> None:
    assert without_function_words("The", "en") == "the"
    assert without_function_words("to the end of the day", "en") == "end of the day"
    assert without_function_words("to the end", "de") == "to the end"


@pytest.mark.parametrize(
    ("lang", "one", "other", "same", "inflected"),
    [
        ("en", "bench", "benches", True, True),
        ("en", "the city", "the cities", True, True),
        ("en", "exciting", "excited", False, True),
        ("en", "judge", "judging", False, True),
        ("en", "stop", "stopped", False, True),
        ("en", "die", "dying", False, True),
        ("en", "carry out", "carried out", False, True),
        ("en", "the enforced rules", "enforces rule", False, True),
        ("en", "witness", "wit's", False, False),
        ("en", "evidence", "evidently", False, False),
        ("en", "sudden", "suddenness", False, False),
        ("en", "new enforcement", "new enforcer", False, False),
        ("en-GB", "new univers", "new university", False, False),
        ("sv", "exciting", "excited", True, True),  # unlisted words: the stems decide
        ("fr", "élève", "élevé", False, False),
        ("fr", "élèves", "élevées", False, False),
        ("fr", "élever", "élevé", True, True),
        ("fr", "élevés", "élevée", True, True),
        ("fr", "l'assurance", "assurances", True, True),
        ("fr", "assurance", "assuré", False, True),
        ("fr-CA", "les étudiants", "étudié", False, False),
        ("fr", "complet", "complètes", True, True),
        ("fr", "prix loyal", "prix loyaux", True, True),
        ("fr", "taux élevé", "taux élève", False, True),
        ("it", "assicurazione", "assicurato", False, False),
        ("it", "assicurazione", "assicurazioni", True, True),
        ("de", "könig", "königlich", False, False),
        ("de", "vater", "väter", True, True),
        ("de", "haus", "häusern", True, True),
        ("", "haus", "häuser", True, True),
    ],
)
def test_words_with_one_stem_are_not_all_forms_of_one_word(
    lang: str, one: str, other: str, same: bool, inflected: bool
) -> None:
    assert same_words(one, other, lang) == same_words(other, one, lang) == same
    assert are_inflections(one, other, lang) == are_inflections(other, one, lang) == inflected


def test_threads_have_stemmers_of_their_own() -> None:
    words = [f"benches{number}s benches" for number in range(500)]
    with ThreadPoolExecutor(4) as pool:
        for forms in pool.map(lambda _: stemmed_all(words, "en"), range(8)):
            assert forms == stemmed_all(words, "en")


@pytest.mark.parametrize("lang", ["en", "de-AT", "fr", "ja", ""])
def test_many_wordings_are_stemmed_as_one_is(lang: str) -> None:
    wordings = [
        "The Benches",
        "l'Échelle  des coûts",
        "sich die Häuser",
        "(benches)",
        "の犬",
        "\ud800 benches",
        "—",
        "",
    ]
    assert stemmed_all(wordings, lang) == [stemmed(wording, lang) for wording in wordings]
    assert stemmed_all(map(folded, wordings), lang, are_folded=True) == stemmed_all(wordings, lang)


def test_languages_by_name_and_code() -> None:
    assert language_code("German") == "de"
    assert language_code("pt-BR") == "pt-BR"
    assert language_code("deu") == "de"
    assert language_code("notes") == language_code("Note") == language_code("") == ""
    own_names = {"Français": "fr", "ελληνικά": "el", "中文": "zh", "العربية": "ar", "norsk": "no", "Bahasa Melayu": ""}
    assert {name: language_code(name) for name in own_names} == own_names
    other_names = {"Griechisch": "el", "grec": "el", "griego": "el", "chinois": "zh", "Türkisch": "tr", "turc": "tr"}
    assert {name: language_code(name) for name in other_names} == other_names
    assert languages_in("freedict-eng-deu.index") == ("en", "de")
    assert languages_in("German_to_English.tsv") == ("de", "en")
    assert languages_in("Deutsch-Englisch.tsv") == ("de", "en")
    assert languages_in("my terms.tsv") == ("", "")


def test_a_compound_is_cut_into_known_parts() -> None:
    is_listed = {"haus", "tür", "schlüssel", "arbeit", "amt", "schlüsselbund"}.__contains__
    assert compound("hausarbeitsschlüssel", is_listed, ("s",)) == ["haus", "arbeit", "schlüssel"]
    assert compound("arbeitsschlüssel", is_listed, ("s",)) == ["arbeit", "schlüssel"]
    assert compound("arbeitsschlüsselbund", is_listed, ("s",)) == ["arbeit", "schlüsselbund"]  # the longest last part
    assert compound("arbeitsschlüssel", is_listed, ()) == []
    assert compound("hausamt", is_listed, ()) == []  # three letters are too few
    assert compound("schlüssel", is_listed, ()) == []


def test_a_word_that_cannot_be_split_takes_no_exponential_time() -> None:
    forms: list[str] = []

    def knows(form: str) -> bool:  # every end of the word, and no beginning
        forms.append(form)
        return not form.startswith("x")

    assert compound("x" + 60 * "a", knows, ("a",)) == []
    assert len(forms) < 3 * 61**2  # for each beginning: each last part, and what comes before it with each link


def test_the_first_part_of_a_compound_may_be_a_stem() -> None:
    is_listed = {"schweigen", "grenzen", "minute", "gebiet", "karte", "los"}.__contains__
    assert compound("schweigeminute", is_listed, ("s", "e")) == []
    assert compound("schweigeminute", is_listed, ("s", "e"), ("en", "n")) == ["schweigen", "minute"]
    assert compound("grenzgebiet", is_listed, (), ("en", "n")) == ["grenzen", "gebiet"]
    assert compound("grenzgebietskarte", is_listed, ("s",), ("en", "n")) == ["grenzen", "gebiet", "karte"]
    assert compound("schweigelos", is_listed, (), ("en", "n")) == []
