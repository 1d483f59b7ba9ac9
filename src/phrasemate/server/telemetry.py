"""Records of requests, never with their text: one JSON line for each in a log, and traces for OpenTelemetry.

A line says who, which route, what status, how long, how much. Traces need the extra ``otel``; the standard variables
of the environment say where they go: OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_SERVICE_NAME and others.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from logging.handlers import WatchedFileHandler
from typing import Any
from uuid import uuid4

from phrasemate.errors import MissingExtra

_tracers: list[Any] = []  # at most one


def start_tracing(provider: Any = None) -> None:
    """Trace every request from now on, with a provider of spans (default: one that sends them by OTLP over HTTP).

    Raises MissingExtra.
    """
    try:
        from opentelemetry import trace

        if provider is None:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor

            provider = TracerProvider()
            provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    except ImportError as error:
        raise MissingExtra(error.name or "opentelemetry-sdk", "otel") from error
    _tracers[:] = [trace.get_tracer("phrasemate", tracer_provider=provider)]


def stop_tracing() -> None:
    """Trace no further request."""
    _tracers.clear()


@contextmanager
def traced(scope: Any, sender: Any) -> Iterator[None]:
    """A span of the request, which continues the trace that its headers name; nothing before `start_tracing`."""
    if not _tracers:
        yield
        return
    from opentelemetry import propagate
    from opentelemetry.trace import SpanKind, Status, StatusCode

    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    parent = propagate.extract(headers)
    options = {"context": parent, "kind": SpanKind.SERVER, "record_exception": False, "set_status_on_exception": False}
    with _tracers[0].start_as_current_span(scope["method"], **options) as span:
        try:
            yield
        finally:
            route = getattr(scope.get("route"), "path", "other")
            span.update_name(f"{scope['method']} {route}")
            span.set_attribute("http.request.method", scope["method"])
            span.set_attribute("http.route", route)
            span.set_attribute("http.response.status_code", sender.status)
            span.set_attribute("phrasemate.request_id", sender.headers["x-request-id"])
            if sender.status >= 500:
                span.set_status(Status(StatusCode.ERROR))


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
        timestamp = datetime.now(UTC).isoformat(timespec="milliseconds")
        _requests.info(json.dumps({"time": timestamp, "kind": kind, **facts}))
