"""The server, as a user starts it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUIET = (
    *("--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)


def executable() -> str:
    """A Chromium; PHRASEMATE_CHROMIUM names another one. Skips the test if there is none."""
    pytest.importorskip("playwright", reason="no playwright is installed: pip install playwright")
    pytest.importorskip("fastapi", reason="the server is not installed: pip install 'phrasemate[serve]'")
    result = os.environ.get("PHRASEMATE_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if not result:
        pytest.skip("no Chromium is installed: apt-get install chromium, or set PHRASEMATE_CHROMIUM")
    return result


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
