"""Measures, and what they are computed from."""

from __future__ import annotations

from phrasemate.evaluate.metrics import accuracy, mean_reciprocal_rank, ranks_of

__all__ = ["accuracy", "mean_reciprocal_rank", "ranks_of"]
