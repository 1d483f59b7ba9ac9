"""One spelling of words that a language spells in two ways, so that either finds the other.

A text from Taiwan writes 圖書館 where one from Beijing has 图书馆. Romanian files often have a cedilla below "ş" where
the language has a comma, and Persian ones the Arabic letters for k and y. Russian mostly leaves out the dots of "ё". In
Turkish the capital of "i" is "İ" and that of "ı" is "I". So a word folds to other letters at the start of a sentence
than within it.

The spelling is a key to compare by, not text to show: it need not be the one that people prefer.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any, cast
from unicodedata import normalize

_WIDE = "\uff00"  # from here on are wide letters of the Latin script and narrow Japanese ones
_POINTS = re.compile("[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7]")  # Hebrew vowels and accents
_LONG = re.compile("(?<=[ァ-ヺー]{3})ー(?![ァ-ヺー])")  # ends a word; technical texts leave it out
_CAPITAL_I = re.compile(r"(?:^|(?<=\s))ı")
_TONES = {
    new: old
    for new_vowels, old_vowels in (
        ("oà oá oả oã oạ", "òa óa ỏa õa ọa"),
        ("oè oé oẻ oẽ oẹ", "òe óe ỏe õe ọe"),
        ("uỳ uý uỷ uỹ uỵ", "ùy úy ủy ũy ụy"),
    )
    for new, old in zip(new_vowels.split(), old_vowels.split(), strict=True)
}
_NEW_TONES = re.compile("|".join(_TONES))


def _translation(signs: str, instead: str) -> Callable[[str], str]:
    table = str.maketrans(signs, instead)
    return lambda word: word.translate(table)


@cache
def _converter(way: str) -> Any:
    from opencc import OpenCC

    return OpenCC(way)


def _converted(word: str, way: str) -> str:
    """What OpenCC makes of a word; it takes no half of a surrogate pair, which a query may hold."""
    return cast(str, _converter(way).convert(word.encode("utf-8", "replace").decode()))


def _simplified(word: str) -> str:
    return _converted(_narrow(word), "t2s")


def _narrow(word: str) -> str:
    return normalize("NFKC", word) if max(word) >= _WIDE else word


_SPELLINGS: dict[str, Callable[[str], str]] = {
    "fa": _translation("كي", "کی"),
    "fr": lambda word: word.replace("œ", "oe").replace("æ", "ae"),
    "he": lambda word: _POINTS.sub("", word),
    "ja": lambda word: _LONG.sub("", _narrow(word)),
    "ko": _narrow,
    "ro": _translation("şţ", "șț"),
    "ru": _translation("ё", "е"),
    "tr": lambda word: _CAPITAL_I.sub("i", word.replace("i\u0307", "i")),
    "vi": lambda word: _NEW_TONES.sub(lambda match: _TONES[match[0]], word),
    "zh": _simplified,
}


def has_spellings(lang: str) -> bool:
    """Whether words of a language, such as "zh", are compared in one spelling that stands for all."""
    return lang in _SPELLINGS


def respell(wording: str, lang: str) -> str:
    """Write a folded wording in the one spelling of its language that stands for all; ``lang``: such as "zh".

    >>> respell("圖書館", "zh"), respell("ştiinţă", "ro"), respell("haus", "de")
    ('图书馆', 'știință', 'haus')
    """
    if wording.isascii() or lang not in _SPELLINGS:
        return wording
    return _SPELLINGS[lang](wording)


def spellings(wording: str, lang: str) -> list[str]:
    """List the spellings in which a list may have a folded wording: its own, the one for all, traditional Chinese.

    >>> spellings("图书馆", "zh")
    ['图书馆', '圖書館']
    """
    standard = respell(wording, lang)
    traditional = _converted(standard, "s2t") if lang == "zh" else standard
    return list(dict.fromkeys((wording, standard, traditional)))
