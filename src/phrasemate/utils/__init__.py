"""Bricks for every part: storage that survives a crash, nearest neighbours, batching, locks, processors."""

from __future__ import annotations

__all__: list[str] = []
