"""What every request passes before anything looks at what it asks: who asks, how much, how long, how many at once."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from phrasemate.server.cancellation import Effort
from phrasemate.server.errors import Refusal, refusal_of
from phrasemate.server.metrics import Metrics
from phrasemate.server.settings import Settings

OPEN = ("/health",)  # answered without a token
ALWAYS = ("/health", "/metrics")  # answered however many others wait
SMALL = 1 << 10  # bytes of a body that is sent there
LARGE = ("/api/v1/mine", "/api/v1/terms", "/document", "/document/terms")  # seconds of work, whatever the body's type
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

Respond = Callable[[Refusal, str], Response]  # a refusal and the path that was asked for -> what is sent


@dataclass(frozen=True, slots=True)
class Access:
    """Who may ask. ``token``: what must be sent, if anything; ``hosts``: names that a request may be addressed to.

    A browser is led to a server on this machine by a name of an attacker's that resolves to it (DNS rebinding): then
    the name is in the header Host. Without ``hosts`` any name will do.
    """

    token: str = ""
    hosts: tuple[str, ...] = LOOPBACK

    def check(self, scope: Scope, headers: Headers) -> None:
        """Raises Refusal."""
        host = headers.getlist("host")
        if self.hosts and (len(host) != 1 or _name(host[0]) not in self.hosts):
            raise Refusal("wrong_host", f"this server answers to {', '.join(self.hosts)} only")
        if self.token and scope["path"] not in OPEN and not self._is_known(headers.get("authorization", "")):
            raise Refusal("unauthorized", "send the server's token: Authorization: Bearer TOKEN")
        if _is_foreign(headers) and not (scope["method"] in ("GET", "HEAD") and _is_followed(headers)):
            raise Refusal("foreign_origin", "a page of another site cannot ask here")

    def _is_known(self, sent: str) -> bool:
        """Compared in constant time. A browser that asks its user sends a name and a password: that is the token."""
        scheme, _, value = sent.partition(" ")
        given = value.strip().encode("utf-8", "replace")
        if scheme.lower() == "basic":
            try:
                given = base64.b64decode(given, validate=True).partition(b":")[2]
            except binascii.Error:
                return False
        elif scheme.lower() != "bearer":
            return False
        return hmac.compare_digest(given, self.token.encode())


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


class Guard:
    """The outermost layer of the application; whatever goes wrong below becomes a refusal here."""

    def __init__(self, app: ASGIApp, settings: Settings, access: Access, metrics: Metrics, respond: Respond) -> None:
        self._app, self._settings, self._access = app, settings, access
        self._metrics, self._respond = metrics, respond
        self._waiting: Counter[str] = Counter()  # requests of each address
        self._large = 0  # of them, those that take seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return  # a web socket: there is none
        sender = _Sender(send)
        begun = time.perf_counter()
        try:
            await self._guarded(scope, receive, sender)
        except _Gone:
            return
        except Exception as error:  # the last resort: what the application itself could not turn into an answer
            if not isinstance(error, Refusal):
                log.exception("%a %a", scope["method"], scope["path"][:200])
            if not sender.status:
                await self._respond(refusal_of(error), scope["path"])(scope, receive, sender)
        finally:
            self._metrics.count(scope, sender.status, time.perf_counter() - begun)

    async def _guarded(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        size = len(scope.get("raw_path") or b"") + len(scope["query_string"])
        size += sum(len(name) + len(value) for name, value in scope["headers"])
        if size > (most := self._settings.header_bytes):  # h11 only counts them while they are incomplete
            raise Refusal("headers_too_large", f"the headers have at most {most:,} bytes")
        self._access.check(scope, headers)
        upload = headers.get("content-type", "").lower().startswith("multipart/form-data")
        async with self._admitted(scope, upload or self._is_large(scope)):
            body = await self._body(receive, headers, self._most(scope, upload))
            await self._answered(scope, _replay(body, receive), send, receive, upload)

    @staticmethod
    def _is_large(scope: Scope) -> bool:
        return scope["path"] in LARGE and scope["method"] == "POST"

    def _most(self, scope: Scope, upload: bool) -> int:
        """Bytes of a body. What is let in however many others wait has next to none."""
        if scope["path"] in ALWAYS:
            return SMALL
        return self._settings.upload_bytes if upload else self._settings.request_bytes

    async def _answered(self, scope: Scope, given: Receive, send: Send, receive: Receive, upload: bool) -> None:
        """In time, and while the client is there: else Refusal, or _Gone."""
        seconds = self._settings.upload_seconds if upload else self._settings.seconds
        left = False

        async def watch(limit: asyncio.Timeout) -> None:
            nonlocal left
            while (await receive())["type"] != "http.disconnect":
                pass
            left = True
            limit.reschedule(asyncio.get_running_loop().time())

        try:
            async with asyncio.timeout(seconds) as limit:
                watching = asyncio.create_task(watch(limit))
                try:
                    await self._app(scope, given, send)
                finally:
                    watching.cancel()
        except TimeoutError as error:
            if left:
                raise _Gone from error
            raise Refusal("too_slow", f"no answer within {seconds:g} s; ask for less, or later") from error

    @asynccontextmanager
    async def _admitted(self, scope: Scope, large: bool) -> AsyncIterator[None]:
        """One of those that wait. Raises Refusal if there are too many."""
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
            effort.give_up(lambda: self._left(client, large))

    def _left(self, client: str, large: bool) -> None:
        self._large -= large
        self._waiting[client] -= 1
        if not self._waiting[client]:
            del self._waiting[client]
        self._metrics.waiting.set(self._waiting.total())

    async def _body(self, receive: Receive, headers: Headers, most: int) -> bytes:
        """All of it, in memory: limited in bytes and time, so that nothing below waits for a slow client."""
        too_large = Refusal("too_large", f"a body of this kind has at most {most:,} bytes")
        announced = headers.get("content-length", "0")
        if announced.isdecimal() and int(announced) > most:
            raise too_large
        parts, size = [], 0
        try:
            async with asyncio.timeout(self._settings.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise _Gone
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > most:
                        raise too_large
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError as error:
            seconds = self._settings.body_seconds
            raise Refusal("timeout", f"the body did not arrive within {seconds:g} s") from error


class _Gone(Exception):
    """The client has left."""


class _Sender:
    """Adds the security headers, and knows the status that was sent (0: none yet)."""

    def __init__(self, send: Send) -> None:
        self._send, self.status = send, 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY.items():
                headers[name] = value
            headers.setdefault("cache-control", "no-store")
            if self.status in (408, 413):  # what is left of the body is not read
                headers["connection"] = "close"
        await self._send(message)


def _replay(body: bytes, receive: Receive) -> Receive:
    """A ``receive`` that gives the body that was read."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()  # that the client has left
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
