"""What keeps people from using a page: axe finds nothing on any page, light or dark, wide or narrow."""

from __future__ import annotations

from typing import Any

import pytest
from browser_texts import GERMAN
from test_browser_asking import address, expect

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
SILENCE = address(GERMAN, "Schweigeminute")
PAGES = {
    "empty": "/",
    "text": "/?q=Am+Montag+hielten+die+Abgeordneten+eine+Schweigeminute+ab.",
    "answer": SILENCE,
    "verb": "/?q=Er+nahm+gestern+an+der+Sitzung+teil.&at=3-7.31-35",
    "several": SILENCE + "&in=news&in=world",
    "itself": "/?q=minute+of+silence",
    "refused": "/?q=x&at=9-12",
    "lookup": "/concordance?q=silence",
    "pattern": "/concordance?q=((a)&how=regex",
    "document": "/document",
    "tools": "/tools",
    "glossary": "/glossary",
}


def findings(page: Any) -> list[str]:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install axe-playwright-python").Axe()
    rules = axe.run(page, options={"runOnly": {"type": "tag", "values": RULES}}).response["violations"]
    return [
        f"{rule['id']}: {node['target']} {node['failureSummary'][:300]}" for rule in rules for node in rule["nodes"]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(page: Any, scheme: str) -> None:
    page.set_default_timeout(60_000)  # axe takes a second for each page, and more on a busy machine
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    problems: dict[str, list[str]] = {}
    for name, place in PAGES.items():
        for width in (1280, 390) if name in ("answer", "lookup") else (1280,):
            page.set_viewport_size({"width": width, "height": 800})
            page.goto(place)
            if name == "answer":  # with an entry in the glossary, and a notice
                page.keyboard.press("1")
                expect(page.locator("#notice")).to_be_visible(timeout=60_000)
            if violations := findings(page):
                problems[f"{name} at {width}"] = violations
    page.goto("/")
    page.keyboard.press("Escape")
    page.locator("#keys-open").click()
    if violations := findings(page):
        problems["keys"] = violations
    page.goto("/glossary")
    page.locator(".entry button[value=remove]").first.click()
    assert not problems


def test_every_page_fits_into_320_pixels(page: Any) -> None:
    page.set_viewport_size({"width": 320, "height": 700})
    wide = []
    for name, place in PAGES.items():
        page.goto(place)
        if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            wide.append(name)
    assert not wide
    page.goto("/?q=Schweigeminute")  # docked beside a translation tool: the best candidate is in sight
    box = page.locator(".candidate .wording").first.bounding_box()
    assert box["y"] + box["height"] < 400


def test_from_phrase_to_copied_equivalent_in_two_actions(page: Any) -> None:
    page.goto("/?q=" + GERMAN.replace(" ", "+"))
    page.locator(".phrase", has_text="Schweigeminute").click()  # by mouse
    page.locator(".use").first.click()
    expect(page.locator("#notice")).to_contain_text("Copied")
    wording = page.locator(".candidate .wording").first.text_content()
    assert page.evaluate("navigator.clipboard.readText()") == wording
    page.locator("#notice").get_by_role("button", name="Undo").click()
    expect(page.locator(".candidate.chosen")).to_have_count(0)
    page.evaluate("navigator.clipboard.writeText('')")
    page.goto("/?q=" + GERMAN.replace(" ", "+"))
    page.locator(".phrase", has_text="Schweigeminute").focus()
    page.keyboard.press("Enter")  # by keyboard
    expect(page.locator(".candidate").first).to_be_visible()
    page.keyboard.press("1")
    expect(page.locator("#notice")).to_contain_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == wording
    page.locator("#notice").get_by_role("button", name="Undo").click()
    expect(page.locator(".candidate.chosen")).to_have_count(0)


def test_what_a_person_has_chosen_stays_chosen(page: Any) -> None:
    page.goto(SILENCE)
    page.get_by_label("law").check()
    expect(page.locator(".panel .name")).to_have_text(["news", "law"])
    page.get_by_label("Sort by").select_option("count")
    expect(page.locator("select[name=sort]")).to_have_value("count")
    for _ in range(100):  # `wait_for_function` evaluates a string in the page, which its security policy forbids
        if page.evaluate("localStorage.getItem('phrasemate.choices').includes('sort=count')"):
            break
        page.wait_for_timeout(50)
    page.goto("/?q=Schweigeminute")  # a link from elsewhere says nothing of them
    expect(page.locator(".panel .name")).to_have_text(["news", "law"])
    expect(page.locator("select[name=sort]")).to_have_value("count")
