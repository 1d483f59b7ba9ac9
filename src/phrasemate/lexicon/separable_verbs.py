"""Separable verbs of German: "nahm … teil" is one verb, whose infinitive is "teilnehmen".

The particle stands at the end of its clause, the finite verb before it. Neither is listed here. A word at the end of a
clause is a particle if a verb before it makes a known infinitive with it, by the word list of simplemma. Without
simplemma no such verb is recognised. `joined` writes the infinitive where the finite verb stood, so that a search can
take it as one phrase.
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
_AUXILIARIES = frozenset({"haben", "sein", "werden"})  # "das Haus ist alt": "Altsein" is a word, too
_INFINITIVE = ("en", "eln", "ern")
_NEGATION = "nicht"

Place = tuple[int, int]


class SeparableVerb(NamedTuple):
    """Places of the finite verb and of its particle in a text, and the infinitive."""

    verb: Place
    particle: Place
    infinitive: str

    def moved(self, by: int) -> SeparableVerb:
        """The same verb in a text in which its sentence begins at ``by``."""
        (a, b), (c, d), infinitive = self
        return SeparableVerb((a + by, b + by), (c + by, d + by), infinitive)


def separable_verbs(sentence: str, language: str) -> list[SeparableVerb]:
    """The separable verbs of a sentence whose two parts stand apart, in their order."""
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
                first = number + 1  # a particle closes its clause
                break
    return verbs


def joined(sentence: str, verb: SeparableVerb) -> Phrase:
    """The infinitive of a verb as a phrase of its sentence, from which the particle is left out."""
    (start, end), (first, last), infinitive = verb
    between = sentence[end:first].rstrip()
    if _CLAUSE_STOP.match(
        sentence, last
    ):  # after a clause within this one: "nahm an der Sitzung, die gestern begann, teil."
        between = between.rstrip(" ,")
    context = f"{sentence[:start]}{infinitive}{between}{sentence[last:]}"
    return Phrase(context, start, start + len(infinitive))


def _words_before(sentence: str, places: list[Place]) -> list[Place]:
    """The words before the last one: those of its clause in their order, then those of the clause before, and so on."""
    clauses: list[list[Place]] = [[]]
    for place, following in zip(places[-2::-1], places[:0:-1], strict=True):
        if _CLAUSE_BREAK.search(sentence, place[1], following[0]):
            clauses.append([])
        clauses[-1].append(place)
    return [place for clause in clauses for place in reversed(clause)]


@cache
def _compounds() -> Callable[[str, str], str] | None:
    """A function that gives the infinitive of a particle and a finite verb, "" where they are not one verb."""
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
