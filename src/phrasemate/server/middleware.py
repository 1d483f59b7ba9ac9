"""Middleware of every request: access, limits of size, time and concurrency; and metrics, access log and traces.

Metrics are for Prometheus. The access log has one JSON line for each request, with user, route, status, time and sizes,
but never with its text. OpenTelemetry traces need the extra ``otel``. They are configured by the standard environment
variables: OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_SERVICE_NAME and others.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import json
import logging
import math
import re
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from logging.handlers import WatchedFileHandler
from typing import Any
from uuid import uuid4

import prometheus_client
from prometheus_client import CollectorRegistry, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from phrasemate.errors import needs_extra
from phrasemate.server.cancellation import Effort
from phrasemate.server.errors import Refusal, refusal_of
from phrasemate.server.indexes import Library
from phrasemate.server.settings import Settings
from phrasemate.server.tokens import Tokens, User, acting, demand

METHODS = ("GET", "HEAD", "POST", "OPTIONS")
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


class Metrics:
    """Prometheus metrics of one application."""

    def __init__(self, library: Library) -> None:
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        registry.register(_Encoder(library))
        self._requests = prometheus_client.Counter(
            "phrasemate_requests", "Requests answered.", ["route", "method", "status"], registry=registry
        )
        self._seconds = Histogram(
            "phrasemate_request_seconds", "Time to an answer.", ["route"], buckets=BUCKETS, registry=registry
        )
        self._refusals = prometheus_client.Counter(
            "phrasemate_refusals", "Requests refused, by the reason.", ["code"], registry=registry
        )
        self.waiting = Gauge("phrasemate_waiting", "Requests read, waiting or worked on.", registry=registry)

    def refused(self, code: str) -> None:
        """Count a request that the guard refused."""
        self._refusals.labels(code).inc()

    def count(self, scope: Any, status: int, seconds: float) -> None:
        """Count a request with its status (0: the client had left) and its time."""
        route, method = route_of(scope), method_of(scope)
        self._requests.labels(route, method, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        """Return the metrics in the text format of Prometheus."""
        return generate_latest(self._registry)


def route_of(scope: Any) -> str:
    """Return the declared path of a route, without the values of a request; "other" if there is no route."""
    route = scope.get("route")
    if route is None:  # the guard has refused the request, or its method is HEAD
        route = next(iter(routes_at(scope)), None)
    return getattr(route, "path", "other")


def routes_at(scope: Any) -> list[Any]:
    """Return the routes that match the address of a request, whatever its method."""
    return [route for route in scope["app"].state.routes if route.matches(scope)[0] != Match.NONE]


def method_of(scope: Any) -> str:
    return scope["method"] if scope["method"] in METHODS else "other"


class _Encoder:
    """Collector of the counts of the encoder, which are read when Prometheus asks."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def collect(self) -> Iterator[CounterMetricFamily]:
        requests, passes = self._library.passes
        yield CounterMetricFamily("phrasemate_encoder_calls", "Calls that needed the encoder.", value=requests)
        yield CounterMetricFamily("phrasemate_encoder_passes", "Passes of the encoder for them.", value=passes)


OPEN = ("/health", "/ready")  # answered without a token
ALWAYS = (*OPEN, "/metrics")  # answered even if too many requests wait
RIGHTS = {("POST", "/glossary"): "write", ("POST", "/api/v1/reload"): "admin"}  # rights needed in addition to "read"
OWNER = User("owner")  # the user of the server's single token
SMALL = 1 << 10  # maximum bytes of a body sent to an address in ALWAYS
LARGE = ("/api/v1/mine", "/api/v1/terms", "/document", "/document/terms")  # take seconds, whatever the body's type
SHARED = ("/api/", "/tmserver/")  # where pages of allowed origins may call
CLOSED = ("/document", "/api/v1/mine", "/api/v1/terms", "/api/v1/reload")  # in a public demo
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")

SECURITY: Mapping[str, str] = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}

log = logging.getLogger("phrasemate.server")

Respond = Callable[[Refusal, Scope], Response]  # refusal, request -> response


@dataclass(frozen=True, slots=True)
class Access:
    """Access rules of the server.

    Attributes:
        token: Token that clients must send; "" for none.
        hosts: Accepted values of the header Host, against DNS rebinding: an attacker's domain that resolves to this
            machine. Empty: any value.
        origins: Other sites whose pages may call the addresses in `SHARED` with the token.
        tokens: Tokens of several users, in addition to ``token``.
    """

    token: str = ""
    hosts: tuple[str, ...] = LOOPBACK
    origins: tuple[str, ...] = ()
    tokens: Tokens | None = None

    def shares(self, scope: Scope, headers: Headers) -> str:
        """Return the origin of a request if it is one of ``origins`` and the address is in `SHARED`, else ""."""
        origin = headers.get("origin", "").lower()
        return origin if origin in self.origins and scope["path"].startswith(SHARED) else ""

    def check(self, scope: Scope, headers: Headers) -> User | None:
        """Identify the user of a request; None if no token is needed. Raises Refusal if access is denied."""
        host = headers.getlist("host")
        if self.hosts and (len(host) != 1 or _name(host[0]) not in self.hosts):
            raise Refusal("wrong_host", f"this server answers to {', '.join(self.hosts)} only")
        user = None
        if (self.token or self.tokens) and scope["path"] not in OPEN:
            user = self._user(headers.get("authorization", ""))
            if user is None:
                raise Refusal(
                    "unauthorized",
                    "send the server's token: Authorization: Bearer TOKEN; in a browser, any name with it as password",
                )
        if (
            _is_foreign(headers)
            and not self.shares(scope, headers)
            and not (scope["method"] in ("GET", "HEAD") and _is_followed(headers))
        ):
            raise Refusal("foreign_origin", "a page of another site cannot ask here")
        return user

    def _user(self, sent: str) -> User | None:
        """Find the user of an Authorization header: Bearer with the token, or Basic with the token as password."""
        scheme, _, value = sent.partition(" ")
        credentials = value.strip().encode("utf-8", "replace")
        if scheme.lower() == "basic":
            try:
                credentials = base64.b64decode(credentials, validate=True).partition(b":")[2]
            except binascii.Error:
                return None
        elif scheme.lower() != "bearer":
            return None
        if self.token and hmac.compare_digest(credentials, self.token.encode()):
            return OWNER
        return self.tokens.user(credentials) if self.tokens else None


def _name(host: str) -> str:
    """Remove the port: ``localhost:8000`` -> ``localhost``; ``[::1]:8000`` -> ``[::1]``."""
    name = host[: host.find("]") + 1] if host.startswith("[") else host.partition(":")[0]
    return name.lower()


def _is_foreign(headers: Headers) -> bool:
    """Tell whether the headers of a browser say that the request comes from a page of another site."""
    if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        return True
    origin = headers.get("origin")
    return origin is not None and origin.partition("://")[2].lower() != headers.get("host", "").lower()


def _is_followed(headers: Headers) -> bool:
    """Tell whether a person followed a link from another site, rather than a page loading an image, script or frame."""
    mode, destination = headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")
    return (mode, destination) == ("navigate", "document") and "origin" not in headers


class Rates:
    """Rate limits of users, as token buckets: ``rate`` requests at once, then one more every 60 / ``rate`` seconds."""

    def __init__(self) -> None:
        self._left: dict[str, tuple[float, float]] = {}  # user -> requests left, time of that count

    def spend(self, user: User) -> None:
        """Count a request. Raises Refusal if the user has none left."""
        if not user.rate:
            return
        moment = time.monotonic()
        allowance, before = self._left.get(user.name, (float(user.rate), moment))
        allowance = min(user.rate, allowance + (moment - before) * user.rate / 60)
        self._left[user.name] = (allowance - 1 if allowance >= 1 else allowance), moment
        if allowance < 1:
            seconds = math.ceil((1 - allowance) * 60 / user.rate)
            raise Refusal("too_many_requests", f"{user.rate} requests a minute are yours; try again later", seconds)


class Guard:
    """Outermost layer of the application: checks each request, records it, and turns every error into a refusal."""

    def __init__(self, app: ASGIApp, settings: Settings, access: Access, metrics: Metrics, respond: Respond) -> None:
        self._app, self._settings, self._access = app, settings, access
        self._metrics, self._respond = metrics, respond
        self._waiting: Counter[str] = Counter()  # client address -> number of current requests
        self._large = 0  # number of current requests that take seconds
        self._rates = Rates()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return  # web sockets are not supported
        number = request_id(Headers(scope=scope).get(REQUEST_ID, ""))
        sender = _Sender(send, {REQUEST_ID: number}, scope["method"] == "HEAD")
        start = time.perf_counter()
        try:
            with traced(scope, sender):
                await self._answer(scope, receive, sender, number)
        finally:
            seconds = time.perf_counter() - start
            self._metrics.count(scope, sender.status, seconds)
            self._write_lines(scope, sender, number, seconds)

    async def _answer(self, scope: Scope, receive: Receive, sender: _Sender, number: str) -> None:
        """Answer a request, with a refusal after an error, or not at all if the client has left."""
        try:
            await self._guarded(scope, receive, sender)
        except _ClientDisconnected:
            return
        except asyncio.CancelledError:  # uvicorn stops, after its time for running requests
            if not sender.status:
                await self._respond(Refusal("stopping", "the server is stopping; try again"), scope)(
                    scope, receive, sender
                )
        except Exception as error:  # errors that the application did not handle
            if isinstance(error, Refusal):
                self._metrics.refused(error.code)
            else:
                log.exception("%a %a, request %s", scope["method"], scope["path"][:200], number)
            if not sender.status:
                await self._respond(refusal_of(error), scope)(scope, receive, sender)

    def _write_lines(self, scope: Scope, sender: _Sender, number: str, seconds: float) -> None:
        """Log one line for the request, and another if it needed a right beyond "read"."""
        facts = {
            "id": number,
            "user": sender.user.name if sender.user else "",
            "method": method_of(scope),
            "route": route_of(scope),
            "status": sender.status,
        }
        sizes = {"bytes_in": sender.received, "bytes_out": sender.sent}
        write_line("request", **facts, milliseconds=round(1000 * seconds, 1), **sizes)
        if (right := RIGHTS.get((scope["method"], scope["path"]))) is not None:
            write_line("write", **facts, right=right)

    async def _guarded(self, scope: Scope, receive: Receive, sender: _Sender) -> None:
        headers = Headers(scope=scope)
        size = len(scope.get("raw_path") or b"") + len(scope["query_string"])
        size += sum(len(name) + len(value) for name, value in scope["headers"])
        if size > (most := self._settings.header_bytes):
            raise Refusal("headers_too_large", f"the headers have at most {most:,} bytes")
        if (origin := self._access.shares(scope, headers)) and scope["method"] == "OPTIONS":
            await Response(status_code=204, headers=_shared(origin))(scope, receive, sender)
            return
        if origin:
            sender.headers |= _shared(origin)
        sender.user = user = self._access.check(scope, headers)
        if user is not None and scope["path"] not in ALWAYS:
            self._rates.spend(user)
        if self._settings.public and _is_closed(scope):
            raise Refusal(
                "closed", "this is a public demo: it takes no documents, keeps no glossary and is not reloaded"
            )
        large = scope["path"] in LARGE and scope["method"] == "POST"
        upload = large and headers.get("content-type", "").lower().startswith("multipart/form-data")
        with acting(user):
            if (right := RIGHTS.get((scope["method"], scope["path"]))) is not None:
                demand(right)
            async with self._admitted(scope, large):
                most = self._settings.upload_bytes if upload else self._settings.request_bytes
                body = await self._body(receive, headers, SMALL if scope["path"] in ALWAYS else most)
                sender.received = len(body)
                answered = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
                await self._answered(answered, _replay(body, receive), sender, receive, upload)

    async def _answered(self, scope: Scope, first_receive: Receive, send: Send, receive: Receive, upload: bool) -> None:
        """Run the application. Raises Refusal after the time limit, _ClientDisconnected if the client leaves."""
        seconds, advice = self._settings.seconds, "ask for less"
        if upload:
            seconds, advice = self._settings.upload_seconds, "send a shorter document or ask for fewer terms"
        has_left = False

        async def watch(limit: asyncio.Timeout) -> None:
            nonlocal has_left
            while (await receive())["type"] != "http.disconnect":
                pass
            has_left = True
            limit.reschedule(asyncio.get_running_loop().time())

        try:
            async with asyncio.timeout(seconds) as limit:
                watching = asyncio.create_task(watch(limit))
                try:
                    await self._app(scope, first_receive, send)
                finally:
                    watching.cancel()
        except TimeoutError as error:
            if has_left:
                raise _ClientDisconnected from error
            raise Refusal("too_slow", f"no answer within {seconds:g} s; {advice}, or try again later") from error

    @asynccontextmanager
    async def _admitted(self, scope: Scope, large: bool) -> AsyncIterator[None]:
        """Count the request while its work runs. Raises Refusal if there are too many requests."""
        if scope["path"] in ALWAYS:
            yield
            return
        limits, client = self._settings, (scope.get("client") or ("",))[0]
        if self._waiting.total() >= limits.waiting:
            raise Refusal("busy", f"{limits.waiting} requests are waiting; try again")
        if self._waiting[client] >= limits.waiting_of_client:
            raise Refusal("too_many_requests", f"{limits.waiting_of_client} requests of yours are waiting; try again")
        if large and self._large >= limits.uploads:
            raise Refusal("busy", f"{limits.uploads} uploads and minings are worked on; try again")
        self._waiting[client] += 1
        self._large += large
        self._metrics.waiting.set(self._waiting.total())
        effort = Effort()
        try:
            with effort.here():
                yield
        finally:  # counted until its threads are free: otherwise clients that disconnect could fill all threads
            effort.give_up(lambda: self._leave(client, large))

    def _leave(self, client: str, large: bool) -> None:
        self._large -= large
        self._waiting[client] -= 1
        if not self._waiting[client]:
            del self._waiting[client]
        self._metrics.waiting.set(self._waiting.total())

    async def _body(self, receive: Receive, headers: Headers, most: int) -> bytes:
        """Read the whole body into memory, so that the application never waits for a slow client. Raises Refusal."""
        too_large = Refusal("too_large", f"a body of this kind has at most {most:,} bytes")
        content_length = headers.get("content-length", "0")
        if content_length.isdecimal() and int(content_length) > most:
            raise too_large
        parts, size = [], 0
        try:
            async with asyncio.timeout(self._settings.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise _ClientDisconnected
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > most:
                        raise too_large
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError as error:
            seconds = self._settings.body_seconds
            raise Refusal("timeout", f"the body did not arrive within {seconds:g} s") from error


class _ClientDisconnected(Exception):
    """Raised when the client has left."""


class _Sender:
    """ASGI ``send`` that adds security headers and records the user, bytes and status (0: none sent yet).

    With ``head_only`` it sends no body.
    """

    def __init__(self, send: Send, more: Mapping[str, str], head_only: bool) -> None:
        self._send, self._head_only, self.status = send, head_only, 0
        self.user: User | None = None
        self.received = self.sent = 0
        self.headers = {**SECURITY, **more}

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in self.headers.items():
                headers[name] = value
            headers.setdefault("cache-control", "no-store")
            if self.status in (408, 413):  # the rest of the body is not read
                headers["connection"] = "close"
        elif self._head_only:
            message = {**message, "body": b""}
        self.sent += len(message.get("body", b""))
        await self._send(message)


def _shared(origin: str) -> Mapping[str, str]:
    """Return the CORS headers that let a page of another site read the answer."""
    return {
        "access-control-allow-origin": origin,
        "access-control-allow-headers": "authorization, content-type",
        "access-control-allow-methods": "GET, POST",
        "access-control-max-age": "600",
        "vary": "origin",
    }


def _is_closed(scope: Scope) -> bool:
    """Tell whether a request uploads a document, changes the glossary or reloads: a public demo refuses it."""
    path: str = scope["path"]
    return path.startswith(CLOSED) or (path == "/glossary" and scope["method"] == "POST")


def _replay(body: bytes, receive: Receive) -> Receive:
    """Make an ASGI ``receive`` that returns the body already read."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return messages.pop() if messages else await receive()  # the next message is http.disconnect

    return again


_tracers: list[Any] = []  # at most one


def start_tracing(provider: Any = None) -> None:
    """Trace every request from now on. The default provider sends spans by OTLP over HTTP. Raises MissingExtra."""
    with needs_extra("otel"):
        from opentelemetry import trace

        if provider is None:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor

            provider = TracerProvider()
            provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    _tracers[:] = [trace.get_tracer("phrasemate", tracer_provider=provider)]


@contextmanager
def traced(scope: Any, sender: Any) -> Iterator[None]:
    """Record a span of the request within the trace of its headers; does nothing before `start_tracing`."""
    if not _tracers:
        yield
        return
    from opentelemetry import propagate
    from opentelemetry.trace import SpanKind, Status, StatusCode

    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    parent = propagate.extract(headers)
    options = {"context": parent, "kind": SpanKind.SERVER, "record_exception": False, "set_status_on_exception": False}
    with _tracers[0].start_as_current_span(scope["method"], **options) as span:
        try:
            yield
        finally:
            route = route_of(scope)
            span.update_name(f"{scope['method']} {route}")
            span.set_attribute("http.request.method", scope["method"])
            span.set_attribute("http.route", route)
            span.set_attribute("http.response.status_code", sender.status)
            span.set_attribute("phrasemate.request_id", sender.headers["x-request-id"])
            if sender.status >= 500:
                span.set_status(Status(StatusCode.ERROR))


REQUEST_ID = "x-request-id"
_PLAIN_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")

_log_of_requests = logging.getLogger("phrasemate.requests")


def request_id(sent: str) -> str:
    """Return the request id that a proxy has sent, if it is short and plain, else a new one."""
    return sent if _PLAIN_ID.fullmatch(sent) else uuid4().hex


class _AccessLog(logging.Handler):
    """Log handler that reports its first failure in one line, instead of a traceback for each request."""

    _failed = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line. Unlike the handlers of the library, it also handles that the file cannot be opened again."""
        try:
            super().emit(record)
        except OSError:
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:
        """Log the first failure to write a line."""
        if not self._failed:
            self._failed = True
            log.error("the access log cannot be written (%s); lines are missing from now on", sys.exception())


class _OutputLog(_AccessLog, logging.StreamHandler[Any]):
    pass


class _FileLog(_AccessLog, WatchedFileHandler):
    pass


def open_log(place: str) -> None:
    """Write the access log to a file, which logrotate may rename, or to standard output (``-``)."""
    handler = _OutputLog(sys.stdout) if place == "-" else _FileLog(place, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(message)s"))
    _log_of_requests.handlers[:] = [handler]
    _log_of_requests.setLevel(logging.INFO)
    _log_of_requests.propagate = False


def write_line(kind: str, **facts: Any) -> None:
    """Write one line to the access log; ``kind`` is "request" or "write". Does nothing before `open_log`."""
    if _log_of_requests.handlers:
        timestamp = datetime.now(UTC).isoformat(timespec="milliseconds")
        _log_of_requests.info(json.dumps({"time": timestamp, "kind": kind, **facts}))
