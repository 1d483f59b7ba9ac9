"""Trains what JSON files describe, in the processes that a launcher started: ``several_processes.py RUN.json...``"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from phrasemate.training import processes
from phrasemate.training.ccpr import CCPRTask
from phrasemate.training.ccpr import Config as CCPRConfig
from phrasemate.training.trainer import Trainer
from phrasemate.training.xpr import Config as XPRConfig
from phrasemate.training.xpr import XPRTask


def train(method: str, tables: dict[str, Any], data: Path, run: Path) -> None:
    """One run."""
    if method == "ccpr":
        config = CCPRConfig.of(tables)
        task: Any = CCPRTask(config, data)
    else:
        task = XPRTask(XPRConfig.of(tables), data, run.parent / "states")
    loop = task.loop if method == "xpr" else config.loop
    Trainer(task, loop, run, task.facts()).run()


def main() -> None:
    processes.join("cpu")
    for name in sys.argv[1:]:
        described = json.loads(Path(name).read_text())
        train(described["method"], described["tables"], Path(described["data"]), Path(described["run"]))
    processes.leave()


if __name__ == "__main__":
    main()
