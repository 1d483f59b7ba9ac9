"""Time expressions in many languages, and what only looks like one."""

from __future__ import annotations

import sys

import pytest

from phrasemate.dataset.split import TimeWords, is_time
from phrasemate.errors import InputError, MissingExtra

DATES = {
    "en": "1984|5 May|May 5, 2004|1990s|20th century|44 BC|5th century BC|2004 – 2006",
    "de": "20. Jahrhundert|1980er|Mai 2004|5. Mai|44 v. Chr.|1980er Jahre|3. Okt. 1990",
    "fr": "XXe siècle|1er mai|Février 2004|mai 1968",
    "es": "Siglo XX|5 de mayo|años 1980|5 de mayo de 2004",
    "ru": "5 мая|XX век|2004 год|1980-е",
    "cs": "5. květen|20. století|květen 2004|1. ledna",
    "ja": "5月5日|2004年|20世紀|2004年5月5日|平成16年",
    "zh": "2004年|2004年5月|民国93年",
    "ko": "5월 5일|2004년|20세기",
    "ar": "2004|5 مايو|1425 هـ",
    "th": "พ.ศ. 2540|พุทธศักราช 2540|5 พฤษภาคม",
    "tr": "5 Mayıs|20. yüzyıl",
}
OTHERS = {
    "en": "Maybe|3D|2004 Summer Olympics|year|Windows 10|10 mm|Sun|century|a 1984 film",
    "de": "Maier|Jahr|3D|Vitamin B12|zwei",
    "es": "mar|año",
    "fr": "Louis XIV|an",
    "ja": "年金|日本|月",
    "zh": "年|天",
    "ru": "маятник|год",
}


@pytest.mark.parametrize(("lang", "text"), [(lang, text) for lang, texts in DATES.items() for text in texts.split("|")])
def test_dates(lang: str, text: str) -> None:
    assert TimeWords.of(lang).kind(text) == "date"


@pytest.mark.parametrize(
    ("lang", "text"), [(lang, text) for lang, texts in OTHERS.items() for text in texts.split("|")]
)
def test_no_dates(lang: str, text: str) -> None:
    assert TimeWords.of(lang).kind(text) == ""


def test_a_name_alone_takes_both_sides() -> None:
    assert TimeWords.of("en").kind("March") == TimeWords.of("fr").kind("mars") == "name"
    assert is_time("März", "March", ("de", "en"))
    assert not is_time("Mars", "Mars (planet)", ("fr", "en"))
    assert is_time("80. léta", "1980s", ("cs", "en"))  # one side with a number is enough
    assert not is_time("Hund", "dog", ("de", "en"))


def test_a_language_that_the_cldr_does_not_know() -> None:
    with pytest.raises(InputError, match="language 'qqq': the CLDR knows no such language"):
        TimeWords.of("qqq")


def test_without_babel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "babel", None)
    with pytest.raises(MissingExtra, match=r"phrasemate\[dataset\]"):
        TimeWords.of.__wrapped__(TimeWords, "en")  # type: ignore[attr-defined]
