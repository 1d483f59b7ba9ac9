"""An index of Lance tables, in a folder or on object storage; docs/how-to/many-machines.md explains it."""

from __future__ import annotations

from phrasemate.index.lance.tables import is_tables

__all__ = ["is_tables"]
