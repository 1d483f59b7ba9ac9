"""Building an index of Lance tables on a Ray cluster; docs/scale.md explains it."""

from __future__ import annotations

from phrasemate.index.ray.driver import build

__all__ = ["build"]
