r"""Marked text: ``[[ ]]`` around the phrases to look up in a sentence.

Backslashes are escapes only directly before doubled brackets. There, two backslashes stand for one, and an odd one
makes the two brackets literal. So ``\[[`` and ``\]]`` are literal brackets, and ``C:\\[[Programme]]`` marks a word
after a backslash. Of three brackets in a row the outer one is literal: ``[[[word]]]`` marks a word in brackets.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from phrasemate.errors import QueryError
from phrasemate.types import Phrase
from phrasemate.utils.hyphens import without_line_hyphens

EXPECTED = r"mark one phrase or several as [[phrase]]; write \[[ or \]] for literal brackets"
_SLASHES = r"(?<!\\)(\\*)"  # the lookbehind keeps the match linear in a long run
_MARKS = re.compile(_SLASHES + r"(\[{2,}|\]{2,})")
_BEFORE = re.compile(_SLASHES + r"(\[{2,}|\]{2,}|\[?\Z)")  # also escapes the end of the text before a [[
_WITHIN = re.compile(_SLASHES + r"(\[{2,}|\]{2,}|\Z)")  # also escapes the end of the text before a ]]


class Query(NamedTuple):
    """A query without its marks, and the marked phrases."""

    text: str
    phrases: tuple[Phrase, ...]


def parse_query(query: str) -> Query:
    """Remove the ``[[ ]]`` marks from a query.

    White space just inside the marks is not part of the phrase. Words that a hyphen splits at the end of a line are
    joined, in the text and in the phrases. Raises QueryError for marks that are unbalanced, nested or empty.
    """
    if not isinstance(query, str):
        raise QueryError(f"{repr(query)[:40]}: expected a text with marks")
    query = without_line_hyphens(query)
    parts: list[str] = []
    phrases: list[tuple[int, int]] = []
    opening, at, length = -1, 0, 0

    def literal(text: str) -> None:
        nonlocal length
        parts.append(text)
        length += len(text)

    for match in _MARKS.finditer(query):
        slashes, brackets = match.groups()
        literal(query[at : match.start()] + "\\" * (len(slashes) // 2))
        at = match.end()
        if len(slashes) % 2:
            literal(brackets[:2])
            brackets = brackets[2:]
        if len(brackets) < 2:
            literal(brackets)
        elif brackets[0] == "[":
            if opening >= 0 or len(brackets) > 3:
                raise QueryError(f"[[ inside [[ ]] in {query!r}; {EXPECTED}")
            literal(brackets[2:])
            opening = length
        elif opening < 0 or len(brackets) > 3:
            raise QueryError(f"]] without [[ in {query!r}; {EXPECTED}")
        else:
            phrases.append((opening, length))
            opening = -1
            literal(brackets[2:])
    if opening >= 0:
        raise QueryError(f"unclosed [[ in {query!r}; {EXPECTED}")
    text = "".join([*parts, query[at:]])
    return Query(text, tuple(_trim_phrase(text, start, end, query) for start, end in phrases))


def marked(text: str, start: int, end: int) -> str:
    """Write the query that marks exactly ``text[start:end]``, the inverse of `parse_query`.

    Two cases are not exact. A space separates a phrase that begins with [ or ends with ] from its marks. Words that are
    split at the end of a line are joined.
    """
    phrase = text[start:end]
    phrase = (" " if phrase.startswith("[") else "") + phrase + (" " if phrase.endswith("]") else "")
    before, inside, after = (
        _BEFORE.sub(_escape, text[:start]),
        _WITHIN.sub(_escape, phrase),
        _MARKS.sub(_escape, text[end:]),
    )
    return f"{before}[[{inside}]]{after}"


def _escape(match: re.Match[str]) -> str:
    """Escape the brackets of a match of `_MARKS` so that they are parsed as literal."""
    slashes, brackets = match.groups()
    pairs = ["\\" + brackets[:2]] * (len(brackets) // 2)
    return slashes * 2 + "".join(pairs) + brackets[: len(brackets) % 2]


def _trim_phrase(text: str, start: int, end: int, query: str) -> Phrase:
    """Make a phrase of ``text[start:end]`` without white space at its ends.

    Raises QueryError, which quotes the ``query``, for a phrase without a letter or digit.
    """
    phrase = text[start:end]
    if not any(character.isalnum() for character in phrase):
        raise QueryError(f"the marked phrase {phrase!r} has no letter or digit in {query!r}; {EXPECTED}")
    return Phrase(text, end - len(phrase.lstrip()), start + len(phrase.rstrip()))
