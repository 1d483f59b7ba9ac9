"""Candidates of a search: proposed by several means, described by one list of features.

A candidate is a wording of the index. One way to propose it is an occurrence near the query's vector. A dictionary or
the lexicon may give it for the query's wording, or it reads like the query. Inflected forms count, too. Its features
are computed from the stored vectors of its occurrences, so nothing but the query passes the encoder.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, KeysView, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasemate.encode.scoring import FEATURES, LEAST_LOG
from phrasemate.index.wordings import Wordings, WordingSearch, joined
from phrasemate.lexicon import Equivalent, InducedLexicon, Lexicon, bundled_collocates, stemmed
from phrasemate.lexicon.induced import grammatical_words
from phrasemate.lexicon.inflection import ARTICLES, ENGLISH_FUNCTION_WORDS, content_words, same_words, stem
from phrasemate.lexicon.locutions import locutions
from phrasemate.text import folded, words
from phrasemate.text.languages import primary
from phrasemate.types import Phrase
from phrasemate.utils.arrays import Doubles, Flags, Floats, Ids

OCCURRENCES = 24  # of a candidate, whose vectors are looked at; more are sampled evenly
_STEPS = np.arange(OCCURRENCES)
NEAR = 40  # phrases by vector whose wordings are candidates
ALONE = 0.4  # weight of the phrase without its sentence in the vector to which they are near
CHOICES, MOST_PARTS = 4, 5  # equivalents of each word that are combined, and words of a query
COMPOSED = 48  # combinations of equivalents that are looked up
NEAREST = 3  # occurrences in the feature "contexts"
UNKNOWN = 0.5  # probability that a word without equivalents stands for itself
UNCOUNTED = 0.4  # weight of an equivalent in a dictionary, at least, where the induced lexicon does not list the word
SMALLEST = 0.01  # weight where the lexicon leaves nothing open
SAME = 0.95  # probability of a wording that reads like the query, if nothing else can be right
LACKING = 4  # listed wordings that are looked for around their parts
LONGEST = 8  # words of such a wording
AROUND = 64  # occurrences of a part that are read for this, at most twice as many
READ = 16  # sentences that tell whether a word mostly stands in a fixed expression
PRECEDED = 8  # translations of the rest of a query that begins with a function word
SURROUNDINGS = 32  # words around a phrase whose equivalents tell its sense
SHORTEST = 4  # characters of a part of a compound
LINKING = {  # letters that may stand between the parts of a compound, in languages that write these as one word
    "da": ("s", "e"),
    "de": ("s", "es", "n", "en", "er", "e"),
    "et": (),
    "fi": ("n",),
    "hu": (),
    "nl": ("s", "en", "e"),
    "no": ("s", "e"),
    "sv": ("s",),
}
_NOT_LATIN = frozenset(["ar", "bg", "el", "fa", "he", "hi", "ja", "ko", "ru", "uk", "zh"])  # in other scripts
_BEFORE, _AFTER = re.compile(r"^\W+"), re.compile(r"\W+$")
AT_ONCE = 16  # queries whose occurrences are in memory together


_COMPARED = ("context", "contexts", "type", "probability", "collocates")  # features compared among the listed ones
_LISTED_COLUMNS = np.array([FEATURES.index(f"listed {name}") for name in (*_COMPARED, "shift")])


class Listing(NamedTuple):
    """A candidate in the dictionaries: its probability, and the dictionary that gives it; 0 and "" if none does.

    ``exact``: the dictionary lists the query, and not only other forms of its words. ``verbatim``: it gives this very
    wording, and not only another form of it.
    """

    probability: float = 0.0
    source: str = ""
    exact: bool = False
    verbatim: bool = False


UNLISTED = Listing()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A wording of the index.

    ``listing``: what dictionaries say of it. ``ids``: phrases with this wording, a sample where they are many.
    ``count``: how many there are in all. ``leading`` and ``trailing``: how many function words of the wording
    stand directly before and after each phrase of ``ids`` and are not part of it. ``core``: the word of a fixed
    expression that is compared with the query's; "" for the whole wording.
    """

    wording: str
    listing: Listing
    ids: Ids
    count: int
    leading: int = 0
    trailing: int = 0
    core: str = ""


class Part(NamedTuple):
    """A word of a query: the stems of its equivalents, each with its probability, and whether it may be left out."""

    stems: dict[str, float]
    optional: bool


class Wording(NamedTuple):
    """Dictionary knowledge of a query: its words, and the stems of equivalents of the words around it, weighted.

    ``no_lexicon``: 0 if a lexicon has the languages of the query and the index, 1 if none has.
    ``stands_for_itself``: whether the same wording in the index can be nothing but right (`stands_for_itself`).
    """

    parts: Sequence[Part]
    surroundings: Mapping[str, float]
    no_lexicon: float = 0.0
    stands_for_itself: bool = False


class Query(NamedTuple):
    """A phrase to look up: its vectors (dim,) in its sentence and alone, its wording, and the language of the index."""

    phrase: str
    vector: Floats
    alone: Floats
    wording: Wording
    language: str


class CandidateSet(NamedTuple):
    """The candidates of a query and their features, (candidates, len(FEATURES)) float32.

    ``ids`` and ``cosines`` (phrases,): the phrases of all candidates, one candidate's after the other's, and their
    cosines with the query, the nearest of each candidate first. ``bounds`` (candidates + 1,): where those of each
    begin. ``same``: the candidate that reads like the query, if nothing else can be right; else -1.
    """

    candidates: list[Candidate]
    features: Floats
    ids: Ids
    cosines: Floats
    bounds: Ids
    same: int = -1

    def nearest(self, numbers: Sequence[int]) -> tuple[Ids, Floats]:
        """The phrases of candidates, one's after the other's, and their cosines with the query, nearest first."""
        slices = [slice(*self.bounds[number : number + 2].tolist()) for number in numbers]
        return joined([self.ids[part] for part in slices]), np.concatenate([self.cosines[part] for part in slices])


class Dictionaries:
    """Lexicons as one: the equivalents in the languages of an index; each wording is looked up once.

    ``languages``: those of the index's documents, "" for documents without one.
    """

    def __init__(self, lexicons: Sequence[Lexicon], languages: Sequence[str]) -> None:
        self.lexicons, self.languages = lexicons, languages
        self._targets = [""] if "" in languages else languages
        self._looked_up: dict[tuple[str, str], list[Equivalent]] = {}
        induced = [lexicon for lexicon in lexicons if isinstance(lexicon, InducedLexicon)]
        sets = [{"", "en", *lexicon.languages} for lexicon in induced]
        self._languages_of_lexicons = [names for names in sets if not names.isdisjoint(languages)]

    def equivalents(self, wording: str, language: str = "") -> list[Equivalent]:
        """List the lexicons' equivalents of a wording in its language, else in any."""
        key = wording, language
        if key not in self._looked_up:
            self._looked_up[key] = self._in(wording, language) or (self._in(wording, "") if language else [])
        return self._looked_up[key]

    def knows(self, form: str, language: str) -> bool:
        """Whether an induced lexicon lists this very form."""
        return any(lexicon.knows(form, language) for lexicon in self.lexicons if isinstance(lexicon, InducedLexicon))

    def has_lexicon(self, language: str) -> bool:
        """Whether an induced lexicon has a language and one of the index; "" may be any language."""
        return any(primary(language) in languages for languages in self._languages_of_lexicons)

    def _in(self, wording: str, language: str) -> list[Equivalent]:
        """Equivalents of a wording of one language, or of any (""): those of dictionary files, then the others.

        Where one lexicon lists the wording itself, what others give for other forms of its words is left out.
        """
        by_lexicon = [self._fitting(lexicon, wording, language) for lexicon in self.lexicons]
        if any(equivalent.exact for equivalents in by_lexicon for equivalent in equivalents):
            by_lexicon = [[equivalent for equivalent in row if equivalent.exact] for row in by_lexicon]
        file_flags = [getattr(lexicon, "has_ranks", False) for lexicon in self.lexicons]
        rows = list(zip(file_flags, by_lexicon, strict=True))
        probable = [equivalent for is_file, row in rows if not is_file for equivalent in row]
        return [*chain.from_iterable(weighed(row, probable) for is_file, row in rows if is_file), *probable]

    def _fitting(self, lexicon: Lexicon, wording: str, language: str) -> list[Equivalent]:
        """The equivalents that one lexicon gives in the languages of the index, each once."""
        equivalents = chain.from_iterable(lexicon.equivalents(wording, language, target) for target in self._targets)
        return list(
            dict.fromkeys(
                equivalent
                for equivalent in equivalents
                if not equivalent.language or primary(equivalent.language) in self.languages or "" in self.languages
            )
        )


def weighed(listed: Sequence[Equivalent], probable: Sequence[Equivalent]) -> list[Equivalent]:
    """The equivalents of a dictionary file, with weights that fit beside the probabilities of a lexicon.

    The order of a file hardly tells what is usual. Where the lexicon lists the wording, too, several equivalents share
    the probability that it leaves open, each beside its own. A single one keeps its weight, as in a term base. Where
    the lexicon does not list the wording, an equivalent weighs at least `UNCOUNTED`.

    Args:
        listed: Equivalents that the file gives for a wording.
        probable: Equivalents of the lexicon for the same wording; their weights are probabilities.
    """
    probabilities = {folded(equivalent.text): equivalent.weight for equivalent in probable}
    if not probabilities:
        return [equivalent._replace(weight=max(equivalent.weight, UNCOUNTED)) for equivalent in listed]
    if len(listed) == 1:
        return [*listed]
    open_share = max(1 - sum(probabilities.values()), 0.0)
    weights = [
        probabilities.get(folded(equivalent.text), 0.0) + open_share * equivalent.weight for equivalent in listed
    ]
    pairs = zip(listed, weights, strict=True)
    return [equivalent._replace(weight=min(max(weight, SMALLEST), 1.0)) for equivalent, weight in pairs]


def parts(phrase: str, dictionaries: Dictionaries, language: str = "") -> list[Part]:
    """The words of a phrase with the equivalents that dictionaries give for each.

    ``language``: of the phrase, "" if unknown. A word whose likeliest equivalent is an English function word is
    optional. A compound that no dictionary knows counts as its parts. Another such word, such as a name, stands for
    itself.
    """
    translations = []
    for word in [piece for start, end in words(phrase) for piece in _pieces(phrase[start:end], dictionaries, language)]:
        stems: dict[str, float] = {}
        entries = dictionaries.equivalents(word, language)
        for equivalent in entries:
            for form in stemmed(equivalent.text, equivalent.language or "en").split():
                stems[form] = max(stems.get(form, 0.0), equivalent.weight)
        likeliest = max(entries, key=attrgetter("weight")).text if entries else ""
        translations.append(Part(stems or {stemmed(word, "en"): UNKNOWN}, likeliest in ENGLISH_FUNCTION_WORDS))
    return translations


def _pieces(word: str, dictionaries: Dictionaries, language: str) -> list[str]:
    """The parts of a compound that dictionaries do not know as a whole, or the word."""
    if language not in LINKING or len(word) < 2 * SHORTEST or dictionaries.equivalents(word, language):
        return [word]
    return compound(folded(word), lambda form: dictionaries.knows(form, language), LINKING[language]) or [word]


def compound(word: str, knows: Callable[[str], bool], linking: Sequence[str]) -> list[str]:
    """The parts of a compound that are known: "haus", "tür", "schlüssel"; none if it cannot be cut so.

    The last part is the longest one that is known. ``linking``: what may stand between two parts.
    """
    for at in range(SHORTEST, len(word) - SHORTEST + 1):
        if not knows(word[at:]):
            continue
        for link in ("", *linking):
            first = word[: at - len(link)]
            if len(first) >= SHORTEST and word[:at].endswith(link):
                parts_before = [first] if knows(first) else compound(first, knows, linking)
                if parts_before:
                    return [*parts_before, word[at:]]
    return []


def surroundings(phrase: Phrase, lexicon: InducedLexicon, language: str) -> dict[str, float]:
    """The English stems of the words around a phrase, each with the sum of its probabilities.

    Of the sentence's words, the `SURROUNDINGS` nearest ones count, with the equivalents that the lexicon gives for
    these forms. An English word stands for itself. ``language``: of the sentence.
    """
    text = phrase.context
    around = [(start, end) for start, end in words(text) if end <= phrase.start or start >= phrase.end]
    around.sort(key=lambda span: max(phrase.start - span[1], span[0] - phrase.end))
    stems: dict[str, float] = {}
    for start, end in around[:SURROUNDINGS]:
        word = folded(text[start:end])
        likeliest: dict[str, float] = {}
        for wording, weight in ((word, 1.0),) if language == "en" else lexicon.into_english(word, language):
            for form in _content_stems(wording):
                likeliest[form] = max(likeliest.get(form, 0.0), weight)
        for form, weight in likeliest.items():
            stems[form] = stems.get(form, 0.0) + weight
    return stems


@lru_cache(1 << 16)
def _content_stems(wording: str) -> tuple[str, ...]:
    """The stems of an English wording's words that are not function words."""
    content = " ".join([word for word in wording.split() if word not in ENGLISH_FUNCTION_WORDS])
    return tuple([stem(word, "en") for word in content_words(content, "en")])


def compositions(table: Wordings, query: Sequence[Part]) -> list[str]:
    """The wordings of an index that translate a phrase of several words word by word, in its order or the reverse.

    Of each word the likeliest equivalents are tried, all together at most `COMPOSED` combinations; optional words may
    be missing.
    """
    if not 2 <= len(query) <= MOST_PARTS:
        return []
    combinations: list[tuple[float, list[str]]] = [(1.0, [])]
    for part in query:
        likeliest = sorted(part.stems.items(), key=lambda item: -item[1])[:CHOICES]
        choices = [*likeliest, *([("", 0.5)] if part.optional else [])]
        extensions = [
            (probability * factor, [*stems, stem] if stem else stems)
            for probability, stems in combinations
            for stem, factor in choices
        ]
        # the likeliest of all begin with the likeliest of the words so far
        combinations = sorted(extensions, key=lambda item: -item[0])[:COMPOSED]
    orders = [" ".join(order) for _, stems in combinations for order in (stems, stems[::-1])]
    return list(dict.fromkeys(chain(*table.of_stems(orders))))


def equivalents(table: Wordings, phrase: str, dictionaries: Dictionaries, language: str = "") -> dict[str, Listing]:
    """The wordings of an index that dictionaries give for a phrase.

    ``language``: of the phrase, "" if unknown. An equivalent stands for every wording with the same stems; the
    likeliest one counts where several meet.
    """
    listings: dict[str, Listing] = {}
    listed = dictionaries.equivalents(phrase, language)
    inflected = table.of_stems([stemmed(equivalent.text, equivalent.language or "en") for equivalent in listed])
    for equivalent, forms in zip(listed, inflected, strict=True):
        text = folded(equivalent.text)
        for wording in (text, *forms):
            listing = listings.get(wording, UNLISTED)
            best = (equivalent.weight, equivalent.source) if equivalent.weight > listing.probability else listing[:2]
            listings[wording] = Listing(*best, listing.exact or equivalent.exact, listing.verbatim or wording == text)
    return listings


def gather(
    table: Wordings,
    phrase: str,
    near: Sequence[int],
    listed: Mapping[str, Listing],
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
    wordings = list(dict.fromkeys([*near_ids, *listed, *composed, folded(phrase)]))
    for wording, every in zip(wordings, table.occurrences(wordings), strict=True):
        if not len(every) or not is_whole(wording):
            continue
        ids = every
        if len(every) > OCCURRENCES:
            ids = every[_STEPS * (len(every) - 1) // (OCCURRENCES - 1)]
            if wording in near_ids:
                ids = np.array(sorted({*ids.tolist(), *near_ids[wording]}), np.int64)
        candidates.append(Candidate(wording, listed.get(wording, UNLISTED), ids, len(every)))
    return candidates


def is_whole(wording: str) -> bool:
    """Whether every bracket of a wording has its partner there: "language(s" is a piece of something."""
    return wording.count("(") == wording.count(")") and wording.count("[") == wording.count("]")


def extended(
    table: Wordings, listed: Mapping[str, Listing], phrases_of: Callable[[Ids], Sequence[Phrase]]
) -> list[Candidate]:
    """Listed wordings of several words that the index has only in part: "for sale", "with his friends".

    A part has a content word. Those of its occurrences count that have the other words beside them; of several parts,
    the one with the most such occurrences. ``phrases_of``: the phrases of ids in their sentences.
    """
    phrases = [wording for wording in listed if 1 <= wording.count(" ") < LONGEST]
    absentees = [name for name, ids in zip(phrases, table.occurrences(phrases), strict=True) if not len(ids)]
    candidates = []
    for wording in sorted(absentees, key=lambda wording: -listed[wording].probability)[:LACKING]:
        spans = _content_spans(wording.split())
        stretches = [wording.split()[first:last] for first, last in spans]
        extensions = []
        for (first, last), every in zip(spans, table.occurrences([*map(" ".join, stretches)]), strict=True):
            leading, trailing = first, wording.count(" ") + 1 - last
            sample = every[:: max(1, len(every) // AROUND)]
            whole = [_stands_in(phrase, wording, leading, trailing) for phrase in phrases_of(sample)]
            if any(whole):
                count = round(len(every) * sum(whole) / len(sample))
                ids = sample[np.array(whole, bool)][:OCCURRENCES]
                extensions.append(Candidate(wording, listed[wording], ids, count, leading, trailing))
        if extensions:
            candidates.append(max(extensions, key=attrgetter("count")))
    return candidates


def _content_spans(parts_of_wording: Sequence[str]) -> list[tuple[int, int]]:
    """The shorter stretches of the words of a wording that have a content word: the first and behind the last one."""
    length = len(parts_of_wording)
    return [
        (first, last)
        for first in range(length)
        for last in range(first + 1, length + 1)
        if last - first < length and not ENGLISH_FUNCTION_WORDS.issuperset(parts_of_wording[first:last])
    ]


def preceded(table: Wordings, query: Sequence[Part], phrases_of: Callable[[Ids], Sequence[Phrase]]) -> list[Candidate]:
    """Candidates for a query that begins with a function word: "in the autumn" for "im Herbst".

    They are translations of the other words, where the index has them behind an equivalent of the function word, with
    or without an article between. ``phrases_of`` as in `extended`.
    """
    if len(query) < 2 or not query[0].optional:
        return []
    candidates = []
    translations = _translations(table, query[1:])[:PRECEDED]
    for rest, every in zip(translations, table.occurrences(translations), strict=True):
        sample = every[:: max(1, len(every) // READ)]
        groups: dict[str, list[int]] = {}
        for number, phrase in enumerate(phrases_of(sample)):
            before = folded(phrase.context[: phrase.start]).split()[-2:]
            leading = before[-1:] if before and before[-1] not in ARTICLES else before
            word = leading[0] if leading else ""
            if word in ENGLISH_FUNCTION_WORDS - ARTICLES and stemmed(word, "en") in query[0].stems:
                groups.setdefault(" ".join([*leading, rest]), []).append(number)
        for wording, numbers in groups.items():
            count = round(len(every) * len(numbers) / len(sample))
            more = wording.count(" ") - rest.count(" ")
            candidates.append(Candidate(wording, UNLISTED, sample[numbers], count, more))
    return candidates


def _translations(table: Wordings, query: Sequence[Part]) -> list[str]:
    """The wordings of an index that translate the words of a query, the likeliest first."""
    if len(query) > 1:
        return compositions(table, query)
    likeliest = sorted(query[0].stems.items(), key=lambda item: -item[1])[:CHOICES]
    return list(chain(*table.of_stems([stem for stem, _ in likeliest])))


def in_expressions(
    candidates: Iterable[Candidate], language: str, phrases_of: Callable[[Ids], Sequence[Phrase]]
) -> list[Candidate]:
    """The candidates, and for a word that mostly stands in a fixed expression that expression: "in spite of".

    The word stays with its other phrases, if it has some. ``language``: of the index. ``phrases_of`` as in `extended`.
    """
    known_expressions = _expressions(language)
    chosen: dict[str, Candidate] = {}
    for candidate in candidates:
        for one in _parted(candidate, known_expressions.get(candidate.wording, ()), phrases_of):
            chosen.setdefault(one.wording, one)
    return list(chosen.values())


def _parted(
    word: Candidate, expressions: Sequence[tuple[str, int, int]], phrases_of: Callable[[Ids], Sequence[Phrase]]
) -> list[Candidate]:
    """A word as it is, or the expression that it mostly stands in and the word elsewhere."""
    if not expressions:
        return [word]
    sample = phrases_of(word.ids[:: max(1, len(word.ids) // READ)])
    for wording, leading, trailing in expressions:
        if 2 * sum(_stands_in(phrase, wording, leading, trailing) for phrase in sample) >= len(sample):
            whole = np.array([_stands_in(p, wording, leading, trailing) for p in phrases_of(word.ids)], bool)
            both = (wording, whole, leading, trailing, word.wording), (word.wording, ~whole, 0, 0, "")
            return [
                replace(
                    word,
                    wording=name,
                    ids=word.ids[mask],
                    count=max(1, round(word.count * float(mask.mean()))),
                    leading=before,
                    trailing=after,
                    core=core,
                )
                for name, mask, before, after, core in both
                if mask.any()
            ]
    return [word]


def _stands_in(phrase: Phrase, expression: str, leading: int, trailing: int) -> bool:
    """Whether a phrase is that word of an expression with so many words before and after it."""
    return folded(phrase.context[begins_at(phrase, leading) : ends_at(phrase, trailing)]) == expression


@lru_cache(8)
def _expressions(language: str) -> dict[str, list[tuple[str, int, int]]]:
    """Words of a language that are content -> fixed expressions of such a word and function words.

    Each has its wording and how many function words stand before and after the word.
    """
    expressions: dict[str, list[tuple[str, int, int]]] = {}
    grammatical = grammatical_words(language)
    for wording in sorted(locutions(language), key=lambda wording: -len(wording)):
        parts_of_wording = wording.split()
        content = [place for place, word in enumerate(parts_of_wording) if word not in grammatical]
        if len(content) == 1:
            (place,) = content
            around = place, len(parts_of_wording) - 1 - place
            expressions.setdefault(parts_of_wording[place], []).append((wording, *around))
    return expressions


def ends_at(phrase: Phrase, trailing: int) -> int:
    """Where a phrase ends in its sentence with so many words more after it, without the signs after the last one."""
    at = phrase.end
    for word in phrase.context[phrase.end :].split()[:trailing]:
        at = phrase.context.index(word, at) + len(word)
    return phrase.end + len(_AFTER.sub("", phrase.context[phrase.end : at]))


def begins_at(phrase: Phrase, leading: int) -> int:
    """Find where a phrase begins in its sentence with so many words more before it, without the signs before them."""
    before = phrase.context[: phrase.start].split()
    rest = phrase.context[: phrase.start]
    for word in before[len(before) - min(leading, len(before)) :][::-1]:
        rest = rest[: rest.rindex(word)]
    return phrase.start - len(_BEFORE.sub("", phrase.context[len(rest) : phrase.start]))


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
    wordings: Sequence[Wording],
) -> list[CandidateSet]:
    """Features of the candidates of each query.

    ``vectors`` and ``alone`` (queries, dim): the queries in their sentences and by themselves. ``language``: of the
    index, for its stems and function words; "" counts as English. ``wordings``: of each query.
    """
    descriptions: list[CandidateSet] = []
    for start in range(0, len(phrases), AT_ONCE):
        numbers = range(start, min(start + AT_ONCE, len(phrases)))
        ids = [joined([candidate.ids for candidate in candidates[number]]) for number in numbers]
        unique, places = np.unique(joined(ids), return_inverse=True)
        vectors_of_phrases = search.vectors(unique)
        ends = np.cumsum([len(owners) for owners in ids])
        for number, phrase_ids, rows in zip(numbers, ids, np.split(places, ends[:-1]), strict=True):
            query = Query(phrases[number], vectors[number], alone[number], wordings[number], language or "en")
            descriptions.append(_described(query, candidates[number], phrase_ids, vectors_of_phrases[rows]))
    return descriptions


def _described(query: Query, candidates: Sequence[Candidate], ids: Ids, stored: Floats) -> CandidateSet:
    """``ids`` (phrases,) and ``stored`` (phrases, dim): of all candidates, one after the other, and their vectors."""
    bounds = np.cumsum([0, *(len(candidate.ids) for candidate in candidates)], dtype=np.int64)
    table = np.zeros((len(candidates), len(FEATURES)), np.float32)
    if not candidates:
        return CandidateSet([], table, ids, np.zeros(0, np.float32), bounds)
    column = {name: table[:, number] for number, name in enumerate(FEATURES)}
    cosines = stored @ np.stack([query.vector, query.alone], 1)  # (phrases, 2)
    order = np.lexsort((-cosines[:, 0], np.repeat(np.arange(len(candidates)), np.diff(bounds))))
    _fill_meaning(column, stored, cosines, cosines[order, 0], bounds)
    is_listed = _fill_listings(column, candidates)
    collocates = bundled_collocates() if query.language == "en" and query.wording.surroundings else None
    if collocates is not None:
        stems_of = [_content_stems(candidate.wording) for candidate in candidates]
        column["collocates"][:] = collocates.associations(stems_of, query.wording.surroundings)
    if is_listed.any():
        shift = column["type"] - column["alone"]
        values = np.column_stack([*(column[name] for name in _COMPARED), shift])[is_listed]
        table[np.ix_(is_listed, _LISTED_COLUMNS)] = values - values.max(axis=0)
    _fill_words(column, query, candidates)
    wording = folded(query.phrase)
    is_same = np.array([candidate.wording == wording for candidate in candidates])
    column["same wording"][:] = is_same & ~is_listed
    column["no lexicon"][:] = query.wording.no_lexicon
    same_row = int(is_same.argmax()) if is_same.any() and query.wording.stands_for_itself else -1
    return CandidateSet(list(candidates), table, ids[order], cosines[order, 0], bounds, same_row)


def _fill_meaning(
    column: Mapping[str, Floats], stored: Floats, cosines: Floats, descending: Floats, bounds: Ids
) -> None:
    """Fill in the features that vectors give.

    ``stored`` (phrases, dim) and ``cosines`` (phrases, 2): of candidate i are the rows ``bounds[i]:bounds[i + 1]``.
    ``descending`` (phrases,): the first cosines, those of each candidate from the highest on.
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


def _fill_listings(column: Mapping[str, Floats], candidates: Sequence[Candidate]) -> Flags:
    """Fill in what dictionaries and the index say of candidates; returns which ones dictionaries list."""
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
    """Fill in the features that compare the words of candidates with those of the query."""
    query_parts, length = query.wording.parts, len(query.wording.parts)  # a compound is as long as its parts
    query_stems = {stem for part in query_parts for stem in part.stems}
    required_parts = [part.stems for part in query_parts if not part.optional]
    optional = [part.stems.keys() for part in query_parts if part.optional] if required_parts else []
    required_parts = required_parts or [part.stems for part in query_parts]
    required_stems = [stems.keys() for stems in required_parts]
    forms = [_form(candidate.core or candidate.wording, query.language) for candidate in candidates]
    lengths = np.array([count for _, count, _ in forms])
    column["covered"][:] = [sum(map(query_stems.__contains__, stems)) / max(len(stems), 1) for stems, _, _ in forms]
    column["covers"][:] = [_share_met(required_stems, stems) for stems, _, _ in forms]
    column["composed"][:] = [_composed(required_parts, stems) for stems, _, _ in forms]
    column["word by word"][:] = (column["covered"] == 1) & (column["covers"] == 1) & (length > 1)
    column["covers function words"][:] = [_share_met(optional, stems) for stems, _, _ in forms] if optional else 1
    column["words"][:] = np.maximum(lengths - length, 0)
    column["fewer words"][:] = np.maximum(length - lengths, 0)
    column["function word"][:] = [function_word for _, _, function_word in forms]


def stands_for_itself(phrase: str, dictionaries: Dictionaries, language: str, target: str) -> bool:
    """Whether an index in the ``target`` language must mean the same by the same wording.

    So it does if the sentence is in that language, or the phrase is written in other letters than the sentence. It
    nearly always does if a lexicon has the languages, but neither the phrase nor other forms of it: then it is a name
    or a loan.
    """
    target = target or "en"
    is_foreign = language in _NOT_LATIN and target not in _NOT_LATIN and phrase.isascii()
    if language == target or is_foreign:
        return True
    return bool(language) and dictionaries.has_lexicon(language) and not dictionaries.equivalents(phrase, language)


def with_same_first(query: CandidateSet, probabilities: Doubles) -> Doubles:
    """The probabilities (candidates,), with the wording of the query itself first where nothing else can be right."""
    if query.same < 0:
        return probabilities
    values = probabilities.copy()
    values[query.same] = max(SAME, np.nextafter(values.max(), 1))
    return values


def with_whole_first(query: CandidateSet, probabilities: Doubles) -> Doubles:
    """The probabilities (candidates,), with "side effects" above "effects".

    Where the likeliest candidate is a part of wordings that a dictionary gives, and is not given itself, the likeliest
    of these wordings goes before it.
    """
    if not len(probabilities):
        return probabilities
    part = int(probabilities.argmax())
    inside = f" {query.candidates[part].wording} "
    wholes = [
        number
        for number, candidate in enumerate(query.candidates)
        if candidate.listing.probability and number != part and inside in f" {candidate.wording} "
    ]
    if query.candidates[part].listing.probability or not wholes:
        return probabilities
    values = probabilities.copy()
    values[max(wholes, key=probabilities.__getitem__)] = np.nextafter(probabilities[part], 1)
    return values


def by_words(candidates: Sequence[Candidate], order: Iterable[int], language: str, most: int) -> list[list[int]]:
    """The first ``most`` candidates of an order, each with the later ones that are inflected forms of its words."""
    groups: list[list[int]] = []
    by_stems: dict[tuple[str, ...], list[list[int]]] = {}
    for number in order:
        wording = candidates[number].wording
        same_stems = by_stems.setdefault(_form(wording, language)[0], [])
        for group in same_stems:
            if same_words(candidates[group[0]].wording, wording, language):
                group.append(number)
                break
        else:
            same_stems.append([number])
            groups += same_stems[-1:] if len(groups) < most else []
    return groups


def _share_met(parts: Sequence[KeysView[str]], stems: Collection[str]) -> float:
    """The share of the parts of a query that have one of their stems among some stems."""
    return sum([not part.isdisjoint(stems) for part in parts]) / max(len(parts), 1)


def _composed(parts: Sequence[Mapping[str, float]], stems: Collection[str]) -> float:
    """Mean logarithm of the probability with which each part of a query has its likeliest one of some stems."""
    likeliest = [max([part[stem] for stem in stems if stem in part], default=0.0) for part in parts]
    return sum(map(_log, likeliest)) / max(len(parts), 1)


@lru_cache(1 << 16)
def _form(wording: str, language: str) -> tuple[tuple[str, ...], int, bool]:
    """The stems of a wording, how many words it has, and whether it begins with a function word."""
    content = content_words(wording, language)
    stems = tuple([stem(word, language) for word in content])
    return stems, len(words(wording)), " ".join(content) != wording


def _log(probability: float) -> float:
    return max(math.log(probability), LEAST_LOG) if probability > 0 else LEAST_LOG
