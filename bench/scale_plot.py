"""The plot of bench/scale.py: six small pictures against the number of phrases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from phrasemate.evaluate.plots import need_matplotlib


def draw(results: dict[str, Any], sizes: list[int], slope: float, path: Path) -> None:
    """Write the SVG; the same results give the same bytes."""
    need_matplotlib()
    import matplotlib
    from matplotlib.figure import Figure

    rows = [results[str(size)] for size in sizes]
    count = np.array([row["phrases"] for row in rows])
    tuned = results.get("tuned")
    build = np.cumsum([row["encode s"] + row["write s"] for row in rows])
    shown = [
        (f"building: s (slope {slope:.3f})", [("all", build), ("writing", np.cumsum([r["write s"] for r in rows]))]),
        ("memory: MB", [("its own", [row["memory MB"] for row in rows])]),
        ("on disk: bytes a phrase", [("files", [row["bytes/phrase"] for row in rows])]),
        ("to the first answer: ms", [("open and first", [row["open ms"] + row["first ms"] for row in rows])]),
        (
            "searching: ms",
            [("one query", [r["one ms"] for r in rows]), ("1,000 at once", [r["1000 ms"] for r in rows])],
        ),
        ("recall", [("@1", [row["recall@1"] for row in rows]), ("@10", [row["recall@10"] for row in rows])]),
    ]
    with matplotlib.rc_context({"svg.hashsalt": "phrasemate", "font.size": 8}):
        figure = Figure(figsize=(9, 5), layout="constrained")
        for number, (title, lines) in enumerate(shown):
            axes = figure.add_subplot(2, 3, number + 1)
            for label, values in lines:
                axes.plot(count, values, "o-", markersize=3, label=label)
            axes.set_xscale("log")
            axes.set_title(title)
            if title == "recall":
                least = min(r[name] for r in [*rows, *([tuned] if tuned else [])] for name in ("recall@1", "recall@10"))
                axes.set_ylim(min(0.9, least - 0.01), 1.005)
            elif "bytes" not in title:
                axes.set_yscale("log")
            else:
                axes.set_ylim(bottom=0)
            _mark(axes, title, tuned)
            axes.legend(loc="lower right" if "bytes" in title else "best")
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None})


def _mark(axes: Any, title: str, tuned: Any) -> None:
    """What the tuned index has, as crosses."""
    names = {"searching: ms": ("one ms", "1000 ms"), "recall": ("recall@1", "recall@10"), "memory: MB": ("memory MB",)}
    if tuned:
        for number, name in enumerate(names.get(title, ())):
            axes.plot([tuned["phrases"]], [tuned[name]], "kx", label="tuned" if not number else None)
