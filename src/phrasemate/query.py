r"""Marked text: ``[[ ]]`` around the phrases that a sentence is asked about.

Right before doubled brackets, and nowhere else, backslashes count: of each two of them one stands, and one that is left
keeps the two brackets after it as they are. So ``\[[`` and ``\]]`` are literal brackets, ``C:\\[[Programme]]`` marks a
word behind a backslash. Of three brackets in a row the outer one is literal: ``[[[word]]]`` marks a word in brackets.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from phrasemate.errors import QueryError
from phrasemate.types import Phrase

EXPECTED = r"mark one phrase or several as [[phrase]]; write \[[ or \]] for literal brackets"
_SLASHES = r"(?<!\\)(\\*)"  # a whole run of them: looked at once, however long
_MARKS = re.compile(_SLASHES + r"(\[{2,}|\]{2,})")
_BEFORE = re.compile(_SLASHES + r"(\[{2,}|\]{2,}|\[?\Z)")  # besides, what the text before a [[ ends with
_WITHIN = re.compile(_SLASHES + r"(\[{2,}|\]{2,}|\Z)")  # and before a ]]


class Query(NamedTuple):
    """A query without its marks, and the spans that were marked."""

    text: str
    phrases: tuple[Phrase, ...]


def parse_query(query: str) -> Query:
    """Take the ``[[ ]]`` marks out of a query.

    White space just inside the marks is not part of the phrase. Raises QueryError for marks that are unbalanced,
    nested or empty.
    """
    if not isinstance(query, str):
        raise QueryError(f"{repr(query)[:40]}: expected a text with marks")
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
    return Query(text, tuple(_trimmed(text, start, end, query) for start, end in phrases))


def marked(text: str, start: int, end: int) -> str:
    """The query that marks ``text[start:end]`` and nothing else: `parse_query` gives both back.

    But for one case: a phrase that begins with [ or ends with ] is kept apart from its marks by a space.
    """
    phrase = text[start:end]
    phrase = (" " if phrase.startswith("[") else "") + phrase + (" " if phrase.endswith("]") else "")
    before, inside, after = (
        _BEFORE.sub(_unescape, text[:start]),
        _WITHIN.sub(_unescape, phrase),
        _MARKS.sub(_unescape, text[end:]),
    )
    return f"{before}[[{inside}]]{after}"


def _unescape(match: re.Match[str]) -> str:
    """Backslashes and brackets -> what reads as just these."""
    slashes, brackets = match.groups()
    pairs = ["\\" + brackets[:2]] * (len(brackets) // 2)
    return slashes * 2 + "".join(pairs) + brackets[: len(brackets) % 2]


def _trimmed(text: str, start: int, end: int, query: str) -> Phrase:
    phrase = text[start:end]
    if not any(character.isalnum() for character in phrase):
        raise QueryError(f"the marked phrase {phrase!r} has no letter or digit in {query!r}; {EXPECTED}")
    return Phrase(text, end - len(phrase.lstrip()), start + len(phrase.rstrip()))
