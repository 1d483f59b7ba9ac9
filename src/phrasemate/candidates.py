"""Propose candidate translations of a query; `phrasemate.features` computes what a scorer ranks them by.

A candidate is a wording of the index, that is, a phrase text regardless of case and white space. Candidates come from
three sources: occurrences near the query's vector, dictionaries and the lexicon, and wordings identical to the query.
Inflected forms of a dictionary's equivalents are candidates, too.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from itertools import chain, pairwise, takewhile
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasemate.index.wordings import Wordings, joined
from phrasemate.lexicon import (
    Equivalent,
    InducedLexicon,
    Lexicon,
    SensesThroughEnglish,
    SenseVectors,
    stemmed,
)
from phrasemate.lexicon.forms import are_inflections
from phrasemate.lexicon.induced import articles, elided_article, grammatical_words
from phrasemate.lexicon.inflection import (
    ENGLISH_FUNCTION_WORDS,
    GOVERNED,
    LINKING,
    LONGEST_COMPOUND,
    PRONOUNS_AND_AUXILIARIES,
    SHORTEST_PART,
    STEMS,
    compound,
    elision,
    stem,
    words_and_stems,
)
from phrasemate.lexicon.locutions import locutions
from phrasemate.lexicon.spelling import respell
from phrasemate.lexicon.wordings import UNSPACED, wording_of, words_of
from phrasemate.text import english_verbs, folded, words
from phrasemate.text.japanese import PARTICLES
from phrasemate.text.languages import OTHER_SCRIPTS, primary
from phrasemate.types import Phrase
from phrasemate.utils.arrays import Ids

OCCURRENCES = 24  # of a candidate whose vectors are read; if it has more, these are an even sample
_STEPS = np.arange(OCCURRENCES)
NEAR = 40  # phrases nearest to the query's vector; their wordings are candidates
DISTINCT, FURTHER = 16, 80  # wordings that they have, at least; with fewer, the `FURTHER` nearest phrases are taken
ALONE = 0.4  # weight of the phrase without its sentence in the vector that they are searched by
CHOICES, MOST_PARTS = 4, 5  # in word-by-word translations: equivalents of each word, and words of a query, at most
COMPOSED = 48  # word-by-word translations that are looked up, at most
UNKNOWN = 0.5  # probability that a word without equivalents is translated by itself
UNCOUNTED = 0.4  # least weight of a dictionary's equivalent if the induced lexicon does not list the word
SMALLEST = 0.01  # least weight of a dictionary's equivalent if the lexicon lists the word
LACKING = 4  # listed wordings absent from the index that are searched around their parts (`extended`)
LONGEST = 8  # words of such a wording, at most
AROUND = 64  # occurrences of a part that are read for this; up to twice as many, as the sampling step is whole
READ = 16  # sampled sentences, at most, that show which words a wording mostly stands with
REST = 32  # translations of a query without its leading function word, at most (`with_function_word`)
BESIDE = 512  # occurrences of these that are read, about
NEARBY = 64  # characters beside an occurrence that are read
_GROUPS = ("es pt it fr ro", "ru uk bg", "cs pl", "de nl", "da sv", "ja zh")
RELATED = {
    name: tuple(relative for relative in group if relative != name)
    for group in map(str.split, _GROUPS)
    for name in group
}  # languages in which a word of the same spelling often has the same meaning
POSTPOSITIONS = frozenset(["fi", "hi", "hu", "ja", "ko", "tr"])  # languages in which function words follow a noun
_IDEOGRAPH = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
SURROUNDINGS = 32  # words around a phrase that help to tell its sense
_BEFORE = re.compile(r"^\W+")
_COMMA = re.compile(r"[,;،؛](?=\s)|[、，；]")
_POSSESSIVE = re.compile("'s?$")
_NAME_ENDINGS = {"de": _POSSESSIVE, "en": _POSSESSIVE, "nl": _POSSESSIVE, "tr": re.compile(r"'\w+$")}


class Listing(NamedTuple):
    """Dictionary entry of a candidate: its probability and the name of the dictionary, or 0 and "" without an entry.

    ``exact``: the entry is for the query itself, not for another form of its words. ``verbatim``: the entry gives this
    very wording, not another form of it.
    """

    probability: float = 0.0
    source: str = ""
    exact: bool = False
    verbatim: bool = False


UNLISTED = Listing()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A wording of the index that may translate the query.

    ``listing``: its dictionary entry. ``ids``: phrases with this wording, a sample if there are many. ``count``: how
    many there are in the whole index. ``leading`` and ``trailing``: number of words at the beginning and end of the
    wording that are not part of the indexed phrases ``ids``, but stand next to them. ``core``: for a fixed expression,
    the wording of ``ids``, which is compared with the query's words; otherwise "".
    """

    wording: str
    listing: Listing
    ids: Ids
    count: int
    leading: int = 0
    trailing: int = 0
    core: str = ""


class Part(NamedTuple):
    """A word of a query: the stems of each equivalent -> its probability, and whether translations may omit the word.

    An equivalent may have several stems: "member state" for "Mitgliedstaat".
    """

    equivalents: dict[tuple[str, ...], float]
    optional: bool

    def likeliest(self) -> list[tuple[tuple[str, ...], float]]:
        """Return the `CHOICES` likeliest equivalents, each with its probability."""
        return sorted(self.equivalents.items(), key=lambda item: -item[1])[:CHOICES]


class QueryWords(NamedTuple):
    """What dictionaries know about a query: its words and the weighted equivalents of the words around it.

    ``language``: of the query, "" if unknown. ``surroundings``: stem -> weight, as `surroundings` returns it.
    ``no_lexicon``: 0 if a lexicon covers the languages of the query and the index, 1 if none does.
    ``stands_for_itself``: whether the query's own wording must be a right answer (`stands_for_itself`). ``senses``:
    sense vectors of the model that encodes the query, None for none.
    """

    language: str
    parts: Sequence[Part]
    surroundings: Mapping[str, float]
    no_lexicon: float = 0.0
    stands_for_itself: bool = False
    senses: SenseVectors | SensesThroughEnglish | None = None


class Dictionaries:
    """Several lexicons combined, restricted to the languages of an index. Look-ups are cached.

    ``languages``: those of the index's documents, "" for documents without a language.
    """

    def __init__(self, lexicons: Sequence[Lexicon], languages: Sequence[str]) -> None:
        self.lexicons, self.languages = lexicons, languages
        self._targets = [""] if "" in languages else languages
        self._looked_up: dict[tuple[str, str], list[Equivalent]] = {}
        self._induced = [lexicon for lexicon in lexicons if isinstance(lexicon, InducedLexicon)]
        sets = [{"", "en", *lexicon.languages} for lexicon in self._induced]
        rest = [lexicon for lexicon in lexicons if lexicon not in self._induced]
        self._of_user = Dictionaries(rest, languages) if self._induced else self
        self._languages_of_lexicons = [names for names in sets if not names.isdisjoint(languages)]

    def equivalents(self, wording: str, language: str = "") -> list[Equivalent]:
        """List the equivalents of a wording in its language; "" is any language.

        If there are none, those that the user's lexicons give for any language are listed, and then those for languages
        with similar words (`RELATED`). An English wording has none of the latter.
        """
        key = wording, language
        if key not in self._looked_up:
            others = self._in_others(wording, language) if language else iter(())
            self._looked_up[key] = self._in(wording, language) or next(filter(None, others), [])
        return self._looked_up[key]

    def knows(self, form: str, language: str) -> bool:
        """Whether an induced lexicon lists this very form, not only its stem.

        A lexicon omits what is spelled as in English, such as Minute. So such a form counts if others of its stem are
        listed.
        """
        return any(
            lexicon.knows(form, language) or (lexicon.knows(form, "en") and bool(lexicon.equivalents(form, language)))
            for lexicon in self._induced
        )

    def has_lexicon(self, language: str) -> bool:
        """Whether an induced lexicon covers a language together with one of the index; "" may be any language."""
        return any(primary(language) in languages for languages in self._languages_of_lexicons)

    def _in_others(self, wording: str, language: str) -> Iterator[list[Equivalent]]:
        """Yield the equivalents of the user's lexicons for any language, then those of all for related languages.

        In a related language, an induced lexicon must list this very form.
        """
        yield self._of_user._in(wording, "")
        for relative in () if language == "en" else (*RELATED.get(language, ()), "en"):
            if any(lexicon.knows(wording, relative) for lexicon in self._induced):
                yield self._in(wording, relative)

    def _in(self, wording: str, language: str) -> list[Equivalent]:
        """List the equivalents of a wording in one language, or in any (""): those of dictionary files, then the
        others.

        If any lexicon lists the wording itself, equivalents for other forms of its words are omitted.
        """
        by_lexicon = [self._fitting(lexicon, wording, language) for lexicon in self.lexicons]
        if any(equivalent.exact for equivalents in by_lexicon for equivalent in equivalents):
            by_lexicon = [[equivalent for equivalent in row if equivalent.exact] for row in by_lexicon]
        file_flags = [getattr(lexicon, "has_ranks", False) for lexicon in self.lexicons]
        rows = list(zip(file_flags, by_lexicon, strict=True))
        probable = [equivalent for is_file, row in rows if not is_file for equivalent in row]
        return [*chain.from_iterable(weighed(row, probable) for is_file, row in rows if is_file), *probable]

    def _fitting(self, lexicon: Lexicon, wording: str, language: str) -> list[Equivalent]:
        """List the distinct equivalents that one lexicon gives in the languages of the index."""
        equivalents = chain.from_iterable(lexicon.equivalents(wording, language, target) for target in self._targets)
        return list(
            dict.fromkeys(
                equivalent
                for equivalent in equivalents
                if not equivalent.language or primary(equivalent.language) in self.languages or "" in self.languages
            )
        )


def weighed(listed: Sequence[Equivalent], probable: Sequence[Equivalent]) -> list[Equivalent]:
    """Give the equivalents of a dictionary file weights that are comparable with the probabilities of a lexicon.

    The order of entries in a file says little about their frequency. If the lexicon lists the wording, too, each
    equivalent gets its probability there plus a share of the probability that the lexicon leaves open. A single
    equivalent keeps its weight, as in a term base. If the lexicon does not list the wording, an equivalent weighs at
    least `UNCOUNTED`.

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
    """Split a phrase into words, each with the equivalents that dictionaries give for it.

    ``language``: of the phrase, "" if unknown. A function word is optional, and so is a word whose likeliest equivalent
    is one. Articles are left out if the language of the index has none. A compound that no dictionary lists is split
    into its parts. Any other unlisted word, such as a name, is its own equivalent.
    """
    translations = []
    pieces = [piece for start, end in words(phrase) for piece in _pieces(phrase[start:end], dictionaries, language)]
    if not any(articles(name or "en") for name in dictionaries.languages):
        pieces = [piece for piece in pieces if folded(piece) not in articles(language)] or pieces
    for word in pieces:
        stems: dict[tuple[str, ...], float] = {}
        entries = dictionaries.equivalents(word, language)
        for equivalent in entries:
            if form := stemmed_form(folded(equivalent.text), equivalent.language or "en")[0]:
                stems[form] = max(stems.get(form, 0.0), equivalent.weight)
        is_optional = folded(word) in grammatical_words(language)
        if entries:
            likeliest = max(entries, key=attrgetter("weight"))
            is_optional |= likeliest.text in grammatical_words(likeliest.language or "en")
        translations.append(Part(stems or {(stemmed(word, "en"),): UNKNOWN}, is_optional))
    return translations


def _pieces(word: str, dictionaries: Dictionaries, language: str) -> list[str]:
    """Split a compound that no dictionary lists as a whole; return any other word as it is.

    A word of unknown language is split if all languages that can split it agree.
    """
    if not 2 * SHORTEST_PART <= len(word) <= LONGEST_COMPOUND or dictionaries.equivalents(word, language):
        return [word]
    languages = [name for name in LINKING if language in ("", name)]
    splits = {tuple(split) for name in languages if (split := _split(folded(word), dictionaries, name))}
    return list(splits.pop()) if len(splits) == 1 else [word]


def _split(word: str, dictionaries: Dictionaries, language: str) -> list[str]:
    """Split a folded compound into words of its language; return an empty list if that is impossible."""
    knows, links = cache(partial(dictionaries.knows, language=language)), LINKING[language]
    return compound(word, knows, links) or compound(word, knows, links, STEMS.get(language, ()))


def surroundings(phrase: Phrase, lexicon: InducedLexicon, language: str) -> dict[str, float]:
    """Sum the weights of the English equivalents of the words around a phrase, by stem.

    Only the `SURROUNDINGS` words nearest to the phrase count, with the equivalents that the lexicon gives for these
    forms. English words are their own equivalents. ``language``: of the sentence.
    """
    text = phrase.context
    around = [(start, end) for start, end in words(text) if end <= phrase.start or start >= phrase.end]
    around.sort(key=lambda span: max(phrase.start - span[1], span[0] - phrase.end))
    stems: dict[str, float] = {}
    for start, end in around[:SURROUNDINGS]:
        word = folded(text[start:end])
        likeliest: dict[str, float] = {}
        for wording, weight in ((word, 1.0),) if language == "en" else lexicon.into_english(word, language):
            for form in content_stems(wording):
                likeliest[form] = max(likeliest.get(form, 0.0), weight)
        for form, weight in likeliest.items():
            stems[form] = stems.get(form, 0.0) + weight
    return stems


def content_stems(wording: str) -> list[str]:
    """Stem the words of a folded English wording, without function words."""
    pairs = zip(*words_and_stems(wording, "en"), strict=True)
    return [form for word, form in pairs if word not in ENGLISH_FUNCTION_WORDS]


def compositions(table: Wordings, query: Sequence[Part], language: str) -> list[str]:
    """List the wordings of an index that translate a phrase of several words word by word, in its order or reversed.

    A beam search combines the likeliest equivalents of each word, with at most `COMPOSED` combinations. Optional words
    may be omitted. ``language``: of the index.
    """
    if not 2 <= len(query) <= MOST_PARTS:
        return []
    combinations: list[tuple[float, list[tuple[str, ...]]]] = [(1.0, [])]
    for part in query:
        choices = [*part.likeliest(), *([((), 0.5)] if part.optional else [])]
        extensions = [
            (probability * factor, [*parts_so_far, stems])
            for probability, parts_so_far in combinations
            for stems, factor in choices
        ]
        # exact: a likeliest combination extends one of the likeliest so far
        combinations = sorted(extensions, key=lambda item: -item[0])[:COMPOSED]
    orders = [
        wording_of(list(chain(*order)), language) for _, choice in combinations for order in (choice, choice[::-1])
    ]
    return list(dict.fromkeys(chain(*table.of_stems(orders))))


def equivalents(table: Wordings, phrase: str, dictionaries: Dictionaries, language: str = "") -> dict[str, Listing]:
    """List the wordings of an index that dictionaries give for a phrase.

    ``language``: of the phrase, "" if unknown. A phrase that is not listed is looked up without the function words at
    its ends (`_of_core`). An equivalent stands for its inflected forms (`are_inflections`). A wording that several
    equivalents lead to gets the probability and source of the likeliest. Word alignment links a verb to both words of
    "turned off", so this is added to "turned" and "off" (`_phrasal_verbs`). If the index has it, "off" is left out.
    """
    listings: dict[str, Listing] = {}
    listed = dictionaries.equivalents(phrase, language) or _of_core(phrase, dictionaries, language)
    phrasal = _phrasal_verbs(listed)
    candidates = [*phrasal, *listed]
    inflections = table.of_stems([stemmed(equivalent.text, equivalent.language or "en") for equivalent in candidates])
    pairs = list(zip(candidates, inflections, strict=True))
    particles = {phrasal[whole] for whole, forms in pairs[: len(phrasal)] if forms}
    for equivalent, forms in pairs:
        text = folded(equivalent.text)
        for wording in (text, *forms) if equivalent not in particles else ():
            if not are_inflections(text, wording, equivalent.language or "en"):
                continue
            listing = listings.get(wording, UNLISTED)
            best = (equivalent.weight, equivalent.source) if equivalent.weight > listing.probability else listing[:2]
            listings[wording] = Listing(*best, listing.exact or equivalent.exact, listing.verbatim or wording == text)
    return listings


def _of_core(phrase: str, dictionaries: Dictionaries, language: str) -> list[Equivalent]:
    """Look up a phrase without pronouns and auxiliaries before it, or without prepositions after it, or both.

    The Italian "si è reso conto" becomes "reso conto", and the French "tenir compte de" "tenir compte". Two words or
    more must stay, of which the first is not a preposition: "est en train de" has nothing to do with a train.
    """
    spans = words(phrase)
    entries = [dictionaries.equivalents(phrase[start:end], language) for start, end in spans]
    likeliest = [row[0].text if row else "" for row in entries]
    before = sum(1 for _ in takewhile(PRONOUNS_AND_AUXILIARIES.__contains__, likeliest))
    after = sum(1 for _ in takewhile(GOVERNED.__contains__, reversed(likeliest)))
    for first, rest in ((before, after), (0, after), (before, 0)):
        if first + rest and len(spans) - first - rest >= 2 and likeliest[first] not in GOVERNED:
            core = phrase[spans[first][0] : spans[len(spans) - rest - 1][1]]
            if translations := dictionaries.equivalents(core, language):
                return [equivalent._replace(exact=False) for equivalent in translations]
    return []


def _phrasal_verbs(listed: Sequence[Equivalent]) -> dict[Equivalent, Equivalent]:
    """Map the phrasal verbs of which verb and particle are listed to the particles.

    Their weights are the sums of both, at most 1.
    """
    english = {
        folded(equivalent.text): equivalent for equivalent in listed if primary(equivalent.language) in ("", "en")
    }
    return {
        english[verb]._replace(
            text=f"{verb} {last}",
            weight=min(1.0, english[verb].weight + english[last].weight),
            exact=english[verb].exact and english[last].exact,
        ): english[last]
        for last in english_verbs.PARTICLES.intersection(english)
        for verb in english
        if english_verbs.is_phrasal_verb(verb, last)
    }


def gather(
    table: Wordings,
    phrase: str,
    near: Mapping[str, Sequence[int]],
    listed: Mapping[str, Listing],
    composed: Sequence[str] = (),
    language: str = "",
) -> list[Candidate]:
    """Collect the candidates of a query from all sources.

    These are the wordings ``near`` its vector with their nearest phrase ids, the ``listed`` equivalents, the
    word-by-word translations ``composed``, and the phrase itself. ``language``: of the index. "l'eau" and "d'eau" are
    one candidate with "eau". An unlisted wording with a comma, such as "guitar, and so", answers no phrase without one.
    """
    candidates = []
    wordings = list(dict.fromkeys([*near, *listed, *composed, folded(phrase)]))
    occurrences = dict(zip(wordings, table.occurrences(wordings), strict=True))
    for wording, forms in _forms_by_base(wordings, listed, language).items():
        every = occurrences[wording] if len(forms) == 1 else np.sort(joined([occurrences[form] for form in forms]))
        count = len(every)
        if not count or not is_whole(wording):
            continue
        if _COMMA.search(wording) and wording not in listed and not _COMMA.search(phrase):
            continue
        ids = every
        if count > OCCURRENCES:
            ids = every[_STEPS * (count - 1) // (OCCURRENCES - 1)]
            if nearest := [near[form][:OCCURRENCES] for form in forms if form in near]:
                ids = np.array(sorted({*ids.tolist(), *chain(*nearest)}), np.int64)
        candidates.append(Candidate(wording, listed.get(wording, UNLISTED), ids, count))
    return candidates


def _forms_by_base(wordings: Sequence[str], listed: Mapping[str, Listing], language: str) -> dict[str, list[str]]:
    """Map each wording to itself and to its forms with an elided article or preposition, such as "l'eau" for "eau".

    A form that a dictionary lists, such as "d'accord", stays a wording of its own, as does one without a counterpart.
    """
    forms: dict[str, list[str]] = {wording: [] for wording in wordings}
    for wording in wordings:
        base = wording[elided_article(wording, language) :]
        is_form = base in forms and not listed.get(wording, UNLISTED).verbatim
        forms[base if is_form else wording].append(wording)
    return {wording: variants for wording, variants in forms.items() if variants}


def is_whole(wording: str) -> bool:
    """Whether the brackets of a wording are balanced; "language(s" is a fragment."""
    return wording.count("(") == wording.count(")") and wording.count("[") == wording.count("]")


def extended(
    table: Wordings, listed: Mapping[str, Listing], language: str, phrases_of: Callable[[Ids], Sequence[Phrase]]
) -> list[Candidate]:
    """Find listed wordings of several words of which the index has only a part: "for sale", "with his friends".

    The part has a content word, and the other words must stand next to it in the sentence. Of several parts, the one
    with the most such occurrences is chosen. A Japanese wording does not begin with a particle. ``language``: of the
    index. ``phrases_of``: maps ids to phrases in their sentences.
    """
    phrases = {wording: pieces for wording in listed if 1 < len(pieces := words_of(wording, language)) <= LONGEST}
    if language == "ja":
        phrases = {wording: pieces for wording, pieces in phrases.items() if pieces[0] not in PARTICLES}
    absentees = [name for name, ids in zip(phrases, table.occurrences([*phrases]), strict=True) if not len(ids)]
    candidates = []
    for wording in sorted(absentees, key=lambda wording: -listed[wording].probability)[:LACKING]:
        pieces = phrases[wording]
        spans = _content_spans(pieces, grammatical_words(language))
        stretches = [wording_of(pieces[first:last], language) for first, last in spans]
        extensions = []
        for (first, last), every in zip(spans, table.occurrences(stretches), strict=True):
            leading, trailing = first, len(pieces) - last
            sample = every[:: max(1, len(every) // AROUND)]
            whole = [_stands_in(phrase, wording, leading, trailing) for phrase in phrases_of(sample)]
            if any(whole):
                count = round(len(every) * sum(whole) / len(sample))
                ids = sample[np.array(whole, bool)][:OCCURRENCES]
                extensions.append(Candidate(wording, listed[wording], ids, count, leading, trailing))
        if extensions:
            candidates.append(max(extensions, key=attrgetter("count")))
    return candidates


def _content_spans(pieces: Sequence[str], function_words: frozenset[str]) -> list[tuple[int, int]]:
    """List the spans (first word, end) of the proper parts of a wording that have a content word."""
    length = len(pieces)
    return [
        (first, last)
        for first in range(length)
        for last in range(first + 1, length + 1)
        if last - first < length and not function_words.issuperset(pieces[first:last])
    ]


def with_function_word(
    table: Wordings, query: Sequence[Part], language: str, phrases_of: Callable[[Ids], Sequence[Phrase]]
) -> list[Candidate]:
    """Propose translations of a query that begins with a function word, such as "in the autumn" for "im Herbst".

    They are translations of the other words that follow an equivalent of the function word in the index, with or
    without an article between. In a language with postpositions they go before it. ``language``: of the index.
    ``phrases_of``: maps ids to phrases in their sentences.
    """
    if len(query) < 2 or not query[0].optional:
        return []
    candidates = []
    particles = grammatical_words(language) - articles(language)
    translations = _translations(table, query[1:], language)[:REST]
    occurrences = table.occurrences(translations)
    step = math.ceil(sum(map(len, occurrences)) / BESIDE) or 1
    for rest, every in zip(translations, occurrences, strict=True):
        sample = every[::step]
        groups: dict[tuple[str, ...], list[int]] = {}
        for number, phrase in enumerate(phrases_of(sample)):
            beside = _beside(phrase, language)
            word = respell(beside[0], language) if beside else ""
            if word in particles and (stem(word, language),) in query[0].equivalents:
                groups.setdefault(beside, []).append(number)
        for beside, numbers in groups.items():
            count = round(len(every) * len(numbers) / len(sample))
            order, edges = (*beside, rest), (len(beside), 0)
            if language in POSTPOSITIONS:
                order, edges = (rest, *beside), (0, len(beside))
            ids = sample[numbers][:OCCURRENCES]
            candidates.append(Candidate(wording_of(order, language), UNLISTED, ids, count, *edges))
    return candidates


def _beside(phrase: Phrase, language: str) -> tuple[str, ...]:
    """Return the folded word before a phrase and an article between, or the word after it if there are postpositions.

    The tuple is empty at the edge of a sentence.
    """
    if language in POSTPOSITIONS:
        after = folded(phrase.context[phrase.end : ends_at(phrase, 1)]).strip()
        return (after,) if after else ()
    before = tuple(_pieces_of(folded(phrase.context[max(phrase.start - NEARBY, 0) : phrase.start]))[-2:])
    return before if before and before[-1] in articles(language) else before[-1:]


def _pieces_of(text: str) -> list[str]:
    """Split a text at white space, but Chinese or Japanese text before each word; punctuation is kept."""
    if not _IDEOGRAPH.search(text):
        return text.split()
    bounds = [0, *(start for start, _ in words(text)[1:]), len(text)]
    return [text[start:end].strip() for start, end in pairwise(bounds)]


def _translations(table: Wordings, query: Sequence[Part], language: str) -> list[str]:
    """List the wordings of an index that translate the words of a query, likeliest first."""
    if len(query) > 1:
        return compositions(table, query, language)
    return list(chain(*table.of_stems([wording_of(stems, language) for stems, _ in query[0].likeliest()])))


def in_expressions(
    candidates: Sequence[Candidate], language: str, phrases_of: Callable[[Ids], Sequence[Phrase]]
) -> list[Candidate]:
    """Replace each candidate that mostly stands in a fixed expression by the expression, such as "spite" by "in spite
    of".

    Occurrences outside the expression remain as a candidate of their own. An expression that is a candidate already
    stays as it is. ``language``: of the index. ``phrases_of``: maps ids to phrases in their sentences.
    """
    wordings = {candidate.wording for candidate in candidates}
    known_expressions = _expressions(language)
    chosen: dict[str, Candidate] = {}
    for candidate in candidates:
        expressions = known_expressions.get(candidate.wording)
        for part in _parted(candidate, expressions, phrases_of) if expressions else [candidate]:
            if part.wording == candidate.wording or part.wording not in wordings:
                chosen.setdefault(part.wording, part)
    return list(chosen.values())


def _parted(
    word: Candidate, expressions: Sequence[tuple[str, int, int]], phrases_of: Callable[[Ids], Sequence[Phrase]]
) -> list[Candidate]:
    """Return a candidate as it is, or split into the expression that it mostly stands in and its other occurrences.

    ``expressions``: as from `_expressions`.
    """
    sample = phrases_of(word.ids[:: math.ceil(len(word.ids) / READ)])
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
    """Whether a phrase, with ``leading`` words before and ``trailing`` words after it, reads like an expression."""
    if expression not in folded(phrase.context):  # most do not, and words take longer to find
        return False
    return folded(phrase.context[begins_at(phrase, leading) : ends_at(phrase, trailing)]) == expression


@lru_cache(8)
def _expressions(language: str) -> dict[str, list[tuple[str, int, int]]]:
    """Map the core of each fixed expression of a language, without function words at its ends, to the expression.

    An expression has its wording and the number of words before and after its core. The longest come first.
    """
    expressions: dict[str, list[tuple[str, int, int]]] = {}
    grammatical = grammatical_words(language)
    for wording in sorted(locutions(language), key=lambda wording: -len(wording)):
        parts_of_wording = wording.split()
        content = [place for place, word in enumerate(parts_of_wording) if word not in grammatical]
        core = " ".join(parts_of_wording[content[0] : content[-1] + 1]) if content else wording
        if core != wording:
            around = content[0], len(parts_of_wording) - 1 - content[-1]
            expressions.setdefault(core, []).append((wording, *around))
    return expressions


def ends_at(phrase: Phrase, trailing: int) -> int:
    """Find where a phrase ends in its sentence if extended by ``trailing`` words, without final punctuation."""
    at = phrase.end
    for word in _pieces_of(phrase.context[phrase.end :])[:trailing]:
        at = phrase.context.index(word, at) + len(word)
    text = phrase.context
    while at > phrase.end and not (text[at - 1].isalnum() or unicodedata.category(text[at - 1]).startswith("M")):
        at -= 1  # vowel signs of Indic scripts are marks (M)
    return at


def begins_at(phrase: Phrase, leading: int) -> int:
    """Find where a phrase begins in its sentence if extended by ``leading`` words, without initial punctuation."""
    before = _pieces_of(phrase.context[: phrase.start])
    rest = phrase.context[: phrase.start]
    for word in before[len(before) - min(leading, len(before)) :][::-1]:
        rest = rest[: rest.rindex(word)]
    return phrase.start - len(_BEFORE.sub("", phrase.context[len(rest) : phrase.start]))


def restrict(candidates: Iterable[Candidate], allowed: Callable[[Ids], NDArray[np.bool_]]) -> list[Candidate]:
    """Keep only the allowed phrases of each candidate, and drop candidates without any.

    ``allowed``: maps ids to flags. ``count`` becomes the number of allowed phrases, extrapolated if ``ids`` is a
    sample.
    """
    rest = []
    for candidate in candidates:
        ids = candidate.ids[allowed(candidate.ids)]
        if len(ids):
            count = max(len(ids), round(candidate.count * len(ids) / len(candidate.ids)))
            rest.append(replace(candidate, ids=ids, count=count))
    return rest


def as_name(table: Wordings, phrase: str, dictionaries: Dictionaries, language: str, target: str) -> str:
    """Return a phrase, or the name in it if an index has this alone: "istanbul" for "d'Istanbul" and "İstanbul'da".

    The name is the phrase without an elided word before it and an ending after an apostrophe, if it stands for itself.
    ``language`` and ``target``: as in `stands_for_itself`.
    """
    wording = folded(phrase)
    name = wording[elision(wording, language) :]
    if ending := _NAME_ENDINGS.get(language):
        name = ending.sub("", name)
    if name == wording:
        return phrase
    phrase_ids, name_ids = table.occurrences([wording, name])
    is_only_name = len(name_ids) and not len(phrase_ids)
    return name if is_only_name and stands_for_itself(name, dictionaries, language, target) else phrase


def stands_for_itself(phrase: str, dictionaries: Dictionaries, language: str, target: str) -> bool:
    """Whether a phrase of an index that is identical to the query must mean the same.

    This holds if the query is in the ``target`` language of the index, or is written in Latin letters within a sentence
    of another script. It nearly always holds if a lexicon covers the languages but lists no form of the phrase, which
    is then a name or a loan word. ``language``: of the query's sentence.
    """
    target = target or "en"
    is_foreign = language in OTHER_SCRIPTS and target not in OTHER_SCRIPTS and phrase.isascii()
    if language == target or is_foreign:
        return True
    return bool(language) and dictionaries.has_lexicon(language) and not dictionaries.equivalents(phrase, language)


@lru_cache(1 << 16)
def stemmed_form(wording: str, language: str) -> tuple[tuple[str, ...], int, bool]:
    """Return the stems of a wording, its number of words, and whether it begins with a function word."""
    if language in UNSPACED:
        content = words_of(wording, language)
        stems = tuple([stem(word, language) for word in content])
    else:
        content, stems = words_and_stems(wording, language)
    return stems, len(words(wording)), wording_of(content, language) != wording
