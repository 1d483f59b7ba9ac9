"""The REST service: each endpoint is a thin shell over one public call."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response

from phrasemate import __version__
from phrasemate.marks import parse_query
from phrasemate.search import Searcher
from phrasemate.server import schemas
from phrasemate.server.indexes import Library
from phrasemate.server.metrics import Metrics
from phrasemate.server.mining import mined
from phrasemate.server.reading import Asked, described, described_form, read, read_form
from phrasemate.server.refusal import REASONS, Refusal
from phrasemate.server.settings import Settings
from phrasemate.server.uploads import terms_of
from phrasemate.server.work import work
from phrasemate.types import Span

__all__ = ["router"]

FAILURES: dict[int | str, dict[str, Any]] = {status: {"model": schemas.Failure} for status in set(REASONS.values())}
PREFIX = "/api/v1"

Endpoint = Callable[[Request], Awaitable[Response]]


def router(library: Library, settings: Settings, metrics: Metrics) -> APIRouter:
    """All endpoints for programs."""
    made = APIRouter(responses=FAILURES)
    _add_questions(made, library, settings)
    _add_status(made, library, metrics)
    return made


def _add_questions(made: APIRouter, library: Library, settings: Settings) -> None:
    def post(path: str, asked: type[Asked], answer: type[Any]) -> Callable[[Endpoint], Endpoint]:
        extra = described(asked, settings)
        return made.post(PREFIX + path, response_model=answer, openapi_extra=extra, summary=asked.__doc__)

    @post("/search", schemas.Search, schemas.SearchAnswer)
    async def search(request: Request) -> Response:
        asked = await read(request, schemas.Search, settings)
        name = asked.index or library.names[0]

        def answer(searcher: Searcher) -> list[dict[str, Any]]:
            limit_phrases(searcher, asked.query, settings)
            found = searcher.search_all([asked.query], asked.k, asked.contexts, asked.documents, asked.languages)
            return [result.as_dict() for result in found]

        results = await work(library, library.ask, name, answer)
        return _answer({"index": name, "query": asked.query, "results": results})

    @post("/segment", schemas.Segment, schemas.SegmentAnswer)
    async def segment(request: Request) -> Response:
        asked = await read(request, schemas.Segment, settings)
        limit_total(asked.texts, settings)
        options: dict[str, Any] = {"overlapping": asked.overlapping}
        options |= {name: value for name in ("threshold", "max_words") if (value := getattr(asked, name)) is not None}
        found = await work(library, library.ask, asked.index, lambda s: s.model.segment(asked.texts, **options))
        limit_spans(found, settings)
        return _answer({"phrases": [_spans(*pair) for pair in zip(asked.texts, found, strict=True)]})

    @post("/encode", schemas.Encode, schemas.EncodeAnswer)
    async def encode(request: Request) -> Response:
        asked = await read(request, schemas.Encode, settings)
        limit_total([*asked.queries, *asked.sentences], settings)
        return _answer(await work(library, library.ask, asked.index, lambda s: _encoded(s.model, asked)))

    @made.post(
        PREFIX + "/terms",
        response_model=schemas.TermsAnswer,
        openapi_extra=described_form(schemas.Terms, settings),
        summary=schemas.Terms.__doc__,
    )
    async def terms(request: Request) -> Response:
        asked, name, content = await read_form(request, schemas.Terms, settings)
        index = asked.index or library.names[0]
        found = await work(library, library.ask, index, lambda s: terms_of(s, asked, name, content, settings))
        return _answer({"index": index, "terms": found})

    @post("/mine", schemas.Mine, schemas.MineAnswer)
    async def mine(request: Request) -> Response:
        asked = await read(request, schemas.Mine, settings)
        limit_total([*asked.source, *asked.target], settings)
        return _answer(await work(library, library.ask, asked.index, lambda s: mined(s.model, asked)))


def _add_status(made: APIRouter, library: Library, metrics: Metrics) -> None:
    @made.get(PREFIX + "/indexes", response_model=schemas.IndexesAnswer, summary="What is served.")
    async def indexes() -> Response:
        facts = [await work(library, library.ask, name, lambda s, name=name: _facts(name, s)) for name in library.names]
        return _answer({"indexes": facts})

    @made.get("/health", response_model=schemas.Health, summary="Whether the server answers.")
    async def health() -> Response:
        return _answer({"status": "ok", "version": __version__, "indexes": list(library.names)})

    @made.get("/metrics", response_class=PlainTextResponse, summary="Counts, for Prometheus.")
    async def counts() -> Response:
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def limit_phrases(searcher: Searcher, query: str, settings: Settings) -> None:
    """Raises Refusal if more phrases are marked, or proposed, than are answered at once."""
    found = len(searcher.phrases(query))
    if found > settings.phrases:
        raise Refusal("too_long", f"the query has {found} phrases; expected at most {settings.phrases}: mark fewer")


def limit_spans(found: Sequence[Sequence[Span]], settings: Settings) -> None:
    """Raises Refusal for more phrases than one answer holds."""
    if (total := sum(map(len, found))) > settings.spans:
        most = settings.spans
        raise Refusal(
            "too_long", f"{total:,} phrases; expected at most {most:,}: raise the threshold or send less text"
        )


def limit_total(texts: list[str], settings: Settings) -> None:
    """Raises Refusal for more text than is encoded for one request."""
    if (total := sum(map(len, texts))) > settings.total_characters:
        most = settings.total_characters
        raise Refusal("too_long", f"{total:,} characters in all; expected at most {most:,}: send several requests")


def _answer(content: Any) -> Response:
    """JSON; half a character, as an indexed text may have one, is written as an escape."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Response(text.encode("utf-8", "backslashreplace"), media_type="application/json")


def _spans(text: str, spans: list[Any]) -> list[dict[str, Any]]:
    return [
        {"start": span.start, "end": span.end, "text": text[span.start : span.end], "score": round(span.score, 4)}
        for span in spans
    ]


def _encoded(model: Any, asked: schemas.Encode) -> dict[str, Any]:
    """Vectors in the shortest decimals that give the same float32."""
    marked = [(number, phrase) for number, query in enumerate(asked.queries) for phrase in parse_query(query).phrases]
    vectors = model.encode([phrase for _, phrase in marked]) if marked else []
    phrases = [
        {
            "query": number,
            "phrase": phrase.text,
            "start": phrase.start,
            "end": phrase.end,
            "vector": [float(str(x)) for x in vector],
        }
        for (number, phrase), vector in zip(marked, vectors, strict=True)
    ]
    sentences = model.encode_sentences(asked.sentences) if asked.sentences else []
    facts = {"model": model.name, "model_hash": model.hash, "phrases": phrases}
    return {**facts, "sentences": [[float(str(x)) for x in vector] for vector in sentences]}


def _facts(name: str, searcher: Searcher) -> dict[str, Any]:
    stats = searcher.index.stats()
    return {
        "name": name,
        "documents": stats.documents,
        "sentences": stats.sentences,
        "phrases": stats.phrases,
        "languages": dict(stats.languages),
        "model": stats.model,
        "model_hash": stats.model_hash,
        "generation": stats.generation,
    }
