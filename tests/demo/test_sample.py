"""The bundled demo sample: what its files promise to those who read and rank them."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from importlib.resources import files
from typing import Any

import pytest

import phrasemate.demo
from phrasemate.text import words

FOLDER = files(phrasemate.demo) / "sample"
ENGLISH = (FOLDER / "english.txt").read_text(encoding="utf-8")
QUERIES = (FOLDER / "queries.jsonl").read_text(encoding="utf-8")
SENTENCES = ENGLISH.splitlines()
ROWS: list[dict[str, Any]] = [json.loads(line) for line in QUERIES.splitlines()]
LANGUAGES = {"de": 8, "fr": 7, "es": 7, "zh": 7, "ru": 6, "tr": 5}
LETTERS = {"zh": "CJK UNIFIED", "ru": "CYRILLIC"}

# word -> a piece of one sentence for each sense
SENSES = {
    "bank": ("savings account at a small bank", "left bank of the river", "blood bank", "bank of snow", "bank steeply"),
    "bark": ("bark of the birch", "bark of a dog"),
    "bat": ("bat flew in", "swung the bat"),
    "bill": ("waiter brought the bill", "bill on school reform", "its enormous bill"),
    "board": ("board of directors", "board over the broken window", "board the ship"),
    "boring": ("lecture was so boring", "boring a tunnel"),
    "bow": ("archer lifted her bow", "bow before the concert", "red bow", "took a bow", "bow of the ferry"),
    "break down": ("van is bound to break down", "Talks tend to break down", "break down the leaves"),
    "heart": ("ballads by heart", "operation on the heart", "heart of the old town"),
    "cell": ("cell in the body", "narrow cell", "empty cell in the spreadsheet"),
    "charge": ("charge for luggage", "charge of dangerous driving", "charge your phone", "charge across", "in charge"),
    "court": ("court will hear", "bounced off the court", "court of the young queen"),
    "crane": ("crane lifted", "crane stood on one leg", "crane his neck"),
    "cure": ("cure for malaria", "left to cure"),
    "current": ("current near the rocks", "electric current", "current manager"),
    "date": ("date of the hearing", "stuffed each date"),
    "dish": ("popular dish on the menu", "satellite dish"),
    "draft": ("cold draft", "first draft", "draft young men"),
    "fair": ("village fair", "not fair", "fair skin"),
    "fan": ("ceiling fan", "fan of the club", "fan of painted silk"),
    "flight": ("flight to Lisbon", "flight of stone steps", "whole flock to flight"),
    "goal": ("goal in the final minute", "goal of the project"),
    "interest": ("interest in birds", "interest rate", "controlling interest", "conflict of interest"),
    "jam": ("plum jam", "traffic jam", "jam the printer"),
    "key": ("spare key", "key to training", "minor key", "any key"),
    "land": ("clumsy on land", "land behind the farm", "land in a field"),
    "lead": ("sheets of lead", "took the lead", "lead you to", "dog on a lead"),
    "light": ("light in the hallway", "light enough", "light the candles", "In light of"),
    "lock": ("lock on the garden shed", "below the lock", "lock of grey hair"),
    "look up": ("look up the word", "look up my cousin", "beginning to look up"),
    "match": ("struck a match", "won the match", "match the wallpaper", "match for the fingerprint"),
    "mean": ("mean temperature", "too mean to leave", "not mean to upset"),
    "minute": ("minute of silence", "minute traces", "Stir the sauce for a minute"),
    "mouse": ("mouse had chewed", "Move the mouse"),
    "nail": ("rusty nail", "broke a nail"),
    "note": ("note on the fridge", "last note", "fifty-pound note", "Please note"),
    "organ": ("largest organ", "playing the organ"),
    "palm": ("tall palm", "palm of her hand"),
    "peace": ("ceasefire brought peace", "peace and quiet"),
    "pitch": ("pitch was so wet", "pitch of her voice", "pitch their idea", "planks with pitch"),
    "plant": ("plant on the windowsill", "chemical plant", "plant the potatoes"),
    "ring": ("ring with a small", "entered the ring", "ring of art smugglers", "telephone ring"),
    "run out of": ("run out of milk", "run out of the shop"),
    "scale": ("scale of the damage", "bathroom scale", "same scale on the piano", "map has a scale"),
    "school": ("school of fish", "old school by the harbour"),
    "seal": ("seal was lying", "seal of the archbishop", "seal the cracks"),
    "season": ("rainy season", "Season the soup"),
    "sentence": ("sentence was reduced", "every sentence of the paragraph"),
    "spring": ("In spring the orchard", "hot spring", "tiny spring", "ready to spring"),
    "stock": ("large stock", "stock fell by half", "chicken stock"),
    "strike": ("strike by railway", "Lightning may strike", "clock strike"),
    "table": ("tabled a motion", "table on page nine", "table by the window"),
    "take off": ("plane could not take off", "take off your shoes", "did not take off until"),
    "tank": ("tank was large", "enemy tank"),
    "tie": ("striped tie", "ended in a tie", "Tie the boat"),
    "trunk": ("from its trunk", "fallen trunk", "trunk in the loft", "trunk of the car"),
    "turn down": ("turn down such a generous offer", "turn down the music"),
    "watch": ("My watch stopped", "kept watch", "watch the trains"),
    "wave": ("huge wave", "wave of protests", "children wave"),
}


def contains(text: str, wording: str) -> bool:
    """Whether the wording occurs as whole words, whatever its case."""
    return re.search(rf"(?<!\w){re.escape(wording)}(?!\w)", text, re.IGNORECASE) is not None


def plain(row: dict[str, Any]) -> str:
    return str(row["query"]).replace("[[", "").replace("]]", "")


@pytest.mark.parametrize("content", [ENGLISH, QUERIES], ids=["english", "queries"])
def test_files_are_clean_text(content: str) -> None:
    assert content == unicodedata.normalize("NFC", content)
    assert content.endswith("\n")
    assert not content.endswith("\n\n")
    assert not [c for c in content if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Co", "Cn")]


def test_the_text_has_300_to_400_different_sentences() -> None:
    assert 340 <= len(SENTENCES) <= 400
    folded = Counter(" ".join(re.findall(r"\w+", sentence.casefold())) for sentence in SENTENCES)
    assert [sentence for sentence, count in folded.items() if count > 1] == []


def test_sentences_are_well_formed() -> None:
    for sentence in SENTENCES:
        assert 8 <= len(sentence.split()) <= 25, sentence
        assert sentence == " ".join(sentence.split())
        assert re.fullmatch(r"[A-Z][A-Za-z ,;'-]*[.?]", sentence), sentence


def test_the_text_is_ambiguous() -> None:
    assert len(SENSES) >= 25
    for word, pieces in SENSES.items():
        places = [[i for i, s in enumerate(SENTENCES) if piece in s and word in s.casefold()] for piece in pieces]
        assert all(places), (word, pieces)
        assert len({tuple(place) for place in places}) >= 2, f"{word}: its senses stand in the same sentences"


def test_languages() -> None:
    assert Counter(row["lang"] for row in ROWS) == LANGUAGES
    assert sum(LANGUAGES.values()) == len(ROWS) == 40
    assert len({plain(row) for row in ROWS}) == 40


@pytest.mark.parametrize("row", ROWS, ids=[f"{row['lang']}-{i}" for i, row in enumerate(ROWS, 1)])
class TestQuery:
    def test_fields(self, row: dict[str, Any]) -> None:
        assert list(row) == ["lang", "query", "expected", "note"]
        assert row["note"] == row["note"].strip() != ""

    def test_marks_are_one_pair_around_whole_words(self, row: dict[str, Any]) -> None:
        result = re.fullmatch(r"([^\[\]]*)\[\[([^\[\]]+)\]\]([^\[\]]*)", row["query"])
        assert result is not None
        before, phrase, after = result.groups()
        assert phrase == phrase.strip()
        if row["lang"] != "zh":
            assert not before[-1:].isalnum()
            assert not after[:1].isalnum()

    def test_is_one_sentence_of_its_language(self, row: dict[str, Any]) -> None:
        text = plain(row)
        assert 8 <= len(words(text)) <= 20
        assert text[-1] in ".?。？"
        script = LETTERS.get(row["lang"], "LATIN")
        assert all(unicodedata.name(c).startswith(script) for c in text if c.isalpha())

    def test_an_expected_wording_is_in_the_text(self, row: dict[str, Any]) -> None:
        assert row["expected"]
        assert len({wording.casefold() for wording in row["expected"]}) == len(row["expected"])
        absent = [wording for wording in row["expected"] if not contains(ENGLISH, wording)]
        assert absent == [], "a wording that is nowhere in the text can never be found"

    def test_expected_wordings_can_be_phrases(self, row: dict[str, Any]) -> None:
        for wording in row["expected"]:
            assert 1 <= len(wording.split()) <= 5
            assert wording[0].isalnum()
            assert wording[-1].isalnum()


def test_every_tenth_sentence_is_asked() -> None:
    """Each query asks for a phrase of its own sentence: the fifth, the fifteenth, and so on."""
    for number, row in enumerate(ROWS):
        sentence = SENTENCES[10 * number + 4]
        assert any(contains(sentence, wording) for wording in row["expected"]), sentence


def test_whole_words_only() -> None:
    assert contains("A Bank, closed.", "bank")
    assert not contains("Snowbanks and banking.", "bank")
