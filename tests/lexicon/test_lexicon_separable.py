"""A German verb whose particle stands at the end of its clause is one verb."""

from __future__ import annotations

import sys

import pytest

from phrasemate.lexicon import separable_verbs as module
from phrasemate.lexicon.separable_verbs import joined, separable_verbs

simplemma = pytest.importorskip("simplemma")


@pytest.mark.parametrize(
    ("sentence", "verbs"),
    [
        ("Er nahm gestern an der Sitzung teil.", ["nahm teil teilnehmen"]),
        ("Nimmt er an der Sitzung teil?", ["Nimmt teil teilnehmen"]),
        ("Er hält die Frist ein und gibt es zurück.", ["hält ein einhalten", "gibt zurück zurückgeben"]),
        ("Tritt er zurück, so fällt die Zahlung weg.", ["Tritt zurück zurücktreten", "fällt weg wegfallen"]),
        ("Die Sitzung, die er leitete, fand ohne ihn statt.", ["fand statt stattfinden"]),
        ("Er nahm an der Sitzung, die gestern begann, teil.", ["nahm teil teilnehmen"]),
        ("Am Montag hielten die Abgeordneten eine Schweigeminute ab.", ["hielten ab abhalten"]),
        ("Er stimmt der Erhöhung zu; sie tritt am 1. Mai ein.", ["stimmt zu zustimmen", "tritt ein eintreten"]),
        # what stands at the end is not a particle
        ("Das Haus ist alt.", []),
        ("Ich weiß es nicht.", []),
        ("Zuvor hat er es gelesen.", []),
        ("Er sah die Bank.", []),
        ("Eine Gruppe campt hier.", []),
        # or there is nothing else
        ("Er nimmt an der Sitzung des Vereins", []),
        ("teil.", []),
        ("", []),
    ],
)  # fmt: skip
def test_verbs_in_two_parts(sentence: str, verbs: list[str]) -> None:
    verbs_in_text = separable_verbs(sentence, "de")
    assert [
        f"{sentence[slice(*one.verb)]} {sentence[slice(*one.particle)]} {one.infinitive}" for one in verbs_in_text
    ] == verbs


def test_only_german_has_them() -> None:
    assert separable_verbs("Ze nam gisteren aan de vergadering deel.", "nl") == []
    assert separable_verbs("He took the offer up.", "en") == []


@pytest.mark.parametrize(
    ("sentence", "context"),
    [
        ("Er nahm gestern an der Sitzung teil.", "Er teilnehmen gestern an der Sitzung."),
        ("Er nahm an der Sitzung, die gestern begann, teil.", "Er teilnehmen an der Sitzung, die gestern begann."),
        ("Gibt er sie zurück und geht?", "zurückgeben er sie und geht?"),
        ("Er gab sie zurück", "Er zurückgeben sie"),
    ],
)
def test_the_infinitive_takes_the_place_of_the_verb(sentence: str, context: str) -> None:
    (verb,) = separable_verbs(sentence, "de")
    phrase = joined(sentence, verb)
    assert phrase.context == context
    assert phrase.text == verb.infinitive


def test_without_simplemma_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "simplemma", None)
    module._compounds.cache_clear()
    assert separable_verbs("Er nahm an der Sitzung teil.", "de") == []
    module._compounds.cache_clear()
