"""What counts as the same text: characters that are not seen, apostrophes, hyphens, composed letters."""

from __future__ import annotations

import json
from pathlib import Path
from unicodedata import normalize

import pytest

from phrasemate.text import Side, Unit, folded, read, read_terms, words, write_units
from phrasemate.text.normalize import plain, visible, visible_places

UNSEEN = "\u00ad\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\ufeff"
UNSEEN += "\u034f\u2061\u206f\ufe0f\U000e0100\U000e01ef"


@pytest.mark.parametrize("sign", UNSEEN)
def test_what_is_not_seen_counts_for_nothing(sign: str) -> None:
    text = f"{sign}Gar{sign}{sign}ten{sign}zaun{sign}"
    assert visible(text) == plain(text) == "Gartenzaun"
    assert visible_places(text) == [1, 2, 3, 6, 7, 8, 10, 11, 12, 13]
    assert folded(text) == "gartenzaun"
    assert words(text) == [(1, len(text) - 1)]


@pytest.mark.parametrize("joiner", "\u200c\u200d")
def test_joiners_are_spelling(joiner: str) -> None:
    text = f"می{joiner}رود"
    assert visible(text) == plain(text) == folded(text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *[("Gar\u200bten", "Garten"), ("сло\u200bво", "слово"), ("Gar\u00ad\u200bten", "Garten")],
        *[("ไทย\u200bไทย", "ไทย\u200bไทย"), ("one \u200btwo", "one \u200btwo"), ("\u200bone\u200b", "\u200bone\u200b")],
    ],
)
def test_a_space_of_no_width_parts_words_but_of_scripts_with_capitals(text: str, expected: str) -> None:
    assert visible(text) == expected


def test_words_of_a_text_with_spaces_of_no_width() -> None:
    text = "Der Gar\u200bten ist\u200f da"
    assert [text[start:end] for start, end in words(text)] == ["Der", "Gar\u200bten", "ist", "da"]


@pytest.mark.parametrize("sign", "'\u2019\u02bc\uff07")
def test_apostrophes_are_alike(sign: str) -> None:
    assert plain(f"l{sign}été") == "l'été"
    assert folded(f"L{sign}Été") == folded("l'été")


@pytest.mark.parametrize("sign", "-\u2010\u2011")
def test_hyphens_are_alike_and_dashes_are_not(sign: str) -> None:
    assert plain(f"vis{sign}à{sign}vis") == "vis-à-vis"
    assert plain("1990–1995 — “so”") == "1990–1995 — “so”"


def test_text_without_any_of_them_is_not_copied() -> None:
    for text in ("plain text", "Größe – “so”", "ไทย"):
        assert plain(text) is text
        assert visible(text) is text


def test_what_is_read_is_composed(tmp_path: Path) -> None:
    decomposed = normalize("NFD", "Ein Café. Die Tür.")
    (tmp_path / "a.txt").write_text(decomposed, "utf-8")
    (tmp_path / "b.jsonl").write_text(json.dumps({"text": decomposed}), "utf-8")
    write_units(tmp_path / "c.tmx", [Unit((Side(decomposed, "de"), Side(normalize("NFD", "Un café."), "fr")))])
    for document in read(tmp_path, lang="de"):
        assert [sentence.text for sentence in document.sentences()] == ["Ein Café.", "Die Tür."], document.name
    assert next(iter(document.sentences())).metadata["translation"] == "Un café."
    assert [term.text for term in read_terms(tmp_path / "a.txt")] == ["Ein Café. Die Tür."]
