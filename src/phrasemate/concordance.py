"""Bilingual concordance from monolingual text: the phrases of a text, and their equivalents in context.

The web page shows these; here they are data::

    reading = read("Wir hielten eine Schweigeminute ab.", index.model)
    phrase = in_sentence(reading.text, 12, 31)
    answer = column("news", Searcher(index).search(marked(reading.text, 12, 31)))
    write("answer.tbx", phrase.text, [arranged(answer, "left")], "de")
"""

from __future__ import annotations

import ctypes
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unicodedata import combining, normalize

import numpy as np

from phrasemate.encode.segmenter import JOINT, disjoint
from phrasemate.errors import InputError, QueryError
from phrasemate.lexicon import InducedLexicon, bundled_lexicon, without_function_words
from phrasemate.lexicon.locutions import OF, general_words, locutions
from phrasemate.lexicon.separable_verbs import SeparableVerb, joined, separable_verbs
from phrasemate.query import parse_query
from phrasemate.results import Result
from phrasemate.text import folded, split_sentences, words
from phrasemate.text.formats.bilingual import write_units
from phrasemate.text.formats.tables import harmless, tsv_line, write_lines, write_sheet
from phrasemate.text.formats.units import Side, Term, TermPair, Unit, pair_tags
from phrasemate.text.sentences import UTF_16, icu_functions
from phrasemate.text.term_lists import write_pairs
from phrasemate.types import Hit, Phrase, Span
from phrasemate.utils.hyphens import COMPOUND, cuts

UNIT_WORDS = 5  # maximum number of words of a unit from the lexicon or the list of fixed expressions
_STOP = re.compile(r"[;:!?()\[\]„“”«»]\s|,\s|\s[(\[„“«–—]")  # punctuation that no phrase contains
_CHINESE = re.compile("[\u3400-\u9fff々]{3,8}")  # compound of Chinese characters
ALONE = 4  # words; a text with at most this many is a phrase as a whole


class Piece(NamedTuple):
    """Part of a text: a phrase, or the text between two phrases.

    Attributes:
        text: Text of the piece.
        start: First character in the whole text.
        end: End in the whole text, exclusive.
        phrase: Whether the piece is a phrase.
        verb: Separable verb that the piece is a part of, if any.
    """

    text: str
    start: int
    end: int
    phrase: bool
    verb: SeparableVerb | None = None


class PlacedPhrase(NamedTuple):
    """Phrase in its sentence, and its place in the whole text.

    Attributes:
        phrase: Phrase with its context, for the encoder. For a separable verb, this is the infinitive in the sentence
            that `of_verb` writes; otherwise the phrase is the text from ``start`` to ``end``.
        start: First character in the whole text; of a separable verb, that of its finite verb.
        end: End in the whole text, exclusive.
        particle: Start and end of the particle of a separable verb in the whole text, if the phrase is one.
    """

    phrase: Phrase
    start: int
    end: int
    particle: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """A text with its phrases.

    Attributes:
        text: The text.
        spans: All phrases; they may overlap.
        shown: Phrases to underline; they overlap neither one another nor the verbs.
        verbs: Separable verbs with their parts at different places.
    """

    text: str
    spans: tuple[Span, ...]
    shown: tuple[Span, ...]
    verbs: tuple[SeparableVerb, ...] = ()

    def pieces(self, chosen: tuple[int, int] | None = None, particle: tuple[int, int] | None = None) -> list[Piece]:
        """Split the whole text into pieces at the phrases to underline.

        Args:
            chosen: Span that the user has chosen; it replaces the phrases that it overlaps.
            particle: Span of the particle, if ``chosen`` is the verb of a separable verb.
        """
        verbs = [
            verb
            for verb in self.verbs
            if chosen is None
            or (chosen, particle) == verb[:2]
            or not (_overlap(verb.verb, chosen) or _overlap(verb.particle, chosen))
        ]
        verb_of = {place: verb for verb in verbs for place in (verb.verb, verb.particle)}
        disjoint_spans = sorted([*(span[:2] for span in self.shown), *verb_of])
        if chosen is not None:
            disjoint_spans = sorted([span for span in disjoint_spans if not _overlap(span, chosen)] + [chosen])
        pieces, at = [], 0
        for start, end in disjoint_spans:
            pieces.append(Piece(self.text[at:start], at, start, False))
            pieces.append(Piece(self.text[start:end], start, end, True, verb_of.get((start, end))))
            at = end
        pieces.append(Piece(self.text[at:], at, len(self.text), False))
        return [piece for piece in pieces if piece.text]

    def others(self, start: int, end: int) -> list[Span]:
        """List the phrases that overlap ``text[start:end]``, except this span itself, in the order of the text."""
        overlapping = [span for span in self.spans if _overlap(span[:2], (start, end)) and span[:2] != (start, end)]
        return sorted(overlapping, key=lambda span: (span.start, span.end))


def read(text: str, model: Any) -> Reading:
    """Find the phrases of a text with the segmenter of ``model``, sentence by sentence.

    The units of `whole_units` are phrases, too, and so are the verbs of `separable_verbs`. No phrase begins or ends
    within a compound with hyphens, and no clause is underlined (`without_clauses`). A text of up to four words is one
    phrase.
    """
    sentences = split_sentences(text)
    segments = model.segment([text[start:end] for start, end in sentences]) if sentences else []
    spans: list[Span] = []
    visible: list[Span] = []
    verbs: list[SeparableVerb] = []
    for (first, last), phrase_spans in zip(sentences, segments, strict=True):
        sentence = text[first:last]
        own_verbs, own_spans = separable_verbs(sentence, language_of(sentence)), with_units(sentence, phrase_spans)
        candidates = without_parts(without_clauses(sentence, own_spans), own_verbs)
        spans += [_shift(span, first) for span in own_spans]
        visible += [_shift(span, first) for span in choose_disjoint(sentence, candidates)]
        verbs += [verb.moved(first) for verb in own_verbs]
    word_spans = words(text)
    if 0 < len(word_spans) <= ALONE:
        whole = Span(word_spans[0][0], word_spans[-1][1])
        spans, visible, verbs = [whole, *(span for span in spans if span[:2] != whole[:2])], [whole], []
    return Reading(text, tuple(spans), tuple(visible), tuple(verbs))


@lru_cache(maxsize=256)
def language_of(sentence: str) -> str:
    """Identify the language of a sentence by the bundled lexicon; "" if it is not clear or there is no lexicon."""
    lexicon = bundled_lexicon()
    return lexicon.language_of(sentence) if lexicon is not None else ""


def without_parts(spans: Sequence[Span], verbs: Sequence[SeparableVerb]) -> list[Span]:
    """Return the spans that overlap no part of a separable verb."""
    parts = [place for verb in verbs for place in (verb.verb, verb.particle)]
    return [span for span in spans if not any(_overlap(span[:2], part) for part in parts)]


def with_units(sentence: str, spans: Sequence[Span]) -> list[Span]:
    """Add the units of a sentence (`whole_units`) to its spans, sorted.

    Spans that cut a compound with hyphens or contain punctuation (`_STOP`) are removed.
    """
    units = whole_units(sentence)
    compounds = [compound.span() for compound in COMPOUND.finditer(sentence)]
    candidates = [span for span in spans if not _STOP.search(sentence, span.start, span.end)]
    candidates = [span for span in candidates if not any(cuts(span, compound) for compound in compounds)]
    places = {unit[:2] for unit in units}
    return sorted([*(span for span in candidates if span[:2] not in places), *units])


def without_clauses(sentence: str, spans: Sequence[Span]) -> list[Span]:
    """Remove the segmenter's spans of several words that contain a stop word.

    Most of them are clauses ("ging er zur Bank") or a noun with the words after it, which translators do not look up.
    Two kinds stay: the spans of `whole_units`, and in English and Romance languages those with a word for "of" inside
    ("breach of contract"). If the bundled lexicon does not know the language, all spans stay.
    """
    language = language_of(sentence)
    stops = general_words(language)
    places = [(start, end) for start, end in words(sentence) if folded(sentence[start:end]) in stops]
    inner = OF.get(language, frozenset())
    return [
        span
        for span in spans
        if span.score == 1
        or not any(
            _within(place, span[:2]) and not (_inside(place, span[:2]) and folded(sentence[slice(*place)]) in inner)
            for place in places
        )
    ]


def _within(place: tuple[int, int], span: tuple[int, int]) -> bool:
    """Return whether a place is part of a span, but not all of it."""
    return span[0] <= place[0] and place[1] <= span[1] and place != span


def _inside(place: tuple[int, int], span: tuple[int, int]) -> bool:
    """Return whether a place is part of a span, but not at its beginning or end."""
    return span[0] < place[0] and place[1] < span[1]


def whole_units(sentence: str) -> list[Span]:
    """List the units of a sentence, which are phrases regardless of the segmenter; their score is 1.

    These are compounds with hyphens, compounds of Chinese characters in Japanese, and runs of two to five words that
    are units of the bundled lexicon, or fixed expressions (`phrasemate.lexicon.locutions`).
    """
    lexicon, language = bundled_lexicon(), language_of(sentence)
    units = {compound.span() for compound in COMPOUND.finditer(sentence)}
    if language == "ja":
        units |= {run.span() for run in _CHINESE.finditer(sentence)}
    if lexicon is not None and language not in ("", "ja"):
        word_spans = words(sentence)
        for low, (start, _) in enumerate(word_spans):
            for (_, before), (last, end) in pairwise(word_spans[low : low + UNIT_WORDS]):
                if not JOINT.fullmatch(sentence, before, last):
                    break
                if _is_unit(folded(sentence[start:end]), language, lexicon):
                    units.add((start, end))
    return [Span(start, end, 1.0) for start, end in sorted(units)]


def _is_unit(wording: str, language: str, lexicon: InducedLexicon) -> bool:
    """Return whether a folded wording of several words is a fixed expression or a unit of the lexicon.

    Units of the lexicon that begin with a function word, such as a noun with its article, do not count.
    """
    if wording in locutions(language):
        return True
    return wording == without_function_words(wording, language) and lexicon.is_unit(wording, language)


def in_sentence(text: str, start: int, end: int) -> Phrase:
    """Return ``text[start:end]``, without white space at its ends, as a phrase in its sentence or sentences.

    Raises QueryError if the phrase has no letter or digit, and InputError if the offsets are outside the text.
    """
    if not 0 <= start < end <= len(text):
        raise InputError(f"the phrase {start}-{end} is outside of the text, which has {len(text)} characters")
    phrase = text[start:end]
    if not any(map(str.isalnum, phrase)):
        raise QueryError(f"{phrase[:40]!r} has no letter or digit; choose a word or several")
    start, end = end - len(phrase.lstrip()), start + len(phrase.rstrip())
    sentence_spans = [span for span in split_sentences(text) if _overlap(span, (start, end))]
    first = min([start, *(span[0] for span in sentence_spans)])
    last = max([end, *(span[1] for span in sentence_spans)])
    return Phrase(text[first:last], start - first, end - first)


def phrases_of(text: str, model: Any) -> list[PlacedPhrase]:
    """List the phrases of a text to translate: those marked by ``[[ ]]``, else those that `read` would underline.

    Separable verbs are among the latter. The places are those in the text without marks, in ascending order. Raises
    QueryError for invalid marks.
    """
    plain_text, marked_phrases = parse_query(text)
    if marked_phrases:
        return [PlacedPhrase(phrase, phrase.start, phrase.end) for phrase in marked_phrases]
    reading = read(plain_text, model)
    phrases = [PlacedPhrase(in_sentence(plain_text, *span[:2]), *span[:2]) for span in reading.shown]
    phrases += [PlacedPhrase(of_verb(plain_text, verb), *verb.verb, verb.particle) for verb in reading.verbs]
    return sorted(phrases, key=lambda place: place.start)


def of_verb(text: str, verb: SeparableVerb) -> Phrase:
    """Return the infinitive of a separable verb, in its sentence (`phrasemate.lexicon.separable_verbs.joined`)."""
    sentence = in_sentence(text, *verb.verb)
    return joined(sentence.context, verb.moved(sentence.start - verb.verb[0]))


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Return whether two spans share a character."""
    return one[0] < other[1] and other[0] < one[1]


def _shift(span: Span, offset: int) -> Span:
    """Move a span by a number of characters."""
    return Span(span.start + offset, span.end + offset, span.score)


def choose_disjoint(sentence: str, spans: Sequence[Span]) -> Iterable[Span]:
    """Choose the best spans at word boundaries that do not overlap (`phrasemate.encode.segmenter.disjoint`)."""
    word_spans = words(sentence)
    first_at, last_at = ({word[side]: n for n, word in enumerate(word_spans)} for side in (0, 1))
    usable = [span for span in spans if span.start in first_at and span.end in last_at]
    if not usable:
        return []
    first, last = np.array([(first_at[span.start], last_at[span.end]) for span in usable], np.int64).T
    scores = np.array([span.score for span in usable], np.float32)
    low = float(scores.min()) if scores.min() < scores.max() else 0.0  # estimate of the segmenter's threshold
    return [usable[number] for number in disjoint(first, last, scores, low)]


Key = Callable[[str], bytes]

_LOCALE = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{1,8})*")


@lru_cache(maxsize=64)
def collation(language: str = "") -> Key:
    """Return a function that computes sort keys of texts, for the alphabetical order of a language, such as "sv".

    A sort key is a byte string. For an unknown or empty tag the order is Unicode's default for all languages. Without
    ICU, diacritics and case are ignored. The function is thread-safe.
    """
    if (icu := _icu()) is None:
        return _plain_key
    status, locale = ctypes.c_int(0), language.replace("-", "_") if _LOCALE.fullmatch(language) else "root"
    collator = icu.ucol_open(locale.encode("ascii"), ctypes.byref(status))
    if status.value > 0 or not collator:  # below 0 are warnings, such as a locale that uses the rules of another
        return _plain_key

    def key(text: str) -> bytes:
        units = text.encode(UTF_16, "surrogatepass")
        size = icu.ucol_getSortKey(collator, units, len(units) // 2, None, 0)
        buffer = ctypes.create_string_buffer(size)
        icu.ucol_getSortKey(collator, units, len(units) // 2, buffer, size)
        return buffer.raw

    return key


def _plain_key(text: str) -> bytes:
    """Return the sort key of a text without ICU: case-folded, without diacritics."""
    parts = (part for character in text.casefold() for part in normalize("NFKD", character))
    return "".join(part for part in parts if not combining(part)).encode("utf-8", "surrogatepass")


@cache
def _icu() -> SimpleNamespace | None:
    """Load ICU's functions that open a collator and compute a sort key; None without ICU."""
    pointer, text, number, status = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32, ctypes.POINTER(ctypes.c_int)
    signatures = {
        "ucol_open": (pointer, text, status),
        "ucol_getSortKey": (number, pointer, text, number, text, number),
    }
    return icu_functions("libicui18n", "icuin", signatures)


ORDERS = ("score", "count", "left", "right")
REACH = 8  # words on each side of a match by which lines are sorted
NEAR = 240  # characters on each side of a match in which these words are searched


@dataclass(frozen=True, slots=True)
class Line:
    """Line of a concordance: a hit, and the name of its index.

    ``left + match + right`` is the whole sentence.
    """

    index: str
    hit: Hit

    @property
    def left(self) -> str:
        """Text before the match."""
        return self.hit.context[: self.hit.start]

    @property
    def match(self) -> str:
        """Text of the hit."""
        return self.hit.text

    @property
    def right(self) -> str:
        """Text after the match."""
        return self.hit.context[self.hit.end :]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A wording that may translate the phrase.

    Attributes:
        text: The wording.
        score: Cosine of its best hit.
        count: Number of its occurrences, as in `phrasemate.results.Group`.
        lines: Its lines of the concordance.
        support: Value that candidates are sorted by, the weight of the `Group`.
        probability: Probability that the wording is an equivalent; None without a scorer.
        source: Name of the dictionary that lists it, or "".
        language: Language of its documents, or "".
    """

    text: str
    score: float
    count: int
    lines: tuple[Line, ...]
    support: float
    probability: float | None = None
    source: str = ""
    language: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """The candidates of one index, or of several indexes together.

    ``confidence`` is the probability that the first candidate is an equivalent; None if the model is not calibrated.
    """

    name: str
    candidates: tuple[Candidate, ...]
    confidence: float | None = None

    @property
    def language(self) -> str:
        """Language of most candidates; "" without candidates."""
        language_counts = Counter(candidate.language for candidate in self.candidates)
        return max(language_counts, key=lambda language: language_counts[language], default="")


def column(name: str, result: Result) -> Column:
    """Convert the result of a search in the index ``name`` to a column."""
    candidates = []
    for group in result.groups:
        lines = tuple(Line(name, hit) for hit in group.hits)
        facts = (group.weight, group.probability, group.source, group.language)
        candidates.append(Candidate(group.text, group.score, group.count, lines, *facts))
    return Column(name, tuple(candidates), result.confidence)


def merged(columns: Sequence[Column], name: str = "") -> Column:
    """Merge columns: equal wordings become one candidate, with the sum of the counts and the best score.

    Scores are comparable only if all indexes were built with the same model. The confidence is the highest one, a lower
    bound for the probability that one of the indexes has an equivalent. ``name``: by default those of the columns.
    """
    candidates_of: dict[str, list[Candidate]] = {}
    for candidate in (candidate for column in columns for candidate in column.candidates):
        candidates_of.setdefault(folded(candidate.text), []).append(candidate)
    confidences = [column.confidence for column in columns if column.confidence is not None]
    candidates = tuple(sorted(map(_merge, candidates_of.values()), key=lambda candidate: -candidate.support))
    return Column(name or " + ".join(column.name for column in columns), candidates, max(confidences, default=None))


def _merge(candidates: Sequence[Candidate]) -> Candidate:
    """Merge candidates with the same wording."""
    best = max(candidates, key=lambda candidate: candidate.score)
    lines = sorted((line for candidate in candidates for line in candidate.lines), key=lambda line: -line.hit.score)
    count, support = sum(candidate.count for candidate in candidates), max(item.support for item in candidates)
    probabilities = [candidate.probability for candidate in candidates if candidate.probability is not None]
    source = next((candidate.source for candidate in candidates if candidate.source), "")
    probability = max(probabilities, default=None)
    return Candidate(best.text, best.score, count, tuple(lines), support, probability, source, best.language)


def arranged(source: Column, order: str = "score") -> Column:
    """Sort the candidates of a column, or the lines of each candidate.

    The order "score" sorts the candidates by their support, and "count" by their frequency. "left" and "right" sort the
    lines by the words before or after the match, in the alphabetical order of their language. The words before a match
    are compared from the last to the first. Raises InputError for another order.
    """
    if order not in ORDERS:
        raise InputError(f"order {order[:40]!r}; expected one of {', '.join(ORDERS)}")
    candidates: Iterable[Candidate] = source.candidates
    if order == "score":
        candidates = sorted(candidates, key=lambda candidate: -candidate.support)
    elif order == "count":
        candidates = sorted(candidates, key=lambda candidate: (-candidate.count, -candidate.support))
    else:
        key = _context_key(order, collation(source.language))
        candidates = [replace(candidate, lines=tuple(sorted(candidate.lines, key=key))) for candidate in candidates]
    return replace(source, candidates=tuple(candidates))


def _context_key(side: str, word_key: Key) -> Callable[[Line], Any]:
    """Return a function that computes the sort key of a line: its words on one side, then those on the other."""

    def key(line: Line) -> tuple[list[bytes], list[bytes]]:
        before, after = line.left[-NEAR:], line.right[:NEAR]
        left = [word_key(before[start:end]) for start, end in reversed(words(before)[-REACH:])]
        right = [word_key(after[start:end]) for start, end in words(after)[:REACH]]
        return (left, right) if side == "left" else (right, left)

    return key


def clip(text: str, most: int, keep: str) -> str:
    """Shorten a context to at most ``most`` characters of whole words, and add "…" where it was cut.

    ``keep``: "start" to keep the beginning, "end" to keep the end.
    """
    if len(text) <= most:
        return text
    if keep == "start":
        ends = [end for _, end in words(text[: most + 1]) if end <= most]
        return text[: ends[-1] if ends else most] + "…"
    cut_length = len(text) - most
    starts = [start for start, _ in words(text[cut_length - 1 :]) if start > 0]
    return "…" + text[cut_length - 1 + starts[0] if starts else cut_length :]


FORMATS = ("tsv", "xlsx", "tbx", "tmx")
_HEADER = ("phrase", "candidate", "score", "count", "index", "document", "line", "language", "left", "match", "right")
_CONTEXTS = 3  # sentences per candidate in a term base


def write(path: str | os.PathLike[str], phrase: str, columns: Sequence[Column], language: str = "") -> None:
    """Write the candidates for ``phrase`` in the format of the file's extension: .tsv, .xlsx, .tbx or .tmx.

    A table (.tsv, .xlsx) has a row for each line of the concordance, with its place and both contexts; cells of a .tsv
    file are `harmless`. A term base (.tbx) has one concept: the phrase, and its candidates with sentences. A
    translation memory (.tmx) has a unit for each candidate, with its score, count and best sentence as properties.

    Args:
        path: File to write.
        phrase: The phrase.
        columns: Candidates of one or several indexes.
        language: Language of the phrase.

    Raises InputError for another extension, and MissingExtra for .xlsx without its package.
    """
    suffix = Path(path).suffix.lower().removeprefix(".")
    if suffix == "tsv":
        write_lines(path, (tsv_line(map(harmless, row)) for row in _rows(phrase, columns)))
    elif suffix == "xlsx":
        write_sheet(path, _rows(phrase, columns), "concordance")
    elif suffix == "tbx":
        write_pairs(path, _pairs(phrase, columns, language))
    elif suffix == "tmx":
        write_units(path, _units(phrase, columns, language), (language, ""))
    else:
        raise InputError(f"{suffix[:20]!r} is not a format of a concordance; expected one of {', '.join(FORMATS)}")


def _rows(phrase: str, columns: Sequence[Column]) -> Iterator[Sequence[str | int | float]]:
    """Yield the rows of a table, the header first."""
    yield _HEADER
    for candidate in _candidates(columns):
        for line in candidate.lines:
            facts = (phrase, candidate.text, round(line.hit.score, 4), candidate.count)
            place = (line.index, line.hit.document, line.hit.line, line.hit.language)
            yield *facts, *place, line.left, line.match, line.right


def _pairs(phrase: str, columns: Sequence[Column], language: str) -> Iterator[TermPair]:
    """Yield a pair of terms for each candidate, for a term base."""
    source = Term(phrase, language, "c1")
    for candidate in _candidates(columns):
        contexts = tuple(line.hit.context for line in candidate.lines[:_CONTEXTS])
        yield TermPair(source, Term(candidate.text, candidate.language, "c1", contexts=contexts), candidate.score)


def _units(phrase: str, columns: Sequence[Column], language: str) -> Iterator[Unit]:
    """Yield a translation unit for each candidate, for a translation memory."""
    for candidate in _candidates(columns):
        properties = {"score": f"{candidate.score:.4f}", "count": str(candidate.count)}
        if candidate.lines:
            best = max(candidate.lines, key=lambda line: line.hit.score)  # lines may be sorted by context
            properties |= {"document": f"{best.hit.document}:{best.hit.line}", "context": best.hit.context}
        tags = pair_tags(language, candidate.language)
        yield Unit((Side(phrase, tags[0]), Side(candidate.text, tags[1])), properties)


def _candidates(columns: Iterable[Column]) -> Iterator[Candidate]:
    """Yield the candidates of all columns."""
    return (candidate for column in columns for candidate in column.candidates)
