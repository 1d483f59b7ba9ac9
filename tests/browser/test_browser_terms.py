from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_browser_axe import findings

sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright is installed: pip install playwright")
expect = sync_api.expect

GERMAN = """\
Die Zentralbank warnt vor steigenden Preisen.
Eine Schweigeminute wurde im Parlament gehalten; die Schweigeminute dauerte kaum dreißig Sekunden.
Die Meinungsfreiheit ist eine Grundlage der Demokratie."""


@pytest.fixture
def review(page: Any) -> Any:
    page.goto("/document")
    page.set_input_files("#file", {"name": "bericht.txt", "mimeType": "text/plain", "buffer": GERMAN.encode()})
    page.locator("input[name=from]").fill("de")
    page.get_by_role("button", name="Find terms").click()
    expect(page.locator("#review h2")).to_contain_text("bericht.txt", timeout=60_000)
    return page


def row(page: Any, term: str) -> Any:
    return page.locator(f"tr[data-term='{term}']")


def take(page: Any, format_: str, tmp_path: Path) -> str:
    with page.expect_download() as waiting:
        page.get_by_role("button", name=format_, exact=True).click()
    assert waiting.value.suggested_filename == f"terms.{format_}"
    waiting.value.save_as(tmp_path / format_)
    return (tmp_path / format_).read_text("utf-8")


def test_terms_are_accepted_edited_and_rejected_with_the_mouse(review: Any, tmp_path: Path) -> None:
    silence = row(review, "Schweigeminute")
    expect(silence.locator(".number")).to_contain_text("2")
    silence.locator(".choices button", has_text="silence").first.click()
    expect(silence.get_by_label("Accept")).to_be_checked()
    expect(silence).to_be_focused()  # so that keys continue from here
    freedom = row(review, "Meinungsfreiheit")
    freedom.locator(".equivalent").fill("freedom of opinion")
    freedom.locator(".equivalent").press("Enter")
    bank = row(review, "Zentralbank")
    bank.get_by_text("Reject").click()
    expect(bank).to_be_focused()  # not the verdict: ↓ would change it
    review.keyboard.press("ArrowDown")
    expect(bank.get_by_label("Reject")).to_be_checked()
    expect(review.locator("#tally")).to_contain_text("2 accepted, 1 rejected")
    rows = [line.split("\t") for line in take(review, "tsv", tmp_path).splitlines()]
    assert {line[0] for line in rows[1:]} == {"Schweigeminute", "Meinungsfreiheit"}
    assert "freedom of opinion" in {line[1] for line in rows}
    assert "freedom of opinion" in take(review, "tbx", tmp_path)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (
            {"status": 503, "json": {"error": {"message": "2 uploads are worked on; try again"}}},
            "2 uploads are worked on",
        ),
        ({"status": 502, "body": "<h1>Bad Gateway</h1>"}, "the server answered 502"),
        (None, "the server does not answer"),
    ],
)
def test_a_refused_download_keeps_the_review(review: Any, tmp_path: Path, answer: Any, reason: str) -> None:
    def refuse(route: Any) -> None:
        route.fulfill(**answer) if answer else route.abort()

    row(review, "Schweigeminute").get_by_text("Accept").click()
    review.route("**/document/terms", refuse)
    review.get_by_role("button", name="tsv", exact=True).click()
    expect(review.locator("#notice")).to_contain_text(f"Nothing was downloaded: {reason}")
    expect(review.locator("#tally")).to_contain_text("1 accepted")
    review.unroute("**/document/terms")
    assert "Schweigeminute" in take(review, "tsv", tmp_path)
    expect(review.locator("#notice")).to_be_hidden()


def test_terms_are_reviewed_by_keys(review: Any) -> None:
    rows = review.locator("tbody tr")
    rows.first.focus()
    review.keyboard.press("a")
    review.keyboard.press("r")
    expect(review.locator("#tally")).to_contain_text("1 accepted, 1 rejected")
    expect(rows.nth(2)).to_be_focused()
    review.keyboard.press("1")
    expect(rows.nth(2).locator(".equivalent")).to_have_value(
        rows.nth(2).locator(".choices button").first.text_content()
    )
    review.keyboard.press("u")
    expect(review.locator("#tally")).to_contain_text("1 accepted, 1 rejected")
    review.keyboard.press("e")
    review.keyboard.type("typed")
    review.keyboard.press("Enter")
    expect(rows.nth(2).locator(".equivalent")).to_have_value("typed")
    expect(review.locator("#tally")).to_contain_text("2 accepted, 1 rejected")
    review.get_by_label("Show").select_option("accepted")
    expect(review.locator("tbody tr:visible")).to_have_count(2)
    review.get_by_label("with").fill("typed")
    expect(review.locator("tbody tr:visible")).to_have_count(1)


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_axe_finds_nothing_in_a_list_of_terms(review: Any, scheme: str, width: int) -> None:
    review.set_default_timeout(60_000)
    review.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    review.set_viewport_size({"width": width, "height": 800})
    row(review, "Schweigeminute").get_by_text("Accept").click()
    row(review, "Meinungsfreiheit").get_by_text("Reject").click()
    assert findings(review) == []


def test_a_term_leads_to_its_equivalents(review: Any) -> None:
    with review.context.expect_page() as opened:
        row(review, "Schweigeminute").locator("a.more").click()
    expect(opened.value.locator("#asked")).to_have_text("Schweigeminute")


def test_an_unreadable_document_is_refused(page: Any) -> None:
    page.goto("/document")
    page.set_input_files("#file", {"name": "x.docx", "mimeType": "application/zip", "buffer": b"PK nothing"})
    page.get_by_role("button", name="Find terms").click()
    expect(page.locator("#refused")).to_be_visible()
    expect(page.locator("#document")).to_be_visible()
