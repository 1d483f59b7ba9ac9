from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("openpyxl")
pytest.importorskip("lxml")
from page_client import Browser, Page
from starlette.testclient import TestClient

from phrasemate import Document, Index, load_model
from phrasemate.errors import InputError
from phrasemate.server.app import create_app
from phrasemate.server.indexes import Library
from phrasemate.server.page.terms import Row, file_of, rows_of
from phrasemate.server.settings import Settings
from phrasemate.text import read_terms
from phrasemate.text.formats.bilingual import read_units

ENGLISH = ["The central bank warned of rising prices.", "A minute of silence was held in <b>parliament</b>."]
GERMAN = "Die Zentralbank warnt vor <i>Preisen</i>. Die Schweigeminute war kurz. Nach der Schweigeminute sprach sie."


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    folder = tmp_path_factory.mktemp("served") / "news"
    with Index.create(folder, load_model()) as index:
        index.add([Document.from_texts("news.txt", ENGLISH)], lang="en")
    library = Library([folder], Settings(document_characters=1000))
    with TestClient(create_app(library), base_url="http://127.0.0.1") as client:
        yield Browser(client)


def send(browser: Browser, path: str = "/document", name: str = "", content: bytes = b"", **fields: str) -> Page:
    files: dict[str, Any] = {"file": (name, content)} if name else {"none": ("", b"")}
    data = {key.rstrip("_"): value for key, value in fields.items()}
    return Page(browser.client.post(path, data=data, files=files))


def test_a_text_becomes_a_list_to_review(browser: Browser) -> None:
    page = send(browser, text=GERMAN, from_="de")
    assert page.status == 200
    terms = page.texts(".term")
    assert "Schweigeminute" in terms
    row = terms.index("Schweigeminute")
    assert page.texts("td.number")[row] == "2 times"
    assert "silence" in " ".join(page.texts(".choices")[row : row + 1])
    assert page.all("tbody .evidence")[0].cssselect("b")
    assert not page.all("i")  # what stands in the document is text
    assert [option.value for option in page.all(".verdict input[checked]")] == ["undecided"] * len(terms)


def test_a_pasted_text_may_have_more_bytes_than_another_body(browser: Browser) -> None:
    page = send(browser, text="银" * 360_000, from_="zh")
    assert (page.status, page.texts("#refused h2")) == (413, ["That is too much text"])  # here 1,000 characters


def test_the_language_that_is_given_says_which_forms_are_one_term(browser: Browser) -> None:
    text = "Kredit. Kredite."  # too short for a guess
    counts = [send(browser, text=text, from_=language).texts("td.number") for language in ("de", "ja")]
    assert counts == [["2 times"], ["1 time", "1 time"]]


def test_a_candidate_says_where_it_stands_in_characters(browser: Browser) -> None:
    """Not to be looked for by the script: "İ".toLowerCase() is two letters, and a wording may stand there twice."""
    page = send(browser, text=GERMAN, from_="de")
    buttons = page.all(".choices button[data-at]")
    assert buttons
    for button in buttons:
        start, end = map(int, button.get("data-at").split("-"))
        assert button.get("data-evidence")[start:end] == button.get("data-text")
        assert button.get("data-spoken") == "en"


def test_a_document_is_uploaded(browser: Browser) -> None:
    page = send(browser, name="../../etc/bericht.txt", content=GERMAN.encode())
    assert page.texts("h2")[0].startswith("../../etc/bericht.txt: ")
    assert "Zentralbank" in page.texts(".term")


@pytest.mark.parametrize(
    ("sent", "status", "says"),
    [
        ({}, 422, "choose a file, or paste a text"),
        ({"text": "x " * 600}, 413, "more than 1,000 characters"),
        ({"name": "a.exe", "content": b"MZ"}, 415, "a file named .exe"),
        ({"name": "a.docx", "content": b"PK no zip"}, 0, "the document"),
        ({"text": GERMAN, "in_": "nowhere"}, 404, "no index 'nowhere'"),
        ({"text": GERMAN, "most": "9999"}, 422, "expected one of 50, 100, 200, 500"),
        ({"text": GERMAN, "lang": "xx"}, 422, "has no language 'xx'"),
    ],
)
def test_what_cannot_be_read_is_said_on_the_page(
    browser: Browser, sent: dict[str, Any], status: int, says: str
) -> None:
    page = send(browser, **sent)
    assert says.lower() in page.texts("#refused")[0].lower()
    assert page.status in ({status} if status else {400, 422})  # of a broken file either will do
    assert page.all("#document")  # and one can try again


def test_what_was_reviewed_is_taken_along(browser: Browser, tmp_path: Path) -> None:
    page = send(browser, text=GERMAN, from_="de")
    fields = dict(page.form("#review"))
    row = page.texts(".term").index("Schweigeminute")
    fields |= {f"verdict-{row}": "accepted", f"equivalent-{row}": "moment of silence", "format": "tbx"}
    answer = browser.client.post("/document/terms", data=fields, files={"none": ("", b"")})
    assert answer.headers["content-disposition"] == 'attachment; filename="terms.tbx"'
    (tmp_path / "a.tbx").write_bytes(answer.content)
    results = [(term.text, term.language) for term in read_terms(tmp_path / "a.tbx", "*")]
    assert results == [("Schweigeminute", "de"), ("moment of silence", "en")]


def test_another_site_cannot_send_the_form(browser: Browser) -> None:
    answer = browser.client.post("/document", data={"text": GERMAN}, headers={"origin": "http://evil.example"})
    assert answer.status_code == 403


@pytest.mark.parametrize("address", ["/document", "/document/terms"])
@pytest.mark.parametrize("charset", ["undefined", "punycode"])
def test_a_form_in_no_encoding(browser: Browser, address: str, charset: str) -> None:
    part = b'--x\r\nContent-Disposition: form-data; name="text"\r\n\r\n\xff-a\r\n--x--\r\n'
    kind = {"content-type": f"multipart/form-data; boundary=x; charset={charset}"}
    answer = browser.client.post(address, content=part, headers=kind)
    assert answer.status_code == 400
    assert "form is not UTF-8" in answer.text


ROWS = [
    Row("Bank", "bank", "accepted", "3", "Die Bank.", "The bank.", "en", "0.703125"),
    Row("Ufer", "shore", "undecided", "1", "Das Ufer.", "A coast.", "en"),
    Row("Rest", "rest", "rejected"),
    Row("Leer", "", "accepted", "1"),
]


def test_only_what_was_accepted_is_kept(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes(file_of("tsv", ROWS, "de"))
    lines = [line.split("\t") for line in (tmp_path / "a.tsv").read_text("utf-8").splitlines()]
    assert [line[:2] for line in lines] == [["source", "target"], ["Bank", "bank"], ["Leer", ""]]
    assert dict(zip(lines[0], lines[1], strict=True))["target_context"] == "The bank."
    assert [line[2] for line in lines] == ["score", "0.703125", ""]  # a verdict is not a cosine
    (tmp_path / "a.tbx").write_bytes(file_of("tbx", [ROWS[0], Row("Tor", "gate", "accepted")], "de"))
    sources = {term.text: term.metadata.get("source") for term in read_terms(tmp_path / "a.tbx", "*")}
    assert (sources["bank"], sources["gate"]) == ("phrasemate, score 0.703", "chosen by a person")
    (tmp_path / "b.tsv").write_bytes(file_of("tsv", ROWS, "de", undecided=True))
    lines = [line.split("\t") for line in (tmp_path / "b.tsv").read_text("utf-8").splitlines()]
    assert [line[0] for line in lines[1:]] == ["Bank", "Ufer", "Leer"]
    assert dict(zip(lines[0], lines[2], strict=True))["target_context"] == ""  # it was of another candidate


def test_no_cell_of_a_text_table_is_run_by_a_spreadsheet(tmp_path: Path) -> None:
    rows = [Row("=cmd", '@SUM(1)|"', "accepted", context="-fähig", evidence="+1")]
    (tmp_path / "a.tsv").write_bytes(file_of("tsv", rows, "de"))
    names, cells = [line.split("\t") for line in (tmp_path / "a.tsv").read_text("utf-8").splitlines()]
    assert cells[:2] == ["'=cmd", "'@SUM(1)|\""]
    assert dict(zip(names, cells, strict=True))["context"] == "-fähig"
    (tmp_path / "a.tmx").write_bytes(file_of("tmx", rows, "de"))
    assert [side.text for unit in read_units(tmp_path / "a.tmx") for side in unit.sides] == ["=cmd", '@SUM(1)|"']


def test_a_memory_has_only_pairs(tmp_path: Path) -> None:
    (tmp_path / "a.tmx").write_bytes(file_of("tmx", ROWS, "de", undecided=True))
    pairs = [tuple(side.text for side in unit.sides) for unit in read_units(tmp_path / "a.tmx")]
    assert pairs == [("Bank", "bank"), ("Ufer", "shore")]


def test_rows_of_a_form() -> None:
    form = {"term-0": " Bank ", "verdict-0": "accepted", "term-1": "Ufer", "term-3": "after a gap"}
    assert rows_of(form, 10) == [Row("Bank", verdict="accepted"), Row("Ufer")]
    assert rows_of(form, 1) == [Row("Bank", verdict="accepted")]
    with pytest.raises(InputError, match="row 0: the verdict 'maybe'"):
        rows_of({"term-0": "Bank", "verdict-0": "maybe"}, 10)
    with pytest.raises(InputError, match="row 1: a file, expected text"):
        rows_of({"term-0": "Bank", "term-1": object()}, 10)
    with pytest.raises(InputError, match="'exe' is not a format here; expected one of tsv, xlsx, tbx, tmx"):
        file_of("exe", ROWS)
