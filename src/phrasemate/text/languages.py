"""Language codes from tags, names of languages and names of dictionaries; matching of language tags."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from itertools import pairwise

from phrasemate.text.normalize import folded
from phrasemate.text.sentences import full_tag, name_in

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
_ENGLISH = {names[0]: next(name for name in names if len(name) > 3) for names in map(str.split, _TABLE.split("|"))}
_NAMING = ("en", "de", "fr", "es")  # languages in which names of languages are recognised, besides their own
CAPITAL_NOUNS = frozenset({"de", "lb"})  # languages that write all nouns with a capital
_TAG = re.compile(r"([a-z]{2,3})(?:[-_][a-z0-9]{1,8})*", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]+")
OTHER_SCRIPTS = frozenset(["ar", "bg", "el", "fa", "he", "hi", "ja", "ko", "ru", "uk", "zh"])  # than Latin


@lru_cache(1 << 10)
def primary(tag: str) -> str:
    """Return the primary language of a tag, as a two-letter code if there is one: "deu-AT" gives "de"."""
    first = tag.strip().lower().replace("_", "-").split("-")[0]
    return _CODES.get(first, first)


def language_code(text: str) -> str:
    """Return the code of a language from its tag or name, else "".

    Tags are such as "de", "pt-BR" and "deu". Names are those in the language itself, and in English, German, French and
    Spanish: "Deutsch", "German", "allemand".
    """
    text = text.strip()
    match = _TAG.fullmatch(text)
    code = _CODES.get(match[1].lower() if match else text.lower(), "")
    if not code:
        return _names().get(folded(text), "")
    return code if match is None or match[1].lower() == text.lower() else text.replace("_", "-")


@cache
def _names() -> dict[str, str]:
    """Return the codes of languages by their folded names from ICU; empty without ICU."""
    names = ((name_in(code, naming), code) for code in _ENGLISH for naming in (code, *_NAMING))
    return {folded(name): code for name, code in names if name}


def english_name(tag: str) -> str:
    """Return the English name of the language of a tag: "German" for "de-AT"; "" if it is unknown."""
    code = primary(tag)
    return _ENGLISH[code].capitalize() if code in _ENGLISH else name_in(code, "en")


def languages_in(name: str) -> tuple[str, str]:
    """Find two different languages next to each other in the name of a dictionary: "freedict-eng-deu" gives en, de.

    Returns ("", "") if there are none.
    """
    codes = [language_code(word) for word in _WORD.findall(name) if word.lower() not in ("to", "and")]
    for first, second in pairwise(codes):
        if first and second and first != second:
            return first, second
    return "", ""


_SERBIAN = re.compile("^sh(?=-|$)")  # withdrawn code for Serbian in Latin script (an alias in CLDR)
_NO_LANGUAGE = ("mul", "und", "x", "zxx")
_NORWEGIAN = ("no", "nor")  # Bokmål and Nynorsk


@lru_cache(maxsize=1 << 12)
def speaks(tag: str, expected: str) -> bool:
    """Tell whether a language tag is the expected one or a variety of it: "en-GB" matches "en", every tag matches "*".

    This is basic filtering (RFC 4647, section 3.3.1) with three additions. Other codes of a language are equivalent
    ("iw" and "he", "eng" and "en"). Bokmål and Nynorsk match Norwegian. A likely script may be missing: "zh-Hant-TW"
    matches "zh-TW", by the likely subtags of CLDR.
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
    """Split a tag into its language, its written or likely script, and the other written subtags, the country first."""
    language, *subtags = full_tag(tag).lower().split("-")
    script = subtags[0] if subtags and len(subtags[0]) == 4 else ""
    rest = [part for part in tag.split("-")[1:] if part != script]
    return "no" if language == "nb" else language, script, rest
