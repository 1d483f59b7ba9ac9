"""Words that a language spells in two ways find each other: in the lexicon, in a dictionary and in an index."""

from __future__ import annotations

import numpy as np
import pytest

from phrasemate.index.exact import Runs
from phrasemate.index.wordings import Wordings, segment_of
from phrasemate.lexicon import Dictionary, bundled_lexicon, stemmed
from phrasemate.lexicon.spelling import may_lack_accents, readings, respell, spellings, without_accents
from phrasemate.lexicon.wordings import Keys, encoded
from phrasemate.lexicon.wordings import Wordings as Wordlist
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


@pytest.mark.parametrize(
    ("lang", "query", "word"),
    [
        ("fr", "CLE", "clé"),
        ("fr", "ETAT", "état"),
        ("fr", "MEDECIN", "médecin"),
        ("de", "Schluessel", "Schlüssel"),
        ("de", "TUER", "Tür"),
        ("de", "STRASSE", "Straße"),
        ("el", "ΥΠΟΛΟΓΙΣΤΗΣ", "υπολογιστής"),
        ("tr", "bilgisayari", "bilgisayarı"),
        ("pl", "slonce", "słońce"),
    ],
)
def test_the_lexicon_finds_words_without_accents(lang: str, query: str, word: str) -> None:
    lexicon = bundled_lexicon()
    assert lexicon is not None
    equivalents = lexicon.equivalents(query, lang, "en")
    assert equivalents == lexicon.equivalents(word, lang, "en")
    assert equivalents[0].exact


def test_english_words_lack_no_accents() -> None:
    lexicon = bundled_lexicon()
    assert lexicon is not None
    assert lexicon.knows("byte", "en")
    assert lexicon.equivalents("bytě", "cs", "en")[0].exact
    assert not any(equivalent.exact for equivalent in lexicon.equivalents("byte", "cs", "en"))


def test_accents_are_added_only_to_words_that_are_not_listed() -> None:
    entries = [("fr", "côté"), ("en", "side")], [("fr", "côte"), ("en", "coast")], [("fr", "cote"), ("en", "rating")]
    dictionary = Dictionary("mine", entries)
    texts = {
        query: [item.text for item in dictionary.equivalents(query, "fr", "en")] for query in ("COTE", "côte", "cotè")
    }
    assert texts == {"COTE": ["rating"], "côte": ["coast"], "cotè": []}
    without = Dictionary("mine", entries[:2])
    assert [item.text for item in without.equivalents("COTE", "fr", "en")] == ["coast", "side"]


def test_many_wordings_with_one_beginning_are_searched_letter_by_letter() -> None:
    listed = [f"prét{number:04}" for number in range(500)] + ["prêt"]
    keys = Keys(Wordlist.of(sorted(listed, key=encoded)))
    for word in listed:
        assert [keys.wordings[row] for row in keys.accented(without_accents(word), "fr")] == [word]
    assert keys.accented("preto", "fr") == []


def test_which_words_may_lack_accents() -> None:
    assert [without_accents("grösse über", lang) for lang in ("de", "fr")] == ["groesse ueber", "grosse uber"]
    assert without_accents("смелый ガ", "ru") == "смелый ガ"
    assert [may_lack_accents(word, "fr") for word in ("cle", "clé", "42", "смелый")] == [True, False, False, False]
    assert not may_lack_accents("nguoi", "vi")
