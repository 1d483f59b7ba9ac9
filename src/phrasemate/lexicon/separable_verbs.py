"""Separable verbs of German and Dutch: "nahm … teil" is one verb, whose infinitive is "teilnehmen".

The particle stands at the end of its clause, after the finite verb. Both are recognised if they form an infinitive that
simplemma's word list has. The search takes the infinitive, written in the position of the finite verb, as the phrase
(`with_infinitive`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import NamedTuple

from phrasemate.lexicon.induced import InducedLexicon
from phrasemate.text import split_sentences, words
from phrasemate.types import Phrase

_PARTICLES: Mapping[str, frozenset[str]] = {
    "de": frozenset(
        """
        ab abhanden an aneinander auf aufeinander aufrecht aus auseinander bei beisammen bekannt bereit bevor bloß brach
        dar dazwischen durch durcheinander ein einher empor entgegen entlang entzwei fehl fern fertig fest
        fort frei gegenüber gleich gut hängen heim her herab heran herauf heraus herbei herein herüber herum herunter
        hervor hin hinab hinauf hinaus hinein hinterher hinüber hinunter hinzu hoch inne irre kaputt kennen klar kund
        lahm leid liegen los mit nach nahe nebeneinander nieder offen preis ran raus rein rüber rum runter sicher sitzen
        statt stecken stehen still teil tot trocken über überein um umher umhin unter voll vor voran voraus vorbei
        vorüber vorweg wach wahr weg weiter wett wieder zu zufrieden zugrunde zunichte zurecht zurück zusammen zuvor
        zuwider
        """.split()  # noqa: SIM905
    ),
    "nl": frozenset(
        """
        aan achter achterna achteruit af bij bijeen binnen buiten deel dicht door dood door gade gelijk goed heen hoog
        in klaar kwijt langs leeg los mee mede mis na neer om omhoog omver onder op open over plaats rond samen schoon
        stand stil tegemoet tegen teleur terecht terug toe tussen uit uiteen vast vol voor vooraf vooruit voort voorbij
        vrij weer weg
        """.split()  # noqa: SIM905
    ),
}
_AT_END = re.compile(
    r"\s*(?:[.,;:!?)\]»«”“\"„–—]|$|"
    r"(?:und|oder|sondern|aber|denn|doch|bis|als|wenn|weil|dass|zu|en|of|maar|want|dan|omdat|dat|toen|om|te)\b)"
)
_PARTICLE = re.compile(rf"\b(?:{'|'.join(sorted(frozenset().union(*_PARTICLES.values())))})\b(?={_AT_END.pattern})")
_CLAUSE_STOP = re.compile(r"\s*[.,;:!?]")
_CLAUSE_BREAK = re.compile(r"[,;:()–—]")
_AUXILIARIES = frozenset({"haben", "sein", "werden", "hebben", "zijn", "worden"})  # not in "er war zurück"
_INTEND = "vorhaben"  # the only frequent verb with one of these
_PLEASE = "bitte"  # simplemma takes it for a form of "bitten"
_SHORTEST = 3  # least letters of a finite verb; not Dutch "en", as "open" is an infinitive
_INFINITIVE = {"de": ("en", "eln", "ern"), "nl": ("n",)}

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
    """List the separable verbs of a sentence whose two parts stand apart, or next to each other, in order."""
    if language not in _PARTICLES:
        return []
    places, verbs, first = words(sentence), list[SeparableVerb](), 0
    for number, (start, end) in enumerate(places):
        particle = sentence[start:end]
        if not number or particle not in _PARTICLES[language] or not _AT_END.match(sentence, end):
            continue
        for place in _words_before(sentence, places[first : number + 1]):
            finite = sentence[slice(*place)]
            if finite.lower() == _PLEASE or not (finite.islower() or place == places[0]):
                continue
            if infinitive := _infinitives(language)(particle, finite.lower()):
                verbs.append(SeparableVerb(place, (start, end), infinitive))
                first = number + 1  # a particle ends its clause
                break
    return verbs


def joined(sentence: str, verb: SeparableVerb) -> Phrase:
    """Return the infinitive of a verb as a phrase of its sentence, with the particle removed."""
    start = verb.verb[0]
    return Phrase(_joined(sentence, verb), start, start + len(verb.infinitive))


def with_infinitive(phrase: Phrase, lexicon: InducedLexicon) -> Phrase:
    """Return a phrase with the infinitive of its separable verb: "teilnehmen" for "nahm" and for "teil".

    The phrase contains the finite verb ("nahm", "nahm an der Sitzung teil") or is the particle. Other phrases are
    returned unchanged, and so is one with both parts that the lexicon lists, such as "Geh weg" ("go away"). The lexicon
    identifies the language, too.
    """
    if not _PARTICLE.search(phrase.context, phrase.start):
        return phrase
    language = lexicon.language_of(phrase.context)
    if language not in _PARTICLES:
        return phrase
    sentences = split_sentences(phrase.context)
    start, end = next((span for span in sentences if span[0] <= phrase.start < span[1]), (0, 0))
    for verb in separable_verbs(phrase.context[start:end], language):
        verb = verb.moved(start)
        (first, last), particle, infinitive = verb
        if (phrase.start, phrase.end) == particle:
            return joined(phrase.context, verb)
        if phrase.start <= first and last <= phrase.end:
            context = _joined(phrase.context, verb)
            growth = len(infinitive) - (last - first)
            if phrase.end <= particle[0]:
                return Phrase(context, phrase.start, min(phrase.end + growth, len(context)))
            if phrase.end >= particle[1] and not lexicon.knows(phrase.text, language):
                return Phrase(context, phrase.start, phrase.end + len(context) - len(phrase.context))
    return phrase


def infinitive_of(phrase: Phrase, language: str) -> str:
    """Return the infinitive of the separable verb whose finite form is a phrase of a sentence; "" if there is none."""
    if language not in _PARTICLES or not _PARTICLE.search(phrase.context, phrase.end):
        return ""
    verbs = separable_verbs(phrase.context, language)
    return next((verb.infinitive for verb in verbs if verb.verb == (phrase.start, phrase.end)), "")


def _joined(sentence: str, verb: SeparableVerb) -> str:
    """Write the infinitive of a verb in the position of its finite verb, without the particle."""
    (start, end), (first, last), infinitive = verb
    between = sentence[end:first].rstrip()
    if _CLAUSE_STOP.match(
        sentence, last
    ):  # after a clause within this one: "nahm an der Sitzung, die gestern begann, teil."
        between = between.rstrip(" ,")
    return f"{sentence[:start]}{infinitive}{between}{sentence[last:]}"


def _words_before(sentence: str, places: list[Place]) -> list[Place]:
    """List the words before the last one, clause by clause from its own backwards, in order within a clause."""
    clauses: list[list[Place]] = [[]]
    for place, following in zip(places[-2::-1], places[:0:-1], strict=True):
        if _CLAUSE_BREAK.search(sentence, place[1], following[0]):
            clauses.append([])
        clauses[-1].append(place)
    return [place for clause in clauses for place in reversed(clause)]


@cache
def _infinitives(language: str) -> Callable[[str, str], str]:
    """Return a function that joins a particle and a finite verb to an infinitive, or "" if they are not one verb."""
    from simplemma import is_known, lemmatize  # a second to load a language

    def infinitive(particle: str, finite: str) -> str:
        base = lemmatize(finite, language)
        if (
            (base in _AUXILIARIES and particle + base != _INTEND)
            or not base.endswith(_INFINITIVE[language])
            or len(finite) < _SHORTEST
        ):
            return ""
        whole = particle + finite  # as in a clause that ends with the verb; "fällt" alone may be "fällen", too
        compound = lemmatize(whole, language).replace("_", "") if is_known(whole, language) else ""  # "op_halen"
        if not compound.startswith(particle):  # "außehen", which simplemma has for "aussiehst"
            compound = particle + base
        return compound if compound.endswith(_INFINITIVE[language]) and is_known(compound, language) else ""

    return infinitive
