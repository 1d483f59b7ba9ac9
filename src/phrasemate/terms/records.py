"""What the terms of a document are, and how they are looked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from phrasemate.errors import InputError
from phrasemate.search import Group
from phrasemate.types import Phrase

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much is done, and of how much."""

RANKINGS = ("termhood", "expected", "frequency", "cvalue")


class Occurrence(NamedTuple):
    """A phrase where it stands; ``score`` is the segmenter's belief, 0 to 1, that it is a phrase there."""

    phrase: Phrase
    document: str
    line: int
    score: float = 1.0

    def as_dict(self) -> dict[str, Any]:
        """For JSON; start and end are characters of the context."""
        phrase, place = self.phrase, {"document": self.document, "line": self.line}
        return {"context": phrase.context, "start": phrase.start, "end": phrase.end, **place}


@dataclass(frozen=True, slots=True)
class DocumentTerm:
    """A phrase of a document that may be a term, with its candidate translations.

    ``text`` is its most usual wording; ``variants`` are all wordings with how often each comes, ``count`` their sum
    and ``places`` every occurrence, in order. ``score`` ranks it (see `TermSettings`), ``belief`` is the segmenter's
    mean belief in its occurrences. ``groups`` are candidate translations, best first, ``confidence`` the probability
    that the first is one (None: not searched, or the model is not calibrated).
    """

    text: str
    score: float
    count: int
    belief: float = 1.0
    variants: tuple[tuple[str, int], ...] = ()
    places: tuple[Occurrence, ...] = ()
    groups: tuple[Group, ...] = ()
    confidence: float | None = None

    def as_dict(self, contexts: int | None = 3) -> dict[str, Any]:
        """For JSON; at most ``contexts`` of its places, and of the sentences of a translation (None: all)."""
        found = {
            "text": self.text,
            "score": round(self.score, 4),
            "count": self.count,
            "belief": round(self.belief, 3),
            "variants": [{"text": text, "count": count} for text, count in self.variants],
            "places": [place.as_dict() for place in self.places[:contexts]],
        }
        sure = None if self.confidence is None else round(self.confidence, 3)
        groups = [replace(group, hits=group.hits[:contexts]).as_dict() for group in self.groups]
        return {**found, "confidence": sure, "groups": groups}


@dataclass(frozen=True, slots=True)
class TermSettings:
    """How the terms of a document are found, ranked and translated.

    Of all runs of up to ``max_words`` words, those are proposed that the segmenter gives a probability of ``belief`` or
    more somewhere, and that come ``least`` times or more. ``ranking``: "termhood" (p ln(1 + f) / n, for a phrase of n
    words that comes f times, with the mean probability p), "expected" (p f), "frequency" (f) or "cvalue" (Frantzi and
    others 2000). The ``most`` best stay (None: all).

    Translations: the ``k`` best wordings that the index has for the mean vector of up to ``examples`` occurrences, each
    with up to ``contexts`` sentences that hold it.
    """

    ranking: str = "termhood"  # chosen by bench/terms.py
    max_words: int = 6
    belief: float = 0.5
    least: int = 1
    most: int | None = 500
    k: int = 5
    contexts: int = 3
    examples: int = 4  # bench/terms.py: one is worse, more are as good and slower

    def __post_init__(self) -> None:
        if self.ranking not in RANKINGS:
            raise InputError(f"ranking {self.ranking!r}; expected one of {', '.join(RANKINGS)}")
        if not 0 <= self.belief <= 1:
            raise InputError(f"belief {self.belief}; expected a probability, 0 to 1")
        numbers = {"max_words": self.max_words, "least": self.least, "k": self.k, "examples": self.examples}
        for name, number in numbers.items() | {("most", 1 if self.most is None else self.most)}:
            if number < 1:
                raise InputError(f"{name} {number}; expected 1 or more")
        if self.contexts < 0:
            raise InputError(f"contexts {self.contexts}; expected 0 or more")
