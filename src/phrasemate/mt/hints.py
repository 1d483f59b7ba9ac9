"""Which phrases of a sentence get a hint: retrieved equivalents in the target language, each with where it was found.

CCPR, section 6.3: phrases by the learned segmenter, the longest first. A phrase with no equivalent that
passes the floor adds nothing and, where phrases may not overlap, leaves its words to shorter ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from phrasemate.encode.segmenter import LETTER
from phrasemate.errors import InputError
from phrasemate.examples import occurrences
from phrasemate.index import Index
from phrasemate.query import marked
from phrasemate.search import Group, Result, Searcher
from phrasemate.text import words
from phrasemate.types import Hit, Span

WIDE = 20  # equivalents among which one that occurs in a translation is looked for
NEAR = 10  # candidates that are compared to tell the nearest: of so few an approximate search misses none in practice
FLOORS = {True: (0.7, 0.0), False: (0.8, 0.05)}  # where the model tells how sure it is, and where not (docs/mt.md)
SLACK = 0.02  # by which a cosine may differ that was computed among other sentences (16-bit arithmetic)


class Place(NamedTuple):
    """Where an equivalent stands: its context, cut and marked with ``[[ ]]``, and the document and line."""

    context: str
    document: str
    line: int


class Equivalent(NamedTuple):
    """A retrieved wording with its cosine, how often it was found, and some of its places."""

    text: str
    score: float
    times: int
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Hint:
    """A phrase of the source, ``source[start:end]``, with its equivalents, best first.

    ``confidence``: the probability that the best one is an equivalent, None where the model does not tell.
    """

    phrase: str
    start: int
    end: int
    equivalents: tuple[Equivalent, ...]
    confidence: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        made = [each._asdict() | {"score": round(each.score, 4)} for each in self.equivalents]
        for each in made:
            each["places"] = [place._asdict() for place in each["places"]]
        return {"phrase": self.phrase, "start": self.start, "end": self.end, "equivalents": made} | (
            {} if self.confidence is None else {"confidence": round(self.confidence, 4)}
        )


class Found(NamedTuple):
    """A sentence's phrases as the segmenter has them, by start, and the hints that were chosen, by start.

    ``apart``: the phrases that share no word, of the best total (`LearnedSegmenter`), where they were asked for.
    """

    phrases: tuple[str, ...]
    hints: tuple[Hint, ...]
    apart: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Hints:
    """How hints are chosen.

    ``threshold``: the least score of a phrase (paper: 0.9, at which the bundled model finds eight in a sentence of news
    or parliament, at 0.7 twenty, many of which overlap; the n-gram segmenter knows none). ``segmenter``: "learned"
    or "ngram". ``overlapping``: whether phrases may share words. ``k`` equivalents a phrase at most: the best, and
    those whose support is at most ``close`` less; ``contexts`` places each, cut to ``width`` characters (paper: 100).
    ``confidence``: the least confidence of a phrase's best one, where the model tells it. ``floor``: the least cosine
    that the nearest phrase of an equivalent of a word has in its sentence, and ``per_word`` what each further word of
    the phrase adds to it, because with the words grow the cosines of wrong ones; None: .7 and 0 where the model tells
    its confidence, else .8 and .05 (docs/mt.md). ``quick``: no second look at what was found (`Searcher`). ``budget``:
    tokens that all hints of a sentence may take. ``least``: the least number of characters of a phrase.
    """

    threshold: float = 0.7
    segmenter: str = "learned"
    overlapping: bool = False
    k: int = 2
    contexts: int = 1
    width: int = 100
    floor: float | None = None
    per_word: float | None = None
    confidence: float = 0.9
    close: float = 0.08
    quick: bool = False
    budget: int = 400
    least: int = 2

    def __post_init__(self) -> None:
        if self.segmenter not in ("learned", "ngram"):
            raise InputError(f"segmenter {self.segmenter!r}; expected learned or ngram")
        if self.k < 1 or self.contexts < 0 or self.width < 20 or self.budget < 0:
            facts = ", ".join(f"{name} {value}" for name, value in asdict(self).items())
            raise InputError(f"{facts}; expected k of 1, width of 20 or more and nothing below 0")


class Hinter:
    """Retrieves and chooses hints, of many sentences at once; the index and its model stay open.

    ``apart``: look for the phrases that share no word, too, which takes another pass of the encoder. Raises InputError
    where the learned segmenter is wanted of a model that has none.
    """

    def __init__(self, index: Index, settings: Hints, searcher: Searcher | None = None, apart: bool = False) -> None:
        self.apart = apart
        self.settings, self.searcher = settings, searcher or Searcher(index, views=not settings.quick)
        self.model = self.searcher.model
        floor, per_word = FLOORS[self.searcher.calibrated is not None]
        self._floor = floor if settings.floor is None else settings.floor
        self._per_word = per_word if settings.per_word is None else settings.per_word
        if settings.segmenter == "learned" and self.model.learned is None:
            raise InputError(f"the model {self.model.name} has no learned segmenter; use the n-gram segmenter")

    def __call__(
        self,
        sentences: Sequence[str],
        cost: Callable[[Hint], int] = lambda hint: 0,
        without: Sequence[str] | None = None,
    ) -> list[Found]:
        """The phrases and hints of each sentence; ``cost`` is in tokens.

        ``without``: for each sentence a text of which nothing is to be found, such as its own translation.
        """
        spans = self.promising(sentences)
        parts = self.segment(sentences, overlapping=False) if self.apart else [[] for _ in sentences]
        chances = [[span for span, good in own if good] for own in spans]
        asked = [
            marked(text, span.start, span.end) for text, own in zip(sentences, chances, strict=True) for span in own
        ]
        banned = None
        if without is not None:
            banned = [text for text, own in zip(without, chances, strict=True) for _ in own]
        places = max(1, self.settings.contexts)
        results = iter(self.searcher.search_all(asked, self.settings.k, places, without=banned))
        answers = []
        for number, (text, own) in enumerate(zip(sentences, spans, strict=True)):
            hints = [hint for _ in chances[number] if (hint := self._hint(next(results))) is not None]
            free = hints if self.settings.overlapping else chosen(hints)
            kept = within(free, self.settings.budget, cost)
            names = _texts(text, [span for span, _ in own])
            answers.append(Found(names, kept, _texts(text, parts[number])))
        return answers

    def promising(self, sentences: Sequence[str]) -> list[list[tuple[Span, bool]]]:
        """The phrases of each sentence, by start, then end; and whether the nearest of the index may pass the floor.

        One pass of the encoder and one search tell it; only for the others is it worth to look hits up.
        """
        with self._segmenter():
            found = self.model.extract(list(sentences), threshold=self.settings.threshold)
        vectors = np.concatenate([np.zeros((0, self.model.dim), np.float32), *(each.vectors for each in found)])
        best = iter(self.searcher.index.search(vectors, NEAR).scores.max(1).tolist() if len(vectors) else [])
        answers = []
        for text, each in zip(sentences, found, strict=True):
            spans = [Span(*row) for row in zip(*(x.tolist() for x in each[:3]), strict=True)]
            scored = [(span, next(best) >= self.floor(text[span.start : span.end]) - SLACK) for span in spans]
            answers.append([(span, good) for span, good in scored if span.end - span.start >= self.settings.least])
        return answers

    def floor(self, phrase: str) -> float:
        """The least cosine of the nearest phrase of its equivalents."""
        return self._floor + self._per_word * (len(words(phrase)) - 1)

    def segment(self, sentences: Sequence[str], overlapping: bool = True) -> list[list[Span]]:
        """The phrases of each sentence, by start, then end; the n-gram segmenter has none that do not overlap."""
        settings = self.settings
        if settings.segmenter == "ngram" and not overlapping:
            return [[] for _ in sentences]
        with self._segmenter():
            found = self.model.segment(list(sentences), threshold=settings.threshold, overlapping=overlapping)
        return [[span for span in spans if span.end - span.start >= settings.least] for spans in found]

    @contextmanager
    def _segmenter(self) -> Iterator[None]:
        """The model with the segmenter that is wanted; afterwards with its own."""
        before = self.model.segmenter
        self.model.segmenter = self.model.learned if self.settings.segmenter == "learned" else self.model.ngram
        try:
            yield
        finally:
            self.model.segmenter = before

    def known(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[tuple[str, str], ...]]:
        """Phrases of each sentence with the equivalents that occur in its translation: the longest, sharing no word."""
        wide = replace(
            self.settings, overlapping=True, k=WIDE, contexts=0, floor=-1, per_word=0, confidence=0, close=9, budget=0
        )
        found = Hinter(self.searcher.index, wide, self.searcher)([source for source, _ in pairs])
        kept = []
        for (_, translation), each in zip(pairs, found, strict=True):
            right = [(hint, texts[0]) for hint in each.hints if (texts := _occurring(hint, translation))]
            texts_of = {(hint.start, hint.end): text for hint, text in right}
            free = chosen([hint for hint, _ in right])
            kept.append(tuple((hint.phrase, texts_of[hint.start, hint.end]) for hint in free))
        return kept

    def _hint(self, result: Result) -> Hint | None:
        """None where nothing is good enough, or the best one, which the confidence is about, is not."""
        settings, phrase, groups = self.settings, result.phrase, result.groups
        sure = None if result.confidence is None else result.confidence >= settings.confidence
        if not groups or sure is False:
            return None
        floor, least = self.floor(phrase.text), groups[0].weight - settings.close
        near = [group for group in groups if group.hits[0].score >= floor and group.weight >= least]
        if not near or (sure and settings.confidence and near[0] is not groups[0]):
            return None
        good = tuple(self._equivalent(group) for group in near[: settings.k])
        return Hint(phrase.text, phrase.start, phrase.end, good, result.confidence)

    def _equivalent(self, group: Group) -> Equivalent:
        places = tuple(map(self._place, group.hits[: self.settings.contexts]))
        return Equivalent(group.text, group.score, group.count, places)

    def _place(self, hit: Hit) -> Place:
        return Place(cut(hit.context, hit.start, hit.end, self.settings.width), hit.document, hit.line)


def _texts(text: str, spans: Sequence[Span]) -> tuple[str, ...]:
    return tuple(text[span.start : span.end] for span in spans)


def _occurring(hint: Hint, translation: str) -> list[str]:
    return [each.text for each in hint.equivalents if LETTER.search(each.text) and occurrences(each.text, translation)]


def chosen(hints: Sequence[Hint]) -> list[Hint]:
    """Hints whose phrases share no character: the longest first, of equal ones the better, then the earlier."""
    kept: list[Hint] = []
    taken = bytearray(max((hint.end for hint in hints), default=0))  # characters: a line may be a book
    for hint in sorted(hints, key=_longest_first):
        if not any(taken[hint.start : hint.end]):
            kept.append(hint)
            taken[hint.start : hint.end] = b"\1" * (hint.end - hint.start)
    return sorted(kept, key=lambda hint: hint.start)


def within(hints: Sequence[Hint], budget: int, cost: Callable[[Hint], int]) -> tuple[Hint, ...]:
    """The hints that fit into ``budget`` tokens, the longest phrases first; in the order of the sentence."""
    kept, spent = [], 0
    for hint in sorted(hints, key=_longest_first):
        if spent + (price := cost(hint)) <= budget:
            kept.append(hint)
            spent += price
    return tuple(sorted(kept, key=lambda hint: (hint.start, hint.end)))


def _longest_first(hint: Hint) -> tuple[float, ...]:
    return (hint.start - hint.end, -hint.equivalents[0].score, hint.start)


def cut(context: str, start: int, end: int, width: int) -> str:
    """``context`` cut to about ``width`` characters around ``context[start:end]``, which is marked as in a query.

    Cut at white space where there is some near; dots stand for what is left out. The phrase itself is never cut.
    """
    room = max(0, width - (end - start))
    low = max(0, start - max(room // 2, room - (len(context) - end)))
    high = min(len(context), end + room - (start - low))
    if low > 0 and (space := context.find(" ", low, start)) >= 0:
        low = space + 1
    if high < len(context) and (space := context.rfind(" ", end, high)) >= 0:
        high = space
    before = ("..." if low else "") + context[low:start]
    after = context[end:high] + ("..." if high < len(context) else "")
    query = marked(before + context[start:end] + after, len(before), len(before) + end - start)
    return " ".join(query.split())
