"""ROUGE-L: the fast one against the table of the textbook, and who is a copy."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phrasemate.dataset.split import is_copy, longest_common, rouge_l
from phrasemate.errors import InputError


def plain(a: str, b: str) -> int:
    """Dynamic programming, cell by cell."""
    row = [0] * (len(b) + 1)
    for x in a:
        before = row[:]
        for j, y in enumerate(b, 1):
            row[j] = before[j - 1] + 1 if x == y else max(before[j], row[j - 1])
    return row[-1]


@settings(deadline=None)
@given(st.text("abc", max_size=80), st.text("abcd", max_size=80))
def test_longest_common_is_that_of_the_table(a: str, b: str) -> None:
    assert longest_common(a, b) == plain(a, b)


def test_both_directions() -> None:
    assert rouge_l("New York City", "york") == (1 / 3, 1 / 1)
    assert rouge_l("Menü", "menu", "characters") == (3 / 4, 3 / 4)
    assert rouge_l("the old man", "man the old") == (2 / 3, 2 / 3)
    assert rouge_l("", "x") == (0, 0)


@pytest.mark.parametrize(
    ("source", "target", "copy"),
    [
        ("Michael Jackson", "Michael Jackson", True),
        ("Michael Jackson (Sänger)", "MICHAEL JACKSON", True),  # 2/3 and 2/2
        ("New York", "York", False),  # 1/2 is not above 0.5
        ("Konfiguration", "configuration", False),
        ("USBメモリ", "USB memory", False),  # 1/2 of the English words
        ("USB", "usb", True),
        ("東京", "東京", True),
        ("Der Hund", "the dog", False),
    ],
)
def test_copies_by_words(source: str, target: str, copy: bool) -> None:
    assert is_copy(source, target) is copy
    assert (min(rouge_l(source, target)) > 0.5) is copy  # without the short cut


def test_copies_by_characters() -> None:
    assert is_copy("Konfiguration", "configuration", unit="characters")  # 11 of 13 both ways
    assert rouge_l("Konfiguration", "configuration", "characters") == (12 / 13, 12 / 13)
    assert not is_copy("Hund", "dog", unit="characters")


LEFT = ["a", "b", "ab", "USB", "東", "京", "東京", "-", "l'a", "²", ".²a", "5½", "_"]
RIGHT = ["a", "b", "ab", "usb", "東", "京", "x", "l'a", "² a'", "5", "a_b"]


@pytest.mark.parametrize(("one", "other"), [(".²a", "² a'"), ("½a b", "½ a"), ("a²", "a ³")])
def test_what_stands_alone_within_letters(one: str, other: str) -> None:
    assert is_copy(one, other) == (min(rouge_l(one, other)) > 0.5)


@settings(deadline=None)
@given(st.lists(st.sampled_from(LEFT), max_size=6), st.data())
def test_the_short_cut_changes_nothing(a: list[str], data: st.DataObject) -> None:
    b = data.draw(st.lists(st.sampled_from(RIGHT), max_size=6))
    assert is_copy(" ".join(a), " ".join(b)) == (min(rouge_l(" ".join(a), " ".join(b))) > 0.5)


def test_an_unknown_unit() -> None:
    with pytest.raises(InputError, match="unit 'bytes'; expected one of words, characters"):
        rouge_l("a", "b", "bytes")
