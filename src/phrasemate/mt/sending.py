"""One request over HTTP, with bounds: how long it may take in all, and how much may come back, packed or not."""

from __future__ import annotations

import json
import time
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

from phrasemate.errors import InputError, MissingExtra

if TYPE_CHECKING:
    import httpx2

LARGEST = 16_000_000  # bytes of an answer: what is longer is none
_TOO_LARGE = f"has more than {LARGEST:,} bytes"
_PACKINGS = ("gzip", "x-gzip", "deflate")


class Unusable(Exception):
    """An answer that would be no better another time: too large, or packed in a way that was not asked for."""


class TooLong(Exception):
    """The answer came so slowly that it was given up."""


class Unreadable(Exception):
    """A body that cannot be unpacked."""


class Reply(NamedTuple):
    """What a server said."""

    status: int
    after: str  # Retry-After
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


def connected(key: str, concurrency: int, timeout: float) -> httpx2.Client:
    """What sends requests; ``timeout`` seconds for each part of one.

    Raises MissingExtra, and InputError for settings of the environment (proxies, certificates) that cannot be used.
    """
    try:
        import httpx2
    except ImportError as error:
        raise MissingExtra("httpx2", "mt") from error
    headers = {"Accept-Encoding": "identity"} | ({"Authorization": f"Bearer {key}"} if key else {})
    limits = httpx2.Limits(max_connections=concurrency)
    try:
        return httpx2.Client(headers=headers, timeout=timeout, limits=limits)
    except (ImportError, OSError, ValueError, httpx2.InvalidURL) as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"the proxy or the certificates that the environment names cannot be used ({reason}); "
            "look at HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, SSL_CERT_FILE and SSL_CERT_DIR"
        ) from None


def post(http: httpx2.Client, url: str, body: dict[str, Any], seconds: float) -> Reply:
    """Send a JSON object. Raises what httpx2 raises, and `TooLong`, `Unreadable` and `Unusable`."""
    content = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")  # halves of characters as ?
    end = time.monotonic() + seconds
    raw = bytearray()
    with http.stream("POST", url, content=content, headers={"Content-Type": "application/json"}) as response:
        for chunk in response.iter_raw():
            raw += chunk
            if len(raw) > LARGEST:
                raise Unusable(_TOO_LARGE)
            if time.monotonic() > end:
                raise TooLong
        packing = response.headers.get("content-encoding", "").strip().lower()
        return Reply(response.status_code, response.headers.get("retry-after", ""), _unpacked(bytes(raw), packing))


def _unpacked(raw: bytes, packing: str) -> bytes:
    """The body itself, which a few packed bytes could make very large."""
    if packing in ("", "identity"):
        return raw
    if packing not in _PACKINGS:
        raise Unusable(f"is packed as {packing[:40]!r}, which was not asked for")
    reader = zlib.decompressobj(zlib.MAX_WBITS | 32)  # gzip or zlib, as it begins
    try:
        found = reader.decompress(raw, LARGEST + 1)
    except zlib.error as error:
        raise Unreadable(str(error)) from None
    if len(found) > LARGEST:
        raise Unusable(_TOO_LARGE)
    if raw and not reader.eof:
        raise Unreadable("it ends too early")
    return found
