"""Routes of the web page: equivalents, the concordance, downloads, and integrations with other programs.

The integrations contain the address of this server: a bookmarklet, a browser extension and a script for OmegaT.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from phrasemate.concordance import write
from phrasemate.errors import PhrasemateError
from phrasemate.glossary import Glossary
from phrasemate.lookup import ORDERS as LOOKUP_ORDERS
from phrasemate.lookup import SIDES, WAYS, Lookup, lookup
from phrasemate.search import Searcher
from phrasemate.server.cancellation import go_on, work
from phrasemate.server.errors import Refusal, refusal_of
from phrasemate.server.indexes import Library
from phrasemate.server.page.queries import (
    STATIC,
    Catalogue,
    Readings,
    State,
    answer,
    attachment,
    environment,
    excerpt,
    file_content,
    html,
    parse,
    reading_of,
    refusal_page,
)
from phrasemate.server.page.terms import add_document, add_glossary
from phrasemate.server.settings import Settings

__all__ = ["routes"]

TABLES = ("tsv", "xlsx")  # download formats of an answer
LOOKED_UP = 200  # maximum number of lines on the page /concordance
FIELDS = ("q", "in", "how", "sort", "doc", "side", "near")  # query parameters of the page /concordance
_FOREVER = {"Cache-Control": "public, max-age=31536000, immutable"}  # the address of a file contains its version
DEFAULT = "http://127.0.0.1:8000"  # placeholder in the files of the integrations
_HOME = files("phrasemate.server.page") / "programs"
_EXTENSION = ("manifest.json", "background.js", "options.html", "options.js")
_ADDRESS = re.compile(r"https?://[\w.:\[\]-]{1,200}")
_BOOKMARKLET = (
    '(()=>{const q=String(getSelection()).trim()||prompt("Look up");if(q)open("SERVER/?"+new URLSearchParams({q}),'
    '"phrasemate","popup,width=420,height="+screen.availHeight+",left="+(screen.availWidth-420))})()'
)
_STAMP = (2026, 1, 1, 0, 0, 0)  # fixed date of files in the archive: equal content gives equal bytes


def routes(library: Library, settings: Settings, glossary: Glossary) -> APIRouter:
    """Make the router of all pages and their files. Raises MissingExtra without Jinja2."""
    environment()  # raises before the first request
    router = APIRouter(include_in_schema=False)
    catalogue = Catalogue(library)
    add_search(router, library, settings, glossary, catalogue)
    add_concordance(router, library, settings, catalogue)
    add_document(router, library, settings, catalogue)
    add_glossary(router, library, settings, glossary)
    add_tools(router, settings)

    @router.get("/static/{name}")
    async def static(name: str) -> Response:
        if name not in STATIC:
            raise Refusal("not_found", "there is no such file")
        body, type_ = STATIC[name]
        return Response(body, headers=_FOREVER, media_type=type_)

    return router


def add_search(
    router: APIRouter, library: Library, settings: Settings, glossary: Glossary, catalogue: Catalogue
) -> None:
    """Add the routes ``/`` (the equivalents of a phrase in its text), ``/sentence`` and ``/download/{format}``."""
    readings = Readings()

    @router.get("/")
    async def page(request: Request) -> Response:
        """Show the text with its phrases, and the answer for the chosen phrase."""
        facts = await catalogue.facts()
        shared: dict[str, Any] = {"settings": settings, "known": facts, "formats": TABLES, "public": settings.public}
        try:
            state = parse(request.query_params, library.names, settings)
            reading = await reading_of(library, state, facts, readings)
            if state.at is None and len(reading.shown) == 1 and len(reading.pieces()) == 1:
                state = replace(state, at=reading.shown[0][:2])  # the text is a single phrase
            column_answer = await answer(library, state, facts, reading) if state.at else None
        except PhrasemateError as error:
            query = request.query_params.get("q", "")
            state = State("", library.names[:1])
            return refusal_page("search.html", refusal_of(error), **shared, state=state, text=query)
        values = {**shared, "state": state, "text": state.text, "reading": reading, "answer": column_answer}
        values["entries"] = await work(library, glossary.of, column_answer.phrase.text) if column_answer else []
        return await work(library, partial(html, "search.html", **values))  # rendering many lines is slow

    @router.get("/sentence")
    async def sentence(request: Request) -> Response:
        """Show the sentence of a hit with its neighbours."""
        parameters = request.query_params
        number = parameters.get("phrase", "")
        if not (number.isascii() and number.isdigit() and len(number) < 19):
            raise Refusal("invalid", "phrase: expected the number of a phrase")
        sentence_excerpt = await excerpt(library, parameters.get("in", ""), int(number), parameters.get("is", ""))
        return html("sentence.html", excerpt=sentence_excerpt, public=settings.public)

    @router.get("/download/{format_}")
    async def download(format_: str, request: Request) -> Response:
        """Download the answer as a table."""
        if format_ not in TABLES:
            raise Refusal("not_found", f"no format {format_[:20]!r}; expected one of {', '.join(TABLES)}")
        state = parse(request.query_params, library.names, settings)
        if state.at is None:
            raise Refusal("invalid", "choose a phrase first: there is nothing to download")
        facts = await catalogue.facts()
        column_answer = await answer(library, state, facts, await reading_of(library, state, facts, readings))
        text, language = column_answer.phrase.text, column_answer.language
        columns = [panel.column for panel in column_answer.panels if panel.column is not None]
        save = partial(write, phrase=text, columns=columns, language=language)
        body = await work(library, file_content, f"answer.{format_}", save)
        name = re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")[:40] or "phrases"
        return attachment(f"{name}.{format_}", body)


def add_concordance(router: APIRouter, library: Library, settings: Settings, catalogue: Catalogue) -> None:
    """Add the route ``/concordance``, and ``/text``, its former address."""

    @router.get("/concordance")
    async def concordance(request: Request) -> Response:
        """Look up words in the texts of an index: frequency, neighbours, lines."""
        fields = {name: request.query_params.get(name, "") for name in FIELDS}
        facts = await catalogue.facts()
        values: dict[str, Any] = {"known": facts, "fields": fields, "ways": WAYS, "orders": LOOKUP_ORDERS}
        values |= {"lookup": None, "refusal": None, "public": settings.public}
        name = fields["in"] or library.names[0]
        aligned = any(fact.aligned for fact in facts if fact.name == name)
        sides = [fields["side"]] if fields["side"] else SIDES[: 1 + aligned]
        try:
            if fields["q"].strip():
                values["lookup"], side = await _look_up(library, name, fields, sides, settings.sentence_characters)
                fields["side"] = "" if side == SIDES[0] else side
        except PhrasemateError as error:
            values["refusal"] = refusal_of(error)
        return html("concordance.html", values["refusal"].status if values["refusal"] else 200, **values)

    @router.get("/text")
    async def text(request: Request) -> Response:
        query = request.url.query
        return RedirectResponse(f"/concordance?{query}" if query else "/concordance", 301)


async def _look_up(
    library: Library, name: str, fields: Mapping[str, str], sides: Sequence[str], longest: int
) -> tuple[Lookup, str]:
    """Look a query up in each side until one has matches; return the matches, and that side or else the first.

    Raises Refusal for a query of more than ``longest`` characters.
    """
    query = fields["q"].strip()
    if len(query) > longest:
        raise Refusal("too_long", f"the query is too long; {longest} characters is the limit")
    options: dict[str, Any] = {"documents": [fields["doc"]] if fields["doc"] else None, "name": name}
    options |= {"near": fields["near"], "limit": LOOKED_UP}
    options |= {"how": fields["how"] or WAYS[0], "sort": fields["sort"] or LOOKUP_ORDERS[0]}
    for side in sides:
        result = await work(library, library.ask, name, partial(_places, query=query, options=options, side=side))
        if result.count:
            return result, side
    return result, sides[0]


def _places(searcher: Searcher, query: str, options: Mapping[str, Any], side: str) -> Lookup:
    return lookup(searcher.index, query, progress=go_on, side=side, **options)


def add_tools(router: APIRouter, settings: Settings) -> None:
    """Add the routes ``/tools``, ``/tools/phrasemate.groovy`` and ``/tools/extension.zip``."""

    @router.get("/tools")
    async def page(request: Request) -> Response:
        server = address_of(request)
        return html("tools.html", server=server, bookmarklet=bookmarklet(server), public=settings.public)

    @router.get("/tools/phrasemate.groovy")
    async def script(request: Request) -> Response:
        return attachment("phrasemate.groovy", _text("phrasemate.groovy", address_of(request)).encode())

    @router.get("/tools/extension.zip")
    async def extension(request: Request) -> Response:
        return attachment("phrasemate-extension.zip", packed(address_of(request)))


def address_of(request: Request) -> str:
    """Return the address of the server in a request, without a final slash; `DEFAULT` if it is not a plain address.

    A proxy with TLS sets ``X-Forwarded-Proto``. A client that forges it only changes the file that it gets.
    """
    scheme = "https" if request.headers.get("x-forwarded-proto") == "https" else request.base_url.scheme
    address = str(request.base_url.replace(scheme=scheme)).rstrip("/")
    return address if _ADDRESS.fullmatch(address) else DEFAULT


def bookmarklet(server: str) -> str:
    """Make the ``javascript:`` address of a bookmark that looks up the selection on any page."""
    return "javascript:" + quote(_BOOKMARKLET.replace("SERVER", server), safe="(){}=>;,.!|&?:/+'\"")


def packed(server: str) -> bytes:
    """Pack the browser extension for this server as a zip file."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in _EXTENSION:
            archive.writestr(zipfile.ZipInfo(name, _STAMP), _text(f"extension/{name}", server))
    return buffer.getvalue()


def _text(name: str, server: str) -> str:
    return (_HOME / name).read_text("utf-8").replace(DEFAULT, server)
