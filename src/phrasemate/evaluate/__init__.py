"""Evaluation: measures, significance tests, and the protocols of the papers."""

from __future__ import annotations

from phrasemate.evaluate.metrics import (
    Estimate,
    Ranking,
    accuracy,
    bootstrap,
    bootstrap_test,
    mean_reciprocal_rank,
    randomisation_test,
    ranks_of,
    t_test,
)

__all__ = [
    "Estimate",
    "Ranking",
    "accuracy",
    "bootstrap",
    "bootstrap_test",
    "mean_reciprocal_rank",
    "randomisation_test",
    "ranks_of",
    "t_test",
]
