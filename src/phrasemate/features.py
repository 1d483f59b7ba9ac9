"""Compute the features of candidate translations that a scorer ranks them by, from stored vectors and dictionaries."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from phrasemate.candidates import Candidate, QueryWords, content_stems, stemmed_form
from phrasemate.encode.scoring import FEATURES, LEAST_LOG
from phrasemate.index.wordings import WordingSearch, joined
from phrasemate.lexicon import SensesThroughEnglish, SenseVectors, bundled_collocates
from phrasemate.lexicon.induced import NAME
from phrasemate.text import folded
from phrasemate.utils.arrays import Flags, Floats, Ids

NEAREST = 3  # occurrences in the feature "contexts"
POWER = 3  # of the share of an equivalent that a candidate has: "room" counts as an eighth of "living room"
AT_ONCE = 16  # queries whose candidates' vectors are in memory together
_COMPARED = ("context", "contexts", "type", "probability", "collocates")  # features compared among listed candidates
_LISTED_COLUMNS = np.array([FEATURES.index(f"listed {name}") for name in (*_COMPARED, "shift")])


class Query(NamedTuple):
    """A phrase to look up.

    ``vector`` and ``alone`` (dim,): with and without its sentence. ``language``: of the index.
    """

    phrase: str
    vector: Floats
    alone: Floats
    words: QueryWords
    language: str


class CandidateSet(NamedTuple):
    """The candidates of a query and their features, (candidates, len(FEATURES)) float32.

    ``ids`` and ``cosines`` (phrases,) concatenate the phrases of all candidates and their cosines with the query,
    sorted by cosine within a candidate, highest first. Candidate i has the slice ``bounds[i]:bounds[i + 1]``. ``same``:
    number of the candidate that is identical to the query and must be right, else -1.
    """

    candidates: list[Candidate]
    features: Floats
    ids: Ids
    cosines: Floats
    bounds: Ids
    same: int = -1

    def nearest(self, numbers: Sequence[int]) -> tuple[Ids, Floats]:
        """Return the phrase ids and cosines of some candidates, concatenated; nearest first within a candidate."""
        slices = [self._slice(number) for number in numbers]
        return joined([self.ids[part] for part in slices]), np.concatenate([self.cosines[part] for part in slices])

    def owners(self, numbers: Sequence[int]) -> dict[int, int]:
        """Map the phrase ids of some candidates to the numbers of their candidates; of several, to the first one."""
        return {phrase: number for number in reversed(numbers) for phrase in self.ids[self._slice(number)].tolist()}

    def _slice(self, number: int) -> slice:
        """Return the slice of a candidate in `ids` and `cosines`."""
        return slice(*self.bounds[number : number + 2].tolist())


def describe(
    search: WordingSearch,
    phrases: Sequence[str],
    candidates: Sequence[Sequence[Candidate]],
    vectors: Floats,
    alone: Floats,
    language: str,
    query_words: Sequence[QueryWords],
) -> list[CandidateSet]:
    """Compute the features of the candidates of each query.

    Args:
        search: Wordings of the index and the vectors of its phrases.
        phrases: Texts of the queries.
        candidates: Candidates of each query.
        vectors: Vectors of the queries in their sentences, (queries, dim) of unit length.
        alone: Vectors of the queries without their sentences, (queries, dim) of unit length.
        language: Language of the index, for stems and function words; "" counts as English.
        query_words: Dictionary knowledge of each query.
    """
    descriptions: list[CandidateSet] = []
    for start in range(0, len(phrases), AT_ONCE):
        numbers = range(start, min(start + AT_ONCE, len(phrases)))
        ids = [joined([candidate.ids for candidate in candidates[number]]) for number in numbers]
        unique, places = np.unique(joined(ids), return_inverse=True)
        vectors_of_phrases = search.vectors(unique)
        ends = np.cumsum([len(owners) for owners in ids])
        for number, phrase_ids, rows in zip(numbers, ids, np.split(places, ends[:-1]), strict=True):
            with_and_alone = vectors[number], alone[number]
            query = Query(phrases[number], *with_and_alone, query_words[number], language or "en")
            descriptions.append(_described(query, candidates[number], phrase_ids, vectors_of_phrases[rows]))
    return descriptions


def _described(query: Query, candidates: Sequence[Candidate], ids: Ids, stored: Floats) -> CandidateSet:
    """Compute the features of the candidates of one query.

    ``ids`` (phrases,) and ``stored`` (phrases, dim): the phrases of all candidates, concatenated, and their vectors.
    """
    bounds = np.cumsum([0, *(len(candidate.ids) for candidate in candidates)], dtype=np.int64)
    table = np.zeros((len(candidates), len(FEATURES)), np.float32)
    if not candidates:
        return CandidateSet([], table, ids, np.zeros(0, np.float32), bounds)
    column = {name: table[:, number] for number, name in enumerate(FEATURES)}
    cosines = stored @ np.stack([query.vector, query.alone], 1)  # (phrases, 2)
    order = np.lexsort((-cosines[:, 0], np.repeat(np.arange(len(candidates)), np.diff(bounds))))
    _fill_meaning(column, stored, cosines, cosines[order, 0], bounds)
    is_listed = _fill_listings(column, candidates)
    collocates = bundled_collocates() if query.language == "en" and query.words.surroundings else None
    if collocates is not None:
        stems_of = [content_stems(candidate.wording) for candidate in candidates]
        column["collocates"][:] = collocates.associations(stems_of, query.words.surroundings)
    if query.words.senses is not None:
        column["sense"][:] = _nearness_of_senses(query, query.words.senses, candidates)
    if is_listed.any():
        shift = column["type"] - column["alone"]
        values = np.column_stack([*(column[name] for name in _COMPARED), shift])[is_listed]
        table[np.ix_(is_listed, _LISTED_COLUMNS)] = values - values.max(axis=0)
    _fill_words(column, query, candidates)
    wording = folded(query.phrase)
    is_same = np.array([candidate.wording == wording for candidate in candidates])
    column["same wording"][:] = is_same & ~is_listed
    column["no lexicon"][:] = query.words.no_lexicon
    must_be_right = is_same.any() and query.words.stands_for_itself and not _has_translation(column, query, candidates)
    same_row = int(is_same.argmax()) if must_be_right else -1
    return CandidateSet(list(candidates), table, ids[order], cosines[order, 0], bounds, same_row)


def _has_translation(column: Mapping[str, Floats], query: Query, candidates: Sequence[Candidate]) -> bool:
    """Whether a candidate translates the query word by word by other words: "collective agreement" for "convention
    collective".
    """
    stems = stemmed_form(folded(query.phrase), query.language)[0]
    numbers = column["word by word"].nonzero()[0].tolist()
    return any(stemmed_form(candidates[number].wording, query.language)[0] != stems for number in numbers)


def _fill_meaning(
    column: Mapping[str, Floats], stored: Floats, cosines: Floats, descending: Floats, bounds: Ids
) -> None:
    """Fill in the features that are computed from vectors.

    ``stored`` (phrases, dim) and ``cosines`` (phrases, 2): candidate i has the rows ``bounds[i]:bounds[i + 1]``.
    ``descending`` (phrases,): the first column of the cosines, sorted within each candidate, highest first.
    """
    sizes, firsts = np.diff(bounds), bounds[:-1]
    lengths = np.linalg.norm(np.add.reduceat(stored, firsts), axis=1)  # of the sums, (candidates,)
    types = np.add.reduceat(cosines, firsts) / np.maximum(lengths, 1e-9)[:, None]
    running_sums = np.concatenate([[0.0], np.cumsum(descending, dtype=np.float64)])
    near = np.minimum(sizes, NEAREST)
    column["context"][:] = descending[firsts]
    column["contexts"][:] = (running_sums[firsts + near] - running_sums[firsts]) / near
    column["type"][:], column["alone"][:] = types.T
    column["alike"][:] = lengths / sizes
    column["lead"][:] = column["context"] - column["context"].max()
    column["alone lead"][:] = column["alone"] - column["alone"].max()


def _nearness_of_senses(
    query: Query, senses: SenseVectors | SensesThroughEnglish, candidates: Sequence[Candidate]
) -> Floats:
    """Compute (candidates,) how near the query is to the sense of each candidate, minus the highest of all.

    A candidate without a sense vector is as near as the farthest other, or as the nearest if a user's dictionary lists
    it. If all lack one, all have 0.
    """
    translations = [candidate.wording for candidate in candidates]
    nearness = senses.nearness(query.phrase, query.words.language, translations, query.vector, query.language)
    is_unknown = np.isnan(nearness)
    if is_unknown.all():
        return np.zeros(len(candidates), np.float32)
    farthest, nearest = nearness[~is_unknown].min(), nearness[~is_unknown].max()
    of_user = np.array([candidate.listing.source not in ("", NAME) for candidate in candidates])
    return np.asarray(np.where(is_unknown, np.where(of_user, nearest, farthest), nearness) - nearest)


def _fill_listings(column: Mapping[str, Floats], candidates: Sequence[Candidate]) -> Flags:
    """Fill in the features of dictionary entries and frequency; return (candidates,) whether each has an entry."""
    listings = [candidate.listing for candidate in candidates]
    is_listed = np.array([listing.probability > 0 for listing in listings])
    column["listed"][:] = is_listed
    column["probability"][:] = [_log(listing.probability) for listing in listings]
    column["exact"][:] = [listing.exact for listing in listings]
    column["verbatim"][:] = [listing.verbatim for listing in listings]
    column["others listed"][:] = ~is_listed if is_listed.any() else 0
    column["count"][:] = np.log([candidate.count for candidate in candidates])
    return is_listed


def _fill_words(column: Mapping[str, Floats], query: Query, candidates: Sequence[Candidate]) -> None:
    """Fill in the features that compare the words of the candidates with those of the query."""
    query_parts, length = query.words.parts, len(query.words.parts)  # a compound is as long as its parts
    query_stems = {stem for part in query_parts for stems in part.equivalents for stem in stems}
    required_parts = [part.equivalents for part in query_parts if not part.optional]
    optional = [part.equivalents for part in query_parts if part.optional] if required_parts else []
    required_parts = required_parts or [part.equivalents for part in query_parts]
    forms = [stemmed_form(candidate.core or candidate.wording, query.language) for candidate in candidates]
    lengths = np.array([count for _, count, _ in forms])
    common = [[stem for stem in stems if stem in query_stems] for stems, _, _ in forms]
    column["composed"][:] = LEAST_LOG if required_parts else 0
    column["covers function words"][:] = not optional
    for number, stems in enumerate(common):
        if stems:  # of most candidates, the query has no word
            present = set(stems)
            translations = [_translation(part, present) for part in required_parts]
            column["covered"][number] = len(stems) / len(forms[number][0])
            column["covers"][number] = sum([share for share, _ in translations]) / len(required_parts)
            column["composed"][number] = sum([_log(probability) for _, probability in translations]) / len(
                required_parts
            )
            if optional:
                shares = [_translation(part, present)[0] for part in optional]
                column["covers function words"][number] = sum(shares) / len(optional)
    column["word by word"][:] = (column["covered"] == 1) & (column["covers"] == 1) & (length > 1)
    column["words"][:] = np.maximum(lengths - length, 0)
    column["fewer words"][:] = np.maximum(length - lengths, 0)
    column["function word"][:] = [function_word for _, _, function_word in forms]


def _translation(equivalents: Mapping[tuple[str, ...], float], stems: set[str]) -> tuple[float, float]:
    """Return how far a candidate with some stems translates a word with these equivalents.

    They are the highest share of an equivalent's stems that the candidate has, to the power of `POWER`, and the highest
    product of this and the equivalent's probability.
    """
    shares = [
        ((len(stems.intersection(form)) / len(form)) ** POWER, probability) for form, probability in equivalents.items()
    ]
    return max([share for share, _ in shares]), max([share * probability for share, probability in shares])


def _log(probability: float) -> float:
    return max(math.log(probability), LEAST_LOG) if probability > 0 else LEAST_LOG
