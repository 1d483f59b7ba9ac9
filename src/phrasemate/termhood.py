"""Termhood: how likely a phrase of a document is a term of its subject, from where and how often it stands.

A phrase gets a few features (see `describe`). A logistic regression over them, the same for all languages, ranks it.
Phrases of several words are judged like single words: nothing divides by the length. The weights were fitted on the
terms that ten Canadian acts define (bench/law_terms.py). A phrase of several words that stands once, a long one and one
that is a whole clause are seldom terms.

What Frantzi, Ananiadou and Mima (2000) call the C-value is here in two features: how often a phrase stands, and the
share of it that stands in one longer phrase. Keyness compares the document's words with a `Reference`, frequencies in
general language, as in weirdness (Ahmad, Gillam and Tostevin 1999). Association is the pointwise mutual information of
neighbours.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from phrasemate.encode import FrequentWords
from phrasemate.lexicon.inflection import has_stemmer, stemmed_all
from phrasemate.lexicon.locutions import OF, general_words
from phrasemate.text import folded, words
from phrasemate.text.languages import primary
from phrasemate.text.normalize import composed
from phrasemate.types import Phrase

WEIGHTS = {  # bench/law_terms.py --part fit
    "frequency": 0.9,
    "belief": 13.79,
    "length": 2.96,
    "keyness": 0.8,  # times the weight of its reference
    "association": 0.18,
    "function words": -4.63,
    "general words": -0.75,
    "once": -4.67,
    "long": -1.02,
    "clause": -3.35,
    "nested": -2.84,
    "number": -3.45,
    "defined": 3.0,  # by hand: laws define all the terms that they are measured by, other documents a few
}
LONG = 3  # words, above which a term is seldom
NESTED = 0.8  # of the occurrences of a phrase in one longer phrase, from which on the longer one stands for it
BIAS = -21.48
_ENDINGS = 3  # characters that inflected forms of a word may differ in, after what they share
_ENGLISH_ENDINGS = frozenset({"", "s", "es", "y", "ies", "'s"})  # "invest" and "investment" stay two terms
_CODE = re.compile(r"[_{}<>\\|=@$%^~`]|[a-z]\.[a-z]{2}")
_BESIDE = frozenset("_{}<>\\|=@$%^~`")
_OPENING = ",:(\"'“„«‘"
_NEXT = 120  # characters after a phrase that are looked at
_DEFINES = re.compile(
    r"""\s*[\"'”’»“)\]]*\s*(?:\([^()]{1,80}\)\s*)?,?\s*(?:
    (?:means?|includes?|(?:is|are)\ defined|refers?\ to|(?:has|have)\ the\ (?:same\ )?meaning|shall\ mean
    |désignent?|s[’']entend(?:ent)?|signifien?t?|bedeute[nt]|bezeichne[nt]|hei(?:ß|ss)[et]n?|gilt\ als|umfass(?:t|en)
    |significan?|designan?|se\ entiende|se\ entenderá|si\ intend(?:e|ono)|entende-se|betekent|omvat|betyder|avses
    |oznacza(?:ją)?|означа[ею]т|понима[ею]тся)\b
    |とは|是指|[:：]\s)""",
    re.VERBOSE,
)
_CAPITAL_AFTER = re.compile(r"\s+(?:\([^()]{1,80}\)\s*)?[A-ZÀ-ÖØ-ÞΑ-ΩА-Я]")
_CAPITAL_NOUNS = frozenset({"de", "lb"})  # where every noun has a capital


class Occurrence(NamedTuple):
    """A phrase where it stands; ``score`` is the segmenter's belief, 0 to 1, that it is a phrase there.

    ``translation``: what a bilingual file has for the sentence in other languages.
    """

    phrase: Phrase
    document: str
    line: int
    score: float = 1.0
    translation: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For JSON; start and end are characters of the context."""
        phrase, place = self.phrase, {"document": self.document, "line": self.line}
        return {"context": phrase.context, "start": phrase.start, "end": phrase.end, **place}


@dataclass(slots=True)
class PhraseStatistics:
    """A phrase while its occurrences are gathered: how often, their probabilities' sum and greatest, and where.

    ``forms``: its inflected forms, if there are several. ``features``: what `describe` sets.
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
        """The mean probability."""
        return self.total / self.count


Phrases = Mapping[str, PhraseStatistics]


# -- inflected forms


def merge_inflected(phrases: Phrases, language: str) -> dict[str, PhraseStatistics]:
    """The phrases with all inflected forms of one as one, under the most frequent form, in order of occurrence.

    Forms of one phrase have equal stems (Snowball), word by word. What follows the beginning that they share must be
    an ending of English, or short in another language. In German a noun is not a form of a verb. Without a stemmer all
    phrases stay as they are.
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
            head_of[key] = next((head for head in heads if _inflects(head, key, language)), key)
            if head_of[key] == key:
                heads.append(key)
    forms: defaultdict[str, list[str]] = defaultdict(list)
    for key in phrases:
        forms[head_of[key]].append(key)
    return {head: _joined(phrases, keys) for head, keys in forms.items()}


def _is_noun(places: Sequence[Occurrence], language: str) -> bool:
    """Whether the last word has a capital at most places; True where capitals do not tell."""
    small = sum(place.phrase.text.split()[-1][:1].islower() for place in places)
    return primary(language) not in _CAPITAL_NOUNS or 2 * small <= len(places)


def _inflects(one: str, other: str, language: str) -> bool:
    pairs = zip(one.split(" "), other.split(" "), strict=False)
    is_same = (first == second or _same_word(first, second, language) for first, second in pairs)
    return one.count(" ") == other.count(" ") and all(is_same)


def _same_word(one: str, other: str, language: str) -> bool:
    plain = [_without_marks(word) for word in (one, other)]
    differing = (at for at, (first, second) in enumerate(zip(*plain, strict=False)) if first != second)
    prefix_length = next(differing, min(map(len, plain)))
    endings = {word[prefix_length:] for word in plain}
    if language == "en":
        return endings <= _ENGLISH_ENDINGS
    return prefix_length > 1 and max(map(len, endings)) <= _ENDINGS


def _without_marks(word: str) -> str:
    if word.isascii():
        return word
    return "".join(sign for sign in unicodedata.normalize("NFD", word) if not unicodedata.combining(sign))


def _joined(phrases: Phrases, keys: Sequence[str]) -> PhraseStatistics:
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
    """Sets the features of each phrase; ``common``: folded function words, of which those for "of" do not count.

    Without a ``reference`` all phrases have the keyness 0.
    """
    counts = _word_counts(phrases)
    total = max(1, counts.total())
    longer = longer_phrases(phrases)
    keyness = {}
    if reference is not None:
        for word, count in counts.items():
            keyness[word] = reference.weight * (math.log(count / total) - reference.log_probability(word))
    rare = {word: word not in OF.get(primary(language), ()) for word in counts}
    function_words = {word for word in common if rare.get(word)}
    general = {word for word in general_words(language) if rare.get(word)}
    for key, statistics in phrases.items():
        parts, count, places = key.split(" "), statistics.count, statistics.places
        chances = [
            count * total / (max(counts[left], 1) * max(counts[next_part], 1)) for left, next_part in pairwise(parts)
        ]
        statistics.features = {
            "frequency": math.log1p(count),
            "belief": statistics.greatest,
            "length": math.log2(len(parts) + 1),
            "keyness": sum(keyness.get(part, 0.0) for part in parts) / len(parts),
            "association": math.log(min(chances, default=1.0)),
            "function words": sum(part in function_words for part in parts) / len(parts),
            "general words": sum(part in general for part in parts) / len(parts),
            "once": float(count == 1 and len(parts) > 1),
            "long": float(max(0, len(parts) - LONG)),
            "clause": sum(map(_is_alone, places)) / len(places) if len(parts) > 2 else 0.0,
            "nested": min(1.0, max((phrases[left].count for left in longer[key]), default=0) / count),
            "number": float(any(not any(map(str.isalpha, part)) for part in parts)),
            "defined": float(any(is_defined(place.phrase, language) for place in places)),
        }


def _is_alone(place: Occurrence) -> bool:
    """Whether punctuation or nothing stands on both sides, as it does around a clause or a heading."""
    phrase = place.phrase
    before, after = phrase.context[: phrase.start].rstrip(), phrase.context[phrase.end :].lstrip()
    return not (before[-1:].isalnum() or after[:1].isalnum())


def is_phrase_of(language: str, parts: Sequence[str], places: Sequence[Occurrence], common: Collection[str]) -> bool:
    """Whether a run of words may be a phrase: no function word at its edges, and in German a noun at its end."""
    if parts[0] in common or parts[-1] in common:
        return False
    return len(parts) == 1 or _is_noun(places, language)


def termhood(phrases: Phrases) -> dict[str, float]:
    """The probability of each described phrase to be a term."""
    logits = {
        key: BIAS + sum(WEIGHTS[name] * value for name, value in statistics.features.items())
        for key, statistics in phrases.items()
    }
    return {key: 1 / (1 + math.exp(-logit)) for key, logit in logits.items()}


def longer_phrases(phrases: Phrases) -> dict[str, list[str]]:
    """For each phrase the longer ones that contain it, in one of their forms."""
    key_of = {form: key for key, statistics in phrases.items() for form in statistics.forms or (key,)}
    longer: dict[str, list[str]] = {key: [] for key in phrases}
    for key, statistics in phrases.items():
        inside = {part for form in statistics.forms or (key,) for part in parts_of(form)}
        for part in dict.fromkeys(key_of[part] for part in inside if part in key_of):
            if part != key:
                longer[part].append(key)
    return longer


def parts_of(wording: str) -> set[str]:
    """The runs of words of a wording, itself among them."""
    parts = wording.split(" ")
    ends = range(1, len(parts) + 1)
    return {" ".join(parts[low:high]) for high in ends for low in range(high)}


def fold_parts(phrases: Phrases, ranked: Sequence[str]) -> list[str]:
    """The ranked phrases without those that hardly stand alone, where a longer one that contains them ranks higher."""
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
    """How often each folded word stands in the sentences of the phrases."""
    places = {
        (*place[1:3], place.phrase.context)
        for statistics_of_key in phrases.values()
        for place in statistics_of_key.places
    }
    counts: Counter[str] = Counter()
    for sentence, times in Counter(context for _, _, context in places).items():
        for start, end in words(sentence):
            counts[composed(folded(sentence[start:end]))] += times
    return counts


def is_defined(phrase: Phrase, language: str = "") -> bool:
    """Whether the sentence defines the phrase: "share means …", "part s'entend de …", "Share: …".

    In a line of a glossary a phrase in small letters comes first and a capital after it.
    """
    before, after = phrase.context[: phrase.start].rstrip(), phrase.context[phrase.end : phrase.end + _NEXT]
    if any(map(str.isalnum, before)) and before[-1] not in _OPENING:
        return False
    if _DEFINES.match(after):
        return True
    first = phrase.context[phrase.start]
    opens = not any(map(str.isalnum, before)) and first.islower() and primary(language) not in {*_CAPITAL_NOUNS, ""}
    return opens and _CAPITAL_AFTER.match(after) is not None


def is_code(phrase: Phrase) -> bool:
    """Whether a phrase is part of a placeholder, a path or code: "%s", "{name}", "file_name", "www.example.org"."""
    context, start, end = phrase.context, phrase.start, phrase.end
    beside = context[max(0, start - 1) : start] + context[end : end + 1]
    return _CODE.search(phrase.text) is not None or not _BESIDE.isdisjoint(beside)


FLOOR = -19.0  # logarithm of the probability of a word that is unknown: one in 180 million


class Reference(NamedTuple):
    """Natural logarithms of the probabilities of folded words; ``weight``: how much they count (bench/law_terms.py)."""

    log_probability: Callable[[str], float]
    weight: float


def reference_of_text(sentences: Iterable[str]) -> Reference:
    """The frequencies in a text; a word that it lacks counts as half an occurrence."""
    counts = FrequentWords()
    for sentence in sentences:
        counts.update(sentence)
    total = counts.counts.total() + 1
    return Reference(lambda word: math.log((counts.counts[word] or 0.5) / total), 0.34)


def tokenizer_reference(tokenizer: Any) -> Reference:
    """The scores of a Unigram tokenizer, a language model of single words; of a word of several pieces their sum."""
    scores = _scores(tokenizer)

    def log_probability(word: str) -> float:
        ids = tokenizer.encode(word.encode("utf-8", "replace").decode(), add_special_tokens=False).ids
        return max(FLOOR, sum(scores[number] for number in ids)) if ids else FLOOR

    return Reference(log_probability, 0.1)


@lru_cache(2)
def _scores(tokenizer: Any) -> list[float]:
    """The score of each piece; zeros for a tokenizer without scores."""
    vocabulary = json.loads(tokenizer.to_str())["model"]["vocab"]
    if isinstance(vocabulary, dict):
        return [0.0] * len(vocabulary)
    return [float(score) for _, score in vocabulary]
