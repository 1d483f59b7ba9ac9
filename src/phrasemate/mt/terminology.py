"""Is the term base's term used? Terms of source sentences, and whether translations have one of their equivalents.

A term counts where the term base has it and the reference uses one of its equivalents: elsewhere the sentence may mean
something else. Of overlapping terms the longest counts, of equally long ones the first. Wordings are compared by stems,
where the language has a stemmer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from phrasemate.lexicon import Dictionary
from phrasemate.lexicon.inflection import stemmed_all, without_function_words
from phrasemate.text import words
from phrasemate.text.normalize import folded

MAX_WORDS = 6

Stems = tuple[str, ...]


class Term(NamedTuple):
    """An occurrence of a term: the number of its sentence, its wording there, the stems of each equivalent."""

    line: int
    wording: str
    equivalents: tuple[Stems, ...]


def stems_of(text: str, lang: str) -> Stems:
    """The words of a text, folded and cut to their stems."""
    return tuple(stemmed_all([text[start:end] for start, end in words(text)], lang))


def uses(stems: Stems, term: Term) -> bool:
    """Whether a text of these stems has one of a term's equivalents."""
    return any(
        equivalent == stems[at : at + len(equivalent)]
        for equivalent in term.equivalents
        for at in range(len(stems) - len(equivalent) + 1)
    )


def terms_of(
    sources: Sequence[str],
    references: Sequence[str],
    dictionaries: Sequence[Dictionary],
    lang: str,
    target: str,
) -> list[Term]:
    """The terms of the source sentences that the references use, sentence after sentence."""
    terms = []
    for line, (source, reference) in enumerate(zip(sources, references, strict=True)):
        stems = stems_of(reference, target)
        terms += [term for term in _in_sentence(line, source, dictionaries, lang, target) if uses(stems, term)]
    return terms


def _in_sentence(line: int, text: str, dictionaries: Sequence[Dictionary], lang: str, target: str) -> list[Term]:
    spans = words(text)
    covered_words = [False] * len(spans)
    terms: dict[int, Term] = {}
    for size in range(min(MAX_WORDS, len(spans)), 0, -1):
        for first in range(len(spans) - size + 1):
            if any(covered_words[first : first + size]):
                continue
            wording = text[spans[first][0] : spans[first + size - 1][1]]
            if without_function_words(wording, lang) != folded(wording):  # it is there without them, too
                continue
            equivalents = [
                stems_of(without_function_words(str(equivalent.text), target), target)
                for dictionary in dictionaries
                for equivalent in dictionary.equivalents(wording, lang, target)
            ]
            if stems := tuple(dict.fromkeys(filter(None, equivalents))):
                terms[first] = Term(line, wording, stems)
                covered_words[first : first + size] = [True] * size
    return [terms[first] for first in sorted(terms)]
