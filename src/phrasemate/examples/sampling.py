"""Choice among many sentences: different documents, different places, no near repetitions; the same each time."""

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

WHOLE = 2_048  # candidates up to which all are listed; of more, some from everywhere come first
STRATA, EACH = 64, 8  # from so many equal parts of the collection so many
CHUNK = 128  # candidates that are fetched together; within them documents take turns
BUDGET = 20_000  # candidates looked at for one phrase, once an example is found
GOLDEN = 0.618034
NEAR = 0.75  # share of common tokens from which two sentences say the same twice
T = TypeVar("T")


class Row(NamedTuple):
    """Sentence of a source, with its document, line and language."""

    text: str
    document: str
    line: int
    language: str = ""


@dataclass(frozen=True, slots=True)
class Example:
    """A phrase in a sentence, and where the sentence is from (``line`` 0: unknown).

    >>> Example(Phrase("She sat on the bench.", 15, 20), "story.txt", 7).as_dict()["start"]
    15
    """

    phrase: Phrase
    document: str
    line: int
    language: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Mapping for JSON; start and end are characters of the text."""
        place = {"document": self.document, "line": self.line, "language": self.language}
        return {"text": self.phrase.context, "start": self.phrase.start, "end": self.phrase.end, **place}


class Source(Protocol):
    """Sentences under ascending ids, looked up by a phrase."""

    def snapshot(self) -> AbstractContextManager[object]:
        """Freeze the source for everything read inside."""

    def size(self) -> int:
        """Upper bound of all ids."""

    def count(self) -> int:
        """Number of sentences."""

    def candidates(self, phrase: str, ids: IdRange) -> list[int]:
        """Those ids whose sentence may hold the phrase, ascending."""

    def likely(self, phrase: str, ids: IdRange) -> list[int]:
        """High-precision candidates, tried first where there are many."""

    def rows(self, ids: Sequence[int]) -> list[Row]:
        """The sentences of these ids; some may be left out."""

    def close(self) -> None: ...


def sample(source: Source, phrase: str, limit: int, extra: int, seed: int) -> list[Example]:
    """Up to ``limit`` sentences that are ``extra`` characters longer than the phrase in them.

    Each is marked where the phrase stands first. No text comes twice. Near repetitions come last, if there is nothing
    else. The first n of a larger limit are those of limit n.
    """
    matcher, choice = Matcher(phrase), _Choice()
    spare: list[Example] = []
    for row in _rows(source, phrase, seed, lambda: bool(choice.found)):
        span = next(matcher.spans(row.text), None)
        if span is None or len(row.text) < span[1] - span[0] + extra or not choice.is_new(row.text):
            continue
        candidate = Example(Phrase(row.text, *span), row.document, row.line, row.language)
        if not choice.take(candidate) and len(spare) < limit:
            spare.append(candidate)
        if len(choice.found) == limit:
            break
    return (choice.found + spare)[:limit]


class _Choice:
    """Sentences taken so far; tells whether another one is different enough."""

    def __init__(self) -> None:
        self.found: list[Example] = []
        self._tokens: dict[str, list[frozenset[str]]] = {}  # of the sentences taken, by some of their tokens
        self._texts: set[str] = set()

    def is_new(self, text: str) -> bool:
        """Whether the text differs from all before by more than case and white space."""
        key = folded(text)
        new = key not in self._texts
        self._texts.add(key)
        return new

    def take(self, candidate: Example) -> bool:
        """Keep a sentence unless it nearly repeats one: numbers aside, they share most of their tokens."""
        candidate_tokens = frozenset(token for token in tokens(candidate.phrase.context) if not token.isdecimal())
        few = _telling(candidate_tokens)
        for neighbour in chain.from_iterable(self._tokens.get(token, ()) for token in few):
            common = len(candidate_tokens & neighbour)
            if common >= NEAR * (len(candidate_tokens) + len(neighbour) - common):
                return False
        self.found.append(candidate)
        for token in few:
            self._tokens.setdefault(token, []).append(candidate_tokens)
        return True


def _telling(sentence_tokens: frozenset[str]) -> list[str]:
    """Prefix filter: enough tokens that any two sentences with a Jaccard similarity of `NEAR` or more share one.

    They are the first ones in one order of all tokens; the longest are the rarest. If the first that is shared were
    beyond them in one of the two, too few tokens would be left there to be shared.
    """
    count = len(sentence_tokens) - ceil(NEAR * len(sentence_tokens)) + 1
    return sorted(sentence_tokens, key=lambda token: (-len(token), token))[:count]


def _rows(source: Source, phrase: str, seed: int, has_some: Callable[[], bool]) -> Iterator[Row]:
    look_count = 0
    key = f"{seed} {phrase}".encode("utf-8", "surrogatepass")
    for ids in _chunks(source, phrase, Random(key)):
        yield from _in_turn(source.rows(ids))
        look_count += len(ids)
        if look_count >= BUDGET and has_some():
            return


def _chunks(source: Source, phrase: str, draw: Random) -> Iterator[list[int]]:
    """Ids of all candidates in the order in which they are looked at."""
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
    """Reorder ids so that the first n are spread evenly over all, for each n: steps of the golden section."""
    count = len(ids)
    step = max(1, round(count * GOLDEN))
    while gcd(step, count) > 1:
        step += 1
    start = draw.randrange(max(count, 1))
    return (ids[(start + step * rank) % count] for rank in range(count))


def _spread(source: Source, phrase: str, size: int, draw: Random) -> list[int]:
    """A few candidates from each of many parts of the collection: first one of each part, then the next of each."""
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
    """Interleave the documents: the first of each, then the next of each, in their order."""
    documents: dict[str, list[Row]] = {}
    for row in rows:
        documents.setdefault(row.document, []).append(row)
    return _turns(documents.values())


def _turns(groups: Iterable[Sequence[T]]) -> Iterator[T]:
    """The first of each group, then the next of each."""
    for turn in zip_longest(*groups):
        yield from (item for item in turn if item is not None)


def _batched(ids: Iterable[int]) -> Iterator[list[int]]:
    stream = iter(ids)
    while chunk := list(islice(stream, CHUNK)):
        yield chunk
