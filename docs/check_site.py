"""Check the built site: nothing comes from elsewhere, no page is wider than the screen, the search answers.

python docs/check_site.py [CHROMIUM]

The files are read for addresses that a browser would fetch by itself. Then every page is opened in Chromium at the
width of a phone, and some at the width of a desk, in dark. Where there is no Chromium, only the files are read.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "site"
PHONE, DESK = {"width": 390, "height": 844}, {"width": 1280, "height": 800}
SEARCHED, FOUND = "confidence", "Reading scores and confidence"
# What a browser fetches by itself: links that readers follow are not among it.
FETCHED = re.compile(
    r"<(?:script|img|iframe|source|video|audio|embed|object)\b[^>]*\b(?:src|data|srcset)=[\"']?((?:https?:)?//[^\"'\s>]+)"
    r"|<link\b(?=[^>]*\brel=[\"']?(?:stylesheet|icon|preload|preconnect|dns-prefetch|manifest))"
    r"[^>]*\bhref=[\"']?((?:https?:)?//[^\"'\s>]+)"
    r"|url\(\s*[\"']?((?:https?:)?//[^\"')]+)"
    r"|@import\s+[\"']((?:https?:)?//[^\"']+)"
)


def fetched(text: str) -> list[str]:
    """Addresses of other machines that a browser fetches when it opens a page or reads a style sheet."""
    return [next(filter(None, groups)) for groups in FETCHED.findall(text)]


def addresses(site: Path) -> list[str]:
    """Every such address in the files of the site, with its file."""
    files = sorted(path for ending in ("html", "css") for path in site.rglob(f"*.{ending}"))
    return [f"{path.relative_to(site)}: fetches {address}" for path in files for address in fetched(path.read_text())]


class Quiet(SimpleHTTPRequestHandler):
    """Serves files without a line for each request."""

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@contextmanager
def served(site: Path) -> Iterator[str]:
    """The address of a server of the site."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def looked_at(site: Path, chromium: str) -> list[str]:
    """What a browser shows to be wrong: requests to other machines, errors, pages that are too wide, no search."""
    from playwright.sync_api import sync_playwright

    names = [str(path.relative_to(site)) for path in sorted(site.rglob("*.html"))]
    chosen = [name for name in names if name.count("/") < 2][::4]
    problems: list[str] = []
    with served(site) as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for size, scheme, pages in ((PHONE, "light", names), (DESK, "dark", chosen)):
            page = browser.new_context(viewport=size, color_scheme=scheme).new_page()
            page.on("request", partial(_foreign, url, problems))
            page.on("pageerror", lambda error: problems.append(f"error of a script: {error}"))
            for name in pages:
                page.goto(url + name)
                wide = page.evaluate("document.documentElement.scrollWidth") - size["width"]
                if wide > 0:
                    problems.append(f"{name}: {wide} pixels wider than {size['width']}, {scheme}")
        problems += _search(page, url)
        browser.close()
    return problems


def _foreign(url: str, problems: list[str], request: Any) -> None:
    if not request.url.startswith((url, "data:", "blob:")):
        problems.append(f"{request.frame.url}: fetches {request.url}")


def _search(page: Any, url: str) -> list[str]:
    """Type a word into the search box of the home page."""
    from playwright.sync_api import Error

    page.goto(url)
    try:
        page.locator("input.md-search__input").click()
        page.locator("input.md-search__input").type(SEARCHED)
        page.locator(".md-search-result__item", has_text=FOUND).first.wait_for(timeout=60_000)
    except Error as error:
        return [f"the search does not find {FOUND!r}: {error.message.splitlines()[0]}"]
    return []


def main() -> int:
    named = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("PHRASEMATE_CHROMIUM")
    chromium = named or shutil.which("chromium") or shutil.which("google-chrome")
    problems = addresses(SITE) + (looked_at(SITE, chromium) if chromium else [])
    for problem in dict.fromkeys(problems):
        print(problem)
    count = sum(1 for _ in SITE.rglob("*.html"))
    print(
        f"{count} pages, {len(set(problems))} problems" + ("" if chromium else "; no Chromium, so only files were read")
    )
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
