"""Order the candidates of a query, group forms of the same words, and show each group as a translator reads it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import chain
from operator import itemgetter

import numpy as np
import regex

from phrasemate import candidates as proposals
from phrasemate.encode.scoring import FEATURES, CandidateScorer
from phrasemate.features import CandidateSet
from phrasemate.lexicon.endings import SYLLABLES
from phrasemate.lexicon.forms import are_forms
from phrasemate.lexicon.induced import elided_article
from phrasemate.lexicon.inflection import are_english_inflections, without_affixes
from phrasemate.lexicon.separable_verbs import infinitive_of
from phrasemate.lexicon.spelling import without_accents
from phrasemate.lexicon.wordings import wording_of
from phrasemate.results import Answer, Group, LazyMapping, usual_spelling
from phrasemate.text import folded
from phrasemate.text.english_verbs import is_phrasal_verb, regular
from phrasemate.text.languages import primary
from phrasemate.text.normalize import HYPHENS
from phrasemate.types import Hit, Phrase
from phrasemate.utils.arrays import Doubles, Floats
from phrasemate.utils.hyphens import LETTERS

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


def _item(compute: Callable[[], Sequence[dict[str, float]]], place: int) -> dict[str, float]:
    """Compute a list, and return the mapping at a place in it."""
    return compute()[place]


def _by_name(features: Floats) -> dict[str, float]:
    """Map the names of `FEATURES` to the values of a candidate, (len(FEATURES),)."""
    return dict(zip(FEATURES, features.tolist(), strict=True))


def compute_probabilities(query: CandidateSet, scorer: CandidateScorer, language: str) -> Doubles:
    """Compute the probability of each candidate, (candidates,), with the rules that the scorer cannot express.

    ``language``: of the documents.
    """
    values = scorer.probabilities(query.features)
    if language == "en":
        values = with_base_first(query, values)
    return with_same_first(query, with_whole_first(query, values))


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


def group_forms(
    candidates: Sequence[proposals.Candidate], order: Iterable[int], language: str, most: int
) -> list[list[int]]:
    """Group candidates that are forms of the same words (`are_forms`); return the first ``most`` groups of an order.

    English verb forms are one group, too: "said", "saying" and "say". Their difference matters to terms, but not here.
    Chinese wordings are compared without their word boundaries: ICU splits 图书馆, but not 圖書館.
    """
    groups: list[list[int]] = []
    by_beginning: dict[str, list[tuple[str, list[int], str]]] = {}  # forms begin alike, save for affixes
    for number in order:
        wording = regular_wording(candidates[number].wording, language)
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


def regular_wording(wording: str, language: str) -> str:
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


def answer_of(
    query: CandidateSet,
    probabilities: Doubles,
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
        rest = [hit for hit in hits if hit not in verb_hits]
        if infinitive in groups and rest:  # the verb has a group already
            infinitive, verb_hits = "", rest
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
    if not verb:
        return "", hits
    return verb, [hit for hit, infinitive in zip(hits, infinitives, strict=True) if infinitive == verb]


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
