"""Readers of document and translation formats: each yields records, with limits on time and memory for any file."""

from __future__ import annotations

__all__: list[str] = []
