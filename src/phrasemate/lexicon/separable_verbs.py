"""Separable verbs of German: "nahm … teil" is one verb, whose infinitive is "teilnehmen".

The particle stands at the end of its clause, after the finite verb. There is no list of particles or verbs. A word at
the end of a clause is a particle if it and a preceding verb form an infinitive that simplemma's word list has. Without
simplemma no separable verb is recognised. `joined` writes the infinitive in the position of the finite verb, so that a
search can take it as one phrase.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from phrasemate.text import words
from phrasemate.types import Phrase

_GERMAN = "de"
_CLAUSE_END = re.compile(r"\s*(?:[.,;:!?)\]»«”“\"„–—]|$|(?:und|oder|sondern|aber|denn|doch|bis|als|wenn|weil|dass)\b)")
_CLAUSE_STOP = re.compile(r"\s*[.,;:!?]")
_CLAUSE_BREAK = re.compile(r"[,;:()–—]")
_AUXILIARIES = frozenset({"haben", "sein", "werden"})  # not in "das Haus ist alt", though "Altsein" is a word
_INFINITIVE = ("en", "eln", "ern")
_NEGATION = "nicht"

Place = tuple[int, int]


class SeparableVerb(NamedTuple):
    """Spans of the finite verb and of its particle in a text, and the infinitive."""

    verb: Place
    particle: Place
    infinitive: str

    def moved(self, by: int) -> SeparableVerb:
        """Shift the spans by an offset, such as the start of the sentence in its text."""
        (a, b), (c, d), infinitive = self
        return SeparableVerb((a + by, b + by), (c + by, d + by), infinitive)


def separable_verbs(sentence: str, language: str) -> list[SeparableVerb]:
    """List the separable verbs of a sentence whose two parts stand apart, in order."""
    compound = _compounds() if language == _GERMAN else None
    if compound is None:
        return []
    places, verbs, first = words(sentence), list[SeparableVerb](), 0
    for number, (start, end) in enumerate(places):
        particle = sentence[start:end]
        if not number or not particle.islower() or particle == _NEGATION or not _CLAUSE_END.match(sentence, end):
            continue
        for place in _words_before(sentence, places[first : number + 1]):
            finite = sentence[slice(*place)]
            if (finite.islower() or place == places[0]) and (infinitive := compound(particle, finite.lower())):
                verbs.append(SeparableVerb(place, (start, end), infinitive))
                first = number + 1  # a particle ends its clause
                break
    return verbs


def joined(sentence: str, verb: SeparableVerb) -> Phrase:
    """Return the infinitive of a verb as a phrase of its sentence, with the particle removed."""
    (start, end), (first, last), infinitive = verb
    between = sentence[end:first].rstrip()
    if _CLAUSE_STOP.match(
        sentence, last
    ):  # after a clause within this one: "nahm an der Sitzung, die gestern begann, teil."
        between = between.rstrip(" ,")
    context = f"{sentence[:start]}{infinitive}{between}{sentence[last:]}"
    return Phrase(context, start, start + len(infinitive))


def _words_before(sentence: str, places: list[Place]) -> list[Place]:
    """List the words before the last one, clause by clause from its own backwards, in order within a clause."""
    clauses: list[list[Place]] = [[]]
    for place, following in zip(places[-2::-1], places[:0:-1], strict=True):
        if _CLAUSE_BREAK.search(sentence, place[1], following[0]):
            clauses.append([])
        clauses[-1].append(place)
    return [place for clause in clauses for place in reversed(clause)]


@cache
def _compounds() -> Callable[[str, str], str] | None:
    """Return a function that joins a particle and a finite verb to an infinitive, or "" if they are not one verb."""
    try:
        from simplemma import is_known, lemmatize
    except ImportError:
        return None

    def infinitive(particle: str, finite: str) -> str:
        base = lemmatize(finite, _GERMAN)
        if base in _AUXILIARIES or not base.endswith(_INFINITIVE):
            return ""
        whole = particle + finite  # as in a clause that ends with the verb; "fällt" alone may be "fällen", too
        compound = lemmatize(whole, _GERMAN) if is_known(whole, _GERMAN) else particle + base
        return compound if compound.endswith(_INFINITIVE) and is_known(compound, _GERMAN) else ""

    return infinitive
