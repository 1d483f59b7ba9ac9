"""The lexicon in one file: what is written is found again, in both directions; damaged files."""

from __future__ import annotations

import lzma
import zlib
from itertools import chain
from pathlib import Path
from unicodedata import normalize

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import phrasemate
from phrasemate.errors import InputError, ModelDamaged
from phrasemate.lexicon import Equivalent, InducedLexicon, bundled_lexicon
from phrasemate.lexicon.induced import FORMAT, Pair, write_lexicon
from phrasemate.lexicon.inflection import stemmed
from phrasemate.lexicon.wordings import Keys, Wordings, beginning
from phrasemate.text import folded

GERMAN = [
    Pair("bank", "bench", 0.2, 0.8),
    Pair("bank", "bank", 0.6, 0.4),
    Pair("bänke", "benches", 1.0, 1.0),
    Pair("in der regel", "as a rule", 0.4, 0.8, unit=True),
    Pair("auf der bank", "on the bench", 0.7, 0.9),
    Pair("gartenbank", "garden bench", 0.5, 0.5),
]
DANISH = [Pair("bænk", "bench", 1.0, 1.0), Pair("bank", "bank", 1.0, 0.2)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_lexicon(tmp_path / "lexicon.safetensors", {"de": GERMAN, "da": DANISH})
    return tmp_path / "lexicon.safetensors"


def packed(array: np.ndarray) -> np.ndarray:
    return np.frombuffer(zlib.compress(array.tobytes()), np.uint8)


def unpacked(path: Path) -> dict[str, bytes]:
    """Return the arrays of a lexicon; wordings of several words that are not English are compressed by lzma."""
    return {
        name: (lzma if name.endswith("+.text") and name != "en+.text" else zlib).decompress(array)
        for name, array in load_file(path).items()
    }


def texts(equivalents: list[Equivalent]) -> list[tuple[str, str]]:
    return [(equivalent.language, equivalent.text) for equivalent in equivalents]


def test_into_english(path: Path) -> None:
    lexicon = InducedLexicon(path, "induced")
    assert lexicon.languages == ("da", "de")
    assert lexicon.equivalents("Bank", "de") == [
        Equivalent("bank", 0.6, "induced", "en"),
        Equivalent("bench", 0.2, "induced", "en"),
    ]
    assert texts(lexicon.equivalents("In der  Regel", "de-AT")) == [("en", "as a rule")]
    assert lexicon.equivalents("bench", "de") == lexicon.equivalents("Bank", "fr") == []


def test_pairs_are_those_that_were_written(path: Path, tmp_path: Path) -> None:
    pairs = InducedLexicon(path).pairs()
    assert {language: set(of_language) for language, of_language in pairs.items()} == {
        "da": set(DANISH),
        "de": set(GERMAN),
    }
    write_lexicon(tmp_path / "again.safetensors", pairs)
    assert (tmp_path / "again.safetensors").read_bytes() == path.read_bytes()


def test_from_english(path: Path) -> None:
    lexicon = InducedLexicon(path, "induced")
    assert texts(lexicon.equivalents("bench", "en")) == [("da", "bænk"), ("de", "bank")]
    assert lexicon.equivalents("bench", "en", "de") == [Equivalent("bank", 0.8, "induced", "de")]


def test_two_other_languages_meet_in_english(path: Path, tmp_path: Path) -> None:
    lexicon = InducedLexicon(path, "induced")
    assert lexicon.equivalents("die Bank", "de", "da") == [
        Equivalent("bænk", 0.2, "induced", "da"),  # 0.2 * 1.0, by "bench"
        Equivalent("bank", 0.12, "induced", "da"),  # 0.6 * 0.2, by "bank"
    ]
    assert texts(lexicon.equivalents("bænk", "da", "de-AT")) == [("de", "bank")]
    assert lexicon.equivalents("bænk", "da", "fr") == lexicon.equivalents("in der Regel", "de", "da") == []
    french = [Pair("chat", "cat", 0.5, 0.5), Pair("chat", "pussy", 0.4, 0.9)]
    german = [
        Pair("katze", "cat", 0.9, 0.6),
        Pair("katze", "pussy", 0.1, 0.4),
        Pair("kater", "cat", 0.9, 0.03),
    ]
    write_lexicon(tmp_path / "cats.safetensors", {"fr": french, "de": german})
    # 0.5 * 0.6 + 0.4 * 0.4; 0.5 * 0.03 is less than two hundredths
    assert InducedLexicon(tmp_path / "cats.safetensors").equivalents("chat", "fr", "de") == [
        Equivalent("katze", 0.46, "lexicon", "de")
    ]


def test_forms_of_a_word_add_up(tmp_path: Path) -> None:
    forms = [Pair("gatos", "cats", 0.4, 1), Pair("gatos", "jacks", 0.5, 1), Pair("gata", "cats", 0.45, 1)]
    write_lexicon(tmp_path / "cats.safetensors", {"es": forms})
    assert stemmed("gato", "es") == stemmed("gatos", "es") == stemmed("gata", "es")
    # cats 0.4 + 0.45 of 0.85, jacks 0.5 of 0.85; the largest of a form is 0.5
    assert InducedLexicon(tmp_path / "cats.safetensors").equivalents("gato", "es") == [
        Equivalent("cats", 0.5, "lexicon", "en", exact=False),
        Equivalent("jacks", round(0.5 * 0.5 / 0.85, 2), "lexicon", "en", exact=False),
    ]


def test_a_form_that_is_not_listed_is_looked_up_without_its_proclitics(tmp_path: Path) -> None:
    """Hebrew "and", "in" and "the" are joined to "stone". What remains must have three letters."""
    pairs = [Pair("אבן", "stone", 0.8, 1.0), Pair("הדבר", "the word", 0.5, 1.0), Pair("דבר", "word", 0.5, 1.0)]
    pairs += [Pair("בן", "son", 1.0, 1.0), Pair("באבן", "in stone", 0.3, 1.0)]
    write_lexicon(tmp_path / "lexicon", {"he": pairs, "fa": [Pair("کتاب", "book", 1.0, 1.0)]})
    lexicon = InducedLexicon(tmp_path / "lexicon")

    def equivalents(word: str, language: str) -> list[tuple[str, float, bool]]:
        return [(x.text, x.weight, x.exact) for x in lexicon.equivalents(word, language, "en")]

    assert equivalents("ואבן", "he") == equivalents("ולאבן", "he") == [("stone", 0.8, False)]
    assert equivalents("והדבר", "he") == [("the word", 0.5, False)]
    assert equivalents("באבן", "he") == [("in stone", 0.3, True)]
    assert equivalents("לבן", "he") == equivalents("وکتاب", "fa") == []


def test_an_equivalent_with_an_elided_word_counts_as_the_one_without(tmp_path: Path) -> None:
    """0.4 + 0.3 + 0.2 of "eau", and 0.9 + 0.5 is at most 1; "accord" is not listed, so "d'accord" stays."""
    pairs = [Pair(text, "water", 1.0, share) for text, share in (("eau", 0.4), ("l'eau", 0.3), ("d'eau", 0.2))]
    pairs += [Pair("heure", "hour", 1.0, 0.9), Pair("l'heure", "hour", 1.0, 0.5), Pair("d'accord", "okay", 1.0, 0.6)]
    write_lexicon(tmp_path / "lexicon", {"fr": pairs})
    lexicon = InducedLexicon(tmp_path / "lexicon")
    rows = [
        (row.text, row.weight) for word in ("water", "hour", "okay") for row in lexicon.equivalents(word, "en", "fr")
    ]
    assert rows == [("eau", 0.9), ("heure", 1.0), ("d'accord", 0.6)]


def test_all_languages_at_once_take_the_most_probable(path: Path) -> None:
    lexicon = InducedLexicon(path, "induced")
    assert lexicon.equivalents("bank", target="en") == [
        Equivalent("bank", 1.0, "induced", "en"),
        Equivalent("bench", 0.2, "induced", "en"),
    ]
    assert set(texts(lexicon.equivalents("bank"))) == {("en", "bank"), ("en", "bench"), ("de", "bank"), ("da", "bank")}


def test_inflection_needs_the_language(path: Path) -> None:
    lexicon = InducedLexicon(path)
    assert texts(lexicon.equivalents("die Bank", "de")) == [("en", "bank"), ("en", "bench")]
    assert texts(lexicon.equivalents("Bänken", "de")) == [("en", "benches"), ("en", "bank"), ("en", "bench")]
    assert texts(lexicon.equivalents("benching", "en", "de")) == [("de", "bänke"), ("de", "bank")]
    assert lexicon.equivalents("die Bank") == []
    for wording, exact in (("Bank", True), ("die Bank", True), ("Bänken", False)):
        assert {equivalent.exact for equivalent in lexicon.equivalents(wording, "de")} == {exact}


def test_arrays_of_a_pair(path: Path, tmp_path: Path) -> None:
    """What a pair adds: its two probabilities, three bytes of a row, both texts and the line break of each."""
    longer = [*GERMAN, Pair("banküberfall", "bank robbery", 1.0, 1.0)]
    write_lexicon(tmp_path / "longer.safetensors", {"de": longer, "da": DANISH})
    pair, german, english = 3 + 1 + 1, len("banküberfall".encode()) + 1 + 1, len("bank robbery") + 1
    sizes = [sum(map(len, unpacked(f).values())) for f in (path, tmp_path / "longer.safetensors")]
    assert sizes[1] - sizes[0] == pair + german + english


def test_words_and_wordings_of_several_words_stand_apart(path: Path) -> None:
    texts = unpacked(path)
    assert texts["de.text"] == "bank\nbänke\ngartenbank\n".encode()
    assert texts["de+.text"] == b"auf der bank\nin der regel\n"
    assert texts["en.text"] == b"bank\nbench\nbenches\n"
    assert texts["en+.text"] == b"as a rule\ngarden bench\non the bench\n"


def test_units_are_told_from_composed_wordings(path: Path) -> None:
    lexicon = InducedLexicon(path)
    assert lexicon.is_unit("In der Regel", "de-AT")
    assert not lexicon.is_unit("auf der Bank", "de")
    assert [lexicon.is_unit(text, "en") for text in ("as a rule", "garden bench", "on the bench")] == [1, 1, 0]
    assert not lexicon.is_unit("Bank", "de")  # a single word
    assert not lexicon.is_unit("in der Regel", "da")  # no wording of several words
    assert not lexicon.is_unit("in der Regel", "fr")


def test_long_wordings_and_small_probabilities(tmp_path: Path) -> None:
    pairs = [Pair("a", "b", 1e-9, 1e-9), Pair("a" * 256, "b", 1.0, 1.0), Pair("ä" * 127, "c", 1.0, 1.0)]
    write_lexicon(tmp_path / "x", {"de": pairs})
    lexicon = InducedLexicon(tmp_path / "x")
    assert lexicon.equivalents("a", "de") == [Equivalent("b", 1 / 100, "lexicon", "en")]
    assert lexicon.equivalents("a" * 256, "de") == []
    assert texts(lexicon.equivalents("ä" * 127, "de")) == [("en", "c")]


@pytest.mark.parametrize("languages", [{}, {"de": []}, {"en": GERMAN}])
def test_nothing_to_write(tmp_path: Path, languages: dict[str, list[Pair]]) -> None:
    with pytest.raises(InputError, match="expected others than English"):
        write_lexicon(tmp_path / "x", languages)


@pytest.mark.parametrize(
    ("name", "tensor"),
    [
        ("de.english", packed(np.full((3, 3), 255, np.uint8))),
        ("de.english", packed(np.zeros(4, np.uint8))),
        ("de.degrees", packed(np.ones(1, np.uint8))),
        ("de.text", packed(np.frombuffer("bank\nbänke\ngartenbank".encode(), np.uint8))),
        ("de.forward", packed(np.ones(3, np.float32))),
        ("de.forward", np.ones(3, np.uint8)),
        ("de.forward", packed(np.ones(3, np.uint8))[:-1]),
        ("de.backward", None),
        ("de+.text", packed(np.frombuffer(b"auf der bank\nin der regel\n", np.uint8))),
    ],
)
def test_tensors_that_do_not_fit(path: Path, name: str, tensor: np.ndarray | None) -> None:
    tensors = load_file(path)
    del tensors[name]
    if tensor is not None:
        tensors[name] = tensor
    save_file(tensors, path, {"format": FORMAT, "languages": "da de"})
    lexicon = InducedLexicon(path)
    assert texts(lexicon.equivalents("bænk", "da")) == [("en", "bench")]
    with pytest.raises(ModelDamaged, match="is not as expected"):
        lexicon.equivalents("bank", "de")


def test_english_wordings_that_are_not_there_are_damage(path: Path) -> None:
    tensors = load_file(path)
    rows = np.frombuffer(zlib.decompress(tensors["de.english"]), np.uint8).copy()
    save_file({**tensors, "de.english": packed(rows)}, path, {"format": FORMAT, "languages": "da de"})
    assert texts(InducedLexicon(path).equivalents("bänke", "de")) == [("en", "benches")]
    rows[0] = 6  # of the six English wordings the last is number 5
    save_file({**tensors, "de.english": packed(rows)}, path, {"format": FORMAT, "languages": "da de"})
    with pytest.raises(ModelDamaged, match="the part 'de' is not as expected; install phrasemate again"):
        InducedLexicon(path).equivalents("bänke", "de")


def test_words_of_languages_without_spaces_are_those_of_unicode(tmp_path: Path) -> None:
    pairs = [Pair("銀行", "bank", 1.0, 1.0), Pair("銀行の人", "bank clerk", 1.0, 1.0, unit=True)]
    write_lexicon(tmp_path / "x", {"ja": pairs})
    sections = {name: array.decode() for name, array in unpacked(tmp_path / "x").items() if name.endswith(".text")}
    assert (sections["ja.text"], sections["ja+.text"]) == ("銀行\n", "銀行の人\n")
    lexicon = InducedLexicon(tmp_path / "x")
    assert texts(lexicon.equivalents("銀行の人", "ja")) == [("en", "bank clerk")]
    assert (lexicon.is_unit("銀行の人", "ja"), lexicon.is_unit("銀行", "ja")) == (True, False)


def test_bits_that_do_not_fit(path: Path) -> None:
    tensors = load_file(path)
    for bits in (packed(np.zeros(2, np.uint8)), packed(np.zeros(0, np.uint8))):  # two wordings have one byte
        save_file({**tensors, "de+.units": bits}, path, {"format": FORMAT, "languages": "da de"})
        with pytest.raises(ModelDamaged, match=r"'de\+.units' is not as expected"):
            InducedLexicon(path).is_unit("in der Regel", "de")


@pytest.mark.parametrize(
    ("wording", "lang", "expected"),
    [
        ("Bank", "de", {"bank", "bench"}),
        ("die Bänke", "de", {"benches"}),
        ("banc", "fr", {"bench"}),
        ("ベンチ", "ja", {"bench"}),
        ("銀行", "", {"bank"}),
        ("l'avocat", "fr", {"lawyer"}),
        ("point de vue", "fr", {"point of view"}),
        ("мир", "ru", {"world", "peace"}),
        ("en venta", "es", {"for sale"}),
        ("tout à coup", "fr", {"all of a sudden"}),
    ],
)
def test_bundled_lexicon(wording: str, lang: str, expected: set[str]) -> None:
    results = {equivalent.text for equivalent in bundled_lexicon().equivalents(wording, lang, "en")}
    assert results >= expected


def test_the_bundled_lexicon_is_small_and_complete() -> None:
    path = Path(phrasemate.__file__).parent / "models" / "lexicon" / "lexicon.safetensors"
    assert path.stat().st_size <= 15_000_000
    lexicon = bundled_lexicon()
    assert len(lexicon.languages) == 27
    for lang in lexicon.languages:
        [first, *_] = lexicon.equivalents("night", "en", lang)
        assert "night" in {equivalent.text for equivalent in lexicon.equivalents(first.text, lang)}


def test_the_wordings_of_the_bundled_lexicon_are_folded_as_what_is_looked_up() -> None:
    lexicon = bundled_lexicon()
    for name in chain.from_iterable(lexicon._section_names.values()):
        text = " ".join(lexicon._tensor(f"{name}.text").tobytes().decode().splitlines())
        assert folded(text) == text.replace("i\u0307", "i"), name  # Turkish look-ups try the dot, too
    assert lexicon.knows("añadir perfil", "es")  # only with decomposed letters in what the lexicon was made of


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Er sitzt auf der Bank.", "de"),
        ("Il a perdu les clés de la maison.", "fr"),
        ("公園で静かに本を読んだ。", "ja"),
        ("The house has a red door.", "en"),
        (normalize("NFD", "Où était la forêt ?"), "fr"),
        ("1984", ""),
        ("", ""),
    ],
)
def test_the_language_of_a_text_is_that_of_most_of_its_words(text: str, language: str) -> None:
    lexicon = bundled_lexicon()
    assert lexicon is not None
    assert lexicon.language_of(text) == language


def test_a_word_is_known_with_decomposed_letters() -> None:
    assert bundled_lexicon().knows(normalize("NFD", "café"), "fr")


@pytest.mark.parametrize(
    ("text", "target", "language"),
    [
        ("court", "de", "en"),  # French has this word, too
        ("court", "en", "fr"),  # English text is not translated into English
        ("court", "", "fr"),
        ("The tenant pays.", "de", "en"),
        ("I paid the fare.", "tr", "en"),
        ("Bürgermeister", "fr", "de"),
        ("Der Hund bellt.", "fr", "de"),
        ("soup", "en", "en"),  # the Korean list has it by mistake
        ("Das Wort soup ist kurz.", "en", "de"),
    ],
)
def test_few_words_are_english_if_they_are_translated_from_it(text: str, target: str, language: str) -> None:
    lexicon = bundled_lexicon()
    assert lexicon is not None
    assert lexicon.languages_of([text, "Der Hund schläft."], target) == [language, "de"]


def test_languages_of_many_texts_are_those_of_each() -> None:
    lexicon = bundled_lexicon()
    assert lexicon is not None
    texts = ["Er sitzt auf der Bank.", "", "The bank is closed.", "Il est assis sur le banc.", "木", "ok", "Er sitzt."]
    assert lexicon.languages_of(texts) == [lexicon.language_of(text) for text in texts]
    assert lexicon.languages_of(texts)[:5] == ["de", "", "en", "fr", ""]
    assert lexicon.languages_of([]) == []


def test_wordings_with_the_same_beginning_are_reported_apart() -> None:
    texts = sorted(["understand", "understanding", "understandings", "understood", "a", "abcdefgh", "abcdefghi"])
    wordings = Wordings.of(texts)
    assert [wordings.find(text) for text in texts] == list(range(len(texts)))
    assert [wordings.find(text) for text in ("", "abcdefg", "understandin", "zzz")] == [-1] * 4
    queries = ["understandings", "", "abcdefgx", "a", "understandin", "abcdefghi"]
    assert wordings.find_all(queries) == [wordings.find(text) for text in queries]
    assert wordings.find_all([]) == []
    keys = [b"abcdefgh", b"abcdefgx", b"understood", b"\xff"]
    numbers = np.array([beginning(text) for text in keys], np.uint64)
    assert wordings.contains(keys, numbers).tolist() == [True, False, True, False]
    first = np.array([beginning(b"abcdefghi")], np.uint64)
    assert Wordings.of(["abcdefghi"]).contains([b"abcdefghi"], first).tolist() == [True]
    assert Wordings.of([]).contains([b"abcdefghi"], first).tolist() == [False]


@pytest.mark.parametrize("texts", [["bank", "bench", "bend"], ["bank", "bänke", "\ud800", "日本"]])
def test_rows_that_follow_each_other_are_read_at_once(texts: list[str]) -> None:
    wordings = Wordings.of(texts)
    for start in range(len(texts) + 1):
        for stop in range(start, len(texts) + 1):
            assert wordings.texts(range(start, stop)) == texts[start:stop]


def test_the_first_wording_is_looked_up_like_any_other() -> None:
    keys = Keys(Wordings.of(["bank", "bench"]))
    assert [keys.exact(text, "en") for text in ("Bank", " bench", "the bank", "zzz")] == [[0], [1], [], []]
    assert [keys.stripped(text, "en") for text in ("the bank", "bench", "the zzz")] == [[0], [1], []]


@pytest.mark.parametrize(
    ("lang", "texts"),
    [
        (
            "de",
            ["bank", "banken", "bankhaus", "das bank konto", "der bank", "die banken", "bank konto -", "bank konto"],
        ),
        ("fr", ["banque", "banques", "l'eau", "la banque", "eau", "eaux", "les banques de france", "banque, france"]),
        ("en", ["benches", "bench", "the bench", "the", "a", "bench of the", "bench -", "the the"]),
        ("ja", ["銀行", "銀行 員"]),
    ],
)
def test_wordings_with_the_same_stems_are_those_of_a_plain_comparison(lang: str, texts: list[str]) -> None:
    texts.sort(key=str.encode)
    keys = Keys(Wordings.of(texts))
    for wording in texts:
        same = [row for row, text in enumerate(texts) if stemmed(text, lang) == stemmed(wording, lang)]
        assert keys.stemmed(wording, lang) == same


def test_who_changes_a_list_of_equivalents_changes_no_other(path: Path) -> None:
    lexicon = InducedLexicon(path)
    lexicon.equivalents("bänke", "de").clear()
    assert [equivalent.text for equivalent in lexicon.equivalents("Bänke", "de")] == ["benches"]


def test_wordings_that_begin_so_are_those_of_a_plain_comparison() -> None:
    """Beginnings of fewer bytes than are searched as a number, of as many, and of more; letters of several bytes."""
    texts = [
        "a",
        "ab",
        "abcdefg",
        "abcdefgh",
        "abcdefghi",
        "abcdefghij",
        "abcdefgz",
        "für",
        "fürs",
        "für sich",
        "ｚｚｚ",
    ]
    texts.sort(key=str.encode)
    wordings = Wordings.of(texts)
    for text in texts:
        for end in range(1, len(text) + 1):
            start = text[:end]
            assert [wordings[row] for row in wordings.beginning_with(start)] == [
                t for t in texts if t.startswith(start)
            ]
    starts = ["abcdefghx", "abcdefgh", "", "b", "für"]
    assert [[wordings[row] for row in rows] for rows in wordings.beginning_with_each(starts)] == [
        [text for text in texts if text.startswith(start)] for start in starts
    ]
    assert not wordings.beginning_with("abcdefghx")
    assert not wordings.beginning_with("b")
