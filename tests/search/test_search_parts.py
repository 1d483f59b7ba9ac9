"""Parts of a query: the words of a phrase with their equivalents, and the wordings that translate it word by word."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from phrasemate.candidates import (
    UNKNOWN,
    UNLISTED,
    Candidate,
    Dictionaries,
    Part,
    QueryWords,
    compositions,
    equivalents,
    parts,
    with_function_word,
)
from phrasemate.encode.scoring import FEATURES
from phrasemate.features import describe
from phrasemate.lexicon import Equivalent, bundled_lexicon
from phrasemate.types import Phrase


def dictionary(**entries: dict[str, float]) -> Any:
    """Return a dictionary into English with the given equivalents of each wording, with their weights."""

    def equivalents(wording: str, lang: str = "", target: str = "") -> list[Equivalent]:
        return [Equivalent(text, weight, "mine", "en") for text, weight in entries.get(wording, {}).items()]

    return SimpleNamespace(name="mine", equivalents=equivalents)


def equivalents_of(query: Sequence[Part]) -> list[dict[str, float]]:
    return [{" ".join(stems): weight for stems, weight in part.equivalents.items()} for part in query]


def table_of(**ids: list[int]) -> Any:
    """Return a table of wordings with the ids of their phrases; "_" stands for a space, and a stem for itself."""
    ids_of = {wording.replace("_", " "): numbers for wording, numbers in ids.items()}
    return SimpleNamespace(
        of_stems=lambda stems: [[stem] if stem in ids_of else [] for stem in stems],
        occurrences=lambda wordings: [np.array(ids_of.get(wording, []), np.int64) for wording in wordings],
    )


@pytest.mark.parametrize(
    ("listed", "indexed", "expected"),
    [
        ({"turned": 0.3, "off": 0.25}, "turn off", {"turned off": 0.55, "turn off": 0.55, "turned": 0.3}),
        ({"woke": 0.7, "up": 0.6, "awake": 0.1}, "woke up", {"woke up": 1.0, "woke": 0.7, "awake": 0.1}),
        ({"woke": 0.7, "up": 0.6}, "", {"woke up": 1.0, "woke": 0.7, "up": 0.6}),  # perhaps in the text, but no phrase
        ({"up": 0.6, "above": 0.2}, "", {"up": 0.6, "above": 0.2}),  # no verb
        ({"gave": 0.4, "given": 0.2}, "gave up", {"gave": 0.4, "given": 0.2}),
    ],
)
def test_a_listed_verb_and_its_particle_are_a_phrasal_verb(listed: dict, indexed: str, expected: dict) -> None:
    dictionaries = Dictionaries([dictionary(wort=listed)], ["en"])
    listings = equivalents(table_of(**{indexed.replace(" ", "_"): [1]}), "wort", dictionaries)
    assert {wording: round(listing.probability, 9) for wording, listing in listings.items()} == expected


def test_the_bundled_lexicon_splits_compounds() -> None:
    dictionaries = Dictionaries([bundled_lexicon()], ["en"])
    for language in ("de", ""):
        first, last = equivalents_of(parts("Schweigeminute", dictionaries, language))
        assert "silenc" in first
        assert "minut" in last
    assert len(parts("Grenzgebiet", dictionaries, "de")) == 2
    assert len(parts(20 * "essens", dictionaries, "de")) == 1  # too long for a word


def test_a_compound_that_is_not_listed_counts_as_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = dictionary(arbeit={"work": 0.5}, schlüssel={"key": 0.5}, Arbeitszimmer={"study": 0.5})
    dictionaries = Dictionaries([mine], ["en"])
    monkeypatch.setattr(dictionaries, "knows", lambda form, language: form in ("arbeit", "schlüssel", "zimmer"))
    assert equivalents_of(parts("Arbeitsschlüssel", dictionaries, "de")) == [
        {"work": 0.5},
        {"key": 0.5},
    ]
    assert equivalents_of(parts("Arbeitszimmer", dictionaries, "de")) == [{"studi": 0.5}]
    assert len(parts("Arbeitsschlüssel", dictionaries, "fr")) == 1
    monkeypatch.setattr(dictionaries, "knows", lambda form, language: form in ("haus", "raum"))
    assert equivalents_of(parts("Hausraum", dictionaries, "de")) == [
        {"haus": UNKNOWN},
        {"raum": UNKNOWN},
    ]


def test_a_compound_of_unknown_language_is_cut_if_its_languages_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    dictionaries, listed = Dictionaries([dictionary()], ["en"]), {"de": ("wind", "mühle"), "nl": ("wind", "molen")}
    monkeypatch.setattr(dictionaries, "knows", lambda form, language: form in listed.get(language, ()))
    assert list(map(list, equivalents_of(parts("Windmühle", dictionaries)))) == [["wind"], ["mühle"]]
    listed["sv"] = listed["de"]
    assert len(parts("Windmühle", dictionaries)) == 2
    listed["sv"] = ("wind", "mü", "windmü", "hle", "windm", "ühle")
    assert len(parts("Windmühle", dictionaries)) == 1  # or "windm" and "ühle"
    assert len(parts("Windmühle", dictionaries, "de")) == 2
    assert len(parts("Windmühle", dictionaries, "fr")) == 1


def test_the_first_part_is_a_stem_only_in_languages_with_such_compounds(monkeypatch: pytest.MonkeyPatch) -> None:
    dictionaries = Dictionaries([dictionary()], ["en"])
    monkeypatch.setattr(dictionaries, "knows", lambda form, language: form in ("schweigen", "minute"))
    assert list(map(list, equivalents_of(parts("Schweigeminute", dictionaries, "de")))) == [
        ["schweigen"],
        ["minut"],
    ]
    assert len(parts("Schweigeminute", dictionaries, "sv")) == 1


def test_equivalents_have_the_stems_of_their_language() -> None:
    def stems(text: str, language: str) -> dict[str, float]:
        lexicon: Any = SimpleNamespace(equivalents=lambda *_: [Equivalent(text, 0.5, "mine", language)])
        return equivalents_of(parts("x", Dictionaries([lexicon], [""]), "fr"))[0]

    assert stems("häuser", "de") == {"haus": 0.5}
    assert stems("houses", "en") == stems("houses", "") == {"hous": 0.5}


def test_an_equivalent_of_several_words_counts_as_a_whole() -> None:
    mine = dictionary(neue={"new": 0.5}, Mitgliedstaaten={"member states": 0.8, "states": 0.1})
    query = parts("neue Mitgliedstaaten", Dictionaries([mine], ["en"]), "de")
    assert [part.equivalents for part in query] == [{("new",): 0.5}, {("member", "state"): 0.8, ("state",): 0.1}]
    table = table_of(new_member_state=[1], new_state=[2], new_member=[3], member_state_new=[4])
    assert compositions(table, query, "en") == ["new member state", "member state new", "new state"]

    wordings = ["new member states", "new members", "new states", "members", "member states"]
    proposed = [Candidate(wording, UNLISTED, np.array([0]), 1) for wording in wordings]
    vector = np.array([[1.0, 0.0]], np.float32)
    search: Any = SimpleNamespace(table=table, vectors=lambda ids: np.ones((len(ids), 2), np.float32))
    words = QueryWords("de", query, {})
    (described,) = describe(search, ["neue Mitgliedstaaten"], [proposed], vector, vector, "en", [words])
    names = ("covered", "covers", "composed", "word by word")
    values = described.features[:, [FEATURES.index(name) for name in names]].tolist()
    assert values == [
        pytest.approx([1, 1, (log(0.5) + log(0.8)) / 2, 1]),
        pytest.approx([1, (1 + 1 / 8) / 2, (log(0.5) + log(0.8 / 8)) / 2, 0]),  # "members" is half of an equivalent
        pytest.approx([1, 1, (log(0.5) + log(0.1)) / 2, 1]),
        pytest.approx([1, (0 + 1 / 8) / 2, (-6 + log(0.8 / 8)) / 2, 0]),
        pytest.approx([1, 1 / 2, (-6 + log(0.8)) / 2, 0]),
    ]


def test_a_function_word_is_looked_for_before_an_equivalent_of_several_words() -> None:
    sentences = ["He died of a heart attack.", "A heart attack is rare.", "She died of a weak heart."]
    phrases = [
        Phrase(text, at := text.index(phrase), at + len(phrase))
        for text, phrase in zip(sentences, ("heart attack", "heart attack", "heart"), strict=True)
    ]
    query = [Part({("of",): 0.3}, True), Part({("heart", "attack"): 0.9}, False)]
    table = table_of(heart_attack=[0, 1], heart=[2])
    results = with_function_word(table, query, "en", lambda ids: [phrases[number] for number in ids])
    assert [(one.wording, one.ids.tolist(), one.leading) for one in results] == [("of a heart attack", [0], 2)]


def test_an_equivalent_without_words_counts_for_nothing() -> None:
    lexicon: Any = SimpleNamespace(equivalents=lambda *_: [Equivalent("……", 0.5, "mine", "zh")])
    assert equivalents_of(parts("pause", Dictionaries([lexicon], [""]), "fr")) == [{"paus": UNKNOWN}]


@pytest.mark.parametrize(
    ("phrase", "rival", "must_be_right"),
    [
        ("convention collective", "collective agreement", False),
        ("convention collective", "collective", True),  # lacks a word
        ("blue chip", "blue chips", True),  # the same words
    ],
)
def test_a_phrase_need_not_stand_for_itself_beside_its_translation(
    phrase: str, rival: str, must_be_right: bool
) -> None:
    mine = dictionary(convention={"agreement": 0.2}, collective={"collective": 0.6})
    query = QueryWords("fr", parts(phrase, Dictionaries([mine], ["en"]), "fr"), {}, stands_for_itself=True)
    proposed = [Candidate(wording, UNLISTED, np.array([0]), 1) for wording in (rival, phrase)]
    vector = np.array([[1.0, 0.0]], np.float32)
    search: Any = SimpleNamespace(vectors=lambda ids: np.ones((len(ids), 2), np.float32))
    (described,) = describe(search, [phrase], [proposed], vector, vector, "en", [query])
    assert described.same == (1 if must_be_right else -1)
