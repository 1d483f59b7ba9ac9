"""Other forms of words: pairs of endings by counting, the file and its damage, and what they add to the lexicon."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from phrasemate.errors import ModelDamaged
from phrasemate.lexicon import Dictionary, Endings, InducedLexicon, bundled_endings, bundled_lexicon
from phrasemate.lexicon.endings import INFIX, LEAST, Form, learn_endings, write_endings
from phrasemate.lexicon.induced import Pair, write_lexicon
from phrasemate.lexicon.wordings import Wordings

CZECH = {("uje", "oval"): 0.8, ("oval", "uje"): 0.8, ("oval", "nout"): 0.5}


@pytest.fixture
def endings(tmp_path: Path) -> Endings:
    write_endings(tmp_path / "endings", {"cs": CZECH, "de": {("t", "n"): 0.9}, "ko": {("을", "은"): 0.7}})
    return Endings(tmp_path / "endings")


def listed(*texts: str) -> Wordings:
    return Wordings.of(sorted(texts, key=str.encode))


def test_learned_is_the_share_of_pairs_with_an_equivalent_in_common() -> None:
    stems = [f"{letter}abc" for letter in "abcdefghij"]
    words = {stem + ending: {stem: 1.0} for stem in stems for ending in ("uje", "oval")}
    words["aabcuje"] = {"other": 1.0}  # nothing in common with "aabcoval"
    words["babcuje"] = {"babc": 0.05, "other": 0.95}  # too little
    assert learn_endings(words, "cs") == {("uje", "oval"): 0.8, ("oval", "uje"): 0.8}


def test_learned_from_enough_pairs_that_mostly_agree() -> None:
    stems = [f"{letter}abc" for letter in "abcdefghij"]
    few = {stem + ending: {stem: 1.0} for stem in stems[: LEAST - 1] for ending in ("a", "o")}
    assert learn_endings(few, "cs") == {}
    apart = {stem + ending: {stem + ending * (number > 2): 1.0} for number, stem in enumerate(stems) for ending in "ao"}
    assert learn_endings(apart, "cs") == {}  # three of ten


@pytest.mark.parametrize(("tail", "link"), [("haus", ""), ("plane", "s"), ("halle", "")])
def test_a_compound_is_not_a_form_of_its_first_part(tail: str, link: str) -> None:
    stems = [f"{letter}abcdefg" for letter in "abcdefghij"]
    words = {stem + ending: {stem: 1.0} for stem in stems for ending in ("", link + tail)}
    rules = {("", link + tail): 1.0, (link + tail, ""): 1.0}
    assert learn_endings(words, "de") == rules
    assert learn_endings({**words, tail: {"tail": 1.0}}, "de") == (rules if tail == "haus" else {})  # four letters


def test_forms_of_a_word_have_half_of_it_in_common() -> None:
    stems = [f"{letter}bc" for letter in "abcdefghij"]
    words = {stem + ending: {stem: 1.0} for stem in stems for ending in ("", "defg")}  # 3 letters of 7
    assert learn_endings(words, "cs") == {}
    words = {stem + ending: {stem: 1.0} for stem in stems for ending in ("", "def")}
    assert learn_endings(words, "cs") == {("", "def"): 1.0, ("def", ""): 1.0}


def test_the_most_reliable_form_is_first(endings: Endings) -> None:
    wordings = listed("navrhnout", "navrhuje", "navrhuje dnes", "návrh", "narval")
    forms = endings.forms("navrhoval", "cs", wordings)
    assert [(wordings[form.row], form.reliability) for form in forms] == [("navrhuje", 0.8), ("navrhnout", 0.5)]


@pytest.mark.parametrize(("word", "language"), [("navrhoval", "sk"), ("na", "cs"), ("na-vrhoval", "cs"), ("", "cs")])
def test_no_forms(endings: Endings, word: str, language: str) -> None:
    assert endings.forms(word, language, listed("navrhuje", "na")) == []


def test_korean_words_have_two_syllables_in_common(endings: Endings) -> None:
    assert endings.forms("약점을", "ko", listed("약점은", "약은")) == [Form(1, 0.7)]


def test_a_german_infix_is_left_out(endings: Endings) -> None:
    wordings = listed("abschirmen", "umschalten")
    assert endings.forms("abzuschirmen", "de", wordings) == [Form(0, INFIX)]
    assert endings.forms("umgeschaltet", "de", wordings) == [Form(1, 0.9)]
    assert endings.forms("abzuschirmen", "cs", wordings) == []


def test_a_word_is_not_a_form_of_itself(endings: Endings) -> None:
    wordings = listed("abschirmen", "abzuschirmen")
    assert endings.forms("abzuschirmen", "de", wordings) == [Form(0, INFIX)]
    assert endings.forms("abschirmen", "de", wordings) == []


def test_a_long_word_has_no_forms(endings: Endings) -> None:
    assert endings.forms("zu" * 100_000, "de", listed("zuzuzu")) == []
    assert endings.forms("a" * 99 + "t", "de", listed("a" * 99 + "n")) == [Form(0, 0.9)]
    assert endings.forms("a" * 100 + "t", "de", listed("a" * 100 + "n")) == []


def test_a_lexicon_answers_by_other_forms(tmp_path: Path) -> None:
    pairs = [Pair("navrhuje", "proposes", 0.5, 0.5), Pair("navrhují", "proposed", 0.5, 0.5)]
    write_lexicon(tmp_path / "lexicon", {"cs": pairs, "de": [Pair("vorschlag", "proposal", 1.0, 0.5)]})
    lexicon, bundled = InducedLexicon(tmp_path / "lexicon"), bundled_endings()
    assert bundled is not None
    rules = bundled.rules("cs")
    reliability = rules["oval", "uje"], rules["oval", "ují"]
    equivalents = lexicon.equivalents("navrhoval", "cs", "en")
    assert [(x.text, x.weight, x.exact) for x in equivalents] == [
        (text, round(50 * share) / 100, False)
        for share, text in sorted(zip(reliability, ("proposes", "proposed"), strict=True), reverse=True)
    ]
    assert lexicon.equivalents("navrhoval", "", "en") == lexicon.equivalents("navrhoval", "de", "en") == []
    assert lexicon.equivalents("navrhuje", "cs", "en")[0].exact
    assert not lexicon.knows("navrhoval", "cs")
    by_english = lexicon.equivalents("navrhoval", "cs", "de")
    assert by_english == []  # "proposal" is not an equivalent of the forms


@pytest.mark.parametrize(
    ("word", "language", "english"),
    [
        ("abzuschirmen", "de", "shielding"),
        ("약점을", "ko", "weakness"),
        ("решат", "ru", "solve"),
        ("koukají", "cs", "looking"),
    ],
)
def test_the_bundled_endings(word: str, language: str, english: str) -> None:
    lexicon = bundled_lexicon()
    assert lexicon is not None
    assert english in [equivalent.text for equivalent in lexicon.equivalents(word, language, "en")]


@pytest.mark.parametrize(("text", "count"), [(b"a\tb\nc\td", 1), (b"a", 1), (b"a\tb\tc", 1), (b"\xff\t", 1)])
def test_parts_that_do_not_fit_are_refused(tmp_path: Path, text: bytes, count: int) -> None:
    tensors = {"cs.endings": np.frombuffer(text, np.uint8), "cs.reliability": np.ones(count, np.uint8)}
    save_file(tensors, tmp_path / "file", {"format": "phrasemate endings 1", "languages": "cs"})
    with pytest.raises(ModelDamaged, match="no endings can be read"):
        Endings(tmp_path / "file").rules("cs")


def test_a_dictionary_answers_by_other_forms() -> None:
    terms = Dictionary(
        "terms", [[("ko", "운영 체제"), ("en", "operating system")], [("ko", "약점"), ("en", "weak point")]]
    )
    for wording, english in [("운영 체제를", "operating system"), ("약점을", "weak point")]:
        (equivalent,) = terms.equivalents(wording, "ko", "en")
        assert (equivalent.text, equivalent.exact) == (english, False)
        assert terms.equivalents(wording) == [equivalent]
        assert terms.equivalents(wording, "ja", "en") == []
    assert terms.equivalents("약속을", "ko", "en") == []
