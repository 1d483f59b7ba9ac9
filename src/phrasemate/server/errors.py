"""Refusals of requests: the exception, its codes and statuses, and its JSON form."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping

from phrasemate import errors

# error code -> HTTP status
REASONS: Mapping[str, int] = {
    "bad_request": 400,
    "bad_json": 400,
    "unauthorized": 401,
    "closed": 403,
    "forbidden": 403,
    "foreign_origin": 403,
    "not_found": 404,
    "unknown_index": 404,
    "method_not_allowed": 405,
    "timeout": 408,
    "too_large": 413,
    "too_long": 413,
    "wrong_type": 415,
    "wrong_host": 421,
    "bad_document": 422,
    "invalid": 422,
    "too_many_requests": 429,
    "headers_too_large": 431,
    "internal": 500,
    "index_unusable": 503,
    "glossary_unusable": 503,
    "missing_extra": 503,
    "busy": 503,
    "too_slow": 503,
    "stopping": 503,
}
LONGEST = 1_000  # characters of a message
RETRY_SECONDS = {
    "too_many_requests": 1,
    "busy": 1,
    "too_slow": 5,
    "stopping": 5,
    "index_unusable": 5,
    "glossary_unusable": 5,
}

log = logging.getLogger("phrasemate.server")

_CODES = {errors.ReadError: "bad_document", errors.InputError: "invalid", errors.MissingExtra: "missing_extra"}


class Refusal(errors.PhrasemateError):
    """Raised to refuse a request: ``code`` is one of `REASONS`, ``message`` says what is wrong and what to do.

    ``seconds`` is the time after which to try again, for the header Retry-After (default: that of `RETRY_SECONDS`).
    """

    def __init__(self, code: str, message: str, seconds: int | None = None) -> None:
        self.message = message if len(message) <= LONGEST else f"{message[:LONGEST]} …"  # it may quote the request
        super().__init__(self.message)
        self.code, self.status = code, REASONS[code]
        self._seconds = RETRY_SECONDS.get(code) if seconds is None else seconds

    @property
    def headers(self) -> dict[str, str]:
        """Headers of the response: Retry-After or WWW-Authenticate, if the code has one."""
        if self._seconds is not None:
            return {"Retry-After": str(self._seconds)}
        challenge = 'Basic realm="phrasemate", charset="UTF-8"'  # with Bearer, a browser does not ask for a password
        return {"WWW-Authenticate": challenge} if self.code == "unauthorized" else {}

    def json(self) -> bytes:
        """``{"error": {"status": 413, "code": "too_long", "message": "..."}}``, in ASCII."""
        error = {"status": self.status, "code": self.code, "message": self.message}
        return json.dumps({"error": error}).encode()


def refusal_of(error: Exception) -> Refusal:
    """Convert an error to the refusal that the client sees; details of unexpected errors stay in the log."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, errors.GlossaryDamaged | errors.GlossaryUnwritable):
        log.error("%s", error)
        is_unwritable = isinstance(error, errors.GlossaryUnwritable)  # its message names no path
        reason = str(error) if is_unwritable else "the glossary cannot be read just now; the server's log says why"
        return Refusal("glossary_unusable", reason)
    for kind, code in _CODES.items():
        if isinstance(error, kind):
            return Refusal(code, str(error))
    if isinstance(error, errors.PhraseIndexError | errors.ModelError):
        return Refusal("index_unusable", "the index cannot be used just now; the server's log says why")
    return Refusal("internal", "something went wrong here; the server's log says what")


def wants_json(headers: Mapping[str, str]) -> bool:
    """Tell whether the request accepts JSON, as scripts do and browsers do not."""
    return "application/json" in headers.get("accept", "")
