"""HTTP as uvicorn speaks it, with what it lacks: a time for the headers, a limit of connections, one form of errors.

The application on a socket, until it is told to stop.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Sequence
from http import HTTPStatus
from ipaddress import ip_address
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from phrasemate.errors import InputError, ReadError
from phrasemate.server.errors import Refusal
from phrasemate.server.middleware import LOOPBACK, SECURITY, Access
from phrasemate.server.settings import Settings


class _Protocol(H11Protocol):
    settings: ClassVar[Settings]

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._deadline: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > self.settings.connections:
            self._refuse(Refusal("busy", f"{self.settings.connections} connections are open; try again"))
        elif self._of_client() > (most := self.settings.connections_of_client):
            self._refuse(Refusal("too_many_requests", f"{most} connections of yours are open; try again"))
        else:
            self._watch()

    def _of_client(self) -> int:
        """Connections from its address, itself among them: one client alone does not take them all."""
        clients = [getattr(each, "client", None) or ("",) for each in self.connections]
        return sum(client[0] == (self.client or ("",))[0] for client in clients)

    def data_received(self, data: bytes) -> None:
        if not self.transport.is_closing():
            super().data_received(data)
            self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch()
        self._taken()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The client does not take the answer: it may do so for a while."""
        super().pause_writing()
        self._unread = self._unread or self.loop.call_later(self.settings.taken_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        self._taken()
        super().resume_writing()

    def _taken(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def send_400_response(self, msg: str) -> None:
        """What h11 could not read."""
        most = self.settings.header_bytes
        if len(self.conn.trailing_data[0]) > most:
            self._refuse(Refusal("headers_too_large", f"the headers have at most {most:,} bytes"))
        else:
            self._refuse(Refusal("bad_request", "this is not HTTP/1.1 as we read it"))

    def _watch(self) -> None:
        """Run the clock from the first byte of a request to the last one of its headers."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._unwatch()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(self.settings.header_seconds, self._late)

    def _unwatch(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def on_response_complete(self) -> None:
        self._unwatch()
        super().on_response_complete()

    def _late(self) -> None:
        seconds = self.settings.header_seconds
        self._refuse(Refusal("timeout", f"the headers did not arrive within {seconds:g} s"))

    def _refuse(self, refusal: Refusal) -> None:
        """Answer without asking the application, and hang up; nothing if an answer is on its way already."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE) and not self.transport.is_closing():
            body = refusal.json()
            headers = {"content-type": "application/json", "content-length": str(len(body)), "connection": "close"}
            lines = [f"{name}: {value}\r\n" for name, value in {**headers, **SECURITY, **refusal.headers}.items()]
            start = f"HTTP/1.1 {refusal.status} {HTTPStatus(refusal.status).phrase}\r\n"
            self.transport.write((start + "".join(lines) + "\r\n").encode() + body)
        self.transport.close()


def protocol_for(settings: Settings) -> type[asyncio.Protocol]:
    """The class that uvicorn is given."""
    return type("Protocol", (_Protocol,), {"settings": settings})


TOKEN = "PHRASEMATE_TOKEN"  # the environment's
SHORTEST = 16  # characters of a token

Ready = Callable[[str], None]  # called with the URL


def read_token(file: Path | None) -> str:
    """The token in a file, or in the environment; empty if there is none. Raises InputError for a short one."""
    where = str(file) if file else f"the environment's {TOKEN}"
    try:
        token = (file.read_text("utf-8") if file else os.environ.get(TOKEN, "")).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ReadError(str(file), 0, f"cannot be read ({error})", "expected a file that holds a token") from error
    if (token or file) and (len(token) < SHORTEST or not token.isascii() or not token.isprintable()):
        raise InputError(f"{where}: {len(token)} characters; expected a token of {SHORTEST} or more in plain ASCII")
    return token


def access_for(host: str, token: str, names: Sequence[str] = ()) -> Access:
    """Who may ask a server on the address ``host``; ``names``: other names under which it is reached.

    On an address that others can reach any name will do, unless some are given: then those, ``host`` and LOOPBACK.
    With 0.0.0.0 or :: all names and addresses under which others reach it are to be given then.

    Raises InputError for an address that others can reach, without a token.
    """
    own = f"[{host}]" if ":" in host else host
    known = tuple(dict.fromkeys([*LOOPBACK, own.lower(), *(name.lower() for name in names)]))
    if _is_loopback(host):
        return Access(token, known)
    if not token:
        raise InputError(
            f"{host} can be reached by others, so a token is needed: give --token-file FILE, or set {TOKEN}; "
            "without one the server answers on 127.0.0.1 only"
        )
    return Access(token, known if names else ())


def bind(host: str, port: int) -> socket.socket:
    """A socket that has its address; it listens when the application is there.

    Raises InputError for an address that is taken or not ours.
    """
    try:
        family, kind, number, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family, kind, number)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(address)
        except BaseException:
            made.close()
            raise
    except (OSError, UnicodeError) as error:  # a name that is none (a..b) is no OSError
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot listen on {host}, port {port}: {reason}; choose another with --port") from error
    made.setblocking(False)
    return made


def serve(app: Any, listening: socket.socket, settings: Settings, ready: Ready = lambda _: None) -> None:
    """Answer until SIGINT or SIGTERM; then finish what runs and return. A second signal does not wait for it."""
    server_of(app, settings, ready).run(sockets=[listening])


def server_of(app: Any, settings: Settings, ready: Ready = lambda _: None) -> uvicorn.Server:
    """The server, to be run on a socket; it stops when its ``should_exit`` is set."""
    config = uvicorn.Config(
        app,
        http=protocol_for(settings),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,  # a client could claim any address
        server_header=False,
        timeout_keep_alive=int(settings.keep_alive),
        timeout_graceful_shutdown=int(settings.stop_seconds),
        h11_max_incomplete_event_size=settings.header_bytes,
    )
    for name in ("uvicorn.error", "python_multipart"):  # they warn of every request that is no HTTP, or no form
        logging.getLogger(name).setLevel(logging.ERROR)
    return _Server(config, ready)


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, ready: Ready) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if sockets and self.started:
            host, port = sockets[0].getsockname()[:2]
            self._ready(f"http://{f'[{host}]' if ':' in host else host}:{port}/")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop in good order; uvicorn would raise the signal again afterwards."""
        self.force_exit = self.should_exit
        self.should_exit = True


def _is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
