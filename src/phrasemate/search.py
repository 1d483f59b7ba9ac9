"""A marked sentence -> what means the same, grouped by wording, each group with its contexts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasemate.errors import InputError, QueryError
from phrasemate.index import Index
from phrasemate.types import Encoder, Hit, Phrase

__all__ = ["Group", "Query", "Result", "Searcher", "parse_query"]

FETCH = 100  # hits looked at first; more are fetched while they hold fewer wordings than were asked for
FETCH_MOST = 1_600
MARKS = re.compile(r"\\?(\[\[|\]\])")
EXPECTED = r"mark one phrase or several as [[phrase]]; write \[[ or \]] for literal brackets"


class Query(NamedTuple):
    """A query without its marks, and the spans that were marked."""

    text: str
    phrases: tuple[Phrase, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Hits of one wording (case-folded, white space trimmed and folded): one candidate translation.

    ``text`` is the best hit's wording and ``score`` its cosine; ``count`` is how many of the hits that were looked at
    have the wording; ``hits`` are the best of them, no two of the same sentence.
    """

    text: str
    score: float
    count: int
    hits: tuple[Hit, ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        hits = [_hit_as_dict(hit) for hit in self.hits]
        return {"text": self.text, "score": round(self.score, 4), "count": self.count, "hits": hits}


@dataclass(frozen=True, slots=True)
class Result:
    """The answer for one phrase of a query; ``groups`` by falling score."""

    query: str
    phrase: Phrase
    groups: tuple[Group, ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON; offsets count in the query without its marks."""
        groups = [group.as_dict() for group in self.groups]
        return {"phrase": self.phrase.text, "start": self.phrase.start, "end": self.phrase.end, "groups": groups}


class Searcher:
    """Answers queries from an index.

    ``model`` encodes the queries; by default it is the index's own, which is loaded with the first query.
    """

    def __init__(self, index: Index, model: Encoder | None = None) -> None:
        self.index, self._model = index, model

    @property
    def model(self) -> Any:
        """What encodes the queries."""
        return self._model or self.index.model

    def search(
        self,
        query: str,
        k: int = 10,
        contexts: int = 5,
        documents: Sequence[str] | None = None,
        languages: Sequence[str] | None = None,
    ) -> Result:
        """The answer for a query with exactly one marked phrase: ``Er sitzt auf der [[Bank]].``

        ``k`` groups at most, ``contexts`` hits in each; only from ``documents`` and ``languages`` where given.
        Raises QueryError when not exactly one phrase is marked (`search_all` answers the others), InputError for an
        unknown document or language or a senseless number.
        """
        found = len(parse_query(query).phrases)
        if found != 1:
            raise QueryError(f"{found} phrases are marked in {query!r}, expected one; {EXPECTED}, or use search_all")
        return self.search_all([query], k, contexts, documents, languages)[0]

    def search_all(
        self,
        queries: Iterable[str],
        k: int = 10,
        contexts: int = 5,
        documents: Sequence[str] | None = None,
        languages: Sequence[str] | None = None,
    ) -> list[Result]:
        """The answers for many queries at once, a result for each marked phrase, in order.

        A query without marks is answered for every phrase that the model's segmenter proposes in it. Arguments and
        errors as in `search`.
        """
        if k < 1 or contexts < 0:
            raise InputError(f"k {k} and contexts {contexts}: expected k of 1 or more and contexts of 0 or more")
        asked = [(query, phrase) for query in queries for phrase in self.phrases(query)]
        if not asked:
            return []
        vectors = self.model.encode([phrase for _, phrase in asked])
        groups = self._groups(vectors, k, contexts, documents, languages)
        return [Result(query, phrase, found) for (query, phrase), found in zip(asked, groups, strict=True)]

    def phrases(self, query: str) -> tuple[Phrase, ...]:
        """The marked phrases of a query, or those that the segmenter proposes where none is marked."""
        parsed = parse_query(query)
        if parsed.phrases or not parsed.text.strip():
            return parsed.phrases
        return tuple(Phrase(parsed.text, span.start, span.end) for span in self.model.segment([parsed.text])[0])

    def _groups(
        self,
        vectors: NDArray[np.float32],
        k: int,
        contexts: int,
        documents: Sequence[str] | None,
        languages: Sequence[str] | None,
    ) -> list[tuple[Group, ...]]:
        """Up to k groups for each vector: looks at more hits for those whose hits so far hold fewer wordings."""
        answers: list[tuple[Group, ...]] = [()] * len(vectors)
        pending, fetch = np.arange(len(vectors)), max(FETCH, 2 * k)
        while len(pending):
            with self.index.snapshot():  # or a phrase that is found may be deleted before it is looked up
                run = self.index.search(vectors[pending], fetch, documents, languages)
                full = run.ids >= 0
                hits = iter(self.index.hits(run.ids[full], run.scores[full]))
            for row, number in zip(pending.tolist(), full.sum(1).tolist(), strict=True):
                answers[row] = _group([next(hits) for _ in range(number)], k, contexts)
            short = np.array([len(answers[row]) < k for row in pending], bool)
            pending, fetch = pending[short & full.all(1)], fetch * 4
            if fetch > max(FETCH_MOST, 2 * k):
                break
        return answers


def parse_query(query: str) -> Query:
    r"""Take the ``[[ ]]`` marks out of a query; a backslash keeps brackets literal (``\[[``, ``\]]``).

    White space just inside the marks is not part of the phrase. Raises QueryError for marks that are unbalanced,
    nested or empty.
    """
    parts, phrases, opened, at, length = [], [], -1, 0, 0
    for match in MARKS.finditer(query):
        parts.append(query[at : match.start()])
        length, at = length + len(parts[-1]), match.end()
        if match[0].startswith("\\"):
            parts.append(match[1])
            length += 2
        elif match[1] == "[[":
            if opened >= 0:
                raise QueryError(f"a [[ inside [[ ]] in {query!r}; {EXPECTED}")
            opened = length
        elif opened < 0:
            raise QueryError(f"a ]] without its [[ in {query!r}; {EXPECTED}")
        else:
            phrases.append((opened, length))
            opened = -1
    if opened >= 0:
        raise QueryError(f"a [[ without its ]] in {query!r}; {EXPECTED}")
    text = "".join([*parts, query[at:]])
    return Query(text, tuple(_trimmed(text, start, end, query) for start, end in phrases))


def _trimmed(text: str, start: int, end: int, query: str) -> Phrase:
    phrase = text[start:end]
    if not any(character.isalnum() for character in phrase):
        raise QueryError(f"{phrase!r} in [[ ]] marks no letter or digit in {query!r}; {EXPECTED}")
    return Phrase(text, end - len(phrase.lstrip()), start + len(phrase.rstrip()))


def _group(hits: Sequence[Hit], k: int, contexts: int) -> tuple[Group, ...]:
    """Hits by falling score -> the k best wordings."""
    wordings: dict[str, list[Hit]] = {}
    for hit in hits:
        wordings.setdefault(" ".join(hit.text.casefold().split()), []).append(hit)
    groups = []
    for found in list(wordings.values())[:k]:
        different: dict[str, Hit] = {}
        for hit in found:  # the best hit of a sentence stays
            different.setdefault(hit.context, hit)
        best = tuple(different.values())[:contexts]
        groups.append(Group(found[0].text, found[0].score, len(found), best))
    return tuple(groups)


def _hit_as_dict(hit: Hit) -> dict[str, Any]:
    place = {"document": hit.document, "line": hit.line, "language": hit.language, "metadata": dict(hit.metadata)}
    return {"context": hit.context, "start": hit.start, "end": hit.end, "score": round(hit.score, 4), **place}
