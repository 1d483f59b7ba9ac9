"""Codes of languages: from a tag, an English name, or the name of a dictionary."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise

from phrasemate.text.sentences import full_tag

_TABLE = """
ar ara arabic|bg bul bulgarian|ca cat catalan|cs ces cze czech|cy cym wel welsh|da dan danish|de deu ger german|
el ell gre greek|en eng english|eo epo esperanto|es spa spanish|et est estonian|eu eus baq basque|
fa fas per persian|fi fin finnish|fr fra fre french|ga gle irish|he heb hebrew|hi hin hindi|hr hrv croatian|
hu hun hungarian|hy hye arm armenian|id ind indonesian|is isl ice icelandic|it ita italian|ja jpn japanese|
ko kor korean|la lat latin|lt lit lithuanian|lv lav latvian|ne nep nepali|nl nld dut dutch|no nor norwegian nb nn|
pl pol polish|pt por portuguese|ro ron rum romanian|ru rus russian|sk slk slo slovak|sl slv slovenian slovene|
sq sqi alb albanian|sr srp serbian|sv swe swedish|sw swa swahili|ta tam tamil|th tha thai|tr tur turkish|
uk ukr ukrainian|ur urd urdu|vi vie vietnamese|yi yid yiddish|zh zho chi chinese
"""
_CODES = {name: names[0] for names in map(str.split, _TABLE.split("|")) for name in names}
_TAG = re.compile(r"([a-z]{2,3})(?:[-_][a-z0-9]{1,8})*", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]+")


@lru_cache(1 << 10)
def primary(tag: str) -> str:
    """The language of a tag without region and script, with two letters where there are: "deu-AT" gives "de"."""
    first = tag.strip().lower().replace("_", "-").split("-")[0]
    return _CODES.get(first, first)


def language_code(text: str) -> str:
    """The code of a language from its tag ("de", "pt-BR", "deu") or English name ("German"); "" for anything else."""
    text = text.strip()
    match = _TAG.fullmatch(text)
    code = _CODES.get(match[1].lower() if match else text.lower(), "")
    return code if match is None or match[1].lower() == text.lower() else code and text.replace("_", "-")


def languages_in(name: str) -> tuple[str, str]:
    """The two languages that stand one after the other in the name of a dictionary: "freedict-eng-deu" gives en, de.

    ("", "") where no two different ones do.
    """
    codes = [_CODES.get(word.lower(), "") for word in _WORD.findall(name) if word.lower() not in ("to", "and")]
    for first, second in pairwise(codes):
        if first and second and first != second:
            return first, second
    return "", ""


_SERBIAN = re.compile("^sh(?=-|$)")  # withdrawn, for Serbian in Latin letters (an alias of CLDR)
_NO_LANGUAGE = ("mul", "und", "x", "zxx")
_NORWEGIAN = ("no", "nor")  # Bokmål and Nynorsk


@lru_cache(maxsize=1 << 12)
def speaks(tag: str, expected: str) -> bool:
    """Whether a language tag is the wanted one or a variety of it: "en-GB" is "en", and all are "*".

    RFC 4647, section 3.3.1 (basic filtering), "_" taken for "-". Besides, other codes of a language are the same ("iw"
    is "he", "eng" is "en"), and Bokmål is Norwegian. A script that is likely need not be written: "zh-Hant-TW" is
    "zh-TW". So say the likely subtags of CLDR.
    """
    tag, expected = (_SERBIAN.sub("sr-latn", text.strip().lower().replace("_", "-")) for text in (tag, expected))
    if expected == "*" or tag == expected or (expected != "" and tag.startswith(expected + "-")):
        return True
    if not {tag.partition("-")[0], expected.partition("-")[0]}.isdisjoint(("", *_NO_LANGUAGE)):
        return False
    (language, script, rest), (wanted_language, wanted_script, wanted_rest) = map(_parts, (tag, expected))
    plain = "-" not in expected
    return (
        (language == wanted_language or (expected.partition("-")[0] in _NORWEGIAN and language == "nn"))
        and (script == wanted_script or plain)
        and rest[: len(wanted_rest)] == wanted_rest
    )


def _parts(tag: str) -> tuple[str, str, list[str]]:
    """The language of a tag, its script, written or likely, and what else is written: the country first."""
    language, *subtags = full_tag(tag).lower().split("-")
    script = subtags[0] if subtags and len(subtags[0]) == 4 else ""
    rest = [part for part in tag.split("-")[1:] if part != script]
    return "no" if language == "nb" else language, script, rest
