"""Which pairs are taken, and their splits."""

from __future__ import annotations

from collections import Counter
from unicodedata import normalize

import pytest

from phrasemate.dataset import DatasetSettings, ExamplePair
from phrasemate.dataset.split import REASONS, candidates, divided
from phrasemate.errors import InputError

MANY = [ExamplePair(f"Wort {n}", f"word {n}") for n in range(2000)]


def test_each_filter_counts_what_it_removes() -> None:
    pairs = [
        ("Speisekarte", "menu"),
        ("  speisekarte", "Menu "),  # the same but for case and white space
        ("Michael Jackson", "Michael Jackson"),
        ("5. Mai", "5 May"),
        ("1984", "1984"),
        ("…", "menu"),
        ("42", "answer 42"),
        ("", "menu"),
        ("eine lange Reihe von Wörtern", "series"),
        ("Karte", "menu"),
        ("Kaffeehaus", "caf\u00e9"),
        ("Kaffeehaus", "cafe\u0301"),  # the same in NFD
    ]
    removed = Counter[str]()
    proposals = candidates(pairs, ("de", "en"), DatasetSettings(max_words=4), removed)
    assert proposals == [("Speisekarte", "menu"), ("Karte", "menu"), ("Kaffeehaus", "caf\u00e9")]
    assert removed == {"repeated": 2, "copy": 1, "time": 3, "no word": 2, "long": 1}
    assert set(removed) <= set(REASONS)
    assert sum(removed.values()) + len(proposals) == len(pairs)


def test_filters_can_be_turned_off() -> None:
    pairs = [("Michael Jackson", "Michael Jackson"), ("Mai 1984", "5 May"), ("Konfiguration", "configuration")]
    assert candidates(pairs, ("de", "en"), DatasetSettings(copies=1, times=True), Counter()) == pairs
    assert candidates(pairs, ("de", "en"), DatasetSettings(times=True, unit="characters"), Counter()) == pairs[1:2]


def test_three_to_one_to_one_with_no_phrase_twice() -> None:
    splits = divided(MANY, DatasetSettings(), Counter())
    sizes = {split: len(pairs) for split, pairs in splits.items()}
    assert sum(sizes.values()) == 2000
    assert abs(sizes["train"] - 1200) < 90  # four times the square root of 2000 * .6 * .4
    assert abs(sizes["dev"] - 400) < 75
    assert abs(sizes["test"] - 400) < 75
    for side in ("source", "target"):
        phrases = [getattr(pair, side).casefold() for pairs in splits.values() for pair in pairs]
        assert len(set(phrases)) == len(phrases)


def test_the_first_pair_of_a_phrase_is_taken() -> None:
    values = [
        ExamplePair("Bank", "bank"),
        ExamplePair("BANK", "bench"),
        ExamplePair("Ufer", "Bank"),
        ExamplePair("a", "b"),
    ]
    removed = Counter[str]()
    splits = divided(values, DatasetSettings(), removed)
    assert sorted(pair.source for pairs in splits.values() for pair in pairs) == ["Bank", "a"]
    assert removed["ambiguous"] == 2


def test_a_target_phrase_is_in_the_same_split_for_every_language() -> None:
    others = [ExamplePair(f"mot {n}", f"WORD {n}") for n in range(0, 2000, 3)]
    where = [
        {
            pair.target.casefold(): split
            for split, pairs in divided(value, DatasetSettings(), Counter()).items()
            for pair in pairs
        }
        for value in (MANY, others)
    ]
    assert all(where[0][target] == split for target, split in where[1].items())
    assert len(where[1]) == 667


def test_the_split_does_not_depend_on_the_form_of_unicode() -> None:
    words = [f"caf\u00e9 {n}" for n in range(60)]
    for word in words:
        pairs = [ExamplePair("Lokal", word), ExamplePair("Lokal zwei", normalize("NFD", word))]
        splits = divided(pairs, DatasetSettings(), Counter())
        assert sum(map(len, splits.values())) == 1  # one phrase, and so one pair of it


def test_the_seed_draws_other_splits() -> None:
    first, again, other = (divided(MANY, DatasetSettings(seed=seed), Counter()) for seed in (0, 0, 1))
    assert first == again
    assert first != other


def test_most_cuts_each_split_to_its_share() -> None:
    removed = Counter[str]()
    splits = divided(MANY, DatasetSettings(most=500), removed)
    assert {split: len(pairs) for split, pairs in splits.items()} == {"train": 300, "dev": 100, "test": 100}
    assert removed["surplus"] == 2000 - 500
    whole = divided(MANY, DatasetSettings(), Counter())
    assert all(whole[split][: len(pairs)] == pairs for split, pairs in splits.items())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"copies": 1.5}, "copies=1.5; expected a share"),
        ({"unit": "bytes"}, "unit='bytes'; expected one of words, characters"),
        ({"examples": 0}, "expected examples of 1 or more"),
        ({"least": 33}, "least=33; expected"),
        ({"most": 4}, "most=4; expected 0"),
        ({"extra": -1}, "extra=-1, .*; expected extra of 0 or more"),
        ({"longest": 0}, "longest=0, .* longest of 1 or more"),
        ({"max_words": -1}, "max_words=-1; .* max_words of 0 or more"),
    ],
)
def test_senseless_settings(wrong: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        DatasetSettings(**wrong)  # type: ignore[arg-type]
