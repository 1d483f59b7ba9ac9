"""A real Chromium before a real server with the bundled model. Without a Chromium these tests are skipped."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser_server import QUIET, Served, executable
from browser_texts import INDEXES


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(item.path).parent == Path(__file__).parent:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The indexes of browser_texts, by their names."""
    executable()
    from phrasemate import Document, Index, load_model

    home, model = tmp_path_factory.mktemp("served"), load_model()
    for name, languages in INDEXES.items():
        with Index.create(home / name, model) as index:
            for language, documents in languages.items():
                index.add([Document.from_texts(n, t.splitlines()) for n, t in documents.items()], lang=language)
    return {name: home / name for name in INDEXES}


@pytest.fixture(scope="session")
def served(folders: dict[str, Path]) -> Iterator[Served]:
    server = Served(*folders.values())
    yield server
    server.stop()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Not for longer: its event loop runs meanwhile, and tests of other folders have loops of their own."""
    path = executable()
    from playwright.sync_api import sync_playwright

    options = [*QUIET, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=options)
        yield browser
        browser.close()


@pytest.fixture
def page(chromium: Any, served: Served) -> Iterator[Any]:
    """A page of the server; at the end nothing may have gone wrong in it, nor anything been asked elsewhere."""
    context = chromium.new_context(
        base_url=served.url, permissions=["clipboard-read", "clipboard-write"], viewport={"width": 1280, "height": 900}
    )
    opened, errors, requests = context.new_page(), [], []
    opened.set_default_timeout(15_000)
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    opened.on("request", lambda request: requests.append(request.url))
    yield opened
    context.close()
    refused = re.compile(r"Failed to load resource: (the server responded with a status of [45]|net::ERR)")
    assert not [error for error in errors if not refused.match(error)]
    assert not [url for url in requests if not url.startswith((served.url, "data:"))]
