"""The concordance page: HTML for people, beside the REST service for programs. docs/concordance.md explains it."""

from __future__ import annotations

import re
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from phrasemate.concordance import FORMATS, write
from phrasemate.errors import PhrasemateError
from phrasemate.server.cancellation import work
from phrasemate.server.errors import Refusal, refusal_of
from phrasemate.server.indexes import Library
from phrasemate.server.page.document import add_document
from phrasemate.server.page.queries import Answer, Catalogue, Readings, answer, excerpt, reading_of
from phrasemate.server.page.render import STATIC, environment, html
from phrasemate.server.page.url_state import State, parse
from phrasemate.server.settings import Settings

__all__ = ["failed", "routes"]

_FOREVER = {"Cache-Control": "public, max-age=31536000, immutable"}  # the version is in the address
_TYPES = {
    "tsv": "text/tab-separated-values; charset=utf-8",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "tbx": "application/x-tbx+xml",
    "tmx": "application/x-tmx+xml",
}


def failed(refusal: Refusal, path: str = "") -> Response:
    """A page that says why there is none at ``path``."""
    page = html("problem.html", refusal.status, refusal=refusal)
    page.headers.update(refusal.headers)
    return page


def routes(library: Library, settings: Settings) -> APIRouter:
    """The addresses ``/``, ``/sentence``, ``/download/FORMAT``, ``/document`` and ``/static/NAME``.

    Raises MissingExtra.
    """
    environment()  # so that what is missing is said before the first request
    router = APIRouter(include_in_schema=False)
    readings, catalogue = Readings(), Catalogue(library)

    @router.get("/")
    async def page(request: Request) -> Response:
        """The text, its phrases, and the answer for the one that is chosen."""
        known = await catalogue.facts()
        shown: dict[str, Any] = {"settings": settings, "known": known, "formats": FORMATS}
        try:
            state = parse(request.query_params, library.names, settings)
            reading = await reading_of(library, state, known, readings)
            if state.at is None and len(reading.shown) == 1 and len(reading.pieces()) == 1:
                state = replace(state, at=reading.shown[0][:2])  # a phrase without a sentence
            found = await answer(library, state, known, reading) if state.at else None
        except PhrasemateError as error:
            refusal = refusal_of(error)
            kept = request.query_params.get("q", "")
            made = html(
                "page.html", refusal.status, **shown, state=State("", library.names[:1]), text=kept, refusal=refusal
            )
            made.headers.update(refusal.headers)
            return made
        values = {**shown, "state": state, "text": state.text, "reading": reading, "answer": found}
        return await work(library, partial(html, "page.html", **values))  # it takes long for many lines

    @router.get("/sentence")
    async def sentence(request: Request) -> Response:
        """A hit's sentence between its neighbours."""
        given = request.query_params
        number = given.get("phrase", "")
        try:
            if not (number.isascii() and number.isdigit() and len(number) < 19):
                raise Refusal("invalid", "phrase: expected the number of a phrase")
            found = await excerpt(library, given.get("in", ""), int(number), given.get("is", ""))
        except PhrasemateError as error:
            return failed(refusal_of(error))
        return html("sentence.html", excerpt=found)

    @router.get("/download/{format_}")
    async def download(format_: str, request: Request) -> Response:
        """The answer as a file."""
        try:
            if format_ not in FORMATS:
                raise Refusal("not_found", f"no format {format_[:20]!r}; expected one of {', '.join(FORMATS)}")
            state = parse(request.query_params, library.names, settings)
            if state.at is None:
                raise Refusal("invalid", "choose a phrase first: there is nothing to download")
            known = await catalogue.facts()
            found = await answer(library, state, known, await reading_of(library, state, known, readings))
            body = await work(library, _file, format_, found, state.speaks)
        except PhrasemateError as error:
            return failed(refusal_of(error))
        name = re.sub(r"[^A-Za-z0-9]+", "-", found.phrase.text).strip("-")[:40] or "phrases"
        headers = {"Content-Disposition": f'attachment; filename="{name}.{format_}"'}
        return Response(body, headers=headers, media_type=_TYPES[format_])

    @router.get("/static/{name}")
    async def static(name: str) -> Response:
        if name not in STATIC:
            return failed(Refusal("not_found", "there is no such file"))
        body, type_ = STATIC[name]
        return Response(body, headers=_FOREVER, media_type=type_)

    add_document(router, library, settings, catalogue, _TYPES)
    return router


def _file(format_: str, found: Answer, language: str) -> bytes:
    """The bytes of a download; the file lives for a moment, under a name of ours."""
    columns = [panel.column for panel in found.panels if panel.column is not None]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"answer.{format_}"
        write(path, found.phrase.text, columns, language)
        return path.read_bytes()
