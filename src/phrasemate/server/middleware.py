"""Checks that every request passes first: who asks, how much, how long, how many at once; and its records.

Counts go to Prometheus. A log has one JSON line for each request, never with its text: who, which route, what status,
how long, how much. Traces for OpenTelemetry need the extra ``otel``. The standard variables of the environment say
where they go: OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_SERVICE_NAME and others.
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
    """Counts for one application."""

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
        """A request that the guard refused."""
        self._refusals.labels(code).inc()

    def count(self, scope: Any, status: int, seconds: float) -> None:
        """A request that was answered (status 0: its client had left)."""
        route, method = route_of(scope), method_of(scope)
        self._requests.labels(route, method, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        """Metrics in Prometheus' text format."""
        return generate_latest(self._registry)


def route_of(scope: Any) -> str:
    """The address as it is declared, without what a request puts into it; "other" for none."""
    route = scope.get("route")
    if route is None:  # the guard has refused it, or it is a HEAD
        route = next(iter(routes_at(scope)), None)
    return getattr(route, "path", "other")


def routes_at(scope: Any) -> list[Any]:
    """The routes of the address that is asked for, whatever the method."""
    return [route for route in scope["app"].state.routes if route.matches(scope)[0] != Match.NONE]


def method_of(scope: Any) -> str:
    return scope["method"] if scope["method"] in METHODS else "other"


class _Encoder:
    """Counts of the encoder: read when somebody looks."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def collect(self) -> Iterator[CounterMetricFamily]:
        requests, passes = self._library.passes
        yield CounterMetricFamily("phrasemate_encoder_calls", "Calls that needed the encoder.", value=requests)
        yield CounterMetricFamily("phrasemate_encoder_passes", "Passes of the encoder for them.", value=passes)


OPEN = ("/health", "/ready")  # answered without a token
ALWAYS = (*OPEN, "/metrics")  # answered however many others wait
RIGHTS = {("POST", "/glossary"): "write", ("POST", "/api/v1/reload"): "admin"}  # what is needed beyond reading
OWNER = User("owner")  # of the server's one token
SMALL = 1 << 10  # bytes of a body that is sent there
LARGE = ("/api/v1/mine", "/api/v1/terms", "/document", "/document/terms")  # seconds of work, whatever the body's type
SHARED = ("/api/", "/tmserver/")  # where pages of other sites may be let in
UPLOADS = ("/document", "/api/v1/mine", "/api/v1/terms")  # closed to a public demo, as is a change of the glossary
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

Respond = Callable[[Refusal, Scope], Response]  # a refusal and what was asked for -> what is sent


@dataclass(frozen=True, slots=True)
class Access:
    """Who may ask. ``token``: what must be sent, if anything; ``hosts``: names that a request may be addressed to.

    A browser is led to a server on this machine by a name of an attacker's that resolves to it (DNS rebinding): then
    the name is in the header Host. Without ``hosts`` any name will do. ``origins`` are other sites whose pages may ask
    at the addresses for programs (`SHARED`), with the token. ``tokens``: of several users, beside that one.
    """

    token: str = ""
    hosts: tuple[str, ...] = LOOPBACK
    origins: tuple[str, ...] = ()
    tokens: Tokens | None = None

    def shares(self, scope: Scope, headers: Headers) -> str:
        """The origin that asks, if it is another site's that may ask at this address; else ""."""
        origin = headers.get("origin", "").lower()
        return origin if origin in self.origins and scope["path"].startswith(SHARED) else ""

    def check(self, scope: Scope, headers: Headers) -> User | None:
        """Identify who asks; None where no token is needed. Raises Refusal."""
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
        """Compared in constant time. A browser that asks its user sends a name and a password: that is the token."""
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
    """``localhost:8000`` -> ``localhost``; ``[::1]:8000`` -> ``[::1]``."""
    name = host[: host.find("]") + 1] if host.startswith("[") else host.partition(":")[0]
    return name.lower()


def _is_foreign(headers: Headers) -> bool:
    """Whether a browser says that the request comes from a page that is not ours."""
    if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        return True
    origin = headers.get("origin")
    return origin is not None and origin.partition("://")[2].lower() != headers.get("host", "").lower()


def _is_followed(headers: Headers) -> bool:
    """Whether a person follows a link of another site: no picture, script or frame, whose answers cost as much."""
    mode, destination = headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")
    return (mode, destination) == ("navigate", "document") and "origin" not in headers


class Rates:
    """How many requests each user has left: as many as a minute's at once, and one more every 60 / rate seconds."""

    def __init__(self) -> None:
        self._left: dict[str, tuple[float, float]] = {}  # requests left, and when that was so

    def spend(self, user: User) -> None:
        """Count a request. Raises Refusal where none is left."""
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
    """The outermost layer of the application; whatever goes wrong below becomes a refusal here."""

    def __init__(self, app: ASGIApp, settings: Settings, access: Access, metrics: Metrics, respond: Respond) -> None:
        self._app, self._settings, self._access = app, settings, access
        self._metrics, self._respond = metrics, respond
        self._waiting: Counter[str] = Counter()  # requests of each address
        self._large = 0  # of them, those that take seconds
        self._rates = Rates()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return  # a web socket: there is none
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
        """Answer a request, with a refusal where something goes wrong, or not at all where the client has gone."""
        try:
            await self._guarded(scope, receive, sender)
        except _ClientDisconnected:
            return
        except asyncio.CancelledError:  # uvicorn stops, and has waited
            if not sender.status:
                await self._respond(Refusal("stopping", "the server is stopping; try again"), scope)(
                    scope, receive, sender
                )
        except Exception as error:  # the last resort: what the application itself could not turn into an answer
            if isinstance(error, Refusal):
                self._metrics.refused(error.code)
            else:
                log.exception("%a %a, request %s", scope["method"], scope["path"][:200], number)
            if not sender.status:
                await self._respond(refusal_of(error), scope)(scope, receive, sender)

    def _write_lines(self, scope: Scope, sender: _Sender, number: str, seconds: float) -> None:
        """Write one line for the request, and one more for a write."""
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
        if self._settings.public and _changes(scope):
            raise Refusal("closed", "this is a public demo: it takes no documents and keeps no glossary")
        upload = headers.get("content-type", "").lower().startswith("multipart/form-data")
        with acting(user):
            if (right := RIGHTS.get((scope["method"], scope["path"]))) is not None:
                demand(right)
            async with self._admitted(scope, upload or (scope["path"] in LARGE and scope["method"] == "POST")):
                most = self._settings.upload_bytes if upload else self._settings.request_bytes
                body = await self._body(receive, headers, SMALL if scope["path"] in ALWAYS else most)
                sender.received = len(body)
                answered = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
                await self._answered(answered, _replay(body, receive), sender, receive, upload)

    async def _answered(self, scope: Scope, first_receive: Receive, send: Send, receive: Receive, upload: bool) -> None:
        """Answer in time, and while the client is there: else Refusal, or _ClientDisconnected."""
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
        """Admit the request, or let it wait. Raises Refusal if too many wait."""
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
        finally:  # it counts until its threads are free: or those who do not wait would fill them all
            effort.give_up(lambda: self._leave(client, large))

    def _leave(self, client: str, large: bool) -> None:
        self._large -= large
        self._waiting[client] -= 1
        if not self._waiting[client]:
            del self._waiting[client]
        self._metrics.waiting.set(self._waiting.total())

    async def _body(self, receive: Receive, headers: Headers, most: int) -> bytes:
        """Read the whole body into memory: limited in bytes and time, so that nothing below waits for a slow client."""
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
    """The client has left."""


class _Sender:
    """Adds the security headers; knows who asks, the bytes received and sent, and the status sent (0: none yet).

    With ``head_only`` it leaves the body out.
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
            if self.status in (408, 413):  # what is left of the body is not read
                headers["connection"] = "close"
        elif self._head_only:
            message = {**message, "body": b""}
        self.sent += len(message.get("body", b""))
        await self._send(message)


def _shared(origin: str) -> Mapping[str, str]:
    """Headers that let a page of another site read an answer."""
    return {
        "access-control-allow-origin": origin,
        "access-control-allow-headers": "authorization, content-type",
        "access-control-allow-methods": "GET, POST",
        "access-control-max-age": "600",
        "vary": "origin",
    }


def _changes(scope: Scope) -> bool:
    """Whether a request brings a document or changes the glossary."""
    path: str = scope["path"]
    return path.startswith(UPLOADS) or (path == "/glossary" and scope["method"] == "POST")


def _replay(body: bytes, receive: Receive) -> Receive:
    """A ``receive`` that gives the body that was read."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return messages.pop() if messages else await receive()  # then: that the client has left

    return again


_tracers: list[Any] = []  # at most one


def start_tracing(provider: Any = None) -> None:
    """Trace every request from now on, with a provider of spans (default: one that sends them by OTLP over HTTP).

    Raises MissingExtra.
    """
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
    """A span of the request, which continues the trace that its headers name; nothing before `start_tracing`."""
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
    """The number that a proxy has given to a request, if it is short and plain; else a new one."""
    return sent if _PLAIN_ID.fullmatch(sent) else uuid4().hex


def open_log(place: str) -> None:
    """Write the lines to a file, which may be renamed meanwhile (logrotate), or to standard output (``-``)."""
    handler = logging.StreamHandler(sys.stdout) if place == "-" else WatchedFileHandler(place, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(message)s"))
    _log_of_requests.handlers[:] = [handler]
    _log_of_requests.setLevel(logging.INFO)
    _log_of_requests.propagate = False


def write_line(kind: str, **facts: Any) -> None:
    """Write one line; ``kind`` is "request" or "write". Nothing happens before `open_log`."""
    if _log_of_requests.handlers:
        timestamp = datetime.now(UTC).isoformat(timespec="milliseconds")
        _log_of_requests.info(json.dumps({"time": timestamp, "kind": kind, **facts}))
