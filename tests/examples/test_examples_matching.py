from __future__ import annotations

import random
from unicodedata import normalize

import pytest
from example_texts import SENTENCES, phrases_of

from phrasemate.errors import InputError
from phrasemate.examples import occurrences
from phrasemate.examples.matching import lookup, tokens
from phrasemate.text import words


@pytest.mark.parametrize(
    ("phrase", "text", "expected"),
    [
        ("art", "The party of art, ART.", [(13, 16), (18, 21)]),
        ("straße", "Große STRASSE, Straße", [(6, 13), (15, 21)]),
        ("STRASSE", "eine Straße", [(5, 11)]),
        ("masse", "Maße und Masse", [(0, 4), (9, 14)]),
        ("s", "Maß s", [(4, 5)]),
        ("ss", "ß", [(0, 1)]),
        ("istanbul", "İİ İSTANBUL", [(3, 11)]),
        ("x", "İİİ x", [(4, 5)]),  # İ in lower case is two characters; places stay
        ("ırak", "Irak, IRAK, irak", [(0, 4), (6, 10)]),
        ("λόγος", "ΛΌΓΟΣ λόγος", [(0, 5), (6, 11)]),
        ("open source", "open  Source, OPEN\u00a0SOURCE", [(0, 12), (14, 25)]),
        ("na na", "na na na na", [(0, 5), (6, 11)]),
        ("ba ba c", "ba ba ba c", [(3, 10)]),
        ("C++", "C++, not C", [(0, 3)]),
        ("3", "3.5 or 3", [(7, 8)]),
        ("ordinateur", "l’ordinateur d'ordinateur", [(2, 12), (15, 25)]),
        ("dog", "The dog's dogs", [(4, 7)]),
        ("don", "Don don't", [(0, 3)]),
        ("ankara", "Ankara'da", [(0, 6)]),
        ("eu", "EU:n", [(0, 2)]),
        ("(art)", "an (art) is", [(3, 8)]),
        ("水", "水曜日の水", [(4, 5)]),
        ("手机", "智能手机和手机壳", [(2, 4), (5, 7)]),
        ("自由软件", "自由软件基金会", [(0, 4)]),
        ("น้ำ", "น้ำตาลและน้ำ", [(9, 12)]),
        ("PC", "PC를 켜라", [(0, 2)]),
        ("art", "", []),
    ],
)
def test_occurrences(phrase: str, text: str, expected: list[tuple[int, int]]) -> None:
    assert occurrences(phrase, text) == expected


@pytest.mark.parametrize("number", list("²½①⑫❶㈠㊿፩༪௰৴\u0b72\u2cfd\ua830\U00010107\U00010e60\U0001d360\U0001f100"))
def test_a_word_is_looked_up_where_it_stands_beside_a_number_of_its_own(number: str) -> None:
    for text in (f"ab{number}", f"{number}ab", f"cd{number}ab"):
        assert occurrences("ab", text)
        assert "ab" in tokens(text)


@pytest.mark.parametrize(
    ("phrase", "text", "expected"),
    [
        ("프린터", "프린터", True),
        ("프린터", "프린터가", True),
        ("프린터", "프린터이", False),  # 이 stands after a consonant
        ("프린터", "프린터에서는", True),
        ("사용자", "사용자들이", True),
        ("사용자", "사용자입니다", True),
        ("프린터", "프린터공장", False),
        ("린터", "프린터", False),
        ("파일", "파일로", True),  # ㄹ counts as a vowel before 로
        ("화면", "화면로", False),
        ("화면", "화면으로", True),
        ("파", "파이", False),  # a pie
        ("파", "파가", True),
        ("지", "지도", False),  # a map
        ("회", "회의", False),  # a meeting
        ("물", "물을", True),
        ("새 물", "새 물은", True),
    ],
)
def test_korean_particles(phrase: str, text: str, expected: bool) -> None:
    assert occurrences(phrase, text) == ([(0, len(phrase))] if expected else [])


def test_many_particles_take_no_longer_than_they_are_long() -> None:
    assert occurrences("코카", "코카" + "라도" * 2_000) == [(0, 2)]
    assert occurrences("코카", "코카" + "라도" * 2_000 + "뷁") == []  # 라도 is also 라 and 도: 2 ** 2,000 ways to cut


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_composed_and_decomposed_characters_are_equal(form: str) -> None:
    text = normalize("NFD", "le café, ") + normalize("NFC", "le Café")
    assert [text[start:end] for start, end in occurrences(normalize(form, "café"), text)] == ["cafe\u0301", "Café"]
    assert occurrences("cafe", text) == []


def test_against_every_start_and_end() -> None:
    draw = random.Random(0)
    for _ in range(300):
        text = "".join(draw.choice("aAbBß S.") for _ in range(12))
        phrase = "".join(draw.choice("abs") for _ in range(draw.randint(1, 3)))
        inside = {at for start, end in words(text) for at in range(start + 1, end)}
        expected: list[tuple[int, int]] = []
        for start in range(len(text)):
            for end in range(start + 1, len(text) + 1):
                free = not {start, end} & inside and (not expected or expected[-1][1] <= start)
                if free and text[start:end].casefold() == phrase:
                    expected.append((start, end))
        assert occurrences(phrase, text) == expected, (phrase, text)


@pytest.mark.parametrize("blank", ["", " \n"])
def test_a_blank_phrase_is_refused(blank: str) -> None:
    with pytest.raises(InputError, match="cannot look for an empty phrase"):
        occurrences(blank, "text")


@pytest.mark.parametrize(
    ("phrase", "expected"),
    [
        ("Open Source", (["open", "source"], False)),
        ("水", (["水"], True)),
        ("打印机", (["打印", "印机"], False)),
        ("PC水", (["pc", "水"], True)),
        ("İstanbul ırak", (["istanbul", "irak"], False)),
        ("-->", ([], False)),
    ],
)
def test_what_is_looked_up(phrase: str, expected: tuple[list[str], bool]) -> None:
    assert lookup(phrase) == expected


def test_every_run_of_words_has_its_tokens_in_the_text() -> None:
    for text in SENTENCES:
        token_list = tokens(text)
        for phrase in phrases_of(text):
            key, beginning = lookup(phrase.upper())
            for at in range(len(token_list)):
                *whole, last = token_list[at : at + len(key)]
                if [*whole, last[: len(key[-1])] if beginning else last] == key:
                    break
            else:
                pytest.fail(f"{phrase!r} is not looked up in {text!r}")


@pytest.mark.parametrize(
    ("phrase", "text", "expected"),
    [
        ("Garten", "Gar\u00adten, \u200fGarten\u200e!", [(0, 7), (10, 16)]),
        ("Gar\u00adten", "\ufeffGarten", [(1, 7)]),
        ("garten", "Gar\u200bten", [(0, 7)]),
        ("gar", "Gar\u200bten gar", [(8, 11)]),
        ("ten", "Gar\u00adten ten", [(8, 11)]),
        ("dog's tail", "the dog\u2019s tail, dog\u02bcs tail, dog\uff07s tail", [(4, 14), (16, 26), (28, 38)]),
        ("dog\u2019s", "dog's", [(0, 5)]),
        ("dog", "dog\u02bcs", [(0, 3)]),
        ("well-known", "well\u2011known, well\u2010known, well–known", [(0, 10), (12, 22)]),
        ("die straße", "DIE STRAS\u00adSE", [(0, 12)]),
        ("می\u200cرود", "او می\u200cرود", [(3, 9)]),
        ("میرود", "او می\u200cرود", []),
    ],
)
def test_what_is_not_seen_and_the_forms_of_a_sign(phrase: str, text: str, expected: list[tuple[int, int]]) -> None:
    assert occurrences(phrase, text) == expected


def test_a_text_is_looked_up_by_what_is_seen_of_it() -> None:
    assert tokens("Gar\u00adten\u200e dog\u02bcs") == tokens("Garten dog's") == ["garten", "dog", "s"]
