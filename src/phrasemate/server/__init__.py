"""Server of the REST API and the web page; see docs/reference/rest.md."""

from __future__ import annotations

from phrasemate.server.settings import Settings

__all__ = ["Settings"]
