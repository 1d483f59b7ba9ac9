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


def query_phrase(page: Any) -> Any:
    return page.locator("#asked")


def first(page: Any) -> Any:
    return page.locator(".candidate .wording").first


def test_three_actions_from_an_open_page_to_the_equivalents(page: Any) -> None:
    page.goto("/")
    expect(page.locator("#q")).to_be_focused()
    page.keyboard.insert_text(GERMAN)  # 1
    page.keyboard.press("Enter")  # 2
    page.get_by_role("button", name="Schweigeminute", exact=True).click()  # 3
    expect(query_phrase(page)).to_have_text("Schweigeminute")
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
    expect(query_phrase(page)).to_have_text("Schweigeminute")
    page.locator("#text span", has_text="für die").last.dblclick(position={"x": 10, "y": 12})
    expect(page.locator("#find")).to_be_enabled()
    page.keyboard.press("Enter")
    expect(query_phrase(page)).to_have_text("für")


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
    expect(query_phrase(page)).to_have_count(0)  # the end of a selection is not a click
    find.click()
    expect(query_phrase(page)).to_have_text("Montag hielten die Abgeordneten")
    page.reload()
    expect(page.locator("#text .phrase[aria-current]")).to_have_text("Montag hielten die Abgeordneten")


def test_any_words_are_selected_with_the_keyboard(page: Any) -> None:
    page.goto(address(GERMAN, "Montag"))
    page.locator("#text .phrase[aria-current]").focus()
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Enter")
    expect(query_phrase(page)).to_have_text("Montag hielten")


def test_a_comma_is_not_selected_with_a_word(page: Any) -> None:
    text = "Wer den Vertrag, der befristet ist, kündigt, zahlt."
    page.goto(address(text, "Vertrag"))
    page.locator("#text .phrase[aria-current]").focus()
    for words in (
        "Vertrag, der",
        "Vertrag, der befristet",
        "Vertrag, der befristet ist",
        "Vertrag, der befristet ist, kündigt",
    ):
        page.keyboard.press("Shift+ArrowRight")
        expect(page.locator("#find")).to_have_text(f"Find “{words}”")
    page.keyboard.press("Shift+ArrowLeft")
    expect(page.locator("#find")).to_have_text("Find “Vertrag, der befristet ist”")


def test_words_are_selected_in_the_text_field(page: Any) -> None:
    page.goto(address(GERMAN))
    page.get_by_role("button", name="Edit text").click()
    start = GERMAN.index("eine Sch")
    page.evaluate(f"document.getElementById('q').setSelectionRange({start}, {start + 19})")
    page.locator("#q").press("Enter")
    expect(query_phrase(page)).to_have_text("eine Schweigeminute")


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
    assert names[1] == "hielten"
    expect(query_phrase(page)).to_have_text("abhalten")  # "hielten … ab"
    expect(page.locator("#text .phrase[aria-current]")).to_have_text(["hielten", "ab"])
    assert page.evaluate("document.activeElement.textContent") == names[1]  # the focus stays where the reader is
    page.keyboard.press("ArrowDown")
    candidates = page.locator(".candidate")
    expect(candidates.nth(0)).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(candidates.nth(1)).to_be_focused()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowRight")
    expect(candidates.nth(0).locator(".line").first).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".whole-row .own mark")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.locator(".whole-row")).to_have_count(0)
    page.keyboard.press("ArrowLeft")
    expect(candidates.nth(0)).to_be_focused()
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.textContent") == names[1]


def copied(page: Any) -> str:
    return str(page.evaluate("navigator.clipboard.readText()"))


def test_a_candidate_is_used_in_two_actions(page: Any) -> None:
    page.goto(address(GERMAN))
    page.get_by_role("button", name="Schweigeminute", exact=True).click()  # 1
    first(page).click()  # 2
    expect(page.locator("#status")).to_have_text(f"Copied: {first(page).text_content()}")
    assert copied(page) == first(page).text_content()
    page.goto(address(GERMAN))
    page.get_by_role("button", name="Schweigeminute", exact=True).focus()
    page.keyboard.press("Enter")  # 1
    expect(first(page)).to_be_visible()
    page.keyboard.press("2")  # 2
    second = page.locator(".candidate .wording").nth(1).text_content()
    expect(page.locator("#status")).to_have_text(f"Copied: {second}")
    assert copied(page) == second


def test_keys_of_the_answers_begin_where_an_address_leads(page: Any) -> None:
    page.goto(address(GERMAN, "Schweigeminute"))
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Control+c")
    expect(page.locator("#status")).to_have_text(f"Copied: {first(page).text_content()}")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Control+c")
    sentence = page.locator("tr.line").first.get_attribute("data-copy")
    expect(page.locator("#status")).to_have_text(f"Copied: {sentence}")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    expect(page.locator("#status")).to_have_text(f"Copied: {first(page).text_content()}")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keys")).to_be_hidden()


def test_text_is_pasted_and_edited_where_the_last_one_is_read(page: Any) -> None:
    page.goto(address(GERMAN, "Schweigeminute"))
    expect(page.locator("#q")).to_be_hidden()
    page.keyboard.press("e")
    expect(page.locator("#q")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#q")).to_be_hidden()
    page.evaluate("text => navigator.clipboard.writeText(text)", "Er ging zur Bank und nahm Geld mit.")
    page.keyboard.press("Control+v")
    expect(page.locator("#text")).to_have_text("Er ging zur Bank und nahm Geld mit.")


@pytest.mark.parametrize(("width", "height", "most"), [(1280, 800, 400), (640, 900, 450), (390, 844, 422)])
def test_the_first_candidate_is_above_the_middle(page: Any, width: int, height: int, most: int) -> None:
    page.set_viewport_size({"width": width, "height": height})
    page.goto(address(GERMAN, "Schweigeminute"))
    assert first(page).bounding_box()["y"] < most


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
    page.get_by_role("button", name="Edit text").click()
    page.locator("#q").fill("")
    page.locator("#q").press("Control+v")
    expect(page.locator("#text")).to_have_text(wording or "")


def test_the_address_holds_the_state_and_back_works(page: Any) -> None:
    page.goto(address(GERMAN))
    page.get_by_role("button", name="Schweigeminute", exact=True).click()
    expect(query_phrase(page)).to_have_text("Schweigeminute")
    other = page.locator("#text .phrase", has_text="Abgeordneten").first
    wording = (other.text_content() or "").strip()
    other.click()
    expect(query_phrase(page)).to_have_text(wording)
    page.get_by_label("Sort by").select_option("left context")
    expect(page).to_have_url(re.compile("sort=left"))
    shared = page.url
    page.go_back()
    page.go_back()
    expect(query_phrase(page)).to_have_text("Schweigeminute")
    expect(page.locator("#text .phrase[aria-current]")).to_have_text("Schweigeminute")
    page.go_back()
    expect(query_phrase(page)).to_have_count(0)
    page.go_forward()
    expect(query_phrase(page)).to_have_text("Schweigeminute")
    page.goto(shared)
    expect(query_phrase(page)).to_have_text(wording)
    expect(page.get_by_label("Sort by")).to_have_value("left")


def test_history_is_kept_in_the_browser(page: Any) -> None:
    page.goto(address(GERMAN))
    page.get_by_role("button", name="Schweigeminute", exact=True).click()
    expect(query_phrase(page)).to_have_text("Schweigeminute")
    page.goto("/")
    page.get_by_text("History").click()
    entry = page.locator("#history-list a")
    expect(entry).to_have_count(1)
    entry.click()
    expect(query_phrase(page)).to_have_text("Schweigeminute")
    page.get_by_text("History").click()
    page.get_by_role("button", name="Clear").click()
    expect(page.locator("#history-list a")).to_have_count(0)
    expect(page.locator("#history-none")).to_be_visible()
