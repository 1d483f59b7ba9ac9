"""Request bodies with their validation, and response models for the OpenAPI description."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar, Literal, TypeVar

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError
from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request

from phrasemate.errors import plain_reason
from phrasemate.server.errors import Refusal
from phrasemate.server.settings import Settings

MOST_FIELDS = 20  # maximum number of fields in a form or object; no request body has so many

Limits = Mapping[str, Sequence[tuple[str, str]]]


class RequestBody(BaseModel):
    """The body of a request. ``limits``: field -> (JSON Schema keyword of the limit, attribute of `Settings` with it).

    A value over ``maxLength`` or ``maxItems`` gives status 413, over ``maximum`` 422. For a list of strings,
    ``maxLength`` applies to each string. ``files``: names of the files of a form.
    """

    model_config = ConfigDict(extra="forbid", strict=True)
    limits: ClassVar[Limits] = {}
    files: ClassVar[Sequence[str]] = ()


Body = TypeVar("Body", bound=RequestBody)


async def read(request: Request, kind: type[Body], settings: Settings) -> Body:
    """Read the JSON body of a request. Raises Refusal if it is invalid or over a limit."""
    _check_type(request, "application/json")
    return _validated(kind, _loads(await request.body()), settings)


def _validated(kind: type[Body], sent: Any, settings: Settings) -> Body:
    if not isinstance(sent, dict):
        raise Refusal("invalid", f"the body: expected a JSON object with the fields {', '.join(kind.model_fields)}")
    _check_counts(kind, sent, settings)
    try:
        body = kind.model_validate(sent)
    except ValidationError as error:
        raise Refusal("invalid", _reason(error, kind)) from error
    for field, limits in kind.limits.items():
        for limit, name in limits:
            _check(field, getattr(body, field), limit, getattr(settings, name))
    return body


async def read_form(request: Request, kind: type[Body], settings: Settings) -> tuple[Body, str, bytes]:
    """Read a form: its fields, and the name and content of its one ``file``. Raises Refusal."""
    fields: dict[str, str] = {}
    async with form_of(request, settings, files=1) as form:
        files = [value for name, value in form.multi_items() if name == "file" and isinstance(value, UploadFile)]
        for name, value in form.multi_items():
            if isinstance(value, str):
                if name in fields:
                    raise Refusal("invalid", f"{name[:100]}: is given twice")
                fields[name] = value
        if len(files) != 1:
            raise Refusal("invalid", "file: expected one file")
        name, content = files[0].filename or "", await files[0].read()
    return _validated(kind, fields, settings), name, content


@asynccontextmanager
async def form_of(
    request: Request, settings: Settings, files: int, fields: int = MOST_FIELDS
) -> AsyncIterator[FormData]:
    """Parse a multipart form with at most ``files`` files and ``fields`` fields. Raises Refusal."""
    _check_type(request, "multipart/form-data")
    try:
        form = await request.form(max_files=files, max_fields=fields, max_part_size=settings.upload_bytes)
    except ValueError as error:
        raise Refusal("bad_request", "the form is not UTF-8") from error
    try:
        yield form
    finally:
        await form.close()


def _check_type(request: Request, expected: str) -> None:
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != expected:
        raise Refusal("wrong_type", f"a body of type {content_type[:100]!r}; expected {expected}")


def described_form(kind: type[RequestBody], settings: Settings) -> dict[str, Any]:
    """Describe a form with a file, for a route's ``openapi_extra``."""
    schema = described(kind, settings)["requestBody"]["content"]["application/json"]["schema"]
    schema["properties"]["file"] = {"type": "string", "format": "binary", "description": "The document."}
    schema["required"] = ["file"]
    return {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": schema}}}}


def described(kind: type[RequestBody], settings: Settings) -> dict[str, Any]:
    """Describe a JSON body with its limits, for a route's ``openapi_extra``."""
    schema = kind.model_json_schema()
    for field, limits in kind.limits.items():
        for limit, name in limits:
            property_schema = schema["properties"][field]
            property_schema = property_schema.get("anyOf", [property_schema])[0]  # the other one is null
            if limit == "maxLength" and property_schema["type"] == "array":
                property_schema = property_schema["items"]
            property_schema[limit] = getattr(settings, name)
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _check_counts(kind: type[RequestBody], sent: dict[str, Any], settings: Settings) -> None:
    """Check the number of fields and items before validation, which would collect an error for each invalid item."""
    if len(sent) > MOST_FIELDS:
        raise Refusal("invalid", f"{len(sent):,} fields; expected at most {len(kind.model_fields)}")
    for field, limits in kind.limits.items():
        for limit, name in limits:
            if limit == "maxItems" and isinstance(sent.get(field), list):
                _check(field, sent[field], limit, getattr(settings, name))


def _check(field: str, value: Any, what: str, most: int) -> None:
    if value is None:
        return
    if what == "maximum":
        if value > most:
            raise Refusal("invalid", f"{field}: expected at most {most}")
        return
    texts = [value] if isinstance(value, str) else value
    size = len(value) if what == "maxItems" else max(map(len, texts), default=0)
    if size > most:
        unit = "items" if what == "maxItems" else "characters"
        raise Refusal("too_long", f"{field}: {size:,} {unit}; expected at most {most:,}")


def _loads(raw: bytes) -> Any:
    """Parse strict JSON: UTF-8, no duplicate keys, no NaN or infinity, no deep nesting. Raises Refusal."""
    try:
        body = json.loads(raw.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no_constant)
        if b"\\u" in raw:  # an escape may be a lone surrogate
            json.dumps(body, ensure_ascii=False).encode()
        return body
    except UnicodeEncodeError as error:
        raise Refusal("bad_json", "half a surrogate pair in a string; expected whole characters") from error
    except UnicodeDecodeError as error:
        raise Refusal("bad_json", f"the body is not UTF-8 (byte {error.start})") from error
    except RecursionError as error:
        raise Refusal("bad_json", "the body is nested too deeply") from error
    except ValueError as error:
        raise Refusal("bad_json", f"the body is not JSON ({str(error)[:200]})") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise ValueError("an object has a key twice")
    return mapping


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number")


REASONS = 3  # maximum number of validation errors in one message


def _reason(error: ValidationError, kind: type[RequestBody]) -> str:
    """Format the first validation errors, without quoting the request. For an unknown field, list the valid ones."""
    errors = error.errors(include_url=False, include_context=False, include_input=False)
    more = f" (and {len(errors) - REASONS} more)" if len(errors) > REASONS else ""
    unknown = any(fault["type"] == "extra_forbidden" for fault in errors[:REASONS])
    fields = f"; the fields are {', '.join([*kind.files, *kind.model_fields])}" if unknown else ""
    return "; ".join(map(_fault, errors[:REASONS])) + more + fields


def _fault(error: Any) -> str:
    where = ".".join(str(part)[:100] for part in error["loc"])
    if error["type"] == "missing":
        return f"the field '{where}' is missing"
    if error["type"] == "extra_forbidden":
        return f"unknown field '{where}'"
    if error["type"] == "string_pattern_mismatch":
        return f"{where}: expected a language tag such as de or pt-BR"  # `LANGUAGE` is the only pattern
    return f"{where + ': ' if where else ''}{plain_reason(error['msg'])}"


INDEX = Field("", description="The name of an index, as /indexes gives it; empty: the first one.")
LANGUAGE = "^[A-Za-z0-9_-]{0,20}$"
TEXTS = [("maxItems", "texts"), ("maxLength", "characters")]


class Search(RequestBody):
    """Find phrases that mean the same as the marked phrases of a sentence."""

    limits: ClassVar[Limits] = {
        "query": [("maxLength", "characters")],
        "k": [("maximum", "k")],
        "contexts": [("maximum", "contexts")],
        "documents": [("maxItems", "filters"), ("maxLength", "characters")],
        "languages": [("maxItems", "filters"), ("maxLength", "characters")],
    }
    query: str = Field(
        description=r"A sentence with phrases in [[ ]] (\[[ and \]] are brackets); without marks, all of its phrases."
    )
    index: str = INDEX
    k: int = Field(10, ge=1, description="Groups of equal wording for each phrase, at most.")
    contexts: int = Field(5, ge=0, description="Sentences for each group, at most.")
    documents: list[str] | None = Field(None, description="Search in these documents only.")
    languages: list[str] | None = Field(
        None, description="Only in these languages. Default: all but the query's own, if there are others."
    )


class Lookup(RequestBody):
    """Look up words in the texts of an index: frequency, neighbours, lines."""

    limits: ClassVar[Limits] = {
        "query": [("maxLength", "sentence_characters")],
        "limit": [("maximum", "hits")],
        "documents": [("maxItems", "filters"), ("maxLength", "characters")],
        "languages": [("maxItems", "filters"), ("maxLength", "characters")],
        "near": [("maxLength", "sentence_characters")],
    }
    query: str = Field(description="Words, with * for any letters and ? for one, or a regular expression.")
    index: str = INDEX
    how: Literal["words", "forms", "regex"] = Field(
        "words", validation_alias=AliasChoices("how", "way"), description="forms: inflected forms too."
    )
    sort: Literal["text", "left", "right"] = Field(
        "text", validation_alias=AliasChoices("sort", "order"), description="Order of the lines."
    )
    limit: int = Field(100, ge=1, validation_alias=AliasChoices("limit", "most"), description="Lines, at most.")
    documents: list[str] | None = Field(None, description="In these documents only.")
    languages: list[str] | None = Field(None, description="In these languages only.")
    side: Literal["text", "translation"] = Field(
        "text", description="translation: look in the translations of aligned text."
    )
    near: str = Field("", description="Only matches with this word among those before or after.")


class Suggest(RequestBody):
    """Suggest equivalents for the phrases of a segment, first from the glossary, then from the index."""

    limits: ClassVar[Limits] = {"text": [("maxLength", "characters")], "k": [("maximum", "k")]}
    text: str = Field(
        description="A segment: one phrase if it has up to four words, else its phrases or those in [[ ]]."
    )
    index: str = INDEX
    target_language: str = Field("", pattern=LANGUAGE, description="Suggestions in this language only.")
    k: int = Field(5, ge=1, description="Suggestions for each phrase, at most.")


class Segment(RequestBody):
    """Find the phrases of texts."""

    limits: ClassVar[Limits] = {"texts": TEXTS}
    texts: list[str]
    index: str = INDEX
    overlapping: bool = Field(True, description="False: phrases that share no word.")
    threshold: float | None = Field(None, ge=0, le=1, description="Minimum score of a phrase.")
    max_words: int | None = Field(None, ge=1, le=16, description="Maximum number of words of a phrase.")


class Encode(RequestBody):
    """Encode marked phrases and whole sentences as vectors."""

    limits: ClassVar[Limits] = {"queries": TEXTS, "sentences": TEXTS}
    queries: list[str] = Field([], description="Sentences whose phrases are marked with [[ ]].")
    sentences: list[str] = Field([], description="Sentences, each as a whole.")
    index: str = INDEX


class Mine(RequestBody):
    """Find the sentences of two lists that are translations of each other."""

    limits: ClassVar[Limits] = {
        "source": [("maxItems", "sentences"), ("maxLength", "sentence_characters")],
        "target": [("maxItems", "sentences"), ("maxLength", "sentence_characters")],
    }
    source: list[str]
    target: list[str]
    index: str = Field("", description="The index whose model is used.")
    source_language: str = Field("", pattern=LANGUAGE)
    target_language: str = Field("", pattern=LANGUAGE)
    threshold: float | None = Field(None, ge=-10, le=10, description="Minimum score of a pair.")


class Terms(RequestBody):
    """Find the terms of a document, each with candidate translations."""

    model_config = ConfigDict(extra="forbid", strict=False)  # a form holds text only
    files: ClassVar[Sequence[str]] = ("file",)
    limits: ClassVar[Limits] = {
        "most": [("maximum", "terms")],
        "k": [("maximum", "k")],
        "contexts": [("maximum", "contexts")],
    }
    index: str = INDEX
    language: str = Field("", pattern=LANGUAGE, description="Language of the document, e.g. de.")
    target_language: str = Field("", pattern=LANGUAGE, description="Translations in this language only.")
    ranking: Literal["termhood", "expected", "frequency", "cvalue"] = "termhood"
    most: int = Field(200, ge=1, description="The best terms, at most.")
    k: int = Field(5, ge=1, description="Candidate translations of a term, at most.")
    contexts: int = Field(2, ge=0, description="Sentences of a term, and of a translation, at most.")


class Failure(BaseModel):
    """The form of every error answer."""

    class Error(BaseModel):
        status: int
        code: str = Field(description="Code for programs; docs/reference/rest.md lists all codes.")
        message: str = Field(description="Message for people: what is wrong and what was expected.")

    error: Error


class Span(BaseModel):
    start: int = Field(description="Offset in characters (Unicode code points) of the text without marks.")
    end: int


class Hit(Span):
    context: str
    score: float
    document: str
    line: int
    language: str
    metadata: dict[str, Any]


class Group(BaseModel):
    text: str
    language: str = Field(description="Language of the documents with the wording; empty if it is unknown.")
    score: float = Field(description="The cosine of the best hit.")
    support: float = Field(description="The value that groups are ordered by: the probability, if it is known.")
    count: int = Field(description="Occurrences of the wording: in the whole index, if the probability is known.")
    probability: float | None = Field(None, description="Probability that the wording is an equivalent, if known.")
    source: str = Field("", description="The dictionary that has the wording, if any.")
    hits: list[Hit]


class Result(Span):
    phrase: str
    confidence: float | None = Field(None, description="The probability that the index holds an equivalent, if known.")
    groups: list[Group]


class SearchAnswer(BaseModel):
    index: str
    query: str
    results: list[Result] = Field(description="One for each phrase.")


class Occurrence(BaseModel):
    document: str
    line: int
    language: str
    before: str
    match: str
    after: str


class LookupAnswer(BaseModel):
    index: str
    query: str
    count: int
    sentences: int
    whole: bool = Field(description="False: the time limit was reached, and there may be more.")
    wordings: list[tuple[str, int]]
    before: list[tuple[str, int]]
    after: list[tuple[str, int]]
    documents: list[tuple[str, int]]
    lines: list[Occurrence]


class Suggestion(BaseModel):
    text: str
    quality: int = Field(description="Probability that it is an equivalent, in percent.")
    source: str = Field(description="glossary, index, or the name of a dictionary.")
    count: int = Field(description="Occurrences in the index; 0: unknown.")
    example: str
    note: str
    document: str
    line: int
    language: str


class PhraseSuggestions(Span):
    phrase: str = Field(description="The text of the span; of a verb in two parts, its infinitive.")
    particle: Span | None = Field(None, description="The second part of a verb in two parts; the first is the span.")
    confidence: float | None = Field(None, description="The probability that the index holds an equivalent, if known.")
    suggestions: list[Suggestion]


class SuggestAnswer(BaseModel):
    index: str
    text: str
    phrases: list[PhraseSuggestions]


class Unit(BaseModel):
    source: str = Field(description="The text, or the part of it that is translated.")
    target: str
    quality: int = Field(description="In percent, multiplied by the share of the part in the text.")
    rank: int


class ScoredSpan(Span):
    text: str
    score: float


class SegmentAnswer(BaseModel):
    phrases: list[list[ScoredSpan]] = Field(description="One list for each text.")


class EncodedPhrase(Span):
    query: int = Field(description="The number of the query, from 0.")
    phrase: str
    vector: list[float]


class EncodeAnswer(BaseModel):
    model: str
    model_hash: str
    phrases: list[EncodedPhrase] = Field(description="Vectors of unit length.")
    sentences: list[list[float]] = Field(description="Vectors of unit length, one for each sentence.")


class Pair(BaseModel):
    source: int = Field(description="The number of the sentence, from 0 (the first of equal ones).")
    target: int
    score: float
    cosine: float


class MineAnswer(BaseModel):
    threshold: float
    pairs: list[Pair] = Field(description="The best pair first.")


class IndexFacts(BaseModel):
    name: str
    documents: int
    sentences: int
    phrases: int
    languages: dict[str, int] = Field(description="Documents in each language.")
    model: str
    model_hash: str
    generation: int = Field(description="Number that grows with every change.")
    problem: str = Field("", description="Why the index cannot be used now; then all other facts are empty.")


class IndexesAnswer(BaseModel):
    indexes: list[IndexFacts]


class Variant(BaseModel):
    text: str
    count: int


class Place(Span):
    context: str
    document: str
    line: int


class Term(BaseModel):
    text: str
    score: float = Field(description="The value that terms are ranked by.")
    count: int
    belief: float
    variants: list[Variant]
    places: list[Place]
    confidence: float | None
    groups: list[Group]


class TermsAnswer(BaseModel):
    index: str
    terms: list[Term] = Field(description="The best first.")


class Readiness(BaseModel):
    status: str


class Health(BaseModel):
    status: str
    version: str
    indexes: list[str] = Field(description="Names of the indexes; none if the server needs a token.")


class ReloadAnswer(BaseModel):
    indexes: list[str]
    problems: dict[str, str] = Field(description="Name of an index, or tokens -> why it could not be reloaded.")
