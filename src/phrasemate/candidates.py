"""Candidates of a search: proposed by several means, described by one list of features.

A candidate is a wording of the index. It is proposed if one of its occurrences is near the query's vector, if a
dictionary or the lexicon gives it for the query's wording, or if it reads like the query. Inflected forms count, too.
Its features are computed from the stored vectors of its occurrences, so nothing but the query passes the encoder.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasemate.encode.candidate_scorer import FEATURES, LEAST_LOG
from phrasemate.encode.pooling import unit
from phrasemate.index.wordings import Wordings, WordingSearch
from phrasemate.lexicon import Equivalent, Lexicon, stemmed, stemmed_all, without_function_words
from phrasemate.lexicon.induction import ENGLISH_FUNCTION_WORDS
from phrasemate.text import folded, words

OCCURRENCES = 48  # of a candidate, whose vectors are looked at; more are sampled evenly
NEAR = 64  # phrases by vector whose wordings are candidates
CHOICES, MOST_PARTS = 4, 5  # equivalents of each word that are combined, and words of a query
LIMIT, COMPOSED = 256, 48  # combinations that are compared, and that are looked up
NEAREST = 3  # occurrences in the feature "contexts"
AT_ONCE = 16  # queries whose occurrences are in memory together

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A wording of the index.

    ``probability``: what the dictionaries give it, 0 if none lists it. ``source``: the dictionary. ``ids``: phrases
    with this wording, a sample where they are many; `describe` puts the nearest first and adds their ``cosines`` to
    the query. ``count``: how many there are in all.
    """

    wording: str
    probability: float
    source: str
    ids: Ids
    cosines: Floats
    count: int


class Part(NamedTuple):
    """A word of a query: the stems of its equivalents, each with its probability, and whether it may be left out."""

    stems: dict[str, float]
    optional: bool


class Query(NamedTuple):
    """A phrase to look up: its vectors (dim,) in its sentence and alone, its words, and the language of the index."""

    phrase: str
    vector: Floats
    alone: Floats
    parts: Sequence[Part]
    language: str


class Described(NamedTuple):
    """The candidates of a query and their features, (candidates, len(FEATURES)) float32."""

    candidates: list[Candidate]
    features: Floats


def parts(phrase: str, lexicons: Sequence[Lexicon], languages: Sequence[str]) -> list[Part]:
    """The words of a phrase with the equivalents that dictionaries give for each; `equivalents` has the arguments.

    A word whose likeliest equivalent is an English function word is optional.
    """
    translated = []
    for start, end in words(phrase):
        stems: dict[str, float] = {}
        likeliest = ("", 0.0)
        for lexicon in lexicons:
            for equivalent in lexicon.equivalents(phrase[start:end]):
                if not _spoken(equivalent, languages):
                    continue
                if equivalent.weight > likeliest[1]:
                    likeliest = equivalent.text, equivalent.weight
                for stem in stemmed(equivalent.text, equivalent.language or "en").split():
                    stems[stem] = max(stems.get(stem, 0.0), equivalent.weight)
        translated.append(Part(stems, likeliest[0] in ENGLISH_FUNCTION_WORDS))
    return translated


def compositions(table: Wordings, query: Sequence[Part]) -> list[str]:
    """The wordings of an index that translate a phrase of several words word by word, in its order or the reverse.

    Of each word the likeliest equivalents are tried, all together at most `COMPOSED` combinations; optional words may
    be missing.
    """
    if not 2 <= len(query) <= MOST_PARTS:
        return []
    choices = []
    for part in query:
        likeliest = sorted(part.stems.items(), key=lambda item: -item[1])[:CHOICES]
        choices.append([*likeliest, *([("", 0.5)] if part.optional else [])])
    combinations = [
        (math.prod(probability for _, probability in chosen), [stem for stem, _ in chosen if stem])
        for chosen in islice(product(*choices), LIMIT)
    ]
    wordings: dict[str, None] = {}
    for _, stems in sorted(combinations, key=lambda item: -item[0])[:COMPOSED]:
        for order in (stems, stems[::-1]):
            wordings.update(dict.fromkeys(table.of_stem(" ".join(order))))
    return list(wordings)


def _spoken(equivalent: Equivalent, languages: Sequence[str]) -> bool:
    """Whether an equivalent is in one of the index's languages, as far as both are known."""
    return not equivalent.language or equivalent.language in languages or "" in languages


def equivalents(
    table: Wordings, phrase: str, lexicons: Iterable[Lexicon], languages: Sequence[str]
) -> dict[str, tuple[float, str]]:
    """The wordings of an index that dictionaries give for a phrase: wording -> probability, name of the dictionary.

    ``languages``: those of the index's documents, "" for documents without one. An equivalent stands for every wording
    with the same stems; the likeliest one counts where several meet.
    """
    listed: dict[str, tuple[float, str]] = {}
    for lexicon in lexicons:
        for equivalent in lexicon.equivalents(phrase):
            if not _spoken(equivalent, languages):
                continue
            wordings = [folded(equivalent.text)]
            wordings += table.inflected(equivalent.text, equivalent.language or "en")
            for wording in wordings:
                if equivalent.weight > listed.get(wording, (0.0, ""))[0]:
                    listed[wording] = equivalent.weight, equivalent.source
    return listed


def gather(
    table: Wordings,
    phrase: str,
    near: Sequence[int],
    listed: dict[str, tuple[float, str]],
    composed: Sequence[str] = (),
) -> list[Candidate]:
    """The candidates of a query.

    They are the wordings of the ``near`` phrase ids, the ``listed`` ones, those ``composed`` of the equivalents of the
    phrase's words, and the phrase's own.
    """
    near_ids: dict[str, list[int]] = {}
    for phrase_id, wording in zip(near, table.of_phrases(near), strict=True):
        near_ids.setdefault(wording, []).append(phrase_id)
    near_ids.pop("", None)
    candidates = []
    for wording in dict.fromkeys([*near_ids, *listed, *composed, folded(phrase)]):
        every = table.occurrences(wording)
        if not len(every):
            continue
        sample = every if len(every) <= OCCURRENCES else every[np.linspace(0, len(every) - 1, OCCURRENCES).astype(int)]
        ids = np.unique(np.concatenate([sample, np.array(near_ids.get(wording, []), np.int64)]))
        probability, source = listed.get(wording, (0.0, ""))
        candidates.append(Candidate(wording, probability, source, ids, np.zeros(0, np.float32), len(every)))
    return candidates


def restrict(candidates: Iterable[Candidate], allowed: Callable[[Ids], NDArray[np.bool_]]) -> list[Candidate]:
    """The candidates with those of their phrases that are ``allowed``; without those that have none.

    ``count`` becomes the number of allowed ones; where only a sample was looked at, their share of all.
    """
    rest = []
    for candidate in candidates:
        ids = candidate.ids[allowed(candidate.ids)]
        if len(ids):
            count = max(len(ids), round(candidate.count * len(ids) / len(candidate.ids)))
            rest.append(replace(candidate, ids=ids, count=count))
    return rest


def describe(
    search: WordingSearch,
    phrases: Sequence[str],
    candidates: Sequence[Sequence[Candidate]],
    vectors: Floats,
    alone: Floats,
    language: str,
    translated: Sequence[Sequence[Part]],
) -> list[Described]:
    """Features of the candidates of each query.

    ``vectors`` and ``alone`` (queries, dim): the queries in their sentences and by themselves. ``language``: of the
    index, for its stems and function words; "" counts as English. ``translated``: the parts of each query.
    """
    described: list[Described] = []
    for start in range(0, len(phrases), AT_ONCE):
        numbers = range(start, min(start + AT_ONCE, len(phrases)))
        ids = [candidate.ids for number in numbers for candidate in candidates[number]]
        unique, places = np.unique(np.concatenate(ids or [np.zeros(0, np.int64)]), return_inverse=True)
        stored = search.vectors(unique)
        pieces = iter(np.split(places, np.cumsum([len(some) for some in ids])[:-1])) if ids else iter(())
        for number in numbers:
            occurrences = [stored[next(pieces)] for _ in candidates[number]]
            query = Query(phrases[number], vectors[number], alone[number], translated[number], language or "en")
            described.append(_described(query, candidates[number], occurrences))
    return described


def _described(query: Query, candidates: Sequence[Candidate], occurrences: Sequence[Floats]) -> Described:
    """``occurrences``: the stored vectors of each candidate's phrases, (ids, dim)."""
    if not candidates:
        return Described([], np.zeros((0, len(FEATURES)), np.float32))
    ordered: list[Candidate] = []
    means = np.stack([stored.mean(0) for stored in occurrences])
    types = unit(means)
    table = np.zeros((len(candidates), len(FEATURES)), np.float32)
    column = {name: table[:, number] for number, name in enumerate(FEATURES)}
    for number, (candidate, stored) in enumerate(zip(candidates, occurrences, strict=True)):
        cosines = stored @ query.vector
        order = np.argsort(-cosines, kind="stable")
        ordered.append(replace(candidate, ids=candidate.ids[order], cosines=cosines[order]))
        column["context"][number] = cosines[order[0]]
        column["contexts"][number] = cosines[order[:NEAREST]].mean()
    column["type"][:] = types @ query.vector
    column["alone"][:] = types @ query.alone
    column["lead"][:] = column["context"] - column["context"].max()
    column["alone lead"][:] = column["alone"] - column["alone"].max()
    listed = np.array([candidate.probability > 0 for candidate in candidates])
    column["listed"][:] = listed
    column["probability"][:] = [_log(candidate.probability) for candidate in candidates]
    column["others listed"][:] = ~listed & listed.any()
    wording, length = folded(query.phrase), len(words(query.phrase))
    stems = stemmed_all([candidate.wording for candidate in candidates], query.language)
    for number, (candidate, stem) in enumerate(zip(candidates, stems, strict=True)):
        column["covered"][number], column["covers"][number] = _coverage(stem.split(), query.parts)
        more = len(words(candidate.wording)) - length
        column["same wording"][number] = candidate.wording == wording
        column["count"][number] = math.log(candidate.count)
        column["words"][number], column["fewer words"][number] = max(more, 0), max(-more, 0)
        stripped = without_function_words(candidate.wording, query.language)
        column["function word"][number] = stripped != candidate.wording
    return Described(ordered, table)


def _coverage(stems: Sequence[str], translated: Sequence[Part]) -> tuple[float, float]:
    """The share of a candidate's words that are equivalents of some word of the query, and the share of the query's
    words, optional ones aside, that have an equivalent among the candidate's.
    """
    every = {stem for part in translated for stem in part.stems}
    required = [part for part in translated if not part.optional] or translated
    covers = sum(not part.stems.keys().isdisjoint(stems) for part in required)
    return sum(stem in every for stem in stems) / max(len(stems), 1), covers / max(len(required), 1)


def _log(probability: float) -> float:
    return max(math.log(probability), LEAST_LOG) if probability > 0 else LEAST_LOG
