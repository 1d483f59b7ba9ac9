"""The server, as a user starts it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path


class Served:
    """``phrasemate serve`` in a process of its own."""

    def __init__(self, *folders: Path, options: tuple[str, ...] = ()) -> None:
        self.folders, self.options, self.port = folders, options, 0
        self.start()

    def start(self) -> None:
        """On a free port, or again on the one that it had."""
        command = [
            sys.executable,
            "-c",
            "from phrasemate.cli import main; main()",
            "serve",
            *map(str, self.folders),
            "--port",
            str(self.port),
            *self.options,
        ]
        self.process = subprocess.Popen([*command, "--json"], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout
        self.url = str(json.loads(self.process.stdout.readline())["url"]).rstrip("/")
        self.port = int(self.url.rpartition(":")[2])

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=60)
