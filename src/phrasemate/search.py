"""A marked sentence -> what means the same, grouped by wording, each group with its contexts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasemate.encode.confidence import HITS, Confidence, features
from phrasemate.errors import InputError, QueryError
from phrasemate.index import Index
from phrasemate.types import Encoder, Hit, Phrase

__all__ = ["DOUBT", "Group", "Query", "Result", "Searcher", "parse_query"]

FETCH = HITS  # hits looked at first; more are fetched while they hold fewer wordings than were asked for
FETCH_MOST = 1_600
DOUBT = 0.2  # nineteen of twenty such answers are wrong (bench/confidence.py)
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
    """The answer for one phrase of a query; ``groups`` by falling score.

    ``confidence`` is the probability that the first group is an equivalent of the phrase, 0 to 1; None where the model
    that encodes the queries was not calibrated for it (see `phrasemate.encode.confidence`).
    """

    query: str
    phrase: Phrase
    groups: tuple[Group, ...]
    confidence: float | None = None

    @property
    def doubtful(self) -> bool:
        """Whether there is probably no equivalent: groups, but a confidence below `DOUBT`."""
        return bool(self.groups) and self.confidence is not None and self.confidence < DOUBT

    def as_dict(self) -> dict[str, Any]:
        """For JSON; offsets count in the query without its marks."""
        groups = [group.as_dict() for group in self.groups]
        sure = None if self.confidence is None else round(self.confidence, 3)
        place = {"phrase": self.phrase.text, "start": self.phrase.start, "end": self.phrase.end}
        return {**place, "confidence": sure, "groups": groups}


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
        _check(k, contexts)
        asked = [(query, phrase) for query in queries for phrase in self.phrases(query)]
        if not asked:
            return []
        vectors = self.model.encode([phrase for _, phrase in asked])
        found = self._groups(vectors, k, contexts, documents, languages)
        return [Result(query, phrase, *each) for (query, phrase), each in zip(asked, found, strict=True)]

    def search_vectors(
        self,
        vectors: NDArray[np.float32],
        k: int = 10,
        contexts: int = 5,
        documents: Sequence[str] | None = None,
        languages: Sequence[str] | None = None,
    ) -> list[tuple[tuple[Group, ...], float | None]]:
        """Groups and confidence, as in `Result`, of each vector, (n, dim) of unit length, however it was made.

        Arguments and errors as in `search`.
        """
        _check(k, contexts)
        return self._groups(vectors, k, contexts, documents, languages)

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
    ) -> list[tuple[tuple[Group, ...], float | None]]:
        """Up to k groups for each vector, and how sure the first is.

        Looks at more hits for those whose hits so far hold fewer wordings.
        """
        answers: list[tuple[Group, ...]] = [()] * len(vectors)
        sure: list[float | None] = [None] * len(vectors)
        first = max(FETCH, 2 * k)
        pending, fetch = np.arange(len(vectors)), first
        while len(pending):
            with self.index.snapshot():  # or a phrase that is found may be deleted before it is looked up
                run = self.index.search(vectors[pending], fetch, documents, languages)
                full = run.ids >= 0
                hits = iter(self.index.hits(run.ids[full], run.scores[full]))
            for row, number in zip(pending.tolist(), full.sum(1).tolist(), strict=True):
                found = [next(hits) for _ in range(number)]
                answers[row] = _groups_of(_wordings(found)[:k], contexts)
                if fetch == first:
                    sure[row] = self._confidence(_wordings(found[:HITS]))
            short = np.array([len(answers[row]) < k for row in pending], bool)
            pending, fetch = pending[short & full.all(1)], fetch * 4
            if fetch > max(FETCH_MOST, 2 * k):
                break
        return list(zip(answers, sure, strict=True))

    def _confidence(self, wordings: Sequence[Sequence[Hit]]) -> float | None:
        calibrated: Confidence | None = getattr(self.model, "confidence", None)
        if calibrated is None or not wordings:
            return None if calibrated is None else 0.0
        return float(calibrated.of([features([hit.score for hit in hits] for hits in wordings)])[0])


def _check(k: int, contexts: int) -> None:
    if k < 1 or contexts < 0:
        raise InputError(f"k {k} and contexts {contexts}: expected k of 1 or more and contexts of 0 or more")


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


def _wordings(hits: Sequence[Hit]) -> list[list[Hit]]:
    """Hits by falling score -> those of each wording together, the best wording first."""
    wordings: dict[str, list[Hit]] = {}
    for hit in hits:
        wordings.setdefault(" ".join(hit.text.casefold().split()), []).append(hit)
    return list(wordings.values())


def _groups_of(wordings: Sequence[Sequence[Hit]], contexts: int) -> tuple[Group, ...]:
    groups = []
    for found in wordings:
        different: dict[str, Hit] = {}
        for hit in found:  # the best hit of a sentence stays
            different.setdefault(hit.context, hit)
        best = tuple(different.values())[:contexts]
        groups.append(Group(found[0].text, found[0].score, len(found), best))
    return tuple(groups)


def _hit_as_dict(hit: Hit) -> dict[str, Any]:
    place = {"document": hit.document, "line": hit.line, "language": hit.language, "metadata": dict(hit.metadata)}
    return {"context": hit.context, "start": hit.start, "end": hit.end, "score": round(hit.score, 4), **place}
