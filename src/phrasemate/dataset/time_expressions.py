"""Time expressions: years, dates, decades, centuries, names of months and weekdays, in any language of the CLDR.

XPR, section 4, leaves them out of the data set: they are many, alike, and found by their digits. What a language calls
its months, days, eras, years, decades and centuries, and what it puts between the parts of a date, is in the CLDR,
which Babel carries.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from phrasemate.errors import InputError, MissingExtra
from phrasemate.text import folded

if TYPE_CHECKING:
    from babel import Locale

_SEPARATOR = r"[\s.,/’'\-–—]+"
_NUMBER = r"\d+(?:-?[a-zªºà-öø-ÿа-я]{1,3}(?![^\W_]))?"  # with its ending, as in 1st, 1980s, 20-й
_ROMAN = r"[ivx]+(?:e|è|ème|º|ª)?(?![^\W_])"
_DECADE = re.compile(r"\d{1,3}0(?:['’]?s|er|ern|['’]?e|-[^\W\d_]{1,2})")
_UNITS = ("duration-year", "duration-decade", "duration-century")
_QUOTED = re.compile(r"'([^']+)'")
_FIELDS = re.compile(r"[GyYuUQqMLwWdDEecabBhHKkjmsSAzZOvVXx]+")


def is_time(source: str, target: str, languages: tuple[str, str]) -> bool:
    """Whether a phrase pair names a time: a side with a number does ("5 May"), or both do ("May").

    A name alone may mean something else ("March", the French "Mars"), so it takes both sides.
    Raises InputError for a language that the CLDR does not know, MissingExtra where Babel is absent.
    """
    found = [TimeWords.of(lang).kind(text) for lang, text in zip(languages, (source, target), strict=True)]
    return "date" in found or found == ["name", "name"]


class TimeWords:
    """The words of time of one language; see `of`."""

    def __init__(self, names: Iterable[str], short: Iterable[str], others: Iterable[str]) -> None:
        self._names = frozenset(map(_seen, names))
        self._short = frozenset(map(_seen, short)) - self._names
        known = sorted(self._names | self._short | set(map(_seen, others)), key=len, reverse=True)
        alternatives = "|".join(re.escape(word) for word in known if word)
        self._token = re.compile(f"(?P<word>{alternatives})|(?P<number>{_NUMBER}|{_ROMAN})|{_SEPARATOR}")

    @classmethod
    @lru_cache(maxsize=64)
    def of(cls, lang: str) -> TimeWords:
        """Those of a language code; English ones are added where a language has none of its own."""
        locale = _locale(lang)
        names = [*_names(locale.months, "wide"), *_names(locale.days, "wide")]
        short = [*_names(locale.months, "abbreviated"), *_names(locale.days, "abbreviated")]
        eras = [name for width in locale.eras.values() for name in width.values()]
        return cls(names, short, [*eras, *_units(locale), *_literals(locale)])

    def kind(self, text: str) -> str:
        """Return "date" for a time with a number in it or a bare number, "name" for a name alone, else ""."""
        text = _seen(text)
        tokens = list(self._tokens(text))
        if not tokens:
            return ""
        numbers = any(kind == "number" for kind, _ in tokens)
        words = {token for kind, token in tokens if kind == "word"}
        if numbers and (words or _bare(text)):
            return "date"
        return "name" if words & self._names and not numbers else ""

    def _tokens(self, text: str) -> Iterator[tuple[str, str]]:
        """The words and numbers of a text that holds nothing else; none at all otherwise."""
        at, found = 0, []
        while at < len(text):
            match = self._token.match(text, at)
            if match is None or match.end() == at or _cuts(text, match):
                return iter(())
            at = match.end()
            if match.lastgroup:
                found.append((match.lastgroup, match[0]))
        return iter(found)


def _bare(text: str) -> bool:
    """Digits and separators only, or a decade such as 1980s."""
    return re.fullmatch(r"[\d\s.,/\-–—]+", text) is not None or _DECADE.fullmatch(text) is not None


def _cuts(text: str, match: re.Match[str]) -> bool:
    """Whether a word of letters ends inside a longer one ("mai" in "main"); scripts without spaces are let alone."""
    last, after = match[0][-1], text[match.end() : match.end() + 1]
    return match.lastgroup == "word" and last.isalpha() and after.isalpha() and last.islower()


def _seen(text: str) -> str:
    return folded(text)


def _names(contexts: Any, width: str) -> Iterator[str]:
    for context in ("format", "stand-alone"):
        for name in contexts.get(context, {}).get(width, {}).values():
            yield from {name, name.rstrip(".")}


def _units(locale: Locale) -> Iterator[str]:
    """What years, decades and centuries are called, in every plural form."""
    for unit in _UNITS:
        for width in locale._data["unit_patterns"].get(unit, {}).values():
            for pattern in width.values():
                if isinstance(pattern, str):
                    yield from {word for word in (pattern.replace("{0}", "").strip(),) if word}


def _literals(locale: Locale) -> Iterator[str]:
    """What stands between the numbers of a date: "de", "г.", 年."""
    skeletons = [str(pattern) for key, pattern in locale.datetime_skeletons.items() if set(key) <= set("GyMd")]
    for pattern in [*skeletons, *(one.pattern for one in locale.date_formats.values())]:
        yield from _QUOTED.findall(pattern)
        for literal in _FIELDS.split(_QUOTED.sub(" ", pattern)):
            yield from (word for word in re.split(_SEPARATOR, literal) if word)


def _locale(lang: str) -> Locale:
    try:
        from babel import Locale, UnknownLocaleError
    except ImportError as error:
        raise MissingExtra("babel", "dataset") from error
    try:
        return Locale.parse(lang.replace("-", "_"))
    except (UnknownLocaleError, ValueError) as error:
        remedy = "give a code such as de, or leave times in"
        raise InputError(f"language {lang!r}: the CLDR knows no such language; {remedy}") from error
