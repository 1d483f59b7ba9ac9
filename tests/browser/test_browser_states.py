from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from browser_server import Served
from browser_texts import GERMAN
from test_browser_asking import address, expect, first, query_phrase

SILENCE = address(GERMAN, "Schweigeminute")


def test_an_empty_index_says_so(page: Any) -> None:
    page.goto("/?in=empty")
    expect(page.locator("#empty")).to_contain_text("It holds no text yet")
    page.goto(SILENCE + "&in=empty&in=news")
    expect(page.locator(".panel .problem")).to_contain_text("holds no text yet")
    expect(first(page)).to_be_visible()


def test_a_sentence_with_a_link_is_one_line(page: Any) -> None:
    page.goto("/")
    link = page.get_by_role("link", name="inside your translation tool")
    assert link.locator("..").bounding_box()["height"] < 1.5 * link.bounding_box()["height"]


def test_what_is_typed_while_the_chosen_indexes_load_stays(page: Any) -> None:
    page.goto("/")
    page.evaluate("localStorage.setItem('phrasemate.choices', 'in=law')")
    delayed: list[Any] = []
    page.route(re.compile(r"in=law$"), lambda route: delayed.append(route))
    page.goto("/")
    page.keyboard.type("Die Bank")
    page.wait_for_timeout(200)
    assert len(delayed) == 1
    delayed[0].continue_()
    expect(page).to_have_url(re.compile(r"/\?in=law$"))
    expect(page.locator("#q")).to_have_value("Die Bank")
    expect(page.locator("#q")).to_be_focused()


def test_too_long_a_text_is_not_sent_and_not_lost(page: Any) -> None:
    page.goto("/")
    text = "Wort " * 1200
    page.locator("#q").fill(text)
    expect(page.locator("#q-count")).to_have_text("6,000 of 5,000 characters")
    page.get_by_role("button", name="Find phrases").click()
    expect(page.locator("#notice")).to_contain_text("The text has 6,000 characters; 5,000 is the limit")
    expect(page.locator("#q")).to_have_value(text)
    page.goto(address("x" * 5001))
    expect(page.locator("#refused")).to_contain_text("5,001 characters")


def test_five_thousand_characters_are_read(page: Any) -> None:
    text = (GERMAN + " ") * 60
    page.goto(address(text[:5000].strip()))
    expect(page.locator("#text .phrase").nth(100)).to_be_attached()
    page.locator("#text .phrase").nth(3).click()
    expect(query_phrase(page)).to_be_visible()


def test_five_thousand_chinese_characters_are_read(page: Any) -> None:
    text = "议员们为地震遇难者默哀一分钟。" * 333
    page.goto("/")
    page.locator("#q").fill(text)
    page.locator("#q").press("Enter")
    expect(page.locator("#text .phrase").nth(100)).to_be_attached(timeout=30_000)


def test_the_server_is_gone_and_comes_back(chromium: Any, folders: dict[str, Path]) -> None:
    server = Served(folders["news"])
    page = chromium.new_page()
    try:
        page.goto(server.url + SILENCE)
        server.stop()
        page.locator("#text .phrase", has_text="Bank").click()
        notice = page.locator("#notice")
        expect(notice).to_contain_text("The server does not answer.")
        expect(query_phrase(page)).to_have_text("Schweigeminute")  # what was there is still there
        server.start()
        notice.get_by_role("button", name="Try again").click()
        expect(query_phrase(page)).to_have_text("Bank", timeout=30_000)  # a fresh server reads its word lists first
        expect(notice).to_be_hidden()
    finally:
        page.close()
        server.stop()


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json", '{"error": {"status": 503, "code": "busy", "message": "128 requests are waiting"}}'),
        ("text/html", '<main id="main"><div id="refused"><p>128 requests are waiting</p></div></main>'),
    ],
)
def test_what_the_server_refuses_is_said_and_can_be_tried_again(page: Any, kind: str, body: str) -> None:
    page.goto(SILENCE)
    page.route("**/?q=*", lambda route: route.fulfill(status=503, content_type=kind, body=body))
    page.locator("#text .phrase", has_text="Bank").click()
    expect(page.locator("#notice")).to_contain_text("128 requests are waiting")
    expect(query_phrase(page)).to_have_text("Schweigeminute")
    page.unroute("**/?q=*")
    page.locator("#notice").get_by_role("button", name="Try again").click()
    expect(query_phrase(page)).to_have_text("Bank", timeout=30_000)  # a fresh server reads its word lists first


def test_without_scripts(chromium: Any, served: Served) -> None:
    context = chromium.new_context(base_url=served.url, java_script_enabled=False)
    page = context.new_page()
    page.goto("/")
    page.locator("#q").fill(GERMAN)
    page.get_by_role("button", name="Find phrases").click()
    page.get_by_role("button", name="Schweigeminute", exact=True).click()
    expect(query_phrase(page)).to_have_text("Schweigeminute")
    page.get_by_label("Sort by").select_option("count")
    page.get_by_role("button", name="Apply").click()
    expect(page).to_have_url(re.compile("sort=count"))
    page.locator("tr.line .more").first.click()
    expect(page.locator("#sentence .own mark")).to_be_visible()
    page.go_back()
    page.locator("#q").fill("Sie ging zur [[Bank]] am Markt.")
    page.get_by_role("button", name="Find phrases").click()
    expect(query_phrase(page)).to_have_text("Bank")
    context.close()


def test_a_screen_reader_finds_its_way(page: Any) -> None:
    page.goto(SILENCE)
    for role, name in [("search", "Search"), ("navigation", "Pages"), ("region", "Answer")]:
        expect(page.get_by_role(role, name=name)).to_have_count(1)
    expect(page.get_by_role("group", name="Phrases of the text")).to_be_visible()
    expect(page.get_by_role("button", name="Schweigeminute", exact=True).first).to_have_attribute(
        "aria-current", "true"
    )
    expect(page.get_by_role("table").first).to_be_visible()
    expect(page.get_by_role("img", name=re.compile("fit [0-9]+ %")).first).to_be_attached()
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("button, a, input:not([type=hidden]), select, textarea")]
            .filter((e) => !(e.getAttribute("aria-label") || e.textContent.trim() || (e.labels && e.labels.length)))
            .map((e) => e.outerHTML)"""
    )
    assert nameless == []
    page.locator("#text .phrase", has_text="Bank").click()
    expect(page.locator("#status")).to_have_text(re.compile(r"\d+ candidates for Bank\..* The closest: "))
    page.goto(address(GERMAN))
    page.keyboard.press("Tab")
    expect(page.locator(":focus")).to_have_text("Skip to the text")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#answer")).to_be_focused()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_letters_stand_out_from_their_ground(page: Any, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    measure = (Path(__file__).parent / "contrast.js").read_text("utf-8").partition("\n")[2]
    for path, least in [(SILENCE, 50), ("/", 5), ("/document", 5), (address("x" * 5001), 5), ("/nowhere", 3)]:
        page.goto(path)
        measured = page.evaluate(measure)
        assert len(measured) > least
        assert not [result for result in measured if result[0] < 4.5]  # WCAG 2.2, 1.4.3


@pytest.mark.parametrize("width", [320, 390, 768, 1920])
def test_nothing_is_cut_off_at_any_width(page: Any, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(SILENCE + "&in=news&in=law")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
