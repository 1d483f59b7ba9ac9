"""What every benchmark shares: its signature, its table, its JSON file, and where the data lies."""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import phrasemate
from phrasemate import Model

OUT = Path(__file__).parent / "out"
DATA = Path(__file__).parent.parent.parent / "shared" / "data"


def parser(description: str | None) -> argparse.ArgumentParser:
    """Options that all benchmarks take."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--data", type=Path, default=DATA, help="folder of the corpora (default: %(default)s)")
    made.add_argument("--model", type=Path, help="model folder (default: the bundled one)")
    made.add_argument("--threads", type=int, default=None, help="threads (default: all)")
    made.add_argument("--seed", type=int, default=0)
    return made


def signature(model: Model | None, **settings: Any) -> dict[str, Any]:
    """How a number was made: settings, model, versions, machine, date."""
    facts: dict[str, Any] = dict(settings)
    if model is not None:
        facts["model"] = f"{model.name} {model.hash[:12]}"
    facts["phrasemate"] = phrasemate.__version__
    for package in ("openvino", "faiss-cpu", "numpy", "torch", "transformers"):
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            continue
    facts["machine"] = f"{_processor()}, {len(os.sched_getaffinity(0))} cores, Python {platform.python_version()}"
    facts["date"] = time.strftime("%Y-%m-%d")
    return facts


def report(name: str, header: Sequence[str], rows: Sequence[Sequence[Any]], facts: dict[str, Any]) -> None:
    """Print the table and its signature, and write both as JSON to bench/out/NAME.json."""
    cells = [list(header), *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    for row in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    print("signature: " + "; ".join(f"{key} {value}" for key, value in facts.items()))
    OUT.mkdir(exist_ok=True)
    table = [dict(zip(header, row, strict=True)) for row in rows]
    text = json.dumps({"rows": table, "signature": facts}, indent=1, default=float)
    (OUT / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def _cell(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.4f}" if abs(value) < 10 else f"{value:,.0f}"


def _processor() -> str:
    """Name, family and model: two processors of one name may differ twofold in bfloat16."""
    facts: dict[str, str] = {}
    if Path("/proc/cpuinfo").exists():
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            key, _, value = line.partition(":")
            facts.setdefault(key.strip(), value.strip())
    name = facts.get("model name", platform.processor())
    return f"{name} family {facts.get('cpu family', '?')} model {facts.get('model', '?')}"
