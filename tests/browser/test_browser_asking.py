from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

import pytest
from browser_texts import GERMAN

sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright is installed: pip install playwright")
expect = sync_api.expect


def address(text: str, phrase: str = "", **more: str) -> str:
    at = text.find(phrase)
    fields = {"q": text, **({"at": f"{at}-{at + len(phrase)}"} if phrase else {}), **more}
    return "/?" + "&".join(f"{name}={quote(value)}" for name, value in fields.items())


def asked(page: Any) -> Any:
    return page.locator("#asked")


def first(page: Any) -> Any:
    return page.locator(".candidate .wording").first


def test_three_actions_from_an_open_page_to_the_equivalents(page: Any) -> None:
    page.goto("/")
    expect(page.locator("#q")).to_be_focused()
    page.keyboard.insert_text(GERMAN)  # 1
    page.keyboard.press("Enter")  # 2
    page.get_by_role("button", name="Schweigeminute", exact=True).click()  # 3
    expect(asked(page)).to_have_text("Schweigeminute")
    expect(first(page)).to_have_text(re.compile("silence"))


def test_what_is_pasted_is_read_at_once(page: Any) -> None:
    page.goto("/")
    expect(page.locator("#q")).to_be_focused()
    page.evaluate("text => navigator.clipboard.writeText(text)", GERMAN)
    page.keyboard.press("Control+v")
    expect(page.locator("#text")).to_have_text(GERMAN)
    expect(page.locator("#status")).to_have_text(re.compile(r"^\d+ phrases\."))


def test_enter_finds_what_the_mouse_selected(page: Any) -> None:
    page.goto(address(GERMAN))
    page.locator("#text .phrase", has_text="Schweigeminute").dblclick()
    expect(asked(page)).to_have_text("Schweigeminute")
    page.locator("#text span", has_text="er zur").last.dblclick(position={"x": 10, "y": 12})
    expect(page.locator("#find")).to_be_enabled()
    page.keyboard.press("Enter")
    expect(asked(page)).to_have_text("er")


def test_any_words_are_selected_with_the_mouse(page: Any) -> None:
    page.goto(address(GERMAN))
    word = page.locator("#text .phrase", has_text="Montag").bounding_box()
    end = page.locator("#text .phrase", has_text="Abgeordneten").bounding_box()
    page.mouse.move(word["x"] + 1, word["y"] + word["height"] / 2)
    page.mouse.down()
    page.mouse.move(end["x"] + end["width"] - 1, end["y"] + end["height"] / 2, steps=8)
    page.mouse.up()
    find = page.locator("#find")
    expect(find).to_have_text("Find “Montag hielten die Abgeordneten”")
    expect(asked(page)).to_have_count(0)  # the end of a selection is no click
    find.click()
    expect(asked(page)).to_have_text("Montag hielten die Abgeordneten")
    assert page.evaluate("CSS.highlights.has('chosen')")
    page.reload()
    expect(page.locator("#text .phrase[aria-current]")).to_have_text("Montag hielten die Abgeordneten")


def test_any_words_are_selected_with_the_keyboard(page: Any) -> None:
    page.goto(address(GERMAN, "Montag"))
    page.locator("#text .phrase[aria-current]").focus()
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Enter")
    expect(asked(page)).to_have_text("Montag hielten")


def test_words_are_selected_in_the_text_field(page: Any) -> None:
    page.goto(address(GERMAN))
    start = GERMAN.index("eine Sch")
    page.evaluate(f"document.getElementById('q').setSelectionRange({start}, {start + 19})")
    page.locator("#q").press("Enter")
    expect(asked(page)).to_have_text("eine Schweigeminute")


def test_keyboard_alone(page: Any) -> None:
    page.goto(address(GERMAN))
    page.locator("body").press("Tab")
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('#text .phrase')"):
            break
    names = page.locator("#text .phrase").all_text_contents()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("End")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(asked(page)).to_have_text(names[1])
    assert page.evaluate("document.activeElement.textContent") == names[1]  # the focus stays where the reader is
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.matches('.candidate')")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.matches('.line')")
    page.keyboard.press("Enter")
    expect(page.locator(".whole-row .own mark")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.locator(".whole-row")).to_have_count(0)
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.textContent") == names[1]


def test_a_phrase_or_a_line_is_copied_by_click_and_by_key(page: Any) -> None:
    page.goto(address(GERMAN, "Schweigeminute"))
    wording = first(page).text_content()
    page.locator(".candidate .head .copy").first.click()
    assert page.evaluate("navigator.clipboard.readText()") == wording
    expect(page.locator("#status")).to_have_text(f"Copied: {wording}")
    line = page.locator("tr.line").first
    line.locator(".copy").click()
    sentence = line.get_attribute("data-copy")
    assert page.evaluate("navigator.clipboard.readText()") == sentence
    page.locator(".candidate").first.focus()
    page.keyboard.press("c")
    expect(page.locator("#status")).to_have_text(f"Copied: {wording}")
    assert page.evaluate("navigator.clipboard.readText()") == wording


def test_copying_without_the_clipboard_api(page: Any) -> None:
    page.add_init_script("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    page.goto(address(GERMAN, "Schweigeminute"))
    wording = first(page).text_content()
    page.locator(".candidate .head .copy").first.click()
    expect(page.locator("#status")).to_have_text(f"Copied: {wording}")
    page.locator("#q").fill("")
    page.locator("#q").press("Control+v")
    expect(page.locator("#text")).to_have_text(wording or "")


def test_the_address_holds_the_state_and_back_works(page: Any) -> None:
    page.goto(address(GERMAN))
    page.get_by_role("button", name="Schweigeminute", exact=True).click()
    expect(asked(page)).to_have_text("Schweigeminute")
    page.locator("#text .phrase", has_text="Bank").click()
    expect(asked(page)).to_have_text("Bank")
    page.get_by_label("Sort by").select_option("left context")
    expect(page).to_have_url(re.compile("sort=left"))
    shared = page.url
    page.go_back()
    page.go_back()
    expect(asked(page)).to_have_text("Schweigeminute")
    expect(page.locator("#text .phrase[aria-current]")).to_have_text("Schweigeminute")
    page.go_back()
    expect(asked(page)).to_have_count(0)
    page.go_forward()
    expect(asked(page)).to_have_text("Schweigeminute")
    page.goto(shared)
    expect(asked(page)).to_have_text("Bank")
    expect(page.get_by_label("Sort by")).to_have_value("left")


def test_history_is_kept_in_the_browser(page: Any) -> None:
    page.goto(address(GERMAN))
    page.get_by_role("button", name="Schweigeminute", exact=True).click()
    expect(asked(page)).to_have_text("Schweigeminute")
    page.goto("/")
    page.get_by_text("History").click()
    entry = page.locator("#history-list a")
    expect(entry).to_have_count(1)
    entry.click()
    expect(asked(page)).to_have_text("Schweigeminute")
    page.get_by_text("History").click()
    page.get_by_role("button", name="Clear").click()
    expect(page.locator("#history-list a")).to_have_count(0)
    expect(page.locator("#history-none")).to_be_visible()
