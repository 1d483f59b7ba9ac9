"""An OpenAI-compatible server on loopback: it translates a line by capitals, unless told otherwise; and some text."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

ENGLISH = (
    "She opened a savings account at a small bank near the station.",
    "The children sat on a wooden bench in the park.",
    "The motorcycle stood in front of the house.",
    "He bought a new bicycle for his daughter.",
    "The police closed the road after the accident.",
    "Please adjust the screen resolution in the settings.",
    "The doctor examined the patient in the hospital.",
    "They drank coffee in the kitchen every morning.",
)
Reply = tuple[int, bytes, dict[str, str]]


def source_of(body: dict[str, Any]) -> str:
    """The sentence that a prompt asks for: the last line that is not the opening of the answer."""
    text = body["messages"][-1]["content"] if "messages" in body else body["prompt"]
    return str(text.splitlines()[-2].partition(": ")[2])


class Double:
    """``mood(number, body)`` answers request ``number`` (from 1) with a reply, None (as usual) or "hang up".

    ``bodies`` and ``keys`` are what came in; ``most`` is how many requests were in work at once.
    """

    def __init__(self) -> None:
        self.mood: Callable[[int, dict[str, Any]], Reply | str | None] = lambda number, body: None
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.paths: list[str] = []
        self.busy = self.most = 0
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    @property
    def requests(self) -> list[str]:
        """The sentences that were asked for, in the order in which they came."""
        return [source_of(body) for body in self.bodies]

    def __enter__(self) -> Double:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Take no more requests."""
        self._http.shutdown()
        self._http.server_close()

    def answer(self, body: dict[str, Any]) -> Reply:
        """The translation, as the interface has it."""
        message = f" {source_of(body).upper()}"
        choice = {"message": {"content": message}} if "messages" in body else {"text": message}
        usage = {"prompt_tokens": 7, "completion_tokens": 3}
        return 200, json.dumps({"choices": [choice | {"finish_reason": "stop"}], "usage": usage}).encode(), {}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        double = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with double._lock:
                    double.bodies.append(body)
                    double.keys.append(self.headers.get("Authorization", ""))
                    double.paths.append(self.path)
                    number = len(double.bodies)
                    double.busy += 1
                    double.most = max(double.most, double.busy)
                try:
                    source = double.mood(number, body)
                    reply = source if source is not None else double.answer(body)
                finally:  # before the client hears of it and sends the next one
                    with double._lock:
                        double.busy -= 1
                if reply == "hang up":
                    self.connection.close()
                    return
                status, content, headers = reply
                self.send_response(status)
                for name, value in {"Content-Length": str(len(content)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *args: Any) -> None:
                pass

        return Handler
