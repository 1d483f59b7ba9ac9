"""What schemathesis asks for, and what it may be told; also for bench/serve.py."""

from __future__ import annotations

POSTED = [f"/api/v1/{name}" for name in ("search", "lookup", "suggest", "segment", "encode", "terms", "mine")]
UNIT = "/tmserver/{source}/{target}/unit/{text}"
PATHS = [
    *POSTED,
    "/api/v1/reload",
    "/tmserver/languages/",
    UNIT,
    "/api/v1/indexes",
    "/health",
    "/ready",
    "/metrics",
]

# A text that fits the description may still have marks without an end, or name an index or document that is not there;
# and what does not fit it is refused with 413 or 415 as well.
CHECKS = """
[checks]
positive_data_acceptance.expected-statuses = ["2xx", "404", "413", "415", "422"]
negative_data_rejection.expected-statuses = ["400", "404", "413", "415", "422"]
"""
