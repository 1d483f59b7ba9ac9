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

    units = plan.Units(phrases_a_sentence=10, read=1e-4, encode=0.01, write=1e-6, quantise=1e-6, distance=1e-9)
    read, encode, write, train, fill = plan.steps(36e6, units, machines=3, cores=4)
    assert (read.core_hours, read.cores) == (pytest.approx(36e6 / 10 * 1e-4 / 3600), 1)  # 0.1
    assert (encode.core_hours, encode.cores) == (pytest.approx(36e6 / 10 * 0.01 / 3600), 12)  # 10
    assert write.bytes == pytest.approx(36e6 * units.bytes_a_phrase)
    lists = 4096  # 36e6 / 4,096 is 8,789: more than the most
    assert (train.core_hours, train.cores) == (pytest.approx(50 * 256 * lists**2 * 1e-9 / 3600), 4)
    assert fill.core_hours == pytest.approx(36e6 * (1e-6 + lists * 1e-9) / 3600)
    assert "4,096 lists" in plan.table(36e6, units, 3, 4)
