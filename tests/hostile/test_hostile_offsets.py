"""Offsets are characters of the text that was given, in every script and whatever invisible characters stand in it."""

from __future__ import annotations

import sys
from pathlib import Path
from unicodedata import category, normalize

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench")]

from fuzz_targets import _runtime, run  # noqa: E402

from phrasemate.encode import bundled_folder  # noqa: E402
from phrasemate.encode.pooling import token_rows  # noqa: E402
from phrasemate.errors import QueryError  # noqa: E402
from phrasemate.search import parse_query  # noqa: E402
from phrasemate.text import split_sentences, words  # noqa: E402
from phrasemate.utils.hyphens import without_line_hyphens  # noqa: E402

SCRIPTS = {
    "Latin": "Straße naïve ﬁn Ǆ İı", "Greek": "ΣΊΣΥΦΟΣ σίσυφος ΐ", "Cyrillic": "объём й їжак", "Armenian": "և Հայ",
    "Hebrew": "שָׁלוֹם", "Arabic": "السَّلَامُ عَلَيْكُمْ ﷺ", "Syriac": "ܫܠܡܐ", "Devanagari": "क्षत्रिय हिन्दी", "Bengali": "ক্ষমা",
    "Tamil": "கொடு ஸ்ரீ", "Thai": "น้ำใจ ภาษา", "Lao": "ຄຳ", "Khmer": "ខ្មែរ", "Burmese": "မြန်မာ", "Tibetan": "བོད་ཡིག",
    "Georgian": "ქართული ႠᲐ", "Ethiopic": "አማርኛ፡ነው", "Hangul": "한국어 각", "Kana": "カ゛がｶﾞ を", "Han": "漢字𠮷〇",
    "Mongolian": "ᠮᠣᠩᠭᠣᠯ", "Cherokee": "ᎣᏏᏲ ꭰ", "Deseret": "𐐔𐐯𐑅", "Emoji": "👩🏽\u200d🚀🇩🇪❤\ufe0f",
    "Mathematical": "𝔘𝔫𝔦 𝟙",
}  # fmt: skip
INVISIBLE = {
    "combining": "\u0301\u0323\u20dd\u0489\u1ab0\U0001e8d0",
    "bidirectional": "\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069",
    "zero width": "\u200b\u200c\u200d\u2060\ufeff\u00ad\u034f\u180e",
    "surrogates": "\ud800\udbff\udc00\udfff",
    "spaces": " \t\u00a0\u1680\u2003\u202f\u3000\u2028\u2029\x85\x0b\x1c",
    "others": "\x01\x7f\u0378\ue000\ufffd\uffff\U000e0041\U0010ffff",
}
LETTERS = sorted(set("".join(SCRIPTS.values())))
TEXTS = st.lists(
    st.one_of(
        st.sampled_from(LETTERS),
        st.sampled_from(sorted(set("".join(INVISIBLE.values())))),
        st.sampled_from(list(SCRIPTS.values())),
        st.sampled_from([*" .!?。।", "z. B. ", "» ", "「"]),
        st.characters(),
    ),
    max_size=25,
).map("".join)
CODES = st.sampled_from(["", "de", "en", "ar", "hi", "ja", "th", "tr", "zh", "xx"])


def ordered(spans: list[tuple[int, int]], text: str) -> bool:
    ends = [0, *(end for _, end in spans)]
    return all(last <= start < end <= len(text) for last, (start, end) in zip(ends, spans, strict=False))


@settings(max_examples=150, deadline=None)
@given(TEXTS, CODES)
@example("\u202e", "")
@example("\ud83d\ude00", "en")
@example("\ufeffA.\u200b B.", "en")
def test_words_and_sentences(text: str, lang: str) -> None:
    sentences, result = split_sentences(text, lang), words(text)
    assert ordered(sentences, text)
    assert ordered(result, text)
    inside = {at for start, end in sentences for at in range(start, end)}
    assert all(letter.isspace() for at, letter in enumerate(text) if at not in inside)
    in_words = {at for start, end in result for at in range(start, end)}
    assert all(at in in_words for at, letter in enumerate(text) if letter.isalnum())


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("kind", INVISIBLE)
def test_what_stands_before_only_moves_the_words(script: str, kind: str) -> None:
    """Each invisible character, in its own line before the text: the same words, so many characters later."""
    text = SCRIPTS[script]
    for character in INVISIBLE[kind]:
        before = f"{character}\n"
        moved = [(s - len(before), e - len(before)) for s, e in words(before + text) if s >= len(before)]
        assert moved == words(text), ascii(character)


@settings(max_examples=150, deadline=None)
@given(TEXTS, TEXTS, TEXTS)
def test_marks_keep_every_character(before: str, phrase: str, after: str) -> None:
    items = [part.replace("[", "(").replace("]", ")").replace("\\", "/") for part in (before, phrase, after)]
    query = f"{items[0]}[[{items[1]}]]{items[2]}"
    if not any(map(str.isalnum, items[1])):
        with pytest.raises(QueryError):
            parse_query(query)
        return
    if without_line_hyphens(query) != query:
        return
    result = parse_query(query)
    assert result.text == "".join(items)
    (marked,) = result.phrases
    assert marked.text == items[1].strip()
    assert marked.start == len(items[0]) + len(items[1]) - len(items[1].lstrip())


@pytest.mark.skipif(not bundled_folder().exists(), reason="no bundled model")
@settings(max_examples=100, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=3))
@example(["e\u0301\u0301 \u200b", "\ud800", ""])
def test_tokens_cover_every_span_of_their_own_text(texts: list[str]) -> None:
    """The bundled tokenizer folds widths, composes and drops characters; its offsets still are those of the text."""
    plain = [text.encode("utf-16", "replace").decode("utf-16", "replace") for text in texts]
    states = _runtime()._states(plain, list(_runtime()._tokens(plain)), "")
    for number, text in enumerate(plain):
        low, high = states.bounds[number : number + 2].tolist()
        starts, ends = states.starts[low:high], states.ends[low:high]
        assert starts.min() >= 0
        assert ends.max() <= len(text)
        assert (starts <= ends).all()
        visible = [at for at, letter in enumerate(text) if letter.isalnum() and category(letter) != "Cn"]
        for at in visible[:20]:
            span = np.array([at], np.int32), np.array([at + 1], np.int32)
            first, last = token_rows(states, number, *span)
            assert low <= first[0] <= last[0] < high


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
def test_forms_of_one_text_have_their_own_offsets(form: str) -> None:
    text = normalize(form, "Señor Ångström trinkt Café.")
    assert [text[start:end] for start, end in words(text)] == text[:-1].split()


@pytest.mark.parametrize(
    "target", ["query", "split", "tokens", "txt", "tsv", "jsonl", "terms", "manifest", "html", "tmx"]
)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_bytes_at_all(target: str, data: st.DataObject) -> None:
    """What bench/fuzz.py does for hours, for a moment: the very same functions."""
    run(target, data.draw(st.one_of(st.binary(max_size=60), TEXTS.map(lambda t: t.encode("utf-8", "surrogatepass")))))
