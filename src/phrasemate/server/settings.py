"""Every limit of the server, once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """Limits of a request, and of what the server does at a time. Figures: results/log/serve.md."""

    # of one request
    header_bytes: int = 1 << 16  # of the request line and all headers: the page's address holds its text
    request_bytes: int = 1 << 20  # of a body; what is uploaded has its own limit
    upload_bytes: int = 16 << 20  # of a multipart body
    characters: int = 5_000  # of a text that is searched or segmented: two pages
    phrases: int = 64  # of one search: marked ones, or those that the segmenter proposes
    texts: int = 64  # of one call that segments or encodes
    spans: int = 20_000  # that one call may find in its texts: 3 MB
    encoded: int = 1_000  # phrases of one call that are given as vectors: 5 MB
    hits: int = 20_000  # sentences of one answer, phrases x groups x contexts: 8 MB
    total_characters: int = 20_000  # of all texts of one call: 3 s on two cores
    k: int = 100  # groups for a phrase
    contexts: int = 50  # sentences for a group
    filters: int = 100  # documents or languages to search in
    sentences: int = 200  # of one side that is mined
    sentence_characters: int = 500
    document_characters: int = 400_000  # of a document whose terms are asked for: 150 pages
    terms: int = 500  # of a document that get candidates

    # time, in seconds
    seconds: float = 20.0  # from a request's last byte to its answer
    upload_seconds: float = 120.0  # the same for an upload
    body_seconds: float = 15.0  # from the last byte of the headers to the last one of the body
    keep_alive: float = 15.0  # that an idle connection is kept
    stop_seconds: float = 30.0  # that running requests have when the server stops

    # at a time
    threads: int = 64  # requests that are worked on: they mostly wait for the encoder, which takes them together
    waiting: int = 128  # requests that are being read, wait or are worked on
    waiting_of_client: int = 96  # the same of one address
    uploads: int = 2  # of those, uploads and minings
    connections: int = 512

    public: bool = False  # a demo for everybody: no documents, and nothing is kept

    vectors: int = 20_000  # of phrases that were encoded lately, or as much text, kept for the next click: 20 MB


def public_settings() -> Settings:
    """The limits of a demo that everybody may use without a token."""
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
