"""NFC and NFD as Python has them, in a time that grows with the text alone."""

from __future__ import annotations

import sys
import time
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phrasemate.concordance import _plain_key
from phrasemate.dataset.aho_corasick import _fold
from phrasemate.index.fulltext import forms
from phrasemate.terms import wording
from phrasemate.text.normalize import Alignment, composed, decomposed, folded, folded_parts, plain
from phrasemate.text.sentences import content_words
from phrasemate.vectors import tokens

MARKS = st.sampled_from("\u0300\u0301\u0323\u0307\u0315\u0344\u0345\u0338\u05b0\u0f73\u3099\u302e—")
ODD = st.one_of(st.sampled_from("aeoAÅåṩḍᾂ가각각かは"), MARKS, st.characters())


@given(st.text(ODD, max_size=20), st.text(MARKS, max_size=80), st.text(ODD, max_size=20))
def test_the_same_as_pythons(before: str, marks: str, after: str) -> None:
    for text in (before, before + marks + after, before + "b" * 2_000 + after):
        assert composed(text) == unicodedata.normalize("NFC", text)
        assert decomposed(text) == unicodedata.normalize("NFD", text)
        bare = (c for c in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(c))
        assert _plain_key(text) == "".join(bare).encode("utf-8", "surrogatepass")


def test_no_mark_is_a_letter_or_a_digit() -> None:
    """A run of marks would be overlooked that had one in it."""
    characters = map(chr, range(sys.maxunicode + 1))
    begins = ((character, unicodedata.normalize("NFD", character)[0]) for character in characters)
    assert [one for one, first in begins if unicodedata.combining(first) and (one.isalnum() or one.isascii())] == []


@pytest.mark.parametrize(
    "work", [composed, decomposed, content_words, tokens, wording, forms, folded, _fold, _plain_key]
)
def test_marks_without_end_take_no_longer_than_other_text(work: Callable[[str], object]) -> None:
    text = "a" + "\u0323\u0300" * 100_000
    start = time.process_time()
    work(text)
    assert time.process_time() - start < 15


def test_ordinary_text_takes_little_longer_than_in_python() -> None:
    text = unicodedata.normalize("NFD", "Tất cả mọi người sinh ra đều được tự do. 모든 인간은 태어날. ") * 10_000
    took = []
    for work in (composed, lambda whole: unicodedata.normalize("NFC", whole)):
        start = time.process_time()
        work(text)
        took.append(time.process_time() - start)
    assert took[0] < 10 * took[1] + 0.1


def test_folding_composes_and_is_done_once_and_for_all() -> None:
    for character in map(chr, range(sys.maxunicode + 1)):
        text = f"x{character}y"
        whole = folded(text)
        assert folded(whole) == whole or character == "ŉ"  # which becomes two, an apostrophe the first
        assert folded(unicodedata.normalize("NFD", text)) == whole
        if unicodedata.is_normalized("NFC", text):
            assert whole == " ".join(plain(text).casefold().replace("i\u0307", "i").split())


def test_a_capital_with_a_dot_and_its_small_letter_fold_to_the_same() -> None:
    assert folded("İŞSİZLİK") == folded("işsizlik") == "işsizlik"
    assert folded("I\u0307") == folded("i\u0307") == "i"
    assert folded("SINIR") == "sinir"  # in other languages I is the capital of i


@given(st.text(st.sampled_from("ae\u0301\u0323é\u00ad'’かは\u3099 \u1100\u1161한क़"), max_size=12))
def test_places_in_the_form_are_those_of_the_text(text: str) -> None:
    alignment = Alignment(text)
    assert alignment.text == composed(plain(text))
    for start in range(len(alignment.text)):
        for end in range(start + 1, len(alignment.text) + 1):
            if span := alignment.plain_span(start, end):
                assert composed(alignment.plain[slice(*span)]) == alignment.text[start:end]
                first, last = alignment.original(*span)
                assert plain(text[first:last]) == alignment.plain[slice(*span)]
    if alignment.text:
        assert alignment.plain_span(0, len(alignment.text)) == (0, len(alignment.plain))


@given(
    st.text(st.sampled_from("aB \t'’-ß\u00ad"), max_size=12), st.lists(st.tuples(st.integers(0, 6), st.integers(0, 12)))
)
def test_parts_are_folded_as_each_by_itself(text: str, spans: list[tuple[int, int]]) -> None:
    assert folded_parts(text, spans) == [folded(text[start:end]) for start, end in spans]
