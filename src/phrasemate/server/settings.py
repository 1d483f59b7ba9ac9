"""Limits of the server."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """Limits of one request and of the whole server. For the measurements behind them, see results/log/serve.md."""

    # of one request
    header_bytes: int = 1 << 16  # request line and all headers: the address of the page contains its text
    request_bytes: int = 1 << 20  # body, except uploads
    upload_bytes: int = 16 << 20  # multipart body
    characters: int = 5_000  # text to search or segment: two pages
    phrases: int = 64  # phrases of one search, marked or proposed by the segmenter
    texts: int = 64  # texts of one call that segments or encodes
    spans: int = 20_000  # spans found in the texts of one call: 3 MB
    encoded: int = 1_000  # phrase vectors in one answer: 5 MB
    hits: int = 20_000  # sentences in one answer, phrases x groups x contexts: 8 MB
    total_characters: int = 20_000  # all texts of one call: 3 s on two cores
    k: int = 100  # groups for a phrase
    contexts: int = 50  # sentences for a group
    filters: int = 100  # documents or languages to search in
    sentences: int = 200  # sentences on one side of a mining request
    sentence_characters: int = 500
    document_characters: int = 400_000  # document to find terms in: 150 pages
    terms: int = 500  # terms of a document that are looked up

    # time, in seconds
    seconds: float = 20.0  # from the last byte of a request to its answer
    upload_seconds: float = 120.0  # the same for an upload
    body_seconds: float = 15.0  # from the last byte of the headers to the last byte of the body
    keep_alive: float = 15.0  # idle time until a connection is closed
    stop_seconds: float = 30.0  # time for running requests when the server stops

    # at the same time
    threads: int = 64  # requests in worker threads, which mostly wait for the encoder and share its batches
    waiting: int = 128  # requests that are being read, waiting or being answered
    waiting_of_client: int = 96  # the same for one client address
    uploads: int = 2  # uploads and mining requests among them
    connections: int = 512

    public: bool = False  # public demo: no uploads, no glossary

    vectors: int = 20_000  # size of the cache of phrase vectors and texts: 20 MB


def public_settings() -> Settings:
    """Return the limits of a public demo, which needs no token."""
    return Settings(
        public=True,
        characters=1_000,
        texts=16,
        total_characters=4_000,
        hits=2_000,
        k=30,
        contexts=20,
        waiting_of_client=8,
    )
