"""Find what means the same as a marked phrase, grouped by wording, each group with its sentences."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from itertools import accumulate, chain, islice
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasemate import candidates as proposals
from phrasemate.encode.pooling import unit
from phrasemate.encode.scoring import FEATURES, HITS, VOTES, CandidateScorer, Confidence, Views, alone, features
from phrasemate.errors import InputError, QueryError
from phrasemate.index import BaseIndex
from phrasemate.index.types import Filters
from phrasemate.lexicon import InducedLexicon, Lexicon, bundled_lexicon
from phrasemate.query import EXPECTED, parse_query
from phrasemate.text import folded, split_sentences
from phrasemate.text.languages import primary, speaks
from phrasemate.text.normalize import composed, plain
from phrasemate.types import Encoder, Hit, Phrase, check_list, check_opened, name_tuple
from phrasemate.utils.arrays import Floats
from phrasemate.utils.machine import single_blas

_END = re.compile("[.!?…。！？｡؟۔।॥։።។။།]+[\"'”’»)\\]」』]*")  # of a sentence
FETCH = HITS  # hits looked at first; more are fetched while they hold fewer wordings than were asked for
FETCH_MOST = 1_600
DOUBT = 0.2  # nineteen of twenty such answers are wrong (results/log/benchmarks.md)

_READ = 1_000  # characters of a sentence from which its language is guessed


@dataclass(frozen=True, slots=True)
class Group:
    """Hits of one wording (case-folded, white space trimmed and folded): one candidate translation.

    ``text`` is the best hit's wording, as most hits spell it, and ``score`` its cosine. ``count`` is how many of the
    hits that were looked at have the wording. ``hits`` are the best of them, no two of the same sentence.

    With views (`phrasemate.encode.scoring`) ``score`` is the highest cosine of q' and v', and ``support`` the soft
    maximum of all, which several hits raise. Hits keep the cosine in their sentences, which tells senses apart, and are
    ordered by it. Groups come by ``weight``; of one that hits did not vote for, ``support`` is None.

    Where candidates are proposed and chosen (`phrasemate.candidates`), ``probability`` says how likely the wording is
    an equivalent, and ``evidence`` holds the features that it was computed from. ``reasons`` tells what they add to
    its log-odds, beside the other candidates (`phrasemate.encode.scoring.CandidateScorer.reasons`). ``score`` is the
    best hit's cosine then, and ``count`` how often the wording and its inflected forms occur in the whole index.
    ``source`` names the dictionary that gives it.

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
    evidence: Mapping[str, float] = field(default_factory=dict)
    reasons: Mapping[str, float] = field(default_factory=dict)

    @property
    def weight(self) -> float:
        """The value that orders groups: the probability, else the support, else the score."""
        return next(rank for rank in (self.probability, self.support, self.score) if rank is not None)

    def as_dict(self, explain: bool = False) -> dict[str, Any]:
        """Mapping for JSON; with ``explain`` the evidence and the reasons, too."""
        hits = [_hit_as_dict(hit) for hit in self.hits]
        numbers: dict[str, Any] = {"score": round(self.score, 4), "support": round(self.weight, 4), "count": self.count}
        if self.probability is not None:
            numbers["probability"] = round(self.probability, 4)
        more: dict[str, Any] = {"source": self.source} if self.source else {}
        if explain:
            for name, values in (("reasons", self.reasons), ("evidence", self.evidence)):
                more[name] = {key: round(value, 4) for key, value in values.items()}
        return {"text": self.text, **numbers, **more, "hits": hits}


@dataclass(frozen=True, slots=True)
class Result:
    """The answer for one phrase of a query; ``groups`` by support, highest first.

    ``confidence`` is the probability that the first group is an equivalent of the phrase, 0 to 1. It is None where the
    model that encodes the queries was not calibrated for it (see `phrasemate.encode.scoring`).

    >>> import phrasemate as pm
    >>> story = pm.Document.from_texts("story", ["She sat on the bench."])
    >>> with pm.Index.create("result", pm.load_model()) as index:
    ...     _ = index.add([story], lang="en")
    ...     result = Searcher(index).search("Er sitzt auf der [[Bank]].", k=1)
    >>> result.phrase.text, result.groups[0].text, result.doubtful
    ('Bank', 'bench', False)
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
        """Mapping for JSON; offsets count in the query without its marks. ``explain``: with the evidence of groups."""
        groups = [group.as_dict(explain) for group in self.groups]
        sure = None if self.confidence is None else round(self.confidence, 3)
        place = {"phrase": self.phrase.text, "start": self.phrase.start, "end": self.phrase.end}
        return {**place, "confidence": sure, "groups": groups}


class LazyMapping(Mapping[str, float]):
    """Numbers by name, computed when one is first read. Pickled and copied as a dict.

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


def _item(compute: Callable[[], Sequence[dict[str, float]]], place: int) -> dict[str, float]:
    return compute()[place]


def _by_name(features: Floats) -> dict[str, float]:
    """Features by their names, `FEATURES`."""
    return dict(zip(FEATURES, features.tolist(), strict=True))


Answer = tuple[tuple[Group, ...], float | None]  # groups and confidence, as in `Result`


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """Filters and limits of a search, the same for each of its phrases.

    Args:
        k: Groups of an answer, at most.
        contexts: Hits of a group, at most.
        documents: Names of the documents to search, or folders, or patterns with ``*``; None for all.
        languages: Languages of the documents to search; None for all.

    Raises InputError for a k below 1, for contexts below 0 and for one text where a list of them is meant.

    >>> SearchRequest(k=3, languages=["en"]).filters
    Filters(documents=None, languages=('en',))
    """

    k: int = 10
    contexts: int = 5
    documents: Sequence[str] | None = None
    languages: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if not (isinstance(self.k, Integral) and isinstance(self.contexts, Integral) and self.k > 0 <= self.contexts):
            raise InputError(
                f"k {self.k!r} and contexts {self.contexts!r}: expected k of 1 or more and contexts of 0 or more"
            )
        object.__setattr__(self, "documents", name_tuple(self.documents, "documents"))
        object.__setattr__(self, "languages", name_tuple(self.languages, "languages"))

    @property
    def filters(self) -> Filters:
        """Documents and languages, as an index takes them."""
        return Filters(self.documents, self.languages)


class Searcher:
    """Answers queries from an index.

    ``model`` encodes the queries; by default it is the index's own, which is loaded with the first query.

    ``views``: True proposes candidates by vector and by dictionary and lets the model's scorer choose
    (`phrasemate.candidates`); where the model has no scorer, it looks at hits again (`phrasemate.encode.scoring`).
    False compares phrases in their sentences only, and lets hits vote. For models without a trained head neither is
    done.

    ``lexicons``: dictionaries that propose candidates, see `phrasemate.lexicon.open_dictionaries`; those that the index
    keeps are asked too, and the induced lexicon that comes with phrasemate, unless ``lexicon`` is False.

    >>> import phrasemate
    >>> story = phrasemate.Document.from_texts("story", ["She sat on the bench in the park."])
    >>> with phrasemate.Index.create("idx", phrasemate.load_model()) as index:
    ...     _ = index.add([story], lang="en")
    ...     Searcher(index).search("Er sitzt auf der [[Bank]].", k=1).groups[0].text
    'bench'
    """

    def __init__(
        self,
        index: BaseIndex,
        model: Encoder | None = None,
        views: Views | bool = True,
        lexicons: Sequence[Lexicon] = (),
        lexicon: bool = True,
    ) -> None:
        check_opened(index, "an index, such as Index.open(path)")
        self.index, self._model, self._views = index, model, views
        self._own_lexicons, self._with_bundled = tuple(lexicons), lexicon

    @property
    def lexicons(self) -> tuple[Lexicon, ...]:
        """Sources of candidates by wording: dictionaries given here, those of the index, then the induced lexicon."""
        bundle = self._bundled
        dictionaries = (*self._own_lexicons, *self.index.dictionaries)
        return dictionaries if bundle is None else (*dictionaries, bundle)

    @property
    def _bundled(self) -> InducedLexicon | None:
        """The induced lexicon that comes with phrasemate; None where it is not to be used."""
        return bundled_lexicon() if self._with_bundled else None

    @property
    def scorer(self) -> CandidateScorer | None:
        """The model that chooses among candidates; None where the search goes by vectors alone."""
        scorer: CandidateScorer | None = getattr(self.model, "scorer", None)
        return scorer if self._views is True and scorer is not None and self.index.has_wordings else None

    @property
    def model(self) -> Any:
        """The encoder of the queries."""
        return self._model or self.index.model

    @property
    def views(self) -> Views | None:
        """Settings of the second look at hits and of their votes; None where neither is made."""
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

        Args:
            query: Sentence with the phrase in double brackets.
            k: Groups at most.
            contexts: Hits of each group at most.
            documents: Names of the documents to search, or folders, or patterns with ``*``; None for all.
            languages: Languages of the documents to search; None for all.

        Raises QueryError when not exactly one phrase is marked (`search_all` answers the others), InputError for an
        unknown document or language or an invalid number.
        """
        count = len(parse_query(query).phrases)
        if count != 1:
            raise QueryError(f"{count} phrases are marked in {query!r}, expected one; {EXPECTED}, or use search_all")
        return self.search_all([query], k, contexts, documents, languages)[0]

    @single_blas
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

        A query without marks is answered for every phrase that the model's segmenter proposes in it.

        Args:
            queries: Sentences, with any number of phrases in double brackets.
            k: Groups of a result at most.
            contexts: Hits of each group at most.
            documents: Names of the documents to search, or folders, or patterns with ``*``; None for all.
            languages: Languages of the documents to search; None for all.
            without: For each query a text to leave out, such as its own translation. The answer is as if the index had
                neither its sentences nor a longer one that holds it (`is_of`).

        Errors as in `search`; InputError for another number of texts to leave out than of queries.
        """
        request = SearchRequest(k, contexts, documents, languages)
        check_list(queries, "queries")
        check_list(without, "texts to leave out")
        queries = list(queries)
        texts = [""] * len(queries) if without is None else without
        if len(texts) != len(queries):
            raise InputError(f"{len(texts)} texts to be left out of {len(queries)} queries; expected one for each")
        marks = [
            (query, phrase, text) for query, text in zip(queries, texts, strict=True) for phrase in self.phrases(query)
        ]
        answers = self.search_phrases(
            [phrase for _, phrase, _ in marks], request, without=[text for _, _, text in marks]
        )
        return [Result(query, phrase, *answer) for (query, phrase, _), answer in zip(marks, answers, strict=True)]

    def search_phrases(
        self,
        phrases: Sequence[Phrase],
        request: SearchRequest,
        *,
        without: Sequence[str] | None = None,
        at_once: int | None = None,
        progress: Callable[[], object] = lambda: None,
    ) -> list[Answer]:
        """The answers for phrases in their sentences, which are encoded together.

        Args:
            phrases: Phrases to answer.
            request: What is asked for each of them.
            without: A text for each phrase, as in `search_all`.
            at_once: Phrases that are searched together, by default all; fewer take less memory.
            progress: Called before each such portion; an exception that it raises ends the search.

        Raises InputError for an unknown document or language.
        """
        if not phrases:
            return []
        views, texts = self.views, [""] * len(phrases) if without is None else without
        scorer = self.scorer
        if scorer is not None:
            phrase_vectors = self.model.encode([*phrases, *map(alone, phrases)])
            vectors, second = phrase_vectors[: len(phrases)], phrase_vectors[len(phrases) :]
        else:
            vectors, second = (views or VOTES).queries(self.model, phrases)
        size, answers = at_once or len(phrases), []
        for at in range(0, len(phrases), size):
            progress()
            part = slice(at, at + size)
            if scorer is not None:
                answers += self._choose(scorer, phrases[part], vectors[part], second[part], request, texts[part])
            else:
                answers += self._groups(vectors[part], second[part], views, request, texts[part])
        return answers

    @single_blas
    def search_vectors(
        self,
        vectors: Floats,
        request: SearchRequest,
        alone: Floats | None = None,
        phrases: Sequence[Phrase] | None = None,
    ) -> list[Answer]:
        """Groups and confidence, as in `Result`, of each vector, however it was made.

        Args:
            vectors: Queries, (n, dim) of unit length.
            request: What is asked for each of them.
            alone: Vectors (n, dim) of the same phrases without their sentences.
            phrases: The n phrases; their sentences tell their languages.

        Without the last two no candidates are proposed by dictionaries, and hits are compared in their sentences.
        Raises InputError for an unknown document or language.
        """
        scorer = self.scorer
        if scorer is not None and alone is not None and phrases is not None:
            return self._choose(scorer, phrases, vectors, alone, request)
        views, mixture = self.views, vectors
        if views is not None and alone is not None:
            mixture = unit(vectors + views.query * alone)
        elif views is not None:
            views = views.votes
        return self._groups(vectors, mixture, views, request)

    def phrases(self, query: str) -> tuple[Phrase, ...]:
        """The marked phrases of a query, or those that the segmenter proposes where none is marked."""
        marked_query = parse_query(query)
        if marked_query.phrases or not marked_query.text.strip():
            return marked_query.phrases
        return tuple(
            Phrase(marked_query.text, span.start, span.end) for span in self.model.segment([marked_query.text])[0]
        )

    def _choose(
        self,
        scorer: CandidateScorer,
        phrases: Sequence[Phrase],
        vectors: Floats,
        bare: Floats,
        request: SearchRequest,
        without: Sequence[str] = (),
    ) -> list[Answer]:
        """Up to k groups for each phrase: candidates proposed by every means, the likeliest first.

        Inflected forms of its words count for a candidate.
        """
        with self.index.snapshot():
            descriptions = self.candidates(phrases, vectors, bare, request, without)
            language = next(iter(self._target_languages(request.languages)), "") or "en"
            probabilities = [
                proposals.with_same_first(
                    query, proposals.with_whole_first(query, scorer.probabilities(query.features))
                )
                for query in descriptions
            ]
            forms_of = []
            for query, values in zip(descriptions, probabilities, strict=True):
                order = np.argsort(-values, kind="stable").tolist()
                forms_of.append(proposals.by_words(query.candidates, order, language, request.k))
            pairs = zip(descriptions, forms_of, strict=True)
            nearest = [query.nearest(forms) for query, groups in pairs for forms in groups]
            hits = iter(self._different(nearest, max(request.contexts, 1)))
            return [
                _answer(query, values, scorer, groups, list(islice(hits, len(groups))), request.contexts)
                for query, values, groups in zip(descriptions, probabilities, forms_of, strict=True)
            ]

    def _target_languages(self, languages: Sequence[str] | None) -> list[str]:
        """The languages that are searched, without regions ("en" for "en-GB"), the most frequent one first."""
        tags = self.index.languages()
        if languages is not None:
            tags = [language for tag in languages for language in tags if speaks(language, tag)]
        return list(dict.fromkeys(map(primary, tags)))

    def candidates(
        self,
        phrases: Sequence[Phrase],
        vectors: Floats,
        bare: Floats,
        request: SearchRequest,
        without: Sequence[str] = (),
    ) -> list[proposals.CandidateSet]:
        """The candidates of each phrase and their features, in no order.

        Args:
            phrases: Phrases to propose candidates for.
            vectors: Vectors of the phrases in their sentences, (phrases, dim) of unit length.
            bare: Vectors of the phrases alone, (phrases, dim) of unit length.
            request: Filters; and k, from which the number of occurrences near the vectors follows.
            without: Texts to leave out, as in `search_all`.
        """
        with self.index.wordings() as search:
            target_languages = self._target_languages(request.languages)
            dictionaries = proposals.Dictionaries(self.lexicons, target_languages)
            mixture = unit(vectors + proposals.ALONE * bare)
            run = self.index.nearest(mixture, max(proposals.NEAR, 4 * request.k), request.filters)
            lexicon = self._bundled
            candidate_lists, wordings = [], []
            language = target_languages[0] if target_languages else ""
            for number, (phrase, source) in enumerate(zip(phrases, self._languages_of(phrases), strict=True)):
                parts = proposals.parts(phrase.text, dictionaries, source)
                around = proposals.surroundings(phrase, lexicon, source) if source and lexicon else {}
                no_lexicon = float(not dictionaries.has_lexicon(source))
                is_same = proposals.stands_for_itself(phrase.text, dictionaries, source, language)
                wordings.append(proposals.Wording(parts, around, no_lexicon, is_same))
                dictionary_entries = proposals.equivalents(search.table, phrase.text, dictionaries, source)
                nearest = run.ids[number][run.ids[number] >= 0].tolist()
                compositions = proposals.compositions(search.table, parts)
                proposal = proposals.gather(search.table, phrase.text, nearest, dictionary_entries, compositions)
                proposal += proposals.extended(search.table, dictionary_entries, self._phrases_of)
                proposal += proposals.preceded(search.table, parts, self._phrases_of)
                proposal = proposals.in_expressions(proposal, language, self._phrases_of)
                if not request.filters.pass_all:
                    in_documents = partial(self.index.in_documents, filters=request.filters)
                    proposal = proposals.restrict(proposal, in_documents)
                if without and without[number].strip():
                    proposal = proposals.restrict(proposal, partial(self._outside, is_same=is_of(without[number])))
                candidate_lists.append(proposal)
            texts = [phrase.text for phrase in phrases]
            return proposals.describe(search, texts, candidate_lists, vectors, bare, language, wordings)

    def _languages_of(self, phrases: Sequence[Phrase]) -> list[str]:
        """The language of each phrase's sentence, "" where it is not clear or the bundled lexicon is not used."""
        bundle = self._bundled
        if bundle is None:
            return [""] * len(phrases)
        sentences = list(dict.fromkeys(phrase.context for phrase in phrases))
        beginnings = [sentence[:_READ] for sentence in sentences]
        languages = dict(zip(sentences, bundle.languages_of(beginnings), strict=True))
        return [languages[phrase.context] for phrase in phrases]

    def _phrases_of(self, ids: NDArray[np.int64]) -> list[Phrase]:
        """The phrases of ids of the snapshot, in their order."""
        return [hit.phrase for hit in self.index.hits(ids, np.zeros(len(ids)))]

    def _outside(self, ids: NDArray[np.int64], is_same: Callable[[str], bool]) -> NDArray[np.bool_]:
        """(ids,) whether the sentence of each phrase is not one of a text (`is_of`)."""
        return np.array([not is_same(phrase.context) for phrase in self._phrases_of(ids)], np.bool_)

    def _different(self, nearest: Sequence[tuple[NDArray[np.int64], Floats]], count: int) -> list[list[Hit]]:
        """Take the first ``count`` phrases of each candidate, with cosines, no two of the same sentence."""
        different: list[dict[str, Hit]] = [{} for _ in nearest]
        start, pending = 0, list(range(len(nearest)))
        while pending:
            part = slice(start, start + count)
            ids = [nearest[number][0][part] for number in pending]
            hits = self.index.hits(
                np.concatenate(ids), np.concatenate([nearest[number][1][part] for number in pending])
            )
            owners = np.repeat(pending, [len(id_row) for id_row in ids]).tolist()
            for number, hit in zip(owners, hits, strict=True):
                different[number].setdefault(hit.context, hit)
            start += count
            pending = [
                number for number in pending if len(different[number]) < count and start < len(nearest[number][0])
            ]
        return [list(hits.values())[:count] for hits in different]

    def _groups(
        self,
        vectors: Floats,
        search_vectors: Floats,
        views: Views | None,
        request: SearchRequest,
        without: Sequence[str] = (),
    ) -> list[Answer]:
        """Up to k groups for each vector q, searched by its q' (``search_vectors``), and how sure the first is.

        Looks at more hits for those whose hits so far hold fewer wordings, with views only at those of wordings that
        are new.
        """
        k = request.k
        hits_of: list[list[tuple[Hit, float]]] = [[] for _ in vectors]
        sure: list[float | None] = [None] * len(vectors)
        first = max(views.first if views else FETCH, 2 * k)
        pending, fetch = np.arange(len(vectors)), first
        while len(pending):
            with self.index.snapshot():  # or a phrase that is found may be deleted before it is looked up
                bans = [without[row] if without else "" for row in pending.tolist()]
                hits, more = self._hits(search_vectors[pending], fetch, request, bans)
                if views:
                    hits = [_new(hits_of[row], new, k) for row, new in zip(pending, hits, strict=True)]
                if views and views.mixed:
                    hit_vectors = self.index.vectors([hit.phrase_id for new in hits for hit in new])
            flat, owners = [*chain.from_iterable(hits)], np.repeat(pending, [len(new) for new in hits])
            if views and views.mixed:
                votes = iter(self._seen_again(flat, hit_vectors, vectors[owners], search_vectors[owners], views))
            else:
                votes = iter([(hit, hit.score) for hit in flat])
            for row, new in zip(pending.tolist(), hits, strict=True):
                hits_of[row] = [*(hits_of[row] if views else []), *islice(votes, len(new))]
            if fetch == first:
                most = views.first if views else HITS
                sure = [self._confidence(_wordings(row_hits[:most], views), views) for row_hits in hits_of]
            short = np.array([len(_wordings(hits_of[row], None)) < k for row in pending], bool)
            pending, fetch = pending[short & more], fetch * 4
            if fetch > max(FETCH_MOST, 2 * k):
                break
        groups = (
            tuple(_group(wording, request.contexts, views) for wording in _wordings(row_hits, views)[:k])
            for row_hits in hits_of
        )
        return list(zip(groups, sure, strict=True))

    def _hits(
        self, vectors: Floats, fetch: int, request: SearchRequest, without: Sequence[str]
    ) -> tuple[list[list[Hit]], NDArray[np.bool_]]:
        """Up to ``fetch`` hits for each vector, as if the index had nothing of its text in ``without``; and whether
        there may be more of them.
        """
        hits: list[list[Hit]] = [[] for _ in vectors]
        more = np.zeros(len(vectors), np.bool_)
        pending, wide = np.arange(len(vectors)), fetch
        while len(pending) and wide <= 4 * max(FETCH_MOST, fetch):
            run = self.index.nearest(vectors[pending], wide, request.filters)
            full = run.ids >= 0
            remaining = iter(self.index.hits(run.ids[full], run.scores[full]))
            more[pending] = full.all(1)
            for row, number in zip(pending.tolist(), full.sum(1).tolist(), strict=True):
                hits_allowed = _allowed(list(islice(remaining, number)), without[row])
                hits[row], more[row] = hits_allowed[:fetch], more[row] or len(hits_allowed) > fetch
            lacking = np.array([len(hits[row]) < fetch for row in pending], np.bool_)  # of a full list: left out
            pending, wide = pending[lacking & more[pending]], wide * 4
        return hits, more

    def _seen_again(
        self, hits: Sequence[Hit], stored: Floats, vectors: Floats, search_vectors: Floats, views: Views
    ) -> list[tuple[Hit, float]]:
        """The hits with their cosines in their sentences, and with those by which they vote.

        ``stored``: v, ``vectors``: q, ``search_vectors``: q' of each hit, (hits, dim).
        """
        mixture = views.hits(self.model, [hit.phrase for hit in hits], stored)
        near = np.einsum("nd,nd->n", stored, vectors).tolist()
        votes: list[float] = np.einsum("nd,nd->n", mixture, search_vectors).tolist()
        return [(replace(hit, score=score), vote) for hit, score, vote in zip(hits, near, votes, strict=True)]

    @property
    def calibrated(self) -> Confidence | None:
        """The calibration of scores to probabilities; None where the model has none for these views."""
        return self._calibrated(self.views)

    def _calibrated(self, views: Views | None) -> Confidence | None:
        confidence: Confidence | None = getattr(self.model, "confidence", None)
        if confidence is None or views in (None, VOTES):
            return confidence
        return confidence.with_views if views == Views() else None

    def _confidence(self, wordings: Sequence[_Wording], views: Views | None) -> float | None:
        calibration = self._calibrated(views)
        if calibration is None or not wordings:
            return None if calibration is None else 0.0
        return float(calibration.of([features([wording.votes for wording in wordings])])[0])


def _answer(
    query: proposals.CandidateSet,
    probabilities: NDArray[np.float64],
    scorer: CandidateScorer,
    forms_of: Sequence[Sequence[int]],
    hits_of: Sequence[list[Hit]],
    contexts: int,
) -> Answer:
    """The groups of a query, and the probability of the first.

    ``forms_of`` and ``hits_of`` (groups,): the candidates of each group, and their hits.
    """
    reasons = cache(lambda: scorer.reasons(query.features, [forms[0] for forms in forms_of]))
    groups = []
    for place, (forms, hits) in enumerate(zip(forms_of, hits_of, strict=True)):
        candidate = query.candidates[forms[0]]
        hits = [_widened(hit, candidate) for hit in hits]
        groups.append(
            Group(
                _spelling(hits),
                hits[0].score,
                sum(query.candidates[form].count for form in forms),
                tuple(hits[:contexts]),
                probability=float(probabilities[forms[0]]),
                source=candidate.listing.source,
                evidence=LazyMapping(partial(_by_name, query.features[forms[0]])),
                reasons=LazyMapping(partial(_item, reasons, place)),
            )
        )
    return tuple(groups), groups[0].probability if groups else 0.0


def _spelling(hits: Sequence[Hit]) -> str:
    """How most of the hits write the wording of the first one."""
    texts = [hit.text for hit in hits]
    if len(set(texts)) == 1:
        return texts[0]
    wording = folded(texts[0])
    return Counter(text for text in texts if folded(text) == wording).most_common(1)[0][0]


def _widened(hit: Hit, candidate: proposals.Candidate) -> Hit:
    """The hit with the function words before and after it that belong to the candidate."""
    if not (candidate.leading or candidate.trailing):
        return hit
    phrase = hit.phrase
    start, end = proposals.begins_at(phrase, candidate.leading), proposals.ends_at(phrase, candidate.trailing)
    return replace(hit, phrase=Phrase(phrase.context, start, end))


def is_of(text: str) -> Callable[[str], bool]:
    """Tells of a sentence whether it is one or more sentences of the text that follow one another, or holds all of it.

    Case, white space and Unicode's form aside. A sentence may begin and end wherever the text has a mark that ends one,
    whatever abbreviations a language has: others may have split it otherwise.
    """
    whole = _squeezed(text)
    ends = {0, len(whole), *(match.end() for match in _END.finditer(whole))}
    ends |= set(accumulate(len(_squeezed(text[start:end])) for start, end in split_sentences(text)))

    def contains(sentence: str) -> bool:
        plain_sentence = _squeezed(sentence)
        if not plain_sentence or not whole:
            return False
        at = whole.find(plain_sentence)
        while at >= 0:
            if at in ends and at + len(plain_sentence) in ends:
                return True
            at = whole.find(plain_sentence, at + 1)
        return whole in plain_sentence

    return contains


def _squeezed(text: str) -> str:
    return "".join(composed(plain(text)).casefold().split())


class _Wording(NamedTuple):
    """The hits of one wording, and what each is worth; both by score, highest first."""

    hits: list[Hit]
    votes: list[float]


def _wordings(scored: Sequence[tuple[Hit, float]], views: Views | None) -> list[_Wording]:
    """Hits and their votes -> those of each wording together, the best wording first."""
    wordings: dict[str, _Wording] = {}
    for hit, vote in scored:
        hits, votes = wordings.setdefault(folded(hit.text), _Wording([], []))
        hits.append(hit)
        votes.append(vote)
    if views is None:  # they came by score, highest first
        return list(wordings.values())
    for hits, votes in wordings.values():
        hits.sort(key=lambda hit: (-hit.score, hit.phrase_id))  # or what the first look rounded would order equal ones
        votes.sort(reverse=True)
    return sorted(wordings.values(), key=lambda wording: views.support(wording.votes), reverse=True)


def _allowed(hits: list[Hit], without: str) -> list[Hit]:
    if not without.strip():
        return hits
    is_same = is_of(without)
    return [hit for hit in hits if not is_same(hit.context)]


def _new(scored: Sequence[tuple[Hit, float]], hits: Sequence[Hit], k: int) -> list[Hit]:
    """Hits of new wordings, as many wordings as lack to k; at first all hits."""
    had = {folded(hit.text) for hit, _ in scored}
    if not had:
        return list(hits)
    lacking = [name for name in dict.fromkeys(folded(hit.text) for hit in hits) if name not in had][: k - len(had)]
    return [hit for hit in hits if folded(hit.text) in lacking]


def _group(wording: _Wording, contexts: int, views: Views | None) -> Group:
    different: dict[str, Hit] = {}
    for hit in wording.hits:  # the best hit of a sentence stays
        different.setdefault(hit.context, hit)
    best = tuple(different.values())[:contexts]
    support = None if views is None else views.support(wording.votes)
    return Group(wording.hits[0].text, wording.votes[0], len(wording.hits), best, support)


def _hit_as_dict(hit: Hit) -> dict[str, Any]:
    place = {"document": hit.document, "line": hit.line, "language": hit.language, "metadata": dict(hit.metadata)}
    return {"context": hit.context, "start": hit.start, "end": hit.end, "score": round(hit.score, 4), **place}
