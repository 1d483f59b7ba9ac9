"""Candidates of a search: proposed by several means, described by one list of features.

A candidate is a wording of the index. It is proposed if one of its occurrences is near the query's vector, if a
dictionary or the lexicon gives it for the query's wording, or if it reads like the query. Inflected forms count, too.
Its features are computed from the stored vectors of its occurrences, so nothing but the query passes the encoder.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasemate.encode.candidate_scorer import FEATURES, LEAST_LOG
from phrasemate.encode.pooling import unit
from phrasemate.index.wordings import Wordings, WordingSearch
from phrasemate.lexicon import Lexicon, without_function_words
from phrasemate.text import folded, words

OCCURRENCES = 48  # of a candidate, whose vectors are looked at; more are sampled evenly
NEAR = 64  # phrases by vector whose wordings are candidates
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


class Described(NamedTuple):
    """The candidates of a query and their features, (candidates, len(FEATURES)) float32."""

    candidates: list[Candidate]
    features: Floats


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
            if equivalent.language and equivalent.language not in languages and "" not in languages:
                continue
            wordings = [folded(equivalent.text)]
            wordings += table.inflected(equivalent.text, equivalent.language or "en")
            for wording in wordings:
                if equivalent.weight > listed.get(wording, (0.0, ""))[0]:
                    listed[wording] = equivalent.weight, equivalent.source
    return listed


def gather(table: Wordings, phrase: str, near: Sequence[int], listed: dict[str, tuple[float, str]]) -> list[Candidate]:
    """The candidates of a query: wordings of the ``near`` phrase ids, the ``listed`` ones, and the phrase's own."""
    near_ids: dict[str, list[int]] = {}
    for phrase_id, wording in zip(near, table.of_phrases(near), strict=True):
        near_ids.setdefault(wording, []).append(phrase_id)
    near_ids.pop("", None)
    candidates = []
    for wording in dict.fromkeys([*near_ids, *listed, folded(phrase)]):
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
) -> list[Described]:
    """Features of the candidates of each query.

    ``vectors`` and ``alone`` (queries, dim): the queries in their sentences and by themselves. ``language``: of the
    index, for its function words; "" counts as English.
    """
    described: list[Described] = []
    for start in range(0, len(phrases), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        flat = [candidate for proposed in candidates[part] for candidate in proposed]
        ids, places = np.unique(np.concatenate([c.ids for c in flat] or [np.zeros(0, np.int64)]), return_inverse=True)
        stored = search.vectors(ids)
        bounds = np.concatenate([[0], np.cumsum([len(c.ids) for c in flat])]).astype(np.int64)
        at = 0
        for number in range(start, min(start + AT_ONCE, len(phrases))):
            proposed = candidates[number]
            pieces = [stored[places[bounds[at + i] : bounds[at + i + 1]]] for i in range(len(proposed))]
            at += len(proposed)
            described.append(_described(phrases[number], proposed, pieces, vectors[number], alone[number], language))
    return described


def _described(
    phrase: str,
    candidates: Sequence[Candidate],
    pieces: Sequence[Floats],
    vector: Floats,
    alone: Floats,
    language: str,
) -> Described:
    """``pieces``: the stored vectors of each candidate's phrases, (ids, dim)."""
    if not candidates:
        return Described([], np.zeros((0, len(FEATURES)), np.float32))
    ordered: list[Candidate] = []
    means = np.stack([piece.mean(0) for piece in pieces])
    types = unit(means)
    table = np.zeros((len(candidates), len(FEATURES)), np.float32)
    column = {name: table[:, number] for number, name in enumerate(FEATURES)}
    for number, (candidate, piece) in enumerate(zip(candidates, pieces, strict=True)):
        cosines = piece @ vector
        order = np.argsort(-cosines, kind="stable")
        ordered.append(replace(candidate, ids=candidate.ids[order], cosines=cosines[order]))
        column["context"][number] = cosines[order[0]]
        column["contexts"][number] = cosines[order[:NEAREST]].mean()
    column["type"][:] = types @ vector
    column["alone"][:] = types @ alone
    column["lead"][:] = column["context"] - column["context"].max()
    column["alone lead"][:] = column["alone"] - column["alone"].max()
    listed = np.array([candidate.probability > 0 for candidate in candidates])
    column["listed"][:] = listed
    column["probability"][:] = [_log(candidate.probability) for candidate in candidates]
    column["others listed"][:] = ~listed & listed.any()
    query, length = folded(phrase), len(words(phrase))
    for number, candidate in enumerate(candidates):
        more = len(words(candidate.wording)) - length
        column["same wording"][number] = candidate.wording == query
        column["count"][number] = math.log(candidate.count)
        column["words"][number], column["fewer words"][number] = max(more, 0), max(-more, 0)
        stripped = without_function_words(candidate.wording, language or "en")
        column["function word"][number] = stripped != candidate.wording
    return Described(ordered, table)


def _log(probability: float) -> float:
    return max(math.log(probability), LEAST_LOG) if probability > 0 else LEAST_LOG
