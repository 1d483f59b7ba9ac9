"""Terms of dictionaries in a sentence: the longest first, no two of which share a word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from phrasemate.lexicon import Dictionary
from phrasemate.lexicon.inflection import without_function_words
from phrasemate.text import words
from phrasemate.text.normalize import folded

TERM_WORDS = 6  # of the longest term that is looked up


class TermOccurrence(NamedTuple):
    """A term of a sentence, ``sentence[start:end]``, and its equivalents, the best of each dictionary first."""

    start: int
    end: int
    equivalents: tuple[str, ...]


def terms_in(
    sentence: str, dictionaries: Sequence[Dictionary], lang: str = "", target: str = ""
) -> list[TermOccurrence]:
    """The terms of a sentence that the dictionaries list, in its order; of equally long ones the first counts.

    ``lang`` and ``target``: languages of the sentence and of the equivalents, "" for any.
    """
    spans = words(sentence) if dictionaries else []
    covered_words = [False] * len(spans)
    terms = []
    for size in range(min(TERM_WORDS, len(spans)), 0, -1):
        for first in range(len(spans) - size + 1):
            if any(covered_words[first : first + size]):
                continue
            start, end = spans[first][0], spans[first + size - 1][1]
            wording = sentence[start:end]
            if without_function_words(wording, lang) != folded(wording):  # it is there without them, too
                continue
            equivalents = dict.fromkeys(
                str(equivalent.text)
                for dictionary in dictionaries
                for equivalent in dictionary.equivalents(wording, lang, target)
            )
            if equivalents:
                terms.append(TermOccurrence(start, end, tuple(equivalents)))
                covered_words[first : first + size] = [True] * size
    return sorted(terms)
