"""The index of the demo, built once for all pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from phrasemate import demo


@pytest.fixture(scope="session")
def demo_index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo") / "demo-index"
    with demo.build(folder):
        return folder
