from __future__ import annotations

from pathlib import Path
from typing import Any

from browser_server import Served
from browser_texts import GERMAN
from test_browser_asking import address, expect

MEMORY = """<tmx version="1.4"><header srclang="de"/><body>
<tu><tuv xml:lang="de"><seg>Der Saal hielt eine Schweigeminute.</seg></tuv>
<tuv xml:lang="en"><seg>The hall kept a minute of silence.</seg></tuv></tu>
<tu><tuv xml:lang="de"><seg>Der Hund schläft.</seg></tuv><tuv xml:lang="en"><seg>The dog sleeps.</seg></tuv></tu>
</body></tmx>"""


def test_dictionaries_propose_and_memories_show_their_other_side(chromium: Any, tmp_path: Path) -> None:
    from phrasemate import Index, load_model
    from phrasemate.text import read

    (tmp_path / "memory.tmx").write_text(MEMORY, "utf-8")
    (tmp_path / "client.tsv").write_text("de\ten\nSchweigeminute\tmoment of remembrance\n", "utf-8")
    with Index.create(tmp_path / "memory", load_model()) as index:
        index.add(list(read(tmp_path / "memory.tmx", lang="en")), lang="en")
    server = Served(tmp_path / "memory", options=("--dictionary", str(tmp_path / "client.tsv")))
    page = chromium.new_page()
    try:
        page.goto(server.url + address(GERMAN, "Schweigeminute"))
        expect(page.locator(".own-terms")).to_contain_text("moment of remembrance client.tsv")
        expect(page.locator(".translation").first).to_contain_text("Der Saal hielt eine Schweigeminute.")
        aligned = page.get_by_role("region", name="Translations in memory")
        expect(aligned.locator("li")).to_have_text(
            ["Der Saal hielt eine Schweigeminute. The hall kept a minute of silence. Copy"]
        )
        expect(aligned.locator("mark")).to_have_text("Schweigeminute")
        page.goto(server.url + address("Der große Saal war leer.", "Saal"))
        expect(aligned.locator("b").first).to_have_text("hall")  # a likely candidate
        page.goto(server.url + address(GERMAN, "Schweigeminute"))
        page.locator(".given").click()
        expect(page.locator("#notice")).to_contain_text("kept in your glossary")
        page.get_by_role("link", name="Glossary").click()
        expect(page.get_by_label("Equivalent", exact=True)).to_have_value("moment of remembrance")
        expect(page.get_by_label("Language of the term")).to_have_value("de")  # as it seems
        page.goto(server.url + address(GERMAN.replace("Schweigeminute", "Schweigeminuten"), "Schweigeminuten"))
        expect(page.locator(".own-terms").first).to_contain_text("moment of remembrance")
        page.keyboard.press("n")
        page.keyboard.type("silent minutes")
        page.keyboard.press("Enter")
        expect(page.locator("#notice")).to_contain_text("kept in your glossary")
        page.get_by_role("link", name="Glossary").click()
        expect(page.get_by_label("Equivalent", exact=True).first).to_have_value("silent minutes")
    finally:
        page.close()
        server.stop()


def test_the_other_side_of_a_memory_is_looked_up_too(chromium: Any, tmp_path: Path) -> None:
    from phrasemate import Index, load_model
    from phrasemate.text import read

    (tmp_path / "memory.tmx").write_text(MEMORY, "utf-8")
    with Index.create(tmp_path / "memory", load_model()) as index:
        index.add(list(read(tmp_path / "memory.tmx", lang="en")), lang="en")
    server = Served(tmp_path / "memory")
    page = chromium.new_page()
    try:
        page.goto(server.url + "/concordance?q=Hund")  # nowhere in the texts themselves
        expect(page.get_by_role("heading", level=2)).to_have_text("1 place in 1 translation")
        expect(page.get_by_label("Side")).to_have_value("translation")
        expect(page.locator(".translation")).to_have_text("The dog sleeps.")
        page.get_by_role("link", name="schläft").click()
        expect(page.locator(".near-chip")).to_contain_text("near schläft")
        page.get_by_role("link", name="All places again").click()
        expect(page.locator(".near-chip")).to_have_count(0)
        page.goto(server.url + "/concordance?q=Katze")
        expect(page.get_by_role("link", name="phrases that mean the same")).to_have_attribute("href", "/?q=Katze")
    finally:
        page.close()
        server.stop()


def test_text_is_looked_up_in_its_own_language(page: Any) -> None:
    page.goto("/concordance?in=news")
    page.get_by_label("Look up").first.fill("silence")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=2)).to_have_text("6 places in 6 sentences")
    page.locator("select[name=how]").select_option("regex")
    page.get_by_label("Look up").first.fill("minutes? of|minute's")
    page.keyboard.press("Enter")
    expect(page.locator("mark").first).to_have_text("minute of")
    page.goto(address(GERMAN, "Schweigeminute"))
    wording = page.locator(".candidate .wording").first.text_content()
    page.locator("a.count").first.click()
    expect(page.get_by_label("Look up").first).to_have_value(wording)
    expect(page.locator("mark").first).to_be_visible()
