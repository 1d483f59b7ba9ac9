"""The bundled model, loaded once for each number of threads: reading and compiling it takes half a second each time."""

from __future__ import annotations

from copy import copy
from functools import cache
from typing import Any

import pytest

from phrasemate.encode.model import Model

_model = cache(Model)


def _copy_of_model(folder: Any, threads: Any, bundled: bool, device: str) -> Model:
    return copy(_model(folder, threads, bundled, device)) if bundled else Model(folder, threads, bundled, device)


@pytest.fixture(autouse=True)
def bundled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have `load_model` give copies of the bundled model: what a test changes in its own stays there."""
    monkeypatch.setattr("phrasemate.encode.model.Model", _copy_of_model)
