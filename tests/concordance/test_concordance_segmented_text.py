from __future__ import annotations

from itertools import pairwise

import pytest
from kwic_fakes import WordModel

from phrasemate.concordance import Reading, in_sentence, phrases_of, read, whole_units, with_units, without_clauses
from phrasemate.errors import InputError, QueryError
from phrasemate.types import Span

VERB = "Dann nahm die Kanzlerin am Treffen in Wien teil. Dann kam der Zug an."
TEXT = "Wir sahen die Bank gestern Abend wieder. Dann kam ein Zug aus Wien an."


def test_phrases_have_offsets_in_the_whole_text() -> None:
    model = WordModel()
    reading = read(TEXT, model)
    assert model.texts == ["Wir sahen die Bank gestern Abend wieder.", "Dann kam ein Zug aus Wien an."]
    assert [TEXT[s.start : s.end] for s in reading.spans if s.score == 0.9] == [
        "Wir",
        "Bank",
        "Abend",
        "Dann",
        "Zug",
        "Wien",
    ]


def test_what_is_underlined_shares_no_word() -> None:
    reading = read(TEXT, WordModel())
    bounds = [(span.start, span.end) for span in reading.shown]
    assert all(one[1] <= two[0] for one, two in pairwise(bounds))
    assert [TEXT[start:end] for start, end in bounds] == [
        "Wir",
        "Bank",
        "gestern Abend",  # a wording of the lexicon
        "Dann",
        "Zug",
        "Wien",
    ]  # .9 beats 2 x 0


def test_pieces_give_the_text_back() -> None:
    reading = read(TEXT, WordModel())
    pieces = reading.pieces()
    assert "".join(piece.text for piece in pieces) == TEXT
    assert [piece.text for piece in pieces if piece.phrase] == [
        *("Wir", "sahen", "Bank", "gestern Abend", "wieder"),
        *("Dann", "kam", "Zug", "Wien", "an"),
    ]
    assert all(TEXT[piece.start : piece.end] == piece.text for piece in pieces)


def test_what_was_chosen_takes_the_place_of_what_it_overlaps() -> None:
    reading = read(TEXT, WordModel())
    chosen = TEXT.index("die Bank"), TEXT.index(" Abend")
    pieces = reading.pieces(chosen)
    assert "".join(piece.text for piece in pieces) == TEXT
    assert [piece.text for piece in pieces if piece.phrase] == [
        *("Wir", "sahen", "die Bank gestern", "wieder"),
        *("Dann", "kam", "Zug", "Wien", "an"),
    ]


def test_a_verb_in_two_parts_is_one_phrase() -> None:
    reading = read(VERB, WordModel())
    verb, _ = reading.verbs
    pieces = reading.pieces()
    assert "".join(piece.text for piece in pieces) == VERB
    assert [piece.text for piece in pieces if piece.verb == verb] == ["nahm", "teil"]
    phrases = [place.phrase for place in phrases_of(VERB, WordModel())]
    assert [(phrase.text, phrase.context) for phrase in phrases][1:] == [
        ("teilnehmen", "Dann teilnehmen die Kanzlerin am Treffen in Wien."),
        ("Kanzlerin", "Dann nahm die Kanzlerin am Treffen in Wien teil."),
        ("Treffen", "Dann nahm die Kanzlerin am Treffen in Wien teil."),
        ("Wien", "Dann nahm die Kanzlerin am Treffen in Wien teil."),
        ("Dann", "Dann kam der Zug an."),
        ("ankommen", "Dann ankommen der Zug."),
        ("Zug", "Dann kam der Zug an."),
    ]
    assert [piece.text for piece in reading.pieces(*verb[:2]) if piece.verb == verb] == ["nahm", "teil"]
    alone = reading.pieces(verb.verb)  # a person has selected the first part only
    assert [piece.text for piece in alone if piece.phrase and piece.verb is None][1] == "nahm"
    assert "teil" not in [piece.text for piece in alone]


@pytest.mark.parametrize("text", [TEXT, VERB, f"Guten Tag!\n\n{VERB} Er schlug den Termin gestern vor."])
def test_the_places_of_phrases_are_in_the_whole_text(text: str) -> None:
    phrases = phrases_of(text, WordModel())
    spans = [(start, end) for _, start, end, _ in phrases]
    particles = [particle for *_, particle in phrases if particle]
    assert spans == sorted(spans)
    assert all(one[1] <= two[0] for one, two in pairwise(sorted([*spans, *particles])))
    assert all(text[start:end] == phrase.text for phrase, start, end, particle in phrases if not particle)
    verbs = [(phrase.text, text[slice(*particle)]) for phrase, *_, particle in phrases if particle]
    assert all(infinitive.startswith(particle) for infinitive, particle in verbs)
    assert len(verbs) == len(read(text, WordModel()).verbs)


def test_others_are_longer_shorter_and_crossing_phrases() -> None:
    reading = Reading("a b c d", (Span(0, 3), Span(2, 3), Span(2, 5), Span(6, 7)), ())
    assert reading.others(2, 3) == [Span(0, 3), Span(2, 5)]
    assert reading.others(4, 5) == [Span(2, 5)]


def test_a_short_text_is_the_phrase() -> None:
    assert read(" eine Schweigeminute!", WordModel()).shown == (Span(1, 20),)
    assert read("", WordModel()).spans == ()


def test_the_sentence_of_a_phrase() -> None:
    start = TEXT.index("Zug aus")
    phrase = in_sentence(TEXT, start - 1, start + 8)  # with the white space around it
    assert (phrase.context, phrase.text) == ("Dann kam ein Zug aus Wien an.", "Zug aus")
    across = in_sentence(TEXT, TEXT.index("Abend"), TEXT.index("kam"))
    assert (across.context, across.text) == (TEXT, "Abend wieder. Dann")


@pytest.mark.parametrize(("start", "end", "error"), [(0, 99, InputError), (5, 5, InputError), (39, 41, QueryError)])
def test_no_phrase(start: int, end: int, error: type[Exception]) -> None:
    with pytest.raises(error):
        in_sentence(TEXT, start, end)


@pytest.mark.parametrize(
    ("sentence", "units"),
    [
        ("Das Betreten der Baustelle geschieht auf eigene Gefahr.", ["auf eigene Gefahr"]),
        ("Die Kfz-Versicherung zahlt nach der Sitzung.", ["Kfz-Versicherung"]),
        ("Des musiciens d’avant-garde jouent ici.", ["d’avant-garde"]),
        ("Sin embargo, el libro es complejo.", ["Sin embargo"]),
        ("彼は運転免許証を持っています。", ["運転免許証"]),
    ],
)
def test_what_belongs_together_is_one_unit(sentence: str, units: list[str]) -> None:
    assert [sentence[unit.start : unit.end] for unit in whole_units(sentence)] == units


def test_no_phrase_cuts_a_compound_with_hyphens() -> None:
    sentence = "Die Kfz-Versicherung zahlt."
    spans = [Span(4, 7, 0.9), Span(4, 20, 0.8), Span(8, 20, 0.9), Span(8, 26, 0.9), Span(21, 26, 0.9)]
    assert with_units(sentence, spans) == [Span(4, 20, 1.0), Span(21, 26, 0.9)]


@pytest.mark.parametrize(
    ("sentence", "proposed", "left"),
    [
        ("Danach ging er zur Bank.", ["ging er zur Bank", "ging", "Bank"], ["ging", "Bank"]),
        ("Wir prüfen den ordnungsgemäßen Zustand.", ["ordnungsgemäßen Zustand"], ["ordnungsgemäßen Zustand"]),
        ("It was a flagrant breach of contract.", ["breach of contract", "a flagrant breach"], ["breach of contract"]),
        ("Il regrette la perte de revenus.", ["perte de revenus", "perte de"], ["perte de revenus"]),
        ("Qxz vrtl mnkp bbb.", ["vrtl mnkp"], ["vrtl mnkp"]),  # a language that the lexicon does not know
    ],
)
def test_no_clause_is_a_unit(sentence: str, proposed: list[str], left: list[str]) -> None:
    spans = [Span(sentence.index(text), sentence.index(text) + len(text), 0.9) for text in proposed]
    assert [sentence[span.start : span.end] for span in without_clauses(sentence, spans)] == left


def test_a_unit_of_a_list_may_hold_a_stop_word() -> None:
    sentence = "Das geschieht auf eigene Gefahr."
    assert without_clauses(sentence, [Span(14, 31, 1.0)]) == [Span(14, 31, 1.0)]
