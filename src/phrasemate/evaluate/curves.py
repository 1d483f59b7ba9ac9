"""The curves of a training run, from its ``metrics.jsonl``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from phrasemate.evaluate.plots import need_matplotlib

LOSSES = ("loss", "dev loss", "align", "segment", "sentence", "mean")
SHARES = ("acc@1", "dev acc@1", "dev score", "dev sentences", "dev f1")
Lines = Sequence[Mapping[str, Any]]


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The lines of ``metrics.jsonl`` with a step; none where there is no file; one that was cut short is left out."""
    if not path.exists():
        return []
    lines = []
    for text in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if isinstance(line, dict) and "step" in line:
            lines.append(line)
    return lines


def draw_curves(metrics: Path, out: Path) -> bool:
    """Losses above, shares below, by step, as an SVG file; False where there is nothing to draw.

    Raises MissingExtra where matplotlib is not installed.
    """
    lines = read_metrics(metrics)
    if not lines:
        return False
    need_matplotlib()
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.hashsalt": "phrasemate", "font.size": 9}):
        figure = Figure(figsize=(7, 6), layout="constrained")
        axes = figure.subplots(2, 1, sharex=True)
        by_loss = any("dev loss" in line for line in lines)  # then the score is a loss too, and no share
        for axis, names, title in zip(axes, (LOSSES, SHARES), ("loss", "share right"), strict=True):
            for name in (name for name in names if not (by_loss and name == "dev score")):
                _plot(axis, lines, name)
            axis.set_ylabel(title)
            axis.grid(alpha=0.3)
            if axis.lines:
                axis.legend(fontsize=8)
        axes[1].set_xlabel("step")
        out.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(out, metadata={"Date": None})
    return True


def _plot(axis: Any, lines: Lines, name: str) -> None:
    points = [(line["step"], line[name]) for line in lines if name in line]
    if points:
        style = {"marker": "o", "markersize": 3} if name.startswith("dev") else {"linewidth": 0.8}
        axis.plot(*zip(*points, strict=True), label=name, **style)
