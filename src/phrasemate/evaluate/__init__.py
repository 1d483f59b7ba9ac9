"""Measures, tests of significance, and the protocols of the papers."""

from __future__ import annotations

from phrasemate.evaluate.metrics import Ranking, accuracy, mean_reciprocal_rank, ranks_of
from phrasemate.evaluate.significance import Estimate, bootstrap, bootstrap_test, randomisation_test, t_test

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
