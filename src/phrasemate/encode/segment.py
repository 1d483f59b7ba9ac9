"""Which spans of a sentence are phrases: the protocol, and the n-gram segmenter.

The n-gram segmenter takes every run of 1 to n words that neither begins nor ends in one of the most frequent words,
has a letter, and is not cut by punctuation. The frequent words are counted in the text that is indexed; for a text
about which nothing is known they come from the scores of the encoder's own tokenizer, which is a language model of
single words in all of its languages.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from phrasemate.errors import InputError
from phrasemate.text import words
from phrasemate.types import Span

__all__ = ["FrequentWords", "NgramSegmenter", "Segmenter", "common_pieces"]

MAX_WORDS = 5  # longer phrases are rare in use, and the index grows with every word
RATE = 0.004  # a word that is one in 250 is a function word: some 50 words of English
ENOUGH = 1_000  # words below which a rate says nothing
COMMON_WORD = -9.6  # log-probability above which a whole-word piece is a function word ("eine" -9.4, "time" -10.0)
COMMON_BARE = -9.0  # the same for pieces inside unspaced scripts ("の" -7.8, "在" -8.1, "一" -8.6)
UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]+")
JOINT = re.compile(r"[\s\u00a0]*[-‐‑–'’/&+·]?[\s\u00a0]*")  # what may stand between two words of a phrase
LETTER = re.compile(r"[^\W\d_]")


class Segmenter(Protocol):
    """Finds the phrases of a text; ``frequent`` are case-folded words at which none may begin or end."""

    def __call__(self, text: str, frequent: Collection[str] = ()) -> list[Span]: ...


class FrequentWords:
    """Counts words of a running text, to tell the most frequent ones."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def update(self, text: str) -> None:
        """Count the words of a text, case-folded."""
        self.counts.update(text[start:end].casefold() for start, end in words(text))

    def words(self, rate: float = RATE, most: int = 100) -> list[str]:
        """The words that make up at least ``rate`` of the text, most frequent first, ``most`` at most.

        None below 1,000 words of text: a rate says nothing there.
        """
        total = self.counts.total()
        if total < ENOUGH:
            return []
        return [word for word, count in self.counts.most_common(most) if count >= rate * total]


class NgramSegmenter:
    """Every run of 1 to ``max_words`` words, less what cannot be a phrase; the score is always 1.

    ``common``: case-folded words that are frequent in any language (see `common_pieces`).
    """

    def __init__(self, common: Collection[str] = (), max_words: int = MAX_WORDS) -> None:
        if max_words < 1:
            raise InputError(f"max_words: {max_words}; expected 1 or more")
        self.common, self.max_words = frozenset(common), max_words

    def __call__(self, text: str, frequent: Collection[str] = ()) -> list[Span]:
        found = words(text)
        content = [self._is_content(text[start:end], frequent) for start, end in found]
        letters = [LETTER.search(text, start, end) is not None for start, end in found]
        spans = []
        for i, (start, _) in enumerate(found):
            if not content[i]:
                continue
            lettered = False
            for j in range(i, min(i + self.max_words, len(found))):
                if j > i and not JOINT.fullmatch(text, found[j - 1][1], found[j][0]):
                    break
                lettered = lettered or letters[j]
                if content[j] and lettered:
                    spans.append(Span(start, found[j][1]))
        return spans

    def _is_content(self, word: str, frequent: Collection[str]) -> bool:
        folded = word.casefold()
        return folded not in frequent and folded not in self.common


def common_pieces(vocabulary: Mapping[str, float] | Sequence[tuple[str, float]]) -> set[str]:
    """Case-folded words that a Unigram tokenizer finds frequent, whatever the language.

    ``vocabulary``: pieces and their log-probabilities; a piece that begins a word begins with "▁".
    """
    pairs = vocabulary.items() if isinstance(vocabulary, Mapping) else vocabulary
    found = set()
    for piece, score in pairs:
        if score >= 0:  # special tokens
            continue
        word = piece.removeprefix("▁")
        whole = word != piece and score > COMMON_WORD
        if whole or (score > COMMON_BARE and UNSPACED.fullmatch(word)):
            found.add(word.casefold())
    return found
