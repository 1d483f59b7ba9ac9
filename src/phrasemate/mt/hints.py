"""Hints for translating a sentence: retrieved equivalents of its phrases, and the nearest sentence of an index.

Hints follow CCPR, section 6.3: the phrases come from the learned segmenter, and longer phrases come first. A phrase
without an equivalent above the floor gives no hint. If phrases may not overlap, its words are then free for shorter
phrases. The nearest sentence is what CCPR, table 6, compares hints with.
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
from phrasemate.index.store import SentenceRow
from phrasemate.index.types import Filters
from phrasemate.lexicon import Dictionary
from phrasemate.lexicon.dictionary import terms_in
from phrasemate.query import marked
from phrasemate.results import Answer, Group, SearchRequest
from phrasemate.search import Searcher
from phrasemate.text import folded, words
from phrasemate.text.languages import primary
from phrasemate.text.sentences import is_of
from phrasemate.types import Hit, Phrase, Progress, Span, check_fields, text_tuple
from phrasemate.utils.storage import NewFile

WIDE = 20  # number of equivalents in which one that occurs in a given translation is searched
NEAR = 10  # candidates of the search for the nearest one; with so many, an approximate search hardly ever misses it
SLACK = 0.02  # largest difference of two cosines of the same phrase in different batches (16-bit arithmetic)


class Limits(NamedTuple):
    """Defaults of `Hints`: least confidence, least cosine, and what each further word adds to the least cosine."""

    confidence: float
    floor: float
    per_word: float


BY_SCORER = Limits(0.7, 0.0, 0.0)  # for models whose scorer ranks the candidates (results/log/mt.md)
BY_CONFIDENCE = Limits(0.9, 0.7, 0.0)  # for models with a calibrated confidence
BY_COSINES = Limits(0.9, 0.8, 0.05)  # for other models


class Place(NamedTuple):
    """Place of an equivalent: its context, cut and marked with ``[[ ]]``, and its document and line."""

    context: str
    document: str
    line: int


class Equivalent(NamedTuple):
    """Retrieved wording with its cosine, the number of its occurrences, and some of its places."""

    text: str
    score: float
    times: int
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Hint:
    """Phrase of the source, ``source[start:end]``, with its equivalents, best first.

    ``confidence``: the probability that the best one is an equivalent; None if the model gives no confidence.
    """

    phrase: str
    start: int
    end: int
    equivalents: tuple[Equivalent, ...]
    confidence: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return a mapping for JSON."""
        equivalents = [
            item._asdict() | {"score": round(item.score, 4), "places": [place._asdict() for place in item.places]}
            for item in self.equivalents
        ]
        return {"phrase": self.phrase, "start": self.start, "end": self.end, "equivalents": equivalents} | (
            {} if self.confidence is None else {"confidence": round(self.confidence, 4)}
        )


class SentenceHints(NamedTuple):
    """Phrases of a sentence by the segmenter, and the selected hints, both by start.

    ``apart``: phrases that share no word and have the best total score (`LearnedSegmenter`), if they were asked for.
    """

    phrases: tuple[str, ...]
    hints: tuple[Hint, ...]
    apart: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Hints:
    """Settings of the selection of hints.

    Args:
        threshold: Least score of a phrase (paper: 0.9). In a sentence of news or parliament the bundled model finds
            eight phrases at 0.9, and twenty at 0.7, many of which overlap. The n-gram segmenter has no scores.
        segmenter: "learned" or "ngram".
        overlapping: Whether phrases may share words.
        k: Most equivalents of a phrase: the best one, and others whose support is at most ``close`` below it.
        contexts: Most places of each equivalent.
        width: Characters that the context of a place is cut to (paper: 100).
        floor: Least cosine of the nearest occurrence of an equivalent of one word. None: 0 for models with a scorer,
            0.7 for models with a confidence, else 0.8.
        per_word: Increase of ``floor`` for each further word, because the cosines of wrong equivalents grow with the
            words. None: 0.05 for models without scorer and confidence, else 0.
        confidence: Least confidence of a phrase's best equivalent, for models that give one. None: 0.7 for models with
            a scorer, else 0.9.
        close: Largest distance in support to the best equivalent.
        quick: Whether to skip the second look at retrieved candidates (`Searcher`).
        budget: Most tokens of all hints of a sentence.
        least: Least number of characters of a phrase.

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
        check_fields(self)
        if self.segmenter not in ("learned", "ngram"):
            raise InputError(f"segmenter {self.segmenter!r}; expected learned or ngram")
        if self.k < 1 or self.contexts < 0 or self.width < 20 or self.budget < 0:
            facts = ", ".join(f"{name} {value}" for name, value in asdict(self).items())
            raise InputError(f"{facts}; expected k of 1, width of 20 or more and nothing below 0")


class Hinter:
    """Retriever of hints for many sentences at once.

    The index and its model must stay open. Raises InputError if the learned segmenter is wanted and the model has none.

    Args:
        index: Index of text in the target language.
        settings: Settings of the selection.
        searcher: Searcher of the phrases (default: a new one on the index).
        apart: Whether to find the phrases that do not overlap, too, which takes another pass of the encoder.
        dictionaries: Dictionaries whose terms become hints even if the index lacks the equivalents; their equivalents
            come before retrieved ones.
        languages: Languages of the sentences and of their translations, for dictionaries and indexes with several; ""
            for any. Documents in other languages are not searched if the index has any in the second language.

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
        """Return the phrases and hints of each sentence; ``cost`` gives the tokens of a hint.

        ``without``: for each sentence a text that must not be found, such as its translation.
        """
        sentences = text_tuple(sentences, "sentences")
        spans = self.promising(sentences)
        parts = self.segment(sentences, overlapping=False) if self.apart else [[] for _ in sentences]
        chances = [(number, span) for number, candidates in enumerate(spans) for span, good in candidates if good]
        phrases = [Phrase(sentences[number], span.start, span.end) for number, span in chances]
        ban = None if without is None else [without[number] for number, _ in chances]
        request = SearchRequest(
            self.settings.k,
            max(1, self.settings.contexts),
            languages=target_tags(self.searcher.index, self.languages[1]),
        )
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
        """Return the phrases of each sentence by start and end, with a flag that the nearest match may pass the floor.

        One pass of the encoder and one search decide it, so that hits are retrieved only for promising phrases.
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
        """Return the least cosine of the nearest occurrence of an equivalent of the phrase."""
        return self._floor + self._per_word * (len(words(phrase)) - 1)

    def segment(self, sentences: Sequence[str], overlapping: bool = True) -> list[list[Span]]:
        """Return the phrases of each sentence by start and end.

        The n-gram segmenter cannot give phrases that do not overlap; the result is then empty.
        """
        settings = self.settings
        if settings.segmenter == "ngram" and not overlapping:
            return [[] for _ in sentences]
        with self._segmenter():
            segments = self.model.segment(list(sentences), threshold=settings.threshold, overlapping=overlapping)
        return [[span for span in spans if span.end - span.start >= settings.least] for spans in segments]

    @contextmanager
    def _segmenter(self) -> Iterator[None]:
        """Give the model the segmenter of the settings for the duration of the context."""
        before = self.model.segmenter
        self.model.segmenter = self.model.learned if self.settings.segmenter == "learned" else self.model.ngram
        try:
            yield
        finally:
            self.model.segmenter = before

    def translated_phrases(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[tuple[str, str], ...]]:
        """Return phrases of each source sentence with equivalents that occur in its translation.

        The longest phrases are selected, and they share no word.
        """
        wide = replace(
            self.settings, overlapping=True, k=WIDE, contexts=0, floor=-1, per_word=0, confidence=0, close=9, budget=0
        )
        examples = Hinter(self.searcher.index, wide, self.searcher, languages=self.languages)(
            [source for source, _ in pairs]
        )
        phrases = []
        for (_, translation), item in zip(pairs, examples, strict=True):
            right = [(hint, texts[0]) for hint in item.hints if (texts := _occurring_texts(hint, translation))]
            texts_of = {(hint.start, hint.end): text for hint, text in right}
            free = chosen([hint for hint, _ in right])
            phrases.append(tuple((hint.phrase, texts_of[hint.start, hint.end]) for hint in free))
        return phrases

    def _with_terms(self, text: str, hints: Sequence[Hint]) -> list[Hint]:
        """Return the terms of the dictionaries as hints, and the retrieved hints that share no character with them."""
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
        """Return the hint of a phrase; None if no candidate is good enough, or the best one is not."""
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


def target_tags(index: BaseIndex, language: str) -> list[str] | None:
    """List the tags of an index that are the target language; None if all are, or none, or for the language ""."""
    if not language:
        return None
    index_tags = index.languages()
    tags = [tag for tag in index_tags if primary(tag) == primary(language)]
    return tags if 0 < len(tags) < len(index_tags) else None


def _texts(text: str, spans: Sequence[Span]) -> tuple[str, ...]:
    return tuple(text[span.start : span.end] for span in spans)


def _occurring_texts(hint: Hint, translation: str) -> list[str]:
    return [
        equivalent.text
        for equivalent in hint.equivalents
        if LETTER.search(equivalent.text) and occurrences(equivalent.text, translation)
    ]


def chosen(hints: Sequence[Hint]) -> list[Hint]:
    """Select hints whose phrases share no character, in the order of the sentence.

    Longer phrases are preferred, then those with a higher score, then earlier ones.
    """
    selection: list[Hint] = []
    cover_flags = bytearray(max((hint.end for hint in hints), default=0))  # one for each character
    for hint in sorted(hints, key=_longest_first):
        if not any(cover_flags[hint.start : hint.end]):
            selection.append(hint)
            cover_flags[hint.start : hint.end] = b"\1" * (hint.end - hint.start)
    return sorted(selection, key=lambda hint: hint.start)


def within(hints: Sequence[Hint], budget: int, cost: Callable[[Hint], int]) -> tuple[Hint, ...]:
    """Select the hints that fit into ``budget`` tokens, the longest phrases first; keep the order of the sentence."""
    selection, length = [], 0
    for hint in sorted(hints, key=_longest_first):
        if length + (price := cost(hint)) <= budget:
            selection.append(hint)
            length += price
    return tuple(sorted(selection, key=lambda hint: (hint.start, hint.end)))


def _longest_first(hint: Hint) -> tuple[float, ...]:
    return (hint.start - hint.end, -hint.equivalents[0].score, hint.start)


def cut(context: str, start: int, end: int, width: int) -> str:
    """Cut ``context`` to about ``width`` characters around ``context[start:end]``, and mark this phrase as in a query.

    The text is cut at white space if there is some nearby; dots replace what is left out. The phrase itself is never
    cut.
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
SAVED = 65_536  # sentences after which new vectors are written to the file
ROWS = 65_536  # vectors that are compared at once; 100 MB as 32-bit numbers

TRIES = 16  # most nearest sentences that are tried if some are excluded


class RelatedSentences:
    """Searcher of the nearest sentences in an index, with the vectors of all its sentences in a file of ``folder``.

    Each vector is stored with the digest of its sentence's text. If the index has grown or changed, or was replaced,
    only the vectors of new sentences are computed. A stopped run resumes.

    ``language``: target language; "" for any. If the index has it and others, only its documents are searched, and
    their vectors are in a file of their own.

    Raises InputError if the file cannot be written.
    """

    def __init__(
        self,
        index: BaseIndex,
        folder: str | Path,
        progress: Progress = lambda label, step, total: None,
        language: str = "",
    ) -> None:
        self.index, self.language = index, language
        self.model: Any = index.model
        place = str(index.path) if "://" in str(index.path) else str(Path(index.path).resolve())
        place = sha256(place.encode("utf-8", "surrogateescape")).hexdigest()[:12]
        self._file = Path(folder) / f"sentences-{index.manifest.model_hash[:12]}-{place}.npz"
        self._progress = progress
        self._load()

    def _load(self) -> None:
        with self.index.snapshot():
            self._generation = self.index.store.state().generation
            self._tags = target_tags(self.index, self.language)
            self._path = (
                self._file.with_stem(f"{self._file.stem}-{primary(self.language)}") if self._tags else self._file
            )
            self._ids, self._vectors = self._all_vectors()

    def __call__(self, sentences: Sequence[str], without: Sequence[str] | None = None) -> list[tuple[str, float]]:
        """Return the nearest sentence of each sentence with its cosine; ("", 0) if there is none.

        ``without``: for each sentence a text that must not be found, such as its translation (`is_of`).
        """
        with self.index.snapshot():
            if self.index.store.state().generation != self._generation:
                self._load()  # another process has changed the index
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
        """Return (queries,) the row of the nearest sentence that is not left out, and (queries,) its cosine."""
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

    def _all_vectors(self) -> tuple[NDArray[np.int64], NDArray[np.float16]]:
        """Return the ids (sentences,) and vectors (sentences, width) of all sentences in the target language.

        Vectors that the file lacks are computed.
        """
        every = [(row.id, _digest(row.text)) for row in self._sentences()]
        ids = np.fromiter((identity for identity, _ in every), np.int64, len(every))
        digests = np.fromiter((digest for _, digest in every), np.uint64, len(every))
        stored_ids, stored_vectors = self._read_file()
        order = np.argsort(stored_ids)
        at = np.searchsorted(stored_ids, digests, sorter=order)
        at = order[np.minimum(at, len(stored_ids) - 1)] if len(stored_ids) else np.zeros(len(every), np.int64)
        is_stored = stored_ids[at] == digests if len(stored_ids) else np.zeros(len(every), bool)
        vectors = np.zeros((len(every), self.model.width), np.float16)
        vectors[is_stored] = stored_vectors[at[is_stored]]
        if not is_stored.all():
            self._compute(digests, vectors, is_stored)
        elif len(stored_ids) > len(every):  # drops the vectors of deleted sentences
            self._write(digests, vectors)
        return ids, vectors

    def _sentences(self) -> Iterator[SentenceRow]:
        """Yield the sentences in the target language, in the order of their ids."""
        rows = self.index.store.all_sentences()
        if self._tags is None:
            return rows
        documents = frozenset(self.index.documents_in(Filters(languages=self._tags)))
        return (row for row in rows if row.document in documents)

    def _compute(self, digests: NDArray[np.uint64], vectors: NDArray[np.float16], is_stored: NDArray[np.bool_]) -> None:
        """Compute the missing vectors and write them to the file."""
        missing = np.flatnonzero(~is_stored)
        count = saved_count = 0
        sentences = compress(self._sentences(), (~is_stored).tolist())
        while block := list(islice(sentences, BLOCK)):
            places = missing[count : count + len(block)]
            vectors[places] = self.model.encode_sentences([row.text for row in block]).astype(np.float16)
            is_stored[places] = True
            count += len(block)
            self._progress("sentence vectors", count, len(missing))
            if count - saved_count >= SAVED or count == len(missing):
                self._write(digests[is_stored], vectors[is_stored])
                saved_count = count

    def _read_file(self) -> tuple[NDArray[np.uint64], NDArray[np.float16]]:
        """Return the digests and vectors of the file; empty if it does not exist or cannot be read."""
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
