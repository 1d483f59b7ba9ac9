"""The web application with the REST API and the web page behind one guard, and its uvicorn server."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import socket
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.types import Scope

from phrasemate import __version__
from phrasemate.errors import InputError, PhrasemateError, ReadError
from phrasemate.glossary import Glossary
from phrasemate.server import api
from phrasemate.server.errors import Refusal, refusal_of, wants_json
from phrasemate.server.indexes import Library
from phrasemate.server.middleware import LOOPBACK, OPEN, Access, Guard, Metrics, routes_at
from phrasemate.server.page import routes
from phrasemate.server.page.queries import refusal_page
from phrasemate.server.settings import Settings
from phrasemate.server.tokens import Tokens

FOR_PROGRAMS = ("/api/", "/tmserver/", "/health", "/ready", "/metrics", "/openapi.json")
CODES = {404: "not_found", 405: "method_not_allowed", 413: "too_large"}


class _WithToken(FastAPI):
    """Application whose OpenAPI description requires a token."""

    def openapi(self) -> dict[str, Any]:
        schema = super().openapi()
        schema["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        schema["security"] = [{"token": []}]
        for path in OPEN:
            schema["paths"][path]["get"]["security"] = []
        return schema


def create_app(
    library: Library,
    settings: Settings | None = None,
    access: Access | None = None,
    glossary: Glossary | None = None,
) -> FastAPI:
    """Make the application that serves a library, which it closes when it stops.

    ``glossary`` stores chosen equivalents; the default is lost when the application stops. Addresses outside
    `FOR_PROGRAMS` belong to the page.
    """
    settings, access = settings or library.settings, access or Access()
    metrics = Metrics(library)
    guard = Middleware(Guard, settings=settings, access=access, metrics=metrics, respond=respond)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        library.close()

    app = (_WithToken if access.token or access.tokens else FastAPI)(
        title="phrasemate",
        version=__version__,
        description="Phrases of another language that mean the same in their context.",
        docs_url=None,  # both would load scripts from other sites
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
        middleware=[guard],
        exception_handlers={PhrasemateError: _refuse, HTTPException: _routing, Exception: _refuse},
    )
    if access.tokens:
        api.warn_of_rights(library, access.tokens)
    glossary = glossary or Glossary()
    programs = api.router(library, settings, metrics, glossary, access)
    pages = routes(library, settings, glossary)
    app.state.routes = [
        *app.routes,
        *programs.routes,
        *pages.routes,
    ]  # app.routes does not list those of included routers
    app.include_router(programs)
    app.include_router(pages, include_in_schema=False)
    return app


def respond(refusal: Refusal, scope: Scope, headers: Mapping[str, str] | None = None) -> Response:
    """Make the response of a refusal: JSON for programs and for scripts that accept it, else a page."""
    path = scope["path"]
    if path.startswith(FOR_PROGRAMS) or not path.startswith("/") or wants_json(Headers(scope=scope)):
        response = Response(refusal.json(), refusal.status, media_type="application/json")
    else:
        response = refusal_page("problem.html", refusal)
    response.headers.update({**refusal.headers, **(headers or {})})
    return response


async def _refuse(request: Request, error: Exception) -> Response:
    return respond(refusal_of(error), request.scope)  # Starlette re-raises unexpected errors, and the guard logs them


async def _routing(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    reasons = {404: "nothing is at this address", 405: f"{request.method[:20]} cannot be used here"}
    code = CODES.get(error.status_code, "bad_request" if error.status_code < 500 else "internal")
    headers = error.headers
    if error.status_code == 405:  # Starlette names the methods of the first route only
        methods = {method for route in routes_at(request.scope) for method in route.methods}
        methods |= {"HEAD"} if "GET" in methods else set()
        headers = {"Allow": ", ".join(sorted(methods))}
    return respond(Refusal(code, reasons.get(error.status_code, str(error.detail))), request.scope, headers)


TOKEN = "PHRASEMATE_TOKEN"  # environment variable
SHORTEST = 16  # minimum number of characters of a token
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^\s/?#@]+", re.IGNORECASE)

ReadyCallback = Callable[[str], None]  # called with the URL


def read_token(file: Path | None) -> str:
    """Read the token from a file or the environment; "" if there is none. Raises InputError for a short token."""
    where = str(file) if file else f"the environment's {TOKEN}"
    try:
        token = (file.read_text("utf-8") if file else os.environ.get(TOKEN, "")).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ReadError(str(file), 0, f"cannot be read ({error})", "expected a file that holds a token") from error
    if (token or file) and (len(token) < SHORTEST or not token.isascii() or not token.isprintable()):
        raise InputError(f"{where}: {len(token)} characters; expected a token of {SHORTEST} or more in plain ASCII")
    return token


def access_for(
    host: str,
    token: str,
    names: Sequence[str] = (),
    origins: Sequence[str] = (),
    public: bool = False,
    tokens: Tokens | None = None,
) -> Access:
    """Make the access rules of a server that listens on ``host``.

    The header Host of a request must be a loopback name, ``host`` or one of ``names``. If other machines can reach
    ``host`` and no ``names`` are given, any name is accepted.

    Args:
        host: Address to listen on. A server that other machines can reach needs a token, unless it is public.
        token: The token that clients must send; "" for none.
        names: Other names of the server. With 0.0.0.0 or ::, all names and addresses that clients use.
        origins: Other sites whose pages may call the REST API, such as ``https://tool.example``. They need a token.
        public: Serve other machines without a token.
        tokens: Tokens of several users, in addition to ``token`` or instead of it.

    Raises InputError if a token is missing or an origin is invalid.
    """
    for origin in origins:
        if not _ORIGIN.fullmatch(origin):
            raise InputError(f"--allow-origin {origin[:60]!r}: expected a site as https://tool.example, without a path")
    if origins and not (token or tokens):
        raise InputError("other sites may ask with a token only: give --token-file FILE, or set " + TOKEN)
    origin_list = tuple(origin.lower() for origin in origins)
    address = f"[{host}]" if ":" in host else host
    hosts = tuple(dict.fromkeys([*LOOPBACK, address.lower(), *(name.lower() for name in names)]))
    if _is_loopback(host):
        return Access(token, hosts, origin_list, tokens)
    if not (token or tokens) and not public:
        raise InputError(
            f"{host} can be reached by others, so a token is needed: give --token-file FILE or --tokens FILE, or set "
            f"{TOKEN}; without one the server answers on 127.0.0.1 only"
        )
    return Access(token, hosts if names else (), origin_list, tokens)


def bind(host: str, port: int) -> socket.socket:
    """Bind a socket to an address; the server makes it listen when the application is ready.

    Raises InputError for an address that is in use or does not belong to this machine.
    """
    try:
        family, kind, number, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, number)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
        except BaseException:
            listener.close()
            raise
    except (OSError, UnicodeError) as error:  # an invalid name (a..b) is not an OSError
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot listen on {host}, port {port}: {reason}; choose another with --port") from error
    listener.setblocking(False)
    return listener


def server_of(
    app: Any, settings: Settings, ready: ReadyCallback = lambda _: None, reload: Callable[[], object] = lambda: None
) -> uvicorn.Server:
    """Make the server, which runs on a bound socket until its ``should_exit`` is set.

    ``ready`` is called with the URL once the server answers. At SIGINT or SIGTERM it finishes the running requests; a
    second signal stops it at once. At SIGHUP it calls ``reload`` in another thread and continues to answer.
    """
    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,  # a client could claim any address
        server_header=False,
        timeout_keep_alive=int(settings.keep_alive),
        timeout_graceful_shutdown=int(settings.stop_seconds),
        limit_concurrency=settings.connections,
        h11_max_incomplete_event_size=4
        * settings.header_bytes,  # above the guard's limit, so that its own message is sent
    )
    for name in ("uvicorn.error", "python_multipart"):  # they log a warning for each malformed request
        logging.getLogger(name).setLevel(logging.ERROR)
    return _Server(config, ready, reload)


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, ready: ReadyCallback, reload: Callable[[], object]) -> None:
        super().__init__(config)
        self._ready, self._reload = ready, reload

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if hasattr(signal, "SIGHUP") and threading.current_thread() is threading.main_thread():
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGHUP, lambda: loop.run_in_executor(None, self._reload))
        if sockets and self.started:
            host, port = sockets[0].getsockname()[:2]
            self._ready(f"http://{f'[{host}]' if ':' in host else host}:{port}/")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop gracefully, or at once at the second signal; uvicorn's own handler would raise the signal again."""
        self.force_exit = self.should_exit
        self.should_exit = True


def _is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
