"""Find phrases that mean the same as a marked phrase, grouped by wording, with their sentences."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import chain, islice
from numbers import Integral
from operator import itemgetter
from typing import Any

import numpy as np
import regex
from numpy.typing import NDArray

from phrasemate import candidates as proposals
from phrasemate.encode.pooling import unit
from phrasemate.encode.scoring import FEATURES, VOTES, CandidateScorer, Confidence, Views, alone
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
from phrasemate.lexicon.endings import SYLLABLES
from phrasemate.lexicon.forms import are_forms
from phrasemate.lexicon.induced import elided_article
from phrasemate.lexicon.inflection import are_english_inflections, without_affixes
from phrasemate.lexicon.separable_verbs import infinitive_of, with_infinitive
from phrasemate.lexicon.spelling import without_accents
from phrasemate.lexicon.wordings import wording_of
from phrasemate.query import EXPECTED, parse_query
from phrasemate.results import Answer, Group, LazyMapping, Result, SearchRequest, usual_spelling
from phrasemate.text import folded
from phrasemate.text.english_verbs import is_phrasal_verb, regular
from phrasemate.text.languages import primary
from phrasemate.text.normalize import HYPHENS
from phrasemate.text.sentences import is_of, split_sentences
from phrasemate.types import Encoder, Hit, Phrase, check_list, check_opened, phrase_list, text_tuple
from phrasemate.utils.arrays import Doubles, Floats
from phrasemate.utils.hyphens import LETTERS, without_compound_parts
from phrasemate.utils.machine import single_blas
from phrasemate.vote_search import VoteSearch

SAME = 0.95  # least probability of the query's own wording if it must be right (`stands_for_itself`)
NEARER = 0.1  # by how much an unlisted whole is nearer than its listed part (`with_whole_first`), at least
SPELLINGS = 5  # nearest hits of a group that decide how its wording is spelled
_HYPHENS = frozenset(HYPHENS)
_BEFORE_HYPHEN = regex.compile(rf"(?:{LETTERS}[{HYPHENS}])+$")  # letters and a hyphen before a phrase
_AFTER_HYPHEN = regex.compile(rf"(?:[{HYPHENS}]{LETTERS})+")
_ABBREVIATION = regex.compile(r"(?:\p{L}\.)+\p{L}")  # without its last full stop: "U.S"
WORD_BY_WORD = FEATURES.index("word by word")
_COSINES = [FEATURES.index(name) for name in ("context", "type", "alone")]
_LENGTHS = [FEATURES.index(name) for name in ("words", "fewer words")]
_READ = 1_000  # characters at the beginning of a sentence from which its language is identified


def _item(compute: Callable[[], Sequence[dict[str, float]]], place: int) -> dict[str, float]:
    """Compute a list, and return the mapping at a place in it."""
    return compute()[place]


def _by_name(features: Floats) -> dict[str, float]:
    """Map the names of `FEATURES` to the values of a candidate, (len(FEATURES),)."""
    return dict(zip(FEATURES, features.tolist(), strict=True))


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
        probabilities = []
        for query in descriptions:
            values = scorer.probabilities(query.features)
            if language == "en":
                values = with_base_first(query, values)
            values = with_whole_first(query, values)
            probabilities.append(with_same_first(query, values))
        forms_of = []
        for query, values in zip(descriptions, probabilities, strict=True):
            order = np.argsort(-values, kind="stable").tolist()
            forms_of.append(by_words(query.candidates, order, language, request.k))
        pairs = zip(descriptions, forms_of, strict=True)
        nearest = [query.nearest(forms) for query, groups in pairs for forms in groups]
        hits = iter(self._different(nearest, max(request.contexts, 1)))
        return [
            _answer(
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
        stems = stemmed(_regular(folded(phrase.text), source), source)
        return any(stemmed(_regular(equivalent.text, source), source) == stems for equivalent in listed)

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


def with_base_first(query: CandidateSet, probabilities: Doubles) -> Doubles:
    """Return the probabilities (candidates,), exchanged between an English possessive and its base if it is likelier.

    So "judge" goes before "judge's".
    """
    number_of = {candidate.wording: number for number, candidate in enumerate(query.candidates)}
    values = probabilities.copy()
    for wording, number in number_of.items():
        base = number_of.get(wording[:-2]) if wording.endswith("'s") else None
        if base is not None and values[base] < values[number]:
            values[[base, number]] = values[[number, base]]
    return values


def with_same_first(query: CandidateSet, probabilities: Doubles) -> Doubles:
    """Return the probabilities (candidates,), raised for the query's own wording if it must be right."""
    if query.same < 0:
        return probabilities
    values = probabilities.copy()
    values[query.same] = max(SAME, np.nextafter(values.max(), 1))
    return values


def with_whole_first(query: CandidateSet, probabilities: Doubles) -> Doubles:
    """Return the probabilities (candidates,), with a whole such as "side effects" above its part "effects".

    If the likeliest candidate is part of wholes, the likeliest of these is ranked above it. What counts as a whole:

    - of a part that is not listed: a listed candidate, or one that translates the query word by word, unlike its part
      ("high blood pressure", "blood pressure");
    - of a listed word for a query of one word: a candidate that is listed as likelier, or is nearer
      (`_is_likelier_or_nearer`). Word alignment often links a word to a part of its translation, so "Herzinfarkt" is
      listed as "heart", not as "heart attack", and "aufstehen" as "up", not as "get up".
    """
    if not len(probabilities):
        return probabilities
    part = int(probabilities.argmax())
    inside = f" {query.candidates[part].wording} "
    goes_first = _is_likelier_or_nearer if query.candidates[part].listing.probability else _is_listed_or_literal
    wholes = [
        number
        for number, candidate in enumerate(query.candidates)
        if number != part and inside in f" {candidate.wording} " and goes_first(query, number, part)
    ]
    if not wholes:
        return probabilities
    values = probabilities.copy()
    values[max(wholes, key=probabilities.__getitem__)] = np.nextafter(probabilities[part], 1)
    return values


def _is_listed_or_literal(query: CandidateSet, whole: int, part: int) -> bool:
    """Whether a whole is listed, or translates the query word by word while its part does not."""
    literal = query.features[:, WORD_BY_WORD]
    return bool(query.candidates[whole].listing.probability or literal[whole] > literal[part])


def _is_likelier_or_nearer(query: CandidateSet, whole: int, part: int) -> bool:
    """Whether a whole is listed as likelier than its part, a word, or nearer to a query of one word.

    If it occurs repeatedly, it is nearer by `NEARER` in the sum of the cosines of its mean vector, and as near by each
    cosine. If the part mostly stands in the whole, as "United" does in "United States", being as near by this sum
    suffices. So it does for a phrasal verb and its particle.
    """
    nearer = query.features[whole, _COSINES] - query.features[part, _COSINES]
    candidate, rival = query.candidates[whole], query.candidates[part]
    if query.features[part, _LENGTHS].any() or " " in rival.wording:
        return False
    if candidate.listing.probability > rival.listing.probability:
        return True
    verb, _, last = candidate.wording.rpartition(" ")
    if last == rival.wording and is_phrasal_verb(verb, last):
        return bool(nearer[1:].sum() >= 0)
    if candidate.count == 1:
        return False
    if 2 * candidate.count >= rival.count:
        return bool(nearer[1:].sum() >= 0)
    return bool(nearer.min() >= 0 and nearer[1:].sum() >= NEARER)


def by_words(
    candidates: Sequence[proposals.Candidate], order: Iterable[int], language: str, most: int
) -> list[list[int]]:
    """Group candidates that are forms of the same words (`are_forms`); return the first ``most`` groups of an order.

    English verb forms are one group, too: "said", "saying" and "say". Their difference matters to terms, but not here.
    Chinese wordings are compared without their word boundaries: ICU splits 图书馆, but not 圖書館.
    """
    groups: list[list[int]] = []
    by_beginning: dict[str, list[tuple[str, list[int], str]]] = {}  # forms begin alike, save for affixes
    for number in order:
        wording = _regular(candidates[number].wording, language)
        stems = _stems(wording, language)
        beginnings = {without_accents(rest)[:SYLLABLES]: None for rest in without_affixes(stems, language)}
        neighbours = chain.from_iterable(by_beginning.get(beginning, ()) for beginning in beginnings)
        related = (group for head, group, of_head in neighbours if _are_forms(head, wording, of_head, stems, language))
        group = next(related, None)
        if group is not None:
            group.append(number)
        elif len(groups) < most:
            groups.append([number])
            for beginning in beginnings:
                by_beginning.setdefault(beginning, []).append((wording, groups[-1], stems))
    return groups


def _regular(wording: str, language: str) -> str:
    """Return a folded wording; an English one with regular forms (`regular`)."""
    return regular(wording) if language == "en" else wording


def _stems(wording: str, language: str) -> str:
    return wording_of(proposals.stemmed_form(wording, language)[0], language)


def _are_forms(one: str, other: str, stems: str, other_stems: str, language: str) -> bool:
    """Whether two wordings with these stems are one answer; English ones have regular forms (`regular`)."""
    if language == "en":  # "to the station" is another answer than "station"
        alike = stems == other_stems and one.startswith("to ") == other.startswith("to ")
        return alike and are_english_inflections(one, other)
    return are_forms(one, other, stems, other_stems, language)


def _answer(
    query: CandidateSet,
    probabilities: NDArray[np.float64],
    scorer: CandidateScorer,
    forms_of: Sequence[Sequence[int]],
    hits_of: Sequence[list[Hit]],
    contexts: int,
    is_equivalent: Callable[[str], bool],
) -> Answer:
    """Build the groups of a query, and return them with the probability of the first.

    A part that is shown as a hyphenated word (`whole_words`) is one group with this word. A finite form that is shown
    as its infinitive (`whole_verb`) is one group with this. ``forms_of`` and ``hits_of`` (groups,): the candidates of
    each group, and its hits. ``is_equivalent``: tells whether an infinitive translates the query.
    """
    reasons = cache(lambda: scorer.reasons(query.features, [forms[0] for forms in forms_of]))
    groups: dict[str, Group] = {}
    for place, (forms, hits) in enumerate(zip(forms_of, hits_of, strict=True)):
        candidate = query.candidates[forms[0]]
        owners = query.owners(forms) if len(forms) > 1 else {}
        hits = whole_words([_fitted(hit, query.candidates[owners.get(hit.phrase_id, forms[0])]) for hit in hits])
        infinitive, verb_hits = whole_verb(hits, is_equivalent)
        if infinitive in groups and len(verb_hits) < len(
            hits
        ):  # the verb has a group; the finite form keeps the others
            infinitive, verb_hits = "", [hit for hit in hits if hit not in verb_hits]
        hits = verb_hits
        wording = folded(hits[0].text)
        spellings = [(hit.phrase, hit.score) for hit in hits[:SPELLINGS] if folded(hit.text) == wording]
        text = infinitive or usual_spelling(spellings)
        groups.setdefault(
            folded(text),
            Group(
                text,
                max(hit.score for hit in hits),
                _count(query, owners) if owners else candidate.count,
                tuple(hits[:contexts]),
                probability=float(probabilities[forms[0]]),
                source=candidate.listing.source,
                language=hits[0].language,
                evidence=LazyMapping(partial(_by_name, query.features[forms[0]])),
                reasons=LazyMapping(partial(_item, reasons, place)),
            ),
        )
    return tuple(groups.values()), float(max(probabilities, default=0.0))


def _count(query: CandidateSet, owners: Mapping[int, int]) -> int:
    """Count the occurrences of a group's forms; those that belong to several forms count once.

    ``owners``: as from `CandidateSet.owners`. Of a frequent form, its phrases are a sample.
    """
    shares = [(query.candidates[number], size) for number, size in Counter(owners.values()).items()]
    return sum(round(form.count * size / len(form.ids)) for form, size in shares)


def whole_words(hits: Sequence[Hit]) -> list[Hit]:
    """Put the hits that are part of a hyphenated word last; if all are part of the same word, extend them to this word.

    So "profit" that only occurs in "non-profit" is shown as "non-profit", but not if "for-profit" occurs, too.
    """
    spans = [_hyphenated(hit.phrase) for hit in hits]
    are_parts = [span != (hit.start, hit.end) for hit, span in zip(hits, spans, strict=True)]
    if all(are_parts):
        pairs = zip(hits, spans, strict=True)
        rests = {
            (folded(hit.context[start : hit.start]), folded(hit.context[hit.end : end])) for hit, (start, end) in pairs
        }
        if len(rests) == 1:
            return [replace(hit, phrase=Phrase(hit.context, *span)) for hit, span in zip(hits, spans, strict=True)]
    return [hit for _, hit in sorted(zip(are_parts, hits, strict=True), key=itemgetter(0))]


def whole_verb(hits: list[Hit], is_equivalent: Callable[[str], bool]) -> tuple[str, list[Hit]]:
    """Return the infinitive of a group that is shown as a separable verb, or "", and the hits of the group.

    It is the infinitive of more than half of the hits: "ablehnen" if most have "lehnte" before "ab". If the nearest hit
    has one, it may also be that of any hit which ``is_equivalent`` accepts. Only hits of this verb stay: "lehnte"
    without a particle means something else.
    """
    infinitives = [infinitive_of(hit.phrase, primary(hit.language)) for hit in hits]
    ranking = Counter(infinitives).most_common()
    majority = ranking[0][0] if 2 * ranking[0][1] > len(hits) else ""
    equivalents = (verb for verb, _ in ranking if verb and is_equivalent(verb)) if infinitives[0] else iter(())
    verb = next(equivalents, majority)
    return verb, [
        hit for hit, infinitive in zip(hits, infinitives, strict=True) if infinitive == verb
    ] if verb else hits


def _hyphenated(phrase: Phrase) -> tuple[int, int]:
    """Return the span of a phrase with the rest of the hyphenated words at its ends."""
    text, (start, end) = phrase.context, (phrase.start, phrase.end)
    if text[max(start - 1, 0) : start] in _HYPHENS:
        before = _BEFORE_HYPHEN.search(text, max(start - proposals.NEARBY, 0), start)
        start = before.start() if before else start
    if text[end : end + 1] in _HYPHENS:
        after = _AFTER_HYPHEN.match(text, end)
        end = after.end() if after else end
    return start, end


def _fitted(hit: Hit, candidate: proposals.Candidate) -> Hit:
    """Fit a hit to its candidate.

    It is extended by the function words before and after it that belong to the candidate, and by the last full stop of
    an abbreviation ("U.S."). It loses an elided article or preposition, unless a dictionary lists it with this:
    "d'assurance" becomes "assurance".
    """
    phrase = hit.phrase
    start, end = phrase.start, phrase.end
    if candidate.leading or candidate.trailing:
        start, end = proposals.begins_at(phrase, candidate.leading), proposals.ends_at(phrase, candidate.trailing)
    elif not (candidate.listing.verbatim and folded(hit.text) == candidate.wording):
        start += elided_article(hit.text, hit.language)
    if phrase.context[end : end + 1] == "." and _ABBREVIATION.fullmatch(phrase.context, start, end):
        end += 1
    return (
        hit if (start, end) == (phrase.start, phrase.end) else replace(hit, phrase=Phrase(phrase.context, start, end))
    )
