"""An index of Lance tables, in a folder or on object storage; docs/scale.md explains it."""

from __future__ import annotations

from phrasemate.index.lance.uri import is_tables

__all__ = ["is_tables"]
