"""Take the pictures of the web page in docs/images, from real answers of the demo's index.

python docs/screenshots.py [CHROMIUM]
"""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from PIL import Image
from playwright.sync_api import sync_playwright

from phrasemate import Document, Index, demo

IMAGES = Path(__file__).parent / "images"
GERMAN = (
    "Das Gericht sprach den Angeklagten aus Mangel an Beweisen frei. Die Regierung will die Steuer auf Tabak erhöhen."
)
ARABIC = "وقف النواب دقيقة صمت حدادا على ضحايا الزلزال. ثم حذر رئيس البنك المركزي من ارتفاع الأسعار."
NEWS = (
    "The court acquitted the defendant for lack of evidence.",
    "The court heard three witnesses before it ruled.",
    "On appeal, the court found that the evidence was not enough.",
    "The government wants to raise the tax on tobacco this year.",
    "The members of parliament observed a minute of silence for the victims of the earthquake.",
    "The president of the central bank warned of rising prices.",
    "The central bank kept the interest rate where it was.",
    "The opposition called for a vote of no confidence in the government.",
    "Parliament adopted the budget after a debate that lasted until midnight.",
)
REPORT = (
    "Das Gericht sprach den Angeklagten aus Mangel an Beweisen frei. "
    "Die Zentralbank warnt vor steigenden Preisen. "
    "Das Gericht hatte drei Zeugen gehört, im Parlament begann die Debatte über den Haushalt. "
    "Der Haushalt wurde nach Mitternacht angenommen. Die Opposition verlangte eine Abstimmung."
)
COLOURS = 256  # a page has few; so a picture stays below 150 kB


def main() -> None:
    """Serve two indexes, and look at them."""
    chromium = sys.argv[1] if len(sys.argv) > 1 else shutil.which("chromium") or shutil.which("google-chrome")
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        demo.build(Path(folder) / "demo").close()
        with Index.open(Path(folder) / "demo") as index, Index.create(Path(folder) / "news", index.model) as news:
            news.add([Document.from_texts("news.txt", NEWS)], lang="en")
        code = "from phrasemate.cli import main; main()"
        command = [sys.executable, "-c", code, "serve", f"{folder}/demo", f"{folder}/news", "--port", "0", "--json"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server, sync_playwright() as playwright:
            assert server.stdout
            url = json.loads(server.stdout.readline())["url"]
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
            for name, (address, size, scheme, act) in SHOTS.items():
                context = browser.new_context(
                    viewport=dict(zip(("width", "height"), size, strict=True)), color_scheme=scheme
                )
                page = context.new_page()
                page.goto(url.rstrip("/") + address)
                act(page)
                save(name, page.screenshot())
                context.close()
            browser.close()
            server.terminate()


def address(text: str, phrase: str, *indexes: str) -> str:
    """The page that asks about a phrase of a text."""
    at = text.index(phrase)
    return "/?" + urlencode([("q", text), ("at", f"{at}-{at + len(phrase)}"), *(("in", name) for name in indexes)])


def open_line(page: Any) -> None:
    page.locator("tr.line .more").nth(3).click()
    page.locator(".whole-row").wait_for()
    page.evaluate("scrollTo(0, 0)")


def review(page: Any) -> None:
    page.locator("#pasted").fill(REPORT)
    page.locator("input[name=from]").fill("de")
    page.locator("select[name=in]").select_option("news")
    page.get_by_role("button", name="Find terms").click()
    page.locator("#review").wait_for(timeout=60_000)
    page.locator("tr[data-term=Gericht] .choices button").first.click()
    page.locator("tr[data-term=Zentralbank] .verdict label").first.click()


def save(name: str, png: bytes) -> None:
    image = (
        Image.open(io.BytesIO(png))
        .convert("RGB")
        .quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    )
    image.save(IMAGES / f"{name}.png", optimize=True)
    print(f"{name}.png, {(IMAGES / f'{name}.png').stat().st_size:,} bytes")


SHOTS: dict[str, tuple[str, tuple[int, int], str, Callable[[Any], None]]] = {
    "concordance": (address(GERMAN, "Gericht", "demo"), (1280, 800), "light", open_line),
    "side-by-side": (address(GERMAN, "Gericht", "demo", "news"), (1280, 800), "dark", lambda page: None),
    "right-to-left": (address(ARABIC, "البنك المركزي", "news"), (1280, 640), "light", lambda page: None),
    "terms": ("/document", (1280, 800), "light", review),
    "phone": (address(GERMAN, "Gericht", "news"), (390, 844), "light", lambda page: None),
}

if __name__ == "__main__":
    main()
