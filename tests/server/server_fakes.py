"""A model without a model that has all that the server asks of one, and a way to speak to a real socket."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from index_fakes import FakeModel as Indexing
from index_fakes import vector_of

from phrasemate.encode.runtime import States
from phrasemate.index import Index
from phrasemate.server.app import bind, create_app, server_of
from phrasemate.server.indexes import Library
from phrasemate.server.middleware import Access
from phrasemate.server.settings import Settings
from phrasemate.types import Document, Phrase, Span

TEXTS = (
    "The bank refused to extend the loan.",
    "She sat on a bench in the park.",
    "They fell silent for a minute <script>alert(1)</script>.",
)


class FakeModel(Indexing):
    """Words are phrases. Counts its passes; a call waits for ``gate``, and a text with "boom" in it fails."""

    pooling, width, head = "mean", 16, None
    segmenter = SimpleNamespace(contextual=True)

    def __init__(self) -> None:
        super().__init__()
        self.passes: list[int] = []
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()
        self.runtime = SimpleNamespace(threads=1, blocks=self._blocks)

    def warm_up(self) -> FakeModel:
        return self

    def _pass(self, texts: Sequence[str]) -> None:
        self.passes.append(len(texts))
        self.entered.set()
        assert self.gate.wait(20)
        if any("boom" in text for text in texts):
            raise ValueError("boom")

    def encode(self, phrases: Sequence[Phrase], pooling: str | None = None, layer: int | None = None) -> np.ndarray:
        if not phrases:
            return np.zeros((0, self.dim), np.float32)
        self._pass([phrase.context for phrase in phrases])
        return np.stack([vector_of(phrase.text, self.dim) for phrase in phrases])

    def segment(
        self, texts: Sequence[str], frequent: Collection[str] = (), threshold: float = 0.5, **options: Any
    ) -> list[list[Span]]:
        self._pass(texts)
        return [[Span(*match.span(), 0.75) for match in re.finditer(r"\w+", text)] for text in texts]

    def extract(self, texts: Sequence[str], frequent: Collection[str] = frozenset(), **options: object) -> list[Any]:
        self._pass(texts)
        return super().extract(texts, frequent)

    def encode_sentences(self, texts: Sequence[str], layer: int | None = None) -> np.ndarray:
        if not texts:
            return np.zeros((0, self.width), np.float32)
        self._pass(texts)
        return np.stack([vector_of(text, self.width) for text in texts])

    def _blocks(self, texts: Sequence[str], layer: int | None = None) -> Iterator[tuple[slice, States]]:
        """A word is a token."""
        words = [[match.span() for match in re.finditer(r"\w+", text)] for text in texts]
        spans = np.array([span for word in words for span in word], np.int32).reshape(-1, 2)
        vectors = [
            vector_of(text[a:b], self.width) for text, result in zip(texts, words, strict=True) for a, b in result
        ]
        bounds = np.cumsum([0, *map(len, words)], dtype=np.int64)
        yield slice(0, len(texts)), States(np.array(vectors, np.float32), bounds, spans[:, 0], spans[:, 1])


def make_index(path: Path, model: Any, texts: Sequence[str] = TEXTS, name: str = "english.txt") -> Path:
    with Index.create(path, model, threads=1) as index:
        index.add([Document.from_texts(name, texts)], lang="en")
    return path


@contextmanager
def running(folder: Path, settings: Settings, model: Any, access: Access | None = None) -> Iterator[int]:
    """A server on a real socket of this machine; gives its port."""
    library = Library([folder], settings, threads=1, model=model)
    ready = threading.Event()
    server = server_of(create_app(library, settings, access), settings, lambda url: ready.set())
    with bind("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            assert ready.wait(20)
            yield port
        finally:
            server.should_exit = True
            thread.join(20)
            assert not thread.is_alive()


def speak(port: int, sent: bytes, seconds: float = 10.0) -> bytes:
    """All that the server answers to these bytes until it hangs up, or nothing more comes."""
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        try:
            connection.sendall(sent)
            while block := connection.recv(1 << 16):
                answer += block
        except (TimeoutError, ConnectionError):
            pass
    return answer


def post(path: str, body: bytes, *headers: str, close: bool = True) -> bytes:
    """The bytes of a request."""
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", *headers]
    lines += ["Connection: close"] if close else []
    if not any(line.lower().startswith("content-type") for line in headers):
        lines.append("Content-Type: application/json")
    return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape") + body
