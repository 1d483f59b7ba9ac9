from __future__ import annotations

from collections.abc import Iterator

import pytest
from page_fakes import HOSTILE, NEWS, WordModel, make

pytest.importorskip("fastapi")
pytest.importorskip("openpyxl")
pytest.importorskip("lxml")
from page_client import Browser
from starlette.testclient import TestClient

from phrasemate.server.app import create_app
from phrasemate.server.indexes import Library

TEXT = "Vorher war nichts. Die Bank war am Abend zu."
AT = "23-27"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    folder, model = tmp_path_factory.mktemp("indexes"), WordModel()
    make(folder / "news", {"news.txt": NEWS, "hostile.txt": HOSTILE}, model)
    with TestClient(create_app(Library([folder / "news"], model=model)), base_url="http://127.0.0.1") as client:
        yield Browser(client)


def link(browser: Browser, format_: str) -> str:
    page = browser.get(q=TEXT, at=AT, from_="de", sort="left")
    (result,) = [a.get("href") for a in page.all("#download a") if a.text == format_]
    assert "Vorher" not in result  # only the sentence is needed
    return str(result)


@pytest.mark.parametrize("format_", ["tsv", "xlsx"])
def test_a_download_is_a_file(browser: Browser, format_: str) -> None:
    answer = browser.client.get(link(browser, format_))
    assert answer.status_code == 200
    assert answer.headers["content-disposition"] == f'attachment; filename="Bank.{format_}"'
    assert answer.content


def test_tsv(browser: Browser) -> None:
    rows = [line.split("\t") for line in browser.client.get(link(browser, "tsv")).text.splitlines()]
    lines = [row for row in rows if row[1] == "bank"]
    assert {row[0] for row in lines} == {"Bank"}
    assert ("news.txt", "1", "The old ", "bank", " was closed.") in [(row[5], row[6], *row[8:]) for row in lines]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"/download/tbx?q=Bank&at={AT}", 404),  # what was chosen is in the glossary
        (f"/download/exe?q=Bank&at={AT}", 404),
        ("/download/tsv?q=Bank", 422),
        ("/download/tsv", 422),
        ("/download/tsv?q=Bank&at=0-9", 422),
        ("/download/..%2ftsv?q=Bank&at=0-4", 404),
    ],
)
def test_no_download(browser: Browser, path: str, status: int) -> None:
    assert browser.get(path).status == status


def test_the_name_of_the_file_is_ours(browser: Browser) -> None:
    answer = browser.client.get("/download/tsv", params={"q": 'Bank"\r\nSet-Cookie: a=b/../../x', "at": "0-29"})
    assert answer.headers["content-disposition"] == 'attachment; filename="Bank-Set-Cookie-a-b-x.tsv"'
    assert "set-cookie" not in answer.headers
    other = browser.client.get("/download/tsv", params={"q": "银行 银行", "at": "0-5"})
    assert other.headers["content-disposition"] == 'attachment; filename="phrases.tsv"'
