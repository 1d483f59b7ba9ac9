"""A sentence and where its words stand: what aligners take."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple, Protocol

from phrasemate.align.links import Links
from phrasemate.text import words

_TOKEN = re.compile(r"[^ \t]+")  # a no-break space is part of a token, for all programs that write links


class Worded(NamedTuple):
    """A sentence and the character spans of its words, in order; links count these words from 0."""

    text: str
    spans: list[tuple[int, int]]

    @classmethod
    def of(cls, text: str, tokenised: bool = False) -> Worded:
        """Words as spaces and tabs part them in tokenised text, else as `phrasemate.text.words` finds them."""
        return cls(text, [match.span() for match in _TOKEN.finditer(text)] if tokenised else words(text))

    @classmethod
    def of_tokens(cls, tokens: Sequence[str]) -> Worded:
        """A sentence given as its tokens, joined with spaces."""
        starts = list(accumulate((len(token) + 1 for token in tokens), initial=0))[:-1]
        return cls(" ".join(tokens), [(start, start + len(token)) for start, token in zip(starts, tokens, strict=True)])

    def words(self) -> list[str]:
        """The words themselves."""
        return [self.text[start:end] for start, end in self.spans]


class Aligner(Protocol):
    """Sentence pairs -> word links; ``chunk`` is how many pairs it likes to get at once.

    ``learn`` is given pairs that are aligned already when a stopped run goes on: ``chunk`` of them at most.
    """

    chunk: int

    @property
    def signature(self) -> dict[str, str]:
        """What decides about the links: method and its settings, model."""
        ...

    def align(self, pairs: Sequence[tuple[Worded, Worded]]) -> list[Links]: ...

    def learn(self, aligned: Iterable[tuple[Worded, Worded, Links]]) -> None: ...
