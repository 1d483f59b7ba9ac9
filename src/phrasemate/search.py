"""Find phrases that mean the same as a marked phrase, grouped by wording, with their sentences."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phrasemate import candidates as proposals
from phrasemate.answers import SPELLINGS, answer_of, compute_probabilities, group_forms, regular_wording
from phrasemate.encode.pooling import unit
from phrasemate.encode.scoring import VOTES, CandidateScorer, Confidence, Views, alone
from phrasemate.errors import InputError, QueryError
from phrasemate.features import CandidateSet, describe
from phrasemate.index import BaseIndex
from phrasemate.index.wordings import FilteredWordings, Wordings
from phrasemate.lexicon import (
    InducedLexicon,
    Lexicon,
    SensesThroughEnglish,
    SenseVectors,
    bundled_lexicon,
    bundled_senses,
    stemmed,
)
from phrasemate.lexicon.separable_verbs import with_infinitive
from phrasemate.query import EXPECTED, parse_query
from phrasemate.results import Answer, Result, SearchRequest
from phrasemate.text import folded
from phrasemate.text.languages import primary
from phrasemate.text.sentences import is_of, split_sentences
from phrasemate.types import Encoder, Hit, Phrase, check_list, check_opened, check_progress, phrase_list, text_tuple
from phrasemate.utils.arrays import Floats
from phrasemate.utils.hyphens import without_compound_parts
from phrasemate.utils.machine import single_blas
from phrasemate.vote_search import VoteSearch

_READ = 1_000  # characters at the beginning of a sentence from which its language is identified


class Searcher:
    """Search engine for phrases in an index.

    ``model`` encodes the queries; the default is the model of the index, which the first query loads.

    ``views``: True proposes candidates by vector and by dictionary, which the model's scorer ranks
    (`phrasemate.candidates`). If the model has no scorer, hits are rescored with the phrase alone
    (`phrasemate.encode.scoring`). False compares phrases in their sentences only, and hits vote. A model without a
    trained head does neither.

    An index of several languages is searched in each of them, and the most probable groups come first. The language of
    the query is left out unless it is requested.

    ``lexicons``: dictionaries that propose candidates, see `phrasemate.lexicon.open_dictionaries`. The dictionaries of
    the index are used, too, and the bundled lexicon unless ``lexicon`` is False.

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
        if model is not None:
            check_opened(model, "a model, such as load_model(path)")
        if not isinstance(lexicon, bool):
            remedy = "for dictionaries: lexicons=open_dictionaries([...])"
            raise InputError(f"lexicon={repr(lexicon)[:40]}; expected True or False; {remedy}")
        check_list(lexicons, "dictionaries")
        for dictionary in lexicons:
            check_opened(dictionary, "dictionaries, as phrasemate.lexicon.open_dictionaries([path]) returns them")
        self.index, self._model, self._views = index, model, views
        self._own_lexicons, self._with_bundled = tuple(lexicons), lexicon

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.index!r})"

    @property
    def lexicons(self) -> tuple[Lexicon, ...]:
        """Dictionaries that propose candidates: those of the searcher, those of the index, the bundled lexicon."""
        bundle = self._bundled
        dictionaries = (*self._own_lexicons, *self.index.dictionaries)
        return dictionaries if bundle is None else (*dictionaries, bundle)

    @property
    def _bundled(self) -> InducedLexicon | None:
        """The bundled lexicon; None if it is not installed or not to be used."""
        return bundled_lexicon() if self._with_bundled else None

    def _senses(self, source: str, target: str) -> SenseVectors | SensesThroughEnglish | None:
        """Return the bundled sense vectors for phrases of a language and their translations into another one.

        None without the bundled lexicon, for an unknown language, or if they are of another model.
        """
        senses = bundled_senses(source, target) if source and self._bundled is not None else None
        return senses if senses is not None and senses.model == self.model.hash else None

    @property
    def scorer(self) -> CandidateScorer | None:
        """The classifier that ranks candidates; None if the search uses vectors alone."""
        scorer: CandidateScorer | None = getattr(self.model, "scorer", None)
        return scorer if self._views is True and scorer is not None and self.index.has_wordings else None

    @property
    def model(self) -> Any:
        """The encoder of the queries."""
        return self._model or self.index.model

    @property
    def views(self) -> Views | None:
        """Settings of the rescoring of hits and of their votes; None if there is neither."""
        if isinstance(self._views, Views):
            return self._views
        if getattr(self.model, "pooling", None) != "head":
            return None
        return Views() if self._views else VOTES

    @property
    def encodes_alone(self) -> bool:
        """Whether `search_vectors` can use vectors of the phrases without their sentences."""
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
        """Answer a query with exactly one marked phrase: ``Er sitzt auf der [[Bank]].``

        Args:
            query: Sentence with the phrase in double brackets.
            k: Maximum number of groups.
            contexts: Maximum number of hits per group.
            documents: Names of the documents to search, or folders, or patterns with ``*``; None for all.
            languages: Languages of the documents to search. None for all, without the query's own if there are others.

        Raises QueryError unless exactly one phrase is marked (use `search_all` for other queries), InputError for an
        unknown document or language or an invalid number.
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
        """Answer many queries at once, with one result for each marked phrase, in order.

        A query without marks gets a result for every phrase that the model's segmenter finds in it.

        Args:
            queries: Sentences, with any number of phrases in double brackets.
            k: Maximum number of groups per result.
            contexts: Maximum number of hits per group.
            documents: Names of the documents to search, or folders, or patterns with ``*``; None for all.
            languages: Languages of the documents to search. None for all, without the query's own if there are others.
            without: For each query a text to exclude, such as its reference translation. Sentences of this text are
                ignored, and longer sentences that contain it (`is_of`).

        Raises the errors of `search`, and InputError unless there is one text to exclude for each query.
        """
        request = SearchRequest(k, contexts, documents, languages)
        check_list(queries, "queries")
        queries = list(queries)
        texts = _exclusions(without, len(queries))
        marks = [
            (query, phrase, text) for query, text in zip(queries, texts, strict=True) for phrase in self.phrases(query)
        ]
        answers = self.search_phrases(
            [phrase for _, phrase, _ in marks], request, without=[text for _, _, text in marks]
        )
        return [Result(query, phrase, *answer) for (query, phrase, _), answer in zip(marks, answers, strict=True)]

    @single_blas
    def search_phrases(
        self,
        phrases: Sequence[Phrase],
        request: SearchRequest,
        *,
        without: Sequence[str] | None = None,
        at_once: int | None = None,
        progress: Callable[[], object] = lambda: None,
    ) -> list[Answer]:
        """Answer phrases in their sentences. All are encoded together.

        Args:
            phrases: Phrases to answer.
            request: Limits and filters, the same for all phrases.
            without: A text to exclude for each phrase, as in `search_all`.
            at_once: Phrases that are searched together, by default all; fewer take less memory.
            progress: Called before each such batch; an exception that it raises ends the search.

        Raises InputError for an unknown document or language, and unless there is one text to exclude for each phrase.
        """
        check_progress(progress)
        if at_once is not None and not (isinstance(at_once, Integral) and at_once > 0):
            raise InputError(f"at_once={at_once!r}; expected 1 or more")
        phrases = self.with_infinitives(phrase_list(phrases))
        if not phrases:
            return []
        texts = _exclusions(without, len(phrases))
        if self.scorer is not None:
            phrase_vectors = self.model.encode([*phrases, *map(alone, phrases)])
            vectors, second = phrase_vectors[: len(phrases)], phrase_vectors[len(phrases) :]
        else:
            vectors, second = (self.views or VOTES).queries(self.model, phrases)
        size, answers = at_once or len(phrases), []
        for at in range(0, len(phrases), size):
            progress()
            part = slice(at, at + size)
            answers += self._answers(phrases[part], vectors[part], second[part], request, texts[part])
        return answers

    @single_blas
    def search_vectors(
        self,
        vectors: Floats,
        request: SearchRequest,
        alone: Floats | None = None,
        phrases: Sequence[Phrase] | None = None,
    ) -> list[Answer]:
        """Answer queries that are already encoded: groups and confidence for each, as in `Result`.

        Args:
            vectors: Vectors of the phrases in their sentences, (n, dim) of unit length.
            request: Limits and filters, the same for all queries.
            alone: Vectors of the phrases without their sentences, (n, dim) of unit length.
            phrases: The n phrases, whose languages are identified from their sentences.

        Without ``alone`` or ``phrases``, dictionaries propose no candidates. Without ``alone``, phrases are compared in
        their sentences only. Raises InputError for an unknown document or language.
        """
        if self.scorer is not None and alone is not None and phrases is not None:
            return self._answers(phrases, vectors, alone, request, [""] * len(phrases))
        views, mixture = self.views, vectors
        if views is not None and alone is not None:
            mixture = unit(vectors + views.query * alone)
        elif views is not None:
            views = views.votes
        return self._vote_search(views).answers(vectors, mixture, request)

    @property
    def calibration(self) -> Confidence | None:
        """Calibration from vote scores to probabilities; None if the model has none for these views."""
        return self._vote_search(self.views).calibration

    def _vote_search(self, views: Views | None) -> VoteSearch:
        return VoteSearch(self.index, self.model, views)

    def phrases(self, query: str) -> tuple[Phrase, ...]:
        """List the marked phrases of a query, or, without marks, those that the segmenter finds in its sentences.

        Of a compound with hyphens, only the whole is listed (`without_compound_parts`).
        """
        marked_query = parse_query(query)
        text = marked_query.text
        if marked_query.phrases or not text.strip():
            return marked_query.phrases
        sentences = split_sentences(text)
        segments = self.model.segment([text[start:end] for start, end in sentences])
        return tuple(
            Phrase(text, first + span.start, first + span.end)
            for (first, last), spans in zip(sentences, segments, strict=True)
            for span in without_compound_parts(text[first:last], spans)
        )

    def with_infinitives(self, phrases: Sequence[Phrase]) -> list[Phrase]:
        """Return phrases with the infinitives of their separable verbs: "teilnehmen" for "nahm" before "teil"."""
        lexicon = self._bundled
        return list(phrases) if lexicon is None else [with_infinitive(phrase, lexicon) for phrase in phrases]

    def _answers(
        self, phrases: Sequence[Phrase], vectors: Floats, second: Floats, request: SearchRequest, without: Sequence[str]
    ) -> list[Answer]:
        """Answer phrases by candidates, or by votes without a scorer.

        An index of several languages is searched in one after the other. Unless the request names languages, a phrase
        is not searched in its own. ``second``: vectors of the phrases without their sentences, or q' for votes.
        """

        def answers_in(language: str, numbers: list[int], narrowed: SearchRequest) -> list[Answer]:
            arguments = vectors[numbers], second[numbers], narrowed, [without[number] for number in numbers]
            if scorer is None:
                return self._vote_search(self.views).answers(*arguments)
            return self._choose(scorer, language, [phrases[number] for number in numbers], *arguments)

        numbers = list(range(len(phrases)))
        with self.index.snapshot():
            scorer, tags = self.scorer, self._target_tags(request)
            if len(tags) == 1:
                return answers_in(next(iter(tags)), numbers, request)
            target = next(language for language in tags if language != "en")
            sources = self._languages_of(phrases, target) if request.languages is None else [""] * len(phrases)
            answers: list[list[Answer]] = [[] for _ in phrases]
            for language, varieties in tags.items():
                queries = [number for number in numbers if sources[number] != language]
                narrowed = replace(request, languages=varieties)
                answers_of_language = answers_in(language, queries, narrowed) if queries else []
                for number, answer in zip(queries, answers_of_language, strict=True):
                    answers[number].append(answer)
        return [_merged(row, request.k) for row in answers]

    def _choose(
        self,
        scorer: CandidateScorer,
        language: str,
        phrases: Sequence[Phrase],
        vectors: Floats,
        bare: Floats,
        request: SearchRequest,
        without: Sequence[str],
    ) -> list[Answer]:
        """Answer phrases by proposing candidates and ranking them with the scorer, up to k groups each.

        Inflected forms of the same words are one group. ``language``: of the documents. ``bare``: vectors of the
        phrases without their sentences.
        """
        descriptions = self.candidates(phrases, vectors, bare, request, without)
        probabilities = [compute_probabilities(query, scorer, language) for query in descriptions]
        forms_of = [
            group_forms(query.candidates, np.argsort(-values, kind="stable").tolist(), language, request.k)
            for query, values in zip(descriptions, probabilities, strict=True)
        ]
        pairs = zip(descriptions, forms_of, strict=True)
        nearest = [query.nearest(forms) for query, groups in pairs for forms in groups]
        hits = iter(self._different(nearest, max(request.contexts, 1)))
        return [
            answer_of(
                query,
                values,
                scorer,
                groups,
                list(islice(hits, len(groups))),
                request.contexts,
                partial(self._translates, phrase=phrase, language=language),
            )
            for query, values, groups, phrase in zip(descriptions, probabilities, forms_of, phrases, strict=True)
        ]

    def _translates(self, infinitive: str, phrase: Phrase, language: str) -> bool:
        """Whether the bundled lexicon lists a phrase for an infinitive of the index's language, in any form."""
        (source,) = self._languages_of([phrase], language)
        listed = self._bundled.equivalents(infinitive, language, source) if self._bundled and source else []
        stems = stemmed(regular_wording(folded(phrase.text), source), source)
        return any(stemmed(regular_wording(equivalent.text, source), source) == stems for equivalent in listed)

    def _target_tags(self, request: SearchRequest) -> dict[str, list[str]]:
        """Map each language of the documents to search, without region, to its tags; most frequent first.

        A document without a language counts as English. An empty index has English, without tags.
        """
        tags: dict[str, list[str]] = {}
        for tag in self.index.languages(request.filters):
            tags.setdefault(primary(tag) or "en", []).append(tag)
        return tags or {"en": []}

    def candidates(
        self,
        phrases: Sequence[Phrase],
        vectors: Floats,
        bare: Floats,
        request: SearchRequest,
        without: Sequence[str] = (),
    ) -> list[CandidateSet]:
        """Propose candidates for each phrase and compute their features. The candidates are not ranked.

        If the documents have several languages, dictionaries translate into the most frequent one.

        Args:
            phrases: Phrases to propose candidates for.
            vectors: Vectors of the phrases in their sentences, (phrases, dim) of unit length.
            bare: Vectors of the phrases alone, (phrases, dim) of unit length.
            request: Filters, and k, which determines how many nearest phrases are fetched.
            without: Texts to exclude, as in `search_all`.
        """
        with self.index.wordings() as search:
            table = search.table
            if not request.filters.pass_all:
                table = FilteredWordings(table, partial(self.index.in_documents, filters=request.filters))
            language, tags = next(iter(self._target_tags(request).items()))
            dictionaries = proposals.Dictionaries(self.lexicons, list(dict.fromkeys(map(primary, tags))))
            mixture = unit(vectors + proposals.ALONE * bare)
            near = self._near(table, mixture, request)
            lexicon = self._bundled
            candidate_lists, query_words, texts = [], [], []
            for number, (phrase, source) in enumerate(zip(phrases, self._languages_of(phrases, language), strict=True)):
                parts = proposals.parts(phrase.text, dictionaries, source)
                around = proposals.surroundings(phrase, lexicon, source) if source and lexicon else {}
                no_lexicon = float(not dictionaries.has_lexicon(source))
                text = proposals.as_name(table, phrase.text, dictionaries, source, language)
                is_same = proposals.stands_for_itself(text, dictionaries, source, language)
                senses = self._senses(source, language)
                query_words.append(proposals.QueryWords(source, parts, around, no_lexicon, is_same, senses))
                dictionary_entries = proposals.equivalents(table, phrase.text, dictionaries, source)
                compositions = proposals.compositions(table, parts, language)
                proposal = proposals.gather(table, text, near[number], dictionary_entries, compositions, language)
                proposal += proposals.extended(table, dictionary_entries, language, self._phrases_of)
                proposal += proposals.with_function_word(table, parts, language, self._phrases_of)
                proposal = proposals.in_expressions(proposal, language, self._phrases_of)
                if without and without[number].strip():
                    proposal = proposals.restrict(proposal, partial(self._outside, is_same=is_of(without[number])))
                candidate_lists.append(proposal)
                texts.append(text)
            return describe(search, texts, candidate_lists, vectors, bare, language, query_words)

    def _near(self, table: Wordings, vectors: Floats, request: SearchRequest) -> list[dict[str, list[int]]]:
        """Find the phrases nearest to each vector, more of them if many have the same wording.

        ``table``: wordings of the index. ``vectors``: (queries, dim) of unit length. Returns for each vector the
        wordings and their phrase ids, nearest first.
        """
        count = max(proposals.NEAR, 4 * request.k)
        near = []
        for ids in self.index.nearest(vectors, max(count, proposals.FURTHER), request.filters).ids:
            nearest = table.by_wording(ids[:count][ids[:count] >= 0].tolist())
            if len(nearest) < proposals.DISTINCT:
                nearest = table.by_wording(ids[ids >= 0].tolist())
            near.append(nearest)
        return near

    def _languages_of(self, phrases: Sequence[Phrase], target: str) -> list[str]:
        """Identify the language of each phrase's sentence; "" if unclear, or if the bundled lexicon is not used.

        ``target``: language of the index.
        """
        bundle = self._bundled
        if bundle is None:
            return [""] * len(phrases)
        sentences = list(dict.fromkeys(phrase.context for phrase in phrases))
        beginnings = [sentence[:_READ] for sentence in sentences]
        languages = dict(zip(sentences, bundle.languages_of(beginnings, target), strict=True))
        return [languages[phrase.context] for phrase in phrases]

    def _phrases_of(self, ids: NDArray[np.int64]) -> list[Phrase]:
        """Fetch the phrases with the given ids in the snapshot, in the same order."""
        return [hit.phrase for hit in self.index.hits(ids, np.zeros(len(ids)))]

    def _outside(self, ids: NDArray[np.int64], is_same: Callable[[str], bool]) -> NDArray[np.bool_]:
        """Return (ids,) whether each phrase's sentence is outside a text that ``is_same`` recognises (`is_of`)."""
        return np.array([not is_same(phrase.context) for phrase in self._phrases_of(ids)], np.bool_)

    def _different(self, nearest: Sequence[tuple[NDArray[np.int64], Floats]], count: int) -> list[list[Hit]]:
        """Fetch up to ``count`` hits from the nearest phrases of each group, at most one per sentence.

        At least `SPELLINGS` hits are fetched, because they decide the spelling. ``nearest``: phrase ids and cosines of
        each group, (phrases,) each.
        """
        count = max(count, SPELLINGS)
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


def _merged(answers: Sequence[Answer], k: int) -> Answer:
    """Merge the answers for several languages: the k best groups, with the confidence of the best one's answer."""
    groups = sorted((group for answer in answers for group in answer[0]), key=lambda group: -group.weight)
    best = max(answers, key=lambda answer: max((group.weight for group in answer[0]), default=-math.inf))
    return tuple(groups[:k]), best[1]


def _exclusions(without: Sequence[str] | None, count: int) -> Sequence[str]:
    """Return the text to exclude for each of ``count`` queries. Raises InputError unless there is one for each."""
    if without is None:
        return [""] * count
    texts = text_tuple(without, "texts to leave out")
    if len(texts) != count:
        raise InputError(f"{len(texts)} texts to be left out of {count} queries; expected one for each")
    return texts
