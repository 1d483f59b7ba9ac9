"""Examples found in one pass: against a plain loop, in many scripts, and which of many are taken."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from pathlib import Path
from unicodedata import category, normalize

import pytest

from phrasemate.dataset import SentenceFiles
from phrasemate.errors import InputError, MissingExtra
from phrasemate.examples import occurrences


def files(folder: Path, *texts: Sequence[str], longest: int = 500) -> SentenceFiles:
    paths = [folder / f"{number}.txt" for number in range(len(texts))]
    for path, lines in zip(paths, texts, strict=True):
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return SentenceFiles(*paths, longest=longest)


LINES = [
    "The art of war is old.",
    "A party is not a place for it.",
    "ART! and more art, said she.",
    "state-of-the-art machines",
    "Die Straße ist lang, die STRASSE ist nass.",
    "El niño juega con los NIÑOS.",
    "我去银行取钱，行不行？",
    "水曜日に水を飲む。",
    "프린터에서 인쇄합니다, 새 프린터입니다.",
    "l'eau et l'art de vivre, it's art's own",
    "El nin\u0303o duerme en la cama.",
    "Iğdır’da ılık bir gün; IĞDIR güzel.",
    "İstanbul'da bir gün, istanbul.",
    "under_art_score stays whole; art_2 too",
    "",
    "art",
    "Auf 500 km² steht es; 3½ Stunden weit.",
    "Die  lange   Straße ist weit.",
]
PHRASES = [
    "art",
    "Straße",
    "niño",
    "银行",
    "行",
    "水",
    "水曜日",
    "프린터",
    "eau",
    "istanbul",
    "ılık",
    "state",
    "no such",
    "500 km",
    "3",
    "lange Straße",
]


def test_the_same_as_looking_at_every_sentence(tmp_path: Path) -> None:
    result = files(tmp_path, LINES).find_all(PHRASES, limit=100, extra=1)
    for phrase, examples in zip(PHRASES, result, strict=True):
        expected = {line: occurrences(phrase, line) for line in LINES if len(line) > len(phrase)}
        assert {(one.context, (one.start, one.end)) for one in examples} == {
            (line, spans[0]) for line, spans in expected.items() if spans
        }, phrase
    assert [len(examples) for examples in result] == [4, 2, 2, 1, 0, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1]


def test_random_texts_against_the_plain_loop(tmp_path: Path) -> None:
    draw = random.Random(5)
    letters = ["a", "b", "ab", "ba", "é", "e\u0301", "ß", "ss", "-", "'", ".", " ", " ", "_", "水", "行", "가", "1"]
    lines = sorted({"".join(draw.choices(letters, k=12)).strip() for _ in range(400)})
    phrases = sorted({"".join(draw.choices(letters[:8] + letters[13:], k=draw.randint(1, 3))) for _ in range(60)})
    result = files(tmp_path, lines).find_all(phrases, limit=1000, extra=0)
    for phrase, examples in zip(phrases, result, strict=True):
        holding = {line for line in lines if occurrences(phrase, line)}
        assert {one.context for one in examples} <= holding
        assert {_without_marks(one.context) for one in examples} == {_without_marks(line) for line in holding}


def _without_marks(line: str) -> str:
    line = normalize("NFC", line).casefold()
    return "".join(
        char
        for at, char in enumerate(line)
        if char.isalpha() or (category(char) == "Mn" and line[:at].rstrip("\u0301")[-1:].isalpha())
    )


def test_longer_by_so_many_characters(tmp_path: Path) -> None:
    lines = ["art " + "x" * 8, "art " + "y" * 9, "art " + "x" * 17, "art " + "x" * 18]
    examples = files(tmp_path, lines, longest=21).find("art")
    assert sorted(len(one.context) for one in examples) == [3 + 10, 21]


def test_what_differs_in_numbers_and_case_counts_once(tmp_path: Path) -> None:
    lines = ["Page 1 of the menu card.", "PAGE 2 of the menu card!", "Page one of the menu card."]
    assert len(files(tmp_path, lines).find("menu")) == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("\u0130stanbul und die Bank", "istanbul und die Bank"),
        ("Die Bank \u2764\ufe0f hier", "Die Bank \u2764 hier"),
        ("1\ufe0f\u20e3 Die Bank hier", "1 Die Bank hier"),
        ("Caf\u00e9 bei der Bank", "Cafe\u0301 bei der Bank"),
    ],
)
def test_another_look_is_not_other_sentence(tmp_path: Path, one: str, other: str) -> None:
    assert len(files(tmp_path, [one, other]).find("Bank")) == 1


def test_vowel_signs_are_not_punctuation(tmp_path: Path) -> None:
    lines = [
        "\u0935\u0939 \u0918\u0930 \u0917\u092f\u093e \u0925\u093e\u0964",
        "\u0935\u0939 \u0918\u0930 \u0917\u092f\u0940 \u0925\u0940\u0964",
    ]  # he and she went home
    assert len(files(tmp_path, lines).find("\u0918\u0930")) == 2


def test_a_sample_is_the_same_each_time_and_begins_with_the_smaller_one(tmp_path: Path) -> None:
    names = ["".join(random.Random(n).choices("abcdefgh", k=9)) for n in range(400)]
    lines = [f"The menu of {name} is long." for name in names]
    texts = files(tmp_path, lines)
    eight = texts.find("menu", limit=8)
    assert len(eight) == 8
    assert texts.find("menu", limit=3) == eight[:3]
    assert texts.find("menu", limit=8, seed=1) != eight
    (tmp_path / "other").mkdir()
    assert files(tmp_path / "other", lines[200:], lines[:200]).find("menu", limit=8) == eight  # order is no matter


def test_every_sentence_has_the_same_chance(tmp_path: Path) -> None:
    names = ["".join(random.Random(n).choices("abcdefgh", k=9)) for n in range(10)]
    texts = files(tmp_path, [f"The menu of {name} is long." for name in names])
    drawn = [one.context for seed in range(300) for one in texts.find("menu", limit=2, seed=seed)]
    counts = [sum(name in text for text in drawn) for name in names]
    assert sum(counts) == 600
    assert all(35 < count < 90 for count in counts)  # 60 each, give or take four standard deviations of 7


def test_spellings_of_one_phrase_are_found_alike(tmp_path: Path) -> None:
    texts = files(tmp_path, ["We read the Menu at noon."])
    upper, lower, spaced = texts.find_all(["MENU", "menu", " menu"])
    assert upper == lower == spaced
    assert upper[0].text == "Menu"


def test_progress_and_empty_files(tmp_path: Path) -> None:
    events: list[tuple[int, int]] = []
    texts = files(tmp_path, [], ["a menu for the two of us"])
    assert len(texts.find_all(["menu"], progress=lambda result, total: events.append((result, total)))[0]) == 1
    assert events[-1] == (25, 25)
    assert files(tmp_path, []).find("menu") == []
    assert texts.find_all([]) == []


def test_progress_is_told_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phrasemate.dataset.aho_corasick._OFTEN", 20)
    events: list[tuple[int, int]] = []
    texts = files(tmp_path, ["a menu a", "b menu b", "c menu c"], ["d menu d"] * 2)  # 9 bytes each
    texts.find_all(["menu"], progress=lambda *event: events.append(event))
    assert events == [(27, 45), (45, 45)]  # after 20 bytes, then at the end


def test_a_blank_phrase(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="empty phrase"):
        files(tmp_path, ["a"]).find(" ")


def test_without_the_matcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ahocorasick_rs", None)
    with pytest.raises(MissingExtra, match=r"phrasemate\[dataset\]"):
        files(tmp_path, ["a"]).find("a")
