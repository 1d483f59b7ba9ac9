"""Words that a language spells in two ways find each other: in the lexicon, in a dictionary and in an index."""

from __future__ import annotations

import numpy as np
import pytest

from phrasemate.index.exact import Runs
from phrasemate.index.wordings import Wordings, segment_of
from phrasemate.lexicon import Dictionary, bundled_lexicon, stemmed
from phrasemate.lexicon.spelling import readings, respell, spellings
from phrasemate.text.normalize import dotless, folded

PAIRS = [
    ("zh", "圖書館", "图书馆"),
    ("zh", "頭髮", "头发"),  # not the sign for "send", which is simplified to the same one
    ("zh", "ＵＳＢ插座", "USB插座"),
    ("ro", "ştiinţă", "știință"),
    ("fa", "كتاب قديمي", "کتاب قدیمی"),
    ("fr", "cœur", "coeur"),
    ("he", "סֵפֶר", "ספר"),
    ("ja", "サーバー", "サーバ"),
    ("ja", "ｻｰﾊﾞｰ管理", "サーバ管理"),
    ("ru", "Самолёт", "самолет"),
    ("tr", "İnsan", "insan"),
    ("tr", "Işık", "ışık"),
    ("vi", "hoà bình", "hòa bình"),
    ("vi", "thuỷ", "thủy"),
]


@pytest.mark.parametrize(("lang", "one", "other"), PAIRS)
def test_two_spellings_become_one(lang: str, one: str, other: str) -> None:
    spelling = respell(folded(one), lang)
    assert spelling == respell(folded(other), lang) == respell(spelling, lang)
    assert stemmed(one, lang) == stemmed(other, lang)
    assert stemmed(one, f"{lang}-XX") == stemmed(one, lang)


def test_what_is_not_a_second_spelling_stays() -> None:
    for lang, word in (("ja", "キー"), ("ja", "コーヒーカップ"), ("tr", "kadın"), ("de", "größe"), ("he", "ספר־בית")):
        assert respell(word, lang) == word


def test_the_lexicon_lists_either_spelling() -> None:
    lexicon = bundled_lexicon()
    assert lexicon is not None
    rare, usual = (lexicon.equivalents(word, "zh", "en")[0] for word in ("發展", "发展"))
    assert rare == usual
    assert rare.exact
    assert rare.text == "development"
    assert lexicon.equivalents("İnsan", "tr", "en")[0].text == "human"
    assert dict(lexicon.into_english("發展", "zh"))["development"] == pytest.approx(rare.weight)


@pytest.mark.parametrize(("listed", "query"), [("圖書館", "图书馆"), ("图书馆", "圖書館")])
def test_a_dictionary_of_either_script_answers(listed: str, query: str) -> None:
    dictionary = Dictionary("mine", [[("zh", listed), ("en", "library")]])
    assert [(item.text, item.exact) for item in dictionary.equivalents(query, "zh-TW", "en")] == [("library", True)]


def test_an_index_holds_either_script() -> None:
    wordings = ["學校", "圖書館", "图书馆"]
    segment = segment_of(wordings, ["zh"] * 3, np.arange(3), np.arange(3), 0, 3)
    table = Wordings([segment], Runs(np.zeros((0, 2), np.int64)))
    assert set(table.of_stems([stemmed("图书馆", "zh")])[0]) == {"圖書館", "图书馆"}
    assert table.of_stems([stemmed("学校", "zh")]) == [["學校"]]


def test_spellings_of_other_languages_are_two_at_most() -> None:
    assert spellings("viaţă", "ro") == ["viaţă", "viață"]
    assert spellings("viață", "ro") == ["viață"]
    assert spellings("house", "zh") == ["house"]


def test_half_a_surrogate_pair_is_taken() -> None:
    lexicon = bundled_lexicon()
    assert lexicon is not None
    assert respell("圖\ud800", "zh") == "图?"
    for lang, *_ in PAIRS:
        assert lexicon.equivalents("xyz\ud800圖\ud800", lang, "en") == []
        assert lexicon.into_english("圖\ud800", lang) == ()


TURKISH = [("tr", "sınır"), ("en", "border")], [("tr", "sinir"), ("en", "nerve")], [("tr", "bilgisayar"), ("en", "PC")]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SINIR", "border"),
        ("SİNİR", "nerve"),
        ("sinir", "nerve"),
        ("Sınır", "border"),
        ("BİLGİSAYAR", "PC"),
        ("BILGISAYAR", "PC"),  # typed without the dots
    ],
)
def test_turkish_words_in_capitals_are_found(query: str, expected: str) -> None:
    dictionary = Dictionary("mine", TURKISH)
    assert [item.text for item in dictionary.equivalents(query, "tr", "en")] == [expected]


def test_the_lexicon_reads_turkish_capitals_as_the_small_letters() -> None:
    lexicon = bundled_lexicon()
    assert lexicon is not None
    for capitals, small in (("SINIR", "sınır"), ("IŞIK", "ışık"), ("BİLGİSAYARI", "bilgisayarı"), ("İNSAN", "insan")):
        equivalents = lexicon.equivalents(capitals, "tr", "en")
        assert equivalents == lexicon.equivalents(small, "tr", "en")
        assert equivalents[0].exact
    assert lexicon.languages_of(["BİLGİSAYARI YENİDEN BAŞLATIN."]) == ["tr"]


def test_the_table_of_an_older_version_lists_a_capital_with_its_dot() -> None:
    assert spellings("insan ismi", "tr") == ["insan ismi", "i\u0307nsan i\u0307smi"]
    assert spellings("ışık", "tr") == ["ışık", "işık"]


def test_only_turkish_capitals_have_two_readings() -> None:
    assert readings("BILGI", "tr") == ["bılgı", "bilgi"]
    assert [readings(text, "tr") for text in ("Irak", "IMF'nin", "kedi")] == [["irak"], ["imf'nin"], ["kedi"]]
    assert readings("FINI", "fr") == ["fini"]
    assert dotless("SINIR KAPISI.", "az") == "SıNıR KAPıSı."
