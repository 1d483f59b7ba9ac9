"""A text as it is read: its sentences, the phrases that a model finds in them, and the one that is asked about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from phrasemate.encode.segmenter import disjoint
from phrasemate.errors import InputError, QueryError
from phrasemate.text import split_sentences, words
from phrasemate.types import Phrase, Span

ALONE = 4  # words: a text this short is itself the phrase


class Piece(NamedTuple):
    """A stretch of a text, between phrases or one of them; offsets are characters of the whole text."""

    text: str
    start: int
    end: int
    phrase: bool


@dataclass(frozen=True, slots=True)
class Reading:
    """A text with its phrases: ``spans`` are all that were found, ``shown`` those to underline, which share no word."""

    text: str
    spans: tuple[Span, ...]
    shown: tuple[Span, ...]

    def pieces(self, chosen: tuple[int, int] | None = None) -> list[Piece]:
        """The whole text in pieces; ``chosen`` takes the place of the phrases that it overlaps."""
        shown = [span[:2] for span in self.shown]
        if chosen is not None:
            shown = sorted([span for span in shown if not _overlap(span, chosen)] + [chosen])
        pieces, at = [], 0
        for start, end in shown:
            pieces += [Piece(self.text[at:start], at, start, False), Piece(self.text[start:end], start, end, True)]
            at = end
        pieces.append(Piece(self.text[at:], at, len(self.text), False))
        return [piece for piece in pieces if piece.text]

    def others(self, start: int, end: int) -> list[Span]:
        """The phrases that overlap a stretch, longer, shorter or crossing, without itself, in their order."""
        found = [s for s in self.spans if _overlap(s[:2], (start, end)) and s[:2] != (start, end)]
        return sorted(found, key=lambda span: (span.start, span.end))


def read(text: str, model: Any) -> Reading:
    """Segment each sentence of a text by ``model``; none is encoded twice. A text of up to four words is a phrase."""
    sentences = split_sentences(text)
    found = model.segment([text[start:end] for start, end in sentences]) if sentences else []
    spans: list[Span] = []
    shown: list[Span] = []
    for (first, last), own in zip(sentences, found, strict=True):
        spans += [_moved(span, first) for span in own]
        shown += [_moved(span, first) for span in _disjoint(text[first:last], own)]
    held = words(text)
    if 0 < len(held) <= ALONE:
        whole = Span(held[0][0], held[-1][1])
        spans, shown = [whole, *(span for span in spans if span[:2] != whole[:2])], [whole]
    return Reading(text, tuple(spans), tuple(shown))


def in_sentence(text: str, start: int, end: int) -> Phrase:
    """``text[start:end]``, trimmed of white space, in its sentence, or in those that it reaches over.

    Raises QueryError if it holds no letter or digit, InputError if it is outside the text.
    """
    if not 0 <= start < end <= len(text):
        raise InputError(f"the phrase {start}-{end} is outside of the text, which has {len(text)} characters")
    asked = text[start:end]
    if not any(map(str.isalnum, asked)):
        raise QueryError(f"{asked[:40]!r} has no letter or digit; choose a word or several")
    start, end = end - len(asked.lstrip()), start + len(asked.rstrip())
    touched = [span for span in split_sentences(text) if _overlap(span, (start, end))]
    first = min([start, *(span[0] for span in touched)])
    last = max([end, *(span[1] for span in touched)])
    return Phrase(text[first:last], start - first, end - first)


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _moved(span: Span, by: int) -> Span:
    return Span(span.start + by, span.end + by, span.score)


def _disjoint(sentence: str, spans: Sequence[Span]) -> Iterable[Span]:
    """Of spans at word boundaries those that share no word and belong together best (as ``overlapping=False``)."""
    held = words(sentence)
    first_at, last_at = ({word[side]: n for n, word in enumerate(held)} for side in (0, 1))
    usable = [span for span in spans if span.start in first_at and span.end in last_at]
    if not usable:
        return []
    first, last = np.array([(first_at[span.start], last_at[span.end]) for span in usable], np.int64).T
    scores = np.array([span.score for span in usable], np.float32)
    low = float(scores.min()) if scores.min() < scores.max() else 0.0  # about the threshold of the segmenter
    return [usable[number] for number in disjoint(first, last, scores, low)]
