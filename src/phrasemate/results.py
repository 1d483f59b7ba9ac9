"""Requests and results of a search: groups of hits with the same wording."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from phrasemate.errors import InputError
from phrasemate.index.types import Filters
from phrasemate.types import Hit, Phrase, check_fields

DOUBT = 0.2  # of answers with less confidence, 19 of 20 are wrong (results/log/benchmarks.md)


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """Limits and filters of a search, the same for all its phrases.

    Args:
        k: Maximum number of groups per answer.
        contexts: Maximum number of hits per group.
        documents: Names of the documents to search, or folders, or patterns with ``*``; None for all.
        languages: Languages of the documents to search; None for all.

    Raises InputError for k below 1, contexts below 0, numbers that are not whole, and a string instead of a list.

    >>> SearchRequest(k=3, languages=["en"]).filters
    Filters(documents=None, languages=('en',))
    """

    k: int = 10
    contexts: int = 5
    documents: Sequence[str] | None = None
    languages: Sequence[str] | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if self.k < 1 or self.contexts < 0:
            raise InputError(
                f"k {self.k} and contexts {self.contexts}; expected k of 1 or more and contexts of 0 or more"
            )
        filters = self.filters  # consumes iterators, once
        object.__setattr__(self, "documents", filters.documents)
        object.__setattr__(self, "languages", filters.languages)

    @property
    def filters(self) -> Filters:
        """The documents and languages as `Filters` of an index."""
        return Filters(self.documents, self.languages)


@dataclass(frozen=True, slots=True)
class Group:
    """A candidate translation: the hits of one wording, regardless of case and white space.

    ``text`` is the usual spelling of the wording (`usual_spelling`), or the infinitive of a separable verb whose finite
    form is the wording (`phrasemate.answers.whole_verb`). ``score`` is the cosine of the best hit.
    ``count`` is the number of examined hits with the wording. ``hits`` are the best of them, at most one per sentence.

    With views (`phrasemate.encode.scoring`) ``score`` is the highest cosine of q' and v'. ``support`` is the soft
    maximum of all votes, which rises with the number of hits; it is None without votes. Hits are sorted by the cosine
    in their sentences, which distinguishes senses. Groups are sorted by ``weight``.

    With a scorer (`phrasemate.candidates`) ``probability`` is the probability that the wording is an equivalent, and
    ``evidence`` holds its features. ``reasons`` are the contributions of the features to its log-odds, compared with
    the mean candidate (`phrasemate.encode.scoring.CandidateScorer.reasons`). ``count`` is then the frequency in
    the whole index of the wording and of its inflected forms that are candidates. ``source`` is the name of the
    dictionary that lists it, or "". ``language`` is that of the documents, or "".

    >>> group = Group("bench", score=0.81, count=2, hits=(), probability=0.97)
    >>> group.weight
    0.97
    """

    text: str
    score: float
    count: int
    hits: tuple[Hit, ...]
    support: float | None = None
    probability: float | None = None
    source: str = ""
    language: str = ""
    evidence: Mapping[str, float] = field(default_factory=dict, hash=False)
    reasons: Mapping[str, float] = field(default_factory=dict, hash=False)

    @property
    def weight(self) -> float:
        """The value that groups are sorted by: the probability, else the support, else the score."""
        return next(rank for rank in (self.probability, self.support, self.score) if rank is not None)

    def as_dict(self, explain: bool = False) -> dict[str, Any]:
        """Convert to a mapping for JSON; ``explain`` adds evidence and reasons."""
        hits = [_hit_as_dict(hit) for hit in self.hits]
        numbers: dict[str, Any] = {"score": round(self.score, 4), "support": round(self.weight, 4), "count": self.count}
        if self.probability is not None:
            numbers["probability"] = round(self.probability, 4)
        more: dict[str, Any] = {"source": self.source} if self.source else {}
        if explain:
            for name, values in (("reasons", self.reasons), ("evidence", self.evidence)):
                more[name] = {key: round(value, 4) for key, value in values.items()}
        return {"text": self.text, "language": self.language, **numbers, **more, "hits": hits}


@dataclass(frozen=True, slots=True)
class Result:
    """The answer for one phrase of a query; ``groups`` are sorted by weight, highest first.

    ``confidence`` is the probability that the first group is an equivalent of the phrase, 0 to 1. It is None if the
    model that encodes the queries is not calibrated (see `phrasemate.encode.scoring`).

    >>> import phrasemate as pm
    >>> story = pm.Document.from_texts("story", ["She sat on the bench."])
    >>> with pm.Index.create("result", pm.load_model()) as index:
    ...     _ = index.add([story], lang="en")
    ...     result = pm.Searcher(index).search("Er sitzt auf der [[Bank]].", k=1)
    >>> result.phrase.text, result.groups[0].text, result.doubtful
    ('Bank', 'bench', False)
    """

    query: str
    phrase: Phrase
    groups: tuple[Group, ...]
    confidence: float | None = None

    @property
    def doubtful(self) -> bool:
        """Whether there is probably no equivalent: there are groups, but the confidence is below `DOUBT`."""
        return bool(self.groups) and self.confidence is not None and self.confidence < DOUBT

    def as_dict(self, explain: bool = False) -> dict[str, Any]:
        """Convert to a mapping for JSON, with offsets in the query without marks; ``explain``: see `Group.as_dict`."""
        groups = [group.as_dict(explain) for group in self.groups]
        sure = None if self.confidence is None else round(self.confidence, 3)
        place = {"phrase": self.phrase.text, "start": self.phrase.start, "end": self.phrase.end}
        return {**place, "confidence": sure, "groups": groups}


Answer = tuple[tuple[Group, ...], float | None]  # groups and confidence, as in `Result`


class LazyMapping(Mapping[str, float]):
    """Numbers by name, computed at the first access. Pickled and copied as a dict.

    >>> LazyMapping(lambda: {"count": 2.0})["count"]
    2.0
    """

    def __init__(self, compute: Callable[[], dict[str, float]]) -> None:
        self._compute = compute

    @cached_property
    def _numbers(self) -> dict[str, float]:
        return self._compute()

    def __getitem__(self, name: str) -> float:
        return self._numbers[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    def __reduce__(self) -> tuple[type[dict[str, float]], tuple[dict[str, float]]]:
        return dict, (self._numbers,)

    def __repr__(self) -> str:
        return repr(self._numbers)


def usual_spelling(occurrences: Sequence[tuple[Phrase, float]]) -> str:
    """Return the text with the greatest sum of scores, among phrases with their scores.

    Scores are similarities to a query, so that "May" is written as the month if the query is one. Phrases count that do
    not begin their sentence and are not in a heading in capitals, unless all do.

    >>> usual_spelling([(Phrase("Rent rose.", 0, 4), 0.8), (Phrase("The rent fell.", 4, 8), 0.6)])
    'rent'
    """
    texts = {phrase.text for phrase, _ in occurrences}
    if len(texts) == 1:
        return texts.pop()
    inside = [
        (phrase, score)
        for phrase, score in occurrences
        if any(map(str.isalpha, phrase.context[: phrase.start])) and not phrase.context.isupper()
    ]
    totals: dict[str, float] = {}
    for phrase, score in inside or occurrences:
        totals[phrase.text] = totals.get(phrase.text, 0.0) + score
    return max(totals, key=totals.__getitem__)


def _hit_as_dict(hit: Hit) -> dict[str, Any]:
    place = {"document": hit.document, "line": hit.line, "language": hit.language, "metadata": dict(hit.metadata)}
    return {"context": hit.context, "start": hit.start, "end": hit.end, "score": round(hit.score, 4), **place}
