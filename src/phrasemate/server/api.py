"""The REST service: each endpoint is a thin shell over one public call, with limits on what one request may ask for."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response

from phrasemate import __version__
from phrasemate.encode.rescoring import alone
from phrasemate.errors import IndexError_, InputError, ModelError
from phrasemate.mine import Mining, mine
from phrasemate.query import parse_query
from phrasemate.search import Result, Searcher
from phrasemate.server import schemas
from phrasemate.server.cancellation import go_on, work
from phrasemate.server.errors import REASONS, Refusal, refusal_of
from phrasemate.server.indexes import Library
from phrasemate.server.metrics import Metrics
from phrasemate.server.request_body import Asked, described, described_form, read, read_form
from phrasemate.server.schemas import Mine, Search
from phrasemate.server.settings import Settings
from phrasemate.server.uploads import terms_of
from phrasemate.types import Document, Phrase, Span

AT_ONCE = 8  # phrases that are searched together: each looks at up to 1,600 hits, of which few are kept


def searched(searcher: Searcher, asked: Search, settings: Settings) -> list[Result]:
    """As `Searcher.search_all` for one query, a portion of its phrases after another. Raises Refusal, GivenUp."""
    phrases = searcher.phrases(asked.query)
    limit_phrases(len(phrases), settings)
    limit_hits(len(phrases), asked.k, asked.contexts, settings)
    if not phrases:
        return []
    again = [alone(phrase) for phrase in phrases] if searcher.encodes_alone else []
    vectors = searcher.model.encode([*phrases, *again])
    found: list[Result] = []
    for at in range(0, len(phrases), AT_ONCE):
        go_on()
        some = slice(at, min(at + AT_ONCE, len(phrases)))
        by_itself = vectors[len(phrases) + some.start : len(phrases) + some.stop] if again else None
        answers = searcher.search_vectors(
            vectors[some],
            asked.k,
            asked.contexts,
            asked.documents,
            asked.languages,
            by_itself,
            [phrase.text for phrase in phrases[some]],
        )
        found += [Result(asked.query, phrase, *each) for phrase, each in zip(phrases[some], answers, strict=True)]
    return found


def marked_phrases(queries: Sequence[str], settings: Settings) -> list[tuple[int, Phrase]]:
    """The marked phrases of queries, each with its query's number. Raises Refusal, QueryError."""
    marked = [parse_query(query).phrases for query in queries]
    limit_phrases(max(map(len, marked), default=0), settings)
    if (total := sum(map(len, marked))) > settings.encoded:
        raise Refusal("too_long", f"{total:,} phrases in all; expected at most {settings.encoded:,}: mark fewer")
    return [(number, phrase) for number, phrases in enumerate(marked) for phrase in phrases]


def limit_phrases(found: int, settings: Settings) -> None:
    """Raises Refusal if more phrases are marked, or proposed, than are answered at once."""
    if found > settings.phrases:
        raise Refusal("too_long", f"the query has {found} phrases; expected at most {settings.phrases}: mark fewer")


def limit_hits(phrases: int, k: int, contexts: int, settings: Settings) -> None:
    """Raises Refusal for more sentences than one answer holds."""
    if phrases * k * max(contexts, 1) > settings.hits:
        what = f"{phrases} phrases or terms with {k} groups of {contexts} sentences"
        raise Refusal("too_long", f"{what}; expected at most {settings.hits:,} sentences in all: ask for less of each")


def limit_spans(found: Sequence[Sequence[Span]], settings: Settings) -> None:
    """Raises Refusal for more phrases than one answer holds."""
    if (total := sum(map(len, found))) > settings.spans:
        most = settings.spans
        raise Refusal(
            "too_long", f"{total:,} phrases; expected at most {most:,}: raise the threshold or send less text"
        )


def limit_total(texts: Sequence[str], settings: Settings) -> None:
    """Raises Refusal for more text than is encoded for one request."""
    if (total := sum(map(len, texts))) > settings.total_characters:
        most = settings.total_characters
        raise Refusal("too_long", f"{total:,} characters in all; expected at most {most:,}: send several requests")


_OPTIONS = re.compile(r", --(source|target)-lang and --check")  # of the command line: here they are fields


def mined(model: Any, asked: Mine) -> dict[str, Any]:
    """The answer to a request: pairs of numbers of sentences.

    Raises InputError if no sentence of a side can be used.
    """
    settings = Mining(threshold=asked.threshold, languages=(asked.source_language, asked.target_language))
    texts = [Document.from_texts(side, getattr(asked, side)) for side in ("source", "target")]
    try:
        with mine([texts[0]], [texts[1]], model, settings=settings, threads=1, progress=go_on) as found:
            pairs = [
                {
                    "source": mate.source_places[0].line - 1,
                    "target": mate.target_places[0].line - 1,
                    "score": round(mate.score, 4),
                    "cosine": round(mate.cosine, 4),
                }
                for mate in found
            ]
            return {"threshold": found.report.threshold, "pairs": pairs}
    except InputError as error:
        raise InputError(_OPTIONS.sub(r" and \1_language", str(error))) from error


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

        def answer(searcher: Searcher) -> Response:
            results = [result.as_dict() for result in searched(searcher, asked, settings)]
            return _answer({"index": name, "query": asked.query, "results": results})

        return await work(library, library.ask, name, answer)

    @post("/segment", schemas.Segment, schemas.SegmentAnswer)
    async def segment(request: Request) -> Response:
        asked = await read(request, schemas.Segment, settings)
        limit_total(asked.texts, settings)
        options: dict[str, Any] = {"overlapping": asked.overlapping}
        options |= {name: value for name in ("threshold", "max_words") if (value := getattr(asked, name)) is not None}

        def answer(searcher: Searcher) -> Response:
            found = searcher.model.segment(asked.texts, **options)
            limit_spans(found, settings)
            return _answer({"phrases": [_spans(*pair) for pair in zip(asked.texts, found, strict=True)]})

        return await work(library, library.ask, asked.index, answer)

    @post("/encode", schemas.Encode, schemas.EncodeAnswer)
    async def encode(request: Request) -> Response:
        asked = await read(request, schemas.Encode, settings)
        limit_total([*asked.queries, *asked.sentences], settings)
        marked = marked_phrases(asked.queries, settings)
        return await work(library, library.ask, asked.index, lambda s: _answer(_encoded(s.model, marked, asked)))

    @made.post(
        PREFIX + "/terms",
        response_model=schemas.TermsAnswer,
        openapi_extra=described_form(schemas.Terms, settings),
        summary=schemas.Terms.__doc__,
    )
    async def terms(request: Request) -> Response:
        asked, name, content = await read_form(request, schemas.Terms, settings)
        limit_hits(asked.most, asked.k, asked.contexts, settings)
        index = asked.index or library.names[0]

        def answer(searcher: Searcher) -> Response:
            return _answer({"index": index, "terms": terms_of(searcher, asked, name, content, settings)})

        return await work(library, library.ask, index, answer)

    @post("/mine", schemas.Mine, schemas.MineAnswer)
    async def mine(request: Request) -> Response:
        asked = await read(request, schemas.Mine, settings)
        limit_total([*asked.source, *asked.target], settings)
        return await work(library, library.ask, asked.index, lambda s: _answer(mined(s.model, asked)))


def _add_status(made: APIRouter, library: Library, metrics: Metrics) -> None:
    @made.get(PREFIX + "/indexes", response_model=schemas.IndexesAnswer, summary="What is served.")
    async def indexes() -> Response:
        return _answer({"indexes": [await work(library, _facts_of, library, name) for name in library.names]})

    @made.get("/health", response_model=schemas.Health, summary="Whether the server answers.")
    async def health() -> Response:
        return _answer({"status": "ok", "version": __version__, "indexes": list(library.names)})

    @made.get("/metrics", response_class=PlainTextResponse, summary="Counts, for Prometheus.")
    async def counts() -> Response:
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _answer(content: Any) -> Response:
    """JSON; half a character, as an indexed text may have one, is written as an escape. Long ones are for workers."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Response(text.encode("utf-8", "backslashreplace"), media_type="application/json")


def _spans(text: str, spans: list[Any]) -> list[dict[str, Any]]:
    return [
        {"start": span.start, "end": span.end, "text": text[span.start : span.end], "score": round(span.score, 4)}
        for span in spans
    ]


def _encoded(model: Any, marked: list[tuple[int, Phrase]], asked: schemas.Encode) -> dict[str, Any]:
    """Vectors in the shortest decimals that give the same float32."""
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


def _facts_of(library: Library, name: str) -> dict[str, Any]:
    """What an index holds, or why it does not answer: the others still do."""
    try:
        return library.ask(name, lambda searcher: _facts(name, searcher))
    except (IndexError_, ModelError) as error:
        nothing = {"documents": 0, "sentences": 0, "phrases": 0, "languages": {}, "model": "", "model_hash": ""}
        return {"name": name, **nothing, "generation": 0, "problem": refusal_of(error).message}


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
        "problem": "",
    }
