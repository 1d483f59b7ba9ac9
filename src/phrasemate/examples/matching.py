"""Find a phrase in a text as whole words, case-insensitively, with offsets in the original text.

Korean has spaces between words, but particles and the copula are written together with the noun: 프린터가,
프린터에서는, 프린터입니다. They may follow a phrase (`phrasemate.text.korean`).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from functools import cached_property, lru_cache

from phrasemate.errors import InputError
from phrasemate.text import words
from phrasemate.text.korean import is_syllable, particles_only
from phrasemate.text.normalize import Alignment, composed, plain, visible

_JOINTS = "'‘:"  # characters inside a word at which a phrase may begin or end: l'eau, dog's, Ankara'da, EU:n
_NEGATION = re.compile("['‘]t\\b", re.IGNORECASE)  # the exception: "don" is not a word of "don't"
_Case = tuple[tuple[str, str], ...]  # replacements before case folding
_PLAIN: _Case = (("İ", "i"),)  # case folding alone would give two characters
_TURKISH: _Case = (("İ", "i"), ("I", "ı"))
_ONE_I: _Case = (("İ", "i"), ("ı", "i"))

# Ranges of characters that are looked up by pairs, with which every substring can be found. These are scripts without
# spaces, Korean because of its particles, numbers that are words of their own (m², 3½, a①), and all scripts beyond the
# first plane, because most of them have such numbers.
_PAIRED = (
    "\u00b2\u00b3\u00b9\u00bc-\u00be\u09f4-\u09f9\u0b72-\u0b77\u0bf0-\u0bf2\u0c78-\u0c7e\u0d58-\u0d5e\u0d70-\u0d78"
    "\u0e00-\u0eff\u0f2a-\u0f33\u1000-\u109f\u1100-\u11ff\u1369-\u137c\u1780-\u17ff\u1950-\u19ff\u1a20-\u1aaf"
    "\u2070-\u209f\u2150-\u218f\u2460-\u24ff\u2776-\u2793\u2cfd\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u30ff"
    "\u3130-\u318f\u3192-\u3195\u31f0-\u31ff\u3220-\u3229\u3248-\u32bf\u3400-\u4dbf\u4e00-\u9fff\ua830-\ua835"
    "\ua960-\ua97f\ua9e0-\ua9ff\uaa60-\uaadf\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f\U00010100-\U0003ffff"
)
_RUN = re.compile(rf"([{_PAIRED}]+)|[^\W_{_PAIRED}]+")
_LOOKED_UP = 24  # maximum number of tokens in a query; `Matcher` then compares the whole phrase


class Matcher:
    """Compiled phrase that finds itself in texts. Raises InputError for a blank phrase.

    White space matches any white space. Composed and decomposed characters are equal, and so are all apostrophes and
    all hyphens. Invisible characters are ignored. A phrase with a dotless ı is Turkish: I is then the capital of ı, not
    of i.
    """

    def __init__(self, phrase: str) -> None:
        if not (phrase := visible(phrase)).strip():
            raise InputError("cannot look for an empty phrase; expected at least one visible character")
        self._case = _TURKISH if "ı" in phrase else _PLAIN
        folded_text = _folded(phrase, self._case)
        self._pattern = re.compile(r"\s+".join(map(re.escape, folded_text.split())))

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the start and end of each occurrence as whole words in ``text``, ascending, without overlap."""
        alignment = Alignment(text, form=lambda piece: _lower(composed(piece), self._case))
        boundaries, at = _WordBoundaries(alignment.plain), 0
        while match := self._pattern.search(alignment.text, at):
            span = alignment.plain_span(*match.span())
            if span is not None and boundaries.may_start(span[0]) and boundaries.may_end(*span):
                yield alignment.original(*span)
                at = match.end()
            else:
                at = match.start() + 1


def occurrences(phrase: str, text: str) -> list[tuple[int, int]]:
    """Find the occurrences of ``phrase`` as whole words in ``text``: start and end, ascending, without overlap.

    Case is ignored (ß equals ss, İ equals i). All apostrophes are equal, and so are all hyphens. Soft hyphens and other
    invisible characters are ignored. Word boundaries are those of `phrasemate.text.words`, and the apostrophe and the
    colon inside a word; in Korean, particles may follow the phrase. Raises InputError for a blank phrase.

    >>> occurrences("bench", "A bench. Two benches.")
    [(2, 7)]
    """
    return list(_matcher(phrase).spans(text))


_matcher = lru_cache(maxsize=64)(Matcher)


class _WordBoundaries:
    """Word boundaries of a text. The words are found only when the adjacent characters do not decide."""

    def __init__(self, text: str) -> None:
        self._text = text

    @cached_property
    def _words(self) -> list[tuple[int, int]]:
        return words(self._text)

    def may_start(self, at: int) -> bool:
        """Return whether a phrase may begin at an offset: not inside a word, unless after its apostrophe or colon."""
        if at == 0 or self._text[at - 1] == " " or self._around(at) is None:
            return True
        return self._text[at - 1] in _JOINTS

    def may_end(self, start: int, at: int) -> bool:
        """Return whether a phrase that begins at ``start`` may end at an offset.

        Inside a word, it may end before an apostrophe or colon, or before Korean particles.
        """
        text = self._text
        if at == len(text) or text[at] == " " or (word := self._around(at)) is None:
            return True
        if text[at] in _JOINTS:
            return not (text[at - 1] in "nN" and _NEGATION.match(text, at))
        return is_syllable(text[at]) and particles_only(text[max(word[0], start) : at], text[at : word[1]])

    def _around(self, at: int) -> tuple[int, int] | None:
        """Return the span of the word that an offset would cut, or None."""
        last = bisect_left(self._words, (at, 0)) - 1  # the last word that begins before the offset
        return self._words[last] if last >= 0 and at < self._words[last][1] else None


def tokens(text: str) -> list[str]:
    """Split a text into tokens of the full-text table: case-folded words, or pairs of characters.

    In scripts without spaces, and in Korean, each character makes a token with the next one. Each sentence in which
    `Matcher` finds a phrase has the tokens of `lookup` in sequence.

    >>> tokens("A bench"), tokens("東京都")
    (['a', 'bench'], ['東京', '京都', '都'])
    """
    text_tokens = []
    for match in _RUN.finditer(_folded(text, _ONE_I)):
        run = match[0]
        text_tokens.extend([run[i : i + 2] for i in range(len(run))] if match[1] else [run])
    return text_tokens


def characters(text: str) -> list[str]:
    """Return all characters of a text that `tokens` pairs; they find words of a single character."""
    return list("".join(match[1] or "" for match in _RUN.finditer(_folded(text, _ONE_I))))


def lookup(phrase: str) -> tuple[list[str], bool]:
    """Return the tokens with which a phrase is looked up, and whether the last one is only the prefix of a token.

    A phrase without a letter or digit has no tokens.
    """
    runs = list(_RUN.finditer(_folded(phrase, _ONE_I)))
    phrase_tokens = tokens(phrase)
    last = (runs[-1][1] or "") if runs else ""  # the last run of characters, if it is looked up by pairs
    if len(last) > 1:
        phrase_tokens.pop()  # the last character; in a text it makes a pair with the character that follows
    return phrase_tokens[:_LOOKED_UP], len(last) == 1 and len(phrase_tokens) <= _LOOKED_UP


def _folded(text: str, case: _Case) -> str:
    """Normalise a text and fold its case."""
    return _lower(composed(plain(text)), case)


def _lower(text: str, case: _Case) -> str:
    """Apply the replacements of ``case``, then fold the case."""
    for capital, small in case:
        text = text.replace(capital, small)
    return text.casefold()
