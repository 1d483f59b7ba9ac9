"""Hits and answers that are written down, not searched for."""

from __future__ import annotations

import re
from collections.abc import Sequence

from phrasemate.results import Group, Result
from phrasemate.types import Hit, Phrase, Span


def hit(marked: str, score: float = 0.5, document: str = "a.txt", line: int = 1, language: str = "en") -> Hit:
    """``hit("He sat on the [[bench]] all day.")``."""
    before, match, after = re.split(r"\[\[|\]\]", marked)
    phrase = Phrase(before + match + after, len(before), len(before) + len(match))
    return Hit(phrase, score, document, line, language, phrase_id=line)


def group(*hits: Hit, count: int | None = None) -> Group:
    return Group(hits[0].text, hits[0].score, len(hits) if count is None else count, hits, language=hits[0].language)


def result(*groups: Group, confidence: float | None = None) -> Result:
    return Result("[[Bank]]", Phrase("Bank", 0, 4), groups, confidence)


class WordModel:
    """Proposes every word with a capital, and every pair of words that begins with one; counts what it reads."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def segment(self, texts: Sequence[str]) -> list[list[Span]]:
        self.texts += texts
        return [
            sorted(Span(*m.span(1), 0.9) for m in re.finditer(r"\b([A-Z]\w*)", text)) + self._pairs(text)
            for text in texts
        ]

    def _pairs(self, text: str) -> list[Span]:
        return [Span(m.start(), m.end(), 0.6) for m in re.finditer(r"\b[A-Z]\w* \w+", text)]
