"""The plan's arithmetic, worked out by hand."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"


def test_a_plan_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    monkeypatch.delitem(sys.modules, "plan", raising=False)
    import plan

    units = plan.Units(
        phrases_a_sentence=10,
        encode=0.01,
        store=1e-6,
        search_file=2e-6,
        wordings=3e-6,
        bytes_stored=100,
        bytes_mapped=200,
        ask=0.01,
        nearest=0.002,
        look_up=0.003,
        merge=0.001,
    )
    hours = {step.name: step.core_hours for step in plan.steps(36e6, units)}
    assert hours == pytest.approx({"encode": 10, "store": 0.01, "search file": 0.02, "wordings": 0.03})
    assert [step.bytes for step in plan.steps(36e6, units)] == [0, 3.6e9, 7.2e9, 0]
    text = plan.table(36e6, units, 3, 4)
    assert "12 parts of 3.0 million phrases" in text
    assert "; 2 GB of memory" in text  # 12 million phrases x 200 bytes
    assert "a query 82 core-ms, at least 27 ms" in text  # 10 + 12 x (2 + 3 + 1), and 10 + 2 + 3 + 12 x 1
