"""Idioms: German ones in their sentences, whose answer is an English idiom that stands elsewhere.

A stress row of the lookup yardstick, as hardly any word of an idiom means what the answer's words mean. The file has a
JSON object a line: de, en (a sentence pair), idiom_de, idiom_en, direction; in the direction "en-de" the two idioms
have changed places. Words of the German idiom are looked for in the sentence by their lemmas, in any order.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

from phrasemate.errors import InputError
from phrasemate.evaluate.data import json_lines
from phrasemate.evaluate.lookup import LookupQuery, lemma, lemmas
from phrasemate.text import words
from phrasemate.types import Phrase

COUNT = 200  # idioms that are asked
WIDEST = 3  # words of a sentence to a word of its idiom
GERMAN_FUNCTION_WORDS = frozenset(
    """
    der die das den dem des ein eine einen einem einer eines kein keine keinen keinem keiner und oder
    in im ins an am ans auf aus bei beim mit nach von vom vor zu zum zur um über unter durch für gegen bis
    ich du er sie es wir ihr sich mich dich uns euch ihm ihn ihnen mir dir sein seine seinen seinem seiner
    ihre ihren ihrem ihrer mein dein unser euer jemand jemanden jemandem etwas man nicht
    ist sind war haben hat hatte werden wird wurde worden wie als so auch noch nur
    """.split()  # noqa: SIM905
)


def read_idioms(path: Path, count: int = COUNT, seed: int = 0) -> tuple[list[LookupQuery], list[str]]:
    """At most ``count`` queries that are drawn from a file, and English sentences of it, none the mate of a query.

    Raises InputError where no idiom stands in its sentence, ReadError for a line that is not a pair with its idioms.
    """
    rows = json_lines(path, ("de", "en", "idiom_de", "idiom_en", "direction"))
    random.Random(seed).shuffle(rows)
    queries: list[LookupQuery] = []
    mates: set[str] = set()
    for row in rows:
        german, english = row["idiom_de"], row["idiom_en"]
        if row["direction"] == "en-de":
            german, english = english, german
        place = place_of(german, row["de"]) if len(queries) < count else None
        if place is not None:
            whole = lemmas(english)
            right = frozenset({whole, whole.removeprefix("be ")})
            queries.append(LookupQuery(Phrase(row["de"], *place), "de", "idioms", right, None, False))
            mates.add(row["en"])
    if not queries:
        raise InputError(f"{path}: no idiom stands in its sentence; expected German sentences with their idioms")
    return queries, sorted({row["en"] for row in rows} - mates)


def place_of(idiom: str, sentence: str) -> tuple[int, int] | None:
    """Start and end of the shortest run of words with all content words of an idiom; None where there is no short one.

    A single word is no idiom. The idiom's words that stand before the run belong to it, as in "in den Kinderschuhen".
    A word of the idiom may be several with ``|`` between them, of which one is enough.
    """
    content_words = [choice for part in idiom.split() if (choice := _choice(part.split("|")))]
    every = _german(idiom.replace("|", " ").split())
    spans = words(sentence)
    having = [_german([sentence[start:end]]) for start, end in spans]
    most = WIDEST * len(idiom.split())
    for length in range(len(content_words), min(most, len(spans)) + 1):
        for first in range(len(spans) - length + 1):
            inside = frozenset().union(*having[first : first + length])
            if content_words and all(choice & inside for choice in content_words):
                last = first + length - 1
                while first and not every.isdisjoint(having[first - 1]):
                    first -= 1
                return (spans[first][0], spans[last][1]) if first < last else None
    return None


def _choice(part: Iterable[str]) -> frozenset[str]:
    """The lemmas of what may stand for one word of an idiom; none for a function word."""
    content = [word for word in part if words(word) and word.casefold() not in GERMAN_FUNCTION_WORDS]
    return _german(content)


def _german(parts: Iterable[str]) -> frozenset[str]:
    """Words and their lemmas, case-folded: an idiom may be listed without its capitals, which change lemmas."""
    forms = [form for part in parts for form in (part, part.casefold(), part.capitalize())]
    return frozenset(form.casefold() for form in forms) | {lemma(form, "de") for form in forms}
