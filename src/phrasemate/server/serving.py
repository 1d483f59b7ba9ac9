"""The application on a socket, until it is told to stop."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn

from phrasemate.errors import InputError, ReadError
from phrasemate.server.guard import LOOPBACK, Access
from phrasemate.server.protocol import protocol_for
from phrasemate.server.settings import Settings

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
