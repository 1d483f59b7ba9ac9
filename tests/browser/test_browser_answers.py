from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from browser_texts import GERMAN
from test_browser_asking import address, expect, first, query_phrase

SILENCE = address(GERMAN, "Schweigeminute")


def contexts(page: Any, side: str) -> list[str]:
    return [" ".join(text.split()) for text in page.locator(f".candidate >> nth=0 >> td.{side}").all_text_contents()]


def test_the_match_is_centred_in_its_own_column(page: Any) -> None:
    page.goto(SILENCE)
    for table in page.locator("table.kwic").all():
        middle = {round(b["x"] + b["width"] / 2) for b in (mark.bounding_box() for mark in table.locator("mark").all())}
        assert max(middle) - min(middle) <= 1
    box, table = page.locator("mark").first.bounding_box(), page.locator("table.kwic").first.bounding_box()
    assert 0.3 < (box["x"] + box["width"] / 2 - table["x"]) / table["width"] < 0.6


def test_order_of_lines_and_candidates(page: Any) -> None:
    page.goto(address("Danach herrschte Stille im Saal.", "Stille"))
    scores = [int(text.removesuffix(" %")) for text in page.locator(".value").all_text_contents()]
    assert scores == sorted(scores, reverse=True)
    page.get_by_label("Sort by").select_option("count")
    expect(page).to_have_url(re.compile("sort=count"))
    expect(page.get_by_label("Sort by")).to_have_value("count")
    counts = [int(text.removesuffix("×")) for text in page.locator(".count").all_text_contents()]
    assert counts == sorted(counts, reverse=True)
    page.get_by_label("Sort by").select_option("right context")
    expect(page).to_have_url(re.compile("sort=right"))
    expect(page.locator("#sift select").first).to_have_value("right")
    right = [re.sub(r"[^a-z ]", "", text.lower()).strip() for text in contexts(page, "r")]
    assert len(right) > 2
    assert right == sorted(right)


def test_filters_by_language_and_document(page: Any) -> None:
    page.goto(SILENCE + "&in=world")
    page.get_by_text("Filter").click()
    page.get_by_role("combobox", name="Language", exact=True).select_option("ar")
    expect(page).to_have_url(re.compile("lang=ar"))
    expect(page.locator(".place").first).to_have_attribute("title", re.compile("arabic.txt"))
    assert all("arabic.txt" in (cell.get_attribute("title") or "") for cell in page.locator(".place").all())
    page.goto(SILENCE + "&in=news")
    page.get_by_text("Filter").click()
    page.get_by_label("Document").fill("hostile.txt")
    page.get_by_label("Document").press("Enter")
    expect(page).to_have_url(re.compile("doc=hostile.txt"))
    expect(page.locator(".place").first).to_have_attribute("title", re.compile("hostile.txt"))


def test_a_line_opens_to_its_sentence_and_neighbours(page: Any) -> None:
    page.goto(SILENCE)
    line = page.locator("tr.line", has_text="members of parliament").first
    line.locator(".more").click()
    row = page.locator(".whole-row")
    expect(row.locator(".own")).to_have_text(re.compile("The members of parliament observed .* earthquake."))
    expect(row.locator(".near").first).to_have_text(re.compile("The Speaker asked everybody"))
    expect(row.locator(".source")).to_have_text("news.txt, line 1, in news")
    expect(line.locator(".more")).to_have_attribute("aria-expanded", "true")
    line.locator(".more").click()
    expect(row).to_have_count(0)


def test_several_indexes_side_by_side_and_as_one(page: Any) -> None:
    page.goto(SILENCE)
    page.get_by_label("law").check()
    expect(page.locator(".panel .name")).to_have_text(["news", "law"])
    expect(query_phrase(page)).to_have_text("Schweigeminute")
    one, two = (panel.bounding_box() for panel in page.locator(".panel").all())
    assert one["y"] == two["y"]
    assert one["x"] < two["x"]
    page.get_by_text("Filter").click()
    page.get_by_label("Indexes").select_option("as one")
    expect(page.locator(".panel .name")).to_have_text(["news + law"])
    page.get_by_role("button", name="Edit text").click()
    page.locator("#q").fill("Die Schweigeminute dauerte sehr lange.")
    page.locator("#q").press("Enter")
    expect(page.locator("#text")).to_have_text("Die Schweigeminute dauerte sehr lange.")
    page.get_by_role("button", name="Schweigeminute", exact=True).click()
    expect(page.locator(".panel .name")).to_have_text(["news + law"])  # as it was chosen
    for _ in range(4):
        page.go_back()
    expect(page.locator(".panel .name")).to_have_count(0)
    expect(page.get_by_label("law")).not_to_be_checked()


@pytest.mark.parametrize("format_", ["tsv", "xlsx"])
def test_downloads(page: Any, tmp_path: Path, format_: str) -> None:
    page.goto(SILENCE + "&from=de")
    page.get_by_text("Download").click()
    with page.expect_download() as waiting:
        page.get_by_role("link", name=format_, exact=True).click()
    assert waiting.value.suggested_filename == f"Schweigeminute.{format_}"
    waiting.value.save_as(tmp_path / "file")
    content = (tmp_path / "file").read_bytes()
    assert content[:2] == b"PK" if format_ == "xlsx" else b"Schweigeminute" in content


def test_longer_and_shorter_phrases(page: Any) -> None:
    page.goto(address(GERMAN, "eine Schweigeminute"))
    page.locator(".others").get_by_text("Schweigeminute", exact=True).last.click()
    expect(query_phrase(page)).to_have_text("Schweigeminute")


def test_more_candidates(page: Any) -> None:
    page.goto(SILENCE)
    before = page.locator(".candidate").count()
    page.get_by_role("link", name="More candidates").click()
    expect(page).to_have_url(re.compile("k=32"))
    expect(page.locator(".candidate").nth(before)).to_be_attached()


def test_documents_and_queries_cannot_script(page: Any) -> None:
    page.goto(
        address(
            "Schweigeminute <script>document.title='taken'</script> \"><img src=x onerror=alert(1)>",
            "Schweigeminute",
            doc="hostile.txt",
        )
    )
    expect(first(page)).to_be_visible()
    visible = " ".join(page.locator("tr.line").all_text_contents())
    assert "<script>" in visible or "<img" in visible
    page.locator("tr.line .more").first.click()
    expect(page.locator(".whole-row")).to_be_visible()
    assert "taken" not in page.title()
    assert page.locator("img").count() == 0
    assert page.locator("script:not([src^='/static/'])").count() == 0


@pytest.mark.parametrize(
    ("text", "phrase", "way"),
    [
        ("وقف النواب دقيقة صمت حدادا على ضحايا الزلزال.", "دقيقة صمت", "rtl"),
        ("议员们为地震遇难者默哀一分钟。", "默哀一分钟", "ltr"),
        ("議員たちは地震の犠牲者に一分間の黙祷を捧げた。", "一分間の黙祷", "ltr"),
        ("สมาชิกสภายืนสงบนิ่งหนึ่งนาทีเพื่อไว้อาลัย", "สงบนิ่งหนึ่งนาที", "ltr"),
        ("😀😀 Die Abgeordneten hielten eine Schweigeminute ab.", "eine Schweigeminute", "ltr"),  # two units each
    ],
    ids=["arabic", "chinese", "japanese", "thai", "beyond the basic plane"],
)
def test_selection_in_every_script(page: Any, text: str, phrase: str, way: str) -> None:
    page.goto(address(text))
    expect(page.locator("#text")).to_have_attribute("dir", way)
    page.evaluate(
        """phrase => {
            const text = document.getElementById("text"), start = text.textContent.indexOf(phrase);
            const place = (at) => {
                const walker = document.createTreeWalker(text, NodeFilter.SHOW_TEXT);
                for (let node = walker.nextNode(); node; node = walker.nextNode()) {
                    if (at <= node.data.length) return [node, at];
                    at -= node.data.length;
                }
            };
            getSelection().setBaseAndExtent(...place(start), ...place(start + phrase.length));
        }""",
        phrase,
    )
    page.locator("#find").click()
    expect(query_phrase(page)).to_have_text(phrase)
    start = text.index(phrase)
    expect(page).to_have_url(re.compile(f"at={start}-{start + len(phrase)}"))


def test_right_to_left_lines_read_from_the_right(page: Any) -> None:
    page.goto(SILENCE + "&in=world&lang=ar")
    table = page.locator("table.kwic").first
    expect(table).to_have_attribute("dir", "rtl")
    left, match = (table.locator(f"td.{name}").first.bounding_box() for name in ("l", "m"))
    assert left["x"] > match["x"]  # what comes before stands on the right
