"""A marked sentence -> what means the same, grouped by wording, each group with its contexts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, chain, islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasemate import candidates as proposals
from phrasemate.encode.calibration import HITS, Confidence, features
from phrasemate.encode.candidate_scorer import FEATURES, CandidateScorer
from phrasemate.encode.pooling import unit
from phrasemate.encode.rescoring import VOTES, Views, alone
from phrasemate.errors import InputError, QueryError
from phrasemate.index import Index
from phrasemate.lexicon import Lexicon, bundled_lexicon
from phrasemate.query import EXPECTED, parse_query
from phrasemate.text import folded, split_sentences
from phrasemate.text.normalize import composed, plain
from phrasemate.types import Encoder, Hit, Phrase

_END = re.compile("[.!?…。！？｡؟۔।॥։።។။།]+[\"'”’»)\\]」』]*")  # of a sentence
FETCH = HITS  # hits looked at first; more are fetched while they hold fewer wordings than were asked for
FETCH_MOST = 1_600
DOUBT = 0.2  # nineteen of twenty such answers are wrong (bench/confidence.py)

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Group:
    """Hits of one wording (case-folded, white space trimmed and folded): one candidate translation.

    ``text`` is the best hit's wording and ``score`` its cosine. ``count`` is how many of the hits that were looked at
    have the wording. ``hits`` are the best of them, no two of the same sentence.

    With views (`phrasemate.encode.rescoring`) ``score`` is the highest cosine of q' and v', and ``support`` the soft
    maximum of all, which several hits raise; hits keep the cosine in their sentences, which tells senses apart, and
    come by it. Groups come by ``weight``; of one that hits did not vote for, ``support`` is None.

    Where candidates are proposed and chosen (`phrasemate.candidates`), ``probability`` says how likely the wording is
    an equivalent, and ``evidence`` holds the features that it was computed from. ``score`` is the best hit's cosine
    then, and ``count`` how often the wording occurs in the whole index. ``source`` names the dictionary that gives it.
    """

    text: str
    score: float
    count: int
    hits: tuple[Hit, ...]
    support: float | None = None
    probability: float | None = None
    source: str = ""
    evidence: Mapping[str, float] = field(default_factory=dict)

    @property
    def weight(self) -> float:
        """What groups are ordered by: the probability, else the support, else the score."""
        ranks = (self.probability, self.support, self.score)
        return next(rank for rank in ranks if rank is not None)

    def as_dict(self, explain: bool = False) -> dict[str, Any]:
        """For JSON; with ``explain`` the evidence, too."""
        hits = [_hit_as_dict(hit) for hit in self.hits]
        numbers: dict[str, Any] = {"score": round(self.score, 4), "support": round(self.weight, 4), "count": self.count}
        if self.probability is not None:
            numbers["probability"] = round(self.probability, 4)
        more: dict[str, Any] = {"source": self.source} if self.source else {}
        if explain:
            more["evidence"] = {name: round(value, 4) for name, value in self.evidence.items()}
        return {"text": self.text, **numbers, **more, "hits": hits}


@dataclass(frozen=True, slots=True)
class Result:
    """The answer for one phrase of a query; ``groups`` by falling support.

    ``confidence`` is the probability that the first group is an equivalent of the phrase, 0 to 1; None where the model
    that encodes the queries was not calibrated for it (see `phrasemate.encode.calibration`).
    """

    query: str
    phrase: Phrase
    groups: tuple[Group, ...]
    confidence: float | None = None

    @property
    def doubtful(self) -> bool:
        """Whether there is probably no equivalent: groups, but a confidence below `DOUBT`."""
        return bool(self.groups) and self.confidence is not None and self.confidence < DOUBT

    def as_dict(self, explain: bool = False) -> dict[str, Any]:
        """For JSON; offsets count in the query without its marks. ``explain``: with the evidence of each group."""
        groups = [group.as_dict(explain) for group in self.groups]
        sure = None if self.confidence is None else round(self.confidence, 3)
        place = {"phrase": self.phrase.text, "start": self.phrase.start, "end": self.phrase.end}
        return {**place, "confidence": sure, "groups": groups}


class Searcher:
    """Answers queries from an index.

    ``model`` encodes the queries; by default it is the index's own, which is loaded with the first query.

    ``views``: True proposes candidates by vector and by dictionary and lets the model's scorer choose
    (`phrasemate.candidates`); where the model has no scorer, it looks at hits again (`phrasemate.encode.rescoring`).
    False compares phrases in their sentences only, and lets hits vote. For models without a trained head neither is
    done.

    ``lexicons``: dictionaries that propose candidates, see `phrasemate.lexicon.open_dictionaries`; the induced lexicon
    that comes with phrasemate is asked too, unless ``lexicon`` is False.
    """

    def __init__(
        self,
        index: Index,
        model: Encoder | None = None,
        views: Views | bool = True,
        lexicons: Sequence[Lexicon] = (),
        lexicon: bool = True,
    ) -> None:
        self.index, self._model, self._views = index, model, views
        self._own_lexicons, self._with_bundled = tuple(lexicons), lexicon

    @property
    def lexicons(self) -> tuple[Lexicon, ...]:
        """What proposes candidates by wording: the user's dictionaries, then the induced lexicon."""
        bundled = bundled_lexicon() if self._with_bundled else None
        return self._own_lexicons if bundled is None else (*self._own_lexicons, bundled)

    @property
    def scorer(self) -> CandidateScorer | None:
        """What chooses among candidates; None where the search goes by vectors alone."""
        scorer: CandidateScorer | None = getattr(self.model, "scorer", None)
        return scorer if self._views is True and scorer is not None and self.index.has_wordings else None

    @property
    def model(self) -> Any:
        """What encodes the queries."""
        return self._model or self.index.model

    @property
    def views(self) -> Views | None:
        """How hits are looked at again and vote; None where they do not."""
        if isinstance(self._views, Views):
            return self._views
        if getattr(self.model, "pooling", None) != "head":
            return None
        return Views() if self._views else VOTES

    @property
    def encodes_alone(self) -> bool:
        """Whether `search_vectors` wants vectors of the phrases without their sentences."""
        views = self.views
        return self.scorer is not None or (views is not None and views.mixed)

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
        count = len(parse_query(query).phrases)
        if count != 1:
            raise QueryError(f"{count} phrases are marked in {query!r}, expected one; {EXPECTED}, or use search_all")
        return self.search_all([query], k, contexts, documents, languages)[0]

    def search_all(
        self,
        queries: Iterable[str],
        k: int = 10,
        contexts: int = 5,
        documents: Sequence[str] | None = None,
        languages: Sequence[str] | None = None,
        without: Sequence[str] | None = None,
    ) -> list[Result]:
        """The answers for many queries at once, a result for each marked phrase, in order.

        A query without marks is answered for every phrase that the model's segmenter proposes in it. ``without``: for
        each query a text, such as its own translation, of which nothing is to be found, as if the index had neither
        its sentences nor a longer one that holds it (`is_of`). Arguments and errors as in `search`; InputError for
        another number of such texts than of queries.
        """
        _check(k, contexts)
        queries = list(queries)
        texts = [""] * len(queries) if without is None else without
        if len(texts) != len(queries):
            raise InputError(f"{len(texts)} texts to be left out of {len(queries)} queries; expected one for each")
        marked = [
            (query, phrase, text) for query, text in zip(queries, texts, strict=True) for phrase in self.phrases(query)
        ]
        if not marked:
            return []
        phrases, views = [phrase for _, phrase, _ in marked], self.views
        banned = [text for _, _, text in marked]
        if self.scorer is not None:
            both = self.model.encode([*phrases, *map(alone, phrases)])
            vectors, bare = both[: len(phrases)], both[len(phrases) :]
            texts = [phrase.text for phrase in phrases]
            answers = self._choose(texts, vectors, bare, k, contexts, documents, languages, banned)
        else:
            vectors, mixed = (views or VOTES).queries(self.model, phrases)
            answers = self._groups(vectors, mixed, views, k, contexts, documents, languages, banned)
        return [Result(query, phrase, *answer) for (query, phrase, _), answer in zip(marked, answers, strict=True)]

    def search_vectors(
        self,
        vectors: Floats,
        k: int = 10,
        contexts: int = 5,
        documents: Sequence[str] | None = None,
        languages: Sequence[str] | None = None,
        alone: Floats | None = None,
        texts: Sequence[str] | None = None,
    ) -> list[tuple[tuple[Group, ...], float | None]]:
        """Groups and confidence, as in `Result`, of each vector, (n, dim) of unit length, however it was made.

        ``alone``: vectors (n, dim) of the same phrases without their sentences; ``texts`` (n): their wordings. Without
        them no candidates are proposed by dictionaries, and hits are compared as they stand in their sentences.
        Arguments and errors as in `search`.
        """
        _check(k, contexts)
        if self.scorer is not None and alone is not None and texts is not None:
            return self._choose(texts, vectors, alone, k, contexts, documents, languages)
        views, mixed = self.views, vectors
        if views is not None and alone is not None:
            mixed = unit(vectors + views.query * alone)
        elif views is not None:
            views = views.votes
        return self._groups(vectors, mixed, views, k, contexts, documents, languages)

    def phrases(self, query: str) -> tuple[Phrase, ...]:
        """The marked phrases of a query, or those that the segmenter proposes where none is marked."""
        parsed = parse_query(query)
        if parsed.phrases or not parsed.text.strip():
            return parsed.phrases
        return tuple(Phrase(parsed.text, span.start, span.end) for span in self.model.segment([parsed.text])[0])

    def _choose(
        self,
        texts: Sequence[str],
        vectors: Floats,
        bare: Floats,
        k: int,
        contexts: int,
        documents: Sequence[str] | None,
        languages: Sequence[str] | None,
        without: Sequence[str] = (),
    ) -> list[tuple[tuple[Group, ...], float | None]]:
        """Up to k groups for each phrase: candidates proposed by every means, the likeliest first."""
        scorer = self.scorer
        assert scorer is not None
        with self.index.snapshot():
            described = self.candidates(texts, vectors, bare, documents, languages, without, 4 * k)
            return [self._ranked(query, scorer, k, contexts) for query in described]

    def candidates(
        self,
        texts: Sequence[str],
        vectors: Floats,
        bare: Floats,
        documents: Sequence[str] | None = None,
        languages: Sequence[str] | None = None,
        without: Sequence[str] = (),
        near: int = 0,
    ) -> list[proposals.Described]:
        """The candidates of each phrase and their features, in no order; arguments as in `search_vectors`.

        ``without`` as in `search_all`. ``near``: occurrences near the vectors to propose from, if more than usual.
        """
        with self.index.wordings() as search:
            spoken = self.index.languages() if languages is None else list(languages)
            run = self.index.search(vectors, max(proposals.NEAR, near), documents, languages)
            gathered, translated = [], []
            for number, text in enumerate(texts):
                translated.append(proposals.parts(text, self.lexicons, spoken))
                listed = proposals.equivalents(search.table, text, self.lexicons, spoken)
                nearest = run.ids[number][run.ids[number] >= 0].tolist()
                composed = proposals.compositions(search.table, translated[-1])
                proposed = proposals.gather(search.table, text, nearest, listed, composed)
                if documents is not None or languages is not None:
                    chosen = partial(self.index.in_documents, documents=documents, languages=languages)
                    proposed = proposals.restrict(proposed, chosen)
                if without and without[number].strip():
                    proposed = proposals.restrict(proposed, partial(self._outside, known=is_of(without[number])))
                gathered.append(proposed)
            language = spoken[0] if spoken else ""
            return proposals.describe(search, texts, gathered, vectors, bare, language, translated)

    def _outside(self, ids: NDArray[np.int64], known: Callable[[str], bool]) -> NDArray[np.bool_]:
        """(ids,) whether the sentence of each phrase is not one of a text (`is_of`)."""
        hits = {hit.phrase_id: hit for hit in self.index.hits(ids, np.zeros(len(ids)))}
        return np.array([not known(hits[phrase].context) for phrase in ids.tolist()], np.bool_)

    def _ranked(
        self, described: proposals.Described, scorer: CandidateScorer, k: int, contexts: int
    ) -> tuple[tuple[Group, ...], float | None]:
        """The k likeliest candidates as groups, and the probability of the first."""
        if not described.candidates:
            return (), 0.0
        probabilities = scorer.probabilities(described.features)
        chosen = np.argsort(-probabilities, kind="stable")[:k].tolist()
        groups = []
        for number in chosen:
            candidate = described.candidates[number]
            hits = self._different(candidate, max(contexts, 1))
            groups.append(
                Group(
                    hits[0].text,
                    float(candidate.cosines[0]),
                    candidate.count,
                    tuple(hits[:contexts]),
                    probability=float(probabilities[number]),
                    source=candidate.source,
                    evidence=dict(zip(FEATURES, described.features[number].tolist(), strict=True)),
                )
            )
        return tuple(groups), groups[0].probability

    def _different(self, candidate: proposals.Candidate, count: int) -> list[Hit]:
        """The nearest occurrences of a candidate, no two of the same sentence."""
        different: dict[str, Hit] = {}
        for start in range(0, len(candidate.ids), count):
            part = slice(start, start + count)
            for hit in self.index.hits(candidate.ids[part], candidate.cosines[part]):
                different.setdefault(hit.context, hit)
            if len(different) >= count:
                break
        return list(different.values())[:count]

    def _groups(
        self,
        vectors: Floats,
        asked: Floats,
        views: Views | None,
        k: int,
        contexts: int,
        documents: Sequence[str] | None,
        languages: Sequence[str] | None,
        without: Sequence[str] = (),
    ) -> list[tuple[tuple[Group, ...], float | None]]:
        """Up to k groups for each vector q, searched by its q' (``asked``), and how sure the first is.

        Looks at more hits for those whose hits so far hold fewer wordings, with views only at those of wordings that
        are new.
        """
        found: list[list[tuple[Hit, float]]] = [[] for _ in vectors]
        sure: list[float | None] = [None] * len(vectors)
        first = max(views.first if views else FETCH, 2 * k)
        pending, fetch = np.arange(len(vectors)), first
        while len(pending):
            with self.index.snapshot():  # or a phrase that is found may be deleted before it is looked up
                banned = [without[row] if without else "" for row in pending.tolist()]
                hits, more = self._hits(asked[pending], fetch, documents, languages, banned)
                if views:
                    hits = [_new(found[row], own, k) for row, own in zip(pending, hits, strict=True)]
                if views and views.mixed:
                    stored = self.index.vectors([hit.phrase_id for own in hits for hit in own])
            flat, owners = [*chain.from_iterable(hits)], np.repeat(pending, [len(own) for own in hits])
            if views and views.mixed:
                voted = iter(self._seen_again(flat, stored, vectors[owners], asked[owners], views))
            else:
                voted = iter([(hit, hit.score) for hit in flat])
            for row, own in zip(pending.tolist(), hits, strict=True):
                found[row] = [*(found[row] if views else []), *islice(voted, len(own))]
            if fetch == first:
                most = views.first if views else HITS
                sure = [self._confidence(_wordings(each[:most], views), views) for each in found]
            short = np.array([len(_wordings(found[row], None)) < k for row in pending], bool)
            pending, fetch = pending[short & more], fetch * 4
            if fetch > max(FETCH_MOST, 2 * k):
                break
        groups = (tuple(_group(own, contexts, views) for own in _wordings(each, views)[:k]) for each in found)
        return list(zip(groups, sure, strict=True))

    def _hits(
        self,
        asked: Floats,
        fetch: int,
        documents: Sequence[str] | None,
        languages: Sequence[str] | None,
        without: Sequence[str],
    ) -> tuple[list[list[Hit]], NDArray[np.bool_]]:
        """Up to ``fetch`` hits for each vector, as if the index had nothing of its text in ``without``; and whether
        there may be more of them.
        """
        hits: list[list[Hit]] = [[] for _ in asked]
        more = np.zeros(len(asked), np.bool_)
        pending, wide = np.arange(len(asked)), fetch
        while len(pending) and wide <= 4 * max(FETCH_MOST, fetch):
            run = self.index.search(asked[pending], wide, documents, languages)
            full = run.ids >= 0
            left = iter(self.index.hits(run.ids[full], run.scores[full]))
            more[pending] = full.all(1)
            for row, number in zip(pending.tolist(), full.sum(1).tolist(), strict=True):
                allowed = _allowed(list(islice(left, number)), without[row])
                hits[row], more[row] = allowed[:fetch], more[row] or len(allowed) > fetch
            lacking = np.array([len(hits[row]) < fetch for row in pending], np.bool_)  # of a full list: left out
            pending, wide = pending[lacking & more[pending]], wide * 4
        return hits, more

    def _seen_again(
        self, hits: Sequence[Hit], stored: Floats, vectors: Floats, asked: Floats, views: Views
    ) -> list[tuple[Hit, float]]:
        """The hits with their cosines in their sentences, and with those by which they vote.

        ``stored``: v, ``vectors``: q, ``asked``: q' of each hit, (hits, dim).
        """
        mixed = views.hits(self.model, [hit.phrase for hit in hits], stored)
        near = np.einsum("nd,nd->n", stored, vectors).tolist()
        votes: list[float] = np.einsum("nd,nd->n", mixed, asked).tolist()
        return [(replace(hit, score=score), vote) for hit, score, vote in zip(hits, near, votes, strict=True)]

    @property
    def calibrated(self) -> Confidence | None:
        """What tells how sure answers are; None where the model was not calibrated for searches with these views."""
        return self._calibrated(self.views)

    def _calibrated(self, views: Views | None) -> Confidence | None:
        found: Confidence | None = getattr(self.model, "confidence", None)
        if found is None or views in (None, VOTES):
            return found
        return found.with_views if views == Views() else None

    def _confidence(self, wordings: Sequence[_Wording], views: Views | None) -> float | None:
        calibrated = self._calibrated(views)
        if calibrated is None or not wordings:
            return None if calibrated is None else 0.0
        return float(calibrated.of([features([each.votes for each in wordings])])[0])


def is_of(text: str) -> Callable[[str], bool]:
    """Tells of a sentence whether it is one or more sentences of the text that follow one another, or holds all of it.

    Case, white space and Unicode's form aside. A sentence may begin and end wherever the text has a mark that ends one,
    whatever abbreviations a language has: others may have split it otherwise.
    """
    whole = _squeezed(text)
    ends = {0, len(whole), *(found.end() for found in _END.finditer(whole))}
    ends |= set(accumulate(len(_squeezed(text[start:end])) for start, end in split_sentences(text)))

    def told(sentence: str) -> bool:
        own = _squeezed(sentence)
        if not own or not whole:
            return False
        at = whole.find(own)
        while at >= 0:
            if at in ends and at + len(own) in ends:
                return True
            at = whole.find(own, at + 1)
        return whole in own

    return told


def _squeezed(text: str) -> str:
    return "".join(composed(plain(text)).casefold().split())


def _check(k: int, contexts: int) -> None:
    if k < 1 or contexts < 0:
        raise InputError(f"k {k} and contexts {contexts}: expected k of 1 or more and contexts of 0 or more")


class _Wording(NamedTuple):
    """The hits of one wording, and what each is worth; both by falling score."""

    hits: list[Hit]
    votes: list[float]


def _wordings(found: Sequence[tuple[Hit, float]], views: Views | None) -> list[_Wording]:
    """Hits and their votes -> those of each wording together, the best wording first."""
    wordings: dict[str, _Wording] = {}
    for hit, vote in found:
        hits, votes = wordings.setdefault(folded(hit.text), _Wording([], []))
        hits.append(hit)
        votes.append(vote)
    if views is None:  # they came by falling score
        return list(wordings.values())
    for hits, votes in wordings.values():
        hits.sort(key=lambda hit: (-hit.score, hit.phrase_id))  # or what the first look rounded would order equal ones
        votes.sort(reverse=True)
    return sorted(wordings.values(), key=lambda each: views.support(each.votes), reverse=True)


def _allowed(hits: list[Hit], without: str) -> list[Hit]:
    if not without.strip():
        return hits
    known = is_of(without)
    return [hit for hit in hits if not known(hit.context)]


def _new(found: Sequence[tuple[Hit, float]], hits: Sequence[Hit], k: int) -> list[Hit]:
    """Of the hits, those of wordings that are not found yet, of as many wordings as lack to k; at first all."""
    had = {folded(hit.text) for hit, _ in found}
    if not had:
        return list(hits)
    lacking = [name for name in dict.fromkeys(folded(hit.text) for hit in hits) if name not in had][: k - len(had)]
    return [hit for hit in hits if folded(hit.text) in lacking]


def _group(found: _Wording, contexts: int, views: Views | None) -> Group:
    different: dict[str, Hit] = {}
    for hit in found.hits:  # the best hit of a sentence stays
        different.setdefault(hit.context, hit)
    best = tuple(different.values())[:contexts]
    support = None if views is None else views.support(found.votes)
    return Group(found.hits[0].text, found.votes[0], len(found.hits), best, support)


def _hit_as_dict(hit: Hit) -> dict[str, Any]:
    place = {"document": hit.document, "line": hit.line, "language": hit.language, "metadata": dict(hit.metadata)}
    return {"context": hit.context, "start": hit.start, "end": hit.end, "score": round(hit.score, 4), **place}
