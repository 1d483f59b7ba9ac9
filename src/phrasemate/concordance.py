"""A bilingual concordance from monolingual text: what the page shows, without the page.

reading = read("Wir hielten eine Schweigeminute ab.", index.model)
phrase = in_sentence(reading.text, 12, 31)
found = column("news", Searcher(index).search(marked(reading.text, 12, 31)))
write("answer.tbx", phrase.text, [arranged(found, "left")], "de")
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
from phrasemate.text.formats.units import Side, Term, TermPair, Unit
from phrasemate.text.sentences import UTF_16, icu_functions
from phrasemate.text.term_lists import write_pairs
from phrasemate.types import Hit, Phrase, Span

UNIT_WORDS = 5  # of a unit that a list knows
_HYPHENED = re.compile(r"\w+(?:[-‐‑]\w+)+")
_STOP = re.compile(r"[;:!?()\[\]„“”«»]\s|,\s|\s[(\[„“«–—]")  # within a sentence: no phrase goes over it
_CHINESE = re.compile("[\u3400-\u9fff々]{3,8}")
ALONE = 4  # words: a text this short is itself the phrase


class Piece(NamedTuple):
    """A stretch of a text, between phrases or one of them; offsets are characters of the whole text.

    ``verb`` is the separable verb of which it is a part.
    """

    text: str
    start: int
    end: int
    phrase: bool
    verb: SeparableVerb | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """A text with its phrases.

    Attributes:
        text: The text.
        spans: All phrases.
        shown: Phrases to underline, which share no word with one another and with the verbs.
        verbs: Separable verbs whose parts stand apart.
    """

    text: str
    spans: tuple[Span, ...]
    shown: tuple[Span, ...]
    verbs: tuple[SeparableVerb, ...] = ()

    def pieces(self, chosen: tuple[int, int] | None = None, particle: tuple[int, int] | None = None) -> list[Piece]:
        """The whole text in pieces; ``chosen`` takes the place of the phrases that it overlaps.

        With ``particle``, it is the separable verb with these two parts.
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
        """The phrases that overlap a stretch, longer, shorter or crossing, without itself, in their order."""
        overlapping = [s for s in self.spans if _overlap(s[:2], (start, end)) and s[:2] != (start, end)]
        return sorted(overlapping, key=lambda span: (span.start, span.end))


def read(text: str, model: Any) -> Reading:
    """Segment each sentence of a text by ``model``; none is encoded twice. A text of up to four words is a phrase.

    The units of `whole_units` are phrases, too, and so are the verbs of `separable_verbs`. No phrase begins or ends
    within a compound with hyphens, and no clause is shown as one phrase (`without_clauses`).
    """
    sentences = split_sentences(text)
    segments = model.segment([text[start:end] for start, end in sentences]) if sentences else []
    spans: list[Span] = []
    visible: list[Span] = []
    verbs: list[SeparableVerb] = []
    for (first, last), phrase_spans in zip(sentences, segments, strict=True):
        sentence = text[first:last]
        own_verbs, own_spans = separable_verbs(sentence, language_of(sentence)), with_units(sentence, phrase_spans)
        apart = without_parts(without_clauses(sentence, own_spans), own_verbs)
        spans += [_moved(span, first) for span in own_spans]
        visible += [_moved(span, first) for span in choose_disjoint(sentence, apart)]
        verbs += [verb.moved(first) for verb in own_verbs]
    word_spans = words(text)
    if 0 < len(word_spans) <= ALONE:
        whole = Span(word_spans[0][0], word_spans[-1][1])
        spans, visible, verbs = [whole, *(span for span in spans if span[:2] != whole[:2])], [whole], []
    return Reading(text, tuple(spans), tuple(visible), tuple(verbs))


@lru_cache(maxsize=256)
def language_of(sentence: str) -> str:
    """The language of a sentence, as the bundled lexicon knows it; "" if that is not clear."""
    lexicon = bundled_lexicon()
    return lexicon.language_of(sentence) if lexicon is not None else ""


def without_parts(spans: Sequence[Span], verbs: Sequence[SeparableVerb]) -> list[Span]:
    """The spans that share no word with a separable verb."""
    parts = [place for verb in verbs for place in (verb.verb, verb.particle)]
    return [span for span in spans if not any(_overlap(span[:2], part) for part in parts)]


def with_units(sentence: str, spans: Sequence[Span]) -> list[Span]:
    """The spans without those that cut a compound with hyphens or hold a stop, and the whole units of a sentence."""
    units = whole_units(sentence)
    compounds = [compound.span() for compound in _HYPHENED.finditer(sentence)]
    within = [span for span in spans if not _STOP.search(sentence, span.start, span.end)]
    uncut = [span for span in within if not any(_cuts(span, compound) for compound in compounds)]
    places = {unit[:2] for unit in units}
    return sorted([*(span for span in uncut if span[:2] not in places), *units])


def without_clauses(sentence: str, spans: Sequence[Span]) -> list[Span]:
    """The spans without those of several words that a segmenter proposed and that hold a stop word.

    Most of those are clauses ("ging er zur Bank") or a noun with what follows it, not what a translator looks up. The
    spans of `whole_units` stay, and in English and Romance languages a word that stands for "of" may stand inside
    ("breach of contract"). Text of a language that the bundled lexicon does not know keeps all.
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
    return span[0] <= place[0] and place[1] <= span[1] and place != span


def _inside(place: tuple[int, int], span: tuple[int, int]) -> bool:
    return span[0] < place[0] and place[1] < span[1]


def whole_units(sentence: str) -> list[Span]:
    """Units that belong together whatever a segmenter proposes; the score is 1.

    These are compounds with hyphens, compounds of Chinese characters in Japanese, and runs of two to five words that
    are units of the bundled lexicon, or fixed expressions (`phrasemate.lexicon.locutions`).
    """
    lexicon, language = bundled_lexicon(), language_of(sentence)
    units = {compound.span() for compound in _HYPHENED.finditer(sentence)}
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
    """Whether a folded wording of several words is a fixed expression, or a unit and more than a word with article."""
    if wording in locutions(language):
        return True
    return wording == without_function_words(wording, language) and lexicon.is_unit(wording, language)


def _cuts(span: Span, compound: tuple[int, int]) -> bool:
    return any(compound[0] < edge < compound[1] for edge in span[:2])


def in_sentence(text: str, start: int, end: int) -> Phrase:
    """``text[start:end]``, trimmed of white space, in its sentence, or in those that it reaches over.

    Raises QueryError if it holds no letter or digit, InputError if it is outside the text.
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


def phrases_of(text: str, model: Any) -> list[Phrase]:
    """The phrases to answer for a text: those in ``[[ ]]``, a text of up to four words as a whole, or its phrases.

    The last share no word. Raises QueryError for marks that are wrong.
    """
    query_parts = parse_query(text)
    if query_parts.phrases:
        return list(query_parts.phrases)
    reading = read(query_parts.text, model)
    phrases = [(span.start, in_sentence(query_parts.text, span.start, span.end)) for span in reading.shown]
    phrases += [(verb.verb[0], of_verb(query_parts.text, verb)) for verb in reading.verbs]
    return [phrase for _, phrase in sorted(phrases, key=lambda pair: pair[0])]


def of_verb(text: str, verb: SeparableVerb) -> Phrase:
    """The infinitive of a separable verb, in its sentence (`phrasemate.lexicon.separable_verbs.joined`)."""
    sentence = in_sentence(text, *verb.verb)
    return joined(sentence.context, verb.moved(sentence.start - verb.verb[0]))


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _moved(span: Span, by: int) -> Span:
    return Span(span.start + by, span.end + by, span.score)


def choose_disjoint(sentence: str, spans: Sequence[Span]) -> Iterable[Span]:
    """Choose spans at word boundaries that share no word and belong together best (``overlapping=False``)."""
    word_spans = words(sentence)
    first_at, last_at = ({word[side]: n for n, word in enumerate(word_spans)} for side in (0, 1))
    usable = [span for span in spans if span.start in first_at and span.end in last_at]
    if not usable:
        return []
    first, last = np.array([(first_at[span.start], last_at[span.end]) for span in usable], np.int64).T
    scores = np.array([span.score for span in usable], np.float32)
    low = float(scores.min()) if scores.min() < scores.max() else 0.0  # about the threshold of the segmenter
    return [usable[number] for number in disjoint(first, last, scores, low)]


Key = Callable[[str], bytes]

_LOCALE = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{1,8})*")


@lru_cache(maxsize=64)
def collation(language: str = "") -> Key:
    """A function that gives a text's sort key (bytes that compare as the texts do) in ``language``, a tag as "sv".

    An unknown or empty tag gets the order of Unicode that holds for all languages. Safe in any thread.
    """
    if (icu := _icu()) is None:
        return _plain
    status, locale = ctypes.c_int(0), language.replace("-", "_") if _LOCALE.fullmatch(language) else "root"
    collator = icu.ucol_open(locale.encode("ascii"), ctypes.byref(status))
    if status.value > 0 or not collator:  # below 0 are remarks, such as: this locale has the rules of another
        return _plain

    def key(text: str) -> bytes:
        units = text.encode(UTF_16, "surrogatepass")
        size = icu.ucol_getSortKey(collator, units, len(units) // 2, None, 0)
        buffer = ctypes.create_string_buffer(size)
        icu.ucol_getSortKey(collator, units, len(units) // 2, buffer, size)
        return buffer.raw

    return key


def _plain(text: str) -> bytes:
    parts = (part for character in text.casefold() for part in normalize("NFKD", character))
    return "".join(part for part in parts if not combining(part)).encode("utf-8", "surrogatepass")


@cache
def _icu() -> SimpleNamespace | None:
    """ICU's functions that open a collator and that give a sort key."""
    pointer, text, number, status = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32, ctypes.POINTER(ctypes.c_int)
    signatures = {
        "ucol_open": (pointer, text, status),
        "ucol_getSortKey": (number, pointer, text, number, text, number),
    }
    return icu_functions("libicui18n", "icuin", signatures)


ORDERS = ("score", "count", "left", "right")
REACH = 8  # words of a context that its place in the order depends on
NEAR = 240  # characters of it that are looked at for them


@dataclass(frozen=True, slots=True)
class Line:
    """Occurrence; ``left + match + right`` is the whole sentence. ``index`` is the name of the index it is in."""

    index: str
    hit: Hit

    @property
    def left(self) -> str:
        return self.hit.context[: self.hit.start]

    @property
    def match(self) -> str:
        return self.hit.text

    @property
    def right(self) -> str:
        return self.hit.context[self.hit.end :]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A wording that may translate the phrase: its best cosine, how often it occurs, and its lines.

    ``support`` is what candidates are ordered by, ``probability`` (of an equivalent) and ``source`` (the dictionary
    that lists it) are those of `phrasemate.results.Group`.
    """

    text: str
    score: float
    count: int
    lines: tuple[Line, ...]
    support: float
    probability: float | None = None
    source: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """Answer of one index, or of several taken as one.

    ``confidence``: the probability that there is an equivalent at all; None where nothing is known of that.
    """

    name: str
    candidates: tuple[Candidate, ...]
    confidence: float | None = None

    @property
    def language(self) -> str:
        """The language that most lines are in."""
        language_counts = Counter(line.hit.language for candidate in self.candidates for line in candidate.lines)
        return max(language_counts, key=lambda language: language_counts[language], default="")


def column(name: str, result: Result) -> Column:
    """The answer of the index ``name``."""
    candidates = []
    for group in result.groups:
        lines = tuple(Line(name, hit) for hit in group.hits)
        facts = (group.weight, group.probability, group.source)
        candidates.append(Candidate(group.text, group.score, group.count, lines, *facts))
    return Column(name, tuple(candidates), result.confidence)


def merged(columns: Sequence[Column], name: str = "") -> Column:
    """Several columns as one: equal wordings are one candidate with the counts added up and the best score.

    Scores compare only if all indexes were built with one model. The confidence is the highest one: it is at least as
    probable that one of them has an equivalent.
    """
    together: dict[str, list[Candidate]] = {}
    for candidate in (candidate for column in columns for candidate in column.candidates):
        together.setdefault(folded(candidate.text), []).append(candidate)
    confidences = [column.confidence for column in columns if column.confidence is not None]
    candidates = tuple(sorted(map(_one, together.values()), key=lambda candidate: -candidate.support))
    return Column(name or " + ".join(column.name for column in columns), candidates, max(confidences, default=None))


def _one(same: Sequence[Candidate]) -> Candidate:
    best = max(same, key=lambda candidate: candidate.score)
    lines = sorted((line for candidate in same for line in candidate.lines), key=lambda line: -line.hit.score)
    count, support = sum(candidate.count for candidate in same), max(candidate.support for candidate in same)
    probabilities = [candidate.probability for candidate in same if candidate.probability is not None]
    source = next((candidate.source for candidate in same if candidate.source), "")
    return Candidate(best.text, best.score, count, tuple(lines), support, max(probabilities, default=None), source)


def arranged(source: Column, order: str = "score") -> Column:
    """The column in an order: candidates by "score" or by "count", or the lines of each by their "left" or "right"
    context, as a dictionary of their language has it.

    The left context is compared word by word from the match outwards. Raises InputError for another order.
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


def _context_key(side: str, collated: Callable[[str], bytes]) -> Callable[[Line], Any]:
    def key(line: Line) -> tuple[list[bytes], list[bytes]]:
        before, after = line.left[-NEAR:], line.right[:NEAR]
        word_keys = [collated(before[start:end]) for start, end in reversed(words(before)[-REACH:])]
        right = [collated(after[start:end]) for start, end in words(after)[:REACH]]
        return (word_keys, right) if side == "left" else (right, word_keys)

    return key


def clip(text: str, most: int, keep: str) -> str:
    """Cut a context to ``most`` characters, whole words, with "…" for what was cut; ``keep`` "start" or "end"."""
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
_CONTEXTS = 3  # sentences of a candidate that a term base keeps


def write(path: str | os.PathLike[str], phrase: str, columns: Sequence[Column], language: str = "") -> None:
    """Writes the answers for ``phrase``, by the name of the file: .tsv and .xlsx, .tbx or .tmx.

    Tables have a row for each line of the concordance, with its place and both contexts; text tables are `harmless`. A
    term base has the phrase, in ``language``, and its candidates as one concept, with sentences as contexts. A
    translation memory has a unit for each candidate, with score, count and its best sentence as properties. Raises
    InputError, MissingExtra.
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
    yield _HEADER
    for candidate in _candidates(columns):
        for line in candidate.lines:
            facts = (phrase, candidate.text, round(line.hit.score, 4), candidate.count)
            place = (line.index, line.hit.document, line.hit.line, line.hit.language)
            yield *facts, *place, line.left, line.match, line.right


def _pairs(phrase: str, columns: Sequence[Column], language: str) -> Iterator[TermPair]:
    source = Term(phrase, language, "c1")
    for candidate in _candidates(columns):
        contexts = tuple(line.hit.context for line in candidate.lines[:_CONTEXTS])
        yield TermPair(source, Term(candidate.text, _language(candidate), "c1", contexts=contexts), candidate.score)


def _units(phrase: str, columns: Sequence[Column], language: str) -> Iterator[Unit]:
    for candidate in _candidates(columns):
        properties = {"score": f"{candidate.score:.4f}", "count": str(candidate.count)}
        if candidate.lines:
            best = max(candidate.lines, key=lambda line: line.hit.score)  # they may be in another order
            properties |= {"document": f"{best.hit.document}:{best.hit.line}", "context": best.hit.context}
        yield Unit((Side(phrase, language), Side(candidate.text, _language(candidate))), properties)


def _candidates(columns: Iterable[Column]) -> Iterator[Candidate]:
    return (candidate for column in columns for candidate in column.candidates)


def _language(candidate: Candidate) -> str:
    return candidate.lines[0].hit.language if candidate.lines else ""
