from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from unicodedata import normalize

import numpy as np
import pytest
from index_fakes import FakeModel

from phrasemate import Document, Index
from phrasemate.errors import InputError
from phrasemate.lookup import _fragments, lookup
from phrasemate.text import read

TEXTS = [
    "The bank took collateral for the loan.",
    "Two banks sold the Bank of the river.",
    "Banking is hard; a banker knows.",
    "He secured the security interest, and the securities.",
    "Collateral must be good collateral.",
]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    with Index.create(tmp_path_factory.mktemp("lookup") / "idx", FakeModel()) as result:
        result.add(
            [Document.from_texts("a/one.txt", TEXTS[:3]), Document.from_texts("b/two.txt", TEXTS[3:])], lang="en"
        )
        result.add([Document.from_texts("zh.txt", ["老人坐在公园的长椅上看报纸。"])], lang="zh")
        yield result


def matches(index: Index, query: str, way: str = "words", **options: object) -> list[str]:
    return [line.match for line in lookup(index, query, way, **options).lines]  # type: ignore[arg-type]


def test_whole_words_case_aside(index: Index) -> None:
    assert matches(index, "bank") == ["bank", "Bank"]
    assert matches(index, "長椅") == []
    assert matches(index, "长椅") == ["长椅"]
    assert matches(index, "security interest") == ["security interest"]


def test_wildcards(index: Index) -> None:
    assert matches(index, "bank*") == ["bank", "banks", "Bank", "Banking", "banker"]
    assert matches(index, "bank?") == ["banks"]
    assert matches(index, "secur* interest*") == ["security interest"]


def test_forms(index: Index) -> None:
    assert matches(index, "bank", "forms") == ["bank", "banks", "Bank", "Banking"]  # one stem, by Snowball
    assert matches(index, "security", "forms") == ["security", "securities"]  # "secured" has this stem, too


FORMS = {
    "de": "Ärztin Ärztinnen Übelkeit Übelkeiten Änderung Änderungen Haus Häuser Häusern Apfel Äpfel Vertrags Fuß Füße",
    "fr": "l’ordinateur ordinateurs d'ordinateurs œuvre oeuvres l'œuvre complet complète",
    "ar": "الوزير للوزير الوزيرة",
    "es": "ámbito ámbitos AMBITO",
    "ru": "ёлка елки",
    "el": "άνθρωπος ανθρώπων",
}


@pytest.mark.parametrize(
    ("language", "query", "expected"),
    [
        ("de", "Ärztin", ["Ärztin"]),  # the stemmer keeps Ärztinnen apart
        ("de", "übelkeiten", ["Übelkeit", "Übelkeiten"]),
        ("de", "Änderung", ["Änderung", "Änderungen"]),
        ("de", "Haus", ["Haus", "Häuser", "Häusern"]),
        ("de", "Häuser", ["Haus", "Häuser", "Häusern"]),
        ("de", "äpfel", ["Apfel", "Äpfel"]),
        ("de", "Füße", ["Fuß", "Füße"]),
        ("fr", "l'ordinateur", ["l’ordinateur", "ordinateurs", "d'ordinateurs"]),
        ("fr", "ordinateur", ["l’ordinateur", "ordinateurs", "d'ordinateurs"]),
        ("fr", "œuvres", ["œuvre", "oeuvres", "l'œuvre"]),
        ("fr", "complètes", ["complet", "complète"]),
        ("ar", "الوزير", ["الوزير", "للوزير", "الوزيرة"]),
        ("es", "ambito", ["ámbito", "ámbitos", "AMBITO"]),
        ("ru", "елка", ["ёлка", "елки"]),
        ("el", "άνθρωπος", ["άνθρωπος", "ανθρώπων"]),
    ],
)
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_forms_whose_first_letters_differ_from_the_stem(
    tmp_path: Path, language: str, query: str, expected: list[str], form: str
) -> None:
    texts = [normalize(form, word) for word in FORMS[language].split()]
    with Index.create(tmp_path / "idx", FakeModel()) as index:
        index.add([Document.from_texts("a.txt", texts)], lang=language)
        wordings = matches(index, normalize(form, query), "forms")
        assert [normalize("NFC", wording) for wording in wordings] == expected


@pytest.mark.parametrize(
    ("query", "words", "forms"),
    [
        ("食べる", ["食べる"], ["食べた", "食べる"]),
        ("約束を守る", [], ["約束を守らなかった"]),
        ("図書", ["図書"], ["図書"]),  # a part of 図書館
        ("コンピューター", [], ["コンピュータ"]),
        ("来る", [], ["来た"]),
        ("自行車", ["自行車"], ["自行车", "自行車"]),
        ("自行车", ["自行车"], ["自行车", "自行車"]),
        ("台灣", ["台灣"], ["台湾", "台灣", "臺灣"]),
    ],
)
@pytest.mark.parametrize("language", ["zh", "en"])
def test_forms_without_spaces(tmp_path: Path, query: str, words: list[str], forms: list[str], language: str) -> None:
    japanese = ["昨日すしを食べた。", "食べる人。", "約束を守らなかった。", "図書館とコンピュータ。", "彼が来た。"]
    chinese = ["他骑自行车。", "他騎自行車。", "台湾人", "台灣很美。", "臺灣的茶。"]
    with Index.create(tmp_path / "idx", FakeModel()) as index:
        index.add([Document.from_texts("a.txt", [*japanese, *chinese])], lang=language)
        assert matches(index, query) == words
        assert matches(index, query, "forms") == forms


def test_japanese_characters_are_not_simplified(tmp_path: Path) -> None:
    with Index.create(tmp_path / "idx", FakeModel()) as index:
        index.add([Document.from_texts("a.txt", ["皇后", "午後"])], lang="ja")
        assert matches(index, "後", "forms") == ["後"]


@pytest.mark.parametrize("way", ["words", "forms"])
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("file", ["ﬁle", "file"]),
        ("ﬁle", ["ﬁle", "file"]),
        ("OFFICE", ["Oﬃce", "ofﬁce"]),
        ("flat", ["ﬂat"]),
        ("fin", ["ﬁn"]),
        ("USB", ["ＵＳＢ", "USB"]),
        ("ＵＳＢ", ["ＵＳＢ", "USB"]),
        ("mp3", ["ｍｐ３"]),
    ],
)
def test_ligatures_and_full_width_letters_are_usual_letters(
    tmp_path: Path, query: str, expected: list[str], way: str
) -> None:
    texts = [
        "Open the ﬁle.",
        "A file was lost.",
        "Oﬃce ﬂat",
        "An ofﬁce",
        "a ﬁn",
        "ＵＳＢ port",
        "新しいUSBメモリ",
        "ｍｐ３",
    ]
    with Index.create(tmp_path / "idx", FakeModel()) as index:
        index.add([Document.from_texts("a.txt", texts)], lang="en")
        answer = lookup(index, query, way)
        assert [line.match for line in answer.lines] == expected
        assert answer.wordings[0][1] == len(expected)


def test_wordings_are_listed_in_usual_letters(tmp_path: Path) -> None:
    with Index.create(tmp_path / "idx", FakeModel()) as index:
        index.add([Document.from_texts("a.txt", ["Open the ﬁle by ＵＳＢ."])], lang="en")
        answer = lookup(index, "file")
    assert (answer.wordings, dict(answer.after)) == ((("file", 1),), {"by": 1, "USB": 1})


def test_forms_are_those_of_each_document_in_its_language(tmp_path: Path) -> None:
    with Index.create(tmp_path / "idx", FakeModel()) as index:
        index.add([Document.from_texts("a.txt", ["The Haus studio.", "Two benches."])], lang="en")
        index.add([Document.from_texts("b.txt", ["Die Häuser und die Haustür der Stadt."])], lang="de")
        answer = lookup(index, "Haus", "forms")
        assert [line.match for line in answer.lines] == ["Haus", "Häuser"]
        assert "die" not in dict(answer.after)  # a function word, two places away
        assert matches(index, "bench", "forms") == ["benches"]


@pytest.mark.parametrize(
    ("language", "query", "forms", "other"),
    [
        ("de", "Küche", ["Küchen"], ["Kuchen"]),  # kitchen, cake
        ("es", "casa", ["casas"], ["caso", "casos"]),  # house, case
        ("it", "persona", ["persone"], []),  # person, people: "person" is a rare equivalent
        ("fi", "kirja", ["kirjan", "kirjat"], ["kirje", "kirjeen"]),  # book, letter
        ("en", "witness", ["witnesses", "witnessed"], ["wits"]),
        ("ar", "الوزير", ["للوزير"], []),  # the minister, for the minister
    ],
)
def test_other_words_of_one_stem_are_not_forms(
    tmp_path: Path, language: str, query: str, forms: list[str], other: list[str]
) -> None:
    with Index.create(tmp_path / "idx", FakeModel()) as index:
        index.add([Document.from_texts("a.txt", [query, *forms, *other])], lang=language)
        assert matches(index, query, "forms") == [query, *forms]


def test_a_form_without_a_letter_of_its_stem_is_found_by_reading_everything(tmp_path: Path) -> None:
    with Index.create(tmp_path / "idx", FakeModel()) as index:
        index.add([Document.from_texts("a.txt", ["그는 집에 갔다.", "비가 왔다."])], lang="ko")
        assert matches(index, "갔다", "forms") == ["갔다"]


@pytest.mark.parametrize(("before", "form", "query"), [("alte ", "Bäcker", "Bäckers"), ("Bus ", "自行车", "自行車")])
def test_forms_in_translations_with_variants(tmp_path: Path, before: str, form: str, query: str) -> None:
    (tmp_path / "memory.tmx").write_text(MEMORY.replace("Hund", before + form), "utf-8")
    with Index.create(tmp_path / "idx", FakeModel()) as index:
        index.add(list(read(tmp_path / "memory.tmx", lang="en")), lang="en")
        assert matches(index, query, "forms", side="translation", seconds=600) == [form]


def test_the_fragments_of_a_word_are_long_and_few() -> None:
    assert _fragments(["v", "e", "r", "t", "r", "aä", "g"]) == ["vertrag", "verträg"]
    assert _fragments(["aä", "eé", "uü", "oö", "x"]) == ["".join(parts) for parts in product("eé", "uü", "oö", "x")]
    assert _fragments(["eèé", "aàâ", "uù"]) == ["".join(parts) for parts in product("eèé", "aàâ", "uù")]
    assert (_fragments(["iı"]), _fragments([])) == (["i", "ı"], [])


def test_regular_expressions(index: Index) -> None:
    assert matches(index, r"(?>bank)s", "regex") == ["banks"]  # an atomic group
    assert matches(index, r"\b\w+ (interest|river)\b", "regex") == ["the river", "security interest"]


def test_regular_expressions_may_nest_repeats_refer_back_and_look_around(index: Index) -> None:
    assert matches(index, r"(s)ecurity.*(\1)", "regex") == ["security interest, and the securities"]
    assert matches(index, r"(?<=good )(\w+)", "regex") == ["collateral"]
    assert matches(index, r"(b(an)+)ker", "regex") == ["banker"]
    assert matches(index, r"\p{Han}+(?=椅)", "regex") == ["老人坐在公园的长"]


@pytest.mark.parametrize("query", ["(", "[a", "a{2,1}", r"\p{None}", "(?<x", "(" * 3_000 + ")" * 3_000])
def test_what_is_not_a_regular_expression_is_refused_in_one_sentence(index: Index, query: str) -> None:
    with pytest.raises(InputError, match=r"^not a regular expression: [^\n]+$"):
        lookup(index, query, "regex")


@pytest.mark.parametrize(
    "query",
    [
        *["a{100000}", "(?:(?:a{99}){99}){99}", "(?:b{0}(?:ab){999}){999,}", "a{" + "9" * 400 + "}"],
        "(?x)a{ 9 9 9 9 9 9 9 }",
    ],
)
def test_repeats_that_are_too_large_when_written_out_are_refused(index: Index, query: str) -> None:
    with pytest.raises(InputError, match="regular expression"):
        lookup(index, query, "regex")
    assert lookup(index, "(?x)a{9#,\n99999999}", "regex").count == 0  # a comment


@pytest.fixture(scope="module")
def long_sentence(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    """An index of one sentence, of 20,000 letters."""
    with Index.create(tmp_path_factory.mktemp("long") / "idx", FakeModel()) as index:
        index.add([Document.from_texts("a.txt", ["a" * 20_000])], lang="en")
        matches(index, "a")  # reads what is read once
        yield index


@pytest.mark.parametrize(
    ("query", "way"),
    [("(?:(?:a{1,100}){1,100}){1,100}b", "regex"), (".", "regex"), ("*a*a*a*a*a*a*b", "words")],
)
def test_the_time_limit_holds_within_a_sentence(long_sentence: Index, query: str, way: str) -> None:
    begin = time.monotonic()
    assert not lookup(long_sentence, query, way, seconds=0.2).whole
    assert time.monotonic() - begin < 5  # the limit counts seconds of the processor


@pytest.mark.parametrize("query", ["[a-z ]?" * 20 + "#", "(a+)+#", "(?:a|a|b)*?#", "(a?)*?" * 9 + "#"])
def test_what_grows_exponentially_elsewhere_ends_at_once(index: Index, query: str) -> None:
    begin = time.monotonic()
    assert lookup(index, query, "regex", seconds=60).whole
    assert time.monotonic() - begin < 5


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        *[("कित", []), ("किता*", ["किताब", "किताबें"]), ("किताब", ["किताब"]), ("कि?ब", ["किताब"])],
        *[
            ("公园的长椅", ["公园的长椅"]),
            ("椅", ["椅"]),
            ("IBM", ["IBM"]),
            ("ibm*", ["IBM"]),
            ("IBM公司", ["IBM公司"]),
        ],
        *[("strasse", ["Straße"]), ("Stra?e", ["Straße"]), ("traße", [])],
    ],
)
def test_whole_words_in_every_script(tmp_path: Path, query: str, expected: list[str]) -> None:
    texts = ["यह किताब है।", "दो किताबें हैं।", "老人坐在公园的长椅上。", "的IBM公司很大。", "Die Straße ist lang."]
    with Index.create(tmp_path / "idx", FakeModel()) as index:
        index.add([Document.from_texts("a.txt", texts)], lang="hi")
        assert matches(index, query) == expected


def test_frequency_and_neighbours(index: Index) -> None:
    answer = lookup(index, "collateral")
    assert (answer.count, answer.sentences) == (1 + 2, 2)
    assert answer.documents == (("b/two.txt", 2), ("a/one.txt", 1))
    assert answer.wordings == (("collateral", 3),)
    assert dict(answer.before)["took"] == 1
    assert dict(answer.after)["for"] == 1


def test_lines_are_sorted_by_their_contexts(index: Index) -> None:
    right = [line.right.split()[0] for line in lookup(index, "collateral", sort="right").lines if line.right != "."]
    assert right == sorted(right)
    neighbours = [line.left.split()[-1] for line in lookup(index, "bank*", sort="left").lines if line.left]
    assert neighbours == ["a", "the", "The", "Two"]


def test_documents_and_limits(index: Index) -> None:
    assert len(matches(index, "collateral", documents=["b/"])) == 2
    assert len(matches(index, "collateral", limit=1)) == 1
    with pytest.raises(InputError):
        lookup(index, "…")
    assert len(matches(index, "collateral", limit=np.int64(1))) == 1
    for options, reason in (
        ({"limit": "1"}, "limit: '1'; expected 1 or more, a whole number"),
        ({"limit": 0}, "limit: 0; expected 1 or more"),
        ({"how": 3}, "how 3; expected one of words, forms, regex"),
        ({"sort": "score"}, "sort 'score'; expected one of text, left, right"),
    ):
        with pytest.raises(InputError, match=f"^{reason}"):
            lookup(index, "collateral", **options)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="expected a text"):
        lookup(index, "collateral", near=["pledge"])  # type: ignore[arg-type]
    with pytest.raises(InputError):
        lookup(index, " ")


SIGNS = "\u00ad\u034f\u061c\u200b\u200e\u200f\u202a\u202e\u2060\u2062\u2066\u2069\u206f\ufe0f\ufeff\U000e0100"


@pytest.mark.parametrize(
    ("query", "way"),
    [
        *[("Unternehmen", "words"), ("Unter\u00adnehmen", "words"), ("untern*", "words")],
        *[("Unternehmens", "forms"), (r"Unternehm\w+", "regex")],
    ],
)
def test_what_is_not_seen_counts_for_nothing(tmp_path: Path, query: str, way: str) -> None:
    texts = [f"Das Unter{sign}nehmen{sign} wächst um {number} Prozent." for number, sign in enumerate(SIGNS)]
    with Index.create(tmp_path / "idx", FakeModel()) as index:
        index.add([Document.from_texts("a.txt", [*texts, "Das Unternehmen ruht."])], lang="de")
        wordings = matches(index, query, way)
        assert lookup(index, "nehmen").count == 0
    assert [wording.rstrip(SIGNS) for wording in wordings] == [*(f"Unter{sign}nehmen" for sign in SIGNS), "Unternehmen"]


@pytest.mark.parametrize("way", ["words", "forms"])
def test_apostrophes_and_hyphens_are_alike(tmp_path: Path, way: str) -> None:
    with Index.create(tmp_path / "idx", FakeModel()) as index:
        index.add([Document.from_texts("a.txt", ["Il part aujourd’hui.", "Elle part chaque après‑midi."])], lang="fr")
        assert matches(index, "aujourd'hui", way) == ["aujourd’hui"]
        assert matches(index, "après-midi", way) == ["après‑midi"]


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize(
    ("query", "way"), [("café", "words"), ("ca?é*", "words"), ("cafés", "forms"), (r"\bc\wfé\b", "regex")]
)
def test_composed_and_decomposed_letters_are_alike(tmp_path: Path, query: str, way: str, form: str) -> None:
    texts = ["Le café noir.", normalize("NFD", "Un Café à l’été."), normalize("NFD", "à \u00adcafé")]
    with Index.create(tmp_path / "idx", FakeModel()) as index:
        index.add([Document.from_texts("a.txt", texts)], lang="fr")
        answer = lookup(index, normalize(form, query), way, near=normalize(form, "à"))
        assert [line.match for line in answer.lines] == ["Cafe\u0301", "cafe\u0301"]
        assert [line.hit.context for line in answer.lines] == texts[1:]
        assert answer.wordings == (("café", 2),)


MEMORY = """<tmx version="1.4"><header srclang="de"/><body>
<tu><tuv xml:lang="de"><seg>Die Kündigung ist wirksam. Sie bedarf der Schriftform.</seg></tuv>
<tuv xml:lang="en"><seg>The notice is effective. It must be in writing.</seg></tuv></tu>
<tu><tuv xml:lang="de"><seg>Eine Frist gilt nach jeder Kündigungen.</seg></tuv>
<tuv xml:lang="en"><seg>A period applies.</seg></tuv></tu>
<tu><tuv xml:lang="de"><seg>Der Hund schläft.</seg></tuv>
<tuv xml:lang="en"><seg>The kündigung dog sleeps.</seg></tuv></tu>
</body></tmx>"""


def test_the_other_side_of_aligned_text(tmp_path: Path) -> None:
    (tmp_path / "memory.tmx").write_text(MEMORY, "utf-8")
    with Index.create(tmp_path / "idx", FakeModel()) as index:
        index.add(list(read(tmp_path / "memory.tmx", lang="en")), lang="en")
        index.add([Document.from_texts("plain.txt", ["Kündigung"])], lang="en")
        answer = lookup(index, "kündigung", "forms", side="translation", seconds=600)
        assert [line.match for line in answer.lines] == ["Kündigung", "Kündigungen"]
        assert (answer.count, answer.sentences) == (2, 2)
        hit = answer.lines[0].hit
        assert hit.context == "Die Kündigung ist wirksam. Sie bedarf der Schriftform."
        assert hit.metadata["translation"] == "The notice is effective. It must be in writing."  # of both sentences
        assert hit.language == "de"  # as it seems
        assert matches(index, "Kündigung") == ["kündigung", "Kündigung"]  # the texts themselves
        assert lookup(index, "kündigung", side="translation", documents=["plain.txt"]).count == 0
        with pytest.raises(InputError, match="expected one of text, translation"):
            lookup(index, "Kündigung", side="both")


def test_only_matches_near_another_word(index: Index) -> None:
    assert [line.left for line in lookup(index, "collateral", near="Good").lines] == ["Collateral must be good "]
    assert lookup(index, "collateral", near="river").count == 0


def test_function_words_count_only_beside_a_match(index: Index) -> None:
    answer = lookup(index, "collateral")
    assert dict(answer.after) == {"for": 1, "loan": 1, "must": 1, "collateral": 1}  # "the" is two places away
    assert dict(answer.before) == {"took": 1, "bank": 1, "Collateral": 1, "good": 1}


@pytest.mark.parametrize("way", ["words", "forms"])
@pytest.mark.parametrize("query", ["imzalandı", "IMZALANDI", "İMZALANDI", "imzalandi"])
def test_a_turkish_word_is_one_whatever_its_i(tmp_path: Path, query: str, way: str) -> None:
    texts = ["Dün İstanbul'da imzalandı.", "Dün İMZALANDI.", "DÜN IMZALANDI.", "Dün imzalandı."]
    with Index.create(tmp_path / "idx", FakeModel()) as index:
        index.add([Document.from_texts("a.txt", texts)], lang="tr")
        answer = lookup(index, query, way)
        assert [line.hit.context for line in answer.lines] == texts
        assert answer.wordings == (("imzalandı", 4),)
        assert dict(answer.before)["Dün"] == 4
        near = lookup(index, query, way, near="ISTANBUL'DA")
        assert [line.hit.context for line in near.lines] == texts[:1]


@pytest.mark.parametrize(
    ("query", "expected"),
    [("işik", ["ışık"]), ("IŞIK", ["ışık"]), ("iş", ["iş"]), ("kız", ["kız"]), ("bir", ["Bir"]), ("tibbi", ["tıbbi"])],
)
def test_short_turkish_words_are_found_whatever_their_i(tmp_path: Path, query: str, expected: list[str]) -> None:
    with Index.create(tmp_path / "idx", FakeModel()) as index:
        index.add([Document.from_texts("a.txt", ["Bir ışık, tıbbi iş.", "Küçük kız."])], lang="tr")
        assert matches(index, query) == matches(index, query, "forms") == expected


def test_counts_have_no_dot_of_its_own_above_an_i(tmp_path: Path) -> None:
    with Index.create(tmp_path / "idx", FakeModel()) as index:
        index.add([Document.from_texts("a.txt", ["IŞIK ve İstanbul.", "Bir ışık, bir istanbul."])], lang="tr")
        for query, expected in (("ışık", "ışık"), ("istanbul", "İstanbul")):
            answer = lookup(index, query)
            assert answer.count == 2
            assert answer.wordings == ((expected, 2),)
