"""Words that are selected elsewhere come to the page: by a bookmark, and by the extension."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

from browser_server import QUIET, Served, executable
from test_browser_asking import expect

from phrasemate.server.page import packed

ELSEWHERE = "data:text/html,<p>Sie hielten eine <b id=word>Schweigeminute</b> ab.</p>"
SELECT = "getSelection().selectAllChildren(document.getElementById('word'))"


def test_a_bookmark_looks_up_what_is_selected(chromium: Any, served: Served) -> None:
    context = chromium.new_context()
    page = context.new_page()
    page.goto(served.url + "/tools")
    bookmark = page.locator(".bookmarklet").get_attribute("href")
    page.goto(ELSEWHERE)
    page.evaluate(SELECT)
    with context.expect_page() as waiting:
        page.evaluate("href => { const link = document.createElement('a'); link.href = href; link.click(); }", bookmark)
    opened = waiting.value
    expect(opened.locator("#asked")).to_have_text("Schweigeminute")
    context.close()


def test_the_extension_shows_selected_words_in_one_window_of_its_own(
    chromium: Any, served: Served, tmp_path: Path
) -> None:
    path = executable()
    folder = tmp_path / "extension"
    with zipfile.ZipFile(io.BytesIO(packed(served.url))) as archive:
        archive.extractall(folder)
    options = [*QUIET, "--no-sandbox", f"--disable-extensions-except={folder}", f"--load-extension={folder}"]
    context = chromium.browser_type.launch_persistent_context(
        tmp_path / "profile", executable_path=path, args=[*options, "--headless=new"], headless=False
    )
    workers = context.service_workers
    worker = workers[0] if workers else context.wait_for_event("serviceworker", timeout=60_000)
    with context.expect_page(timeout=60_000) as waiting:  # as the menu of the right mouse button tells it
        worker.evaluate("chrome.contextMenus.onClicked.dispatch({ selectionText: 'Schweigeminute' })")
    docked = waiting.value
    expect(docked.locator("#asked")).to_have_text("Schweigeminute")
    worker.evaluate("look(' Bank ')")
    expect(docked.locator("#asked")).to_have_text("Bank")  # in the same window
    assert worker.evaluate("chrome.windows.getAll().then((all) => all.filter((w) => w.type === 'popup').length)") == 1
    context.close()
