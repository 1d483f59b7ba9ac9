"""A request's JSON -> a checked object; and the same limits in the OpenAPI description."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request

from phrasemate.server.errors import Refusal
from phrasemate.server.settings import Settings

MOST_FIELDS = 20  # of a form or an object, more than any has

Limits = Mapping[str, Sequence[tuple[str, str]]]


class Asked(BaseModel):
    """The body of a request. ``limits``: field -> (what is limited, name of the setting that says how much).

    Limits of length and number of items answer 413, those of numbers 422. ``maxLength`` of a list of strings is that of
    each.
    """

    model_config = ConfigDict(extra="forbid", strict=True)
    limits: ClassVar[Limits] = {}


Body = TypeVar("Body", bound=Asked)


async def read(request: Request, kind: type[Body], settings: Settings) -> Body:
    """The body of a request. Raises Refusal for what is not JSON, or not what was described."""
    content_type = _content_type(request)
    if content_type != "application/json":
        raise Refusal("wrong_type", f"a body of type {content_type[:100]!r}; expected application/json")
    return _validated(kind, _loads(await request.body()), settings)


def _validated(kind: type[Body], sent: Any, settings: Settings) -> Body:
    _check_counts(kind, sent, settings)
    try:
        asked = kind.model_validate(sent)
    except ValidationError as error:
        raise Refusal("invalid", _reason(error)) from error
    for field, limits in kind.limits.items():
        for what, name in limits:
            _check(field, getattr(asked, field), what, getattr(settings, name))
    return asked


async def read_form(request: Request, kind: type[Body], settings: Settings) -> tuple[Body, str, bytes]:
    """The fields of a form, and the name and content of its one ``file``. Raises Refusal."""
    fields: dict[str, str] = {}
    async with form_of(request, settings, files=1) as form:
        files = [value for name, value in form.multi_items() if name == "file" and isinstance(value, UploadFile)]
        for name, value in form.multi_items():
            if isinstance(value, str):
                if name in fields:
                    raise Refusal("invalid", f"{name[:100]}: stands twice")
                fields[name] = value
        if len(files) != 1:
            raise Refusal("invalid", "file: expected one file")
        name, content = files[0].filename or "", await files[0].read()
    return _validated(kind, fields, settings), name, content


@asynccontextmanager
async def form_of(
    request: Request, settings: Settings, files: int, fields: int = MOST_FIELDS
) -> AsyncIterator[FormData]:
    """The form that was sent, with so many ``files`` and ``fields`` at most. Raises Refusal."""
    content_type = _content_type(request)
    if content_type != "multipart/form-data":
        raise Refusal("wrong_type", f"a body of type {content_type[:100]!r}; expected multipart/form-data")
    try:
        form = await request.form(max_files=files, max_fields=fields, max_part_size=settings.request_bytes)
    except ValueError as error:
        raise Refusal("bad_request", "the form is not UTF-8") from error
    try:
        yield form
    finally:
        await form.close()


def _content_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def described_form(kind: type[Asked], settings: Settings) -> dict[str, Any]:
    """As `described`, for `read_form`."""
    schema = described(kind, settings)["requestBody"]["content"]["application/json"]["schema"]
    schema["properties"]["file"] = {"type": "string", "format": "binary", "description": "The document."}
    schema["required"] = ["file"]
    return {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": schema}}}}


def described(kind: type[Asked], settings: Settings) -> dict[str, Any]:
    """What a route is given as ``openapi_extra``."""
    schema = kind.model_json_schema()
    for field, limits in kind.limits.items():
        for what, name in limits:
            own = schema["properties"][field]
            own = next((part for part in own.get("anyOf", ()) if part.get("type") != "null"), own)
            (own["items"] if what == "maxLength" and own["type"] == "array" else own)[what] = getattr(settings, name)
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _check_counts(kind: type[Asked], sent: Any, settings: Settings) -> None:
    """Before anything is looked at: of half a million wrong items there would be as many errors, 400 MB of them."""
    if not isinstance(sent, dict):
        return
    if len(sent) > MOST_FIELDS:
        raise Refusal("invalid", f"{len(sent):,} fields; expected at most {len(kind.model_fields)}")
    for field, limits in kind.limits.items():
        for what, name in limits:
            if what == "maxItems" and isinstance(sent.get(field), list):
                _check(field, sent[field], what, getattr(settings, name))


def _check(field: str, value: Any, what: str, most: int) -> None:
    if value is None:
        return
    if what == "maximum":
        if value > most:
            raise Refusal("invalid", f"{field}: expected at most {most}")
        return
    texts = [value] if isinstance(value, str) else value
    seen = len(value) if what == "maxItems" else max(map(len, texts), default=0)
    if seen > most:
        unit = "items" if what == "maxItems" else "characters"
        raise Refusal("too_long", f"{field}: {seen:,} {unit}; expected at most {most:,}")


def _loads(raw: bytes) -> Any:
    """Strict JSON: UTF-8, no key twice, no NaN, nothing that is nested beyond reason."""
    try:
        sent = json.loads(raw.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no_constant)
        if b"\\u" in raw:  # an escape may hide half a character
            json.dumps(sent, ensure_ascii=False).encode()
        return sent
    except UnicodeEncodeError as error:
        raise Refusal("bad_json", "half a surrogate pair in a string; expected whole characters") from error
    except UnicodeDecodeError as error:
        raise Refusal("bad_json", f"the body is not UTF-8 (byte {error.start})") from error
    except RecursionError as error:
        raise Refusal("bad_json", "the body is nested too deeply") from error
    except ValueError as error:
        raise Refusal("bad_json", f"the body is not JSON ({str(error)[:200]})") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice in an object")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def _reason(error: ValidationError) -> str:
    """The first thing that is wrong, without what was sent."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(part)[:100] for part in first["loc"])
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"{where + ': ' if where else ''}{first['msg']}{more}"
