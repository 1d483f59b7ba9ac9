"""Choose example sentences reproducibly, from different documents and places, without near-duplicates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import chain, islice, zip_longest
from math import ceil, gcd
from random import Random
from typing import Any, NamedTuple, Protocol, TypeVar

from phrasemate.examples.matching import Matcher, tokens
from phrasemate.index.types import IdRange
from phrasemate.text import folded
from phrasemate.types import Phrase

WHOLE = 2_048  # number of candidates up to which all are listed; of more, a stratified sample comes first
STRATA, EACH = 64, 8  # the sample: number of equal parts of the collection, and candidates from each part
CHUNK = 128  # candidates that are fetched together, and in which documents alternate
BUDGET = 20_000  # candidates after which the search ends, if it has found an example
GOLDEN = 0.618034  # the golden ratio minus 1
NEAR = 0.75  # Jaccard similarity of tokens from which two sentences are near-duplicates
T = TypeVar("T")


class Row(NamedTuple):
    """Sentence of a source, with its document, line (0: unknown) and language."""

    text: str
    document: str
    line: int
    language: str = ""


@dataclass(frozen=True, slots=True)
class Example:
    """Phrase in an example sentence, with the document, line (0: unknown) and language of the sentence.

    >>> Example(Phrase("She sat on the bench.", 15, 20), "story.txt", 7).as_dict()["start"]
    15
    """

    phrase: Phrase
    document: str
    line: int
    language: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return a dictionary for JSON; ``start`` and ``end`` are offsets of characters in ``text``."""
        place = {"document": self.document, "line": self.line, "language": self.language}
        return {"text": self.phrase.context, "start": self.phrase.start, "end": self.phrase.end, **place}


class Source(Protocol):
    """Interface of a collection of sentences with ids in which candidates for a phrase are looked up."""

    def snapshot(self) -> AbstractContextManager[object]:
        """Return a context in which all calls see the same state of the source."""

    def size(self) -> int:
        """Return a number above all ids."""

    def count(self) -> int:
        """Return the number of sentences."""

    def candidates(self, phrase: str, ids: IdRange) -> list[int]:
        """Return the ids in a range of all sentences that may contain the phrase, ascending, up to the limit."""

    def likely(self, phrase: str, ids: IdRange) -> list[int]:
        """Return candidates with a higher precision than `candidates`, which may lack some sentences."""

    def rows(self, ids: Sequence[int]) -> list[Row]:
        """Return the sentences of these ids; a source may leave out some."""

    def close(self) -> None:
        """Close the source."""


def sample(source: Source, phrase: str, limit: int, extra: int, seed: int) -> list[Example]:
    """Choose up to ``limit`` sentences that are at least ``extra`` characters longer than the phrase in them.

    The first occurrence of the phrase is marked. No text comes twice, and near-duplicates come last. The examples
    for a limit n are the first n of those for any larger limit.
    """
    matcher, choice = Matcher(phrase), _Choice()
    near_duplicates: list[Example] = []
    for row in _rows(source, phrase, seed, lambda: bool(choice.examples)):
        span = next(matcher.spans(row.text), None)
        if span is None or len(row.text) < span[1] - span[0] + extra or not choice.is_new(row.text):
            continue
        candidate = Example(Phrase(row.text, *span), row.document, row.line, row.language)
        if not choice.take(candidate) and len(near_duplicates) < limit:
            near_duplicates.append(candidate)
        if len(choice.examples) == limit:
            break
    return (choice.examples + near_duplicates)[:limit]


class _Choice:
    """Set of chosen examples that rejects near-duplicates."""

    def __init__(self) -> None:
        self.examples: list[Example] = []
        self._tokens: dict[str, list[frozenset[str]]] = {}  # token sets of the examples, by their prefix tokens
        self._texts: set[str] = set()

    def is_new(self, text: str) -> bool:
        """Return whether a text differs from all earlier ones in more than case and white space."""
        key = folded(text)
        new = key not in self._texts
        self._texts.add(key)
        return new

    def take(self, candidate: Example) -> bool:
        """Add an example unless it is a near-duplicate of another one; return whether it was added.

        Near-duplicates share most of their tokens; numbers are ignored.
        """
        candidate_tokens = frozenset(token for token in tokens(candidate.phrase.context) if not token.isdecimal())
        prefix = _prefix(candidate_tokens)
        for neighbour in chain.from_iterable(self._tokens.get(token, ()) for token in prefix):
            common = len(candidate_tokens & neighbour)
            if common >= NEAR * (len(candidate_tokens) + len(neighbour) - common):
                return False
        self.examples.append(candidate)
        for token in prefix:
            self._tokens.setdefault(token, []).append(candidate_tokens)
        return True


def _prefix(sentence_tokens: frozenset[str]) -> list[str]:
    """Select tokens by prefix filtering: two sentences with a Jaccard similarity of `NEAR` or more share one.

    They are the first tokens of the sentence in a fixed order of all tokens, longest first, because long tokens are
    rare. If the first common token came after them in a sentence, too few tokens would follow for this similarity.
    """
    count = len(sentence_tokens) - ceil(NEAR * len(sentence_tokens)) + 1
    return sorted(sentence_tokens, key=lambda token: (-len(token), token))[:count]


def _rows(source: Source, phrase: str, seed: int, has_example: Callable[[], bool]) -> Iterator[Row]:
    """Yield the candidate sentences in the order in which they are tried, up to `BUDGET` once there is an example."""
    candidate_count = 0
    key = f"{seed} {phrase}".encode("utf-8", "surrogatepass")
    for ids in _chunks(source, phrase, Random(key)):
        yield from _in_turn(source.rows(ids))
        candidate_count += len(ids)
        if candidate_count >= BUDGET and has_example():
            return


def _chunks(source: Source, phrase: str, draw: Random) -> Iterator[list[int]]:
    """Yield the ids of all candidates, in the order in which they are tried."""
    size = source.size()
    row_ids = source.candidates(phrase, IdRange(0, size, WHOLE + 1))
    if len(row_ids) <= WHOLE:
        yield from _batched(_scattered(row_ids, draw))
        return
    spread = _spread(source, phrase, size, draw)
    yield from _batched(spread)
    visits = set(spread)
    yield from _batched(identity for identity in _scattered(row_ids, draw) if identity not in visits)
    visits.update(row_ids)
    first = max(row_ids) + 1
    while ids := source.candidates(phrase, IdRange(first, size, CHUNK)):
        first = ids[-1] + 1
        yield [identity for identity in ids if identity not in visits]


def _scattered(ids: Sequence[int], draw: Random) -> Iterator[int]:
    """Reorder ids so that the first n are spread evenly over all, for each n, by steps of the golden ratio."""
    count = len(ids)
    step = max(1, round(count * GOLDEN))
    while gcd(step, count) > 1:
        step += 1
    start = draw.randrange(max(count, 1))
    return (ids[(start + step * rank) % count] for rank in range(count))


def _spread(source: Source, phrase: str, size: int, draw: Random) -> list[int]:
    """Return a few candidates from each of `STRATA` parts of the collection, taking turns between the parts."""
    parts = []
    for at in range(STRATA):
        low, high = size * at // STRATA, size * (at + 1) // STRATA
        if low < high:
            start = draw.randrange(low, high)
            ids = source.likely(phrase, IdRange(start, high, EACH))
            if len(ids) < EACH:
                ids += source.likely(phrase, IdRange(low, start, EACH - len(ids)))
            parts.append(ids)
    draw.shuffle(parts)
    return list(_turns(parts))


def _in_turn(rows: Iterable[Row]) -> Iterator[Row]:
    """Interleave the sentences of documents: the first of each document, then the second of each, and so on."""
    documents: dict[str, list[Row]] = {}
    for row in rows:
        documents.setdefault(row.document, []).append(row)
    return _turns(documents.values())


def _turns(groups: Iterable[Sequence[T]]) -> Iterator[T]:
    """Yield the first item of each group, then the second of each, and so on."""
    for turn in zip_longest(*groups):
        yield from (item for item in turn if item is not None)


def _batched(ids: Iterable[int]) -> Iterator[list[int]]:
    """Yield ids in lists of up to `CHUNK`."""
    stream = iter(ids)
    while chunk := list(islice(stream, CHUNK)):
        yield chunk
