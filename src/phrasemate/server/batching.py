"""Batching of concurrent requests: one model and one searcher, whose calls at the same time are run together.

The encoder's runtime is not thread-safe, so a single thread uses it (`Batches`). Recent vectors are cached, so that
the next click needs no encoder.
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

PHRASES_TOGETHER = 16  # maximum number of phrases in one batch of searches: 0.15 s on one core
_context = attrgetter("context")
LIKE_ONE = 256  # characters of text that take about as much memory as one vector
SLICE = 2_000  # characters of one job; longer requests are split, so that others run in between
CHARACTERS_TOGETHER = 8_000  # maximum number of characters in one batch of the encoder: 0.6 s on one core


class _Job(NamedTuple):
    kind: Any  # jobs of equal kinds can share a batch
    work: Callable[[list[Any]], Sequence[Any]]  # items -> a result for each
    items: Sequence[Any]
    size: int
    later: bool  # a later slice of a long request
    result: Future[Sequence[Any]]


class Batches:
    """Thread that runs jobs of the same kind in batches of total size at most ``most``; a larger job runs alone.

    ``calls`` counts jobs, ``passes`` counts batches.

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
        """End the thread after the waiting jobs."""
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
        """Run ``work`` on ``items`` in the thread, batched with jobs of the same kind. Returns a result for each item.

        Raises RequestAbandoned if nobody waits for the request of the calling thread.
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
        """Run jobs as one batch; after an error, run each alone, so that only the faulty one fails."""
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
        """Wait for jobs and take the next batch: the oldest job and others of its kind. Empty after `close`.

        In every other batch, first slices take precedence, so that a short query does not wait for a whole document and
        the document still advances.
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
    """Thread-safe `phrasemate.Model`; attributes that are not defined here are those of the model.

    ``vectors`` is the size of the cache. `segment` encodes the phrases that it finds in the same pass, so a click on
    one of them needs no encoder. ``batches`` counts calls and passes of the encoder.
    """

    def __init__(self, model: Any, vectors: int = 20_000) -> None:
        self.base = model  # not thread-safe
        self._pooling = getattr(model, "pooling", None)
        self._cache = _Cache(vectors)
        self.batches = Batches("encoder", CHARACTERS_TOGETHER)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.base, name)

    def close(self) -> None:
        """End the thread; what waits is still done."""
        self.batches.close()

    def encode(self, phrases: Sequence[Phrase], pooling: str | None = None, layer: int | None = None) -> Floats:
        """Encode as `Model.encode`: (phrases, dim) float32. Vectors of the default pooling and layer are cached."""
        if not phrases:
            return np.asarray(self.base.encode(phrases, pooling, layer))  # returns (0, dim) without the encoder
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
        """Segment as `Model.segment` does, and cache the spans with their vectors.

        With a ``threshold``, nothing is encoded or cached, because there may be very many spans.
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
        """Extract as `Model.extract` does; the last bits of vectors may differ with the batch."""
        kind = ("extract", tuple(sorted(frequent)), tuple(sorted(options.items())))
        return self._sliced(kind, lambda batch: self.base.extract(batch, frequent, **options), texts)

    def encode_sentences(self, texts: Sequence[str], layer: int | None = None) -> Floats:
        """Encode as `Model.encode_sentences`: (texts, width) float32."""
        if not texts:
            return np.asarray(self.base.encode_sentences(texts, layer))
        kind = ("sentences", layer)
        vectors = self._sliced(kind, lambda batch: self.base.encode_sentences(batch, layer), texts)
        return np.array(vectors, np.float32)

    @property
    def runtime(self) -> _SharedRuntime:
        """Thread-safe runtime, for callers that need token states."""
        return _SharedRuntime(self)

    def _sliced(
        self, kind: Any, work: Callable[[list[Any]], Sequence[Any]], items: Sequence[Any], text: Any = str
    ) -> list[Any]:
        """Run ``work`` on the items in slices of about `SLICE` characters, one after the other."""
        results: list[Any] = []
        at = 0
        while at < len(items):
            first, size = at, 0
            while at < len(items) and (at == first or size < SLICE):
                if at == first or text(items[at]) != text(items[at - 1]):  # equal contexts are encoded once
                    size += len(text(items[at]))
                at += 1
            results.extend(self.batches.do(kind, work, items[first:at], size, later=first > 0))
        return results


class _SharedRuntime:
    """Thread-safe runtime, which encodes about `SLICE` characters at a time."""

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
    spans: dict[Any, list[Span]] = field(default_factory=dict)  # options of `segment` -> spans

    @property
    def size(self) -> int:
        return 1 + self.characters // LIKE_ONE + len(self.vectors) + sum(map(len, self.spans.values()))


class _Cache:
    """Thread-safe LRU cache of texts with their vectors and spans, of total size ``most``."""

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
            entry.vectors.update(
                (span, vector.copy()) for span, vector in vectors.items()
            )  # not a view, which would keep the whole batch
            if spans is not None:
                entry.spans[kind] = spans
            if entry.size <= self._texts.maxsize:
                self._texts[text] = entry

    def _find(self, text: str) -> _Text:
        with self._lock:
            return self._texts.get(text) or _Text(len(text))


class SharedSearcher(Searcher):
    """Thread-safe `Searcher` on a `SharedModel`.

    One thread at a time searches the index. Requests that wait for it are searched as one batch, which is faster than
    one after the other. Their phrases are encoded before they wait, so that the encoder works at the same time.

    ``damage`` is the message of the latest request that found the index damaged; a search that succeeds empties it.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.batches = Batches("search", PHRASES_TOGETHER)
        self.damage = ""

    def close(self) -> None:
        """End the thread after the waiting searches."""
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
        """Search as `Searcher.search_phrases` does. Calls with few phrases and no ``without`` are batched."""
        search = super().search_phrases
        phrases = self.with_infinitives(phrases)
        answers: list[Answer]
        if any(without or ()) or not 0 < len(phrases) <= PHRASES_TOGETHER:
            answers = search(phrases, request, without=without, at_once=at_once, progress=progress)
        else:
            answers = self._batched(search, phrases, request)
        if answers:
            self.damage = ""
        return answers

    def _batched(
        self, search: Callable[..., list[Answer]], phrases: Sequence[Phrase], request: SearchRequest
    ) -> list[Answer]:
        views = self.views
        self.model.encode([*phrases, *(map(alone, phrases) if views and views.mixed else ())])  # fills the cache
        filters = (None if names is None else tuple(names) for names in (request.documents, request.languages))
        work = partial(search, request=request)
        answers: list[Answer] = self.batches.do((request.k, request.contexts, *filters), work, phrases, len(phrases))
        return answers
