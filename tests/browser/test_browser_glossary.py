from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser_server import Served
from browser_texts import GERMAN
from test_browser_asking import address, expect, first


@pytest.fixture
def server(folders: dict[str, Path], tmp_path: Path) -> Iterator[Served]:
    served = Served(folders["news"], options=("--glossary", str(tmp_path / "terms.jsonl")))
    yield served
    served.stop()


def test_what_is_used_is_kept_edited_and_there_after_a_restart(chromium: Any, server: Served, tmp_path: Path) -> None:
    page = chromium.new_page()
    page.goto(server.url + address(GERMAN, "Schweigeminute", **{"from": "de"}))
    wording = first(page).text_content()
    page.keyboard.press("1")
    expect(page.locator("#notice")).to_contain_text("kept in your glossary")
    expect(page.locator(".candidate").first).to_have_class("candidate chosen")
    page.keyboard.press("1")
    expect(page.locator("#notice")).to_contain_text("in your glossary already")
    expect(page.locator("#notice").get_by_role("button", name="Undo")).to_have_count(0)
    page.keyboard.press("2")
    expect(page.locator("#notice")).to_contain_text(f"Your glossary also has “{wording}”")
    page.locator("#notice").get_by_role("button", name="Undo").click()
    expect(page.locator(".candidate.chosen")).to_have_count(1)
    (entry,) = [json.loads(line) for line in (tmp_path / "terms.jsonl").read_text("utf-8").splitlines()]
    assert (entry["source"], entry["target"], entry["source_language"]) == ("Schweigeminute", wording, "de")
    assert entry["target_language"] == "en"
    assert wording in entry["example"]
    page.get_by_role("link", name="Glossary").click()
    page.wait_for_url("**/glossary")  # with its script, which saves what is typed
    page.get_by_label("Domain").fill("parliament")
    page.get_by_label("Domain").press("Tab")
    expect(page.locator("#status")).to_have_text("Saved.")
    server.stop()
    server.start()
    page.goto(server.url + "/glossary")
    expect(page.get_by_label("Domain")).to_have_value("parliament")
    with page.expect_download() as waiting:
        page.get_by_role("link", name="OmegaT").click()
    assert Path(waiting.value.path()).read_text("utf-8").startswith(f"Schweigeminute\t{wording}\tparliament; ")
    page.goto(server.url + address(GERMAN, "Schweigeminute"))
    expect(page.locator(".own-terms")).to_contain_text(str(wording))
    page.goto(server.url + "/glossary")
    page.get_by_role("button", name="Remove").click()
    expect(page.locator(".entry")).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".entry")).to_have_count(1)
    page.close()
