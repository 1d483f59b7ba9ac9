"""What every benchmark shares: its options, its JSON file, and where the data lies."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from phrasemate.evaluate.report import signature_line, text_table

OUT = Path(__file__).parent / "out"
DATA = Path(__file__).parent.parent.parent / "shared" / "data"


def anonymous(process: int | str = "self") -> float | None:
    """MB that belong to a process alone and to no file; None if it has ended."""
    lines = Path(f"/proc/{process}/status").read_text("utf-8").splitlines()
    return next((int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("RssAnon:")), None)


def parser(description: str | None) -> argparse.ArgumentParser:
    """Options that all benchmarks take."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--data", type=Path, default=DATA, help="folder of the corpora (default: %(default)s)")
    made.add_argument("--model", type=Path, help="model folder (default: the bundled one)")
    made.add_argument("--threads", type=int, default=None, help="threads (default: all)")
    made.add_argument("--seed", type=int, default=0)
    return made


def report(name: str, header: Sequence[str], rows: Sequence[Sequence[Any]], facts: dict[str, Any]) -> None:
    """Print the table and its signature, and write both as JSON to bench/out/NAME.json."""
    print(text_table(header, rows))
    print(signature_line(facts))
    OUT.mkdir(exist_ok=True)
    table = [dict(zip(header, row, strict=True)) for row in rows]
    text = json.dumps({"rows": table, "signature": facts}, indent=1, default=float)
    (OUT / f"{name}.json").write_text(text + "\n", encoding="utf-8")
