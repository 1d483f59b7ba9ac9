"""One JSON line for each request and each write: who, which route, what status, how long, how much; never the text."""

from __future__ import annotations

import json
import logging
import re
import sys
from datetime import UTC, datetime
from logging.handlers import WatchedFileHandler
from typing import Any
from uuid import uuid4

HEADER = "x-request-id"
_NUMBER = re.compile(r"[A-Za-z0-9._-]{1,64}")

_requests = logging.getLogger("phrasemate.requests")


def request_id(sent: str) -> str:
    """The number that a proxy has given to a request, if it is short and plain; else a new one."""
    return sent if _NUMBER.fullmatch(sent) else uuid4().hex


def open_log(place: str) -> None:
    """Write the lines to a file, which may be renamed meanwhile (logrotate), or to standard output (``-``)."""
    handler = logging.StreamHandler(sys.stdout) if place == "-" else WatchedFileHandler(place, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(message)s"))
    _requests.handlers[:] = [handler]
    _requests.setLevel(logging.INFO)
    _requests.propagate = False


def write_line(kind: str, **facts: Any) -> None:
    """Write one line; ``kind`` is "request" or "write". Nothing happens before `open_log`."""
    if _requests.handlers:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        _requests.info(json.dumps({"time": now, "kind": kind, **facts}))
