"""Requests of people who mean harm, on a real socket: each gets the documented error while others are served."""

from __future__ import annotations

import io
import json
import socket
import threading
import time
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from server_fakes import FakeModel, make_index, post, running, speak

from phrasemate.server.settings import Settings

SEARCH, TERMS = "/api/v1/search", "/api/v1/terms"
GOOD = post(SEARCH, b'{"query": "[[bank]]", "k": 1}')
SETTINGS = Settings(body_seconds=0.5)


class Others:
    """Somebody who asks for something sensible again and again."""

    def __init__(self, port: int) -> None:
        self._port, self.good, self.slowest = port, 0, 0.0
        self.bad: list[bytes] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(0.05):
            start = time.perf_counter()
            answer = speak(self._port, GOOD)
            self.slowest = max(self.slowest, time.perf_counter() - start)
            if b" 200 OK" in answer and b'"text":"bank"' in answer:
                self.good += 1
            else:
                self.bad.append(answer)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(20)


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    model = FakeModel()
    folder = make_index(tmp_path_factory.mktemp("hostile") / "idx", model)
    with running(folder, SETTINGS, model) as port:
        others = Others(port)
        yield port
        others.stop()
    assert others.good > 10
    assert not others.bad
    assert others.slowest < 5


def get(path: str, *headers: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: localhost", "Connection: close", *headers, "", ""]).encode()


def search(**body: object) -> bytes:
    return post(SEARCH, json.dumps({"query": "[[bank]]", **body}).encode())


def raw(body: str | bytes) -> bytes:
    return post(SEARCH, body if isinstance(body, bytes) else body.encode())


def upload(name: str, content: bytes, *more: bytes) -> bytes:
    """A form with one file, and other parts."""
    file = f'Content-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'.encode() + content
    parts = b"".join(b"--frontier\r\n" + part + b"\r\n" for part in (file, *more))
    return post(TERMS, parts + b"--frontier--\r\n", "Content-Type: multipart/form-data; boundary=frontier")


def field(name: str, value: bytes) -> bytes:
    return f'Content-Disposition: form-data; name="{name}"\r\n\r\n'.encode() + value


def packed(members: dict[str, bytes]) -> bytes:
    """A ZIP archive."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


WORD = '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>'


def word(document: bytes) -> bytes:
    return packed({"word/document.xml": document})


OFFICE = "http://schemas.openxmlformats.org"
BOOK = {
    "xl/workbook.xml": f"<workbook xmlns='{OFFICE}/spreadsheetml/2006/main' xmlns:r='{OFFICE}/officeDocument/2006/"
    "relationships'><sheets><sheet name='a' sheetId='1' r:id='r1'/></sheets></workbook>".encode(),
    "xl/_rels/workbook.xml.rels": f"<Relationships xmlns='{OFFICE}/package/2006/relationships'><Relationship Id='r1' "
    f"Type='{OFFICE}/officeDocument/2006/relationships/worksheet' Target='sheet1.xml'/></Relationships>".encode(),
}
SHEET = f"<worksheet xmlns='{OFFICE}/spreadsheetml/2006/main'><sheetData>".encode()
FILE = b'Content-Disposition: form-data; name="file"; filename="b.txt"\r\n\r\nx'
LAUGHS = "<!DOCTYPE x [<!ENTITY a0 'ha'>" + "".join(f"<!ENTITY a{n} '{f'&a{n - 1};' * 10}'>" for n in range(1, 10))
TMX = "<tmx version='1.4'><header srclang='en'/><body><tu><tuv xml:lang='en'><seg>{}</seg></tuv></tu></body></tmx>"
MANY = 30_000_000  # bytes that pack into 30,000

UNREADABLE = {
    "not HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n",
    "no host": b"GET /health HTTP/1.1\r\nConnection: close\r\n\r\n",
    "a line break in a header": get("/health", "X: a\rb"),
    "a negative length": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    "two lengths": get("/health", "Content-Length: 1", "Content-Length: 2"),
    "a broken chunk": b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
}
HOSTILE = {
    # of the protocol
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 421, "wrong_host"),
    "a huge header": (get("/health", "X: " + "x" * 70_000), 431, "headers_too_large"),
    "many headers": (get("/health", *(f"X{n}: {n}" for n in range(9_000))), 431, "headers_too_large"),
    "a huge address": (get("/api/?q=" + "x" * 70_000), 431, "headers_too_large"),
    "a slow body": (GOOD[:-1], 408, "timeout"),
    "a huge body that is announced": (
        b"POST /api/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n",
        413,
        "too_large",
    ),
    "a huge body in chunks": (
        b"POST /api/ HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        + (b"ffff\r\n" + b"x" * 65_535 + b"\r\n") * 17,
        413,
        "too_large",
    ),
    "a wrong method": (get(SEARCH).replace(b"GET", b"DELETE", 1), 405, "method_not_allowed"),
    "a foreign name": (b"GET /health HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n", 421, "wrong_host"),
    "a foreign page": (post(SEARCH, b"{}", "Origin: http://evil.example"), 403, "foreign_origin"),
    # of the address
    "a way out": (get("/api/../../../../etc/passwd"), 404, "not_found"),
    "an encoded way out": (get("/api/%2e%2e/%2e%2e%2f..%2f/etc/passwd"), 404, "not_found"),
    "a twice encoded way out": (get("/api/%252e%252e%252fetc%252fpasswd"), 404, "not_found"),
    "a way out with backslashes": (get("/api/..\\..\\etc\\passwd"), 404, "not_found"),
    "a NUL in the address": (get("/api/v1/search%00.html"), 404, "not_found"),
    # of the content
    "a wrong type": (post(SEARCH, b"query=x", "Content-Type: application/x-www-form-urlencoded"), 415, "wrong_type"),
    "XML": (post(SEARCH, b"<query/>", "Content-Type: application/xml"), 415, "wrong_type"),
    "no JSON": (raw("{'query': 1}"), 400, "bad_json"),
    "an empty body": (raw(""), 400, "bad_json"),
    "packed JSON": (post(SEARCH, b"\x1f\x8b\x08\0", "Content-Encoding: gzip"), 400, "bad_json"),
    "deep JSON": (raw('{"query":' * 100_000), 400, "bad_json"),
    "deep brackets": (raw("[" * 500_000 + "]" * 500_000), 400, "bad_json"),
    "no UTF-8": (raw(b'{"query": "\xff\xfe"}'), 400, "bad_json"),
    "a key twice": (raw('{"query": "[[a]]", "query": "[[b]]"}'), 400, "bad_json"),
    "NaN": (raw('{"query": "[[a]]", "k": NaN}'), 400, "bad_json"),
    "a number without an end": (raw('{"query": "[[a]]", "k": ' + "9" * 5_000 + "}"), 400, "bad_json"),
    "a huge number": (raw('{"query": "[[a]]", "k": ' + "9" * 400 + "}"), 422, "invalid"),
    "a great exponent": (raw('{"query": "[[a]]", "k": 1e999}'), 422, "invalid"),
    "half a character": (raw('{"query": "[[a\\ud800]]"}'), 400, "bad_json"),
    "half a character in a key": (raw('{"query": "[[a]]", "\\ud800": 1}'), 400, "bad_json"),
    "a list": (raw("[]"), 422, "invalid"),
    "null": (raw("null"), 422, "invalid"),
    "an object for a text": (raw('{"query": {"$ne": null}}'), 422, "invalid"),
    "a negative k": (search(k=-1), 422, "invalid"),
    "a huge k": (search(k=10**9), 422, "invalid"),
    "a long text": (search(query="[[x]]" + "x" * 5_001), 413, "too_long"),
    "many phrases": (search(query="[[x]] " * 800), 413, "too_long"),
    "marks that make no sense": (search(query="[[" * 2_000), 422, "invalid"),
    "a path for an index": (search(index="../../etc"), 404, "unknown_index"),
    "a path for a document": (search(documents=["/etc/passwd"]), 422, "invalid"),
    "SQL": (search(documents=["' OR 1=1; DROP TABLE documents; --"]), 422, "invalid"),
    "something unknown": (search(__class__="x"), 422, "invalid"),
    # of an upload
    "a form without a boundary": (post(TERMS, b"x", "Content-Type: multipart/form-data"), 400, "bad_request"),
    "a form with many fields": (upload("a.txt", b"x", *(field(f"f{n}", b"") for n in range(50))), 400, "bad_request"),
    "two files": (upload("a.txt", b"x", FILE), 400, "bad_request"),
    "no file": (upload("", b""), 415, "wrong_type"),
    "a field that is not UTF-8": (upload("a.txt", b"x", field("language", b"\xff")), 422, "invalid"),
    "a program": (upload("a.exe", b"MZ"), 415, "wrong_type"),
    "a path for a name": (upload("../../../etc/cron.d/x", b"x"), 415, "wrong_type"),
    "a document that is not UTF-8": (upload("a.txt", b"\xff\xfe\xfd"), 422, "bad_document"),
    "a document with a NUL": (upload("a.jsonl", b'{"text": "a\\u0000"}'), 422, "bad_document"),
    "deep JSON lines": (upload("a.jsonl", b"[" * 100_000), 422, "bad_document"),
    "billion laughs in TMX": (upload("a.tmx", (LAUGHS + "]>" + TMX.format("&a9;")).encode()), 422, "bad_document"),
    "billion laughs in docx": (
        upload("a.docx", word(f"{LAUGHS}]>{WORD}<w:p><w:r><w:t>&a9;</w:t></w:r></w:p>".encode())),
        422,
        "bad_document",
    ),
    "a file of ours as an entity": (
        upload("a.tmx", b"<!DOCTYPE tmx [<!ENTITY f SYSTEM 'file:///etc/passwd'>]>" + TMX.format("&f;").encode()),
        422,
        "bad_document",
    ),
    "a zip bomb in docx": (upload("a.docx", word(WORD.encode() + b" " * MANY)), 422, "bad_document"),
    "a zip bomb in xlsx": (
        upload(
            "a.xlsx",
            packed({**BOOK, "xl/sheet1.xml": SHEET + b" " * MANY}),
        ),
        422,
        "bad_document",
    ),
    "an archive that leads out": (upload("a.docx", packed({"../../etc/x": b"x"})), 422, "bad_document"),
    "a broken archive": (upload("a.docx", b"PK\3\4" + b"\0" * 100), 422, "bad_document"),
}  # fmt: skip


@pytest.mark.parametrize("sent", UNREADABLE.values(), ids=UNREADABLE)
def test_what_is_no_http_ends_with_an_answer_and_the_connection(port: int, sent: bytes) -> None:
    answer = speak(port, sent)  # until it is closed
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"Traceback" not in answer


@pytest.mark.parametrize(("sent", "status", "code"), HOSTILE.values(), ids=HOSTILE)
def test_it_is_refused(port: int, sent: bytes, status: int, code: str) -> None:
    answer = speak(port, sent)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ".encode()), answer[:500]
    assert b"\r\ncontent-type: application/json\r\n" in head
    assert b"content-security-policy: default-src 'none'" in head
    error = json.JSONDecoder().raw_decode(body.decode())[0]["error"]  # garbage may get a second one
    assert (error["status"], error["code"]) == (status, code)
    assert len(error["message"]) < 1_500
    assert b"/tmp/" not in body
    assert b"root:" not in body


@pytest.mark.parametrize(
    "text", ["a \0 b", "\x1b[31m", "\u202e abc", "😀" * 100, "x" * 4_900, "<script>alert(1)</script>"]
)
def test_odd_text_is_text(port: int, text: str) -> None:
    answer = speak(port, search(query=f"[[{text}x]]"))
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert b"\r\ncontent-type: application/json\r\n" in answer  # never a page
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["results"][0]["phrase"] == f"{text}x".strip()


def test_scripts_in_documents_and_queries_are_text_on_the_page(port: int) -> None:
    answer = speak(port, get("/?q=%3Cscript%3Ealert(2)%3C/script%3E+silent&at=27-33"))
    body = answer.partition(b"\r\n\r\n")[2]
    assert b"alert(2)" in body
    assert b"<script>alert" not in body
    assert b"unsafe-inline" not in answer


def test_many_connections(tmp_path: Path) -> None:
    """Above 40 open connections a request is refused; when they are closed, it is answered."""
    model = FakeModel()
    with running(make_index(tmp_path / "idx", model), replace(SETTINGS, connections=40), model) as port:
        connections = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(45)]
        assert speak(port, GOOD).startswith(b"HTTP/1.1 503 ")
        for connection in connections:
            connection.close()
        deadline = time.monotonic() + 10
        while not (answer := speak(port, GOOD)).startswith(b"HTTP/1.1 200 OK") and time.monotonic() < deadline:
            time.sleep(0.05)
        assert answer.startswith(b"HTTP/1.1 200 OK")


def test_a_hundred_requests_in_a_row_on_one_connection(port: int) -> None:
    answers = speak(port, post(SEARCH, b'{"query": "[[bank]]"}', close=False) * 99 + GOOD)
    assert answers.count(b"HTTP/1.1 200 OK") == 100


def test_a_client_that_leaves(port: int) -> None:
    for sent in (GOOD, GOOD[:-5], GOOD[:30]):
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(sent)
    assert speak(port, GOOD).startswith(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("a zip bomb in docx", "unpacks to 30,000,"),
        ("a zip bomb in xlsx", "unpacks to 30,000,"),
        ("billion laughs in TMX", "entit"),
        ("billion laughs in docx", "entit"),
        ("an archive that leads out", "leads out of the archive"),
        ("deep JSON", "nested too deeply"),
        ("half a character", "half a surrogate pair"),
    ],
)
def test_it_is_refused_for_the_right_reason(port: int, kind: str, why: str) -> None:
    assert why in speak(port, HOSTILE[kind][0]).decode()


def test_only_malformed_http_and_too_many_connections_are_answered_in_plain_text(
    tmp_path: Path, model: FakeModel
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "rest.md").read_text("utf-8")
    assert "malformed HTTP (400) and\nconnections above the limit (503) are answered in plain text" in page
    with running(make_index(tmp_path / "idx", model), Settings(connections=1), model) as port:
        for sent, status in ((b"nonsense\r\n\r\n", b" 400 "), (get("/health"), b" 503 ")):
            head, _, body = speak(port, sent).partition(b"\r\n\r\n")
            assert (status in head, b"text/plain" in head, b"{" in body) == (True, True, False)
