"""Compounds with hyphens; joining the lines of a text, and the words that a hyphen splits at the end of a line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import regex

if TYPE_CHECKING:  # `phrasemate --help` does not import NumPy
    from phrasemate.types import Span

LETTERS = r"[\p{L}\p{M}]+"  # of a word; vowel signs of Indic scripts are marks (M)
_PART = r"[\w\p{M}]++(?:['’][\w\p{M}]++)*+"  # of a compound
COMPOUND = regex.compile(rf"(?<![\w\p{{M}}]){_PART}(?:[-‐‑]{_PART})+")  # "follow-up", "d'avant-garde"
_CUT = regex.compile(rf"({LETTERS})[-\u2010\u00ad]$")
_HYPHENATED = regex.compile(rf"{LETTERS}[-\u2010]{LETTERS}")
_WORD = regex.compile(LETTERS)
_AND = frozenset(("and", "bzw", "eller", "lub", "nor", "och", "oder", "or", "sowie", "und"))  # "pre- and post-war"
# characters of scripts without spaces between words
UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3000-\u30ff\u3400-\u9fff\uff00-\uffef]")
_LONGEST_WORD = 100  # characters


class Hyphens:
    """Joins lines and hyphenated words; a hyphen stays if the word is written with it elsewhere in the text."""

    def __init__(self) -> None:
        self._compounds: set[str] = set()

    def read(self, text: str) -> None:
        """Collect the words of a line that have a hyphen inside."""
        self._compounds.update(word.lower().replace("\u2010", "-") for word in _HYPHENATED.findall(text))

    def join(self, text: str, line: str) -> str:
        """Join a text with its next line."""
        if not text:
            return line
        if parts := _split_word(text, line):
            is_compound = "-".join(parts).lower() in self._compounds
            return (text[:-1] if parts[1].islower() and not is_compound else text) + line
        is_unspaced = UNSPACED.match(text[-1]) and UNSPACED.match(line)
        return f"{text}{'' if is_unspaced else ' '}{line}"


def _split_word(text: str, line: str) -> tuple[str, str] | None:
    """Return the two parts of a word that a hyphen at the end of a text splits, or None."""
    cut, word = _CUT.search(text[-_LONGEST_WORD:]), _WORD.match(line)
    return (cut[1], word[0]) if cut and word and word[0].lower() not in _AND else None


def without_line_hyphens(text: str) -> str:
    r"""Join the words that a hyphen splits at the end of a line; all other line breaks stay.

    >>> without_line_hyphens("Das Erd-\nbeben\nwar stark.")
    'Das Erdbeben\nwar stark.'
    """
    if "\n" not in text:
        return text
    hyphens = Hyphens()
    first, *lines = text.split("\n")
    paragraphs = [first]
    hyphens.read(text)
    for line in lines:
        before, after = paragraphs[-1].rstrip(), line.lstrip()
        if _split_word(before, after):
            paragraphs[-1] = hyphens.join(before, after)
        else:
            paragraphs.append(line)
    return "\n".join(paragraphs)


def cuts(span: Span, compound: tuple[int, int]) -> bool:
    """Return whether a span begins or ends within a compound."""
    return any(compound[0] < edge < compound[1] for edge in span[:2])


def without_compound_parts(text: str, spans: Sequence[Span], least: float = 0.0) -> list[Span]:
    """Remove the phrases that begin or end within a compound with hyphens that is a phrase itself.

    So "follow-up" is not cut, but "Parlez-vous" is.

    Args:
        text: Text of the phrases.
        spans: Phrases; they may overlap.
        least: Lowest score of a compound that is a phrase.
    """
    places = {span[:2] for span in spans if span.score >= least}
    compounds = [compound.span() for compound in COMPOUND.finditer(text) if compound.span() in places]
    return [span for span in spans if not any(cuts(span, compound) for compound in compounds)]
