"""Filters for the phrase pairs of a data set, and division of the pairs into splits.

Two filters follow XPR, section 4. Copies are found by ROUGE-L (Lin 2004, section 3.1): the length of the longest common
subsequence divided by the length of either side, over words or over characters. Time expressions are left out because
there are many, they resemble each other, and their digits give them away.

The CLDR, which Babel contains, has the names of months, days, eras and units of time, and what stands between the parts
of a date. Eras of other calendars than the Gregorian one are listed here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any
from unicodedata import category

from phrasemate.dataset.wikixpr import SPLITS, ExamplePair
from phrasemate.errors import InputError, needs_extra
from phrasemate.text import folded, words
from phrasemate.text.normalize import composed, plain
from phrasemate.types import check_fields

if TYPE_CHECKING:
    from babel import Locale

# First character of Thai. From here on are the scripts without spaces, and Korean, whose particles are joined to words.
SPACELESS = "\u0e00"
_ALONE = "".join(char for char in map(chr, range(ord(SPACELESS))) if category(char) == "No")  # ² and ½ are single words
_RUN = re.compile(rf"[^\W\d_{_ALONE}]+|\d+|\w")  # part of a word: letters, digits, or another character such as ²
UNITS = ("words", "characters")


def longest_common(a: Sequence[Hashable], b: Sequence[Hashable]) -> int:
    """Return the length of the longest common subsequence.

    The algorithm is bit-parallel (Hyyrö 2004): one integer is a row of the table, so that a phrase takes microseconds.
    """
    places: dict[Hashable, int] = {}
    for place, item in enumerate(a):
        places[item] = places.get(item, 0) | 1 << place
    all_ones = (1 << len(a)) - 1
    row = all_ones
    for item in b:
        matches = row & places.get(item, 0)
        row = ((row + matches) | (row - matches)) & all_ones
    return len(a) - row.bit_count()


def rouge_l(source: str, target: str, unit: str = "words") -> tuple[float, float]:
    """Return ROUGE-L in both directions, ignoring case.

    This is the length of the longest common subsequence divided by the length of the source, and by that of the target.
    ``unit``: "words" (those of `phrasemate.text.words`) or "characters" (letters and digits only). Raises InputError
    for another unit.
    """
    a, b = _units(source, unit), _units(target, unit)
    common = longest_common(a, b)
    return common / max(len(a), 1), common / max(len(b), 1)


def is_copy(source: str, target: str, threshold: float = 0.5, unit: str = "words") -> bool:
    """Return whether ROUGE-L exceeds ``threshold`` in both directions (XPR, section 4)."""
    if unit == "words" and not _may_share_words(source.casefold(), target.casefold()):
        return False  # true of most pairs, and much faster than finding their words
    return min(rouge_l(source, target, unit)) > threshold


def _may_share_words(a: str, b: str) -> bool:
    """Return whether both texts have a run of letters in common.

    If a text has a script without spaces, one common letter or digit is enough.
    """
    if max(a, default="") >= SPACELESS or max(b, default="") >= SPACELESS:
        return any(char.isalnum() for char in set(a) & set(b))
    return not set(_RUN.findall(a)).isdisjoint(_RUN.findall(b))


def _units(text: str, unit: str) -> Sequence[str]:
    if unit == "characters":
        return [char for char in text.casefold() if char.isalnum()]
    if unit != "words":
        raise InputError(f"unit {unit!r}; expected one of {', '.join(UNITS)}")
    return [text[start:end].casefold() for start, end in words(text)]


_SEPARATOR = r"[\s.,/’'\-–—]+"
_NUMBER = r"\d+(?:-?[a-zªºà-öø-ÿа-я]{1,3}(?![^\W_]))?"  # a number with its ending, as in 1st, 1980s, 20-й
_ROMAN = r"[ivx]+(?:e|è|ème|º|ª)?(?![^\W_])"
_DECADE = re.compile(r"\d{1,3}0(?:['’]?s|er|ern|['’]?e|-[^\W\d_]{1,2})")
_UNITS = ("duration-year", "duration-decade", "duration-century")
_ERAS = {  # eras of other calendars than the Gregorian one, which Babel lacks
    "ar": "هـ",
    "ja": "令和 平成 昭和 大正 明治",
    "th": "พ.ศ. พุทธศักราช",
    "zh": "民国 民國",
}
_QUOTED = re.compile(r"'([^']+)'")
_FIELDS = re.compile(r"[GyYuUQqMLwWdDEecabBhHKkjmsSAzZOvVXx]+")


def is_time(source: str, target: str, languages: tuple[str, str]) -> bool:
    """Return whether a phrase pair names a time: one side has a number ("5 May"), or both sides are names ("May").

    A name on one side alone may mean something else ("March", the French "Mars"). Raises InputError for a language that
    the CLDR does not know, MissingExtra if Babel is not installed.
    """
    kinds = [TimeWords.of(lang).kind(text) for lang, text in zip(languages, (source, target), strict=True)]
    return "date" in kinds or kinds == ["name", "name"]


class TimeWords:
    """Words that time expressions of one language consist of; `of` makes them for a language."""

    def __init__(self, names: Iterable[str], short: Iterable[str], others: Iterable[str]) -> None:
        self._names = frozenset(map(folded, names))
        self._short = frozenset(map(folded, short)) - self._names
        all_names = sorted(self._names | self._short | set(map(folded, others)), key=len, reverse=True)
        alternatives = "|".join(re.escape(word) for word in all_names if word)
        self._token = re.compile(f"(?P<word>{alternatives})|(?P<number>{_NUMBER}|{_ROMAN})|{_SEPARATOR}")

    @classmethod
    @lru_cache(maxsize=64)
    def of(cls, lang: str) -> TimeWords:
        """Return the words of time of a language; English ones fill in for those that the language lacks."""
        locale = _locale(lang)
        names = [*_names(locale.months, "wide"), *_names(locale.days, "wide")]
        short = [*_names(locale.months, "abbreviated"), *_names(locale.days, "abbreviated")]
        eras = [name for width in locale.eras.values() for name in width.values()]
        eras += _ERAS.get(locale.language, "").split()
        return cls(names, short, [*eras, *_year_units(locale), *_literals(locale)])

    def kind(self, text: str) -> str:
        """Return "date" for a time with a number or for a bare number, "name" for a name alone, else ""."""
        text = folded(text)
        tokens = self._tokens(text)
        if not tokens:
            return ""
        numbers = any(kind == "number" for kind, _ in tokens)
        words = {token for kind, token in tokens if kind == "word"}
        if numbers and (words or _bare(text)):
            return "date"
        return "name" if words & self._names and not numbers else ""

    def _tokens(self, text: str) -> list[tuple[str, str]]:
        """Return the words and numbers of a text, or an empty list if it contains anything else."""
        at, tokens = 0, []
        while at < len(text):
            match = self._token.match(text, at)
            if match is None or match.end() == at or _cuts(text, match):
                return []
            at = match.end()
            if match.lastgroup:
                tokens.append((match.lastgroup, match[0]))
        return tokens


def _bare(text: str) -> bool:
    """Return whether a text is only digits and separators, or a decade such as 1980s."""
    return re.fullmatch(r"[\d\s.,/\-–—]+", text) is not None or _DECADE.fullmatch(text) is not None


def _cuts(text: str, match: re.Match[str]) -> bool:
    """Return whether a matched word ends inside a longer one ("mai" in "main"); False for scripts without case."""
    last, after = match[0][-1], text[match.end() : match.end() + 1]
    return match.lastgroup == "word" and last.isalpha() and after.isalpha() and last.islower()


def _names(contexts: Any, width: str) -> Iterator[str]:
    """Yield the names of a width in CLDR data of months or days, with and without the full stop of an abbreviation."""
    for context in ("format", "stand-alone"):
        for name in contexts.get(context, {}).get(width, {}).values():
            yield from {name, name.rstrip(".")}


def _year_units(locale: Locale) -> Iterator[str]:
    """Yield the names of years, decades and centuries, in every plural form."""
    for unit in _UNITS:
        for width in locale._data["unit_patterns"].get(unit, {}).values():
            for pattern in width.values():
                if isinstance(pattern, str) and (name := pattern.replace("{0}", "").strip()):
                    yield name


def _literals(locale: Locale) -> Iterator[str]:
    """Yield the literals between the numbers of a date: "de", "г.", 年."""
    skeletons = [str(pattern) for key, pattern in locale.datetime_skeletons.items() if set(key) <= set("GyMd")]
    for pattern in [*skeletons, *(date_format.pattern for date_format in locale.date_formats.values())]:
        yield from _QUOTED.findall(pattern)
        for literal in _FIELDS.split(_QUOTED.sub(" ", pattern)):
            yield from (word for word in re.split(_SEPARATOR, literal) if word)


def _locale(lang: str) -> Locale:
    """Return the locale of a language.

    Raises InputError for a language that the CLDR does not know, MissingExtra if Babel is not installed.
    """
    with needs_extra("dataset", "babel"):
        from babel import Locale, UnknownLocaleError
    try:
        return Locale.parse(lang.replace("-", "_"))
    except (UnknownLocaleError, ValueError) as error:
        remedy = "give a code such as de, or keep time expressions"
        raise InputError(f"language {lang!r}: the CLDR knows no such language; {remedy}") from error


Pair = tuple[str, str]
Split = dict[str, list[ExamplePair]]

SHARES = dict(zip(SPLITS, (3, 1, 1), strict=True))  # paper, section 4
_LOTS = [split for split, share in SHARES.items() for _ in range(share)]  # each split as often as its share
# Filters and what the pairs that they remove have in common.
REASONS = {
    "no word": "a side holds no letter",
    "long": "a side has more words than the limit",
    "copy": "ROUGE-L is above the threshold in both directions",
    "time": "a year, a date, a month",
    "repeated": "the same pair came before",
    "few examples": "a side has too few example sentences",
    "ambiguous": "one of its phrases is in an earlier pair",
    "surplus": "there are more pairs than the limit",
}


@dataclass(frozen=True, slots=True)
class DatasetSettings:
    """Filters for phrase pairs, and limits on examples and pairs.

    Raises InputError for invalid values.

    >>> DatasetSettings(examples=8, max_words=3).least
    1
    """

    examples: int = 32  # most examples of a phrase (paper, section 4)
    extra: int = 10  # characters that a sentence has more than its phrase, at least (paper, section 4)
    least: int = 1  # fewest examples of each side of a pair
    longest: int = 500  # most characters of a sentence
    copies: float = 0.5  # ROUGE-L above which a pair is a copy (paper, section 4); 1 keeps all
    unit: str = "words"  # unit of ROUGE-L: words or characters
    times: bool = False  # whether to keep time expressions
    max_words: int = 0  # most words of a phrase; 0: any number
    most: int = 0  # most pairs; 0: all
    seed: int = 0

    def __post_init__(self) -> None:
        check_fields(self)
        if not 0 <= self.copies <= 1:
            raise InputError(f"copies={self.copies}; expected a share from 0 to 1 (1 keeps all)")
        if self.unit not in UNITS:
            raise InputError(f"unit={self.unit!r}; expected one of {', '.join(UNITS)}")
        if self.examples < 1 or not 0 <= self.least <= self.examples:
            reason = f"examples={self.examples}, least={self.least}"
            raise InputError(f"{reason}; expected examples of 1 or more, and least from 0 to examples")
        if self.extra < 0 or self.longest < 1 or self.max_words < 0:
            reason = f"extra={self.extra}, longest={self.longest}, max_words={self.max_words}"
            raise InputError(f"{reason}; expected extra of 0 or more, longest of 1 or more, max_words of 0 or more")
        if self.most and self.most < sum(SHARES.values()):
            raise InputError(f"most={self.most}; expected 0 (all) or at least {sum(SHARES.values())} pairs")


def candidates(pairs: Iterable[Pair], languages: Pair, settings: DatasetSettings, removed: Counter[str]) -> list[Pair]:
    """Return the pairs whose wordings pass the filters, in order; ``removed`` counts the others by `REASONS`."""
    selection: dict[Pair, Pair] = {}
    for source, target in pairs:
        pair = " ".join(source.split()), " ".join(target.split())
        keys = _keys(pair)
        if reason := "repeated" if keys in selection else _reason(pair, languages, settings):
            removed[reason] += 1
        else:
            selection[keys] = pair
    return list(selection.values())


def divided(pairs: Iterable[ExamplePair], settings: DatasetSettings, removed: Counter[str]) -> Split:
    """Divide pairs into train, dev and test (3:1:1), so that no phrase is in two pairs, and so in two splits.

    The first of several pairs that share a phrase is taken. A pair's split is drawn by a hash of seed and target
    phrase. So a phrase of the target language is in the same split for all source languages, and no test pair was
    trained on for another language pair. The shares are exact only on average, unless ``most`` cuts each split to its
    share.
    """
    sides: tuple[set[str], set[str]] = set(), set()
    examples: dict[str, list[tuple[int, ExamplePair]]] = {split: [] for split in SPLITS}
    for pair in pairs:
        keys = _keys((pair.source, pair.target))
        if keys[0] in sides[0] or keys[1] in sides[1]:
            removed["ambiguous"] += 1
            continue
        sides[0].add(keys[0])
        sides[1].add(keys[1])
        split, order = _draw_split(keys[1], settings.seed)
        examples[split].append((order, pair))
    whole = {
        split: [pair for _, pair in sorted(ordered_pairs, key=lambda entry: entry[0])]
        for split, ordered_pairs in examples.items()
    }
    return _cut(whole, settings.most, removed)


def _cut(splits: Split, most: int, removed: Counter[str]) -> Split:
    """Cut each split to its share of ``most`` pairs; 0 cuts nothing."""
    if not most:
        return splits
    shares = {split: most * share // sum(SHARES.values()) for split, share in SHARES.items()}
    removed["surplus"] += sum(max(0, len(pairs) - shares[split]) for split, pairs in splits.items())
    return {split: pairs[: shares[split]] for split, pairs in splits.items()}


def _draw_split(target: str, seed: int) -> tuple[str, int]:
    """Return the split of a target phrase, and its place in a random order."""
    number = int.from_bytes(blake2b(f"{seed}\t{target}".encode(), digest_size=8).digest(), "big")
    return _LOTS[number % len(_LOTS)], number // len(_LOTS)


def _reason(pair: Pair, languages: Pair, settings: DatasetSettings) -> str:
    """Return the reason for removing a pair, "" if it passes all filters."""
    rules: tuple[tuple[str, Callable[[], bool]], ...] = (
        ("no word", lambda: not all(any(map(str.isalnum, side)) for side in pair)),
        ("long", lambda: bool(settings.max_words) and max(len(words(side)) for side in pair) > settings.max_words),
        ("time", lambda: not settings.times and is_time(*pair, languages)),
        ("no word", lambda: not all(any(map(str.isalpha, side)) for side in pair)),
        ("copy", lambda: settings.copies < 1 and is_copy(*pair, settings.copies, settings.unit)),
    )
    return next((reason for reason, holds in rules if holds()), "")


def _keys(pair: Pair) -> Pair:
    """Return both phrases case-folded, in composed and plain characters."""
    return composed(plain(pair[0])).casefold(), composed(plain(pair[1])).casefold()
