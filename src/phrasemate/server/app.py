"""The application: the REST service and the concordance page behind one guard."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from phrasemate import __version__
from phrasemate.errors import PhrasemateError
from phrasemate.server import api
from phrasemate.server.errors import Refusal, refusal_of
from phrasemate.server.indexes import Library
from phrasemate.server.metrics import Metrics
from phrasemate.server.middleware import Access, Guard
from phrasemate.server.settings import Settings

FOR_PROGRAMS = ("/api/", "/health", "/metrics", "/openapi.json")
CODES = {404: "not_found", 405: "method_not_allowed", 413: "too_large"}


def create_app(library: Library, settings: Settings | None = None, access: Access | None = None) -> FastAPI:
    """The application on a library, which is closed when the application stops.

    ``phrasemate.server.page`` gives ``routes(library, settings)`` and ``failed(refusal, path)``, the page for an error;
    all that is not for programs (`FOR_PROGRAMS`) is the page's.
    """
    settings = settings or library.settings
    metrics = Metrics(library)
    guard = Middleware(Guard, settings=settings, access=access or Access(), metrics=metrics, respond=respond)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        library.close()

    app = FastAPI(
        title="phrasemate",
        version=__version__,
        description="Phrases of another language that mean the same in their context.",
        docs_url=None,  # they load their scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
        middleware=[guard],
        exception_handlers={PhrasemateError: _library, HTTPException: _routing, Exception: _unforeseen},
    )
    app.include_router(api.router(library, settings, metrics))
    if (page := _page()) is not None:
        app.include_router(page.routes(library, settings), include_in_schema=False)
    return app


def respond(refusal: Refusal, path: str, headers: Mapping[str, str] | None = None) -> Response:
    """The answer to a request that is refused: JSON for programs, else a page."""
    page = _page()
    if path.startswith(FOR_PROGRAMS) or not path.startswith("/") or not hasattr(page, "failed"):
        made = Response(refusal.json(), refusal.status, media_type="application/json")
    else:
        made = page.failed(refusal, path)
    made.headers.update({**refusal.headers, **(headers or {})})
    return made


def _page() -> Any:
    if find_spec("phrasemate.server.page") is None:
        return None
    from phrasemate.server import page

    return page


async def _library(request: Request, error: Exception) -> Response:
    return respond(refusal_of(error), request.url.path)


async def _routing(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    what = {404: "nothing is at this address", 405: f"{request.method[:20]} cannot be used here"}
    code = CODES.get(error.status_code, "bad_request" if error.status_code < 500 else "internal")
    return respond(Refusal(code, what.get(error.status_code, str(error.detail))), request.url.path, error.headers)


async def _unforeseen(request: Request, error: Exception) -> Response:
    return respond(refusal_of(error), request.url.path)  # and it is raised again, for the guard to log
