"""A German or Dutch verb whose particle stands at the end of its clause is one verb."""

from __future__ import annotations

import pytest

from phrasemate.lexicon import bundled_lexicon
from phrasemate.lexicon.separable_verbs import joined, separable_verbs, with_infinitive
from phrasemate.types import Phrase

LEXICON = bundled_lexicon()


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
        ("Er gab zu, dass er log.", ["gab zu zugeben"]),
        ("Sie hörte auf zu weinen.", ["hörte auf aufhören"]),
        ("Bitte füllen Sie das Formular aus.", ["füllen aus ausfüllen"]),
        ("Du siehst gut aus.", ["siehst aus aussehen"]),
        ("Was haben Sie morgen vor?", ["haben vor vorhaben"]),
        # what stands at the end is not a particle
        ("Morgen kommt er.", []),
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


@pytest.mark.parametrize(
    ("sentence", "infinitives"),
    [
        ("Hij belt me morgen op.", ["opbellen"]),
        ("Zij gaf toe dat ze het wist.", ["toegeven"]),
        ("De winkel houdt op te bestaan.", ["ophouden"]),
        ("Daar halen ze hout en erts op.", ["ophalen"]),  # not "open", of "op" and "en"
        ("Hij was terug.", []),
    ],
)
def test_dutch_verbs(sentence: str, infinitives: list[str]) -> None:
    assert [verb.infinitive for verb in separable_verbs(sentence, "nl")] == infinitives


def test_other_languages_have_none() -> None:
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


@pytest.mark.parametrize(
    ("query", "phrase", "context"),
    [
        ("Dort nahm er teil. Er blieb.", "nahm", "Dort [teilnehmen] er. Er blieb."),
        ("Dort nahm er teil. Er blieb.", "teil", "Dort [teilnehmen] er. Er blieb."),
        ("Dort nahm er daran teil. Er blieb.", "nahm er daran teil", "Dort [teilnehmen er daran]. Er blieb."),
        ("Dort nahm er teil. Er blieb.", "nahm er", "Dort [teilnehmen er]. Er blieb."),
        ("Dort nahm er teil. Er blieb.", "Dort nahm er teil", "[Dort teilnehmen er]. Er blieb."),
        ("Er nahm, wie sie, teil und ging.", "nahm, wie sie, teil", "Er [teilnehmen, wie sie,] und ging."),
        ("Er nahm es teil", "nahm es ", "Er [teilnehmen es]"),
        # the phrase cuts the particle, lacks the verb, or is in another sentence
        ("Er nahm es teil", "nahm es tei", "Er [nahm es tei]l"),
        ("Dort nahm er teil. Er blieb.", "er", "Dort nahm [er] teil. Er blieb."),
        ("Dort nahm er teil. Er blieb.", "er teil", "Dort nahm [er teil]. Er blieb."),
        ("Dort nahm er teil. Er blieb.", "blieb", "Dort nahm er teil. Er [blieb]."),
        ("Er nahm das Buch. Sie hat Anteil.", "nahm", "Er [nahm] das Buch. Sie hat Anteil."),
    ],
)
def test_a_phrase_with_a_part_of_the_verb_has_the_infinitive(query: str, phrase: str, context: str) -> None:
    start = query.index(phrase)
    reading = with_infinitive(Phrase(query, start, start + len(phrase)), LEXICON)
    assert f"{reading.context[: reading.start]}[{reading.text}]{reading.context[reading.end :]}" == context


def test_a_listed_phrase_with_both_parts_stays() -> None:
    phrase = Phrase("Geh weg, bevor er kommt.", 0, 7)
    assert LEXICON.knows(phrase.text, "de")
    assert with_infinitive(phrase, LEXICON) is phrase


def test_the_language_is_identified_only_if_a_particle_may_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    english = Phrase("He took the car in.", 3, 7)
    assert with_infinitive(english, LEXICON) is english
    monkeypatch.setattr(LEXICON, "language_of", None)
    german = Phrase("Er sitzt auf der Bank.", 17, 21)
    assert with_infinitive(german, LEXICON) is german
