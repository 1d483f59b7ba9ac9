"""What the server counts, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily

from phrasemate.server.indexes import Library

METHODS = ("GET", "HEAD", "POST", "OPTIONS")
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


class Metrics:
    """Counts for one application."""

    def __init__(self, library: Library) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._registry.register(_Encoder(library))
        names = ["route", "method", "status"]
        self._requests = Counter("phrasemate_requests", "Requests answered.", names, registry=self._registry)
        self._seconds = Histogram(
            "phrasemate_request_seconds", "Time to an answer.", ["route"], buckets=BUCKETS, registry=self._registry
        )
        self.waiting = Gauge("phrasemate_waiting", "Requests read, waiting or worked on.", registry=self._registry)

    def count(self, scope: Any, status: int, seconds: float) -> None:
        """A request that was answered (status 0: its client had left)."""
        route = getattr(scope.get("route"), "path", "other")
        method = scope["method"] if scope["method"] in METHODS else "other"
        self._requests.labels(route, method, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        """In Prometheus' text format."""
        return generate_latest(self._registry)


class _Encoder:
    """How much the encoder was asked: read when somebody looks."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def collect(self) -> Iterator[CounterMetricFamily]:
        asked, passes = self._library.passes
        yield CounterMetricFamily("phrasemate_encoder_calls", "Calls that needed the encoder.", value=asked)
        yield CounterMetricFamily("phrasemate_encoder_passes", "Passes of the encoder for them.", value=passes)
