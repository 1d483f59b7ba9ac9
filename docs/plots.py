"""Draw the plots of docs/results/index.md from results/bundled.json, and that of mining from results/mining.json.

python docs/plots.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot

HERE = Path(__file__).resolve().parent
IMAGES = HERE / "images"
FIGURES = HERE.parent / "results" / "bundled.json"
MINING = HERE.parent / "results" / "mining.json"
LANGUAGES = {"de": "German", "cs": "Czech", "ro": "Romanian", "fr": "French"}
GREY, TEAL = "#b0bec5", "#00796b"
STEPS = {"encoding": "#e0f2f1", "search": "#fff3e0", "second look": "#e8eaf6"}


def main() -> None:
    data = json.loads(FIGURES.read_text("utf-8"))
    matplotlib.rcParams.update({"svg.hashsalt": "phrasemate", "svg.fonttype": "path", "font.size": 10})
    lookup(data["lookup"]["rows"])
    pairs(data["phrases"]["before"], data["phrases"]["after"], ("before training", "bundled model"), "phrases")
    pairs(data["alignment"]["eflomal"], data["alignment"]["softmax"], ("eflomal", "phrasemate, softmax"), "alignment")
    mining(json.loads(MINING.read_text("utf-8"))["samples"])


def lookup(rows: dict[str, dict[str, float]]) -> None:
    """Right first answers of each kind of search."""
    names = {"search": "default search", "dictionary": "lexicon alone", "views": "vectors, second look"}
    names |= {"without lexicon": "without the lexicon", "quick": "--quick"}
    figure, axes = pyplot.subplots(figsize=(7, 2.6))
    order = sorted(names, key=lambda name: rows[name]["first"])
    values = [100 * rows[name]["first"] for name in order]
    bars = axes.barh([names[name] for name in order], values, color=[TEAL if n == "search" else GREY for n in order])
    axes.bar_label(bars, fmt="%.0f %%", padding=3)
    axes.set(xlim=(0, 100), xlabel="right first answers (%)")
    save(figure, axes, "results-lookup")


def pairs(first: dict[str, float], second: dict[str, float], names: tuple[str, str], file: str) -> None:
    """Two bars for each language."""
    figure, axes = pyplot.subplots(figsize=(7, 2.8))
    for shift, values, name, colour in ((-0.2, first, names[0], GREY), (0.2, second, names[1], TEAL)):
        bars = axes.bar([i + shift for i in range(4)], [100 * values[code] for code in LANGUAGES], 0.38, color=colour)
        bars.set_label(name)
        axes.bar_label(bars, fmt="%.0f", padding=2)
    axes.set_xticks(range(4), list(LANGUAGES.values()))
    axes.set_ylabel("right (%)" if file == "phrases" else "errors (AER, %)")
    axes.margins(y=0.15)
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    save(figure, axes, f"results-{file}")


def mining(samples: list[list[Any]]) -> None:
    """Memory over processor time of a long run; each sample is [minutes, MB, name of the step]."""
    figure, axes = pyplot.subplots(figsize=(7, 2.6))
    minutes, memory, steps = zip(*samples, strict=True)
    for name, colour in STEPS.items():
        times = [at for at, step in zip(minutes, steps, strict=True) if step == name]
        start, end = min(times), max(times)
        axes.axvspan(start, end, color=colour, linewidth=0)
        axes.text((start + end) / 2, 1.03, name, ha="center", transform=axes.get_xaxis_transform(), fontsize=8)
    axes.plot(minutes, memory, color=TEAL)
    axes.set(xlabel="minutes of one processor", ylabel="memory (MB)", xlim=(0, max(minutes)), ylim=(0, None))
    save(figure, axes, "results-mining")


def save(figure: Any, axes: Any, name: str) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(IMAGES / f"{name}.svg", metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    main()
