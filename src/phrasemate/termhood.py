"""Termhood: the probability that a phrase of a document is a term of the document's subject.

`describe` computes the features of each phrase, and `termhood` a logistic regression over them, with the same weights
for all languages and numbers of words. The weights were fitted on the terms that ten Canadian acts define
(bench/law_terms.py).

Two features stand for the C-value of Frantzi, Ananiadou and Mima (2000): the frequency of a phrase, and the share of
its occurrences within one longer phrase ("nested"). "keyness" compares the frequencies of words in the document with
those in general language (`Reference`), as the weirdness of Ahmad, Gillam and Tostevin (1999) does. "association" is
the lowest pointwise mutual information of neighbouring words. Phrases of several words are seldom terms if they occur
once ("once"), are long ("long"), or are whole clauses ("clause").
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from phrasemate.encode import FrequentWords
from phrasemate.lexicon.forms import are_forms_by_words
from phrasemate.lexicon.induced import elided_article
from phrasemate.lexicon.inflection import has_stemmer, stemmed_all
from phrasemate.lexicon.locutions import OF, general_words
from phrasemate.text import folded, words
from phrasemate.text.languages import CAPITAL_NOUNS, primary
from phrasemate.text.normalize import composed
from phrasemate.types import Phrase

WEIGHTS = {  # of the features; fitted by bench/law_terms.py --part fit
    "frequency": 0.9,
    "belief": 13.79,
    "length": 2.96,
    "keyness": 0.8,  # multiplied by the weight of the reference
    "association": 0.18,
    "function words": -4.63,
    "general words": -0.75,
    "once": -4.67,
    "long": -1.02,
    "clause": -3.35,
    "nested": -2.84,
    "number": -3.45,
    "small letter": -2.0,  # set by hand, with the German documents of bench/terms.py: the acts are not in German
    "defined": 3.0,  # set by hand: the acts define every term that the fit knows of, other documents only a few
}
LONG = 3  # words; terms seldom have more
NESTED = 0.8  # share of occurrences within one longer phrase above which `fold_parts` drops the shorter one
BIAS = -21.48
_CODE = re.compile(r"[_{}<>\\|=@$%^~`]|[a-z]\.[a-z]{2}")  # within a phrase
_BESIDE = frozenset("_{}<>\\|=@$%^~`")  # characters directly before or after a phrase that make it code
_OPENING = ",:(\"'“„«‘"  # the last character before a defined phrase that does not begin its sentence
_NEXT = 120  # characters after a phrase that are searched for the words of a definition
_DEFINES = re.compile(  # text after a phrase that is defined
    r"""\s*[\"'”’»“)\]]*\s*(?:\([^()]{1,80}\)\s*)?,?\s*(?:
    (?:means?|includes?|(?:is|are)\ defined|refers?\ to|(?:has|have)\ the\ (?:same\ )?meaning|shall\ mean
    |désignent?|s[’']entend(?:ent)?|signifien?t?|bedeute[nt]|bezeichne[nt]|hei(?:ß|ss)[et]n?|gilt\ als|umfass(?:t|en)
    |significan?|designan?|se\ entiende|se\ entenderá|si\ intend(?:e|ono)|entende-se|betekent|omvat|betyder|avses
    |oznacza(?:ją)?|означа[ею]т|понима[ею]тся)\b
    |とは|是指|[:：]\s)""",
    re.VERBOSE,
)
_CAPITAL_AFTER = re.compile(r"\s+(?:\([^()]{1,80}\)\s*)?[A-ZÀ-ÖØ-ÞΑ-ΩА-Я]")


class Occurrence(NamedTuple):
    """An occurrence of a phrase in a document.

    Attributes:
        phrase: The phrase in its sentence.
        document: Name of the document.
        line: Line of the sentence in the document, from 1.
        score: The segmenter's probability that the span is a phrase.
        translation: Translation of the sentence in a bilingual file, else "".
    """

    phrase: Phrase
    document: str
    line: int
    score: float = 1.0
    translation: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Convert to a mapping for JSON; start and end are character offsets in the context."""
        phrase, place = self.phrase, {"document": self.document, "line": self.line}
        return {"context": phrase.context, "start": phrase.start, "end": phrase.end, **place}


@dataclass(slots=True)
class PhraseStatistics:
    """The occurrences of a phrase in documents, and its features.

    Attributes:
        words: Number of words.
        count: Number of occurrences.
        total: Sum of the probabilities of the occurrences.
        greatest: Greatest of these probabilities.
        places: The occurrences.
        forms: Wordings of the inflected forms, if there are several.
        features: Features by name, computed by `describe`.
    """

    words: int
    count: int = 0
    total: float = 0.0
    greatest: float = 0.0
    places: list[Occurrence] = field(default_factory=list)
    forms: tuple[str, ...] = ()
    features: dict[str, float] = field(default_factory=dict)

    @property
    def belief(self) -> float:
        """Mean probability of the occurrences."""
        return self.total / self.count


Phrases = Mapping[str, PhraseStatistics]


# -- inflected forms


def merge_inflected(phrases: Phrases, language: str) -> dict[str, PhraseStatistics]:
    """Merge the inflected forms of each phrase under the most frequent form, in order of first occurrence.

    Forms have equal stems, and are forms of the same words one by one (`are_forms_by_words`). In German, a noun and a
    verb are never forms of one phrase. French "l'école" and "d'école" are forms of "école" (`elided_article`). For a
    language without a stemmer, the phrases are returned unchanged.
    """
    if not has_stemmer(language):
        return dict(phrases)
    language = primary(language)
    parts = sorted({part for key in phrases for part in key.split(" ")})
    stems = dict(zip(parts, stemmed_all(parts, language), strict=True))
    alike: defaultdict[tuple[str, bool], list[str]] = defaultdict(list)
    for key in sorted(phrases, key=lambda key: -phrases[key].count):
        alike[" ".join(stems[part] for part in key.split(" ")), _is_noun(phrases[key].places, language)].append(key)
    head_of: dict[str, str] = {}
    for keys in alike.values():
        heads: list[str] = []
        for key in keys:
            words = _without_articles(key, language)
            matches = (head for head in heads if are_forms_by_words(_without_articles(head, language), words, language))
            head_of[key] = next(matches, key)
            if head_of[key] == key:
                heads.append(key)
    forms: defaultdict[str, list[str]] = defaultdict(list)
    for key in phrases:
        forms[head_of[key]].append(key)
    return {head: _merge(phrases, keys) for head, keys in forms.items()}


def _is_noun(places: Sequence[Occurrence], language: str) -> bool:
    """Return whether a phrase ends with a noun: its last word has a capital in at least half of the places.

    True for languages that do not write nouns with a capital.
    """
    small = sum(place.phrase.text.split()[-1][:1].islower() for place in places)
    return primary(language) not in CAPITAL_NOUNS or 2 * small <= len(places)


def _without_articles(wording: str, language: str) -> list[str]:
    """Split a wording into words without elided articles and prepositions."""
    return [word[elided_article(word, language) :] for word in wording.split(" ")]


def _merge(phrases: Phrases, keys: Sequence[str]) -> PhraseStatistics:
    """Merge the statistics of inflected forms, given by their wordings."""
    if len(keys) == 1:
        return phrases[keys[0]]
    parts = [phrases[key] for key in keys]
    return PhraseStatistics(
        parts[0].words,
        sum(part.count for part in parts),
        sum(part.total for part in parts),
        max(part.greatest for part in parts),
        [place for part in parts for place in part.places],
        tuple(keys),
    )


# -- features


def describe(phrases: Phrases, language: str, reference: Reference | None = None, common: Collection[str] = ()) -> None:
    """Compute the features of each phrase, and set its ``features``.

    Args:
        phrases: Phrases of one document, or of several, by wording.
        language: Language of the phrases.
        reference: Frequencies of words in general language; without it, the keyness of all phrases is 0.
        common: Folded function words; words for "of" are not counted as such.
    """
    counts = _word_counts(phrases)
    total = max(1, counts.total())
    longer = longer_phrases(phrases)
    keyness = {}
    if reference is not None:
        for word, count in counts.items():
            keyness[word] = reference.weight * (math.log(count / total) - reference.log_probability(word))
    usual = counts.keys() - OF.get(primary(language), frozenset())
    function_words, general = usual & set(common), usual & general_words(language)
    for key, statistics in phrases.items():
        parts, count, places = key.split(" "), statistics.count, statistics.places
        ratios = [  # observed to expected frequency of two neighbours
            count * total / (max(counts[left], 1) * max(counts[right], 1)) for left, right in pairwise(parts)
        ]
        statistics.features = {
            "frequency": math.log1p(count),
            "belief": statistics.greatest,
            "length": math.log2(len(parts) + 1),
            "keyness": sum(keyness.get(part, 0.0) for part in parts) / len(parts),
            "association": math.log(min(ratios, default=1.0)),
            "function words": sum(part in function_words for part in parts) / len(parts),
            "general words": sum(part in general for part in parts) / len(parts),
            "once": float(count == 1 and len(parts) > 1),
            "long": float(max(0, len(parts) - LONG)),
            "clause": sum(map(_is_alone, places)) / len(places) if len(parts) > 2 else 0.0,
            "nested": min(1.0, max((phrases[longer_key].count for longer_key in longer[key]), default=0) / count),
            "small letter": (len(parts) == 1 and not _is_noun(places, language)) / count,
            "number": float(any(not any(map(str.isalpha, part)) for part in parts)),
            "defined": float(any(is_defined(place.phrase, language) for place in places)),
        }


def _is_alone(place: Occurrence) -> bool:
    """Return whether a phrase has no word directly before or after it, like a clause or a heading."""
    phrase = place.phrase
    before, after = phrase.context[: phrase.start].rstrip(), phrase.context[phrase.end :].lstrip()
    return not (before[-1:].isalnum() or after[:1].isalnum())


def is_phrase_of(language: str, parts: Sequence[str], places: Sequence[Occurrence], common: Collection[str]) -> bool:
    """Return whether a run of words may be a phrase: no function word at its edges, and in German a noun at its end.

    Args:
        language: Language of the words.
        parts: Folded words.
        places: Occurrences of the words.
        common: Folded function words.
    """
    if parts[0] in common or parts[-1] in common:
        return False
    return len(parts) == 1 or _is_noun(places, language)


def termhood(phrases: Phrases) -> dict[str, float]:
    """Compute the probability that each phrase is a term, from the features that `describe` has set."""
    logits = {
        key: BIAS + sum(WEIGHTS[name] * value for name, value in statistics.features.items())
        for key, statistics in phrases.items()
    }
    return {key: 1 / (1 + math.exp(-logit)) for key, logit in logits.items()}


def longer_phrases(phrases: Phrases) -> dict[str, list[str]]:
    """List for each phrase the longer phrases with a form that contains one of its forms."""
    key_of = {form: key for key, statistics in phrases.items() for form in statistics.forms or (key,)}
    longer: dict[str, list[str]] = {key: [] for key in phrases}
    for key, statistics in phrases.items():
        inside = {part for form in statistics.forms or (key,) for part in parts_of(form)}
        for part in dict.fromkeys(key_of[part] for part in inside if part in key_of):
            if part != key:
                longer[part].append(key)
    return longer


def parts_of(wording: str) -> set[str]:
    """Return all sequences of consecutive words of a wording, including the wording itself."""
    parts = wording.split(" ")
    ends = range(1, len(parts) + 1)
    return {" ".join(parts[low:high]) for high in ends for low in range(high)}


def fold_parts(phrases: Phrases, ranked: Sequence[str]) -> list[str]:
    """Remove phrases that mostly occur within one longer phrase, if the longer phrase ranks higher.

    ``ranked``: wordings, best first. A phrase is removed if at least `NESTED` of its occurrences, and at least two, are
    within the longer phrase.
    """
    longer = longer_phrases(phrases)
    rank = {key: number for number, key in enumerate(ranked)}
    return [
        key
        for key in ranked
        if not any(
            phrases[longer_key].count >= max(2, NESTED * phrases[key].count)
            and rank.get(longer_key, len(ranked)) < rank[key]
            for longer_key in longer[key]
        )
    ]


def _word_counts(phrases: Phrases) -> Counter[str]:
    """Count the folded words of all sentences with phrases, each sentence once per document and line."""
    places = {
        (place.document, place.line, place.phrase.context)
        for statistics in phrases.values()
        for place in statistics.places
    }
    counts: Counter[str] = Counter()
    for sentence, times in Counter(context for _, _, context in places).items():
        for start, end in words(sentence):
            counts[composed(folded(sentence[start:end]))] += times
    return counts


def is_defined(phrase: Phrase, language: str = "") -> bool:
    """Return whether the sentence defines the phrase, as in "share means …", "part s'entend de …" or "Share: …".

    A line of a glossary is a definition, too: a phrase in small letters, then a word with a capital ("share A part …").
    Such lines are not recognised in German, where nouns have capitals, or without a language.
    """
    before, after = phrase.context[: phrase.start].rstrip(), phrase.context[phrase.end : phrase.end + _NEXT]
    if any(map(str.isalnum, before)) and before[-1] not in _OPENING:
        return False
    if _DEFINES.match(after):
        return True
    first = phrase.context[phrase.start]
    opens = not any(map(str.isalnum, before)) and first.islower() and primary(language) not in {*CAPITAL_NOUNS, ""}
    return opens and _CAPITAL_AFTER.match(after) is not None


def is_code(phrase: Phrase) -> bool:
    """Return whether a phrase is part of a placeholder, a path or code, such as "%s", "{name}" or "www.example.org"."""
    context, start, end = phrase.context, phrase.start, phrase.end
    beside = context[max(0, start - 1) : start] + context[end : end + 1]
    return _CODE.search(phrase.text) is not None or not _BESIDE.isdisjoint(beside)


FLOOR = -19.0  # lowest log probability of a word: one in 180 million


class Reference(NamedTuple):
    """Frequencies of words in general language.

    Attributes:
        log_probability: Returns the natural logarithm of the probability of a folded word.
        weight: Factor of the keyness, fitted for each kind of reference (bench/law_terms.py).
    """

    log_probability: Callable[[str], float]
    weight: float


def reference_of_text(sentences: Iterable[str]) -> Reference:
    """Make a reference from the frequencies in a text; a word that is not in it counts as half an occurrence."""
    counts = FrequentWords()
    for sentence in sentences:
        counts.update(sentence)
    total = counts.counts.total() + 1
    return Reference(lambda word: math.log((counts.counts[word] or 0.5) / total), 0.34)


def tokenizer_reference(tokenizer: Any) -> Reference:
    """Make a reference from a Unigram tokenizer: its scores are log probabilities of pieces of words.

    The log probability of a word is the sum over its pieces, at least `FLOOR`.
    """
    scores = _scores(tokenizer)

    def log_probability(word: str) -> float:
        ids = tokenizer.encode(word.encode("utf-8", "replace").decode(), add_special_tokens=False).ids
        return max(FLOOR, sum(scores[number] for number in ids)) if ids else FLOOR

    return Reference(log_probability, 0.1)


@lru_cache(2)
def _scores(tokenizer: Any) -> list[float]:
    """Return the score of each piece of a tokenizer, by id; zeros if the tokenizer has no scores."""
    vocabulary = json.loads(tokenizer.to_str())["model"]["vocab"]
    if isinstance(vocabulary, dict):
        return [0.0] * len(vocabulary)
    return [float(score) for _, score in vocabulary]
