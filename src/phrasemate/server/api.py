"""REST API: each endpoint calls one public function, within the limits of a request.

Translation tools get suggestions for a segment, or use the interface of a translation memory server (amaGama). An
uploaded document is read from a temporary file whose name the server chooses.
"""

from __future__ import annotations

import json
import logging
import re
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool
from starlette.convertors import PathConvertor, register_url_convertor

from phrasemate import __version__
from phrasemate.concordance import PlacedPhrase, phrases_of
from phrasemate.errors import InputError, ModelError, PhraseIndexError, ReadError
from phrasemate.glossary import Entry, Glossary
from phrasemate.lookup import lookup
from phrasemate.mine import Mining, mine
from phrasemate.query import parse_query
from phrasemate.results import Group, Result, SearchRequest
from phrasemate.search import Searcher
from phrasemate.server import schemas
from phrasemate.server.cancellation import go_on, work
from phrasemate.server.errors import REASONS, Refusal, refusal_of
from phrasemate.server.indexes import Library
from phrasemate.server.middleware import Access, Metrics
from phrasemate.server.schemas import Mine, RequestBody, Search, described, described_form, read, read_form
from phrasemate.server.settings import Settings
from phrasemate.server.tokens import Tokens
from phrasemate.terms import DocumentTerm, TermSettings, document_terms
from phrasemate.text import folded
from phrasemate.text.corpus import SUFFIXES as READABLE
from phrasemate.types import Document, Phrase, Sentence, Span

SUFFIXES = tuple(sorted(suffix[1:] for suffix in READABLE))  # gzip is not accepted
NAME = "document"
log = logging.getLogger("phrasemate.server")

AT_ONCE = 8  # phrases of one request that are searched together, which limits memory: up to 1,600 hits for each


def searched(searcher: Searcher, body: Search, settings: Settings) -> list[Result]:
    """Answer a query, within the limits of one request. Raises Refusal, RequestAbandoned."""
    return searched_phrases(searcher, searcher.phrases(body.query), body, settings)


def searched_phrases(searcher: Searcher, phrases: Sequence[Phrase], body: Search, settings: Settings) -> list[Result]:
    """Answer phrases as `searched` does; ``body.query`` is only copied into the results. Raises Refusal."""
    limit_phrases(len(phrases), settings)
    limit_hits(len(phrases), body.k, body.contexts, settings)
    request = SearchRequest(body.k, body.contexts, body.documents, body.languages)
    answers = searcher.search_phrases(phrases, request, at_once=AT_ONCE, progress=go_on)
    return [Result(body.query, phrase, *answer) for phrase, answer in zip(phrases, answers, strict=True)]


def marked_phrases(queries: Sequence[str], settings: Settings) -> list[tuple[int, Phrase]]:
    """Parse the marked phrases of queries, each with the number of its query, from 0. Raises Refusal, QueryError."""
    phrase_lists = [parse_query(query).phrases for query in queries]
    limit_phrases(max(map(len, phrase_lists), default=0), settings)
    if (total := sum(map(len, phrase_lists))) > settings.encoded:
        raise Refusal("too_long", f"{total:,} phrases in all; expected at most {settings.encoded:,}: mark fewer")
    return [(number, phrase) for number, phrases in enumerate(phrase_lists) for phrase in phrases]


def limit_phrases(count: int, settings: Settings) -> None:
    """Raise Refusal if a query has too many phrases, marked or proposed."""
    if count > settings.phrases:
        raise Refusal("too_long", f"the query has {count} phrases; expected at most {settings.phrases}: mark fewer")


def limit_hits(phrases: int, k: int, contexts: int, settings: Settings) -> None:
    """Raise Refusal if an answer could have too many sentences."""
    if phrases * k * max(contexts, 1) > settings.hits:
        size = f"{phrases} phrases or terms with {k} groups of {contexts} sentences"
        raise Refusal("too_long", f"{size}; expected at most {settings.hits:,} sentences in all: ask for less of each")


def limit_spans(spans: Sequence[Sequence[Span]], settings: Settings) -> None:
    """Raise Refusal if an answer has too many phrases."""
    if (total := sum(map(len, spans))) > settings.spans:
        most = settings.spans
        raise Refusal(
            "too_long", f"{total:,} phrases; expected at most {most:,}: raise the threshold or send less text"
        )


def limit_total(texts: Sequence[str], settings: Settings) -> None:
    """Raise Refusal if the texts of a request are too long in all."""
    if (total := sum(map(len, texts))) > settings.total_characters:
        most = settings.total_characters
        raise Refusal("too_long", f"{total:,} characters in all; expected at most {most:,}: send several requests")


_OPTIONS = re.compile(r", --(source|target)-lang and --check")  # options in messages, which are fields of a request


def mined(model: Any, body: Mine) -> dict[str, Any]:
    """Mine the sentences of a request. Returns the threshold and the pairs, as numbers of sentences from 0.

    Raises InputError if no sentence of a side can be used.
    """
    settings = Mining(threshold=body.threshold, languages=(body.source_language, body.target_language))
    texts = [Document.from_texts(side, getattr(body, side)) for side in ("source", "target")]
    try:
        with mine([texts[0]], [texts[1]], model, settings=settings, threads=1, progress=go_on) as mining:
            pairs = [
                {
                    "source": mate.source_places[0].line - 1,
                    "target": mate.target_places[0].line - 1,
                    "score": round(mate.score, 4),
                    "cosine": round(mate.cosine, 4),
                }
                for mate in mining
            ]
            return {"threshold": mining.report.threshold, "pairs": pairs}
    except InputError as error:
        raise InputError(_OPTIONS.sub(r" and \1_language", str(error))) from error


FAILURES: dict[int | str, dict[str, Any]] = {status: {"model": schemas.Failure} for status in set(REASONS.values())}
PREFIX, MEMORY = "/api/v1", "/tmserver"
TARGETS = 20  # maximum number of translations of a phrase from the translation memory interface
SPOKEN = (
    *("ar", "bg", "ca", "cs", "da", "de", "el", "en", "es", "et", "eu", "fa", "fi", "fr", "gl", "he", "hi", "hr", "hu"),
    *("id", "it", "ja", "ko", "lt", "lv", "ms", "nb", "nl", "pl", "pt", "ro", "ru", "sk", "sl", "sr", "sv", "th", "tr"),
    *("uk", "ur", "vi", "zh"),
)  # source languages offered to tools: the most used of the hundred languages of the model


class _Segment(PathConvertor):
    """Rest of an address, also with line ends, which Starlette's ``path`` does not match."""

    regex = r"(?s:.*)"


register_url_convertor("segment", _Segment())

Endpoint = Callable[[Request], Awaitable[Response]]


def router(library: Library, settings: Settings, metrics: Metrics, glossary: Glossary, access: Access) -> APIRouter:
    """Make the router of all endpoints for programs."""
    api = APIRouter(responses=FAILURES)
    _add_questions(api, library, settings)
    _add_tools(api, library, settings, glossary)
    _add_status(api, library, metrics, access)
    return api


def reload(library: Library, tokens: Tokens | None = None) -> dict[str, str]:
    """Reopen all indexes and reread the tokens. Returns why an index, or "tokens", could not be and stays as it was."""
    problems = library.reload()
    try:
        if tokens:
            tokens.reload()
            warn_of_rights(library, tokens)
    except ReadError as error:
        log.error("%s", error)
        problems["tokens"] = str(error)
    return problems


def warn_of_rights(library: Library, tokens: Tokens) -> None:
    """Log a warning for each index that the rights of a token name and that is not served."""
    for user, name in tokens.index_rights():
        if name not in library.names:
            log.warning("token of %s: has rights for %s, which is not served here", user, name)


def _post(
    api: APIRouter, settings: Settings, path: str, body: type[RequestBody], answer: Any, description: Any = described
) -> Callable[[Endpoint], Endpoint]:
    """Register the decorated function as the endpoint of POST to ``path``."""
    extra = description(body, settings)
    return api.post(PREFIX + path, response_model=answer, openapi_extra=extra, summary=body.__doc__)


def _add_questions(api: APIRouter, library: Library, settings: Settings) -> None:
    post = partial(_post, api, settings)

    @post("/search", schemas.Search, schemas.SearchAnswer)
    async def search(request: Request) -> Response:
        body = await read(request, schemas.Search, settings)
        name = body.index or library.names[0]

        def answer(searcher: Searcher) -> Response:
            results = [result.as_dict() for result in searched(searcher, body, settings)]
            return _answer({"index": name, "query": body.query, "results": results})

        return await work(library, library.ask, name, answer)

    @post("/lookup", schemas.Lookup, schemas.LookupAnswer)
    async def look_up(request: Request) -> Response:
        body = await read(request, schemas.Lookup, settings)
        name = body.index or library.names[0]

        def answer(searcher: Searcher) -> Response:
            filters = (body.how, body.sort, body.limit, body.documents, body.languages, name)
            places = lookup(searcher.index, body.query, *filters, go_on, side=body.side, near=body.near)
            return _answer({"index": name, **places.as_dict()})

        return await work(library, library.ask, name, answer)

    @post("/segment", schemas.Segment, schemas.SegmentAnswer)
    async def segment(request: Request) -> Response:
        body = await read(request, schemas.Segment, settings)
        limit_total(body.texts, settings)
        options: dict[str, Any] = {"overlapping": body.overlapping}
        options |= {name: value for name in ("threshold", "max_words") if (value := getattr(body, name)) is not None}

        def answer(searcher: Searcher) -> Response:
            spans = searcher.model.segment(body.texts, **options)
            limit_spans(spans, settings)
            return _answer({"phrases": [_spans(*pair) for pair in zip(body.texts, spans, strict=True)]})

        return await work(library, library.ask, body.index, answer)

    @post("/encode", schemas.Encode, schemas.EncodeAnswer)
    async def encode(request: Request) -> Response:
        body = await read(request, schemas.Encode, settings)
        limit_total([*body.queries, *body.sentences], settings)
        marked_list = marked_phrases(body.queries, settings)
        return await work(library, library.ask, body.index, lambda s: _answer(_encoded(s.model, marked_list, body)))

    @post("/terms", schemas.Terms, schemas.TermsAnswer, described_form)
    async def terms(request: Request) -> Response:
        body, name, content = await read_form(request, schemas.Terms, settings)
        limit_hits(body.most, body.k, body.contexts, settings)
        index = body.index or library.names[0]

        def answer(searcher: Searcher) -> Response:
            how = TermSettings(
                ranking=body.ranking, most=body.most, k=body.k, contexts=body.contexts, language=body.language
            )
            with uploaded(name, content, settings, body.language) as documents:
                rows = terms_of(documents, searcher, how, body.target_language)
            return _answer({"index": index, "terms": [term.as_dict(body.contexts) for term in rows]})

        return await work(library, library.ask, index, answer)

    @post("/mine", schemas.Mine, schemas.MineAnswer)
    async def mine(request: Request) -> Response:
        body = await read(request, schemas.Mine, settings)
        limit_total([*body.source, *body.target], settings)
        return await work(library, library.ask, body.index, lambda s: _answer(mined(s.model, body)))


def _add_tools(api: APIRouter, library: Library, settings: Settings, glossary: Glossary) -> None:
    """Add the endpoints for translation tools: ``/suggest`` and the translation memory interface."""

    def suggest_from(name: str, text: str, target: str, k: int) -> list[dict[str, Any]]:
        def answer(searcher: Searcher) -> list[dict[str, Any]]:
            limit_total([text], settings)
            of_index = searcher.index.languages()
            languages = spoken(target, of_index) if target else of_index
            if not languages:
                return []
            body = Search(query=text, k=k, contexts=1, documents=None, languages=languages if target else None)
            phrases = phrases_of(text, searcher.model)
            results = searched_phrases(searcher, [place.phrase for place in phrases], body, settings)
            spoken_here = [target] if target else languages
            return [
                suggested(place, result, readable(library, glossary.of(place.phrase.text)), spoken_here, k)
                for place, result in zip(phrases, results, strict=True)
            ]

        return library.ask(name, answer)

    @_post(api, settings, "/suggest", schemas.Suggest, schemas.SuggestAnswer)
    async def suggest(request: Request) -> Response:
        body = await read(request, schemas.Suggest, settings)
        name = body.index or library.names[0]
        phrases = await work(library, suggest_from, name, body.text, body.target_language, body.k)
        return _answer({"index": name, "text": body.text, "phrases": phrases})

    @api.get(
        MEMORY + "/{source}/{target}/unit/{text:segment}",
        response_model=list[schemas.Unit],
        openapi_extra={
            "parameters": [
                _number("min_similarity", "Minimum quality of a unit, in percent.", 0),
                _number("max_candidates", "Maximum number of units.", 10),
            ]
        },
    )
    async def unit(source: str, target: str, text: str, request: Request) -> Response:
        """Translate a text in the format of amaGama and Weblate's tmserver.

        Query parameters: ``min_similarity`` (0) and ``max_candidates`` (10).
        """
        numbers = [request.query_params.get(*pair) for pair in (("min_similarity", "0"), ("max_candidates", "10"))]
        if not all(number.isascii() and number.isdigit() and len(number) < 9 for number in numbers):
            raise Refusal("invalid", "min_similarity and max_candidates: expected whole numbers")
        if len(text) > settings.characters:
            raise Refusal("too_long", f"text: {len(text):,} characters; expected at most {settings.characters:,}")
        least, most = map(int, numbers)
        answers = await _from_all(library, lambda name: suggest_from(name, text, target, min(max(most, 1), TARGETS)))
        return _answer(list(units(text, answers, least))[:most])

    @api.get(MEMORY + "/languages/", response_model=dict[str, list[str]])
    async def languages() -> Response:
        """List the source languages, and the languages of all indexes as target languages."""
        targets = await _from_all(library, lambda name: library.ask(name, lambda s: s.index.languages()))
        return _answer({"sourceLanguages": list(SPOKEN), "targetLanguages": sorted(set(filter(None, targets)))})


def _number(name: str, description: str, default: int) -> dict[str, Any]:
    """Describe an integer query parameter for OpenAPI."""
    schema = {"type": "integer", "minimum": 0, "maximum": 99_999_999, "default": default}
    return {"name": name, "in": "query", "description": description, "schema": schema}


async def _from_all(library: Library, question: Callable[[str], list[Any]]) -> list[Any]:
    """Ask all indexes and concatenate their answers; indexes that cannot be used are left out."""

    def answer(name: str) -> list[Any]:
        try:
            return question(name)
        except (PhraseIndexError, ModelError):
            return []

    return [row for name in library.names for row in await work(library, answer, name)]


def _add_status(api: APIRouter, library: Library, metrics: Metrics, access: Access) -> None:
    @api.get(
        PREFIX + "/indexes",
        response_model=schemas.IndexesAnswer,
        summary="List the indexes with their sizes, languages and models.",
    )
    async def indexes() -> Response:
        return _answer({"indexes": [await work(library, _facts_of, library, name) for name in library.names]})

    @api.get("/health", response_model=schemas.Health, summary="Check that the server answers.")
    async def health() -> Response:
        names = [] if access.token or access.tokens else list(library.names)  # this address needs no token
        return _answer({"status": "ok", "version": __version__, "indexes": names})

    @api.get("/ready", response_model=schemas.Readiness, summary="Check that all indexes can be used.")
    async def ready() -> Response:
        if await run_in_threadpool(library.problems):
            raise Refusal("index_unusable", "an index cannot be used just now; the server's log says why")
        return _answer({"status": "ready"})

    @api.post(
        PREFIX + "/reload", response_model=schemas.ReloadAnswer, summary="Reopen all indexes and reread the tokens."
    )
    async def reload_all() -> Response:
        problems = await run_in_threadpool(reload, library, access.tokens)
        return _answer({"indexes": list(library.names), "problems": problems})

    content = {"text/plain": {"schema": {"type": "string"}}}  # an error is JSON, as everywhere

    @api.get(
        "/metrics", response_class=Response, responses={200: {"content": content}}, summary="Metrics for Prometheus."
    )
    async def counts() -> Response:
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _answer(content: Any) -> Response:
    """Make a JSON response; a lone surrogate in a text becomes an escape. Call it in a worker if it may be long."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Response(text.encode("utf-8", "backslashreplace"), media_type="application/json")


def _spans(text: str, spans: list[Any]) -> list[dict[str, Any]]:
    return [
        {"start": span.start, "end": span.end, "text": text[span.start : span.end], "score": round(span.score, 4)}
        for span in spans
    ]


def _encoded(model: Any, marked: list[tuple[int, Phrase]], body: schemas.Encode) -> dict[str, Any]:
    """Encode phrases and sentences, with vectors in the shortest decimals that give the same float32."""
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
    sentences = model.encode_sentences(body.sentences) if body.sentences else []
    facts = {"model": model.name, "model_hash": model.hash, "phrases": phrases}
    return {**facts, "sentences": [[float(str(x)) for x in vector] for vector in sentences]}


def _facts_of(library: Library, name: str) -> dict[str, Any]:
    """Describe an index for ``/indexes``; one that cannot be used has a problem and empty facts."""
    facts = {"documents": 0, "sentences": 0, "phrases": 0, "languages": {}, "model": "", "model_hash": ""}
    facts |= {"generation": 0}
    try:
        stats, problem = library.ask(name, lambda searcher: searcher.index.stats()), ""
        facts = {field: getattr(stats, field) for field in facts}
    except (PhraseIndexError, ModelError) as error:
        problem = refusal_of(error).message
    return {"name": name, **facts, "problem": problem}


@contextmanager
def uploaded(name: str, content: bytes, settings: Settings, language: str = "") -> Iterator[list[Document]]:
    """Yield the documents of an upload, which can be read within the block. Only the ending of ``name`` is used.

    Raises Refusal for another ending. Reading the documents raises ReadError, which names no path of the server, or
    Refusal for too much text.
    """
    from phrasemate.text import read
    from phrasemate.text.text_file import without_options

    suffix = name.rpartition(".")[2].lower()
    if suffix not in SUFFIXES:
        raise Refusal("wrong_type", f"a file named .{suffix[:20]}; expected one of: {', '.join(SUFFIXES)}")
    with tempfile.TemporaryDirectory(prefix="phrasemate-") as folder:
        path = Path(folder) / f"{NAME}.{suffix}"
        path.write_bytes(content)
        try:
            with without_options():
                yield [_limited(document, settings) for document in read(path, lang=language)]
        except ReadError as error:
            remedy = error.remedy.replace(" with --lang", " as its language")  # a field of the request
            raise ReadError(f"the {NAME}", error.line, error.reason, remedy) from error


def terms_of(documents: Sequence[Document], searcher: Searcher, how: TermSettings, target: str) -> list[DocumentTerm]:
    """Find the terms of documents, with candidate translations into the language ``target`` ("": any)."""
    return document_terms(documents, searcher, how, languages=[target] if target else None, progress=go_on)


def _limited(document: Document, settings: Settings) -> Document:
    most = settings.document_characters

    def sentences() -> Iterator[Sentence]:
        length = 0
        for sentence in document.sentences():
            go_on()
            length += len(sentence.text)
            if length > most:
                raise Refusal("too_long", f"the document has more than {most:,} characters; split it")
            yield sentence

    return replace(document, name=NAME, sentences=sentences)


QUALITIES = {"preferred": 100, "admitted": 95}  # status of a glossary entry -> quality; others are not suggested
WORST = 1  # minimum quality of a suggestion, in percent


def spoken(requested: str, languages: Sequence[str]) -> list[str]:
    """Return the languages of an index that match a language tag: ``en_GB`` matches ``en``, and "" (unknown) always.

    An empty tag matches all languages.
    """
    tag = _tag(requested)
    exact = [language for language in languages if _tag(language) == tag]
    general = tag.partition("-")[0]
    alike = [language for language in languages if _tag(language).partition("-")[0] == general]
    return list(languages) if not tag else (exact or alike) + [language for language in languages if not language]


def _tag(language: str) -> str:
    return language.lower().replace("_", "-")


def readable(library: Library, entries: Sequence[Entry]) -> list[Entry]:
    """Remove quotations of indexes from glossary entries, unless the user may read every index.

    Raises Refusal for a user who may not read any index.
    """
    if not library.names or library.whole:  # `names` raises Refusal
        return list(entries)
    return [replace(entry, example="", origin="") for entry in entries]


def suggested(
    place: PlacedPhrase, result: Result, entries: Sequence[Entry], languages: Sequence[str], k: int
) -> dict[str, Any]:
    """Format a phrase with its suggestions for JSON, those of the glossary first.

    Args:
        place: The phrase and its place in the text.
        result: Answer to the phrase.
        entries: Entries of the glossary for the phrase.
        languages: Languages into which the phrase is translated.
        k: Maximum number of suggestions.
    """
    valid_entries = [entry for entry in entries if entry.status in QUALITIES]
    own_entries = [
        _entry(entry)
        for entry in valid_entries
        if not entry.target_language or spoken(entry.target_language, languages)
    ]
    own_entries.sort(key=lambda suggestion: -suggestion["quality"])
    texts = {folded(suggestion["text"]) for suggestion in own_entries}
    groups = [_group(group) for group in result.groups if folded(group.text) not in texts]
    return {
        "phrase": place.phrase.text,
        "start": place.start,
        "end": place.end,
        "particle": dict(zip(("start", "end"), place.particle, strict=True)) if place.particle else None,
        "confidence": None if result.confidence is None else round(result.confidence, 4),
        "suggestions": [*own_entries, *groups][:k],
    }


def units(text: str, answers: Sequence[dict[str, Any]], least: int) -> Iterator[dict[str, Any]]:
    """Convert suggestions to translation memory units of at least the quality ``least``, the best first.

    The quality of a unit that translates only a part of the text is multiplied by the share of its letters.
    """
    letters = max(sum(map(str.isalnum, text)), 1)
    rows = []
    for answer in answers:
        share = min(sum(map(str.isalnum, answer["phrase"])) / letters, 1)
        for suggestion in answer["suggestions"]:
            quality = max(int(share * suggestion["quality"]), WORST)
            rows.append({"source": answer["phrase"], "target": suggestion["text"], "quality": quality, "rank": quality})
    best: dict[tuple[str, str], dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: -row["quality"]):  # several indexes may give the same unit
        best.setdefault((folded(row["source"]), folded(row["target"])), row)
    return (row for row in best.values() if row["quality"] >= least)


def _entry(entry: Entry) -> dict[str, Any]:
    place = {"document": entry.origin, "line": 0, "language": entry.target_language}
    facts = {"text": entry.target, "quality": QUALITIES[entry.status], "source": "glossary", "count": 0}
    return {**facts, "example": entry.example, "note": entry.note, **place}


def _group(group: Group) -> dict[str, Any]:
    hit = group.hits[0] if group.hits else None
    fit = group.score if group.probability is None else group.probability
    place = {"document": hit.document if hit else "", "line": hit.line if hit else 0, "language": group.language}
    quality = max(round(100 * min(max(fit, 0), 1)), WORST)
    facts = {"text": group.text, "quality": quality, "source": group.source or "index", "count": group.count}
    return {**facts, "example": hit.context if hit else "", "note": "", **place}
