"""Work that nobody waits for any more ends, and counts until it has."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from server_fakes import FakeModel, make_index, post, running, speak

from phrasemate.server.app import create_app
from phrasemate.server.batching import SLICE
from phrasemate.server.cancellation import Effort, RequestAbandoned, current, go_on
from phrasemate.server.indexes import Library
from phrasemate.server.settings import Settings

SEARCH, TERMS = "/api/v1/search", "/api/v1/terms"
TEXTS = [f"{word} " * (SLICE // 5) for word in ("zero", "unus", "duos", "tres", "quat")]  # a slice of the encoder each


@contextmanager
def client_of(library: Library, **limits: Any) -> Iterator[TestClient]:
    """All requests in one event loop, as on a server."""
    app = create_app(library, Settings(**limits))
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as client:
        yield client


def until(true: Callable[[], bool]) -> None:
    for _ in range(500):
        if true():
            return
        time.sleep(0.02)
    raise AssertionError("it never came")


def waiting(client: TestClient) -> float:
    (line,) = [item for item in client.get("/metrics").text.splitlines() if item.startswith("phrasemate_waiting ")]
    return float(line.split()[1])


def test_what_was_too_slow_ends_with_the_slice_that_is_under_way(library: Library, model: FakeModel) -> None:
    client = TestClient(create_app(library), base_url="http://localhost")
    assert client.post("/api/v1/segment", json={"texts": ["zero"]}).status_code == 200  # loads what it needs
    with client_of(library, seconds=1) as client:
        model.passes.clear()
        model.gate.clear()
        answer = client.post("/api/v1/segment", json={"texts": TEXTS})
        assert answer.json()["error"]["code"] == "too_slow"
        assert waiting(client) == 1  # its thread is not free
        model.gate.set()
        until(lambda: waiting(client) == 0)
        assert model.passes == [1]  # of five


def test_an_upload_counts_until_its_thread_is_free(library: Library, model: FakeModel) -> None:
    """Else uploads that are too slow would fill all threads, two at a time."""

    def send(client: TestClient) -> Any:
        return client.post(TERMS, files={"file": ("a.txt", b"Die Bank gab Kredit.")})

    assert send(TestClient(create_app(library), base_url="http://localhost")).status_code == 200  # loads what it needs
    with client_of(library, upload_seconds=1, uploads=1) as client:
        model.gate.clear()
        slow, busy = (send(client).json()["error"] for _ in range(2))
        assert (slow["code"], busy["code"]) == ("too_slow", "busy")
        assert slow["message"].startswith("no answer within 1 s; send a shorter document or ask for fewer terms")
        model.gate.set()
        until(lambda: waiting(client) == 0)
        until(lambda: send(client).status_code == 200)


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "text/plain", "application/json"])
@pytest.mark.parametrize("path", ["/document", "/document/terms", TERMS])
def test_a_document_is_an_upload_whatever_it_says_it_is(library: Library, path: str, kind: str) -> None:
    for uploads, status in ((0, 503), (1, 415)):
        client = TestClient(create_app(library, Settings(uploads=uploads)), base_url="http://localhost")
        answer = client.post(path, content=b"text=Die+Bank", headers={"Content-Type": kind})
        assert answer.status_code == status


def test_a_client_that_leaves_is_not_worked_for(tmp_path: Path, model: FakeModel) -> None:
    folder = make_index(tmp_path / "idx", model)
    with running(folder, Settings(), model) as port:
        model.passes.clear()
        model.entered.clear()
        model.gate.clear()
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(post("/api/v1/segment", json.dumps({"texts": TEXTS}).encode()))
            assert model.entered.wait(10)
        until(lambda: b'status="0"' in speak(port, b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n"))
        model.gate.set()
        until(lambda: b"phrasemate_waiting 0.0" in speak(port, b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n"))
        assert model.passes == [1]


@pytest.mark.slow
def test_stopping_does_not_wait_for_the_end_of_long_work(tmp_path: Path, model: FakeModel) -> None:
    """Within the time that running requests have, and what a slice of the encoder takes."""
    folder = make_index(tmp_path / "idx", model)
    model.encode_sentences = lambda texts, layer=None: time.sleep(1) or np.ones((len(texts), 16), np.float32)
    body = json.dumps({"sentences": [text[: 2 * SLICE - 1] for text in TEXTS * 2]}).encode()
    with ThreadPoolExecutor(1) as pool:
        with running(folder, Settings(stop_seconds=1), model) as port:
            answer = pool.submit(speak, port, post("/api/v1/encode", body))
            until(lambda: b"phrasemate_waiting 1.0" in speak(port, b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n"))
            start = time.monotonic()
        assert time.monotonic() - start < 6  # of ten
        assert b" 200 " not in answer.result(10)


def test_an_effort_is_over_when_nothing_of_it_runs() -> None:
    async def try_it() -> None:
        events: list[str] = []
        effort = Effort()
        with effort.here():
            assert current() is effort
            go_on()
            effort.begin()
            effort.begin()
            effort.give_up(lambda: events.append("over"))
            with pytest.raises(RequestAbandoned):
                go_on()
            await asyncio.to_thread(effort.ended)
            assert events == []
            await asyncio.to_thread(effort.ended)
            await asyncio.sleep(0)
            assert events == ["over"]
        go_on()  # outside of it

    asyncio.run(try_it())
