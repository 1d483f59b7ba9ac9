"""A driver that dies after so many shards: ``python killed_driver.py ADDRESS PLACE MODEL SHARDS``."""

from __future__ import annotations

import os
import signal
import sys

from cluster_fakes import CHUNKS, SETTINGS, documents

from phrasemate.encode import load_model
from phrasemate.index.ray import build

if __name__ == "__main__":
    address, place, model, shards = sys.argv[1:]
    events: list[object] = []

    def progress(event: object) -> None:
        events.append(event)
        if len(events) == int(shards):
            os.kill(os.getpid(), signal.SIGKILL)

    loaded = load_model(model, threads=1)
    build(place, documents(), address, model=loaded, lang="en", settings=SETTINGS, chunks=CHUNKS, progress=progress)
