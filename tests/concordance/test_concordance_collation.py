from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from phrasemate import concordance
from phrasemate.concordance import collation


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("", ["apfel", "Apfel", "äpfel", "zebra"]),
        ("en", ["co-op", "CO-OP", "coop", "côté", "zoo"]),
        ("sv", ["ofen", "zebra", "ähnlich", "öl"]),
        ("cs", ["co", "cukr", "čas", "hora", "chata", "jablko"]),  # ch is a letter after h
        ("es", ["nube", "ñandú", "oso"]),
        ("zh", ["阿姨", "北京", "广州", "上海"]),  # pinyin
        ("ja", ["あさ", "いぬ", "うみ"]),
        ("th", ["กา", "เกม", "ขา"]),  # the vowel that is written first counts second
    ],
)
def test_dictionary_order(language: str, words: list[str]) -> None:
    key = collation(language)
    backwards = [*reversed(words)]  # or a key that is always the same would pass
    assert sorted(backwards, key=key) == words


def test_anything_can_be_sorted() -> None:
    key = collation("de-DE")
    assert key("a") < key("b" * 10_000)
    assert isinstance(key("\ud800 half a pair \0"), bytes)


@pytest.mark.parametrize("language", ["xx", "../../etc", "de; DROP", "x" * 500, "日本"])
def test_an_unknown_language_has_the_common_order(language: str) -> None:
    assert sorted(["öl", "zebra", "ofen"], key=collation(language)) == ["ofen", "öl", "zebra"]


def no_collator(locale: bytes, status: Any) -> int:
    """Stands in for ICU's function that opens a collator, where its data are not there."""
    status._obj.value = 2  # U_MISSING_RESOURCE_ERROR
    return 0


@pytest.mark.parametrize("icu", [None, SimpleNamespace(ucol_open=no_collator)])
def test_without_icu_accents_and_case_do_not_count(icu: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concordance, "_icu", lambda: icu)
    key = collation.__wrapped__("sv")  # not one that is kept from another test
    assert sorted(["Zebra", "Öl", "ofen", "ähnlich"], key=key) == ["ähnlich", "ofen", "Öl", "Zebra"]
