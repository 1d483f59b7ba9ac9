"""ROUGE-L between the two sides of a phrase pair: who is a copy of the other learns nothing across languages.

Lin (2004), section 3.1: the length of the longest common subsequence, over that of either side. Over words, as ROUGE
is defined, or over characters.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from unicodedata import category

from phrasemate.errors import InputError
from phrasemate.text import words

SPACELESS = "\u0e00"  # Thai, and all beyond: scripts without spaces, and Korean, whose particles are joined
_ALONE = "".join(char for char in map(chr, range(ord(SPACELESS))) if category(char) == "No")  # ², ½: words of their own
_RUN = re.compile(rf"[^\W\d_{_ALONE}]+|\d+|\w")  # words are one or several of these: letters, digits, others such as ²
UNITS = ("words", "characters")


def longest_common(a: Sequence[Hashable], b: Sequence[Hashable]) -> int:
    """The length of the longest common subsequence.

    Bit-parallel (Hyyrö 2004): one row of the table is one integer, so that a phrase costs microseconds.
    """
    places: dict[Hashable, int] = {}
    for place, item in enumerate(a):
        places[item] = places.get(item, 0) | 1 << place
    everything = (1 << len(a)) - 1
    row = everything
    for item in b:
        matches = row & places.get(item, 0)
        row = ((row + matches) | (row - matches)) & everything
    return len(a) - row.bit_count()


def rouge_l(source: str, target: str, unit: str = "words") -> tuple[float, float]:
    """The longest common subsequence over the length of the source, and over that of the target; case is ignored.

    ``unit``: "words" (those of `phrasemate.text.words`) or "characters" (letters and digits only).
    """
    a, b = _units(source, unit), _units(target, unit)
    common = longest_common(a, b)
    return common / max(len(a), 1), common / max(len(b), 1)


def is_copy(source: str, target: str, threshold: float = 0.5, unit: str = "words") -> bool:
    """Whether ROUGE-L exceeds ``threshold`` in both directions (XPR, section 4)."""
    if unit == "words" and not _may_share_words(source.casefold(), target.casefold()):
        return False  # most pairs; finding words costs more than all the rest
    return min(rouge_l(source, target, unit)) > threshold


def _may_share_words(a: str, b: str) -> bool:
    """Whether they have a run of letters in common, or any character if one is of a script without spaces."""
    if max(a, default="") >= SPACELESS or max(b, default="") >= SPACELESS:
        return any(char.isalnum() for char in set(a) & set(b))
    return not set(_RUN.findall(a)).isdisjoint(_RUN.findall(b))


def _units(text: str, unit: str) -> Sequence[str]:
    if unit == "characters":
        return [char for char in text.casefold() if char.isalnum()]
    if unit != "words":
        raise InputError(f"unit {unit!r}; expected one of {', '.join(UNITS)}")
    return [text[start:end].casefold() for start, end in words(text)]
