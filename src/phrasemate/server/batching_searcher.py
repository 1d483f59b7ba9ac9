"""One searcher for all requests: phrases that are asked about at the same time are searched together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from phrasemate.encode.scoring import alone
from phrasemate.search import Answer, Searcher, SearchRequest
from phrasemate.server.batches import Batches
from phrasemate.types import Phrase
from phrasemate.utils.machine import single_blas

TOGETHER = 16  # phrases that are searched together: 0.15 s of one core


class SharedSearcher(Searcher):
    """A `Searcher` for many threads, on a `SharedModel`.

    An index is searched by one thread at a time. What waits for it meanwhile is searched together, which costs less
    than one search after another. Phrases are encoded before they wait, so that the encoder works meanwhile.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.batches = Batches("search", TOGETHER)

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
        if any(without or ()) or not 0 < len(phrases) <= TOGETHER:
            return search(phrases, request, without=without, at_once=at_once, progress=progress)
        views = self.views
        self.model.encode([*phrases, *(map(alone, phrases) if views and views.mixed else ())])  # and keeps them
        filters = (None if names is None else tuple(names) for names in (request.documents, request.languages))
        work = single_blas(partial(search, request=request))
        answers: list[Answer] = self.batches.do((request.k, request.contexts, *filters), work, phrases, len(phrases))
        return answers
