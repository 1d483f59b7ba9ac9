"""What the set of ambiguous phrases promises: its counts, its marks, and that only the sense tells its lines apart."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from importlib.resources import files
from itertools import combinations
from typing import Any

import pytest

import phrasemate.evaluate
from phrasemate.text import words

TEXT = (files(phrasemate.evaluate) / "polysemy.jsonl").read_text(encoding="utf-8")
ROWS: list[dict[str, Any]] = [json.loads(line) for line in TEXT.splitlines()]
SENSES: list[tuple[dict[str, Any], dict[str, Any]]] = [(row, sense) for row in ROWS for sense in row["senses"]]
CONTEXTS: list[str] = [text for _, sense in SENSES for text in sense["contexts"]]
MATES: list[str] = [text for _, sense in SENSES for text in sense["mates"]]
LANGUAGES = {"de": 31, "cs": 31, "fr": 32, "es": 32, "ru": 34, "tr": 34}
LONG = {"de": 8, "cs": 9, "fr": 8, "es": 8, "ru": 8, "tr": 8}  # phrases of two words or more

MARK = re.compile(r"\[\[([^\[\]]+)\]\]")
# A word of `english` -> the words that may stand for it in a mate, beside its regular forms.
IRREGULAR = {
    "be": "am|is|are|was|were|been|being",
    "beg": "begged",
    "blow": "blew",
    "drag": "dragging",
    "eat": "ate",
    "empty": "emptied",
    "fall": "fell",
    "get": "got",
    "give": "gave|given",
    "go": "went",
    "hang": "hung",
    "have": "had|has",
    "lose": "lost",
    "make": "made",
    "pay": "paid",
    "sit": "sat",
    "stand": "stood",
    "strike": "struck",
    "throw": "threw",
    "one's": "my|your|his|her|its|our|their",
    "someone's": "my|your|his|her|its|our|their",
    "oneself": "myself|yourself|himself|herself|itself",
    "someone": "me|you|him|her|us|them",
}


def marked(text: str) -> str:
    """The marked phrase, as it stands, case folded."""
    (phrase,) = MARK.findall(text)
    return str(phrase).casefold()


def plain(text: str) -> str:
    return text.replace("[[", "").replace("]]", "")


def inflections(english: str) -> re.Pattern[str]:
    """Matches the phrase with any of its words inflected."""
    forms = []
    for word in english.casefold().split():
        stem = re.escape(word.removesuffix("e"))
        forms.append(f"(?:{re.escape(word)}|{stem}(?:s|es|ed|ing)|{IRREGULAR.get(word, word)})")
    return re.compile(" ".join(forms))


def tokens(text: str) -> list[str]:
    return [plain(text)[start:end].casefold() for start, end in words(plain(text))]


def test_each_language_has_its_phrases() -> None:
    assert Counter(row["lang"] for row in ROWS) == LANGUAGES
    assert Counter(row["lang"] for row in ROWS if " " in row["phrase"]) == LONG
    assert len({(row["lang"], row["phrase"].casefold()) for row in ROWS}) == len(ROWS)


def test_each_line_has_its_keys_and_two_senses_or_more() -> None:
    for row in ROWS:
        assert list(row) == ["lang", "phrase", "senses"]
        assert len(row["senses"]) >= 2, row["phrase"]
        for sense in row["senses"]:
            assert list(sense) == ["english", "contexts", "mates"]
            assert (len(sense["contexts"]), len(sense["mates"])) == (2, 2), row["phrase"]


def test_one_mark_around_whole_words() -> None:
    for text in CONTEXTS + MATES:
        assert (text.count("[["), text.count("]]")) == (1, 1), text
        match = MARK.search(text)
        assert match is not None, text
        assert match[1] == match[1].strip(), text
        spans = words(plain(text))
        start = match.start()
        assert start in {start for start, _ in spans}, text
        assert start + len(match[1]) in {end for _, end in spans}, text


def test_sentences_are_clean_and_of_6_to_20_words() -> None:
    for text in CONTEXTS + MATES:
        assert 6 <= len(re.findall(r"[\w'’-]+", plain(text))) <= 20, text
        assert text == unicodedata.normalize("NFC", text).strip()
        assert "  " not in text
        assert text[-1] in ".!?"
        first = plain(text).lstrip("¿¡")[0]
        assert first.isupper(), text


def test_no_two_sentences_are_alike() -> None:
    assert len({plain(text).casefold() for text in CONTEXTS + MATES}) == len(CONTEXTS) + len(MATES)
    by_lang: dict[str, list[frozenset[str]]] = {"en": [frozenset(tokens(text)) for text in MATES]}
    for row, sense in SENSES:
        by_lang.setdefault(row["lang"], []).extend(frozenset(tokens(text)) for text in sense["contexts"])
    for lang, sentences in by_lang.items():
        for one, other in combinations(sentences, 2):
            common = len(one & other)
            assert common <= 3 or common < 0.7 * min(len(one), len(other)), (lang, one & other, one ^ other)


def test_contexts_are_written_in_the_letters_of_the_language() -> None:
    for row, sense in SENSES:
        for text in sense["contexts"]:
            scripts = {unicodedata.name(letter).split()[0] for letter in text if letter.isalpha()}
            assert scripts == {"CYRILLIC" if row["lang"] == "ru" else "LATIN"}, text


def test_the_marked_words_are_the_phrase_or_an_inflection() -> None:
    for row, sense in SENSES:
        for text in sense["contexts"]:
            ours, theirs = marked(text).split(), row["phrase"].casefold().split()
            assert len(ours) == len(theirs), text
            assert all(a[:2] == b[:2] for a, b in zip(ours, theirs, strict=True)), text


def test_the_senses_of_a_phrase_share_a_form() -> None:
    for row in ROWS:
        forms = [{marked(text) for text in sense["contexts"]} for sense in row["senses"]]
        assert set.intersection(*forms), row["phrase"]


def test_the_mates_mark_the_english_of_their_sense() -> None:
    for row, sense in SENSES:
        for text in sense["mates"]:
            assert inflections(sense["english"]).fullmatch(marked(text)), (row["phrase"], text)


def test_no_mate_marks_the_english_of_another_sense_of_its_phrase() -> None:
    for row in ROWS:
        for one, other in combinations(row["senses"], 2):
            for sense, mates in ((one, other["mates"]), (other, one["mates"])):
                form = inflections(sense["english"])
                assert not any(form.fullmatch(marked(text)) for text in mates), row["phrase"]


def test_the_marked_form_stands_once_in_its_sentence() -> None:
    for text in CONTEXTS + MATES:
        assert len(re.findall(rf"\b{re.escape(marked(text))}\b", plain(text).casefold())) == 1, text


@pytest.mark.parametrize(
    ("english", "form", "fits"),
    [
        ("drag one's feet", "dragging its feet", True),
        ("be done for", "was done for", True),
        ("make the sleeve", "making the sleeve", True),
        ("give up", "up", False),
        ("bench", "bank", False),
        ("sail", "sailor", False),
    ],
)
def test_inflections_are_reported_from_other_words(english: str, form: str, fits: bool) -> None:
    assert bool(inflections(english).fullmatch(form)) is fits
