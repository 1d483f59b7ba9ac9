"""The server: the REST service and the concordance page. docs/reference/rest.md explains it."""

from __future__ import annotations

from phrasemate.server.settings import Settings

__all__ = ["Settings"]
