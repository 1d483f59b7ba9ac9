"""NFC as Python has it, in a time that grows with the text alone."""

from __future__ import annotations

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phrasemate.terms.extract import wording
from phrasemate.text.composing import composed
from phrasemate.text.stopwords import content_words
from phrasemate.vectors import tokens

ODD = st.one_of(
    st.sampled_from("aeoAÅåṩḍ가각각\u0300\u0301\u0323\u0307\u0315\u0345\u0338\u05b0\u3099かは"),
    st.characters(),
)


@given(st.text(ODD, max_size=20))
def test_the_same_as_pythons(text: str) -> None:
    padding = "b" * 2_000
    assert composed(text) == unicodedata.normalize("NFC", text)
    assert composed(text + padding) == unicodedata.normalize("NFC", text + padding)
    assert composed(padding + text) == unicodedata.normalize("NFC", padding + text)


@pytest.mark.parametrize("work", [composed, content_words, tokens, wording])
def test_marks_without_end_take_no_longer_than_other_text(work: object) -> None:
    text = "a" + "\u0300\u0323" * 100_000
    begun = time.process_time()
    assert callable(work)
    work(text)
    assert time.process_time() - begun < 15
