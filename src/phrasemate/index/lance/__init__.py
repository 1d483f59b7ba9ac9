"""Index of Lance tables, in a folder or on object storage, built by many machines; see docs/how-to/many-machines.md."""

from __future__ import annotations

from phrasemate.index.lance.tables import is_tables

__all__ = ["is_tables"]
