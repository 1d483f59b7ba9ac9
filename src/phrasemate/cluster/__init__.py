"""Beyond one machine: an index of Lance tables, in a folder or on object storage, made by Ray workers.

docs/scale.md explains it. `build` makes or extends one; ``phrasemate.Index.open`` opens it like any other index.
"""

from __future__ import annotations

from phrasemate.cluster.driver import build
from phrasemate.cluster.places import is_tables

__all__ = ["build", "is_tables"]
