"""Candidates in text that is not English: function words, and languages without spaces between words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from phrasemate import load_model
from phrasemate.answers import group_forms
from phrasemate.candidates import (
    BESIDE,
    OCCURRENCES,
    UNLISTED,
    Candidate,
    Dictionaries,
    Listing,
    Part,
    as_name,
    begins_at,
    compositions,
    ends_at,
    extended,
    gather,
    parts,
    stemmed_form,
    with_function_word,
)
from phrasemate.index import Index
from phrasemate.lexicon import bundled_lexicon
from phrasemate.lexicon.induced import articles
from phrasemate.search import Searcher
from phrasemate.types import Document, Phrase


def table_of(phrases: Sequence[Phrase]) -> Any:
    """Return a table of wordings that occur in these places; a stem is a wording itself."""
    ids = {phrase.text: [n for n, one in enumerate(phrases) if one.text == phrase.text] for phrase in phrases}
    return SimpleNamespace(
        of_stems=lambda stems: [[stem] if stem in ids else [] for stem in stems],
        occurrences=lambda wordings: [np.array(ids.get(wording, []), np.int64) for wording in wordings],
    )


def marked(*sentences: str) -> list[Phrase]:
    """Return the phrases in brackets, each in its sentence."""
    return [Phrase(text.replace("[", "").replace("]", ""), text.index("["), text.index("]") - 1) for text in sentences]


@pytest.mark.parametrize(
    ("language", "stems", "rest", "sentences", "expected"),
    [
        ("cs", {"v": 0.7}, "praze", ["Žije v [praze].", "Jede do [praze]."], [("v praze", [0], 1, 0)]),
        ("uk", {"в": 0.4}, "києві", ["Він живе в [києві].", "Про [києві]."], [("в києві", [0], 1, 0)]),
        ("fr", {"dan": 0.4}, "mur", ["Ils sont dans le [mur].", "Le [mur] est beau."], [("dans le mur", [0], 2, 0)]),
        ("zh", {"在": 0.6}, "日本", ["歌在[日本]流行。", "我在，[日本]。", "[日本]大。"], [("在日本", [0], 1, 0)]),
        ("zh", {"有关": 0.6}, "加密", ["有關[加密]的課程", "激活[加密]"], [("有關加密", [0], 1, 0)]),
        ("ja", {"で": 0.2}, "日本", ["彼は[日本]で働く。", "[日本]、で。", "で[日本]"], [("日本で", [0], 0, 1)]),
        ("fi", {"kan": 0.5}, "isän", ["Tulin [isän] kanssa.", "kanssa [isän]"], [("isän kanssa", [0], 0, 1)]),
        ("hi", {"म": 0.5}, "घर", ["वह [घर] में है।", "में [घर]"], [("घर में", [0], 0, 1)]),
        ("hu", {"alat": 0.5}, "fa", ["A [fa] alatt ül.", "alatt [fa]"], [("fa alatt", [0], 0, 1)]),
        ("ko", {"동안": 0.5}, "전쟁", ["[전쟁] 동안 살았다.", "동안 [전쟁]"], [("전쟁 동안", [0], 0, 1)]),
        ("tr", {"il": 0.5}, "Tom", ["[Tom] ile geldim.", "ile [Tom]"], [("Tom ile", [0], 0, 1)]),
    ],
)  # fmt: skip
def test_a_function_word_is_looked_for_on_the_side_of_the_noun_on_which_a_language_has_it(
    language: str,
    stems: dict[str, float],
    rest: str,
    sentences: list[str],
    expected: list[tuple[str, list[int], int, int]],
) -> None:
    phrases = marked(*sentences)
    query = [Part({(stem,): weight for stem, weight in stems.items()}, True), Part({(rest,): 0.9}, False)]
    results = with_function_word(table_of(phrases), query, language, lambda ids: [phrases[number] for number in ids])
    assert [(one.wording, one.ids.tolist(), one.leading, one.trailing) for one in results] == expected


def test_all_translations_share_one_number_of_occurrences_that_are_read() -> None:
    phrases = marked(*["v [praze]"] * 3 * BESIDE, *["v [brně]"] * (BESIDE + 1))
    query = [Part({("v",): 0.7}, True), Part({("praze",): 0.6, ("brně",): 0.3}, False)]
    phrase_ids: list[int] = []

    def phrases_of(ids: Any) -> list[Phrase]:
        phrase_ids.extend(ids)
        return [phrases[number] for number in ids]

    results = with_function_word(table_of(phrases), query, "cs", phrases_of)
    assert BESIDE * 4 / 5 <= len(phrase_ids) <= BESIDE  # every fifth of 4 x BESIDE + 1
    assert [(one.wording, one.count, len(one.ids)) for one in results] == [
        ("v praze", 3 * BESIDE, OCCURRENCES),
        ("v brně", BESIDE + 1, OCCURRENCES),
    ]


def test_a_listed_wording_of_unspaced_text_is_looked_for_around_its_parts() -> None:
    phrases = marked("这首歌在[日本]很流行。", "[日本]很大。", "我在，[日本]。")
    listed = {"在日本": Listing(0.5, "mine")}
    (result,) = extended(table_of(phrases), listed, "zh", lambda ids: [phrases[number] for number in ids])
    assert (result.wording, result.ids.tolist(), result.leading, result.trailing) == ("在日本", [0], 1, 0)


def test_a_japanese_wording_does_not_begin_with_a_particle() -> None:
    phrases = marked("この本は[日本]で売れた。")
    listed = {"は日本": Listing(0.5, "mine"), "日本で": Listing(0.3, "mine")}
    (result,) = extended(table_of(phrases), listed, "ja", lambda ids: [phrases[number] for number in ids])
    assert (result.wording, result.leading, result.trailing) == ("日本で", 0, 1)


def test_a_phrase_of_unspaced_text_is_extended_by_words() -> None:
    (phrase,) = marked("我住在东京的[大学]里，很远。")
    assert [phrase.context[begins_at(phrase, count) : phrase.end] for count in (0, 1, 2)] == [
        "大学",
        "的大学",
        "东京的大学",
    ]
    assert [phrase.context[phrase.start : ends_at(phrase, count)] for count in (0, 1, 2)] == [
        "大学",
        "大学里",
        "大学里，很",
    ]


def test_a_vowel_sign_at_the_end_of_a_word_is_no_punctuation() -> None:
    (phrase,) = marked("यह [समिति] द्वारा। हुआ")
    assert phrase.context[phrase.start : ends_at(phrase, 1)] == "समिति द्वारा"  # without the danda


def test_the_words_of_unspaced_wordings_are_compared_one_by_one() -> None:
    assert stemmed_form("大学医院", "zh") == (("大学", "医院"), 2, False)
    phrases = marked("[大学医院]很大。")
    query = [Part({("大学",): 0.9}, False), Part({("医院",): 0.9}, False)]
    assert compositions(table_of(phrases), query, "zh") == ["大学医院"]


def test_function_words_are_optional_and_articles_are_left_out_where_a_language_has_none() -> None:
    lexicon = bundled_lexicon()
    assert lexicon is not None

    def optional(phrase: str, source: str, target: str) -> list[bool]:
        return [part.optional for part in parts(phrase, Dictionaries([lexicon], [target]), source)]

    assert optional("in the house", "en", "fr") == [True, True, False]
    assert optional("in the house", "en", "ru") == optional("in the house", "en", "zh") == [True, False]
    assert optional("im Haus", "de", "fr") == [True, False]
    assert optional("das Haus", "de", "") == [True, False]  # text without a language counts as English
    assert len(optional("the", "en", "ru")) == 1  # the only word
    assert optional("upon a house", "en", "tr") == [True, False]  # the lexicon has nothing for "upon"


def test_articles_are_told_from_other_words_that_dictionaries_put_before_a_noun() -> None:
    assert articles("en") == {"a", "an", "the"}
    assert {"der", "dem", "eine"} < articles("de")
    assert articles("de").isdisjoint({"zu", "sich"})
    assert "le" in articles("fr-CA")
    assert articles("ru") == articles("xx") == frozenset()


@pytest.mark.parametrize(
    ("language", "texts", "query", "answer"),
    [
        ("zh", ["我们在日本见过他。", "日本是岛国。", "他买车了。"], "She works [[in Japan]].", "在日本"),
        ("cs", ["Celý den pracoval v zahradě.", "Zahrada je velká."], "They sat [[in the garden]].", "v zahradě"),
        ("ja", ["彼女は日本で働いている。", "日本は島国だ。", "彼は車を買った。"], "She lived [[in Japan]].", "日本で"),
    ],
)  # fmt: skip
def test_a_query_with_a_preposition_is_answered_with_one(
    tmp_path: Path, language: str, texts: list[str], query: str, answer: str
) -> None:
    with Index.create(tmp_path / "index", load_model()) as index:
        index.add([Document.from_texts("text", texts)], lang=language)
        groups = Searcher(index).search(query, k=3).groups
    assert groups[0].text == answer
    hit = groups[0].hits[0].phrase
    assert hit.context[hit.start : hit.end] == answer


@pytest.mark.parametrize(
    ("phrase", "language", "wording", "expected"),
    [
        ("d'Umbria", "it", "Umbria", "umbria"),
        ("d’Istanbul", "fr", "Istanbul", "istanbul"),
        ("İstanbul'da", "tr", "Istanbul", "istanbul"),
        ("Dawkins'", "en", "Dawkins", "dawkins"),
        ("Moldova's", "en", "Moldova", "moldova"),
        ("McDonald's", "en", "McDonald's", "McDonald's"),  # the index has it so
        ("d'Istanbul", "de", "Istanbul", "d'Istanbul"),  # German has no such word
        ("d'Istanbul", "fr", "Warsaw", "d'Istanbul"),  # the index lacks it
        ("d'or", "fr", "or", "d'or"),  # the lexicon has it, so it is not a name
        ("Istanbul", "tr", "Istanbul", "Istanbul"),
    ],
)
def test_a_name_is_looked_up_without_what_an_apostrophe_joins(
    phrase: str, language: str, wording: str, expected: str
) -> None:
    """The index is in German for English phrases, and in English for the others."""
    lexicon = bundled_lexicon()
    assert lexicon is not None
    target = "de" if language == "en" else "en"
    table: Any = SimpleNamespace(occurrences=lambda names: [np.arange(int(name == wording.lower())) for name in names])
    assert as_name(table, phrase, Dictionaries([lexicon], [target]), language, target) == expected


def test_a_name_after_an_elided_word_is_the_first_answer(tmp_path: Path) -> None:
    with Index.create(tmp_path / "idx", load_model()) as index:
        index.add([Document.from_texts("one", ["They met in Ankara.", "A city in the east."])], lang="en")
        result = Searcher(index).search("Il est maire de la ville [[d'Ankara]].")
    assert (result.groups[0].text, result.doubtful) == ("Ankara", False)


def test_forms_with_related_endings_are_one_answer() -> None:
    """The stemmer reduces neither "projesi" nor "projesinin" to "proje"."""
    wordings = ["proje", "plan", "projesi", "projektör", "projesinin"]
    some = [Candidate(wording, UNLISTED, np.arange(1), 1) for wording in wordings]
    numbers = range(len(some))
    assert group_forms(some, numbers, "tr", 9) == [[0, 2, 4], [1], [3]]
    assert group_forms(some, numbers, "tr", 1) == [[0, 2, 4]]
    assert group_forms(some, numbers, "ja", 9) == [[number] for number in numbers]  # it has no known endings


@pytest.mark.parametrize(
    ("language", "wordings", "groups"),
    [
        ("he", ["מלך", "המלך", "מלכה", "למלך", "והמלך"], [[0, 1, 3, 4], [2]]),  # king, queen
        ("he", ["בן", "לבן"], [[0], [1]]),  # son, white
        ("he", ["ספר", "מספר"], [[0], [1]]),  # book, number
        ("ar", ["كمؤلف", "المؤلف", "ومعلم", "كمعلم"], [[0, 1], [2, 3]]),  # author, teacher
        ("ar", ["نائب", "نائب الرئيس", "لنائب الرئيس"], [[0], [1, 2]]),  # deputy, vice president
        ("fa", ["کتاب", "وکتاب"], [[0], [1]]),  # it has none
    ],
)
def test_forms_that_differ_in_proclitics_are_one_answer(
    language: str, wordings: list[str], groups: list[list[int]]
) -> None:
    some = [Candidate(wording, UNLISTED, np.arange(1), 1) for wording in wordings]
    assert group_forms(some, range(len(some)), language, 9) == groups


def test_an_unlisted_wording_with_a_comma_answers_only_a_phrase_with_one() -> None:
    table = table_of(marked("We have [pens, paper] and ink.", "It has [1,000 pens].", "那里有[书，笔]。"))
    near = {"pens, paper": [0], "1,000 pens": [1], "书，笔": [2]}

    def wordings(phrase: str, near: dict[str, list[int]], listed: dict[str, Listing]) -> list[str]:
        return [candidate.wording for candidate in gather(table, phrase, near, listed)]

    assert wordings("Stifte", near, {}) == ["1,000 pens"]
    assert wordings("Stifte, Papier", near, {}) == [*near]
    assert wordings("Stifte", {}, {"pens, paper": Listing(0.5, "mine")}) == ["pens, paper"]
