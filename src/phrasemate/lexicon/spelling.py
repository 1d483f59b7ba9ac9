"""Normalise words that a language spells in several ways, so that any spelling matches the others.

A text from Taiwan writes 圖書館 where one from Beijing has 图书馆. Romanian files often have a cedilla instead of the
comma below "ș". Persian files often have Arabic letters for k and y. Russian mostly omits the dots of "ё". In
Turkish the capital of "i" is "İ" and that of "ı" is "I", so that folding a capitalised word changes its first
letter. Folding a word in capitals changes every "ı".

Words in capitals are often written without accents, as French "MEDECIN" or Greek "ΜΗΧΑΝΗ", and German words with "ue"
for "ü". `may_lack_accents`, `accented_letters` and
`without_accents` serve to look these up.

The normalised spelling is a look-up key, not text to show: it need not be the preferred one.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from itertools import chain
from typing import Any, cast
from unicodedata import normalize

from phrasemate.text.normalize import dotless, folded

_WIDE = "\uff00"  # start of the block of fullwidth Latin and halfwidth Japanese letters
_POINTS = re.compile("[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7]")  # Hebrew vowel points and accents
_LONG = re.compile("(?<=[ァ-ヺー]{3})ー(?![ァ-ヺー])")  # final long vowel mark, which technical texts omit
_CAPITAL_I = re.compile(r"(?:^|(?<=\s))ı")
_FIRST_I = re.compile(r"(?:^|(?<=\s))i(?!\u0307)")
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


_UNMARKED = {ord("ı"): "i", ord("ł"): "l", ord("ø"): "o", ord("đ"): "d"}  # NFD leaves them as they are
_NORDIC = {"aa": "å", "ae": "æ", "oe": "ø"}
_DIGRAPHS = {
    "da": _NORDIC,
    "de": {"ae": "ä", "oe": "ö", "ue": "ü"},
    "no": _NORDIC,
    "sv": {"aa": "å", "ae": "ä", "oe": "ö"},
}  # ways to write a letter that a keyboard lacks
_WITH_ACCENTS = (range(0xC0, 0x180), range(0x218, 0x21C), range(0x386, 0x3CF))  # code points, Latin and Greek


def _translation(signs: str, instead: str) -> Callable[[str], str]:
    table = str.maketrans(signs, instead)
    return lambda word: word.translate(table)


@cache
def _converter(way: str) -> Any:
    from opencc import OpenCC

    return OpenCC(way)


def _converted(word: str, way: str) -> str:
    """Convert a word with OpenCC, which rejects lone surrogates; these become "?"."""
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
    """Whether words of a language are compared in a normalised spelling; ``lang``: such as "zh"."""
    return lang in _SPELLINGS


def respell(wording: str, lang: str) -> str:
    """Write a folded wording in the normalised spelling of its language; ``lang``: such as "zh".

    >>> respell("圖書館", "zh"), respell("ştiinţă", "ro"), respell("haus", "de")
    ('图书馆', 'știință', 'haus')
    """
    if wording.isascii() or lang not in _SPELLINGS:
        return wording
    return _SPELLINGS[lang](wording)


def readings(wording: str, lang: str) -> list[str]:
    """List the folded forms of a wording, the likeliest first; a Turkish one in capitals may have two.

    Turkish capitals are often typed without the dots of "İ", so that "I" may also be an "i". ``lang``: such as "tr".

    >>> readings("SINIR", "tr"), readings("Sınır", "tr")
    (['sınır', 'sinir'], ['sınır'])
    """
    return list(dict.fromkeys((folded(dotless(wording, lang)), folded(wording))))


def spellings(wording: str, lang: str) -> list[str]:
    """List the spellings to look a folded wording up by: its own, the normalised one, traditional Chinese.

    For Turkish, also one with the dot of a capital: older tables list "İnsan" as "i" with U+0307.

    >>> spellings("图书馆", "zh")
    ['图书馆', '圖書館']
    """
    standard = respell(wording, lang)
    variant = standard
    if lang == "zh":
        variant = _converted(standard, "s2t")
    elif lang == "tr":
        variant = _FIRST_I.sub("i\u0307", wording)
    return list(dict.fromkeys((wording, standard, variant)))


@cache
def _bare_letters() -> dict[int, str]:
    """Map the code points of small letters with accents to the letters without them."""
    letters = {ord(letter): normalize("NFD", letter)[0] for letter in map(chr, chain.from_iterable(_WITH_ACCENTS))}
    return {code: bare for code, bare in letters.items() if ord(bare) != code and bare.islower()} | _UNMARKED


@cache
def _variants() -> dict[str, list[str]]:
    """Map each letter without an accent to the small letters that it may stand for."""
    variants = defaultdict(list)
    for code, bare in _bare_letters().items():
        variants[bare].append(chr(code))
    return dict(variants)


def without_accents(wording: str, lang: str = "") -> str:
    """Remove the accents of the Latin and Greek letters of a folded wording.

    ``lang``: language with letters that become two, such as "de".

    >>> without_accents("médecin"), without_accents("tür"), without_accents("tür", "de")
    ('medecin', 'tur', 'tuer')
    """
    if wording.isascii():
        return wording
    for letters, letter in _DIGRAPHS.get(lang, {}).items():
        wording = wording.replace(letter, letters)
    return wording.translate(_bare_letters())


def may_lack_accents(wording: str, lang: str) -> bool:
    """Whether a folded wording has letters that may stand for letters with accents, and none with an accent.

    Vietnamese is excluded: most of its syllables would stand for several words.
    """
    if lang == "vi" or without_accents(wording, lang) != wording:
        return False
    return not _variants().keys().isdisjoint(wording)


def accented_letters(wording: str, lang: str) -> list[tuple[str, int]]:
    """List the letters that may be meant at the beginning of a wording without accents.

    ``lang``: such as "de". Each letter comes with the number of characters that it replaces.

    >>> accented_letters("uebel", "de")
    [('u', 1), ('ü', 2)]
    """
    first = wording[0]
    if lang not in _DIGRAPHS:
        return [(letter, 1) for letter in (first, *_variants().get(first, ()))]
    letter = _DIGRAPHS[lang].get(wording[:2])
    return [(first, 1), *([(letter, 2)] if letter else [])]
