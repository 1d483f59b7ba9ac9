"""HTTP as uvicorn speaks it, with what it lacks: a time for the headers, a limit of connections, one form of errors."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from phrasemate.server.guard import SECURITY
from phrasemate.server.refusal import Refusal
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
