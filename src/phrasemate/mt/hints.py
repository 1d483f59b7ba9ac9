"""Hints of a sentence: retrieved equivalents of its phrases with their places, and the nearest sentence of an index.

The nearest sentence is what CCPR, table 6, compares phrases with.

CCPR, section 6.3: phrases by the learned segmenter, the longest first. A phrase with no equivalent that
passes the floor adds nothing and, where phrases may not overlap, leaves its words to shorter ones.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b, sha256
from itertools import compress, islice
from pathlib import Path
from typing import IO, Any, NamedTuple, cast
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from phrasemate.encode.segmenter import LETTER
from phrasemate.errors import InputError
from phrasemate.examples import occurrences
from phrasemate.index import BaseIndex
from phrasemate.lexicon import Dictionary
from phrasemate.lexicon.dictionary import terms_in
from phrasemate.query import marked
from phrasemate.results import Answer, Group, SearchRequest
from phrasemate.search import Searcher
from phrasemate.text import folded, words
from phrasemate.text.sentences import is_of
from phrasemate.types import Hit, Phrase, Progress, Span
from phrasemate.utils.storage import NewFile

WIDE = 20  # equivalents among which one that occurs in a translation is looked for
NEAR = 10  # candidates that are compared to tell the nearest: of so few an approximate search misses none in practice
SLACK = 0.02  # by which a cosine may differ that was computed among other sentences (16-bit arithmetic)


class Limits(NamedTuple):
    """The defaults of `Hints`: least confidence, least cosine, and what each further word adds to it."""

    confidence: float
    floor: float
    per_word: float


BY_SCORER = Limits(0.7, 0.0, 0.0)  # candidates are chosen and judged by more than vectors (results/log/mt.md)
BY_CONFIDENCE = Limits(0.9, 0.7, 0.0)
BY_COSINES = Limits(0.9, 0.8, 0.05)


class Place(NamedTuple):
    """Place of an equivalent: its context, cut and marked with ``[[ ]]``, and the document and line."""

    context: str
    document: str
    line: int


class Equivalent(NamedTuple):
    """A retrieved wording with its cosine, how often it was found, and some of its places."""

    text: str
    score: float
    times: int
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Hint:
    """A phrase of the source, ``source[start:end]``, with its equivalents, best first.

    ``confidence``: the probability that the best one is an equivalent, None where the model does not tell.
    """

    phrase: str
    start: int
    end: int
    equivalents: tuple[Equivalent, ...]
    confidence: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Mapping for JSON."""
        equivalents = [
            item._asdict() | {"score": round(item.score, 4), "places": [place._asdict() for place in item.places]}
            for item in self.equivalents
        ]
        return {"phrase": self.phrase, "start": self.start, "end": self.end, "equivalents": equivalents} | (
            {} if self.confidence is None else {"confidence": round(self.confidence, 4)}
        )


class SentenceHints(NamedTuple):
    """A sentence's phrases as the segmenter has them, by start, and the hints that were chosen, by start.

    ``apart``: the phrases that share no word, of the best total (`LearnedSegmenter`), where they were asked for.
    """

    phrases: tuple[str, ...]
    hints: tuple[Hint, ...]
    apart: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Hints:
    """Settings for choosing hints.

    Args:
        threshold: The least score of a phrase (paper: 0.9). In a sentence of news or parliament the bundled model finds
            eight at 0.9, and twenty at 0.7, many of which overlap. The n-gram segmenter knows none.
        segmenter: "learned" or "ngram".
        overlapping: Whether phrases may share words.
        k: Equivalents of a phrase at most: the best, and those whose support is at most ``close`` less.
        contexts: Places of each equivalent, cut to ``width`` characters (paper: 100).
        confidence: The least confidence of a phrase's best equivalent, where the model tells it. None: .7 where the
            search chooses among candidates by a scorer, else .9.
        floor: The least cosine of the nearest phrase of a word's equivalent. ``per_word`` is what each further word
            adds, because the cosines of wrong ones grow with the words. None: 0 and 0 where there is a scorer; .7 and
            0 where the model tells its confidence; else .8 and .05.
        quick: No second look at what was retrieved (`Searcher`).
        budget: Tokens that all hints of a sentence may take.
        least: The least number of characters of a phrase.

    >>> Hints(k=3, budget=200).threshold
    0.7
    """

    threshold: float = 0.7
    segmenter: str = "learned"
    overlapping: bool = False
    k: int = 2
    contexts: int = 1
    width: int = 100
    floor: float | None = None
    per_word: float | None = None
    confidence: float | None = None
    close: float = 0.08
    quick: bool = False
    budget: int = 400
    least: int = 2

    def __post_init__(self) -> None:
        if self.segmenter not in ("learned", "ngram"):
            raise InputError(f"segmenter {self.segmenter!r}; expected learned or ngram")
        if self.k < 1 or self.contexts < 0 or self.width < 20 or self.budget < 0:
            facts = ", ".join(f"{name} {value}" for name, value in asdict(self).items())
            raise InputError(f"{facts}; expected k of 1, width of 20 or more and nothing below 0")


class Hinter:
    """Retriever of hints for many sentences at once. The index and its model stay open.

    Args:
        index: Text in the target language.
        settings: How hints are chosen.
        searcher: Searcher of the phrases (default: a new one on the index).
        apart: Whether to look up non-overlapping phrases, too, which takes another pass of the encoder.
        dictionaries: Their terms become hints even if the index lacks the equivalents, and come before retrieved ones.
        languages: Languages of the sentences and of the index, to choose from dictionaries with several; "" for any.

    Raises InputError where the learned segmenter is wanted of a model that has none.

    >>> import phrasemate as pm
    >>> story = pm.Document.from_texts("story", ["She opened an account at the bank."])
    >>> with pm.Index.create("hints", pm.load_model()) as index:
    ...     _ = index.add([story], lang="en")
    ...     retrieved = Hinter(index, Hints(confidence=0.5))(["Die Bank ist geschlossen."])
    >>> [(hint.phrase, hint.equivalents[0].text) for hint in retrieved[0].hints]
    [('Bank', 'bank')]
    """

    def __init__(
        self,
        index: BaseIndex,
        settings: Hints,
        searcher: Searcher | None = None,
        apart: bool = False,
        dictionaries: Sequence[Dictionary] = (),
        languages: tuple[str, str] = ("", ""),
    ) -> None:
        self.apart, self.languages = apart, languages
        self.dictionaries = (*dictionaries, *index.dictionaries)
        self.settings = settings
        self.searcher = searcher or Searcher(index, views=not settings.quick, lexicons=dictionaries)
        self.model = self.searcher.model
        limits = BY_CONFIDENCE if self.searcher.calibration is not None else BY_COSINES
        limits = BY_SCORER if self.searcher.scorer is not None else limits
        self._confidence = limits.confidence if settings.confidence is None else settings.confidence
        self._floor = limits.floor if settings.floor is None else settings.floor
        self._per_word = limits.per_word if settings.per_word is None else settings.per_word
        if settings.segmenter == "learned" and self.model.learned is None:
            raise InputError(f"the model {self.model.name} has no learned segmenter; use the n-gram segmenter")

    def __call__(
        self,
        sentences: Sequence[str],
        cost: Callable[[Hint], int] = lambda hint: 0,
        without: Sequence[str] | None = None,
    ) -> list[SentenceHints]:
        """The phrases and hints of each sentence; ``cost`` is in tokens.

        ``without``: for each sentence a text of which nothing is to be found, such as its own translation.
        """
        spans = self.promising(sentences)
        parts = self.segment(sentences, overlapping=False) if self.apart else [[] for _ in sentences]
        chances = [(number, span) for number, candidates in enumerate(spans) for span, good in candidates if good]
        phrases = [Phrase(sentences[number], span.start, span.end) for number, span in chances]
        ban = None if without is None else [without[number] for number, _ in chances]
        request = SearchRequest(self.settings.k, max(1, self.settings.contexts))
        answers_of = iter(zip(phrases, self.searcher.search_phrases(phrases, request, without=ban), strict=True))
        answers = []
        for number, (text, candidates) in enumerate(zip(sentences, spans, strict=True)):
            hints = [hint for _, good in candidates if good and (hint := self._hint(*next(answers_of))) is not None]
            hints = self._with_terms(text, hints)
            free = hints if self.settings.overlapping else chosen(hints)
            affordable = within(free, self.settings.budget, cost)
            names = _texts(text, [span for span, _ in candidates])
            answers.append(SentenceHints(names, affordable, _texts(text, parts[number])))
        return answers

    def promising(self, sentences: Sequence[str]) -> list[list[tuple[Span, bool]]]:
        """The phrases of each sentence, by start, then end; and whether the nearest of the index may pass the floor.

        One pass of the encoder and one search tell it; only for the others is it worth to look hits up.
        """
        with self._segmenter():
            extracts = self.model.extract(list(sentences), threshold=self.settings.threshold)
        vectors = np.concatenate(
            [np.zeros((0, self.model.dim), np.float32), *(element.vectors for element in extracts)]
        )
        best = iter(self.searcher.index.search(vectors, NEAR).scores.max(1).tolist() if len(vectors) else [])
        answers = []
        for text, item in zip(sentences, extracts, strict=True):
            spans = [Span(*row) for row in zip(*(x.tolist() for x in item[:3]), strict=True)]
            span_flags = [(span, next(best) >= self.floor(text[span.start : span.end]) - SLACK) for span in spans]
            answers.append([(span, good) for span, good in span_flags if span.end - span.start >= self.settings.least])
        return answers

    def floor(self, phrase: str) -> float:
        """The least cosine of the nearest phrase of its equivalents."""
        return self._floor + self._per_word * (len(words(phrase)) - 1)

    def segment(self, sentences: Sequence[str], overlapping: bool = True) -> list[list[Span]]:
        """The phrases of each sentence, by start, then end; the n-gram segmenter has none that do not overlap."""
        settings = self.settings
        if settings.segmenter == "ngram" and not overlapping:
            return [[] for _ in sentences]
        with self._segmenter():
            segments = self.model.segment(list(sentences), threshold=settings.threshold, overlapping=overlapping)
        return [[span for span in spans if span.end - span.start >= settings.least] for spans in segments]

    @contextmanager
    def _segmenter(self) -> Iterator[None]:
        """The model with the segmenter that is wanted; afterwards with its own."""
        before = self.model.segmenter
        self.model.segmenter = self.model.learned if self.settings.segmenter == "learned" else self.model.ngram
        try:
            yield
        finally:
            self.model.segmenter = before

    def translated_phrases(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[tuple[str, str], ...]]:
        """Phrases of each sentence with the equivalents that occur in its translation: the longest, sharing no word."""
        wide = replace(
            self.settings, overlapping=True, k=WIDE, contexts=0, floor=-1, per_word=0, confidence=0, close=9, budget=0
        )
        examples = Hinter(self.searcher.index, wide, self.searcher)([source for source, _ in pairs])
        phrases = []
        for (_, translation), item in zip(pairs, examples, strict=True):
            right = [(hint, texts[0]) for hint in item.hints if (texts := _occurring(hint, translation))]
            texts_of = {(hint.start, hint.end): text for hint, text in right}
            free = chosen([hint for hint, _ in right])
            phrases.append(tuple((hint.phrase, texts_of[hint.start, hint.end]) for hint in free))
        return phrases

    def _with_terms(self, text: str, hints: Sequence[Hint]) -> list[Hint]:
        """The terms of the dictionaries as hints, and the retrieved ones that share no word with them."""
        terms = []
        for start, end, equivalents in terms_in(text, self.dictionaries, *self.languages):
            counterpart = next((hint for hint in hints if (hint.start, hint.end) == (start, end)), None)
            places = {folded(item.text): item for item in (counterpart.equivalents if counterpart else ())}
            best = [places.get(folded(wording)) or Equivalent(wording, 1.0, 0, ()) for wording in equivalents]
            terms.append(Hint(text[start:end], start, end, tuple(best[: self.settings.k]), 1.0))
        outside_hints = [
            hint for hint in hints if all(hint.end <= term.start or term.end <= hint.start for term in terms)
        ]
        return sorted([*terms, *outside_hints], key=lambda hint: (hint.start, hint.end))

    def _hint(self, phrase: Phrase, answer: Answer) -> Hint | None:
        """Hint of a phrase; None where no candidate is good enough, or the best one is not."""
        settings, (groups, confidence) = self.settings, answer
        sure = None if confidence is None else confidence >= self._confidence
        if not groups or sure is False:
            return None
        floor, least = self.floor(phrase.text), groups[0].weight - settings.close
        near = [group for group in groups if group.hits[0].score >= floor and group.weight >= least]
        if not near or (sure and self._confidence and near[0] is not groups[0]):
            return None
        good = tuple(self._equivalent(group) for group in near[: settings.k])
        return Hint(phrase.text, phrase.start, phrase.end, good, confidence)

    def _equivalent(self, group: Group) -> Equivalent:
        places = tuple(map(self._place, group.hits[: self.settings.contexts]))
        return Equivalent(group.text, group.score, group.count, places)

    def _place(self, hit: Hit) -> Place:
        return Place(cut(hit.context, hit.start, hit.end, self.settings.width), hit.document, hit.line)


def _texts(text: str, spans: Sequence[Span]) -> tuple[str, ...]:
    return tuple(text[span.start : span.end] for span in spans)


def _occurring(hint: Hint, translation: str) -> list[str]:
    return [
        equivalent.text
        for equivalent in hint.equivalents
        if LETTER.search(equivalent.text) and occurrences(equivalent.text, translation)
    ]


def chosen(hints: Sequence[Hint]) -> list[Hint]:
    """Hints whose phrases share no character: the longest first, of equal ones the better, then the earlier."""
    selection: list[Hint] = []
    cover_flags = bytearray(max((hint.end for hint in hints), default=0))  # characters: a line may be a book
    for hint in sorted(hints, key=_longest_first):
        if not any(cover_flags[hint.start : hint.end]):
            selection.append(hint)
            cover_flags[hint.start : hint.end] = b"\1" * (hint.end - hint.start)
    return sorted(selection, key=lambda hint: hint.start)


def within(hints: Sequence[Hint], budget: int, cost: Callable[[Hint], int]) -> tuple[Hint, ...]:
    """The hints that fit into ``budget`` tokens, the longest phrases first; in the order of the sentence."""
    selection, length = [], 0
    for hint in sorted(hints, key=_longest_first):
        if length + (price := cost(hint)) <= budget:
            selection.append(hint)
            length += price
    return tuple(sorted(selection, key=lambda hint: (hint.start, hint.end)))


def _longest_first(hint: Hint) -> tuple[float, ...]:
    return (hint.start - hint.end, -hint.equivalents[0].score, hint.start)


def cut(context: str, start: int, end: int, width: int) -> str:
    """``context`` cut to about ``width`` characters around ``context[start:end]``, which is marked as in a query.

    Cut at white space where there is some near; dots stand for what is left out. The phrase itself is never cut.
    """
    room = max(0, width - (end - start))
    low = max(0, start - max(room // 2, room - (len(context) - end)))
    high = min(len(context), end + room - (start - low))
    if low > 0 and (space := context.find(" ", low, start)) >= 0:
        low = space + 1
    if high < len(context) and (space := context.rfind(" ", end, high)) >= 0:
        high = space
    before = ("..." if low else "") + context[low:start]
    after = context[end:high] + ("..." if high < len(context) else "")
    query = marked(before + context[start:end] + after, len(before), len(before) + end - start)
    return " ".join(query.split())


BLOCK = 4_096  # sentences that are encoded together
SAVED = 65_536  # sentences after which what is made is kept
ROWS = 65_536  # vectors that are compared at once: 100 MB as 32-bit numbers

TRIES = 16  # nearest sentences that are looked at, where some may not be found


class RelatedSentences:
    """Vectors of all sentences of an index, kept in a file of ``folder``.

    Each is kept with a digest of its sentence's text. So an index that has grown or changed, or another one that was
    made at its place, has vectors made for what is new alone; a stopped run resumes.

    Raises InputError if the file cannot be written.
    """

    def __init__(self, index: BaseIndex, folder: Path, progress: Progress = lambda label, step, total: None) -> None:
        self.index = index
        self.model: Any = index.model
        place = str(index.path) if "://" in str(index.path) else str(Path(index.path).resolve())
        place = sha256(place.encode("utf-8", "surrogateescape")).hexdigest()[:12]
        self._path = folder / f"sentences-{index.manifest.model_hash[:12]}-{place}.npz"
        self._progress = progress
        self._load()

    def _load(self) -> None:
        with self.index.snapshot():
            self._generation = self.index.store.state().generation
            self._ids, self._vectors = self._all()

    def __call__(self, sentences: Sequence[str], without: Sequence[str] | None = None) -> list[tuple[str, float]]:
        """The nearest sentence of each, with its cosine; ("", 0) where there is none.

        ``without``: for each a text, such as its own translation, of which none may be found (`is_of`).
        """
        with self.index.snapshot():
            if self.index.store.state().generation != self._generation:
                self._load()  # another process has changed it
            return self._nearest(sentences, without)

    def _nearest(self, sentences: Sequence[str], without: Sequence[str] | None) -> list[tuple[str, float]]:
        answers = [("", 0.0)] * len(sentences)
        if not len(self._ids) or not sentences:
            return answers
        queries = self.model.encode_sentences(list(sentences))  # (sentences, width)
        left_out: list[list[int]] = [[] for _ in sentences]
        pending = list(range(len(sentences)))
        for _ in range(min(TRIES, len(self._ids))):
            rows, scores = self._best(queries[pending], [left_out[number] for number in pending])
            again = []
            for number, row, score in zip(pending, rows.tolist(), scores.tolist(), strict=True):
                (sentence,) = self.index.store.sentences([int(self._ids[row])])
                if without is not None and is_of(without[number])(sentence.text):
                    left_out[number].append(row)
                    again.append(number)
                else:
                    answers[number] = sentence.text, score
            if not (pending := again):
                break
        return answers

    def _best(self, queries: NDArray[np.float32], left_out: Sequence[Sequence[int]]) -> tuple[Any, Any]:
        """(queries,) the row of each one's nearest sentence that is not left out, and its cosine."""
        best = np.full(len(queries), -np.inf, np.float32)
        row = np.zeros(len(queries), np.int64)
        for low in range(0, len(self._ids), ROWS):
            scores = queries @ self._vectors[low : low + ROWS].astype(np.float32).T  # (queries, rows)
            for number, out in enumerate(left_out):
                scores[number, [at - low for at in out if low <= at < low + ROWS]] = -np.inf
            places = scores.argmax(1)
            score = scores[np.arange(len(queries)), places]
            row, best = np.where(score > best, places + low, row), np.maximum(score, best)
        return row, best

    def _all(self) -> tuple[NDArray[np.int64], NDArray[np.float16]]:
        """Ids (sentences,) and vectors (sentences, width)."""
        every = [(row.id, _digest(row.text)) for row in self.index.store.all_sentences()]
        ids = np.fromiter((identity for identity, _ in every), np.int64, len(every))
        digests = np.fromiter((digest for _, digest in every), np.uint64, len(every))
        stored_ids, stored_vectors = self._stored()
        order = np.argsort(stored_ids)
        at = np.searchsorted(stored_ids, digests, sorter=order)
        at = order[np.minimum(at, len(stored_ids) - 1)] if len(stored_ids) else np.zeros(len(every), np.int64)
        is_stored = stored_ids[at] == digests if len(stored_ids) else np.zeros(len(every), bool)
        vectors = np.zeros((len(every), self.model.width), np.float16)
        vectors[is_stored] = stored_vectors[at[is_stored]]
        if not is_stored.all():
            self._make(digests, vectors, is_stored)
        elif len(stored_ids) > len(every):  # what is gone is not kept for ever
            self._write(digests, vectors)
        return ids, vectors

    def _make(self, digests: NDArray[np.uint64], vectors: NDArray[np.float16], is_stored: NDArray[np.bool_]) -> None:
        missing = np.flatnonzero(~is_stored)
        count = saved_count = 0
        sentences = compress(self.index.store.all_sentences(), (~is_stored).tolist())
        while block := list(islice(sentences, BLOCK)):
            places = missing[count : count + len(block)]
            vectors[places] = self.model.encode_sentences([row.text for row in block]).astype(np.float16)
            is_stored[places] = True
            count += len(block)
            self._progress("sentence vectors", count, len(missing))
            if count - saved_count >= SAVED or count == len(missing):
                self._write(digests[is_stored], vectors[is_stored])
                saved_count = count

    def _stored(self) -> tuple[NDArray[np.uint64], NDArray[np.float16]]:
        """Digests and vectors of the file; none if there is none that can be read."""
        try:
            with np.load(self._path) as arrays:
                digests, vectors = arrays["digests"], arrays["vectors"]
        except (OSError, ValueError, KeyError, EOFError, RuntimeError, BadZipFile, zlib.error):  # damaged anywhere
            digests, vectors = np.zeros(0), np.zeros(0)
        kinds = (digests.dtype, vectors.dtype) == (np.uint64, np.float16)
        if kinds and digests.ndim == 1 and vectors.shape == (len(digests), self.model.width):
            return digests, vectors
        return np.zeros(0, np.uint64), np.zeros((0, self.model.width), np.float16)

    def _write(self, digests: NDArray[np.uint64], vectors: NDArray[np.float16]) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{self._path.parent}: cannot be made ({error.strerror}); check permissions") from None
        with NewFile(self._path, binary=True) as file:
            np.savez(cast("IO[bytes]", file.stream), digests=digests, vectors=vectors)


def _digest(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")
