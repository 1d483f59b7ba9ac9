"""One model and one searcher for all requests: what they ask for at the same time is done together.

The runtime has one queue of batches and is not a place for two threads. Here one thread has it to itself (`Batches`).
Vectors are kept for the next click.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from threading import Condition, Lock, Thread
from typing import Any, NamedTuple

import numpy as np
from cachetools import LRUCache

from phrasemate.encode.scoring import alone
from phrasemate.errors import PhrasemateError
from phrasemate.results import Answer, SearchRequest
from phrasemate.search import Searcher
from phrasemate.server.cancellation import go_on
from phrasemate.types import Phrase, Span
from phrasemate.utils.arrays import Floats

PHRASES_TOGETHER = 16  # phrases that are searched together: 0.15 s of one core
_context = attrgetter("context")
LIKE_ONE = 256  # characters that take as much memory as a vector, nearly
SLICE = 2_000  # characters that a request gives in at once; others come in between
CHARACTERS_TOGETHER = 8_000  # characters that are encoded together: 0.6 s on one core


class _Job(NamedTuple):
    kind: Any  # jobs of equal kinds can be done together
    work: Callable[[list[Any]], Sequence[Any]]  # items -> a result for each
    items: Sequence[Any]
    size: int
    later: bool  # not the first slice of what somebody waits for
    result: Future[Sequence[Any]]


class Batches:
    """Runs jobs of up to ``most`` in size together; a larger one runs alone.

    ``calls`` and ``passes`` count jobs and runs.

    >>> Batches("squares", 8).do("square", lambda numbers: [n * n for n in numbers], [1, 2], 2)
    [1, 4]
    """

    def __init__(self, name: str, most: int) -> None:
        self._most = most
        self._jobs: deque[_Job] = deque()
        self._some, self._closed = Condition(), False
        self.calls = self.passes = 0
        Thread(target=self._run, name=name, daemon=True).start()

    def close(self) -> None:
        """End the thread; what waits is still done."""
        with self._some:
            self._closed = True
            self._some.notify_all()

    def do(
        self,
        kind: Any,
        work: Callable[[list[Any]], Sequence[Any]],
        items: Sequence[Any],
        size: int,
        later: bool = False,
    ) -> Any:
        """Have the thread do ``work`` on ``items``, with what others want of the same kind, and wait for it.

        Raises RequestAbandoned if nobody waits for what we are asked for.
        """
        go_on()
        job = _Job(kind, work, items, size, later, Future())
        with self._some:
            if self._closed:
                raise PhrasemateError("the server is stopping")
            self.calls += 1
            self._jobs.append(job)
            self._some.notify()
        return job.result.result()

    def _run(self) -> None:
        while jobs := self._next():
            self._do(jobs)

    def _do(self, jobs: Sequence[_Job]) -> None:
        """Work on jobs together; after an error on each by itself, or the others would fail with it."""
        try:
            results = jobs[0].work([item for job in jobs for item in job.items])
            at = 0
            for job in jobs:
                job.result.set_result(results[at : at + len(job.items)])
                at += len(job.items)
        except BaseException as error:
            if len(jobs) == 1:
                jobs[0].result.set_exception(error)
                return
            for job in jobs:
                if not job.result.done():
                    self._do([job])

    def _next(self) -> list[_Job]:
        """The job that has waited longest, and those of its kind; none at the end.

        Every other time first slices have precedence: a query does not wait for a whole document, nor the other way.
        """
        with self._some:
            self._some.wait_for(lambda: self._jobs or self._closed)
            if not self._jobs:
                return []
            first = self._jobs[0]
            if self.passes % 2 == 0:
                first = next((job for job in self._jobs if not job.later), first)
            batch, rest, size = [first], deque[_Job](), first.size
            for job in self._jobs:
                if job is not first and job.kind == first.kind and size + job.size <= self._most:
                    batch.append(job)
                    size += job.size
                elif job is not first:
                    rest.append(job)
            self._jobs = rest
            self.passes += 1
        return batch


class SharedModel:
    """A `phrasemate.Model` for many threads; what is not named here is the model's own.

    ``vectors``: how many phrase vectors are kept. What `segment` finds is encoded in the same pass, so a click on one
    of its phrases needs no encoder. ``batches`` count calls and passes of the encoder.
    """

    def __init__(self, model: Any, vectors: int = 20_000) -> None:
        self.base = model  # itself: not for several threads
        self._pooling = getattr(model, "pooling", None)
        self._cache = _Cache(vectors)
        self.batches = Batches("encoder", CHARACTERS_TOGETHER)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.base, name)

    def close(self) -> None:
        """End the thread; what waits is still done."""
        self.batches.close()

    def encode(self, phrases: Sequence[Phrase], pooling: str | None = None, layer: int | None = None) -> Floats:
        """(phrases, dim) float32, as `Model.encode`; the model's own vectors are kept."""
        if not phrases:
            return np.asarray(self.base.encode(phrases, pooling, layer))  # no encoder is needed
        if (pooling or self._pooling, layer) != (self._pooling, None):
            work = lambda batch: self.base.encode(batch, pooling, layer)  # noqa: E731
            return np.array(self._sliced(("encode", pooling, layer), work, phrases, _context), np.float32)
        vectors = [self._cache.vector(phrase) for phrase in phrases]
        missing = [phrase for phrase, vector in zip(phrases, vectors, strict=True) if vector is None]
        new_vectors = iter(self._sliced("encode", self.base.encode, missing, _context))
        for number, phrase in enumerate(phrases):
            if vectors[number] is None:
                vectors[number] = vector = next(new_vectors)
                self._cache.put(phrase.context, {(phrase.start, phrase.end): vector})
        return np.array(vectors, np.float32)

    def segment(self, texts: Sequence[str], frequent: Collection[str] = (), **options: Any) -> list[list[Span]]:
        """Segment as `Model.segment` does; what is found in the model's own way is encoded too, and both are kept.

        With a ``threshold`` it is not: that finds any number of spans.
        """
        kind = (tuple(sorted(frequent)), tuple(sorted(options.items())))
        if "threshold" in options:
            return self._sliced(("segment", *kind), lambda batch: self.base.segment(batch, frequent, **options), texts)
        extracted_spans = [self._cache.spans(text, kind) for text in texts]
        missing = [text for text, spans in zip(texts, extracted_spans, strict=True) if spans is None]
        extracts = iter(self.extract(missing, frequent, **options))
        for number, text in enumerate(texts):
            if extracted_spans[number] is None:
                phrases = next(extracts)
                columns = (phrases.starts, phrases.ends, phrases.scores)
                spans = list(map(Span, *(column.tolist() for column in columns)))
                self._cache.put(
                    text, dict(zip([span[:2] for span in spans], phrases.vectors, strict=True)), kind, spans
                )
                extracted_spans[number] = spans
        return [list(spans or ()) for spans in extracted_spans]

    def extract(self, texts: Sequence[str], frequent: Collection[str] = (), **options: Any) -> list[Any]:
        """Extract as `Model.extract` does, but for the last bits."""
        kind = ("extract", tuple(sorted(frequent)), tuple(sorted(options.items())))
        return self._sliced(kind, lambda batch: self.base.extract(batch, frequent, **options), texts)

    def encode_sentences(self, texts: Sequence[str], layer: int | None = None) -> Floats:
        """(texts, width) float32, as `Model.encode_sentences`."""
        if not texts:
            return np.asarray(self.base.encode_sentences(texts, layer))
        kind = ("sentences", layer)
        vectors = self._sliced(kind, lambda batch: self.base.encode_sentences(batch, layer), texts)
        return np.array(vectors, np.float32)

    @property
    def runtime(self) -> _SharedRuntime:
        """The runtime, for those who take token states."""
        return _SharedRuntime(self)

    def _sliced(
        self, kind: Any, work: Callable[[list[Any]], Sequence[Any]], items: Sequence[Any], text: Any = str
    ) -> list[Any]:
        """The results of all items, a slice after another."""
        results: list[Any] = []
        at = 0
        while at < len(items):
            first, size = at, 0
            while at < len(items) and (at == first or size < SLICE):
                if at == first or text(items[at]) != text(items[at - 1]):  # a context is encoded once
                    size += len(text(items[at]))
                at += 1
            results.extend(self.batches.do(kind, work, items[first:at], size, later=first > 0))
        return results


class _SharedRuntime:
    """Token states, a few texts at a time."""

    def __init__(self, shared: SharedModel) -> None:
        self._shared, self._runtime = shared, shared.base.runtime

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runtime, name)

    def blocks(self, texts: Sequence[str], layer: int | None = None) -> Iterator[tuple[slice, Any]]:
        """Encode in blocks, as `Runtime.blocks` does."""
        at = 0
        while at < len(texts):
            batch = [texts[at]]
            while at + len(batch) < len(texts) and sum(map(len, batch)) < SLICE:
                batch.append(texts[at + len(batch)])
            first = at
            work = lambda texts: [list(self._runtime.blocks(texts, layer))]  # noqa: E731
            for part, states in self._shared.batches.do(object(), work, batch, 0, later=at > 0)[0]:
                yield slice(first + part.start, first + part.stop), states
            at += len(batch)


@dataclass(slots=True)
class _Text:
    characters: int
    vectors: dict[tuple[int, int], Floats] = field(default_factory=dict)  # (start, end) -> (dim,)
    spans: dict[Any, list[Span]] = field(default_factory=dict)  # by the way of segmenting

    @property
    def size(self) -> int:
        return 1 + self.characters // LIKE_ONE + len(self.vectors) + sum(map(len, self.spans.values()))


class _Cache:
    """Vectors and spans of the latest texts, ``most`` of both together; for many threads."""

    def __init__(self, most: int) -> None:
        self._texts: LRUCache[str, _Text] = LRUCache(most, lambda entry: entry.size)
        self._lock = Lock()

    def vector(self, phrase: Phrase) -> Floats | None:
        return self._find(phrase.context).vectors.get((phrase.start, phrase.end))

    def spans(self, text: str, kind: Any) -> list[Span] | None:
        return self._find(text).spans.get(kind)

    def put(
        self,
        text: str,
        vectors: Mapping[tuple[int, int], Floats],
        kind: Any = None,
        spans: list[Span] | None = None,
    ) -> None:
        with self._lock:
            entry = self._texts.pop(text, None) or _Text(len(text))
            entry.vectors.update((span, vector.copy()) for span, vector in vectors.items())  # no view of a whole batch
            if spans is not None:
                entry.spans[kind] = spans
            if entry.size <= self._texts.maxsize:
                self._texts[text] = entry

    def _find(self, text: str) -> _Text:
        with self._lock:
            return self._texts.get(text) or _Text(len(text))


class SharedSearcher(Searcher):
    """A `Searcher` for many threads, on a `SharedModel`.

    An index is searched by one thread at a time. What waits for it meanwhile is searched together, which costs less
    than one search after another. Phrases are encoded before they wait, so that the encoder works meanwhile.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.batches = Batches("search", PHRASES_TOGETHER)

    def close(self) -> None:
        """End the thread; what waits is still done."""
        self.batches.close()

    def search_phrases(
        self,
        phrases: Sequence[Phrase],
        request: SearchRequest,
        *,
        without: Sequence[str] | None = None,
        at_once: int | None = None,
        progress: Callable[[], object] = lambda: None,
    ) -> list[Answer]:
        """As in `Searcher`. Only calls of few phrases, without texts to leave out, are put together."""
        search = super().search_phrases
        if any(without or ()) or not 0 < len(phrases) <= PHRASES_TOGETHER:
            return search(phrases, request, without=without, at_once=at_once, progress=progress)
        views = self.views
        self.model.encode([*phrases, *(map(alone, phrases) if views and views.mixed else ())])  # and keeps them
        filters = (None if names is None else tuple(names) for names in (request.documents, request.languages))
        work = partial(search, request=request)
        answers: list[Answer] = self.batches.do((request.k, request.contexts, *filters), work, phrases, len(phrases))
        return answers
