"""Plots of an evaluation, as SVG. matplotlib is optional and is loaded only here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from math import isnan
from pathlib import Path
from typing import Any

from phrasemate.errors import MissingExtra

Results = Mapping[str, Any]


def need_matplotlib() -> None:
    """Raises MissingExtra where matplotlib is not installed."""
    if find_spec("matplotlib") is None:
        raise MissingExtra("matplotlib", "train")


def draw(results: Results, folder: Path, of: str) -> list[Path]:
    """Draw what the results (`Result.as_dict`) of an evaluation (ccpr, bicla, xpr) hold; returns the files.

    No window system is needed. The files of the same results are the same, byte for byte.
    """
    need_matplotlib()
    import matplotlib
    from matplotlib.figure import Figure

    written = []
    with matplotlib.rc_context({"svg.hashsalt": "phrasemate", "font.size": 9, "text.parse_math": False}):
        for name, (needed, plot) in _PLOTS[of].items():
            if not results.get(needed) or (name == "segmenter_thresholds" and not results[needed]["learned"]):
                continue
            figure = Figure(figsize=(7, 4), layout="constrained")
            plot(figure.add_subplot(), results[needed])
            path = folder / f"{name}.svg"
            figure.savefig(path, metadata={"Date": None})
            written.append(path)
    return written


def _bars(axes: Any, table: Any) -> None:
    """A group of bars for each estimate of a table, one bar a row, with the interval."""
    rows = table["rows"]
    names = [key for key, value in rows[0].items() if isinstance(value, Mapping)]
    width = 0.8 / len(rows)
    for number, row in enumerate(rows):
        there = [(i, row[name]) for i, name in enumerate(names) if isinstance(row[name], Mapping)]
        values = [each["value"] for _, each in there]
        reach = [[max(0.0, abs(each["value"] - each[end])) for _, each in there] for end in ("low", "high")]
        places = [i + (number - (len(rows) - 1) / 2) * width for i, _ in there]
        label = " ".join(value for value in row.values() if isinstance(value, str))
        axes.bar(places, values, width, yerr=reach, label=label, error_kw={"linewidth": 0.7})
    axes.set_xticks(range(len(names)), names)
    axes.set_title(table["title"])
    axes.legend()


def _thresholds(axes: Any, curves: Any) -> None:
    """Precision, recall and F1 of the learned segmenter at every threshold."""
    for name, curve in curves["learned"].items():
        for measure, style in (("precision", ":"), ("recall", "--"), ("F1", "-")):
            axes.plot(curve["threshold"], curve[measure], style, label=f"{name} {measure}")
    axes.set_xlabel("threshold")
    axes.set_title("Learned segmenter against gold phrases")
    axes.legend()


def _sizes(axes: Any, curves: Any) -> None:
    """F1 by number of spans: the learned segmenter's curve, the n-gram segmenter's points."""
    for name, curve in curves["learned"].items():
        axes.plot(curve["spans"], curve["F1"], label=name)
    axes.plot(curves["ngram"]["spans"], curves["ngram"]["F1"], "k.", label="n-gram")
    axes.set_xscale("log")
    axes.set_xlabel("spans in the index")
    axes.set_ylabel("F1")
    axes.set_title("Segmenters at equal index size")
    axes.legend()


def _retrieval(axes: Any, points: Any) -> None:
    """acc@1 by number of spans in the index."""
    for kind, style in (("learned", "o-"), ("ngram", "k.--")):
        some = sorted((row["spans"], row["acc@1"]) for row in points if row["segmenter"] == kind)
        if some:
            axes.plot(*zip(*some, strict=True), style, label=kind)
    axes.set_xlabel("spans in the index")
    axes.set_ylabel("acc@1")
    axes.set_title("Phrase retrieval with the segmenter's index")
    axes.legend()


def _transfer(axes: Any, table: Any) -> None:
    """A heat map of XPR, whose tables are named by whoever asks for them."""
    _heat(axes, {**table, "title": "acc@1 of each model on each language pair"})


def _heat(axes: Any, table: Any) -> None:
    """The figure of each model (row) on each test pair (column), written into its cell."""
    rows = table["rows"]
    name, *tested = (key for key in rows[0] if key not in ("mean", "p"))
    values = [[row[pair] if row[pair] is not None else float("nan") for pair in tested] for row in rows]
    axes.imshow(values, cmap="viridis", vmin=0, vmax=1, aspect="auto")
    for y, row in enumerate(values):
        for x, value in enumerate(row):
            text = "" if isnan(value) else f"{value:.3f}"
            axes.text(x, y, text, ha="center", va="center", color="white" if value < 0.6 else "black")
    axes.set_xticks(range(len(tested)), tested)
    axes.set_yticks(range(len(rows)), [row[name] for row in rows])
    axes.set_xlabel("tested on")
    axes.set_ylabel(name)
    axes.set_title(table["title"])


def _by_number(what: str) -> Callable[[Any, Any], None]:
    def plot(axes: Any, points: Any) -> None:
        """acc@1 of each row by a number that was varied."""
        for name in dict.fromkeys(point["row"] for point in points):
            some = sorted((point["value"], point["acc@1"]) for point in points if point["row"] == name)
            axes.plot(*zip(*some, strict=True), "o-", label=name)
        axes.set_xlabel(what)
        axes.set_ylabel("acc@1")
        axes.legend()

    return plot


_PLOTS: dict[str, dict[str, tuple[str, Callable[[Any, Any], None]]]] = {
    "ccpr": {
        "phrases": ("phrases acc@1", _bars),
        "segmenter_thresholds": ("segmenter_curves", _thresholds),
        "segmenter_sizes": ("segmenter_curves", _sizes),
        "segmenter_retrieval": ("segmenter_retrieval", _retrieval),
        "polysemy": ("polysemy", _bars),
    },
    "bicla": {"zero_shot": ("zero-shot", _heat)},
    "xpr": {
        "xpr_matrix": ("matrix", _transfer),
        "xpr_examples": ("by examples", _by_number("example sentences of a phrase")),
        "xpr_layers": ("by layer", _by_number("layer")),
    },
}
