"""Search by vectors alone: the nearest phrases of the index vote for their wordings.

A vote is a hit with its score. The hits of a wording form a group, and groups are sorted by the score of their best
hit. With views (`phrasemate.encode.scoring`) hits are rescored with a share of the phrase alone, and groups are sorted
by the soft maximum of their votes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np

from phrasemate.encode.scoring import HITS, VOTES, Confidence, Views, features
from phrasemate.index import BaseIndex
from phrasemate.results import Answer, Group, SearchRequest, usual_spelling
from phrasemate.text import folded
from phrasemate.text.sentences import is_of
from phrasemate.types import Hit
from phrasemate.utils.arrays import Flags, Floats

FETCH = HITS  # hits fetched first; then four times as many, while they have fewer distinct wordings than requested
FETCH_MOST = 1_600  # hits of a query, at most

Vote = tuple[Hit, float]


@dataclass(frozen=True, slots=True)
class VoteSearch:
    """Search of an index by vectors.

    Args:
        index: Index to search.
        model: Encoder of the queries. Its ``confidence``, if it has one, turns votes into probabilities.
        views: Settings of the rescoring and of the votes; None for neither.
    """

    index: BaseIndex
    model: Any
    views: Views | None

    @property
    def calibration(self) -> Confidence | None:
        """Calibration from scores to probabilities; None if the model has none for these views."""
        confidence: Confidence | None = getattr(self.model, "confidence", None)
        if confidence is None or self.views in (None, VOTES):
            return confidence
        return confidence.with_views if self.views == Views() else None

    def answers(
        self, vectors: Floats, search_vectors: Floats, request: SearchRequest, without: Sequence[str] = ()
    ) -> list[Answer]:
        """Return up to k groups for each query, and the probability that the first is an equivalent.

        More hits are fetched for a query whose hits have fewer than k distinct wordings. With views, only hits with new
        wordings are then rescored.

        Args:
            vectors: Vectors q of the queries, (queries, dim) of unit length.
            search_vectors: Their q' (`phrasemate.encode.scoring`), by which phrases are searched, (queries, dim).
            request: Limits and filters, the same for all queries.
            without: A text to exclude for each query, see `phrasemate.text.sentences.is_of`.
        """
        k, views = request.k, self.views
        votes_of: list[list[Vote]] = [[] for _ in vectors]
        probabilities: list[float | None] = [None] * len(vectors)
        fetch = first = max(views.first if views else FETCH, 2 * k)
        pending = np.arange(len(vectors))
        while len(pending):
            rows = pending.tolist()
            texts = [without[row] if without else "" for row in rows]
            former = [votes_of[row] if views else [] for row in rows]
            votes, more = self._votes(vectors[pending], search_vectors[pending], fetch, request, texts, former)
            for row, former_votes, new in zip(rows, former, votes, strict=True):
                votes_of[row] = [*former_votes, *new]
            if fetch == first:
                most = views.first if views else HITS
                probabilities = [self._probability(_wordings(row_votes[:most], views)) for row_votes in votes_of]
            fetch *= 4
            if fetch > max(FETCH_MOST, 2 * k):
                break
            is_short = np.array([len(_wordings(votes_of[row], None)) < k for row in rows], bool)
            pending = pending[is_short & more]
        groups = [
            tuple(_group(wording, request.contexts, views) for wording in _wordings(row_votes, views)[:k])
            for row_votes in votes_of
        ]
        return list(zip(groups, probabilities, strict=True))

    def _votes(
        self,
        vectors: Floats,
        search_vectors: Floats,
        fetch: int,
        request: SearchRequest,
        without: Sequence[str],
        former: Sequence[Sequence[Vote]],
    ) -> tuple[list[list[Vote]], Flags]:
        """Turn ``fetch`` hits of each query into votes; also return whether there may be more hits, (queries,).

        With views, only hits of wordings that the ``former`` votes lack are returned.
        """
        views = self.views
        with self.index.snapshot():  # otherwise a phrase may be deleted before its vector is read
            hits, more = self._hits(search_vectors, fetch, request, without)
            if views:
                rows = zip(former, hits, strict=True)
                hits = [_hits_of_new_wordings(row_votes, row_hits, request.k) for row_votes, row_hits in rows]
            flat = list(chain.from_iterable(hits))
            stored_vectors = self.index.vectors([hit.phrase_id for hit in flat]) if views and views.mixed else None
        votes: list[Vote] = [(hit, hit.score) for hit in flat]
        if views and stored_vectors is not None:
            owners = np.repeat(np.arange(len(hits)), [len(row_hits) for row_hits in hits])
            mixtures = views.hits(self.model, [hit.phrase for hit in flat], stored_vectors)
            cosines = np.einsum("nd,nd->n", stored_vectors, vectors[owners]).tolist()
            scores: list[float] = np.einsum("nd,nd->n", mixtures, search_vectors[owners]).tolist()
            pairs = zip(flat, cosines, scores, strict=True)
            votes = [(replace(hit, score=cosine), score) for hit, cosine, score in pairs]
        remaining = iter(votes)
        return [list(islice(remaining, len(row_hits))) for row_hits in hits], more

    def _hits(
        self, vectors: Floats, fetch: int, request: SearchRequest, without: Sequence[str]
    ) -> tuple[list[list[Hit]], Flags]:
        """Fetch up to ``fetch`` hits for each vector; also return whether there may be more, (vectors,).

        Hits in the text ``without`` of a query are excluded, and further ones are fetched instead.
        """
        hits: list[list[Hit]] = [[] for _ in vectors]
        more = np.zeros(len(vectors), np.bool_)
        pending, wide = np.arange(len(vectors)), fetch
        while len(pending) and wide <= 4 * max(FETCH_MOST, fetch):
            run = self.index.nearest(vectors[pending], wide, request.filters)
            is_hit = run.ids >= 0
            remaining = iter(self.index.hits(run.ids[is_hit], run.scores[is_hit]))
            more[pending] = is_hit.all(1)
            for row, number in zip(pending.tolist(), is_hit.sum(1).tolist(), strict=True):
                hits_allowed = _exclude(list(islice(remaining, number)), without[row])
                hits[row], more[row] = hits_allowed[:fetch], more[row] or len(hits_allowed) > fetch
            is_short = np.array([len(hits[row]) < fetch for row in pending], np.bool_)  # as hits were excluded
            pending, wide = pending[is_short & more[pending]], wide * 4
        return hits, more

    def _probability(self, wordings: Sequence[_Wording]) -> float | None:
        """Compute the probability that the first wording is an equivalent; None without a calibration."""
        calibration = self.calibration
        if calibration is None or not wordings:
            return None if calibration is None else 0.0
        return float(calibration.of([features([wording.votes for wording in wordings])])[0])


class _Wording(NamedTuple):
    """The hits of one wording and their votes, each list sorted by score, highest first."""

    hits: list[Hit]
    votes: list[float]


def _wordings(votes_by_hit: Sequence[Vote], views: Views | None) -> list[_Wording]:
    """Group votes by wording, best wording first."""
    wordings: dict[str, _Wording] = {}
    for hit, vote in votes_by_hit:
        hits, votes = wordings.setdefault(folded(hit.text), _Wording([], []))
        hits.append(hit)
        votes.append(vote)
    if views is None:  # the votes are already sorted by score
        return list(wordings.values())
    for hits, votes in wordings.values():
        hits.sort(key=lambda hit: (-hit.score, hit.phrase_id))
        votes.sort(reverse=True)
    return sorted(wordings.values(), key=lambda wording: views.support(wording.votes), reverse=True)


def _exclude(hits: list[Hit], without: str) -> list[Hit]:
    """Exclude the hits whose sentence belongs to the text ``without``."""
    if not without.strip():
        return hits
    is_same = is_of(without)
    return [hit for hit in hits if not is_same(hit.context)]


def _hits_of_new_wordings(votes: Sequence[Vote], hits: Sequence[Hit], k: int) -> list[Hit]:
    """Select the hits of new wordings, up to a total of k wordings; all hits if there are no votes yet."""
    former_names = {folded(hit.text) for hit, _ in votes}
    if not former_names:
        return list(hits)
    names = [name for name in dict.fromkeys(folded(hit.text) for hit in hits) if name not in former_names][
        : k - len(former_names)
    ]
    return [hit for hit in hits if folded(hit.text) in names]


def _group(wording: _Wording, contexts: int, views: Views | None) -> Group:
    """Make the group of a wording, with its best hits from up to ``contexts`` different sentences."""
    hit_of: dict[str, Hit] = {}
    for hit in wording.hits:  # keeps the best hit of each sentence
        hit_of.setdefault(hit.context, hit)
    best = tuple(hit_of.values())[:contexts]
    support = None if views is None else views.support(wording.votes)
    text = usual_spelling([(hit.phrase, hit.score) for hit in wording.hits])
    return Group(text, wording.votes[0], len(wording.hits), best, support, language=wording.hits[0].language)
