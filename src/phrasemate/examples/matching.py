"""Find a phrase in a text: upper and lower case alike, whole words only, offsets of the original text.

Korean is written with spaces, but particles and the copula are joined to the noun: 프린터가, 프린터에서는,
프린터입니다. Many have two forms, one after a vowel and one after a final consonant, which tells 파가 from
파이 (a pie). What may follow a noun without a space, and leave it the same word, is listed here.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from functools import cached_property, lru_cache

from phrasemate.errors import InputError
from phrasemate.text import words
from phrasemate.text.normalize import Alignment, composed, plain, visible

_FIRST, _LAST = "가", "힣"  # the precomposed syllables
_FINALS = 28  # final consonants of a syllable, "none" among them
_RIEUL = 8  # the final consonant after which 로 stands as after a vowel: 파일로


def _set(particles: str) -> frozenset[str]:
    return frozenset(particles.split())


_ANY = _set(
    "의 에 에서 에게 에게서 께 께서 한테 한테서 도 만 까지 부터 마다 처럼 같이 보다 밖에 조차 마저 뿐 들 하고 대로 만큼"
    " 이다 입니다 이고 이며 인 인데 이지만 이라는 이라고 이므로 이었다 이면"
)
_AFTER_VOWEL = _set("가 는 를 와 라 라는 라고 라도 라면 나 나마 란 랑 든지 든가 며 였다")
_AFTER_CONSONANT = _set(
    "이 은 을 과 으로 으로서 으로써 으로부터 이나 이나마 이란 이랑 이라 이라도 이라면 이든지 이든가"
)
_RO = _set("로 로서 로써 로부터")
_EVERY = sorted(_ANY | _AFTER_VOWEL | _AFTER_CONSONANT | _RO)

# After a noun of one syllable these make other words too often: 지 + 도 is 지도 (map), 회 + 의 is 회의 (meeting).
_DOUBTFUL = _set("의 도 만 과 나 라 란 며 인 들 로")


def is_syllable(character: str) -> bool:
    """Whether it is a Hangul syllable."""
    return _FIRST <= character <= _LAST


def particles_only(noun: str, rest: str) -> bool:
    """Whether ``rest``, which follows ``noun`` without a space, is particles alone.

    ``noun`` is what stands before it in the same word; of one syllable, it takes no particle that would likely make
    another word.
    """
    ends = [True] + [False] * len(rest)  # whether rest[:at] is particles alone
    for at in range(len(rest)):
        if ends[at]:
            before = rest[at - 1] if at else noun[-1]
            for particle in _EVERY:
                doubtful = not at and len(noun) == 1 and particle in _DOUBTFUL
                if rest.startswith(particle, at) and not doubtful and _fits(before, particle):
                    ends[at + len(particle)] = True
    return bool(noun) and ends[-1]


def _fits(last: str, particle: str) -> bool:
    """Whether the particle has the form that stands after ``last``."""
    if particle in _ANY or not is_syllable(last):
        return True
    final = (ord(last) - ord(_FIRST)) % _FINALS
    if particle in _RO:
        return final in (0, _RIEUL)
    return (final == 0) == (particle in _AFTER_VOWEL)


_JOINTS = "'‘:"  # inside a word a boundary all the same: l'eau, dog's, Ankara'da, EU:n
_NEGATION = re.compile("['‘]t\\b", re.IGNORECASE)  # but "don" is not a word of "don't"
_Case = tuple[tuple[str, str], ...]
_PLAIN: _Case = (("İ", "i"),)  # case folding would make it two characters
_TURKISH: _Case = (("İ", "i"), ("I", "ı"))
_ONE_I: _Case = (("İ", "i"), ("ı", "i"))

# Scripts without spaces, Korean with its joined particles, and the numbers that are words of their own (m², 3½, a①) are
# looked up by pairs of characters, in which every substring can be found. So are the scripts beyond the first plane,
# most of which have such numbers.
_PAIRED = (
    "\u00b2\u00b3\u00b9\u00bc-\u00be\u09f4-\u09f9\u0b72-\u0b77\u0bf0-\u0bf2\u0c78-\u0c7e\u0d58-\u0d5e\u0d70-\u0d78"
    "\u0e00-\u0eff\u0f2a-\u0f33\u1000-\u109f\u1100-\u11ff\u1369-\u137c\u1780-\u17ff\u1950-\u19ff\u1a20-\u1aaf"
    "\u2070-\u209f\u2150-\u218f\u2460-\u24ff\u2776-\u2793\u2cfd\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u30ff"
    "\u3130-\u318f\u3192-\u3195\u31f0-\u31ff\u3220-\u3229\u3248-\u32bf\u3400-\u4dbf\u4e00-\u9fff\ua830-\ua835"
    "\ua960-\ua97f\ua9e0-\ua9ff\uaa60-\uaadf\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f\U00010100-\U0003ffff"
)
_RUN = re.compile(rf"([{_PAIRED}]+)|[^\W_{_PAIRED}]+")
_LOOKED_UP = 24  # tokens of a phrase that are looked up; the text is compared whole


class Matcher:
    """A phrase, ready to be looked for in many texts. Raises InputError for a blank one.

    White space in it matches any white space. Composed and decomposed characters are equal, so are the apostrophes and
    the hyphens, and what is not seen counts for nothing. A dotless ı makes it Turkish: then the capital of ı is I, else
    that of i.
    """

    def __init__(self, phrase: str) -> None:
        if not (phrase := visible(phrase)).strip():
            raise InputError("cannot look for an empty phrase; expected at least one character")
        self._case = _TURKISH if "ı" in phrase else _PLAIN
        folded_text = _folded(phrase, self._case)
        self._pattern = re.compile(r"\s+".join(map(re.escape, folded_text.split())))

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Find the phrase as whole words: start and end in ``text``, ascending, without overlap."""
        alignment = Alignment(text, form=lambda piece: _lower(composed(piece), self._case))
        around, at = _Words(alignment.plain), 0
        while match := self._pattern.search(alignment.text, at):
            span = alignment.plain_span(*match.span())
            if span is not None and around.may_start(span[0]) and around.may_end(*span):
                yield alignment.original(*span)
                at = match.end()
            else:
                at = match.start() + 1


def occurrences(phrase: str, text: str) -> list[tuple[int, int]]:
    """Find the places where ``phrase`` stands in ``text`` as whole words: start and end, ascending, without overlap.

    Upper and lower case are alike (ß is ss, İ is i), so are the apostrophes, and the hyphens. Soft hyphens and other
    characters that are not seen count for nothing. Word boundaries are those of `phrasemate.text.words`, further the
    apostrophe and colon inside a word; in Korean, particles may follow. Raises InputError for a blank phrase.

    >>> occurrences("bench", "A bench. Two benches.")
    [(2, 7)]
    """
    return list(_matcher(phrase).spans(text))


_matcher = lru_cache(maxsize=64)(Matcher)


class _Words:
    """The words of a text, found when a place cannot be judged by its neighbours."""

    def __init__(self, text: str) -> None:
        self._text = text

    @cached_property
    def _words(self) -> list[tuple[int, int]]:
        return words(self._text)

    def may_start(self, at: int) -> bool:
        """Whether a word may begin here: not within a word, or after an apostrophe or colon of one."""
        if at == 0 or self._text[at - 1] == " " or self._around(at) is None:
            return True
        return self._text[at - 1] in _JOINTS

    def may_end(self, start: int, at: int) -> bool:
        """Whether the words from ``start`` may end here."""
        text = self._text
        if at == len(text) or text[at] == " " or (word := self._around(at)) is None:
            return True
        if text[at] in _JOINTS:
            return not (text[at - 1] in "nN" and _NEGATION.match(text, at))
        return is_syllable(text[at]) and particles_only(text[max(word[0], start) : at], text[at : word[1]])

    def _around(self, at: int) -> tuple[int, int] | None:
        """The word that would be cut here."""
        last = bisect_left(self._words, (at, 0)) - 1  # the last word that begins before
        return self._words[last] if last >= 0 and at < self._words[last][1] else None


def tokens(text: str) -> list[str]:
    """Cut a text into tokens for look-up: folded words; in scripts without spaces and Korean, each character with the
    next.

    All sentences in which `Matcher` finds a phrase have its tokens in sequence.
    """
    spans = []
    for match in _RUN.finditer(_folded(text, _ONE_I)):
        run = match[0]
        spans.extend([run[i : i + 2] for i in range(len(run))] if match[1] else [run])
    return spans


def characters(text: str) -> list[str]:
    """The characters of a text that are looked up by pairs: a word of one character has no pair of its own."""
    return list("".join(match[1] or "" for match in _RUN.finditer(_folded(text, _ONE_I))))


def lookup(phrase: str) -> tuple[list[str], bool]:
    """The tokens of a phrase, and whether the last of them is only the beginning of one in the text.

    No tokens at all for a phrase without letter or digit.
    """
    runs = list(_RUN.finditer(_folded(phrase, _ONE_I)))
    phrase_tokens = tokens(phrase)
    last = (runs[-1][1] or "") if runs else ""  # a last run of pairs
    if len(last) > 1:
        phrase_tokens.pop()  # in the text, its last character may continue with any other
    return phrase_tokens[:_LOOKED_UP], len(last) == 1 and len(phrase_tokens) <= _LOOKED_UP


def _folded(text: str, case: _Case) -> str:
    return _lower(composed(plain(text)), case)


def _lower(text: str, case: _Case) -> str:
    for capital, small in case:
        text = text.replace(capital, small)
    return text.casefold()
